#include "model/adapter/dora.h"

#include <math.h>
#include <stdlib.h>

#include "backend/adapter_tiles.h"
#include "base/half.h"
#include "format/quants.h"

ln_status ln_adapter_check_dora(const ln_adapter_loading *l, ln_tensor_id id,
                                const ln_weight *weight, ln_error *err) {
    bool is_joined = id.role == LN_ROLE_MIXER_IN || id.role == LN_ROLE_K_B ||
                     id.role == LN_ROLE_V_B || id.role == LN_ROLE_EMBEDDING;
    bool can = l->spec->ranks.whole == NULL && !is_joined &&
               !(id.role == LN_ROLE_OUTPUT && l->spec->unit_output) && weight->columns == NULL &&
               l->place->checkpoint != NULL;
    return can ? LINNET_OK
               : ln_fail(err, LINNET_ERR_UNSUPPORTED,
                         "%s: use_dora of adapter_config.json is not supported at run time here "
                         "(of one rank it is for most linears); `linnet merge' makes a model of it",
                         l->file->path);
}

/* Room for a row of W as it is stored, and as float32, and for A. */
typedef struct row_scratch {
    uint8_t *stored;
    float *values, *a; /* [n_cols], [rank][n_cols] */
    size_t row_bytes;
    ln_dtype dtype;
} row_scratch;

static float element_of_a(const ln_adapter_target *target, size_t n, size_t k, size_t column) {
    return target->a != NULL ? target->a[k * n + column]
                             : ln_f32_from_bf16(target->a_tiles[ln_adapter_a_at(n, k, column)]);
}

static float element_of_b(const ln_adapter_target *target, size_t row, size_t k) {
    size_t rank = target->rank, block = row / LN_ADAPTER_ROWS;
    return target->b != NULL
               ? target->b[(block * rank + k) * LN_ADAPTER_ROWS + row % LN_ADAPTER_ROWS]
               : ln_f32_from_bf16(target->b_tiles[ln_adapter_b_at(rank, row, k)]);
}

/* The length of row `row` of W + B A. */
static double length_of(const ln_weight_request *request, const row_scratch *scratch,
                        const ln_adapter_target *target, size_t row) {
    size_t n = request->n_cols;
    double sum = 0.0;
    ln_dequantize_row(scratch->dtype,
                      ln_weight_find_row(request, row, scratch->stored, scratch->row_bytes),
                      scratch->values, n);
    for (size_t k = 0; k < target->rank; k++) {
        float factor = element_of_b(target, row, k);
        for (size_t i = 0; i < n; i++)
            scratch->values[i] += factor * scratch->a[k * n + i];
    }
    for (size_t i = 0; i < n; i++)
        sum += (double)scratch->values[i] * (double)scratch->values[i];
    return sqrt(sum);
}

/* multiply[n_rows] and, where it is not NULL and has the bias, add[n_rows] */
static ln_status load_rows(const ln_adapter_loading *l, const ln_adapter_part *part,
                           const ln_adapter_row_map *map, const ln_weight_request *request,
                           const row_scratch *scratch, const ln_adapter_target *target,
                           float *multiply, float *add, ln_error *err) {
    const ln_tensor *lengths = part->magnitude;
    size_t item = ln_dtype_block_bytes(lengths->dtype);
    for (size_t i = 0; i < ln_weight_n_rows(request); i++) {
        float length;
        double has = length_of(request, scratch, target, i);
        ln_dequantize_row(lengths->dtype, lengths->data + ln_adapter_stored_row(map, i) * item,
                          &length, 1);
        multiply[i] = (float)((double)length / has);
        if (!isfinite(length) || !isfinite(multiply[i]))
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s: row %zu cannot have that length",
                           l->file->path, lengths->name, i);
        if (add != NULL)
            add[i] *= 1.0f - multiply[i];
    }
    return LINNET_OK;
}

/* The linear's bias as the checkpoint has it: a device's memory cannot be read. */
static ln_status read_bias(const ln_adapter_loading *l, ln_tensor_id id,
                           const ln_source_shape *shape, float *bias, ln_error *err) {
    ln_weight_request request;
    LN_TRY(ln_source_bias(l->place->checkpoint, l->spec, id, shape, &request, err));
    for (size_t i = 0; request.n_sources > 0 && i < shape->n_rows; i++) {
        ln_dtype dtype = ln_weight_source_dtype(&request.sources[0]);
        uint8_t stored[sizeof(double)];
        const uint8_t *row = ln_weight_find_row(&request, i, stored, ln_dtype_block_bytes(dtype));
        ln_dequantize_row(dtype, row, &bias[i], 1);
    }
    return LINNET_OK;
}

static bool make_scratch(row_scratch *s, const ln_adapter_target *target, size_t n) {
    s->stored = malloc(s->row_bytes);
    s->values = malloc(n * sizeof *s->values);
    s->a = malloc(target->rank * n * sizeof *s->a);
    if (s->stored == NULL || s->values == NULL || s->a == NULL)
        return false;
    for (size_t k = 0; k < target->rank; k++)
        for (size_t i = 0; i < n; i++)
            s->a[k * n + i] = element_of_a(target, n, k, i);
    return true;
}

ln_status ln_adapter_load_dora(ln_adapter_loading *l, const ln_adapter_part *part,
                               const ln_adapter_row_map *map, ln_tensor_id id,
                               const ln_weight *weight, ln_adapter_target *target, ln_error *err) {
    const ln_source_shape shape = {1, weight->n_rows, weight->n_cols};
    ln_weight_request request;
    row_scratch scratch = {0};
    float *multiply, *add = NULL;
    if (weight->bias != NULL) {
        LN_TRY(ln_adapter_take(l, part, ln_adapter_whole_rows(weight->n_rows), &add, err));
        LN_TRY(read_bias(l, id, &shape, add, err));
    }
    if (id.role == LN_ROLE_OUTPUT && l->spec->tied)
        id.role = LN_ROLE_EMBEDDING;
    LN_TRY(ln_source_matrix(l->place->checkpoint, l->spec, id, &shape, &request, err));
    scratch.dtype = ln_weight_source_dtype(&request.sources[0]);
    if (part->magnitude->n_elems != map->stored_rows ||
        !ln_dtype_row_bytes(scratch.dtype, weight->n_cols, &scratch.row_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has not a value for each row of B",
                       l->file->path, part->magnitude->name);
    LN_TRY(ln_adapter_take(l, part, ln_adapter_whole_rows(weight->n_rows), &multiply, err));
    ln_status status = make_scratch(&scratch, target, weight->n_cols)
                           ? load_rows(l, part, map, &request, &scratch, target, multiply, add, err)
                           : ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", l->file->path);
    free(scratch.stored);
    free(scratch.values);
    free(scratch.a);
    target->multiply = multiply;
    target->add = add;
    return status;
}
