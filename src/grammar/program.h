/* A compiled grammar: an automaton over bytes with calls (states, edges, the
 * rules' starts), whose regular parts are deterministic automata of their own,
 * the terminals. */
#ifndef LN_GRAMMAR_PROGRAM_H
#define LN_GRAMMAR_PROGRAM_H

#include "grammar/dfa.h"

#define LN_ENDLESS UINT32_MAX

typedef struct ln_terminal {
    uint32_t dfa;
    uint32_t min, max; /* characters, where the automaton counts them; max may be
                          LN_NO_LIMIT */
    /* where texts differ from those before them: how many lead from a state to an end, [n_states]
     * of the automaton; LN_ENDLESS: any number. Otherwise NULL */
    const uint32_t *ends;
} ln_terminal;

typedef struct ln_program {
    ln_arena arena;
    ln_nfa nfa;
    bool *is_end;     /* [nfa.n_states]: the end of a rule */
    uint32_t *starts; /* [rules] state */
    uint32_t root;    /* rule */
    ln_dfa *dfas;     /* [n_dfas] */
    size_t n_dfas, dfa_capacity;
    ln_terminal *terminals; /* [n_terminals] */
    size_t n_terminals, terminal_capacity;
    ln_object *objects; /* [n_objects] */
    size_t n_objects;
    ln_guard *guards; /* [n_guards] */
    size_t n_guards, guard_capacity;
} ln_program;

/* Compiles the builder's rules, whose bodies are all there. Errors: LIMIT (too
 * large), ARGUMENT (a rule calls itself before it matches anything; nothing can
 * ever match), NOMEM. */
ln_status ln_program_compile(ln_program *program, const ln_grammar_builder *builder, ln_error *err);
void ln_program_free(ln_program *program);

/* Removes what can never end, refuses rules that call themselves first; part of
 * compiling. */
ln_status ln_program_check(ln_program *program, const ln_grammar_builder *builder, ln_error *err);

#endif
