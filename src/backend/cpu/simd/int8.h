/* y = x W^T for packed int8 and narrower weights (backend/cpu/pack.h): x in blocks of 32 int8 with
 * a float32 scale, exact int32 sums within a block, float32 sums over the blocks in order.
 *
 * A sum depends on its row of x and its row of W alone: int32 sums are exact, and every tile folds
 * block after block in the same way.
 *
 * Bytes moved by one row of x: the packed weights once. Many rows: panels are unpacked
 * UNPACK_BLOCKS blocks at a time, 640 bytes each, into the first-level cache, where they meet all
 * rows; the sums rest in y meanwhile. A tile of TILE_ROWS x TILE_PANELS sums needs one broadcast of
 * x for TILE_PANELS products. */
#ifndef LN_BACKEND_CPU_SIMD_INT8_H
#define LN_BACKEND_CPU_SIMD_INT8_H

#include <stdbool.h>

#include "backend/cpu/pack.h"

/* An unpacked block: 8 steps, then two vectors of factors: the scale and 0, or the scale and the
 * minimum, or the scales of the two halves. */
enum { STEPS = 8, STEP_BYTES = 64, UNPACKED_BYTES = STEPS * STEP_BYTES + 2 * 64 };

/* Panels that a worker multiplies side by side: a row of y has UNIT columns. */
enum {
    UNIT = TILE_PANELS * LANES,
    UNPACK_BLOCKS = 16,
    UNPACKED_PANEL = UNPACK_BLOCKS * UNPACKED_BYTES
};

typedef struct int8_kind {
    int32_t offset;  /* of the stored quants */
    size_t n_scales; /* per block: 1 or 2 */
    bool has_min;
} int8_kind;

LN_INLINE int8_kind int8_kind_of(ln_pack pack) {
    switch (pack) {
    case LN_PACK_Q4_0: return (int8_kind){8, 1, false};
    case LN_PACK_Q8_0: return (int8_kind){BYTE_OFFSET, 1, false};
    case LN_PACK_Q4_K: return (int8_kind){0, 1, true};
    case LN_PACK_Q6_K: return (int8_kind){32, 2, false};
    case LN_PACK_Q5_0: return (int8_kind){16, 1, false};
    case LN_PACK_Q5_K: return (int8_kind){0, 1, true};
    case LN_PACK_Q3_K: return (int8_kind){4, 2, false};
    case LN_PACK_IQ4_NL: return (int8_kind){BYTE_OFFSET, 1, false};
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

/* The first n rows of a group of 16: block after block, so that each is written once. */
static void int8_quantize(const int8_rows *rows, size_t group, int8_kind kind, size_t n,
                          const float *const *x) {
    int8_block *out = rows->blocks + group * rows->n_blocks;
    for (size_t block = 0; block < rows->n_blocks; block++, out++) {
        float largest[GROUP_ROWS] = {0}, inverse[GROUP_ROWS];
        int32_t first[GROUP_ROWS] = {0}, second[GROUP_ROWS] = {0};
        for (size_t i = 0; i < n; i++) {
            const float *from = x[i] + block * LN_PACK_COLS;
            largest[i] = vf_largest(vf_max(vf_abs(vf_load(from)), vf_abs(vf_load(from + LANES))));
        }
        vf most = vf_load(largest), scale = vf_mul(most, vf_set(1.0f / 127.0f));
        /* rows of next to nothing become zeros */
        vf_store(inverse, vf_div(vf_set(127.0f), vf_max(most, vf_set(1e-30f))));
        for (size_t i = 0; i < n; i++) {
            const float *from = x[i] + block * LN_PACK_COLS;
            vi p = vi_round(vf_mul(vf_load(from), vf_set(inverse[i])));
            vi q = vi_round(vf_mul(vf_load(from + LANES), vf_set(inverse[i])));
            vi_store_i8(out->q[i], p);
            vi_store_i8(out->q[i] + LANES, q);
            first[i] = vi_sum(p);
            second[i] = vi_sum(q);
        }
        vi one = vi_load(first), two = vi_load(second), both = vi_add(one, two);
        vi factor = vi_set(-kind.offset);
        vf_store(out->scale, scale);
        vf_store(out->min_sum, vf_mul(vf_mul(scale, vf_set(-1.0f)), vf_from_i(both)));
        vi_store(out->start[0], vi_mul(factor, kind.n_scales == 2 ? one : both));
        vi_store(out->start[1], vi_mul(factor, two));
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

/* Nibbles, then a vector whose bit i of a byte is bit 4 of step i. */
LN_INLINE void unpack_five(const uint8_t *p, vi w[STEPS]) {
    unpack_nibbles(p, w);
    vi high = vi_load(p + 256), mask = vi_set(0x10101010);
#pragma GCC unroll 4
    for (int step = 0; step < 4; step++) {
        w[step] = vi_or(w[step], vi_and(vi_shl(high, 4 - step), mask));
        w[step + 4] = vi_or(w[step + 4], vi_and(vi_shr(high, step), mask));
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
            w[step] = vi_load_bytes(p + 32 + step * STEP_BYTES);
        return;
    case LN_PACK_Q4_K:
        p = panel + block / 8 * 2368;
        factors[0] = vf_mul(half_row(p), vf_from_u8(p + 64 + at * LANES));
        factors[1] = vf_mul(half_row(p + 32), vf_from_u8(p + 192 + at * LANES));
        unpack_nibbles(p + 320 + at * 256, w);
        return;
    case LN_PACK_Q5_0:
        p = panel + block * 352;
        factors[0] = half_row(p);
        unpack_five(p + 32, w);
        return;
    case LN_PACK_IQ4_NL: {
        p = panel + block * 288;
        factors[0] = half_row(p);
        unpack_nibbles(p + 32, w);
        uint8_t values[16]; /* as dot_bytes takes them */
        for (size_t i = 0; i < sizeof values; i++)
            values[i] = (uint8_t)(ln_pack_iq4[i] - 128 + BYTE_OFFSET);
        for (size_t step = 0; step < STEPS; step++)
            w[step] = vi_lookup(values, w[step]);
        return;
    }
    case LN_PACK_Q5_K:
        p = panel + block / 8 * 2880;
        factors[0] = vf_mul(half_row(p), vf_from_u8(p + 64 + at * LANES));
        factors[1] = vf_mul(half_row(p + 32), vf_from_u8(p + 192 + at * LANES));
        unpack_five(p + 320 + at * 320, w);
        return;
    case LN_PACK_Q3_K: {
        p = panel + block / 8 * 2336;
        const int8_t *scales = (const int8_t *)p + 32 + at * 2 * LANES;
        factors[0] = vf_mul(half_row(p), vf_from_i8(scales));
        factors[1] = vf_mul(half_row(p), vf_from_i8(scales + LANES));
        unpack_nibbles(p + 288 + at * 256, w);
        return;
    }
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

/* The first n_rows of x against a packed panel: y [n_rows][UNIT]. */
LN_INLINE void int8_few(ln_pack pack, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                        float *y) {
    int8_kind kind = int8_kind_of(pack);
    size_t steps = STEPS / kind.n_scales;
    bool narrow = pack == LN_PACK_Q4_0 || pack == LN_PACK_Q4_K || pack == LN_PACK_Q3_K;
    vf sums[4];
    for (size_t i = 0; i < n_rows; i++)
        sums[i] = vf_set(0.0f);
    for (size_t block = 0; block < x->n_blocks; block++) {
        vi w[STEPS];
        vf factors[2] = {vf_set(0.0f), vf_set(0.0f)};
        const int8_block *b = &x->blocks[block];
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
        vf_store(y + i * UNIT, sums[i]);
}

/* Blocks of TILE_ROWS rows of x, from `lane` of their group on, against as many of unpacked panels:
 * added to y [TILE_ROWS][UNIT], or put there when these are the first blocks. */
LN_INLINE void int8_tile(int8_kind kind, size_t n_panels, const uint8_t *w, const int8_block *b,
                         size_t lane, size_t n_blocks, bool first, float *y) {
    const size_t steps = STEPS / kind.n_scales;
    vf sums[TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
    for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++)
            sums[i][p] = first ? vf_set(0.0f) : vf_load(y + i * UNIT + p * LANES);
    for (const int8_block *end = b + n_blocks; b < end; b++, w += UNPACKED_BYTES) {
        const float *factors = (const float *)(const void *)(w + STEPS * STEP_BYTES);
        const int8_t *q = b->q[lane];
#pragma GCC unroll 2
        for (size_t part = 0; part < kind.n_scales; part++) {
            vi acc[TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
            for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
                for (size_t p = 0; p < n_panels; p++)
                    acc[i][p] = vi_set(b->start[part][lane + i]);
#pragma GCC unroll 8
            for (size_t step = part * steps; step < (part + 1) * steps; step++) {
                vi v[TILE_PANELS];
#pragma GCC unroll 2
                for (size_t p = 0; p < n_panels; p++)
                    v[p] = vi_load(w + p * UNPACKED_PANEL + step * STEP_BYTES);
#pragma GCC unroll 8
                for (size_t i = 0; i < TILE_ROWS; i++) {
                    vi x = vi_spread(q + i * LN_PACK_COLS + step * 4);
#pragma GCC unroll 2
                    for (size_t p = 0; p < n_panels; p++)
                        acc[i][p] = dot_bytes(acc[i][p], v[p], x);
                }
            }
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++) {
                vf factor = vf_load(factors + p * (UNPACKED_PANEL / 4) + part * LANES);
#pragma GCC unroll 8
                for (size_t i = 0; i < TILE_ROWS; i++)
                    sums[i][p] = fold(sums[i][p], acc[i][p], factor, b->scale[lane + i]);
            }
        }
        if (kind.has_min)
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++) {
                vf min = vf_load(factors + p * (UNPACKED_PANEL / 4) + LANES);
#pragma GCC unroll 8
                for (size_t i = 0; i < TILE_ROWS; i++)
                    sums[i][p] = vf_fma(min, vf_set(b->min_sum[lane + i]), sums[i][p]);
            }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++)
            vf_store(y + i * UNIT + p * LANES, sums[i][p]);
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
    case LN_PACK_Q5_0: int8_few_of(LN_PACK_Q5_0, n_rows, panel, x, y); return;
    case LN_PACK_Q5_K: int8_few_of(LN_PACK_Q5_K, n_rows, panel, x, y); return;
    case LN_PACK_Q3_K: int8_few_of(LN_PACK_Q3_K, n_rows, panel, x, y); return;
    case LN_PACK_IQ4_NL: int8_few_of(LN_PACK_IQ4_NL, n_rows, panel, x, y); return;
    default: int8_few_of(LN_PACK_Q6_K, n_rows, panel, x, y); return;
    }
}

/* Blocks [first, first + n) of a panel. */
LN_INLINE void int8_unpack_as(ln_pack pack, const uint8_t *panel, size_t first, size_t n,
                              uint8_t *out) {
    for (size_t block = first; block < first + n; block++, out += UNPACKED_BYTES) {
        vi w[STEPS];
        vf factors[2] = {vf_set(0.0f), vf_set(0.0f)};
        unpack_block(pack, panel, block, w, factors);
        for (size_t step = 0; step < STEPS; step++)
            vi_store(out + step * STEP_BYTES, w[step]);
        vf_store((float *)(void *)(out + STEPS * STEP_BYTES), factors[0]);
        vf_store((float *)(void *)(out + STEPS * STEP_BYTES) + LANES, factors[1]);
    }
}

static void int8_unpack(ln_pack pack, const uint8_t *panel, size_t first, size_t n, uint8_t *out) {
    switch (pack) {
    case LN_PACK_Q4_0: int8_unpack_as(LN_PACK_Q4_0, panel, first, n, out); return;
    case LN_PACK_Q8_0: int8_unpack_as(LN_PACK_Q8_0, panel, first, n, out); return;
    case LN_PACK_Q4_K: int8_unpack_as(LN_PACK_Q4_K, panel, first, n, out); return;
    case LN_PACK_Q5_0: int8_unpack_as(LN_PACK_Q5_0, panel, first, n, out); return;
    case LN_PACK_Q5_K: int8_unpack_as(LN_PACK_Q5_K, panel, first, n, out); return;
    case LN_PACK_Q3_K: int8_unpack_as(LN_PACK_Q3_K, panel, first, n, out); return;
    case LN_PACK_IQ4_NL: int8_unpack_as(LN_PACK_IQ4_NL, panel, first, n, out); return;
    default: int8_unpack_as(LN_PACK_Q6_K, panel, first, n, out); return;
    }
}

/* All rows of x against n blocks, from number `first` on, of unpacked panels. */
LN_INLINE void int8_rows_tiles(int8_kind kind, size_t n_panels, const uint8_t *w,
                               const int8_rows *x, size_t n_rows, size_t first, size_t n,
                               float *y) {
    for (size_t row = 0; row < n_rows; row += TILE_ROWS) {
        const int8_block *b = x->blocks + row / GROUP_ROWS * x->n_blocks + first;
        int8_tile(kind, n_panels, w, b, row % GROUP_ROWS, n, first == 0, y + row * UNIT);
    }
}

LN_INLINE void int8_rows_of(int8_kind kind, size_t n_panels, const uint8_t *w, const int8_rows *x,
                            size_t n_rows, size_t first, size_t n, float *y) {
    if (n_panels == TILE_PANELS)
        int8_rows_tiles(kind, TILE_PANELS, w, x, n_rows, first, n, y);
    else
        int8_rows_tiles(kind, 1, w, x, n_rows, first, n, y);
}

static void int8_multiply_rows(ln_pack pack, size_t n_panels, const uint8_t *w, const int8_rows *x,
                               size_t n_rows, size_t first, size_t n, float *y) {
    int8_kind kind = int8_kind_of(pack);
    if (kind.has_min)
        int8_rows_of((int8_kind){0, 1, true}, n_panels, w, x, n_rows, first, n, y);
    else if (kind.n_scales == 2)
        int8_rows_of((int8_kind){0, 2, false}, n_panels, w, x, n_rows, first, n, y);
    else
        int8_rows_of((int8_kind){0, 1, false}, n_panels, w, x, n_rows, first, n, y);
}

#endif
