/* Options that say what the output must look like. */
#ifndef LN_CLI_GRAMMAR_OPTIONS_H
#define LN_CLI_GRAMMAR_OPTIONS_H

#include <argp.h>
#include <linnet.h>

/* What was asked for; strings are argv's. */
typedef struct ln_cli_grammar_choice {
    linnet_grammar_kind kind;
    const char *option; /* as given, for messages */
    const char *value;  /* NULL with LINNET_GRAMMAR_JSON */
    char *text;         /* [n_bytes] what the value means, owned; NULL: not read yet */
    size_t n_bytes;
    linnet_grammar_kind type; /* of --grammar: GBNF or LARK; NONE: as it looks */
    unsigned json_form;
    const char *form_option; /* the last one that says how a grammar is meant; NULL: none */
} ln_cli_grammar_choice;

/* A child parser; its input is a zeroed ln_cli_grammar_choice. */
extern const struct argp ln_cli_grammar_argp;

/* Reads the file that is named, if there is one, and fills in the request. Prints what failed and
 * returns the exit status. `grammar` outlives the submission; its text is freed by the caller. */
int ln_cli_grammar_read(ln_cli_grammar_choice *grammar, linnet_request_options *request);

/* The same for any grammar, also none, and checks that it compiles; takes no model. */
int ln_cli_grammar_load(ln_cli_grammar_choice *grammar, linnet_request_options *request);

#endif
