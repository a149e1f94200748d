/* What the tests of parsers share: a file in memory, and what was parsed from it. */
#ifndef LN_TESTS_FORMAT_FIXTURE_H
#define LN_TESTS_FORMAT_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "format/gguf.h"
#include "test.h"

typedef struct fixture {
    ln_strbuf file;
    ln_arena arena;
    ln_gguf gguf; /* of GGUF alone */
    ln_tensor_list tensors;
    ln_error err;
} fixture;

static inline int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    return f == NULL;
}

static inline int tear_down(void **state) {
    fixture *f = *state;
    ln_strbuf_free(&f->file);
    ln_arena_free(&f->arena);
    ln_tensor_list_free(&f->tensors);
    free(f);
    return 0;
}

/* Forgets what was parsed; returns the first n_bytes in memory of just that size (malloc). */
static inline uint8_t *take_prefix(fixture *f, size_t n_bytes) {
    ln_arena_free(&f->arena);
    ln_tensor_list_free(&f->tensors);
    f->err = (ln_error){0};
    uint8_t *copy = malloc(n_bytes + !n_bytes);
    assert_non_null(copy);
    memcpy(copy, f->file.data, n_bytes);
    return copy;
}

#endif
