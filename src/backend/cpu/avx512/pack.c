#include "backend/cpu/avx512/pack.h"

#include <immintrin.h>
#include <string.h>

enum { LANES = LN_PANEL_ROWS, STEP_BYTES = 64, SUPER = 256 };

/* 16 bytes of each of the 16 rows: v[i] has those of rows i, i + 4, i + 8 and i + 12. */
typedef struct all_rows {
    __m512i v[4];
} all_rows;

static inline __m512i load_four(const uint8_t *const *rows, size_t at) {
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(rows[0] + at)));
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const void *)(rows[4] + at)), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const void *)(rows[8] + at)), 2);
    return _mm512_inserti32x4(x, _mm_loadu_si128((const void *)(rows[12] + at)), 3);
}

static inline all_rows load_rows(const uint8_t *const *rows, size_t at) {
    return (all_rows){{load_four(rows, at), load_four(rows + 1, at), load_four(rows + 2, at),
                       load_four(rows + 3, at)}};
}

/* Steps of 4 of the 16 bytes: v[step] = [16 rows][4 bytes]. */
static inline all_rows to_steps(all_rows q) {
    __m512i ab = _mm512_unpacklo_epi32(q.v[0], q.v[1]), cd = _mm512_unpacklo_epi32(q.v[2], q.v[3]);
    __m512i ab_high = _mm512_unpackhi_epi32(q.v[0], q.v[1]);
    __m512i cd_high = _mm512_unpackhi_epi32(q.v[2], q.v[3]);
    return (all_rows){{_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd),
                       _mm512_unpacklo_epi64(ab_high, cd_high),
                       _mm512_unpackhi_epi64(ab_high, cd_high)}};
}

static inline void put_steps(all_rows q, size_t n_steps, uint8_t *out) {
    q = to_steps(q);
    for (size_t step = 0; step < n_steps; step++)
        _mm512_storeu_si512(out + step * STEP_BYTES, q.v[step]);
}

/* out[4][16] = the bytes of a step [16][4]. */
static inline void put_bytes(__m512i step, uint8_t *out) {
    const __m512i within = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
    const __m512i across = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    step = _mm512_permutexvar_epi32(across, _mm512_shuffle_epi8(step, within));
    _mm512_storeu_si512(out, step);
}

static inline uint16_t half_at(const uint8_t *p) {
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return bits;
}

/* out[16] = 2 bytes of each row. */
static inline void put_halves(const uint8_t *const *rows, size_t at, uint8_t *out) {
    for (size_t half = 0; half < 2; half++, rows += 8, out += 16) {
        __m128i x = _mm_cvtsi32_si128(half_at(rows[0] + at));
        x = _mm_insert_epi16(x, half_at(rows[1] + at), 1);
        x = _mm_insert_epi16(x, half_at(rows[2] + at), 2);
        x = _mm_insert_epi16(x, half_at(rows[3] + at), 3);
        x = _mm_insert_epi16(x, half_at(rows[4] + at), 4);
        x = _mm_insert_epi16(x, half_at(rows[5] + at), 5);
        x = _mm_insert_epi16(x, half_at(rows[6] + at), 6);
        x = _mm_insert_epi16(x, half_at(rows[7] + at), 7);
        _mm_storeu_si128((void *)out, x);
    }
}

/* Fifth bits of 32 columns: bit i of byte j is that of column 4 i + j. */
static inline void put_fifth_bits(uint32_t bits, uint8_t *out) {
    uint32_t all = _pext_u32(bits, 0x11111111) | _pext_u32(bits, 0x22222222) << 8 |
                   _pext_u32(bits, 0x44444444) << 16 | _pext_u32(bits, 0x88888888) << 24;
    memcpy(out, &all, sizeof all);
}

static inline __m512i low_nibbles(__m512i x) {
    return _mm512_and_si512(x, _mm512_set1_epi8(0xf));
}
static inline __m512i high_nibbles(__m512i x) {
    return low_nibbles(_mm512_srli_epi16(x, 4));
}

/* Where the parts of a block of 32 columns lie in a row of the file, as in backend/cpu/pack.c. */
typedef struct nibble_block {
    size_t bytes, n_scales, bits, nibbles;
} nibble_block;

static inline void pack_nibble_blocks(const uint8_t *const *rows, size_t n_cols, nibble_block b,
                                      uint8_t *out) {
    for (size_t block = 0; block < n_cols / 32; block++) {
        size_t at = block * b.bytes;
        for (size_t i = 0; i < b.n_scales; i++, out += 2 * LANES)
            put_halves(rows, at + i * 2, out);
        put_steps(load_rows(rows, at + b.nibbles), 4, out);
        out += 4 * STEP_BYTES;
        for (size_t lane = 0; b.bits > 0 && lane < LANES; lane++, out += 4) {
            uint32_t bits;
            memcpy(&bits, rows[lane] + at + b.bits, sizeof bits);
            put_fifth_bits(bits, out);
        }
    }
}

static void pack_q8_0(const uint8_t *const *rows, size_t n_cols, uint8_t *out) {
    const __m512i offset = _mm512_set1_epi8((char)0x80);
    for (size_t block = 0; block < n_cols / 32; block++, out += 544) {
        put_halves(rows, block * 34, out);
        for (size_t half = 0; half < 2; half++) {
            all_rows q = load_rows(rows, block * 34 + 2 + half * 16);
            for (size_t i = 0; i < 4; i++)
                q.v[i] = _mm512_xor_si512(q.v[i], offset);
            put_steps(q, 4, out + 32 + half * 256);
        }
    }
}

/* The 8 scales and 8 minimums of 6 bits in 12 bytes: out [16][16 rows]. */
static inline void put_scales(const uint8_t *const *rows, size_t at, uint8_t *out) {
    const __m512i six = _mm512_set1_epi8(0x3f), two = _mm512_set1_epi8(0x30);
    all_rows s = to_steps(load_rows(rows, at));
    put_bytes(_mm512_and_si512(s.v[0], six), out);
    put_bytes(
        _mm512_or_si512(low_nibbles(s.v[2]), _mm512_and_si512(_mm512_srli_epi16(s.v[0], 2), two)),
        out + 64);
    put_bytes(_mm512_and_si512(s.v[1], six), out + 128);
    put_bytes(
        _mm512_or_si512(high_nibbles(s.v[2]), _mm512_and_si512(_mm512_srli_epi16(s.v[1], 2), two)),
        out + 192);
}

/* Q4_K, or with fifth bits Q5_K, whose rows have 32 bytes of them before the nibbles. */
static inline void pack_k(const uint8_t *const *rows, size_t n_cols, bool has_fifth, uint8_t *out) {
    size_t bytes = has_fifth ? 176 : 144, block_bytes = has_fifth ? 320 : 256;
    for (size_t super = 0; super < n_cols / SUPER; super++) {
        size_t at = super * bytes, nibbles = at + bytes - SUPER / 2;
        put_halves(rows, at, out);
        put_halves(rows, at + 2, out + 32);
        put_scales(rows, at + 4, out + 64);
        out += 64 + 256;
        for (size_t pair = 0; pair < 4; pair++) { /* of blocks that share bytes */
            all_rows even, odd, first = load_rows(rows, nibbles + pair * 32);
            all_rows second = load_rows(rows, nibbles + pair * 32 + 16);
            for (size_t i = 0; i < 4; i++) {
                __m512i high = _mm512_slli_epi16(low_nibbles(second.v[i]), 4);
                even.v[i] = _mm512_or_si512(low_nibbles(first.v[i]), high);
                high = _mm512_andnot_si512(_mm512_set1_epi8(0xf), second.v[i]);
                odd.v[i] = _mm512_or_si512(high_nibbles(first.v[i]), high);
            }
            put_steps(even, 4, out + pair * 2 * block_bytes);
            put_steps(odd, 4, out + (pair * 2 + 1) * block_bytes);
        }
        for (size_t lane = 0; has_fifth && lane < LANES; lane++) {
            __m256i bits = _mm256_loadu_si256((const void *)(rows[lane] + at + 16));
            for (size_t block = 0; block < 8; block++) {
                __m256i top = _mm256_slli_epi16(bits, (int)(7 - block));
                put_fifth_bits((uint32_t)_mm256_movemask_epi8(top),
                               out + block * block_bytes + 256 + lane * 4);
            }
        }
        out += 8 * block_bytes;
    }
}

/* 16 quants of super-blocks of Q6_K in four rows, from number `at` on; the last four are spread
 * over the upper bits of the others. */
static inline __m512i q6_quants(__m512i low, __m512i high, size_t group) {
    const __m512i left = _mm512_set4_epi32(0, 2, 4, 6), upper = _mm512_set1_epi8((char)0xc0);
    high = _mm512_and_si512(_mm512_srli_epi32(high, (unsigned)group * 2), _mm512_set1_epi8(3));
    low = group < 2 ? low_nibbles(low) : high_nibbles(low);
    __m512i q = _mm512_or_si512(low, _mm512_slli_epi32(high, 4));
    __m512i last = _mm512_sllv_epi32(_mm512_shuffle_epi32(q, _MM_PERM_DDDD), left);
    return _mm512_or_si512(q, _mm512_and_si512(last, upper));
}

static void pack_q6_k(const uint8_t *const *rows, size_t n_cols, uint8_t *out) {
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 32 + 256 + 8 * 384) {
        size_t from = super * 210;
        put_halves(rows, from + 208, out);
        all_rows scales = to_steps(load_rows(rows, from + 192));
        for (size_t i = 0; i < 4; i++)
            put_bytes(scales.v[i], out + 32 + i * 64);
        for (size_t at = 0; at < SUPER; at += 16) {
            size_t half = at / 128, group = at % 128 / 32;
            all_rows low = load_rows(rows, from + half * 64 + group % 2 * 32 + at % 32);
            all_rows high = load_rows(rows, from + 128 + half * 32 + at % 32);
            for (size_t i = 0; i < 4; i++)
                low.v[i] = q6_quants(low.v[i], high.v[i], group);
            put_steps(low, 3, out + 32 + 256 + at / 16 * 192);
        }
    }
}

/* 16 float32 to bf16, rounded to nearest even. */
static inline __m256i f32_to_bf16(__m512i bits) {
    __m512i size = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    __mmask16 is_nan = _mm512_cmpgt_epi32_mask(size, _mm512_set1_epi32(0x7f800000));
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    __m512i rounded = _mm512_add_epi32(bits, up);
    rounded = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

static inline __m256i f16_to_bf16(__m256i x) {
    return f32_to_bf16(_mm512_castps_si512(_mm512_cvtph_ps(x)));
}

/* 32 columns of a row, from `col` on. Whole cache lines, since rows often lie multiples of 4 KiB
 * apart, where a cache does not hold all 16. */
static inline __m512i load_line(const uint8_t *row, size_t col, ln_dtype dtype) {
    __m256i low, high;
    if (dtype == LN_DTYPE_F32) {
        low = f32_to_bf16(_mm512_loadu_si512(row + col * 4));
        high = f32_to_bf16(_mm512_loadu_si512(row + col * 4 + 64));
        return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    __m512i x = _mm512_loadu_si512(row + col * 2);
    if (dtype == LN_DTYPE_BF16)
        return x;
    low = f16_to_bf16(_mm512_castsi512_si256(x));
    high = f16_to_bf16(_mm512_extracti64x4_epi64(x, 1));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

static inline void pack_lines(const uint8_t *const *rows, size_t n_cols, ln_dtype dtype,
                              uint8_t *out) {
    for (size_t col = 0; col < n_cols; col += 32, out += 16 * STEP_BYTES) {
        all_rows parts[4]; /* 16 bytes of each line */
        for (size_t i = 0; i < 4; i++) {
            __m512i a = load_line(rows[i], col, dtype);
            __m512i b = load_line(rows[i + 4], col, dtype);
            __m512i c = load_line(rows[i + 8], col, dtype);
            __m512i d = load_line(rows[i + 12], col, dtype);
            __m512i ab = _mm512_shuffle_i32x4(a, b, 0x44), cd = _mm512_shuffle_i32x4(c, d, 0x44);
            parts[0].v[i] = _mm512_shuffle_i32x4(ab, cd, 0x88);
            parts[1].v[i] = _mm512_shuffle_i32x4(ab, cd, 0xdd);
            ab = _mm512_shuffle_i32x4(a, b, 0xee), cd = _mm512_shuffle_i32x4(c, d, 0xee);
            parts[2].v[i] = _mm512_shuffle_i32x4(ab, cd, 0x88);
            parts[3].v[i] = _mm512_shuffle_i32x4(ab, cd, 0xdd);
        }
        for (size_t i = 0; i < 4; i++)
            put_steps(parts[i], 4, out + i * 4 * STEP_BYTES);
    }
}

void ln_avx512_pack_panel(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                          uint8_t *panel) {
    bool is_whole = n_cols % 32 == 0;
    for (size_t lane = 0; lane < LANES; lane++)
        is_whole &= rows[lane] != NULL;
    switch (is_whole ? dtype : LN_DTYPE_COUNT) {
    case LN_DTYPE_Q4_0:
    case LN_DTYPE_IQ4_NL:
        pack_nibble_blocks(rows, n_cols, (nibble_block){18, 1, 0, 2}, panel);
        return;
    case LN_DTYPE_Q4_1:
        pack_nibble_blocks(rows, n_cols, (nibble_block){20, 2, 0, 4}, panel);
        return;
    case LN_DTYPE_Q5_0:
        pack_nibble_blocks(rows, n_cols, (nibble_block){22, 1, 2, 6}, panel);
        return;
    case LN_DTYPE_Q5_1:
        pack_nibble_blocks(rows, n_cols, (nibble_block){24, 2, 4, 8}, panel);
        return;
    case LN_DTYPE_Q8_0: pack_q8_0(rows, n_cols, panel); return;
    case LN_DTYPE_Q4_K: pack_k(rows, n_cols, false, panel); return;
    case LN_DTYPE_Q5_K: pack_k(rows, n_cols, true, panel); return;
    case LN_DTYPE_Q6_K: pack_q6_k(rows, n_cols, panel); return;
    case LN_DTYPE_BF16: pack_lines(rows, n_cols, LN_DTYPE_BF16, panel); return;
    case LN_DTYPE_F16: pack_lines(rows, n_cols, LN_DTYPE_F16, panel); return;
    case LN_DTYPE_F32: pack_lines(rows, n_cols, LN_DTYPE_F32, panel); return;
    default: ln_pack_panel(dtype, rows, n_cols, panel); return;
    }
}
