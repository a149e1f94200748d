/* Matrices that are not used as they are stored: those of Hugging Face's quantised checkpoints,
 * whose values, scales and zeros are tensors of their own, and plain ones that are quantised while
 * they load. A row is read as blocks of one of the internal types, without passing through
 * floats:
 *
 *   I4_G32  float32 scale, uint8 zero, 16 bytes of nibbles (element i and i + 16 in byte i);
 *           value (q - zero) * scale
 *   I8_G32  float32 scale, 32 int8; value q * scale
 *   F8_G32  float32 scale, 32 E4M3; value q * scale
 *   F32     of 8-bit values, where 32 columns do not share a scale
 *   MXFP4   GGUF's block
 *
 * Where no type of blocks has the values, rows pass through float32 and become BF16, F16 or F32, or
 * what they are to be quantised to on load.
 */
#ifndef LN_FORMAT_PACKED_H
#define LN_FORMAT_PACKED_H

#include "base/error.h"
#include "format/checkpoint.h"

typedef enum ln_packed_kind {
    LN_PACKED_NONE = 0,
    LN_PACKED_ON_LOAD,   /* values of a plain type, quantised to on_load as they are read */
    LN_PACKED_UNIT_ROWS, /* values of a plain type, as F32 rows of length one */
    LN_PACKED_FP8,       /* values F8_E4M3 [rows][cols]; scales of one, of rows, or of tiles */
    LN_PACKED_INT8,      /* values I8 [rows][cols]; scales of one or of rows */
    LN_PACKED_GPTQ,      /* codes of 2 to 8 bits, one after another: values I32 [cols * bits / 32]
                            [rows]; zeros I32 [groups][rows * bits / 32], minus one; scales
                            [groups][rows] */
    LN_PACKED_AWQ,       /* values I32 [cols][rows / 8]; zeros I32 [groups][rows / 8] or none; both
                            in AWQ's order of nibbles; scales [groups][rows] */
    LN_PACKED_INT,       /* codes of 2 to 8 bits, one after another: values I32
                            [rows][cols * bits / 32]; scales [rows][groups]; zeros I32
                            [rows * bits / 32][groups] or none */
    LN_PACKED_ROW_PAIRS, /* ModelOpt's int4: values U8 [rows / 2][cols], the even row in the low
                            bits, of two's complement; scales [rows][groups] */
    LN_PACKED_SMOOTHED,  /* the same, with column_scales */
    LN_PACKED_MXFP4,     /* values U8 [experts][rows][cols / 32][16], or without experts; scales U8
                            [experts][rows][cols / 32] */
    LN_PACKED_NVFP4,     /* values U8 [rows][cols / 2], E2M1; scales F8_E4M3 [rows][cols / 16], and
                            one of the whole matrix, or one for each of several below one another */
    LN_PACKED_CODEBOOK   /* bitsandbytes: values U8 [rows * cols / 2], the first of two in the high
                            bits: indices of a table; a scale for each block of values */
} ln_packed_kind;

/* The table of LN_PACKED_CODEBOOK, and its scales, which may be quantised themselves: a scale is
 * then scale_table[scales[i]] * scales_of_scales[i / scales_per_scale] + offset. */
typedef struct ln_packed_codebook {
    const ln_tensor *table;                          /* F32 [16] */
    const ln_tensor *scale_table, *scales_of_scales; /* F32 [256], F32; NULL: scales are F32 */
    size_t values_per_scale, scales_per_scale;
    float offset;
} ln_packed_codebook;

typedef struct ln_packed {
    ln_packed_kind kind;
    const ln_tensor *values, *scales, *zeros; /* zeros NULL: none */
    size_t n_rows, n_cols;                    /* of the whole matrix (all experts together) */
    size_t scale_rows, scale_cols;            /* of the grid of scales, as [rows][cols] or GPTQ's
                                                 and AWQ's [groups][rows] */
    size_t group_rows, group_cols;            /* rows and columns that share a scale */
    size_t n_shards;      /* FP8: rows are in so many, and tiles begin anew with each; 0: in one */
    unsigned n_bits;      /* GPTQ, AWQ, INT, ROW_PAIRS, SMOOTHED: of a code */
    unsigned zero_offset; /* GPTQ: added to a stored zero */
    bool is_signed;       /* AWQ: codes and zeros are two's complement */
    const ln_tensor *order; /* GPTQ and INT: the group of each column; NULL: ascending */
    const int32_t *columns; /* [n_cols] the caller's: stored column of each column of a row, from
                               ln_packed_columns; wanted where there is an order */
    size_t first_turned, n_turned;   /* FP8, INT8; n_turned > 0: row r holds column r of this many
                                        stored rows from first_turned on */
    ln_dtype on_load;                /* ON_LOAD, and kinds of values: what rows become */
    float factor;                    /* INT8: multiplies scales; 0: nothing does */
    const ln_tensor *global_scale;   /* NVFP4: a float32, or one for each of as many matrices below
                                        one another; ROW_PAIRS, SMOOTHED: not used */
    const ln_tensor *global_divisor; /* NVFP4: by which that is divided, one or as many; or NULL */
    bool divides;                    /* NVFP4: it divides scales, rather than multiplies them */
    const ln_tensor *column_scales;  /* NVFP4, SMOOTHED: a factor for each column, or NULL */
    ln_packed_codebook codebook;     /* CODEBOOK */
    size_t first_col, n_part_cols;   /* rows have so many columns, from first_col on; 0: have all */
    bool meets_8_bits;               /* INT8, FP8: the checkpoint wants activations so, too */
    bool as_floats;                  /* INT8, FP8, GPTQ, INT: rows are F32 */
} ln_packed;

/* Whether rows pass through float32, of a checkpoint's form that no type of blocks has. */
static inline bool ln_packed_has_values(ln_packed_kind kind) {
    return kind == LN_PACKED_NVFP4 || kind == LN_PACKED_CODEBOOK || kind == LN_PACKED_SMOOTHED;
}

/* The block type of the rows that ln_packed_row gives. */
ln_dtype ln_packed_dtype(const ln_packed *packed);

/* Finds the tensors of module `name` (without suffix) and checks their shapes. kind NONE and
 * success: the module is stored plainly. n_experts > 1: MXFP4's leading dimension. Errors name
 * the tensor. */
ln_status ln_packed_find(const ln_checkpoint *checkpoint, const char *name, size_t n_experts,
                         size_t n_rows, size_t n_cols, ln_packed *packed, ln_error *err);

/* The same of q, k and v in one matrix, whose tiles may begin anew with each of eight or four
 * shards that divide the KV heads. */
ln_status ln_packed_find_shards(const ln_checkpoint *checkpoint, const char *name,
                                size_t n_kv_heads, size_t n_rows, size_t n_cols, ln_packed *packed,
                                ln_error *err);

/* The type that a name given to "quantise on load" stands for: any that ln_can_quantize, "int8" or
 * "fp8" (one scale per row), or "int4" (scale and zero for 32 columns). False: there is none. */
bool ln_packed_on_load_type(const char *name, ln_dtype *dtype);

/* Quantises a plain tensor [n_rows][n_cols] as it is read; kind NONE when its columns do not fit
 * the type's blocks, or its type is quantised already. */
ln_packed ln_packed_on_load(const ln_tensor *tensor, size_t n_rows, size_t n_cols, ln_dtype dtype);

/* Quantises rows that would be BF16, F16 or F32 to another type instead. False: they have a type of
 * blocks, or their columns do not fit the new type's. */
bool ln_packed_quantize(ln_packed *packed, ln_dtype dtype);

/* Where groups of columns are not contiguous (p->order), rows are read with the columns of each
 * group side by side: out[i] is the stored column of column i, for n_cols columns. What multiplies
 * such a row is to be gathered likewise. */
void ln_packed_columns(const ln_packed *packed, int32_t *out);

/* Turns a matrix of 8-bit values: its n rows from `first` on become columns.
 * LINNET_ERR_UNSUPPORTED of other values; the error names the tensor. */
ln_status ln_packed_turn(const ln_checkpoint *checkpoint, ln_packed *packed, size_t first, size_t n,
                         ln_error *err);

/* A plain tensor [n_rows][n_cols] whose rows are divided by their length. */
ln_packed ln_packed_unit_rows(const ln_tensor *tensor, size_t n_rows, size_t n_cols);

/* Row `row` as blocks of ln_packed_dtype. */
void ln_packed_row(const ln_packed *packed, size_t row, uint8_t *out);

#endif
