/* Huge pages for the cache: where they are asked for, by the flags that the system keeps of mapped
 * memory, and that nothing changes that lies in it or beside it. */
#include "matrix.h"

#include <stdio.h>
#include <string.h>
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

/* Whether the system was asked to have huge pages at p. */
static bool is_advised(const void *p) {
    FILE *maps = fopen("/proc/self/smaps", "re");
    char line[4096];
    bool here = false, advised = false;
    while (maps != NULL && !advised && fgets(line, sizeof line, maps) != NULL) {
        char *end;
        uintptr_t from = strtoull(line, &end, 16);
        if (end > line && *end == '-')
            here = from <= (uintptr_t)p && (uintptr_t)p < strtoull(end + 1, NULL, 16);
        advised = here && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL;
    }
    if (maps != NULL)
        fclose(maps);
    return advised;
}

static uint8_t *make_memory(void) {
    uint8_t *memory = mmap(NULL, 2 * (size_t)CACHE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static void free_memory(uint8_t *memory) {
    assert_int_equal(munmap(memory, 2 * (size_t)CACHE_BYTES), 0);
}

/* Skips the test where the system has no huge pages, or does not tell. */
static void need_flags(void) {
    uint8_t *memory = make_memory();
    bool tells = !is_advised(memory) &&
                 madvise(memory, 2 * (size_t)CACHE_BYTES, MADV_HUGEPAGE) == 0 && is_advised(memory);
    free_memory(memory);
    if (!tells)
        skip();
}

/* Keys in the first half of the memory, values in the second: a step that writes to n_tokens
 * slots. */
static void widen(uint8_t *memory, const int32_t *slots, size_t n_tokens) {
    ln_kv_layer kv = {.dtype = LN_KV_F16,
                      .block_tokens = BLOCK_TOKENS,
                      .n_heads = N_HEADS,
                      .k_dim = DIM,
                      .v_dim = DIM,
                      .v_stride = DIM,
                      .k = memory,
                      .v = memory + CACHE_BYTES};
    ln_batch batch = {.n_tokens = n_tokens, .n_seqs = 1, .groups = {{.slots = slots}}};
    float key = 0.0f; /* not read */
    ln_op ops[2] = {{.kind = LN_OP_NORM, .batch = &batch},
                    {.kind = LN_OP_QKV, .batch = &batch, .qkv = {.k = &key, .kv = &kv}}};
    ln_cpu_advise_huge_cache(ops, 2);
}

/* The slots of a prompt in blocks that follow one another, not in order. */
static void fill_slots(int32_t slots[N_TOKENS]) {
    for (int32_t i = 0; i < N_TOKENS; i++)
        slots[i] = FIRST_BLOCK * BLOCK_TOKENS + (i * 7 % N_TOKENS);
}

/* Block `block` of keys, and of values. */
static bool is_advised_at(const uint8_t *memory, size_t block) {
    const size_t block_bytes = CACHE_BYTES / N_BLOCKS;
    bool keys = is_advised(memory + block * block_bytes);
    assert_int_equal(is_advised(memory + CACHE_BYTES + block * block_bytes), keys);
    return keys;
}

static uint8_t expected(size_t i) {
    return (uint8_t)(i * 2654435761u >> 24);
}

/* Pages that are there, small ones, keep what they hold; others stay zeros. */
static void contents_stay(void **state) {
    (void)state;
    uint8_t *memory = make_memory();
    int32_t slots[N_TOKENS];
    for (size_t i = 0; i < 2 * (size_t)CACHE_BYTES; i += i % 65536 == 4095 ? 61441 : 1)
        memory[i] = expected(i);
    fill_slots(slots);
    widen(memory, slots, N_TOKENS);
    for (size_t i = 0; i < 2 * (size_t)CACHE_BYTES; i++)
        if (memory[i] != (i % 65536 <= 4095 ? expected(i) : 0))
            fail_msg("byte %zu changed", i);
    free_memory(memory);
}

/* A long step asks for the blocks that it fills, and for nothing two huge pages away. */
static void a_long_step_asks(void **state) {
    (void)state;
    need_flags();
    uint8_t *memory = make_memory();
    int32_t slots[N_TOKENS];
    fill_slots(slots);
    widen(memory, slots, N_TOKENS);
    assert_true(is_advised_at(memory, FIRST_BLOCK));
    assert_true(is_advised_at(memory, FIRST_BLOCK + (N_TOKENS - 1) / BLOCK_TOKENS));
    assert_false(is_advised_at(memory, 0));
    free_memory(memory);
}

static void a_short_step_does_not_ask(void **state) {
    (void)state;
    need_flags();
    uint8_t *memory = make_memory();
    int32_t slots[N_TOKENS];
    fill_slots(slots);
    widen(memory, slots, 255);
    assert_false(is_advised_at(memory, FIRST_BLOCK));
    free_memory(memory);
}

/* What lies between scattered blocks is not this step's. */
static void scattered_blocks_are_left_alone(void **state) {
    (void)state;
    need_flags();
    uint8_t *memory = make_memory();
    int32_t slots[N_TOKENS];
    for (int32_t i = 0; i < N_TOKENS; i++)
        slots[i] = i / BLOCK_TOKENS * 50 * BLOCK_TOKENS + i % BLOCK_TOKENS;
    widen(memory, slots, N_TOKENS);
    for (size_t block = 0; block < N_BLOCKS; block += 25)
        assert_false(is_advised_at(memory, block));
    free_memory(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(contents_stay),
                                       cmocka_unit_test(a_long_step_asks),
                                       cmocka_unit_test(a_short_step_does_not_ask),
                                       cmocka_unit_test(scattered_blocks_are_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
