/* Strings: patterns, formats and excluded values as regular languages, lengths as counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/regex.h"
#include "grammar/schema/schema.h"

const ln_dfa *ln_schema_all_strings(ln_schema *s) {
    ln_grammar_builder *b = s->builder;
    if (s->strings == NULL) {
        ln_expr *chars = ln_expr_repeat(b, ln_json_chars(b, NULL, 0, true), 0, LN_NO_LIMIT);
        s->strings = ln_language_of(
            b, ln_expr_sequence(b, ln_expr_text(b, "\""), chars, ln_expr_text(b, "\""), NULL));
    }
    return s->strings;
}

/* ---- patterns and formats ----------------------------------------------------------------------
 */

/* A language is kept by its name; addresses are numbers there. */
static const ln_dfa *find_language(ln_schema *s, const char *name) {
    json_t *known = json_object_get(s->known, name);
    return known != NULL ? (const ln_dfa *)(uintptr_t)json_integer_value(known) : NULL;
}

static const ln_dfa *keep_language(ln_schema *s, const char *name, const ln_dfa *language) {
    json_object_set_new(s->known, name, json_integer((json_int_t)(uintptr_t)language));
    return language;
}

const ln_dfa *ln_schema_pattern(ln_schema *s, const char *pattern) {
    size_t n_bytes = strlen(pattern) + 16;
    char *name = malloc(n_bytes);
    if (name == NULL) {
        ln_grammar_fail_memory(s->builder);
        return ln_schema_all_strings(s);
    }
    snprintf(name, n_bytes, "pattern %s", pattern);
    const ln_dfa *language = find_language(s, name);
    if (language == NULL)
        language = keep_language(
            s, name,
            ln_regex_language(s->builder, pattern, strlen(pattern), ln_schema_all_strings(s)));
    free(name);
    return language;
}

#define YEAR "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
#define LEAP "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"      \
    "02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define TIME                                                                                       \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define DURATION_TIME "(T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))"
#define DURATION_DATE "([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)"
#define BYTE          "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4          BYTE "(\\." BYTE "){3}"
#define HEX           "[0-9a-fA-F]"
#define H             HEX "{1,4}"
#define IPV6                                                                                       \
    "((" H ":){7}" H "|(" H ":){1,7}:|(" H ":){1,6}:" H "|(" H ":){1,5}(:" H "){1,2}|(" H          \
    ":){1,4}(:" H "){1,3}|(" H ":){1,3}(:" H "){1,4}|(" H ":){1,2}(:" H "){1,5}|" H ":((:" H       \
    "){1,6})|:((:" H "){1,7}|:)|(" H ":){6}" IPV4 "|::(" H ":){0,5}" IPV4 "|(" H ":){1,5}:" IPV4   \
    ")"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST  LABEL "(\\." LABEL ")*"
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define PCT   "%" HEX HEX
#define PCHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define TAIL  "(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"
#define AUTHORITY                                                                                  \
    "(([A-Za-z0-9._~!$&'()*+,;=:-]|" PCT ")*@)?(\\[" IPV6 "\\]|([A-Za-z0-9._~!$&'()*+,;=-]|" PCT   \
    ")*)(:[0-9]*)?"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.-]*:(//" AUTHORITY "(/" PCHAR "*)*|/(" PCHAR "+(/" PCHAR "*)*)?|" PCHAR   \
    "+(/" PCHAR "*)*|)" TAIL
#define SEGMENT_NC "([A-Za-z0-9._~!$&'()*+,;=@-]|" PCT ")+"
#define RELATIVE                                                                                   \
    "(//" AUTHORITY "(/" PCHAR "*)*|/(" PCHAR "+(/" PCHAR "*)*)?|" SEGMENT_NC "(/" PCHAR           \
    "*)*|)" TAIL
#define POINTER "(/([^~/]|~[01])*)*"
/* Expressions that every dialect takes. */
#define RE_CLASS "\\[\\^?([A-Za-z0-9_ .,:;/@#%&=!]|[a-y]-z|[A-Y]-Z|[0-8]-9|\\\\[dws.-])+\\]"
#define RE_ATOM                                                                                    \
    "([A-Za-z0-9_ ,:;/@#%&=!<>'\"~`-]|[^\\u0000-\\u007f]|\\.|\\\\[dwsDWSntr./()\\[\\]{}*+?|^$-]|"  \
    "" RE_CLASS ")([*+?]|\\{[0-9]{1,2}\\})?"
#define RE_PART "(" RE_ATOM "|\\((\\?:)?(" RE_ATOM ")+(\\|(" RE_ATOM ")+)*\\)[*+?]?)"

static const struct {
    const char *name, *pattern;
    const char *excluded; /* NULL: nothing */
} formats[] = {
    {"date-time", DATE "T" TIME, NULL},
    {"date", DATE, NULL},
    {"time", TIME, NULL},
    {"duration", "P(" DURATION_DATE DURATION_TIME "?|" DURATION_TIME "|[0-9]+W)", NULL},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}", NULL},
    {"email", ATOM "(\\." ATOM ")*@" HOST, NULL},
    {"idn-email", ATOM "(\\." ATOM ")*@" HOST, NULL},
    {"ipv4", IPV4, NULL},
    {"ipv6", IPV6, NULL},
    {"hostname", HOST, "^(.*\\.)?..--"},
    {"idn-hostname", HOST, "^(.*\\.)?..--"},
    {"uri", URI, NULL},
    {"iri", URI, NULL},
    {"uri-reference", "(" URI "|" RELATIVE ")", NULL},
    {"iri-reference", "(" URI "|" RELATIVE ")", NULL},
    {"uri-template", "[A-Za-z0-9._~!$&()*+,;=:@/?#-]*(\\{[A-Za-z0-9_]+\\}[A-Za-z0-9._~/-]*)*",
     NULL},
    {"json-pointer", POINTER, NULL},
    {"relative-json-pointer", "(0|[1-9][0-9]*)(#|" POINTER ")", NULL},
    {"regex", "\\^?" RE_PART "*(\\|" RE_PART "+)*\\$?", NULL},
};

const ln_dfa *ln_schema_format(ln_schema *s, const char *name) {
    char key[80];
    size_t i = 0, n = sizeof formats / sizeof *formats;
    while (i < n && strcmp(formats[i].name, name) != 0)
        i++;
    if (i == n) /* an annotation */
        return NULL;
    snprintf(key, sizeof key, "format %s", name);
    const ln_dfa *language = find_language(s, key);
    if (language != NULL)
        return language;
    size_t n_bytes = strlen(formats[i].pattern) + 8;
    char *anchored = malloc(n_bytes);
    if (anchored == NULL) {
        ln_grammar_fail_memory(s->builder);
        return NULL;
    }
    snprintf(anchored, n_bytes, "^(%s)$", formats[i].pattern);
    const ln_dfa *all = ln_schema_all_strings(s);
    language = ln_regex_language(s->builder, anchored, strlen(anchored), all);
    free(anchored);
    if (formats[i].excluded != NULL)
        language = ln_language_minus(
            s->builder, language,
            ln_regex_language(s->builder, formats[i].excluded, strlen(formats[i].excluded), all));
    return keep_language(s, key, language);
}

/* ---- strings as they are written ---------------------------------------------------------------
 */

char *ln_schema_write_string(ln_schema *s, const char *string, size_t *n_bytes) {
    size_t length = strlen(string), n = 0;
    char *text = malloc(6 * length + 3);
    if (text == NULL) {
        ln_grammar_fail_memory(s->builder);
        return NULL;
    }
    text[n++] = '"';
    for (size_t i = 0; i < length; i++) {
        static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
        const char *found = strchr(special, string[i]);
        if (found != NULL) {
            text[n++] = '\\';
            text[n++] = letters[found - special];
        } else if ((unsigned char)string[i] < ' ') {
            n += (size_t)snprintf(text + n, 7, "\\u%04x", (unsigned)string[i]);
        } else {
            text[n++] = string[i];
        }
    }
    text[n++] = '"';
    *n_bytes = n;
    return text;
}

bool ln_schema_string_is_in(ln_schema *s, const ln_dfa *language, const char *string) {
    size_t n_bytes = 0;
    char *text = ln_schema_write_string(s, string, &n_bytes);
    bool is_in =
        text != NULL && ln_schema_spend(s, n_bytes) && ln_language_has(language, text, n_bytes);
    free(text);
    return is_in;
}

const ln_dfa *ln_schema_list_strings(ln_schema *s, json_t *values) {
    ln_grammar_builder *b = s->builder;
    size_t i, n = 0;
    json_t *value;
    ln_text *texts = calloc(json_array_size(values) + 1, sizeof *texts);
    if (texts == NULL)
        ln_grammar_fail_memory(b);
    json_array_foreach(values, i, value) {
        if (!json_is_string(value) || texts == NULL)
            continue;
        texts[n].bytes = ln_schema_write_string(s, json_string_value(value), &texts[n].n_bytes);
        n += texts[n].bytes != NULL;
    }
    const ln_dfa *language = ln_language_of(b, ln_expr_texts(b, texts, n));
    for (i = 0; i < n; i++)
        free((char *)(uintptr_t)texts[i].bytes);
    free(texts);
    return language;
}

/* ---- shapes ------------------------------------------------------------------------------------
 */

/* What a shape says of strings; NULL: nothing but lengths. */
static const ln_dfa *read_language(ln_schema *s, const ln_shape *shape, uint32_t *min,
                                   uint32_t *max) {
    const ln_dfa *language = NULL;
    ln_grammar_builder *b = s->builder;
    *min = 0;
    *max = LN_NO_LIMIT;
    for (const ln_atom *atom = shape->atoms; atom != NULL; atom = atom->next) {
        const ln_dfa *other = NULL;
        bool negated = atom->negated;
        if (atom->kind == LN_ATOM_LENGTH) {
            *min = atom->low > *min ? atom->low : *min;
            *max = atom->high < *max ? atom->high : *max;
        } else if (atom->kind == LN_ATOM_PATTERN) {
            other = ln_schema_pattern(s, json_string_value(atom->value));
        } else if (atom->kind == LN_ATOM_FORMAT) {
            other = ln_schema_format(s, json_string_value(atom->value));
            if (other == NULL && negated) /* an annotation never fails */
                other = ln_schema_all_strings(s);
            if (other != NULL && strstr(json_string_value(atom->value), "hostname") != NULL &&
                !negated && *max > 253)
                *max = 253;
        } else if (atom->kind == LN_ATOM_NOT_VALUES) {
            other = ln_schema_list_strings(s, atom->value);
            negated = true;
            if (ln_language_is_empty(other))
                continue;
        }
        if (other == NULL)
            continue;
        const ln_dfa *before = language != NULL ? language : ln_schema_all_strings(s);
        language = negated            ? ln_language_minus(b, before, other)
                   : language == NULL ? other
                                      : ln_language_and(b, language, other);
    }
    return language;
}

ln_expr *ln_schema_read_string(ln_schema *s, const ln_shape *shape) {
    ln_grammar_builder *b = s->builder;
    uint32_t min, max, rule;
    const ln_dfa *language = read_language(s, shape, &min, &max);
    bool has_length = min > 0 || max != LN_NO_LIMIT;
    if (min > max)
        return ln_expr_list(b, LN_EXPR_CHOICE);
    if (language == NULL && !has_length)
        return ln_expr_rule(b, s->rules->string);
    if (language != NULL && !ln_language_is_empty(language) && language->counts &&
        language->need[LN_DFA_START] >= min)
        min = 0; /* none is shorter */
    if (language != NULL && min > 0 && !ln_language_is_stretchable(b, language)) {
        language = ln_language_of_length(b, language, min, max);
        has_length = false;
    }
    rule = ln_rule_add_terminal(
        b, language != NULL ? "a string of a pattern or format" : "a string of some length",
        language != NULL ? ln_language_expr(b, language) : s->rules->string_body);
    if (b->status == LINNET_OK && has_length) {
        b->rules[rule].min_count = min;
        b->rules[rule].max_count = max;
    }
    return ln_expr_rule(b, rule);
}

const ln_dfa *ln_schema_strings(ln_schema *s, ln_literals set) {
    ln_grammar_builder *b = s->builder;
    ln_expr *all = ln_expr_list(b, LN_EXPR_CHOICE);
    for (const ln_shape *shape = ln_schema_expand(s, set, LN_IS_STRING); shape != NULL;
         shape = shape->next) {
        uint32_t min, max;
        const ln_dfa *language;
        if (shape->has_values) {
            json_t *fitting = json_array(), *value;
            size_t i;
            json_array_foreach(shape->values, i, value) {
                if (ln_schema_hold_all(s, set, value))
                    json_array_append(fitting, value);
            }
            language = ln_schema_list_strings(s, fitting);
            json_decref(fitting);
        } else {
            language = read_language(s, shape, &min, &max);
            language = language != NULL ? language : ln_schema_all_strings(s);
            if (min > 0 || max != LN_NO_LIMIT)
                language = ln_language_of_length(b, language, min, max);
        }
        ln_expr_add(b, all, ln_language_expr(b, language));
    }
    return ln_language_of(b, all);
}
