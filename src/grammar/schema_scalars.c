#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/regex.h"
#include "grammar/schema.h"

uint32_t ln_schema_count(ln_schema *s, json_t *schema, const char *keyword, uint32_t otherwise) {
    json_t *value = json_object_get(schema, keyword);
    if (value == NULL)
        return otherwise;
    double number = json_number_value(value);
    if (!json_is_number(value) || number < 0 || number != floor(number)) {
        ln_schema_malformed(s, keyword, "a whole number");
        return otherwise;
    }
    return number < (double)(LN_NO_LIMIT - 1) ? (uint32_t)number : LN_NO_LIMIT - 1;
}

/* ---- strings --------------------------------------------------------------------------------- */

#define YEAR "[0-9]{4}"
#define DATE_AFTER_0                                                                               \
    "([1-9][0-9]{3}-(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|[1-9][0-9]{3}"                       \
    "-(0[469]|11)-(0[1-9]|[12][0-9]|30)|[1-9][0-9]{3}-02-(0[1-9]|1[0-9]|2[0-8])"                   \
    ")"
#define TIME                                                                                       \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|"                   \
    "2[0-3]):[0-5][0-9]"                                                                           \
    ")"
#define BYTE  "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define WORD  "[A-Za-z0-9]+"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?"
#define HEX   "[0-9a-fA-F]"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date-time", DATE_AFTER_0 "T" TIME},
    {"date", DATE_AFTER_0},
    {"time", TIME},
    {"duration", "P([0-9]{1,4}W|[0-9]{1,4}D(T[0-9]{1,4}H)?|T[0-9]{1,4}[HMS]|[0-"
                 "9]{1,4}[YMD])"},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
    {"email", WORD "([._+-]" WORD ")*@" WORD "([.-]" WORD ")*\\.[A-Za-z][A-Za-z]+"},
    {"ipv4", BYTE "(\\." BYTE "){3}"},
    {"ipv6", HEX "{1,4}(:" HEX "{1,4}){7}"},
    {"hostname", LABEL "(\\." LABEL "){0,3}"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]*://" WORD "([.-]" WORD ")*(:[1-9][0-9]{0,3})?"
            "(/[A-Za-z0-9_.~-]*)*(\\?[A-Za-z0-9_.~=&-]*)?(#[A-Za-z0-9_.~-]*)?"},
};

static ln_expr *read_pattern(ln_schema *s, const char *pattern, size_t n_bytes, const char *what) {
    ln_grammar_builder *b = s->builder;
    ln_expr *body = ln_regex_read(b, pattern, n_bytes, LN_REGEX_IN_JSON);
    ln_expr *whole = ln_expr_sequence(b, ln_expr_text(b, "\""), body, ln_expr_text(b, "\""), NULL);
    return ln_expr_rule(b, ln_rule_add_terminal(b, what, whole));
}

static ln_expr *read_format(ln_schema *s, const char *name) {
    char anchored[1024];
    for (size_t i = 0; name != NULL && i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, name) != 0)
            continue;
        int n = snprintf(anchored, sizeof anchored, "^(%s)$", formats[i].pattern);
        return read_pattern(s, anchored, (size_t)n, "a string of a format");
    }
    ln_grammar_fail(s->builder, LINNET_ERR_UNSUPPORTED,
                    "JSON schema: the format \"%.40s\" is not supported", name ? name : "");
    return ln_expr_empty(s->builder);
}

ln_expr *ln_schema_read_string(ln_schema *s, json_t *schema) {
    ln_grammar_builder *b = s->builder;
    json_t *pattern = json_object_get(schema, "pattern");
    json_t *format = json_object_get(schema, "format");
    uint32_t min = ln_schema_count(s, schema, "minLength", 0);
    uint32_t max = ln_schema_count(s, schema, "maxLength", LN_NO_LIMIT);
    bool has_length = min > 0 || max != LN_NO_LIMIT;
    if ((pattern != NULL) + (format != NULL) + has_length > 1)
        ln_schema_unsupported(s, "more than one of pattern, format and minLength or maxLength");
    if (pattern != NULL && !json_is_string(pattern))
        ln_schema_malformed(s, "pattern", "a string");
    else if (pattern != NULL)
        return read_pattern(s, json_string_value(pattern), json_string_length(pattern),
                            "a string of a pattern");
    if (format != NULL)
        return read_format(s, json_string_value(format));
    if (!has_length)
        return ln_expr_rule(b, s->rules->string);
    if (min > max)
        ln_schema_malformed(s, "minLength", "at most maxLength");
    uint32_t rule = ln_rule_add_terminal(b, "a string of some length", s->rules->string_body);
    if (b->status == LINNET_OK) {
        b->rules[rule].min_count = min;
        b->rules[rule].max_count = max;
    }
    return ln_expr_rule(b, rule);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The shortest decimal that is this number, without an exponent; empty when no
 * number that the grammar knows lies beyond it. */
static void write_bound(json_t *value, char text[64]) {
    double number = json_number_value(value);
    text[0] = '\0';
    if (fabs(number) >= 1e18)
        return;
    if (json_is_integer(value)) {
        snprintf(text, 64, "%lld", (long long)json_integer_value(value));
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        char shortest[40];
        snprintf(shortest, sizeof shortest, "%.*e", digits - 1, number);
        if (strtod(shortest, NULL) != number && digits < 17)
            continue;
        int exponent = atoi(strchr(shortest, 'e') + 1);
        int decimals = digits - 1 - exponent;
        snprintf(text, 64, "%.*f", decimals > 0 ? decimals < 40 ? decimals : 40 : 0, number);
        return;
    }
}

/* The stricter of a bound and an exclusive one. */
static void read_bound(ln_schema *s, json_t *schema, bool is_low, char text[64], bool *is_set,
                       bool *excluded) {
    const char *name = is_low ? "minimum" : "maximum";
    const char *exclusive_name = is_low ? "exclusiveMinimum" : "exclusiveMaximum";
    json_t *bound = json_object_get(schema, name);
    json_t *exclusive = json_object_get(schema, exclusive_name);
    if (bound != NULL && !json_is_number(bound))
        ln_schema_malformed(s, name, "a number");
    if (exclusive != NULL && !json_is_number(exclusive) && !json_is_boolean(exclusive))
        ln_schema_malformed(s, exclusive_name, "a number");
    *excluded = json_is_true(exclusive); /* draft 4 */
    if (json_is_number(exclusive)) {
        double a = json_number_value(bound), b = json_number_value(exclusive);
        if (bound == NULL || (is_low ? b >= a : b <= a)) {
            bound = exclusive;
            *excluded = true;
        }
    }
    *is_set = false;
    text[0] = '\0';
    if (!json_is_number(bound))
        return;
    write_bound(bound, text);
    if (text[0] == '\0' && (json_number_value(bound) > 0) == is_low)
        ln_schema_unsupported(s, "a bound beyond 10^18");
    *is_set = text[0] != '\0';
}

ln_expr *ln_schema_read_number(ln_schema *s, json_t *schema, bool is_integer) {
    ln_grammar_builder *b = s->builder;
    char low[64], high[64];
    bool has_low, has_high;
    ln_number_bounds bounds = {0};
    json_t *format = json_object_get(schema, "format");
    const char *format_name = json_string_value(format);
    if (format != NULL &&
        (format_name == NULL || strstr("int32 int64 float double", format_name) == NULL))
        ln_schema_unsupported(s, "this format of a number");
    read_bound(s, schema, true, low, &has_low, &bounds.excludes_low);
    read_bound(s, schema, false, high, &has_high, &bounds.excludes_high);
    if (!has_low && !has_high)
        return ln_expr_rule(b, is_integer ? s->rules->integer : s->rules->number);
    bounds.low = has_low ? low : NULL;
    bounds.high = has_high ? high : NULL;
    ln_expr *body = is_integer ? ln_json_integer(b, &bounds) : ln_json_number(b, &bounds);
    return ln_expr_rule(b, ln_rule_add_terminal(b, "a number within bounds", body));
}
