/* Rows of the new tensors as float32, from where they lie in the folder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/plan.h"
#include "format/quants.h"

/* Row of the role's matrix that becomes row `unit`: where neighbours come from the two halves, or
 * halves from neighbours. */
static size_t rotated(const ln_convert_part *part, size_t unit) {
    size_t half = part->rope_dims / 2;
    size_t in_head = part->head_dim > 0 ? unit % part->head_dim : 0;
    if (part->head_dim == 0 || in_head < part->rope_begin ||
        in_head - part->rope_begin >= part->rope_dims)
        return unit;
    size_t at = in_head - part->rope_begin;
    return unit - at + (part->from_pairs ? at % half * 2 + at / half : at % 2 * half + at / 2);
}

static ln_status read_packed(const ln_weight_source *source, size_t row, size_t n_cols, float *out,
                             ln_error *err) {
    const ln_packed *packed = &source->packed;
    ln_dtype dtype = ln_packed_dtype(packed);
    size_t bytes;
    if (!ln_dtype_row_bytes(dtype, n_cols, &bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its rows are no whole number of blocks",
                       source->tensor->name);
    uint8_t *blocks = malloc(bytes + 1);
    float *ordered = calloc(n_cols, sizeof *ordered);
    if (blocks != NULL && ordered != NULL) {
        ln_packed_row(packed, row, blocks);
        ln_dequantize_row(dtype, blocks, ordered, n_cols);
        for (size_t i = 0; i < n_cols; i++)
            out[packed->columns != NULL ? (size_t)packed->columns[i] : i] = ordered[i];
    }
    bool ok = blocks != NULL && ordered != NULL;
    free(blocks);
    free(ordered);
    return ok ? LINNET_OK : ln_fail_memory(err, "rows of tensors");
}

static ln_status read_unit(const ln_convert_part *part, size_t unit, float *out, ln_error *err) {
    const ln_weight_source *source = &part->source;
    if (part->values != NULL) {
        *out = part->values[unit];
        return LINNET_OK;
    }
    size_t row = rotated(part, part->first + unit), n_cols = part->n_cols, bytes;
    row = ln_weight_source_row(source, row);
    if (source->packed.kind != LN_PACKED_NONE)
        return read_packed(source, row, n_cols, out, err);
    const ln_tensor *tensor = source->tensor;
    if (!ln_can_dequantize(tensor->dtype) || !ln_dtype_row_bytes(tensor->dtype, n_cols, &bytes) ||
        (source->transpose && ln_dtype_block_elems(tensor->dtype) != 1))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "tensor %s: type %s cannot be converted",
                       tensor->name, ln_dtype_name(tensor->dtype));
    if (!source->transpose) {
        ln_dequantize_row(tensor->dtype, tensor->data + row * bytes, out, n_cols);
        return LINNET_OK;
    }
    size_t item = ln_dtype_block_bytes(tensor->dtype);
    size_t stored_cols = (size_t)tensor->dims[tensor->n_dims - 1];
    for (size_t col = 0; col < n_cols; col++) {
        size_t at = (source->col_begin + col) * stored_cols + row;
        ln_dequantize_row(tensor->dtype, tensor->data + at * item, out + col, 1);
    }
    return LINNET_OK;
}

/* Numbers of the folder become those of the file. */
static ln_status change(const ln_convert_part *part, float *values, ln_error *err) {
    size_t n = part->n_cols;
    for (size_t i = 0; i < n && part->is_rate; i++)
        values[i] = -expf(values[i]);
    for (size_t i = 0; i < n && (part->scale != 1 || part->offset != 0); i++)
        values[i] = values[i] * part->scale + part->offset;
    if (part->new_columns == NULL)
        return LINNET_OK;
    float *old = malloc((n + 1) * sizeof *old);
    if (old == NULL)
        return ln_fail_memory(err, "rows of tensors");
    memcpy(old, values, n * sizeof *old);
    for (size_t i = 0; i < n; i++)
        values[i] = old[part->new_columns[i]];
    free(old);
    return LINNET_OK;
}

/* The part that holds a unit. */
static const ln_convert_part *part_of(const ln_convert_tensor *tensor, size_t unit) {
    const ln_convert_part *parts = tensor->plan->parts + tensor->first_part;
    size_t low = 0, high = tensor->n_parts;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (parts[middle].begin <= unit)
            low = middle;
        else
            high = middle;
    }
    return &parts[low];
}

ln_status ln_convert_rows(const ln_write_tensor *tensor, size_t row, size_t n_rows, float *out,
                          ln_error *err) {
    const ln_convert_tensor *from = tensor->source;
    size_t n_cols = (size_t)tensor->dims[tensor->n_dims - 1];
    size_t units_per_row = from->is_vector ? n_cols : 1, end = (row + n_rows) * units_per_row;
    for (size_t unit = row * units_per_row; unit < end; unit++) {
        const ln_convert_part *part = part_of(from, unit);
        LN_TRY(read_unit(part, unit - part->begin, out, err));
        LN_TRY(change(part, out, err));
        out += part->n_cols;
    }
    return LINNET_OK;
}
