/* The scalar kernels against the same formulas in double precision, on odd shapes; and the same
 * bits for any number of threads and any company in the batch. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/half.h"
#include "base/rng.h"

static uint64_t draws;

static float noise(void) {
    return 2.0f * ln_rng_uniform(42, 0, draws++, 0) - 1.0f;
}

static float *noise_rows(size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = noise();
    return x;
}

static ln_backend *make_backend(size_t n_threads) {
    ln_backend *backend;
    ln_backend_options options = {.isa = "scalar", .n_threads = n_threads, .exact = true};
    assert_int_equal(ln_backend_create("cpu", &options, &backend, NULL), LINNET_OK);
    ln_step_limits limits = {.max_tokens = 512,
                             .max_seqs = 8,
                             .max_ctx = 1024,
                             .max_width = 512,
                             .max_head_dim = 64,
                             .max_experts = 8};
    assert_int_equal(backend->vtable->reserve_scratch(backend, &limits, NULL), LINNET_OK);
    return backend;
}

static void run(const ln_op *op, size_t n_threads) {
    ln_backend *backend = make_backend(n_threads);
    assert_int_equal(backend->vtable->run(backend, op, 1, NULL), LINNET_OK);
    backend->vtable->destroy(backend);
}

static void assert_near(double got, double want, double scale) {
    if (!(fabs(got - want) <= 2e-6 * scale)) /* NaN, too */
        fail_msg("got %.9g, want %.9g", got, want);
}

static ln_weight f32_weight(float *data, size_t n_rows, size_t n_cols, const float *bias) {
    return (ln_weight){.dtype = LN_DTYPE_F32,
                       .n_rows = n_rows,
                       .n_cols = n_cols,
                       .row_bytes = n_cols * sizeof(float),
                       .data = data,
                       .bias = bias};
}

static double reference_dot(const float *x, const float *w, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * w[i];
    return sum;
}

static void linear_multiplies(void **state) {
    (void)state;
    enum { ROWS = 5, IN = 77, OUT = 13 };
    float *x = noise_rows(ROWS * IN), *w = noise_rows(OUT * IN), *g = noise_rows(OUT * IN);
    float *b = noise_rows(OUT), *r = noise_rows(ROWS * OUT), *out = noise_rows(ROWS * OUT);
    ln_weight weight = f32_weight(w, OUT, IN, b), gate = f32_weight(g, OUT, IN, NULL);
    ln_op op = {.kind = LN_OP_LINEAR,
                .linear = {.weight = &weight,
                           .gate = &gate,
                           .activation = LN_ACT_SILU,
                           .n_rows = ROWS,
                           .x = x,
                           .residual = r,
                           .scale = 0.5f,
                           .out = out}};
    run(&op, 3);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < OUT; j++) {
            double up = reference_dot(x + i * IN, w + j * IN, IN) + b[j];
            double z = reference_dot(x + i * IN, g + j * IN, IN);
            double want = r[i * OUT + j] + 0.5 * (up * z / (1 + exp(-z)));
            assert_near(out[i * OUT + j], want, 10);
        }
    free(x), free(w), free(g), free(b), free(r), free(out);
}

static void linear_rows_do_not_depend_on_their_batch(void **state) {
    (void)state;
    enum { ROWS = 9, IN = 160, OUT = 31 };
    float *x = noise_rows(ROWS * IN), *w = noise_rows(OUT * IN);
    float *many = noise_rows(ROWS * OUT), *one = noise_rows(OUT);
    ln_weight weight = f32_weight(w, OUT, IN, NULL);
    ln_op op = {.kind = LN_OP_LINEAR,
                .linear = {.weight = &weight, .n_rows = ROWS, .x = x, .scale = 1, .out = many}};
    run(&op, 1);
    for (size_t row = 0; row < ROWS; row++) {
        op.linear.n_rows = 1;
        op.linear.x = x + row * IN;
        op.linear.out = one;
        run(&op, 1 + row % 4);
        assert_memory_equal(one, many + row * OUT, OUT * sizeof *one);
    }
    free(x), free(w), free(many), free(one);
}

static void activations_are_their_formulas(void **state) {
    (void)state;
    float eye[1] = {1.0f}, out[1];
    for (int i = -40; i <= 40; i++) {
        float x[1] = {(float)i * 0.25f};
        double v = x[0];
        double want[] = {v,
                         v / (1 + exp(-v)),
                         0.5 * v * (1 + erf(v / sqrt(2))),
                         0.5 * v *
                             (1 + tanh(sqrt(2 / 3.14159265358979) * (v + 0.044715 * v * v * v))),
                         v > 0 ? v : 0,
                         v > 0 ? v * v : 0};
        for (int a = LN_ACT_NONE; a <= LN_ACT_RELU_SQUARED; a++) {
            ln_weight weight = f32_weight(eye, 1, 1, NULL);
            ln_op op = {.kind = LN_OP_LINEAR,
                        .linear = {.weight = &weight,
                                   .activation = (ln_activation)a,
                                   .n_rows = 1,
                                   .x = x,
                                   .scale = 1,
                                   .out = out}};
            run(&op, 1);
            assert_near(out[0], want[a], 1 + fabs(want[a]));
        }
    }
}

static void norms_are_their_formulas(void **state) {
    (void)state;
    enum { ROWS = 4, DIM = 67 };
    float *x = noise_rows(ROWS * DIM), *w = noise_rows(DIM), *b = noise_rows(DIM);
    float *out = noise_rows(ROWS * DIM);
    for (int kind = LN_NORM_RMS; kind <= LN_NORM_LAYER; kind++) {
        ln_norm norm = {
            .kind = (ln_norm_kind)kind, .eps = 1e-5f, .dim = DIM, .weight = w, .bias = b};
        int32_t rows[2] = {3, 1};
        ln_op op = {.kind = LN_OP_NORM,
                    .norm = {.norm = &norm, .n_rows = 2, .rows = rows, .x = x, .out = out}};
        run(&op, 2);
        for (size_t i = 0; i < 2; i++) {
            const float *row = x + (size_t)rows[i] * DIM;
            double mean = 0, square = 0;
            for (size_t j = 0; j < DIM; j++)
                mean += kind == LN_NORM_LAYER ? row[j] / (double)DIM : 0;
            for (size_t j = 0; j < DIM; j++)
                square += (row[j] - mean) * (row[j] - mean) / DIM;
            for (size_t j = 0; j < DIM; j++) {
                double weight = (double)w[j] + (kind == LN_NORM_RMS_PLUS_ONE ? 1 : 0);
                double want = (row[j] - mean) / sqrt(square + 1e-5) * weight + b[j];
                assert_near(out[i * DIM + j], want, 10);
            }
        }
    }
    free(x), free(w), free(b), free(out);
}

/* A cache of one layer, two sequences with scattered blocks, and what attention must give. */
enum { HEADS = 6, KV_HEADS = 2, K_DIM = 12, V_DIM = 20, BLOCK = 16, BLOCKS = 64, MAX_BLOCKS = 32 };

typedef struct cache {
    ln_kv_layer layer;
    float *k, *v;
    int32_t tables[2 * MAX_BLOCKS];
} cache;

static cache make_cache(void) {
    cache c = {.k = noise_rows(BLOCKS * KV_HEADS * BLOCK * K_DIM),
               .v = noise_rows(BLOCKS * KV_HEADS * BLOCK * V_DIM)};
    c.layer = (ln_kv_layer){.dtype = LN_KV_F32,
                            .block_tokens = BLOCK,
                            .n_heads = KV_HEADS,
                            .k_dim = K_DIM,
                            .v_dim = V_DIM,
                            .v_stride = V_DIM,
                            .k = c.k,
                            .v = c.v};
    for (int32_t i = 0; i < 2 * MAX_BLOCKS; i++)
        c.tables[i] = (i * 37 + 5) % BLOCKS;
    return c;
}

static size_t cache_row(const cache *c, size_t seq, size_t position, size_t head) {
    size_t block = (size_t)c->tables[seq * MAX_BLOCKS + position / BLOCK];
    return (block * KV_HEADS + head) * BLOCK + position % BLOCK;
}

/* softmax(scale q k + bias) v for one query, in double */
static void reference_attention(const cache *c, const ln_op_attention *p, size_t seq, size_t pos,
                                size_t head, const float *q, double *out) {
    size_t kv_head = head / (HEADS / KV_HEADS);
    double total = p->sinks != NULL ? exp(p->sinks[head]) : 0;
    memset(out, 0, V_DIM * sizeof *out);
    for (size_t key = 0; key <= pos; key++) {
        if (p->window > 0 && key + p->window <= pos)
            continue;
        size_t row = cache_row(c, seq, key, kv_head);
        double score = p->scale * reference_dot(q, c->k + row * K_DIM, K_DIM);
        if (p->softcap > 0)
            score = p->softcap * tanh(score / p->softcap);
        if (p->alibi_slopes != NULL)
            score += p->alibi_slopes[head] * ((double)key - (double)pos);
        double weight = exp(score);
        total += weight;
        for (size_t i = 0; i < V_DIM; i++)
            out[i] += weight * c->v[row * V_DIM + i];
    }
    for (size_t i = 0; i < V_DIM; i++)
        out[i] /= total;
}

static void check_attention(size_t window, float softcap, const float *slopes, const float *sinks) {
    enum { TOKENS = 5 };
    cache c = make_cache();
    float *q = noise_rows(TOKENS * HEADS * K_DIM), *out = noise_rows(TOKENS * HEADS * V_DIM);
    int32_t starts[] = {0, 2, TOKENS}, positions[] = {300, 301, 0, 1, 2}, lengths[] = {302, 3};
    ln_batch batch = {.n_tokens = TOKENS,
                      .n_seqs = 2,
                      .n_groups = 1,
                      .positions = positions,
                      .seq_starts = starts};
    batch.groups[0] =
        (ln_batch_group){.block_tables = c.tables, .max_blocks = MAX_BLOCKS, .lengths = lengths};
    ln_op op = {.kind = LN_OP_ATTENTION,
                .batch = &batch,
                .attention = {.q = q,
                              .kv = &c.layer,
                              .n_heads = HEADS,
                              .scale = 0.7f,
                              .softcap = softcap,
                              .window = window,
                              .alibi_slopes = slopes,
                              .sinks = sinks,
                              .out = out}};
    run(&op, 3);
    for (size_t token = 0; token < TOKENS; token++)
        for (size_t head = 0; head < HEADS; head++) {
            double want[V_DIM];
            size_t at = token * HEADS + head;
            reference_attention(&c, &op.attention, token >= 2, (size_t)positions[token], head,
                                q + at * K_DIM, want);
            for (size_t i = 0; i < V_DIM; i++)
                assert_near(out[at * V_DIM + i], want[i], 2);
        }
    free(c.k), free(c.v), free(q), free(out);
}

static void attention_is_its_formula(void **state) {
    (void)state;
    float *slopes = noise_rows(HEADS), *sinks = noise_rows(HEADS);
    check_attention(0, 0, NULL, NULL);
    check_attention(17, 0, NULL, NULL);
    check_attention(290, 0, NULL, NULL);
    check_attention(0, 1.5f, NULL, NULL);
    for (size_t i = 0; i < HEADS; i++)
        slopes[i] = fabsf(slopes[i]) * 0.1f;
    check_attention(0, 0, slopes, NULL);
    check_attention(0, 0, NULL, sinks);
    check_attention(40, 2.0f, slopes, sinks);
    free(slopes), free(sinks);
}

/* One token through q/k norm and RoPE into a slot of an f16 cache. */
static void qkv_rotates_and_writes_the_slot(void **state) {
    (void)state;
    enum { DIM = 8, ROT = 4 };
    for (int style = LN_ROPE_HALF; style <= LN_ROPE_INTERLEAVED; style++) {
        float q[2 * DIM], k[DIM], v[DIM], q0[2 * DIM], k0[DIM];
        for (size_t i = 0; i < 2 * DIM; i++)
            q0[i] = q[i] = noise();
        for (size_t i = 0; i < DIM; i++)
            k0[i] = k[i] = noise(), v[i] = noise();
        uint16_t cache_k[3 * 2 * DIM] = {0}, cache_v[3 * 2 * DIM] = {0};
        float inv_freq[ROT / 2] = {1.0f, 0.1f};
        ln_rope rope = {
            .style = (ln_rope_style)style, .n_dims = ROT, .inv_freq = inv_freq, .magnitude = 1.5f};
        ln_kv_layer kv = {.dtype = LN_KV_F16,
                          .block_tokens = 2,
                          .n_heads = 1,
                          .k_dim = DIM,
                          .v_dim = DIM,
                          .v_stride = DIM,
                          .k = cache_k,
                          .v = cache_v};
        int32_t position = 7, slot = 3;
        ln_batch batch = {.n_tokens = 1, .n_seqs = 1, .n_groups = 1, .positions = &position};
        batch.groups[0].slots = &slot;
        ln_op op = {.kind = LN_OP_QKV,
                    .batch = &batch,
                    .qkv = {.q = q, .k = k, .v = v, .n_heads = 2, .rope = &rope, .kv = &kv}};
        run(&op, 2);
        for (size_t pair = 0; pair < ROT / 2; pair++) {
            size_t a = style == LN_ROPE_HALF ? pair : 2 * pair;
            size_t b = style == LN_ROPE_HALF ? pair + ROT / 2 : 2 * pair + 1;
            double c = 1.5 * cos(7.0 * inv_freq[pair]), s = 1.5 * sin(7.0 * inv_freq[pair]);
            for (size_t head = 0; head < 2; head++) {
                assert_near(q[head * DIM + a], q0[head * DIM + a] * c - q0[head * DIM + b] * s, 2);
                assert_near(q[head * DIM + b], q0[head * DIM + b] * c + q0[head * DIM + a] * s, 2);
            }
            assert_near(k[a], k0[a] * c - k0[b] * s, 2);
        }
        assert_true(q[ROT] == q0[ROT]);
        for (size_t i = 0; i < DIM; i++) {
            assert_int_equal(cache_k[3 * DIM + i], ln_f16_from_f32(k[i]));
            assert_int_equal(cache_v[3 * DIM + i], ln_f16_from_f32(v[i]));
            assert_int_equal(cache_k[2 * DIM + i] | cache_k[4 * DIM + i], 0);
        }
    }
}

/* A cache of int8 or E4M3: what lies in the slot is the row in steps of its largest number / 127,
 * or in numbers of E4M3 times its largest number / 448, each token and head by itself; attention
 * over one token then gives its value back. */
static void check_scales(ln_kv_dtype dtype) {
    enum { DIM = 7, BLOCKS_HERE = 3 };
    size_t head_bytes = ln_kv_head_bytes(dtype, BLOCK, DIM);
    float most = dtype == LN_KV_FP8 ? 448.0f : 127.0f;
    assert_int_equal(head_bytes, BLOCK * DIM + BLOCK * sizeof(float));
    char *k = calloc(BLOCKS_HERE * KV_HEADS, head_bytes);
    char *v = calloc(BLOCKS_HERE * KV_HEADS, head_bytes);
    ln_kv_layer kv = {.dtype = dtype,
                      .block_tokens = BLOCK,
                      .n_heads = KV_HEADS,
                      .k_dim = DIM,
                      .v_dim = DIM,
                      .v_stride = DIM,
                      .k = k,
                      .v = v};
    float q[KV_HEADS * DIM], keys[KV_HEADS * DIM], values[KV_HEADS * DIM], out[KV_HEADS * DIM];
    for (size_t i = 0; i < KV_HEADS * DIM; i++) {
        float size = i < DIM ? 100.0f : 1e-3f;
        q[i] = noise(), keys[i] = size * noise(), values[i] = size * noise();
    }
    int32_t position = 0, slot = 2 * BLOCK + 5, starts[] = {0, 1}, length = 1, blocks[] = {2};
    ln_batch batch = {
        .n_tokens = 1, .n_seqs = 1, .n_groups = 1, .seq_starts = starts, .positions = &position};
    batch.groups[0] = (ln_batch_group){blocks, 1, &length, &slot};
    ln_op op = {.kind = LN_OP_QKV,
                .batch = &batch,
                .qkv = {.q = q, .k = keys, .v = values, .n_heads = KV_HEADS, .kv = &kv}};
    run(&op, 2);
    for (size_t head = 0; head < KV_HEADS; head++) {
        const char *rows = v + (2 * KV_HEADS + head) * head_bytes;
        const char *quants = rows + 5 * DIM;
        float scale, largest = 0;
        memcpy(&scale, rows + BLOCK * DIM + 5 * sizeof scale, sizeof scale);
        for (size_t i = 0; i < DIM; i++)
            largest = fmaxf(largest, fabsf(values[head * DIM + i]));
        assert_near(scale, largest / most, 1);
        for (size_t i = 0; i < DIM; i++) {
            float x = values[head * DIM + i], y = (float)(int8_t)quants[i], error = 0.501f * scale;
            if (dtype == LN_KV_FP8) {
                y = ln_f32_from_e4m3((uint8_t)quants[i]);
                error = fmaxf(0x1p-10f * scale, fabsf(x) / 16) * 1.001f;
            }
            assert_true(fabsf(y * scale - x) <= error);
        }
    }
    slot = 2 * BLOCK; /* where position 0 lies */
    run(&op, 1);
    ln_op attend = {
        .kind = LN_OP_ATTENTION,
        .batch = &batch,
        .attention = {.q = q, .kv = &kv, .n_heads = KV_HEADS, .scale = 1.0f, .out = out}};
    run(&attend, 1);
    for (size_t i = 0; i < KV_HEADS * DIM; i++)
        assert_true(fabsf(out[i] - values[i]) <=
                    (i < DIM ? 100.0f : 1e-3f) / (dtype == LN_KV_FP8 ? 16.0f : 127.0f));
    free(k), free(v);
}

static void narrow_caches_keep_a_scale_per_token_and_head(void **state) {
    (void)state;
    check_scales(LN_KV_Q8_0);
    check_scales(LN_KV_FP8);
}

enum { TOKENS = 7, EXPERTS = 6, USED = 2, DIM = 10, OUT = 5 };

/* Group, linear and combine for the experts of one rank and of another, whose results add up to
 * `whole`: rows of other experts are not read. */
static void ranks_add_up(ln_op *ops, const int32_t *experts, const float *whole) {
    static const size_t begins[] = {0, 2, EXPERTS};
    const ln_weight *matrices = ops[1].linear.weight;
    float sum[TOKENS * OUT] = {0}, part[TOKENS * OUT], *out = ops[2].combine.out;
    for (size_t rank = 0; rank < 2; rank++) {
        size_t first = begins[rank], n = begins[rank + 1] - first;
        for (size_t i = 0; i < TOKENS * USED * OUT; i++)
            ops[1].linear.out[i] = NAN;
        ops[0].group.first_expert = ops[2].combine.first_expert = first;
        ops[0].group.n_experts = ops[1].linear.groups.n_groups = ops[2].combine.n_experts = n;
        ops[1].linear.weight = matrices + first;
        ops[2].combine.experts = experts;
        ops[2].combine.residual = rank == 0 ? ops[2].combine.residual : NULL;
        ops[2].combine.out = part;
        for (size_t i = 0; i < 3; i++)
            run(&ops[i], 1 + i);
        for (size_t i = 0; i < TOKENS * OUT; i++)
            sum[i] += part[i];
    }
    ops[2].combine.out = out;
    for (size_t i = 0; i < TOKENS * OUT; i++)
        assert_near(sum[i], whole[i], 10);
}

/* Two of all experts by hand, each of matrix w; against the sums in double. */
static void assert_mixture(const float *x, const float *logits, const float *w,
                           const float *residual, const float *out) {
    for (size_t token = 0; token < TOKENS; token++) {
        const float *l = logits + token * EXPERTS;
        size_t first = 0, second = EXPERTS;
        for (size_t i = 1; i < EXPERTS; i++)
            first = l[i] > l[first] ? i : first;
        for (size_t i = 0; i < EXPERTS; i++)
            if (i != first && (second == EXPERTS || l[i] > l[second]))
                second = i;
        double a = exp(l[first]), b = exp(l[second]);
        for (size_t i = 0; i < OUT; i++) {
            double want = a * reference_dot(x + token * DIM, w + (first * OUT + i) * DIM, DIM) +
                          b * reference_dot(x + token * DIM, w + (second * OUT + i) * DIM, DIM);
            want = residual[token * OUT + i] + 0.5 * 2.0 * want / (a + b);
            assert_near(out[token * OUT + i], want, 10);
        }
    }
}

/* Route, group, a linear per expert, combine. */
static void mixture_is_its_formula(void **state) {
    (void)state;
    float *x = noise_rows(TOKENS * DIM), *logits = noise_rows(TOKENS * EXPERTS);
    float *w = noise_rows(EXPERTS * OUT * DIM), *y = noise_rows(TOKENS * USED * OUT);
    float *residual = noise_rows(TOKENS * OUT), weights[TOKENS * USED], out[TOKENS * OUT];
    int32_t experts[TOKENS * USED], order[TOKENS * USED], starts[EXPERTS + 1];
    ln_weight matrices[EXPERTS];
    for (size_t i = 0; i < EXPERTS; i++)
        matrices[i] = f32_weight(w + i * OUT * DIM, OUT, DIM, NULL);
    ln_batch batch = {.n_tokens = TOKENS};
    ln_op ops[4] = {
        {.kind = LN_OP_ROUTE,
         .route = {.logits = logits,
                   .n_experts = EXPERTS,
                   .n_used = USED,
                   .normalize = true,
                   .scale = 2.0f,
                   .experts = experts,
                   .weights = weights}},
        {.kind = LN_OP_GROUP,
         .group = {.experts = experts,
                   .n_rows = TOKENS * USED,
                   .n_experts = EXPERTS,
                   .order = order,
                   .starts = starts}},
        {.kind = LN_OP_LINEAR,
         .linear = {.weight = matrices,
                    .groups = {EXPERTS, order, starts},
                    .n_rows = TOKENS * USED,
                    .rows_per_x = USED,
                    .x = x,
                    .scale = 1,
                    .out = y}},
        {.kind = LN_OP_COMBINE,
         .combine = {.x = y,
                     .weights = weights,
                     .n_used = USED,
                     .dim = OUT,
                     .residual = residual,
                     .scale = 0.5f,
                     .out = out}},
    };
    for (size_t i = 0; i < 4; i++) {
        ops[i].batch = &batch;
        run(&ops[i], 1 + i % 3);
    }
    assert_mixture(x, logits, w, residual, out);
    ranks_add_up(ops + 1, experts, out);
    free(x), free(logits), free(w), free(y), free(residual);
}

/* Four groups of two; by the sum of two, groups 0 and 2 win although expert 7 has the best score.
 */
static void groups_limit_the_choice(void **state) {
    (void)state;
    float logits[8] = {0.5f, 0.6f, -3, -3, 0.4f, 0.6f, -3, 0.9f};
    int32_t experts[3];
    float weights[3];
    ln_batch batch = {.n_tokens = 1};
    ln_op op = {.kind = LN_OP_ROUTE,
                .batch = &batch,
                .route = {.logits = logits,
                          .router = LN_ROUTER_SIGMOID,
                          .n_experts = 8,
                          .n_used = 3,
                          .n_groups = 4,
                          .n_groups_used = 2,
                          .group_by_two = true,
                          .scale = 1,
                          .experts = experts,
                          .weights = weights}};
    run(&op, 1);
    assert_int_equal(experts[0], 1);
    assert_int_equal(experts[1], 5);
    assert_int_equal(experts[2], 0);
    assert_near(weights[2], 1 / (1 + exp(-0.5)), 1);
    op.route.group_by_two = false;
    run(&op, 1);
    assert_int_equal(experts[0], 7);
    assert_int_equal(experts[1], 1);
    assert_int_equal(experts[2], 0);
    /* group 3 wins by expert 7, group 0 by expert 1; those of others come before expert 0 */
    static const float bias[8] = {-1, 0, -1, -1, 0, 0, -1, 0};
    op.route.bias = bias;
    op.route.zero_other_groups = true;
    run(&op, 1);
    assert_int_equal(experts[0], 7);
    assert_int_equal(experts[1], 1);
    assert_int_equal(experts[2], 2);
    assert_near(weights[2], 1 / (1 + exp(3.0)), 1);
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    ln_error err = {0};
    ln_backend *backend;
    ln_backend_options options = {.isa = "mmx", .n_threads = 1};
    assert_int_equal(ln_backend_create("cpu", &options, &backend, &err), LINNET_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "\"mmx\""));
    options.isa = "auto";
    assert_int_equal(ln_backend_create("tpu", &options, &backend, &err), LINNET_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "\"tpu\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_multiplies),
        cmocka_unit_test(linear_rows_do_not_depend_on_their_batch),
        cmocka_unit_test(activations_are_their_formulas),
        cmocka_unit_test(norms_are_their_formulas),
        cmocka_unit_test(attention_is_its_formula),
        cmocka_unit_test(qkv_rotates_and_writes_the_slot),
        cmocka_unit_test(narrow_caches_keep_a_scale_per_token_and_head),
        cmocka_unit_test(mixture_is_its_formula),
        cmocka_unit_test(groups_limit_the_choice),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
