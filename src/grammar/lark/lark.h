/* Grammars in Lark's syntax, in the dialect of llguidance: rules in lower case, terminals in upper
 * case, which are regular; %ignore, %import common, %json, %regex; & and ~ of terminals; lazy
 * terminals. For the files of this folder: parse.c reads the text to a tree, lark.c makes rules of
 * it. */
#ifndef LN_GRAMMAR_LARK_LARK_H
#define LN_GRAMMAR_LARK_LARK_H

#include "grammar/expr.h"

typedef enum ln_lark_kind {
    LN_LARK_TEXT,    /* text, its escapes replaced */
    LN_LARK_REGEX,   /* text, without its slashes */
    LN_LARK_RANGE,   /* one character, low to high */
    LN_LARK_NAME,    /* symbol */
    LN_LARK_SPECIAL, /* text of a special token, with < and > */
    LN_LARK_JSON,    /* text: a schema */
    LN_LARK_CHUNKS,  /* text: what %regex has, a JSON object */
    LN_LARK_SEQUENCE,
    LN_LARK_CHOICE,
    LN_LARK_REPEAT,
    LN_LARK_AND,
    LN_LARK_NOT
} ln_lark_kind;

typedef struct ln_lark_node {
    ln_lark_kind kind;
    struct ln_lark_node *next; /* among the parts of the one that holds it */
    struct ln_lark_node *first, *last;
    const char *text; /* [n_bytes] */
    size_t n_bytes;
    unsigned flags;    /* LN_REGEX_*, of TEXT and REGEX */
    uint32_t min, max; /* REPEAT; RANGE: the code points */
    uint32_t symbol;   /* NAME */
} ln_lark_node;

typedef struct ln_lark_symbol {
    const char *name; /* [n_bytes] */
    size_t n_bytes;
    bool is_terminal; /* by its name */
    bool is_lazy;     /* ends as soon as it can */
    bool is_open;     /* is being made, of terminals */
    ln_lark_node *body, *suffix, *stop;
    /* rules + 1, 0: not yet: where what is ignored may come before it, and where not */
    uint32_t rules[2];
    bool has_body[2];
} ln_lark_symbol;

enum { LN_LARK_MAX_SYMBOLS = 8192 };

typedef struct ln_lark {
    ln_grammar_builder *builder;
    ln_lark_symbol *symbols; /* [n_symbols], the arena's */
    size_t n_symbols;
    ln_lark_node *ignored; /* a choice, NULL: nothing */
    bool ignores_once;     /* one of them at most */
    bool ignores_first;    /* before the text, too */
} ln_lark;

/* Reads the text; errors at the builder. */
void ln_lark_parse(ln_lark *lark, const char *text, size_t n_bytes);

/* The regular expression of a terminal of Lark's library `common'; NULL: there is none of that
 * name. */
const char *ln_lark_common(const char *name, size_t n_bytes);

#endif
