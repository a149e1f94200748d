/* Values of the template interpreter. Everything lives in the arena of one rendering (constants:
 * in the arena of the compiled template) and is immutable once it can be seen, but for namespaces,
 * loops, cyclers, joiners and generators. */
#ifndef LN_TEXT_JINJA_VALUE_H
#define LN_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

typedef struct ln_tpl_run ln_tpl_run; /* one rendering; run.h */

typedef enum ln_tpl_kind {
    LN_TPL_MISSING, /* an argument that was not given; never seen by a template */
    LN_TPL_UNDEFINED,
    LN_TPL_NONE,
    LN_TPL_BOOL,
    LN_TPL_INT,
    LN_TPL_FLOAT,
    LN_TPL_STRING,
    LN_TPL_LIST,
    LN_TPL_TUPLE,
    LN_TPL_DICT,
    LN_TPL_VIEW, /* keys, values or items of a dict */
    LN_TPL_RANGE,
    LN_TPL_GENERATOR,
    LN_TPL_NAMESPACE,
    LN_TPL_LOOP,
    LN_TPL_MACRO,
    LN_TPL_FUNCTION,
    LN_TPL_METHOD,
    LN_TPL_CYCLER,
    LN_TPL_JOINER
} ln_tpl_kind;

typedef struct ln_tpl_string ln_tpl_string;
typedef struct ln_tpl_list ln_tpl_list;
typedef struct ln_tpl_dict ln_tpl_dict;
typedef struct ln_tpl_undefined ln_tpl_undefined;
typedef struct ln_tpl_range ln_tpl_range;
typedef struct ln_tpl_view ln_tpl_view;
typedef struct ln_tpl_generator ln_tpl_generator;
typedef struct ln_tpl_loop ln_tpl_loop;
typedef struct ln_tpl_macro ln_tpl_macro;
typedef struct ln_tpl_method ln_tpl_method;
typedef struct ln_tpl_cycler ln_tpl_cycler;
typedef struct ln_tpl_builtin ln_tpl_builtin;

typedef struct ln_tpl_value {
    ln_tpl_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        ln_tpl_string *string;
        ln_tpl_list *list; /* LIST and TUPLE */
        ln_tpl_dict *dict; /* DICT and NAMESPACE */
        ln_tpl_undefined *undefined;
        ln_tpl_range *range;
        ln_tpl_view *view;
        ln_tpl_generator *generator;
        ln_tpl_loop *loop;
        ln_tpl_macro *macro;
        ln_tpl_method *method;
        const ln_tpl_builtin *function;
        ln_tpl_cycler *cycler; /* CYCLER and JOINER */
        const void *object;    /* any of the pointers: identity */
    } as;
} ln_tpl_value;

/* ---- strings: views of buffers whose bytes carry their provenance ------------------------ */

/* Bytes up to `end` (from the end of the mark before) are trusted or not. */
typedef struct ln_tpl_mark {
    size_t end;
    bool trusted;
} ln_tpl_mark;

/* Bytes that only grow. A view that ends where the buffer ends can be extended in place, so
 * that building a long text by repeated `+` is linear. */
typedef struct ln_tpl_buffer {
    char *data; /* [capacity]; valid UTF-8 */
    size_t used, capacity;
    ln_tpl_mark *marks; /* [n_marks], ends ascending, the last one at `used` */
    size_t n_marks, mark_capacity;
    ln_tpl_mark whole; /* what marks points to in a buffer of one provenance */
    bool frozen;       /* borrowed or shared bytes: never extended */
    char empty[1];     /* what data points to while there are no bytes */
} ln_tpl_buffer;

struct ln_tpl_string {
    ln_tpl_buffer *buffer;
    size_t begin, n_bytes;
    size_t n_chars; /* code points */
    bool markup;    /* markupsafe.Markup: joining plain text to it escapes the text */
};

typedef struct ln_tpl_builder {
    ln_tpl_run *run;
    ln_tpl_buffer *buffer;
    size_t begin;
    size_t n_chars;
} ln_tpl_builder;

static inline const char *ln_tpl_bytes(const ln_tpl_string *string) {
    return string->buffer->data + string->begin;
}

ln_status ln_tpl_builder_init(ln_tpl_run *run, ln_tpl_builder *builder);
ln_status ln_tpl_put(ln_tpl_builder *builder, const char *bytes, size_t n_bytes, bool trusted);
ln_status ln_tpl_puts(ln_tpl_builder *builder, const char *text, bool trusted);
ln_status ln_tpl_put_char(ln_tpl_builder *builder, int32_t code_point, bool trusted);
ln_status ln_tpl_put_string(ln_tpl_builder *builder, const ln_tpl_string *string);
/* Bytes [begin, end) of the string, whole code points. */
ln_status ln_tpl_put_part(ln_tpl_builder *builder, const ln_tpl_string *string, size_t begin,
                          size_t end);
ln_status ln_tpl_put_repeated(ln_tpl_builder *builder, const ln_tpl_string *string, size_t count);
ln_status ln_tpl_put_spaces(ln_tpl_builder *builder, size_t count);
ln_status ln_tpl_finish(ln_tpl_builder *builder, ln_tpl_value *out);

ln_status ln_tpl_string_new(ln_tpl_run *run, const char *bytes, size_t n_bytes, bool trusted,
                            ln_tpl_value *out);
ln_status ln_tpl_string_c(ln_tpl_run *run, const char *text, ln_tpl_value *out); /* trusted */
/* A string over bytes that outlive it, made in `arena`; NULL when memory is out. */
ln_tpl_string *ln_tpl_string_borrow(ln_arena *arena, const char *bytes, size_t n_bytes,
                                    bool trusted);
/* Bytes [begin, end) as a view; whole code points. */
ln_status ln_tpl_string_part(ln_tpl_run *run, const ln_tpl_string *string, size_t begin, size_t end,
                             ln_tpl_value *out);
ln_status ln_tpl_string_concat(ln_tpl_run *run, ln_tpl_string *left, ln_tpl_string *right,
                               ln_tpl_value *out);
bool ln_tpl_string_trusted(const ln_tpl_string *string); /* every byte is */
bool ln_tpl_trusted_at(const ln_tpl_string *string, size_t byte);
bool ln_tpl_string_is(const ln_tpl_string *string, const char *text);
bool ln_tpl_string_equal(const ln_tpl_string *a, const ln_tpl_string *b);
int ln_tpl_string_order(const ln_tpl_string *a, const ln_tpl_string *b);
/* The byte where code point `index` (0 to n_chars) begins. */
size_t ln_tpl_string_offset(const ln_tpl_string *string, size_t index);
/* The first place of `needle` at or after `from`, or SIZE_MAX; offsets in bytes. */
size_t ln_tpl_string_find(const ln_tpl_string *string, const ln_tpl_string *needle, size_t from);
/* The last place that ends at or before `end`, or SIZE_MAX. */
ln_status ln_tpl_string_rfind(ln_tpl_run *run, const ln_tpl_string *string,
                              const ln_tpl_string *needle, size_t end, size_t *found);

/* The code point at `bytes` (valid UTF-8, at least one byte) and how many bytes it takes. */
int32_t ln_tpl_decode(const char *bytes, size_t *n_bytes);
bool ln_tpl_is_space(int32_t code_point); /* str.isspace */
bool ln_tpl_is_line_end(int32_t code_point);
size_t ln_tpl_count_chars(const char *bytes, size_t n_bytes);

/* ---- containers ------------------------------------------------------------------------- */

/* Values that only grow, as a buffer does for bytes. */
typedef struct ln_tpl_backing {
    size_t used, capacity;
    ln_tpl_value *items; /* [capacity] */
} ln_tpl_backing;

struct ln_tpl_list {
    ln_tpl_value *items; /* [n_items], from the beginning of the backing's */
    size_t n_items;
    ln_tpl_backing *backing;
    bool grouped; /* a tuple of groupby: .grouper and .list */
};

typedef struct ln_tpl_pair {
    ln_tpl_value key, item;
} ln_tpl_pair;

/* Insertion-ordered. */
struct ln_tpl_dict {
    ln_tpl_pair *pairs; /* [n_pairs] */
    size_t n_pairs, capacity;
    uint32_t *slots; /* [mask + 1]: index of a pair plus 1, 0 is free; NULL while small */
    size_t mask;
};

struct ln_tpl_undefined {
    const char *hint;    /* the whole message, or NULL */
    ln_tpl_value object; /* MISSING: a plain name */
    ln_tpl_value name;
    bool security;
};

struct ln_tpl_range {
    int64_t start, stop, step;
    size_t length;
};

typedef enum ln_tpl_view_kind {
    LN_TPL_VIEW_KEYS,
    LN_TPL_VIEW_VALUES,
    LN_TPL_VIEW_ITEMS
} ln_tpl_view_kind;
struct ln_tpl_view {
    ln_tpl_dict *dict;
    ln_tpl_view_kind kind;
};

struct ln_tpl_method {
    ln_tpl_value self;
    const ln_tpl_builtin *builtin;
};

struct ln_tpl_cycler {
    ln_tpl_list *items; /* a joiner's separator is items[0] */
    size_t position;    /* a joiner's: was it used */
};

static inline ln_tpl_value ln_tpl_none(void) {
    return (ln_tpl_value){.kind = LN_TPL_NONE};
}
static inline ln_tpl_value ln_tpl_bool(bool boolean) {
    return (ln_tpl_value){.kind = LN_TPL_BOOL, .as.boolean = boolean};
}
static inline ln_tpl_value ln_tpl_int(int64_t integer) {
    return (ln_tpl_value){.kind = LN_TPL_INT, .as.integer = integer};
}
static inline ln_tpl_value ln_tpl_float(double real) {
    return (ln_tpl_value){.kind = LN_TPL_FLOAT, .as.real = real};
}
static inline ln_tpl_value ln_tpl_of_string(ln_tpl_string *string) {
    return (ln_tpl_value){.kind = LN_TPL_STRING, .as.string = string};
}
static inline bool ln_tpl_is_string(ln_tpl_value value, const char *text) {
    return value.kind == LN_TPL_STRING && ln_tpl_string_is(value.as.string, text);
}

ln_status ln_tpl_list_new(ln_tpl_run *run, ln_tpl_kind kind, size_t capacity, ln_tpl_value *out);
ln_status ln_tpl_list_push(ln_tpl_run *run, ln_tpl_value list, ln_tpl_value item);
ln_status ln_tpl_pair_new(ln_tpl_run *run, ln_tpl_value first, ln_tpl_value second,
                          ln_tpl_value *out); /* a tuple */

ln_status ln_tpl_dict_new(ln_tpl_run *run, ln_tpl_value *out);
ln_status ln_tpl_dict_set(ln_tpl_run *run, ln_tpl_dict *dict, ln_tpl_value key, ln_tpl_value item);
/* *found is NULL where the key is absent. An unhashable key is a TypeError. */
ln_status ln_tpl_dict_get(ln_tpl_run *run, const ln_tpl_dict *dict, ln_tpl_value key,
                          ln_tpl_value **found);
ln_tpl_value *ln_tpl_dict_get_c(const ln_tpl_dict *dict, const char *key); /* NULL: absent */

/* ---- what every kind can do -------------------------------------------------------------- */

const char *ln_tpl_type_name(ln_tpl_value value);
bool ln_tpl_truthy(ln_tpl_value value);
bool ln_tpl_same(ln_tpl_value a, ln_tpl_value b); /* Python's `is` */
ln_status ln_tpl_equal(ln_tpl_run *run, ln_tpl_value a, ln_tpl_value b, bool *equal);
ln_status ln_tpl_length(ln_tpl_run *run, ln_tpl_value value, int64_t *length);
bool ln_tpl_has_length(ln_tpl_value value);

typedef enum ln_tpl_order { LN_TPL_LT, LN_TPL_LE, LN_TPL_GT, LN_TPL_GE } ln_tpl_order;
ln_status ln_tpl_compare(ln_tpl_run *run, ln_tpl_order order, ln_tpl_value a, ln_tpl_value b,
                         bool *holds);
ln_status ln_tpl_contains(ln_tpl_run *run, ln_tpl_value container, ln_tpl_value item, bool *found);

/* str(value), repr(value), json.dumps(value). */
ln_status ln_tpl_str(ln_tpl_run *run, ln_tpl_value value, ln_tpl_string **out);
ln_status ln_tpl_put_str(ln_tpl_builder *builder, ln_tpl_value value);
ln_status ln_tpl_put_repr(ln_tpl_builder *builder, ln_tpl_value value);
enum { LN_TPL_FLOAT_CHARS = 40 };
size_t ln_tpl_float_repr(double real, char text[LN_TPL_FLOAT_CHARS]);

typedef struct ln_tpl_json_style {
    bool ascii, sort_keys;
    const ln_tpl_string *indent; /* NULL: one line */
    const char *item_separator, *key_separator;
    size_t item_separator_bytes, key_separator_bytes;
} ln_tpl_json_style;
ln_status ln_tpl_put_json(ln_tpl_builder *builder, ln_tpl_value value,
                          const ln_tpl_json_style *style);

/* ---- iteration -------------------------------------------------------------------------- */

typedef struct ln_tpl_iter {
    ln_tpl_value source;
    size_t index; /* next item, or next byte of a string */
} ln_tpl_iter;

/* One item of a generator; *done leaves *out alone. */
typedef ln_status (*ln_tpl_next_fn)(ln_tpl_run *run, ln_tpl_generator *generator, ln_tpl_value *out,
                                    bool *done);
struct ln_tpl_generator {
    ln_tpl_next_fn next;
    const char *type_name;
    void *state; /* what `next` needs */
    bool done, running;
};

ln_status ln_tpl_iter_init(ln_tpl_run *run, ln_tpl_iter *iter, ln_tpl_value source);
ln_status ln_tpl_iter_next(ln_tpl_run *run, ln_tpl_iter *iter, ln_tpl_value *out, bool *done);
ln_status ln_tpl_generator_new(ln_tpl_run *run, ln_tpl_next_fn next, void *state,
                               const char *type_name, ln_tpl_value *out);
ln_status ln_tpl_to_list(ln_tpl_run *run, ln_tpl_value source, ln_tpl_value *out); /* list(x) */

#endif
