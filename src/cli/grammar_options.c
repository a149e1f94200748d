#include "cli/grammar_options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "grammar/grammar.h"

enum {
    KEY_JSON = LN_KEYS_GRAMMAR,
    KEY_JSON_SCHEMA,
    KEY_REGEX,
    KEY_CHOICE,
    KEY_GRAMMAR,
    KEY_GRAMMAR_TYPE,
    KEY_STRUCTURAL_TAG,
    KEY_JSON_WHITESPACE,
    KEY_JSON_ORDER,
    KEY_JSON_STRICT
};

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "A JSON object", 0},
    {"json-schema", KEY_JSON_SCHEMA, "SCHEMA", 0,
     "JSON that satisfies SCHEMA: a file, or the schema itself when it begins with { or is true",
     0},
    {"regex", KEY_REGEX, "REGEX", 0, "Text that matches REGEX as a whole", 0},
    {"choice", KEY_CHOICE, "STRINGS", 0,
     "One of a JSON array of STRINGS, such as [\"yes\", \"no\"]", 0},
    {"grammar", KEY_GRAMMAR, "FILE", 0, "Text of a GBNF or Lark grammar", 0},
    {"structural-tag", KEY_STRUCTURAL_TAG, "TAG", 0,
     "Text with tagged parts, such as calls of tools: a file, or the tag itself when it begins "
     "with {",
     0},
    {"grammar-type", KEY_GRAMMAR_TYPE, "TYPE", 0,
     "What --grammar is: gbnf or lark (default: as it looks)", 1},
    {"json-whitespace", KEY_JSON_WHITESPACE, "HOW", 0,
     "White space in JSON: free or compact, which has none (default: free)", 1},
    {"json-order", KEY_JSON_ORDER, "HOW", 0,
     "Members of objects: free, or written, as in the schema (default: free)", 1},
    {"json-strict", KEY_JSON_STRICT, NULL, 0,
     "No members beside `properties' unless additionalProperties allows them", 1},
    {0}};

/* One of two words; false: the first. */
static bool choose(struct argp_state *state, const char *option, const char *arg, const char *first,
                   const char *second) {
    if (strcmp(arg, first) != 0 && strcmp(arg, second) != 0)
        argp_error(state, "%s is %s or %s, not '%s'", option, first, second, arg);
    return strcmp(arg, second) == 0;
}

/* What is said about a grammar beside which one it is. */
static error_t parse_form(int key, const char *arg, struct argp_state *state) {
    ln_cli_grammar_choice *grammar = state->input;
    unsigned bit = 0;
    bool is_set = true;
    grammar->form_option = key == KEY_JSON_WHITESPACE ? "--json-whitespace"
                           : key == KEY_JSON_ORDER    ? "--json-order"
                           : key == KEY_JSON_STRICT   ? "--json-strict"
                           : key == KEY_GRAMMAR_TYPE  ? "--grammar-type"
                                                      : grammar->form_option;
    switch (key) {
    case KEY_JSON_WHITESPACE:
        bit = LINNET_JSON_COMPACT;
        is_set = choose(state, "--json-whitespace", arg, "free", "compact");
        break;
    case KEY_JSON_ORDER:
        bit = LINNET_JSON_ORDERED;
        is_set = choose(state, "--json-order", arg, "free", "written");
        break;
    case KEY_JSON_STRICT: bit = LINNET_JSON_CLOSED; break;
    case KEY_GRAMMAR_TYPE:
        grammar->type = choose(state, "--grammar-type", arg, "gbnf", "lark") ? LINNET_GRAMMAR_LARK
                                                                             : LINNET_GRAMMAR_GBNF;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
    grammar->json_form = (grammar->json_form & ~bit) | (is_set ? bit : 0);
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    static const struct {
        int key;
        linnet_grammar_kind kind;
        const char *option;
    } kinds[] = {{KEY_JSON, LINNET_GRAMMAR_JSON, "--json"},
                 {KEY_JSON_SCHEMA, LINNET_GRAMMAR_JSON_SCHEMA, "--json-schema"},
                 {KEY_REGEX, LINNET_GRAMMAR_REGEX, "--regex"},
                 {KEY_CHOICE, LINNET_GRAMMAR_CHOICE, "--choice"},
                 {KEY_GRAMMAR, LINNET_GRAMMAR_GBNF, "--grammar"},
                 {KEY_STRUCTURAL_TAG, LINNET_GRAMMAR_STRUCTURAL_TAG, "--structural-tag"}};
    ln_cli_grammar_choice *grammar = state->input;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].key != key)
            continue;
        if (grammar->option != NULL)
            argp_error(state, "%s and %s exclude each other", grammar->option, kinds[i].option);
        grammar->kind = kinds[i].kind;
        grammar->option = kinds[i].option;
        grammar->value = arg;
        return 0;
    }
    return parse_form(key, arg, state);
}

const struct argp ln_cli_grammar_argp = {.options = options, .parser = parse};

/* Whether the option's value names a file: a grammar, or a schema that is not one itself. */
static bool names_file(const ln_cli_grammar_choice *grammar) {
    if (grammar->kind != LINNET_GRAMMAR_JSON_SCHEMA &&
        grammar->kind != LINNET_GRAMMAR_STRUCTURAL_TAG)
        return grammar->kind == LINNET_GRAMMAR_GBNF;
    const char *value = grammar->value + strspn(grammar->value, " \t\r\n");
    return *value != '{' && strcmp(value, "true") != 0 && strcmp(value, "false") != 0;
}

int ln_cli_grammar_read(ln_cli_grammar_choice *grammar, linnet_request_options *request) {
    bool is_file = names_file(grammar);
    if (is_file && grammar->text == NULL) {
        int status = ln_cli_read_text(grammar->value, &grammar->text, &grammar->n_bytes);
        if (status != 0)
            return status;
    }
    request->grammar_kind = grammar->kind;
    if (grammar->kind == LINNET_GRAMMAR_GBNF && grammar->type != LINNET_GRAMMAR_NONE)
        request->grammar_kind = grammar->type;
    else if (grammar->kind == LINNET_GRAMMAR_GBNF &&
             ln_grammar_is_lark(grammar->text, grammar->n_bytes))
        request->grammar_kind = LINNET_GRAMMAR_LARK;
    request->json_form = grammar->json_form;
    request->grammar = is_file ? grammar->text : grammar->value;
    request->grammar_bytes = is_file                  ? grammar->n_bytes
                             : grammar->value != NULL ? strlen(grammar->value)
                                                      : 0;
    return 0;
}

int ln_cli_grammar_load(ln_cli_grammar_choice *grammar, linnet_request_options *request) {
    if (grammar->kind == LINNET_GRAMMAR_NONE && grammar->form_option != NULL) {
        ln_cli_fail("%s is about a grammar or a schema, and none is given", grammar->form_option);
        return LN_EXIT_USAGE;
    }
    if (grammar->kind == LINNET_GRAMMAR_NONE)
        return 0;
    int status = ln_cli_grammar_read(grammar, request);
    if (status != 0)
        return status;
    bool is_file = names_file(grammar);
    ln_grammar *compiled = NULL;
    linnet_error err = {0};
    const ln_grammar_source source = {request->grammar_kind, request->grammar,
                                      request->grammar_bytes, request->reasoning,
                                      request->json_form};
    if (ln_grammar_compile(&source, NULL, &compiled, &err) != LINNET_OK) {
        ln_cli_fail("%s: %s%s%s%s", grammar->option, is_file ? grammar->value : "",
                    is_file ? ": " : "", err.message,
                    grammar->kind == LINNET_GRAMMAR_CHOICE
                        ? "; it takes a JSON array such as '[\"yes\", \"no\"]'"
                        : "");
        return err.status == LINNET_ERR_NOMEM ? LN_EXIT_FAILURE : LN_EXIT_USAGE;
    }
    ln_grammar_release(compiled);
    return 0;
}
