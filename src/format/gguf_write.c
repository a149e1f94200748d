#include "format/gguf_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

enum { VERSION = 3, HEAD_BYTES = 24, MAX_GGUF_DIMS = 4, MAX_GGUF_NAME_BYTES = 63 };

void ln_gguf_writer_init(ln_gguf_writer *writer) {
    *writer = (ln_gguf_writer){.fd = -1};
    ln_strbuf_init(&writer->meta);
    ln_strbuf_init(&writer->infos);
}

void ln_gguf_writer_free(ln_gguf_writer *writer) {
    if (writer->fd >= 0)
        close(writer->fd);
    if (writer->temporary != NULL)
        unlink(writer->temporary);
    free(writer->temporary);
    free(writer->path);
    free(writer->tensors);
    ln_strbuf_free(&writer->meta);
    ln_strbuf_free(&writer->infos);
    ln_gguf_writer_init(writer);
}

/* ---- metadata --------------------------------------------------------------------------- */

static void put_u32(ln_strbuf *out, uint32_t value) {
    ln_strbuf_append(out, &value, sizeof value);
}

static void put_u64(ln_strbuf *out, uint64_t value) {
    ln_strbuf_append(out, &value, sizeof value);
}

static void put_text(ln_strbuf *out, const char *text, size_t n_bytes) {
    put_u64(out, n_bytes);
    ln_strbuf_append(out, text, n_bytes);
}

static void put_key(ln_gguf_writer *writer, const char *key, ln_gguf_type type) {
    put_text(&writer->meta, key, strlen(key));
    put_u32(&writer->meta, type);
    writer->n_keys++;
}

void ln_gguf_put_scalar(ln_gguf_writer *writer, const char *key, ln_gguf_type type,
                        const void *value) {
    put_key(writer, key, type);
    ln_strbuf_append(&writer->meta, value, ln_gguf_type_bytes(type));
}

void ln_gguf_put_u32(ln_gguf_writer *writer, const char *key, uint32_t value) {
    ln_gguf_put_scalar(writer, key, LN_GGUF_U32, &value);
}

void ln_gguf_put_f32(ln_gguf_writer *writer, const char *key, float value) {
    ln_gguf_put_scalar(writer, key, LN_GGUF_F32, &value);
}

void ln_gguf_put_bool(ln_gguf_writer *writer, const char *key, bool value) {
    uint8_t byte = value;
    ln_gguf_put_scalar(writer, key, LN_GGUF_BOOL, &byte);
}

void ln_gguf_put_string(ln_gguf_writer *writer, const char *key, const char *text, size_t n_bytes) {
    put_key(writer, key, LN_GGUF_STRING);
    put_text(&writer->meta, text, n_bytes);
}

static void put_array_head(ln_gguf_writer *writer, const char *key, ln_gguf_type type,
                           size_t count) {
    put_key(writer, key, LN_GGUF_ARRAY);
    put_u32(&writer->meta, type);
    put_u64(&writer->meta, count);
}

void ln_gguf_put_array(ln_gguf_writer *writer, const char *key, ln_gguf_type type,
                       const void *items, size_t count) {
    put_array_head(writer, key, type, count);
    ln_strbuf_append(&writer->meta, items, count * ln_gguf_type_bytes(type));
}

void ln_gguf_put_string_array(ln_gguf_writer *writer, const char *key, size_t count) {
    put_array_head(writer, key, LN_GGUF_STRING, count);
}

void ln_gguf_add_string(ln_gguf_writer *writer, const char *text, size_t n_bytes) {
    put_text(&writer->meta, text, n_bytes);
}

/* ---- metadata of another file ----------------------------------------------------------- */

typedef struct cursor {
    const uint8_t *at, *end;
    bool failed;
} cursor;

static void skip(cursor *c, uint64_t n_bytes) {
    if ((uint64_t)(c->end - c->at) < n_bytes) {
        c->failed = true;
        c->at = c->end;
    } else {
        c->at += n_bytes;
    }
}

static uint64_t take(cursor *c, size_t n_bytes) {
    uint64_t value = 0;
    const uint8_t *from = c->at;
    skip(c, n_bytes);
    if (!c->failed)
        memcpy(&value, from, n_bytes);
    return value;
}

static void skip_value(cursor *c, uint32_t type) {
    uint64_t count = 1, bytes = 0;
    if (type == LN_GGUF_ARRAY) {
        type = (uint32_t)take(c, 4);
        count = take(c, 8);
    }
    size_t item = ln_gguf_type_bytes(type);
    if (type == LN_GGUF_STRING) {
        for (; count > 0 && !c->failed; count--)
            skip(c, take(c, 8));
    } else if (item == 0 || !ln_mul_u64(count, item, &bytes)) {
        c->failed = true;
    } else {
        skip(c, bytes);
    }
}

ln_status ln_gguf_copy_meta(ln_gguf_writer *writer, const uint8_t *file, size_t n_bytes,
                            bool (*skips)(const char *key, size_t n_bytes), ln_error *err) {
    cursor c = {file, file + n_bytes, n_bytes < HEAD_BYTES};
    if (c.failed || memcmp(file, "GGUF", 4) != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "not a GGUF file");
    skip(&c, 16); /* magic, version, tensors */
    uint64_t n_keys = take(&c, 8);
    for (uint64_t i = 0; i < n_keys && !c.failed; i++) {
        const uint8_t *begin = c.at;
        uint64_t key_bytes = take(&c, 8);
        const char *key = (const char *)c.at;
        skip(&c, key_bytes);
        skip_value(&c, (uint32_t)take(&c, 4));
        if (c.failed || skips(key, (size_t)key_bytes))
            continue;
        ln_strbuf_append(&writer->meta, begin, (size_t)(c.at - begin));
        writer->n_keys++;
    }
    if (c.failed)
        return ln_fail(err, LINNET_ERR_FORMAT, "the metadata is cut off");
    return writer->meta.failed ? ln_fail_memory(err, "the metadata") : LINNET_OK;
}

/* ---- tensors ---------------------------------------------------------------------------- */

static bool align_up(uint64_t value, uint64_t *out) {
    uint64_t raised;
    if (!ln_add_u64(value, LN_GGUF_ALIGNMENT - 1, &raised))
        return false;
    *out = raised / LN_GGUF_ALIGNMENT * LN_GGUF_ALIGNMENT;
    return true;
}

static ln_gguf_planned *grow(ln_gguf_writer *writer, ln_error *err) {
    if (writer->n_tensors == writer->capacity) {
        size_t capacity = writer->capacity == 0 ? 64 : 2 * writer->capacity;
        ln_gguf_planned *tensors = realloc(writer->tensors, capacity * sizeof *tensors);
        if (tensors == NULL) {
            ln_fail_memory(err, "the list of tensors");
            return NULL;
        }
        writer->tensors = tensors;
        writer->capacity = capacity;
    }
    return &writer->tensors[writer->n_tensors];
}

/* The type's number in GGUF; false when it has none. */
static bool type_number(ln_dtype dtype, uint32_t *number) {
    ln_dtype found;
    for (*number = 0; *number < 64; ++*number)
        if (ln_dtype_from_gguf(*number, &found) && found == dtype)
            return true;
    return false;
}

ln_status ln_gguf_add_tensor(ln_gguf_writer *writer, const char *name, ln_dtype dtype, int n_dims,
                             const uint64_t *dims, ln_error *err) {
    uint32_t number;
    if (!type_number(dtype, &number))
        return ln_fail(err, LINNET_ERR_ARGUMENT, "tensor %s: GGUF has no type %s", name,
                       ln_dtype_name(dtype));
    if (n_dims < 1 || n_dims > MAX_GGUF_DIMS || strlen(name) > MAX_GGUF_NAME_BYTES)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "tensor %s: GGUF allows %d dimensions and names of %d bytes", name,
                       MAX_GGUF_DIMS, MAX_GGUF_NAME_BYTES);
    ln_tensor tensor = {.name = name, .dtype = dtype, .n_dims = n_dims};
    memcpy(tensor.dims, dims, (size_t)n_dims * sizeof *dims);
    LN_TRY(ln_tensor_measure(&tensor, err));
    ln_gguf_planned *planned = grow(writer, err);
    if (planned == NULL)
        return LINNET_ERR_NOMEM;
    *planned =
        (ln_gguf_planned){.dtype = dtype, .offset = writer->data_bytes, .bytes = tensor.bytes};
    uint64_t end;
    if (!ln_add_u64(writer->data_bytes, tensor.bytes, &end) || end > INT64_MAX / 2 ||
        !align_up(end, &writer->data_bytes))
        return ln_fail(err, LINNET_ERR_LIMIT, "tensor %s: the file would be too large", name);
    writer->n_tensors++;
    put_text(&writer->infos, name, strlen(name));
    put_u32(&writer->infos, (uint32_t)n_dims);
    for (int i = n_dims; i-- > 0;)
        put_u64(&writer->infos, dims[i]);
    put_u32(&writer->infos, number);
    put_u64(&writer->infos, planned->offset);
    return LINNET_OK;
}

/* ---- the file --------------------------------------------------------------------------- */

static ln_status cannot_write(const ln_gguf_writer *writer, ln_error *err) {
    return ln_fail(err, LINNET_ERR_IO, "cannot write %s: %s", writer->path, strerror(errno));
}

static ln_status write_at(const ln_gguf_writer *writer, uint64_t at, const void *data,
                          size_t n_bytes, ln_error *err) {
    const char *from = data;
    while (n_bytes > 0) {
        ssize_t n = pwrite(writer->fd, from, n_bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return cannot_write(writer, err);
        from += n;
        at += (uint64_t)n;
        n_bytes -= (size_t)n;
    }
    return LINNET_OK;
}

/* The folder of a path, malloc'd. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* A file without a name where the system has such, else one with a name of its own. */
static ln_status open_temporary(ln_gguf_writer *writer, ln_error *err) {
    char *folder = folder_of(writer->path);
    if (folder == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory writing %s", writer->path);
    writer->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    free(folder);
    if (writer->fd >= 0)
        return LINNET_OK;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return cannot_write(writer, err);
    char *name;
    if (asprintf(&name, "%s.XXXXXX", writer->path) < 0)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory writing %s", writer->path);
    writer->fd = mkostemp(name, O_CLOEXEC);
    if (writer->fd < 0) {
        free(name);
        return cannot_write(writer, err);
    }
    writer->temporary = name;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(writer->fd, 0666 & ~mask);
    return LINNET_OK;
}

/* Takes the room now, so that a full disk shows before the work is done. */
static ln_status reserve(const ln_gguf_writer *writer, ln_error *err) {
    uint64_t total = writer->data_begin + writer->data_bytes;
    if (total > 0 && fallocate(writer->fd, 0, 0, (off_t)total) == 0)
        return LINNET_OK;
    if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)
        return cannot_write(writer, err);
    return ftruncate(writer->fd, (off_t)total) == 0 ? LINNET_OK : cannot_write(writer, err);
}

ln_status ln_gguf_write_begin(ln_gguf_writer *writer, const char *path, ln_error *err) {
    struct stat info;
    ln_strbuf head;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s is not a regular file", path);
    writer->path = strdup(path);
    ln_strbuf_init(&head);
    ln_strbuf_puts(&head, "GGUF");
    put_u32(&head, VERSION);
    put_u64(&head, writer->n_tensors);
    put_u64(&head, writer->n_keys);
    ln_strbuf_append(&head, writer->meta.data, writer->meta.len);
    ln_strbuf_append(&head, writer->infos.data, writer->infos.len);
    ln_status status = LINNET_OK;
    if (writer->path == NULL || head.failed || writer->meta.failed || writer->infos.failed ||
        !align_up(head.len, &writer->data_begin))
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the head of %s", path);
    if (status == LINNET_OK)
        status = open_temporary(writer, err);
    if (status == LINNET_OK)
        status = reserve(writer, err);
    if (status == LINNET_OK)
        status = write_at(writer, 0, head.data, head.len, err);
    ln_strbuf_free(&head);
    return status;
}

ln_status ln_gguf_write_tensor(const ln_gguf_writer *writer, size_t tensor, size_t at,
                               const void *data, size_t n_bytes, ln_error *err) {
    LN_BUG_ON(writer->fd < 0 || tensor >= writer->n_tensors || at > writer->tensors[tensor].bytes ||
              n_bytes > writer->tensors[tensor].bytes - at);
    return write_at(writer, writer->data_begin + writer->tensors[tensor].offset + at, data, n_bytes,
                    err);
}

/* Gives the nameless file a name beside the target. */
static ln_status link_temporary(ln_gguf_writer *writer, ln_error *err) {
    char from[64], *name;
    snprintf(from, sizeof from, "/proc/self/fd/%d", writer->fd);
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        if (asprintf(&name, "%s.%ld-%u", writer->path, (long)getpid(), attempt) < 0)
            return ln_fail(err, LINNET_ERR_NOMEM, "out of memory writing %s", writer->path);
        if (linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
            writer->temporary = name;
            return LINNET_OK;
        }
        free(name);
        if (errno != EEXIST)
            break;
    }
    return cannot_write(writer, err);
}

ln_status ln_gguf_write_end(ln_gguf_writer *writer, ln_error *err) {
    if (fsync(writer->fd) != 0)
        return cannot_write(writer, err);
    if (writer->temporary == NULL)
        LN_TRY(link_temporary(writer, err));
    int closed = close(writer->fd); /* before it has its name: what failed leaves nothing behind */
    writer->fd = -1;
    if (closed != 0 || rename(writer->temporary, writer->path) != 0)
        return cannot_write(writer, err);
    free(writer->temporary);
    writer->temporary = NULL;
    char *folder = folder_of(writer->path); /* its entry made durable where that is possible */
    int fd = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
    return LINNET_OK;
}
