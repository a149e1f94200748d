#include "convert/merge.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "convert/merge_files.h"
#include "convert/merge_plan.h"
#include "format/quants.h"
#include "model/spec_read.h"

/* Values that a worker takes at a time, in whole rows. */
enum { CHUNK_ELEMS = 1 << 18 };

/* ---- what can be written ------------------------------------------------------------------- */

static int by_tensor(const void *a, const void *b) {
    const ln_tensor *const *left = a, *const *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* The tensors that change, each once, in the order of their files: malloc'd. */
static const ln_tensor **list_tensors(const ln_merge_plan *plan, size_t *count) {
    const ln_tensor **list = calloc(plan->n_changes + 1, sizeof *list);
    *count = 0;
    for (size_t i = 0; list != NULL && i < plan->n_changes; i++)
        list[i] = plan->changes[i].tensor;
    if (list == NULL)
        return NULL;
    qsort(list, plan->n_changes, sizeof *list, by_tensor);
    for (size_t i = 0; i < plan->n_changes; i++)
        if (i == 0 || list[i] != list[i - 1])
            list[(*count)++] = list[i];
    return list;
}

static ln_status check_type(const ln_merge_plan *plan, const ln_tensor *tensor, bool requantize) {
    const char *path = ln_checkpoint_path(plan->checkpoint), *type = ln_dtype_name(tensor->dtype);
    bool is_block = ln_dtype_block_elems(tensor->dtype) > 1;
    bool is_plain = tensor->dtype == LN_DTYPE_F32 || tensor->dtype == LN_DTYPE_F16 ||
                    tensor->dtype == LN_DTYPE_BF16;
    if (is_block && !requantize)
        return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s is quantised (%s): merge into the original model, or have it "
                       "quantised again (--requantize)",
                       path, tensor->name, type);
    if (is_plain ||
        (is_block && ln_can_dequantize(tensor->dtype) && ln_can_quantize(tensor->dtype)))
        return LINNET_OK;
    return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED,
                   "%s: tensor %s: matrices of type %s cannot be merged", path, tensor->name, type);
}

/* ---- rows ---------------------------------------------------------------------------------- */

typedef struct work {
    const ln_merge_plan *plan;
    const ln_merge_options *options;
    ln_merge_output *output;
    ln_pool *pool;
    const ln_tensor **tensors; /* [n_tensors] */
    size_t *first;             /* [n_tensors + 1]: chunks before those of each */
    size_t n_tensors;
    _Atomic int status; /* the first failure's */
    ln_error error;     /* written by whom set that */
} work;

static size_t n_cols_of(const ln_tensor *tensor) {
    return (size_t)tensor->dims[tensor->n_dims - 1];
}

static size_t rows_per_chunk(const ln_tensor *tensor) {
    size_t n_cols = n_cols_of(tensor);
    return n_cols < CHUNK_ELEMS ? CHUNK_ELEMS / n_cols : 1;
}

static size_t n_chunks(const ln_tensor *tensor) {
    size_t n_rows = (size_t)(tensor->n_elems / n_cols_of(tensor)), per = rows_per_chunk(tensor);
    return (n_rows + per - 1) / per;
}

/* Gives x[n] a length, as a DoRA does. */
static void set_length(float length, size_t n, float *x) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float factor = (float)((double)length / sqrt(sum));
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* Row `row` of what a change has, onto x[n_cols]. */
static void change_row(const ln_merge_change *change, size_t row, float *delta, float *x) {
    size_t n_cols = change->n_cols;
    if (change->rank > 0) {
        memset(delta, 0, n_cols * sizeof *delta);
        for (size_t k = 0; k < change->rank; k++) {
            float factor = change->left[row * change->rank + k];
            const float *right = change->right + k * n_cols;
            for (size_t i = 0; i < n_cols; i++)
                delta[i] += factor * right[i];
        }
        for (size_t i = 0; i < n_cols; i++)
            x[i] += delta[i];
    }
    if (change->lengths != NULL)
        set_length(change->lengths[row], n_cols, x);
    for (size_t i = 0; change->of_rows != NULL && i < n_cols; i++)
        x[i] *= change->of_rows[row];
    for (size_t i = 0; change->of_cols != NULL && i < n_cols; i++)
        x[i] *= change->of_cols[i];
}

static ln_status check_values(const work *w, const ln_tensor *tensor, const void *written,
                              float *values, size_t n, ln_error *err) {
    if (ln_dtype_block_elems(tensor->dtype) == 1) /* a value may be too large for the type */
        ln_dequantize_row(tensor->dtype, written, values, n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "%s: tensor %s: a merged value is not finite in %s",
                           ln_checkpoint_path(w->plan->checkpoint), tensor->name,
                           ln_dtype_name(tensor->dtype));
    return LINNET_OK;
}

/* Rows [begin, end) of a tensor; values and bytes have room for them, and a row more of values. */
static ln_status merge_rows(const work *w, const ln_tensor *tensor, size_t begin, size_t end,
                            float *values, uint8_t *bytes, ln_error *err) {
    size_t n_cols = n_cols_of(tensor), n = (end - begin) * n_cols, row_bytes = 0;
    if (!ln_dtype_row_bytes(tensor->dtype, n_cols, &row_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its rows are no whole blocks",
                       tensor->name);
    ln_dequantize_row(tensor->dtype, tensor->data + begin * row_bytes, values, n);
    for (size_t i = 0; i < w->plan->n_changes; i++) {
        const ln_merge_change *change = &w->plan->changes[i];
        size_t first = change->first_row > begin ? change->first_row : begin;
        size_t last = change->first_row + change->n_rows;
        for (size_t row = first; change->tensor == tensor && row < end && row < last; row++)
            change_row(change, row - change->first_row, values + n,
                       values + (row - begin) * n_cols);
    }
    ln_quantize_row(tensor->dtype, values, bytes, n);
    LN_TRY(check_values(w, tensor, bytes, values, n, err));
    return ln_merge_output_write(w->output, tensor->file, tensor->file_offset + begin * row_bytes,
                                 bytes, (end - begin) * row_bytes, err);
}

static ln_status merge_chunk(const work *w, size_t index, ln_error *err) {
    size_t at = 0;
    while (index >= w->first[at + 1])
        at++;
    const ln_tensor *tensor = w->tensors[at];
    size_t per = rows_per_chunk(tensor), begin = (index - w->first[at]) * per;
    size_t n_cols = n_cols_of(tensor), n_rows = (size_t)(tensor->n_elems / n_cols);
    size_t end = begin + per < n_rows ? begin + per : n_rows;
    float *values = malloc((end - begin + 1) * n_cols * sizeof *values);
    uint8_t *bytes = malloc((end - begin) * n_cols * sizeof *values + 256);
    ln_status status = LINNET_OK;
    if (values == NULL || bytes == NULL)
        status = ln_fail_memory(err, "rows of tensors");
    else
        status = merge_rows(w, tensor, begin, end, values, bytes, err);
    free(values);
    free(bytes);
    return status;
}

static void run_worker(void *context, size_t worker) {
    work *w = context;
    const ln_merge_output *output = w->output;
    size_t total = w->first[w->n_tensors], index;
    while (atomic_load(&w->status) == LINNET_OK && (index = ln_pool_take(w->pool)) < total) {
        ln_error err = {0};
        ln_status status = merge_chunk(w, index, &err);
        uint64_t left = (output->total_bytes - output->done_bytes) / total * (total - index - 1);
        if (status == LINNET_OK && worker == 0 && w->options->progress != NULL &&
            !w->options->progress(w->options->user, output->total_bytes - left,
                                  output->total_bytes))
            status = ln_fail(&err, LINNET_ERR_CANCELLED, "interrupted");
        int ok = LINNET_OK;
        if (status != LINNET_OK && atomic_compare_exchange_strong(&w->status, &ok, (int)status))
            w->error = err;
    }
}

/* ---- all of it ----------------------------------------------------------------------------- */

static ln_status merge_all(work *w, ln_error *err) {
    LN_TRY(ln_pool_create(w->options->n_threads > 0 ? w->options->n_threads : 1, &w->pool, err));
    ln_pool_run(w->pool, run_worker, w);
    ln_pool_destroy(w->pool);
    if (atomic_load(&w->status) == LINNET_OK)
        return ln_checkpoint_check(w->plan->checkpoint, err);
    *err = w->error;
    return (ln_status)atomic_load(&w->status);
}

static ln_status write_merged(const ln_merge_plan *plan, const char *out,
                              const ln_merge_options *options, size_t *n_changed, ln_error *err) {
    ln_merge_output output = {.checkpoint = plan->checkpoint,
                              .path = out,
                              .progress = options->progress,
                              .user = options->user};
    work w = {.plan = plan, .options = options, .output = &output};
    w.tensors = list_tensors(plan, &w.n_tensors);
    w.first = calloc(w.n_tensors + 2, sizeof *w.first);
    ln_status status = LINNET_OK;
    uint64_t bytes = 0;
    if (w.tensors == NULL || w.first == NULL)
        status = ln_fail_memory(err, "the list of tensors");
    for (size_t i = 0; i < w.n_tensors && status == LINNET_OK; i++) {
        status = check_type(plan, w.tensors[i], options->requantize);
        w.first[i + 1] = w.first[i] + n_chunks(w.tensors[i]);
        bytes += w.tensors[i]->bytes;
    }
    if (status == LINNET_OK)
        status = ln_merge_output_begin(&output, bytes, err);
    if (status == LINNET_OK)
        status = merge_all(&w, err);
    if (status == LINNET_OK)
        status = ln_merge_output_end(&output, err);
    *n_changed = w.n_tensors;
    ln_merge_output_free(&output);
    free(w.tensors);
    free(w.first);
    return status;
}

ln_status ln_merge(const ln_checkpoint *checkpoint, const char *out,
                   const ln_merge_options *options, size_t *n_changed, ln_error *err) {
    ln_arena arena;
    ln_spec spec;
    ln_merge_plan plan = {.checkpoint = checkpoint, .spec = &spec, .err = err};
    ln_arena_init(&arena);
    ln_status status = ln_spec_read(checkpoint, &arena, &spec, err);
    for (size_t i = 0; i < options->n_adapters && status == LINNET_OK; i++) {
        ln_adapter_file file;
        status = ln_adapter_file_open(options->adapters[i].path, &file, err);
        if (status != LINNET_OK)
            break;
        status = ln_merge_plan_add(&plan, &file, options->adapters[i].scale);
        ln_adapter_file_close(&file);
    }
    if (status == LINNET_OK)
        status = write_merged(&plan, out, options, n_changed, err);
    ln_merge_plan_free(&plan);
    ln_arena_free(&arena);
    return status;
}
