/* y = x W^T for packed weights whose blocks have integer scales under one float16 scale for 256
 * columns (backend/cpu/pack.h): x in int8 with one float32 scale per 256 columns. Sums of products,
 * times the integer scales, are exact in int32 over all 256 columns; so are the sums of x times the
 * integer minimums. Only then do they become float32.
 *
 * A sum depends on its row of x and its row of W alone, as in int8.h, which says how panels are
 * unpacked and tiled. */
#ifndef LN_BACKEND_CPU_SIMD_SUPER_H
#define LN_BACKEND_CPU_SIMD_SUPER_H

#include <string.h>

#include "backend/cpu/simd/grid.h"
#include "backend/cpu/simd/int8.h"
#include "base/error.h"

enum { SUPER_COLS = LN_PACK_SUPER, SUPER_BLOCKS = SUPER_COLS / LN_PACK_COLS, MAX_PARTS = 16 };

/* Unpacked: 8 blocks, each 8 steps and the int32 scales of its parts; then pairs of minimums as
 * int16 [8][16], the scale, and what the minimums are multiplied by. */
enum {
    UNPACK_SUPERS = 2,
    MIN_BYTES = MAX_PARTS / 2 * 64,
    UNPACKED_SUPER = SUPER_BLOCKS * UNPACKED_BYTES + MIN_BYTES + 2 * 64
};

typedef struct super_kind {
    int32_t offset; /* of the stored quants */
    size_t n_parts; /* of a block: 1 or 2, each with its scale */
    bool has_min;   /* w = q * scale - min, and then there is no offset */
    bool in_words; /* sums over 16 columns fit in 16 bits, and one operation scales and adds them */
} super_kind;

LN_INLINE super_kind super_kind_of(ln_pack pack) {
    if (ln_is_grid(pack))
        return (super_kind){GRID_OFFSET, ln_grid_shape_of(pack).n_parts, false, false};
    switch (pack) {
    case LN_PACK_TQ1_0:
    case LN_PACK_TQ2_0: return (super_kind){1, 1, false, false};
    case LN_PACK_Q6_K: return (super_kind){32, 2, false, false};
    case LN_PACK_Q3_K: return (super_kind){4, 2, false, WORD_SCALES};
    case LN_PACK_IQ4_XS: return (super_kind){BYTE_OFFSET, 1, false, false};
    case LN_PACK_Q2_K: return (super_kind){0, 2, true, WORD_SCALES};
    case LN_PACK_Q4_K: return (super_kind){0, 1, true, WORD_SCALES};
    case LN_PACK_Q5_K: return (super_kind){0, 1, true, false};
    default: LN_BUG_ON(true); return (super_kind){0, 0, false, false};
    }
}

/* As INT8_PACKS; those of codebooks are GRID_PACKS. */
#define SUPER_PACKS(X) X(Q4_K) X(Q5_K) X(Q6_K) X(Q3_K) X(Q2_K) X(IQ4_XS) X(TQ1_0) X(TQ2_0)

LN_INLINE bool is_super(ln_pack pack) {
    return ln_pack_shapes[pack].cols == SUPER_COLS;
}

/* 256 columns of 16 rows of x, quantised for one kind of weight. */
typedef struct super_block {
    int8_t q[GROUP_ROWS][SUPER_COLS];
    float scale[GROUP_ROWS];
    int32_t start[MAX_PARTS][GROUP_ROWS]; /* -offset * sum(q) over each part */
    int16_t sums[GROUP_ROWS][MAX_PARTS];  /* sum(q) over each part: what minimums meet */
} super_block;

typedef struct super_rows {
    size_t n_supers;
    super_block *supers; /* [n_rows / 16][n_supers] */
} super_rows;

/* Bytes per row, of whole groups of rows. */
LN_INLINE size_t super_row_bytes(size_t k) {
    return k / SUPER_COLS * (sizeof(super_block) / GROUP_ROWS);
}

static super_rows super_place(void *memory, size_t k) {
    return (super_rows){.n_supers = k / SUPER_COLS, .supers = memory};
}

/* Sums of 16 columns each of 256. */
LN_INLINE vi super_sums(const int8_t *q) {
    int32_t sums[SUPER_COLS / 4]; /* of 4 columns, then of 8 */
    const vi ones = vi_set(0x01010101);
    vi even, odd;
    for (size_t i = 0; i < SUPER_COLS / 4; i += LANES)
        vi_store(sums + i, dot_nibbles(vi_set(0), ones, vi_load(q + i * 4)));
    for (size_t i = 0; i < SUPER_COLS / 8; i += LANES) {
        vi_load_pairs(sums + 2 * i, &even, &odd);
        vi_store(sums + i, vi_add(even, odd));
    }
    vi_load_pairs(sums, &even, &odd);
    return vi_add(even, odd);
}

/* 256 columns of one row. */
LN_INLINE void super_quantize_row(super_kind kind, const float *from, super_block *out,
                                  size_t row) {
    vf most = vf_abs(vf_load(from));
    for (size_t i = LANES; i < SUPER_COLS; i += LANES)
        most = vf_max(most, vf_abs(vf_load(from + i)));
    float largest = vf_largest(most), least = 1e-30f; /* a row of next to nothing becomes zeros */
    vf inverse = vf_set(127.0f / (largest > least ? largest : least));
    int32_t sums[SUPER_COLS / LANES];
    for (size_t i = 0; i < SUPER_COLS; i += LANES) {
        vi q = vi_round(vf_mul(vf_load(from + i), inverse));
        vi_store_i8(out->q[row] + i, q);
    }
    vi_store(sums, super_sums(out->q[row]));
    out->scale[row] = largest * (1.0f / 127.0f);
    size_t per_part = 2 / kind.n_parts;
    for (size_t part = 0; part < SUPER_BLOCKS * kind.n_parts; part++) {
        int32_t sum = sums[part * per_part] + (per_part == 2 ? sums[part * per_part + 1] : 0);
        out->start[part][row] = -kind.offset * sum;
        out->sums[row][part] = (int16_t)sum;
    }
}

/* The first n rows of a group of 16. */
static void super_quantize(const super_rows *rows, size_t group, super_kind kind, size_t n,
                           const float *const *x) {
    super_block *out = rows->supers + group * rows->n_supers;
    for (size_t super = 0; super < rows->n_supers; super++, out++)
        for (size_t i = 0; i < n; i++)
            super_quantize_row(kind, x[i] + super * SUPER_COLS, out, i);
}

/* Blocks of 256 columns that a row takes alone. */
LN_INLINE size_t super_alone_blocks(const super_rows *rows) {
    return (rows->n_supers + GROUP_ROWS - 1) / GROUP_ROWS;
}

/* A row that lies alone, as int8_quantize_alone has it. */
static void super_quantize_alone(const super_rows *rows, size_t row, super_kind kind,
                                 const float *x) {
    super_block *out = rows->supers + row * super_alone_blocks(rows);
    for (size_t super = 0; super < rows->n_supers; super++)
        super_quantize_row(kind, x + super * SUPER_COLS, out + super / GROUP_ROWS,
                           super % GROUP_ROWS);
}

/* Row `row` of x becomes row `to` of `out`, where rows lie in groups or alone. */
static void super_copy(const super_rows *x, size_t row, super_kind kind, const super_rows *out,
                       size_t to, bool alone) {
    const super_block *a = x->supers + row / GROUP_ROWS * x->n_supers;
    super_block *b =
        out->supers + (alone ? to * super_alone_blocks(out) : to / GROUP_ROWS * out->n_supers);
    for (size_t super = 0; super < x->n_supers; super++, a++) {
        super_block *at = b + (alone ? super / GROUP_ROWS : super);
        size_t from = row % GROUP_ROWS, lane = (alone ? super : to) % GROUP_ROWS;
        memcpy(at->q[lane], a->q[from], sizeof a->q[from]);
        memcpy(at->sums[lane], a->sums[from], sizeof a->sums[from]);
        at->scale[lane] = a->scale[from];
        for (size_t part = 0; !kind.has_min && part < SUPER_BLOCKS * kind.n_parts; part++)
            at->start[part][lane] = a->start[part][from];
    }
}

/* Bytes of 256 columns of a panel. */
LN_INLINE size_t super_bytes(ln_pack pack) {
    return ln_pack_shapes[pack].bytes;
}

/* The scales of a block's two parts that lie as int8. */
LN_INLINE void load_scales(const uint8_t *p, vi scales[2]) {
    scales[0] = vi_from_i8((const int8_t *)p);
    scales[1] = vi_from_i8((const int8_t *)p + LANES);
}

/* What comes before the quants of 256 columns, at most; it may take some of the quants along. */
enum { HEAD_BYTES = 320 };

/* Block `at` of the 256 columns at p, whose scales are those at `head`. */
LN_INLINE void super_unpack_block(ln_pack pack, const uint8_t *head, const uint8_t *p, size_t at,
                                  vi w[STEPS], vi scales[2]) {
    switch (pack) {
    case LN_PACK_Q4_K:
        scales[0] = vi_from_u8(head + 64 + at * LANES);
        unpack_nibbles(p + 320 + at * 256, w);
        return;
    case LN_PACK_Q5_K:
        scales[0] = vi_from_u8(head + 64 + at * LANES);
        unpack_nibbles(p + 320 + at * 320, w);
        unpack_bits(p + 320 + at * 320 + 256, 4, w);
        return;
    case LN_PACK_Q3_K:
        load_scales(head + 32 + at * 2 * LANES, scales);
        unpack_twos(p + 288 + at * 192, w);
        unpack_bits(p + 288 + at * 192 + 128, 2, w);
        return;
    case LN_PACK_Q2_K:
        scales[0] = vi_and(vi_from_u8(head + 64 + at * 2 * LANES), vi_set(0xf));
        scales[1] = vi_and(vi_from_u8(head + 64 + (at * 2 + 1) * LANES), vi_set(0xf));
        unpack_twos(p + 320 + at * 128, w);
        return;
    case LN_PACK_IQ4_XS:
        scales[0] = vi_from_i8((const int8_t *)head + 32 + at * LANES);
        unpack_nibbles(p + 160 + at * 256, w);
        look_up(ln_pack_iq4, w);
        return;
    case LN_PACK_TQ1_0:
        scales[0] = vi_set(1);
        unpack_trits(p + 32, at, w);
        return;
    case LN_PACK_TQ2_0:
        scales[0] = vi_set(1);
        unpack_twos(p + 32 + at * 128, w);
        return;
    case LN_PACK_Q6_K:
        load_scales(head + 32 + at * 2 * LANES, scales);
        unpack_sixes(p + 288 + at * 384, w);
        return;
    default: LN_BUG_ON(true);
    }
}

/* Minimums 2 i and 2 i + 1 of the 256 columns at p, side by side as int16. */
LN_INLINE vi super_min_pair(ln_pack pack, const uint8_t *p, size_t i) {
    const uint8_t *mins = p + (pack == LN_PACK_Q2_K ? 64 : 192) + i * 2 * LANES;
    vi even = vi_from_u8(mins), odd = vi_from_u8(mins + LANES);
    if (pack == LN_PACK_Q2_K) { /* upper nibbles */
        even = vi_shr(even, 4);
        odd = vi_shr(odd, 4);
    }
    return vi_or(even, vi_shl(odd, 16));
}

/* sum + the exact sums over 256 columns, times scales of W and of x */
LN_INLINE vf super_fold(vf sum, vi total, vf factor, float scale) {
    return vf_fma(vf_from_i(total), vf_mul(factor, vf_set(scale)), sum);
}

/* The first n_rows of x, which lie alone, against a packed panel: y [n_rows][UNIT]. The
 * head of 256 columns is copied first, so that memory is read from end to end. `ahead` and
 * `far`: as a worker's. */
LN_INLINE void super_small_m(ln_pack pack, size_t n_rows, const uint8_t *p, const super_rows *x,
                             size_t ahead, bool far, float *y) {
    super_kind kind = super_kind_of(pack);
    const size_t steps = STEPS / kind.n_parts, row_blocks = super_alone_blocks(x);
    const size_t share = super_bytes(pack) / SUPER_BLOCKS; /* what a block fetches */
    vf sums[4];
    for (size_t i = 0; i < n_rows; i++)
        sums[i] = vf_set(0.0f);
    for (size_t super = 0; super < x->n_supers; super++, p += super_bytes(pack)) {
        const super_block *first = &x->supers[super / GROUP_ROWS];
        size_t here = super % GROUP_ROWS;
        uint8_t head[HEAD_BYTES];
        for (size_t i = 0; i < HEAD_BYTES; i += 64)
            vi_store(head + i, vi_load(p + i));
        vi totals[4];
        for (size_t i = 0; i < n_rows; i++)
            totals[i] = vi_set(0);
#pragma GCC unroll 1
        for (size_t at = 0; at < SUPER_BLOCKS; at++) {
            vi w[STEPS], scales[2];
            super_unpack_block(pack, head, p, at, w, scales);
            if (far)
                fetch_far(p + at * share + ahead, share);
            else if (ahead > 0)
                fetch_near(p + at * share + ahead, share);
            const super_block *b = first;
            for (size_t i = 0; i < n_rows; i++, b += row_blocks)
                for (size_t part = 0; part < kind.n_parts; part++) {
                    size_t number = at * kind.n_parts + part;
                    vi start = vi_set(kind.has_min ? 0 : b->start[number][here]);
                    vi acc = dot_steps(is_sub_byte(pack), start, w, b->q[here] + at * LN_PACK_COLS,
                                       part * steps, (part + 1) * steps);
                    totals[i] = vi_add(totals[i], vi_mul(acc, scales[part]));
                }
        }
        for (size_t i = 0; i < n_rows; i++)
            sums[i] =
                super_fold(sums[i], totals[i], half_row(head), first[i * row_blocks].scale[here]);
        if (!kind.has_min)
            continue;
        vf factor = vf_mul(half_row(head + 32), vf_set(-1.0f));
        for (size_t i = 0; i < n_rows; i++)
            totals[i] = vi_set(0);
        for (size_t pair = 0; pair < SUPER_BLOCKS * kind.n_parts / 2; pair++) {
            vi mins = super_min_pair(pack, head, pair);
            for (size_t i = 0; i < n_rows; i++)
                totals[i] = dot_words(
                    totals[i], mins,
                    vi_spread((const int8_t *)&first[i * row_blocks].sums[here][pair * 2]));
        }
        for (size_t i = 0; i < n_rows; i++)
            sums[i] = super_fold(sums[i], totals[i], factor, first[i * row_blocks].scale[here]);
    }
    for (size_t i = 0; i < n_rows; i++)
        vf_store(y + i * UNIT, sums[i]);
}

LN_INLINE void super_small_m_of(ln_pack pack, size_t n_rows, const uint8_t *panel,
                                const super_rows *x, size_t ahead, bool far, float *y) {
    switch (n_rows) {
    case 1: super_small_m(pack, 1, panel, x, ahead, far, y); return;
    case 2: super_small_m(pack, 2, panel, x, ahead, far, y); return;
    case 3: super_small_m(pack, 3, panel, x, ahead, far, y); return;
    default: super_small_m(pack, 4, panel, x, ahead, far, y); return;
    }
}

/* The first rows of x, up to 4, which lie alone, against a packed panel. */
static void super_multiply_small_m(ln_pack pack, size_t n_rows, const uint8_t *panel,
                                   const super_rows *x, size_t ahead, bool far, float *y) {
#define MULTIPLY(T)                                                                                \
    case LN_PACK_##T: super_small_m_of(LN_PACK_##T, n_rows, panel, x, ahead, far, y); return;
    switch (pack) {
        SUPER_PACKS(MULTIPLY)
    default: LN_BUG_ON(true);
    }
#undef MULTIPLY
}

/* Numbers and scales of a block, unpacked. */
LN_INLINE void super_store_block(const vi w[STEPS], const vi scales[2], size_t n_parts,
                                 uint8_t *out) {
    for (size_t step = 0; step < STEPS; step++)
        vi_store(out + step * STEP_BYTES, w[step]);
    for (size_t part = 0; part < n_parts; part++)
        vi_store(out + (STEPS + part) * STEP_BYTES, scales[part]);
}

/* 256 columns at p. */
LN_INLINE void super_unpack_as(ln_pack pack, const uint8_t *p, uint8_t *out) {
    super_kind kind = super_kind_of(pack);
#pragma GCC unroll 1
    for (size_t at = 0; at < SUPER_BLOCKS; at++, out += UNPACKED_BYTES) {
        vi w[STEPS], scales[2];
        super_unpack_block(pack, p, p, at, w, scales);
        super_store_block(w, scales, kind.n_parts, out);
    }
    for (size_t pair = 0; kind.has_min && pair < SUPER_BLOCKS * kind.n_parts / 2; pair++)
        vi_store(out + pair * STEP_BYTES, super_min_pair(pack, p, pair));
    float *factors = (float *)(void *)(out + MIN_BYTES);
    vf_store(factors, half_row(p));
    if (kind.has_min)
        vf_store(factors + LANES, vf_mul(half_row(p + 32), vf_set(-1.0f)));
}

LN_INLINE void super_unpack_grid_as(ln_pack pack, const uint8_t *p, const uint8_t *expanded,
                                    uint8_t *out) {
    ln_grid_shape shape = ln_grid_shape_of(pack);
#pragma GCC unroll 1
    for (size_t at = 0; at < SUPER_BLOCKS; at++, out += UNPACKED_BYTES) {
        vi w[STEPS], scales[2];
        grid_unpack_block(shape, p, expanded, at, w, scales);
        super_store_block(w, scales, shape.n_parts, out);
    }
    vf_store((float *)(void *)(out + MIN_BYTES), vf_mul(half_row(p), vf_set(shape.unit)));
}

/* 256 columns at p of a layout of codebooks. */
static void super_unpack_grid(ln_pack pack, const uint8_t *p, uint8_t *out) {
    uint8_t expanded[SUPER_BLOCKS * GRID_BLOCK_BYTES] __attribute__((aligned(64)));
    grid_expand(pack, p, expanded);
#define UNPACK(T)                                                                                  \
    case LN_PACK_##T: super_unpack_grid_as(LN_PACK_##T, p, expanded, out); return;
    switch (pack) {
        GRID_PACKS(UNPACK)
    default: LN_BUG_ON(true);
    }
#undef UNPACK
}

/* n times 256 columns of a panel, from number `first` on. */
static void super_unpack(ln_pack pack, const uint8_t *panel, size_t first, size_t n, uint8_t *out) {
#define UNPACK(T)                                                                                  \
    case LN_PACK_##T: super_unpack_as(LN_PACK_##T, p, out); break;
    const uint8_t *p = panel + first * super_bytes(pack);
    for (size_t i = 0; i < n; i++, p += super_bytes(pack), out += UNPACKED_SUPER)
        switch (pack) {
            SUPER_PACKS(UNPACK)
        default: super_unpack_grid(pack, p, out); break;
        }
#undef UNPACK
}

/* super_small_m against a panel of codebooks: 256 columns are unpacked once for all rows. */
LN_INLINE void grid_small_m(ln_pack pack, size_t n_parts, size_t n_rows, const uint8_t *p,
                            const super_rows *x, float *y) {
    const size_t steps = STEPS / n_parts, row_blocks = super_alone_blocks(x);
    uint8_t unpacked[UNPACKED_SUPER] __attribute__((aligned(64)));
    vf sums[4];
    for (size_t i = 0; i < n_rows; i++)
        sums[i] = vf_set(0.0f);
    for (size_t super = 0; super < x->n_supers; super++, p += super_bytes(pack)) {
        const super_block *first = &x->supers[super / GROUP_ROWS];
        size_t here = super % GROUP_ROWS;
        const uint8_t *from = unpacked;
        vi totals[4];
        super_unpack_grid(pack, p, unpacked);
        for (size_t i = 0; i < n_rows; i++)
            totals[i] = vi_set(0);
#pragma GCC unroll 1
        for (size_t at = 0; at < SUPER_BLOCKS; at++, from += UNPACKED_BYTES) {
            vi w[STEPS];
            for (size_t step = 0; step < STEPS; step++)
                w[step] = vi_load(from + step * STEP_BYTES);
            const super_block *b = first;
            for (size_t i = 0; i < n_rows; i++, b += row_blocks)
                for (size_t part = 0; part < n_parts; part++) {
                    vi start = vi_set(b->start[at * n_parts + part][here]);
                    vi acc = dot_steps(true, start, w, b->q[here] + at * LN_PACK_COLS, part * steps,
                                       (part + 1) * steps);
                    vi scale = vi_load(from + (STEPS + part) * STEP_BYTES);
                    totals[i] = vi_add(totals[i], vi_mul(acc, scale));
                }
        }
        vf factor = vf_load((const float *)(const void *)(from + MIN_BYTES));
        for (size_t i = 0; i < n_rows; i++)
            sums[i] = super_fold(sums[i], totals[i], factor, first[i * row_blocks].scale[here]);
    }
    for (size_t i = 0; i < n_rows; i++)
        vf_store(y + i * UNIT, sums[i]);
}

LN_INLINE void grid_small_m_of(ln_pack pack, size_t n_parts, size_t n_rows, const uint8_t *panel,
                               const super_rows *x, float *y) {
    switch (n_rows) {
    case 1: grid_small_m(pack, n_parts, 1, panel, x, y); return;
    case 2: grid_small_m(pack, n_parts, 2, panel, x, y); return;
    case 3: grid_small_m(pack, n_parts, 3, panel, x, y); return;
    default: grid_small_m(pack, n_parts, 4, panel, x, y); return;
    }
}

/* super_multiply_small_m for layouts of codebooks. */
static void grid_multiply_small_m(ln_pack pack, size_t n_rows, const uint8_t *panel,
                                  const super_rows *x, float *y) {
    if (super_kind_of(pack).n_parts == 2)
        grid_small_m_of(pack, 2, n_rows, panel, x, y);
    else
        grid_small_m_of(pack, 1, n_rows, panel, x, y);
}

/* The exact sums of TILE_ROWS rows of x, from `lane` of their group on, against 256 columns of
 * unpacked panels. */
LN_INLINE void super_tile_totals(super_kind kind, size_t n_panels, const uint8_t *w,
                                 const super_block *b, size_t lane,
                                 vi totals[TILE_ROWS][TILE_PANELS]) {
    const size_t n_sums = kind.in_words ? 2 : kind.n_parts, steps = STEPS / n_sums;
#pragma GCC unroll 1
    for (size_t at = 0; at < SUPER_BLOCKS; at++, w += UNPACKED_BYTES) {
#pragma GCC unroll 2
        for (size_t number = 0; number < n_sums; number++) {
            size_t part = number * kind.n_parts / n_sums;
            const int32_t *start = b->start[at * kind.n_parts + part] + lane;
            vi acc[TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
            for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
                for (size_t p = 0; p < n_panels; p++)
                    acc[i][p] = vi_set(kind.has_min ? 0 : start[i]);
            tile_steps(n_panels, w, b->q[lane] + at * LN_PACK_COLS, SUPER_COLS, number * steps,
                       (number + 1) * steps, acc);
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++) {
                vi scale = vi_load(w + p * UNPACKED_PANEL + (STEPS + part) * STEP_BYTES);
                if (kind.in_words && !kind.has_min) /* else no scale is negative */
                    scale = vi_and(scale, vi_set(0xffff));
#pragma GCC unroll 8
                for (size_t i = 0; i < TILE_ROWS; i++)
                    totals[i][p] = kind.in_words ? dot_words(totals[i][p], acc[i][p], scale)
                                                 : vi_add(totals[i][p], vi_mul(acc[i][p], scale));
            }
        }
    }
}

/* The sums of x times the minimums, which lie at w. */
LN_INLINE void super_tile_mins(super_kind kind, size_t n_panels, const uint8_t *w,
                               const super_block *b, size_t lane,
                               vi totals[TILE_ROWS][TILE_PANELS]) {
#pragma GCC unroll 8
    for (size_t pair = 0; pair < SUPER_BLOCKS * kind.n_parts / 2; pair++)
#pragma GCC unroll 8
        for (size_t i = 0; i < TILE_ROWS; i++) {
            vi sums = vi_spread((const int8_t *)&b->sums[lane + i][pair * 2]);
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++)
                totals[i][p] = dot_words(totals[i][p],
                                         vi_load(w + p * UNPACKED_PANEL + pair * STEP_BYTES), sums);
        }
}

/* Times scales of W, at `factors`, and of x: added to y [TILE_ROWS][UNIT], or put there. */
LN_INLINE void super_tile_fold(size_t n_panels, const float *factors, const float *scales,
                               vi totals[TILE_ROWS][TILE_PANELS], bool first, float *y) {
#pragma GCC unroll 2
    for (size_t p = 0; p < n_panels; p++) {
        vf factor = vf_load(factors + p * (UNPACKED_PANEL / 4));
#pragma GCC unroll 8
        for (size_t i = 0; i < TILE_ROWS; i++) {
            float *out = y + i * UNIT + p * LANES;
            vf_store(out, super_fold(first ? vf_set(0.0f) : vf_load(out), totals[i][p], factor,
                                     scales[i]));
            totals[i][p] = vi_set(0);
        }
    }
}

/* TILE_ROWS rows of x against n times 256 columns of unpacked panels. */
LN_INLINE void super_tile(super_kind kind, size_t n_panels, const uint8_t *w, const super_block *b,
                          size_t lane, size_t n, bool first, float *y) {
    vi totals[TILE_ROWS][TILE_PANELS];
    for (size_t i = 0; i < TILE_ROWS; i++)
        for (size_t p = 0; p < n_panels; p++)
            totals[i][p] = vi_set(0);
    for (size_t super = 0; super < n; super++, b++, w += UNPACKED_SUPER) {
        const uint8_t *mins = w + SUPER_BLOCKS * UNPACKED_BYTES;
        const float *factors = (const float *)(const void *)(mins + MIN_BYTES);
        super_tile_totals(kind, n_panels, w, b, lane, totals);
        super_tile_fold(n_panels, factors, b->scale + lane, totals, first && super == 0, y);
        if (!kind.has_min)
            continue;
        super_tile_mins(kind, n_panels, mins, b, lane, totals);
        super_tile_fold(n_panels, factors + LANES, b->scale + lane, totals, false, y);
    }
}

/* As is_direct of int8.h. */
LN_INLINE bool super_is_direct(ln_pack pack, bool hides_shifts) {
    return DIRECT_TILES && pack == LN_PACK_Q4_K && hides_shifts;
}

/* The exact sums of TILE_ROWS rows of x against 256 columns of panels of Q4_K as they are packed,
 * panel_bytes apart. */
LN_INLINE void super_direct_totals(size_t n_panels, const uint8_t *w, size_t panel_bytes,
                                   const super_block *b, size_t lane,
                                   vi totals[TILE_ROWS][TILE_PANELS]) {
#pragma GCC unroll 1
    for (size_t at = 0; at < SUPER_BLOCKS; at++) {
        vi acc[CHAINS][TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
        for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++)
                acc[0][i][p] = acc[1][i][p] = vi_set(0);
        direct_steps(2, n_panels, w + 320 + at * 256, panel_bytes, b->q[lane] + at * LN_PACK_COLS,
                     SUPER_COLS, acc);
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++) {
            vi scale = vi_from_u8(w + p * panel_bytes + 64 + at * LANES);
#pragma GCC unroll 8
            for (size_t i = 0; i < TILE_ROWS; i++) {
                vi sum = vi_add(acc[0][i][p], acc[1][i][p]);
                totals[i][p] = vi_add(totals[i][p], vi_mul(sum, scale));
            }
        }
    }
}

/* The sums of x times the minimums of these panels. */
LN_INLINE void super_direct_mins(size_t n_panels, const uint8_t *w, size_t panel_bytes,
                                 const super_block *b, size_t lane,
                                 vi mins[TILE_ROWS][TILE_PANELS]) {
#pragma GCC unroll 1
    for (size_t pair = 0; pair < SUPER_BLOCKS / 2; pair++)
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++) {
            vi min = super_min_pair(LN_PACK_Q4_K, w + p * panel_bytes, pair);
#pragma GCC unroll 8
            for (size_t i = 0; i < TILE_ROWS; i++)
                mins[i][p] = dot_words(mins[i][p], min,
                                       vi_spread((const int8_t *)&b->sums[lane + i][pair * 2]));
        }
}

/* super_tile against n times 256 columns of packed panels; the same bits. */
LN_INLINE void super_direct_tile(size_t n_panels, const uint8_t *w, size_t panel_bytes,
                                 const super_block *b, size_t lane, size_t n, bool first,
                                 float *y) {
    for (size_t super = 0; super < n; super++, b++, w += super_bytes(LN_PACK_Q4_K)) {
        vi totals[TILE_ROWS][TILE_PANELS], mins[TILE_ROWS][TILE_PANELS];
#pragma GCC unroll 8
        for (size_t i = 0; i < TILE_ROWS; i++)
#pragma GCC unroll 2
            for (size_t p = 0; p < n_panels; p++)
                totals[i][p] = mins[i][p] = vi_set(0);
        super_direct_totals(n_panels, w, panel_bytes, b, lane, totals);
        super_direct_mins(n_panels, w, panel_bytes, b, lane, mins);
#pragma GCC unroll 2
        for (size_t p = 0; p < n_panels; p++) {
            vf factor = half_row(w + p * panel_bytes);
            vf min = vf_mul(half_row(w + p * panel_bytes + 32), vf_set(-1.0f));
#pragma GCC unroll 8
            for (size_t i = 0; i < TILE_ROWS; i++) {
                float *out = y + i * UNIT + p * LANES, scale = b->scale[lane + i];
                vf sum = first && super == 0 ? vf_set(0.0f) : vf_load(out);
                sum = super_fold(sum, totals[i][p], factor, scale);
                vf_store(out, super_fold(sum, mins[i][p], min, scale));
            }
        }
    }
}

LN_INLINE void super_direct_rows_of(size_t n_panels, const uint8_t *w, size_t panel_bytes,
                                    fetcher next, const super_rows *x, size_t n_rows, size_t first,
                                    size_t n, float *y) {
    size_t n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
    size_t share = (next.bytes / n_tiles + 63) / 64 * 64;
    for (size_t row = 0; row < n_rows; row += TILE_ROWS) {
        const super_block *b = x->supers + row / GROUP_ROWS * x->n_supers + first;
        fetch_some(&next, n_panels, share);
        super_direct_tile(n_panels, w, panel_bytes, b, row % GROUP_ROWS, n, first == 0,
                          y + row * UNIT);
    }
}

/* All rows of x against n times 256 columns, from number `first` on, of packed panels of Q4_K. */
static void super_direct_rows(size_t n_panels, const uint8_t *w, size_t panel_bytes, fetcher next,
                              const super_rows *x, size_t n_rows, size_t first, size_t n,
                              float *y) {
    if (n_panels == TILE_PANELS)
        super_direct_rows_of(TILE_PANELS, w, panel_bytes, next, x, n_rows, first, n, y);
    else
        super_direct_rows_of(1, w, panel_bytes, next, x, n_rows, first, n, y);
}

LN_INLINE void super_rows_of(super_kind kind, size_t n_panels, const uint8_t *w,
                             const super_rows *x, size_t n_rows, size_t first, size_t n, float *y) {
    for (size_t row = 0; row < n_rows; row += TILE_ROWS) {
        const super_block *b = x->supers + row / GROUP_ROWS * x->n_supers + first;
        float *out = y + row * UNIT;
        if (n_panels == TILE_PANELS)
            super_tile(kind, TILE_PANELS, w, b, row % GROUP_ROWS, n, first == 0, out);
        else
            super_tile(kind, 1, w, b, row % GROUP_ROWS, n, first == 0, out);
    }
}

/* All rows of x against n times 256 columns, from number `first` on, of unpacked panels. */
static void super_multiply_rows(ln_pack pack, size_t n_panels, const uint8_t *w,
                                const super_rows *x, size_t n_rows, size_t first, size_t n,
                                float *y) {
    super_kind kind = super_kind_of(pack);
#define MULTIPLY(parts, has_min, in_words)                                                         \
    super_rows_of((super_kind){0, parts, has_min, in_words}, n_panels, w, x, n_rows, first, n, y)
    if (kind.has_min && kind.n_parts == 2)
        MULTIPLY(2, true, WORD_SCALES);
    else if (kind.has_min && kind.in_words)
        MULTIPLY(1, true, WORD_SCALES);
    else if (kind.has_min)
        MULTIPLY(1, true, false);
    else if (kind.n_parts == 2 && kind.in_words)
        MULTIPLY(2, false, WORD_SCALES);
    else if (kind.n_parts == 2)
        MULTIPLY(2, false, false);
    else
        MULTIPLY(1, false, false);
#undef MULTIPLY
}

#endif
