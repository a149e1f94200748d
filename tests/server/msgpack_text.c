#include "server/msgpack_text.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

typedef struct reader {
    const uint8_t *at, *end;
    FILE *out;
} reader;

/* An unsigned number of n_bytes, the highest first. */
static uint64_t take(reader *r, size_t n_bytes) {
    uint64_t value = 0;
    assert_true((size_t)(r->end - r->at) >= n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        value = value << 8 | *r->at++;
    return value;
}

static void put_text(reader *r, size_t n) {
    assert_true((size_t)(r->end - r->at) >= n);
    fprintf(r->out, "\"%.*s\"", (int)n, (const char *)r->at);
    r->at += n;
}

static size_t begin_array(reader *r, size_t n) {
    fputc('[', r->out);
    if (n == 0)
        fputc(']', r->out);
    return n;
}

/* A value, or of an array its beginning; how many values follow in that. */
static size_t put_one(reader *r) {
    uint8_t type = (uint8_t)take(r, 1);
    if (type < 0x80) {
        fprintf(r->out, "%u", type);
    } else if (type >= 0x90 && type < 0xa0) {
        return begin_array(r, type & 15);
    } else if (type >= 0xa0 && type < 0xc0) {
        put_text(r, type & 31);
    } else if (type == 0xc0) {
        fputs("null", r->out);
    } else if (type == 0xcb) {
        uint64_t bits = take(r, 8);
        double value;
        memcpy(&value, &bits, sizeof value);
        fprintf(r->out, "%.15g", value);
    } else if (type >= 0xcc && type <= 0xcf) {
        fprintf(r->out, "%llu", (unsigned long long)take(r, (size_t)1 << (type - 0xcc)));
    } else if (type == 0xd9) {
        put_text(r, take(r, 1));
    } else if (type == 0xdc) {
        return begin_array(r, take(r, 2));
    } else {
        fail_msg("MessagePack of type 0x%02x", type);
    }
    return 0;
}

char *msgpack_text(const uint8_t *bytes, size_t n_bytes) {
    enum { MAX_DEPTH = 8 };
    char *text = NULL;
    size_t n_text = 0, left[MAX_DEPTH] = {0}, depth = 0;
    reader r = {bytes, bytes + n_bytes, open_memstream(&text, &n_text)};
    assert_non_null(r.out);
    do {
        size_t n = put_one(&r);
        if (n > 0) {
            assert_true(depth < MAX_DEPTH);
            left[depth++] = n;
            continue;
        }
        for (; depth > 0 && --left[depth - 1] == 0; depth--)
            fputc(']', r.out);
        if (depth > 0)
            fputc(',', r.out);
    } while (depth > 0);
    assert_ptr_equal(r.at, r.end);
    fclose(r.out);
    return text;
}
