#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ln_strbuf_init(ln_strbuf *buf) {
    *buf = (ln_strbuf){0};
}

void ln_strbuf_free(ln_strbuf *buf) {
    free(buf->data);
    *buf = (ln_strbuf){0};
}

void ln_strbuf_clear(ln_strbuf *buf) {
    buf->len = 0;
    buf->failed = buf->is_full = false;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

bool ln_strbuf_reserve(ln_strbuf *buf, size_t extra_bytes) {
    if (buf->failed)
        return false;
    if (buf->limit > 0 && (buf->len > buf->limit || extra_bytes > buf->limit - buf->len))
        return !(buf->failed = buf->is_full = true);
    if (buf->data != NULL && extra_bytes < buf->capacity - buf->len)
        return true;
    if (extra_bytes > SIZE_MAX / 4 || buf->len > SIZE_MAX / 4)
        return !(buf->failed = true);
    size_t capacity = buf->capacity < 64 ? 64 : buf->capacity * 2;
    if (capacity < buf->len + extra_bytes + 1)
        capacity = buf->len + extra_bytes + 1;
    char *data = realloc(buf->data, capacity);
    if (data == NULL)
        return !(buf->failed = true);
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

bool ln_strbuf_append(ln_strbuf *buf, const void *bytes, size_t n_bytes) {
    if (!ln_strbuf_reserve(buf, n_bytes))
        return false;
    if (n_bytes > 0)
        memcpy(buf->data + buf->len, bytes, n_bytes);
    buf->len += n_bytes;
    buf->data[buf->len] = '\0';
    return true;
}

bool ln_strbuf_puts(ln_strbuf *buf, const char *text) {
    return ln_strbuf_append(buf, text, strlen(text));
}

bool ln_strbuf_putc(ln_strbuf *buf, char c) {
    return ln_strbuf_append(buf, &c, 1);
}

bool ln_strbuf_put_utf8(ln_strbuf *buf, uint32_t code_point) {
    unsigned char bytes[4];
    size_t n;
    if (code_point < 0x80) {
        bytes[0] = (unsigned char)code_point;
        n = 1;
    } else if (code_point < 0x800) {
        bytes[0] = (unsigned char)(0xc0 | code_point >> 6);
        n = 2;
    } else if (code_point < 0x10000) {
        bytes[0] = (unsigned char)(0xe0 | code_point >> 12);
        n = 3;
    } else {
        bytes[0] = (unsigned char)(0xf0 | (code_point >> 18 & 7));
        n = 4;
    }
    for (size_t i = 1; i < n; i++)
        bytes[i] = (unsigned char)(0x80 | (code_point >> (6 * (n - 1 - i)) & 0x3f));
    return ln_strbuf_append(buf, bytes, n);
}

bool ln_strbuf_printf(ln_strbuf *buf, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    bool ok = n >= 0 && ln_strbuf_reserve(buf, (size_t)n);
    if (ok) {
        vsnprintf(buf->data + buf->len, (size_t)n + 1, format, again);
        buf->len += (size_t)n;
    } else {
        buf->failed = true;
    }
    va_end(again);
    return ok;
}

char *ln_strbuf_take(ln_strbuf *buf) {
    if (!ln_strbuf_reserve(buf, 0)) {
        ln_strbuf_free(buf);
        return NULL;
    }
    buf->data[buf->len] = '\0';
    char *data = buf->data;
    *buf = (ln_strbuf){0};
    return data;
}
