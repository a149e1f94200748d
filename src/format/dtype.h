/* Element types of tensors: plain values and GGUF's quantised blocks. */
#ifndef LN_FORMAT_DTYPE_H
#define LN_FORMAT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, GGUF type number (-1: GGUF has none), text, elements per block, bytes per block */
#define LN_DTYPES(X)                                                                               \
    X(LN_DTYPE_F32, 0, "F32", 1, 4)                                                                \
    X(LN_DTYPE_F16, 1, "F16", 1, 2)                                                                \
    X(LN_DTYPE_Q4_0, 2, "Q4_0", 32, 18)                                                            \
    X(LN_DTYPE_Q4_1, 3, "Q4_1", 32, 20)                                                            \
    X(LN_DTYPE_Q5_0, 6, "Q5_0", 32, 22)                                                            \
    X(LN_DTYPE_Q5_1, 7, "Q5_1", 32, 24)                                                            \
    X(LN_DTYPE_Q8_0, 8, "Q8_0", 32, 34)                                                            \
    X(LN_DTYPE_Q8_1, 9, "Q8_1", 32, 36)                                                            \
    X(LN_DTYPE_Q2_K, 10, "Q2_K", 256, 84)                                                          \
    X(LN_DTYPE_Q3_K, 11, "Q3_K", 256, 110)                                                         \
    X(LN_DTYPE_Q4_K, 12, "Q4_K", 256, 144)                                                         \
    X(LN_DTYPE_Q5_K, 13, "Q5_K", 256, 176)                                                         \
    X(LN_DTYPE_Q6_K, 14, "Q6_K", 256, 210)                                                         \
    X(LN_DTYPE_Q8_K, 15, "Q8_K", 256, 292)                                                         \
    X(LN_DTYPE_IQ2_XXS, 16, "IQ2_XXS", 256, 66)                                                    \
    X(LN_DTYPE_IQ2_XS, 17, "IQ2_XS", 256, 74)                                                      \
    X(LN_DTYPE_IQ3_XXS, 18, "IQ3_XXS", 256, 98)                                                    \
    X(LN_DTYPE_IQ1_S, 19, "IQ1_S", 256, 50)                                                        \
    X(LN_DTYPE_IQ4_NL, 20, "IQ4_NL", 32, 18)                                                       \
    X(LN_DTYPE_IQ3_S, 21, "IQ3_S", 256, 110)                                                       \
    X(LN_DTYPE_IQ2_S, 22, "IQ2_S", 256, 82)                                                        \
    X(LN_DTYPE_IQ4_XS, 23, "IQ4_XS", 256, 136)                                                     \
    X(LN_DTYPE_I8, 24, "I8", 1, 1)                                                                 \
    X(LN_DTYPE_I16, 25, "I16", 1, 2)                                                               \
    X(LN_DTYPE_I32, 26, "I32", 1, 4)                                                               \
    X(LN_DTYPE_I64, 27, "I64", 1, 8)                                                               \
    X(LN_DTYPE_F64, 28, "F64", 1, 8)                                                               \
    X(LN_DTYPE_IQ1_M, 29, "IQ1_M", 256, 56)                                                        \
    X(LN_DTYPE_BF16, 30, "BF16", 1, 2)                                                             \
    X(LN_DTYPE_TQ1_0, 34, "TQ1_0", 256, 54)                                                        \
    X(LN_DTYPE_TQ2_0, 35, "TQ2_0", 256, 66)                                                        \
    X(LN_DTYPE_MXFP4, 39, "MXFP4", 32, 17)                                                         \
    X(LN_DTYPE_NVFP4, 40, "NVFP4", 64, 36)                                                         \
    X(LN_DTYPE_Q1_0, 41, "Q1_0", 128, 18)                                                          \
    X(LN_DTYPE_Q2_0, 42, "Q2_0", 64, 18)                                                           \
    X(LN_DTYPE_U8, -1, "U8", 1, 1)                                                                 \
    X(LN_DTYPE_U16, -1, "U16", 1, 2)                                                               \
    X(LN_DTYPE_U32, -1, "U32", 1, 4)                                                               \
    X(LN_DTYPE_U64, -1, "U64", 1, 8)                                                               \
    X(LN_DTYPE_BOOL, -1, "BOOL", 1, 1)                                                             \
    X(LN_DTYPE_F8_E4M3, -1, "F8_E4M3", 1, 1)                                                       \
    X(LN_DTYPE_F8_E5M2, -1, "F8_E5M2", 1, 1)                                                       \
    X(LN_DTYPE_F8_E8M0, -1, "F8_E8M0", 1, 1)                                                       \
    X(LN_DTYPE_I4_G32, -1, "I4_G32", 32, 21) /* internal: see packed.h */                          \
    X(LN_DTYPE_I8_G32, -1, "I8_G32", 32, 36)                                                       \
    X(LN_DTYPE_F8_G32, -1, "F8_G32", 32, 36)

typedef enum ln_dtype {
#define LN_DTYPE_ENUM(name, gguf, text, elems, bytes) name,
    LN_DTYPES(LN_DTYPE_ENUM)
#undef LN_DTYPE_ENUM
        LN_DTYPE_COUNT
} ln_dtype;

const char *ln_dtype_name(ln_dtype dtype);
size_t ln_dtype_block_elems(ln_dtype dtype);
size_t ln_dtype_block_bytes(ln_dtype dtype);

/* By GGUF type number, or by safetensors/GGUF name; false when there is no such type. */
bool ln_dtype_from_gguf(uint32_t number, ln_dtype *dtype);
bool ln_dtype_from_name(const char *name, ln_dtype *dtype);

/* Bytes of a row of n_elems; false when n_elems is no multiple of the block or on overflow. */
bool ln_dtype_row_bytes(ln_dtype dtype, size_t n_elems, size_t *bytes);

#endif
