#include "backend/cpu/pack.h"

#include <string.h>

#include "base/checked.h"
#include "base/half.h"
#include "format/quants.h"

enum { LANES = LN_PANEL_ROWS, STEPS = 8, STEP_BYTES = 64, SUPER = 256 };

/* Bytes that `cols` columns of a panel take. */
typedef struct pack_shape {
    size_t cols, bytes;
} pack_shape;

static const pack_shape shapes[LN_PACK_COUNT] = {
    [LN_PACK_NONE] = {1, 0},
    [LN_PACK_Q4_0] = {32, 32 + 256},
    [LN_PACK_Q8_0] = {32, 32 + 512},
    [LN_PACK_Q4_K] = {SUPER, 64 + 256 + 8 * 256},
    [LN_PACK_Q6_K] = {SUPER, 32 + 256 + 8 * 384},
    [LN_PACK_Q5_0] = {32, 32 + 320},
    [LN_PACK_Q5_K] = {SUPER, 64 + 256 + 8 * 320},
    [LN_PACK_Q3_K] = {SUPER, 32 + 256 + 8 * 256},
    [LN_PACK_IQ4_NL] = {32, 32 + 256},
    [LN_PACK_BF16] = {2, STEP_BYTES},
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
    case LN_DTYPE_F16:
    case LN_DTYPE_BF16: return LN_PACK_BF16;
    default: return LN_PACK_NONE;
    }
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

/* Steps step .. step + 3 of 16 rows: out[step][lane] = word `step` of q[lane]. */
static inline void put_steps(const bytes16 q[LANES], uint8_t *out) {
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
        for (size_t step = 0; step < 4; step++)
            memcpy(out + step * STEP_BYTES + lane * 4, &steps[step], sizeof steps[step]);
    }
}

/* Block `block` of each row, `bytes` long; of a row that is not there, zeros. */
static inline const uint8_t *block_of(const uint8_t *const rows[LANES], size_t lane, size_t block,
                                      size_t bytes) {
    static const uint8_t zeros[256];
    return rows[lane] != NULL ? rows[lane] + block * bytes : zeros;
}

/* Both halves of a byte of Q4_0 are what steps i and i + 4 share. */
static void pack_q4_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    bytes16 q[LANES];
    for (size_t block = 0; block < n_cols / 32; block++, out += 288) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, block, 18);
            memcpy(out + lane * 2, from, 2);
            q[lane] = load16(from + 2);
        }
        put_steps(q, out + 32);
    }
}

static void pack_q8_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    bytes16 q[2][LANES];
    for (size_t block = 0; block < n_cols / 32; block++, out += 544) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, block, 34);
            memcpy(out + lane * 2, from, 2);
            q[0][lane] = load16(from + 2) ^ 0x80;
            q[1][lane] = load16(from + 18) ^ 0x80;
        }
        put_steps(q[0], out + 32);
        put_steps(q[1], out + 32 + 4 * STEP_BYTES);
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
            put_steps(even, out + 64 + 256 + pair * 512);
            put_steps(odd, out + 64 + 256 + pair * 512 + 256);
        }
    }
}

/* Block `block` of a super-block of Q6_K: the low 4 bits, of steps i and i + 4 in a byte; and the
 * high 2 bits, of steps i, i + 2, i + 4 and i + 6. */
static inline bytes16 q6_low(const uint8_t *from, size_t block) {
    const uint8_t *p = from + block / 4 * 64 + block % 2 * 32;
    bytes16 first = load16(p), second = load16(p + 16);
    return block % 4 < 2 ? (first & 0xf) | second << 4 : first >> 4 | (second & 0xf0);
}

static inline void q6_high(const uint8_t *from, size_t block, uint32_t words[2]) {
    const uint8_t *p = from + 128 + block / 4 * 32;
    uint8_t shift = (uint8_t)(block % 4 * 2);
    bytes16 x = (load16(p) >> shift & 3) | (load16(p + 16) >> shift & 3) << 4;
    words4 both = (words4)x;
    words[0] = both[0] | both[2] << 2;
    words[1] = both[1] | both[3] << 2;
}

static void pack_q6_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    bytes16 low[LANES];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 32 + 256 + 8 * 384) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, super, 210);
            memcpy(out + lane * 2, from + 208, 2);
            for (size_t i = 0; i < 16; i++)
                out[32 + i * LANES + lane] = from[192 + i];
        }
        for (size_t block = 0; block < 8; block++) {
            uint8_t *to = out + 32 + 256 + block * 384;
            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t *from = block_of(rows, lane, super, 210);
                uint32_t high[2];
                low[lane] = q6_low(from, block);
                q6_high(from, block, high);
                memcpy(to + 256 + lane * 4, &high[0], 4);
                memcpy(to + 256 + STEP_BYTES + lane * 4, &high[1], 4);
            }
            put_steps(low, to);
        }
    }
}

/* 8 columns from `col` on, all of them there. */
static inline bytes16 load_bf16(ln_dtype dtype, const uint8_t *row, size_t col) {
    bytes16 x = load16(row + col * 2);
    if (dtype == LN_DTYPE_F16) {
        uint16_t half[8];
        memcpy(half, &x, sizeof half);
        for (size_t i = 0; i < 8; i++)
            half[i] = ln_bf16_from_f32(ln_f32_from_f16(half[i]));
        memcpy(&x, half, sizeof x);
    }
    return x;
}

static void pack_bf16(ln_dtype dtype, const uint8_t *const rows[LANES], size_t n_cols,
                      uint8_t *out) {
    bytes16 q[LANES];
    size_t col = 0;
    for (; col + 8 <= n_cols; col += 8) {
        for (size_t lane = 0; lane < LANES; lane++)
            q[lane] = rows[lane] != NULL ? load_bf16(dtype, rows[lane], col) : (bytes16){0};
        put_steps(q, out + col / 2 * STEP_BYTES);
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

/* Steps i and i + 4 of the low 4 bits of quants q[16][32] share a vector. */
static void put_nibbles(const uint8_t *q, uint8_t *out) {
    for (size_t step = 0; step < STEPS / 2; step++)
        for (size_t lane = 0; lane < LANES; lane++)
            for (size_t i = 0; i < 4; i++) {
                const uint8_t *from = q + lane * 32 + step * 4 + i;
                out[step * STEP_BYTES + lane * 4 + i] =
                    (uint8_t)((from[0] & 0xf) | (from[16] & 0xf) << 4);
            }
}

/* Bit 4 of step i becomes bit i of a byte. */
static void put_fifth_bits(const uint8_t *q, uint8_t *out) {
    memset(out, 0, STEP_BYTES);
    for (size_t lane = 0; lane < LANES; lane++)
        for (size_t i = 0; i < 32; i++)
            out[lane * 4 + i % 4] |= (uint8_t)((q[lane * 32 + i] >> 4 & 1) << i / 4);
}

static void pack_q5_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES * 32];
    for (size_t block = 0; block < n_cols / 32; block++, out += 352) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, block, 22);
            memcpy(out + lane * 2, from, 2);
            for (size_t i = 0; i < 32; i++)
                q[lane * 32 + i] = (uint8_t)((from[6 + i % 16] >> i / 16 * 4 & 0xf) |
                                             (from[2 + i / 8] >> i % 8 & 1) << 4);
        }
        put_nibbles(q, out + 32);
        put_fifth_bits(q, out + 32 + 256);
    }
}

static void pack_q5_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES * 32];
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
                    q[lane * 32 + i] =
                        (uint8_t)((from[48 + block / 2 * 32 + i] >> block % 2 * 4 & 0xf) |
                                  (from[16 + i] >> block & 1) << 4);
            }
            put_nibbles(q, out + 320 + block * 320);
            put_fifth_bits(q, out + 320 + block * 320 + 256);
        }
    }
}

/* Quant i of Q3_K's 256, plus 4. */
static uint8_t read_q3(const uint8_t *from, size_t i) {
    int low = from[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    return (uint8_t)(low | (from[i % 32] >> i / 32 & 1) << 2);
}

static void pack_q3_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES * 32];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 32 + 256 + 8 * 256) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, super, 110), *scales = from + 96;
            memcpy(out + lane * 2, from + 108, 2);
            for (size_t i = 0; i < 16; i++)
                out[32 + i * LANES + lane] = (uint8_t)(((scales[i % 8] >> i / 8 * 4 & 15) |
                                                        (scales[8 + i % 4] >> i / 4 * 2 & 3) << 4) -
                                                       32);
        }
        for (size_t block = 0; block < 8; block++) {
            for (size_t lane = 0; lane < LANES; lane++)
                for (size_t i = 0; i < 32; i++)
                    q[lane * 32 + i] = read_q3(block_of(rows, lane, super, 110), block * 32 + i);
            put_nibbles(q, out + 32 + 256 + block * 256);
        }
    }
}

void ln_pack_panel(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                   uint8_t *panel) {
    switch (ln_pack_of(dtype)) {
    case LN_PACK_IQ4_NL: /* its blocks lie in the same way */
    case LN_PACK_Q4_0: pack_q4_0(rows, n_cols, panel); return;
    case LN_PACK_Q5_0: pack_q5_0(rows, n_cols, panel); return;
    case LN_PACK_Q5_K: pack_q5_k(rows, n_cols, panel); return;
    case LN_PACK_Q3_K: pack_q3_k(rows, n_cols, panel); return;
    case LN_PACK_Q8_0: pack_q8_0(rows, n_cols, panel); return;
    case LN_PACK_Q4_K: pack_q4_k(rows, n_cols, panel); return;
    case LN_PACK_Q6_K: pack_q6_k(rows, n_cols, panel); return;
    case LN_PACK_BF16: pack_bf16(dtype, rows, n_cols, panel); return;
    case LN_PACK_NONE:
    case LN_PACK_COUNT: return;
    }
}

static float half_at(const uint8_t *p, size_t lane) {
    uint16_t bits;
    memcpy(&bits, p + lane * 2, 2);
    return ln_f32_from_f16(bits);
}

/* The 4-bit quant of column i of a block of nibbles. */
static int nibble_at(const uint8_t *p, size_t lane, size_t i) {
    return p[i % 16 / 4 * STEP_BYTES + lane * 4 + i % 4] >> i / 16 * 4 & 0xf;
}

static int fifth_bit_at(const uint8_t *p, size_t lane, size_t i) {
    return p[lane * 4 + i % 4] >> i / 4 & 1;
}

static float read_quant(ln_pack pack, const uint8_t *p, size_t lane, size_t i) {
    size_t block = i / 32, at = i % 32;
    switch (pack) {
    case LN_PACK_Q4_0: return half_at(p, lane) * (float)(nibble_at(p + 32, lane, i) - 8);
    case LN_PACK_Q8_0:
        return half_at(p, lane) * (float)(p[32 + i / 4 * STEP_BYTES + lane * 4 + i % 4] - 128);
    case LN_PACK_Q4_K:
        return half_at(p, lane) * (float)p[64 + block * LANES + lane] *
                   (float)nibble_at(p + 320 + block * 256, lane, at) -
               half_at(p + 32, lane) * (float)p[192 + block * LANES + lane];
    case LN_PACK_Q5_0:
        return half_at(p, lane) *
               (float)((nibble_at(p + 32, lane, i) | fifth_bit_at(p + 288, lane, i) << 4) - 16);
    case LN_PACK_Q5_K: {
        const uint8_t *q = p + 320 + block * 320;
        int quant = nibble_at(q, lane, at) | fifth_bit_at(q + 256, lane, at) << 4;
        return half_at(p, lane) * (float)p[64 + block * LANES + lane] * (float)quant -
               half_at(p + 32, lane) * (float)p[192 + block * LANES + lane];
    }
    case LN_PACK_Q3_K:
        return half_at(p, lane) * (float)(int8_t)p[32 + i / 16 * LANES + lane] *
               (float)(nibble_at(p + 288 + block * 256, lane, at) - 4);
    case LN_PACK_IQ4_NL:
        return half_at(p, lane) * (float)(ln_pack_iq4[nibble_at(p + 32, lane, i)] - 128);
    case LN_PACK_Q6_K: {
        const uint8_t *q = p + 288 + block * 384;
        int high = q[256 + at / 4 % 2 * STEP_BYTES + lane * 4 + at % 4] >> at / 8 * 2 & 3;
        int quant = (nibble_at(q, lane, at) | high << 4) - 32;
        return half_at(p, lane) * (float)(int8_t)p[32 + i / 16 * LANES + lane] * (float)quant;
    }
    case LN_PACK_BF16: {
        uint16_t bits;
        memcpy(&bits, p + lane * 4 + i * 2, 2);
        return ln_f32_from_bf16(bits);
    }
    case LN_PACK_NONE:
    case LN_PACK_COUNT: break;
    }
    return 0.0f;
}

void ln_pack_read_row(ln_pack pack, const uint8_t *panel, size_t lane, size_t n_cols, float *out) {
    const pack_shape *shape = &shapes[pack];
    for (size_t i = 0; i < n_cols; i++)
        out[i] = read_quant(pack, panel + i / shape->cols * shape->bytes, lane, i % shape->cols);
}
