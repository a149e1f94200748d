/* Writes GGUF and safetensors byte by byte, wrong ones included: every number is the caller's. */
#ifndef LN_TESTS_UNIT_FORMAT_WRITER_H
#define LN_TESTS_UNIT_FORMAT_WRITER_H

#include <stdint.h>
#include <string.h>

#include "base/strbuf.h"
#include "format/gguf_value.h"

static inline void put_u32(ln_strbuf *out, uint32_t value) {
    ln_strbuf_append(out, &value, sizeof value);
}

static inline void put_u64(ln_strbuf *out, uint64_t value) {
    ln_strbuf_append(out, &value, sizeof value);
}

static inline void put_string(ln_strbuf *out, const char *text) {
    put_u64(out, strlen(text));
    ln_strbuf_puts(out, text);
}

static inline void put_gguf(ln_strbuf *out, uint32_t version, uint64_t n_tensors, uint64_t n_keys) {
    ln_strbuf_puts(out, "GGUF");
    put_u32(out, version);
    put_u64(out, n_tensors);
    put_u64(out, n_keys);
}

/* A key of fixed size; the value's first bytes are those of `value`. */
static inline void put_key(ln_strbuf *out, const char *key, uint32_t type, uint64_t value) {
    put_string(out, key);
    put_u32(out, type);
    ln_strbuf_append(out, &value, ln_gguf_type_bytes(type));
}

static inline void put_text_key(ln_strbuf *out, const char *key, const char *text) {
    put_string(out, key);
    put_u32(out, LN_GGUF_STRING);
    put_string(out, text);
}

/* The head of an array; its items are to follow. */
static inline void put_array_key(ln_strbuf *out, const char *key, uint32_t item_type,
                                 uint64_t count) {
    put_string(out, key);
    put_u32(out, LN_GGUF_ARRAY);
    put_u32(out, item_type);
    put_u64(out, count);
}

/* dims[n_dims], the contiguous one first */
static inline void put_tensor(ln_strbuf *out, const char *name, uint32_t n_dims,
                              const uint64_t *dims, uint32_t type, uint64_t offset) {
    put_string(out, name);
    put_u32(out, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        put_u64(out, dims[i]);
    put_u32(out, type);
    put_u64(out, offset);
}

static inline void put_bytes(ln_strbuf *out, size_t n, char byte) {
    for (size_t i = 0; i < n; i++)
        ln_strbuf_putc(out, byte);
}

static inline void pad_to(ln_strbuf *out, size_t alignment) {
    while (out->len % alignment != 0)
        ln_strbuf_putc(out, 0);
}

/* The length of the header, the header, and n_data bytes of data. */
static inline void put_safetensors(ln_strbuf *out, const char *header, size_t n_data) {
    put_u64(out, strlen(header));
    ln_strbuf_puts(out, header);
    put_bytes(out, n_data, 1);
}

#endif
