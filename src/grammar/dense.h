/* Tables for the states of terminals that go on with most bytes, such as the
 * inside of a string: the walk over the vocabulary that they would need takes
 * long, so it is done once, when the grammar is compiled. Tokens that end the
 * terminal on their way depend on what comes after it; their paths are walked
 * from where it ends. Each automaton has a table for one state at most, its
 * base; for states that go on much like it, what differs is walked. Bases of
 * different automata that go on alike share a table. */
#ifndef LN_GRAMMAR_DENSE_H
#define LN_GRAMMAR_DENSE_H

#include "grammar/program.h"
#include "grammar/token_trie.h"

enum { LN_DENSE_TABLES = 24, LN_DENSE_LAYERS = 16 };

/* Where the terminal may have ended. */
typedef struct ln_dense_exit {
    uint32_t node;  /* of the trie */
    uint32_t count; /* characters until there */
} ln_dense_exit;

typedef struct ln_dense_table {
    uint32_t dfa, state;
    uint64_t *inside; /* [n_words] tokens after which it goes on */
    ln_dense_exit *exits;
    size_t n_exits;
    /* where characters are counted: */
    uint64_t *layers;  /* [LN_DENSE_LAYERS][n_words]: those of `inside` with at
                          most so many */
    int32_t *by_count; /* [n_by_count] those with LN_DENSE_LAYERS or more, the
                          fewest first */
    uint8_t *counts;   /* [n_by_count] */
    size_t n_by_count;
} ln_dense_table;

typedef struct ln_dense_base {
    uint32_t state; /* LN_DFA_DEAD: none */
    const ln_dense_table *table;
} ln_dense_base;

typedef struct ln_dense {
    ln_dense_table tables[LN_DENSE_TABLES];
    size_t n_tables;
    ln_dense_base *bases; /* [n_dfas]; NULL: without a vocabulary */
} ln_dense;

/* Finds the states that need one and fills their tables, as far as there are so
 * many; the memory is the arena's. Tables of `common`, which belong to another program and outlive
 * these, are used where they fit; NULL: there are none. */
ln_status ln_dense_build(ln_dense *dense, ln_arena *arena, const ln_program *program,
                         const ln_token_trie *trie, const ln_dense *common,
                         const ln_program *common_program, ln_error *err);

/* The base to which a state's walk may be compared; NULL: none. */
const ln_dense_base *ln_dense_find(const ln_dense *dense, const ln_program *program, uint32_t dfa,
                                   uint32_t state);

/* Adds the tokens of `inside` that begin at most `room` characters to
 * mask[n_words]. */
void ln_dense_add(const ln_dense_table *table, size_t n_words, uint32_t room, uint64_t *mask);

#endif
