/* What every source of a grammar is translated to: rules, whose bodies are
 * expressions over bytes and code points. Expressions live in the builder's
 * arena; each stands in one place only, what is used twice is a rule. */
#ifndef LN_GRAMMAR_EXPR_H
#define LN_GRAMMAR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

enum {
    LN_GRAMMAR_MAX_TEXT = 1 << 20, /* bytes of a source */
    LN_GRAMMAR_MAX_DEPTH = 128,    /* of nesting in a source */
    LN_GRAMMAR_MAX_RULES = 1 << 15,
    LN_GRAMMAR_MAX_EXPRS = 1 << 18,
    LN_GRAMMAR_MAX_STATES = 1 << 18
};

#define LN_NO_LIMIT UINT32_MAX

typedef enum ln_expr_kind {
    LN_EXPR_EMPTY,
    LN_EXPR_BYTES,
    LN_EXPR_CHARS, /* one code point of a set, in UTF-8 */
    LN_EXPR_SEQUENCE,
    LN_EXPR_CHOICE,
    LN_EXPR_REPEAT,
    LN_EXPR_RULE,
    LN_EXPR_GRAPH,
    LN_EXPR_GUARD
} ln_expr_kind;

typedef struct ln_range {
    uint32_t low, high; /* code points, both included */
} ln_range;

/* An automaton over bytes as an expression; it starts in state 0. */
typedef struct ln_graph_edge {
    uint32_t from, to;
    uint8_t low, high;
    bool counts; /* a character begins here */
} ln_graph_edge;

typedef struct ln_graph {
    uint32_t n_states, n_edges;
    const ln_graph_edge *edges;
    const bool *accepts; /* [n_states] */
} ln_graph;

/* An object whose members come in any order, each that is named once. A rule with its guards keeps
 * which there are. */
enum { LN_OBJECT_NAMES = 256, LN_OBJECT_WORDS = LN_OBJECT_NAMES / 64 };

typedef struct ln_object {
    uint32_t number;                    /* among those of the builder */
    uint32_t n_named;                   /* at most LN_OBJECT_NAMES */
    uint32_t min, max;                  /* members; max may be LN_NO_LIMIT */
    uint64_t required[LN_OBJECT_WORDS]; /* bit i: member i must be there */
    uint64_t usable[LN_OBJECT_WORDS];   /* some value is possible; compiling finds it */
    const uint32_t *rules;              /* [n_named] of their values */
    uint32_t other;                     /* rule of a member that is not named */
    bool has_other;
} ln_object;

typedef enum ln_guard_kind {
    LN_GUARD_ANY,    /* one of members low to high - 1 may come */
    LN_GUARD_TAKE,   /* member `low` comes */
    LN_GUARD_OTHER,  /* a member that is not named comes */
    LN_GUARD_FIRST,  /* no member came yet */
    LN_GUARD_MORE,   /* one came, and another may */
    LN_GUARD_UNSEEN, /* an item that differs from those before it, of rule `low`, may come */
    LN_GUARD_DONE    /* all that must be there are there */
} ln_guard_kind;

/* What matches no byte, but only where the members so far allow it. */
typedef struct ln_guard {
    ln_guard_kind kind;
    uint32_t object; /* its number */
    uint32_t low, high;
} ln_guard;

typedef struct ln_expr {
    ln_expr_kind kind;
    bool counts;                  /* BYTES, CHARS: a character of a counted rule begins here */
    bool is_escaped;              /* it is what stands in a JSON string (json_rules.h) */
    struct ln_expr *next;         /* among the parts of the sequence or choice that holds it */
    struct ln_expr *first, *last; /* parts; of REPEAT one */
    uint32_t min, max;            /* REPEAT; max may be LN_NO_LIMIT */
    uint32_t rule;                /* RULE */
    uint32_t count;               /* of bytes or ranges */
    const char *bytes;
    const ln_range *ranges; /* ascending, apart */
    const ln_graph *graph;  /* GRAPH */
    ln_guard guard;         /* GUARD */
} ln_expr;

typedef enum ln_rule_kind {
    LN_RULE_AUTO,       /* compiled as it suits */
    LN_RULE_STRUCTURAL, /* never part of a terminal */
    LN_RULE_TERMINAL    /* regular: a deterministic automaton of its own */
} ln_rule_kind;

typedef struct ln_rule {
    ln_expr *body; /* NULL: not defined yet */
    const char *name;
    ln_rule_kind kind;
    uint32_t min_count, max_count; /* of characters, of a TERMINAL whose body counts them */
    bool is_unique; /* a TERMINAL: its texts differ within the rule that refers to it; a text means
                       the same as no other, and it is not empty */
} ln_rule;

/* After a failure `status` is set, `err` says why, and further calls do nothing
 * and return an expression that may be used like any other. */
typedef struct ln_grammar_builder {
    ln_arena arena;
    ln_rule *rules; /* [n_rules] of [LN_GRAMMAR_MAX_RULES], grown */
    size_t n_rules, capacity, n_exprs;
    const ln_object **objects; /* [n_objects], the arena's; the array grown */
    size_t n_objects, object_capacity;
    uint64_t fuel; /* steps of work that languages may yet take (language.h) */
    uint32_t root;
    unsigned json_form;                                 /* linnet_json_form */
    const struct ln_reasoning_format *reasoning_format; /* before calls; NULL: <think> */
    ln_status status;
    ln_error *err;
    ln_expr failed;
} ln_grammar_builder;

void ln_grammar_builder_init(ln_grammar_builder *builder, ln_error *err);
void ln_grammar_builder_free(ln_grammar_builder *builder);

/* Sets the failure, unless there is one; returns the builder's status. */
__attribute__((format(printf, 3, 4))) ln_status
ln_grammar_fail(ln_grammar_builder *builder, ln_status status, const char *format, ...);
ln_status ln_grammar_fail_memory(ln_grammar_builder *builder);

ln_expr *ln_expr_empty(ln_grammar_builder *builder);
ln_expr *ln_expr_bytes(ln_grammar_builder *builder, const char *bytes, size_t n_bytes); /* copied */
ln_expr *ln_expr_text(ln_grammar_builder *builder, const char *text);
/* One of texts[n], which are sorted meanwhile: what they begin with alike is
 * there once, so that many of them can be followed like one. */
typedef struct ln_text {
    const char *bytes; /* [n_bytes] */
    size_t n_bytes;
} ln_text;
ln_expr *ln_expr_texts(ln_grammar_builder *builder, ln_text *texts, size_t n);
/* One code point of ranges[n_ranges], in any order, copied; surrogates are left
 * out. An empty set matches nothing. */
ln_expr *ln_expr_chars(ln_grammar_builder *builder, const ln_range *ranges, size_t n_ranges,
                       bool negated);
/* min to max code points, whatever they are. */
ln_expr *ln_expr_any(ln_grammar_builder *builder, uint32_t min, uint32_t max);
ln_expr *ln_expr_list(ln_grammar_builder *builder, ln_expr_kind kind); /* SEQUENCE or CHOICE */
void ln_expr_add(ln_grammar_builder *builder, ln_expr *list, ln_expr *part);
/* The parts up to a NULL. */
ln_expr *ln_expr_sequence(ln_grammar_builder *builder, ...) __attribute__((sentinel));
ln_expr *ln_expr_choice(ln_grammar_builder *builder, ...) __attribute__((sentinel));
ln_expr *ln_expr_repeat(ln_grammar_builder *builder, ln_expr *body, uint32_t min, uint32_t max);
ln_expr *ln_expr_optional(ln_grammar_builder *builder, ln_expr *body);
ln_expr *ln_expr_rule(ln_grammar_builder *builder, uint32_t rule);
ln_expr *ln_expr_graph(ln_grammar_builder *builder, const ln_graph *graph); /* borrowed */
/* Keeps an object, in the arena, and gives it a number. */
void ln_object_add(ln_grammar_builder *builder, ln_object *object);
ln_expr *ln_expr_guard(ln_grammar_builder *builder, const ln_object *object, ln_guard_kind kind,
                       uint32_t low, uint32_t high);

/* The index of a new rule; `body` may be NULL and set later, `name` is for
 * messages and copied. */
uint32_t ln_rule_add(ln_grammar_builder *builder, const char *name, size_t name_bytes,
                     ln_expr *body);
uint32_t ln_rule_add_terminal(ln_grammar_builder *builder, const char *name, ln_expr *body);

#endif
