/* What a process in the sandbox can no longer do, tried by a child. */
#include "cli/sandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* root/model/weights, root/model/1_Pooling/config -> root/blobs/1; root/store; root/secret;
 * root/port, where someone listens */
typedef struct place {
    char root[64], model[80], link[96], module[96], inner[112], blob[96], store[80], secret[80];
    int listener;
    struct sockaddr_in address;
} place;

static void write_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static place make_place(void) {
    place made = {.root = "/var/tmp/linnet-sandbox-XXXXXX", .address = {.sin_family = AF_INET}};
    char blobs[80];
    socklen_t size = sizeof made.address;
    assert_non_null(mkdtemp(made.root));
    snprintf(made.model, sizeof made.model, "%s/model", made.root);
    snprintf(blobs, sizeof blobs, "%s/blobs", made.root);
    snprintf(made.store, sizeof made.store, "%s/store", made.root);
    snprintf(made.secret, sizeof made.secret, "%s/secret", made.root);
    snprintf(made.link, sizeof made.link, "%s/weights", made.model);
    snprintf(made.module, sizeof made.module, "%s/1_Pooling", made.model);
    snprintf(made.inner, sizeof made.inner, "%s/config", made.module);
    snprintf(made.blob, sizeof made.blob, "%s/1", blobs);
    assert_int_equal(mkdir(made.model, 0700) | mkdir(blobs, 0700) | mkdir(made.store, 0700), 0);
    assert_int_equal(mkdir(made.module, 0700), 0);
    write_file(made.blob);
    write_file(made.secret);
    assert_int_equal(symlink("../blobs/1", made.link), 0);
    assert_int_equal(symlink("../../blobs/1", made.inner), 0);
    made.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    made.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(made.listener, (struct sockaddr *)&made.address, size), 0);
    assert_int_equal(listen(made.listener, 4), 0);
    assert_int_equal(getsockname(made.listener, (struct sockaddr *)&made.address, &size), 0);
    return made;
}

static void remove_place(place *made) {
    char command[128];
    close(made->listener);
    snprintf(command, sizeof command, "rm -r %s", made->root);
    assert_int_equal(system(command), 0);
}

/* 0, or the error with which the file does not open. */
static int try_open(const char *path, int flags) {
    int fd = open(path, flags, 0600);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int try_connect(const place *made) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int error =
        connect(fd, (const struct sockaddr *)&made->address, sizeof made->address) == 0 ? 0 : errno;
    close(fd);
    return error;
}

static void check_files(const place *made) {
    char inside[96];
    snprintf(inside, sizeof inside, "%s/new", made->store);
    assert_int_equal(try_open(made->link, O_RDONLY), 0);
    assert_int_equal(try_open(made->link, O_WRONLY), EACCES);
    assert_int_equal(try_open(made->secret, O_RDONLY), EACCES);
    assert_int_equal(unlink(made->secret), -1);
    assert_int_equal(try_open(inside, O_RDWR | O_CREAT), 0);
    assert_int_equal(unlink(inside), 0);
    snprintf(inside, sizeof inside, "%s/new", made->root);
    assert_int_equal(try_open(inside, O_RDWR | O_CREAT), EACCES);
    assert_int_equal(try_open("/etc/passwd", O_RDONLY), 0);
}

static sem_t is_confined;

/* A thread from before the filter, which holds it as well. */
static void *try_exec(void *argument) {
    sem_wait(&is_confined);
    execl("/bin/true", "true", (char *)NULL);
    *(int *)argument = errno;
    return NULL;
}

/* Calls from the first of the filter to the last, of another table than this processor's own, and
 * those beside which they stand. */
static void check_calls(void) {
    static const long refused[] = {SYS_execve, SYS_kcmp,   SYS_chroot,        SYS_setuid,
                                   SYS_bpf,    SYS_reboot, SYS_setdomainname, SYS_userfaultfd};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(syscall(refused[i], -1, 0, 0, 0, 0), -1);
        assert_int_equal(errno, EPERM);
    }
#ifdef __x86_64__
    assert_int_equal(syscall(0x40000000 | SYS_getpid), -1);
    assert_int_equal(errno, EPERM);
#endif
    assert_int_equal(getppid(), syscall(SYS_getppid));
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
}

/* As the program does: files first, then threads, then calls. */
static void live_in_sandbox(const place *made) {
    ln_cli_sandbox sandbox = {.models = (const char *const[]){made->link}, .n_models = 1};
    pthread_t thread;
    int error = 0;
    sem_init(&is_confined, 0, 0);
    ln_cli_sandbox_allow(&sandbox, made->store, true);
    ln_cli_sandbox_allow(&sandbox, "/nothing/is/here", false);
    ln_cli_sandbox_allow(&sandbox, NULL, false);
    if (!ln_cli_sandbox_confine_files(&sandbox))
        _exit(77);
    check_files(made);
    /* older kernels let connections be */
    assert_int_equal(try_connect(made), ln_cli_sandbox_landlock() >= 4 ? EACCES : 0);
    assert_int_equal(pthread_create(&thread, NULL, try_exec, &error), 0);
    assert_true(ln_cli_sandbox_confine_calls());
    assert_int_equal(mount("none", made->store, "tmpfs", 0, NULL), -1);
    assert_int_equal(errno, EPERM);
    check_calls();
    sem_post(&is_confined);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(error, EPERM); /* seccomp's; Landlock alone says EACCES */
    _exit(0);
}

static void confines(void **state) {
    (void)state;
    place made = make_place();
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        live_in_sandbox(&made);
    assert_int_equal(waitpid(child, &status, 0), child);
    remove_place(&made);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip(); /* this kernel has no Landlock */
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Where nobody knows which files are to come, all may be read, and none written. */
static void reads_anything(void **state) {
    (void)state;
    place made = make_place();
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const ln_cli_sandbox sandbox = {.reads_anything = true, .connects = true};
        if (!ln_cli_sandbox_confine_files(&sandbox))
            _exit(77);
        _exit(try_open(made.secret, O_RDONLY) != 0 || try_open(made.secret, O_WRONLY) != EACCES ||
              try_connect(&made) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    remove_place(&made);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A status: whether a child that may read `model` can open the file; 77: there is no Landlock. */
static int try_model(const place *made, const char *model, const char *file) {
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const ln_cli_sandbox sandbox = {.models = &model, .n_models = 1};
        if (chdir(made->model) != 0 || !ln_cli_sandbox_confine_files(&sandbox))
            _exit(77);
        _exit(try_open(made->secret, O_RDONLY) != EACCES || try_open(file, O_RDONLY) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Links in folders of a model's folder, and parts beside a file that is named without a folder. */
static void reads_all_of_a_model(void **state) {
    (void)state;
    char part[96];
    place made = make_place();
    snprintf(part, sizeof part, "%s/part-2", made.model);
    write_file(part);
    int of_folder = try_model(&made, made.model, made.inner);
    int of_file = try_model(&made, "weights", part);
    remove_place(&made);
    if (of_folder == 77)
        skip();
    assert_int_equal(of_folder, 0);
    assert_int_equal(of_file, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(confines),
                                       cmocka_unit_test(reads_all_of_a_model),
                                       cmocka_unit_test(reads_anything)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
