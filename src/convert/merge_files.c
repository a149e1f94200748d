#include "convert/merge_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { COPY_BYTES = 1 << 20, MAX_DEPTH = 3, MAX_OPEN_FOLDERS = 16 };

/* ---- copying ------------------------------------------------------------------------------- */

static ln_status cannot_write(const char *path, ln_error *err) {
    return ln_fail(err, LINNET_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
}

static ln_status write_all(int fd, const char *path, uint64_t at, const void *data, size_t n_bytes,
                           ln_error *err) {
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pwrite(fd, (const char *)data + done, n_bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return cannot_write(path, err);
        done += (size_t)n;
    }
    return LINNET_OK;
}

static ln_status tell(ln_merge_output *output, size_t n_bytes, ln_error *err) {
    output->done_bytes += n_bytes;
    if (output->progress == NULL ||
        output->progress(output->user, output->done_bytes, output->total_bytes))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_CANCELLED, "interrupted");
}

/* From one open file to another, with `room` of COPY_BYTES. */
static ln_status copy_bytes(ln_merge_output *output, int from, const char *from_path, int to,
                            const char *to_path, char *room, ln_error *err) {
    for (uint64_t at = 0;;) {
        ssize_t n = pread(from, room, COPY_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ln_fail(err, LINNET_ERR_IO, "%s: cannot read: %s", from_path, strerror(errno));
        if (n == 0)
            return LINNET_OK;
        LN_TRY(write_all(to, to_path, at, room, (size_t)n, err));
        LN_TRY(tell(output, (size_t)n, err));
        at += (uint64_t)n;
    }
}

/* *fd: the new file, open; NULL: it is closed. */
static ln_status copy_file(ln_merge_output *output, const char *from, const char *to, int *fd,
                           ln_error *err) {
    char *room = malloc(COPY_BYTES);
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    ln_status status = LINNET_OK;
    if (room == NULL)
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory copying %s", from);
    else if (in < 0)
        status = ln_fail(err, LINNET_ERR_IO, "%s: cannot open: %s", from, strerror(errno));
    else if (out < 0)
        status = cannot_write(to, err);
    else
        status = copy_bytes(output, in, from, out, to, room, err);
    free(room);
    if (in >= 0)
        close(in);
    if (fd != NULL && status == LINNET_OK)
        *fd = out;
    else if (out >= 0 && close(out) != 0 && status == LINNET_OK)
        status = cannot_write(to, err);
    return status;
}

/* Hidden files, and weights in forms that nobody merges here. */
static bool is_left_out(const char *name) {
    static const char *const ends[] = {".bin",     ".pt", ".pth",  ".ckpt",
                                       ".msgpack", ".h5", ".onnx", ".gguf"};
    size_t n = strlen(name);
    bool is = name[0] == '.' || strcmp(name, "original") == 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n_end = strlen(ends[i]);
        is |= n > n_end && strcmp(name + n - n_end, ends[i]) == 0;
    }
    return is;
}

/* ---- folders ------------------------------------------------------------------------------- */

/* Which of the checkpoint's files lies under this path; n_files: none. */
static size_t file_at(const ln_merge_output *output, const char *path) {
    for (size_t i = 0; i < output->n_files; i++) {
        int fd;
        size_t bytes;
        const char *own = ln_checkpoint_file(output->checkpoint, i, &fd, &bytes);
        if (strcmp(own, path) == 0)
            return i;
    }
    return output->n_files;
}

static ln_status copy_folder(ln_merge_output *output, const char *from, const char *to, int depth,
                             ln_error *err);

static ln_status copy_entry(ln_merge_output *output, const char *from, const char *to, int depth,
                            ln_error *err) {
    struct stat info;
    if (stat(from, &info) != 0)
        return ln_fail(err, LINNET_ERR_IO, "%s: %s", from, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return depth < MAX_DEPTH ? copy_folder(output, from, to, depth + 1, err) : LINNET_OK;
    if (!S_ISREG(info.st_mode))
        return LINNET_OK;
    size_t file = depth == 0 ? file_at(output, from) : output->n_files;
    return copy_file(output, from, to, file < output->n_files ? &output->fds[file] : NULL, err);
}

static ln_status copy_folder(ln_merge_output *output, const char *from, const char *to, int depth,
                             ln_error *err) {
    if (mkdir(to, 0777) != 0)
        return cannot_write(to, err);
    DIR *folder = opendir(from);
    if (folder == NULL)
        return ln_fail(err, LINNET_ERR_IO, "%s: %s", from, strerror(errno));
    ln_status status = LINNET_OK;
    struct dirent *entry;
    while (status == LINNET_OK && (entry = readdir(folder)) != NULL) {
        char *source = ln_path_join(from, entry->d_name), *target = ln_path_join(to, entry->d_name);
        if (source == NULL || target == NULL)
            status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory copying %s", from);
        else if (!is_left_out(entry->d_name))
            status = copy_entry(output, source, target, depth, err);
        free(source);
        free(target);
    }
    closedir(folder);
    return status;
}

/* ---- the output ---------------------------------------------------------------------------- */

/* A name beside the target that nothing has: what has it in the end is removed after a failure. */
static ln_status name_temporary(ln_merge_output *output, ln_error *err) {
    struct stat info;
    size_t n = strlen(output->path);
    while (n > 1 && output->path[n - 1] == '/')
        n--;
    if (asprintf(&output->temporary, "%.*s.%ld", (int)n, output->path, (long)getpid()) < 0) {
        output->temporary = NULL;
        return ln_fail_memory(err, output->path);
    }
    if (lstat(output->temporary, &info) != 0)
        return LINNET_OK;
    ln_status status =
        ln_fail(err, LINNET_ERR_IO, "%s is in the way; remove or rename it", output->temporary);
    free(output->temporary);
    output->temporary = NULL;
    return status;
}

/* Whether the path would lie within the folder: a copy of it would hold itself. */
static bool lies_within(const char *path, const char *folder) {
    size_t n_last, n_folder;
    char *parent = strndup(path, (size_t)(ln_path_last(path, &n_last) - path));
    char *inner = parent != NULL ? realpath(*parent != '\0' ? parent : ".", NULL) : NULL;
    char *outer = realpath(folder, NULL);
    bool does = false;
    if (inner != NULL && outer != NULL) {
        n_folder = strlen(outer);
        does = strncmp(inner, outer, n_folder) == 0 &&
               (inner[n_folder] == '\0' || inner[n_folder] == '/');
    }
    free(parent);
    free(inner);
    free(outer);
    return does;
}

static ln_status check_target(const ln_merge_output *output, ln_error *err) {
    bool is_folder = ln_checkpoint_get_format(output->checkpoint) == LN_FORMAT_HF;
    struct stat info;
    if (is_folder && lies_within(output->path, ln_checkpoint_path(output->checkpoint)))
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "%s lies within the folder that is merged; name one elsewhere",
                       output->path);
    if (lstat(output->path, &info) == 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is there already; name a new %s", output->path,
                       is_folder ? "folder" : "file");
    if (!is_folder && output->n_files > 1)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s is split: `linnet quantize' makes one file of it, which can be merged",
                       ln_checkpoint_path(output->checkpoint));
    return LINNET_OK;
}

/* So many bytes as the checkpoint's files have, for the progress. */
static uint64_t file_bytes(const ln_merge_output *output) {
    uint64_t sum = 0;
    for (size_t i = 0; i < output->n_files; i++) {
        int fd;
        size_t bytes;
        ln_checkpoint_file(output->checkpoint, i, &fd, &bytes);
        sum += bytes;
    }
    return sum;
}

static ln_status check_copied(const ln_merge_output *output, ln_error *err) {
    for (size_t i = 0; i < output->n_files; i++) {
        int fd;
        size_t bytes, n;
        const char *path = ln_checkpoint_file(output->checkpoint, i, &fd, &bytes);
        if (output->fds[i] < 0)
            return ln_fail(err, LINNET_ERR_IO, "%s: %s is no file of the folder", output->path,
                           ln_path_last(path, &n));
    }
    return LINNET_OK;
}

ln_status ln_merge_output_begin(ln_merge_output *output, uint64_t more_bytes, ln_error *err) {
    const ln_checkpoint *checkpoint = output->checkpoint;
    bool is_folder = ln_checkpoint_get_format(checkpoint) == LN_FORMAT_HF;
    output->n_files = ln_checkpoint_file_count(checkpoint);
    output->total_bytes = file_bytes(output) + more_bytes;
    LN_TRY(check_target(output, err));
    output->fds = malloc((output->n_files + 1) * sizeof *output->fds);
    if (output->fds == NULL)
        return ln_fail_memory(err, output->path);
    for (size_t i = 0; i < output->n_files; i++)
        output->fds[i] = -1;
    LN_TRY(name_temporary(output, err));
    if (is_folder) {
        LN_TRY(copy_folder(output, ln_checkpoint_path(checkpoint), output->temporary, 0, err));
    } else {
        int fd;
        size_t bytes;
        const char *path = ln_checkpoint_file(checkpoint, 0, &fd, &bytes);
        LN_TRY(copy_file(output, path, output->temporary, &output->fds[0], err));
    }
    return check_copied(output, err);
}

ln_status ln_merge_output_write(const ln_merge_output *output, size_t file, uint64_t offset,
                                const void *data, size_t n_bytes, ln_error *err) {
    return write_all(output->fds[file], output->path, offset, data, n_bytes, err);
}

ln_status ln_merge_output_end(ln_merge_output *output, ln_error *err) {
    for (size_t i = 0; i < output->n_files; i++) {
        int synced = fsync(output->fds[i]), closed = close(output->fds[i]);
        output->fds[i] = -1;
        if (synced != 0 || closed != 0)
            return cannot_write(output->path, err);
    }
    if (rename(output->temporary, output->path) != 0)
        return cannot_write(output->path, err);
    free(output->temporary);
    output->temporary = NULL;
    return LINNET_OK;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

void ln_merge_output_free(ln_merge_output *output) {
    for (size_t i = 0; output->fds != NULL && i < output->n_files; i++)
        if (output->fds[i] >= 0)
            close(output->fds[i]);
    if (output->temporary != NULL)
        nftw(output->temporary, remove_entry, MAX_OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
    free(output->temporary);
    free(output->fds);
}
