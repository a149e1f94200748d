/* Compressed entries: what a run of tokens comes to, once its last one is there. Runs are the items
 * that workers take in turn. */
#include <math.h>
#include <string.h>

#include "backend/cpu/scalar/scalar.h"

/* A run that ends with a token of the batch. */
typedef struct entry_run {
    const ln_op_compress *p;
    const int32_t *block_table; /* of rows */
    size_t number, dim;
    float *largest, *total, *sum; /* [dim] of the gates, and of values by these */
} entry_run;

/* The row of a token in the cache. */
static const float *row_at(const entry_run *run, size_t position) {
    const ln_kv_layer *rows = run->p->rows;
    size_t slot = (size_t)run->block_table[position / rows->block_tokens] * rows->block_tokens;
    size_t row = ln_scalar_kv_row(rows, slot + position % rows->block_tokens, 0);
    return ln_scalar_load_key(rows, row, NULL); /* where it lies, as float32 */
}

static float gate_of(const entry_run *run, const float *row, size_t j, size_t column) {
    size_t width = run->p->rows->k_dim / 2;
    return row[width + column] + run->p->bias[j * width + column];
}

/* The rows of a run, from this column on: their greatest gates, or what they add. */
static void read_rows(entry_run *run, size_t number, size_t begin, bool adds) {
    size_t n = run->p->entries->entry_tokens;
    for (size_t j = 0; j < n; j++) {
        const float *row = row_at(run, number * n + j);
        for (size_t i = 0; i < run->dim; i++) {
            float gate = gate_of(run, row, j, begin + i);
            if (!adds) {
                run->largest[i] = fmaxf(run->largest[i], gate);
                continue;
            }
            float weight = expf(gate - run->largest[i]);
            run->total[i] += weight;
            run->sum[i] += weight * row[begin + i];
        }
    }
}

static void sum_up(entry_run *run) {
    for (size_t i = 0; i < run->dim; i++) {
        run->largest[i] = -INFINITY;
        run->total[i] = run->sum[i] = 0.0f;
    }
    for (int adds = 0; adds < 2; adds++) {
        if (run->p->overlaps && run->number > 0)
            read_rows(run, run->number - 1, 0, adds);
        read_rows(run, run->number, run->p->overlaps ? run->dim : 0, adds);
    }
    for (size_t i = 0; i < run->dim; i++)
        run->sum[i] /= run->total[i];
}

void ln_scalar_compress(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_compress *p = &op->compress;
    const ln_kv_layer *entries = p->entries;
    const ln_batch *batch = op->batch;
    const ln_batch_group *of_rows = &batch->groups[p->rows->group];
    const ln_batch_group *of_entries = &batch->groups[entries->group];
    size_t seq = 0, n_runs = 0, dim = entries->k_dim;
    entry_run run = {.p = p, .dim = dim, .largest = worker->scratch};
    run.total = run.largest + dim;
    run.sum = run.total + dim;
    float *cos_sin = run.largest; /* which is free by then */
    for (size_t token = 0; token < batch->n_tokens; token++) {
        while ((size_t)batch->seq_starts[seq + 1] <= token)
            seq++;
        size_t position = (size_t)batch->positions[token];
        if ((position + 1) % entries->entry_tokens != 0 ||
            n_runs++ % worker->count != worker->index)
            continue;
        run.block_table = of_rows->block_tables + seq * of_rows->max_blocks;
        run.number = position / entries->entry_tokens;
        sum_up(&run);
        ln_scalar_norm_row(p->norm, run.sum, run.sum);
        ln_scalar_fill_angles(p->rope, (int32_t)(run.number * entries->entry_tokens), cos_sin);
        ln_scalar_rotate(p->rope, cos_sin, run.sum, 1, dim);
        const int32_t *table = of_entries->block_tables + seq * of_entries->max_blocks;
        ln_scalar_store_key(entries, ln_kv_entry_row(entries, table, run.number), run.sum);
    }
}
