/* A nondeterministic automaton over bytes with calls: states and edges of all
 * rules. */
#ifndef LN_GRAMMAR_NFA_H
#define LN_GRAMMAR_NFA_H

#include "grammar/expr.h"

typedef enum ln_edge_kind {
    LN_EDGE_EMPTY,
    LN_EDGE_BYTES,
    LN_EDGE_CALL,     /* value: a rule */
    LN_EDGE_TERMINAL, /* value: a terminal of the program */
    LN_EDGE_GUARD     /* value: a guard of the program */
} ln_edge_kind;

typedef struct ln_nfa_edge {
    uint32_t next; /* edge of the same state, 0: none */
    uint32_t target;
    uint32_t value;
    uint8_t kind; /* ln_edge_kind */
    uint8_t low, high;
    bool counts; /* a character begins here */
} ln_nfa_edge;

typedef struct ln_nfa {
    uint32_t *first; /* [n_states] edge, 0: none */
    size_t n_states, state_capacity, max_states;
    ln_nfa_edge *edges; /* [n_edges]; the first is no edge */
    size_t n_edges, edge_capacity;
} ln_nfa;

void ln_nfa_init(ln_nfa *nfa, size_t max_states);
void ln_nfa_free(ln_nfa *nfa);

/* LIMIT when there would be more than max_states, NOMEM. */
ln_status ln_nfa_add_state(ln_nfa *nfa, uint32_t *state, ln_error *err);
ln_status ln_nfa_add_edge(ln_nfa *nfa, uint32_t from, ln_nfa_edge edge, ln_error *err);

/* Adds states and edges that lead from one state to another along what `expr`
 * matches. A rule or guard is handed to on_rule; other expressions to on_part first,
 * which may take them over. */
typedef struct ln_nfa_adder {
    ln_nfa *nfa;
    ln_status (*on_rule)(struct ln_nfa_adder *adder, const ln_expr *expr, uint32_t from,
                         uint32_t to, ln_error *err);
    /* NULL: takes nothing */
    ln_status (*on_part)(struct ln_nfa_adder *adder, const ln_expr *expr, uint32_t from,
                         uint32_t to, bool *taken, ln_error *err);
    void *context;
} ln_nfa_adder;
ln_status ln_nfa_add(ln_nfa_adder *adder, const ln_expr *expr, uint32_t from, uint32_t to,
                     ln_error *err);

#endif
