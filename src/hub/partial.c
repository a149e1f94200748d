#include "hub/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub/cache.h"

enum { HEADER_BYTES = 64, MAX_PARTS = 1 << 16 };

static ln_status fail_io(const char *path, ln_error *err) {
    int code = errno;
    return ln_fail(err, LINNET_ERR_IO, "cannot write %s: %s", path, strerror(code));
}

static ln_status write_all(int fd, const char *path, const void *bytes, size_t n_bytes, uint64_t at,
                           ln_error *err) {
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pwrite(fd, (const char *)bytes + done, n_bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail_io(path, err);
        done += (size_t)n;
    }
    return LINNET_OK;
}

/* What the parts' file begins with: another size or division begins anew. */
static void write_header(const ln_hub_partial *partial, char header[HEADER_BYTES]) {
    memset(header, 0, HEADER_BYTES);
    snprintf(header, HEADER_BYTES, "linnet parts 1 %" PRIu64 " %" PRIu64 "\n", partial->bytes,
             partial->part_bytes);
}

/* Whether the files are those of an earlier try; then `done` is read from them. */
static bool is_known(const ln_hub_partial *partial) {
    char header[HEADER_BYTES], actual[HEADER_BYTES];
    struct stat data;
    size_t n_bytes = partial->n_parts * sizeof *partial->done;
    write_header(partial, header);
    if (fstat(partial->fd, &data) != 0 || (uint64_t)data.st_size != partial->bytes ||
        pread(partial->parts_fd, actual, sizeof actual, 0) != (ssize_t)sizeof actual ||
        memcmp(header, actual, sizeof header) != 0 ||
        pread(partial->parts_fd, partial->done, n_bytes, HEADER_BYTES) != (ssize_t)n_bytes)
        return false;
    for (size_t part = 0; part < partial->n_parts; part++)
        if (partial->done[part] > ln_hub_partial_length(partial, part))
            return false;
    return true;
}

static ln_status begin_anew(ln_hub_partial *partial, ln_error *err) {
    char header[HEADER_BYTES];
    memset(partial->done, 0, partial->n_parts * sizeof *partial->done);
    if (ftruncate(partial->parts_fd, 0) != 0)
        return fail_io(partial->parts_path, err);
    if (ftruncate(partial->fd, 0) != 0 || ftruncate(partial->fd, (off_t)partial->bytes) != 0)
        return fail_io(partial->path, err);
    write_header(partial, header);
    LN_TRY(write_all(partial->parts_fd, partial->parts_path, header, sizeof header, 0, err));
    return write_all(partial->parts_fd, partial->parts_path, partial->done,
                     partial->n_parts * sizeof *partial->done, HEADER_BYTES, err);
}

static ln_status open_files(ln_hub_partial *partial, const char *blob_path, const char *lock_path,
                            ln_error *err) {
    enum { FLAGS = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW };
    LN_TRY(ln_hub_make_folders(lock_path, err));
    LN_TRY(ln_hub_make_folders(blob_path, err));
    if ((partial->lock_fd = open(lock_path, FLAGS, 0666)) < 0)
        return fail_io(lock_path, err);
    if (flock(partial->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return ln_fail(err, LINNET_ERR_STATE, "another program downloads %s", blob_path);
    if ((partial->fd = open(partial->path, FLAGS, 0666)) < 0)
        return fail_io(partial->path, err);
    if ((partial->parts_fd = open(partial->parts_path, FLAGS, 0666)) < 0)
        return fail_io(partial->parts_path, err);
    return is_known(partial) ? LINNET_OK : begin_anew(partial, err);
}

ln_status ln_hub_partial_open(ln_hub_partial *partial, const char *blob_path, const char *lock_path,
                              uint64_t n_bytes, uint64_t part_bytes, ln_error *err) {
    while (n_bytes / part_bytes >= MAX_PARTS)
        part_bytes *= 2;
    *partial = (ln_hub_partial){.fd = -1,
                                .parts_fd = -1,
                                .lock_fd = -1,
                                .bytes = n_bytes,
                                .part_bytes = part_bytes,
                                .path = ln_hub_path("%s.partial", blob_path),
                                .parts_path = ln_hub_path("%s.parts", blob_path),
                                .n_parts = (size_t)(n_bytes / part_bytes) +
                                           (n_bytes % part_bytes > 0 || n_bytes == 0)};
    partial->done = calloc(partial->n_parts, sizeof *partial->done);
    ln_status status = LINNET_OK;
    if (!partial->path || !partial->parts_path || !partial->done)
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    else
        status = open_files(partial, blob_path, lock_path, err);
    if (status != LINNET_OK)
        ln_hub_partial_close(partial);
    return status;
}

void ln_hub_partial_close(ln_hub_partial *partial) {
    int *const fds[] = {&partial->fd, &partial->parts_fd, &partial->lock_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    free(partial->path);
    free(partial->parts_path);
    free(partial->done);
    partial->path = partial->parts_path = NULL;
    partial->done = NULL;
}

uint64_t ln_hub_partial_length(const ln_hub_partial *partial, size_t part) {
    uint64_t begin = part * partial->part_bytes, rest = partial->bytes - begin;
    return rest < partial->part_bytes ? rest : partial->part_bytes;
}

uint64_t ln_hub_partial_ready(const ln_hub_partial *partial) {
    uint64_t ready = 0;
    for (size_t part = 0; part < partial->n_parts; part++)
        ready += partial->done[part];
    return ready;
}

ln_status ln_hub_partial_write(ln_hub_partial *partial, size_t part, const void *bytes,
                               size_t n_bytes, ln_error *err) {
    uint64_t *done = &partial->done[part];
    if (n_bytes > ln_hub_partial_length(partial, part) - *done)
        return ln_fail(err, LINNET_ERR_FORMAT, "the hub sends more than it was asked for");
    LN_TRY(write_all(partial->fd, partial->path, bytes, n_bytes, part * partial->part_bytes + *done,
                     err));
    *done += n_bytes;
    return write_all(partial->parts_fd, partial->parts_path, done, sizeof *done,
                     HEADER_BYTES + part * sizeof *done, err);
}

ln_status ln_hub_partial_finish(ln_hub_partial *partial, const char *blob_path, ln_error *err) {
    if (fsync(partial->fd) != 0 || rename(partial->path, blob_path) != 0)
        return fail_io(blob_path, err);
    unlink(partial->parts_path);
    return LINNET_OK;
}

void ln_hub_partial_discard(ln_hub_partial *partial) {
    unlink(partial->path);
    unlink(partial->parts_path);
}
