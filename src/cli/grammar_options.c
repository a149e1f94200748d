#include "cli/grammar_options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"

enum { KEY_JSON = LN_KEYS_GRAMMAR, KEY_JSON_SCHEMA, KEY_REGEX, KEY_CHOICE, KEY_GRAMMAR };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "A JSON object", 0},
    {"json-schema", KEY_JSON_SCHEMA, "SCHEMA", 0,
     "JSON that satisfies SCHEMA: a file, or the schema itself when it begins with {", 0},
    {"regex", KEY_REGEX, "REGEX", 0, "Text that matches REGEX as a whole", 0},
    {"choice", KEY_CHOICE, "STRINGS", 0, "One of a JSON array of STRINGS", 0},
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
    ln_cli_grammar *grammar = state->input;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].key != key)
            continue;
        if (grammar->option != NULL)
            argp_error(state, "%s and %s exclude each other", grammar->option, kinds[i].option);
        *grammar = (ln_cli_grammar){.kind = kinds[i].kind, .option = kinds[i].option, .value = arg};
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

const struct argp ln_cli_grammar_argp = {.options = options, .parser = parse};

int ln_cli_grammar_load(ln_cli_grammar *grammar, linnet_request_options *request) {
    bool is_file = grammar->kind == LINNET_GRAMMAR_GBNF ||
                   (grammar->kind == LINNET_GRAMMAR_JSON_SCHEMA &&
                    grammar->value[strspn(grammar->value, " \t\r\n")] != '{');
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
