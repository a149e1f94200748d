/* Reasoning before what a grammar is about: text up to </think>. */
#include <string.h>

#include "grammar/sources.h"
#include "grammar/token_trie.h"
#include "text/chat/tool_syntax.h"

ln_expr *ln_expr_marker(ln_grammar_builder *b, const char *text) {
    char special[64] = {LN_SPECIAL_MARK};
    LN_BUG_ON(strlen(text) + 2 > sizeof special);
    strcpy(special + 1, text);
    return ln_expr_choice(b, ln_expr_text(b, special), ln_expr_text(b, text), NULL);
}

/* Text without '<' that does not begin with `byte`, nor is empty. */
static ln_expr *text_not_from(ln_grammar_builder *b, char byte) {
    const ln_range from[] = {{'<', '<'}, {(uint32_t)byte, (uint32_t)byte}};
    return ln_expr_sequence(b, ln_expr_chars(b, from, 2, true),
                            ln_expr_repeat(b, ln_expr_chars(b, from, 1, true), 0, LN_NO_LIMIT),
                            NULL);
}

/* What may follow a '<' up to the next one, unless it begins with all of `forbidden`. */
static ln_expr *rest_from(ln_grammar_builder *b, const char *forbidden) {
    ln_expr *next = forbidden[1] != '\0' ? rest_from(b, forbidden + 1) : NULL;
    char first[2] = {forbidden[0], '\0'};
    ln_expr *choice = ln_expr_choice(b, text_not_from(b, forbidden[0]), NULL);
    if (next != NULL)
        ln_expr_add(b, choice, ln_expr_sequence(b, ln_expr_text(b, first), next, NULL));
    return ln_expr_optional(b, choice);
}

/* Any text without </think>. */
static ln_expr *thoughts(ln_grammar_builder *b) {
    const ln_range less = {'<', '<'};
    ln_expr *plain = ln_expr_chars(b, &less, 1, true);
    ln_expr *other =
        ln_expr_sequence(b, ln_expr_text(b, "<"), rest_from(b, &LN_THINK_END[1]), NULL);
    ln_expr *text = ln_expr_sequence(b, ln_expr_repeat(b, plain, 0, LN_NO_LIMIT),
                                     ln_expr_repeat(b, other, 0, LN_NO_LIMIT), NULL);
    uint32_t rule = ln_rule_add_terminal(b, "reasoning", text);
    return ln_expr_rule(b, rule);
}

void ln_grammar_add_reasoning(ln_grammar_builder *b, linnet_reasoning reasoning) {
    if (reasoning == LINNET_REASONING_NONE || b->status != LINNET_OK)
        return;
    ln_expr *space = ln_expr_repeat(b, ln_expr_text(b, "\n"), 0, 2);
    ln_expr *after = ln_expr_sequence(b, thoughts(b), ln_expr_marker(b, LN_THINK_END), space, NULL);
    if (reasoning == LINNET_REASONING_MAY_COME)
        after = ln_expr_optional(
            b, ln_expr_sequence(b, ln_expr_marker(b, LN_THINK_BEGIN), after, NULL));
    ln_expr *whole = ln_expr_sequence(b, after, ln_expr_rule(b, b->root), NULL);
    static const char name[] = "reasoning and the answer";
    b->root = ln_rule_add(b, name, sizeof name - 1, whole);
    if (b->status == LINNET_OK)
        b->rules[b->root].kind = LN_RULE_STRUCTURAL;
}
