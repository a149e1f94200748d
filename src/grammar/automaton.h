/* Runs a compiled grammar over bytes. A state is a set of stacks: where each
 * way to read the text so far stands, and what comes after the rules that it is
 * in. Stacks share their tails and equal sets have one number, so what is known
 * of a state (its transitions, its mask of tokens) is known for every text that
 * leads to it.
 *
 * All memory is one block of fixed size. When it runs full, everything but one
 * state is forgotten and the numbers of states change: the generation says so.
 */
#ifndef LN_GRAMMAR_AUTOMATON_H
#define LN_GRAMMAR_AUTOMATON_H

#include "grammar/program.h"

enum {
    LN_AUTOMATON_NODES = 8192,
    LN_AUTOMATON_STATES = 4096,
    LN_AUTOMATON_ITEMS = 32768,
    LN_AUTOMATON_TRANSITIONS = 16384,
    LN_AUTOMATON_SETS = 2048,
    LN_AUTOMATON_TEXTS = 1 << 16,
    LN_AUTOMATON_TEXT_HEADS = 1 << 12,
    LN_AUTOMATON_DEPTH = 512 /* rules within rules of a text */
};

#define LN_STATE_DEAD 0u
#define LN_STATE_FULL UINT32_MAX /* memory ran out: ln_automaton_keep, and again */

#define LN_NO_TERMINAL UINT32_MAX

/* Which members an object has so far. */
typedef struct ln_member_set {
    uint64_t names[LN_OBJECT_WORDS];
    uint32_t others; /* that are not named, as far as they matter */
    uint32_t chain;
} ln_member_set;

/* A text of an item that others differ from: see below. */
typedef struct ln_seen_text {
    uint32_t parent, chain;
    uint8_t byte;
} ln_seen_text;

/* A stack, seen from its top. */
typedef struct ln_stack_node {
    uint32_t position; /* a state of the program, or of a terminal's automaton */
    uint32_t terminal; /* LN_NO_TERMINAL: none */
    uint32_t count;    /* characters of it so far, where that matters, or the text, where texts
                          differ; without a terminal the members or items so far, a set */
    uint32_t parent;   /* what comes after the rule or terminal; 0: the end of the
                          text */
    uint32_t depth;
    uint32_t chain; /* in the index */
    uint32_t mark;  /* of the set that is being made */
} ln_stack_node;

typedef struct ln_automaton_state {
    uint32_t items, n_items; /* nodes that go on with bytes, ascending */
    uint32_t hash, chain;
    bool accepts; /* the text may end here */
    ln_byte_set live;
} ln_automaton_state;

typedef struct ln_automaton {
    const ln_program *program;
    void *memory; /* owned */
    ln_stack_node *nodes;
    ln_automaton_state *states;
    uint32_t *items;
    uint32_t *node_heads, *state_heads; /* indexes by hash */
    ln_member_set *sets, *kept_sets;    /* [LN_AUTOMATON_SETS]; set 0 is empty */
    uint32_t *set_heads, *set_numbers;
    size_t n_sets;
    ln_seen_text *texts; /* [LN_AUTOMATON_TEXTS]; NULL: no terminal needs them */
    uint32_t *text_heads, *text_numbers;
    size_t n_texts;
    uint64_t *transitions;           /* (state << 8 | byte) << 32 | next */
    uint32_t *work, *made, *renamed; /* [LN_AUTOMATON_NODES] */
    size_t n_nodes, n_states, n_items, n_work, n_made;
    uint32_t epoch, generation;
    bool made_accepts, is_full;
} ln_automaton;

ln_status ln_automaton_init(ln_automaton *automaton, const ln_program *program, ln_error *err);
void ln_automaton_free(ln_automaton *automaton);

/* The state before any text. */
uint32_t ln_automaton_start(ln_automaton *automaton);
/* The state after a byte. */
uint32_t ln_automaton_step(ln_automaton *automaton, uint32_t state, uint8_t byte);
/* The state once what lies above `node` has ended; 0: the text's end. */
uint32_t ln_automaton_resume(ln_automaton *automaton, uint32_t node);
/* The same for a terminal whose texts differ, when its text is not known: no further item ends. */
uint32_t ln_automaton_resume_unknown(ln_automaton *automaton, uint32_t node);
/* The state of some of a state's items. */
uint32_t ln_automaton_subset(ln_automaton *automaton, const uint32_t *items, size_t n_items);

/* Forgets all but one state, whose new number is returned. */
uint32_t ln_automaton_keep(ln_automaton *automaton, uint32_t state);
/* Whether memory is so full that it is better to do so now. */
bool ln_automaton_is_crowded(const ln_automaton *automaton);

/* ---- items that differ (automaton_seen.c) -------------------------------------------------------
 */

/* The texts of the items of an array so far. Texts are kept as a trie, whose nodes are numbers: 0
 * is the empty text, a longer one has a greater number than what it begins with. The items of an
 * array are a list of sets: each has a text and the set before it. */

#define LN_SEEN_UNKNOWN UINT32_MAX /* a text that is not known: nothing may differ from it */

/* The text with a byte more; 0: memory is out, and the automaton is_full. */
uint32_t ln_seen_extend(ln_automaton *a, uint32_t text, uint8_t byte);
/* The same if it is there; 0: it is not. */
uint32_t ln_seen_find(const ln_automaton *a, uint32_t text, uint8_t byte);

/* Fills a set that has one text more than set `number`. */
ln_member_set ln_seen_add(const ln_automaton *a, uint32_t number, uint32_t text);
uint32_t ln_seen_count(const ln_automaton *a, uint32_t number);
/* Whether the last text of a set is not known. */
bool ln_seen_is_unknown(const ln_automaton *a, uint32_t number);
/* How many of a set's texts begin with this one; whether it is one of them. */
uint32_t ln_seen_below(const ln_automaton *a, uint32_t number, uint32_t text);
bool ln_seen_has(const ln_automaton *a, uint32_t number, uint32_t text);

/* Bytes that lead on in a terminal whose items differ, after `text`. */
ln_byte_set ln_seen_live(const ln_automaton *a, const ln_terminal *terminal, uint32_t position,
                         uint32_t number, uint32_t text);
/* Whether one of them does. */
bool ln_seen_leads_on(const ln_automaton *a, const ln_terminal *terminal, uint32_t position,
                      uint32_t number, uint32_t text, uint8_t byte);

/* Forgets the texts that neither marked nodes nor their sets have; a->text_numbers says what the
 * others have become. */
void ln_seen_compact(ln_automaton *a);

#endif
