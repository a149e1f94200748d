#include "cli/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

extern char **environ;

enum { TIMEOUT_MS = 60000 };

typedef struct stream {
    int fd; /* -1: at its end */
    char *data;
    size_t bytes;
} stream;

static void read_some(stream *in) {
    char chunk[4096];
    ssize_t n = read(in->fd, chunk, sizeof chunk);
    if (n <= 0) {
        close(in->fd);
        in->fd = -1;
        return;
    }
    in->data = realloc(in->data, in->bytes + (size_t)n + 1);
    assert_non_null(in->data);
    memcpy(in->data + in->bytes, chunk, (size_t)n);
    in->bytes += (size_t)n;
    in->data[in->bytes] = '\0';
}

static pid_t start(const char *const *argv, int in_fd, int out_fd, int err_fd) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err_fd, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGINT);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    pid_t pid = 0;
    int failed = posix_spawn(&pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed)
        fail_msg("cannot start %s: %s", argv[0], strerror(failed));
    return pid;
}

/* stdin as an unlinked file: no deadlock, whatever its size. */
static int open_input(const char *input) {
    if (!input)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    char name[] = "/tmp/linnet-input-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(write(fd, input, strlen(input)), (ssize_t)strlen(input));
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static void collect(pid_t pid, stream *out, stream *err, const spawn_options *options) {
    bool is_interrupted = false;
    while (out->fd >= 0 || err->fd >= 0) {
        struct pollfd fds[2] = {{.fd = out->fd, .events = POLLIN},
                                {.fd = err->fd, .events = POLLIN}};
        if (poll(fds, 2, TIMEOUT_MS) <= 0) {
            kill(pid, SIGKILL);
            fail_msg("the program hangs");
        }
        if (fds[0].revents)
            read_some(out);
        if (fds[1].revents)
            read_some(err);
        if (options->interrupt_after_bytes && !is_interrupted &&
            out->bytes >= options->interrupt_after_bytes) {
            kill(pid, SIGINT);
            is_interrupted = true;
        }
        if (options->close_after_bytes && out->fd >= 0 &&
            out->bytes >= options->close_after_bytes) {
            close(out->fd);
            out->fd = -1;
        }
    }
}

spawn_result spawn(const spawn_options *options, const char *const *argv) {
    static const spawn_options none;
    if (!options)
        options = &none;
    int out_pipe[2], err_pipe[2];
    assert_int_equal(pipe2(out_pipe, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err_pipe, O_CLOEXEC), 0);
    int in_fd = open_input(options->input);
    pid_t pid =
        start(argv, in_fd, options->out_fd > 0 ? options->out_fd : out_pipe[1], err_pipe[1]);
    close(in_fd);
    close(out_pipe[1]);
    close(err_pipe[1]);
    stream out = {.fd = out_pipe[0], .data = calloc(1, 1)};
    stream err = {.fd = err_pipe[0], .data = calloc(1, 1)};
    collect(pid, &out, &err, options);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return (spawn_result){.status =
                              WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                          .out = out.data,
                          .err = err.data,
                          .out_bytes = out.bytes};
}

void spawn_free(spawn_result *result) {
    free(result->out);
    free(result->err);
    *result = (spawn_result){0};
}

void assert_status(spawn_result result, int status, const char *err) {
    if (result.status != status || strstr(result.err, err) == NULL)
        fail_msg("exit status %d: %s", result.status, result.err);
    spawn_free(&result);
}

void assert_contains(const char *text, const char *part) {
    if (strstr(text, part) == NULL)
        fail_msg("'%s' lacks '%s'", text, part);
}

char *temp_create(void) {
    char *folder = strdup("/tmp/linnet-test-XXXXXX");
    assert_non_null(folder);
    assert_non_null(mkdtemp(folder));
    return folder;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

void temp_remove(char *folder) {
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

const char *path_in(const char *folder, const char *name) {
    static char ring[8][PATH_MAX];
    static size_t next;
    char *path = ring[next++ % 8];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

void write_file(const char *path, const void *bytes, size_t n_bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

char *read_file(const char *path, size_t *n_bytes) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    *n_bytes = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*n_bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *n_bytes, file), *n_bytes);
    data[*n_bytes] = '\0';
    fclose(file);
    return data;
}
