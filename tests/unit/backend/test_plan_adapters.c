/* Which linears of rows with adapters take these as one more K split, without a GPU. */
#include <string.h>

#include "backend/cuda/plan/plan.h"
#include "backend/cuda/weights/layout.h"
#include "test.h"

enum { MAX_OPS = 4, WIDTH = 4096, LOW_STRIDE = 16 };

typedef struct adapted_plan_case {
    const char *name;
    ln_weight_layout layout;
    size_t n_rows, n_linears, n_runs, low_stride; /* 0: 64, 3, 20, LOW_STRIDE */
    bool has_bias, multiplies, is_precise, has_no_sm90a, has_no_scratch, others_read;
    bool fuses;
    bool has_workspace; /* of fused kernels */
    const char *why;    /* what is behind is apart, or NULL: unsaid here */
} adapted_plan_case;

static ln_cuda_launch plan_first(const adapted_plan_case *c, size_t *n_launches) {
    static float x[1], out[MAX_OPS], bias[1], low[LN_MAX_LORA_WEIGHTS];
    static unsigned workspace[1];
    size_t n_rows = c->n_rows > 0 ? c->n_rows : 64, n = c->n_linears > 0 ? c->n_linears : 3;
    const ln_weight weight = {.dtype = LN_DTYPE_BF16,
                              .layout = (uint32_t)(c->layout != 0 ? c->layout : LN_LAYOUT_BF16),
                              .n_rows = WIDTH,
                              .n_cols = WIDTH,
                              .bias = c->has_bias ? bias : NULL,
                              .data = x};
    ln_batch batch = {.n_tokens = n_rows, .n_seqs = n_rows};
    ln_op ops[MAX_OPS] = {{.kind = LN_OP_LORA_SHRINK, .batch = &batch}};
    ln_op_lora_shrink *shrink = &ops[0].lora_shrink;
    *shrink = (ln_op_lora_shrink){.rows = &batch.adapters,
                                  .low_stride = c->low_stride > 0 ? c->low_stride : LOW_STRIDE,
                                  .n_rows = n_rows,
                                  .x = x};
    for (size_t i = 0; i < n; i++) {
        shrink->weights[i] = &weight;
        shrink->low[i] = &low[i];
        ops[1 + i] = (ln_op){.kind = LN_OP_LINEAR, .batch = &batch};
        ops[1 + i].linear = (ln_op_linear){.weight = &weight,
                                           .n_rows = n_rows,
                                           .x = x,
                                           .scale = 1.0f,
                                           .precise = c->is_precise,
                                           .out = out + i,
                                           .adapters = &batch.adapters,
                                           .low = &low[i],
                                           .low_stride = shrink->low_stride,
                                           .multiplies = c->multiplies};
        ops[1 + i].in[LN_IN_X] = 1;
        ops[1 + i].out[LN_OUT] = (ln_value)(2 + i);
    }
    ops[0].in[LN_IN_X] = 1;
    shrink->n_weights = n + c->others_read;
    shrink->low[n] = &low[n];
    ln_cuda_plan plan = {0};
    const ln_cuda_step step = {.batch = batch,
                               .adapters.most_runs = c->n_runs > 0 ? c->n_runs : 20,
                               .adapter_scratch = c->has_no_scratch ? NULL : x,
                               .fused_workspace = c->has_workspace ? workspace : NULL};
    const ln_cuda_target target = {.has_sm90a = !c->has_no_sm90a, .act = {.bytes = 1 << 30}};
    assert_true(ln_cuda_plan_reserve(&plan, MAX_OPS));
    assert_true(ln_cuda_plan_make(&plan, ops, 1 + n, &step, &target));
    ln_cuda_launch first = plan.launches[0];
    assert_non_null(ln_cuda_launch_name(&first, ops));
    assert_true(first.n_ops > 1 || first.apart != NULL);
    *n_launches = plan.n_launches;
    ln_cuda_plan_free(&plan);
    return first;
}

static void adapters_are_a_k_split_where_they_can(void **state) {
    (void)state;
    static const adapted_plan_case cases[] = {
        {.name = "q, k and v", .fuses = true},
        {.name = "one linear", .n_linears = 1, .fuses = true},
        {.name = "9 rows", .n_rows = 9, .n_runs = 9, .fuses = true},
        {.name = "8 rows", .n_rows = 8, .n_runs = 8},
        {.name = "65 rows", .n_rows = 65},
        {.name = "other weights", .layout = LN_LAYOUT_INT8},
        {.name = "a bias", .has_bias = true},
        {.name = "an IA3", .multiplies = true},
        {.name = "precise", .is_precise = true},
        {.name = "another GPU", .has_no_sm90a = true},
        {.name = "float32", .has_no_scratch = true},
        {.name = "another reader", .n_linears = 2, .others_read = true},
        {.name = "rank 128", .low_stride = 128, .fuses = true},
        {.name = "too many ranks", .low_stride = 256, .n_runs = 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const adapted_plan_case *c = &cases[i];
        size_t n_launches, n = c->n_linears > 0 ? c->n_linears : 3;
        ln_cuda_launch first = plan_first(c, &n_launches);
        if ((first.kind == LN_CUDA_LORA_GEMM) != c->fuses)
            fail_msg("%s: %s", c->name, first.apart);
        assert_int_equal(first.n_ops, c->fuses ? n + 1 : 1);
        assert_int_equal(first.expands, false);
        assert_true(!c->fuses || n_launches == 1);
    }
}

/* What begins with adapters says why it fuses with nothing behind it. */
static void reasons_are_those_of_fused_linears_and_norms(void **state) {
    (void)state;
    static const adapted_plan_case cases[] = {
        {.name = "no workspace", .fuses = true, .why = "no fused kernels run here"},
        {.name = "too many ranks",
         .low_stride = 128,
         .n_runs = 40,
         .fuses = true,
         .has_workspace = true,
         .why = "adapters have too many ranks for a fused kernel"},
        {.name = "other weights",
         .layout = LN_LAYOUT_INT8,
         .has_workspace = true,
         .why = "adapters have a kernel of their own here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const adapted_plan_case *c = &cases[i];
        size_t n_launches;
        ln_cuda_launch first = plan_first(c, &n_launches);
        if ((first.kind == LN_CUDA_LORA_GEMM) != c->fuses || first.apart == NULL ||
            strcmp(first.apart, c->why) != 0)
            fail_msg("%s: kind %d, %s", c->name, (int)first.kind, first.apart);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_are_a_k_split_where_they_can),
        cmocka_unit_test(reasons_are_those_of_fused_linears_and_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
