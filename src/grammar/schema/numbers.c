/* Numbers: bounds digit by digit, multiples and excluded values as regular languages. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/locale/number.h"
#include "grammar/schema/schema.h"

/* ---- bounds ------------------------------------------------------------------------------------
 */

enum { BOUND_BYTES = 400 };

/* The shortest decimal that is this number, without an exponent. */
static void write_decimal(json_t *value, char text[BOUND_BYTES]) {
    double number = json_number_value(value);
    if (json_is_integer(value)) {
        snprintf(text, BOUND_BYTES, "%lld", (long long)json_integer_value(value));
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        char shortest[40];
        ln_snprintf(shortest, sizeof shortest, "%.*e", digits - 1, number);
        if (ln_strtod(shortest, NULL) != number && digits < 17)
            continue;
        int exponent = atoi(strchr(shortest, 'e') + 1);
        int decimals = digits - 1 - exponent;
        ln_snprintf(text, BOUND_BYTES, "%.*f", decimals > 0 ? decimals < 380 ? decimals : 380 : 0,
                    number);
        return;
    }
}

/* Numbers that the grammar writes within bounds are below these, and those of its rules, which have
 * exponents, below the others. */
#define BEYOND          1e18
#define BEYOND_LONG     1e40
#define BEYOND_INTEGERS 1e40
#define BEYOND_NUMBERS  1e139

/* Whether a bound is known to its last digit. */
static bool is_exact(const ln_atom *bound) {
    return bound == NULL || json_is_integer(bound->value) ||
           (json_number_value(bound->value) < 1e15 && json_number_value(bound->value) > -1e15);
}

/* The strictest of a shape's bounds on one side; NULL: none that matters. *is_empty: no number that
 * the grammar writes is within it. */
static const ln_atom *find_bound(const ln_shape *shape, ln_atom_kind kind) {
    const ln_atom *best = NULL;
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next) {
        if (atom->kind != kind)
            continue;
        int order = best != NULL ? ln_schema_compare_numbers(atom->value, best->value) : 0;
        if (kind == LN_ATOM_BELOW)
            order = -order;
        if (best == NULL || order > 0 || (order == 0 && atom->excluded))
            best = atom;
    }
    return best;
}

/* ---- multiples ---------------------------------------------------------------------------------
 */

/* Decimals that are multiples of n / 10^scale: a state for each remainder, digit by digit. */
typedef struct multiples {
    uint64_t n;
    unsigned scale;
} multiples;

/* The number as n / 10^scale; false: too large, or with too many digits. */
static bool read_multiple(json_t *value, multiples *m) {
    char text[BOUND_BYTES];
    write_decimal(value, text);
    *m = (multiples){0};
    bool is_after = false;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '.') {
            is_after = true;
            continue;
        }
        m->n = m->n * 10 + (uint64_t)(*c - '0');
        m->scale += is_after;
        if (m->n > 1000 * 1000 * 1000)
            return false;
    }
    while (m->scale > 0 && m->n % 10 == 0) {
        m->n /= 10;
        m->scale--;
    }
    return m->n > 0;
}

/* A factor 10^k of n is digits of 0 at the end; what is left decides by remainders. */
static const ln_dfa *multiples_of(ln_schema *s, const multiples *m) {
    enum { MAX_REMAINDERS = 2000 };
    ln_grammar_builder *b = s->builder;
    uint64_t n = m->n;
    if (n == 0 || n * (m->scale + 1) > MAX_REMAINDERS) {
        ln_schema_unsupported(s, "multipleOf a number of so many digits");
        return s->numbers;
    }
    /* states: 0 the start, 1 after the sign, 2 + level * n + remainder; level: digits after the
     * point + 1, 0: none yet; the last: digits of 0 at the end */
    uint32_t n_levels = m->scale + 2, n_states = 3 + (uint32_t)(n_levels * n), end = n_states - 1;
    ln_graph_edge *edges = ln_schema_allocate(s, 16 * (size_t)n_states, sizeof *edges);
    bool *accepts = ln_schema_allocate(s, n_states, sizeof *accepts);
    ln_graph *graph = ln_schema_allocate(s, 1, sizeof *graph);
    uint32_t n_edges = 0;
    if (edges == NULL || accepts == NULL || graph == NULL)
        return s->numbers;
#define STATE(level, remainder) (2 + (level) * (uint32_t)n + (uint32_t)((remainder) % n))
    edges[n_edges++] = (ln_graph_edge){0, 1, '-', '-', false};
    for (uint8_t digit = 0; digit < 10; digit++)
        for (uint32_t from = 0; from < 2; from++)
            edges[n_edges++] = (ln_graph_edge){from, STATE(0u, digit), (uint8_t)('0' + digit),
                                               (uint8_t)('0' + digit), false};
    for (uint32_t level = 0; level < n_levels; level++) {
        uint64_t power = 1; /* of the digits that may yet come */
        for (uint32_t i = level == 0 ? 0 : level - 1; i < m->scale; i++)
            power = power * 10 % n;
        for (uint64_t r = 0; r < n; r++) {
            uint32_t from = STATE(level, r);
            for (uint8_t digit = 0; digit < 10 && level != m->scale + 1; digit++)
                edges[n_edges++] =
                    (ln_graph_edge){from, STATE(level == 0 ? 0 : level + 1, r * 10 + digit),
                                    (uint8_t)('0' + digit), (uint8_t)('0' + digit), false};
            if (level == 0)
                edges[n_edges++] = (ln_graph_edge){from, STATE(1u, r), '.', '.', false};
            accepts[from] = level != 1 && r * power % n == 0;
            if (level == m->scale + 1 && r == 0)
                edges[n_edges++] = (ln_graph_edge){from, end, '0', '0', false};
        }
    }
#undef STATE
    edges[n_edges++] = (ln_graph_edge){end, end, '0', '0', false};
    accepts[end] = true;
    *graph = (ln_graph){n_states, n_edges, edges, accepts};
    return ln_language_and(b, s->numbers, ln_language_of(b, ln_expr_graph(b, graph)));
}

/* ---- languages ---------------------------------------------------------------------------------
 */

static ln_expr *digits(ln_grammar_builder *b, char low, uint32_t min, uint32_t max) {
    const ln_range range = {(unsigned char)low, '9'};
    return ln_expr_repeat(b, ln_expr_chars(b, &range, 1, false), min, max);
}

/* Decimals: a sign, digits before the point, and after it; `is_whole`: only zeros there. */
static const ln_dfa *decimals(ln_grammar_builder *b, bool is_whole) {
    const ln_range zero = {'0', '0'};
    ln_expr *after = is_whole ? ln_expr_repeat(b, ln_expr_chars(b, &zero, 1, false), 1, LN_NO_LIMIT)
                              : digits(b, '0', 1, LN_NO_LIMIT);
    return ln_language_of(
        b, ln_expr_sequence(
               b, ln_expr_optional(b, ln_expr_text(b, "-")),
               ln_expr_choice(
                   b, ln_expr_text(b, "0"),
                   ln_expr_sequence(b, digits(b, '1', 1, 1), digits(b, '0', 0, LN_NO_LIMIT), NULL),
                   NULL),
               ln_expr_optional(b, ln_expr_sequence(b, ln_expr_text(b, "."), after, NULL)), NULL));
}

/* Every way to write a number without exponent. */
static const ln_dfa *writings(ln_schema *s, json_t *value) {
    ln_grammar_builder *b = s->builder;
    const ln_range zero = {'0', '0'};
    char text[BOUND_BYTES];
    ln_schema_check_exact(s, value);
    write_decimal(value, text);
    ln_expr *zeros = ln_expr_repeat(b, ln_expr_chars(b, &zero, 1, false), strchr(text, '.') == NULL,
                                    LN_NO_LIMIT);
    ln_expr *tail =
        strchr(text, '.') != NULL
            ? zeros
            : ln_expr_optional(b, ln_expr_sequence(b, ln_expr_text(b, "."), zeros, NULL));
    ln_expr *sign = json_number_value(value) == 0 ? ln_expr_optional(b, ln_expr_text(b, "-"))
                                                  : ln_expr_empty(b);
    return ln_language_of(b, ln_expr_sequence(b, sign, ln_expr_text(b, text), tail, NULL));
}

/* A number between the bounds, as text without exponent. */
static ln_expr *read_bounds(ln_schema *s, const ln_shape *shape, bool is_integer, bool is_alone,
                            bool *is_free) {
    ln_grammar_builder *b = s->builder;
    const ln_atom *low = find_bound(shape, LN_ATOM_ABOVE), *high = find_bound(shape, LN_ATOM_BELOW);
    char low_text[BOUND_BYTES], high_text[BOUND_BYTES];
    ln_number_bounds bounds = {0};
    double least = low != NULL ? json_number_value(low->value) : -INFINITY;
    double most = high != NULL ? json_number_value(high->value) : INFINITY;
    bounds.is_long = is_alone && is_exact(low) && is_exact(high);
    double beyond = bounds.is_long ? BEYOND_LONG : BEYOND;
    if (least >= beyond || most <= -beyond)
        ln_schema_unsupported(s, "a bound that allows only numbers beyond 10^18");
    if (least > -beyond) {
        write_decimal(low->value, low_text);
        bounds.low = low_text;
        bounds.excludes_low = low->excluded;
    }
    if (most < beyond) {
        write_decimal(high->value, high_text);
        bounds.high = high_text;
        bounds.excludes_high = high->excluded;
    }
    beyond = is_integer ? BEYOND_INTEGERS : BEYOND_NUMBERS;
    *is_free = least <= -beyond && most >= beyond;
    if (*is_free)
        return ln_expr_rule(b, is_integer ? s->rules->integer : s->rules->number);
    return is_integer ? ln_json_integer(b, &bounds) : ln_json_number(b, &bounds);
}

/* What the atoms that are no bounds leave; NULL: there are none. */
static const ln_dfa *restrict_numbers(ln_schema *s, const ln_shape *shape) {
    ln_grammar_builder *b = s->builder;
    const ln_dfa *language = NULL;
    json_t *value;
    size_t i;
    if (s->numbers == NULL)
        s->numbers = decimals(b, false);
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next) {
        multiples m;
        if (atom->kind == LN_ATOM_MULTIPLE) {
            if (!read_multiple(atom->value, &m))
                ln_schema_unsupported(s, "multipleOf a number of so many digits");
            if (m.n == 1 && m.scale == 0 && !atom->negated && (shape->types & LN_IS_FRACTION) == 0)
                continue;
            const ln_dfa *of = multiples_of(s, &m);
            const ln_dfa *before = language != NULL ? language : s->numbers;
            language =
                atom->negated ? ln_language_minus(b, before, of) : ln_language_and(b, before, of);
        }
        json_array_foreach(atom->kind == LN_ATOM_NOT_VALUES ? atom->value : NULL, i, value) {
            if (json_is_number(value))
                language = ln_language_minus(b, language != NULL ? language : s->numbers,
                                             writings(s, value));
        }
    }
    return language;
}

ln_expr *ln_schema_read_number(ln_schema *s, const ln_shape *shape) {
    ln_grammar_builder *b = s->builder;
    bool is_integer = (shape->types & LN_IS_FRACTION) == 0, is_free;
    const ln_dfa *others = restrict_numbers(s, shape);
    bool is_alone = others == NULL && (shape->types & LN_IS_INTEGER) != 0;
    ln_expr *bounded = read_bounds(s, shape, is_integer, is_alone, &is_free);
    if ((shape->types & LN_IS_INTEGER) == 0)
        others = ln_language_minus(b, others != NULL ? others : s->numbers, decimals(b, true));
    if (others == NULL && is_free)
        return bounded;
    if (others == NULL)
        return ln_expr_rule(b, ln_rule_add_terminal(b, "a number within bounds", bounded));
    const ln_number_bounds none = {0};
    if (is_free)
        bounded = is_integer ? ln_json_integer(b, &none) : ln_json_number(b, &none);
    others = ln_language_and(b, ln_language_of(b, bounded), others);
    return ln_expr_rule(b, ln_rule_add_terminal(b, "a number", ln_language_expr(b, others)));
}
