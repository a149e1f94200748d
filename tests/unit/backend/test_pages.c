/* Huge pages for the cache change nothing that lies in it or beside it. */
#include "matrix.h"

#include <sys/mman.h>

#include "backend/cpu/pages.h"

enum {
    BLOCK_TOKENS = 16,
    N_HEADS = 4,
    DIM = 64,
    N_TOKENS = 300,
    FIRST_BLOCK = 700, /* not at the beginning of a huge page */
    N_BLOCKS = 1024,
    CACHE_BYTES = N_BLOCKS * BLOCK_TOKENS * N_HEADS * DIM * 2
};

static uint8_t expected(size_t i) {
    return (uint8_t)(i * 2654435761u >> 24);
}

/* Pages that are there, small ones, keep what they hold; others stay zeros. */
static void contents_stay(void **state) {
    (void)state;
    uint8_t *memory = mmap(NULL, 2 * (size_t)CACHE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (size_t i = 0; i < 2 * (size_t)CACHE_BYTES; i += i % 65536 == 4095 ? 61441 : 1)
        memory[i] = expected(i);
    int32_t slots[N_TOKENS];
    for (int32_t i = 0; i < N_TOKENS; i++) /* not in order */
        slots[i] = FIRST_BLOCK * BLOCK_TOKENS + (i * 7 % N_TOKENS);
    ln_kv_layer kv = {.dtype = LN_KV_F16,
                      .block_tokens = BLOCK_TOKENS,
                      .n_heads = N_HEADS,
                      .k_dim = DIM,
                      .v_dim = DIM,
                      .v_stride = DIM,
                      .k = memory,
                      .v = memory + CACHE_BYTES};
    ln_batch batch = {.n_tokens = N_TOKENS, .groups = {{.slots = slots}}};
    ln_op ops[2] = {{.kind = LN_OP_NORM, .batch = &batch},
                    {.kind = LN_OP_QKV, .batch = &batch, .qkv = {.kv = &kv}}};
    ln_cpu_widen_cache(ops, 2);
    for (size_t i = 0; i < 2 * (size_t)CACHE_BYTES; i++)
        if (memory[i] != (i % 65536 <= 4095 ? expected(i) : 0))
            fail_msg("byte %zu changed", i);
    batch.n_tokens = 1;
    kv.k = kv.v = NULL; /* a short step is not looked at */
    ln_cpu_widen_cache(ops, 2);
    assert_int_equal(munmap(memory, 2 * (size_t)CACHE_BYTES), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(contents_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
