#include "backend/cpu/grid.h"

#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "format/quants_iq.inc"

enum { LANES = LN_PANEL_ROWS, SUPER = LN_PACK_SUPER, MAX_INDICES = SUPER / 4 };

/* ---- the codebooks as bytes ---------------------------------------------------------------- */

/* Value i of an entry of 8 values of 2 bits, or of 4 values of 4 bits. */
#define TWO(entry, i)  ((entry) >> 2 * (i)&3)
#define FOUR(entry, i) ((entry) >> 4 * (i)&7)

#define IQ1(code)     (8 * ((code)-1) + 1)
#define IQ2(code)     ((code) == 0 ? 8 : (code) == 1 ? 25 : (code) == 2 ? 43 : 0)
#define IQ3_XXS(code) (8 * (code) + 4 + 2 * ((code) == 7))
#define IQ3_S(code)   (2 * (code) + 1)

#define BYTE64(value, i) ((uint64_t)(GRID_OFFSET + (value)) << 8 * (i))
#define BYTE32(value, i) ((uint32_t)(GRID_OFFSET + (value)) << 8 * (i))
#define BYTES8(entry, of)                                                                          \
    BYTE64(of(TWO(entry, 0)), 0) | BYTE64(of(TWO(entry, 1)), 1) | BYTE64(of(TWO(entry, 2)), 2) |   \
        BYTE64(of(TWO(entry, 3)), 3) | BYTE64(of(TWO(entry, 4)), 4) |                              \
        BYTE64(of(TWO(entry, 5)), 5) | BYTE64(of(TWO(entry, 6)), 6) | BYTE64(of(TWO(entry, 7)), 7)
#define BYTES4(entry, of)                                                                          \
    BYTE32(of(FOUR(entry, 0)), 0) | BYTE32(of(FOUR(entry, 1)), 1) |                                \
        BYTE32(of(FOUR(entry, 2)), 2) | BYTE32(of(FOUR(entry, 3)), 3)
#define ENTRY_IQ1(entry)     BYTES8(entry, IQ1),
#define ENTRY_IQ2(entry)     BYTES8(entry, IQ2),
#define ENTRY_IQ3_XXS(entry) BYTES4(entry, IQ3_XXS),
#define ENTRY_IQ3_S(entry)   BYTES4(entry, IQ3_S),

const uint64_t ln_grid_iq1[IQ1_ENTRIES] = {LN_GRID_IQ1(ENTRY_IQ1)};
const uint64_t ln_grid_iq2_xxs[256] = {LN_GRID_IQ2_XXS(ENTRY_IQ2)};
const uint64_t ln_grid_iq2_xs[512] = {LN_GRID_IQ2_XS(ENTRY_IQ2)};
const uint64_t ln_grid_iq2_s[1024] = {LN_GRID_IQ2_S(ENTRY_IQ2)};
const uint32_t ln_grid_iq3_xxs[256] = {LN_GRID_IQ3_XXS(ENTRY_IQ3_XXS)};
const uint32_t ln_grid_iq3_s[512] = {LN_GRID_IQ3_S(ENTRY_IQ3_S)};

/* ---- from the file ------------------------------------------------------------------------- */

/* 256 columns of one row, of whatever type. */
typedef struct codes {
    uint16_t d;
    uint8_t scales[16];
    uint16_t index[MAX_INDICES];
    uint32_t signs[GRID_SUPER_BLOCKS]; /* bit i: column i of a block */
} codes;

static uint16_t load16(const uint8_t *p) {
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint32_t load32(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Seven stored sign bits; the eighth makes the number of minus signs even. */
static uint32_t complete_signs(uint32_t seven) {
    seven &= 127;
    return seven | (uint32_t)__builtin_parity(seven) << 7;
}

/* 4 times seven signs, as the low 28 bits have them. */
static uint32_t complete_all(uint32_t packed) {
    return complete_signs(packed) | complete_signs(packed >> 7) << 8 |
           complete_signs(packed >> 14) << 16 | complete_signs(packed >> 21) << 24;
}

static void read_nibbles(const uint8_t *from, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++)
        out[i] = from[i / 2] >> i % 2 * 4 & 0xf;
}

static void read_iq1_s(const uint8_t *p, codes *c) {
    c->d = load16(p);
    for (size_t i = 0; i < 32; i++) {
        uint32_t packed = load16(p + 34 + i / 4 * 2);
        c->scales[i / 4] = packed >> 12 & 7;
        c->index[i] =
            (uint16_t)(p[2 + i] | (packed >> i % 4 * 3 & 7) << 8 | (packed >> 15) * IQ1_ENTRIES);
    }
}

static void read_iq1_m(const uint8_t *p, codes *c) {
    const uint8_t *scales = p + 48;
    c->d = 0;
    for (size_t i = 0; i < 16; i++) {
        uint32_t packed = load16(scales + i / 4 * 2);
        c->scales[i] = packed >> i % 4 * 3 & 7;
        if (i % 4 == 0)
            c->d = (uint16_t)(c->d | packed >> 12 << i);
    }
    for (size_t i = 0; i < 32; i++)
        c->index[i] = (uint16_t)(p[i] | (p[32 + i / 2] >> i % 2 * 4 & 0xf) << 8);
}

static void read_iq2_xxs(const uint8_t *p, codes *c) {
    c->d = load16(p);
    for (size_t block = 0; block < GRID_SUPER_BLOCKS; block++) {
        const uint8_t *from = p + 2 + 8 * block;
        for (size_t k = 0; k < 4; k++)
            c->index[4 * block + k] = from[k];
        c->signs[block] = complete_all(load32(from + 4));
        c->scales[block] = from[7] >> 4;
    }
}

static void read_iq2_xs(const uint8_t *p, codes *c) {
    c->d = load16(p);
    read_nibbles(p + 66, 16, c->scales);
    memset(c->signs, 0, sizeof c->signs);
    for (size_t i = 0; i < 32; i++) {
        uint32_t packed = load16(p + 2 + 2 * i);
        c->index[i] = packed & 511;
        c->signs[i / 4] |= complete_signs(packed >> 9) << i % 4 * 8;
    }
}

static void read_iq2_s(const uint8_t *p, codes *c) {
    c->d = load16(p);
    read_nibbles(p + 74, 16, c->scales);
    memcpy(c->signs, p + 34, sizeof c->signs);
    for (size_t i = 0; i < 32; i++)
        c->index[i] = (uint16_t)(p[2 + i] | (p[66 + i / 4] >> i % 4 * 2 & 3) << 8);
}

static void read_iq3_xxs(const uint8_t *p, codes *c) {
    c->d = load16(p);
    for (size_t i = 0; i < 64; i++)
        c->index[i] = p[2 + i];
    for (size_t block = 0; block < GRID_SUPER_BLOCKS; block++) {
        uint32_t packed = load32(p + 66 + block * 4);
        c->signs[block] = complete_all(packed);
        c->scales[block] = (uint8_t)(packed >> 28);
    }
}

static void read_iq3_s(const uint8_t *p, codes *c) {
    c->d = load16(p);
    read_nibbles(p + 106, 8, c->scales);
    memcpy(c->signs, p + 74, sizeof c->signs);
    for (size_t i = 0; i < 64; i++)
        c->index[i] = (uint16_t)(p[2 + i] | (p[66 + i / 8] >> i % 8 & 1) << 8);
}

static void read_codes(ln_pack pack, const uint8_t *p, codes *c) {
    switch (pack) {
    case LN_PACK_IQ1_S: read_iq1_s(p, c); return;
    case LN_PACK_IQ1_M: read_iq1_m(p, c); return;
    case LN_PACK_IQ2_XXS: read_iq2_xxs(p, c); return;
    case LN_PACK_IQ2_XS: read_iq2_xs(p, c); return;
    case LN_PACK_IQ2_S: read_iq2_s(p, c); return;
    case LN_PACK_IQ3_XXS: read_iq3_xxs(p, c); return;
    default: read_iq3_s(p, c); return;
    }
}

/* ---- to panels, and back ------------------------------------------------------------------- */

/* Bit 4 i + j becomes bit i of byte j. */
static uint32_t transpose_signs(uint32_t x) {
    uint32_t all = 0;
    for (int j = 0; j < 4; j++) {
        uint32_t bits = x >> j & 0x11111111;
        bits = (bits | bits >> 3) & 0x03030303;
        bits = (bits | bits >> 6) & 0x000f000f;
        all |= ((bits | bits >> 12) & 0xff) << 8 * j;
    }
    return all;
}

/* One row's codes of 256 columns; the panel's bytes are zero before its first row. */
static void put_codes(ln_grid_shape shape, const codes *c, size_t lane, uint8_t *out) {
    size_t n_indices = LN_PACK_COLS / shape.wide, row_bits = n_indices * shape.high_bits;
    memcpy(out + lane * 2, &c->d, 2);
    for (size_t i = 0; i < GRID_SUPER_BLOCKS * shape.n_parts; i++)
        out[GRID_SCALES_AT + i / 2 * LANES + lane] |= (uint8_t)(c->scales[i] << i % 2 * 4);
    uint8_t *block = out + ln_grid_blocks_at(shape);
    for (size_t at = 0; at < GRID_SUPER_BLOCKS; at++, block += ln_grid_block_bytes(shape)) {
        const uint16_t *index = c->index + at * n_indices;
        uint8_t *high = block + ln_grid_high_at(shape);
        uint32_t bits = 0;
        for (size_t k = 0; k < n_indices; k++) {
            block[k * LANES + lane] = (uint8_t)index[k];
            bits |= (uint32_t)(index[k] >> 8) << k * shape.high_bits;
        }
        if (row_bits == 4)
            high[lane % 8] |= (uint8_t)(bits << lane / 8 * 4);
        else
            memcpy(high + lane * row_bits / 8, &bits, row_bits / 8);
        uint32_t signs = transpose_signs(c->signs[at]);
        if (shape.has_signs)
            memcpy(block + ln_grid_signs_at(shape) + lane * 4, &signs, sizeof signs);
    }
}

void ln_grid_pack_panel(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                        uint8_t *panel) {
    ln_pack pack = ln_pack_of(dtype);
    ln_grid_shape shape = ln_grid_shape_of(pack);
    size_t bytes = ln_grid_super_bytes(shape), from_bytes = ln_dtype_block_bytes(dtype);
    for (size_t super = 0; super < n_cols / SUPER; super++, panel += bytes) {
        memset(panel, 0, bytes);
        for (size_t lane = 0; lane < LANES; lane++) {
            codes c = {0};
            if (rows[lane] == NULL)
                continue;
            read_codes(pack, rows[lane] + super * from_bytes, &c);
            put_codes(shape, &c, lane, panel);
        }
    }
}

float ln_grid_read(ln_pack pack, const uint8_t *p, size_t lane, size_t i) {
    LN_BUG_ON(!ln_is_grid(pack));
    ln_grid_shape shape = ln_grid_shape_of(pack);
    size_t column = i % LN_PACK_COLS, part = i * shape.n_parts / LN_PACK_COLS;
    const uint8_t *block =
        p + ln_grid_blocks_at(shape) + i / LN_PACK_COLS * ln_grid_block_bytes(shape);
    uint64_t entry = ln_grid_entry(pack, ln_grid_index(shape, block, lane, column / shape.wide));
    int value = (int)(entry >> column % shape.wide * 8 & 0xff) - GRID_OFFSET;
    if (shape.has_signs &&
        (block[ln_grid_signs_at(shape) + lane * 4 + column % 4] >> column / 4 & 1) != 0)
        value = -value;
    int scale = p[GRID_SCALES_AT + part / 2 * LANES + lane] >> part % 2 * 4 & 0xf;
    float d = ln_f32_from_f16(load16(p + lane * 2));
    return d * shape.unit * (float)(2 * scale + 1) * (float)value;
}
