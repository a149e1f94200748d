#include "backend/cpu/pack_super.h"

#include "backend/cpu/pack_steps.h"

/* Scale and minimum number i of Q4_K's twelve bytes of 6-bit values. */
static void read_scale(const uint8_t *s, size_t i, uint8_t *scale, uint8_t *min) {
    if (i < 4) {
        *scale = s[i] & 63;
        *min = s[i + 4] & 63;
    } else {
        *scale = (uint8_t)((s[i + 4] & 0xf) | (s[i - 4] >> 6) << 4);
        *min = (uint8_t)(s[i + 4] >> 4 | (s[i] >> 6) << 4);
    }
}

/* What Q4_K and Q5_K begin with: two float16, eight scales and eight minimums. */
static void put_scales(const uint8_t *const rows[LANES], size_t super, size_t block_bytes,
                       uint8_t *out) {
    for (size_t lane = 0; lane < LANES; lane++) {
        const uint8_t *from = block_of(rows, lane, super, block_bytes);
        memcpy(out + lane * 2, from, 2);
        memcpy(out + 32 + lane * 2, from + 2, 2);
        for (size_t i = 0; i < 8; i++)
            read_scale(from + 4, i, &out[64 + i * LANES + lane], &out[64 + 128 + i * LANES + lane]);
    }
}

static void pack_q4_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    bytes16 even[LANES], odd[LANES];
    for (size_t super = 0; super < n_cols / LN_PACK_SUPER; super++, out += 64 + 256 + 8 * 256) {
        put_scales(rows, super, 144, out);
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
    for (size_t super = 0; super < n_cols / LN_PACK_SUPER; super++, out += 32 + 256 + 8 * 384) {
        const uint8_t *from[LANES];
        for (size_t lane = 0; lane < LANES; lane++) {
            from[lane] = block_of(rows, lane, super, 210);
            memcpy(out + lane * 2, from[lane] + 208, 2);
            for (size_t i = 0; i < 16; i++)
                out[32 + i * LANES + lane] = from[lane][192 + i];
        }
        for (size_t at = 0; at < LN_PACK_SUPER; at += 16) {
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

static void pack_q5_k(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES][32];
    for (size_t super = 0; super < n_cols / LN_PACK_SUPER; super++, out += 64 + 256 + 8 * 320) {
        put_scales(rows, super, 176, out);
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
    for (size_t super = 0; super < n_cols / LN_PACK_SUPER; super++, out += 32 + 256 + 8 * 192) {
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
    for (size_t super = 0; super < n_cols / LN_PACK_SUPER; super++, out += 64 + 256 + 8 * 128) {
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
    for (size_t super = 0; super < n_cols / LN_PACK_SUPER; super++, out += 32 + 13 * STEP_BYTES)
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, super, 54);
            memcpy(out + lane * 2, from + 52, 2);
            for (size_t i = 0; i < 13; i++)
                memcpy(out + 32 + i * STEP_BYTES + lane * 4, from + i * 4, 4);
        }
}

static void pack_tq2_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES][32];
    for (size_t super = 0; super < n_cols / LN_PACK_SUPER; super++, out += 32 + 8 * 128) {
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
    for (size_t super = 0; super < n_cols / LN_PACK_SUPER; super++, out += 32 + 128 + 8 * 256) {
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

typedef void (*packer)(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out);

static const packer packers[LN_PACK_COUNT] = {
    [LN_PACK_IQ4_XS] = pack_iq4_xs, [LN_PACK_Q2_K] = pack_q2_k,   [LN_PACK_Q3_K] = pack_q3_k,
    [LN_PACK_Q4_K] = pack_q4_k,     [LN_PACK_Q5_K] = pack_q5_k,   [LN_PACK_Q6_K] = pack_q6_k,
    [LN_PACK_TQ1_0] = pack_tq1_0,   [LN_PACK_TQ2_0] = pack_tq2_0,
};

void ln_super_pack_panel(ln_pack pack, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                         uint8_t *panel) {
    packers[pack](rows, n_cols, panel);
}
