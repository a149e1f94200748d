/* One rendering: its limits, its scopes, and the calls between evaluator and builtins. */
#ifndef LN_TEXT_JINJA_RUN_H
#define LN_TEXT_JINJA_RUN_H

#include <jansson.h>
#include <time.h>

#include "text/jinja/ast.h"

enum {
    LN_TPL_MAX_SOURCE_BYTES = 4 << 20,
    LN_TPL_MAX_NESTING = 180,  /* parser: brackets and blocks */
    LN_TPL_MAX_DEPTH = 1000,   /* evaluator: nested nodes, calls and containers */
    LN_TPL_MAX_RANGE = 100000, /* as the sandbox of Jinja */
};
#define LN_TPL_MAX_FUEL         INT64_C(10000000)
#define LN_TPL_MAX_ARENA_BYTES  ((size_t)64 << 20)
#define LN_TPL_MAX_OUTPUT_BYTES ((size_t)32 << 20)

typedef struct ln_tpl_binding {
    uint32_t symbol;
    ln_tpl_value value;
} ln_tpl_binding;

typedef struct ln_tpl_scope {
    struct ln_tpl_scope *parent; /* lexical */
    ln_tpl_binding *bindings;
    size_t n_bindings, capacity;
    bool captured; /* a macro or generator keeps it: a loop may not reuse it */
} ln_tpl_scope;

struct ln_tpl_macro {
    const ln_tpl_signature *signature;
    const ln_tpl_string *name; /* NULL: a call block */
    ln_tpl_scope *scope;
};

struct ln_tpl_loop {
    const ln_tpl_node *node;
    ln_tpl_scope *scope; /* of the for statement */
    ln_tpl_value iterable;
    ln_tpl_iter iter;
    int64_t index0, depth0, length;      /* length -1: not known yet */
    ln_tpl_value before, current, after; /* MISSING: none (yet) */
    bool ended;                          /* the iterator is exhausted */
    ln_tpl_value changed;
};

typedef enum ln_tpl_flow { LN_TPL_FLOW_NEXT, LN_TPL_FLOW_BREAK, LN_TPL_FLOW_CONTINUE } ln_tpl_flow;

struct ln_tpl_run {
    const ln_tpl_program *program;
    json_t *context;
    const struct tm *now;
    ln_arena arena;
    int64_t fuel;
    int depth;
    uint32_t line; /* of the statement or call that runs, for errors */
    ln_tpl_flow flow;
    ln_tpl_value *globals; /* [n_symbols] MISSING: neither context nor builtin */
    ln_tpl_builder *out;
    uint64_t hash_seed;
    ln_error *err;
};

/* ---- failures and limits ---------------------------------------------------------------- */

/* Fills the error with "NAME, line N: CLASS: message". */
__attribute__((format(printf, 3, 4))) ln_status
ln_tpl_raise(ln_tpl_run *run, const char *class_name, const char *format, ...);
ln_status ln_tpl_raise_undefined(ln_tpl_run *run, ln_tpl_value undefined);
ln_status ln_tpl_alloc(ln_tpl_run *run, size_t count, size_t item_bytes, void *out);
ln_status ln_tpl_spend(ln_tpl_run *run, size_t operations);
static inline ln_status ln_tpl_spend_bytes(ln_tpl_run *run, size_t n_bytes) {
    return ln_tpl_spend(run, n_bytes / 16 + 1);
}
/* Every recursion of the evaluator and over nested values passes here. */
ln_status ln_tpl_enter(ln_tpl_run *run);
static inline void ln_tpl_leave(ln_tpl_run *run) {
    run->depth--;
}
/* The bytes of a string as a C string for messages, cut to fit. */
const char *ln_tpl_quote(ln_tpl_run *run, ln_tpl_value value); /* repr(value) */

/* ---- builtins --------------------------------------------------------------------------- */

typedef struct ln_tpl_named {
    const ln_tpl_string *name;
    ln_tpl_value value;
} ln_tpl_named;

typedef struct ln_tpl_args {
    ln_tpl_value *positional;
    size_t n_positional;
    ln_tpl_named *named;
    size_t n_named;
} ln_tpl_args;

/* args->positional is as long as `parameters`, with MISSING where nothing was given; a builtin
 * whose parameters are NULL sees the call as it was written. */
typedef ln_status (*ln_tpl_builtin_fn)(ln_tpl_run *run, ln_tpl_value self, ln_tpl_args *args,
                                       ln_tpl_value *out);
struct ln_tpl_builtin {
    const char *name;
    ln_tpl_builtin_fn fn;
    const char *parameters; /* names, each followed by a space */
    unsigned n_required;
};

const ln_tpl_builtin *ln_tpl_find(const ln_tpl_builtin *table, size_t n, const ln_tpl_string *name);
const ln_tpl_builtin *ln_tpl_find_filter(const ln_tpl_string *name);
const ln_tpl_builtin *ln_tpl_find_test(const ln_tpl_string *name);
const ln_tpl_builtin *ln_tpl_find_global(const ln_tpl_string *name);
const ln_tpl_builtin *ln_tpl_find_string_method(const ln_tpl_string *name);
const ln_tpl_builtin *ln_tpl_find_number_filter(const ln_tpl_string *name);
const ln_tpl_builtin *ln_tpl_find_list_filter(const ln_tpl_string *name);
const ln_tpl_builtin *ln_tpl_find_method(ln_tpl_value self, const ln_tpl_string *name);
ln_status ln_tpl_invoke(ln_tpl_run *run, const ln_tpl_builtin *builtin, ln_tpl_value self,
                        const ln_tpl_args *args, ln_tpl_value *out);

/* Arguments of builtins. `index` is a position in args->positional. */
static inline ln_tpl_value ln_tpl_arg(const ln_tpl_args *args, size_t index) {
    return args->positional[index];
}
static inline bool ln_tpl_has_arg(const ln_tpl_args *args, size_t index) {
    return args->positional[index].kind != LN_TPL_MISSING;
}
static inline bool ln_tpl_arg_truthy(const ln_tpl_args *args, size_t index) {
    return ln_tpl_has_arg(args, index) && ln_tpl_truthy(args->positional[index]);
}
/* An int (bool counts), or `fallback` when missing; anything else is a TypeError. */
ln_status ln_tpl_arg_int(ln_tpl_run *run, const ln_tpl_args *args, size_t index, int64_t fallback,
                         int64_t *out);
/* A str; anything else is a TypeError. *out is left alone when the argument is missing. */
ln_status ln_tpl_arg_string(ln_tpl_run *run, const ln_tpl_args *args, size_t index,
                            ln_tpl_string **out);

/* ---- evaluation ------------------------------------------------------------------------- */

ln_status ln_tpl_eval(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node,
                      ln_tpl_value *out);
ln_status ln_tpl_eval_args(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_call_args *nodes,
                           ln_tpl_args *args);
/* A FILTER node over `operand` in place of its own. */
ln_status ln_tpl_eval_filter(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *node,
                             ln_tpl_value operand, ln_tpl_value *out);
ln_status ln_tpl_call(ln_tpl_run *run, ln_tpl_value callee, const ln_tpl_args *args,
                      ln_tpl_value *out);

ln_status ln_tpl_exec(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_nodes *body);
ln_status ln_tpl_call_macro(ln_tpl_run *run, const ln_tpl_macro *macro, const ln_tpl_args *args,
                            ln_tpl_value *out);
ln_status ln_tpl_call_loop(ln_tpl_run *run, const ln_tpl_loop *loop, const ln_tpl_args *args,
                           ln_tpl_value *out);

ln_status ln_tpl_scope_new(ln_tpl_run *run, ln_tpl_scope *parent, ln_tpl_scope **out);
ln_status ln_tpl_scope_set(ln_tpl_run *run, ln_tpl_scope *scope, uint32_t symbol,
                           ln_tpl_value value);
/* Assigns to a NAME, a TUPLE of targets or a NAMESPACE_REF. */
ln_status ln_tpl_assign(ln_tpl_run *run, ln_tpl_scope *scope, const ln_tpl_node *target,
                        ln_tpl_value value);

ln_status ln_tpl_undefined_hint(ln_tpl_run *run, const char *hint, ln_tpl_value *out);
ln_status ln_tpl_undefined_name(ln_tpl_run *run, ln_tpl_value object, ln_tpl_value name,
                                ln_tpl_value *out);
/* object.name and object[index] as the sandbox of Jinja resolves them. */
ln_status ln_tpl_get_attribute(ln_tpl_run *run, ln_tpl_value object, ln_tpl_string *name,
                               ln_tpl_value *out);
ln_status ln_tpl_get_item(ln_tpl_run *run, ln_tpl_value object, ln_tpl_value index,
                          ln_tpl_value *out);
/* What a dotted path such as "function.name" reaches; an int or a str of digits indexes. */
ln_status ln_tpl_get_path(ln_tpl_run *run, ln_tpl_value object, ln_tpl_value path,
                          ln_tpl_value fallback, ln_tpl_value *out);
/* bounds: start, stop, step; MISSING or None where absent. */
ln_status ln_tpl_get_slice(ln_tpl_run *run, ln_tpl_value object, const ln_tpl_value bounds[3],
                           ln_tpl_value *out);
ln_status ln_tpl_binary(ln_tpl_run *run, ln_tpl_op op, ln_tpl_value left, ln_tpl_value right,
                        ln_tpl_value *out);
ln_status ln_tpl_negate(ln_tpl_run *run, ln_tpl_value operand, ln_tpl_value *out);
/* Fills loop->after: the next item, MISSING at the end. */
ln_status ln_tpl_loop_peek(ln_tpl_run *run, ln_tpl_loop *loop);
ln_status ln_tpl_loop_attribute(ln_tpl_run *run, ln_tpl_loop *loop, const ln_tpl_string *name,
                                ln_tpl_value *out, bool *found);

/* `format % args`, and str.format. */
ln_status ln_tpl_percent(ln_tpl_run *run, const ln_tpl_string *format, ln_tpl_value args,
                         ln_tpl_value *out);
ln_status ln_tpl_brace_format(ln_tpl_run *run, const ln_tpl_string *format, const ln_tpl_args *args,
                              ln_tpl_value *out);

/* HTML escaping as markupsafe does it; the result is Markup. */
ln_status ln_tpl_escape(ln_tpl_run *run, ln_tpl_value value, ln_tpl_value *out);
/* Python's int(text, base) and float(text); false where it would raise ValueError. An integer
 * beyond 64 bits sets *overflow. */
bool ln_tpl_parse_int(const ln_tpl_string *text, int base, int64_t *out, bool *overflow);
bool ln_tpl_parse_float(const ln_tpl_string *text, double *out);

/* list(value), sorted by key(item) with `<`, stable. keys[i] goes with items[i]. */
ln_status ln_tpl_sort(ln_tpl_run *run, ln_tpl_value *items, ln_tpl_value *keys, size_t n,
                      bool reverse);

/* str methods that filters share. chars NULL: whitespace. */
ln_status ln_tpl_strip(ln_tpl_run *run, const ln_tpl_string *string, const ln_tpl_string *chars,
                       bool left, bool right, ln_tpl_value *out);
ln_status ln_tpl_replace(ln_tpl_run *run, const ln_tpl_string *string, const ln_tpl_string *old,
                         const ln_tpl_string *new_text, int64_t count, ln_tpl_value *out);
ln_status ln_tpl_split_lines(ln_tpl_run *run, const ln_tpl_string *string, bool keep_ends,
                             ln_tpl_value *out);
ln_status ln_tpl_join(ln_tpl_run *run, const ln_tpl_string *separator, ln_tpl_value items,
                      bool convert, ln_tpl_value *out);
typedef enum ln_tpl_case {
    LN_TPL_CASE_UPPER,
    LN_TPL_CASE_LOWER,
    LN_TPL_CASE_CAPITAL,
    LN_TPL_CASE_TITLE, /* str.title */
    LN_TPL_CASE_WORDS, /* the filter title */
    LN_TPL_CASE_SWAP
} ln_tpl_case;
ln_status ln_tpl_change_case(ln_tpl_run *run, const ln_tpl_string *string, ln_tpl_case to,
                             ln_tpl_value *out);
ln_status ln_tpl_pad(ln_tpl_run *run, const ln_tpl_string *string, int64_t left, int64_t right,
                     const ln_tpl_string *fill, ln_tpl_value *out);
ln_status ln_tpl_center(ln_tpl_run *run, const ln_tpl_string *string, int64_t width,
                        const ln_tpl_string *fill, ln_tpl_value *out);
/* Whether all cased characters are upper (lower) and there is one. */
bool ln_tpl_is_case(const ln_tpl_string *string, bool upper);

#endif
