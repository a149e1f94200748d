#include "base/json/load.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    /* What jansson allocates for each, rounded up. */
    OBJECT_BYTES = 320,
    ARRAY_BYTES = 144,
    ITEM_BYTES = 112, /* a value with its place in the container, and its key */
    /* The parser's buffer doubles while it grows, and strings are copied out of it. */
    BUFFERS = 6,
    LEAST_BYTES = 1 << 16
};

/* What a parser may use when malloc fails. */
typedef struct reserve {
    char *memory; /* [n_bytes]; NULL: none */
    size_t n_bytes, n_used;
} reserve;

static bool is_watching;
static _Thread_local bool has_failed;
static _Thread_local reserve own;

static void *take_reserve(size_t n_bytes) {
    enum { ALIGNMENT = 16 };
    if (own.memory == NULL || n_bytes > own.n_bytes - own.n_used)
        return NULL;
    void *memory = own.memory + own.n_used;
    size_t n_whole = (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    own.n_used = n_whole < own.n_bytes - own.n_used ? own.n_used + n_whole : own.n_bytes;
    return memory;
}

static void *allocate(size_t n_bytes) {
    void *memory = malloc(n_bytes);
    if (memory != NULL || n_bytes == 0)
        return memory;
    has_failed = true;
    return take_reserve(n_bytes);
}

static void release(void *memory) {
    uintptr_t at = (uintptr_t)memory, begin = (uintptr_t)own.memory;
    if (own.memory == NULL || at < begin || at >= begin + own.n_bytes)
        free(memory);
}

void ln_json_memory_watch(void) {
    is_watching = true;
    json_set_alloc_funcs(allocate, release);
}

void ln_json_memory_clear(void) {
    has_failed = false;
}

bool ln_json_memory_failed(void) {
    return has_failed;
}

size_t ln_json_estimate_bytes(const char *text, size_t n_bytes) {
    size_t total = 2 * n_bytes;
    for (size_t i = 0; i < n_bytes; i++) {
        switch (text[i]) {
        case '{': total += OBJECT_BYTES + ITEM_BYTES; break;
        case '[': total += ARRAY_BYTES + ITEM_BYTES; break;
        case ',': total += ITEM_BYTES; break;
        default: break;
        }
    }
    return total;
}

static json_t *fail_memory(json_error_t *where) {
    has_failed = true;
    if (where != NULL) {
        memset(where, 0, sizeof *where);
        strcpy(where->text, "out of memory");
        where->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    }
    return NULL;
}

json_t *ln_json_load_bytes(const char *text, size_t n_bytes, size_t flags, json_error_t *where) {
    if (!is_watching)
        return json_loadb(text, n_bytes, flags, where);
    bool had_failed = has_failed;
    own.n_bytes = ln_json_estimate_bytes(text, n_bytes) + BUFFERS * n_bytes + LEAST_BYTES;
    own.n_used = 0;
    own.memory = mmap(NULL, own.n_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (own.memory == MAP_FAILED) {
        own = (reserve){0};
        return fail_memory(where);
    }
    has_failed = false;
    json_t *root = json_loadb(text, n_bytes, flags, where);
    if (has_failed) {
        json_decref(root);
        root = fail_memory(where);
    }
    has_failed |= had_failed;
    munmap(own.memory, own.n_bytes);
    own = (reserve){0};
    return root;
}
