#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

static ln_status open_regular(const char *path, int *fd, size_t *bytes, ln_error *err) {
    /* O_NONBLOCK: opening a FIFO must not wait for a writer */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return ln_fail(err, LINNET_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    struct stat info;
    if (fstat(*fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) {
        close(*fd);
        return ln_fail(err, LINNET_ERR_IO, "%s is not a regular file", path);
    }
    *bytes = (size_t)info.st_size;
    return LINNET_OK;
}

ln_status ln_file_map_open(ln_file_map *map, const char *path, ln_error *err) {
    *map = (ln_file_map){.fd = -1, .fault_slot = -1};
    int fd;
    size_t bytes;
    LN_TRY(open_regular(path, &fd, &bytes, err));
    void *data = NULL;
    if (bytes > 0) {
        data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            close(fd);
            return ln_fail(err, LINNET_ERR_IO, "cannot map %s: %s", path, strerror(errno));
        }
    }
    *map = (ln_file_map){.data = data,
                         .bytes = bytes,
                         .fd = fd,
                         .fault_slot = bytes > 0 ? ln_fault_watch(data, bytes) : -1};
    return LINNET_OK;
}

void ln_file_map_close(ln_file_map *map) {
    ln_fault_unwatch(map->fault_slot);
    if (map->data != NULL)
        munmap((void *)map->data, map->bytes);
    if (map->fd >= 0)
        close(map->fd);
    *map = (ln_file_map){.fd = -1, .fault_slot = -1};
}

ln_status ln_file_map_check(const ln_file_map *map, const char *path, ln_error *err) {
    if (!ln_fault_hit(map->fault_slot))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_IO, "%s shrank while it was in use", path);
}

ln_status ln_file_map_read(const ln_file_map *map, uint64_t offset, void *out, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = pread(map->fd, out, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return LINNET_ERR_IO;
        out = (char *)out + n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return LINNET_OK;
}

void ln_file_map_drop_pages(const ln_file_map *map) {
    if (map->data != NULL)
        (void)madvise((void *)map->data, map->bytes, MADV_DONTNEED);
}

ln_status ln_file_read(const char *path, size_t max_bytes, ln_strbuf *out, ln_error *err) {
    int fd;
    size_t bytes;
    LN_TRY(open_regular(path, &fd, &bytes, err));
    ln_status status = LINNET_OK;
    if (bytes > max_bytes) {
        status = ln_fail(err, LINNET_ERR_LIMIT, "%s has %zu bytes, more than the limit of %zu",
                         path, bytes, max_bytes);
    } else if (!ln_strbuf_reserve(out, bytes)) {
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory reading %s", path);
    }
    while (status == LINNET_OK && bytes > 0) {
        ssize_t n = read(fd, out->data + out->len, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = ln_fail(err, LINNET_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        if (n <= 0)
            break;
        out->len += (size_t)n;
        bytes -= (size_t)n;
    }
    if (out->data != NULL)
        out->data[out->len] = '\0';
    close(fd);
    return status;
}

bool ln_file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool ln_file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

char *ln_path_join(const char *folder, const char *name) {
    ln_strbuf path;
    ln_strbuf_init(&path);
    size_t n = strlen(folder);
    ln_strbuf_append(&path, folder, n);
    if (n > 0 && folder[n - 1] != '/')
        ln_strbuf_putc(&path, '/');
    ln_strbuf_puts(&path, name);
    return ln_strbuf_take(&path);
}

const char *ln_path_last(const char *path, size_t *n_bytes) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    *n_bytes = end - begin;
    return path + begin;
}

const char *ln_path_model_name(const char *path, size_t *n_bytes) {
    static const char snapshots[] = "/snapshots/", models[] = "models--";
    const char *last = ln_path_last(path, n_bytes);
    if ((size_t)(last - path) < strlen(snapshots))
        return last;
    const char *end = last - strlen(snapshots), *name = end;
    if (strncmp(end, snapshots, strlen(snapshots)) != 0)
        return last;
    while (name > path && name[-1] != '/')
        name--;
    if (strncmp(name, models, strlen(models)) != 0)
        return last;
    name += strlen(models);
    for (const char *c = name; c + 2 < end; c++)
        if (c[0] == '-' && c[1] == '-') {
            name = c + 2;
            break;
        }
    if (name == end)
        return last;
    *n_bytes = (size_t)(end - name);
    return name;
}
