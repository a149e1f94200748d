/* A deterministic automaton over bytes, made from a part of a nondeterministic
 * one that has no calls (subset construction; Rabin and Scott, 1959). States
 * from which no end can be reached are left out, so whatever begins can be
 * finished. */
#ifndef LN_GRAMMAR_DFA_H
#define LN_GRAMMAR_DFA_H

#include "grammar/nfa.h"

enum {
    LN_DFA_DEAD = 0,
    LN_DFA_START = 1,
    LN_DFA_COUNTS = 0x8000, /* in a transition: a character begins */
    LN_DFA_MAX_STATES = 8192
};

typedef struct ln_byte_set {
    uint64_t bits[4];
} ln_byte_set;

static inline bool ln_byte_set_has(const ln_byte_set *set, unsigned byte) {
    return (set->bits[byte >> 6] >> (byte & 63) & 1) != 0;
}

typedef struct ln_dfa {
    uint32_t n_states; /* with the dead one; 1: matches nothing */
    uint32_t n_classes;
    uint8_t class_of[256];
    uint16_t *next;         /* [n_states][n_classes] state, or'ed with LN_DFA_COUNTS */
    bool *accepts;          /* [n_states] */
    ln_byte_set *live;      /* [n_states] bytes that lead on */
    ln_byte_set *uncounted; /* [n_states] those of them where no character begins */
    bool counts;            /* some transition does */
    uint16_t *need;         /* [n_states] the fewest characters that lead to an end */
    uint16_t most_needed;   /* of all states that are of use */
} ln_dfa;

/* The memory is the arena's. *fuel is what may be spent yet, in steps of work.
 * *fits false: more than max_states, or the fuel is out. Errors: NOMEM. */
ln_status ln_dfa_build(ln_dfa *dfa, ln_arena *arena, const ln_nfa *nfa, uint32_t from, uint32_t to,
                       size_t max_states, uint64_t *fuel, bool *fits, ln_error *err);

/* How many texts lead from each state to an end, [n_states], the arena's; UINT32_MAX: any number.
 * NULL: memory is out. */
const uint32_t *ln_dfa_count_ends(const ln_dfa *dfa, ln_arena *arena);

static inline uint16_t ln_dfa_step(const ln_dfa *dfa, uint32_t state, uint8_t byte) {
    return dfa->next[state * dfa->n_classes + dfa->class_of[byte]];
}

/* Whether a transition after `count` characters leads to where at most `max` can end. */
static inline bool ln_dfa_fits(const ln_dfa *dfa, uint16_t next, uint32_t count, uint32_t max) {
    uint32_t needed = dfa->need[next & ~(unsigned)LN_DFA_COUNTS];
    needed += (next & LN_DFA_COUNTS) != 0;
    return needed <= max && count <= max - needed;
}

static inline unsigned ln_byte_set_count(const ln_byte_set *set) {
    unsigned count = 0;
    for (unsigned i = 0; i < 4; i++)
        count += (unsigned)__builtin_popcountll(set->bits[i]);
    return count;
}

#endif
