/* What a GPU's plan makes of the steps that models record, without a GPU: which operations go to
 * which launch, which results are converted on the way, and which are written nowhere else.
 *
 * A plan is shown as a line, a letter for each launch and its operations, if it has more than one:
 * D fused decode, X the same with experts, L fused linear + norm, G GEMM, B GEMM with adapters, E
 * grouped GEMM, N norm that converts its result, A attention that does, or finishes q, k and v, P
 * two small linears, R route and group of one token, M all that its experts do; small letters are
 * operations by themselves (e embed, n norm, l linear, q qkv, t latent, a attention, r route, g
 * group, c combine, u all-reduce). Then `x`: x is converted first; `>`: the result is converted;
 * `!`: it is written in no other form. */
#include "backend/cuda/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/fused/limits.h"
#include "backend/cuda/ranks/link.h"
#include "test.h"

enum { MAX_OPS = 256, MAX_LINE = 1024, N_EXPERTS = 64, N_USED = 8, MAX_LAYERS = 12 };

typedef struct plan_case {
    /* NONE: `layout` */
    ln_weight_layout layout, v_layout, down_layout, out_layout, expert_layout;
    size_t n_rows;
    bool is_prefill;    /* of one sequence */
    size_t dim, hidden; /* 0: 4096, 14336 */
    size_t n_layers;    /* 0: 2 */
    bool has_experts, has_shared, gates_shared, is_latent, norms_heads, shares_prefix;
    bool is_precise, is_divided; /* is_divided: among ranks */
    bool fuses_sums;             /* which sum and go on with a norm */
    ln_kv_dtype kv;              /* F32: F16 */
    bool exact, one_by_one, has_no_sm90a;
    size_t context;      /* tokens that block tables hold; 0: 512 */
    size_t adapted_runs; /* runs of rows with adapters on all linears of layers; 0: none */
    size_t max_rank;     /* of these adapters */
    bool adapts_output;
    size_t stream_stride; /* floats from row to row of what is added to x; 0: dim */
} plan_case;

/* The model that a case is about, and the step. */
static struct {
    const plan_case *c;
    ln_op ops[MAX_OPS];
    size_t n_ops;
    ln_batch batch;
    float *lows[LN_MAX_LORA_WEIGHTS]; /* those from first_low on are for the next linears */
    size_t first_low, n_lows;
    char *next; /* addresses of activations that nothing touches */
} model;

static void *place(size_t n_floats) {
    char *at = model.next;
    model.next += (n_floats * sizeof(float) + 255) / 256 * 256;
    return at;
}

static ln_weight make_weight(ln_weight_layout layout, size_t n_rows, size_t n_cols) {
    return (ln_weight){.dtype = LN_DTYPE_BF16,
                       .layout = (uint32_t)(model.c->exact ? LN_LAYOUT_NONE : layout),
                       .n_rows = n_rows,
                       .n_cols = n_cols,
                       .data = place(1024)};
}

static ln_op *push(ln_op_kind kind) {
    ln_op *op = &model.ops[model.n_ops++];
    assert_true(model.n_ops <= MAX_OPS);
    *op = (ln_op){.kind = kind, .batch = &model.batch};
    return op;
}

static void norm(const ln_norm *weights, const float *x, float *out) {
    push(LN_OP_NORM)->norm = (ln_op_norm){
        .norm = weights, .n_rows = model.batch.n_tokens, .x = x, .scale = 1.0f, .out = out};
}

/* The shrink half of these rows' adapters, if there are any, of these weights. */
static void shrink_rows(const ln_adapter_rows *rows, const float *x, size_t n,
                        const ln_weight *const *weights) {
    if (model.c->adapted_runs == 0)
        return;
    ln_op_lora_shrink *op = &push(LN_OP_LORA_SHRINK)->lora_shrink;
    *op = (ln_op_lora_shrink){.rows = rows,
                              .n_weights = n,
                              .low_stride = model.c->max_rank,
                              .n_rows = model.batch.n_tokens,
                              .x = x};
    model.first_low = 0;
    model.n_lows = n;
    for (size_t i = 0; i < n; i++) {
        op->weights[i] = weights[i];
        op->low[i] = model.lows[i] = place(op->n_rows * op->low_stride);
    }
}

static void shrink(const float *x, size_t n, const ln_weight *const *weights) {
    shrink_rows(&model.batch.adapters, x, n, weights);
}

static const float *take_low(void) {
    return model.first_low < model.n_lows ? model.lows[model.first_low++] : NULL;
}

static ln_op_linear *linear(const ln_weight *weight, const float *x, float *out) {
    ln_op *op = push(LN_OP_LINEAR);
    const float *low = take_low();
    op->linear = (ln_op_linear){.weight = weight,
                                .n_rows = model.batch.n_tokens,
                                .x = x,
                                .scale = 1.0f,
                                .precise = model.c->is_precise,
                                .out = out,
                                .adapters = low != NULL ? &model.batch.adapters : NULL,
                                .low = low,
                                .low_stride = model.c->max_rank};
    return &op->linear;
}

typedef struct weights {
    ln_weight q, k, v, o, up, gate, down, out, router, shared_router, kv_a;
    ln_weight experts_up[N_EXPERTS], experts_gate[N_EXPERTS], experts_down[N_EXPERTS];
    ln_weight k_b[32], v_b[32];
} weights;

static weights w;
static ln_norm layer_norm, kv_norm;
static ln_rope rope = {.n_dims = 128, .inv_freq = (const float *)64, .magnitude = 1.0f};
static ln_kv_layer caches[MAX_LAYERS];

typedef struct places {
    float *x, *normed, *ffn_normed, *q, *k, *v, *attended, *hidden, *logits, *heads;
    float *router, *shared, *shared_gate, *shares, *expert_hidden, *expert_out, *partial;
    int32_t *experts, *order, *starts;
} places;

enum { HEADS = 32, KV_HEADS = 8, HEAD_DIM = 128, LATENT = 512, ROPE_DIM = 64, N_VOCAB = 32000 };

static ln_weight_layout layout_or(ln_weight_layout layout) {
    return layout != LN_LAYOUT_NONE ? layout : model.c->layout;
}

static void make_weights(size_t dim, size_t hidden) {
    const plan_case *c = model.c;
    ln_weight_layout kind = c->layout;
    w.q = make_weight(kind, HEADS * HEAD_DIM, dim);
    w.k = make_weight(kind, KV_HEADS * HEAD_DIM, dim);
    w.v = make_weight(layout_or(c->v_layout), KV_HEADS * HEAD_DIM, dim);
    w.o = make_weight(kind, dim, HEADS * HEAD_DIM);
    w.up = make_weight(kind, hidden, dim);
    w.gate = make_weight(kind, hidden, dim);
    w.down = make_weight(layout_or(c->down_layout), dim, hidden);
    w.out = make_weight(layout_or(c->out_layout), N_VOCAB, dim);
    w.router = make_weight(LN_LAYOUT_NONE, N_EXPERTS, dim);
    w.shared_router = make_weight(LN_LAYOUT_NONE, 1, dim);
    w.kv_a = make_weight(kind, LATENT + ROPE_DIM, dim);
    for (size_t i = 0; i < N_EXPERTS; i++)
        w.experts_up[i] = make_weight(layout_or(c->expert_layout), hidden, dim);
    for (size_t i = 0; i < N_EXPERTS; i++)
        w.experts_gate[i] = make_weight(layout_or(c->expert_layout), hidden, dim);
    for (size_t i = 0; i < N_EXPERTS; i++)
        w.experts_down[i] = make_weight(
            layout_or(c->expert_layout != LN_LAYOUT_NONE ? c->expert_layout : c->down_layout), dim,
            hidden);
    for (size_t i = 0; i < HEADS; i++)
        w.k_b[i] = make_weight(kind, LATENT, HEAD_DIM);
    for (size_t i = 0; i < HEADS; i++)
        w.v_b[i] = make_weight(kind, HEAD_DIM, LATENT);
    layer_norm = (ln_norm){.kind = LN_NORM_RMS, .dim = dim, .weight = place(dim)};
    kv_norm = (ln_norm){.kind = LN_NORM_RMS, .dim = LATENT, .weight = place(LATENT)};
}

static void make_caches(void) {
    bool is_latent = model.c->is_latent;
    for (size_t i = 0; i < MAX_LAYERS; i++) {
        size_t k_dim = is_latent ? LATENT + ROPE_DIM : HEAD_DIM;
        caches[i] = (ln_kv_layer){.dtype = model.c->kv != LN_KV_F32 ? model.c->kv : LN_KV_F16,
                                  .block_tokens = 16,
                                  .n_heads = is_latent ? 1 : KV_HEADS,
                                  .k_dim = k_dim,
                                  .v_dim = is_latent ? LATENT : HEAD_DIM,
                                  .v_stride = k_dim,
                                  .k = place(64),
                                  .v = place(64)};
        if (is_latent)
            caches[i].v = caches[i].k;
    }
}

static places make_places(size_t n, size_t dim, size_t hidden) {
    size_t q = HEADS * (LATENT + ROPE_DIM), rows = n * N_USED;
    return (places){.x = place(n * dim),
                    .normed = place(n * dim),
                    .ffn_normed = place(n * dim),
                    .q = place(n * q),
                    .k = place(n * dim),
                    .v = place(n * dim),
                    .attended = place(n * q),
                    .hidden = place(n * hidden),
                    .logits = place(n * N_VOCAB),
                    .heads = place(n * q),
                    .router = place(n * N_EXPERTS),
                    .shared = place(n * dim),
                    .shared_gate = place(n),
                    .shares = place(rows),
                    .expert_hidden = place(rows * hidden),
                    .expert_out = place(rows * dim),
                    .partial = place(n * dim),
                    .experts = place(rows),
                    .order = place(rows),
                    .starts = place(N_EXPERTS + 1)};
}

static ln_op_linear *by_head(const ln_weight *weight, const float *x, size_t x_stride, float *out,
                             size_t out_stride) {
    ln_op_linear *op = linear(weight, x, out);
    op->groups.n_groups = HEADS;
    op->n_rows *= HEADS;
    op->x_stride = x_stride;
    op->out_stride = out_stride;
    return op;
}

static void record_latent(const places *p, size_t layer) {
    linear(&w.q, p->normed, p->heads)->precise = true;
    linear(&w.kv_a, p->normed, p->k)->precise = true;
    push(LN_OP_LATENT)->latent = (ln_op_latent){.q = p->heads,
                                                .latent = p->k,
                                                .norm = &kv_norm,
                                                .rope = &rope,
                                                .n_heads = HEADS,
                                                .n_plain = HEAD_DIM,
                                                .kv = &caches[layer],
                                                .out = p->q};
    by_head(w.k_b, p->heads, HEAD_DIM + ROPE_DIM, p->q, LATENT + ROPE_DIM);
}

static int never_runs(const ln_cuda_link *link, const ln_ipc_norm *op, ln_cuda_stream stream) {
    (void)link, (void)op, (void)stream;
    return 1;
}

static ln_collectives ranks = {.n_ranks = 2};

/* Ranks whose sums go on with a norm, or do not. */
static void connect_ranks(bool fuses_sums) {
    static const ln_cuda_link_vtable vtables[] = {{.name = "apart"},
                                                  {.name = "fused", .reduce_norm = never_runs}};
    static ln_cuda_link link;
    link.vtable = &vtables[fuses_sums];
    ranks.device = &link;
}

/* What a rank has of a block's result goes to the sum of all. */
static void to_stream(const places *p, const ln_weight *weight, const float *x) {
    shrink(x, 1, &weight);
    if (!model.c->is_divided) {
        ln_op_linear *op = linear(weight, x, p->x);
        op->residual = p->x;
        op->out_stride = model.c->stream_stride;
        return;
    }
    linear(weight, x, p->partial);
    push(LN_OP_ALL_REDUCE)->all_reduce = (ln_op_all_reduce){.ranks = &ranks,
                                                            .n_rows = model.batch.n_tokens,
                                                            .dim = weight->n_rows,
                                                            .x = p->partial,
                                                            .residual = p->x,
                                                            .out = p->x};
}

static void record_attention(const places *p, size_t layer) {
    bool is_latent = model.c->is_latent;
    if (is_latent) {
        record_latent(p, layer);
    } else {
        shrink(p->normed, 3, (const ln_weight *[]){&w.q, &w.k, &w.v});
        linear(&w.q, p->normed, p->q);
        linear(&w.k, p->normed, p->k);
        linear(&w.v, p->normed, p->v);
        push(LN_OP_QKV)->qkv =
            (ln_op_qkv){.q = p->q,
                        .k = p->k,
                        .v = p->v,
                        .n_heads = HEADS,
                        .qk_norm = model.c->norms_heads ? LN_QK_NORM_HEAD : LN_QK_NORM_NONE,
                        .rope = &rope,
                        .kv = &caches[layer]};
    }
    push(LN_OP_ATTENTION)->attention = (ln_op_attention){
        .q = p->q, .kv = &caches[layer], .n_heads = HEADS, .scale = 0.1f, .out = p->attended};
    if (is_latent)
        by_head(w.v_b, p->attended, 0, p->heads, 0);
    to_stream(p, &w.o, is_latent ? p->heads : p->attended);
}

static ln_op_linear *by_expert(const ln_weight *weight, const places *p, const float *x,
                               float *out) {
    ln_op_linear *op = linear(weight, x, out);
    op->groups = (ln_row_groups){N_EXPERTS, p->order, p->starts};
    op->n_rows *= N_USED;
    return op;
}

static void record_experts(const places *p, size_t dim) {
    if (model.c->has_shared) {
        ln_op_linear *up = linear(&w.up, p->ffn_normed, p->hidden);
        up->gate = &w.gate;
        up->activation = LN_ACT_SILU;
        linear(&w.down, p->hidden, p->shared);
    }
    if (model.c->gates_shared)
        linear(&w.shared_router, p->ffn_normed, p->shared_gate);
    linear(&w.router, p->ffn_normed, p->router)->precise = true;
    push(LN_OP_ROUTE)->route = (ln_op_route){.logits = p->router,
                                             .n_experts = N_EXPERTS,
                                             .n_used = N_USED,
                                             .experts = p->experts,
                                             .weights = p->shares};
    push(LN_OP_GROUP)->group = (ln_op_group){.experts = p->experts,
                                             .n_rows = model.batch.n_tokens * N_USED,
                                             .n_experts = N_EXPERTS,
                                             .order = p->order,
                                             .starts = p->starts};
    ln_op_linear *up = by_expert(w.experts_up, p, p->ffn_normed, p->expert_hidden);
    up->gate = w.experts_gate;
    up->activation = LN_ACT_SILU;
    up->rows_per_x = N_USED;
    by_expert(w.experts_down, p, p->expert_hidden, p->expert_out);
    push(LN_OP_COMBINE)->combine =
        (ln_op_combine){.x = p->expert_out,
                        .weights = p->shares,
                        .n_used = N_USED,
                        .dim = dim,
                        .shared = model.c->has_shared ? p->shared : NULL,
                        .shared_gate = model.c->gates_shared ? p->shared_gate : NULL,
                        .residual = p->x,
                        .scale = 1.0f,
                        .out = p->x};
}

static void record(const places *p, size_t dim, size_t n_layers) {
    push(LN_OP_EMBED)->embed = (ln_op_embed){.table = &w.out, .scale = 1.0f, .out = p->x};
    for (size_t layer = 0; layer < n_layers; layer++) {
        norm(&layer_norm, p->x, p->normed);
        record_attention(p, layer);
        norm(&layer_norm, p->x, p->ffn_normed);
        if (model.c->has_experts) {
            record_experts(p, dim);
            continue;
        }
        shrink(p->ffn_normed, 2, (const ln_weight *[]){&w.up, &w.gate});
        ln_op_linear *up = linear(&w.up, p->ffn_normed, p->hidden);
        up->gate = &w.gate;
        up->gate_low = take_low();
        up->activation = LN_ACT_SILU;
        to_stream(p, &w.down, p->hidden);
    }
    norm(&layer_norm, p->x, p->normed);
    if (model.c->adapts_output)
        shrink_rows(&model.batch.logit_adapters, p->normed, 1, (const ln_weight *[]){&w.out});
    ln_op_linear *out = linear(&w.out, p->normed, p->logits);
    if (model.c->adapts_output)
        out->adapters = &model.batch.logit_adapters;
    if (model.c->is_prefill) { /* the last row's */
        ln_op *ops = &model.ops[model.n_ops - 2];
        ops[0].norm.n_rows = ops[1].linear.n_rows = 1;
        ops[0].norm.rows = (const int32_t *)64;
    }
}

static char letter_of(const ln_cuda_launch *launch) {
    static const char ops[LN_OP_COUNT] = {
        [LN_OP_EMBED] = 'e',      [LN_OP_NORM] = 'n',      [LN_OP_LINEAR] = 'l',
        [LN_OP_QKV] = 'q',        [LN_OP_LATENT] = 't',    [LN_OP_INDEX] = 'i',
        [LN_OP_COMPRESS] = 'm',   [LN_OP_ATTENTION] = 'a', [LN_OP_ROUTE] = 'r',
        [LN_OP_GROUP] = 'g',      [LN_OP_COMBINE] = 'c',   [LN_OP_POINTWISE] = 'x',
        [LN_OP_ROWWISE] = 'v',    [LN_OP_CONV] = 'z',      [LN_OP_SCAN] = 'd',
        [LN_OP_GATED_NORM] = 'p', [LN_OP_GATHER] = 'k',    [LN_OP_COPY] = 's',
        [LN_OP_ALL_REDUCE] = 'u'};
    static const char kinds[] = "?DLGBENAPRM";
    if (strcmp(ln_cuda_launch_name(launch, model.ops), "fused decode with experts") == 0)
        return 'X';
    return launch->kind == LN_CUDA_OP ? ops[model.ops[launch->first].kind] : kinds[launch->kind];
}

static void show(const ln_cuda_plan *plan, char line[MAX_LINE]) {
    size_t n = 0, next = 0;
    for (size_t i = 0; i < plan->n_launches; i++) {
        const ln_cuda_launch *launch = &plan->launches[i];
        char count[12] = "";
        if (launch->n_ops > 1)
            snprintf(count, sizeof count, "%u", launch->n_ops);
        assert_int_equal(launch->first, next);
        next += launch->n_ops;
        n += (size_t)snprintf(line + n, MAX_LINE - n, "%s%c%s%s%s%s", i > 0 ? " " : "",
                              letter_of(launch), count, launch->converts_x ? "x" : "",
                              launch->converts_to ? ">" : "", launch->leaves_out ? "!" : "");
        assert_true(n < MAX_LINE);
    }
    assert_int_equal(next, model.n_ops);
}

/* Plans a case's step into *plan. */
static void make_plan(const plan_case *c, ln_cuda_plan *plan) {
    enum { ACT_BYTES = 1 << 30, SCRATCH_BYTES = 1 << 28 };
    size_t dim = c->dim > 0 ? c->dim : 4096, hidden = c->hidden > 0 ? c->hidden : 14336;
    size_t n_seqs = c->is_prefill ? 1 : c->n_rows;
    memset(&model, 0, sizeof model);
    model.c = c;
    model.next = (char *)4096;
    model.batch = (ln_batch){.n_tokens = c->n_rows,
                             .n_seqs = n_seqs,
                             .n_logits = n_seqs,
                             .n_groups = 1,
                             .groups = {{.max_blocks = (c->context > 0 ? c->context : 512) / 16}}};
    connect_ranks(c->fuses_sums);
    make_weights(dim, hidden);
    make_caches();
    places p = make_places(c->n_rows, dim, hidden);
    record(&p, dim, c->n_layers > 0 ? c->n_layers : 2);
    ln_values_number(model.ops, model.n_ops);
    const ln_cuda_step step = {.batch = model.batch,
                               .adapters.most_runs = c->adapted_runs,
                               .logit_adapters.most_runs = c->adapted_runs,
                               .adapter_scratch = c->exact ? NULL : (void *)64,
                               .least_tokens = c->n_rows / n_seqs,
                               .most_tokens = c->n_rows / n_seqs,
                               .shares_new = c->shares_prefix,
                               .exact = c->exact,
                               .one_by_one = c->one_by_one,
                               .scratch_bytes = c->exact ? 0 : SCRATCH_BYTES,
                               .fused_workspace =
                                   c->exact || c->one_by_one ? NULL : (unsigned *)64};
    const ln_cuda_target target = {.has_sm90a = !c->has_no_sm90a,
                                   .act = {.bytes = c->exact ? 0 : (size_t)ACT_BYTES}};
    assert_true(ln_cuda_plan_reserve(plan, MAX_OPS));
    assert_true(ln_cuda_plan_make(plan, model.ops, model.n_ops, &step, &target));
}

static void check(const char *name, const plan_case *c, const char *want) {
    ln_cuda_plan plan = {0};
    char line[MAX_LINE];
    make_plan(c, &plan);
    show(&plan, line);
    if (strcmp(line, want) != 0)
        fail_msg("%s:\n  is        %s\n  should be %s", name, line, want);
    for (size_t i = 0; i < plan.n_launches; i++)
        assert_non_null(ln_cuda_launch_name(&plan.launches[i], model.ops));
    for (size_t i = 0; i < plan.n_launches; i++)
        assert_true(plan.launches[i].n_handoff_floats <= LN_DECODE_HANDOFF_FLOATS);
    ln_cuda_plan_free(&plan);
}

/* A case and its plan. */
typedef struct expected {
    const char *name;
    plan_case c;
    const char *plan;
} expected;

static void check_all(const expected *cases, size_t n) {
    for (size_t i = 0; i < n; i++)
        check(cases[i].name, &cases[i].c, cases[i].plan);
}

static void decode_of_few_rows_is_one_kernel(void **state) {
    (void)state;
    static const expected cases[] = {
        {"one row", {.layout = LN_LAYOUT_BF16, .n_rows = 1}, "e D22"},
        {"four rows", {.layout = LN_LAYOUT_BF16, .n_rows = 4}, "e D22"},
        {"int8", {.layout = LN_LAYOUT_INT8, .n_rows = 1}, "e D22"},
        {"f8", {.layout = LN_LAYOUT_F8_ROW, .n_rows = 1}, "e D22"},
        {"four rows of f8", {.layout = LN_LAYOUT_F8_ROW, .n_rows = 4}, "e D22"},
        {"four rows of int8 with row scales", {.layout = LN_LAYOUT_INT8_ROW, .n_rows = 4}, "e D22"},
        {"kinds that become f16",
         {.layout = LN_LAYOUT_Q4,
          .v_layout = LN_LAYOUT_Q6,
          .down_layout = LN_LAYOUT_Q6,
          .out_layout = LN_LAYOUT_Q6,
          .n_rows = 1},
         "e D22"},
    };
    check_all(cases, sizeof cases / sizeof *cases);
}

static void linears_and_norms_of_9_to_64_rows_are_one_kernel(void **state) {
    (void)state;
    static const expected cases[] = {
        {"16 rows", {.layout = LN_LAYOUT_BF16, .n_rows = 16}, "e N>! G3 A2> L8 A2> L6"},
        {"64 rows of f8", {.layout = LN_LAYOUT_F8_ROW, .n_rows = 64}, "e N>! G3 A2 L8x A2 L6x"},
        {"17 rows of int8 with row scales",
         {.layout = LN_LAYOUT_INT8_ROW, .n_rows = 17},
         "e N>! G3 A2 L8x A2 L6x"},
        {"f8 between others",
         {.layout = LN_LAYOUT_F8_ROW, .down_layout = LN_LAYOUT_BF16, .n_rows = 16},
         "e N>! G3 A2 L3x Gx N>! G3 A2 L3x Gx N>! G"},
        {"adapters of rank 16",
         {.layout = LN_LAYOUT_BF16, .n_rows = 64, .adapted_runs = 20, .max_rank = 16},
         "e N> B4 A2> L12 A2> L9"},
        {"adapters of rank 16 for each row",
         {.layout = LN_LAYOUT_BF16, .n_rows = 48, .adapted_runs = 48, .max_rank = 16},
         "e N> B4 A2> L12 A2> L9"},
        {"adapters that have no room for all linears",
         {.layout = LN_LAYOUT_BF16, .n_rows = 64, .adapted_runs = 40, .max_rank = 32},
         "e N> B4 A2> L7 N> B4 A2> L9"},
        {"adapters of the output, which has rows of its own",
         {.layout = LN_LAYOUT_BF16,
          .n_rows = 64,
          .adapted_runs = 20,
          .max_rank = 16,
          .adapts_output = true},
         "e N> B4 A2> L12 A2> L7 N> B2"},
        {"adapters of a width that is no whole 128",
         {.layout = LN_LAYOUT_BF16,
          .n_rows = 64,
          .hidden = 14400,
          .adapted_runs = 20,
          .max_rank = 16},
         "e N> B4 A2> L5 B2x N> B4 A2> L5 B2x N>! G"},
        {"64 rows", {.layout = LN_LAYOUT_BF16, .n_rows = 64}, "e N>! G3 A2> L8 A2> L6"},
        {"norms of heads",
         {.layout = LN_LAYOUT_BF16, .n_rows = 16, .norms_heads = true},
         "e N>! G3 q A> L8 q A> L6"},
    };
    check_all(cases, sizeof cases / sizeof *cases);
}

static void other_steps_convert_results_on_the_way(void **state) {
    (void)state;
    static const expected cases[] = {
        {"five rows",
         {.layout = LN_LAYOUT_BF16, .n_rows = 5},
         "e N>! G3 A2> G N>! G Gx N>! G3 A2> G N>! G Gx N>! G"},
        {"256 rows",
         {.layout = LN_LAYOUT_BF16, .n_rows = 256},
         "e N>! G3 A2> G N>! G>! G N>! G3 A2> G N>! G>! G N>! G"},
        {"prefill",
         {.layout = LN_LAYOUT_BF16, .n_rows = 512, .is_prefill = true},
         "e N>! G3 A2>! G N>! G>! G N>! G3 A2>! G N>! G>! G D2"},
        {"16 rows of mixed kinds",
         {.layout = LN_LAYOUT_Q4,
          .v_layout = LN_LAYOUT_Q6,
          .down_layout = LN_LAYOUT_Q6,
          .out_layout = LN_LAYOUT_Q6,
          .n_rows = 16},
         "e N> G2 G A2 Gx N>! G Gx N> G2 G A2 Gx N>! G Gx N>! G"},
        {"five rows of f8",
         {.layout = LN_LAYOUT_F8_ROW, .n_rows = 5},
         "e N>! G3 A2 Gx N>! G Gx N>! G3 A2 Gx N>! G Gx N>! G"},
        {"prefill of f8",
         {.layout = LN_LAYOUT_F8_ROW, .n_rows = 512, .is_prefill = true},
         "e N>! G3 A2 Gx N>! G>! G N>! G3 A2 Gx N>! G>! G D2"},
    };
    check_all(cases, sizeof cases / sizeof *cases);
}

static void experts_take_what_their_norm_converts(void **state) {
    (void)state;
    static const expected cases[] = {
        {"one row, without fused kernels",
         {.layout = LN_LAYOUT_BF16,
          .n_rows = 1,
          .n_layers = 1,
          .has_experts = true,
          .is_precise = true,
          .one_by_one = true,
          .hidden = 768},
         "e N>! G3 q A> G N> l R2 E>! E c N>! G"},
        {"two rows",
         {.layout = LN_LAYOUT_BF16,
          .n_rows = 2,
          .n_layers = 1,
          .has_experts = true,
          .is_precise = true,
          .hidden = 768},
         "e D7 N> l r g E>! E c D2"},
        {"128 rows, a shared expert's gate",
         {.layout = LN_LAYOUT_BF16,
          .n_rows = 128,
          .n_layers = 1,
          .has_experts = true,
          .gates_shared = true,
          .is_precise = true,
          .hidden = 768},
         "e N>! G3 A2> G n l l r g Ex>! E c N>! G"},
        {"16 rows",
         {.layout = LN_LAYOUT_Q4,
          .n_rows = 16,
          .has_experts = true,
          .is_precise = true,
          .hidden = 768},
         "e N>! G3 A2 Gx N> l r g E Ex c N>! G3 A2 Gx N> l r g E Ex c N>! G"},
        {"prefill",
         {.layout = LN_LAYOUT_Q4,
          .n_rows = 512,
          .is_prefill = true,
          .has_experts = true,
          .is_precise = true,
          .hidden = 768},
         "e N>! G3 A2 Gx n l r g Ex Ex c N>! G3 A2 Gx n l r g Ex Ex c D2"},
    };
    check_all(cases, sizeof cases / sizeof *cases);
}

static plan_case of_experts(ln_weight_layout layout) {
    return (plan_case){.layout = layout, .n_rows = 1, .has_experts = true, .hidden = 768};
}

/* A mixture of one row goes with what is around it, its router included, up to the end of the
 * kernel's list. */
static void experts_of_one_row_go_with_their_layers(void **state) {
    (void)state;
    static const ln_weight_layout kinds[] = {LN_LAYOUT_BF16, LN_LAYOUT_INT8, LN_LAYOUT_INT4,
                                             LN_LAYOUT_INT8_ROW, LN_LAYOUT_Q4};
    plan_case c;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        c = of_experts(kinds[i]);
        check("experts", &c, "e X30");
        c.is_precise = true;
        check("precise experts", &c, "e X30");
    }
    c = of_experts(LN_LAYOUT_Q4);
    c.v_layout = c.down_layout = LN_LAYOUT_Q6;
    check("kinds that become f16", &c, "e X30");
    c = of_experts(LN_LAYOUT_BF16);
    c.has_shared = c.gates_shared = true;
    check("a shared expert and its gate", &c, "e X36");
    c.n_layers = 3;
    c.kv = LN_KV_Q8_0;
    check("attention apart, as recurrent layers are", &c, "e D4 q A> X15 q A> X15 q A> X13");
    c = of_experts(LN_LAYOUT_BF16);
    c.n_layers = 12;
    check("twelve layers", &c, "e X140 X30");
    c.has_shared = true;
    check("twelve layers with shared experts", &c, "e X80 X80 X34");
}

/* A hand-off holds rows up to the last one's end, so a row alone may be of any stride. */
static void single_rows_have_no_stride(void **state) {
    (void)state;
    plan_case c = of_experts(LN_LAYOUT_BF16);
    c.stream_stride = LN_DECODE_HANDOFF_FLOATS;
    check("experts", &c, "e X30");
    c.has_experts = false;
    check("no experts", &c, "e D22");
    c.n_rows = 2;
    check("two rows", &c, "e D6 D D2 D D6 D D2 D D2");
}

/* Else it is a kernel of its own. */
static void experts_that_do_not_fit_are_apart(void **state) {
    (void)state;
    plan_case c = of_experts(LN_LAYOUT_INT8);
    c.expert_layout = LN_LAYOUT_MXFP4;
    check("experts of another kind", &c, "e D7 n l M5 D7 n l M5 D2");
    c = of_experts(LN_LAYOUT_BF16);
    c.n_layers = 1;
    c.gates_shared = true;
    check("a gate without a shared expert", &c, "e D7 n P2 M5 D2");
    c.gates_shared = false;
    c.is_divided = true;
    check("nothing of the kernel in front of a router", &c, "e D7 u n l M5 D2");
    c.is_divided = false;
    c.dim = 8192 + 512; /* which no block holds */
    check("a wide norm", &c, "e n D6 n l M5 n D");
}

/* What the blocks of a mixture hand to each other has a place of its own, and lies nowhere else. */
static void values_of_mixtures_are_handed_off(void **state) {
    (void)state;
    plan_case c = of_experts(LN_LAYOUT_BF16);
    c.n_layers = 3;
    c.has_shared = c.gates_shared = true;
    ln_cuda_plan plan = {0};
    make_plan(&c, &plan);
    size_t n_places = 0;
    const ln_cuda_place *of_mixtures[3 * MAX_LAYERS];
    for (size_t i = 0; i < model.n_ops; i++) {
        const ln_op *ops = &model.ops[i];
        if (ops->kind != LN_OP_ROUTE)
            continue;
        const ln_op *up = &ops[LN_MIXTURE_UP], *sum = &ops[LN_MIXTURE_COMBINE];
        const ln_value made[] = {ops[-2].out[LN_OUT], ops[-1].out[LN_OUT], up->out[LN_OUT]};
        const ln_value read[] = {sum->in[LN_IN_SHARED], sum->in[LN_IN_COMBINE_RESIDUAL],
                                 up->in[LN_IN_X], sum->out[LN_OUT]};
        for (size_t k = 0; k < 3; k++)
            of_mixtures[n_places++] = &plan.places[made[k]];
        for (size_t k = 0; k < 4; k++)
            assert_true(plan.places[read[k]].is_handed_off && plan.places[read[k]].is_left_out);
    }
    assert_int_equal(n_places, 9);
    for (size_t i = 0; i < n_places; i++) {
        assert_true(of_mixtures[i]->is_handed_off && of_mixtures[i]->is_left_out);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(of_mixtures[i]->handoff, of_mixtures[k]->handoff);
    }
    ln_cuda_plan_free(&plan);
}

static void latent_attention_stands_between_fused_kernels(void **state) {
    (void)state;
    static const expected cases[] = {
        {"one row",
         {.layout = LN_LAYOUT_BF16, .n_rows = 1, .is_latent = true},
         "e D3 t Ex a Ex D7 t Ex a Ex D6"},
        {"64 rows",
         {.layout = LN_LAYOUT_BF16, .n_rows = 64, .is_latent = true},
         "e N>! G2 t Ex a Ex L4x N>! G2 t Ex a Ex L6x"},
    };
    check_all(cases, sizeof cases / sizeof *cases);
}

/* What is fused ends ahead of an all-reduce, which finds what it sums in its memory. */
static void all_reduces_stand_between_kernels(void **state) {
    (void)state;
    static const expected cases[] = {
        {"one row",
         {.layout = LN_LAYOUT_BF16, .n_rows = 1, .is_divided = true},
         "e D7 u D3 u D7 u D3 u D2"},
        {"16 rows",
         {.layout = LN_LAYOUT_BF16, .n_rows = 16, .is_divided = true},
         "e N>! G3 A2> G u N>! L2 u N>! G3 A2> G u N>! L2 u N>! G"},
        {"prefill",
         {.layout = LN_LAYOUT_BF16, .n_rows = 512, .is_prefill = true, .is_divided = true},
         "e N>! G3 A2>! G u N>! G>! G u N>! G3 A2>! G u N>! G>! G u D2"},
    };
    check_all(cases, sizeof cases / sizeof *cases);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_cuda_plan plan = {0};
        make_plan(&cases[i].c, &plan);
        for (size_t k = 0; k < model.n_ops; k++)
            for (size_t j = 0; j < LN_OP_MAX_IN && model.ops[k].kind == LN_OP_ALL_REDUCE; j++)
                assert_false(plan.places[model.ops[k].in[j]].is_left_out);
        ln_cuda_plan_free(&plan);
    }
}

/* Where the norm is not the begin of fused decode, it goes to the all-reduce, whose sum others
 * read, too. */
static void all_reduces_go_on_with_norms(void **state) {
    (void)state;
    static const expected cases[] = {
        {"one row",
         {.layout = LN_LAYOUT_BF16, .n_rows = 1, .is_divided = true, .fuses_sums = true},
         "e D7 u D3 u D7 u D3 u D2"},
        {"one row of f8",
         {.layout = LN_LAYOUT_F8_ROW, .n_rows = 1, .is_divided = true, .fuses_sums = true},
         "e D7 u D3 u D7 u D3 u D2"},
        {"5 rows of f8",
         {.layout = LN_LAYOUT_F8_ROW, .n_rows = 5, .is_divided = true, .fuses_sums = true},
         "e N>! G3 A2 Gx N2>! G Gx N2>! G3 A2 Gx N2>! G Gx N2>! G"},
        {"5 rows",
         {.layout = LN_LAYOUT_BF16, .n_rows = 5, .is_divided = true, .fuses_sums = true},
         "e N>! G3 A2> G N2>! G Gx N2>! G3 A2> G N2>! G Gx N2>! G"},
        {"16 rows",
         {.layout = LN_LAYOUT_BF16, .n_rows = 16, .is_divided = true, .fuses_sums = true},
         "e N>! G3 A2> G N2>! L2 N2>! G3 A2> G N2>! L2 N2>! G"},
        {"prefill",
         {.layout = LN_LAYOUT_BF16,
          .n_rows = 512,
          .is_prefill = true,
          .is_divided = true,
          .fuses_sums = true},
         "e N>! G3 A2>! G u N>! G>! G u N>! G3 A2>! G u N>! G>! G u D2"},
        {"exact",
         {.layout = LN_LAYOUT_BF16,
          .n_rows = 1,
          .is_divided = true,
          .fuses_sums = true,
          .exact = true},
         "e n l l l q a l N2 l l N2 l l l q a l N2 l l N2 l"},
        {"short rows",
         {.layout = LN_LAYOUT_BF16,
          .n_rows = 24,
          .dim = 256,
          .hidden = 768,
          .is_divided = true,
          .fuses_sums = true},
         "e n G3x A2> G N2 L2x N2 G3x A2> G N2 L2x N2 Gx"},
    };
    check_all(cases, sizeof cases / sizeof *cases);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_cuda_plan plan = {0};
        make_plan(&cases[i].c, &plan);
        for (size_t k = 0; k < model.n_ops; k++) /* the residual stream */
            assert_false(model.ops[k].kind == LN_OP_ALL_REDUCE && k + 3 < model.n_ops &&
                         plan.places[model.ops[k].out[LN_OUT]].is_left_out);
        ln_cuda_plan_free(&plan);
    }
}

/* One rank profiles a step, the others do not: their kernels wait for one another, so that the same
 * norms go to all-reduces. */
static void profiles_leave_sums_as_they_are(void **state) {
    (void)state;
    static const plan_case cases[] = {
        {.layout = LN_LAYOUT_BF16, .n_rows = 1},
        {.layout = LN_LAYOUT_BF16, .n_rows = 4},
        {.layout = LN_LAYOUT_BF16, .n_rows = 3, .dim = 256, .hidden = 768},
        {.layout = LN_LAYOUT_BF16, .n_rows = 5},
        {.layout = LN_LAYOUT_BF16, .n_rows = 24, .dim = 256, .hidden = 768},
        {.layout = LN_LAYOUT_BF16, .n_rows = 64},
        {.layout = LN_LAYOUT_BF16, .n_rows = 512, .is_prefill = true},
        {.layout = LN_LAYOUT_F8_ROW, .n_rows = 1},
        {.layout = LN_LAYOUT_Q4, .v_layout = LN_LAYOUT_Q6, .n_rows = 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n_ops[2][MAX_OPS] = {{0}}; /* of a launch that begins with an all-reduce */
        for (int profiles = 0; profiles < 2; profiles++) {
            plan_case c = cases[i];
            ln_cuda_plan plan = {0};
            c.is_divided = c.fuses_sums = true;
            c.one_by_one = profiles;
            make_plan(&c, &plan);
            for (size_t k = 0; k < plan.n_launches; k++)
                if (model.ops[plan.launches[k].first].kind == LN_OP_ALL_REDUCE)
                    n_ops[profiles][plan.launches[k].first] = plan.launches[k].n_ops;
            ln_cuda_plan_free(&plan);
        }
        if (memcmp(n_ops[0], n_ops[1], sizeof *n_ops) != 0)
            fail_msg("case %zu: ranks sum in different kernels", i);
    }
}

static void what_the_step_or_device_forbids_is_apart(void **state) {
    (void)state;
    static const expected cases[] = {
        {"exact",
         {.layout = LN_LAYOUT_BF16, .n_rows = 1, .exact = true},
         "e n l l l q a l n l l n l l l q a l n l l n l"},
        {"one by one",
         {.layout = LN_LAYOUT_BF16, .n_rows = 1, .one_by_one = true},
         "e N>! G3 q A> G N>! G Gx N>! G3 q A> G N>! G Gx N>! G"},
        {"no sm90a, one row",
         {.layout = LN_LAYOUT_BF16, .n_rows = 1, .has_no_sm90a = true},
         "e N>! G3 q A> G N>! G Gx N>! G3 q A> G N>! G Gx N>! G"},
        {"no sm90a, 64 rows",
         {.layout = LN_LAYOUT_BF16, .n_rows = 64, .has_no_sm90a = true},
         "e N>! G3 q A> G N>! G Gx N>! G3 q A> G N>! G Gx N>! G"},
        {"a cache of q8_0",
         {.layout = LN_LAYOUT_BF16, .n_rows = 1, .kv = LN_KV_Q8_0},
         "e D4 q A> D8 q A> D6"},
        {"a long context",
         {.layout = LN_LAYOUT_BF16, .n_rows = 1, .context = 32768},
         "e D4 A2> D8 A2> D6"},
        {"prefixes shared in the step",
         {.layout = LN_LAYOUT_BF16, .n_rows = 2, .shares_prefix = true},
         "e D4 q A> D8 q A> D6"},
    };
    check_all(cases, sizeof cases / sizeof *cases);
}

/* Why operations are apart. */
static void reasons_are_given(void **state) {
    (void)state;
    static const struct {
        plan_case c;
        const char *why;
    } cases[] = {
        {{.layout = LN_LAYOUT_F8_ROW, .n_rows = 200},
         "more than 4 rows have no fused decode kernel"},
        {{.layout = LN_LAYOUT_BF16, .n_rows = 1, .kv = LN_KV_Q8_0}, "the cache is not f16"},
        {{.layout = LN_LAYOUT_BF16, .n_rows = 1, .context = 32768},
         "the cache is long, which a kernel of its own reads faster"},
        {{.layout = LN_LAYOUT_BF16, .n_rows = 256}, "more than 64 rows have no fused kernel"},
        {{.layout = LN_LAYOUT_INT8_ROW, .n_rows = 16},
         "int8 weights of up to 16 rows are faster apart"},
        {{.layout = LN_LAYOUT_BF16, .n_rows = 2, .has_experts = true, .hidden = 768},
         "more than one token has no fused mixture"},
        {{.layout = LN_LAYOUT_BF16,
          .n_rows = 1,
          .has_experts = true,
          .hidden = 768,
          .down_layout = LN_LAYOUT_Q4},
         "weights of another kind follow"},
        {{.layout = LN_LAYOUT_BF16, .n_rows = 1, .one_by_one = true}, "no fused kernels run here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_cuda_plan plan = {0};
        bool is_there = false;
        make_plan(&cases[i].c, &plan);
        for (size_t k = 0; k < plan.n_launches; k++)
            is_there |=
                plan.launches[k].apart != NULL && strcmp(plan.launches[k].apart, cases[i].why) == 0;
        if (!is_there)
            fail_msg("nobody says \"%s\"", cases[i].why);
        ln_cuda_plan_free(&plan);
    }
}

/* A kernel of several operations is not said to fuse none. */
static void fused_sums_have_no_reason_to_be_apart(void **state) {
    (void)state;
    static const plan_case c = {
        .layout = LN_LAYOUT_BF16, .n_rows = 5, .is_divided = true, .fuses_sums = true};
    ln_cuda_plan plan = {0};
    size_t n_sums = 0;
    make_plan(&c, &plan);
    for (size_t i = 0; i < plan.n_launches; i++) {
        const ln_cuda_launch *launch = &plan.launches[i];
        if (model.ops[launch->first].kind != LN_OP_ALL_REDUCE)
            continue;
        assert_int_equal(launch->n_ops, 2);
        assert_null(launch->apart);
        n_sums++;
    }
    assert_true(n_sums > 0);
    ln_cuda_plan_free(&plan);
}

/* A value that something outside of a launch reads is written; what is handed off lies apart. */
static void values_of_fused_decode_lie_apart(void **state) {
    (void)state;
    static const plan_case c = {.layout = LN_LAYOUT_BF16, .n_rows = 3, .kv = LN_KV_Q8_0};
    ln_cuda_plan plan = {0};
    make_plan(&c, &plan);
    size_t n_handed_off = 0, n_left_out = 0;
    for (size_t i = 0; i < plan.n_launches; i++) {
        const ln_cuda_launch *launch = &plan.launches[i];
        size_t end = launch->first + launch->n_ops, floats = 0;
        if (launch->kind != LN_CUDA_FUSED_DECODE)
            continue;
        for (ln_value v = 1; v < plan.n_values; v++) {
            const ln_value_uses *uses = &plan.uses[v];
            const ln_cuda_place *place = &plan.places[v];
            if (uses->producer == LN_NO_OP || uses->producer < launch->first ||
                uses->producer >= end)
                continue;
            assert_int_equal(place->is_left_out, uses->n_reads > 0 && uses->last_reader < end);
            n_left_out += place->is_left_out;
            if (!place->is_handed_off)
                continue;
            n_handed_off++;
            assert_int_equal(place->handoff % 4, 0);
            assert_true(place->handoff < launch->n_handoff_floats);
            floats += place->handoff == 0;
        }
        assert_int_equal(floats, launch->n_handoff_floats > 0);
    }
    assert_true(n_handed_off > 0 && n_left_out > n_handed_off / 2);
    ln_cuda_plan_free(&plan);
}

/* The residual behind an attention apart was handed off by the launch in front of it, whose
 * hand-off memory is cleared by then. */
static void values_of_another_launch_are_read_where_they_lie(void **state) {
    (void)state;
    static const plan_case c = {
        .layout = LN_LAYOUT_BF16, .n_rows = 1, .n_layers = 3, .kv = LN_KV_Q8_0};
    ln_cuda_plan plan = {0};
    size_t n_own = 0, n_of_others = 0;
    make_plan(&c, &plan);
    for (size_t i = 0; i < plan.n_launches; i++) {
        const ln_cuda_launch *launch = &plan.launches[i];
        size_t end = launch->first + launch->n_ops;
        for (size_t k = launch->first; k < end && launch->kind == LN_CUDA_FUSED_DECODE; k++)
            for (size_t j = 0; j < LN_OP_MAX_IN; j++) {
                ln_value v = model.ops[k].in[j];
                bool is_own =
                    plan.uses[v].producer != LN_NO_OP && plan.uses[v].producer >= launch->first;
                if (v == 0 || !plan.places[v].is_handed_off)
                    continue;
                assert_int_equal(ln_cuda_reads_handoff(&plan, launch, v), is_own);
                assert_true(is_own || !plan.places[v].is_left_out);
                n_own += is_own, n_of_others += !is_own;
            }
    }
    assert_true(n_own > 0 && n_of_others > 0);
    ln_cuda_plan_free(&plan);
}

/* Without ids nothing is known of who reads what: nothing is fused but one linear at a time. */
static void nothing_is_fused_that_has_no_values(void **state) {
    (void)state;
    static const plan_case c = {.layout = LN_LAYOUT_BF16, .n_rows = 1};
    ln_cuda_plan plan = {0};
    char line[MAX_LINE];
    make_plan(&c, &plan);
    const ln_cuda_step step = {.batch = model.batch,
                               .least_tokens = 1,
                               .most_tokens = 1,
                               .scratch_bytes = 1 << 20,
                               .fused_workspace = (unsigned *)64};
    const ln_cuda_target target = {.has_sm90a = true, .act = {.bytes = 1 << 30}};
    for (size_t i = 0; i < model.n_ops; i++) {
        memset(model.ops[i].in, 0, sizeof model.ops[i].in);
        memset(model.ops[i].out, 0, sizeof model.ops[i].out);
    }
    assert_true(ln_cuda_plan_make(&plan, model.ops, model.n_ops, &step, &target));
    show(&plan, line);
    assert_string_equal(line, "e n Gx Gx Gx q a Gx n Gx Gx n Gx Gx Gx q a Gx n Gx Gx n Gx");
    ln_cuda_plan_free(&plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_of_few_rows_is_one_kernel),
        cmocka_unit_test(linears_and_norms_of_9_to_64_rows_are_one_kernel),
        cmocka_unit_test(other_steps_convert_results_on_the_way),
        cmocka_unit_test(experts_take_what_their_norm_converts),
        cmocka_unit_test(experts_of_one_row_go_with_their_layers),
        cmocka_unit_test(experts_that_do_not_fit_are_apart),
        cmocka_unit_test(single_rows_have_no_stride),
        cmocka_unit_test(values_of_mixtures_are_handed_off),
        cmocka_unit_test(latent_attention_stands_between_fused_kernels),
        cmocka_unit_test(all_reduces_stand_between_kernels),
        cmocka_unit_test(all_reduces_go_on_with_norms),
        cmocka_unit_test(profiles_leave_sums_as_they_are),
        cmocka_unit_test(what_the_step_or_device_forbids_is_apart),
        cmocka_unit_test(reasons_are_given),
        cmocka_unit_test(fused_sums_have_no_reason_to_be_apart),
        cmocka_unit_test(values_of_fused_decode_lie_apart),
        cmocka_unit_test(values_of_another_launch_are_read_where_they_lie),
        cmocka_unit_test(nothing_is_fused_that_has_no_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
