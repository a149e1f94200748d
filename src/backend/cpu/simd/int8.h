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

/* 32 columns of 16 rows of x, quantised for one kind of weight. */
enum { GROUP_ROWS = 16 };
typedef struct int8_block {
    int8_t q[GROUP_ROWS][LN_PACK_COLS];
    float scale[GROUP_ROWS];
    float min_sum[GROUP_ROWS];    /* -scale * sum(q): what a minimum is multiplied by */
    int32_t start[2][GROUP_ROWS]; /* -offset * sum(q) over a block, or over each half */
} int8_block;

typedef struct int8_rows {
    size_t n_blocks;
    int8_block *blocks; /* [n_rows / 16][n_blocks] */
} int8_rows;

/* Bytes per row, of whole groups of rows. */
LN_INLINE size_t int8_row_bytes(size_t k) {
    return k / LN_PACK_COLS * (sizeof(int8_block) / GROUP_ROWS);
}

static int8_rows int8_place(void *memory, size_t k) {
    return (int8_rows){.n_blocks = k / LN_PACK_COLS, .blocks = memory};
}

static void int8_quantize(const int8_rows *rows, size_t row, int8_kind kind, const float *x) {
    int8_block *out = rows->blocks + row / GROUP_ROWS * rows->n_blocks;
    size_t lane = row % GROUP_ROWS;
    for (size_t block = 0; block < rows->n_blocks; block++, out++, x += LN_PACK_COLS) {
        vf a = vf_load(x), b = vf_load(x + LANES);
        float largest = vf_largest(vf_max(vf_abs(a), vf_abs(b)));
        vf inverse = vf_set(largest > 0.0f ? 127.0f / largest : 0.0f);
        vi p = vi_round(vf_mul(a, inverse)), q = vi_round(vf_mul(b, inverse));
        vi_store_i8(out->q[lane], p);
        vi_store_i8(out->q[lane] + LANES, q);
        out->scale[lane] = largest * (1.0f / 127.0f);
        int32_t first = vi_sum(p), second = vi_sum(q);
        out->min_sum[lane] = -out->scale[lane] * (float)(first + second);
        out->start[0][lane] = -kind.offset * (kind.n_scales == 2 ? first : first + second);
        out->start[1][lane] = -kind.offset * second;
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

/* Asks for what block number `block` will be streaming shortly; the next panel follows this one. */
LN_INLINE void prefetch_block(ln_pack pack, const uint8_t *panel, size_t block) {
    enum { AHEAD_BYTES = 4096, LINE_BYTES = 64 };
    size_t bytes = pack == LN_PACK_Q8_0 ? 544 : pack == LN_PACK_Q6_K ? 420 : 290;
    for (size_t i = 0; i < bytes; i += LINE_BYTES)
        __builtin_prefetch(panel + block * bytes + AHEAD_BYTES + i);
}

/* sum + acc * factor * scale of x */
LN_INLINE vf fold(vf sum, vi acc, vf factor, float scale) {
    return vf_fma(vf_from_i(acc), vf_mul(factor, vf_set(scale)), sum);
}

/* The first n_rows of x against a packed panel: y [n_rows][16]. */
LN_INLINE void int8_few(ln_pack pack, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                        float *y) {
    int8_kind kind = int8_kind_of(pack);
    size_t steps = STEPS / kind.n_scales;
    bool narrow = pack == LN_PACK_Q4_0 || pack == LN_PACK_Q4_K;
    vf sums[4];
    for (size_t i = 0; i < n_rows; i++)
        sums[i] = vf_set(0.0f);
    for (size_t block = 0; block < x->n_blocks; block++) {
        vi w[STEPS];
        vf factors[2] = {vf_set(0.0f), vf_set(0.0f)};
        const int8_block *b = &x->blocks[block];
        prefetch_block(pack, panel, block);
        unpack_block(pack, panel, block, w, factors);
        for (size_t i = 0; i < n_rows; i++) {
            for (size_t part = 0; part < kind.n_scales; part++) {
                vi acc = vi_set(b->start[part][i]);
                for (size_t step = part * steps; step < (part + 1) * steps; step++)
                    acc = narrow ? dot_nibbles(acc, w[step], vi_spread(b->q[i] + step * 4))
                                 : dot_bytes(acc, w[step], vi_spread(b->q[i] + step * 4));
                sums[i] = fold(sums[i], acc, factors[part], b->scale[i]);
            }
            if (kind.has_min)
                sums[i] = vf_fma(factors[1], vf_set(b->min_sum[i]), sums[i]);
        }
    }
    for (size_t i = 0; i < n_rows; i++)
        vf_store(y + i * LANES, sums[i]);
}

/* n_rows of x from `row` on, all of one group, against an unpacked panel. */
LN_INLINE void int8_many(int8_kind kind, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                         size_t row, float *y) {
    const int8_block *b = x->blocks + row / GROUP_ROWS * x->n_blocks, *end = b + x->n_blocks;
    const size_t steps = STEPS / kind.n_scales, lane = row % GROUP_ROWS;
    vf sums[TILE_ROWS];
    for (size_t i = 0; i < n_rows; i++)
        sums[i] = vf_set(0.0f);
    for (; b < end; b++, panel += UNPACKED_BYTES) {
        const float *factors = (const float *)(const void *)(panel + STEPS * STEP_BYTES);
        const int8_t *q = b->q[lane];
#pragma GCC unroll 2
        for (size_t part = 0; part < kind.n_scales; part++) {
            vi acc[TILE_ROWS];
            for (size_t i = 0; i < n_rows; i++)
                acc[i] = vi_set(b->start[part][lane + i]);
#pragma GCC unroll 8
            for (size_t step = part * steps; step < (part + 1) * steps; step++) {
                vi w = vi_load(panel + step * STEP_BYTES);
                for (size_t i = 0; i < n_rows; i++)
                    acc[i] = dot_bytes(acc[i], w, vi_spread(q + i * LN_PACK_COLS + step * 4));
            }
            vf factor = vf_load(factors + part * LANES);
            for (size_t i = 0; i < n_rows; i++)
                sums[i] = fold(sums[i], acc[i], factor, b->scale[lane + i]);
        }
        if (kind.has_min)
            for (size_t i = 0; i < n_rows; i++)
                sums[i] = vf_fma(vf_load(factors + LANES), vf_set(b->min_sum[lane + i]), sums[i]);
    }
    for (size_t i = 0; i < n_rows; i++)
        vf_store(y + i * LANES, sums[i]);
}

LN_INLINE void int8_many_of(int8_kind kind, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                            size_t row, float *y) {
    if (n_rows == TILE_ROWS)
        int8_many(kind, TILE_ROWS, panel, x, row, y);
    else
        int8_many(kind, TILE_STEP, panel, x, row, y);
}

LN_INLINE void int8_few_of(ln_pack pack, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                           float *y) {
    switch (n_rows) {
    case 1: int8_few(pack, 1, panel, x, y); return;
    case 2: int8_few(pack, 2, panel, x, y); return;
    case 3: int8_few(pack, 3, panel, x, y); return;
    default: int8_few(pack, 4, panel, x, y); return;
    }
}

/* The first rows of x, up to 4, against a packed panel. */
static void int8_multiply_few(ln_pack pack, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                              float *y) {
    switch (pack) {
    case LN_PACK_Q4_0: int8_few_of(LN_PACK_Q4_0, n_rows, panel, x, y); return;
    case LN_PACK_Q8_0: int8_few_of(LN_PACK_Q8_0, n_rows, panel, x, y); return;
    case LN_PACK_Q4_K: int8_few_of(LN_PACK_Q4_K, n_rows, panel, x, y); return;
    default: int8_few_of(LN_PACK_Q6_K, n_rows, panel, x, y); return;
    }
}

/* n_rows of x, TILE_ROWS or TILE_STEP, against an unpacked panel. */
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
