/* The compiled form of a template: tokens, then a tree whose names are symbols. */
#ifndef LN_TEXT_JINJA_AST_H
#define LN_TEXT_JINJA_AST_H

#include "base/hashmap.h"
#include "text/jinja/value.h"

typedef enum ln_tpl_token_kind {
    LN_TPL_TOKEN_DATA,
    LN_TPL_TOKEN_PRINT_BEGIN,
    LN_TPL_TOKEN_PRINT_END,
    LN_TPL_TOKEN_BLOCK_BEGIN,
    LN_TPL_TOKEN_BLOCK_END,
    LN_TPL_TOKEN_NAME,
    LN_TPL_TOKEN_STRING,
    LN_TPL_TOKEN_INT,
    LN_TPL_TOKEN_FLOAT,
    LN_TPL_TOKEN_OPERATOR, /* text[0 .. n_bytes): one or two characters */
    LN_TPL_TOKEN_END
} ln_tpl_token_kind;

typedef struct ln_tpl_token {
    ln_tpl_token_kind kind;
    uint32_t line;
    const char *text; /* [n_bytes], in the arena; escapes of strings decoded */
    size_t n_bytes;
    int64_t integer;
    double real;
} ln_tpl_token;

typedef enum ln_tpl_node_kind {
    /* expressions */
    LN_TPL_NODE_CONST,
    LN_TPL_NODE_NAME,
    LN_TPL_NODE_ATTRIBUTE,
    LN_TPL_NODE_ITEM,
    LN_TPL_NODE_SLICE,
    LN_TPL_NODE_LIST,
    LN_TPL_NODE_TUPLE,
    LN_TPL_NODE_DICT,
    LN_TPL_NODE_CONCAT,
    LN_TPL_NODE_UNARY,
    LN_TPL_NODE_BINARY,
    LN_TPL_NODE_AND,
    LN_TPL_NODE_OR,
    LN_TPL_NODE_NOT,
    LN_TPL_NODE_COMPARE,
    LN_TPL_NODE_CONDITION,
    LN_TPL_NODE_CALL,
    LN_TPL_NODE_FILTER,
    LN_TPL_NODE_TEST,
    LN_TPL_NODE_NAMESPACE_REF, /* a target only */
    /* statements */
    LN_TPL_NODE_TEXT,
    LN_TPL_NODE_PRINT,
    LN_TPL_NODE_IF,
    LN_TPL_NODE_FOR,
    LN_TPL_NODE_SET,
    LN_TPL_NODE_SET_BLOCK,
    LN_TPL_NODE_WITH,
    LN_TPL_NODE_MACRO,
    LN_TPL_NODE_CALL_BLOCK,
    LN_TPL_NODE_FILTER_BLOCK,
    LN_TPL_NODE_SCOPE, /* generation, block: a body with its own assignments */
    LN_TPL_NODE_BREAK,
    LN_TPL_NODE_CONTINUE
} ln_tpl_node_kind;

typedef enum ln_tpl_op {
    LN_TPL_ADD,
    LN_TPL_SUB,
    LN_TPL_MUL,
    LN_TPL_DIV,
    LN_TPL_FLOORDIV,
    LN_TPL_MOD,
    LN_TPL_POW
} ln_tpl_op;

typedef enum ln_tpl_relation {
    LN_TPL_REL_EQ,
    LN_TPL_REL_NE,
    LN_TPL_REL_LT,
    LN_TPL_REL_LE,
    LN_TPL_REL_GT,
    LN_TPL_REL_GE,
    LN_TPL_REL_IN,
    LN_TPL_REL_NOT_IN
} ln_tpl_relation;

typedef struct ln_tpl_node ln_tpl_node;

typedef struct ln_tpl_nodes {
    ln_tpl_node **items; /* [count]; the room is the next power of two */
    uint32_t count;
} ln_tpl_nodes;

typedef struct ln_tpl_call_args {
    ln_tpl_nodes positional;
    ln_tpl_nodes named; /* values; names[i] goes with named.items[i] */
    ln_tpl_string **names;
    ln_tpl_node *rest, *rest_named; /* *args, **kwargs; or NULL */
} ln_tpl_call_args;

/* What macros and call blocks share. */
typedef struct ln_tpl_signature {
    uint32_t *parameters; /* [n_parameters] symbols */
    uint32_t n_parameters;
    ln_tpl_nodes defaults; /* of the last parameters */
    ln_tpl_nodes body;
    bool uses_caller, uses_kwargs, uses_varargs;
} ln_tpl_signature;

struct ln_tpl_node {
    ln_tpl_node_kind kind;
    uint32_t line;
    union {
        ln_tpl_value constant; /* CONST, TEXT */
        uint32_t symbol;       /* NAME */
        struct {
            ln_tpl_node *object;
            ln_tpl_string *name;
        } attribute;
        struct {
            ln_tpl_node *object, *index;
        } item;
        struct {
            ln_tpl_node *object, *start, *stop, *step; /* bounds may be NULL */
        } slice;
        ln_tpl_nodes list; /* LIST, TUPLE, CONCAT; DICT: keys and values in turn */
        struct {
            ln_tpl_op op;
            ln_tpl_node *left, *right; /* UNARY, NOT: left only */
        } binary;                      /* AND, OR too */
        struct {
            ln_tpl_nodes operands; /* one more than relations */
            ln_tpl_relation *relations;
        } compare;
        struct {
            ln_tpl_node *test, *then, *otherwise; /* otherwise may be NULL */
        } condition;
        struct {
            ln_tpl_node *callee;
            ln_tpl_call_args args;
        } call;
        struct {                  /* FILTER, TEST */
            ln_tpl_node *operand; /* NULL: the text of the enclosing block */
            ln_tpl_string *name;
            const ln_tpl_builtin *builtin; /* NULL: unknown, an error when it runs */
            ln_tpl_call_args args;
        } apply;
        struct {
            uint32_t symbol;
            ln_tpl_string *name;
        } namespace_ref;
        ln_tpl_node *print;
        struct {
            ln_tpl_node *test;
            ln_tpl_nodes body, otherwise; /* an elif is one IF in otherwise */
        } branch;
        struct {
            ln_tpl_node *target, *iterable, *test; /* test may be NULL */
            ln_tpl_nodes body, otherwise;
            bool recursive;
        } loop;
        struct {
            ln_tpl_node *target, *value;
        } set;
        struct {
            ln_tpl_node *target, *filter; /* either may be NULL: SET_BLOCK, FILTER_BLOCK */
            ln_tpl_nodes body;
        } block;
        struct {
            ln_tpl_nodes targets, values, body;
        } with;
        struct { /* MACRO; CALL_BLOCK: call is a CALL */
            uint32_t symbol;
            ln_tpl_node *call;
            ln_tpl_signature signature;
        } macro;
        ln_tpl_nodes scope;
    } as;
};

/* A compiled template: immutable. */
typedef struct ln_tpl_program {
    ln_arena arena;
    const char *name;
    ln_tpl_string **symbols; /* [n_symbols] */
    uint32_t n_symbols;
    uint32_t symbol_loop, symbol_caller, symbol_varargs, symbol_kwargs;
    ln_tpl_nodes body;
} ln_tpl_program;

/* Splits `source` (valid UTF-8) into tokens, the last one END; the caller frees *tokens. Texts
 * lie in the arena. */
ln_status ln_tpl_lex(ln_arena *arena, const char *source, size_t n_bytes, const char *name,
                     ln_tpl_token **tokens, size_t *n_tokens, ln_error *err);

/* program->name and arena are set; fills the rest. */
ln_status ln_tpl_parse(ln_tpl_program *program, const ln_tpl_token *tokens, size_t n_tokens,
                       ln_error *err);

#endif
