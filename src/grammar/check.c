/* What makes a compiled grammar unusable: parts that can never end are taken
 * out, so that whatever begins can be finished; rules that call themselves
 * before they match anything are refused. */
#include <stdlib.h>
#include <string.h>

#include "grammar/program.h"

typedef struct checker {
    ln_program *program;
    const ln_grammar_builder *builder;
    uint32_t *owner;   /* [n_states] the rule that a state belongs to */
    bool *reached;     /* [n_states] */
    uint32_t *waiting; /* [n_edges] the next call that waits for the same rule, 0:
                          none */
    uint32_t *waiters; /* [n_rules] the first such call */
    bool *done;        /* [n_rules] its end was reached */
    uint32_t *work;    /* [n_states] */
    size_t n_work;
} checker;

static bool is_terminal_empty(const ln_program *program, const ln_nfa_edge *edge) {
    return program->dfas[program->terminals[edge->value].dfa].n_states <= 1;
}

/* Whether a terminal may match nothing at all. */
static bool is_terminal_nullable(const ln_program *program, const ln_nfa_edge *edge) {
    const ln_terminal *terminal = &program->terminals[edge->value];
    const ln_dfa *dfa = &program->dfas[terminal->dfa];
    return dfa->n_states > 1 && dfa->accepts[LN_DFA_START] && terminal->min == 0;
}

/* ---- objects ----------------------------------------------------------------------------------
 */

static bool has(const uint64_t *bits, uint32_t i) {
    return (bits[i / 64] >> i % 64 & 1) != 0;
}

/* Whether an object can be finished with the rules whose ends are reached so far; if not, *rule is
 * one that it waits for, or UINT32_MAX: no one helps. */
static bool can_finish(const checker *c, const ln_object *o, uint32_t *rule) {
    uint32_t n_required = 0, n_done = 0, optional = UINT32_MAX;
    *rule = UINT32_MAX;
    for (uint32_t i = 0; i < o->n_named; i++) {
        bool is_required = has(o->required, i), is_done = c->done[o->rules[i]];
        n_required += is_required;
        n_done += is_done;
        if (!is_done && is_required)
            *rule = o->rules[i];
        else if (!is_done)
            optional = o->rules[i];
    }
    if (n_required > o->max)
        return false;
    if (o->has_other && c->done[o->other])
        n_done++;
    else if (o->has_other)
        optional = o->other;
    if (*rule != UINT32_MAX)
        return false;
    if (n_done < o->min)
        *rule = optional;
    return n_done >= o->min;
}

static bool can_pass_guard(const checker *c, const ln_nfa_edge *edge, uint32_t *rule) {
    const ln_guard *guard = &c->program->guards[edge->value];
    *rule = UINT32_MAX;
    return guard->kind != LN_GUARD_DONE || can_finish(c, &c->program->objects[guard->object], rule);
}

/* Members without a possible value never come. */
static void find_usable(checker *c) {
    for (size_t i = 0; i < c->program->n_objects; i++) {
        ln_object *o = &c->program->objects[i];
        for (uint32_t j = 0; j < o->n_named; j++)
            if (c->done[o->rules[j]])
                o->usable[j / 64] |= 1ull << j % 64;
        o->has_other = o->has_other && c->done[o->other];
    }
}

/* ---- what ends ---------------------------------------------------------------------------------
 */

static void reach(checker *c, uint32_t state) {
    if (c->reached[state])
        return;
    c->reached[state] = true;
    c->work[c->n_work++] = state;
}

/* Follows an edge of a reached state; `matching`: also over what matches bytes.
 * A call is followed once its rule's end was reached; until then the state
 * waits. */
static void follow(checker *c, const ln_nfa_edge *edge, bool matching) {
    switch ((ln_edge_kind)edge->kind) {
    case LN_EDGE_EMPTY: reach(c, edge->target); break;
    case LN_EDGE_BYTES:
        if (matching)
            reach(c, edge->target);
        break;
    case LN_EDGE_TERMINAL:
        if (matching ? !is_terminal_empty(c->program, edge)
                     : is_terminal_nullable(c->program, edge))
            reach(c, edge->target);
        break;
    case LN_EDGE_GUARD: break; /* see wait */
    case LN_EDGE_CALL:
    default:
        if (c->done[edge->value])
            reach(c, edge->target);
        break;
    }
}

/* Puts an edge that cannot be followed yet behind others that wait for the same rule. An object
 * begins with a byte, so no guard is met before one. */
static void wait(checker *c, uint32_t e, bool matching) {
    const ln_nfa_edge *edge = &c->program->nfa.edges[e];
    uint32_t rule = UINT32_MAX;
    if (edge->kind == LN_EDGE_GUARD && matching && can_pass_guard(c, edge, &rule))
        reach(c, edge->target);
    else if (edge->kind == LN_EDGE_CALL && !c->done[edge->value])
        rule = edge->value;
    if (rule == UINT32_MAX)
        return;
    c->waiting[e] = c->waiters[rule];
    c->waiters[rule] = e;
}

/* Finds the rules whose ends can be reached from their starts. Each state is
 * looked at once, and once more for each rule that it waited for. */
static void find_done(checker *c, bool matching) {
    const ln_nfa *nfa = &c->program->nfa;
    size_t n_rules = c->builder->n_rules;
    memset(c->reached, 0, nfa->n_states * sizeof *c->reached);
    memset(c->done, 0, n_rules * sizeof *c->done);
    memset(c->waiters, 0, n_rules * sizeof *c->waiters);
    memset(c->waiting, 0, nfa->n_edges * sizeof *c->waiting);
    c->n_work = 0;
    for (size_t i = 0; i < n_rules; i++)
        reach(c, c->program->starts[i]);
    for (size_t at = 0; at < c->n_work; at++) {
        uint32_t state = c->work[at];
        for (uint32_t e = nfa->first[state]; e != 0; e = nfa->edges[e].next) {
            const ln_nfa_edge *edge = &nfa->edges[e];
            follow(c, edge, matching);
            wait(c, e, matching);
        }
        uint32_t rule = c->owner[state];
        if (!c->program->is_end[state] || c->done[rule])
            continue;
        c->done[rule] = true;
        for (uint32_t e = c->waiters[rule], next; e != 0; e = next) {
            next = c->waiting[e];
            if (nfa->edges[e].kind == LN_EDGE_GUARD)
                wait(c, e, matching);
            else
                reach(c, nfa->edges[e].target);
        }
    }
}

/* States are numbered rule by rule. */
static void find_owners(checker *c) {
    const ln_program *program = c->program;
    size_t n_rules = c->builder->n_rules;
    for (uint32_t i = 0; i < n_rules; i++) {
        size_t end = i + 1 < n_rules ? program->starts[i + 1] : program->nfa.n_states;
        for (size_t state = program->starts[i]; state < end; state++)
            c->owner[state] = i;
    }
}

/* ---- what never ends ------------------------------------------------------------------------- */

static bool can_pass(const checker *c, const ln_nfa_edge *edge) {
    uint32_t rule;
    if (edge->kind == LN_EDGE_CALL)
        return c->done[edge->value];
    if (edge->kind == LN_EDGE_GUARD)
        return can_pass_guard(c, edge, &rule);
    return edge->kind != LN_EDGE_TERMINAL || !is_terminal_empty(c->program, edge);
}

/* Unlinks edges that cannot be passed, or lead to where no end is reached.
 * `sources` and `incoming` list the edges into each state. */
static void prune(checker *c, uint32_t *sources, uint32_t *incoming) {
    ln_nfa *nfa = &c->program->nfa;
    bool *useful = c->reached;
    memset(useful, 0, nfa->n_states * sizeof *useful);
    memset(incoming, 0, nfa->n_states * sizeof *incoming);
    for (uint32_t state = 0; state < nfa->n_states; state++) {
        for (uint32_t e = nfa->first[state]; e != 0; e = nfa->edges[e].next) {
            if (!can_pass(c, &nfa->edges[e]))
                continue;
            sources[e] = state;
            c->waiting[e] = incoming[nfa->edges[e].target];
            incoming[nfa->edges[e].target] = e;
        }
    }
    c->n_work = 0;
    for (uint32_t state = 0; state < nfa->n_states; state++)
        if (c->program->is_end[state])
            reach(c, state);
    for (size_t at = 0; at < c->n_work; at++)
        for (uint32_t e = incoming[c->work[at]]; e != 0; e = c->waiting[e])
            reach(c, sources[e]);
    for (uint32_t state = 0; state < nfa->n_states; state++) {
        uint32_t *link = &nfa->first[state];
        while (*link != 0) {
            ln_nfa_edge *edge = &nfa->edges[*link];
            if (can_pass(c, edge) && useful[edge->target])
                link = &edge->next;
            else
                *link = edge->next;
        }
    }
}

/* ---- left recursion -------------------------------------------------------------------------- */

enum { WHITE, GREY, BLACK };

/* Walks the calls that come before anything is matched, depth first over rules;
 * a rule that is met again on the way is refused. c->reached: states at which
 * nothing was matched yet. The calls of each rule are listed by next_call. */
static ln_status find_cycle(checker *c, const uint32_t *first_call, const uint32_t *next_call,
                            ln_error *err) {
    const ln_nfa *nfa = &c->program->nfa;
    size_t n_rules = c->builder->n_rules;
    uint8_t *colour = calloc(n_rules, 1);
    uint32_t *stack = calloc(n_rules, sizeof *stack), *at = calloc(n_rules, sizeof *at);
    ln_status status = LINNET_OK;
    if (colour == NULL || stack == NULL || at == NULL)
        status = ln_fail_memory(err, "a grammar");
    for (uint32_t i = 0; status == LINNET_OK && i < n_rules; i++) {
        size_t depth = 0;
        if (colour[i] != WHITE)
            continue;
        colour[i] = GREY;
        at[i] = first_call[i];
        stack[depth++] = i;
        while (depth > 0 && status == LINNET_OK) {
            uint32_t rule = stack[depth - 1], e = at[rule];
            if (e == 0) {
                colour[rule] = BLACK;
                depth--;
                continue;
            }
            at[rule] = next_call[e];
            uint32_t callee = nfa->edges[e].value;
            if (colour[callee] == GREY)
                status = ln_fail(err, LINNET_ERR_ARGUMENT,
                                 "%s refers to itself before anything else is matched",
                                 c->builder->rules[callee].name);
            if (colour[callee] != WHITE)
                continue;
            colour[callee] = GREY;
            at[callee] = first_call[callee];
            stack[depth++] = callee;
        }
    }
    free(colour);
    free(stack);
    free(at);
    return status;
}

static ln_status check_left_recursion(checker *c, uint32_t *first_call, uint32_t *next_call,
                                      ln_error *err) {
    const ln_nfa *nfa = &c->program->nfa;
    find_done(c, false);
    memset(first_call, 0, c->builder->n_rules * sizeof *first_call);
    for (uint32_t state = 0; state < nfa->n_states; state++) {
        for (uint32_t e = c->reached[state] ? nfa->first[state] : 0; e != 0;
             e = nfa->edges[e].next) {
            if (nfa->edges[e].kind != LN_EDGE_CALL)
                continue;
            next_call[e] = first_call[c->owner[state]];
            first_call[c->owner[state]] = e;
        }
    }
    return find_cycle(c, first_call, next_call, err);
}

static ln_status check(checker *c, ln_error *err) {
    size_t n_edges = c->program->nfa.n_edges + 1, n_states = c->program->nfa.n_states;
    uint32_t *sources = calloc(n_edges, sizeof *sources);
    uint32_t *incoming = calloc(n_states + c->builder->n_rules, sizeof *incoming);
    ln_status status = LINNET_OK;
    if (sources == NULL || incoming == NULL) {
        status = ln_fail_memory(err, "a grammar");
    } else {
        find_owners(c);
        find_done(c, true);
        if (!c->done[c->program->root])
            status = ln_fail(err, LINNET_ERR_ARGUMENT, "no text can ever satisfy the grammar");
    }
    if (status == LINNET_OK) {
        find_usable(c);
        prune(c, sources, incoming);
        status = check_left_recursion(c, incoming, sources, err);
    }
    free(sources);
    free(incoming);
    return status;
}

ln_status ln_program_check(ln_program *program, const ln_grammar_builder *builder, ln_error *err) {
    size_t n_states = program->nfa.n_states, n_rules = builder->n_rules;
    checker c = {.program = program, .builder = builder};
    c.owner = calloc(n_states, sizeof *c.owner);
    c.reached = calloc(n_states, sizeof *c.reached);
    c.work = calloc(n_states, sizeof *c.work);
    c.waiting = calloc(program->nfa.n_edges + 1, sizeof *c.waiting);
    c.waiters = calloc(n_rules, sizeof *c.waiters);
    c.done = calloc(n_rules, sizeof *c.done);
    ln_status status;
    if (c.owner != NULL && c.reached != NULL && c.work != NULL && c.waiting != NULL &&
        c.waiters != NULL && c.done != NULL)
        status = check(&c, err);
    else
        status = ln_fail_memory(err, "a grammar");
    free(c.owner);
    free(c.reached);
    free(c.work);
    free(c.waiting);
    free(c.waiters);
    free(c.done);
    return status;
}
