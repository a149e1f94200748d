#include "backend/cpu/pack.h"

#include <string.h>

#include "backend/cpu/grid.h"
#include "base/checked.h"
#include "base/half.h"

enum { LANES = LN_PANEL_ROWS, STEPS = 8, STEP_BYTES = 64, SUPER = 256 };

static const ln_pack_shape shapes[LN_PACK_COUNT] = {
    [LN_PACK_NONE] = {1, 0},
    [LN_PACK_Q4_0] = {32, 32 + 256},
    [LN_PACK_Q8_0] = {32, 32 + 512},
    [LN_PACK_Q4_K] = {SUPER, 64 + 256 + 8 * 256},
    [LN_PACK_Q6_K] = {SUPER, 32 + 256 + 8 * 384},
    [LN_PACK_Q5_0] = {32, 32 + 320},
    [LN_PACK_Q5_K] = {SUPER, 64 + 256 + 8 * 320},
    [LN_PACK_Q3_K] = {SUPER, 32 + 256 + 8 * 192},
    [LN_PACK_IQ4_NL] = {32, 32 + 256},
    [LN_PACK_Q4_1] = {32, 64 + 256},
    [LN_PACK_Q5_1] = {32, 64 + 320},
    [LN_PACK_Q2_K] = {SUPER, 64 + 256 + 8 * 128},
    [LN_PACK_IQ4_XS] = {SUPER, 32 + 128 + 8 * 256},
    [LN_PACK_I8] = {32, 64 + 512},
    [LN_PACK_I4] = {32, 64 + 16 + 256},
    [LN_PACK_MXFP4] = {32, 16 + 256},
    [LN_PACK_F8] = {32, 64 + 512},
    [LN_PACK_BF16] = {2, STEP_BYTES},
    [LN_PACK_TQ1_0] = {SUPER, 32 + 13 * STEP_BYTES},
    [LN_PACK_TQ2_0] = {SUPER, 32 + 8 * 128},
    [LN_PACK_IQ1_S] = {SUPER, 96 + 8 * 96},
    [LN_PACK_IQ1_M] = {SUPER, 160 + 8 * 96},
    [LN_PACK_IQ2_XXS] = {SUPER, 96 + 8 * 128},
    [LN_PACK_IQ2_XS] = {SUPER, 160 + 8 * 136},
    [LN_PACK_IQ2_S] = {SUPER, 160 + 8 * 144},
    [LN_PACK_IQ3_XXS] = {SUPER, 96 + 8 * 192},
    [LN_PACK_IQ3_S] = {SUPER, 96 + 8 * 208},
};

ln_pack ln_pack_of(ln_dtype dtype) {
    switch (dtype) {
    case LN_DTYPE_Q4_0: return LN_PACK_Q4_0;
    case LN_DTYPE_Q8_0: return LN_PACK_Q8_0;
    case LN_DTYPE_Q4_K: return LN_PACK_Q4_K;
    case LN_DTYPE_Q6_K: return LN_PACK_Q6_K;
    case LN_DTYPE_Q5_0: return LN_PACK_Q5_0;
    case LN_DTYPE_Q5_K: return LN_PACK_Q5_K;
    case LN_DTYPE_Q3_K: return LN_PACK_Q3_K;
    case LN_DTYPE_IQ4_NL: return LN_PACK_IQ4_NL;
    case LN_DTYPE_Q4_1: return LN_PACK_Q4_1;
    case LN_DTYPE_Q5_1: return LN_PACK_Q5_1;
    case LN_DTYPE_Q2_K: return LN_PACK_Q2_K;
    case LN_DTYPE_IQ4_XS: return LN_PACK_IQ4_XS;
    case LN_DTYPE_I8_G32: return LN_PACK_I8;
    case LN_DTYPE_I4_G32: return LN_PACK_I4;
    case LN_DTYPE_MXFP4: return LN_PACK_MXFP4;
    case LN_DTYPE_F8_G32: return LN_PACK_F8;
    case LN_DTYPE_F16:
    case LN_DTYPE_BF16: return LN_PACK_BF16;
    case LN_DTYPE_TQ1_0: return LN_PACK_TQ1_0;
    case LN_DTYPE_TQ2_0: return LN_PACK_TQ2_0;
    case LN_DTYPE_IQ1_S: return LN_PACK_IQ1_S;
    case LN_DTYPE_IQ1_M: return LN_PACK_IQ1_M;
    case LN_DTYPE_IQ2_XXS: return LN_PACK_IQ2_XXS;
    case LN_DTYPE_IQ2_XS: return LN_PACK_IQ2_XS;
    case LN_DTYPE_IQ2_S: return LN_PACK_IQ2_S;
    case LN_DTYPE_IQ3_XXS: return LN_PACK_IQ3_XXS;
    case LN_DTYPE_IQ3_S: return LN_PACK_IQ3_S;
    default: return LN_PACK_NONE;
    }
}

ln_pack_shape ln_pack_shape_of(ln_pack pack) {
    return shapes[pack];
}

bool ln_pack_panel_bytes(ln_pack pack, size_t n_cols, size_t *bytes) {
    size_t n = n_cols / shapes[pack].cols + (n_cols % shapes[pack].cols != 0);
    return ln_mul(n, shapes[pack].bytes, bytes);
}

/* 16 quants of one row, 4 steps of 4. Written for vectors of 16 bytes, which every processor has.
 */
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));

static inline bytes16 load16(const uint8_t *p) {
    bytes16 x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* The first n_steps of 4 steps of 16 rows: out[step][lane] = word `step` of q[lane]. */
static inline void put_steps(const bytes16 q[LANES], size_t n_steps, uint8_t *out) {
    for (size_t lane = 0; lane < LANES; lane += 4) {
        words4 a = (words4)q[lane], b = (words4)q[lane + 1];
        words4 c = (words4)q[lane + 2], d = (words4)q[lane + 3];
        words4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        words4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        words4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        words4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        words4 steps[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                           __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                           __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                           __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
        for (size_t step = 0; step < n_steps; step++)
            memcpy(out + step * STEP_BYTES + lane * 4, &steps[step], sizeof steps[step]);
    }
}

/* Block `block` of each row, `bytes` long; of a row that is not there, zeros. */
static inline const uint8_t *block_of(const uint8_t *const rows[LANES], size_t lane, size_t block,
                                      size_t bytes) {
    static const uint8_t zeros[256];
    return rows[lane] != NULL ? rows[lane] + block * bytes : zeros;
}

/* Where the parts of a block of 32 columns lie in a row of the file. */
typedef struct nibble_block {
    size_t bytes;
    size_t n_scales; /* scale and minimum, 2 bytes each */
    size_t bits;     /* where the u32 of fifth bits is; 0: there is none */
    size_t nibbles;
} nibble_block;

/* Byte i of a u32 becomes word i, with bit j of it in the lowest bit of a byte of its own. */
static inline bytes16 spread_bits(const uint8_t *from, size_t half) {
    bytes16 bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8_t low = from[half * 2], high = from[half * 2 + 1];
    bytes16 x = {low,  low,  low,  low,  low,  low,  low,  low,
                 high, high, high, high, high, high, high, high};
    return (bytes16)((x & bit) != 0) & 1;
}

/* One vector of fifth bits: bit i of byte j is that of column 4 i + j. */
static inline void put_fifth_bits(const uint8_t *bits, uint8_t *out) {
    words4 low = (words4)spread_bits(bits, 0), high = (words4)spread_bits(bits, 1);
    uint32_t all = 0;
    for (int step = 0; step < 4; step++)
        all |= low[step] << step | high[step] << (step + 4);
    memcpy(out, &all, sizeof all);
}

/* Both halves of a byte of nibbles are what steps i and i + 4 share. */
static inline void pack_nibble_blocks(const uint8_t *const rows[LANES], size_t n_cols,
                                      nibble_block b, uint8_t *out) {
    bytes16 q[LANES];
    for (size_t block = 0; block < n_cols / 32; block++) {
        uint8_t *nibbles = out + b.n_scales * 2 * LANES;
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, block, b.bytes);
            for (size_t i = 0; i < b.n_scales; i++)
                memcpy(out + (i * LANES + lane) * 2, from + i * 2, 2);
            q[lane] = load16(from + b.nibbles);
            if (b.bits > 0)
                put_fifth_bits(from + b.bits, nibbles + 256 + lane * 4);
        }
        put_steps(q, 4, nibbles);
        out = nibbles + 256 + (b.bits > 0 ? STEP_BYTES : 0);
    }
}

/* Bytes with a scale of scale_bytes before them. */
static void pack_bytes(const uint8_t *const rows[LANES], size_t n_cols, size_t scale_bytes,
                       uint8_t *out) {
    bytes16 q[2][LANES];
    for (size_t block = 0; block < n_cols / 32; block++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, block, scale_bytes + 32);
            memcpy(out + lane * scale_bytes, from, scale_bytes);
            q[0][lane] = load16(from + scale_bytes) ^ 0x80;
            q[1][lane] = load16(from + scale_bytes + 16) ^ 0x80;
        }
        out += LANES * scale_bytes;
        put_steps(q[0], 4, out);
        put_steps(q[1], 4, out + 4 * STEP_BYTES);
        out += 8 * STEP_BYTES;
    }
}

/* Nibbles after a float32 scale of scale_bytes (4 or 0) and a byte. */
static void pack_nibbles_and_byte(const uint8_t *const rows[LANES], size_t n_cols,
                                  size_t scale_bytes, uint8_t *out) {
    bytes16 q[LANES];
    for (size_t block = 0; block < n_cols / 32; block++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, block, scale_bytes + 1 + 16);
            memcpy(out + lane * scale_bytes, from, scale_bytes);
            out[LANES * scale_bytes + lane] = from[scale_bytes];
            q[lane] = load16(from + scale_bytes + 1);
        }
        out += LANES * (scale_bytes + 1);
        put_steps(q, 4, out);
        out += 4 * STEP_BYTES;
    }
}

static void pack_f8(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    for (size_t block = 0; block < n_cols / 32; block++, out += 64 + 512)
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, block, 36);
            memcpy(out + lane * 4, from, 4);
            for (size_t i = 0; i < 32; i++)
                out[64 + i * LANES + lane] = from[4 + i];
        }
}

/* Scale and minimum number i of Q4_K's twelve bytes of 6-bit numbers. */
static void read_scale(const uint8_t *s, size_t i, uint8_t *scale, uint8_t *min) {
    if (i < 4) {
        *scale = s[i] & 63;
        *min = s[i + 4] & 63;
    } else {
        *scale = (uint8_t)((s[i + 4] & 0xf) | (s[i - 4] >> 6) << 4);
        *min = (uint8_t)(s[i + 4] >> 4 | (s[i] >> 6) << 4);
    }
}

static void pack_q4_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    bytes16 even[LANES], odd[LANES];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 64 + 256 + 8 * 256) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, super, 144);
            memcpy(out + lane * 2, from, 2);
            memcpy(out + 32 + lane * 2, from + 2, 2);
            for (size_t i = 0; i < 8; i++)
                read_scale(from + 4, i, &out[64 + i * LANES + lane],
                           &out[64 + 128 + i * LANES + lane]);
        }
        for (size_t pair = 0; pair < 4; pair++) { /* of blocks that share bytes */
            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t *from = block_of(rows, lane, super, 144) + 16 + pair * 32;
                bytes16 first = load16(from), second = load16(from + 16);
                even[lane] = (first & 0xf) | second << 4;
                odd[lane] = first >> 4 | (second & 0xf0);
            }
            put_steps(even, 4, out + 64 + 256 + pair * 512);
            put_steps(odd, 4, out + 64 + 256 + pair * 512 + 256);
        }
    }
}

/* 16 quants of a super-block of Q6_K, from number `at` on, which 16 divides. */
static inline bytes16 q6_quants(const uint8_t *from, size_t at) {
    size_t half = at / 128, group = at % 128 / 32;
    bytes16 low = load16(from + half * 64 + group % 2 * 32 + at % 32);
    words4 high = (words4)load16(from + 128 + half * 32 + at % 32) >> (uint32_t)(group * 2);
    return (group < 2 ? low & 0xf : low >> 4) | (bytes16)((high & 0x03030303) << 4);
}

static void pack_q6_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 32 + 256 + 8 * 384) {
        const uint8_t *from[LANES];
        for (size_t lane = 0; lane < LANES; lane++) {
            from[lane] = block_of(rows, lane, super, 210);
            memcpy(out + lane * 2, from[lane] + 208, 2);
            for (size_t i = 0; i < 16; i++)
                out[32 + i * LANES + lane] = from[lane][192 + i];
        }
        for (size_t at = 0; at < SUPER; at += 16) {
            bytes16 q[LANES];
            for (size_t lane = 0; lane < LANES; lane++) {
                words4 steps = (words4)q6_quants(from[lane], at);
                uint32_t last = steps[3];
                words4 parts = {last << 6, last << 4, last << 2, last};
                q[lane] = (bytes16)(steps | (parts & 0xc0c0c0c0));
            }
            put_steps(q, 3, out + 32 + 256 + at / 16 * 192);
        }
    }
}

typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef float floats4 __attribute__((vector_size(16)));

/* 4 numbers from f16, in the lower halves of words, to bf16 in the upper halves. */
static inline words4 widen_f16(words4 x) {
    words4 rest = (x & 0x7fff) << 13, sign = (x & 0x8000) << 16;
    words4 is_special = (words4)(rest >= 0x0f800000); /* infinity, NaN */
    words4 bits = (words4)((floats4)rest * 0x1p112f); /* exact, subnormal numbers too */
    bits |= is_special & (rest | 0x7f800000);
    words4 is_nan = (words4)(bits > 0x7f800000);
    words4 rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (rounded & ~is_nan) | ((bits | 0x400000) & is_nan) | sign;
}

/* 8 columns from `col` on, all of them there; f16 as ln_bf16_from_f32(ln_f32_from_f16(x)) has it.
 */
static inline bytes16 load_bf16(ln_dtype dtype, const uint8_t *row, size_t col) {
    halves8 x = (halves8)load16(row + col * 2), zero = {0};
    if (dtype != LN_DTYPE_F16)
        return (bytes16)x;
    words4 low = (words4)__builtin_shufflevector(x, zero, 0, 8, 1, 9, 2, 10, 3, 11);
    words4 high = (words4)__builtin_shufflevector(x, zero, 4, 12, 5, 13, 6, 14, 7, 15);
    return (bytes16)__builtin_shufflevector((halves8)widen_f16(low), (halves8)widen_f16(high), 1, 3,
                                            5, 7, 9, 11, 13, 15);
}

static void pack_bf16(ln_dtype dtype, const uint8_t *const rows[LANES], size_t n_cols,
                      uint8_t *out) {
    bytes16 q[LANES];
    size_t col = 0;
    for (; col + 8 <= n_cols; col += 8) {
        for (size_t lane = 0; lane < LANES; lane++)
            q[lane] = rows[lane] != NULL ? load_bf16(dtype, rows[lane], col) : (bytes16){0};
        put_steps(q, 4, out + col / 2 * STEP_BYTES);
    }
    for (; col < n_cols + n_cols % 2; col++)
        for (size_t lane = 0; lane < LANES; lane++) {
            uint16_t bits = 0;
            if (rows[lane] != NULL && col < n_cols)
                memcpy(&bits, rows[lane] + col * 2, 2);
            if (dtype == LN_DTYPE_F16)
                bits = ln_bf16_from_f32(ln_f32_from_f16(bits));
            memcpy(out + col / 2 * STEP_BYTES + lane * 4 + col % 2 * 2, &bits, 2);
        }
}

/* Steps i and i + 4 of 32 quants of each row share a vector. */
static void put_nibbles(uint8_t q[LANES][32], uint8_t *out) {
    bytes16 both[LANES];
    for (size_t lane = 0; lane < LANES; lane++)
        both[lane] = (load16(q[lane]) & 0xf) | load16(q[lane] + 16) << 4;
    put_steps(both, 4, out);
}

/* Bit `bit` of step i becomes bit i of a byte. */
static void put_bits(uint8_t q[LANES][32], uint8_t bit, uint8_t *out) {
    for (size_t lane = 0; lane < LANES; lane++) {
        words4 low = (words4)(load16(q[lane]) >> bit & 1);
        words4 high = (words4)(load16(q[lane] + 16) >> bit & 1);
        uint32_t all = 0;
        for (int step = 0; step < 4; step++)
            all |= low[step] << step | high[step] << (step + 4);
        memcpy(out + lane * 4, &all, sizeof all);
    }
}

/* The low 2 bits of steps i, i + 2, i + 4 and i + 6 share a vector. */
static void put_twos(uint8_t q[LANES][32], uint8_t *out) {
    for (size_t lane = 0; lane < LANES; lane++) {
        words4 low = (words4)(load16(q[lane]) & 3), high = (words4)(load16(q[lane] + 16) & 3);
        for (size_t i = 0; i < 2; i++) {
            uint32_t all = low[i] | low[i + 2] << 2 | high[i] << 4 | high[i + 2] << 6;
            memcpy(out + i * STEP_BYTES + lane * 4, &all, sizeof all);
        }
    }
}

static void pack_q5_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES][32];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 64 + 256 + 8 * 320) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, super, 176);
            memcpy(out + lane * 2, from, 2);
            memcpy(out + 32 + lane * 2, from + 2, 2);
            for (size_t i = 0; i < 8; i++)
                read_scale(from + 4, i, &out[64 + i * LANES + lane],
                           &out[64 + 128 + i * LANES + lane]);
        }
        for (size_t block = 0; block < 8; block++) {
            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t *from = block_of(rows, lane, super, 176);
                for (size_t i = 0; i < 32; i++)
                    q[lane][i] = (uint8_t)((from[48 + block / 2 * 32 + i] >> block % 2 * 4 & 0xf) |
                                           (from[16 + i] >> block & 1) << 4);
            }
            put_nibbles(q, out + 320 + block * 320);
            put_bits(q, 4, out + 320 + block * 320 + 256);
        }
    }
}

/* Scale i of Q3_K, signed. */
static uint8_t read_q3_scale(const uint8_t *scales, size_t i) {
    int low = scales[i % 8] >> i / 8 * 4 & 0xf;
    int high = scales[8 + i % 4] >> i / 4 * 2 & 3;
    return (uint8_t)((low | high << 4) - 32);
}

static void pack_q3_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES][32];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 32 + 256 + 8 * 192) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, super, 110);
            memcpy(out + lane * 2, from + 108, 2);
            for (size_t i = 0; i < 16; i++)
                out[32 + i * LANES + lane] = read_q3_scale(from + 96, i);
        }
        for (size_t block = 0; block < 8; block++) {
            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t *from = block_of(rows, lane, super, 110);
                for (size_t i = 0; i < 32; i++)
                    q[lane][i] = (uint8_t)((from[32 + block / 4 * 32 + i] >> block % 4 * 2 & 3) |
                                           (from[i] >> block & 1) << 2);
            }
            put_twos(q, out + 288 + block * 192);
            put_bits(q, 2, out + 288 + block * 192 + 128);
        }
    }
}

static void pack_q2_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES][32];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 64 + 256 + 8 * 128) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, super, 84);
            memcpy(out + lane * 2, from + 80, 2);
            memcpy(out + 32 + lane * 2, from + 82, 2);
            for (size_t i = 0; i < 16; i++)
                out[64 + i * LANES + lane] = from[i];
        }
        for (size_t block = 0; block < 8; block++) {
            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t *from = block_of(rows, lane, super, 84) + 16 + block / 4 * 32;
                for (size_t i = 0; i < 32; i++)
                    q[lane][i] = from[i] >> block % 4 * 2 & 3;
            }
            put_twos(q, out + 320 + block * 128);
        }
    }
}

static void pack_tq1_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 32 + 13 * STEP_BYTES)
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, super, 54);
            memcpy(out + lane * 2, from + 52, 2);
            for (size_t i = 0; i < 13; i++)
                memcpy(out + 32 + i * STEP_BYTES + lane * 4, from + i * 4, 4);
        }
}

static void pack_tq2_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES][32];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 32 + 8 * 128) {
        for (size_t lane = 0; lane < LANES; lane++)
            memcpy(out + lane * 2, block_of(rows, lane, super, 66) + 64, 2);
        for (size_t block = 0; block < 8; block++) {
            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t *from = block_of(rows, lane, super, 66) + block / 4 * 32;
                for (size_t i = 0; i < 32; i++)
                    q[lane][i] = from[i] >> block % 4 * 2 & 3;
            }
            put_twos(q, out + 32 + block * 128);
        }
    }
}

/* Scale i of IQ4_XS, signed. */
static uint8_t read_iq4_scale(const uint8_t *from, size_t i) {
    int high = (from[2] | from[3] << 8) >> 2 * i & 3;
    return (uint8_t)(((from[4 + i / 2] >> i % 2 * 4 & 0xf) | high << 4) - 32);
}

static void pack_iq4_xs(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    bytes16 q[LANES];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 32 + 128 + 8 * 256) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, super, 136);
            memcpy(out + lane * 2, from, 2);
            for (size_t i = 0; i < 8; i++)
                out[32 + i * LANES + lane] = read_iq4_scale(from, i);
        }
        for (size_t block = 0; block < 8; block++) {
            for (size_t lane = 0; lane < LANES; lane++)
                q[lane] = load16(block_of(rows, lane, super, 136) + 8 + block * 16);
            put_steps(q, 4, out + 160 + block * 256);
        }
    }
}

/* The layouts whose blocks of 32 columns are nibbles. */
static void pack_nibbles(ln_pack pack, const uint8_t *const rows[LANES], size_t n_cols,
                         uint8_t *out) {
    switch (pack) {
    case LN_PACK_Q4_1: pack_nibble_blocks(rows, n_cols, (nibble_block){20, 2, 0, 4}, out); return;
    case LN_PACK_Q5_0: pack_nibble_blocks(rows, n_cols, (nibble_block){22, 1, 2, 6}, out); return;
    case LN_PACK_Q5_1: pack_nibble_blocks(rows, n_cols, (nibble_block){24, 2, 4, 8}, out); return;
    default: pack_nibble_blocks(rows, n_cols, (nibble_block){18, 1, 0, 2}, out); return;
    }
}

void ln_pack_panel(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                   uint8_t *panel) {
    switch (ln_pack_of(dtype)) {
    case LN_PACK_Q4_0:
    case LN_PACK_Q4_1:
    case LN_PACK_Q5_0:
    case LN_PACK_Q5_1:
    case LN_PACK_IQ4_NL: pack_nibbles(ln_pack_of(dtype), rows, n_cols, panel); return;
    case LN_PACK_Q8_0: pack_bytes(rows, n_cols, 2, panel); return;
    case LN_PACK_I8: pack_bytes(rows, n_cols, 4, panel); return;
    case LN_PACK_I4: pack_nibbles_and_byte(rows, n_cols, 4, panel); return;
    case LN_PACK_MXFP4: pack_nibbles_and_byte(rows, n_cols, 0, panel); return;
    case LN_PACK_F8: pack_f8(rows, n_cols, panel); return;
    case LN_PACK_Q2_K: pack_q2_k(rows, n_cols, panel); return;
    case LN_PACK_Q3_K: pack_q3_k(rows, n_cols, panel); return;
    case LN_PACK_Q4_K: pack_q4_k(rows, n_cols, panel); return;
    case LN_PACK_Q5_K: pack_q5_k(rows, n_cols, panel); return;
    case LN_PACK_Q6_K: pack_q6_k(rows, n_cols, panel); return;
    case LN_PACK_IQ4_XS: pack_iq4_xs(rows, n_cols, panel); return;
    case LN_PACK_BF16: pack_bf16(dtype, rows, n_cols, panel); return;
    case LN_PACK_TQ1_0: pack_tq1_0(rows, n_cols, panel); return;
    case LN_PACK_TQ2_0: pack_tq2_0(rows, n_cols, panel); return;
    case LN_PACK_IQ1_S:
    case LN_PACK_IQ1_M:
    case LN_PACK_IQ2_XXS:
    case LN_PACK_IQ2_XS:
    case LN_PACK_IQ2_S:
    case LN_PACK_IQ3_XXS:
    case LN_PACK_IQ3_S: ln_grid_pack_panel(dtype, rows, n_cols, panel); return;
    case LN_PACK_NONE:
    case LN_PACK_COUNT: return;
    }
}
