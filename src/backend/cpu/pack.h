/* Packed weights: the layout that the fast kernels stream.
 *
 * A panel is 16 rows of W, one per lane; the last one is filled up with rows of zeros. Along K a
 * panel is a sequence of blocks of 32 columns, a block 8 steps of 4 columns: a step is the vector
 * that one dot-product instruction takes, [16 rows][4 columns] bytes. Quants are stored unsigned,
 * q = w / scale + offset, and meet signed activations; the offset is undone by a start value of
 * -offset * sum(x).
 *
 *   Q8_0   per block: 16 f16 scales, 8 steps of bytes; offset 128
 *   Q4_0   per block: 16 f16 scales, 4 vectors of nibbles: the low ones are step i, the high ones
 *          step i + 4; offset 8
 *   Q4_1   per block: 16 f16 scales, 16 f16 minimums, nibbles as in Q4_0; offset 0
 *   Q5_0   as Q4_0, and a vector of the fifth bits, bit i of a byte for step i; offset 16
 *   Q5_1   as Q4_1, and a vector of fifth bits; offset 0
 *   IQ4_NL as Q4_0; the nibbles are indices of ln_pack_iq4; offset 128
 *   Q4_K   per 256 columns: 16 f16 d, 16 f16 dmin, [8][16] scales, [8][16] mins (bytes), then 8
 *          blocks of nibbles as above; offset 0
 *   Q5_K   as Q4_K, and a vector of fifth bits after each block's nibbles; offset 0
 *   Q6_K   per 256 columns: 16 f16 d, [16][16] signed scales, then 8 blocks of 6 vectors: three for
 *          each 4 steps, 6 bits of the first three steps, above them 2 bits of the last; offset 32
 *   Q3_K   per 256 columns: 16 f16 d, [16][16] signed scales, then 8 blocks of 2 vectors with the
 *          low 2 bits of steps i, i + 2, i + 4, i + 6, and a vector of third bits; offset 4
 *   Q2_K   per 256 columns: 16 f16 d, 16 f16 dmin, [16][16] bytes (scale, above it the minimum),
 *          then 8 blocks of 2 vectors as in Q3_K; offset 0
 *   IQ4_XS per 256 columns: 16 f16 d, [8][16] signed scales, then 8 blocks of nibbles, which are
 *          indices of ln_pack_iq4; offset 128
 *   I8     as Q8_0, but float32 scales; offset 128
 *   MXFP4  per block: 16 bytes, exponents plus 127, and nibbles as in Q4_0, which are indices of
 *          ln_pack_fp4; w = value / 2 * 2^exponent; offset 128
 *   I4     per block: 16 float32 scales, 16 bytes of zeros, nibbles as in Q4_0; w = (q - zero) *
 *          scale
 *   BF16   [K / 2][16 rows][2 columns] bf16; also for F16, which loses three bits, and for F32
 *          that may be rounded
 *   TQ1_0  per 256 columns: 16 f16 d, 13 vectors of trits, as the file has them: place i of vectors
 *          0 to 7 is block i, places 2 i and 2 i + 1 of vectors 8 to 11 block 5 + i, and four
 *          places of the last vector the last four steps; offset 1
 *   TQ2_0  per 256 columns: 16 f16 d, then 8 blocks of 2 vectors as in Q3_K; offset 1
 *   Q1_0   per block: 16 f16 scales, a vector of bits, bit i of a byte for step i; w is the scale
 *          where the bit is 1, else minus the scale
 *   Q2_0   per block: 16 f16 scales, 2 vectors as in Q3_K; offset 1
 *   IQ1_S to IQ3_S: indices of codebooks (backend/cpu/grid.h); offset 64 */
#ifndef LN_BACKEND_CPU_PACK_H
#define LN_BACKEND_CPU_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/dtype.h"

enum { LN_PANEL_ROWS = 16, LN_PACK_COLS = 32, LN_PACK_SUPER = 256 };

typedef enum ln_pack {
    LN_PACK_NONE, /* rows as in the checkpoint */
    LN_PACK_Q4_0,
    LN_PACK_Q8_0,
    LN_PACK_Q4_K,
    LN_PACK_Q6_K,
    LN_PACK_Q5_0,
    LN_PACK_Q5_K,
    LN_PACK_Q3_K,
    LN_PACK_IQ4_NL,
    LN_PACK_Q4_1,
    LN_PACK_Q5_1,
    LN_PACK_Q2_K,
    LN_PACK_IQ4_XS,
    LN_PACK_I8,
    LN_PACK_I4,
    LN_PACK_MXFP4,
    LN_PACK_F8,
    LN_PACK_BF16,
    LN_PACK_TQ1_0,
    LN_PACK_TQ2_0,
    LN_PACK_IQ1_S,
    LN_PACK_IQ1_M,
    LN_PACK_IQ2_XXS,
    LN_PACK_IQ2_XS,
    LN_PACK_IQ2_S,
    LN_PACK_IQ3_XXS,
    LN_PACK_IQ3_S,
    LN_PACK_Q1_0,
    LN_PACK_Q2_0,
    LN_PACK_COUNT
} ln_pack;

/* A panel is a sequence of blocks of `cols` columns, `bytes` each. */
typedef struct ln_pack_shape {
    size_t cols, bytes;
} ln_pack_shape;
static const ln_pack_shape ln_pack_shapes[LN_PACK_COUNT] = {
    [LN_PACK_NONE] = {1, 0},
    [LN_PACK_Q4_0] = {32, 32 + 256},
    [LN_PACK_Q8_0] = {32, 32 + 512},
    [LN_PACK_Q4_K] = {LN_PACK_SUPER, 64 + 256 + 8 * 256},
    [LN_PACK_Q6_K] = {LN_PACK_SUPER, 32 + 256 + 8 * 384},
    [LN_PACK_Q5_0] = {32, 32 + 320},
    [LN_PACK_Q5_K] = {LN_PACK_SUPER, 64 + 256 + 8 * 320},
    [LN_PACK_Q3_K] = {LN_PACK_SUPER, 32 + 256 + 8 * 192},
    [LN_PACK_IQ4_NL] = {32, 32 + 256},
    [LN_PACK_Q4_1] = {32, 64 + 256},
    [LN_PACK_Q5_1] = {32, 64 + 320},
    [LN_PACK_Q2_K] = {LN_PACK_SUPER, 64 + 256 + 8 * 128},
    [LN_PACK_IQ4_XS] = {LN_PACK_SUPER, 32 + 128 + 8 * 256},
    [LN_PACK_I8] = {32, 64 + 512},
    [LN_PACK_I4] = {32, 64 + 16 + 256},
    [LN_PACK_MXFP4] = {32, 16 + 256},
    [LN_PACK_F8] = {32, 64 + 512},
    [LN_PACK_BF16] = {2, 64},
    [LN_PACK_TQ1_0] = {LN_PACK_SUPER, 32 + 13 * 64},
    [LN_PACK_TQ2_0] = {LN_PACK_SUPER, 32 + 8 * 128},
    [LN_PACK_IQ1_S] = {LN_PACK_SUPER, 96 + 8 * 96},
    [LN_PACK_IQ1_M] = {LN_PACK_SUPER, 160 + 8 * 96},
    [LN_PACK_IQ2_XXS] = {LN_PACK_SUPER, 96 + 8 * 128},
    [LN_PACK_IQ2_XS] = {LN_PACK_SUPER, 160 + 8 * 136},
    [LN_PACK_IQ2_S] = {LN_PACK_SUPER, 160 + 8 * 144},
    [LN_PACK_IQ3_XXS] = {LN_PACK_SUPER, 96 + 8 * 192},
    [LN_PACK_IQ3_S] = {LN_PACK_SUPER, 96 + 8 * 208},
    [LN_PACK_Q1_0] = {32, 32 + 64},
    [LN_PACK_Q2_0] = {32, 32 + 128},
};

/* The values of IQ4_NL's nibbles, plus 128. */
static const uint8_t ln_pack_iq4[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                        129, 141, 153, 166, 181, 197, 217, 241};

/* Twice the values of MXFP4's nibbles, plus 128. */
static const uint8_t ln_pack_fp4[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                        128, 127, 126, 125, 124, 122, 120, 116};

/* The layout that a type packs into; LN_PACK_NONE: there is none. */
ln_pack ln_pack_of(ln_dtype dtype);

/* Bytes of one panel of n_cols columns; false on overflow. */
bool ln_pack_panel_bytes(ln_pack pack, size_t n_cols, size_t *bytes);

#endif
