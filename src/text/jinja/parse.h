/* The state that the two halves of the parser share. */
#ifndef LN_TEXT_JINJA_PARSE_H
#define LN_TEXT_JINJA_PARSE_H

#include "text/jinja/ast.h"

typedef struct ln_jinja_parser {
    ln_jinja_program *program;
    const ln_jinja_token *tokens; /* the last one is END */
    size_t at, n_tokens;
    ln_hashmap symbol_map;
    int depth;              /* nested brackets and blocks */
    int loop_depth;         /* for bodies around, up to the macro */
    bool inside_for;        /* anywhere around, macros or not: `loop` cannot be assigned */
    bool soft;              /* inside an if: an unknown filter fails when it runs */
    ln_jinja_node *unknown; /* the first filter or test without a builtin, outside of any if */
    struct ln_jinja_outer { /* the macros and call blocks around, innermost first */
        ln_jinja_signature *signature;
        struct ln_jinja_outer *outer;
    } * outer;
    ln_error *err;
} ln_jinja_parser;

/* "NAME, line N: MESSAGE", the line of the current token. */
__attribute__((format(printf, 2, 3))) ln_status ln_jinja_syntax_error(const ln_jinja_parser *p,
                                                                      const char *format, ...);
ln_status ln_jinja_unexpected(const ln_jinja_parser *p, const char *expected);
ln_status ln_jinja_parse_no_memory(const ln_jinja_parser *p);

static inline const ln_jinja_token *ln_jinja_peek(const ln_jinja_parser *p) {
    return &p->tokens[p->at];
}
/* The token after the current one (END again at the end). */
const ln_jinja_token *ln_jinja_look(const ln_jinja_parser *p);
void ln_jinja_advance(ln_jinja_parser *p);
bool ln_jinja_token_is(const ln_jinja_token *token, ln_jinja_token_kind kind, const char *text);
bool ln_jinja_at_name(const ln_jinja_parser *p, const char *text);
bool ln_jinja_at_operator(const ln_jinja_parser *p, const char *text);
bool ln_jinja_skip_name(ln_jinja_parser *p, const char *text);
bool ln_jinja_skip_operator(ln_jinja_parser *p, const char *text);
ln_status ln_jinja_expect_operator(ln_jinja_parser *p, const char *text);
ln_status ln_jinja_expect_name(ln_jinja_parser *p, const char *text);
ln_status ln_jinja_expect_kind(ln_jinja_parser *p, ln_jinja_token_kind kind, const char *what);

ln_status ln_jinja_node_new(ln_jinja_parser *p, ln_jinja_node_kind kind, uint32_t line,
                            ln_jinja_node **node);
ln_status ln_jinja_nodes_push(ln_jinja_parser *p, ln_jinja_nodes *nodes, ln_jinja_node *node);
/* The number of a name, made at its first use. */
ln_status ln_jinja_symbol(ln_jinja_parser *p, const char *text, size_t n_bytes, uint32_t *symbol);
ln_status ln_jinja_nest(ln_jinja_parser *p); /* p->depth-- undoes it */

/* Expressions. */
ln_status ln_jinja_binary_new(ln_jinja_parser *p, ln_jinja_node_kind kind, uint32_t line,
                              ln_jinja_op op, ln_jinja_node *left, ln_jinja_node *right,
                              ln_jinja_node **node);
/* A sign or an atom with what follows it; `with_filter`: filters and tests too. */
ln_status ln_jinja_parse_unary(ln_jinja_parser *p, bool with_filter, ln_jinja_node **node);
ln_status ln_jinja_parse_expression(ln_jinja_parser *p, bool conditional, ln_jinja_node **node);
/* One expression, or several with commas as a tuple. `end_name`: a keyword that ends it. */
ln_status ln_jinja_parse_tuple(ln_jinja_parser *p, bool conditional, const char *end_name,
                               bool parentheses, ln_jinja_node **node);
ln_status ln_jinja_parse_target(ln_jinja_parser *p, const char *end_name, bool namespaces,
                                ln_jinja_node **node);
/* `name(args) | name ...` after the bar; operand NULL: the text of the block. */
ln_status ln_jinja_parse_filter(ln_jinja_parser *p, ln_jinja_node *operand, bool inline_start,
                                ln_jinja_node **node);
/* One name to assign to. */
ln_status ln_jinja_parse_name(ln_jinja_parser *p, uint32_t *symbol);
ln_status ln_jinja_parse_signature(ln_jinja_parser *p, ln_jinja_signature *signature);

#endif
