/* linnet grammar: whether a grammar is taken, and which texts it allows. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/grammar_options.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "grammar/grammar.h"

enum { KEY_CHECK_LINES = LN_KEYS_COMMAND };

typedef struct grammar_args {
    ln_cli_grammar_choice grammar;
    const char *lines;
} grammar_args;

static const struct argp_option grammar_options[] = {
    {"check-lines", KEY_CHECK_LINES, "FILE", 0, "The texts, one per line; - is standard input", 0},
    {0}};

static error_t parse_grammar(int key, char *arg, struct argp_state *state) {
    grammar_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->grammar; break;
    case KEY_CHECK_LINES: args->lines = arg; break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", arg); break;
    case ARGP_KEY_END:
        if (args->grammar.kind == LINNET_GRAMMAR_NONE)
            argp_error(state, "a grammar is missing, such as --json-schema SCHEMA");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {{&ln_cli_grammar_argp, 0, "The grammar:", 4}, {0}};

static const struct argp argp = {
    .options = grammar_options,
    .parser = parse_grammar,
    .children = children,
    .doc = "Compiles a grammar, and says of each line of a file whether its text can be generated: "
           "`ok', or `no at byte N', where N bytes of the text can be."
           "\vThe exit status is 0 whatever the lines are, and 1 when the grammar is refused.",
};

/* Prints the verdict on one line of the file. */
static void check_line(ln_grammar *grammar, const char *line, size_t n_bytes) {
    size_t n_accepted = 0;
    bool complete = false;
    linnet_error err = {0};
    if (ln_grammar_match(grammar, line, n_bytes, &n_accepted, &complete, &err) != LINNET_OK)
        ln_cli_warn("%s", err.message); /* and the line counts as one that cannot be */
    if (complete && n_accepted == n_bytes)
        puts("ok");
    else
        printf("no at byte %zu\n", n_accepted);
}

static int check_lines(ln_grammar *grammar, const char *path) {
    char *text = NULL;
    size_t n_bytes = 0;
    int status = ln_cli_read_text(strcmp(path, "-") == 0 ? NULL : path, &text, &n_bytes);
    for (size_t at = 0; status == 0 && at < n_bytes;) {
        const char *end = memchr(text + at, '\n', n_bytes - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : n_bytes - at;
        check_line(grammar, text + at, length);
        at += length + 1;
    }
    free(text);
    return status;
}

int ln_cli_grammar(int argc, char **argv) {
    grammar_args args = {0};
    linnet_request_options request = {0};
    linnet_error err = {0};
    ln_grammar *grammar = NULL;
    if (ln_cli_parse(&argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    int status = ln_cli_grammar_read(&args.grammar, &request);
    const ln_grammar_source source = {request.grammar_kind, request.grammar, request.grammar_bytes,
                                      request.reasoning, request.json_form};
    if (status == 0 && ln_grammar_compile(&source, NULL, &grammar, &err) != LINNET_OK)
        status = ln_cli_fail("%s: %s", args.grammar.option, err.message);
    if (status == 0 && args.lines != NULL)
        status = check_lines(grammar, args.lines);
    ln_grammar_release(grammar);
    free(args.grammar.text);
    return status;
}
