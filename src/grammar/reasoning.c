/* Reasoning before what a grammar is about: text up to </think>, or what a model has for that. */
#include <string.h>

#include "grammar/language.h"
#include "grammar/sources.h"
#include "grammar/token_trie.h"
#include "text/chat/reasoning.h"

ln_expr *ln_expr_marker(ln_grammar_builder *b, const char *text) {
    char special[64] = {LN_SPECIAL_MARK};
    LN_BUG_ON(strlen(text) + 2 > sizeof special);
    strcpy(special + 1, text);
    return ln_expr_choice(b, ln_expr_text(b, special), ln_expr_text(b, text), NULL);
}

/* The bytes up to the next marker, or of the one that the text begins with. */
static size_t count_part(const char *text, bool *is_marker) {
    size_t n_bytes = strcspn(text, "<[");
    *is_marker = false;
    if (n_bytes > 0)
        return n_bytes;
    const char *end = strchr(text, *text == '<' ? '>' : ']');
    *is_marker = end != NULL && end - text > 1 && end - text < 60;
    return *is_marker ? (size_t)(end - text) + 1 : 1 + strcspn(text + 1, "<[");
}

ln_expr *ln_expr_marked_text(ln_grammar_builder *b, const char *text) {
    ln_expr *sequence = ln_expr_list(b, LN_EXPR_SEQUENCE);
    while (text != NULL && *text != '\0') {
        bool is_marker;
        char part[64];
        size_t n_bytes = count_part(text, &is_marker);
        memcpy(part, text, is_marker ? n_bytes : 0);
        part[is_marker ? n_bytes : 0] = '\0';
        ln_expr_add(b, sequence,
                    is_marker ? ln_expr_marker(b, part) : ln_expr_bytes(b, text, n_bytes));
        text += n_bytes;
    }
    return sequence;
}

ln_expr *ln_expr_text_without(ln_grammar_builder *b, const char *excluded, uint32_t min,
                              uint32_t max) {
    ln_expr *any = ln_expr_any(b, 0, LN_NO_LIMIT);
    ln_expr *before = ln_expr_any(b, 0, LN_NO_LIMIT);
    ln_expr *after = ln_expr_any(b, 0, LN_NO_LIMIT);
    ln_expr *with = ln_expr_sequence(b, before, ln_expr_text(b, excluded), after, NULL);
    const ln_dfa *text = ln_language_minus(b, ln_language_of(b, any), ln_language_of(b, with));
    if (min > 0 || max != LN_NO_LIMIT) {
        ln_expr *some = ln_expr_any(b, min, max);
        text = ln_language_and(b, text, ln_language_of(b, some));
    }
    return ln_expr_rule(b, ln_rule_add_terminal(b, "free text", ln_language_expr(b, text)));
}

void ln_grammar_add_reasoning(ln_grammar_builder *b, linnet_reasoning reasoning,
                              const ln_reasoning_format *format) {
    format = format != NULL ? format : ln_reasoning_think();
    if (reasoning == LINNET_REASONING_NONE || b->status != LINNET_OK)
        return;
    ln_expr *space = ln_expr_repeat(b, ln_expr_text(b, "\n"), 0, 2);
    ln_expr *after = ln_expr_sequence(b, ln_expr_text_without(b, format->end, 0, LN_NO_LIMIT),
                                      ln_expr_marked_text(b, format->end), space, NULL);
    if (reasoning == LINNET_REASONING_MAY_COME)
        after = ln_expr_optional(
            b, ln_expr_sequence(b, ln_expr_marked_text(b, format->begin), after, NULL));
    ln_expr *whole = ln_expr_sequence(b, after, ln_expr_rule(b, b->root), NULL);
    static const char name[] = "reasoning and the answer";
    b->root = ln_rule_add(b, name, sizeof name - 1, whole);
    if (b->status == LINNET_OK)
        b->rules[b->root].kind = LN_RULE_STRUCTURAL;
}
