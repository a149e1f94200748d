#include "cli/grammar_options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "grammar/grammar.h"

enum { KEY_JSON = LN_KEYS_GRAMMAR, KEY_JSON_SCHEMA, KEY_REGEX, KEY_CHOICE, KEY_GRAMMAR };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "A JSON object", 0},
    {"json-schema", KEY_JSON_SCHEMA, "SCHEMA", 0,
     "JSON that satisfies SCHEMA: a file, or the schema itself when it begins with { or is true",
     0},
    {"regex", KEY_REGEX, "REGEX", 0, "Text that matches REGEX as a whole", 0},
    {"choice", KEY_CHOICE, "STRINGS", 0,
     "One of a JSON array of STRINGS, such as [\"yes\", \"no\"]", 0},
    {"grammar", KEY_GRAMMAR, "FILE", 0, "Text of a GBNF grammar", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    static const struct {
        int key;
        linnet_grammar_kind kind;
        const char *option;
    } kinds[] = {{KEY_JSON, LINNET_GRAMMAR_JSON, "--json"},
                 {KEY_JSON_SCHEMA, LINNET_GRAMMAR_JSON_SCHEMA, "--json-schema"},
                 {KEY_REGEX, LINNET_GRAMMAR_REGEX, "--regex"},
                 {KEY_CHOICE, LINNET_GRAMMAR_CHOICE, "--choice"},
                 {KEY_GRAMMAR, LINNET_GRAMMAR_GBNF, "--grammar"}};
    ln_cli_grammar_choice *grammar = state->input;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].key != key)
            continue;
        if (grammar->option != NULL)
            argp_error(state, "%s and %s exclude each other", grammar->option, kinds[i].option);
        *grammar =
            (ln_cli_grammar_choice){.kind = kinds[i].kind, .option = kinds[i].option, .value = arg};
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

const struct argp ln_cli_grammar_argp = {.options = options, .parser = parse};

/* Whether the option's value names a file: a grammar, or a schema that is not one itself. */
static bool names_file(const ln_cli_grammar_choice *grammar) {
    if (grammar->kind != LINNET_GRAMMAR_JSON_SCHEMA)
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
    request->grammar = is_file ? grammar->text : grammar->value;
    request->grammar_bytes = is_file                  ? grammar->n_bytes
                             : grammar->value != NULL ? strlen(grammar->value)
                                                      : 0;
    return 0;
}

int ln_cli_grammar_load(ln_cli_grammar_choice *grammar, linnet_request_options *request) {
    if (grammar->kind == LINNET_GRAMMAR_NONE)
        return 0;
    int status = ln_cli_grammar_read(grammar, request);
    if (status != 0)
        return status;
    bool is_file = names_file(grammar);
    ln_grammar *compiled = NULL;
    linnet_error err = {0};
    if (ln_grammar_compile(request->grammar_kind, request->grammar, request->grammar_bytes,
                           request->reasoning, NULL, &compiled, &err) != LINNET_OK) {
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
