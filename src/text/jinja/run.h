/* One rendering: its limits, its scopes, and the calls between evaluator and builtins. */
#ifndef LN_TEXT_JINJA_RUN_H
#define LN_TEXT_JINJA_RUN_H

#include <jansson.h>
#include <time.h>

#include "text/jinja/ast.h"

enum {
    LN_JINJA_MAX_SOURCE_BYTES = 4 << 20,
    LN_JINJA_MAX_NESTING = 180,  /* parser: brackets and blocks */
    LN_JINJA_MAX_DEPTH = 1000,   /* evaluator: nested nodes, calls and containers */
    LN_JINJA_MAX_RANGE = 100000, /* as the sandbox of Jinja */
};
#define LN_JINJA_MAX_FUEL         INT64_C(10000000)
#define LN_JINJA_MAX_ARENA_BYTES  ((size_t)64 << 20)
#define LN_JINJA_MAX_OUTPUT_BYTES ((size_t)32 << 20)

typedef struct ln_jinja_binding {
    uint32_t symbol;
    ln_jinja_value value;
} ln_jinja_binding;

typedef struct ln_jinja_scope {
    struct ln_jinja_scope *parent; /* lexical */
    ln_jinja_binding *bindings;
    size_t n_bindings, capacity;
    bool captured; /* a macro or generator keeps it: a loop may not reuse it */
} ln_jinja_scope;

struct ln_jinja_macro {
    const ln_jinja_signature *signature;
    const ln_jinja_string *name; /* NULL: a call block */
    ln_jinja_scope *scope;
};

struct ln_jinja_loop {
    const ln_jinja_node *node;
    ln_jinja_scope *scope; /* of the for statement */
    ln_jinja_value iterable;
    ln_jinja_iter iter;
    int64_t index0, depth0, length;        /* length -1: not known yet */
    ln_jinja_value before, current, after; /* MISSING: none (yet) */
    bool ended;                            /* the iterator is exhausted */
    ln_jinja_value changed;
};

typedef enum ln_jinja_flow {
    LN_JINJA_FLOW_NEXT,
    LN_JINJA_FLOW_BREAK,
    LN_JINJA_FLOW_CONTINUE
} ln_jinja_flow;

struct ln_jinja_run {
    const ln_jinja_program *program;
    json_t *context;
    const struct tm *now;
    ln_arena arena;
    int64_t fuel;
    int depth;
    uint32_t line; /* of the statement or call that runs, for errors */
    ln_jinja_flow flow;
    ln_jinja_value *globals; /* [n_symbols] MISSING: neither context nor builtin */
    ln_jinja_builder *out;
    uint64_t hash_seed;
    ln_error *err;
};

/* ---- failures and limits ---------------------------------------------------------------- */

/* Fills the error with "NAME, line N: CLASS: message". */
__attribute__((format(printf, 3, 4))) ln_status
ln_jinja_raise(ln_jinja_run *run, const char *class_name, const char *format, ...);
ln_status ln_jinja_raise_undefined(ln_jinja_run *run, ln_jinja_value undefined);
ln_status ln_jinja_alloc(ln_jinja_run *run, size_t count, size_t item_bytes, void *out);
ln_status ln_jinja_spend(ln_jinja_run *run, size_t operations);
static inline ln_status ln_jinja_spend_bytes(ln_jinja_run *run, size_t n_bytes) {
    return ln_jinja_spend(run, n_bytes / 16 + 1);
}
/* Every recursion of the evaluator and over nested values passes here. */
ln_status ln_jinja_enter(ln_jinja_run *run);
static inline void ln_jinja_leave(ln_jinja_run *run) {
    run->depth--;
}
/* The bytes of a string as a C string for messages, cut to fit. */
const char *ln_jinja_quote(ln_jinja_run *run, ln_jinja_value value); /* repr(value) */

/* ---- builtins --------------------------------------------------------------------------- */

typedef struct ln_jinja_named {
    const ln_jinja_string *name;
    ln_jinja_value value;
} ln_jinja_named;

typedef struct ln_jinja_args {
    ln_jinja_value *positional;
    size_t n_positional;
    ln_jinja_named *named;
    size_t n_named;
} ln_jinja_args;

/* args->positional is as long as `parameters`, with MISSING where nothing was given; a builtin
 * whose parameters are NULL sees the call as it was written. */
typedef ln_status (*ln_jinja_builtin_fn)(ln_jinja_run *run, ln_jinja_value self,
                                         ln_jinja_args *args, ln_jinja_value *out);
struct ln_jinja_builtin {
    const char *name;
    ln_jinja_builtin_fn fn;
    const char *parameters; /* names, each followed by a space */
    unsigned n_required;
};

const ln_jinja_builtin *ln_jinja_find(const ln_jinja_builtin *table, size_t n,
                                      const ln_jinja_string *name);
const ln_jinja_builtin *ln_jinja_find_filter(const ln_jinja_string *name);
const ln_jinja_builtin *ln_jinja_find_test(const ln_jinja_string *name);
const ln_jinja_builtin *ln_jinja_find_global(const ln_jinja_string *name);
const ln_jinja_builtin *ln_jinja_find_string_method(const ln_jinja_string *name);
const ln_jinja_builtin *ln_jinja_find_number_filter(const ln_jinja_string *name);
const ln_jinja_builtin *ln_jinja_find_list_filter(const ln_jinja_string *name);
const ln_jinja_builtin *ln_jinja_find_method(ln_jinja_value self, const ln_jinja_string *name);
ln_status ln_jinja_invoke(ln_jinja_run *run, const ln_jinja_builtin *builtin, ln_jinja_value self,
                          const ln_jinja_args *args, ln_jinja_value *out);

/* Arguments of builtins. `index` is a position in args->positional. */
static inline ln_jinja_value ln_jinja_arg(const ln_jinja_args *args, size_t index) {
    return args->positional[index];
}
static inline bool ln_jinja_has_arg(const ln_jinja_args *args, size_t index) {
    return args->positional[index].kind != LN_JINJA_MISSING;
}
static inline bool ln_jinja_arg_truthy(const ln_jinja_args *args, size_t index) {
    return ln_jinja_has_arg(args, index) && ln_jinja_truthy(args->positional[index]);
}
/* An int (bool counts), or `fallback` when missing; anything else is a TypeError. */
ln_status ln_jinja_arg_int(ln_jinja_run *run, const ln_jinja_args *args, size_t index,
                           int64_t fallback, int64_t *out);
/* A str; anything else is a TypeError. *out is left alone when the argument is missing. */
ln_status ln_jinja_arg_string(ln_jinja_run *run, const ln_jinja_args *args, size_t index,
                              ln_jinja_string **out);

/* ---- evaluation ------------------------------------------------------------------------- */

ln_status ln_jinja_eval(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                        ln_jinja_value *out);
ln_status ln_jinja_eval_args(ln_jinja_run *run, ln_jinja_scope *scope,
                             const ln_jinja_call_args *nodes, ln_jinja_args *args);
/* A FILTER node over `operand` in place of its own. */
ln_status ln_jinja_eval_filter(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *node,
                               ln_jinja_value operand, ln_jinja_value *out);
ln_status ln_jinja_call(ln_jinja_run *run, ln_jinja_value callee, const ln_jinja_args *args,
                        ln_jinja_value *out);

ln_status ln_jinja_exec(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_nodes *body);
ln_status ln_jinja_call_macro(ln_jinja_run *run, const ln_jinja_macro *macro,
                              const ln_jinja_args *args, ln_jinja_value *out);
ln_status ln_jinja_call_loop(ln_jinja_run *run, const ln_jinja_loop *loop,
                             const ln_jinja_args *args, ln_jinja_value *out);

ln_status ln_jinja_scope_new(ln_jinja_run *run, ln_jinja_scope *parent, ln_jinja_scope **out);
ln_status ln_jinja_scope_set(ln_jinja_run *run, ln_jinja_scope *scope, uint32_t symbol,
                             ln_jinja_value value);
/* Assigns to a NAME, a TUPLE of targets or a NAMESPACE_REF. */
ln_status ln_jinja_assign(ln_jinja_run *run, ln_jinja_scope *scope, const ln_jinja_node *target,
                          ln_jinja_value value);

ln_status ln_jinja_undefined_hint(ln_jinja_run *run, const char *hint, ln_jinja_value *out);
ln_status ln_jinja_undefined_name(ln_jinja_run *run, ln_jinja_value object, ln_jinja_value name,
                                  ln_jinja_value *out);
/* object.name and object[index] as the sandbox of Jinja resolves them. */
ln_status ln_jinja_get_attribute(ln_jinja_run *run, ln_jinja_value object, ln_jinja_string *name,
                                 ln_jinja_value *out);
ln_status ln_jinja_get_item(ln_jinja_run *run, ln_jinja_value object, ln_jinja_value index,
                            ln_jinja_value *out);
/* What a dotted path such as "function.name" reaches; an int or a str of digits indexes. */
ln_status ln_jinja_get_path(ln_jinja_run *run, ln_jinja_value object, ln_jinja_value path,
                            ln_jinja_value fallback, ln_jinja_value *out);
/* bounds: start, stop, step; MISSING or None where absent. */
ln_status ln_jinja_get_slice(ln_jinja_run *run, ln_jinja_value object,
                             const ln_jinja_value bounds[3], ln_jinja_value *out);
ln_status ln_jinja_binary(ln_jinja_run *run, ln_jinja_op op, ln_jinja_value left,
                          ln_jinja_value right, ln_jinja_value *out);
ln_status ln_jinja_negate(ln_jinja_run *run, ln_jinja_value operand, ln_jinja_value *out);
/* Fills loop->after: the next item, MISSING at the end. */
ln_status ln_jinja_loop_peek(ln_jinja_run *run, ln_jinja_loop *loop);
ln_status ln_jinja_loop_attribute(ln_jinja_run *run, ln_jinja_loop *loop,
                                  const ln_jinja_string *name, ln_jinja_value *out, bool *found);

/* `format % args`, and str.format. */
ln_status ln_jinja_percent(ln_jinja_run *run, const ln_jinja_string *format, ln_jinja_value args,
                           ln_jinja_value *out);
ln_status ln_jinja_brace_format(ln_jinja_run *run, const ln_jinja_string *format,
                                const ln_jinja_args *args, ln_jinja_value *out);

/* HTML escaping as markupsafe does it; the result is Markup. */
ln_status ln_jinja_escape(ln_jinja_run *run, ln_jinja_value value, ln_jinja_value *out);
/* Python's int(text, base) and float(text); false where it would raise ValueError. An integer
 * beyond 64 bits sets *overflow. */
bool ln_jinja_parse_int(const ln_jinja_string *text, int base, int64_t *out, bool *overflow);
bool ln_jinja_parse_float(const ln_jinja_string *text, double *out);

/* list(value), sorted by key(item) with `<`, stable. keys[i] goes with items[i]. */
ln_status ln_jinja_sort(ln_jinja_run *run, ln_jinja_value *items, ln_jinja_value *keys, size_t n,
                        bool reverse);

/* str methods that filters share. chars NULL: whitespace. */
ln_status ln_jinja_strip(ln_jinja_run *run, const ln_jinja_string *string,
                         const ln_jinja_string *chars, bool left, bool right, ln_jinja_value *out);
ln_status ln_jinja_replace(ln_jinja_run *run, const ln_jinja_string *string,
                           const ln_jinja_string *old, const ln_jinja_string *new_text,
                           int64_t count, ln_jinja_value *out);
ln_status ln_jinja_split_lines(ln_jinja_run *run, const ln_jinja_string *string, bool keep_ends,
                               ln_jinja_value *out);
ln_status ln_jinja_join(ln_jinja_run *run, const ln_jinja_string *separator, ln_jinja_value items,
                        bool convert, ln_jinja_value *out);
typedef enum ln_jinja_case {
    LN_JINJA_CASE_UPPER,
    LN_JINJA_CASE_LOWER,
    LN_JINJA_CASE_CAPITAL,
    LN_JINJA_CASE_TITLE, /* str.title */
    LN_JINJA_CASE_WORDS, /* the filter title */
    LN_JINJA_CASE_SWAP
} ln_jinja_case;
ln_status ln_jinja_change_case(ln_jinja_run *run, const ln_jinja_string *string, ln_jinja_case to,
                               ln_jinja_value *out);
ln_status ln_jinja_pad(ln_jinja_run *run, const ln_jinja_string *string, int64_t left,
                       int64_t right, const ln_jinja_string *fill, ln_jinja_value *out);
ln_status ln_jinja_center(ln_jinja_run *run, const ln_jinja_string *string, int64_t width,
                          const ln_jinja_string *fill, ln_jinja_value *out);
/* Whether all cased characters are upper (lower) and there is one. */
bool ln_jinja_is_case(const ln_jinja_string *string, bool upper);

#endif
