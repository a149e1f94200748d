/* Value ids of random lists of operations over a few places of memory, against the oracle, and who
 * reads a value. golden/test_values.c does the same with what models record. */
#include "backend/values.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "test.h"
#include "value_oracle.h"

enum { N_PLACES = 9, N_OPS = 60, N_LISTS = 300, DIM = 8, N_TOKENS = 3 };

static float places[N_PLACES][N_TOKENS * DIM], shares[N_TOKENS];
static uint64_t n_draws;

static size_t draw(size_t n) {
    return (size_t)(ln_rng_uniform(7, 0, n_draws++, 0) * (float)n) % n;
}

/* A place, but not the one to avoid. */
static float *draw_place(const float *avoid) {
    float *place;
    do
        place = places[draw(N_PLACES)];
    while (place == avoid);
    return place;
}

static const ln_weight weight = {.n_rows = DIM, .n_cols = DIM};
static const ln_weight narrow = {.n_rows = DIM / 2, .n_cols = DIM};
static const ln_norm norm = {.dim = DIM};
static const ln_batch batch = {.n_tokens = N_TOKENS};
static const ln_kv_layer caches[2] = {{.n_heads = 1, .k_dim = DIM, .v_dim = DIM, .k = (void *)1},
                                      {.n_heads = 1, .k_dim = DIM, .v_dim = DIM, .k = (void *)9}};

static ln_op draw_linear(float *x, float *out) {
    ln_op op = {.kind = LN_OP_LINEAR, .batch = &batch};
    bool has_gaps = draw(4) == 0;
    op.linear = (ln_op_linear){.weight = has_gaps ? &narrow : &weight,
                               .n_rows = N_TOKENS,
                               .x = x,
                               .residual = !has_gaps && draw(2) ? draw_place(NULL) : NULL,
                               .out_stride = has_gaps ? DIM : 0,
                               .out = out};
    return op;
}

static ln_op draw_op(void) {
    float *x = draw_place(NULL), *out = draw_place(x);
    const ln_kv_layer *kv = &caches[draw(2)];
    ln_op op = {.kind = LN_OP_NORM, .batch = &batch};
    switch (draw(6)) {
    case 0:
        op.norm = (ln_op_norm){.norm = &norm,
                               .n_rows = N_TOKENS,
                               .x = x,
                               .residual = draw(2) ? draw_place(NULL) : NULL,
                               .out = draw(2) ? x : out};
        return op;
    case 1:
        op.kind = LN_OP_QKV;
        op.qkv = (ln_op_qkv){
            .q = draw(3) > 0 ? x : NULL, .k = out, .v = draw_place(x), .n_heads = 1, .kv = kv};
        return op;
    case 2:
        op.kind = LN_OP_ATTENTION;
        op.attention = (ln_op_attention){.q = x, .kv = kv, .n_heads = 1, .out = out};
        return op;
    case 3:
        op.kind = LN_OP_COMBINE;
        op.combine = (ln_op_combine){.x = x,
                                     .weights = shares,
                                     .n_used = 1,
                                     .dim = DIM,
                                     .residual = draw(2) ? out : NULL,
                                     .out = out};
        return op;
    default: return draw_linear(x, out);
    }
}

static void draw_list(ln_op ops[N_OPS]) {
    for (size_t i = 0; i < N_OPS; i++)
        ops[i] = draw_op();
    ln_values_number(ops, N_OPS);
}

/* Caches are told apart by the newest alone: where two are written by turns, an earlier one's id is
 * not known any more. */
static void forget_other_caches(ln_op ops[N_OPS]) {
    const ln_kv_layer *newest = NULL;
    for (size_t i = 0; i < N_OPS; i++) {
        if (ops[i].kind == LN_OP_QKV)
            newest = ops[i].qkv.kv;
        if (ops[i].kind == LN_OP_ATTENTION && ops[i].attention.kv != newest)
            ops[i].attention.kv = newest != NULL ? newest : &caches[0];
    }
    ln_values_number(ops, N_OPS);
}

static void values_are_those_that_memory_tells(void **state) {
    (void)state;
    char problem[128];
    for (size_t list = 0; list < N_LISTS; list++) {
        ln_op ops[N_OPS];
        draw_list(ops);
        forget_other_caches(ops);
        if (oracle_finds_wrong(ops, N_OPS, problem))
            fail_msg("list %zu: %s", list, problem);
        ln_op *op = &ops[draw(N_OPS)];
        size_t k = draw(LN_OP_MAX_IN + LN_OP_MAX_OUT);
        ln_value *id = k < LN_OP_MAX_IN ? &op->in[k] : &op->out[k - LN_OP_MAX_IN];
        *id = *id == 0 ? 1 + (ln_value)draw(N_OPS) : *id - 1;
        if (!oracle_finds_wrong(ops, N_OPS, problem))
            fail_msg("list %zu: a wrong id is not found", list);
    }
}

static void uses_are_all_reads(void **state) {
    (void)state;
    enum { MAX_VALUES = N_OPS * (LN_OP_MAX_IN + LN_OP_MAX_OUT) };
    for (size_t list = 0; list < N_LISTS; list++) {
        ln_op ops[N_OPS];
        ln_value_uses uses[MAX_VALUES];
        draw_list(ops);
        size_t n = ln_values_count(ops, N_OPS);
        assert_true(n <= MAX_VALUES);
        ln_values_find_uses(ops, N_OPS, uses, n);
        for (ln_value id = 1; id < n; id++) {
            ln_value_uses want = {.producer = LN_NO_OP, .first_reader = LN_NO_OP};
            size_t n_behind = 0;
            for (uint32_t i = 0; i < N_OPS; i++) {
                for (size_t k = 0; k < LN_OP_MAX_OUT; k++)
                    want.producer = ops[i].out[k] == id ? i : want.producer;
                for (size_t k = 0; k < LN_OP_MAX_IN; k++)
                    if (ops[i].in[k] == id) {
                        want.n_reads++;
                        want.last_reader = i;
                        want.first_reader = want.n_reads == 1 ? i : want.first_reader;
                        n_behind += want.producer != LN_NO_OP && i <= want.producer + 2;
                    }
            }
            assert_memory_equal(&uses[id], &want, sizeof want);
            bool is_even = want.n_reads == want.last_reader - want.producer;
            assert_int_equal(ln_value_stays_within(&uses[id], 2),
                             want.n_reads > 0 && n_behind == want.n_reads && is_even);
        }
    }
}

/* x is read by three linears, once as a residual, too. */
static void who_reads_otherwise_keeps_a_value(void **state) {
    (void)state;
    float *x = places[0], *a = places[1], *b = places[2];
    ln_op ops[3] = {{.kind = LN_OP_NORM,
                     .batch = &batch,
                     .norm = {.norm = &norm, .n_rows = N_TOKENS, .x = a, .out = x}}};
    for (size_t i = 1; i < 3; i++)
        ops[i] = (ln_op){
            .kind = LN_OP_LINEAR,
            .batch = &batch,
            .linear = {.weight = &weight, .n_rows = N_TOKENS, .x = x, .out = i > 1 ? b : a}};
    for (size_t has_residual = 0; has_residual < 2; has_residual++) {
        ops[2].linear.residual = has_residual ? x : NULL;
        ln_values_number(ops, 3);
        ln_value_uses uses[8];
        size_t n = ln_values_count(ops, 3);
        assert_int_equal(n, 5);
        ln_values_find_uses(ops, 3, uses, n);
        assert_int_equal(ops[0].in[LN_IN_X], 1);
        assert_int_equal(ops[0].out[LN_OUT], 2);
        assert_int_equal(ops[1].out[LN_OUT], 3); /* over what the norm read */
        assert_int_equal(uses[1].producer, LN_NO_OP);
        assert_int_equal(ln_value_stays_within(&uses[2], 2), !has_residual);
        assert_false(ln_value_stays_within(&uses[2], 1));
        assert_false(ln_value_stays_within(&uses[3], 1)); /* the caller reads it */
    }
}

/* A list in two parts: the first one by itself shows what the other reads, and its own readers. */
static void a_part_shows_what_others_read(void **state) {
    (void)state;
    size_t n_kept = 0;
    for (size_t list = 0; list < N_LISTS; list++) {
        ln_op ops[N_OPS];
        ln_value_uses whole[ln_values_most(N_OPS)], part[ln_values_most(N_OPS)];
        draw_list(ops);
        size_t n = ln_values_count(ops, N_OPS), cut = 1 + draw(N_OPS - 1);
        assert_in_range(n, 1, ln_values_most(N_OPS));
        ln_values_find_uses(ops, N_OPS, whole, n);
        ln_values_keep(ops, 0, cut, whole);
        ln_values_find_uses(ops, cut, part, n);
        for (size_t i = 1; i < n; i++) {
            bool crosses = whole[i].n_reads > 0 && whole[i].last_reader >= cut;
            if (whole[i].producer >= cut) /* made behind the cut, or before all of the list */
                continue;
            assert_int_equal(part[i].producer, whole[i].producer);
            assert_int_equal(part[i].last_reader, crosses ? LN_NO_OP : whole[i].last_reader);
            assert_true(!crosses || !ln_value_stays_within(&part[i], N_OPS));
            assert_true(crosses || part[i].n_reads == whole[i].n_reads);
            n_kept += crosses;
        }
    }
    assert_true(n_kept > N_LISTS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_that_memory_tells),
        cmocka_unit_test(uses_are_all_reads),
        cmocka_unit_test(who_reads_otherwise_keeps_a_value),
        cmocka_unit_test(a_part_shows_what_others_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
