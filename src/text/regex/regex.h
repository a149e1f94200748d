/* Regular expressions of tokenizers: Oniguruma's Ruby syntax with its Unicode tables, translated
 * to PCRE2 and run with its JIT. Patterns are hostile: limits are set, and running into one is
 * an error. */
#ifndef LN_TEXT_REGEX_REGEX_H
#define LN_TEXT_REGEX_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/strbuf.h"

typedef struct ln_regex ln_regex;

/* Compiles a pattern; errors quote it. Safe to share between threads. */
ln_status ln_regex_compile(const char *pattern, size_t n_bytes, ln_regex **regex, ln_error *err);
void ln_regex_free(ln_regex *regex); /* NULL is fine */
size_t ln_regex_bytes(const ln_regex *regex);

/* Working memory of one caller; {0} to begin with, valid for any regex. */
typedef struct ln_regex_work {
    void *match_data, *context, *stack;
} ln_regex_work;
void ln_regex_work_free(ln_regex_work *work);

/* The leftmost match in text[n_bytes] (well-formed UTF-8) at or after `from`, which lies between
 * code points. *found is false when there is none. */
ln_status ln_regex_find(const ln_regex *regex, ln_regex_work *work, const char *text,
                        size_t n_bytes, size_t from, size_t *begin, size_t *end, bool *found,
                        ln_error *err);

/* A walk over all matches, as Oniguruma's bindings do it: an empty match right after the last one
 * does not count. */
typedef struct ln_regex_walk {
    size_t at, last_end;
    bool matched;
} ln_regex_walk;
ln_status ln_regex_next(const ln_regex *regex, ln_regex_work *work, ln_regex_walk *walk,
                        const char *text, size_t n_bytes, size_t *begin, size_t *end, bool *found,
                        ln_error *err);

/* The pattern in PCRE2's syntax; appended to `out`. */
ln_status ln_regex_translate(const char *pattern, size_t n_bytes, ln_strbuf *out, ln_error *err);

/* A set of code points, for class operations that PCRE2 lacks. */
typedef struct ln_char_set {
    unsigned char *bits; /* [0x110000 / 8] */
} ln_char_set;

/* Fills `set` with the code points that the PCRE2 class items match; `set->bits` is zeroed by
 * the caller. */
ln_status ln_regex_class_members(const char *items, ln_char_set *set, ln_error *err);

/* Appends the items of a PCRE2 class for a property ("L", "Han", "alpha"); false when it is not
 * known. */
bool ln_regex_property(ln_strbuf *items, const char *name, size_t n_bytes);
/* The same for a POSIX bracket, [:alpha:]. */
bool ln_regex_bracket(ln_strbuf *items, const char *name, size_t n_bytes);
extern const char ln_regex_space_items[]; /* \s */

#endif
