#include "backend/values.h"

#include "base/error.h"

/* ---- what operations name -------------------------------------------------------------------- */

/* The pointers behind ln_op.in or ln_op.out; NULL: absent. */
typedef struct places {
    const void *at[LN_OP_MAX_IN];
} places;

/* Whether columns that others wrote lie between those that the linear writes. */
static bool has_gaps(const ln_op_linear *p) {
    return p->out_stride > p->weight->n_rows;
}

/* Every kind stands here and below, so that the compiler asks for those to come. Caches are not
 * among these. */
static places inputs_of(const ln_op *op) {
    switch (op->kind) {
    case LN_OP_NORM: {
        const ln_op_norm *p = &op->norm;
        return (places){{p->x, p->residual, NULL, NULL, p->out_stride > 0 ? p->out : NULL}};
    }
    case LN_OP_LINEAR: {
        const ln_op_linear *p = &op->linear;
        return (places){{p->x, p->residual, p->groups.order, p->groups.starts,
                         has_gaps(p) ? p->out : NULL, p->low, p->gate_low}};
    }
    case LN_OP_LORA_SHRINK:
        return (places){
            {op->lora_shrink.x, op->lora_shrink.groups.order, op->lora_shrink.groups.starts}};
    case LN_OP_QKV: return (places){{op->qkv.q, op->qkv.k, op->qkv.v}};
    case LN_OP_LATENT: return (places){{op->latent.q, op->latent.latent}};
    case LN_OP_COMPRESS: break;
    case LN_OP_INDEX: return (places){{op->index.q, NULL, op->index.weights}};
    case LN_OP_ATTENTION: {
        const ln_op_attention *p = &op->attention;
        return (places){{p->q, NULL, p->indices, NULL, p->relative_logits.queries,
                         p->own_sinks ? p->sinks : NULL}};
    }
    case LN_OP_ROUTE: return (places){{op->route.logits}};
    case LN_OP_GROUP: return (places){{op->group.experts}};
    case LN_OP_COMBINE: {
        const ln_op_combine *p = &op->combine;
        return (places){{p->x, p->weights, p->shared, p->shared_gate, p->residual, p->experts}};
    }
    case LN_OP_POINTWISE: {
        const ln_op_pointwise *p = &op->pointwise;
        return (places){{p->x, p->one_gate ? NULL : p->gate}};
    }
    case LN_OP_ROWWISE: {
        const ln_op_rowwise *p = &op->rowwise;
        return (places){{p->x, p->y, p->coefs, p->streams}};
    }
    case LN_OP_CONV: return (places){{op->conv.x, op->conv.dynamic}};
    case LN_OP_SCAN: {
        const ln_op_scan *p = &op->scan;
        if (p->decay == LN_DECAY_SELECTIVE || p->decay == LN_DECAY_LRU)
            return (places){{p->v, p->q, p->k, p->a}};
        const float *x = p->q < p->k ? p->q : p->k; /* all three lie in the same rows */
        return (places){{x < p->v ? x : p->v, NULL, NULL, p->a, p->b}};
    }
    case LN_OP_GATED_NORM: return (places){{op->gated_norm.x, op->gated_norm.gate}};
    case LN_OP_GATHER: return (places){{op->gather.x}};
    case LN_OP_SAMPLE: return (places){{op->sample.logits}};
    case LN_OP_ALL_REDUCE: return (places){{op->all_reduce.x, op->all_reduce.residual}};
    case LN_OP_RANK_GATHER: return (places){{op->rank_gather.x}};
    case LN_OP_RANK_PASS: return (places){{op->rank_pass.sends ? op->rank_pass.x : NULL}};
    case LN_OP_EMBED: return (places){{op->embed.before}};
    case LN_OP_COPY:
    case LN_OP_COUNT: break;
    }
    return (places){{NULL}};
}

static places outputs_of(const ln_op *op) {
    switch (op->kind) {
    case LN_OP_EMBED: return (places){{op->embed.out}};
    case LN_OP_NORM: return (places){{op->norm.out}};
    case LN_OP_LINEAR: return (places){{op->linear.out}};
    case LN_OP_LORA_SHRINK: {
        float *const *low = op->lora_shrink.low;
        return (places){{low[0], low[1], low[2], low[3]}};
    }
    case LN_OP_QKV: return (places){{op->qkv.q, op->qkv.k}};
    case LN_OP_LATENT: return (places){{op->latent.out}};
    case LN_OP_INDEX: return (places){{op->index.positions}};
    case LN_OP_ATTENTION: return (places){{op->attention.out}};
    case LN_OP_ROUTE: {
        const ln_op_route *p = &op->route;
        return (places){{p->experts, p->weights, p->n_shared > 0 ? p->shared_weights : NULL}};
    }
    case LN_OP_GROUP: return (places){{op->group.order, op->group.starts}};
    case LN_OP_COMBINE: return (places){{op->combine.out}};
    case LN_OP_POINTWISE: return (places){{op->pointwise.out}};
    case LN_OP_ROWWISE: {
        const ln_op_rowwise *p = &op->rowwise;
        return (places){{p->out, p->function == LN_ROWWISE_STREAM_ATTENTION ? NULL : p->streams}};
    }
    case LN_OP_CONV: return (places){{op->conv.out}};
    case LN_OP_SCAN: return (places){{op->scan.out}};
    case LN_OP_GATED_NORM: return (places){{op->gated_norm.out}};
    case LN_OP_GATHER: return (places){{op->gather.out}};
    case LN_OP_ALL_REDUCE: return (places){{op->all_reduce.out}};
    case LN_OP_RANK_GATHER: return (places){{op->rank_gather.out}};
    case LN_OP_RANK_PASS: return (places){{op->rank_pass.sends ? NULL : op->rank_pass.x}};
    case LN_OP_SAMPLE: {
        const ln_op_sample *p = &op->sample;
        return (places){{p->logits, p->ids, p->best, p->reports}};
    }
    case LN_OP_COMPRESS:
    case LN_OP_COPY:
    case LN_OP_COUNT: break;
    }
    return (places){{NULL}};
}

/* ---- numbering ------------------------------------------------------------------------------- */

enum { N_SLOTS = 256 }; /* more than LN_MAX_PLACES, so that some stay free */

/* The newest value of every place, found by its address. */
typedef struct numbering {
    struct {
        const void *at; /* NULL: free */
        ln_value value;
    } slots[N_SLOTS];
    size_t n_places;
    const ln_op *ops;         /* the list */
    const ln_kv_layer *cache; /* that was written last */
    ln_value cache_value;
    ln_value last; /* id that was given */
} numbering;

/* The place's newest value, 0 when it has none yet. */
static ln_value *find(numbering *n, const void *at) {
    size_t i = (size_t)((uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15) >> 56) % N_SLOTS;
    while (n->slots[i].at != at && n->slots[i].at != NULL)
        i = (i + 1) % N_SLOTS;
    if (n->slots[i].at == NULL) {
        LN_BUG_ON(++n->n_places > LN_MAX_PLACES);
        n->slots[i].at = at;
    }
    return &n->slots[i].value;
}

static ln_value newest(numbering *n, const void *at) {
    ln_value *value = find(n, at);
    if (*value == 0)
        *value = ++n->last;
    return *value;
}

static const ln_kv_layer *written_cache(const ln_op *op) {
    if (op->kind == LN_OP_QKV && op->qkv.k != NULL)
        return op->qkv.kv;
    if (op->kind == LN_OP_COMPRESS)
        return op->compress.entries;
    return op->kind == LN_OP_LATENT ? op->latent.kv : NULL;
}

/* What the list has written to the cache that an attention reads, or 0: most often it was written
 * last; else the layer has the cache of an earlier one. */
static ln_value cache_value(const numbering *n, const ln_kv_layer *cache, const ln_op *op) {
    if (cache == n->cache)
        return n->cache_value;
    for (const ln_op *before = op; before > n->ops;)
        if (written_cache(--before) == cache)
            return before->out[LN_OUT_CACHE];
    return 0;
}

static const ln_kv_layer *read_cache(const ln_op *op) {
    return op->kind == LN_OP_ATTENTION  ? op->attention.kv
           : op->kind == LN_OP_INDEX    ? op->index.kv
           : op->kind == LN_OP_COMPRESS ? op->compress.rows
                                        : NULL;
}

static void number(numbering *n, ln_op *op) {
    places in = inputs_of(op), out = outputs_of(op);
    for (size_t i = 0; i < LN_OP_MAX_IN; i++)
        op->in[i] = in.at[i] != NULL ? newest(n, in.at[i]) : 0;
    if (read_cache(op) != NULL)
        op->in[LN_IN_CACHE] = cache_value(n, read_cache(op), op);
    if (op->kind == LN_OP_ATTENTION && op->attention.entries != NULL)
        op->in[LN_IN_ENTRIES] = cache_value(n, op->attention.entries, op);
    for (size_t i = 0; i < LN_OP_MAX_OUT; i++)
        op->out[i] = out.at[i] != NULL ? *find(n, out.at[i]) = ++n->last : 0;
    if (written_cache(op) != NULL) {
        n->cache = written_cache(op);
        op->out[LN_OUT_CACHE] = n->cache_value = ++n->last;
    }
}

void ln_values_number(ln_op *ops, size_t n_ops) {
    numbering n = {.ops = ops};
    for (size_t i = 0; i < n_ops; i++)
        number(&n, &ops[i]);
}

/* ---- uses ------------------------------------------------------------------------------------ */

size_t ln_values_count(const ln_op *ops, size_t n_ops) {
    ln_value greatest = 0;
    for (size_t i = 0; i < n_ops; i++) {
        for (size_t k = 0; k < LN_OP_MAX_IN; k++)
            greatest = ops[i].in[k] > greatest ? ops[i].in[k] : greatest;
        for (size_t k = 0; k < LN_OP_MAX_OUT; k++)
            greatest = ops[i].out[k] > greatest ? ops[i].out[k] : greatest;
    }
    return (size_t)greatest + 1;
}

void ln_values_find_uses(const ln_op *ops, size_t n_ops, ln_value_uses *uses, size_t n_values) {
    for (size_t i = 0; i < n_values; i++)
        uses[i] = (ln_value_uses){.producer = LN_NO_OP, .first_reader = LN_NO_OP};
    for (size_t i = 0; i < n_ops; i++) {
        for (size_t k = 0; k < LN_OP_MAX_IN; k++) {
            ln_value_uses *use = &uses[ops[i].in[k]];
            if (ops[i].in[k] == 0)
                continue;
            if (use->n_reads++ == 0)
                use->first_reader = (uint32_t)i;
            use->last_reader = (uint32_t)i;
        }
        for (size_t k = 0; k < LN_OP_MAX_OUT; k++)
            if (ops[i].out[k] != 0)
                uses[ops[i].out[k]].producer = (uint32_t)i;
    }
    for (size_t i = 0; i < n_ops; i++) {
        for (size_t k = 0; k < LN_OP_MAX_OUT; k++) {
            if ((ops[i].kept >> k & 1) == 0)
                continue;
            uses[ops[i].out[k]].n_reads++;
            uses[ops[i].out[k]].last_reader = LN_NO_OP;
        }
    }
}

void ln_values_keep(ln_op *ops, size_t begin, size_t end, const ln_value_uses *uses) {
    for (size_t i = begin; i < end; i++)
        for (size_t k = 0; k < LN_OP_MAX_OUT; k++) {
            const ln_value_uses *use = &uses[ops[i].out[k]];
            if (ops[i].out[k] != 0 && use->n_reads > 0 && use->last_reader >= end)
                ops[i].kept |= 1u << k;
        }
}
