/* Rules whose texts stand in a JSON string. */
#include <stdlib.h>
#include <string.h>

#include "grammar/json_rules.h"
#include "grammar/regex.h"

/* Puts what `made` is in the place of an expression. */
static void replace(ln_expr *expr, const ln_expr *made) {
    ln_expr *next = expr->next;
    *expr = *made;
    expr->next = next;
    expr->is_escaped = true;
}

/* An escape, which counts at its last byte: all begin alike, and so does that of a quotation mark.
 */
static ln_expr *escape_of(ln_grammar_builder *b, const char *escape, size_t n_bytes, bool counts) {
    ln_expr *last = ln_expr_bytes(b, escape + n_bytes - 1, 1);
    last->counts = counts;
    return ln_expr_sequence(b, ln_expr_bytes(b, escape, n_bytes - 1), last, NULL);
}

/* How many bytes stand in a JSON string as they are. */
static size_t count_plain(const char *bytes, size_t n_bytes) {
    size_t n = 0;
    char escape[LN_JSON_MAX_ESCAPE];
    while (n < n_bytes && ln_json_escape_char((unsigned char)bytes[n], escape) == 0)
        n++;
    return n;
}

static void escape_bytes(ln_grammar_builder *b, ln_expr *expr) {
    ln_expr *list = ln_expr_list(b, LN_EXPR_SEQUENCE);
    size_t n_bytes = expr->count;
    if (count_plain(expr->bytes, n_bytes) == n_bytes)
        return;
    for (size_t at = 0; at < n_bytes;) {
        char escape[LN_JSON_MAX_ESCAPE];
        bool counts = expr->counts && at == 0;
        size_t n = count_plain(expr->bytes + at, n_bytes - at);
        if (n > 0) {
            ln_expr *plain = ln_expr_bytes(b, expr->bytes + at, n);
            plain->counts = counts;
            ln_expr_add(b, list, plain);
            at += n;
        } else {
            n = ln_json_escape_char((unsigned char)expr->bytes[at++], escape);
            ln_expr_add(b, list, escape_of(b, escape, n, counts));
        }
    }
    if (b->status == LINNET_OK)
        replace(expr, list);
}

static void escape_chars(ln_grammar_builder *b, ln_expr *expr) {
    ln_expr *made = ln_json_chars(b, expr->ranges, expr->count, false);
    for (ln_expr *part = made->first; part != NULL && b->status == LINNET_OK; part = part->next) {
        if (part->kind == LN_EXPR_BYTES)
            replace(part, escape_of(b, part->bytes, part->count, expr->counts));
        else
            part->counts = expr->counts;
    }
    if (b->status == LINNET_OK)
        replace(expr, made);
}

/* An automaton's edges anew: those of bytes that are escaped become paths. */
typedef struct graph_maker {
    ln_grammar_builder *builder;
    ln_graph_edge *edges; /* [n_edges] of [capacity], the arena's */
    uint32_t n_edges, capacity, n_states;
} graph_maker;

static void add_edge(graph_maker *g, uint32_t from, uint32_t to, unsigned low, unsigned high,
                     bool counts) {
    if (g->n_edges < g->capacity)
        g->edges[g->n_edges++] = (ln_graph_edge){from, to, (uint8_t)low, (uint8_t)high, counts};
}

/* The bytes of an edge: as they are, or, one by one, escaped. Without edges it only counts. */
static void add_escaped(graph_maker *g, const ln_graph_edge *edge, uint32_t *n_edges) {
    char escape[LN_JSON_MAX_ESCAPE];
    for (unsigned low = edge->low; low <= edge->high; low++) {
        size_t n = ln_json_escape_char(low, escape);
        unsigned high = low;
        if (n == 0) {
            while (high < edge->high && ln_json_escape_char(high + 1, escape) == 0)
                high++;
            add_edge(g, edge->from, edge->to, low, high, edge->counts);
            *n_edges += 1;
            low = high;
            continue;
        }
        uint32_t from = edge->from;
        for (size_t i = 0; i < n; i++) {
            uint32_t to = i + 1 < n ? g->n_states++ : edge->to;
            unsigned byte = (unsigned char)escape[i];
            add_edge(g, from, to, byte, byte, edge->counts && i + 1 == n);
            from = to;
        }
        *n_edges += (uint32_t)n;
    }
}

static void escape_graph(ln_grammar_builder *b, ln_expr *expr) {
    const ln_graph *graph = expr->graph;
    graph_maker g = {.builder = b, .n_states = graph->n_states};
    uint32_t n_edges = 0;
    for (uint32_t i = 0; i < graph->n_edges; i++)
        add_escaped(&g, &graph->edges[i], &n_edges);
    if (g.n_states > LN_GRAMMAR_MAX_STATES || n_edges > LN_GRAMMAR_MAX_EXPRS) {
        ln_grammar_fail(b, LINNET_ERR_LIMIT, "a grammar is too large to stand in a JSON string");
        return;
    }
    ln_graph *made = ln_arena_alloc(&b->arena, 1, sizeof *made);
    bool *accepts = ln_arena_alloc(&b->arena, g.n_states, sizeof *accepts);
    g.edges = ln_arena_alloc(&b->arena, n_edges > 0 ? n_edges : 1, sizeof *g.edges);
    if (made == NULL || accepts == NULL || g.edges == NULL) {
        ln_grammar_fail_memory(b);
        return;
    }
    memset(accepts, 0, g.n_states * sizeof *accepts);
    memcpy(accepts, graph->accepts, graph->n_states * sizeof *accepts);
    g.capacity = n_edges;
    g.n_states = graph->n_states;
    for (uint32_t i = 0; i < graph->n_edges; i++)
        add_escaped(&g, &graph->edges[i], &n_edges);
    *made = (ln_graph){g.n_states, g.n_edges, g.edges, accepts};
    expr->graph = made;
}

/* Rules may share an expression, which is escaped once. */
static void escape_expr(ln_grammar_builder *b, ln_expr *expr) {
    bool is_done = expr->is_escaped;
    expr->is_escaped = true;
    switch (b->status == LINNET_OK && !is_done ? expr->kind : LN_EXPR_EMPTY) {
    case LN_EXPR_BYTES: escape_bytes(b, expr); return;
    case LN_EXPR_CHARS: escape_chars(b, expr); return;
    case LN_EXPR_GRAPH: escape_graph(b, expr); return;
    case LN_EXPR_SEQUENCE:
    case LN_EXPR_CHOICE:
    case LN_EXPR_REPEAT:
        for (ln_expr *part = expr->first; part != NULL; part = part->next)
            escape_expr(b, part);
        return;
    default: return; /* rules are escaped themselves; the rest has no bytes */
    }
}

void ln_json_escape_rules(ln_grammar_builder *builder, size_t first) {
    for (size_t i = first; i < builder->n_rules && builder->status == LINNET_OK; i++)
        if (builder->rules[i].body != NULL)
            escape_expr(builder, builder->rules[i].body);
}
