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

typedef struct ln_jinja_run ln_jinja_run; /* one rendering; run.h */

typedef enum ln_jinja_kind {
    LN_JINJA_MISSING, /* an argument that was not given; never seen by a template */
    LN_JINJA_UNDEFINED,
    LN_JINJA_NONE,
    LN_JINJA_BOOL,
    LN_JINJA_INT,
    LN_JINJA_FLOAT,
    LN_JINJA_STRING,
    LN_JINJA_LIST,
    LN_JINJA_TUPLE,
    LN_JINJA_DICT,
    LN_JINJA_VIEW, /* keys, values or items of a dict */
    LN_JINJA_RANGE,
    LN_JINJA_GENERATOR,
    LN_JINJA_NAMESPACE,
    LN_JINJA_LOOP,
    LN_JINJA_MACRO,
    LN_JINJA_FUNCTION,
    LN_JINJA_METHOD,
    LN_JINJA_CYCLER,
    LN_JINJA_JOINER
} ln_jinja_kind;

typedef struct ln_jinja_string ln_jinja_string;
typedef struct ln_jinja_list ln_jinja_list;
typedef struct ln_jinja_dict ln_jinja_dict;
typedef struct ln_jinja_undefined ln_jinja_undefined;
typedef struct ln_jinja_range ln_jinja_range;
typedef struct ln_jinja_view ln_jinja_view;
typedef struct ln_jinja_generator ln_jinja_generator;
typedef struct ln_jinja_loop ln_jinja_loop;
typedef struct ln_jinja_macro ln_jinja_macro;
typedef struct ln_jinja_method ln_jinja_method;
typedef struct ln_jinja_cycler ln_jinja_cycler;
typedef struct ln_jinja_builtin ln_jinja_builtin;

typedef struct ln_jinja_value {
    ln_jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        ln_jinja_string *string;
        ln_jinja_list *list; /* LIST and TUPLE */
        ln_jinja_dict *dict; /* DICT and NAMESPACE */
        ln_jinja_undefined *undefined;
        ln_jinja_range *range;
        ln_jinja_view *view;
        ln_jinja_generator *generator;
        ln_jinja_loop *loop;
        ln_jinja_macro *macro;
        ln_jinja_method *method;
        const ln_jinja_builtin *function;
        ln_jinja_cycler *cycler; /* CYCLER and JOINER */
        const void *object;      /* any of the pointers: identity */
    } as;
} ln_jinja_value;

/* ---- strings: views of buffers whose bytes carry their provenance ------------------------ */

/* Bytes up to `end` (from the end of the mark before) are trusted or not. */
typedef struct ln_jinja_mark {
    size_t end;
    bool trusted;
} ln_jinja_mark;

/* Bytes that only grow. A view that ends where the buffer ends can be extended in place, so
 * that building a long text by repeated `+` is linear. */
typedef struct ln_jinja_buffer {
    char *data; /* [capacity]; valid UTF-8 */
    size_t used, capacity;
    ln_jinja_mark *marks; /* [n_marks], ends ascending, the last one at `used` */
    size_t n_marks, mark_capacity;
    ln_jinja_mark whole; /* what marks points to in a buffer of one provenance */
    bool frozen;         /* borrowed or shared bytes: never extended */
    char empty[1];       /* what data points to while there are no bytes */
} ln_jinja_buffer;

struct ln_jinja_string {
    ln_jinja_buffer *buffer;
    size_t begin, n_bytes;
    size_t n_chars; /* code points */
    bool markup;    /* markupsafe.Markup: joining plain text to it escapes the text */
};

typedef struct ln_jinja_builder {
    ln_jinja_run *run;
    ln_jinja_buffer *buffer;
    size_t begin;
    size_t n_chars;
} ln_jinja_builder;

static inline const char *ln_jinja_bytes(const ln_jinja_string *string) {
    return string->buffer->data + string->begin;
}

ln_status ln_jinja_builder_init(ln_jinja_run *run, ln_jinja_builder *builder);
ln_status ln_jinja_put(ln_jinja_builder *builder, const char *bytes, size_t n_bytes, bool trusted);
ln_status ln_jinja_puts(ln_jinja_builder *builder, const char *text, bool trusted);
ln_status ln_jinja_put_char(ln_jinja_builder *builder, int32_t code_point, bool trusted);
ln_status ln_jinja_put_string(ln_jinja_builder *builder, const ln_jinja_string *string);
/* Bytes [begin, end) of the string, whole code points. */
ln_status ln_jinja_put_part(ln_jinja_builder *builder, const ln_jinja_string *string, size_t begin,
                            size_t end);
ln_status ln_jinja_put_repeated(ln_jinja_builder *builder, const ln_jinja_string *string,
                                size_t count);
ln_status ln_jinja_put_spaces(ln_jinja_builder *builder, size_t count);
ln_status ln_jinja_finish(ln_jinja_builder *builder, ln_jinja_value *out);

ln_status ln_jinja_string_new(ln_jinja_run *run, const char *bytes, size_t n_bytes, bool trusted,
                              ln_jinja_value *out);
ln_status ln_jinja_string_c(ln_jinja_run *run, const char *text, ln_jinja_value *out); /* trusted */
/* A string over bytes that outlive it, made in `arena`; NULL when memory is out. */
ln_jinja_string *ln_jinja_string_borrow(ln_arena *arena, const char *bytes, size_t n_bytes,
                                        bool trusted);
/* Bytes [begin, end) as a view; whole code points. */
ln_status ln_jinja_string_part(ln_jinja_run *run, const ln_jinja_string *string, size_t begin,
                               size_t end, ln_jinja_value *out);
ln_status ln_jinja_string_concat(ln_jinja_run *run, ln_jinja_string *left, ln_jinja_string *right,
                                 ln_jinja_value *out);
bool ln_jinja_string_trusted(const ln_jinja_string *string); /* every byte is */
bool ln_jinja_trusted_at(const ln_jinja_string *string, size_t byte);
bool ln_jinja_string_is(const ln_jinja_string *string, const char *text);
bool ln_jinja_string_equal(const ln_jinja_string *a, const ln_jinja_string *b);
int ln_jinja_string_order(const ln_jinja_string *a, const ln_jinja_string *b);
/* The byte where code point `index` (0 to n_chars) begins. */
size_t ln_jinja_string_offset(const ln_jinja_string *string, size_t index);
/* The first place of `needle` at or after `from`, or SIZE_MAX; offsets in bytes. */
size_t ln_jinja_string_find(const ln_jinja_string *string, const ln_jinja_string *needle,
                            size_t from);
/* The last place that ends at or before `end`, or SIZE_MAX. */
ln_status ln_jinja_string_rfind(ln_jinja_run *run, const ln_jinja_string *string,
                                const ln_jinja_string *needle, size_t end, size_t *found);

/* The code point at `bytes` (valid UTF-8, at least one byte) and how many bytes it takes. */
int32_t ln_jinja_decode(const char *bytes, size_t *n_bytes);
bool ln_jinja_is_space(int32_t code_point); /* str.isspace */
bool ln_jinja_is_line_end(int32_t code_point);
size_t ln_jinja_count_chars(const char *bytes, size_t n_bytes);

/* ---- containers ------------------------------------------------------------------------- */

/* Values that only grow, as a buffer does for bytes. */
typedef struct ln_jinja_backing {
    size_t used, capacity;
    ln_jinja_value *items; /* [capacity] */
} ln_jinja_backing;

struct ln_jinja_list {
    ln_jinja_value *items; /* [n_items], from the beginning of the backing's */
    size_t n_items;
    ln_jinja_backing *backing;
    bool grouped; /* a tuple of groupby: .grouper and .list */
};

typedef struct ln_jinja_pair {
    ln_jinja_value key, item;
} ln_jinja_pair;

/* Insertion-ordered. */
struct ln_jinja_dict {
    ln_jinja_pair *pairs; /* [n_pairs] */
    size_t n_pairs, capacity;
    uint32_t *slots; /* [mask + 1]: index of a pair plus 1, 0 is free; NULL while small */
    size_t mask;
};

struct ln_jinja_undefined {
    const char *hint;      /* the whole message, or NULL */
    ln_jinja_value object; /* MISSING: a plain name */
    ln_jinja_value name;
    bool security;
};

struct ln_jinja_range {
    int64_t start, stop, step;
    size_t length;
};

typedef enum ln_jinja_view_kind {
    LN_JINJA_VIEW_KEYS,
    LN_JINJA_VIEW_VALUES,
    LN_JINJA_VIEW_ITEMS
} ln_jinja_view_kind;
struct ln_jinja_view {
    ln_jinja_dict *dict;
    ln_jinja_view_kind kind;
};

struct ln_jinja_method {
    ln_jinja_value self;
    const ln_jinja_builtin *builtin;
};

struct ln_jinja_cycler {
    ln_jinja_list *items; /* a joiner's separator is items[0] */
    size_t position;      /* a joiner's: was it used */
};

static inline ln_jinja_value ln_jinja_none(void) {
    return (ln_jinja_value){.kind = LN_JINJA_NONE};
}
static inline ln_jinja_value ln_jinja_bool(bool boolean) {
    return (ln_jinja_value){.kind = LN_JINJA_BOOL, .as.boolean = boolean};
}
static inline ln_jinja_value ln_jinja_int(int64_t integer) {
    return (ln_jinja_value){.kind = LN_JINJA_INT, .as.integer = integer};
}
static inline ln_jinja_value ln_jinja_float(double real) {
    return (ln_jinja_value){.kind = LN_JINJA_FLOAT, .as.real = real};
}
static inline ln_jinja_value ln_jinja_of_string(ln_jinja_string *string) {
    return (ln_jinja_value){.kind = LN_JINJA_STRING, .as.string = string};
}
static inline bool ln_jinja_is_string(ln_jinja_value value, const char *text) {
    return value.kind == LN_JINJA_STRING && ln_jinja_string_is(value.as.string, text);
}

ln_status ln_jinja_list_new(ln_jinja_run *run, ln_jinja_kind kind, size_t capacity,
                            ln_jinja_value *out);
ln_status ln_jinja_list_push(ln_jinja_run *run, ln_jinja_value list, ln_jinja_value item);
ln_status ln_jinja_pair_new(ln_jinja_run *run, ln_jinja_value first, ln_jinja_value second,
                            ln_jinja_value *out); /* a tuple */

ln_status ln_jinja_dict_new(ln_jinja_run *run, ln_jinja_value *out);
ln_status ln_jinja_dict_set(ln_jinja_run *run, ln_jinja_dict *dict, ln_jinja_value key,
                            ln_jinja_value item);
/* *found is NULL where the key is absent. An unhashable key is a TypeError. */
ln_status ln_jinja_dict_get(ln_jinja_run *run, const ln_jinja_dict *dict, ln_jinja_value key,
                            ln_jinja_value **found);
ln_jinja_value *ln_jinja_dict_get_c(const ln_jinja_dict *dict, const char *key); /* NULL: absent */

/* ---- what every kind can do -------------------------------------------------------------- */

const char *ln_jinja_type_name(ln_jinja_value value);
bool ln_jinja_truthy(ln_jinja_value value);
bool ln_jinja_same(ln_jinja_value a, ln_jinja_value b); /* Python's `is` */
ln_status ln_jinja_equal(ln_jinja_run *run, ln_jinja_value a, ln_jinja_value b, bool *equal);
ln_status ln_jinja_length(ln_jinja_run *run, ln_jinja_value value, int64_t *length);
bool ln_jinja_has_length(ln_jinja_value value);

/* What loops go through: that, and generators. */
bool ln_jinja_is_iterable(ln_jinja_value value);

typedef enum ln_jinja_order { LN_JINJA_LT, LN_JINJA_LE, LN_JINJA_GT, LN_JINJA_GE } ln_jinja_order;
ln_status ln_jinja_compare(ln_jinja_run *run, ln_jinja_order order, ln_jinja_value a,
                           ln_jinja_value b, bool *holds);
ln_status ln_jinja_contains(ln_jinja_run *run, ln_jinja_value container, ln_jinja_value item,
                            bool *found);

/* str(value), repr(value), json.dumps(value). */
ln_status ln_jinja_str(ln_jinja_run *run, ln_jinja_value value, ln_jinja_string **out);
ln_status ln_jinja_put_str(ln_jinja_builder *builder, ln_jinja_value value);
ln_status ln_jinja_put_repr(ln_jinja_builder *builder, ln_jinja_value value);
enum { LN_JINJA_FLOAT_CHARS = 40 };
size_t ln_jinja_float_repr(double real, char text[LN_JINJA_FLOAT_CHARS]);

typedef struct ln_jinja_json_style {
    bool ascii, sort_keys;
    const ln_jinja_string *indent; /* NULL: one line */
    const char *item_separator, *key_separator;
    size_t item_separator_bytes, key_separator_bytes;
} ln_jinja_json_style;
ln_status ln_jinja_put_json(ln_jinja_builder *builder, ln_jinja_value value,
                            const ln_jinja_json_style *style);

/* ---- iteration -------------------------------------------------------------------------- */

typedef struct ln_jinja_iter {
    ln_jinja_value source;
    size_t index; /* next item, or next byte of a string */
} ln_jinja_iter;

/* One item of a generator; *done leaves *out alone. */
typedef ln_status (*ln_jinja_next_fn)(ln_jinja_run *run, ln_jinja_generator *generator,
                                      ln_jinja_value *out, bool *done);
struct ln_jinja_generator {
    ln_jinja_next_fn next;
    const char *type_name;
    void *state; /* what `next` needs */
    bool done, running;
};

ln_status ln_jinja_iter_init(ln_jinja_run *run, ln_jinja_iter *iter, ln_jinja_value source);
ln_status ln_jinja_iter_next(ln_jinja_run *run, ln_jinja_iter *iter, ln_jinja_value *out,
                             bool *done);
ln_status ln_jinja_generator_new(ln_jinja_run *run, ln_jinja_next_fn next, void *state,
                                 const char *type_name, ln_jinja_value *out);
ln_status ln_jinja_to_list(ln_jinja_run *run, ln_jinja_value source,
                           ln_jinja_value *out); /* list(x) */

#endif
