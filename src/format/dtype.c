#include "format/dtype.h"

#include <string.h>

#include "base/checked.h"

static const struct {
    const char *name;
    int gguf;
    uint16_t block_elems, block_bytes;
} dtypes[LN_DTYPE_COUNT] = {
#define DTYPE_ROW(name, gguf, text, elems, bytes) [name] = {text, gguf, elems, bytes},
    LN_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};

const char *ln_dtype_name(ln_dtype dtype) {
    return dtypes[dtype].name;
}

size_t ln_dtype_block_elems(ln_dtype dtype) {
    return dtypes[dtype].block_elems;
}

size_t ln_dtype_block_bytes(ln_dtype dtype) {
    return dtypes[dtype].block_bytes;
}

bool ln_dtype_from_gguf(uint32_t number, ln_dtype *dtype) {
    for (int i = 0; i < LN_DTYPE_COUNT; i++) {
        if (dtypes[i].gguf >= 0 && (uint32_t)dtypes[i].gguf == number) {
            *dtype = (ln_dtype)i;
            return true;
        }
    }
    return false;
}

bool ln_dtype_from_name(const char *name, ln_dtype *dtype) {
    for (int i = 0; i < LN_DTYPE_I4_G32; i++) { /* internal types are in no file */
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype = (ln_dtype)i;
            return true;
        }
    }
    return false;
}

bool ln_dtype_row_bytes(ln_dtype dtype, size_t n_elems, size_t *bytes) {
    size_t block = dtypes[dtype].block_elems;
    return n_elems % block == 0 && ln_mul(n_elems / block, dtypes[dtype].block_bytes, bytes);
}
