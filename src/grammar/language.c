#include "grammar/language.h"

#include <stdlib.h>
#include <string.h>

static const ln_dfa *empty_language(ln_grammar_builder *b) {
    ln_dfa *dfa = ln_arena_alloc(&b->arena, 1, sizeof *dfa);
    static const ln_dfa none = {.n_states = 1};
    if (dfa == NULL)
        return &none;
    *dfa = none;
    return dfa;
}

static const ln_dfa *give_up(ln_grammar_builder *b, ln_status status) {
    if (status == LINNET_ERR_NOMEM)
        ln_grammar_fail_memory(b);
    else
        ln_grammar_fail(b, status, "a pattern, or several that must hold together, are too large");
    return empty_language(b);
}

static const ln_dfa *determine(ln_grammar_builder *b, const ln_nfa *nfa, uint32_t from,
                               uint32_t to) {
    bool fits;
    ln_error err = {0};
    ln_dfa *dfa = ln_arena_alloc(&b->arena, 1, sizeof *dfa);
    if (dfa == NULL)
        return give_up(b, LINNET_ERR_NOMEM);
    ln_status status =
        ln_dfa_build(dfa, &b->arena, nfa, from, to, LN_DFA_MAX_STATES, &b->fuel, &fits, &err);
    if (status != LINNET_OK || !fits)
        return give_up(b, status != LINNET_OK ? status : LINNET_ERR_LIMIT);
    return dfa;
}

static ln_status refuse_rule(ln_nfa_adder *adder, const ln_expr *expr, uint32_t from, uint32_t to,
                             ln_error *err) {
    const ln_grammar_builder *b = adder->context;
    (void)from;
    (void)to;
    return ln_fail(err, LINNET_ERR_LIMIT, "%s is no part of a pattern",
                   expr->kind == LN_EXPR_RULE ? b->rules[expr->rule].name : "an object");
}

const ln_dfa *ln_language_of(ln_grammar_builder *b, const ln_expr *expr) {
    ln_nfa nfa;
    ln_error err = {0};
    uint32_t from = 0, to = 0;
    if (b->status != LINNET_OK)
        return empty_language(b);
    ln_nfa_init(&nfa, 1 << 17);
    ln_nfa_adder adder = {.nfa = &nfa, .on_rule = refuse_rule, .context = b};
    ln_status status = ln_nfa_add_state(&nfa, &from, &err);
    if (status == LINNET_OK)
        status = ln_nfa_add_state(&nfa, &to, &err);
    if (status == LINNET_OK)
        status = ln_nfa_add(&adder, expr, from, to, &err);
    const ln_dfa *dfa = status == LINNET_OK ? determine(b, &nfa, from, to) : give_up(b, status);
    ln_nfa_free(&nfa);
    return dfa;
}

/* ---- two at once ----------------------------------------------------------------------------- */

/* A product of automata that is being made: pairs of their states, or a state and a count. */
typedef struct product {
    ln_grammar_builder *builder;
    const ln_dfa *a, *b;
    bool is_minus;
    uint32_t min, max, n_counts; /* with a count instead of b */
    ln_nfa nfa;                  /* its state 0 is the end */
    uint32_t *states;            /* [n_a][n_b] of nfa; 0: not met yet */
    uint32_t *pairs;             /* [of nfa's states] */
    size_t n_b;
    ln_status status;
    ln_error err;
} product;

static uint32_t meet(product *p, uint32_t a, uint32_t b) {
    uint32_t *state = &p->states[a * p->n_b + b];
    if (*state == 0 && p->status == LINNET_OK) {
        p->status = ln_nfa_add_state(&p->nfa, state, &p->err);
        if (p->status == LINNET_OK)
            p->pairs[*state] = (uint32_t)(a * p->n_b + b);
    }
    return *state;
}

/* Where a pair goes along a byte; 0: nowhere. */
static uint32_t follow(product *p, uint32_t a, uint32_t b, uint8_t byte, bool *counts) {
    uint16_t next = ln_dfa_step(p->a, a, byte);
    uint32_t other;
    *counts = (next & LN_DFA_COUNTS) != 0;
    if (next == LN_DFA_DEAD)
        return 0;
    if (p->b == NULL) {
        other = b + *counts;
        if (other > p->max)
            return 0;
        if (other >= p->n_counts)
            other = p->n_counts - 1;
    } else {
        uint16_t along = p->b->n_states > 1 ? ln_dfa_step(p->b, b, byte) : 0;
        other = along & ~(unsigned)LN_DFA_COUNTS;
        *counts |= (along & LN_DFA_COUNTS) != 0;
        if (other == LN_DFA_DEAD && !p->is_minus)
            return 0;
    }
    return meet(p, next & ~(unsigned)LN_DFA_COUNTS, other);
}

static bool is_accepted(const product *p, uint32_t a, uint32_t b) {
    if (!p->a->accepts[a])
        return false;
    if (p->b == NULL)
        return b >= p->min;
    bool other = p->b->n_states > 1 && p->b->accepts[b];
    return other != p->is_minus;
}

static void expand_pair(product *p, uint32_t state) {
    uint32_t a = p->pairs[state] / (uint32_t)p->n_b, b = p->pairs[state] % (uint32_t)p->n_b;
    uint32_t from = 0, target = 0;
    bool counts = false;
    for (uint32_t byte = 0; byte <= 256 && p->status == LINNET_OK; byte++) {
        bool counts_here = false;
        uint32_t here = byte < 256 ? follow(p, a, b, (uint8_t)byte, &counts_here) : 0;
        if (byte > 0 && here == target && counts_here == counts && byte < 256)
            continue;
        if (byte > 0 && target != 0 && p->status == LINNET_OK)
            p->status = ln_nfa_add_edge(&p->nfa, state,
                                        (ln_nfa_edge){.kind = LN_EDGE_BYTES,
                                                      .target = target,
                                                      .low = (uint8_t)from,
                                                      .high = (uint8_t)(byte - 1),
                                                      .counts = counts},
                                        &p->err);
        from = byte;
        target = here;
        counts = counts_here;
    }
    if (p->status == LINNET_OK && is_accepted(p, a, b))
        p->status = ln_nfa_add_edge(&p->nfa, state, (ln_nfa_edge){.kind = LN_EDGE_EMPTY}, &p->err);
}

static const ln_dfa *make_product(product *p, size_t n_b) {
    enum { MAX_PAIRS = 1 << 22, MAX_STATES = 1 << 15 };
    ln_grammar_builder *b = p->builder;
    uint32_t end;
    if (b->status != LINNET_OK || p->a->n_states <= 1)
        return empty_language(b);
    if ((uint64_t)p->a->n_states * n_b > MAX_PAIRS)
        return give_up(b, LINNET_ERR_LIMIT);
    p->n_b = n_b;
    p->states = calloc(p->a->n_states * n_b, sizeof *p->states);
    p->pairs = calloc(MAX_STATES + 1, sizeof *p->pairs);
    ln_nfa_init(&p->nfa, MAX_STATES);
    p->status = p->states != NULL && p->pairs != NULL ? ln_nfa_add_state(&p->nfa, &end, &p->err)
                                                      : LINNET_ERR_NOMEM;
    uint32_t start = p->b == NULL ? 0 : p->b->n_states > 1 ? LN_DFA_START : LN_DFA_DEAD;
    if (p->status == LINNET_OK)
        meet(p, LN_DFA_START, start);
    for (uint32_t state = 1; p->status == LINNET_OK && state < p->nfa.n_states; state++)
        expand_pair(p, state);
    const ln_dfa *dfa = p->status == LINNET_OK ? determine(b, &p->nfa, 1, 0) : NULL;
    ln_status status = p->status;
    ln_nfa_free(&p->nfa);
    free(p->states);
    free(p->pairs);
    return dfa != NULL ? dfa : give_up(b, status);
}

const ln_dfa *ln_language_and(ln_grammar_builder *builder, const ln_dfa *a, const ln_dfa *b) {
    if (ln_language_is_empty(b))
        return b;
    product p = {.builder = builder, .a = a, .b = b};
    return make_product(&p, b->n_states);
}

const ln_dfa *ln_language_minus(ln_grammar_builder *builder, const ln_dfa *a, const ln_dfa *b) {
    product p = {.builder = builder, .a = a, .b = b, .is_minus = true};
    return ln_language_is_empty(b) ? a : make_product(&p, b->n_states);
}

const ln_dfa *ln_language_of_length(ln_grammar_builder *builder, const ln_dfa *a, uint32_t min,
                                    uint32_t max) {
    uint32_t most = max == LN_NO_LIMIT ? min : max;
    product p = {.builder = builder, .a = a, .min = min, .max = max, .n_counts = most + 1};
    if (most > 1 << 20)
        return give_up(builder, LINNET_ERR_LIMIT);
    return make_product(&p, p.n_counts);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool ln_language_is_empty(const ln_dfa *a) {
    return a->n_states <= 1;
}

bool ln_language_has(const ln_dfa *a, const char *bytes, size_t n_bytes) {
    uint32_t state = LN_DFA_START;
    if (ln_language_is_empty(a))
        return false;
    for (size_t i = 0; i < n_bytes && state != LN_DFA_DEAD; i++)
        state = ln_dfa_step(a, state, (uint8_t)bytes[i]) & ~(unsigned)LN_DFA_COUNTS;
    return state != LN_DFA_DEAD && a->accepts[state];
}

bool ln_language_is_stretchable(ln_grammar_builder *b, const ln_dfa *a) {
    /* bit n of a state: n more characters can end it; as far as 63, which stands for the rest */
    uint64_t *lengths = calloc(a->n_states + 1, sizeof *lengths);
    bool is_stretchable = lengths != NULL;
    if (lengths == NULL)
        ln_grammar_fail_memory(b);
    for (uint32_t state = 1; is_stretchable && state < a->n_states; state++)
        lengths[state] = a->accepts[state];
    for (bool changed = is_stretchable; changed;) {
        changed = false;
        for (uint32_t state = a->n_states; state-- > 1;) {
            uint64_t all = lengths[state];
            for (uint32_t c = 0; c < a->n_classes; c++) {
                uint16_t next = a->next[state * a->n_classes + c];
                uint64_t after = lengths[next & ~(unsigned)LN_DFA_COUNTS];
                all |= (next & LN_DFA_COUNTS) != 0 ? after << 1 | (after & 1ull << 63) : after;
            }
            changed |= all != lengths[state];
            lengths[state] = all;
        }
    }
    for (uint32_t state = 1; is_stretchable && state < a->n_states; state++) {
        uint64_t bits = lengths[state];
        if (bits != 0 && ~(bits | ((bits & -bits) - 1)) != 0)
            is_stretchable = false;
    }
    free(lengths);
    return is_stretchable;
}

/* ---- as an expression ------------------------------------------------------------------------ */

/* The transitions of a state, as ranges of bytes; to NULL they are counted only. */
static uint32_t list_edges(const ln_dfa *a, uint32_t state, ln_graph_edge *edges) {
    uint32_t n = 0;
    uint16_t last = LN_DFA_DEAD;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint16_t next = ln_dfa_step(a, state, (uint8_t)byte);
        if (next != LN_DFA_DEAD && next != last) {
            if (edges != NULL)
                edges[n] = (ln_graph_edge){
                    .from = state - 1,
                    .to = (uint32_t)(next & ~(unsigned)LN_DFA_COUNTS) - 1,
                    .low = (uint8_t)byte,
                    .counts = (next & LN_DFA_COUNTS) != 0,
                };
            n++;
        }
        if (next != LN_DFA_DEAD && edges != NULL)
            edges[n - 1].high = (uint8_t)byte;
        last = next;
    }
    return n;
}

ln_expr *ln_language_expr(ln_grammar_builder *b, const ln_dfa *a) {
    if (ln_language_is_empty(a) || b->status != LINNET_OK)
        return ln_expr_list(b, LN_EXPR_CHOICE);
    uint32_t n_edges = 0;
    for (uint32_t state = 1; state < a->n_states; state++)
        n_edges += list_edges(a, state, NULL);
    ln_graph *graph = ln_arena_alloc(&b->arena, 1, sizeof *graph);
    ln_graph_edge *edges = ln_arena_alloc(&b->arena, n_edges, sizeof *edges);
    if (graph == NULL || edges == NULL) {
        ln_grammar_fail_memory(b);
        return ln_expr_list(b, LN_EXPR_CHOICE);
    }
    *graph = (ln_graph){a->n_states - 1, n_edges, edges, a->accepts + 1};
    for (uint32_t state = 1, at = 0; state < a->n_states; state++)
        at += list_edges(a, state, edges + at);
    return ln_expr_graph(b, graph);
}
