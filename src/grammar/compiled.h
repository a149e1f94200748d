/* What a compiled grammar is made of, for this folder. */
#ifndef LN_GRAMMAR_COMPILED_H
#define LN_GRAMMAR_COMPILED_H

#include <stdatomic.h>

#include "grammar/automaton.h"
#include "grammar/dense.h"

struct ln_grammar {
    atomic_uint references;
    uint64_t number; /* among those of a masker; 0: not met by one yet */
    ln_program program;
    ln_automaton automaton;
    ln_dense dense;
};

#endif
