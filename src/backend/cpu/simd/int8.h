/* y = x W^T for packed int8 and narrower weights (backend/cpu/pack.h): x in blocks of 32 int8 with
 * a float32 scale, exact int32 sums within a block, float32 sums over the blocks in order.
 *
 * A sum depends on its row of x and its row of W alone: int32 sums are exact, and every tile folds
 * block after block in the same way.
 *
 * Bytes moved by one row of x: the packed weights once. Many rows: a panel is unpacked once into
 * 640 bytes per block, which then meet all rows from the caches. */
#ifndef LN_BACKEND_CPU_SIMD_INT8_H
#define LN_BACKEND_CPU_SIMD_INT8_H

#include "backend/cpu/pack.h"

/* An unpacked block: 8 steps, then two vectors of factors: the scale and 0, or the scale and the
 * minimum, or the scales of the two halves. */
enum { STEPS = 8, STEP_BYTES = 64, UNPACKED_BYTES = STEPS * STEP_BYTES + 2 * 64 };

typedef struct int8_kind {
    int32_t offset;  /* of the stored quants */
    size_t n_scales; /* per block: 1 or 2 */
    bool has_min;
} int8_kind;

LN_INLINE int8_kind int8_kind_of(ln_pack pack) {
    switch (pack) {
    case LN_PACK_Q4_0: return (int8_kind){8, 1, false};
    case LN_PACK_Q8_0: return (int8_kind){128, 1, false};
    case LN_PACK_Q4_K: return (int8_kind){0, 1, true};
    case LN_PACK_Q6_K: return (int8_kind){32, 2, false};
    default: return (int8_kind){0, 1, false};
    }
}

/* Rows of x, quantised for one kind of weight. */
typedef struct int8_rows {
    size_t k;
    int8_t *q;      /* [n][k] */
    float *scale;   /* [n][k / 32] */
    int32_t *start; /* [n][k / 16] -offset * sum(q) over a block, or over each half */
    float *min_sum; /* [n][k / 32] -scale * sum(q): what a minimum is multiplied by */
} int8_rows;

LN_INLINE size_t int8_row_bytes(size_t k) {
    return k + k / 32 * 8 + k / 16 * 4;
}

/* [n][k] rows in `memory`, which has n * int8_row_bytes(k) bytes; n is a multiple of 4. */
static int8_rows int8_place(void *memory, size_t n, size_t k) {
    int8_rows x = {.k = k, .q = memory};
    x.scale = (float *)(void *)(x.q + n * k);
    x.min_sum = x.scale + n * (k / 32);
    x.start = (int32_t *)(void *)(x.min_sum + n * (k / 32));
    return x;
}

static void int8_quantize(const int8_rows *rows, size_t row, int8_kind kind, const float *x) {
    size_t n_blocks = rows->k / LN_PACK_COLS;
    for (size_t block = 0; block < n_blocks; block++) {
        vf a = vf_load(x + block * 32), b = vf_load(x + block * 32 + LANES);
        float largest = vf_largest(vf_max(vf_abs(a), vf_abs(b)));
        vf inverse = vf_set(largest > 0.0f ? 127.0f / largest : 0.0f);
        vi p = vi_round(vf_mul(a, inverse)), q = vi_round(vf_mul(b, inverse));
        size_t at = row * n_blocks + block;
        int32_t first = vi_sum(p), second = vi_sum(q);
        vi_store_i8(rows->q + at * 32, p);
        vi_store_i8(rows->q + at * 32 + LANES, q);
        rows->scale[at] = largest * (1.0f / 127.0f);
        rows->min_sum[at] = -rows->scale[at] * (float)(first + second);
        if (kind.n_scales == 2) {
            rows->start[2 * at] = -kind.offset * first;
            rows->start[2 * at + 1] = -kind.offset * second;
        } else {
            rows->start[at] = -kind.offset * (first + second);
        }
    }
}

LN_INLINE vi low_nibbles(vi x) {
    return vi_and(x, vi_set(0x0f0f0f0f));
}

LN_INLINE void unpack_nibbles(const uint8_t *p, vi w[STEPS]) {
    for (size_t step = 0; step < STEPS / 2; step++) {
        vi both = vi_load(p + step * STEP_BYTES);
        w[step] = low_nibbles(both);
        w[step + 4] = low_nibbles(vi_shr(both, 4));
    }
}

LN_INLINE void unpack_q6_k(const uint8_t *p, vi w[STEPS]) {
    unpack_nibbles(p, w);
    vi mask = vi_set(0x30303030);
    for (size_t vector = 0; vector < 2; vector++) {
        vi high = vi_load(p + 256 + vector * STEP_BYTES);
        w[vector] = vi_or(w[vector], vi_and(vi_shl(high, 4), mask));
        w[vector + 2] = vi_or(w[vector + 2], vi_and(vi_shl(high, 2), mask));
        w[vector + 4] = vi_or(w[vector + 4], vi_and(high, mask));
        w[vector + 6] = vi_or(w[vector + 6], vi_and(vi_shr(high, 2), mask));
    }
}

LN_INLINE vf half_row(const uint8_t *p) {
    return vf_from_f16((const uint16_t *)(const void *)p);
}

/* Block number `block` of a panel into registers. */
LN_INLINE void unpack_block(ln_pack pack, const uint8_t *panel, size_t block, vi w[STEPS],
                            vf factors[2]) {
    const uint8_t *p;
    size_t at = block % 8;
    switch (pack) {
    case LN_PACK_Q4_0:
        p = panel + block * 288;
        factors[0] = half_row(p);
        unpack_nibbles(p + 32, w);
        return;
    case LN_PACK_Q8_0:
        p = panel + block * 544;
        factors[0] = half_row(p);
        for (size_t step = 0; step < STEPS; step++)
            w[step] = vi_load(p + 32 + step * STEP_BYTES);
        return;
    case LN_PACK_Q4_K:
        p = panel + block / 8 * 2368;
        factors[0] = vf_mul(half_row(p), vf_from_u8(p + 64 + at * LANES));
        factors[1] = vf_mul(half_row(p + 32), vf_from_u8(p + 192 + at * LANES));
        unpack_nibbles(p + 320 + at * 256, w);
        return;
    case LN_PACK_Q6_K: {
        p = panel + block / 8 * 3360;
        const int8_t *scales = (const int8_t *)p + 32 + at * 2 * LANES;
        factors[0] = vf_mul(half_row(p), vf_from_i8(scales));
        factors[1] = vf_mul(half_row(p), vf_from_i8(scales + LANES));
        unpack_q6_k(p + 288 + at * 384, w);
        return;
    }
    default: return;
    }
}

/* sum + acc * factor * scale of x */
LN_INLINE vf fold(vf sum, vi acc, vf factor, float scale) {
    return vf_fma(vf_from_i(acc), vf_mul(factor, vf_set(scale)), sum);
}

/* n_rows of x from `row` on, against a packed panel: y [n_rows][16]. */
LN_INLINE void int8_few(ln_pack pack, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                        size_t row, float *y) {
    int8_kind kind = int8_kind_of(pack);
    size_t n_blocks = x->k / LN_PACK_COLS, steps = STEPS / kind.n_scales;
    bool narrow = pack == LN_PACK_Q4_0 || pack == LN_PACK_Q4_K;
    vf sums[4];
    for (size_t i = 0; i < n_rows; i++)
        sums[i] = vf_set(0.0f);
    for (size_t block = 0; block < n_blocks; block++) {
        vi w[STEPS];
        vf factors[2] = {vf_set(0.0f), vf_set(0.0f)};
        unpack_block(pack, panel, block, w, factors);
        for (size_t i = 0; i < n_rows; i++) {
            size_t at = (row + i) * n_blocks + block;
            const int8_t *q = x->q + at * LN_PACK_COLS;
            for (size_t part = 0; part < kind.n_scales; part++) {
                vi acc = vi_set(x->start[at * kind.n_scales + part]);
                for (size_t step = part * steps; step < (part + 1) * steps; step++)
                    acc = narrow ? dot_nibbles(acc, w[step], vi_spread(q + step * 4))
                                 : dot_bytes(acc, w[step], vi_spread(q + step * 4));
                sums[i] = fold(sums[i], acc, factors[part], x->scale[at]);
            }
            if (kind.has_min)
                sums[i] = vf_fma(factors[1], vf_set(x->min_sum[at]), sums[i]);
        }
    }
    for (size_t i = 0; i < n_rows; i++)
        vf_store(y + i * LANES, sums[i]);
}

/* The same against an unpacked panel. */
LN_INLINE void int8_many(int8_kind kind, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                         size_t row, float *y) {
    size_t n_blocks = x->k / LN_PACK_COLS, steps = STEPS / kind.n_scales;
    vf sums[TILE_ROWS];
    for (size_t i = 0; i < n_rows; i++)
        sums[i] = vf_set(0.0f);
    for (size_t block = 0; block < n_blocks; block++, panel += UNPACKED_BYTES) {
        const float *factors = (const float *)(const void *)(panel + STEPS * STEP_BYTES);
        size_t first = row * n_blocks + block;
        for (size_t part = 0; part < kind.n_scales; part++) {
            vi acc[TILE_ROWS];
            for (size_t i = 0; i < n_rows; i++)
                acc[i] = vi_set(x->start[(first + i * n_blocks) * kind.n_scales + part]);
            for (size_t step = part * steps; step < (part + 1) * steps; step++) {
                vi w = vi_load(panel + step * STEP_BYTES);
                for (size_t i = 0; i < n_rows; i++)
                    acc[i] = dot_bytes(acc[i], w,
                                       vi_spread(x->q + (first + i * n_blocks) * 32 + step * 4));
            }
            vf factor = vf_load(factors + part * LANES);
            for (size_t i = 0; i < n_rows; i++)
                sums[i] = fold(sums[i], acc[i], factor, x->scale[first + i * n_blocks]);
        }
        if (kind.has_min)
            for (size_t i = 0; i < n_rows; i++)
                sums[i] = vf_fma(vf_load(factors + LANES), vf_set(x->min_sum[first + i * n_blocks]),
                                 sums[i]);
    }
    for (size_t i = 0; i < n_rows; i++)
        vf_store(y + i * LANES, sums[i]);
}

LN_INLINE void int8_many_of(int8_kind kind, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                            size_t row, float *y) {
    switch (n_rows) {
    case TILE_STEP: int8_many(kind, TILE_STEP, panel, x, row, y); return;
    case TILE_STEP * 2:
        if (TILE_ROWS > 2 * TILE_STEP)
            int8_many(kind, TILE_STEP * 2, panel, x, row, y);
        return;
    default: int8_many(kind, TILE_ROWS, panel, x, row, y); return;
    }
}

LN_INLINE void int8_few_of(ln_pack pack, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                           size_t row, float *y) {
    switch (n_rows) {
    case 1: int8_few(pack, 1, panel, x, row, y); return;
    case 2: int8_few(pack, 2, panel, x, row, y); return;
    case 3: int8_few(pack, 3, panel, x, row, y); return;
    default: int8_few(pack, 4, panel, x, row, y); return;
    }
}

/* Up to 4 rows of x against a packed panel. */
static void int8_multiply_few(ln_pack pack, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                              size_t row, float *y) {
    switch (pack) {
    case LN_PACK_Q4_0: int8_few_of(LN_PACK_Q4_0, n_rows, panel, x, row, y); return;
    case LN_PACK_Q8_0: int8_few_of(LN_PACK_Q8_0, n_rows, panel, x, row, y); return;
    case LN_PACK_Q4_K: int8_few_of(LN_PACK_Q4_K, n_rows, panel, x, row, y); return;
    default: int8_few_of(LN_PACK_Q6_K, n_rows, panel, x, row, y); return;
    }
}

/* n_rows of x, TILE_ROWS or a smaller multiple of TILE_STEP, against an unpacked panel. */
static void int8_multiply_many(ln_pack pack, size_t n_rows, const uint8_t *panel,
                               const int8_rows *x, size_t row, float *y) {
    switch (pack) {
    case LN_PACK_Q4_K: int8_many_of((int8_kind){0, 1, true}, n_rows, panel, x, row, y); return;
    case LN_PACK_Q6_K: int8_many_of((int8_kind){32, 2, false}, n_rows, panel, x, row, y); return;
    default: int8_many_of((int8_kind){0, 1, false}, n_rows, panel, x, row, y); return;
    }
}

LN_INLINE void int8_unpack_as(ln_pack pack, const uint8_t *panel, size_t n_blocks, uint8_t *out) {
    for (size_t block = 0; block < n_blocks; block++, out += UNPACKED_BYTES) {
        vi w[STEPS];
        vf factors[2] = {vf_set(0.0f), vf_set(0.0f)};
        unpack_block(pack, panel, block, w, factors);
        for (size_t step = 0; step < STEPS; step++)
            vi_store(out + step * STEP_BYTES, w[step]);
        vf_store((float *)(void *)(out + STEPS * STEP_BYTES), factors[0]);
        vf_store((float *)(void *)(out + STEPS * STEP_BYTES) + LANES, factors[1]);
    }
}

static void int8_unpack(ln_pack pack, const uint8_t *panel, size_t k, uint8_t *out) {
    size_t n_blocks = k / LN_PACK_COLS;
    switch (pack) {
    case LN_PACK_Q4_0: int8_unpack_as(LN_PACK_Q4_0, panel, n_blocks, out); return;
    case LN_PACK_Q8_0: int8_unpack_as(LN_PACK_Q8_0, panel, n_blocks, out); return;
    case LN_PACK_Q4_K: int8_unpack_as(LN_PACK_Q4_K, panel, n_blocks, out); return;
    default: int8_unpack_as(LN_PACK_Q6_K, panel, n_blocks, out); return;
    }
}

#endif
