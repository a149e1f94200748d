/* Behind the last attention a step runs on the rows whose logits or hidden states are wanted. */
#include <string.h>

#include "model/forward.h"
#include "test.h"

enum { N_LAYERS = 2, DIM = 8, N_TOKENS = 5, N_WANTED = 2, MAX_OPS = 512 };

/* A model of feed-forwards alone, and a step of it. */
static struct {
    ln_layer_spec layers[N_LAYERS], head;
    ln_spec spec;
    ln_layer_weights layer_weights[N_LAYERS];
    ln_weights weights;
    ln_activations activations;
    float x[N_TOKENS * DIM], normed[N_TOKENS * DIM], ffn_normed[N_TOKENS * DIM];
    ln_kv_layer kv[N_LAYERS];
    ln_batch batch;
    ln_op ops[MAX_OPS];
    size_t n_ops;
} model;

static const int32_t wanted[N_TOKENS] = {1, 4};

static void record(size_t n_logits, size_t n_hidden) {
    memset(&model, 0, sizeof model);
    model.spec.n_layers = N_LAYERS;
    model.spec.dim = DIM;
    model.spec.layers = model.layers;
    model.spec.residual_scale = 1.0f;
    model.weights.layers = model.layer_weights;
    model.weights.end_layer = N_LAYERS;
    model.weights.copy = (ln_norm){.kind = LN_NORM_NONE, .dim = DIM};
    model.weights.output_norm = (ln_norm){.kind = LN_NORM_RMS, .dim = DIM};
    for (size_t i = 0; i < N_LAYERS; i++) {
        model.layers[i].ffn.n_hidden = DIM;
        model.layer_weights[i].ffn_norm = model.weights.output_norm;
    }
    model.activations.x = model.x;
    model.activations.normed = model.normed;
    model.activations.ffn_normed = model.ffn_normed;
    model.batch = (ln_batch){.n_tokens = N_TOKENS,
                             .n_logits = n_logits,
                             .n_hidden = n_hidden,
                             .logit_rows = wanted,
                             .hidden_rows = wanted};
}

static void run(void) {
    assert_true(ln_forward_max_ops(&model.spec) <= MAX_OPS);
    model.n_ops = ln_forward_record(&model.spec, &model.weights, &model.activations, model.kv,
                                    &model.batch, model.ops);
}

/* How many operations gather wanted rows of the residual stream. All name the step's batch. */
static size_t count_gathers(void) {
    size_t n = 0;
    for (size_t i = 0; i < model.n_ops; i++) {
        const ln_op *op = &model.ops[i];
        assert_ptr_equal(op->batch, &model.batch);
        if (op->kind == LN_OP_NORM && op->norm.rows != NULL) {
            assert_ptr_equal(op->norm.x, model.x);
            assert_int_equal(op->norm.n_rows, model.batch.n_logits + model.batch.n_hidden);
            n++;
        }
    }
    return n;
}

/* The rows of a layer's first linear. */
static size_t rows_of(int32_t layer) {
    for (size_t i = 0; i < model.n_ops; i++)
        if (model.ops[i].kind == LN_OP_LINEAR && model.ops[i].layer == layer)
            return model.ops[i].linear.n_rows;
    return 0;
}

static void check(size_t n_last) {
    run();
    assert_int_equal(count_gathers(), 1);
    assert_int_equal(rows_of(0), N_TOKENS);
    assert_int_equal(rows_of(N_LAYERS - 1), n_last);
}

static void the_last_layer_ends_with_wanted_rows(void **state) {
    (void)state;
    record(N_WANTED, 0);
    check(N_WANTED);
    record(0, N_WANTED);
    check(N_WANTED);
    const ln_op *last = &model.ops[model.n_ops - 1]; /* of the rows as they lie */
    assert_null(last->norm.rows);
    assert_ptr_equal(last->norm.x, model.normed);
    assert_ptr_equal(last->norm.out, model.ffn_normed);
}

static void all_rows_stay_where_others_are_read(void **state) {
    (void)state;
    record(N_TOKENS, 0);
    check(N_TOKENS);
    record(N_WANTED, 0); /* a head drafts from the residual stream */
    model.spec.head = &model.head;
    check(N_TOKENS);
    record(N_WANTED, 0);
    model.layers[N_LAYERS - 1].placement = LN_PLACE_PARALLEL;
    check(N_TOKENS);
    record(N_WANTED, N_WANTED); /* of which both may be others */
    run();
    assert_int_equal(rows_of(N_LAYERS - 1), N_TOKENS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_layer_ends_with_wanted_rows),
        cmocka_unit_test(all_rows_stay_where_others_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
