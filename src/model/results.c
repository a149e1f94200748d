#include "model/results.h"

/* norm(act(matrix of x)) of rows whose logits are wanted, in place; the residual stream has been
 * read by then. */
static void output_dense(recorder *r, size_t n_rows, float *x) {
    const ln_weight *dense = &r->weights->output_dense;
    const float *gathered = gather(r, dense, n_rows, x);
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){.weight = dense,
                                                   .activation = r->spec->output_activation,
                                                   .n_rows = n_rows,
                                                   .x = gathered,
                                                   .scale = 1.0f,
                                                   .out = r->a->x};
    norm(r, &r->weights->output_dense_norm, r->a->x, NULL, x)->n_rows = n_rows;
}

/* What the output reads where it is narrower than x. */
static const float *output_in(recorder *r, size_t n_rows, const float *x) {
    const ln_weight *matrix = &r->weights->output_in;
    const float *gathered = gather(r, matrix, n_rows, x);
    push(r, LN_OP_LINEAR)->linear = (ln_op_linear){
        .weight = matrix, .n_rows = n_rows, .x = gathered, .scale = 1.0f, .out = r->a->x};
    return r->a->x;
}

/* The output norm gathers the rows whose logits are wanted. */
void ln_record_logits(recorder *r) {
    size_t n_rows = r->batch->n_logits;
    push(r, LN_OP_NORM)->norm = (ln_op_norm){
        .norm = &r->weights->output_norm,
        .n_rows = n_rows,
        .rows = r->batch->logit_rows,
        .x = r->a->x,
        .out = r->a->normed,
    };
    if (r->spec->output_dense)
        output_dense(r, n_rows, r->a->normed);
    const float *x = r->a->normed;
    if (r->spec->embedded_dim > 0)
        x = output_in(r, n_rows, x);
    const ln_weight *output = &r->weights->output;
    if (r->batch->logit_adapters.n_runs > 0)
        lora_shrink_rows(r, &r->batch->logit_adapters,
                         (ln_op_lora_shrink){.n_rows = n_rows, .x = x}, 1, &output);
    x = gather(r, output, n_rows, x);
    push_linear(r, &r->batch->logit_adapters,
                (ln_op_linear){
                    .weight = output,
                    .n_rows = n_rows,
                    .x = x,
                    .scale = r->spec->logit_scale,
                    .softcap = r->spec->logit_softcap,
                    .out = r->spec->ranks.n > 0 ? r->a->logits_part : r->a->logits,
                });
    if (r->spec->ranks.n > 0)
        push(r, LN_OP_RANK_GATHER)->rank_gather = (ln_op_rank_gather){
            .ranks = r->a->stage_ranks,
            .n_rows = n_rows,
            .n_cols = r->spec->n_vocab,
            .x = r->a->logits_part,
            .scratch = r->a->rank_scratch,
            .out = r->a->logits,
        };
    if (r->weights->output_scales != NULL)
        scale_rows(r, n_rows, r->spec->n_vocab, r->a->logits, r->weights->output_scales);
}

void ln_record_hidden_states(recorder *r) {
    push(r, LN_OP_NORM)->norm = (ln_op_norm){
        .norm = &r->weights->output_norm,
        .n_rows = r->batch->n_hidden,
        .rows = r->batch->hidden_rows,
        .x = r->a->x,
        .out = r->a->ffn_normed,
    };
}

void ln_record_rank_pass(recorder *r, size_t other, bool sends, size_t n_rows, size_t dim,
                         float *x) {
    push(r, LN_OP_RANK_PASS)->rank_pass = (ln_op_rank_pass){.ranks = r->a->all_ranks,
                                                            .other = other,
                                                            .sends = sends,
                                                            .n_rows = n_rows,
                                                            .dim = dim,
                                                            .x = x};
}

void ln_record_results(recorder *r) {
    const ln_mesh *mesh = &r->spec->ranks.mesh;
    size_t of_logits = ln_mesh_rank_of_logits(mesh);
    bool sends = mesh->rank == of_logits;
    if (r->spec->ranks.layers.n == 0 || (!sends && mesh->rank > 0))
        return;
    size_t other = sends ? 0 : of_logits;
    if (r->batch->n_hidden > 0)
        ln_record_rank_pass(r, other, sends, r->batch->n_hidden, r->spec->dim, r->a->ffn_normed);
    if (r->batch->n_logits > 0)
        ln_record_rank_pass(r, other, sends, r->batch->n_logits, r->spec->n_vocab, r->a->logits);
}
