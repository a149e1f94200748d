/* The tree of a grammar in Lark's syntax becomes rules. Terminals are languages, or rules that are
 * terminals; what is ignored may come between them. */
#include "grammar/lark/lark.h"

#include <string.h>

#include "base/hashmap.h"
#include "base/json/load.h"
#include "grammar/json_rules.h"
#include "grammar/regex.h"
#include "grammar/sources.h"

typedef struct lark_reader {
    ln_lark lark;
    ln_grammar_builder *builder;
    ln_json_rules json;
    bool has_json;
    uint32_t skip; /* rule of what is ignored */
    bool has_skip;
    unsigned depth;
} lark_reader;

static bool has_failed(const lark_reader *r) {
    return r->builder->status != LINNET_OK;
}

static bool enter(lark_reader *r) {
    if (++r->depth > 4 * LN_GRAMMAR_MAX_DEPTH)
        ln_grammar_fail(r->builder, LINNET_ERR_LIMIT, "terminals are nested too deep");
    return !has_failed(r);
}

/* ---- terminals ---------------------------------------------------------------------------------
 */

static ln_expr *terminal_body(lark_reader *r, const ln_lark_node *node);

static const ln_dfa *language(lark_reader *r, const ln_lark_node *node) {
    return ln_language_of(r->builder, terminal_body(r, node));
}

/* Texts of the language that no other of its texts begins. */
static const ln_dfa *shortest(ln_grammar_builder *b, const ln_dfa *a) {
    ln_expr *more = ln_expr_sequence(b, ln_language_expr(b, a), ln_expr_chars(b, NULL, 0, true),
                                     ln_expr_any(b, 0, LN_NO_LIMIT), NULL);
    return ln_language_minus(b, a, ln_language_of(b, more));
}

/* The text of a terminal, with what its options say. */
static ln_expr *symbol_body(lark_reader *r, ln_lark_symbol *symbol) {
    ln_grammar_builder *b = r->builder;
    if (symbol->is_open) {
        ln_grammar_fail(b, LINNET_ERR_ARGUMENT, "the terminal %.*s refers to itself",
                        (int)(symbol->n_bytes < 80 ? symbol->n_bytes : 80), symbol->name);
        return ln_expr_empty(b);
    }
    symbol->is_open = true;
    ln_expr *body = terminal_body(r, symbol->body);
    if (symbol->suffix != NULL)
        body = ln_expr_sequence(b, body, terminal_body(r, symbol->suffix), NULL);
    if (symbol->is_lazy || symbol->suffix != NULL)
        body = ln_language_expr(b, shortest(b, ln_language_of(b, body)));
    if (symbol->stop != NULL &&
        !(symbol->stop->kind == LN_LARK_TEXT && symbol->stop->n_bytes == 0)) {
        ln_expr *with =
            ln_expr_sequence(b, ln_expr_any(b, 0, LN_NO_LIMIT), terminal_body(r, symbol->stop),
                             ln_expr_any(b, 0, LN_NO_LIMIT), NULL);
        body = ln_language_expr(
            b, ln_language_minus(b, ln_language_of(b, body), ln_language_of(b, with)));
    }
    symbol->is_open = false;
    return body;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static ln_expr *read_text(lark_reader *r, const ln_lark_node *node) {
    ln_grammar_builder *b = r->builder;
    if ((node->flags & LN_REGEX_IGNORE_CASE) == 0)
        return ln_expr_bytes(b, node->text, node->n_bytes);
    ln_expr *list = ln_expr_list(b, LN_EXPR_SEQUENCE);
    for (size_t i = 0; i < node->n_bytes && !has_failed(r); i++) {
        uint32_t c = (unsigned char)node->text[i];
        const ln_range both[] = {{c | 0x20, c | 0x20}, {c & ~0x20u, c & ~0x20u}};
        ln_expr_add(b, list,
                    is_letter(node->text[i]) ? ln_expr_chars(b, both, 2, false)
                                             : ln_expr_bytes(b, node->text + i, 1));
    }
    return list;
}

/* ---- %regex ------------------------------------------------------------------------------------
 */

/* Chunks that follow one another in a text: an automaton with a state for each byte. */
static ln_expr *follow_chunks(lark_reader *r, const json_t *chunks) {
    ln_grammar_builder *b = r->builder;
    size_t n_bytes = 0, i;
    const json_t *chunk;
    json_array_foreach(chunks, i, chunk) {
        n_bytes += json_string_length(chunk);
    }
    ln_graph *graph = ln_arena_alloc(&b->arena, 1, sizeof *graph);
    bool *accepts = ln_arena_alloc(&b->arena, n_bytes + 1, sizeof *accepts);
    ln_graph_edge *edges = ln_arena_alloc(&b->arena, 2 * n_bytes + 1, sizeof *edges);
    if (graph == NULL || accepts == NULL || edges == NULL || n_bytes > LN_GRAMMAR_MAX_STATES / 4) {
        ln_grammar_fail(b, LINNET_ERR_LIMIT, "%%regex has too long a text");
        return ln_expr_empty(b);
    }
    memset(accepts, 0, n_bytes + 1);
    accepts[0] = true;
    uint32_t n_edges = 0, state = 0;
    json_array_foreach(chunks, i, chunk) {
        const char *text = json_string_value(chunk);
        for (size_t at = 0; at < json_string_length(chunk); at++, state++) {
            uint8_t byte = (uint8_t)text[at];
            edges[n_edges++] = (ln_graph_edge){state, state + 1, byte, byte, false};
            if (at == 0 && state > 0)
                edges[n_edges++] = (ln_graph_edge){0, state + 1, byte, byte, false};
        }
        accepts[state] = true;
    }
    *graph = (ln_graph){state + 1, n_edges, edges, accepts};
    return ln_expr_graph(b, graph);
}

static bool is_word(char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || (c & 0x80) != 0;
}

/* The words of a text and what stands between them; or its characters. */
static json_t *split(const char *text, bool words) {
    json_t *chunks = json_array();
    for (size_t at = 0, end; text[at] != '\0'; at = end) {
        end = at + 1;
        while (text[end] != '\0' &&
               ((words && is_word(text[at]) && is_word(text[end])) || ((text[end] & 0xc0) == 0x80)))
            end++;
        json_array_append_new(chunks, json_stringn(text + at, end - at));
    }
    return chunks;
}

static ln_expr *read_chunks(lark_reader *r, const ln_lark_node *node) {
    json_t *root = ln_json_load_bytes(node->text, node->n_bytes, 0, NULL);
    json_t *chunks = json_incref(json_object_get(root, "substring_chunks"));
    const char *words = json_string_value(json_object_get(root, "substring_words"));
    const char *chars = json_string_value(json_object_get(root, "substring_chars"));
    ln_expr *expr = ln_expr_empty(r->builder);
    const json_t *chunk;
    size_t i;
    if (words != NULL || chars != NULL) {
        json_decref(chunks);
        chunks = split(words != NULL ? words : chars, words != NULL);
    }
    bool fits = json_is_array(chunks);
    json_array_foreach(chunks, i, chunk) {
        fits = fits && json_is_string(chunk);
    }
    if (fits)
        expr = follow_chunks(r, chunks);
    else
        ln_grammar_fail(r->builder, LINNET_ERR_UNSUPPORTED,
                        "%%regex with other than substring_chunks, substring_words or "
                        "substring_chars is not supported");
    json_decref(chunks);
    json_decref(root);
    return expr;
}

/* ---- parts -------------------------------------------------------------------------------------
 */

static ln_expr *terminal_list(lark_reader *r, const ln_lark_node *node) {
    ln_grammar_builder *b = r->builder;
    ln_expr *list =
        ln_expr_list(b, node->kind == LN_LARK_CHOICE ? LN_EXPR_CHOICE : LN_EXPR_SEQUENCE);
    for (const ln_lark_node *part = node->first; part != NULL && !has_failed(r); part = part->next)
        ln_expr_add(b, list, terminal_body(r, part));
    return list;
}

/* An expression without rules for what is regular. */
static ln_expr *make_terminal(lark_reader *r, const ln_lark_node *node) {
    ln_grammar_builder *b = r->builder;
    const ln_range range = {node->min, node->max};
    switch (node->kind) {
    case LN_LARK_TEXT: return read_text(r, node);
    case LN_LARK_REGEX: return ln_regex_read_flags(b, node->text, node->n_bytes, node->flags);
    case LN_LARK_RANGE: return ln_expr_chars(b, &range, 1, false);
    case LN_LARK_CHUNKS: return read_chunks(r, node);
    case LN_LARK_REPEAT:
        return ln_expr_repeat(b, terminal_body(r, node->first), node->min, node->max);
    case LN_LARK_AND:
        return ln_language_expr(
            b, ln_language_and(b, language(r, node->first), language(r, node->last)));
    case LN_LARK_NOT:
        return ln_language_expr(
            b, ln_language_minus(b, ln_language_of(b, ln_expr_any(b, 0, LN_NO_LIMIT)),
                                 language(r, node->first)));
    case LN_LARK_NAME: {
        ln_lark_symbol *symbol = &r->lark.symbols[node->symbol];
        if (symbol->is_terminal)
            return symbol_body(r, symbol);
        ln_grammar_fail(b, LINNET_ERR_ARGUMENT, "a terminal refers to the rule %.*s",
                        (int)(symbol->n_bytes < 80 ? symbol->n_bytes : 80), symbol->name);
        return ln_expr_empty(b);
    }
    case LN_LARK_SEQUENCE:
    case LN_LARK_CHOICE: return terminal_list(r, node);
    case LN_LARK_SPECIAL:
    case LN_LARK_JSON:
    default:
        ln_grammar_fail(b, LINNET_ERR_ARGUMENT,
                        "a terminal has a special token or %%json in it, which only rules may");
        return ln_expr_empty(b);
    }
}

static ln_expr *terminal_body(lark_reader *r, const ln_lark_node *node) {
    ln_expr *expr = enter(r) ? make_terminal(r, node) : ln_expr_empty(r->builder);
    r->depth--;
    return expr;
}

/* ---- rules -------------------------------------------------------------------------------------
 */

/* Where a part stands: behind another, so that what is ignored may come before it, or first. */
typedef enum place { BEHIND, FIRST } place;

static ln_expr *rule_body(lark_reader *r, const ln_lark_node *node, place at);

static ln_expr *with_skip(lark_reader *r, ln_expr *expr, place at) {
    if (!r->has_skip || at == FIRST)
        return expr;
    return ln_expr_sequence(r->builder, ln_expr_rule(r->builder, r->skip), expr, NULL);
}

/* Whether a rule is one terminal, by its options or as %ignore comes only between terminals. */
static bool is_lexeme(const ln_lark_symbol *symbol) {
    return symbol->is_terminal || symbol->is_lazy || symbol->suffix != NULL || symbol->stop != NULL;
}

static ln_expr *read_json_schema(lark_reader *r, const ln_lark_node *node) {
    ln_grammar_builder *b = r->builder;
    json_t *root = ln_grammar_parse_json(b, node->text, node->n_bytes, "%json");
    if (!r->has_json)
        ln_json_rules_add(b, &r->json);
    r->has_json = true;
    uint32_t rule = 0;
    if (root != NULL)
        rule = ln_schema_add(b, &r->json, root, (b->json_form & LINNET_JSON_CLOSED) != 0);
    json_decref(root);
    return ln_expr_rule(b, rule);
}

static bool begins_with(const ln_lark_node *node, const ln_lark_symbol *symbol,
                        const ln_lark_symbol *symbols) {
    return node->kind == LN_LARK_SEQUENCE && node->first != NULL &&
           node->first->kind == LN_LARK_NAME && &symbols[node->first->symbol] == symbol;
}

/* The parts of a sequence from `part` on. */
static ln_expr *parts_from(lark_reader *r, const ln_lark_node *part, place at) {
    ln_grammar_builder *b = r->builder;
    ln_expr *list = ln_expr_list(b, LN_EXPR_SEQUENCE);
    for (; part != NULL && !has_failed(r); part = part->next, at = BEHIND)
        ln_expr_add(b, list, rule_body(r, part, at));
    return list;
}

/* A body whose alternatives may begin with the rule itself: those that do not, and then any number
 * of what follows it in those that do. */
static ln_expr *symbol_rule_body(lark_reader *r, const ln_lark_symbol *symbol, place at) {
    ln_grammar_builder *b = r->builder;
    ln_expr *base = ln_expr_list(b, LN_EXPR_CHOICE), *more = ln_expr_list(b, LN_EXPR_CHOICE);
    bool recurs = false;
    for (const ln_lark_node *part = symbol->body->first; part != NULL && !has_failed(r);
         part = part->next) {
        if (symbol->body->kind == LN_LARK_CHOICE && begins_with(part, symbol, r->lark.symbols)) {
            if (part->first->next == NULL) /* the rule alone says nothing */
                continue;
            ln_expr_add(b, more, parts_from(r, part->first->next, BEHIND));
            recurs = true;
        } else {
            ln_expr_add(b, base, rule_body(r, part, at));
        }
    }
    if (!recurs)
        return base;
    return ln_expr_sequence(b, base, ln_expr_repeat(b, more, 0, LN_NO_LIMIT), NULL);
}

static uint32_t symbol_rule(lark_reader *r, uint32_t number, place at) {
    ln_lark_symbol *symbol = &r->lark.symbols[number];
    bool is_one = is_lexeme(symbol);
    if (is_one || !r->has_skip)
        at = FIRST; /* there is one form only */
    if (symbol->rules[at] == 0) {
        uint32_t rule = ln_rule_add(r->builder, symbol->name, symbol->n_bytes, NULL);
        symbol->rules[at] = rule + 1;
        ln_expr *body = is_one ? symbol_body(r, symbol) : ln_expr_empty(r->builder);
        if (has_failed(r))
            return 0;
        r->builder->rules[rule].body = body; /* of rules it comes later: see read_rules */
        if (is_one) {
            r->builder->rules[rule].kind = LN_RULE_TERMINAL;
            r->builder->rules[rule].max_count = LN_NO_LIMIT;
        }
    }
    return symbol->rules[at] - 1;
}

/* A part of a rule. */
static ln_expr *make_part(lark_reader *r, const ln_lark_node *node, place at) {
    ln_grammar_builder *b = r->builder;
    switch (node->kind) {
    case LN_LARK_NAME: {
        ln_expr *expr = ln_expr_rule(b, symbol_rule(r, node->symbol, at));
        return is_lexeme(&r->lark.symbols[node->symbol]) ? with_skip(r, expr, at) : expr;
    }
    case LN_LARK_SEQUENCE: return parts_from(r, node->first, at);
    case LN_LARK_CHOICE: {
        ln_expr *list = ln_expr_list(b, LN_EXPR_CHOICE);
        for (const ln_lark_node *part = node->first; part != NULL && !has_failed(r);
             part = part->next)
            ln_expr_add(b, list, rule_body(r, part, at));
        return list;
    }
    case LN_LARK_REPEAT: {
        if (at == BEHIND || !r->has_skip || node->max <= 1 || node->max < node->min)
            return ln_expr_repeat(b, rule_body(r, node->first, at), node->min, node->max);
        uint32_t max = node->max == LN_NO_LIMIT ? LN_NO_LIMIT : node->max - 1;
        ln_expr *first = rule_body(r, node->first, FIRST);
        ln_expr *more = ln_expr_repeat(b, rule_body(r, node->first, BEHIND),
                                       node->min > 0 ? node->min - 1 : 0, max);
        ln_expr *all = ln_expr_sequence(b, first, more, NULL);
        return node->min > 0 ? all : ln_expr_optional(b, all);
    }
    case LN_LARK_SPECIAL: return with_skip(r, ln_expr_marker(b, node->text), at);
    case LN_LARK_JSON: return with_skip(r, read_json_schema(r, node), at);
    case LN_LARK_TEXT: return with_skip(r, make_terminal(r, node), at);
    case LN_LARK_REGEX:
    case LN_LARK_RANGE:
    case LN_LARK_CHUNKS:
    case LN_LARK_AND:
    case LN_LARK_NOT:
    default: {
        uint32_t rule = ln_rule_add_terminal(b, "an expression", make_terminal(r, node));
        return with_skip(r, ln_expr_rule(b, rule), at);
    }
    }
}

static ln_expr *rule_body(lark_reader *r, const ln_lark_node *node, place at) {
    ln_expr *expr = enter(r) ? make_part(r, node, at) : ln_expr_empty(r->builder);
    r->depth--;
    return expr;
}

/* Bodies name further rules, which get theirs in turn: the depth of rules within rules does not
 * matter. */
static void read_rules(lark_reader *r, uint32_t start) {
    place at = r->lark.ignores_first ? BEHIND : FIRST;
    r->builder->root = symbol_rule(r, start, at);
    for (bool changed = true; changed && !has_failed(r);) {
        changed = false;
        for (size_t i = 0; i < r->lark.n_symbols; i++) {
            ln_lark_symbol *symbol = &r->lark.symbols[i];
            for (int form = BEHIND; form <= FIRST && !is_lexeme(symbol); form++) {
                if (symbol->rules[form] == 0 || symbol->has_body[form])
                    continue;
                symbol->has_body[form] = changed = true;
                ln_expr *body = symbol_rule_body(r, symbol, (place)form);
                if (has_failed(r))
                    return;
                r->builder->rules[symbol->rules[form] - 1].body = body;
            }
        }
    }
}

static void read_skip(lark_reader *r) {
    if (r->lark.ignored == NULL || has_failed(r))
        return;
    ln_expr *body = ln_expr_repeat(r->builder, terminal_body(r, r->lark.ignored), 0,
                                   r->lark.ignores_once ? 1 : LN_NO_LIMIT);
    r->skip = ln_rule_add_terminal(r->builder, "what is ignored", body);
    r->has_skip = true;
}

ln_status ln_grammar_read_lark(ln_grammar_builder *builder, const char *text, size_t n_bytes) {
    lark_reader r = {.builder = builder, .lark = {.builder = builder}};
    uint32_t start = UINT32_MAX;
    ln_lark_parse(&r.lark, text, n_bytes);
    for (size_t i = 0; i < r.lark.n_symbols && !has_failed(&r); i++)
        if (r.lark.symbols[i].n_bytes == 5 && memcmp(r.lark.symbols[i].name, "start", 5) == 0)
            start = (uint32_t)i;
    if (!has_failed(&r) && start == UINT32_MAX)
        ln_grammar_fail(builder, LINNET_ERR_ARGUMENT, "there is no rule \"start\"");
    read_skip(&r);
    if (!has_failed(&r))
        read_rules(&r, start);
    return builder->status;
}
