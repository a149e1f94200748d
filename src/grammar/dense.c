#include "grammar/dense.h"

#include <stdlib.h>
#include <string.h>

/* Characters that a token's end may need yet, so that they fit a byte with those of the token. */
enum { MOST_NEEDED = UINT8_MAX - LN_TRIE_MAX_DEPTH };

/* A walk over the trie with one automaton. */
typedef struct dense_walk {
    const ln_dfa *dfa;
    const ln_token_trie *trie;
    ln_dense_table *table;
    uint8_t *token_counts; /* [n_vocab] characters of each token inside, with
                              counting automata */
} dense_walk;

static void keep_token(const dense_walk *w, int32_t id, uint32_t count) {
    for (; id >= 0; id = w->trie->same[id]) {
        w->table->inside[id / 64] |= 1ull << id % 64;
        if (w->token_counts != NULL)
            w->token_counts[id] = (uint8_t)count;
    }
}

static bool goes_on(const ln_dfa *dfa, uint32_t state) {
    const ln_byte_set *live = &dfa->live[state];
    return (live->bits[0] | live->bits[1] | live->bits[2] | live->bits[3]) != 0;
}

/* exits[n_nodes] have room for all that there may be. */
static void walk(const dense_walk *w, ln_dense_exit *exits) {
    const ln_token_trie *trie = w->trie;
    const ln_dfa *dfa = w->dfa;
    uint16_t states[LN_TRIE_MAX_DEPTH + 1];
    uint8_t counts[LN_TRIE_MAX_DEPTH + 1];
    size_t n_exits = 0;
    states[0] = (uint16_t)w->table->state;
    counts[0] = 0;
    for (uint32_t node = 1; node < trie->n_nodes;) {
        size_t depth = trie->depth[node];
        uint16_t next = ln_dfa_step(dfa, states[depth - 1], trie->byte[node]);
        if (next == LN_DFA_DEAD) {
            node = trie->end[node];
            continue;
        }
        uint16_t state = next & (uint16_t)~LN_DFA_COUNTS;
        states[depth] = state;
        counts[depth] = (uint8_t)(counts[depth - 1] + ((next & LN_DFA_COUNTS) != 0));
        if (goes_on(dfa, state) && trie->token[node] >= 0)
            keep_token(w, trie->token[node], counts[depth] + (uint32_t)dfa->need[state]);
        if (dfa->accepts[state])
            exits[n_exits++] = (ln_dense_exit){node, counts[depth]};
        node++;
    }
    w->table->n_exits = n_exits;
}

/* Sorts the tokens by how many characters they begin. */
static ln_status fill_layers(const dense_walk *w, ln_arena *arena, ln_error *err) {
    ln_dense_table *table = w->table;
    size_t n_words = w->trie->n_words, n_vocab = w->trie->n_vocab;
    table->layers = ln_arena_alloc(arena, LN_DENSE_LAYERS * n_words, sizeof *table->layers);
    for (size_t id = 0; id < n_vocab; id++)
        table->n_by_count += w->token_counts[id] >= LN_DENSE_LAYERS;
    table->by_count = ln_arena_alloc(arena, table->n_by_count, sizeof *table->by_count);
    table->counts = ln_arena_alloc(arena, table->n_by_count, sizeof *table->counts);
    if (table->layers == NULL || table->by_count == NULL || table->counts == NULL)
        return ln_fail_memory(err, "a grammar");
    for (size_t id = 0; id < n_vocab; id++)
        if (w->token_counts[id] < LN_DENSE_LAYERS)
            table->layers[w->token_counts[id] * n_words + id / 64] |=
                table->inside[id / 64] & 1ull << id % 64;
    for (size_t i = n_words; i < LN_DENSE_LAYERS * n_words; i++)
        table->layers[i] |= table->layers[i - n_words];
    size_t begin[UINT8_MAX + 2] = {0}; /* a counting sort */
    for (size_t id = 0; id < n_vocab; id++)
        if (w->token_counts[id] >= LN_DENSE_LAYERS)
            begin[w->token_counts[id] + 1]++;
    for (size_t i = 1; i < sizeof begin / sizeof *begin; i++)
        begin[i] += begin[i - 1];
    for (size_t id = 0; id < n_vocab; id++) {
        if (w->token_counts[id] < LN_DENSE_LAYERS)
            continue;
        size_t at = begin[w->token_counts[id]]++;
        table->by_count[at] = (int32_t)id;
        table->counts[at] = w->token_counts[id];
    }
    return LINNET_OK;
}

static ln_status build_table(ln_dense_table *table, ln_arena *arena, const ln_program *program,
                             const ln_token_trie *trie, ln_error *err) {
    dense_walk w = {.dfa = &program->dfas[table->dfa], .trie = trie, .table = table};
    table->inside = ln_arena_alloc(arena, trie->n_words, sizeof *table->inside);
    if (table->inside == NULL)
        return ln_fail_memory(err, "a grammar");
    ln_dense_exit *exits = malloc(trie->n_nodes * sizeof *exits);
    if (w.dfa->counts)
        w.token_counts = calloc(trie->n_vocab + 1, 1);
    bool done = exits != NULL && (w.token_counts != NULL || !w.dfa->counts);
    if (done) {
        walk(&w, exits);
        table->exits = ln_arena_alloc(arena, table->n_exits, sizeof *table->exits);
        done = table->exits != NULL;
    }
    if (done && table->n_exits > 0)
        memcpy(table->exits, exits, table->n_exits * sizeof *exits);
    free(exits);
    ln_status status = done ? LINNET_OK : ln_fail_memory(err, "a grammar");
    if (done && w.token_counts != NULL)
        status = fill_layers(&w, arena, err);
    free(w.token_counts);
    return status;
}

/* ---- bases -------------------------------------------------------------------------------------
 */

/* How many printable characters of ASCII a state goes on with: most tokens begin with one. */
static unsigned count_ascii(const ln_dfa *dfa, uint32_t state) {
    const uint64_t *bits = dfa->live[state].bits;
    return (unsigned)(__builtin_popcountll(bits[0] >> 32) + __builtin_popcountll(bits[1]));
}

/* The state with many characters that most transitions lead to. */
static uint32_t find_base(const ln_dfa *dfa, uint32_t *counts) {
    enum { MIN_ASCII = 24 };
    uint32_t best = LN_DFA_DEAD;
    memset(counts, 0, dfa->n_states * sizeof *counts);
    for (size_t i = dfa->n_classes; i < (size_t)dfa->n_states * dfa->n_classes; i++)
        counts[dfa->next[i] & ~(unsigned)LN_DFA_COUNTS]++;
    for (uint32_t state = LN_DFA_START; state < dfa->n_states; state++)
        if (count_ascii(dfa, state) >= MIN_ASCII &&
            (best == LN_DFA_DEAD || counts[state] > counts[best]))
            best = state;
    return best;
}

/* Whether two states go on with the same texts, and count them alike; as far as few states show. */
static bool are_alike(const ln_dfa *a, uint32_t from_a, const ln_dfa *b, uint32_t from_b) {
    enum { MOST = 64 };
    uint32_t pairs[MOST][2] = {{from_a, from_b}};
    size_t n = 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t p = pairs[i][0], q = pairs[i][1];
        if (a->accepts[p] != b->accepts[q] || a->need[p] != b->need[q] ||
            memcmp(&a->live[p], &b->live[q], sizeof *a->live) != 0 ||
            memcmp(&a->uncounted[p], &b->uncounted[q], sizeof *a->uncounted) != 0)
            return false;
        for (unsigned byte = 0; byte < 256; byte++) {
            uint16_t next_p = ln_dfa_step(a, p, (uint8_t)byte);
            uint16_t next_q = ln_dfa_step(b, q, (uint8_t)byte);
            uint32_t pair[2] = {next_p & ~(unsigned)LN_DFA_COUNTS,
                                next_q & ~(unsigned)LN_DFA_COUNTS};
            size_t known = 0;
            while (next_p != LN_DFA_DEAD && known < n &&
                   (pairs[known][0] != pair[0] || pairs[known][1] != pair[1]))
                known++;
            if (next_p == LN_DFA_DEAD || known < n)
                continue;
            if (n == MOST)
                return false;
            memcpy(pairs[n++], pair, sizeof pair);
        }
    }
    return true;
}

/* A table for a state that goes on like this one; those of `dense` are for states of `program`. */
static const ln_dense_table *find_alike(const ln_dense *dense, const ln_program *program,
                                        const ln_dfa *dfa, uint32_t state) {
    for (size_t i = 0; i < dense->n_tables; i++) {
        const ln_dense_table *table = &dense->tables[i];
        if (are_alike(&program->dfas[table->dfa], table->state, dfa, state))
            return table;
    }
    return NULL;
}

static ln_status add_base(ln_dense *dense, ln_arena *arena, const ln_program *program,
                          const ln_token_trie *trie, uint32_t dfa, uint32_t state, ln_error *err) {
    ln_dense_base *base = &dense->bases[dfa];
    if (base->table == NULL)
        base->table = find_alike(dense, program, &program->dfas[dfa], state);
    if (base->table == NULL) {
        if (dense->n_tables == LN_DENSE_TABLES)
            return LINNET_OK;
        ln_dense_table *table = &dense->tables[dense->n_tables++];
        *table = (ln_dense_table){.dfa = dfa, .state = state};
        LN_TRY(build_table(table, arena, program, trie, err));
        base->table = table;
    }
    base->state = state;
    return LINNET_OK;
}

ln_status ln_dense_build(ln_dense *dense, ln_arena *arena, const ln_program *program,
                         const ln_token_trie *trie, const ln_dense *common,
                         const ln_program *common_program, ln_error *err) {
    uint32_t *counts = calloc(LN_DFA_MAX_STATES + 1, sizeof *counts);
    dense->bases = ln_arena_alloc(arena, program->n_dfas, sizeof *dense->bases);
    ln_status status =
        counts != NULL && dense->bases != NULL ? LINNET_OK : ln_fail_memory(err, "a grammar");
    for (uint32_t i = 0; status == LINNET_OK && i < program->n_dfas; i++) {
        const ln_dfa *dfa = &program->dfas[i];
        uint32_t state = dfa->most_needed <= MOST_NEEDED ? find_base(dfa, counts) : LN_DFA_DEAD;
        if (state != LN_DFA_DEAD && common != NULL)
            dense->bases[i].table = find_alike(common, common_program, dfa, state);
        if (state != LN_DFA_DEAD)
            status = add_base(dense, arena, program, trie, i, state, err);
    }
    free(counts);
    return status;
}

const ln_dense_base *ln_dense_find(const ln_dense *dense, const ln_program *program, uint32_t dfa,
                                   uint32_t state) {
    enum { MOST_DIFFERENT = 48 }; /* of the first bytes */
    const ln_dense_base *base = dense->bases != NULL ? &dense->bases[dfa] : NULL;
    const ln_dfa *d = &program->dfas[dfa];
    unsigned n = 0;
    if (base == NULL || base->state == LN_DFA_DEAD)
        return NULL;
    for (unsigned byte = 0; byte < 256 && state != base->state; byte++)
        n += ln_dfa_step(d, state, (uint8_t)byte) != ln_dfa_step(d, base->state, (uint8_t)byte);
    return n <= MOST_DIFFERENT ? base : NULL;
}

void ln_dense_add(const ln_dense_table *table, size_t n_words, uint32_t room, uint64_t *mask) {
    const uint64_t *layer = table->inside;
    size_t n = table->n_by_count;
    bool is_limited = table->layers != NULL && n > 0 && room < table->counts[n - 1];
    if (table->layers != NULL && (is_limited || room < LN_DENSE_LAYERS))
        layer = table->layers + (room < LN_DENSE_LAYERS ? room : LN_DENSE_LAYERS - 1) * n_words;
    for (size_t i = 0; i < n_words; i++)
        mask[i] |= layer[i];
    for (size_t i = 0; is_limited && i < n && table->counts[i] <= room; i++)
        mask[table->by_count[i] / 64] |= 1ull << table->by_count[i] % 64;
}
