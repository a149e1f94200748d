#include "model/adapter/matrix.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/adapter_tiles.h"
#include "base/half.h"
#include "format/quants.h"

size_t ln_adapter_stored_row(const ln_adapter_row_map *map, size_t row) {
    row += map->begin;
    size_t half = map->rope_dims / 2, at = map->head_dim > 0 ? row % map->head_dim : 0;
    if (map->head_dim > 0 && at < map->rope_dims)
        row += (map->to_halves ? at % 2 * half + at / 2 : at % half * 2 + at / half) - at;
    return ln_weight_source_row(&map->source, row);
}

static ln_status wrong_shape(const ln_adapter_loading *l, const ln_tensor *tensor, size_t rows,
                             size_t cols, ln_error *err) {
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has shape %llu x %llu, not %zu x %zu",
                   l->file->path, tensor->name, (unsigned long long)tensor->dims[0],
                   (unsigned long long)tensor->dims[1], rows, cols);
}

ln_status ln_adapter_check_shape(const ln_adapter_loading *l, const ln_tensor *tensor, size_t rows,
                                 size_t cols, ln_error *err) {
    return tensor->dims[0] == rows && tensor->dims[1] == cols
               ? LINNET_OK
               : wrong_shape(l, tensor, rows, cols, err);
}

ln_status ln_adapter_read_row(const ln_adapter_loading *l, const ln_tensor *tensor, size_t row,
                              float *out, ln_error *err) {
    size_t n = (size_t)tensor->dims[1], row_bytes;
    if (!ln_dtype_row_bytes(tensor->dtype, n, &row_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s: its rows are no whole blocks",
                       l->file->path, tensor->name);
    ln_dequantize_row(tensor->dtype, tensor->data + row * row_bytes, out, n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(out[i]))
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s: row %zu is not finite",
                           l->file->path, tensor->name, row);
    return LINNET_OK;
}

/* Columns `cols` of a row, in out[cols.n]. */
static ln_status read_columns(const ln_adapter_loading *l, const ln_tensor *tensor, size_t row,
                              ln_slice cols, float *out, ln_error *err) {
    if (cols.n == tensor->dims[1])
        return ln_adapter_read_row(l, tensor, row, out, err);
    float *whole = calloc((size_t)tensor->dims[1], sizeof *whole);
    if (whole == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", l->file->path);
    ln_status status = ln_adapter_read_row(l, tensor, row, whole, err);
    memcpy(out, whole + cols.begin, cols.n * sizeof *out);
    free(whole);
    return status;
}

ln_status ln_adapter_take(ln_adapter_loading *l, const ln_adapter_part *part, size_t n, float **out,
                          ln_error *err) {
    size_t offset = ln_layout_add(&l->layout, n, sizeof(float));
    if (l->layout.overflow || l->layout.bytes > l->place->bytes)
        return ln_fail(err, LINNET_ERR_LIMIT, "%s: module %s: the adapter has no room",
                       l->file->path, part->module);
    *out = (float *)(void *)(l->memory + offset);
    memset(*out, 0, n * sizeof **out);
    return LINNET_OK;
}

ln_status ln_adapter_take_matrices(ln_adapter_loading *l, const ln_adapter_part *part, size_t rank,
                                   size_t n_in, size_t n_out, ln_adapter_matrices *m,
                                   ln_error *err) {
    *m = (ln_adapter_matrices){.rank = rank, .n_in = n_in};
    if (!l->place->backend->has_adapter_tiles) {
        LN_TRY(ln_adapter_take(l, part, ln_adapter_whole_rows(rank) * n_in, &m->a, err));
        return ln_adapter_take(l, part, ln_adapter_whole_rows(n_out) * rank, &m->b, err);
    }
    float *a, *b;
    LN_TRY(ln_adapter_take(l, part, ln_adapter_a_elems(rank, n_in) / 2, &a, err));
    LN_TRY(ln_adapter_take(l, part, ln_adapter_b_elems(rank, n_out) / 2, &b, err));
    m->a_tiles = (uint16_t *)(void *)a;
    m->b_tiles = (uint16_t *)(void *)b;
    return LINNET_OK;
}

/* Finite values stay finite: rows of other adapters meet them with zeros. */
static uint16_t round_to_bf16(float value) {
    const float greatest = FLT_MAX * 0.996f;
    return ln_bf16_from_f32(value > greatest ? greatest : value < -greatest ? -greatest : value);
}

void ln_adapter_put_a(const ln_adapter_matrices *m, size_t k, size_t column, float value) {
    k += m->first_k;
    if (m->a != NULL)
        m->a[k * m->n_in + column] = value;
    else
        m->a_tiles[ln_adapter_a_at(m->n_in, k, column)] = round_to_bf16(value);
}

void ln_adapter_put_b(const ln_adapter_matrices *m, size_t row, size_t k, float value) {
    row += m->first_row;
    k += m->first_k;
    if (m->b != NULL)
        m->b[(row / LN_ADAPTER_ROWS * m->rank + k) * LN_ADAPTER_ROWS + row % LN_ADAPTER_ROWS] =
            value;
    else
        m->b_tiles[ln_adapter_b_at(m->rank, row, k)] = round_to_bf16(value);
}

ln_adapter_target ln_adapter_target_of(const ln_adapter_matrices *m) {
    return (ln_adapter_target){
        .rank = m->rank, .a = m->a, .b = m->b, .a_tiles = m->a_tiles, .b_tiles = m->b_tiles};
}

ln_status ln_adapter_load_b(ln_adapter_loading *l, const ln_adapter_part *part,
                            const ln_adapter_row_map *map, size_t n_rows,
                            const ln_adapter_matrices *m, ln_error *err) {
    float row[LN_MAX_ADAPTER_RANK], scale = (float)(part->scale * (double)l->scale);
    LN_TRY(ln_adapter_check_shape(l, part->b, map->stored_rows, part->rank, err));
    for (size_t i = 0; i < n_rows; i++) {
        LN_TRY(ln_adapter_read_row(l, part->b, ln_adapter_stored_row(map, i), row, err));
        for (size_t k = 0; k < part->rank; k++)
            ln_adapter_put_b(m, i, k, scale * row[k]);
    }
    return LINNET_OK;
}

ln_status ln_adapter_load_product(ln_adapter_loading *l, const ln_adapter_part *part,
                                  const ln_adapter_row_map *map, size_t n_rows,
                                  const ln_adapter_matrices *m, ln_error *err) {
    ln_slice cols = map->cols.n > 0 ? map->cols : (ln_slice){0, m->n_in, m->n_in};
    LN_TRY(ln_adapter_check_shape(l, part->a, part->rank, cols.of, err));
    float *row = calloc(cols.n, sizeof *row);
    if (row == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", l->file->path);
    ln_status status = LINNET_OK;
    for (size_t k = 0; k < part->rank && status == LINNET_OK; k++) {
        status = read_columns(l, part->a, k, cols, row, err);
        for (size_t i = 0; i < cols.n; i++)
            ln_adapter_put_a(m, k, i, row[i]);
    }
    free(row);
    LN_TRY(status);
    return ln_adapter_load_b(l, part, map, n_rows, m, err);
}
