#include "backend/cpu/pack_write.h"

#include "backend/cpu/grid.h"
#include "backend/cpu/pack_steps.h"
#include "backend/cpu/pack_super.h"
#include "base/error.h"
#include "base/half.h"

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

/* One vector of bits: bit i of byte j is that of column 4 i + j. */
static inline void put_bit_vector(const uint8_t *bits, uint8_t *out) {
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
                put_bit_vector(from + b.bits, nibbles + 256 + lane * 4);
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

static void copy_scale(const uint8_t *from, size_t lane, uint8_t *out) {
    memcpy(out + lane * 2, from, 2);
}

static void pack_q1_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    for (size_t block = 0; block < n_cols / 32; block++, out += 32 + STEP_BYTES)
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, block / 4, 18);
            copy_scale(from, lane, out);
            put_bit_vector(from + 2 + block % 4 * 4, out + 32 + lane * 4);
        }
}

static void pack_q2_0(const uint8_t *const rows[LANES], size_t n_cols, uint8_t *out) {
    uint8_t q[LANES][32];
    for (size_t block = 0; block < n_cols / 32; block++, out += 32 + 2 * STEP_BYTES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t *from = block_of(rows, lane, block / 2, 18);
            copy_scale(from, lane, out);
            for (size_t i = 0; i < 32; i++)
                q[lane][i] = from[2 + block % 2 * 8 + i / 4] >> i % 4 * 2 & 3;
        }
        put_twos(q, out + 32);
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

typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef float floats4 __attribute__((vector_size(16)));

/* 4 values from f32 to bf16 in the upper halves, as ln_bf16_from_f32 has it. */
static inline words4 f32_to_bf16(words4 bits) {
    words4 is_nan = (words4)((bits & 0x7fffffff) > 0x7f800000);
    words4 rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (rounded & ~is_nan) | ((bits | 0x400000) & is_nan);
}

/* 4 values from f16, in the lower halves of words. */
static inline words4 f32_from_f16(words4 x) {
    words4 rest = (x & 0x7fff) << 13, sign = (x & 0x8000) << 16;
    words4 is_special = (words4)(rest >= 0x0f800000); /* infinity, NaN */
    words4 bits = (words4)((floats4)rest * 0x1p112f); /* exact, subnormal numbers too */
    return bits | (is_special & (rest | 0x7f800000)) | sign;
}

static inline bytes16 upper_halves(words4 low, words4 high) {
    return (bytes16)__builtin_shufflevector((halves8)low, (halves8)high, 1, 3, 5, 7, 9, 11, 13, 15);
}

/* 8 columns from `col` on, all of them there; others than bf16 as ln_bf16_from_f32 rounds them. */
static inline bytes16 load_bf16(ln_dtype dtype, const uint8_t *row, size_t col) {
    if (dtype == LN_DTYPE_F32)
        return upper_halves(f32_to_bf16((words4)load16(row + col * 4)),
                            f32_to_bf16((words4)load16(row + col * 4 + 16)));
    halves8 x = (halves8)load16(row + col * 2), zero = {0};
    if (dtype != LN_DTYPE_F16)
        return (bytes16)x;
    words4 low = (words4)__builtin_shufflevector(x, zero, 0, 8, 1, 9, 2, 10, 3, 11);
    words4 high = (words4)__builtin_shufflevector(x, zero, 4, 12, 5, 13, 6, 14, 7, 15);
    return upper_halves(f32_to_bf16(f32_from_f16(low)), f32_to_bf16(f32_from_f16(high)));
}

static uint16_t bf16_at(ln_dtype dtype, const uint8_t *row, size_t col) {
    uint16_t bits;
    float value;
    if (dtype == LN_DTYPE_F32) {
        memcpy(&value, row + col * 4, sizeof value);
        return ln_bf16_from_f32(value);
    }
    memcpy(&bits, row + col * 2, sizeof bits);
    return dtype == LN_DTYPE_F16 ? ln_bf16_from_f32(ln_f32_from_f16(bits)) : bits;
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
            bool is_there = rows[lane] != NULL && col < n_cols;
            uint16_t bits = is_there ? bf16_at(dtype, rows[lane], col) : 0;
            memcpy(out + col / 2 * STEP_BYTES + lane * 4 + col % 2 * 2, &bits, 2);
        }
}

/* Layouts whose blocks are 32 columns or less. */
static void pack_blocks(ln_dtype dtype, const uint8_t *const rows[LANES], size_t n_cols,
                        uint8_t *out) {
    switch (ln_pack_of(dtype)) {
    case LN_PACK_Q4_0:
    case LN_PACK_IQ4_NL: pack_nibble_blocks(rows, n_cols, (nibble_block){18, 1, 0, 2}, out); return;
    case LN_PACK_Q4_1: pack_nibble_blocks(rows, n_cols, (nibble_block){20, 2, 0, 4}, out); return;
    case LN_PACK_Q5_0: pack_nibble_blocks(rows, n_cols, (nibble_block){22, 1, 2, 6}, out); return;
    case LN_PACK_Q5_1: pack_nibble_blocks(rows, n_cols, (nibble_block){24, 2, 4, 8}, out); return;
    case LN_PACK_Q8_0: pack_bytes(rows, n_cols, 2, out); return;
    case LN_PACK_I8: pack_bytes(rows, n_cols, 4, out); return;
    case LN_PACK_I4: pack_nibbles_and_byte(rows, n_cols, 4, out); return;
    case LN_PACK_MXFP4: pack_nibbles_and_byte(rows, n_cols, 0, out); return;
    case LN_PACK_Q1_0: pack_q1_0(rows, n_cols, out); return;
    case LN_PACK_Q2_0: pack_q2_0(rows, n_cols, out); return;
    case LN_PACK_F8: pack_f8(rows, n_cols, out); return;
    case LN_PACK_BF16: pack_bf16(dtype, rows, n_cols, out); return;
    default: LN_BUG_ON(true);
    }
}

void ln_pack_panel(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                   uint8_t *panel) {
    ln_pack pack = ln_pack_of(dtype);
    if (ln_is_grid(pack))
        ln_grid_pack_panel(dtype, rows, n_cols, panel);
    else if (ln_pack_shapes[pack].cols == LN_PACK_SUPER)
        ln_super_pack_panel(pack, rows, n_cols, panel);
    else
        pack_blocks(dtype, rows, n_cols, panel);
}
