#include "grammar/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

enum {
    FUEL = 10 * 1000 * 1000, /* steps of work for all deterministic automata of a grammar */
    MAX_INLINE_HEIGHT = 24,  /* of rules within rules that become one terminal */
    MAX_INLINE_SIZE = 4096,  /* of expressions of such, rules written out */
    MAX_AUTO_STATES = 256,   /* of a terminal that was not asked for */
    MAX_AUTO_DENSE = 6,      /* of its states that go on with many bytes */
    DENSE_BYTES = 24,
    MAX_TERMINALS = 1 << 16
};

/* What is known of a rule before it is compiled. */
typedef struct rule_shape {
    bool is_regular; /* refers to regular rules only, and not too many */
    uint32_t height;
    uint64_t size;
    uint32_t terminal; /* + 1; 0: none, or not known yet */
    bool is_tried;
} rule_shape;

typedef struct compiler {
    ln_program *program;
    const ln_grammar_builder *builder;
    rule_shape *shapes;     /* [n_rules] */
    const ln_expr **bodies; /* [n_dfas] what each automaton was made from */
    size_t body_capacity;
    uint64_t fuel;
} compiler;

/* ---- which rules are regular ----------------------------------------------------------------- */

/* Adds up a body, as far as its rules are known; false when one is not. */
static bool measure(const compiler *c, const ln_expr *expr, rule_shape *shape, uint64_t times) {
    if (expr->kind == LN_EXPR_GUARD)
        return false;
    if (expr->kind == LN_EXPR_RULE) {
        const rule_shape *callee = &c->shapes[expr->rule];
        if (!callee->is_regular)
            return false;
        if (callee->height + 1 > shape->height)
            shape->height = callee->height + 1;
        shape->size += times * callee->size;
    } else {
        uint64_t own = expr->kind == LN_EXPR_REPEAT ? expr->min : 1;
        if (expr->kind == LN_EXPR_REPEAT)
            own = 1 + (expr->max == LN_NO_LIMIT ? own : expr->max);
        shape->size += times * (1 + expr->count);
        if (expr->kind == LN_EXPR_GRAPH)
            shape->size += times * expr->graph->n_edges;
        times *= own > MAX_INLINE_SIZE ? MAX_INLINE_SIZE : own;
    }
    if (times > MAX_INLINE_SIZE)
        times = MAX_INLINE_SIZE + 1;
    for (const ln_expr *part = expr->first; part != NULL; part = part->next)
        if (!measure(c, part, shape, times))
            return false;
    return true;
}

/* Rules without others are regular, then those that use only such, and so on
 * upward. */
static void find_regular(compiler *c) {
    size_t n = c->builder->n_rules;
    for (uint32_t pass = 0; pass <= MAX_INLINE_HEIGHT; pass++) {
        bool changed = false;
        for (size_t i = 0; i < n; i++) {
            rule_shape shape = {0};
            if (c->shapes[i].is_regular || c->builder->rules[i].kind == LN_RULE_STRUCTURAL ||
                !measure(c, c->builder->rules[i].body, &shape, 1))
                continue;
            bool is_asked = c->builder->rules[i].kind == LN_RULE_TERMINAL;
            if ((shape.size > MAX_INLINE_SIZE && !is_asked) || shape.height > MAX_INLINE_HEIGHT)
                continue;
            shape.is_regular = changed = true;
            c->shapes[i] = shape;
        }
        if (!changed)
            return;
    }
}

/* ---- terminals ------------------------------------------------------------------------------- */

static ln_status inline_rule(ln_nfa_adder *adder, const ln_expr *expr, uint32_t from, uint32_t to,
                             ln_error *err) {
    const compiler *c = adder->context;
    return ln_nfa_add(adder, c->builder->rules[expr->rule].body, from, to, err);
}

/* The automaton of an expression that is regular; *fits false when it would be
 * too large. */
static ln_status make_dfa(compiler *c, const ln_expr *expr, size_t max_states, uint32_t *number,
                          bool *fits, ln_error *err) {
    ln_program *program = c->program;
    for (size_t i = program->n_dfas; i > 0 && i + 64 > program->n_dfas; i--) {
        if (c->bodies[i - 1] == expr) {
            *number = (uint32_t)(i - 1);
            *fits = true;
            return LINNET_OK;
        }
    }
    ln_nfa nfa;
    ln_dfa dfa;
    uint32_t from = 0, to = 0;
    ln_nfa_init(&nfa, 1 << 17);
    ln_nfa_adder adder = {.nfa = &nfa, .on_rule = inline_rule, .context = c};
    ln_status status = ln_nfa_add_state(&nfa, &from, err);
    if (status == LINNET_OK)
        status = ln_nfa_add_state(&nfa, &to, err);
    if (status == LINNET_OK)
        status = ln_nfa_add(&adder, expr, from, to, err);
    *fits = status == LINNET_OK;
    if (status == LINNET_ERR_LIMIT)
        status = LINNET_OK;
    else if (status == LINNET_OK)
        status =
            ln_dfa_build(&dfa, &program->arena, &nfa, from, to, max_states, &c->fuel, fits, err);
    ln_nfa_free(&nfa);
    if (status != LINNET_OK || !*fits)
        return status;
    if (!ln_grow((void **)&program->dfas, &program->dfa_capacity, program->n_dfas + 1,
                 sizeof dfa) ||
        !ln_grow((void **)&c->bodies, &c->body_capacity, program->n_dfas + 1, sizeof *c->bodies))
        return ln_fail_memory(err, "a grammar");
    c->bodies[program->n_dfas] = expr;
    program->dfas[program->n_dfas] = dfa;
    *number = (uint32_t)program->n_dfas++;
    return LINNET_OK;
}

static ln_status add_terminal(compiler *c, ln_terminal terminal, uint32_t *number, ln_error *err) {
    ln_program *program = c->program;
    if (program->n_terminals == MAX_TERMINALS)
        return ln_fail(err, LINNET_ERR_LIMIT, "the grammar has more than %d regular parts",
                       MAX_TERMINALS);
    if (!ln_grow((void **)&program->terminals, &program->terminal_capacity,
                 program->n_terminals + 1, sizeof terminal))
        return ln_fail_memory(err, "a grammar");
    program->terminals[program->n_terminals] = terminal;
    *number = (uint32_t)program->n_terminals++;
    return LINNET_OK;
}

static size_t count_dense(const ln_dfa *dfa) {
    size_t n_dense = 0;
    for (uint32_t state = LN_DFA_START; state < dfa->n_states; state++)
        n_dense += ln_byte_set_count(&dfa->live[state]) >= DENSE_BYTES;
    return n_dense;
}

/* Makes a rule a terminal if it was asked to be one, or is small. */
static ln_status try_rule(compiler *c, uint32_t index, ln_error *err) {
    rule_shape *shape = &c->shapes[index];
    const ln_rule *rule = &c->builder->rules[index];
    bool is_asked = rule->kind == LN_RULE_TERMINAL, fits;
    if (shape->is_tried)
        return LINNET_OK;
    shape->is_tried = true;
    if (!shape->is_regular && is_asked)
        return ln_fail(err, LINNET_ERR_LIMIT, "%s is too large", rule->name);
    if (!shape->is_regular)
        return LINNET_OK;
    uint32_t dfa;
    LN_TRY(
        make_dfa(c, rule->body, is_asked ? LN_DFA_MAX_STATES : MAX_AUTO_STATES, &dfa, &fits, err));
    if (!fits && is_asked && (rule->max_count != LN_NO_LIMIT || rule->is_unique))
        return ln_fail(err, LINNET_ERR_LIMIT, "%s is too large", rule->name);
    if (!fits || (!is_asked && count_dense(&c->program->dfas[dfa]) > MAX_AUTO_DENSE))
        return LINNET_OK;
    ln_terminal terminal = {dfa, rule->min_count, rule->max_count, NULL};
    uint32_t number;
    if (rule->is_unique)
        terminal.ends = ln_dfa_count_ends(&c->program->dfas[dfa], &c->program->arena);
    if (rule->is_unique && terminal.ends == NULL)
        return ln_fail_memory(err, "a grammar");
    LN_TRY(add_terminal(c, terminal, &number, err));
    shape->terminal = number + 1;
    return LINNET_OK;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static ln_status add_guard(compiler *c, const ln_expr *expr, uint32_t from, uint32_t to,
                           ln_error *err) {
    ln_program *program = c->program;
    if (!ln_grow((void **)&program->guards, &program->guard_capacity, program->n_guards + 1,
                 sizeof *program->guards))
        return ln_fail_memory(err, "a grammar");
    program->guards[program->n_guards] = expr->guard;
    if (expr->guard.kind == LN_GUARD_UNSEEN) {
        LN_TRY(try_rule(c, expr->guard.low, err));
        program->guards[program->n_guards].low = c->shapes[expr->guard.low].terminal - 1;
    }
    ln_nfa_edge edge = {
        .kind = LN_EDGE_GUARD, .target = to, .value = (uint32_t)program->n_guards++};
    return ln_nfa_add_edge(&program->nfa, from, edge, err);
}

/* The program outlives the builder. */
static ln_status copy_objects(compiler *c, ln_error *err) {
    const ln_grammar_builder *b = c->builder;
    ln_program *program = c->program;
    program->objects = ln_arena_alloc(&program->arena, b->n_objects, sizeof *program->objects);
    if (program->objects == NULL)
        return ln_fail_memory(err, "a grammar");
    for (size_t i = 0; i < b->n_objects; i++) {
        ln_object *object = &program->objects[i];
        *object = *b->objects[i];
        uint32_t *rules = ln_arena_alloc(&program->arena, object->n_named, sizeof *rules);
        if (rules == NULL)
            return ln_fail_memory(err, "a grammar");
        if (object->n_named > 0)
            memcpy(rules, object->rules, object->n_named * sizeof *rules);
        object->rules = rules;
    }
    program->n_objects = b->n_objects;
    return LINNET_OK;
}

static ln_status call_rule(ln_nfa_adder *adder, const ln_expr *expr, uint32_t from, uint32_t to,
                           ln_error *err) {
    compiler *c = adder->context;
    if (expr->kind == LN_EXPR_GUARD)
        return add_guard(c, expr, from, to, err);
    LN_TRY(try_rule(c, expr->rule, err));
    ln_nfa_edge edge = {.kind = LN_EDGE_CALL, .target = to, .value = expr->rule};
    if (c->shapes[expr->rule].terminal > 0) {
        edge.kind = LN_EDGE_TERMINAL;
        edge.value = c->shapes[expr->rule].terminal - 1;
    }
    return ln_nfa_add_edge(adder->nfa, from, edge, err);
}

/* Whether an expression has no rules in it, and repeats something. */
static bool is_loop(const ln_expr *expr, bool *repeats) {
    if (expr->kind == LN_EXPR_RULE || expr->kind == LN_EXPR_GUARD)
        return false;
    *repeats |= expr->kind == LN_EXPR_REPEAT;
    for (const ln_expr *part = expr->first; part != NULL; part = part->next)
        if (!is_loop(part, repeats))
            return false;
    return true;
}

/* Regular parts of rules that are not regular become terminals too. */
static ln_status take_part(ln_nfa_adder *adder, const ln_expr *expr, uint32_t from, uint32_t to,
                           bool *taken, ln_error *err) {
    compiler *c = adder->context;
    rule_shape shape = {0};
    bool repeats = false, fits;
    uint32_t dfa, number;
    if (expr->first == NULL || !is_loop(expr, &repeats) || !repeats ||
        !measure(c, expr, &shape, 1) || shape.size > MAX_INLINE_SIZE)
        return LINNET_OK;
    LN_TRY(make_dfa(c, expr, MAX_AUTO_STATES, &dfa, &fits, err));
    if (!fits)
        return LINNET_OK;
    LN_TRY(add_terminal(c, (ln_terminal){dfa, 0, LN_NO_LIMIT, NULL}, &number, err));
    *taken = true;
    return ln_nfa_add_edge(adder->nfa, from,
                           (ln_nfa_edge){.kind = LN_EDGE_TERMINAL, .target = to, .value = number},
                           err);
}

static ln_status compile_rules(compiler *c, uint32_t *ends, ln_error *err) {
    ln_program *program = c->program;
    ln_nfa_adder adder = {
        .nfa = &program->nfa, .on_rule = call_rule, .on_part = take_part, .context = c};
    for (uint32_t i = 0; i < c->builder->n_rules; i++) {
        LN_TRY(ln_nfa_add_state(&program->nfa, &program->starts[i], err));
        LN_TRY(ln_nfa_add_state(&program->nfa, &ends[i], err));
        LN_TRY(try_rule(c, i, err));
        uint32_t terminal = c->shapes[i].terminal;
        if (terminal == 0)
            LN_TRY(ln_nfa_add(&adder, c->builder->rules[i].body, program->starts[i], ends[i], err));
        else
            LN_TRY(ln_nfa_add_edge(
                &program->nfa, program->starts[i],
                (ln_nfa_edge){.kind = LN_EDGE_TERMINAL, .target = ends[i], .value = terminal - 1},
                err));
    }
    program->is_end =
        ln_arena_alloc(&program->arena, program->nfa.n_states, sizeof *program->is_end);
    if (program->is_end == NULL)
        return ln_fail_memory(err, "a grammar");
    for (uint32_t i = 0; i < c->builder->n_rules; i++)
        program->is_end[ends[i]] = true;
    return LINNET_OK;
}

/* A target that only leads on by an empty edge gives way to where that leads: a
 * call whose return would do nothing else keeps nothing on the stack then. */
static void shorten(ln_program *program) {
    ln_nfa *nfa = &program->nfa;
    for (size_t i = 1; i < nfa->n_edges; i++) {
        ln_nfa_edge *edge = &nfa->edges[i];
        for (int n = 0; n < 16; n++) {
            uint32_t only = nfa->first[edge->target];
            if (only == 0 || nfa->edges[only].next != 0 || nfa->edges[only].kind != LN_EDGE_EMPTY)
                break;
            edge->target = nfa->edges[only].target;
        }
    }
}

ln_status ln_program_compile(ln_program *program, const ln_grammar_builder *builder,
                             ln_error *err) {
    compiler c = {.program = program, .builder = builder, .fuel = FUEL};
    *program = (ln_program){.root = builder->root};
    ln_arena_init(&program->arena);
    ln_nfa_init(&program->nfa, LN_GRAMMAR_MAX_STATES);
    program->starts = ln_arena_alloc(&program->arena, builder->n_rules, sizeof *program->starts);
    uint32_t *ends = calloc(builder->n_rules + 1, sizeof *ends);
    c.shapes = calloc(builder->n_rules + 1, sizeof *c.shapes);
    ln_status status = LINNET_OK;
    if (program->starts == NULL || ends == NULL || c.shapes == NULL) {
        status = ln_fail_memory(err, "a grammar");
    } else {
        find_regular(&c);
        status = copy_objects(&c, err);
        if (status == LINNET_OK)
            status = compile_rules(&c, ends, err);
    }
    free(ends);
    free(c.shapes);
    free((void *)c.bodies);
    if (status == LINNET_OK) {
        shorten(program);
        status = ln_program_check(program, builder, err);
    }
    if (status != LINNET_OK)
        ln_program_free(program);
    return status;
}

void ln_program_free(ln_program *program) {
    ln_nfa_free(&program->nfa);
    free(program->dfas);
    free(program->terminals);
    free(program->guards);
    ln_arena_free(&program->arena);
    *program = (ln_program){0};
}
