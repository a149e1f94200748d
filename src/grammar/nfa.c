#include "grammar/nfa.h"

#include <stdlib.h>

#include "base/grow.h"
#include "base/utf8.h"

void ln_nfa_init(ln_nfa *nfa, size_t max_states) {
    *nfa = (ln_nfa){.max_states = max_states};
}

void ln_nfa_free(ln_nfa *nfa) {
    free(nfa->first);
    free(nfa->edges);
    *nfa = (ln_nfa){0};
}

ln_status ln_nfa_add_state(ln_nfa *nfa, uint32_t *state, ln_error *err) {
    if (nfa->n_states >= nfa->max_states)
        return ln_fail(err, LINNET_ERR_LIMIT, "the grammar needs more than %zu states",
                       nfa->max_states);
    if (!ln_grow((void **)&nfa->first, &nfa->state_capacity, nfa->n_states + 1, sizeof *nfa->first))
        return ln_fail_memory(err, "a grammar");
    nfa->first[nfa->n_states] = 0;
    *state = (uint32_t)nfa->n_states++;
    return LINNET_OK;
}

ln_status ln_nfa_add_edge(ln_nfa *nfa, uint32_t from, ln_nfa_edge edge, ln_error *err) {
    if (nfa->n_edges >= 4 * nfa->max_states)
        return ln_fail(err, LINNET_ERR_LIMIT, "the grammar needs more than %zu transitions",
                       4 * nfa->max_states);
    if (!ln_grow((void **)&nfa->edges, &nfa->edge_capacity, nfa->n_edges + 2, sizeof edge))
        return ln_fail_memory(err, "a grammar");
    if (nfa->n_edges == 0)
        nfa->edges[nfa->n_edges++] = (ln_nfa_edge){0};
    edge.next = nfa->first[from];
    nfa->edges[nfa->n_edges] = edge;
    nfa->first[from] = (uint32_t)nfa->n_edges++;
    return LINNET_OK;
}

static ln_status add_empty(ln_nfa *nfa, uint32_t from, uint32_t to, ln_error *err) {
    return ln_nfa_add_edge(nfa, from, (ln_nfa_edge){.kind = LN_EDGE_EMPTY, .target = to}, err);
}

/* A chain of n byte ranges. */
static ln_status add_chain(ln_nfa *nfa, const uint8_t *low, const uint8_t *high, size_t n,
                           bool counts, uint32_t from, uint32_t to, ln_error *err) {
    for (size_t i = 0; i < n; i++) {
        uint32_t next = to;
        if (i + 1 < n)
            LN_TRY(ln_nfa_add_state(nfa, &next, err));
        ln_nfa_edge edge = {.kind = LN_EDGE_BYTES,
                            .target = next,
                            .low = low[i],
                            .high = high[i],
                            .counts = counts && i == 0};
        LN_TRY(ln_nfa_add_edge(nfa, from, edge, err));
        from = next;
    }
    return LINNET_OK;
}

/* Code points of one length in UTF-8. Ranges that are not all of the last bytes
 * are cut into such that are (as in "A regular expression for UTF-8",
 * Thompson's method in RE2). */
static ln_status add_range(ln_nfa *nfa, uint32_t low, uint32_t high, bool counts, uint32_t from,
                           uint32_t to, ln_error *err) {
    static const uint32_t last_of_length[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};
    while (low <= high) {
        uint32_t end = high;
        for (size_t i = 0; i < 4; i++)
            if (low <= last_of_length[i] && end > last_of_length[i])
                end = last_of_length[i];
        for (unsigned shift = 6; low > 0x7f && shift <= 18; shift += 6) {
            uint32_t mask = (1u << shift) - 1;
            if ((low & ~mask) == (end & ~mask))
                break;
            if ((low & mask) != 0) {
                end = low | mask;
                break;
            }
            if ((end & mask) != mask)
                end = (end & ~mask) - 1;
        }
        char first[4], last[4];
        size_t n = ln_utf8_encode(low, first);
        ln_utf8_encode(end, last);
        LN_TRY(add_chain(nfa, (const uint8_t *)first, (const uint8_t *)last, n, counts, from, to,
                         err));
        low = end + 1;
    }
    return LINNET_OK;
}

static ln_status add_repeat(ln_nfa_adder *adder, const ln_expr *expr, uint32_t from, uint32_t to,
                            ln_error *err) {
    ln_nfa *nfa = adder->nfa;
    if (expr->first->kind == LN_EXPR_EMPTY)
        return add_empty(nfa, from, to, err);
    uint32_t at = from;
    for (uint32_t i = 0; i < expr->min; i++) {
        uint32_t next;
        LN_TRY(ln_nfa_add_state(nfa, &next, err));
        LN_TRY(ln_nfa_add(adder, expr->first, at, next, err));
        at = next;
    }
    if (expr->max == LN_NO_LIMIT) {
        uint32_t loop;
        LN_TRY(ln_nfa_add_state(nfa, &loop, err));
        LN_TRY(add_empty(nfa, at, loop, err));
        LN_TRY(ln_nfa_add(adder, expr->first, loop, loop, err));
        return add_empty(nfa, loop, to, err);
    }
    for (uint32_t i = expr->min; i < expr->max; i++) {
        uint32_t next;
        LN_TRY(ln_nfa_add_state(nfa, &next, err));
        LN_TRY(add_empty(nfa, at, to, err));
        LN_TRY(ln_nfa_add(adder, expr->first, at, next, err));
        at = next;
    }
    return add_empty(nfa, at, to, err);
}

static ln_status add_graph(ln_nfa *nfa, const ln_graph *graph, uint32_t from, uint32_t to,
                           ln_error *err) {
    uint32_t first = (uint32_t)nfa->n_states, state;
    for (uint32_t i = 0; i < graph->n_states; i++) {
        LN_TRY(ln_nfa_add_state(nfa, &state, err));
        if (graph->accepts[i])
            LN_TRY(add_empty(nfa, state, to, err));
    }
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        const ln_graph_edge *e = &graph->edges[i];
        ln_nfa_edge edge = {.kind = LN_EDGE_BYTES,
                            .target = first + e->to,
                            .low = e->low,
                            .high = e->high,
                            .counts = e->counts};
        LN_TRY(ln_nfa_add_edge(nfa, first + e->from, edge, err));
    }
    return graph->n_states > 0 ? add_empty(nfa, from, first, err) : LINNET_OK;
}

ln_status ln_nfa_add(ln_nfa_adder *adder, const ln_expr *expr, uint32_t from, uint32_t to,
                     ln_error *err) {
    ln_nfa *nfa = adder->nfa;
    bool taken = false;
    if (adder->on_part != NULL && expr->kind != LN_EXPR_RULE)
        LN_TRY(adder->on_part(adder, expr, from, to, &taken, err));
    if (taken)
        return LINNET_OK;
    switch (expr->kind) {
    case LN_EXPR_EMPTY: return add_empty(nfa, from, to, err);
    case LN_EXPR_BYTES: {
        const uint8_t *bytes = (const uint8_t *)expr->bytes;
        return add_chain(nfa, bytes, bytes, expr->count, expr->counts, from, to, err);
    }
    case LN_EXPR_CHARS:
        for (uint32_t i = 0; i < expr->count; i++)
            LN_TRY(add_range(nfa, expr->ranges[i].low, expr->ranges[i].high, expr->counts, from, to,
                             err));
        return LINNET_OK;
    case LN_EXPR_SEQUENCE:
        if (expr->first == NULL)
            return add_empty(nfa, from, to, err);
        for (const ln_expr *part = expr->first; part != NULL; part = part->next) {
            uint32_t next = to;
            if (part->next != NULL)
                LN_TRY(ln_nfa_add_state(nfa, &next, err));
            LN_TRY(ln_nfa_add(adder, part, from, next, err));
            from = next;
        }
        return LINNET_OK;
    case LN_EXPR_CHOICE:
        for (const ln_expr *part = expr->first; part != NULL; part = part->next)
            LN_TRY(ln_nfa_add(adder, part, from, to, err));
        return LINNET_OK;
    case LN_EXPR_REPEAT: return add_repeat(adder, expr, from, to, err);
    case LN_EXPR_GRAPH: return add_graph(nfa, expr->graph, from, to, err);
    case LN_EXPR_RULE:
    case LN_EXPR_GUARD:
    default: return adder->on_rule(adder, expr, from, to, err);
    }
}
