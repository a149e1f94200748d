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
    [LN_PACK_BF16] = {2, STEP_BYTES},
};

ln_pack ln_pack_of(ln_dtype dtype) {
    switch (dtype) {
    case LN_DTYPE_Q4_0: return LN_PACK_Q4_0;
    case LN_DTYPE_Q8_0: return LN_PACK_Q8_0;
    case LN_DTYPE_Q4_K: return LN_PACK_Q4_K;
    case LN_DTYPE_Q6_K: return LN_PACK_Q6_K;
    case LN_DTYPE_F16:
    case LN_DTYPE_BF16: return LN_PACK_BF16;
    default: return LN_PACK_NONE;
    }
}

bool ln_pack_panel_bytes(ln_pack pack, size_t n_cols, size_t *bytes) {
    size_t n = n_cols / shapes[pack].cols + (n_cols % shapes[pack].cols != 0);
    return ln_mul(n, shapes[pack].bytes, bytes);
}

/* A vector of 4 columns of each row from quants q[16][32]. */
static inline void put_step(const uint8_t *q, size_t step, uint8_t *out) {
    for (size_t lane = 0; lane < LANES; lane++)
        memcpy(out + lane * 4, q + lane * 32 + step * 4, 4);
}

/* Steps i and i + 4 of 4-bit quants share a vector. */
static void put_nibbles(const uint8_t *q, uint8_t *out) {
    for (size_t step = 0; step < STEPS / 2; step++)
        for (size_t lane = 0; lane < LANES; lane++)
            for (size_t i = 0; i < 4; i++) {
                const uint8_t *from = q + lane * 32 + step * 4 + i;
                out[step * STEP_BYTES + lane * 4 + i] =
                    (uint8_t)((from[0] & 0xf) | (from[16] & 0xf) << 4);
            }
}

static void pack_q4_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES * 32];
    for (size_t block = 0; block < n_cols / 32; block++, out += 288) {
        for (size_t lane = 0; lane < LANES; lane++) {
            static const uint8_t zeros[18];
            const uint8_t *from = rows[lane] != NULL ? rows[lane] + block * 18 : zeros;
            memcpy(out + lane * 2, from, 2);
            for (size_t i = 0; i < 16; i++) {
                q[lane * 32 + i] = from[2 + i] & 0xf;
                q[lane * 32 + 16 + i] = from[2 + i] >> 4;
            }
        }
        put_nibbles(q, out + 32);
    }
}

static void pack_q8_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES * 32];
    for (size_t block = 0; block < n_cols / 32; block++, out += 544) {
        for (size_t lane = 0; lane < LANES; lane++) {
            static const uint8_t zeros[34];
            const uint8_t *from = rows[lane] != NULL ? rows[lane] + block * 34 : zeros;
            memcpy(out + lane * 2, from, 2);
            for (size_t i = 0; i < 32; i++)
                q[lane * 32 + i] = from[2 + i] ^ 0x80;
        }
        for (size_t step = 0; step < STEPS; step++)
            put_step(q, step, out + 32 + step * STEP_BYTES);
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
    uint8_t q[LANES * 32];
    static const uint8_t zeros[144];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 64 + 256 + 8 * 256) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = rows[lane] != NULL ? rows[lane] + super * 144 : zeros;
            memcpy(out + lane * 2, from, 2);
            memcpy(out + 32 + lane * 2, from + 2, 2);
            for (size_t i = 0; i < 8; i++)
                read_scale(from + 4, i, &out[64 + i * LANES + lane],
                           &out[64 + 128 + i * LANES + lane]);
        }
        for (size_t block = 0; block < 8; block++) {
            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t *from = rows[lane] != NULL ? rows[lane] + super * 144 : zeros;
                for (size_t i = 0; i < 32; i++)
                    q[lane * 32 + i] = (uint8_t)(from[16 + block / 2 * 32 + i] >> block % 2 * 4);
            }
            put_nibbles(q, out + 64 + 256 + block * 256);
        }
    }
}

/* Quant i of Q6_K's 256: low 4 bits at 0, high 2 bits at 128. */
static uint8_t read_q6(const uint8_t *from, size_t i) {
    size_t half = i / 128, part = i % 128 / 32, at = i % 32;
    uint8_t low = (uint8_t)(from[half * 64 + part % 2 * 32 + at] >> part / 2 * 4);
    return (uint8_t)((low & 0xf) | (from[128 + half * 32 + at] >> part * 2 & 3) << 4);
}

static void put_high_bits(const uint8_t *q, uint8_t *out) {
    for (size_t vector = 0; vector < 2; vector++)
        for (size_t lane = 0; lane < LANES; lane++)
            for (size_t i = 0; i < 4; i++) {
                const uint8_t *from = q + lane * 32 + vector * 4 + i;
                out[vector * STEP_BYTES + lane * 4 + i] =
                    (uint8_t)(from[0] >> 4 | (from[8] >> 4) << 2 | (from[16] >> 4) << 4 |
                              (from[24] >> 4) << 6);
            }
}

static void pack_q6_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES * 32];
    static const uint8_t zeros[210];
    for (size_t super = 0; super < n_cols / SUPER; super++, out += 32 + 256 + 8 * 384) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = rows[lane] != NULL ? rows[lane] + super * 210 : zeros;
            memcpy(out + lane * 2, from + 208, 2);
            for (size_t i = 0; i < 16; i++)
                out[32 + i * LANES + lane] = from[192 + i];
        }
        for (size_t block = 0; block < 8; block++) {
            for (size_t lane = 0; lane < LANES; lane++) {
                const uint8_t *from = rows[lane] != NULL ? rows[lane] + super * 210 : zeros;
                for (size_t i = 0; i < 32; i++)
                    q[lane * 32 + i] = read_q6(from, block * 32 + i);
            }
            put_nibbles(q, out + 32 + 256 + block * 384);
            put_high_bits(q, out + 32 + 256 + block * 384 + 256);
        }
    }
}

static void pack_bf16(ln_dtype dtype, const uint8_t *const rows[LANES], size_t n_cols,
                      uint8_t *out) {
    for (size_t col = 0; col < n_cols + n_cols % 2; col++)
        for (size_t lane = 0; lane < LANES; lane++) {
            uint16_t bits = 0;
            if (rows[lane] != NULL && col < n_cols)
                memcpy(&bits, rows[lane] + col * 2, 2);
            if (dtype == LN_DTYPE_F16)
                bits = ln_bf16_from_f32(ln_f32_from_f16(bits));
            memcpy(out + col / 2 * STEP_BYTES + lane * 4 + col % 2 * 2, &bits, 2);
        }
}

void ln_pack_panel(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                   uint8_t *panel) {
    switch (ln_pack_of(dtype)) {
    case LN_PACK_Q4_0: pack_q4_0(rows, n_cols, panel); return;
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
