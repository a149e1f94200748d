/* Any bytes as blocks of a quantised type: read as floats, and these, infinities and NaN among
 * them, written as blocks of another. The first two bytes say of which. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/quants.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_ELEMS = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    float values[MAX_ELEMS], again[MAX_ELEMS];
    if (bytes < 2)
        return 0;
    ln_dtype from = (ln_dtype)(data[0] % LN_DTYPE_COUNT), to = (ln_dtype)(data[1] % LN_DTYPE_COUNT);
    size_t elems = ln_dtype_block_elems(from), n_blocks = (bytes - 2) / ln_dtype_block_bytes(from);
    size_t n = n_blocks * elems < MAX_ELEMS ? n_blocks * elems : MAX_ELEMS;
    if (!ln_can_dequantize(from) || n == 0)
        return 0;
    void *blocks = malloc(bytes - 2);
    if (blocks == NULL)
        return 0;
    memcpy(blocks, data + 2, bytes - 2);
    ln_dequantize_row(from, blocks, values, n);
    free(blocks);
    size_t n_written = n / ln_dtype_block_elems(to) * ln_dtype_block_elems(to), n_bytes;
    if (!ln_can_quantize(to) || n_written == 0 || !ln_dtype_row_bytes(to, n_written, &n_bytes))
        return 0;
    void *written = malloc(n_bytes);
    if (written == NULL)
        return 0;
    ln_quantize_row(to, values, written, n_written);
    ln_dequantize_row(to, written, again, n_written);
    free(written);
    return 0;
}
