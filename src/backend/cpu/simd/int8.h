/* y = x W^T for packed int8 and narrower weights (backend/cpu/pack.h): x in blocks of 32 int8 with
 * a float32 scale, exact int32 sums within a block, float32 sums over the blocks in order. Weights
 * of checkpoints that know nothing of this rounding (I8, I4, MXFP4) meet x in 16 bits, as 256 times
 * one block and another one, whose sums are one sum in int32.
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
#include <string.h>

#include "backend/cpu/simd/unpack.h"
#include "base/error.h"

/* An unpacked block: 8 steps, then two vectors of factors: the scale and the minimum. */
enum { UNPACKED_BYTES = STEPS * STEP_BYTES + 2 * 64 };

/* Panels that a worker multiplies side by side: a row of y has UNIT columns. UNPACKED_PANEL: bytes
 * for as many blocks of one panel, here and in super.h. */
enum { UNIT = TILE_PANELS * LANES, UNPACK_BLOCKS = 16, UNPACKED_PANEL = 2 * 9 * UNPACKED_BYTES };

typedef struct int8_kind {
    int32_t offset; /* of the stored quants */
    bool has_min;   /* w = q * scale + min */
    size_t n_parts; /* blocks of int8 that 32 columns of x are: 1, or 2, the high parts first */
} int8_kind;

LN_INLINE int8_kind int8_kind_of(ln_pack pack) {
    switch (pack) {
    case LN_PACK_Q4_0: return (int8_kind){8, false, 1};
    case LN_PACK_Q5_0: return (int8_kind){16, false, 1};
    case LN_PACK_Q1_0:
    case LN_PACK_Q2_0: return (int8_kind){1, false, 1};
    case LN_PACK_Q8_0:
    case LN_PACK_IQ4_NL: return (int8_kind){BYTE_OFFSET, false, 1};
    case LN_PACK_I8:
    case LN_PACK_MXFP4: return (int8_kind){BYTE_OFFSET, false, 2};
    case LN_PACK_I4: return (int8_kind){0, true, 2};
    default: return (int8_kind){0, true, 1};
    }
}

/* X(T) for each of these layouts, LN_PACK_T: so what X calls is compiled for that one alone. */
#define INT8_PACKS(X)                                                                              \
    X(Q4_0) X(Q5_0) X(Q8_0) X(IQ4_NL) X(I8) X(MXFP4) X(I4) X(Q4_1) X(Q5_1) X(Q1_0) X(Q2_0)

/* 32 columns of 16 rows of x, quantised for one kind of weight. */
enum { GROUP_ROWS = 16 };
typedef struct int8_block {
    int8_t q[GROUP_ROWS][LN_PACK_COLS];
    float scale[GROUP_ROWS];
    float min_sum[GROUP_ROWS]; /* scale * sum(q): what a minimum is multiplied by; both are in the
                                  first of two parts, for both */
    int32_t start[GROUP_ROWS]; /* -offset * sum(q) */
} int8_block;

typedef struct int8_rows {
    size_t n_blocks, n_parts;
    int8_block *blocks; /* [n_rows / 16][n_blocks][n_parts] */
} int8_rows;

/* Bytes per row, of whole groups of rows. */
LN_INLINE size_t int8_row_bytes(int8_kind kind, size_t k) {
    return k / LN_PACK_COLS * kind.n_parts * (sizeof(int8_block) / GROUP_ROWS);
}

static int8_rows int8_place(void *memory, int8_kind kind, size_t k) {
    return (int8_rows){.n_blocks = k / LN_PACK_COLS, .n_parts = kind.n_parts, .blocks = memory};
}

/* Where block `block` of the group of `row` begins. */
LN_INLINE const int8_block *int8_at(const int8_rows *x, size_t row, size_t block) {
    return x->blocks + (row / GROUP_ROWS * x->n_blocks + block) * x->n_parts;
}

/* q of up to 16 bits becomes 256 times what is put at `high`, and what is put at `low`. */
LN_INLINE void split_words(vi q, int8_t *high, int8_t *low) {
    vi up = vi_add(vi_shr(vi_add(q, vi_set(0x8080)), 8), vi_set(-0x80));
    vi_store_i8(high, up);
    vi_store_i8(low, vi_add(q, vi_mul(up, vi_set(-0x100))));
}

/* The first n rows of a group of 16: block after block, so that each is written once. */
LN_INLINE void int8_quantize_as(const int8_rows *rows, size_t group, int8_kind kind, size_t n,
                                const float *const *x) {
    const float range = kind.n_parts == 2 ? 127.0f * 256.0f : 127.0f;
    int8_block *out = rows->blocks + group * rows->n_blocks * kind.n_parts;
    for (size_t block = 0; block < rows->n_blocks; block++, out += kind.n_parts) {
        float largest[GROUP_ROWS] = {0}, inverse[GROUP_ROWS];
        int32_t sums[2][GROUP_ROWS] = {{0}};
        for (size_t i = 0; i < n; i++) {
            const float *from = x[i] + block * LN_PACK_COLS;
            largest[i] = vf_largest(vf_max(vf_abs(vf_load(from)), vf_abs(vf_load(from + LANES))));
        }
        vf most = vf_load(largest), scale = vf_mul(most, vf_set(1.0f / range));
        /* rows of next to nothing become zeros */
        vf_store(inverse, vf_div(vf_set(range), vf_max(most, vf_set(1e-30f))));
        for (size_t i = 0; i < n; i++) {
            const float *from = x[i] + block * LN_PACK_COLS;
            vi p = vi_round(vf_mul(vf_load(from), vf_set(inverse[i])));
            vi q = vi_round(vf_mul(vf_load(from + LANES), vf_set(inverse[i])));
            sums[0][i] = vi_sum(vi_add(p, q));
            if (kind.n_parts == 1) {
                vi_store_i8(out->q[i], p);
                vi_store_i8(out->q[i] + LANES, q);
                continue;
            }
            split_words(p, out[0].q[i], out[1].q[i]);
            split_words(q, out[0].q[i] + LANES, out[1].q[i] + LANES);
            sums[1][i] = vi_sum(vi_add(vi_from_i8(out[1].q[i]), vi_from_i8(out[1].q[i] + LANES)));
        }
        vi sum = vi_load(sums[0]), low = vi_load(sums[1]);
        vf_store(out->scale, scale);
        vf_store(out->min_sum, vf_mul(scale, vf_from_i(sum)));
        if (kind.n_parts == 2) { /* the sum is 256 of the high parts' and that of the low parts */
            vi_store(out[1].start, vi_mul(vi_set(-kind.offset), low));
            for (size_t i = 0; i < GROUP_ROWS; i++)
                out->start[i] = -kind.offset * ((sums[0][i] - sums[1][i]) / 256);
        } else {
            vi_store(out->start, vi_mul(vi_set(-kind.offset), sum));
        }
    }
}

static void int8_quantize(const int8_rows *rows, size_t group, int8_kind kind, size_t n,
                          const float *const *x) {
    if (kind.n_parts == 2)
        int8_quantize_as(rows, group, (int8_kind){kind.offset, kind.has_min, 2}, n, x);
    else
        int8_quantize_as(rows, group, (int8_kind){kind.offset, kind.has_min, 1}, n, x);
}

/* Blocks of int8 that a row takes alone. */
LN_INLINE size_t int8_alone_blocks(const int8_rows *rows) {
    return (rows->n_blocks + GROUP_ROWS - 1) / GROUP_ROWS * rows->n_parts;
}

/* A row that lies alone, as few rows do: 16 blocks of its columns are where a block of 16 rows
 * would be. All of it then fits the first-level cache beside the weights that stream through. */
static void int8_quantize_alone(const int8_rows *rows, size_t row, int8_kind kind, const float *x) {
    int8_rows part = {.n_blocks = 1, .n_parts = kind.n_parts};
    part.blocks = rows->blocks + row * int8_alone_blocks(rows);
    for (size_t first = 0; first < rows->n_blocks; first += GROUP_ROWS) {
        const float *blocks[GROUP_ROWS];
        size_t left = rows->n_blocks - first, n = left < GROUP_ROWS ? left : GROUP_ROWS;
        for (size_t i = 0; i < n; i++)
            blocks[i] = x + (first + i) * LN_PACK_COLS;
        int8_quantize(&part, 0, kind, n, blocks);
        part.blocks += kind.n_parts;
    }
}

/* Row `row` of x becomes row `to` of `out`, where rows lie in groups or alone. */
static void int8_copy(const int8_rows *x, size_t row, const int8_rows *out, size_t to, bool alone) {
    const int8_block *a = int8_at(x, row, 0);
    int8_block *b = out->blocks + (alone ? to * int8_alone_blocks(out)
                                         : to / GROUP_ROWS * out->n_blocks * out->n_parts);
    for (size_t block = 0; block < x->n_blocks; block++)
        for (size_t part = 0; part < x->n_parts; part++, a++) {
            int8_block *at = b + (alone ? block / GROUP_ROWS : block) * out->n_parts + part;
            size_t from = row % GROUP_ROWS, lane = (alone ? block : to) % GROUP_ROWS;
            memcpy(at->q[lane], a->q[from], sizeof a->q[from]);
            at->scale[lane] = a->scale[from];
            at->min_sum[lane] = a->min_sum[from];
            at->start[lane] = a->start[from];
        }
}

/* Block number `block` of a panel into registers. */
LN_INLINE void unpack_block(ln_pack pack, const uint8_t *panel, size_t block, vi w[STEPS],
                            vf factors[2]) {
    const uint8_t *p = panel + block * ln_pack_shapes[pack].bytes;
    switch (pack) {
    case LN_PACK_Q8_0:
        factors[0] = half_row(p);
        for (size_t step = 0; step < STEPS; step++)
            w[step] = vi_load_bytes(p + 32 + step * STEP_BYTES);
        return;
    case LN_PACK_I8:
        factors[0] = float_row(p);
        for (size_t step = 0; step < STEPS; step++)
            w[step] = vi_load_bytes(p + 64 + step * STEP_BYTES);
        return;
    case LN_PACK_I4:
        factors[0] = float_row(p);
        factors[1] = vf_mul(vf_from_i(vi_mul(vi_from_u8(p + 64), vi_set(-1))), factors[0]);
        unpack_nibbles(p + 80, w);
        return;
    case LN_PACK_MXFP4:
        factors[0] = vf_scale2(vf_set(0.5f), vi_add(vi_from_u8(p), vi_set(-127)));
        unpack_nibbles(p + 16, w);
        look_up(ln_pack_fp4, w);
        return;
    case LN_PACK_Q4_0:
    case LN_PACK_IQ4_NL:
        factors[0] = half_row(p);
        unpack_nibbles(p + 32, w);
        if (pack == LN_PACK_IQ4_NL)
            look_up(ln_pack_iq4, w);
        return;
    case LN_PACK_Q5_0:
        factors[0] = half_row(p);
        unpack_nibbles(p + 32, w);
        unpack_bits(p + 288, 4, w);
        return;
    case LN_PACK_Q1_0:
        factors[0] = half_row(p);
        for (size_t step = 0; step < STEPS; step++)
            w[step] = vi_set(0);
        unpack_bits(p + 32, 1, w);
        return;
    case LN_PACK_Q2_0:
        factors[0] = half_row(p);
        unpack_twos(p + 32, w);
        return;
    case LN_PACK_Q4_1:
        factors[0] = half_row(p);
        factors[1] = half_row(p + 32);
        unpack_nibbles(p + 64, w);
        return;
    case LN_PACK_Q5_1:
        factors[0] = half_row(p);
        factors[1] = half_row(p + 32);
        unpack_nibbles(p + 64, w);
        unpack_bits(p + 320, 4, w);
        return;
    default: LN_BUG_ON(true);
    }
}

/* sum + acc * factor * scale of x */
LN_INLINE vf fold(vf sum, vi acc, vf factor, float scale) {
    return vf_fma(vf_from_i(acc), vf_mul(factor, vf_set(scale)), sum);
}

/* From the sums of high parts, what those of low parts are added to. */
LN_INLINE vi next_part(vi acc, int32_t start) {
    return vi_add(vi_shl(acc, 8), vi_set(start));
}

/* The first n_rows of x, which lie alone, against a packed panel: y [n_rows][UNIT]. `ahead`: bytes
 * that are fetched in front, 0 for none. */
LN_INLINE void int8_small_m(ln_pack pack, size_t n_rows, const uint8_t *panel, const int8_rows *x,
                            size_t ahead, float *y) {
    int8_kind kind = int8_kind_of(pack);
    const size_t row_blocks = int8_alone_blocks(x), bytes = ln_pack_shapes[pack].bytes;
    vf sums[4];
    for (size_t i = 0; i < n_rows; i++)
        sums[i] = vf_set(0.0f);
    for (size_t block = 0; block < x->n_blocks; block++) {
        vi w[STEPS];
        vf factors[2] = {vf_set(0.0f), vf_set(0.0f)};
        const int8_block *b = &x->blocks[block / GROUP_ROWS * kind.n_parts];
        size_t at = block % GROUP_ROWS;
        unpack_block(pack, panel, block, w, factors);
        if (ahead > 0)
            fetch_far(panel + block * bytes + ahead, bytes);
        for (size_t i = 0; i < n_rows; i++, b += row_blocks) {
            vi acc = dot_steps(is_sub_byte(pack), vi_set(b->start[at]), w, b->q[at], 0, STEPS);
            if (kind.n_parts == 2)
                acc = dot_steps(is_sub_byte(pack), next_part(acc, b[1].start[at]), w, b[1].q[at], 0,
                                STEPS);
            sums[i] = fold(sums[i], acc, factors[0], b->scale[at]);
            if (kind.has_min)
                sums[i] = vf_fma(factors[1], vf_set(b->min_sum[at]), sums[i]);
        }
    }
    for (size_t i = 0; i < n_rows; i++)
        vf_store(y + i * UNIT, sums[i]);
}

/* Adds the products of steps [begin, end) of a block with 32 columns of TILE_ROWS rows of x,
 * row_bytes apart. */
LN_INLINE void tile_steps(size_t n_panels, const uint8_t *w, const int8_t *q, size_t row_bytes,
                          size_t begin, size_t end, vi acc[TILE_ROWS][TILE_PANELS]) {
#pragma GCC unroll 8
    for (size_t step = begin; step < end; step++) {
        vi v[TILE_PANELS];
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++)
            v[p] = vi_load(w + p * UNPACKED_PANEL + step * STEP_BYTES);
#pragma GCC unroll 8
        for (size_t i = 0; i < TILE_ROWS; i++) {
            vi x = vi_spread(q + i * row_bytes + step * 4);
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++)
                acc[i][p] = dot_bytes(acc[i][p], v[p], x);
        }
    }
}

/* Blocks of TILE_ROWS rows of x, from `lane` of their group on, against as many of unpacked panels:
 * added to y [TILE_ROWS][UNIT], or put there when these are the first blocks. */
LN_INLINE void int8_tile(int8_kind kind, size_t n_panels, const uint8_t *w, const int8_block *b,
                         size_t lane, size_t n_blocks, bool first, float *y) {
    vf sums[TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
    for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++)
            sums[i][p] = first ? vf_set(0.0f) : vf_load(y + i * UNIT + p * LANES);
    for (const int8_block *end = b + n_blocks * kind.n_parts; b < end;
         b += kind.n_parts, w += UNPACKED_BYTES) {
        const float *factors = (const float *)(const void *)(w + STEPS * STEP_BYTES);
        vi acc[TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
        for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++)
                acc[i][p] = vi_set(b->start[lane + i]);
        tile_steps(n_panels, w, b->q[lane], LN_PACK_COLS, 0, STEPS, acc);
        if (kind.n_parts == 2) {
#pragma GCC unroll 8
            for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
                for (size_t p = 0; p < n_panels; p++)
                    acc[i][p] = next_part(acc[i][p], b[1].start[lane + i]);
            tile_steps(n_panels, w, b[1].q[lane], LN_PACK_COLS, 0, STEPS, acc);
        }
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++) {
            vf factor = vf_load(factors + p * (UNPACKED_PANEL / 4));
#pragma GCC unroll 8
            for (size_t i = 0; i < TILE_ROWS; i++)
                sums[i][p] = fold(sums[i][p], acc[i][p], factor, b->scale[lane + i]);
            if (!kind.has_min)
                continue;
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

/* Whether tiles read a panel as it is packed, nibbles only where shifts and masks hide behind the
 * products. */
LN_INLINE bool is_direct(ln_pack pack, bool hides_shifts) {
    return DIRECT_TILES && ((pack == LN_PACK_Q4_0 && hides_shifts) || pack == LN_PACK_Q8_0);
}

/* Bytes of a block of 32 columns of a panel that tiles read directly. */
LN_INLINE size_t direct_bytes(ln_pack pack) {
    return pack == LN_PACK_Q8_0 ? 544 : 288;
}

/* A sum over a block is begun in so many places, since two products may begin in a cycle, and each
 * takes four. */
enum { CHAINS = 2 };

/* The same as tile_steps over a whole block, whose quants lie at w as nibbles (2 halves) or bytes
 * in packed panels, panel_bytes apart. */
LN_INLINE void direct_steps(size_t halves, size_t n_panels, const uint8_t *w, size_t panel_bytes,
                            const int8_t *q, size_t row_bytes,
                            vi acc[CHAINS][TILE_ROWS][TILE_PANELS]) {
#pragma GCC unroll 8
    for (size_t step = 0; step < STEPS / halves; step++) {
        vi v[2][TILE_PANELS];
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++) {
            vi both = vi_load(w + p * panel_bytes + step * STEP_BYTES);
            v[0][p] = halves == 1 ? both : low_nibbles(both);
            v[1][p] = halves == 1 ? both : low_nibbles(vi_shr(both, 4));
        }
#pragma GCC unroll 2
        for (size_t half = 0; half < halves; half++) {
            vi(*sums)[TILE_PANELS] = acc[(halves == 1 ? step : half) % CHAINS];
#pragma GCC unroll 8
            for (size_t i = 0; i < TILE_ROWS; i++) {
                vi x = vi_spread(q + i * row_bytes + (step + half * STEPS / 2) * 4);
#pragma GCC unroll 2
                for (size_t p = 0; p < n_panels; p++)
                    sums[i][p] = dot_bytes(sums[i][p], v[half][p], x);
            }
        }
    }
}

/* int8_tile over blocks of packed panels, panel_bytes apart; the same bits. */
LN_INLINE void direct_tile(ln_pack pack, size_t n_panels, const uint8_t *w, size_t panel_bytes,
                           const int8_block *b, size_t lane, size_t n_blocks, bool first,
                           float *y) {
    vf sums[TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
    for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++)
            sums[i][p] = first ? vf_set(0.0f) : vf_load(y + i * UNIT + p * LANES);
    for (const int8_block *end = b + n_blocks; b < end; b++, w += direct_bytes(pack)) {
        vi acc[CHAINS][TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
        for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++) {
                acc[0][i][p] = vi_set(b->start[lane + i]);
                acc[1][i][p] = vi_set(0);
            }
        direct_steps(pack == LN_PACK_Q8_0 ? 1 : 2, n_panels, w + 32, panel_bytes, b->q[lane],
                     LN_PACK_COLS, acc);
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++) {
            vf factor = half_row(w + p * panel_bytes);
#pragma GCC unroll 8
            for (size_t i = 0; i < TILE_ROWS; i++)
                sums[i][p] = fold(sums[i][p], vi_add(acc[0][i][p], acc[1][i][p]), factor,
                                  b->scale[lane + i]);
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++)
            vf_store(y + i * UNIT + p * LANES, sums[i][p]);
}

/* Lines of the next panels that are fetched while the current ones meet n_rows rows: some by each
 * tile, so that they do not wait for one another. */
typedef struct fetcher {
    const uint8_t *at[TILE_PANELS];
    size_t bytes; /* of each */
} fetcher;

LN_INLINE void fetch_some(fetcher *f, size_t n_panels, size_t bytes) {
    bytes = bytes < f->bytes ? bytes : f->bytes;
    for (size_t p = 0; p < n_panels; p++) {
        for (size_t i = 0; i < bytes; i += 64)
            __builtin_prefetch(f->at[p] + i, 0, 2);
        f->at[p] += bytes;
    }
    f->bytes -= bytes;
}

LN_INLINE void direct_rows_of(ln_pack pack, size_t n_panels, const uint8_t *w, size_t panel_bytes,
                              fetcher next, const int8_rows *x, size_t n_rows, size_t first,
                              size_t n, float *y) {
    size_t n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
    size_t share = (next.bytes / n_tiles + 63) / 64 * 64;
    for (size_t row = 0; row < n_rows; row += TILE_ROWS) {
        const int8_block *b = int8_at(x, row, first);
        fetch_some(&next, n_panels, share);
        direct_tile(pack, n_panels, w, panel_bytes, b, row % GROUP_ROWS, n, first == 0,
                    y + row * UNIT);
    }
}

/* All rows of x against n blocks, from number `first` on, of packed panels. */
static void direct_multiply_rows(ln_pack pack, size_t n_panels, const uint8_t *w,
                                 size_t panel_bytes, fetcher next, const int8_rows *x,
                                 size_t n_rows, size_t first, size_t n, float *y) {
    bool whole = n_panels == TILE_PANELS;
    if (pack == LN_PACK_Q4_0 && whole)
        direct_rows_of(LN_PACK_Q4_0, TILE_PANELS, w, panel_bytes, next, x, n_rows, first, n, y);
    else if (pack == LN_PACK_Q4_0)
        direct_rows_of(LN_PACK_Q4_0, 1, w, panel_bytes, next, x, n_rows, first, n, y);
    else if (whole)
        direct_rows_of(LN_PACK_Q8_0, TILE_PANELS, w, panel_bytes, next, x, n_rows, first, n, y);
    else
        direct_rows_of(LN_PACK_Q8_0, 1, w, panel_bytes, next, x, n_rows, first, n, y);
}

LN_INLINE void int8_small_m_of(ln_pack pack, size_t n_rows, const uint8_t *panel,
                               const int8_rows *x, size_t ahead, float *y) {
    switch (n_rows) {
    case 1: int8_small_m(pack, 1, panel, x, ahead, y); return;
    case 2: int8_small_m(pack, 2, panel, x, ahead, y); return;
    case 3: int8_small_m(pack, 3, panel, x, ahead, y); return;
    default: int8_small_m(pack, 4, panel, x, ahead, y); return;
    }
}

/* The first rows of x, up to 4, which lie alone, against a packed panel. */
static void int8_multiply_small_m(ln_pack pack, size_t n_rows, const uint8_t *panel,
                                  const int8_rows *x, size_t ahead, float *y) {
#define MULTIPLY(T)                                                                                \
    case LN_PACK_##T: int8_small_m_of(LN_PACK_##T, n_rows, panel, x, ahead, y); return;
    switch (pack) {
        INT8_PACKS(MULTIPLY)
    default: LN_BUG_ON(true);
    }
#undef MULTIPLY
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
#define UNPACK(T)                                                                                  \
    case LN_PACK_##T: int8_unpack_as(LN_PACK_##T, panel, first, n, out); return;
    switch (pack) {
        INT8_PACKS(UNPACK)
    default: LN_BUG_ON(true);
    }
#undef UNPACK
}

/* All rows of x against n blocks, from number `first` on, of unpacked panels. */
LN_INLINE void int8_rows_tiles(int8_kind kind, size_t n_panels, const uint8_t *w,
                               const int8_rows *x, size_t n_rows, size_t first, size_t n,
                               float *y) {
    for (size_t row = 0; row < n_rows; row += TILE_ROWS) {
        const int8_block *b = int8_at(x, row, first);
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
    if (kind.n_parts == 2 && kind.has_min)
        int8_rows_of((int8_kind){0, true, 2}, n_panels, w, x, n_rows, first, n, y);
    else if (kind.n_parts == 2)
        int8_rows_of((int8_kind){0, false, 2}, n_panels, w, x, n_rows, first, n, y);
    else if (kind.has_min)
        int8_rows_of((int8_kind){0, true, 1}, n_panels, w, x, n_rows, first, n, y);
    else
        int8_rows_of((int8_kind){0, false, 1}, n_panels, w, x, n_rows, first, n, y);
}

#endif
