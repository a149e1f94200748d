/* Items that differ: texts, and sets of them. */
#include "grammar/automaton.h"

#include <string.h>

/* A set of this kind has no others to count. */
#define IS_LIST UINT32_MAX

static const ln_member_set *list_at(const ln_automaton *a, uint32_t number) {
    const ln_member_set *set = &a->sets[number];
    return number != 0 && set->others == IS_LIST ? set : NULL;
}

static uint32_t *find_head(const ln_automaton *a, uint32_t text, uint8_t byte) {
    return &a->text_heads[(text * 2654435761u ^ byte * 40503u) % LN_AUTOMATON_TEXT_HEADS];
}

uint32_t ln_seen_find(const ln_automaton *a, uint32_t text, uint8_t byte) {
    for (uint32_t at = *find_head(a, text, byte); at != 0; at = a->texts[at].chain)
        if (a->texts[at].parent == text && a->texts[at].byte == byte)
            return at;
    return 0;
}

uint32_t ln_seen_extend(ln_automaton *a, uint32_t text, uint8_t byte) {
    uint32_t known = ln_seen_find(a, text, byte), *head = find_head(a, text, byte);
    if (known != 0)
        return known;
    if (a->n_texts == LN_AUTOMATON_TEXTS) {
        a->is_full = true;
        return 0;
    }
    a->texts[a->n_texts] = (ln_seen_text){.parent = text, .chain = *head, .byte = byte};
    return *head = (uint32_t)a->n_texts++;
}

ln_member_set ln_seen_add(const ln_automaton *a, uint32_t number, uint32_t text) {
    return (ln_member_set){.names = {text, number, ln_seen_count(a, number) + 1},
                           .others = IS_LIST};
}

uint32_t ln_seen_count(const ln_automaton *a, uint32_t number) {
    const ln_member_set *list = list_at(a, number);
    return list != NULL ? (uint32_t)list->names[2] : 0;
}

bool ln_seen_is_unknown(const ln_automaton *a, uint32_t number) {
    const ln_member_set *list = list_at(a, number);
    return list != NULL && list->names[0] == LN_SEEN_UNKNOWN;
}

uint32_t ln_seen_below(const ln_automaton *a, uint32_t number, uint32_t text) {
    uint32_t n = 0;
    for (const ln_member_set *list = list_at(a, number); list != NULL;
         list = list_at(a, (uint32_t)list->names[1])) {
        uint32_t at = (uint32_t)list->names[0];
        while (at != LN_SEEN_UNKNOWN && at > text)
            at = a->texts[at].parent;
        n += at == text;
    }
    return n;
}

bool ln_seen_has(const ln_automaton *a, uint32_t number, uint32_t text) {
    for (const ln_member_set *list = list_at(a, number); list != NULL;
         list = list_at(a, (uint32_t)list->names[1]))
        if (list->names[0] == text)
            return true;
    return false;
}

/* Whether the state after a byte has an end that was not seen: it has more ends than were. */
static bool has_unseen(const ln_automaton *a, const ln_terminal *terminal, uint32_t next,
                       uint32_t number, uint32_t text) {
    return terminal->ends[next] > (text != 0 ? ln_seen_below(a, number, text) : 0);
}

bool ln_seen_leads_on(const ln_automaton *a, const ln_terminal *terminal, uint32_t position,
                      uint32_t number, uint32_t text, uint8_t byte) {
    const ln_dfa *dfa = &a->program->dfas[terminal->dfa];
    uint16_t next = ln_dfa_step(dfa, position, byte);
    uint32_t state = next & ~(unsigned)LN_DFA_COUNTS;
    if (next == LN_DFA_DEAD)
        return false;
    if (ln_seen_is_unknown(a, number)) /* more ends than texts, whichever those are */
        return terminal->ends[state] > ln_seen_count(a, number);
    return has_unseen(a, terminal, state, number, ln_seen_find(a, text, byte));
}

ln_byte_set ln_seen_live(const ln_automaton *a, const ln_terminal *terminal, uint32_t position,
                         uint32_t number, uint32_t text) {
    const ln_dfa *dfa = &a->program->dfas[terminal->dfa];
    ln_byte_set live = {{0}};
    if (!ln_seen_is_unknown(a, number) && ln_seen_below(a, number, text) == 0)
        return dfa->live[position];
    for (unsigned byte = 0; byte < 256; byte++)
        if (ln_byte_set_has(&dfa->live[position], byte) &&
            ln_seen_leads_on(a, terminal, position, number, text, (uint8_t)byte))
            live.bits[byte >> 6] |= 1ull << (byte & 63);
    return live;
}

/* ---- forgetting --------------------------------------------------------------------------------
 */

static void mark_text(ln_automaton *a, uint64_t text) {
    if (text != LN_SEEN_UNKNOWN)
        a->text_numbers[text] = 1;
}

void ln_seen_compact(ln_automaton *a) {
    size_t n = 1;
    if (a->texts == NULL)
        return;
    memset(a->text_numbers, 0, a->n_texts * sizeof *a->text_numbers);
    for (size_t i = 1; i < a->n_nodes; i++) {
        const ln_stack_node *node = &a->nodes[i];
        if (node->mark != a->epoch)
            continue;
        if (node->terminal != LN_NO_TERMINAL && a->program->terminals[node->terminal].ends != NULL)
            mark_text(a, node->count);
        for (const ln_member_set *list = node->terminal == LN_NO_TERMINAL ? list_at(a, node->count)
                                                                          : NULL;
             list != NULL; list = list_at(a, (uint32_t)list->names[1]))
            mark_text(a, list->names[0]);
    }
    for (size_t i = a->n_texts; i-- > 1;)
        if (a->text_numbers[i] != 0)
            a->text_numbers[a->texts[i].parent] = 1;
    memset(a->text_heads, 0, LN_AUTOMATON_TEXT_HEADS * sizeof *a->text_heads);
    a->text_numbers[0] = 0;
    for (size_t i = 1; i < a->n_texts; i++) {
        if (a->text_numbers[i] == 0)
            continue;
        ln_seen_text text = a->texts[i];
        text.parent = a->text_numbers[text.parent];
        uint32_t *head = find_head(a, text.parent, text.byte);
        text.chain = *head;
        *head = a->text_numbers[i] = (uint32_t)n;
        a->texts[n++] = text;
    }
    a->n_texts = n;
}
