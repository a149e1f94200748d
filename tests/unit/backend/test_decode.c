/* Attention of single tokens after a long context: the bits of a chunk of many tokens, alone, two
 * at a time or with other sequences, for any number of threads. */
#include "matrix.h"

#include <math.h>

#include "backend/registry.h"
#include "base/half.h"

enum {
    KV_HEADS = 4,
    BLOCK = 16,
    N_TOKENS = 2310,
    N_LAST = 24, /* tokens that attend */
    N_BLOCKS = (N_TOKENS + BLOCK - 1) / BLOCK,
    STEP = 512 /* tokens that are cached at a time */
};

typedef struct decode_case {
    ln_kv_dtype dtype;
    size_t n_heads, k_dim, v_dim, window;
} decode_case;

typedef struct decode_data {
    const decode_case *c;
    ln_kv_layer kv;
    int32_t blocks[N_BLOCKS];
    const float *q; /* [N_LAST][n_heads][k_dim] */
    const float *sinks;
} decode_data;

static ln_backend *make_backend(const char *isa, size_t n_threads) {
    ln_backend *backend;
    ln_backend_options options = {.isa = isa, .n_threads = n_threads};
    ln_step_limits limits = {.max_tokens = STEP,
                             .max_seqs = N_LAST,
                             .max_ctx = N_TOKENS,
                             .max_width = 4096,
                             .max_head_dim = 128,
                             .max_heads = 64,
                             .max_experts = 8};
    if (ln_backend_create("cpu", &options, &backend, NULL) != LINNET_OK)
        return NULL;
    assert_int_equal(backend->vtable->reserve_scratch(backend, &limits, NULL), LINNET_OK);
    return backend;
}

/* Keys and values of all tokens; what is behind them in the cache is no number. */
static void fill_cache(ln_backend *backend, decode_data *data) {
    ln_kv_layer *kv = &data->kv;
    size_t bytes = (size_t)N_BLOCKS * BLOCK * KV_HEADS * 4, width = KV_HEADS * kv->k_dim;
    assert_non_null(kv->k = malloc(bytes * kv->k_dim));
    assert_non_null(kv->v = malloc(bytes * kv->v_dim));
    memset(kv->k, 0xff, bytes * kv->k_dim);
    memset(kv->v, 0xff, bytes * kv->v_dim);
    for (size_t first = 0; first < N_TOKENS; first += STEP) {
        size_t n = first + STEP < N_TOKENS ? STEP : N_TOKENS - first;
        int32_t starts[2] = {0, (int32_t)n}, length = (int32_t)(first + n);
        int32_t slots[STEP], positions[STEP];
        for (size_t i = 0; i < n; i++) {
            positions[i] = (int32_t)(first + i);
            slots[i] = data->blocks[(first + i) / BLOCK] * BLOCK + (int32_t)((first + i) % BLOCK);
        }
        ln_batch batch = {.n_tokens = n, .n_seqs = 1, .n_groups = 1, .seq_starts = starts};
        batch.positions = positions;
        batch.groups[0] = (ln_batch_group){data->blocks, N_BLOCKS, &length, slots};
        float *q = noise_rows(n * data->c->n_heads * kv->k_dim), *k = noise_rows(n * width);
        float *v = noise_rows(n * KV_HEADS * kv->v_dim);
        ln_op op = {.kind = LN_OP_QKV,
                    .batch = &batch,
                    .qkv = {.q = q, .k = k, .v = v, .n_heads = data->c->n_heads, .kv = kv}};
        assert_int_equal(backend->vtable->run(backend, &op, 1, NULL), LINNET_OK);
        free(q), free(k), free(v);
    }
}

/* The last tokens in steps of n sequences, each of `chunk` tokens: out [N_LAST][n_heads][v_dim]. */
static void attend(ln_backend *backend, const decode_data *data, size_t n_seqs, size_t chunk,
                   float *out) {
    const decode_case *c = data->c;
    int32_t tables[N_LAST * N_BLOCKS], starts[N_LAST + 1], lengths[N_LAST], positions[N_LAST] = {0};
    for (size_t seq = 0; seq < n_seqs; seq++)
        memcpy(tables + seq * N_BLOCKS, data->blocks, sizeof data->blocks);
    for (size_t first = 0; first < N_LAST; first += n_seqs * chunk) {
        for (size_t i = 0; i < n_seqs * chunk; i++)
            positions[i] = (int32_t)(N_TOKENS - N_LAST + first + i);
        for (size_t seq = 0; seq <= n_seqs; seq++)
            starts[seq] = (int32_t)(seq * chunk);
        for (size_t seq = 0; seq < n_seqs; seq++)
            lengths[seq] = positions[(seq + 1) * chunk - 1] + 1;
        ln_batch batch = {.n_tokens = n_seqs * chunk,
                          .n_seqs = n_seqs,
                          .n_groups = 1,
                          .positions = positions,
                          .seq_starts = starts,
                          .groups = {{tables, N_BLOCKS, lengths, positions}}};
        ln_op op = {.kind = LN_OP_ATTENTION,
                    .batch = &batch,
                    .attention = {.q = data->q + first * c->n_heads * c->k_dim,
                                  .kv = &data->kv,
                                  .n_heads = c->n_heads,
                                  .scale = 0.4f,
                                  .window = c->window,
                                  .sinks = data->sinks,
                                  .out = out + first * c->n_heads * c->v_dim}};
        assert_int_equal(backend->vtable->run(backend, &op, 1, NULL), LINNET_OK);
    }
}

static void check(const char *isa, const decode_case *c) {
    static const size_t shapes[][2] = {{1, 1}, {1, 2}, {1, 3}, {2, 1}, {8, 1}, {24, 1}, {3, 4}};
    ln_backend *backend = make_backend(isa, 1);
    if (backend == NULL)
        return;
    size_t n = N_LAST * c->n_heads * c->v_dim;
    float *q = noise_rows(N_LAST * c->n_heads * c->k_dim), *sinks = noise_rows(c->n_heads);
    float *whole = noise_rows(n), *parts = noise_rows(n);
    decode_data data = {.c = c, .q = q, .sinks = sinks};
    data.kv = (ln_kv_layer){.dtype = c->dtype,
                            .block_tokens = BLOCK,
                            .n_heads = KV_HEADS,
                            .k_dim = c->k_dim,
                            .v_dim = c->v_dim,
                            .v_stride = c->v_dim};
    for (int32_t i = 0; i < N_BLOCKS; i++)
        data.blocks[i] = i * 37 % N_BLOCKS;
    fill_cache(backend, &data);
    attend(backend, &data, 1, N_LAST, whole);
    for (size_t i = 0; i < n; i++)
        assert_true(whole[i] > -1.0f && whole[i] < 1.0f);
    backend->vtable->destroy(backend);
    for (size_t n_threads = 1; n_threads <= 3; n_threads++) {
        backend = make_backend(isa, n_threads);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            memset(parts, 0, n * sizeof *parts);
            attend(backend, &data, shapes[i][0], shapes[i][1], parts);
            assert_memory_equal(parts, whole, n * sizeof *parts);
        }
        backend->vtable->destroy(backend);
    }
    free(data.kv.k), free(data.kv.v), free(q), free(sinks), free(whole), free(parts);
}

static const char *const sets[] = {"avx512-vnni", "avx512-bf16", "avx2", "neon"};
enum { N_SETS = sizeof sets / sizeof *sets };

static void decode_gives_the_bits_of_a_chunk(void **state) {
    (void)state;
    static const decode_case cases[] = {
        {LN_KV_F16, 32, 64, 64, 0},   {LN_KV_Q8_0, 32, 64, 64, 0}, {LN_KV_BF16, 12, 66, 80, 0},
        {LN_KV_F16, 4, 128, 128, 0},  {LN_KV_Q8_0, 20, 48, 96, 0}, {LN_KV_F16, 28, 64, 64, 777},
        {LN_KV_BF16, 32, 64, 48, 90}, {LN_KV_FP8, 32, 64, 64, 0},  {LN_KV_FP8, 20, 48, 96, 70},
        {LN_KV_FP8, 4, 128, 128, 0},
    };
    for (size_t set = 0; set < N_SETS; set++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (set < 2 || i % 3 == 0)
                check(sets[set], &cases[i]);
}

/* The cache of one block of values [BLOCK][KV_HEADS][dim]; NULL: there is no such set. */
static char *cache_values(const char *isa, size_t dim, const float *v) {
    ln_backend *backend = make_backend(isa, 1);
    if (backend == NULL)
        return NULL;
    int32_t ids[BLOCK], starts[2] = {0, BLOCK}, table = 0, length = BLOCK;
    for (int32_t i = 0; i < BLOCK; i++)
        ids[i] = i;
    ln_batch batch = {.n_tokens = BLOCK, .n_seqs = 1, .n_groups = 1, .seq_starts = starts};
    batch.positions = ids;
    batch.groups[0] = (ln_batch_group){&table, 1, &length, ids};
    size_t bytes = KV_HEADS * ln_kv_head_bytes(LN_KV_FP8, BLOCK, dim);
    ln_kv_layer kv = {.dtype = LN_KV_FP8,
                      .block_tokens = BLOCK,
                      .n_heads = KV_HEADS,
                      .k_dim = dim,
                      .v_dim = dim,
                      .v_stride = dim,
                      .k = calloc(1, bytes),
                      .v = calloc(1, bytes)};
    assert_non_null(kv.k);
    assert_non_null(kv.v);
    float *q = noise_rows(BLOCK * KV_HEADS * dim), *k = noise_rows(BLOCK * KV_HEADS * dim);
    ln_op op = {.kind = LN_OP_QKV,
                .batch = &batch,
                .qkv = {.q = q, .k = k, .v = v, .n_heads = KV_HEADS, .kv = &kv}};
    assert_int_equal(backend->vtable->run(backend, &op, 1, NULL), LINNET_OK);
    backend->vtable->destroy(backend);
    free(q), free(k), free(kv.k);
    return kv.v;
}

/* Every number of E4M3, the middle of each two, and what is next to that, of either sign, in heads
 * whose scale is 1. */
static void sets_round_to_the_same_e4m3(void **state) {
    (void)state;
    enum { DIM = 64 };
    static float v[BLOCK * KV_HEADS * DIM];
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        uint8_t byte = (uint8_t)(i / 8 % 0x7e);
        float low = ln_f32_from_e4m3(byte), high = ln_f32_from_e4m3(byte + 1);
        float middle = (low + high) / 2, sign = i % 2 ? -1.0f : 1.0f;
        const float near[] = {low, middle, nextafterf(middle, 0), nextafterf(middle, 500)};
        v[i] = i % DIM == 0 ? 448.0f : sign * near[i / 2 % 4];
    }
    char *want = cache_values("scalar", DIM, v);
    for (size_t set = 0; set < N_SETS; set++) {
        char *got = cache_values(sets[set], DIM, v);
        if (got != NULL)
            assert_memory_equal(got, want, KV_HEADS * ln_kv_head_bytes(LN_KV_FP8, BLOCK, DIM));
        free(got);
    }
    free(want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_gives_the_bits_of_a_chunk),
        cmocka_unit_test(sets_round_to_the_same_e4m3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
