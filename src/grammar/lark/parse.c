/* The text of a grammar in Lark's syntax becomes a tree. */
#include <jansson.h>
#include <string.h>

#include "base/hashmap.h"
#include "base/json/load.h"
#include "base/json/value.h"
#include "base/utf8.h"
#include "grammar/grammar.h"
#include "grammar/lark/lark.h"
#include "grammar/regex.h"

typedef struct lark_parser {
    ln_lark *lark;
    ln_grammar_builder *builder;
    const char *text; /* [n_bytes] in UTF-8 */
    size_t n_bytes, at;
    ln_hashmap names;
    unsigned depth; /* of groups; a new line ends no rule within one */
    unsigned level; /* of everything */
    ln_lark_node failed;
} lark_parser;

static void fail_as(lark_parser *p, ln_status status, const char *what, const char *more) {
    size_t line = 1;
    for (size_t i = 0; i < p->at && i < p->n_bytes; i++)
        line += p->text[i] == '\n';
    ln_grammar_fail(p->builder, status, "line %zu: %s%s", line, what, more);
}

static void fail(lark_parser *p, const char *what) {
    fail_as(p, LINNET_ERR_ARGUMENT, what, "");
}

static void fail_unsupported(lark_parser *p, const char *what) {
    fail_as(p, LINNET_ERR_UNSUPPORTED, what, " is not supported");
}

static bool has_failed(const lark_parser *p) {
    return p->builder->status != LINNET_OK;
}

static char peek(const lark_parser *p) {
    return p->at < p->n_bytes ? p->text[p->at] : '\0';
}

/* `at` may be one beyond the end, once a text has none. */
static bool begins(const lark_parser *p, const char *text) {
    size_t n = strlen(text);
    return p->at <= p->n_bytes && p->n_bytes - p->at >= n && memcmp(p->text + p->at, text, n) == 0;
}

static bool take(lark_parser *p, const char *text) {
    if (!begins(p, text))
        return false;
    p->at += strlen(text);
    return true;
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static size_t skip_from(const lark_parser *p, size_t at, bool newlines) {
    for (; at < p->n_bytes; at++) {
        char c = p->text[at];
        if (c == '#' || (c == '/' && at + 1 < p->n_bytes && p->text[at + 1] == '/'))
            while (at + 1 < p->n_bytes && p->text[at + 1] != '\n')
                at++;
        else if (c != ' ' && c != '\t' && !(newlines && (c == '\n' || c == '\r')))
            break;
    }
    return at;
}

static void skip(lark_parser *p, bool newlines) {
    p->at = skip_from(p, p->at, newlines);
}

/* Space within a body: a line that begins with | goes on with it. */
static void skip_in_body(lark_parser *p) {
    skip(p, p->depth > 0);
    size_t next = skip_from(p, p->at, true);
    if (next < p->n_bytes && p->text[next] == '|')
        p->at = next;
}

/* ---- nodes -------------------------------------------------------------------------------------
 */

static ln_lark_node *make_node(lark_parser *p, ln_lark_kind kind) {
    ln_lark_node *node = ln_arena_alloc(&p->builder->arena, 1, sizeof *node);
    if (node == NULL) {
        ln_grammar_fail_memory(p->builder);
        return &p->failed;
    }
    *node = (ln_lark_node){.kind = kind};
    return node;
}

static void add_part(lark_parser *p, ln_lark_node *node, ln_lark_node *part) {
    if (has_failed(p))
        return;
    if (node->last != NULL)
        node->last->next = part;
    else
        node->first = part;
    node->last = part;
}

static ln_lark_node *make_text(lark_parser *p, ln_lark_kind kind, const char *text,
                               size_t n_bytes) {
    ln_lark_node *node = make_node(p, kind);
    char *copy = ln_arena_alloc(&p->builder->arena, n_bytes + 1, 1);
    if (copy == NULL || has_failed(p)) {
        ln_grammar_fail_memory(p->builder);
        return node;
    }
    if (n_bytes > 0)
        memcpy(copy, text, n_bytes);
    copy[n_bytes] = '\0';
    node->text = copy;
    node->n_bytes = n_bytes;
    return node;
}

/* The symbol of a name, which may have no body yet. */
static uint32_t find_symbol(lark_parser *p, const char *name, size_t n_bytes) {
    ln_lark *lark = p->lark;
    uint32_t symbol = (uint32_t)lark->n_symbols;
    if (ln_hashmap_get(&p->names, name, n_bytes, &symbol))
        return symbol;
    if (lark->n_symbols == LN_LARK_MAX_SYMBOLS ||
        !ln_hashmap_add(&p->names, name, n_bytes, symbol)) {
        fail_as(p, LINNET_ERR_LIMIT, "there are too many rules", "");
        return 0;
    }
    size_t first = 0;
    while (first < n_bytes && (name[first] == '_' || (name[first] >= '0' && name[first] <= '9')))
        first++;
    lark->symbols[lark->n_symbols++] = (ln_lark_symbol){
        .name = name,
        .n_bytes = n_bytes,
        .is_terminal = first < n_bytes && name[first] >= 'A' && name[first] <= 'Z',
    };
    return symbol;
}

static size_t take_name(lark_parser *p) {
    size_t begin = p->at;
    while (is_name(peek(p)) && !begins(p, "->"))
        p->at++;
    return p->at - begin;
}

/* ---- literals ----------------------------------------------------------------------------------
 */

static uint32_t read_hex(lark_parser *p, unsigned n_digits) {
    uint32_t value = 0;
    for (unsigned i = 0; i < n_digits; i++, p->at++) {
        char c = peek(p);
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        if (digit < 0 || digit > 15 || (c | 0x20) > 'f')
            fail(p, "an escape has no hexadecimal digits");
        value = value << 4 | ((uint32_t)digit & 15);
    }
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        fail(p, "an escape is no code point");
    return value;
}

static uint32_t read_char(lark_parser *p) {
    size_t n_bytes;
    uint32_t c = ln_utf8_decode(p->text + p->at, &n_bytes);
    p->at += n_bytes;
    if (c != '\\')
        return c;
    char letter = peek(p);
    p->at++;
    switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'b': return '\b';
    case 'x': return read_hex(p, 2);
    case 'u': return read_hex(p, 4);
    case 'U': return read_hex(p, 8);
    case '"':
    case '\'':
    case '/':
    case '\\': return (unsigned char)letter;
    default:
        fail(p, "an escape is none of \\n \\r \\t \\f \\b \\\" \\\\ \\/ \\xHH \\uHHHH \\UHHHHHHHH");
        return 0;
    }
}

static void read_flags(lark_parser *p, ln_lark_node *node) {
    for (; strchr("imslux", peek(p)) != NULL && peek(p) != '\0'; p->at++) {
        if (peek(p) == 'i')
            node->flags |= LN_REGEX_IGNORE_CASE;
        else if (peek(p) == 's')
            node->flags |= LN_REGEX_DOT_ALL;
        else if (peek(p) != 'u')
            fail_unsupported(p, "this flag");
    }
}

static ln_lark_node *read_string(lark_parser *p) {
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    p->at++;
    while (!has_failed(p) && peek(p) != '"') {
        if (peek(p) == '\n' || p->at >= p->n_bytes)
            fail(p, "a string has no end");
        else
            ln_strbuf_put_utf8(&bytes, read_char(p));
    }
    p->at++;
    if (bytes.failed)
        ln_grammar_fail_memory(p->builder);
    ln_lark_node *node = make_text(p, LN_LARK_TEXT, bytes.data, bytes.len);
    ln_strbuf_free(&bytes);
    read_flags(p, node);
    return node;
}

static uint32_t only_char(lark_parser *p, const ln_lark_node *node) {
    size_t n_bytes = 0;
    uint32_t c = node->n_bytes > 0 ? ln_utf8_decode(node->text, &n_bytes) : 0;
    if (!has_failed(p) && (node->n_bytes == 0 || n_bytes != node->n_bytes))
        fail(p, "a range has an end of more than one character");
    return c;
}

/* A string, or "a".."z". */
static ln_lark_node *read_string_or_range(lark_parser *p) {
    ln_lark_node *node = read_string(p);
    if (has_failed(p) || !take(p, ".."))
        return node;
    ln_lark_node *range = make_node(p, LN_LARK_RANGE);
    range->min = only_char(p, node);
    if (peek(p) != '"')
        fail(p, "a range has no second string");
    else
        range->max = only_char(p, read_string(p));
    if (range->max < range->min)
        fail(p, "a range goes backwards");
    return range;
}

static ln_lark_node *read_regex(lark_parser *p) {
    size_t begin = ++p->at;
    bool in_class = false;
    while (p->at < p->n_bytes && peek(p) != '\n' && (peek(p) != '/' || in_class)) {
        if (peek(p) == '[' || peek(p) == ']')
            in_class = peek(p) == '[';
        p->at += peek(p) == '\\' && p->at + 1 < p->n_bytes ? 2 : 1;
    }
    if (peek(p) != '/')
        fail(p, "a regular expression has no end");
    ln_lark_node *node =
        make_text(p, LN_LARK_REGEX, p->text + begin, p->at < p->n_bytes ? p->at - begin : 0);
    p->at++;
    node->flags = LN_REGEX_RUST;
    read_flags(p, node);
    return node;
}

/* A special token: <name>. */
static ln_lark_node *read_special(lark_parser *p) {
    size_t begin = p->at;
    while (p->at < p->n_bytes && peek(p) != '>' && peek(p) != '\n' && peek(p) != ' ')
        p->at++;
    if (begin + 1 < p->n_bytes && p->text[begin + 1] == '[')
        fail_unsupported(p, "a token by its number");
    if (!take(p, ">"))
        fail(p, "a special token has no >");
    if (p->at - begin > 60)
        fail_as(p, LINNET_ERR_LIMIT, "the name of a special token has more than 60 bytes", "");
    return make_text(p, LN_LARK_SPECIAL, p->text + begin, p->at - begin);
}

/* The JSON object that begins here. */
static ln_lark_node *read_json(lark_parser *p, ln_lark_kind kind) {
    json_error_t where;
    skip(p, true);
    size_t begin = p->at;
    json_t *root = ln_json_load_bytes(p->text + begin, p->n_bytes - begin,
                                      JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &where);
    if (root == NULL)
        fail_as(p, LINNET_ERR_ARGUMENT, "what stands after a % is no JSON: ", where.text);
    else
        p->at += (size_t)where.position;
    json_decref(root);
    return make_text(p, kind, p->text + begin, p->at - begin);
}

/* ---- bodies ------------------------------------------------------------------------------------
 */

static ln_lark_node *read_choice(lark_parser *p);

static ln_lark_node *read_group(lark_parser *p, char close) {
    p->at++;
    p->depth++;
    ln_lark_node *node = read_choice(p);
    p->depth--;
    if (peek(p) != close)
        fail(p, "a group has no end");
    p->at++;
    if (close == ')')
        return node;
    ln_lark_node *optional = make_node(p, LN_LARK_REPEAT);
    optional->max = 1;
    add_part(p, optional, node);
    return optional;
}

/* NULL: there is none. */
static ln_lark_node *read_atom(lark_parser *p) {
    char c = peek(p);
    if (c == '"')
        return read_string_or_range(p);
    if (c == '/')
        return read_regex(p);
    if (c == '(')
        return read_group(p, ')');
    if (c == '[')
        return read_group(p, ']');
    if (c == '<')
        return read_special(p);
    if (take(p, "%json"))
        return read_json(p, LN_LARK_JSON);
    if (take(p, "%regex"))
        return read_json(p, LN_LARK_CHUNKS);
    if (c == '@' || begins(p, "%lark"))
        fail_unsupported(p, "another grammar within one");
    if (!is_name(c) || c == '-' || has_failed(p))
        return NULL;
    size_t begin = p->at, n_bytes = take_name(p);
    if (begins(p, "::"))
        fail_unsupported(p, "a rule with parameters");
    ln_lark_node *node = make_node(p, LN_LARK_NAME);
    node->symbol = find_symbol(p, p->text + begin, n_bytes);
    return node;
}

static uint32_t read_count(lark_parser *p, uint32_t otherwise) {
    uint64_t value = 0;
    skip(p, p->depth > 0);
    if (peek(p) < '0' || peek(p) > '9')
        return otherwise;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        value = value * 10 + (uint64_t)(peek(p) - '0');
        value = value < LN_NO_LIMIT ? value : LN_NO_LIMIT - 1;
    }
    skip(p, p->depth > 0);
    return (uint32_t)value;
}

static bool take_repeat(lark_parser *p, uint32_t *min, uint32_t *max) {
    char c = peek(p);
    *min = c == '+';
    *max = c == '?' ? 1 : LN_NO_LIMIT;
    if (c == '*' || c == '+' || c == '?') {
        p->at++;
    } else if (c == '~') {
        p->at++;
        *min = *max = read_count(p, LN_NO_LIMIT);
        if (take(p, ".."))
            *max = read_count(p, LN_NO_LIMIT);
        if (*min == LN_NO_LIMIT)
            fail(p, "~ has no number");
    } else if (c == '{') {
        p->at++;
        *min = *max = read_count(p, LN_NO_LIMIT);
        if (take(p, ",")) {
            *min = *min == LN_NO_LIMIT ? 0 : *min;
            *max = read_count(p, LN_NO_LIMIT);
        }
        if (*min == LN_NO_LIMIT)
            fail_unsupported(p, "a template, or { without a number,");
        if (!take(p, "}"))
            fail(p, "a repetition has no }");
    } else {
        return false;
    }
    if (*max < *min)
        fail(p, "a repetition's limits are backwards");
    return true;
}

/* An atom, ~ before it and repetitions behind it. */
static ln_lark_node *read_part(lark_parser *p) {
    uint32_t min, max;
    if (peek(p) == '~') {
        p->at++;
        skip(p, p->depth > 0);
        ln_lark_node *negated = make_node(p, LN_LARK_NOT), *atom = read_atom(p);
        if (atom == NULL)
            fail(p, "~ has nothing behind it");
        else
            add_part(p, negated, atom);
        return negated;
    }
    ln_lark_node *node = read_atom(p);
    if (node == NULL)
        return NULL;
    for (unsigned n = 0; !has_failed(p); n++) {
        skip(p, p->depth > 0);
        if (!take_repeat(p, &min, &max))
            break;
        if (n == LN_GRAMMAR_MAX_DEPTH)
            fail(p, "too many repetitions of repetitions");
        ln_lark_node *repeat = make_node(p, LN_LARK_REPEAT);
        repeat->min = min;
        repeat->max = max;
        add_part(p, repeat, node);
        node = repeat;
    }
    return node;
}

static ln_lark_node *read_sequence(lark_parser *p) {
    ln_lark_node *list = make_node(p, LN_LARK_SEQUENCE);
    while (!has_failed(p)) {
        skip_in_body(p);
        ln_lark_node *part = read_part(p);
        if (part == NULL)
            break;
        add_part(p, list, part);
    }
    if (!has_failed(p) && take(p, "->")) { /* an alias names a tree, and there is none */
        skip(p, false);
        take_name(p);
        skip_in_body(p);
    }
    return list;
}

static ln_lark_node *read_and(lark_parser *p) {
    ln_lark_node *first = read_sequence(p);
    while (!has_failed(p) && take(p, "&")) {
        ln_lark_node *both = make_node(p, LN_LARK_AND);
        add_part(p, both, first);
        add_part(p, both, read_sequence(p));
        first = both;
    }
    return first;
}

static ln_lark_node *read_choice(lark_parser *p) {
    ln_lark_node *list = make_node(p, LN_LARK_CHOICE);
    if (++p->level > LN_GRAMMAR_MAX_DEPTH)
        fail_as(p, LINNET_ERR_LIMIT, "the grammar has too many groups within groups", "");
    do
        add_part(p, list, read_and(p));
    while (!has_failed(p) && take(p, "|"));
    p->level--;
    return list;
}

/* ---- statements --------------------------------------------------------------------------------
 */

static ln_lark_node *read_option_value(lark_parser *p) {
    skip(p, true);
    if (!take(p, "="))
        fail(p, "an option has no value");
    skip(p, true);
    ln_lark_node *value = read_atom(p);
    if (value == NULL)
        fail(p, "an option has no value");
    return value;
}

/* [lazy, suffix="x", ...] behind a rule's name. */
static void read_options(lark_parser *p, ln_lark_symbol *symbol) {
    do {
        skip(p, true);
        size_t begin = p->at, n_bytes = take_name(p);
        const char *name = p->text + begin;
#define IS(word) (n_bytes == sizeof(word) - 1 && memcmp(name, word, n_bytes) == 0)
        if (IS("lazy"))
            symbol->is_lazy = true;
        else if (IS("suffix"))
            symbol->suffix = read_option_value(p);
        else if (IS("stop"))
            symbol->stop = read_option_value(p);
        else if (IS("capture") || IS("stop_capture")) {
            skip(p, true);
            if (peek(p) == '=')
                read_option_value(p);
        } else {
            fail_unsupported(p, "this option of a rule");
        }
#undef IS
        skip(p, true);
    } while (!has_failed(p) && take(p, ","));
    if (!take(p, "]"))
        fail(p, "the options of a rule have no ]");
}

static void read_rule(lark_parser *p) {
    if (peek(p) == '?' || peek(p) == '!')
        p->at++;
    size_t begin = p->at, n_bytes = take_name(p);
    if (n_bytes == 0) {
        fail(p, "a rule begins with its name and :");
        return;
    }
    uint32_t number = find_symbol(p, p->text + begin, n_bytes);
    if (has_failed(p))
        return;
    ln_lark_symbol *symbol = &p->lark->symbols[number];
    skip(p, false);
    if (take(p, "."))
        while (peek(p) == '-' || (peek(p) >= '0' && peek(p) <= '9'))
            p->at++; /* a priority, which chooses among ways to read one text */
    if (peek(p) == '{')
        fail_unsupported(p, "a template");
    if (take(p, "["))
        read_options(p, symbol);
    skip(p, false);
    if (!take(p, ":") || begins(p, ":"))
        fail(p, "a rule begins with its name and :");
    if (symbol->body != NULL)
        fail(p, "a rule is there twice");
    ln_lark_node *body = read_choice(p);
    symbol->body = body;
    if (!has_failed(p) && p->at < p->n_bytes && peek(p) != '\n' && peek(p) != '\r')
        fail(p, "a part of a rule is none of \"text\", /expression/, (group), [group], <token>, "
                "%json and a name");
}

static void import_one(lark_parser *p, const char *name, size_t n_bytes, const char *as,
                       size_t as_bytes) {
    const char *regex = ln_lark_common(name, n_bytes);
    uint32_t number = find_symbol(p, as, as_bytes);
    if (regex == NULL || as_bytes == 0) {
        fail_as(p, LINNET_ERR_ARGUMENT, "common has no terminal of this name", "");
        return;
    }
    if (!has_failed(p))
        p->lark->symbols[number].body = make_text(p, LN_LARK_REGEX, regex, strlen(regex));
}

/* %import common.NAME, common.NAME -> OTHER, common (NAME, NAME). */
static void read_import(lark_parser *p) {
    skip(p, false);
    if (!take(p, "common")) {
        fail_unsupported(p, "%import of another library than common");
        return;
    }
    skip(p, false);
    if (take(p, ".")) {
        const char *name = p->text + p->at;
        size_t n_bytes = take_name(p);
        skip(p, false);
        if (take(p, "->")) {
            skip(p, false);
            const char *as = p->text + p->at;
            import_one(p, name, n_bytes, as, take_name(p));
        } else {
            import_one(p, name, n_bytes, name, n_bytes);
        }
        return;
    }
    if (!take(p, "("))
        fail(p, "%import has no name");
    do {
        skip(p, true);
        const char *name = p->text + p->at;
        size_t n_bytes = take_name(p);
        import_one(p, name, n_bytes, name, n_bytes);
        skip(p, true);
    } while (!has_failed(p) && take(p, ","));
    if (!take(p, ")"))
        fail(p, "%import has no )");
}

/* %llguidance {...}: options, of which these bear on the language. */
static void read_grammar_options(lark_parser *p) {
    const ln_lark_node *node = read_json(p, LN_LARK_JSON);
    json_t *root = has_failed(p) ? NULL : ln_json_load_bytes(node->text, node->n_bytes, 0, NULL),
           *value;
    const char *key;
    json_object_foreach(root, key, value) {
        if (strcmp(key, "allow_initial_skip") == 0)
            p->lark->ignores_first = json_is_true(value);
        else if (strcmp(key, "skip_repetition") == 0)
            p->lark->ignores_once = ln_json_is(value, "once");
        else if (strcmp(key, "no_forcing") != 0)
            fail_unsupported(p, "this option of %llguidance");
    }
    json_decref(root);
}

static void read_ignore(lark_parser *p) {
    if (p->lark->ignored == NULL)
        p->lark->ignored = make_node(p, LN_LARK_CHOICE);
    add_part(p, p->lark->ignored, read_choice(p));
}

static void read_statement(lark_parser *p) {
    if (take(p, "%ignore"))
        read_ignore(p);
    else if (take(p, "%import"))
        read_import(p);
    else if (take(p, "%llguidance"))
        read_grammar_options(p);
    else if (peek(p) == '%')
        fail_unsupported(p, "this statement");
    else
        read_rule(p);
    skip(p, false);
    if (!has_failed(p) && p->at < p->n_bytes && peek(p) != '\n' && peek(p) != '\r' &&
        peek(p) != '%')
        fail(p, "a line has something behind its end");
}

void ln_lark_parse(ln_lark *lark, const char *text, size_t n_bytes) {
    lark_parser p = {.lark = lark, .builder = lark->builder, .text = text, .n_bytes = n_bytes};
    ln_arena *arena = &lark->builder->arena;
    lark->symbols = ln_arena_alloc(arena, LN_LARK_MAX_SYMBOLS, sizeof *lark->symbols);
    if (lark->symbols == NULL || !ln_hashmap_init(&p.names, arena, LN_LARK_MAX_SYMBOLS)) {
        ln_grammar_fail_memory(lark->builder);
        return;
    }
    for (skip(&p, true); p.at < p.n_bytes && !has_failed(&p); skip(&p, true))
        read_statement(&p);
    for (size_t i = 0; i < lark->n_symbols && !has_failed(&p); i++)
        if (lark->symbols[i].body == NULL)
            ln_grammar_fail(lark->builder, LINNET_ERR_ARGUMENT, "there is no rule \"%.*s\"",
                            (int)(lark->symbols[i].n_bytes < 80 ? lark->symbols[i].n_bytes : 80),
                            lark->symbols[i].name);
}

bool ln_grammar_is_lark(const char *text, size_t n_bytes) {
    const lark_parser p = {.text = text, .n_bytes = n_bytes};
    size_t at = skip_from(&p, 0, true);
    if (at < n_bytes && text[at] == '%')
        return true;
    while (at < n_bytes && (is_name(text[at]) || text[at] == '?' || text[at] == '!'))
        at++;
    at = skip_from(&p, at, false);
    if (at < n_bytes && (text[at] == '.' || text[at] == '['))
        return true;
    return at < n_bytes && text[at] == ':' && !(at + 1 < n_bytes && text[at + 1] == ':');
}
