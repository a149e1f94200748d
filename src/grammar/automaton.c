#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/layout.h"

enum { NODE_HEADS = 4096, STATE_HEADS = 2048, SET_HEADS = 512 };

/* How many texts of items there may be: none where no terminal keeps them. */
static size_t count_texts(const ln_program *program) {
    for (size_t i = 0; i < program->n_terminals; i++)
        if (program->terminals[i].ends != NULL)
            return LN_AUTOMATON_TEXTS;
    return 0;
}

ln_status ln_automaton_init(ln_automaton *automaton, const ln_program *program, ln_error *err) {
    ln_layout layout = {0};
    size_t nodes = ln_layout_add(&layout, LN_AUTOMATON_NODES, sizeof(ln_stack_node));
    size_t states = ln_layout_add(&layout, LN_AUTOMATON_STATES, sizeof(ln_automaton_state));
    size_t items = ln_layout_add(&layout, LN_AUTOMATON_ITEMS, sizeof(uint32_t));
    size_t node_heads = ln_layout_add(&layout, NODE_HEADS, sizeof(uint32_t));
    size_t state_heads = ln_layout_add(&layout, STATE_HEADS, sizeof(uint32_t));
    size_t transitions = ln_layout_add(&layout, LN_AUTOMATON_TRANSITIONS, sizeof(uint64_t));
    size_t work = ln_layout_add(&layout, 3 * (size_t)LN_AUTOMATON_NODES, sizeof(uint32_t));
    size_t sets = ln_layout_add(&layout, 2 * LN_AUTOMATON_SETS, sizeof(ln_member_set));
    size_t set_heads = ln_layout_add(&layout, SET_HEADS + LN_AUTOMATON_SETS, sizeof(uint32_t));
    size_t n_texts = count_texts(program);
    size_t texts = ln_layout_add(&layout, n_texts, sizeof(ln_seen_text));
    size_t text_numbers = ln_layout_add(
        &layout, n_texts > 0 ? n_texts + LN_AUTOMATON_TEXT_HEADS : 0, sizeof(uint32_t));
    char *base = calloc(1, layout.bytes);
    if (base == NULL)
        return ln_fail_memory(err, "a grammar");
    ln_member_set *member_sets = (ln_member_set *)(void *)(base + sets);
    uint32_t *scratch = (uint32_t *)(void *)(base + work);
    *automaton = (ln_automaton){
        .program = program,
        .memory = base,
        .nodes = (ln_stack_node *)(void *)(base + nodes),
        .states = (ln_automaton_state *)(void *)(base + states),
        .items = (uint32_t *)(void *)(base + items),
        .node_heads = (uint32_t *)(void *)(base + node_heads),
        .state_heads = (uint32_t *)(void *)(base + state_heads),
        .transitions = (uint64_t *)(void *)(base + transitions),
        .work = scratch,
        .made = scratch + LN_AUTOMATON_NODES,
        .renamed = scratch + 2 * (size_t)LN_AUTOMATON_NODES,
        .sets = member_sets,
        .kept_sets = member_sets + LN_AUTOMATON_SETS,
        .set_heads = (uint32_t *)(void *)(base + set_heads),
        .set_numbers = (uint32_t *)(void *)(base + set_heads) + SET_HEADS,
        .n_sets = 1,
        .texts = n_texts > 0 ? (ln_seen_text *)(void *)(base + texts) : NULL,
        .text_heads = (uint32_t *)(void *)(base + text_numbers),
        .text_numbers = (uint32_t *)(void *)(base + text_numbers) + LN_AUTOMATON_TEXT_HEADS,
        .n_texts = 1,  /* text 0: the empty one */
        .n_nodes = 1,  /* node 0: the end of the text */
        .n_states = 1, /* state 0: dead */
        .generation = 1,
    };
    return LINNET_OK;
}

void ln_automaton_free(ln_automaton *automaton) {
    free(automaton->memory);
    *automaton = (ln_automaton){0};
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    uint64_t hash = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    hash = (hash ^ ((uint64_t)c << 32 | d)) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(hash >> 32 ^ hash >> 11);
}

/* The number of a node; 0 when memory is out, or it would be too deep. */
static uint32_t intern_node(ln_automaton *a, uint32_t position, uint32_t terminal, uint32_t count,
                            uint32_t parent) {
    uint32_t *head = &a->node_heads[mix(position, terminal, count, parent) % NODE_HEADS];
    for (uint32_t at = *head; at != 0; at = a->nodes[at].chain) {
        const ln_stack_node *node = &a->nodes[at];
        if (node->position == position && node->parent == parent && node->terminal == terminal &&
            node->count == count)
            return at;
    }
    uint32_t depth = a->nodes[parent].depth + 1;
    if (depth > LN_AUTOMATON_DEPTH)
        return 0;
    if (a->n_nodes == LN_AUTOMATON_NODES) {
        a->is_full = true;
        return 0;
    }
    a->nodes[a->n_nodes] = (ln_stack_node){.position = position,
                                           .terminal = terminal,
                                           .count = count,
                                           .parent = parent,
                                           .depth = depth,
                                           .chain = *head};
    *head = (uint32_t)a->n_nodes++;
    return *head;
}

/* ---- members of objects ------------------------------------------------------------------------
 */

/* The number of a set; 0 when memory is out. */
static uint32_t intern_set(ln_automaton *a, const ln_member_set *set) {
    uint32_t hash = set->others;
    for (size_t i = 0; i < LN_OBJECT_WORDS; i++)
        hash = mix(hash, (uint32_t)set->names[i], (uint32_t)(set->names[i] >> 32), 1);
    uint32_t *head = &a->set_heads[hash % SET_HEADS];
    for (uint32_t at = *head; at != 0; at = a->sets[at].chain)
        if (a->sets[at].others == set->others &&
            memcmp(a->sets[at].names, set->names, sizeof set->names) == 0)
            return at;
    if (a->n_sets == LN_AUTOMATON_SETS) {
        a->is_full = true;
        return 0;
    }
    a->sets[a->n_sets] = *set;
    a->sets[a->n_sets].chain = *head;
    *head = (uint32_t)a->n_sets++;
    return *head;
}

/* How far an object is. */
typedef struct member_counts {
    uint32_t named, missing, unseen, others;
} member_counts;

static member_counts count_members(const ln_object *o, const ln_member_set *set) {
    member_counts n = {.others = set->others};
    for (size_t i = 0; i < LN_OBJECT_WORDS; i++) {
        n.named += (uint32_t)__builtin_popcountll(set->names[i]);
        n.missing += (uint32_t)__builtin_popcountll(o->required[i] & ~set->names[i]);
        n.unseen += (uint32_t)__builtin_popcountll(o->usable[i] & ~set->names[i]);
    }
    return n;
}

/* Whether there is a way to go on to an object that is complete. Others may have one name twice, so
 * only one of them counts for the minimum. */
static bool can_finish(const ln_object *o, member_counts n) {
    uint32_t total = n.named + n.others, room = o->max == LN_NO_LIMIT ? UINT32_MAX : o->max - total;
    uint32_t further = n.unseen + (o->has_other && n.others == 0);
    if (o->max != LN_NO_LIMIT && (total > o->max || n.missing > room))
        return false;
    return n.named + (n.others > 0) + (further < room ? further : room) >= o->min;
}

static bool can_take_other(const ln_object *o, member_counts n) {
    n.others++;
    return o->has_other && can_finish(o, n);
}

static bool can_take(const ln_object *o, member_counts n, bool is_required) {
    n.named++;
    n.unseen--;
    n.missing -= is_required;
    return can_finish(o, n);
}

/* Whether one of members low to high - 1 may come. */
static bool can_take_any(const ln_object *o, const ln_member_set *set, member_counts n,
                         uint32_t low, uint32_t high) {
    bool has_required = false, has_optional = false;
    for (uint32_t word = low / 64; word < LN_OBJECT_WORDS && word * 64 < high; word++) {
        uint64_t within = ~0ull;
        if (word * 64 < low)
            within &= ~0ull << (low - word * 64);
        if (high - word * 64 < 64)
            within &= ~(~0ull << (high - word * 64));
        uint64_t left = o->usable[word] & ~set->names[word] & within;
        has_required |= (left & o->required[word]) != 0;
        has_optional |= (left & ~o->required[word]) != 0;
    }
    return (has_required && can_take(o, n, true)) || (has_optional && can_take(o, n, false));
}

/* Whether a guard lets a set of members pass; *number becomes what it is behind it. */
static bool pass_guard(ln_automaton *a, const ln_guard *guard, uint32_t *number) {
    if (guard->kind == LN_GUARD_UNSEEN) {
        const ln_terminal *t = &a->program->terminals[guard->low];
        return t->ends[LN_DFA_START] > ln_seen_count(a, *number);
    }
    const ln_object *o = &a->program->objects[guard->object];
    ln_member_set set = a->sets[*number];
    member_counts n = count_members(o, &set);
    uint32_t limit = o->max != LN_NO_LIMIT ? UINT32_MAX : 1;
    switch (guard->kind) {
    case LN_GUARD_ANY: return can_take_any(o, &set, n, guard->low, guard->high);
    case LN_GUARD_FIRST: return *number == 0;
    case LN_GUARD_MORE:
        return *number != 0 && (can_take_other(o, n) || can_take_any(o, &set, n, 0, o->n_named));
    case LN_GUARD_TAKE:
        if (!can_take_any(o, &set, n, guard->low, guard->low + 1))
            return false;
        set.names[guard->low / 64] |= 1ull << guard->low % 64;
        break;
    case LN_GUARD_OTHER:
        if (!can_take_other(o, n))
            return false;
        set.others += set.others < limit;
        break;
    case LN_GUARD_UNSEEN:
    case LN_GUARD_DONE:
    default: return n.missing == 0 && n.named + (n.others > 0) >= o->min;
    }
    *number = intern_set(a, &set);
    return *number != 0;
}

/* ---- sets of stacks -------------------------------------------------------------------------- */

static void begin(ln_automaton *a) {
    if (++a->epoch == 0) /* so many sets were made that the numbers begin anew */
        for (size_t i = 0; i < a->n_nodes; i++)
            a->nodes[i].mark = 0;
    a->epoch += a->epoch == 0;
    a->n_work = a->n_made = 0;
    a->made_accepts = a->is_full = false;
}

/* True for a node that is new to the set. */
static bool mark(ln_automaton *a, uint32_t node) {
    if (node == 0 || a->nodes[node].mark == a->epoch)
        return false;
    a->nodes[node].mark = a->epoch;
    return true;
}

/* Goes on after what has ended. */
static void resume(ln_automaton *a, uint32_t node) {
    if (node == 0)
        a->made_accepts = true;
    else if (mark(a, node))
        a->work[a->n_work++] = node;
}

static void enter_state(ln_automaton *a, uint32_t position, uint32_t set, uint32_t parent) {
    uint32_t node = intern_node(a, position, LN_NO_TERMINAL, set, parent);
    if (mark(a, node))
        a->work[a->n_work++] = node;
}

/* A terminal whose text differs from those before it, which the set of its parent has. */
static void enter_unique(ln_automaton *a, uint32_t terminal, uint32_t position, uint32_t text,
                         uint32_t parent) {
    const ln_terminal *t = &a->program->terminals[terminal];
    ln_stack_node after = a->nodes[parent];
    if (parent == 0)
        return; /* memory is out */
    if (a->program->dfas[t->dfa].accepts[position] && !ln_seen_is_unknown(a, after.count) &&
        !ln_seen_has(a, after.count, text)) {
        ln_member_set set = ln_seen_add(a, after.count, text);
        uint32_t number = intern_set(a, &set);
        if (number != 0)
            enter_state(a, after.position, number, after.parent);
    }
    ln_byte_set live = ln_seen_live(a, t, position, after.count, text);
    uint32_t node = (live.bits[0] | live.bits[1] | live.bits[2] | live.bits[3]) != 0
                        ? intern_node(a, position, terminal, text, parent)
                        : 0;
    if (mark(a, node))
        a->made[a->n_made++] = node;
}

static ln_byte_set live_bytes(const ln_program *program, uint32_t terminal, uint32_t position,
                              uint32_t count) {
    const ln_terminal *t = &program->terminals[terminal];
    const ln_dfa *dfa = &program->dfas[t->dfa];
    if (dfa->most_needed == 0 || t->max == LN_NO_LIMIT)
        return (dfa->counts && count >= t->max ? dfa->uncounted : dfa->live)[position];
    ln_byte_set live = {{0}};
    for (unsigned byte = 0; byte < 256; byte++) {
        uint16_t next = ln_dfa_step(dfa, position, (uint8_t)byte);
        if (next != LN_DFA_DEAD && ln_dfa_fits(dfa, next, count, t->max))
            live.bits[byte >> 6] |= 1ull << (byte & 63);
    }
    return live;
}

static bool is_any_live(const ln_byte_set *set) {
    return (set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3]) != 0;
}

/* Stands in a terminal after `count` characters, and where it has ended when it
 * may have. */
static void enter_terminal(ln_automaton *a, uint32_t terminal, uint32_t position, uint32_t count,
                           uint32_t parent) {
    const ln_terminal *t = &a->program->terminals[terminal];
    if (t->ends != NULL) {
        enter_unique(a, terminal, position, count, parent);
        return;
    }
    if (t->max == LN_NO_LIMIT && count > t->min)
        count = t->min; /* more does not matter */
    if (a->program->dfas[t->dfa].accepts[position] && count >= t->min)
        resume(a, parent);
    ln_byte_set live = live_bytes(a->program, terminal, position, count);
    if (!is_any_live(&live))
        return;
    uint32_t node = intern_node(a, position, terminal, count, parent);
    if (mark(a, node))
        a->made[a->n_made++] = node;
}

/* What comes after a call that returns to `target` in the rule of `node`. */
static uint32_t continuation(ln_automaton *a, uint32_t target, uint32_t set, uint32_t parent,
                             bool is_kept, bool *fits) {
    *fits = true;
    if (!is_kept && a->program->is_end[target] && a->program->nfa.first[target] == 0)
        return parent;
    uint32_t node = intern_node(a, target, LN_NO_TERMINAL, set, parent);
    *fits = node != 0;
    return node;
}

/* Follows all that needs no byte. */
static void close_over(ln_automaton *a) {
    const ln_program *program = a->program;
    for (size_t i = 0; i < a->n_work; i++) {
        uint32_t number = a->work[i];
        ln_stack_node node = a->nodes[number];
        bool is_item = node.terminal != LN_NO_TERMINAL;
        uint32_t e = is_item ? 0 : program->nfa.first[node.position];
        if (!is_item && program->is_end[node.position])
            resume(a, node.parent);
        for (; e != 0; e = program->nfa.edges[e].next) {
            const ln_nfa_edge *edge = &program->nfa.edges[e];
            bool fits = true;
            uint32_t after = 0;
            if (edge->kind == LN_EDGE_CALL || edge->kind == LN_EDGE_TERMINAL)
                after = continuation(a, edge->target, node.count, node.parent,
                                     edge->kind == LN_EDGE_TERMINAL &&
                                         program->terminals[edge->value].ends != NULL,
                                     &fits);
            if (!fits)
                continue;
            switch ((ln_edge_kind)edge->kind) {
            case LN_EDGE_EMPTY: enter_state(a, edge->target, node.count, node.parent); break;
            case LN_EDGE_CALL: enter_state(a, program->starts[edge->value], 0, after); break;
            case LN_EDGE_GUARD:
                after = node.count;
                if (pass_guard(a, &program->guards[edge->value], &after))
                    enter_state(a, edge->target, after, node.parent);
                break;
            case LN_EDGE_TERMINAL: enter_terminal(a, edge->value, LN_DFA_START, 0, after); break;
            case LN_EDGE_BYTES:
            default: is_item = true; break;
            }
        }
        if (is_item)
            a->made[a->n_made++] = number;
    }
}

static void add_live(const ln_automaton *a, uint32_t item, ln_byte_set *live) {
    const ln_stack_node *node = &a->nodes[item];
    if (node->terminal != LN_NO_TERMINAL) {
        const ln_terminal *t = &a->program->terminals[node->terminal];
        ln_byte_set own =
            t->ends != NULL
                ? ln_seen_live(a, t, node->position, a->nodes[node->parent].count, node->count)
                : live_bytes(a->program, node->terminal, node->position, node->count);
        for (int i = 0; i < 4; i++)
            live->bits[i] |= own.bits[i];
        return;
    }
    const ln_nfa *nfa = &a->program->nfa;
    for (uint32_t e = nfa->first[node->position]; e != 0; e = nfa->edges[e].next)
        for (unsigned byte = nfa->edges[e].low;
             nfa->edges[e].kind == LN_EDGE_BYTES && byte <= nfa->edges[e].high; byte++)
            live->bits[byte >> 6] |= 1ull << (byte & 63);
}

static void sort(uint32_t *items, size_t n) {
    for (size_t gap = n / 2; gap > 0; gap /= 2) {
        for (size_t i = gap; i < n; i++) {
            uint32_t item = items[i];
            size_t at = i;
            for (; at >= gap && items[at - gap] > item; at -= gap)
                items[at] = items[at - gap];
            items[at] = item;
        }
    }
}

/* The number of the set that was made. */
static uint32_t intern_made(ln_automaton *a) {
    if (a->is_full)
        return LN_STATE_FULL;
    if (a->n_made == 0 && !a->made_accepts)
        return LN_STATE_DEAD;
    sort(a->made, a->n_made);
    uint32_t hash = a->made_accepts;
    for (size_t i = 0; i < a->n_made; i++)
        hash = mix(hash, a->made[i], 0, 0);
    uint32_t *head = &a->state_heads[hash % STATE_HEADS];
    for (uint32_t at = *head; at != 0; at = a->states[at].chain) {
        const ln_automaton_state *state = &a->states[at];
        if (state->hash == hash && state->n_items == a->n_made &&
            state->accepts == a->made_accepts &&
            memcmp(a->items + state->items, a->made, a->n_made * sizeof *a->made) == 0)
            return at;
    }
    if (a->n_states == LN_AUTOMATON_STATES || a->n_items + a->n_made > LN_AUTOMATON_ITEMS)
        return LN_STATE_FULL;
    ln_automaton_state *state = &a->states[a->n_states];
    *state = (ln_automaton_state){.items = (uint32_t)a->n_items,
                                  .n_items = (uint32_t)a->n_made,
                                  .hash = hash,
                                  .chain = *head,
                                  .accepts = a->made_accepts};
    memcpy(a->items + a->n_items, a->made, a->n_made * sizeof *a->made);
    a->n_items += a->n_made;
    for (size_t i = 0; i < a->n_made; i++)
        add_live(a, a->made[i], &state->live);
    *head = (uint32_t)a->n_states++;
    return *head;
}

/* ---- the automaton --------------------------------------------------------------------------- */

uint32_t ln_automaton_start(ln_automaton *a) {
    begin(a);
    enter_state(a, a->program->starts[a->program->root], 0, 0);
    close_over(a);
    return intern_made(a);
}

uint32_t ln_automaton_resume(ln_automaton *a, uint32_t node) {
    begin(a);
    resume(a, node);
    close_over(a);
    return intern_made(a);
}

uint32_t ln_automaton_resume_unknown(ln_automaton *a, uint32_t number) {
    ln_stack_node node = a->nodes[number];
    begin(a);
    ln_member_set set = ln_seen_add(a, node.count, LN_SEEN_UNKNOWN);
    uint32_t seen = intern_set(a, &set);
    if (seen != 0)
        enter_state(a, node.position, seen, node.parent);
    close_over(a);
    return intern_made(a);
}

uint32_t ln_automaton_subset(ln_automaton *a, const uint32_t *items, size_t n_items) {
    begin(a);
    memcpy(a->made, items, n_items * sizeof *items);
    a->n_made = n_items;
    return intern_made(a);
}

static void step_item(ln_automaton *a, uint32_t item, uint8_t byte) {
    ln_stack_node node = a->nodes[item];
    const ln_program *program = a->program;
    if (node.terminal != LN_NO_TERMINAL) {
        const ln_terminal *t = &program->terminals[node.terminal];
        const ln_dfa *dfa = &program->dfas[t->dfa];
        uint16_t next = ln_dfa_step(dfa, node.position, byte);
        bool counts = (next & LN_DFA_COUNTS) != 0;
        if (t->ends != NULL) {
            uint32_t seen = a->nodes[node.parent].count;
            if (ln_seen_leads_on(a, t, node.position, seen, node.count, byte))
                enter_unique(a, node.terminal, next & ~(unsigned)LN_DFA_COUNTS,
                             ln_seen_is_unknown(a, seen) ? 0 : ln_seen_extend(a, node.count, byte),
                             node.parent);
            return;
        }
        if (next == LN_DFA_DEAD || !ln_dfa_fits(dfa, next, node.count, t->max))
            return;
        enter_terminal(a, node.terminal, next & ~(unsigned)LN_DFA_COUNTS, node.count + counts,
                       node.parent);
        return;
    }
    for (uint32_t e = program->nfa.first[node.position]; e != 0; e = program->nfa.edges[e].next) {
        const ln_nfa_edge *edge = &program->nfa.edges[e];
        if (edge->kind == LN_EDGE_BYTES && byte >= edge->low && byte <= edge->high)
            enter_state(a, edge->target, node.count, node.parent);
    }
}

uint32_t ln_automaton_step(ln_automaton *a, uint32_t state, uint8_t byte) {
    if (!ln_byte_set_has(&a->states[state].live, byte))
        return LN_STATE_DEAD;
    uint32_t key = state << 8 | byte;
    uint64_t *known = &a->transitions[key * 2654435761u >> 18];
    if (*known >> 32 == key)
        return (uint32_t)*known;
    begin(a);
    for (uint32_t i = 0; i < a->states[state].n_items; i++)
        step_item(a, a->items[a->states[state].items + i], byte);
    close_over(a);
    uint32_t next = intern_made(a);
    if (next != LN_STATE_FULL)
        *known = (uint64_t)key << 32 | next;
    return next;
}

bool ln_automaton_is_crowded(const ln_automaton *a) {
    return a->n_nodes > LN_AUTOMATON_NODES / 2 || a->n_states > LN_AUTOMATON_STATES / 2 ||
           a->n_items > LN_AUTOMATON_ITEMS / 2 || a->n_sets > LN_AUTOMATON_SETS / 2 ||
           a->n_texts > LN_AUTOMATON_TEXTS / 2;
}

/* The new number of a set that is kept. */
static uint32_t keep_set(ln_automaton *a, uint32_t number) {
    if (number == 0 || a->set_numbers[number] != 0)
        return number == 0 ? 0 : a->set_numbers[number];
    ln_member_set set = a->sets[number];
    if (ln_seen_count(a, number) > 0) { /* its list was kept before it: see keep_list */
        set.names[0] =
            set.names[0] != LN_SEEN_UNKNOWN ? a->text_numbers[set.names[0]] : LN_SEEN_UNKNOWN;
        set.names[1] = a->set_numbers[set.names[1]];
    }
    a->kept_sets[a->n_sets] = set;
    return a->set_numbers[number] = (uint32_t)a->n_sets++;
}

/* The same for a list of items, the first of them first. */
static uint32_t keep_list(ln_automaton *a, uint32_t number) {
    uint32_t *lists = a->made, n = 0; /* free until the state is made anew */
    for (uint32_t at = number; ln_seen_count(a, at) > 0 && a->set_numbers[at] == 0;
         at = (uint32_t)a->sets[at].names[1])
        lists[n++] = at;
    while (n > 0)
        keep_set(a, lists[--n]);
    return keep_set(a, number);
}

/* Puts the sets that were kept in the place of all. */
static void replace_sets(ln_automaton *a) {
    ln_member_set *sets = a->kept_sets;
    size_t n_sets = a->n_sets;
    a->kept_sets = a->sets;
    a->sets = sets;
    a->n_sets = 1;
    memset(a->set_heads, 0, SET_HEADS * sizeof *a->set_heads);
    for (size_t i = 1; i < n_sets; i++)
        intern_set(a, &sets[i]); /* each gets its own number: they differ, and are in order */
}

/* Moves the nodes below the marked ones down, parents before their children;
 * a->renamed says where to. */
static void compact(ln_automaton *a) {
    size_t kept = 1;
    for (size_t i = a->n_nodes; i-- > 1;)
        if (a->nodes[i].mark == a->epoch)
            a->nodes[a->nodes[i].parent].mark = a->epoch;
    ln_seen_compact(a);
    a->renamed[0] = 0;
    memset(a->node_heads, 0, NODE_HEADS * sizeof *a->node_heads);
    memset(a->set_numbers, 0, LN_AUTOMATON_SETS * sizeof *a->set_numbers);
    a->n_sets = 1;
    for (size_t i = 1; i < a->n_nodes; i++) {
        if (a->nodes[i].mark != a->epoch)
            continue;
        ln_stack_node node = a->nodes[i];
        node.parent = a->renamed[node.parent];
        if (node.terminal == LN_NO_TERMINAL)
            node.count = keep_list(a, node.count);
        else if (a->program->terminals[node.terminal].ends != NULL)
            node.count = a->text_numbers[node.count];
        uint32_t hash = mix(node.position, node.terminal, node.count, node.parent);
        uint32_t *head = &a->node_heads[hash % NODE_HEADS];
        node.chain = *head;
        *head = a->renamed[i] = (uint32_t)kept;
        a->nodes[kept++] = node;
    }
    a->n_nodes = kept;
    replace_sets(a);
}

uint32_t ln_automaton_keep(ln_automaton *a, uint32_t number) {
    ln_automaton_state state = a->states[number];
    begin(a);
    for (uint32_t i = 0; i < state.n_items; i++)
        a->nodes[a->items[state.items + i]].mark = a->epoch;
    compact(a);
    begin(a);
    for (uint32_t i = 0; i < state.n_items && i < LN_AUTOMATON_NODES; i++)
        a->made[a->n_made++] = a->renamed[a->items[state.items + i]];
    a->made_accepts = state.accepts;
    a->n_states = 1;
    a->n_items = 0;
    a->generation++;
    memset(a->state_heads, 0, STATE_HEADS * sizeof *a->state_heads);
    memset(a->transitions, 0, LN_AUTOMATON_TRANSITIONS * sizeof *a->transitions);
    return intern_made(a);
}
