/* Decode steps of few sequences as models record them, by kernels that run many operations at once
 * and by those that run one after another, which a backend with a profile does: the same bits.
 * Where rows have adapters their logits are those of the scalar kernels, too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ops/adapter_slots.h"

enum {
    BLOCK = 16,
    MAX_BLOCKS = 40,
    MAX_ROWS = 64,
    MAX_LAYERS = 14,
    N_SETS = 2, /* of weights, which layers take by turns */
    MAX_STEPS = 3,
    MAX_OPS = MAX_LAYERS * 17 + 2,
    MAX_HALF_DIM = 64,
    MAX_SLOTS = 64, /* of adapters */
    MAX_SHRUNK = 3, /* linears of one x */
    MAX_EXPERTS = 160,
    N_OUT = 1000
};

#define CHAIN_ERROR 1e-4 /* what a chain may be off, where each linear has LINEAR_ERROR */

typedef enum placement {
    IN_TURN, /* a norm before attention and one before the rest */
    PARALLEL,
    PARALLEL_WITH_NORM /* of its own */
} placement;

typedef struct chain_case {
    const char *name;
    ln_dtype dtype, down_dtype, out_dtype, v_dtype;
    size_t n_rows, n_cached; /* of the first sequence, before the first step */
    size_t dim, head_dim, n_heads, kv_heads, n_hidden, n_layers, n_steps;
    placement placement;
    ln_norm_kind norm;
    bool is_plain; /* without a gate */
    bool has_bias, norms_heads, is_precise;
    size_t window;
    float softcap;
    size_t n_slots, rank; /* of adapters on all linears, or 0; rank 0: several */
    bool mostly_first;    /* most rows have the first one */
    bool begins;          /* sequences have nothing cached */
    /* Instead of the feed-forward, which becomes the shared expert, or is not there: */
    size_t n_experts, n_used, n_expert_hidden; /* n_experts 0: none */
    ln_dtype router_dtype;
    ln_router router;
    bool has_shared, gates_shared;
} chain_case;

/* The linears of a layer. */
typedef enum linear_name { Q, K, V, O, UP, GATE, DOWN, N_LINEARS } linear_name;

/* Those of experts, beside the router and the shared expert's gate. */
typedef enum expert_linear { EXPERT_UP, EXPERT_GATE, EXPERT_DOWN, N_EXPERT_LINEARS } expert_linear;

typedef struct mixture_data {
    matrix experts[N_EXPERT_LINEARS][MAX_EXPERTS], router, shared_gate;
    float *bias[N_EXPERT_LINEARS][MAX_EXPERTS], *router_bias;
} mixture_data;

typedef struct placed_mixture {
    ln_weight experts[N_EXPERT_LINEARS][MAX_EXPERTS], router, shared_gate;
} placed_mixture;

typedef struct chain_data {
    mixture_data *mixtures; /* [N_SETS] or NULL */
    matrix linears[N_SETS][N_LINEARS], out;
    float *bias[N_SETS][N_LINEARS];
    slot_data slots[N_SETS][N_LINEARS][MAX_SLOTS];
    float *norms, *x, *inv_freq; /* norms [4][dim]: weights and biases of two */
    float *cache;                /* of a layer: pairs of f16 */
    size_t n_cache;              /* such pairs */
    int32_t tables[MAX_ROWS * MAX_BLOCKS];
} chain_data;

typedef struct step {
    ln_batch batch;
    int32_t positions[MAX_ROWS], slots[MAX_ROWS], starts[MAX_ROWS + 1], lengths[MAX_ROWS];
    int32_t logit_rows[MAX_ROWS], adapter_slots[MAX_ROWS], adapter_order[MAX_ROWS];
    ln_adapter_run adapter_runs[MAX_ROWS];
} step;

/* What lies on the backend. */
typedef struct placed {
    ln_weight linears[N_SETS][N_LINEARS], out;
    ln_norm norms[2], head_norm;
    ln_rope rope;
    ln_kv_layer kv[MAX_LAYERS];
    float *x, *normed, *other, *q, *k, *v, *attended, *hidden, *logits;
    placed_mixture *mixtures; /* [N_SETS] or NULL */
    float *router, *shared_gate, *shared, *shares, *expert_hidden, *expert_out;
    int32_t *experts, *order, *starts;
    float *low[MAX_SHRUNK]; /* [n_rows][low_stride], what adapters' A gives for linears of one x */
    size_t low_stride;      /* 0: there are no adapters */
} placed;

/* ---- inputs ---------------------------------------------------------------------------------- */

static void linear_shape(const chain_case *c, linear_name name, size_t *n_rows, size_t *n_cols) {
    size_t q = c->n_heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const size_t rows[N_LINEARS] = {q, kv, kv, c->dim, c->n_hidden, c->n_hidden, c->dim};
    *n_rows = rows[name];
    *n_cols = name == O ? q : name == DOWN ? c->n_hidden : c->dim;
}

static float *make_cache(size_t n_pairs) {
    uint16_t *halves = malloc(n_pairs * 2 * sizeof *halves);
    assert_non_null(halves);
    for (size_t i = 0; i < n_pairs * 2; i++)
        halves[i] = ln_f16_from_f32(noise());
    return (float *)(void *)halves;
}

static size_t rank_of(const chain_case *c, size_t slot) {
    static const size_t ranks[] = {16, 3, 40, 64};
    return c->rank > 0 ? c->rank : ranks[slot % (sizeof ranks / sizeof *ranks)];
}

/* Bytes have row scales. */
static matrix make_chain_matrix(ln_dtype dtype, size_t n_rows, size_t n_cols) {
    bool is_byte = dtype == LN_DTYPE_I8 || dtype == LN_DTYPE_F8_E4M3;
    return make_case_matrix(dtype, is_byte ? dtype : LN_DTYPE_F32, n_rows, n_cols);
}

static mixture_data *make_mixtures(const chain_case *c) {
    mixture_data *sets = calloc(N_SETS, sizeof *sets);
    assert_non_null(sets);
    for (size_t set = 0; set < N_SETS && set < c->n_layers; set++) {
        mixture_data *m = &sets[set];
        m->router = make_matrix(c->router_dtype, c->n_experts, c->dim);
        m->shared_gate = make_matrix(c->router_dtype, 1, c->dim);
        m->router_bias = c->has_bias ? noise_rows(c->n_experts) : NULL;
        for (expert_linear name = EXPERT_UP; name < N_EXPERT_LINEARS; name++)
            for (size_t e = 0; e < c->n_experts; e++) {
                bool is_down = name == EXPERT_DOWN;
                size_t n_rows = is_down ? c->dim : c->n_expert_hidden;
                m->experts[name][e] = make_chain_matrix(is_down ? c->down_dtype : c->dtype, n_rows,
                                                        is_down ? c->n_expert_hidden : c->dim);
                m->bias[name][e] = c->has_bias ? noise_rows(n_rows) : NULL;
            }
    }
    return sets;
}

static void free_mixtures(mixture_data *sets) {
    for (size_t set = 0; set < N_SETS && sets != NULL; set++) {
        free_matrix(&sets[set].router), free_matrix(&sets[set].shared_gate);
        free(sets[set].router_bias);
        for (expert_linear name = EXPERT_UP; name < N_EXPERT_LINEARS; name++)
            for (size_t e = 0; e < MAX_EXPERTS; e++) {
                free_matrix(&sets[set].experts[name][e]);
                free(sets[set].bias[name][e]);
            }
    }
    free(sets);
}

static chain_data make_data(const chain_case *c) {
    chain_data d = {.out = make_chain_matrix(c->out_dtype, N_OUT, c->dim),
                    .norms = noise_rows(4 * c->dim),
                    .x = noise_rows(MAX_STEPS * c->n_rows * c->dim),
                    .inv_freq = noise_rows(MAX_HALF_DIM),
                    .n_cache = c->n_rows * MAX_BLOCKS * BLOCK * c->kv_heads * c->head_dim / 2};
    for (size_t set = 0; set < N_SETS && set < c->n_layers; set++)
        for (linear_name name = Q; name < N_LINEARS; name++) {
            size_t n_rows, n_cols;
            linear_shape(c, name, &n_rows, &n_cols);
            ln_dtype dtype = name == DOWN ? c->down_dtype : name == V ? c->v_dtype : c->dtype;
            d.linears[set][name] = make_chain_matrix(dtype, n_rows, n_cols);
            d.bias[set][name] = c->has_bias ? noise_rows(n_rows) : NULL;
            /* as large as what the weights give, so that one that is not there shows */
            for (size_t slot = 0; slot < c->n_slots; slot++)
                d.slots[set][name][slot] = make_slot(rank_of(c, slot), n_cols, n_rows, 0.1f);
        }
    d.mixtures = c->n_experts > 0 ? make_mixtures(c) : NULL;
    d.cache = make_cache(d.n_cache);
    int32_t n_blocks = (int32_t)c->n_rows * MAX_BLOCKS;
    for (int32_t i = 0; i < n_blocks; i++)
        d.tables[i] = i * 37 % n_blocks;
    return d;
}

static void free_data(chain_data *d) {
    for (size_t set = 0; set < N_SETS; set++)
        for (linear_name name = Q; name < N_LINEARS; name++) {
            for (size_t slot = 0; slot < MAX_SLOTS; slot++)
                free_slot(&d->slots[set][name][slot]);
            free_matrix(&d->linears[set][name]);
            free(d->bias[set][name]);
        }
    free_mixtures(d->mixtures);
    free_matrix(&d->out);
    free(d->norms), free(d->x), free(d->inv_freq), free(d->cache);
}

/* The linears' weights, and their adapters with what these need. */
static void place_linears(side *s, const chain_case *c, const chain_data *d, placed *p) {
    static ln_adapter_target targets[N_SETS][N_LINEARS][MAX_SLOTS];
    for (size_t set = 0; set < N_SETS && set < c->n_layers; set++)
        for (linear_name name = Q; name < N_LINEARS; name++) {
            p->linears[set][name] = put_weight(s, &d->linears[set][name], d->bias[set][name]);
            if (c->n_slots > 0)
                put_slots(s, d->slots[set][name], c->n_slots, false, &p->linears[set][name],
                          targets[set][name]);
        }
    for (size_t slot = 0; slot < c->n_slots; slot++) {
        size_t rank = whole_adapter_rows(rank_of(c, slot));
        p->low_stride = rank > p->low_stride ? rank : p->low_stride;
    }
    for (size_t i = 0; i < MAX_SHRUNK && c->n_slots > 0; i++)
        p->low[i] = put(s, NULL, c->n_rows * p->low_stride);
}

/* The experts' weights, and the memory of what they give. */
static void place_mixtures(side *s, const chain_case *c, const chain_data *d, placed *p) {
    size_t n = c->n_rows, n_chosen = n * c->n_used;
    p->mixtures = calloc(N_SETS, sizeof *p->mixtures);
    assert_non_null(p->mixtures);
    for (size_t set = 0; set < N_SETS && set < c->n_layers; set++) {
        const mixture_data *m = &d->mixtures[set];
        placed_mixture *to = &p->mixtures[set];
        for (expert_linear name = EXPERT_UP; name < N_EXPERT_LINEARS; name++)
            put_weights(s, m->experts[name],
                        c->has_bias ? (const float *const *)m->bias[name] : NULL, c->n_experts,
                        to->experts[name]);
        to->router = put_router(s, &m->router, m->router_bias);
        to->shared_gate = put_router(s, &m->shared_gate, NULL);
    }
    p->router = put(s, NULL, n * c->n_experts);
    p->shared_gate = put(s, NULL, n);
    p->shared = put(s, NULL, n * c->dim);
    p->shares = put(s, NULL, n_chosen);
    p->expert_hidden = put(s, NULL, n_chosen * c->n_expert_hidden);
    p->expert_out = put(s, NULL, n_chosen * c->dim);
    p->experts = put_ids(s, NULL, n_chosen);
    p->order = put_ids(s, NULL, n_chosen);
    p->starts = put_ids(s, NULL, c->n_experts + 1);
}

static placed place(side *s, const chain_case *c, const chain_data *d) {
    size_t n = c->n_rows, q = c->n_heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    placed p = {.out = put_weight(s, &d->out, NULL),
                .rope = {.style = c->has_bias ? LN_ROPE_INTERLEAVED : LN_ROPE_HALF,
                         .n_dims = c->has_bias ? c->head_dim / 2 : c->head_dim,
                         .inv_freq = put(s, d->inv_freq, MAX_HALF_DIM),
                         .magnitude = 1.1f},
                .x = put(s, NULL, n * c->dim),
                .normed = put(s, NULL, n * c->dim),
                .other = put(s, NULL, n * c->dim),
                .q = put(s, NULL, n * q),
                .k = put(s, NULL, n * kv),
                .v = put(s, NULL, n * kv),
                .attended = put(s, NULL, n * q),
                .hidden = put(s, NULL, n * c->n_hidden),
                .logits = put(s, NULL, n * N_OUT)};
    for (size_t i = 0; i < 2; i++)
        p.norms[i] = (ln_norm){.kind = c->norm,
                               .eps = 1e-5f,
                               .dim = c->dim,
                               .weight = put(s, d->norms + 2 * i * c->dim, c->dim),
                               .bias = c->norm == LN_NORM_LAYER
                                           ? put(s, d->norms + (2 * i + 1) * c->dim, c->dim)
                                           : NULL};
    p.head_norm = (ln_norm){
        .kind = LN_NORM_RMS, .eps = 1e-5f, .dim = c->head_dim, .weight = p.norms[0].weight};
    place_linears(s, c, d, &p);
    if (d->mixtures != NULL)
        place_mixtures(s, c, d, &p);
    for (size_t layer = 0; layer < c->n_layers; layer++)
        p.kv[layer] = (ln_kv_layer){.dtype = LN_KV_F16,
                                    .block_tokens = BLOCK,
                                    .n_heads = c->kv_heads,
                                    .k_dim = c->head_dim,
                                    .v_dim = c->head_dim,
                                    .v_stride = c->head_dim,
                                    .k = put(s, d->cache, d->n_cache),
                                    .v = put(s, d->cache, d->n_cache)};
    return p;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The adapter of a row in a step. Rows change them, so that replays have other runs each time. */
static int32_t adapter_of(const chain_case *c, size_t row, size_t number) {
    size_t i = row + number;
    if (c->mostly_first && i % 8 != 5)
        return 0;
    return c->n_slots == c->n_rows ? (int32_t)(i % c->n_slots)
                                   : (int32_t)(i * 7 % (c->n_slots + 1)) - 1;
}

/* A token of each sequence; the sequences have different lengths. */
static void make_step(step *s, const chain_case *c, const chain_data *d, size_t number) {
    for (size_t row = 0; row < c->n_rows; row++) {
        size_t n_cached = c->begins ? 0 : (c->n_cached + 61 * row) % 600;
        size_t position = n_cached + number;
        const int32_t *blocks = d->tables + row * MAX_BLOCKS;
        s->positions[row] = (int32_t)position;
        s->slots[row] = blocks[position / BLOCK] * BLOCK + (int32_t)(position % BLOCK);
        s->starts[row] = s->logit_rows[row] = (int32_t)row;
        s->lengths[row] = (int32_t)position + 1;
        s->adapter_slots[row] = adapter_of(c, row, number);
    }
    s->starts[c->n_rows] = (int32_t)c->n_rows;
    s->batch.adapters =
        sort_by_slot(s->adapter_slots, c->n_rows, c->n_slots, s->adapter_order, s->adapter_runs);
}

static int32_t n_lists; /* recorded so far */

static ln_op *push(ln_op *ops, size_t *n, ln_op_kind kind, const ln_batch *batch) {
    ln_op *op = &ops[(*n)++];
    memset(op, 0, sizeof *op); /* replays compare bytes */
    op->kind = kind;
    op->layer = n_lists; /* no list is taken for another one */
    op->batch = batch;
    return op;
}

static void push_norm(ln_op *ops, size_t *n, const ln_batch *batch, const ln_norm *norm,
                      const float *x, float *out) {
    ln_op_norm *op = &push(ops, n, LN_OP_NORM, batch)->norm;
    op->norm = norm;
    op->n_rows = batch->n_tokens;
    op->x = x;
    op->scale = 1.0f;
    op->out = out;
}

static ln_op_linear *push_linear(ln_op *ops, size_t *n, const ln_batch *batch,
                                 const ln_weight *weight, const float *x, float *out) {
    ln_op_linear *op = &push(ops, n, LN_OP_LINEAR, batch)->linear;
    op->weight = weight;
    op->n_rows = batch->n_tokens;
    op->x = x;
    op->scale = 1.0f;
    op->out = out;
    return op;
}

/* What adapters of n weights multiply x with first, if there are any; these linears follow. */
static void push_shrink(ln_op *ops, size_t *n_ops, const ln_batch *batch, const placed *p, size_t n,
                        const ln_weight *weights, const float *x) {
    if (p->low_stride == 0)
        return;
    ln_op_lora_shrink *op = &push(ops, n_ops, LN_OP_LORA_SHRINK, batch)->lora_shrink;
    op->rows = &batch->adapters;
    op->n_weights = n;
    for (size_t i = 0; i < n; i++) {
        op->weights[i] = &weights[i];
        op->low[i] = p->low[i];
    }
    op->low_stride = p->low_stride;
    op->n_rows = batch->n_tokens;
    op->x = x;
}

/* A linear with its adapters, if there are any: its weight is number `at` of the shrink before. */
static ln_op_linear *push_adapted(ln_op *ops, size_t *n, const ln_batch *batch, const placed *p,
                                  size_t at, const ln_weight *weight, const float *x, float *out) {
    ln_op_linear *op = push_linear(ops, n, batch, weight, x, out);
    op->adapters = p->low_stride > 0 ? &batch->adapters : NULL;
    op->low = p->low[at];
    op->low_stride = p->low_stride;
    return op;
}

static void push_to_stream(ln_op *ops, size_t *n, const ln_batch *batch, const placed *p,
                           const ln_weight *weight, const float *x) {
    push_shrink(ops, n, batch, p, 1, weight, x);
    push_adapted(ops, n, batch, p, 0, weight, x, p->x)->residual = p->x;
}

static void push_attention(ln_op *ops, size_t *n, const ln_batch *batch, const chain_case *c,
                           const placed *p, size_t layer, const float *x) {
    const ln_weight *w = p->linears[layer % N_SETS];
    push_shrink(ops, n, batch, p, 3, &w[Q], x); /* and of K and V */
    push_adapted(ops, n, batch, p, 0, &w[Q], x, p->q)->precise = c->is_precise;
    push_adapted(ops, n, batch, p, 1, &w[K], x, p->k)->precise = c->is_precise;
    push_adapted(ops, n, batch, p, 2, &w[V], x, p->v);
    ln_op_qkv *qkv = &push(ops, n, LN_OP_QKV, batch)->qkv;
    *qkv = (ln_op_qkv){.q = p->q,
                       .k = p->k,
                       .v = p->v,
                       .n_heads = c->n_heads,
                       .qk_norm = c->norms_heads ? LN_QK_NORM_HEAD : LN_QK_NORM_NONE,
                       .q_norm = &p->head_norm,
                       .k_norm = &p->head_norm,
                       .rope = &p->rope,
                       .kv = &p->kv[layer]};
    ln_op_attention *op = &push(ops, n, LN_OP_ATTENTION, batch)->attention;
    op->q = p->q;
    op->kv = &p->kv[layer];
    op->n_heads = c->n_heads;
    op->scale = 0.1f;
    op->softcap = c->softcap;
    op->window = c->window;
    op->out = p->attended;
    push_to_stream(ops, n, batch, p, &w[O], p->attended);
}

static void push_choice(ln_op *ops, size_t *n, const ln_batch *batch, const chain_case *c,
                        const placed *p) {
    ln_op_route *route = &push(ops, n, LN_OP_ROUTE, batch)->route;
    route->logits = p->router;
    route->router = c->router;
    route->n_experts = c->n_experts;
    route->n_used = c->n_used;
    route->normalize = c->router == LN_ROUTER_SIGMOID;
    route->scale = 1.5f;
    route->experts = p->experts;
    route->weights = p->shares;
    ln_op_group *group = &push(ops, n, LN_OP_GROUP, batch)->group;
    group->experts = p->experts;
    group->n_rows = batch->n_tokens * c->n_used;
    group->n_experts = c->n_experts;
    group->order = p->order;
    group->starts = p->starts;
}

static ln_op_linear *push_by_expert(ln_op *ops, size_t *n, const ln_batch *batch,
                                    const chain_case *c, const placed *p, const ln_weight *weights,
                                    const float *x, float *out) {
    ln_op_linear *op = push_linear(ops, n, batch, weights, x, out);
    op->groups = (ln_row_groups){c->n_experts, p->order, p->starts};
    op->n_rows *= c->n_used;
    op->rows_per_token = c->n_used;
    op->precise = c->is_precise;
    return op;
}

/* The shared expert, the router, the experts and their sum. */
static void push_mixture(ln_op *ops, size_t *n, const ln_batch *batch, const chain_case *c,
                         const placed *p, size_t layer, const float *x) {
    const ln_weight *w = p->linears[layer % N_SETS];
    const placed_mixture *m = &p->mixtures[layer % N_SETS];
    if (c->has_shared) {
        ln_op_linear *up = push_linear(ops, n, batch, &w[UP], x, p->hidden);
        up->gate = &w[GATE];
        up->activation = LN_ACT_SILU;
        push_linear(ops, n, batch, &w[DOWN], p->hidden, p->shared);
    }
    if (c->gates_shared)
        push_linear(ops, n, batch, &m->shared_gate, x, p->shared_gate);
    push_linear(ops, n, batch, &m->router, x, p->router)->precise = true;
    push_choice(ops, n, batch, c, p);
    ln_op_linear *up =
        push_by_expert(ops, n, batch, c, p, m->experts[EXPERT_UP], x, p->expert_hidden);
    up->gate = m->experts[EXPERT_GATE];
    up->activation = c->has_bias ? LN_ACT_SWIGLU_CLAMPED : LN_ACT_SILU;
    up->rows_per_x = c->n_used;
    push_by_expert(ops, n, batch, c, p, m->experts[EXPERT_DOWN], p->expert_hidden, p->expert_out);
    ln_op_combine *sum = &push(ops, n, LN_OP_COMBINE, batch)->combine;
    sum->x = p->expert_out;
    sum->weights = p->shares;
    sum->n_used = c->n_used;
    sum->dim = c->dim;
    sum->shared = c->has_shared ? p->shared : NULL;
    sum->shared_gate = c->gates_shared ? p->shared_gate : NULL;
    sum->residual = sum->out = p->x;
    sum->scale = 0.7f;
}

static void push_layer(ln_op *ops, size_t *n, const ln_batch *batch, const chain_case *c,
                       const placed *p, size_t layer) {
    const ln_weight *w = p->linears[layer % N_SETS];
    const float *x = p->normed;
    push_norm(ops, n, batch, &p->norms[0], p->x, p->normed);
    if (c->placement == PARALLEL_WITH_NORM)
        push_norm(ops, n, batch, &p->norms[1], p->x, p->other);
    push_attention(ops, n, batch, c, p, layer, p->normed);
    if (c->placement == IN_TURN)
        push_norm(ops, n, batch, &p->norms[1], p->x, p->other);
    if (c->placement != PARALLEL)
        x = p->other;
    if (c->n_experts > 0) {
        push_mixture(ops, n, batch, c, p, layer, x);
        return;
    }
    push_shrink(ops, n, batch, p, c->is_plain ? 1 : 2, &w[UP], x); /* and of GATE */
    ln_op_linear *up = push_adapted(ops, n, batch, p, 0, &w[UP], x, p->hidden);
    up->gate = c->is_plain ? NULL : &w[GATE];
    up->gate_low = c->is_plain ? NULL : p->low[1];
    up->activation = c->is_plain ? LN_ACT_GELU_TANH : LN_ACT_SILU;
    push_to_stream(ops, n, batch, p, &w[DOWN], p->hidden);
}

/* ---- comparison ------------------------------------------------------------------------------ */

typedef enum way { ONE_BY_ONE, AT_ONCE, REPLAYED } way;

static float *append(side *s, float *results, size_t *n, float *from, size_t n_from) {
    float *part = get(s, from, n_from);
    memcpy(results + *n, part, n_from * sizeof *part);
    free(part);
    *n += n_from;
    return results;
}

/* The steps' logits, then the caches; malloc'd. x is the norm's alone, and need not be written. */
static float *run_steps(side *s, const chain_case *c, const chain_data *d, way by, size_t *n) {
    static ln_op ops[MAX_OPS];
    static step st;
    ln_profile profile = {0};
    size_t n_ops = 0, n_rows = c->n_rows;
    placed p = place(s, c, d);
    n_lists++;
    st = (step){.batch = {.n_tokens = n_rows,
                          .n_seqs = n_rows,
                          .n_logits = n_rows,
                          .n_groups = 1,
                          .positions = st.positions,
                          .seq_starts = st.starts,
                          .logit_rows = st.logit_rows,
                          .groups = {{d->tables, MAX_BLOCKS, st.lengths, st.slots}},
                          .repeats = by == REPLAYED}};
    for (size_t layer = 0; layer < c->n_layers; layer++)
        push_layer(ops, &n_ops, &st.batch, c, &p, layer);
    push_norm(ops, &n_ops, &st.batch, &p.norms[0], p.x, p.normed);
    ops[n_ops - 1].norm.rows = st.logit_rows;
    push_linear(ops, &n_ops, &st.batch, &p.out, p.normed, p.logits);
    float *results =
        malloc((c->n_steps * n_rows * N_OUT + 2 * c->n_layers * d->n_cache) * sizeof *results);
    assert_non_null(results);
    *n = 0;
    s->backend->profile = by == ONE_BY_ONE ? &profile : NULL;
    for (size_t number = 0; number < c->n_steps; number++) {
        make_step(&st, c, d, number);
        s->backend->vtable->upload(s->backend, p.x, d->x + number * n_rows * c->dim,
                                   n_rows * c->dim * sizeof *d->x);
        run_ops(s, ops, n_ops);
        append(s, results, n, p.logits, n_rows * N_OUT);
    }
    for (size_t i = 0; i < *n; i++)
        assert_true(isfinite(results[i]));
    for (size_t layer = 0; layer < c->n_layers; layer++) {
        append(s, results, n, p.kv[layer].k, d->n_cache);
        append(s, results, n, p.kv[layer].v, d->n_cache);
    }
    s->backend->profile = NULL;
    free(p.mixtures);
    free_placed(s);
    return results;
}

/* What runs at once, or is replayed, has the bits of what runs one by one. */
static void compare_ways(const chain_case *c, const chain_data *d) {
    /* a replay has room for the runs of so many adapters alone */
    way last = c->n_slots > MAX_ADAPTERS ? AT_ONCE : REPLAYED;
    size_t n;
    float *want = run_steps(&subject, c, d, ONE_BY_ONE, &n);
    for (way by = AT_ONCE; by <= last; by++) {
        float *got = run_steps(&subject, c, d, by, &n);
        size_t i = 0;
        while (i < n && memcmp(&got[i], &want[i], sizeof *got) == 0)
            i++;
        if (i < n)
            fail_msg("%s, %s: number %zu of %zu is %g instead of %g", c->name,
                     by == AT_ONCE ? "at once" : "replayed", i, n, (double)got[i], (double)want[i]);
        free(got);
    }
    free(want);
}

/* Logits are those of the scalar kernels: all ways of a backend may take the same wrong adapter.
 * Sequences begin here, since a backend may have keys in an order of its own. */
static void compare_with_scalar(const chain_case *c, const chain_data *d) {
    chain_case begun = *c;
    size_t n;
    begun.begins = true;
    begun.n_steps = c->n_steps < 2 ? c->n_steps : 2;
    float *want = run_steps(&oracle, &begun, d, AT_ONCE, &n);
    float *got = run_steps(&subject, &begun, d, AT_ONCE, &n);
    assert_near(c->name, got, want, begun.n_steps * c->n_rows * N_OUT, CHAIN_ERROR);
    free(want);
    free(got);
}

/* Where nothing of a case runs as a chain it passes, too: benchmarks say that chains run. */
static void check_chain(const chain_case *c) {
    if (!ops_takes_case())
        return;
    chain_data d = make_data(c);
    if (subject.backend->vtable->on_device)
        compare_ways(c, &d);
    if (c->n_slots > 0)
        compare_with_scalar(c, &d);
    free_data(&d);
}

/* Cases of which what is 0 becomes usual; only those with adapters are for all backends. */
static void check_cases(const chain_case *cases, size_t n_cases) {
    if (!subject.backend->vtable->on_device && cases->n_slots == 0)
        skip();
    for (size_t i = 0; i < n_cases; i++) {
        chain_case c = cases[i];
        c.down_dtype = c.down_dtype != LN_DTYPE_F32 ? c.down_dtype : c.dtype;
        c.out_dtype = c.out_dtype != LN_DTYPE_F32 ? c.out_dtype : c.dtype;
        c.v_dtype = c.v_dtype != LN_DTYPE_F32 ? c.v_dtype : c.dtype;
        c.n_rows = c.n_rows > 0 ? c.n_rows : 1;
        c.dim = c.dim > 0 ? c.dim : 512;
        c.head_dim = c.head_dim > 0 ? c.head_dim : 64;
        c.n_heads = c.n_heads > 0 ? c.n_heads : 8;
        c.kv_heads = c.kv_heads > 0 ? c.kv_heads : 2;
        c.n_hidden = ops_gpu_size(c.n_hidden > 0 ? c.n_hidden : 768);
        c.n_expert_hidden = c.n_expert_hidden > 0 ? c.n_expert_hidden : 256;
        c.n_layers = c.n_layers > 0 ? c.n_layers : 2;
        c.n_steps = c.n_steps > 0 ? c.n_steps : MAX_STEPS;
        if (ops_is_brief && c.dim > 2048)
            continue;
        if (ops_is_brief) {
            c.n_steps = 1;
            c.n_layers = c.n_layers < 4 ? c.n_layers : 4;
        }
        check_chain(&c);
    }
}

/* Small enough for tools that watch every access. */
static void a_short_chain_is_that_of_single_kernels(void **state) {
    (void)state;
    static const chain_case cases[] = {{"short", LN_DTYPE_Q4_0, .n_cached = 20, .n_layers = 1,
                                        .n_steps = 1, .n_heads = 4, .kv_heads = 1, .dim = 256,
                                        .n_hidden = 256}};
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void chains_are_those_of_single_kernels(void **state) {
    (void)state;
    static const chain_case cases[] = {
        {"q4_0", LN_DTYPE_Q4_0, .n_cached = 10},
        {"q8_0", LN_DTYPE_Q8_0, .n_cached = 62, .n_rows = 2},
        {"bf16", LN_DTYPE_BF16, .n_cached = 150, .n_rows = 3},
        {"two slices", LN_DTYPE_Q4_0, .n_cached = 254, .head_dim = 128, .n_heads = 6},
        {"three slices", LN_DTYPE_Q8_0, .n_cached = 597, .head_dim = 128, .n_rows = 4},
        {"many slices", LN_DTYPE_BF16, .n_cached = 590, .n_rows = 4, .n_heads = 20, .kv_heads = 20},
        {"many heads for one", LN_DTYPE_Q4_0, .n_cached = 200, .n_heads = 13, .kv_heads = 1,
         .head_dim = 128, .n_rows = 2, .dim = 256},
        {"full slice", LN_DTYPE_BF16, .n_cached = 239, .head_dim = 128, .is_precise = true},
        {"five rows", LN_DTYPE_Q4_0, .n_cached = 40, .n_rows = 5},
        {"mixed", LN_DTYPE_Q4_0, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, .n_cached = 100, .n_rows = 2},
        {"k quants", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, .n_cached = 33},
        {"parallel", LN_DTYPE_BF16, .n_cached = 70, .placement = PARALLEL, .is_plain = true,
         .norm = LN_NORM_LAYER, .has_bias = true},
        {"parallel rows", LN_DTYPE_Q4_0, .n_cached = 70, .placement = PARALLEL, .n_rows = 4,
         .norm = LN_NORM_LAYER, .has_bias = true, .kv_heads = 8},
        {"parallel gate", LN_DTYPE_Q8_0, .n_cached = 300, .placement = PARALLEL, .head_dim = 128,
         .norm = LN_NORM_LAYER},
        {"two norms", LN_DTYPE_Q8_0, .n_cached = 90, .placement = PARALLEL_WITH_NORM, .n_rows = 2,
         .is_plain = true, .norm = LN_NORM_LAYER},
        {"head norms", LN_DTYPE_BF16, .n_cached = 120, .norms_heads = true, .head_dim = 128,
         .norm = LN_NORM_RMS_PLUS_ONE, .window = 100, .softcap = 5.0f, .n_rows = 2},
        {"many layers", LN_DTYPE_Q4_0, .n_cached = 255, .n_layers = MAX_LAYERS, .kv_heads = 1,
         .n_heads = 4},
        {"many layers, parallel", LN_DTYPE_Q8_0, .n_cached = 130, .n_layers = MAX_LAYERS,
         .placement = PARALLEL, .n_rows = 3, .dim = 256, .n_hidden = 512},
        {"wide", LN_DTYPE_Q4_0, .n_cached = 180, .dim = 2048, .n_hidden = 5120, .head_dim = 128,
         .n_heads = 16},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void chains_of_many_rows_are_those_of_single_kernels(void **state) {
    (void)state;
    static const chain_case cases[] = {
        {"nine rows", LN_DTYPE_BF16, .n_cached = 40, .n_rows = 9},
        {"no whole tiles", LN_DTYPE_BF16, .n_cached = 30, .n_rows = 33, .n_hidden = 1000,
         .norm = LN_NORM_LAYER, .has_bias = true},
        {"no gate", LN_DTYPE_BF16, .n_cached = 20, .n_rows = 20, .is_plain = true},
        {"parallel, many rows", LN_DTYPE_BF16, .n_cached = 50, .n_rows = 63, .placement = PARALLEL,
         .norm = LN_NORM_LAYER, .has_bias = true},
        {"two norms, many rows", LN_DTYPE_BF16, .n_rows = 17, .placement = PARALLEL_WITH_NORM},
        {"precise", LN_DTYPE_BF16, .n_cached = 10, .n_rows = 12, .is_precise = true},
        {"mixed, many rows", LN_DTYPE_BF16, LN_DTYPE_Q8_0, LN_DTYPE_BF16, .n_rows = 30},
        {"few columns", LN_DTYPE_BF16, .n_rows = 40, .dim = 512, .n_heads = 3, .kv_heads = 1,
         .n_hidden = 64},
        {"wide, many rows", LN_DTYPE_BF16, .n_cached = 5, .n_rows = 64, .dim = 4608,
         .n_hidden = 9216, .head_dim = 128, .n_heads = 24, .kv_heads = 4, .n_layers = 1,
         .n_steps = 2, .norm = LN_NORM_RMS_PLUS_ONE},
        {"many columns, part of the last unit", LN_DTYPE_BF16, .n_rows = 33, .n_hidden = 10000,
         .n_layers = 1},
        {"many columns, few rows", LN_DTYPE_BF16, .n_rows = 9, .n_hidden = 17000, .n_layers = 1},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void chains_of_row_scales_are_those_of_single_kernels(void **state) {
    (void)state;
    static const chain_case cases[] = {
        {"e4m3", LN_DTYPE_F8_E4M3, .n_cached = 40, .n_rows = 9},
        {"w8a8", LN_DTYPE_I8, .n_cached = 40, .n_rows = 18},
        {"e4m3, no whole tiles", LN_DTYPE_F8_E4M3, .n_cached = 30, .n_rows = 33, .n_hidden = 1056,
         .norm = LN_NORM_LAYER, .has_bias = true},
        {"w8a8, no whole tiles", LN_DTYPE_I8, .n_cached = 30, .n_rows = 31, .n_hidden = 1056,
         .norm = LN_NORM_LAYER, .has_bias = true},
        {"e4m3, no gate", LN_DTYPE_F8_E4M3, .n_cached = 20, .n_rows = 20, .is_plain = true},
        {"w8a8, no gate", LN_DTYPE_I8, .n_cached = 20, .n_rows = 64, .is_plain = true},
        {"e4m3, parallel", LN_DTYPE_F8_E4M3, .n_cached = 50, .n_rows = 63, .placement = PARALLEL,
         .norm = LN_NORM_LAYER, .has_bias = true},
        {"e4m3, precise", LN_DTYPE_F8_E4M3, .n_cached = 10, .n_rows = 12, .is_precise = true},
        {"w8a8, two norms", LN_DTYPE_I8, .n_rows = 17, .placement = PARALLEL_WITH_NORM},
        {"e4m3 behind w8a8", LN_DTYPE_I8, LN_DTYPE_F8_E4M3, LN_DTYPE_I8, .n_rows = 30},
        {"wide e4m3", LN_DTYPE_F8_E4M3, .n_cached = 5, .n_rows = 64, .dim = 4608, .n_hidden = 9216,
         .head_dim = 128, .n_heads = 24, .kv_heads = 4, .n_layers = 1, .n_steps = 2,
         .norm = LN_NORM_RMS_PLUS_ONE},
        {"wide w8a8", LN_DTYPE_I8, .n_cached = 5, .n_rows = 50, .dim = 4096, .n_hidden = 14336,
         .head_dim = 128, .n_heads = 32, .kv_heads = 8, .n_layers = 1, .n_steps = 2},
        {"e4m3, many columns", LN_DTYPE_F8_E4M3, .n_rows = 33, .n_hidden = 17024, .n_layers = 1},
        {"w8a8, many columns", LN_DTYPE_I8, .n_rows = 9, .n_hidden = 17024, .n_layers = 1},
        {"a row of e4m3", LN_DTYPE_F8_E4M3, .n_cached = 150},
        {"a row of w8a8", LN_DTYPE_I8, .n_cached = 150},
        {"two rows of e4m3", LN_DTYPE_F8_E4M3, .n_rows = 2, .n_cached = 20, .head_dim = 128,
         .n_heads = 4, .n_hidden = 1056, .norm = LN_NORM_LAYER, .has_bias = true},
        {"three rows of w8a8", LN_DTYPE_I8, .n_rows = 3, .n_cached = 20, .n_hidden = 1056,
         .norm = LN_NORM_LAYER, .has_bias = true},
        {"four rows of e4m3, parallel", LN_DTYPE_F8_E4M3, .n_rows = 4, .n_cached = 90,
         .placement = PARALLEL_WITH_NORM, .norm = LN_NORM_RMS_PLUS_ONE},
        {"four rows of w8a8, no gate", LN_DTYPE_I8, .n_rows = 4, .placement = PARALLEL,
         .is_plain = true, .norms_heads = true},
        {"a wide row of e4m3", LN_DTYPE_F8_E4M3, .n_cached = 180, .dim = 4096, .n_hidden = 14336,
         .head_dim = 128, .n_heads = 32, .kv_heads = 8, .n_layers = 2},
        {"a wide row of w8a8", LN_DTYPE_I8, .n_cached = 180, .dim = 4096, .n_hidden = 14336,
         .head_dim = 128, .n_heads = 32, .kv_heads = 8, .n_layers = 2},
        {"a row of e4m3, many columns", LN_DTYPE_F8_E4M3, .n_rows = 4, .n_hidden = 17024,
         .n_layers = 1},
        {"a row of e4m3, few columns", LN_DTYPE_F8_E4M3, .n_hidden = 256, .dim = 512},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void chains_mix_kinds_that_become_f16(void **state) {
    (void)state;
    static const chain_case cases[] = {
        {"q4_k_m", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, .n_cached = 150},
        {"q4_k_m, two rows", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K,
         .n_rows = 2, .n_cached = 20, .head_dim = 128, .n_heads = 4},
        {"q5_k, three rows", LN_DTYPE_Q5_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, .n_rows = 3,
         .norm = LN_NORM_LAYER, .has_bias = true},
        {"q6_k, four rows", LN_DTYPE_Q6_K, .n_rows = 4, .n_cached = 90,
         .norm = LN_NORM_RMS_PLUS_ONE},
        {"all of five bits", LN_DTYPE_Q5_1, LN_DTYPE_Q5_0, LN_DTYPE_Q4_1, LN_DTYPE_Q3_K,
         .n_rows = 4, .placement = PARALLEL, .norm = LN_NORM_LAYER, .is_plain = true},
        {"five rows of q4_k_m", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K,
         .n_rows = 5},
        {"mxfp4", LN_DTYPE_MXFP4, .n_cached = 33, .n_hidden = 800, .head_dim = 128},
        {"mxfp4 and q4_1", LN_DTYPE_Q4_1, LN_DTYPE_MXFP4, LN_DTYPE_Q5_0, LN_DTYPE_MXFP4,
         .n_rows = 3, .placement = PARALLEL_WITH_NORM, .norm = LN_NORM_LAYER, .has_bias = true},
        {"bytes", LN_DTYPE_F8_G32, LN_DTYPE_I8_G32, LN_DTYPE_Q6_K, LN_DTYPE_I8_G32, .n_cached = 75},
        {"rows of bytes", LN_DTYPE_I8_G32, LN_DTYPE_F8_G32, .n_rows = 4, .norms_heads = true},
        {"a part of a tile", LN_DTYPE_Q4_1, LN_DTYPE_Q5_1, .n_rows = 2, .n_hidden = 1056,
         .n_cached = 5},
        {"fewer columns than slices", LN_DTYPE_Q4_K, .n_heads = 4, .n_hidden = 256, .n_cached = 12,
         .down_dtype = LN_DTYPE_Q5_1, .v_dtype = LN_DTYPE_Q6_K},
        {"many columns", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, .n_rows = 2, .n_hidden = 16640,
         .n_layers = 1, .n_steps = 1},
        {"wide k quants", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K,
         .n_cached = 180, .dim = 4096, .n_hidden = 5120, .head_dim = 128, .n_heads = 32,
         .kv_heads = 8},
        {"many layers of k quants", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, .n_cached = 255,
         .n_layers = MAX_LAYERS, .dim = 768, .kv_heads = 1, .n_heads = 4},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* Layers whose feed-forward is a mixture of experts, the choice included. */
static void chains_of_experts_are_those_of_single_kernels(void **state) {
    (void)state;
    static const chain_case cases[] = {
        {"experts", LN_DTYPE_BF16, .n_cached = 40, .n_experts = 16, .n_used = 4,
         .router_dtype = LN_DTYPE_BF16},
        {"experts and a shared one", LN_DTYPE_BF16, .n_cached = 150, .n_experts = 24, .n_used = 8,
         .router_dtype = LN_DTYPE_F32, .has_shared = true, .head_dim = 128,
         .router = LN_ROUTER_SIGMOID},
        {"experts and a gated one", LN_DTYPE_BF16, .n_cached = 20, .n_experts = 24, .n_used = 8,
         .router_dtype = LN_DTYPE_BF16, .has_shared = true, .gates_shared = true,
         .norm = LN_NORM_RMS_PLUS_ONE, .n_expert_hidden = 512, .dim = 2048, .n_layers = 3},
        {"experts between attentions apart", LN_DTYPE_BF16, .n_cached = 20, .n_experts = 16,
         .n_used = 6, .router_dtype = LN_DTYPE_F16, .has_shared = true, .gates_shared = true,
         .has_bias = true, .head_dim = 256, .n_heads = 4, .n_layers = 3},
        {"precise experts", LN_DTYPE_BF16, .n_experts = 10, .n_used = 3, .is_precise = true,
         .router_dtype = LN_DTYPE_BF16, .dim = 2880, .norm = LN_NORM_LAYER, .has_bias = true},
        {"experts of q8_0", LN_DTYPE_Q8_0, .n_cached = 62, .n_experts = 16, .n_used = 4,
         .router_dtype = LN_DTYPE_F32, .has_shared = true},
        {"experts of q4_0", LN_DTYPE_Q4_0, .n_cached = 254, .n_experts = 16, .n_used = 4,
         .router_dtype = LN_DTYPE_F32, .head_dim = 128},
        {"experts of w8a8", LN_DTYPE_I8, .n_cached = 33, .n_experts = 12, .n_used = 5,
         .router_dtype = LN_DTYPE_BF16, .n_expert_hidden = 1056, .has_shared = true},
        {"experts of k quants", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K,
         .n_cached = 100, .n_experts = 16, .n_used = 8, .router_dtype = LN_DTYPE_F32,
         .head_dim = 128, .n_heads = 4},
        {"experts of mxfp4", LN_DTYPE_MXFP4, .n_experts = 9, .n_used = 4, .has_bias = true,
         .router_dtype = LN_DTYPE_BF16, .n_expert_hidden = 608},
        {"experts of k quants between attentions apart", LN_DTYPE_Q4_K, LN_DTYPE_Q6_K,
         .n_experts = 16, .n_used = 8, .router_dtype = LN_DTYPE_F32, .has_shared = true,
         .has_bias = true, .head_dim = 256, .n_heads = 2, .kv_heads = 1},
        {"one expert", LN_DTYPE_BF16, .n_experts = 4, .n_used = 1, .router_dtype = LN_DTYPE_BF16,
         .n_expert_hidden = 32},
        {"sixteen experts", LN_DTYPE_BF16, .n_experts = 24, .n_used = 16, .n_expert_hidden = 160,
         .router_dtype = LN_DTYPE_BF16},
        {"many experts", LN_DTYPE_BF16, .n_experts = MAX_EXPERTS, .n_used = 8,
         .n_expert_hidden = 64, .router_dtype = LN_DTYPE_BF16, .has_shared = true,
         .gates_shared = true},
        {"parallel experts", LN_DTYPE_BF16, .n_experts = 16, .n_used = 4, .placement = PARALLEL,
         .router_dtype = LN_DTYPE_BF16, .n_cached = 70},
        {"many layers of experts", LN_DTYPE_BF16, .n_cached = 255, .n_experts = 16, .n_used = 4,
         .router_dtype = LN_DTYPE_BF16, .n_layers = MAX_LAYERS, .kv_heads = 1, .n_heads = 4,
         .n_expert_hidden = 128},
        {"many layers of shared experts", LN_DTYPE_Q4_0, .n_experts = 8, .n_used = 2,
         .router_dtype = LN_DTYPE_F32, .n_layers = MAX_LAYERS, .has_shared = true, .n_hidden = 256,
         .n_expert_hidden = 128},
        {"experts of two rows", LN_DTYPE_BF16, .n_cached = 40, .n_experts = 16, .n_used = 4,
         .router_dtype = LN_DTYPE_BF16, .n_rows = 2, .has_shared = true},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void chains_with_adapters_are_those_of_single_kernels(void **state) {
    (void)state;
    static const chain_case cases[] = {
        {"nine rows, adapters", LN_DTYPE_BF16, .n_cached = 40, .n_rows = 9, .n_slots = 4,
         .n_hidden = 1536},
        {"17 rows, adapters", LN_DTYPE_BF16, .n_cached = 100, .n_rows = 17, .n_slots = 4,
         .dim = 1024, .n_hidden = 2048, .n_layers = 3},
        {"33 rows, adapters", LN_DTYPE_BF16, .n_cached = 10, .n_rows = 33, .n_slots = 3,
         .n_hidden = 2048},
        {"64 rows, adapters", LN_DTYPE_BF16, .n_cached = 5, .n_rows = 64, .n_slots = 5, .dim = 1024,
         .n_hidden = 1536, .head_dim = 128},
        {"one adapter of few ranks", LN_DTYPE_BF16, .n_rows = 20, .n_slots = 1, .rank = 3,
         .n_hidden = 1536},
        {"most rows of one adapter", LN_DTYPE_BF16, .n_cached = 20, .n_rows = 64, .n_slots = 4,
         .mostly_first = true, .dim = 1024, .n_hidden = 2048},
        {"adapters, no gate", LN_DTYPE_BF16, .n_rows = 24, .n_slots = 4, .is_plain = true,
         .norm = LN_NORM_LAYER, .n_hidden = 1536},
        {"adapters, parallel", LN_DTYPE_BF16, .n_rows = 40, .n_slots = 4, .placement = PARALLEL,
         .n_hidden = 1536},
        {"adapters, no whole tiles", LN_DTYPE_BF16, .n_rows = 33, .n_slots = 4, .n_hidden = 1000},
        {"adapters, half of 128", LN_DTYPE_BF16, .n_rows = 16, .n_slots = 4, .n_hidden = 1600},
        {"adapters, wide units", LN_DTYPE_BF16, .n_rows = 33, .n_slots = 16, .rank = 16,
         .dim = 1536, .n_hidden = 9216, .n_layers = 1},
        {"adapters, wide units, part of the last", LN_DTYPE_BF16, .n_rows = 20, .n_slots = 5,
         .dim = 640, .n_hidden = 10000, .n_layers = 1},
        {"one adapter, wide units", LN_DTYPE_BF16, .n_rows = 40, .n_slots = 1, .rank = 70,
         .n_hidden = 8704, .n_layers = 1},
        {"nine rows, adapters, wide units", LN_DTYPE_BF16, .n_rows = 9, .n_slots = 3, .dim = 1024,
         .n_hidden = 9216, .n_layers = 1},
        {"an adapter for each row", LN_DTYPE_BF16, .n_rows = 64, .n_slots = 64, .rank = 16,
         .n_hidden = 1536},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

const struct CMUnitTest chain_tests[] = {
    cmocka_unit_test(a_short_chain_is_that_of_single_kernels),
    cmocka_unit_test(chains_are_those_of_single_kernels),
    cmocka_unit_test(chains_mix_kinds_that_become_f16),
    cmocka_unit_test(chains_of_experts_are_those_of_single_kernels),
    cmocka_unit_test(chains_of_many_rows_are_those_of_single_kernels),
    cmocka_unit_test(chains_of_row_scales_are_those_of_single_kernels),
    cmocka_unit_test(chains_with_adapters_are_those_of_single_kernels),
};
const size_t n_chain_tests = sizeof chain_tests / sizeof *chain_tests;
