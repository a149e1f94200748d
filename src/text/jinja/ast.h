/* The compiled form of a template: tokens, then a tree whose names are symbols. */
#ifndef LN_TEXT_JINJA_AST_H
#define LN_TEXT_JINJA_AST_H

#include "base/hashmap.h"
#include "text/jinja/value.h"

typedef enum ln_jinja_token_kind {
    LN_JINJA_TOKEN_DATA,
    LN_JINJA_TOKEN_PRINT_BEGIN,
    LN_JINJA_TOKEN_PRINT_END,
    LN_JINJA_TOKEN_BLOCK_BEGIN,
    LN_JINJA_TOKEN_BLOCK_END,
    LN_JINJA_TOKEN_NAME,
    LN_JINJA_TOKEN_STRING,
    LN_JINJA_TOKEN_INT,
    LN_JINJA_TOKEN_FLOAT,
    LN_JINJA_TOKEN_OPERATOR, /* text[0 .. n_bytes): one or two characters */
    LN_JINJA_TOKEN_END
} ln_jinja_token_kind;

typedef struct ln_jinja_token {
    ln_jinja_token_kind kind;
    uint32_t line;
    const char *text; /* [n_bytes], in the arena; escapes of strings decoded */
    size_t n_bytes;
    int64_t integer;
    double real;
} ln_jinja_token;

typedef enum ln_jinja_node_kind {
    /* expressions */
    LN_JINJA_NODE_CONST,
    LN_JINJA_NODE_NAME,
    LN_JINJA_NODE_ATTRIBUTE,
    LN_JINJA_NODE_ITEM,
    LN_JINJA_NODE_SLICE,
    LN_JINJA_NODE_LIST,
    LN_JINJA_NODE_TUPLE,
    LN_JINJA_NODE_DICT,
    LN_JINJA_NODE_CONCAT,
    LN_JINJA_NODE_UNARY,
    LN_JINJA_NODE_BINARY,
    LN_JINJA_NODE_AND,
    LN_JINJA_NODE_OR,
    LN_JINJA_NODE_NOT,
    LN_JINJA_NODE_COMPARE,
    LN_JINJA_NODE_CONDITION,
    LN_JINJA_NODE_CALL,
    LN_JINJA_NODE_FILTER,
    LN_JINJA_NODE_TEST,
    LN_JINJA_NODE_NAMESPACE_REF, /* a target only */
    /* statements */
    LN_JINJA_NODE_TEXT,
    LN_JINJA_NODE_PRINT,
    LN_JINJA_NODE_IF,
    LN_JINJA_NODE_FOR,
    LN_JINJA_NODE_SET,
    LN_JINJA_NODE_SET_BLOCK,
    LN_JINJA_NODE_WITH,
    LN_JINJA_NODE_MACRO,
    LN_JINJA_NODE_CALL_BLOCK,
    LN_JINJA_NODE_FILTER_BLOCK,
    LN_JINJA_NODE_SCOPE, /* generation, block: a body with its own assignments */
    LN_JINJA_NODE_BREAK,
    LN_JINJA_NODE_CONTINUE
} ln_jinja_node_kind;

typedef enum ln_jinja_op {
    LN_JINJA_ADD,
    LN_JINJA_SUB,
    LN_JINJA_MUL,
    LN_JINJA_DIV,
    LN_JINJA_FLOORDIV,
    LN_JINJA_MOD,
    LN_JINJA_POW
} ln_jinja_op;

typedef enum ln_jinja_relation {
    LN_JINJA_REL_EQ,
    LN_JINJA_REL_NE,
    LN_JINJA_REL_LT,
    LN_JINJA_REL_LE,
    LN_JINJA_REL_GT,
    LN_JINJA_REL_GE,
    LN_JINJA_REL_IN,
    LN_JINJA_REL_NOT_IN
} ln_jinja_relation;

typedef struct ln_jinja_node ln_jinja_node;

typedef struct ln_jinja_nodes {
    ln_jinja_node **items; /* [count]; the room is the next power of two */
    uint32_t count;
} ln_jinja_nodes;

typedef struct ln_jinja_call_args {
    ln_jinja_nodes positional;
    ln_jinja_nodes named; /* values; names[i] goes with named.items[i] */
    ln_jinja_string **names;
    ln_jinja_node *rest, *rest_named; /* *args, **kwargs; or NULL */
} ln_jinja_call_args;

/* What macros and call blocks share. */
typedef struct ln_jinja_signature {
    uint32_t *parameters; /* [n_parameters] symbols */
    uint32_t n_parameters;
    ln_jinja_nodes defaults; /* of the last parameters */
    ln_jinja_nodes body;
    bool uses_caller, uses_kwargs, uses_varargs;
} ln_jinja_signature;

struct ln_jinja_node {
    ln_jinja_node_kind kind;
    uint32_t line;
    union {
        ln_jinja_value constant; /* CONST, TEXT */
        uint32_t symbol;         /* NAME */
        struct {
            ln_jinja_node *object;
            ln_jinja_string *name;
        } attribute;
        struct {
            ln_jinja_node *object, *index;
        } item;
        struct {
            ln_jinja_node *object, *start, *stop, *step; /* bounds may be NULL */
        } slice;
        ln_jinja_nodes list; /* LIST, TUPLE, CONCAT; DICT: keys and values in turn */
        struct {
            ln_jinja_op op;
            ln_jinja_node *left, *right; /* UNARY, NOT: left only */
        } binary;                        /* AND, OR too */
        struct {
            ln_jinja_nodes operands; /* one more than relations */
            ln_jinja_relation *relations;
        } compare;
        struct {
            ln_jinja_node *test, *then, *otherwise; /* otherwise may be NULL */
        } condition;
        struct {
            ln_jinja_node *callee;
            ln_jinja_call_args args;
        } call;
        struct {                    /* FILTER, TEST */
            ln_jinja_node *operand; /* NULL: the text of the enclosing block */
            ln_jinja_string *name;
            const ln_jinja_builtin *builtin; /* NULL: unknown, an error when it runs */
            ln_jinja_call_args args;
        } apply;
        struct {
            uint32_t symbol;
            ln_jinja_string *name;
        } namespace_ref;
        ln_jinja_node *print;
        struct {
            ln_jinja_node *test;
            ln_jinja_nodes body, otherwise; /* an elif is one IF in otherwise */
        } branch;
        struct {
            ln_jinja_node *target, *iterable, *test; /* test may be NULL */
            ln_jinja_nodes body, otherwise;
            bool recursive;
        } loop;
        struct {
            ln_jinja_node *target, *value;
        } set;
        struct {
            ln_jinja_node *target, *filter; /* either may be NULL: SET_BLOCK, FILTER_BLOCK */
            ln_jinja_nodes body;
        } block;
        struct {
            ln_jinja_nodes targets, values, body;
        } with;
        struct { /* MACRO; CALL_BLOCK: call is a CALL */
            uint32_t symbol;
            ln_jinja_node *call;
            ln_jinja_signature signature;
        } macro;
        ln_jinja_nodes scope;
    } as;
};

/* A compiled template: immutable. */
typedef struct ln_jinja_program {
    ln_arena arena;
    const char *name;
    ln_jinja_string **symbols; /* [n_symbols] */
    uint32_t n_symbols;
    uint32_t symbol_loop, symbol_caller, symbol_varargs, symbol_kwargs;
    ln_jinja_nodes body;
} ln_jinja_program;

/* Splits `source` (valid UTF-8) into tokens, the last one END; the caller frees *tokens. Texts
 * lie in the arena. */
ln_status ln_jinja_lex(ln_arena *arena, const char *source, size_t n_bytes, const char *name,
                       ln_jinja_token **tokens, size_t *n_tokens, ln_error *err);

/* program->name and arena are set; fills the rest. */
ln_status ln_jinja_parse(ln_jinja_program *program, const ln_jinja_token *tokens, size_t n_tokens,
                         ln_error *err);

#endif
