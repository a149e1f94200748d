#include "grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash/fnv.h"

/* Sets of the automaton's states, each a state of the new one. */
typedef struct subset {
    size_t begin; /* in `members` */
    uint32_t count, chain;
    uint64_t hash;
} subset;

typedef struct subset_builder {
    const ln_nfa *nfa;
    uint32_t *members; /* of all subsets, ascending in each */
    size_t n_members, member_capacity;
    subset *subsets;
    size_t n_subsets, subset_capacity, max_subsets;
    uint32_t heads[1024]; /* subset + 1 */
    uint32_t *seen;       /* [n_states] epoch */
    uint32_t epoch;
    uint32_t *work; /* [n_states] */
    size_t n_work;
    const ln_nfa_edge **edges; /* of one subset */
    size_t n_edges, edge_capacity;
    uint16_t *next; /* [subsets][n_classes] */
    size_t next_capacity;
    uint8_t class_of[256], byte_of_class[256];
    uint32_t n_classes;
    uint64_t *fuel;
    bool fits, failed;
} subset_builder;

static bool spend(subset_builder *b, uint64_t amount) {
    if (*b->fuel < amount) {
        *b->fuel = 0;
        b->fits = false;
        return false;
    }
    *b->fuel -= amount;
    return true;
}

/* Bytes that no edge tells apart are one class. */
static void find_classes(subset_builder *b, const uint32_t *states, size_t n_states) {
    bool begins[257] = {true};
    for (size_t i = 0; i < n_states; i++) {
        const ln_nfa *nfa = b->nfa;
        for (uint32_t e = nfa->first[states[i]]; e != 0; e = nfa->edges[e].next) {
            if (nfa->edges[e].kind == LN_EDGE_BYTES) {
                begins[nfa->edges[e].low] = true;
                begins[nfa->edges[e].high + 1] = true;
            }
        }
    }
    b->n_classes = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        if (begins[byte])
            b->byte_of_class[b->n_classes++] = (uint8_t)byte;
        b->class_of[byte] = (uint8_t)(b->n_classes - 1);
    }
}

static void visit(subset_builder *b, uint32_t state) {
    if (b->seen[state] == b->epoch)
        return;
    b->seen[state] = b->epoch;
    b->work[b->n_work++] = state;
}

/* Follows empty edges from what `work` holds. */
static void close_over(subset_builder *b) {
    for (size_t i = 0; i < b->n_work; i++) {
        uint32_t e = b->nfa->first[b->work[i]];
        for (; e != 0 && spend(b, 1); e = b->nfa->edges[e].next)
            if (b->nfa->edges[e].kind == LN_EDGE_EMPTY)
                visit(b, b->nfa->edges[e].target);
    }
}

static int compare_states(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void sort_work(subset_builder *b) {
    enum { FEW = 16 };
    if (b->n_work > FEW) {
        qsort(b->work, b->n_work, sizeof *b->work, compare_states);
        return;
    }
    for (size_t i = 1; i < b->n_work; i++) {
        uint32_t state = b->work[i];
        size_t at = i;
        for (; at > 0 && b->work[at - 1] > state; at--)
            b->work[at] = b->work[at - 1];
        b->work[at] = state;
    }
}

/* The number of the subset in `work`, which is added when it is new. */
static uint32_t intern(subset_builder *b) {
    uint64_t hash = LN_FNV_START;
    sort_work(b);
    for (size_t i = 0; i < b->n_work; i++)
        hash = ln_fnv_add(hash, b->work[i]);
    uint32_t *head = &b->heads[(hash ^ hash >> 15) % (sizeof b->heads / sizeof *b->heads)];
    for (uint32_t at = *head; at != 0; at = b->subsets[at - 1].chain) {
        const subset *s = &b->subsets[at - 1];
        if (s->hash == hash && s->count == b->n_work &&
            memcmp(b->members + s->begin, b->work, b->n_work * sizeof *b->work) == 0)
            return at - 1;
    }
    if (b->n_subsets == b->max_subsets || !spend(b, b->n_work)) {
        b->fits = false;
        return 0;
    }
    if (!ln_grow((void **)&b->members, &b->member_capacity, b->n_members + b->n_work + 1,
                 sizeof *b->members) ||
        !ln_grow((void **)&b->subsets, &b->subset_capacity, b->n_subsets + 1, sizeof *b->subsets)) {
        b->failed = true;
        return 0;
    }
    if (b->n_work > 0)
        memcpy(b->members + b->n_members, b->work, b->n_work * sizeof *b->work);
    b->subsets[b->n_subsets] = (subset){b->n_members, (uint32_t)b->n_work, *head, hash};
    b->n_members += b->n_work;
    *head = (uint32_t)++b->n_subsets;
    return *head - 1;
}

/* Lists the edges of a subset that take bytes, and at which classes one of them begins or ends:
 * from there to the next of these, the subset goes to the same one. */
static void list_edges(subset_builder *b, uint32_t from, bool *turns) {
    const ln_nfa *nfa = b->nfa;
    subset s = b->subsets[from];
    b->n_edges = 0;
    memset(turns, 0, 257 * sizeof *turns);
    turns[0] = true;
    for (uint32_t i = 0; i < s.count; i++) {
        uint32_t e = nfa->first[b->members[s.begin + i]];
        for (; e != 0 && spend(b, 1); e = nfa->edges[e].next) {
            const ln_nfa_edge *edge = &nfa->edges[e];
            if (edge->kind != LN_EDGE_BYTES)
                continue;
            if (!ln_grow((void **)&b->edges, &b->edge_capacity, b->n_edges + 1, sizeof *b->edges)) {
                b->failed = true;
                return;
            }
            b->edges[b->n_edges++] = edge;
            turns[b->class_of[edge->low]] = true;
            turns[b->class_of[edge->high] + 1] = true;
        }
    }
}

/* Where the subset whose edges are listed goes along the bytes of a class. */
static uint16_t step(subset_builder *b, uint8_t byte) {
    bool counts = false;
    b->n_work = 0;
    b->epoch++;
    for (size_t i = 0; i < b->n_edges && spend(b, 1); i++) {
        const ln_nfa_edge *edge = b->edges[i];
        if (byte < edge->low || byte > edge->high)
            continue;
        counts |= edge->counts;
        visit(b, edge->target);
    }
    close_over(b);
    uint32_t next = intern(b);
    return (uint16_t)(next | (counts && next != LN_DFA_DEAD ? LN_DFA_COUNTS : 0));
}

static void explore(subset_builder *b, uint32_t from) {
    bool turns[257];
    b->epoch = 1;
    b->n_work = 0;
    intern(b); /* the dead state */
    visit(b, from);
    close_over(b);
    intern(b); /* the start; never equal to the dead one */
    for (size_t at = 0; at < b->n_subsets && b->fits && !b->failed; at++) {
        if (!ln_grow((void **)&b->next, &b->next_capacity, (at + 1) * b->n_classes,
                     sizeof *b->next)) {
            b->failed = true;
            return;
        }
        uint16_t *next = b->next + at * b->n_classes;
        list_edges(b, (uint32_t)at, turns);
        for (uint32_t c = 0; c < b->n_classes && b->fits && !b->failed; c++)
            next[c] = turns[c] ? step(b, b->byte_of_class[c]) : next[c - 1];
    }
}

/* Removes transitions to states from which no end is reached. */
static void trim(subset_builder *b, bool *accepts, bool *useful) {
    memcpy(useful, accepts, b->n_subsets * sizeof *useful);
    for (bool changed = true; changed && b->fits;) {
        changed = false;
        spend(b, b->n_subsets * b->n_classes);
        for (size_t at = b->n_subsets; at-- > 1;)
            for (uint32_t c = 0; c < b->n_classes && !useful[at]; c++)
                if (useful[b->next[at * b->n_classes + c] & ~(unsigned)LN_DFA_COUNTS])
                    useful[at] = changed = true;
    }
    for (size_t i = 0; i < b->n_subsets * b->n_classes; i++)
        if (!useful[b->next[i] & ~(unsigned)LN_DFA_COUNTS])
            b->next[i] = LN_DFA_DEAD;
}

/* Shortest ways to an end, by characters (Bellman and Ford). */
static void find_needs(ln_dfa *dfa) {
    enum { FAR = UINT16_MAX };
    for (uint32_t state = 0; state < dfa->n_states; state++)
        dfa->need[state] = dfa->accepts[state] || !dfa->counts ? 0 : FAR;
    for (bool changed = dfa->counts; changed;) {
        changed = false;
        for (uint32_t state = dfa->n_states; state-- > 1;) {
            for (uint32_t c = 0; c < dfa->n_classes; c++) {
                uint16_t next = dfa->next[state * dfa->n_classes + c];
                unsigned via = dfa->need[next & ~(unsigned)LN_DFA_COUNTS];
                via += (next & LN_DFA_COUNTS) != 0;
                if (next == LN_DFA_DEAD || via >= dfa->need[state])
                    continue;
                dfa->need[state] = (uint16_t)via;
                changed = true;
            }
        }
    }
    for (uint32_t state = 1; state < dfa->n_states; state++)
        if (dfa->need[state] != FAR && dfa->need[state] > dfa->most_needed)
            dfa->most_needed = dfa->need[state];
}

/* Which bytes each state goes on with. */
static void list_bytes(ln_dfa *dfa) {
    ln_byte_set classes[256] = {0};
    for (unsigned byte = 0; byte < 256; byte++)
        classes[dfa->class_of[byte]].bits[byte >> 6] |= 1ull << (byte & 63);
    for (uint32_t at = 0; at < dfa->n_states; at++) {
        const uint16_t *next = dfa->next + (size_t)at * dfa->n_classes;
        for (uint32_t c = 0; c < dfa->n_classes; c++) {
            if (next[c] == LN_DFA_DEAD)
                continue;
            bool counts = (next[c] & LN_DFA_COUNTS) != 0;
            dfa->counts |= counts;
            for (unsigned i = 0; i < 4; i++) {
                dfa->live[at].bits[i] |= classes[c].bits[i];
                if (!counts)
                    dfa->uncounted[at].bits[i] |= classes[c].bits[i];
            }
        }
    }
}

static bool copy_out(subset_builder *b, ln_dfa *dfa, ln_arena *arena, uint32_t to) {
    size_t n = b->n_subsets;
    *dfa = (ln_dfa){.n_states = (uint32_t)n, .n_classes = b->n_classes};
    memcpy(dfa->class_of, b->class_of, sizeof dfa->class_of);
    dfa->next = ln_arena_alloc(arena, n * b->n_classes, sizeof *dfa->next);
    dfa->accepts = ln_arena_alloc(arena, n, sizeof *dfa->accepts);
    dfa->live = ln_arena_alloc(arena, n, sizeof *dfa->live);
    dfa->uncounted = ln_arena_alloc(arena, n, sizeof *dfa->uncounted);
    dfa->need = ln_arena_alloc(arena, n, sizeof *dfa->need);
    bool *useful = calloc(n + 1, sizeof *useful);
    bool done = dfa->need != NULL && dfa->next != NULL && dfa->accepts != NULL &&
                dfa->live != NULL && dfa->uncounted != NULL && useful != NULL;
    for (size_t at = 0; done && at < n; at++)
        for (uint32_t i = 0; i < b->subsets[at].count; i++)
            dfa->accepts[at] |= b->members[b->subsets[at].begin + i] == to;
    if (done) {
        trim(b, dfa->accepts, useful);
        memcpy(dfa->next, b->next, n * b->n_classes * sizeof *b->next);
        if (!useful[LN_DFA_START])
            dfa->n_states = 1;
    }
    if (done)
        list_bytes(dfa);
    if (done)
        find_needs(dfa);
    free(useful);
    return done;
}

/* The states that `from` reaches, to b->work. */
static void find_states(subset_builder *b, uint32_t from) {
    b->epoch = 1;
    b->n_work = 0;
    visit(b, from);
    for (size_t i = 0; i < b->n_work; i++)
        for (uint32_t e = b->nfa->first[b->work[i]]; e != 0; e = b->nfa->edges[e].next)
            visit(b, b->nfa->edges[e].target);
}

ln_status ln_dfa_build(ln_dfa *dfa, ln_arena *arena, const ln_nfa *nfa, uint32_t from, uint32_t to,
                       size_t max_states, uint64_t *fuel, bool *fits, ln_error *err) {
    subset_builder *b = calloc(1, sizeof *b);
    bool done = b != NULL;
    *fits = true;
    if (done) {
        b->nfa = nfa;
        b->fuel = fuel;
        b->fits = true;
        b->max_subsets = max_states < LN_DFA_MAX_STATES ? max_states : LN_DFA_MAX_STATES;
        b->seen = calloc(nfa->n_states + 1, sizeof *b->seen);
        b->work = malloc((nfa->n_states + 1) * sizeof *b->work);
        done = b->seen != NULL && b->work != NULL;
    }
    if (done) {
        find_states(b, from);
        find_classes(b, b->work, b->n_work);
        memset(b->seen, 0, nfa->n_states * sizeof *b->seen);
        explore(b, from);
        done = !b->failed;
    }
    if (done && b->fits)
        done = copy_out(b, dfa, arena, to);
    if (b != NULL) {
        *fits = b->fits;
        free(b->members);
        free(b->subsets);
        free(b->seen);
        free(b->work);
        free((void *)b->edges);
        free(b->next);
        free(b);
    }
    return done ? LINNET_OK : ln_fail_memory(err, "a grammar");
}

/* ---- ends --------------------------------------------------------------------------------------
 */

/* The sum over a state's transitions; UINT32_MAX: one leads to where it is not known, or any. */
static uint32_t count_from(const ln_dfa *dfa, const uint32_t *ends, uint32_t state) {
    uint64_t sum = dfa->accepts[state];
    for (unsigned byte = 0; byte < 256; byte++) {
        uint16_t next = ln_dfa_step(dfa, state, (uint8_t)byte);
        if (next == LN_DFA_DEAD)
            continue;
        uint32_t after = ends[next & ~(unsigned)LN_DFA_COUNTS];
        if (after == UINT32_MAX)
            return UINT32_MAX;
        sum += after;
    }
    return sum < UINT32_MAX - 1 ? (uint32_t)sum : UINT32_MAX - 1;
}

/* Whatever reaches a circle, from which each state reaches an end, stays as it is at first. */
const uint32_t *ln_dfa_count_ends(const ln_dfa *dfa, ln_arena *arena) {
    uint32_t *ends = ln_arena_alloc(arena, dfa->n_states, sizeof *ends);
    if (ends == NULL)
        return NULL;
    for (uint32_t state = 0; state < dfa->n_states; state++)
        ends[state] = state == LN_DFA_DEAD ? 0 : UINT32_MAX;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t state = dfa->n_states; state-- > LN_DFA_START;) {
            if (ends[state] != UINT32_MAX)
                continue;
            ends[state] = count_from(dfa, ends, state);
            changed |= ends[state] != UINT32_MAX;
        }
    }
    return ends;
}
