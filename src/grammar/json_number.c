/* Decimal numbers between two bounds, digit by digit: as long as the digits so
 * far are those of a bound it decides about the next one, after that every
 * digit is free. */
#include <stdlib.h>
#include <string.h>

#include "grammar/json_rules.h"

enum {
    MAX_DIGITS = LN_JSON_MAX_DIGITS,
    SHORT_DIGITS = 18,
    MAX_FRACTION = 17,
    MAX_SIGNIFICANT = 15 /* of numbers with a fraction, so that their doubles differ */
};

/* A bound without its sign: digits before the point, without leading zeros, and
 * after it. */
typedef struct decimal {
    char digits[MAX_DIGITS + 1];
    size_t n_digits;
    char fraction[MAX_FRACTION + 1];
    size_t n_fraction;
    bool negative, excluded, infinite;
} decimal;

static ln_expr *digit(ln_grammar_builder *b, char low, char high) {
    ln_range range = {(unsigned char)low, (unsigned char)high};
    return ln_expr_chars(b, &range, 1, false);
}

static ln_expr *free_digits(ln_grammar_builder *b, size_t min, size_t max) {
    return ln_expr_repeat(b, digit(b, '0', '9'), (uint32_t)min, (uint32_t)max);
}

/* False when the text is no decimal number, or has too many digits. */
static bool read_decimal(const char *text, decimal *d) {
    *d = (decimal){.negative = *text == '-'};
    text += d->negative;
    while (*text == '0')
        text++;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (d->n_digits == MAX_DIGITS)
            return false;
        d->digits[d->n_digits++] = *text;
    }
    text += *text == '.';
    for (; *text >= '0' && *text <= '9'; text++) {
        if (d->n_fraction == MAX_FRACTION && *text != '0')
            return false;
        if (d->n_fraction < MAX_FRACTION)
            d->fraction[d->n_fraction++] = *text;
    }
    while (d->n_fraction > 0 && d->fraction[d->n_fraction - 1] == '0')
        d->n_fraction--;
    d->fraction[d->n_fraction] = '\0';
    if (d->n_digits == 0 && d->n_fraction == 0)
        d->negative = false; /* -0 */
    return *text == '\0';
}

/* Whether magnitude a < b (-1), a = b (0) or a > b (1). */
static int compare(const decimal *a, const decimal *b) {
    if (a->infinite || b->infinite)
        return a->infinite - b->infinite;
    if (a->n_digits != b->n_digits)
        return a->n_digits < b->n_digits ? -1 : 1;
    int order = memcmp(a->digits, b->digits, a->n_digits);
    if (order == 0)
        order = strcmp(a->fraction, b->fraction);
    return (order > 0) - (order < 0);
}

/* ---- digits before the point ----------------------------------------------------------------- */

/* What follows the digits that are free, those of `low`, of `high`, or of both.
 */
typedef struct tails {
    ln_grammar_builder *builder;
    const decimal *low, *high;
    bool has_fraction;
} tails;

static ln_expr *fraction(const tails *t, size_t n, bool at_low, bool at_high);

/* Digits from `at` on: n of them, held by the bounds that they equal so far. */
static ln_expr *digits_from(const tails *t, size_t at, size_t n, bool at_low, bool at_high) {
    ln_grammar_builder *b = t->builder;
    if (!at_low && !at_high)
        return ln_expr_sequence(b, free_digits(b, n - at, n - at), fraction(t, n, false, false),
                                NULL);
    if (at == n)
        return fraction(t, n, at_low, at_high);
    char low = at_low ? t->low->digits[at] : '0', high = at_high ? t->high->digits[at] : '9';
    if (at == 0 && low == '0')
        low = '1'; /* no leading zero */
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    char first = low, last = high;
    if (at_low && low == t->low->digits[at] && low <= high) {
        bool both = at_high && low == t->high->digits[at];
        ln_expr_add(
            b, choice,
            ln_expr_sequence(b, digit(b, low, low), digits_from(t, at + 1, n, true, both), NULL));
        first++;
    }
    if (at_high && high == t->high->digits[at] && high >= first) {
        ln_expr_add(b, choice,
                    ln_expr_sequence(b, digit(b, high, high),
                                     digits_from(t, at + 1, n, false, true), NULL));
        last--;
    }
    if (first <= last)
        ln_expr_add(b, choice,
                    ln_expr_sequence(b, digit(b, first, last),
                                     digits_from(t, at + 1, n, false, false), NULL));
    return choice;
}

/* ---- digits after it ------------------------------------------------------------------------- */

/* Whether the number may end after `at` digits that equal those of the bounds.
 */
static bool may_end(const tails *t, size_t at, bool at_low, bool at_high) {
    if (at_low && (at < t->low->n_fraction || t->low->excluded))
        return false;
    return !at_high || at < t->high->n_fraction || !t->high->excluded;
}

static ln_expr *fraction_from(const tails *t, size_t at, size_t most, bool at_low, bool at_high) {
    ln_grammar_builder *b = t->builder;
    if (!at_low && !at_high)
        return free_digits(b, 0, most - at);
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    if (at > 0 && may_end(t, at, at_low, at_high))
        ln_expr_add(b, choice, ln_expr_empty(b));
    if (at == most)
        return choice;
    char low = '0', high = '9';
    char low_digit = at_low && at < t->low->n_fraction ? t->low->fraction[at] : '0';
    char high_digit = at_high && at < t->high->n_fraction ? t->high->fraction[at] : '0';
    if (at_low)
        low = low_digit;
    if (at_high)
        high = high_digit;
    for (char c = low; c <= high; c++) {
        bool is_low = at_low && c == low_digit, is_high = at_high && c == high_digit;
        if (!is_low && !is_high) { /* all that are free at once */
            char last = c;
            while (last < high && !(at_high && last + 1 == high_digit))
                last++;
            ln_expr_add(b, choice,
                        ln_expr_sequence(b, digit(b, c, last),
                                         fraction_from(t, at + 1, most, false, false), NULL));
            c = last;
            continue;
        }
        ln_expr_add(b, choice,
                    ln_expr_sequence(b, digit(b, c, c),
                                     fraction_from(t, at + 1, most, is_low, is_high), NULL));
    }
    return choice;
}

static ln_expr *fraction(const tails *t, size_t n, bool at_low, bool at_high) {
    size_t most = n < MAX_SIGNIFICANT ? MAX_SIGNIFICANT - n : 0;
    ln_grammar_builder *b = t->builder;
    if (!t->has_fraction)
        return may_end(t, 0, at_low, at_high) ? ln_expr_empty(b) : ln_expr_list(b, LN_EXPR_CHOICE);
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    if (may_end(t, 0, at_low, at_high))
        ln_expr_add(b, choice, ln_expr_empty(b));
    ln_expr *rest = most == 0           ? ln_expr_empty(b)
                    : at_low || at_high ? fraction_from(t, 0, most, at_low, at_high)
                                        : free_digits(b, 1, most);
    if (most > 0)
        ln_expr_add(b, choice, ln_expr_sequence(b, ln_expr_text(b, "."), rest, NULL));
    return choice;
}

/* ---- magnitudes ------------------------------------------------------------------------------ */

/* Magnitudes from low to high, both of them 0 or more. */
static ln_expr *magnitudes(ln_grammar_builder *b, const decimal *low, const decimal *high,
                           bool has_fraction, bool is_long) {
    tails t = {b, low, high, has_fraction};
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    size_t most = !high->infinite ? high->n_digits : is_long ? MAX_DIGITS : SHORT_DIGITS;
    for (size_t n = low->n_digits; n <= most; n++) {
        bool at_low = n == low->n_digits, at_high = !high->infinite && n == high->n_digits;
        if (n == 0) /* 0, and what comes after its point */
            ln_expr_add(
                b, choice,
                ln_expr_sequence(b, ln_expr_text(b, "0"), fraction(&t, n, at_low, at_high), NULL));
        else if (at_low || at_high)
            ln_expr_add(b, choice, digits_from(&t, 0, n, at_low, at_high));
        else
            ln_expr_add(b, choice,
                        ln_expr_sequence(b, digit(b, '1', '9'), free_digits(b, n - 1, n - 1),
                                         fraction(&t, n, false, false), NULL));
    }
    return choice;
}

static ln_expr *bounded(ln_grammar_builder *b, const ln_number_bounds *bounds, bool has_fraction) {
    decimal low = {.infinite = true, .negative = true}, high = {.infinite = true};
    const decimal zero = {0};
    decimal above_zero = {.excluded = true};
    if ((bounds->low != NULL && !read_decimal(bounds->low, &low)) ||
        (bounds->high != NULL && !read_decimal(bounds->high, &high))) {
        ln_grammar_fail(b, LINNET_ERR_UNSUPPORTED,
                        "JSON schema: a bound of a number has more digits than are supported");
        return ln_expr_empty(b);
    }
    low.excluded = bounds->excludes_low;
    high.excluded = bounds->excludes_high;
    ln_expr *choice = ln_expr_list(b, LN_EXPR_CHOICE);
    if (low.negative) { /* -M, with M from the magnitude of high (or above 0) to
                           that of low */
        const decimal *least = high.negative ? &high : &above_zero;
        if (compare(least, &low) <= 0)
            ln_expr_add(b, choice,
                        ln_expr_sequence(b, ln_expr_text(b, "-"),
                                         magnitudes(b, least, &low, has_fraction, bounds->is_long),
                                         NULL));
    }
    if (!high.negative) {
        const decimal *least = low.negative ? &zero : &low;
        if (compare(least, &high) <= 0)
            ln_expr_add(b, choice, magnitudes(b, least, &high, has_fraction, bounds->is_long));
    }
    return choice;
}

ln_expr *ln_json_integer(ln_grammar_builder *builder, const ln_number_bounds *bounds) {
    return bounded(builder, bounds, false);
}

ln_expr *ln_json_number(ln_grammar_builder *builder, const ln_number_bounds *bounds) {
    return bounded(builder, bounds, true);
}
