#include "server/json/memory.h"

#include <jansson.h>
#include <stdlib.h>

static _Thread_local bool has_failed;

static void *allocate(size_t n_bytes) {
    void *memory = malloc(n_bytes);
    has_failed |= memory == NULL && n_bytes > 0;
    return memory;
}

void ln_json_memory_watch(void) {
    json_set_alloc_funcs(allocate, free);
}

void ln_json_memory_clear(void) {
    has_failed = false;
}

bool ln_json_memory_failed(void) {
    return has_failed;
}
