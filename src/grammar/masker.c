#include "grammar/masker.h"

#include <math.h>
#include <string.h>

#include "grammar/compiled.h"

typedef struct masker_layout {
    size_t trie, masks, allowed;
} masker_layout;

static masker_layout lay_out(size_t n_vocab, size_t n_text_bytes, ln_layout *layout) {
    return (masker_layout){
        .trie = ln_token_trie_plan(n_vocab, n_text_bytes, layout),
        .masks = ln_layout_add(layout, (n_vocab + 63) / 64, LN_MASK_SLOTS * sizeof(uint64_t)),
        .allowed = ln_layout_add(layout, (n_vocab + 63) / 64, sizeof(uint64_t)),
    };
}

void ln_masker_plan(size_t n_vocab, size_t n_text_bytes, ln_layout *layout) {
    lay_out(n_vocab, n_text_bytes, layout);
}

void ln_masker_init(ln_masker *masker, size_t n_vocab, size_t n_text_bytes, void *memory) {
    ln_layout layout = {0};
    masker_layout at = lay_out(n_vocab, n_text_bytes, &layout);
    *masker = (ln_masker){
        .trie = {.n_vocab = n_vocab, .n_words = (n_vocab + 63) / 64},
        .n_text_bytes = n_text_bytes,
        .trie_memory = (char *)memory + at.trie,
        .masks = (uint64_t *)(void *)((char *)memory + at.masks),
        .allowed = (uint64_t *)(void *)((char *)memory + at.allowed),
    };
}

ln_status ln_masker_load(ln_masker *masker, ln_token_text_fn text, const void *source,
                         ln_error *err) {
    if (masker->has_trie)
        return LINNET_OK;
    LN_TRY(ln_token_trie_build(&masker->trie, text, source, masker->trie.n_vocab,
                               masker->n_text_bytes, masker->trie_memory, err));
    masker->has_trie = true;
    return LINNET_OK;
}

/* ---- making a mask --------------------------------------------------------------------------- */

enum { MAX_SEEN = 512 };

/* The walk over the vocabulary from a state. */
typedef struct mask_walk {
    const ln_token_trie *trie;
    ln_grammar *grammar;
    uint64_t *mask;    /* [n_words] */
    uint64_t *scratch; /* [n_words] */
    bool is_full;      /* the automaton's memory ran out */
    /* of a terminal whose texts differ from those before them: nodes of the trie, and where they
     * end, that lead to such alone; nothing but the node: which must not be the end */
    struct {
        uint32_t node, end;
    } seen[MAX_SEEN];
    size_t n_seen;
    bool is_unique;
} mask_walk;

static void allow(const mask_walk *w, int32_t id) {
    for (; id >= 0; id = w->trie->same[id])
        w->mask[id / 64] |= 1ull << id % 64;
}

/* Allows the tokens below `top` that can be read from `state`, which is where
 * the automaton stands at `top`. */
static void walk_states(mask_walk *w, uint32_t state, uint32_t top) {
    const ln_token_trie *trie = w->trie;
    ln_automaton *automaton = &w->grammar->automaton;
    uint32_t states[LN_TRIE_MAX_DEPTH + 1];
    uint32_t end = trie->end[top];
    states[trie->depth[top]] = state;
    for (uint32_t node = top + 1; node < end;) {
        size_t depth = trie->depth[node];
        uint32_t next = ln_automaton_step(automaton, states[depth - 1], trie->byte[node]);
        if (next == LN_STATE_DEAD) {
            node = trie->end[node];
            continue;
        }
        if (next == LN_STATE_FULL) {
            w->is_full = true;
            return;
        }
        states[depth] = next;
        if (trie->token[node] >= 0)
            allow(w, trie->token[node]);
        node++;
    }
}

/* Where a terminal may have ended at a node of the trie: the tokens that end
 * there, and those that go on with what comes after. */
typedef struct terminal_exit {
    uint32_t parent;
    uint32_t after; /* the state there, LN_STATE_DEAD: not known yet */
} terminal_exit;

/* Whether a node leads to texts that were seen alone; 'is_exit': or is one. */
static bool is_seen(const mask_walk *w, uint32_t node, bool is_exit) {
    for (size_t i = 0; i < w->n_seen; i++)
        if (node >= w->seen[i].node &&
            (node < w->seen[i].end || (is_exit && node == w->seen[i].node)))
            return true;
    return false;
}

static void walk_exit(mask_walk *w, terminal_exit *exit, uint32_t node) {
    if (is_seen(w, node, true))
        return;
    allow(w, w->trie->token[node]);
    if (exit->parent == 0 || w->trie->end[node] == node + 1)
        return; /* nothing can follow */
    if (exit->after == LN_STATE_DEAD)
        exit->after = w->is_unique
                          ? ln_automaton_resume_unknown(&w->grammar->automaton, exit->parent)
                          : ln_automaton_resume(&w->grammar->automaton, exit->parent);
    if (exit->after == LN_STATE_FULL)
        w->is_full = true;
    else if (exit->after != LN_STATE_DEAD)
        walk_states(w, exit->after, node);
}

/* What a terminal's walk is held against. */
typedef struct table_walk {
    mask_walk *walk;
    const ln_dense_table *table;
    const ln_terminal *terminal;
    terminal_exit exit;
    uint32_t room, needed; /* characters that may, that must come */
    size_t n_exits;        /* of the table that were passed */
} table_walk;

static void take_exit(table_walk *t, uint32_t node, uint32_t count) {
    if (count >= t->needed && count <= t->room && !t->walk->is_full)
        walk_exit(t->walk, &t->exit, node);
}

/* The table's exits before a node; it has none of its own there. */
static void take_exits_before(table_walk *t, uint32_t node) {
    const ln_dense_table *table = t->table;
    for (; t->n_exits < table->n_exits && table->exits[t->n_exits].node < node; t->n_exits++)
        take_exit(t, table->exits[t->n_exits].node, table->exits[t->n_exits].count);
    if (t->n_exits < table->n_exits && table->exits[t->n_exits].node == node)
        t->n_exits++;
}

static void set_token(uint64_t *mask, const ln_token_trie *trie, int32_t id, bool is_allowed) {
    for (; id >= 0; id = trie->same[id]) {
        if (is_allowed)
            mask[id / 64] |= 1ull << id % 64;
        else
            mask[id / 64] &= ~(1ull << id % 64);
    }
}

/* Walks from `state` and from the base at once, where they are apart, and corrects `mask`, which is
 * the base's. */
static void walk_difference(table_walk *t, uint32_t state, uint32_t base, uint64_t *mask) {
    const ln_token_trie *trie = t->walk->trie;
    const ln_dfa *dfa = &t->walk->grammar->program.dfas[t->terminal->dfa];
    uint32_t own[LN_TRIE_MAX_DEPTH + 1], other[LN_TRIE_MAX_DEPTH + 1];
    uint32_t counts[LN_TRIE_MAX_DEPTH + 1], other_counts[LN_TRIE_MAX_DEPTH + 1];
    own[0] = state;
    other[0] = base;
    counts[0] = other_counts[0] = 0;
    for (uint32_t node = 1; node < trie->n_nodes && !t->walk->is_full;) {
        size_t depth = trie->depth[node];
        uint16_t next = ln_dfa_step(dfa, own[depth - 1], trie->byte[node]);
        uint16_t next_other = ln_dfa_step(dfa, other[depth - 1], trie->byte[node]);
        counts[depth] = counts[depth - 1] + ((next & LN_DFA_COUNTS) != 0);
        other_counts[depth] = other_counts[depth - 1] + ((next_other & LN_DFA_COUNTS) != 0);
        if (next == next_other && (next == LN_DFA_DEAD || counts[depth] == other_counts[depth])) {
            node = trie->end[node];
            continue;
        }
        own[depth] = next & ~(unsigned)LN_DFA_COUNTS;
        other[depth] = next_other & ~(unsigned)LN_DFA_COUNTS;
        const uint64_t *live = dfa->live[own[depth]].bits;
        bool goes_on = next != LN_DFA_DEAD && (live[0] | live[1] | live[2] | live[3]) != 0 &&
                       counts[depth] + (uint32_t)dfa->need[own[depth]] <= t->room;
        take_exits_before(t, node);
        set_token(mask, trie, trie->token[node], goes_on);
        if (next != LN_DFA_DEAD && dfa->accepts[own[depth]])
            take_exit(t, node, counts[depth]);
        node++;
    }
}

static void use_table(mask_walk *w, const ln_dense_base *base, const ln_stack_node *item,
                      const ln_terminal *terminal) {
    table_walk t = {.walk = w,
                    .table = base->table,
                    .terminal = terminal,
                    .exit = {.parent = item->parent},
                    .needed = terminal->min > item->count ? terminal->min - item->count : 0};
    t.room = terminal->max == LN_NO_LIMIT ? LN_NO_LIMIT : terminal->max - item->count;
    if (item->position == base->state) {
        ln_dense_add(t.table, w->trie->n_words, t.room, w->mask);
    } else {
        memset(w->scratch, 0, w->trie->n_words * sizeof *w->scratch);
        ln_dense_add(t.table, w->trie->n_words, t.room, w->scratch);
        walk_difference(&t, item->position, base->state, w->scratch);
        for (size_t i = 0; i < w->trie->n_words; i++)
            w->mask[i] |= w->scratch[i];
    }
    take_exits_before(&t, UINT32_MAX);
}

/* The same without a table, for a terminal that few tokens go on with. */
static void walk_terminal(mask_walk *w, const ln_stack_node *item, const ln_terminal *terminal) {
    const ln_token_trie *trie = w->trie;
    const ln_dfa *dfa = &w->grammar->program.dfas[terminal->dfa];
    terminal_exit exit = {.parent = item->parent};
    uint32_t states[LN_TRIE_MAX_DEPTH + 1], counts[LN_TRIE_MAX_DEPTH + 1];
    states[0] = item->position;
    counts[0] = w->is_unique ? 0 : item->count;
    for (uint32_t node = 1; node < trie->n_nodes && !w->is_full;) {
        size_t depth = trie->depth[node];
        uint16_t next = ln_dfa_step(dfa, states[depth - 1], trie->byte[node]);
        bool begins = (next & LN_DFA_COUNTS) != 0;
        if (next == LN_DFA_DEAD || !ln_dfa_fits(dfa, next, counts[depth - 1], terminal->max) ||
            (w->n_seen > 0 && is_seen(w, node, false))) {
            node = trie->end[node];
            continue;
        }
        uint32_t state = next & ~(unsigned)LN_DFA_COUNTS;
        states[depth] = state;
        counts[depth] = counts[depth - 1] + begins;
        const ln_byte_set *live =
            dfa->counts && counts[depth] >= terminal->max ? dfa->uncounted : dfa->live;
        const uint64_t *bits = live[state].bits;
        if ((bits[0] | bits[1] | bits[2] | bits[3]) != 0)
            allow(w, trie->token[node]);
        if (dfa->accepts[state] && counts[depth] >= terminal->min)
            walk_exit(w, &exit, node);
        node++;
    }
}

/* Finds what the texts that were seen take away, as far as tokens go on with them. */
static void find_seen(mask_walk *w, const ln_stack_node *item, const ln_terminal *terminal) {
    const ln_token_trie *trie = w->trie;
    const ln_automaton *a = &w->grammar->automaton;
    const ln_dfa *dfa = &w->grammar->program.dfas[terminal->dfa];
    uint32_t states[LN_TRIE_MAX_DEPTH + 1] = {item->position};
    uint32_t texts[LN_TRIE_MAX_DEPTH + 1] = {item->count};
    uint32_t number = a->nodes[item->parent].count;
    if (ln_seen_below(a, number, item->count) == 0)
        return;
    for (uint32_t node = 1; node < trie->n_nodes;) {
        size_t depth = trie->depth[node];
        uint32_t next = ln_dfa_step(dfa, states[depth - 1], trie->byte[node]);
        uint32_t text = ln_seen_find(a, texts[depth - 1], trie->byte[node]);
        uint32_t n_below = next != LN_DFA_DEAD && text != 0 ? ln_seen_below(a, number, text) : 0;
        next &= ~(unsigned)LN_DFA_COUNTS;
        bool leads_on = terminal->ends[next] > n_below;
        if (n_below > 0 && (!leads_on || ln_seen_has(a, number, text))) {
            w->seen[w->n_seen].node = node;
            w->seen[w->n_seen].end = leads_on ? node : trie->end[node];
            if (++w->n_seen == MAX_SEEN) /* and all that follows, to be sure */
                w->seen[MAX_SEEN - 1].end = trie->n_nodes;
            if (w->n_seen == MAX_SEEN)
                return;
        }
        states[depth] = next;
        texts[depth] = text;
        node = n_below > 0 && leads_on ? node + 1 : trie->end[node];
    }
}

/* Takes tokens away that lead to texts that were seen; the mask has those of this terminal alone.
 */
static void forget_seen(mask_walk *w) {
    for (size_t i = 0; i < w->n_seen; i++)
        for (uint32_t node = w->seen[i].node; node < w->seen[i].end; node++)
            set_token(w->mask, w->trie, w->trie->token[node], false);
    w->n_seen = 0;
    w->is_unique = false;
}

static void walk_item(mask_walk *w, const ln_stack_node *node) {
    const ln_program *program = &w->grammar->program;
    const ln_terminal *terminal = &program->terminals[node->terminal];
    const ln_dense_base *base =
        ln_dense_find(&w->grammar->dense, program, terminal->dfa, node->position);
    if (terminal->ends != NULL) {
        w->is_unique = true;
        find_seen(w, node, terminal);
    }
    if (base != NULL)
        use_table(w, base, node, terminal);
    else
        walk_terminal(w, node, terminal);
    if (terminal->ends != NULL)
        forget_seen(w);
}

/* Terminals have walks of their own, those first that take tokens away; what remains of the state
 * is walked as one. */
static bool make(mask_walk *w, uint32_t number) {
    ln_automaton *automaton = &w->grammar->automaton;
    const ln_program *program = &w->grammar->program;
    const ln_automaton_state *state = &automaton->states[number];
    uint32_t *others = automaton->renamed; /* free while nothing is kept */
    size_t n_others = 0;
    memset(w->mask, 0, w->trie->n_words * sizeof *w->mask);
    for (uint32_t i = 0; automaton->texts != NULL && i < state->n_items && !w->is_full; i++) {
        ln_stack_node node = automaton->nodes[automaton->items[state->items + i]];
        if (node.terminal != LN_NO_TERMINAL && program->terminals[node.terminal].ends != NULL)
            walk_item(w, &node);
    }
    for (uint32_t i = 0; i < state->n_items && !w->is_full; i++) {
        uint32_t item = automaton->items[state->items + i];
        ln_stack_node node = automaton->nodes[item];
        if (node.terminal == LN_NO_TERMINAL) {
            others[n_others++] = item;
            continue;
        }
        if (program->terminals[node.terminal].ends == NULL)
            walk_item(w, &node);
    }
    if (n_others > 0 && !w->is_full) {
        uint32_t rest = ln_automaton_subset(automaton, others, n_others);
        w->is_full |= rest == LN_STATE_FULL;
        if (!w->is_full)
            walk_states(w, rest, 0);
    }
    return !w->is_full;
}

/* ---- following a sequence -------------------------------------------------------------------- */

static ln_status too_ambiguous(ln_error *err) {
    return ln_fail(err, LINNET_ERR_LIMIT,
                   "the grammar can read the text in more ways than there is room for");
}

/* A step that makes room when there is none. */
static ln_status step(ln_grammar *grammar, uint32_t *state, char byte, ln_error *err) {
    uint32_t next = ln_automaton_step(&grammar->automaton, *state, (uint8_t)byte);
    if (next == LN_STATE_FULL) {
        *state = ln_automaton_keep(&grammar->automaton, *state);
        next = ln_automaton_step(&grammar->automaton, *state, (uint8_t)byte);
    }
    if (next == LN_STATE_FULL)
        return too_ambiguous(err);
    *state = next;
    return LINNET_OK;
}

/* The state before any text; what others stand at may be forgotten for it. */
static ln_status start(ln_grammar *grammar, uint32_t *state, ln_error *err) {
    *state = ln_automaton_start(&grammar->automaton);
    if (*state == LN_STATE_FULL) {
        ln_automaton_keep(&grammar->automaton, LN_STATE_DEAD);
        *state = ln_automaton_start(&grammar->automaton);
    }
    return *state == LN_STATE_FULL ? too_ambiguous(err) : LINNET_OK;
}

static ln_status read_token(const ln_token_trie *trie, ln_grammar *grammar, uint32_t *state,
                            int32_t id, ln_error *err) {
    ln_token_text text = trie->text(trie->source, id);
    if (text.is_special)
        LN_TRY(step(grammar, state, LN_SPECIAL_MARK, err));
    for (size_t i = 0; i < text.n_bytes && *state != LN_STATE_DEAD; i++)
        LN_TRY(step(grammar, state, text.data[i], err));
    if (*state == LN_STATE_DEAD || text.n_bytes == 0)
        return ln_fail(err, LINNET_ERR_COMPUTE, "the grammar does not allow token %d", (int)id);
    return LINNET_OK;
}

/* Brings the state up to the tokens. Where the automaton forgot it, or it is
 * ahead of them, all of them are read again. */
static ln_status catch_up(const ln_token_trie *trie, ln_grammar *grammar, ln_grammar_state *state,
                          const int32_t *tokens, size_t n_tokens, ln_error *err) {
    if (state->generation != grammar->automaton.generation || state->n_tokens > n_tokens) {
        *state = (ln_grammar_state){0};
        LN_TRY(start(grammar, &state->state, err));
    }
    while (state->n_tokens < n_tokens)
        LN_TRY(read_token(trie, grammar, &state->state, tokens[state->n_tokens++], err));
    if (ln_automaton_is_crowded(&grammar->automaton))
        state->state = ln_automaton_keep(&grammar->automaton, state->state);
    state->generation = grammar->automaton.generation;
    return LINNET_OK;
}

static ln_mask_slot *find_slot(ln_masker *masker, const ln_grammar *grammar,
                               const ln_grammar_state *state, bool *found) {
    ln_mask_slot *oldest = &masker->slots[0];
    *found = true;
    for (size_t i = 0; i < LN_MASK_SLOTS; i++) {
        ln_mask_slot *slot = &masker->slots[i];
        if (slot->grammar == grammar->number && slot->state == state->state &&
            slot->generation == state->generation)
            return slot;
        if (slot->used < oldest->used)
            oldest = slot;
    }
    *found = false;
    return oldest;
}

ln_status ln_masker_get(ln_masker *masker, ln_grammar *grammar, ln_grammar_state *state,
                        const int32_t *tokens, size_t n_tokens, const uint64_t **mask,
                        bool *may_end, ln_error *err) {
    bool found;
    if (grammar->number == 0)
        grammar->number = ++masker->n_grammars;
    LN_TRY(catch_up(&masker->trie, grammar, state, tokens, n_tokens, err));
    ln_mask_slot *slot = find_slot(masker, grammar, state, &found);
    uint64_t *bits = masker->masks + (size_t)(slot - masker->slots) * masker->trie.n_words;
    if (found) {
        masker->n_found++;
    } else {
        slot->grammar = 0;
        mask_walk w = {
            .trie = &masker->trie, .grammar = grammar, .mask = bits, .scratch = masker->allowed};
        if (!make(&w, state->state)) {
            state->state = ln_automaton_keep(&grammar->automaton, state->state);
            state->generation = grammar->automaton.generation;
            w.is_full = false;
            if (!make(&w, state->state))
                return too_ambiguous(err);
        }
        *slot = (ln_mask_slot){
            .grammar = grammar->number, .generation = state->generation, .state = state->state};
        masker->n_made++;
    }
    slot->used = ++masker->clock;
    *mask = bits;
    *may_end = grammar->automaton.states[state->state].accepts;
    return LINNET_OK;
}

/* Four logits at a time, as bits. */
typedef uint32_t four_words __attribute__((vector_size(16)));

#define KEEPS(n)                                                                                   \
    { (n) & 1 ? ~0u : 0, (n)&2 ? ~0u : 0, (n)&4 ? ~0u : 0, (n)&8 ? ~0u : 0 }
static const four_words keeps[16] = {
    KEEPS(0), KEEPS(1), KEEPS(2),  KEEPS(3),  KEEPS(4),  KEEPS(5),  KEEPS(6),  KEEPS(7),
    KEEPS(8), KEEPS(9), KEEPS(10), KEEPS(11), KEEPS(12), KEEPS(13), KEEPS(14), KEEPS(15)};

/* Makes logits[64] minus infinity where the word has no bit; mostly it has nearly all or none. */
static void forbid(float *logits, uint64_t allowed) {
    const uint32_t minus_infinity = 0xff800000u;
    const four_words all = {minus_infinity, minus_infinity, minus_infinity, minus_infinity};
    if (allowed == 0) {
        for (size_t i = 0; i < 64; i += 4)
            memcpy(logits + i, &all, sizeof all);
        return;
    }
    uint64_t rest = ~allowed;
    for (int few = 6; rest != 0 && few > 0; few--, rest &= rest - 1)
        logits[__builtin_ctzll(rest)] = -INFINITY;
    for (size_t i = 0; rest != 0 && i < 64; i += 4) {
        four_words keep = keeps[allowed >> i & 15], words;
        memcpy(&words, logits + i, sizeof words);
        words = (words & keep) | (all & ~keep);
        memcpy(logits + i, &words, sizeof words);
    }
}

/* Collects in masker->allowed what may come next, ids that end a sequence included where the
 * grammar may end. *ended: the text is complete and nothing can follow. */
static ln_status collect(ln_masker *masker, ln_grammar *grammar, ln_grammar_state *state,
                         const int32_t *tokens, size_t n_tokens, const int32_t *stop_ids,
                         size_t n_stop_ids, bool *ended, ln_error *err) {
    const ln_token_trie *trie = &masker->trie;
    uint64_t *allowed = masker->allowed, any = 0;
    const uint64_t *mask;
    bool may_end;
    LN_TRY(ln_masker_get(masker, grammar, state, tokens, n_tokens, &mask, &may_end, err));
    memcpy(allowed, mask, trie->n_words * sizeof *allowed);
    for (size_t i = 0; n_tokens == 0 && i < trie->n_words; i++)
        allowed[i] &= ~trie->first_other[i];
    for (size_t i = 0; i < n_stop_ids; i++)
        allowed[stop_ids[i] / 64] &= ~(1ull << stop_ids[i] % 64);
    for (size_t i = 0; i < trie->n_words; i++)
        any |= allowed[i];
    *ended = may_end && any == 0;
    if (any == 0 && !may_end)
        return ln_fail(err, LINNET_ERR_COMPUTE,
                       "no token of the vocabulary goes on with the grammar");
    for (size_t i = 0; may_end && i < n_stop_ids; i++)
        allowed[stop_ids[i] / 64] |= 1ull << stop_ids[i] % 64;
    return LINNET_OK;
}

ln_status ln_masker_apply(ln_masker *masker, ln_grammar *grammar, ln_grammar_state *state,
                          const int32_t *tokens, size_t n_tokens, const int32_t *stop_ids,
                          size_t n_stop_ids, float *logits, bool *ended, ln_error *err) {
    const ln_token_trie *trie = &masker->trie;
    const uint64_t *allowed = masker->allowed;
    LN_TRY(collect(masker, grammar, state, tokens, n_tokens, stop_ids, n_stop_ids, ended, err));
    if (*ended)
        return LINNET_OK;
    for (size_t i = 0; i < trie->n_vocab / 64; i++)
        forbid(logits + i * 64, allowed[i]);
    for (size_t id = trie->n_vocab / 64 * 64; id < trie->n_vocab; id++)
        if ((allowed[id / 64] >> id % 64 & 1) == 0)
            logits[id] = -INFINITY;
    return LINNET_OK;
}

/* The one id of a mask; -1: there are none or several. */
static int32_t only_id(const uint64_t *mask, size_t n_words) {
    int32_t id = -1;
    for (size_t i = 0; i < n_words; i++) {
        if (mask[i] == 0)
            continue;
        if (id >= 0 || (mask[i] & (mask[i] - 1)) != 0)
            return -1;
        id = (int32_t)(i * 64) + __builtin_ctzll(mask[i]);
    }
    return id;
}

/* Whether the text goes on with one byte alone, or ends: all else has no mask that leaves one
 * token, but for vocabularies that lack bytes. */
static bool goes_on_alone(const ln_grammar *grammar, const ln_grammar_state *state) {
    const ln_automaton_state *at = &grammar->automaton.states[state->state];
    return !at->accepts && ln_byte_set_count(&at->live) == 1;
}

int32_t ln_masker_forced(ln_masker *masker, ln_grammar *grammar, ln_grammar_state *state,
                         const int32_t *tokens, size_t n_tokens, const int32_t *stop_ids,
                         size_t n_stop_ids) {
    bool ended;
    if (catch_up(&masker->trie, grammar, state, tokens, n_tokens, NULL) != LINNET_OK ||
        !goes_on_alone(grammar, state) ||
        collect(masker, grammar, state, tokens, n_tokens, stop_ids, n_stop_ids, &ended, NULL) !=
            LINNET_OK ||
        ended)
        return -1;
    return only_id(masker->allowed, masker->trie.n_words);
}
