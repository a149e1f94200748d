/* Which texts the grammars accept, and what is refused. */
#include "grammar_test.h"

enum { NO = 0, YES = 1, BEGINS = 2 }; /* BEGINS: the text is not complete, but may go on */

typedef struct language_case {
    linnet_grammar_kind kind;
    const char *grammar, *text;
    int expected;
} language_case;

static int matches(ln_grammar *grammar, const char *text) {
    size_t n_accepted, n_bytes = strlen(text);
    bool complete;
    ln_error err = {0};
    if (ln_grammar_match(grammar, text, n_bytes, &n_accepted, &complete, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    if (n_accepted < n_bytes)
        return NO;
    return complete ? YES : BEGINS;
}

static void check(const language_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ln_grammar *grammar = compile(cases[i].kind, cases[i].grammar, NULL);
        int result = matches(grammar, cases[i].text);
        if (result != cases[i].expected)
            fail_msg("%s\n%s\nis %d, not %d", cases[i].grammar, cases[i].text, result,
                     cases[i].expected);
        ln_grammar_release(grammar);
    }
}

#define CHECK(cases) check(cases, sizeof(cases) / sizeof *(cases))
#define REGEX        LINNET_GRAMMAR_REGEX
#define GBNF         LINNET_GRAMMAR_GBNF
#define SCHEMA       LINNET_GRAMMAR_JSON_SCHEMA
#define JSON         LINNET_GRAMMAR_JSON

#define UNIQUE(items) "{\"type\": \"array\", \"uniqueItems\": true, \"items\": " items "}"

static const language_case regex_cases[] = {
    {REGEX, "abc", "abc", YES},
    {REGEX, "abc", "ab", BEGINS},
    {REGEX, "abc", "abcd", NO},
    {REGEX, "a|bc|", "bc", YES},
    {REGEX, "a|bc|", "", YES},
    {REGEX, "(ab)*c", "ababc", YES},
    {REGEX, "(ab)*c", "abac", NO},
    {REGEX, "a{2,3}", "a", BEGINS},
    {REGEX, "a{2,3}", "aaa", YES},
    {REGEX, "a{2,3}", "aaaa", NO},
    {REGEX, "a{2,}?b", "aaaab", YES},
    {REGEX, "x{a}", "x{a}", YES},
    {REGEX, "[^a-c\\d]", "d", YES},
    {REGEX, "[^a-c\\d]", "7", NO},
    {REGEX, "[^a-c\\d]", "\xc3\xa9", YES},
    {REGEX, "[^a-c\\d]", "\xc3", BEGINS},
    {REGEX, "[^a-c\\d]", "\xed\xa0\x80", NO}, /* a surrogate */
    {REGEX, "[\\]\\-x]+", "]-x", YES},
    {REGEX, "\\w+\\s\\D", "a_9 x", YES},
    {REGEX, "\\w+\\s\\D", "a_9 1", NO},
    {REGEX, "^a.c$",
     "a\xf0\x9f\x98\x80"
     "c",
     YES},
    {REGEX, "a.c", "a\nc", NO},
    {REGEX, "\\u00e9\\x41\\u{1f600}",
     "\xc3\xa9"
     "A\xf0\x9f\x98\x80",
     YES},
    {REGEX, "(?:a|(?P<n>b))+?", "abba", YES},
    {REGEX, "[\\u0400-\\u04ff]{2}", "\xd0\xb6\xd3\xbf", YES},
    {REGEX, "[\\u0400-\\u04ff]{2}", "\xd0\xb6\xd4\x80", NO},
    {REGEX, "[\\u07ff-\\u0801\\uffff-\\u{10000}]*", "\xdf\xbf\xe0\xa0\x81\xf0\x90\x80\x80", YES},
    {REGEX, "(?=.*[0-9])(?=.*[a-z])[a-z0-9]{3,4}", "ab1", YES},
    {REGEX, "(?=.*[0-9])(?=.*[a-z])[a-z0-9]{3,4}", "123a", YES},
    {REGEX, "(?=.*[0-9])(?=.*[a-z])[a-z0-9]{3,4}", "1234", NO},
    {REGEX, "(?=.*[0-9])(?=.*[a-z])[a-z0-9]{3,4}", "abcd", NO},
    {REGEX, "^foo(?!bar)[a-z]+$", "fooba", YES},
    {REGEX, "^foo(?!bar)[a-z]+$", "foobar", NO},
    {REGEX, "(?!abc$)[a-c]{3,4}", "abc", BEGINS},
    {REGEX, "(?!abc$)[a-c]{3,4}", "abca", YES},
    {REGEX, "a(?=b)[a-z]|c(?!d).", "ab", YES},
    {REGEX, "a(?=b)[a-z]|c(?!d).", "ac", NO},
    {REGEX, "a(?=b)[a-z]|c(?!d).", "cd", NO},
    {REGEX, "x(?:y|(?=ab)[a-z]+)", "xabc", YES},
    {REGEX, "x(?:y|(?=ab)[a-z]+)", "xac", NO},
    {SCHEMA,
     "{\"pattern\": \"^(?!^[-.]*$)-?(?:\\\\d{0,3}|(?=[\\\\d.]{1,4}0*$)\\\\d*\\\\.\\\\d*$)\"}",
     "\"-12.3\"", YES},
    {SCHEMA, "{\"pattern\": \"^(?!^[-.]*$)-?(?:(?=[\\\\d.]{1,4}0*$)\\\\d*\\\\.\\\\d*$)\"}",
     "\"-12.34\"", NO},
    {SCHEMA, "{\"pattern\": \"^(?!^[-.]*$)-?(?:(?=[\\\\d.]{1,4}0*$)\\\\d*\\\\.\\\\d*$)\"}",
     "\"-.\"", NO},
    {SCHEMA, UNIQUE("{\"type\": \"string\"}"), "[\"a\", \"ab\", \"\"]", YES},
    {SCHEMA, UNIQUE("{\"type\": \"string\"}"), "[\"a\", \"ab\", \"a\"", NO},
    {SCHEMA, UNIQUE("{\"type\": \"number\"}"), "[1, 10, 0.5, 0]", YES},
    {SCHEMA, UNIQUE("{\"type\": \"number\"}"), "[1, 1.0", BEGINS},
    {SCHEMA, UNIQUE("{\"type\": \"number\"}"), "[1, 1.0]", NO},
    {SCHEMA, UNIQUE("{\"type\": \"number\"}"), "[0, -0", BEGINS},
    {SCHEMA, UNIQUE("{\"enum\": [1, null, true, \"a\"]}"), "[null, true, null", NO},
    {SCHEMA, UNIQUE("{\"minimum\": 1, \"maximum\": 12, \"type\": \"integer\"}"),
     "[1,2,3,4,5,6,7,8,9,10,11,12]", YES},
    {SCHEMA, UNIQUE("{\"minimum\": 1, \"maximum\": 12, \"type\": \"integer\"}"),
     "[1,2,3,4,5,6,7,8,9,10,11,12,", NO},
    {SCHEMA, UNIQUE("{\"minimum\": 1, \"maximum\": 12, \"type\": \"integer\"}"), "[1,10,11,12,1,",
     NO},
    {SCHEMA, "{\"type\": \"integer\"}", "12345678901234567890123", YES},
    {SCHEMA, "{\"type\": \"integer\", \"maximum\": 9223372036854775807}", "9223372036854775807",
     YES},
    {SCHEMA, "{\"type\": \"integer\", \"maximum\": 9223372036854775807}", "9223372036854775808",
     NO},
    {SCHEMA, "{\"type\": \"number\", \"not\": {\"const\": 1e18}}", "1000000000000000000", NO},
    {REGEX, "(?i)ab(?-i:c)[d-f]", "aBcE", YES},
    {REGEX, "(?i)ab(?-i:c)[d-f]", "aBC", NO},
    {REGEX, "(?s:.)x", "\nx", YES},
    {REGEX, "\\(\\.\\*", "(.*", YES},
};

static void regexes(void **state) {
    (void)state;
    CHECK(regex_cases);
}

static void gbnf(void **state) {
    (void)state;
    static const char arithmetic[] = "root ::= term (op term)* # all\nop ::= [-+*/]\n"
                                     "term ::= num | \"(\" root \")\"\nnum ::= [0-9]+\n";
    static const char pairs[] = "root ::= \"a\" root \"b\" |\n  \"\"";
    static const language_case cases[] = {
        {GBNF, arithmetic, "1+(2*3)-44", YES},
        {GBNF, arithmetic, "1+(2*3", BEGINS},
        {GBNF, arithmetic, "1++2", NO},
        {GBNF, pairs, "aaabbb", YES},
        {GBNF, pairs, "aaabb", BEGINS},
        {GBNF, pairs, "aaabbbb", NO},
        {GBNF, "root ::= [^\"\\\\]{2,} | \"\\x41\\u00e9\\n\"", "A\xc3\xa9\n", YES},
        {GBNF, "root ::= ( \"a\"\n | \"b\" ) {2}\n", "ba", YES},
        {GBNF, "root ::= x\nx ::= y \"1\" | \"2\"\ny ::= \"a\"?\n", "1", YES},
        {GBNF, "root ::= (\"\"?)* \"z\"", "z", YES},
        {GBNF, "root ::= . [a\\]]\n", "\xc3\xa9]", YES},
        {GBNF, "root ::= \"b\" | \"a\" x\nx ::= \"(\" x \")\"", "a", NO}, /* never ends */
    };
    CHECK(cases);
}

static void json(void **state) {
    (void)state;
    static const language_case cases[] = {
        {JSON, NULL, "{}", YES},
        {JSON, NULL, "{\"a\": [1, -2.5e+3, true, null, {\"b\": \"\"}], \"c\": {}}", YES},
        {JSON, NULL, "{\n  \"a\": 1\n}", YES},
        {JSON, NULL, "[1]", NO},
        {JSON, NULL, "{\"a\": 01}", NO},
        {JSON, NULL, "{\"a\": 1,}", NO},
        {JSON, NULL, "{\"a\": \"\\u00e9\\ud83d\\ude00\\n\"", BEGINS},
        {JSON, NULL, "{\"a\": \"\\ud83d\"", NO},
        {JSON, NULL, "{\"a\": \"\\u0000\"", NO},
        {JSON, NULL, "{\"a\": \"\t\"", NO},
        {JSON, NULL, "{\"a\": \"\xff\"", NO},
        {JSON, NULL, "{} ", NO},
    };
    CHECK(cases);
}

static const char person_schema[] = "{\"type\": \"object\", \"properties\": "
                                    "{\"name\": {\"type\": \"string\"}, \"age\": "
                                    "{\"type\": \"integer\"}, \"x\": {\"type\": "
                                    "[\"null\", \"boolean\"]}}, \"required\": "
                                    "[\"age\"]}";
static const char list_schema[] =
    "{\"type\": \"object\", \"properties\": {\"v\": {\"type\": "
    "\"integer\"}, \"next\": {\"anyOf\": [{\"$ref\": \"#\"}, {\"type\": "
    "\"null\"}]}}, \"required\": [\"v\", \"next\"]}";
static const char all_schema[] =
    "{\"$defs\": {\"a\": {\"type\": \"object\", \"properties\": {\"p\": "
    "{\"const\": 1}}, "
    "\"required\": [\"p\"]}}, \"allOf\": [{\"$ref\": \"#/$defs/a\"}, "
    "{\"properties\": "
    "{\"q\": {\"enum\": [\"x\", {\"y\": [2]}]}}, \"required\": [\"q\"]}]}";
static const char others_schema[] =
    "{\"type\": \"object\", \"properties\": {\"ab\": {\"type\": "
    "\"null\"}}, \"additionalProperties\": {\"type\": \"boolean\"}}";
static const char quoted_schema[] =
    "{\"properties\": {\"\\\"q\": {}}, \"additionalProperties\": {}}";
static const char tuple_schema[] =
    "{\"type\": \"array\", \"prefixItems\": [{\"type\": \"integer\"}, "
    "{\"type\": \"null\"}], "
    "\"items\": {\"type\": \"boolean\"}, \"minItems\": 1, \"maxItems\": 3}";
static const char one_schema[] = "{\"oneOf\": [{\"type\": \"object\", "
                                 "\"properties\": {\"k\": {\"const\": \"a\"}}, "
                                 "\"required\": [\"k\"]}, {\"type\": \"object\", "
                                 "\"properties\": {\"k\": {\"const\": "
                                 "\"b\"}, \"n\": {\"type\": \"integer\"}}, "
                                 "\"required\": [\"k\", \"n\"]}]}";
static const language_case schema_cases[] = {
    {SCHEMA, person_schema, "{\"name\": \"\", \"age\": 7, \"x\": null}", YES},
    {SCHEMA, person_schema, "{\"age\":7}", YES},
    {SCHEMA, person_schema, "{\"name\": \"a\"}", NO},
    {SCHEMA, person_schema, "{\"age\": 7, \"name\": \"\"}", YES},
    {SCHEMA, person_schema, "{\"age\": 7, \"age\"", NO},
    {SCHEMA, person_schema, "{\"age\": 7, \"z\": 0}", YES},
    {SCHEMA, person_schema, "{\"age\": 1.5", NO},
    {SCHEMA, list_schema, "{\"v\": 1, \"next\": {\"v\": 2, \"next\": null}}", YES},
    {SCHEMA, list_schema, "{\"v\": 1, \"next\": {\"v\": 2, \"next\": null}", BEGINS},
    {SCHEMA, all_schema, "{\"p\": 1, \"q\": {\"y\":[2]}}", YES},
    {SCHEMA, all_schema, "{\"p\": 1}", NO},
    {SCHEMA, others_schema, "{\"ab\": null, \"a\": true, \"abc\": false}", YES},
    {SCHEMA, others_schema, "{\"ab\": true", NO},
    {SCHEMA, others_schema, "{\"x\": true, \"ab\": null}", YES},
    {SCHEMA, others_schema, "{\"\": true}", YES},
    {SCHEMA, quoted_schema, "{\"\\\"q\": 1, \"q\": 2}", YES},
    {SCHEMA, quoted_schema, "{\"\"q", NO},
    {SCHEMA, tuple_schema, "[1]", YES},
    {SCHEMA, tuple_schema, "[1, null, true]", YES},
    {SCHEMA, tuple_schema, "[1, null, true,", NO},
    {SCHEMA, tuple_schema, "[]", NO},
    {SCHEMA, one_schema, "{\"k\": \"b\", \"n\": 3}", YES},
    {SCHEMA, one_schema, "{\"k\": \"a\", \"n\": \"\"}", YES},
    {SCHEMA, "{}", "[\"any\", {}]", YES},
    {SCHEMA, "true", "12", YES},
    {SCHEMA,
     "{\"type\": \"array\", \"items\": {\"type\": \"null\"}, \"minItems\": "
     "2}",
     "[null]", NO},
    {SCHEMA, "{\"type\": \"string\", \"nullable\": true}", "null", YES},
    {SCHEMA, "{\"enum\": [1, \"a\"], \"type\": \"string\"}", "1", NO},
    {SCHEMA, "{\"type\": \"object\", \"required\": [\"z\"]}", "{\"z\": [], \"y\": 1}", YES},
    {SCHEMA, "{\"type\": \"object\", \"required\": [\"z\"]}", "{\"y\": 1}", NO},
    {SCHEMA, "{\"maxItems\": 0}", "[]", YES},
    {SCHEMA, "{\"items\": [{\"type\": \"null\"}]}", "[null]", YES},
    {SCHEMA, "{\"items\": [{\"type\": \"null\"}], \"additionalItems\": false}", "[null,", NO},
    {SCHEMA, "{\"$defs\": {\"a b\": {\"type\": \"null\"}}, \"$ref\": \"#/$defs/a%20b\"}", "null",
     YES},
};

static void schemas(void **state) {
    (void)state;
    CHECK(schema_cases);
}

#define VALUES(...)                                                                                \
    "{\"enum\": [1, 2.5, \"a\", \"abc\", [1], [], {\"k\": 1}, null], " __VA_ARGS__ "}"

static void values_satisfy_the_rest(void **state) {
    (void)state;
    static const char integer[] = VALUES("\"type\": \"integer\"");
    static const char least[] = VALUES("\"minimum\": 2");
    static const char above[] = VALUES("\"exclusiveMinimum\": 1, \"type\": \"number\"");
    static const char length[] = VALUES("\"minLength\": 2, \"maxLength\": 3");
    static const char items[] = VALUES("\"minItems\": 1, \"items\": {\"type\": \"integer\"}");
    static const char members[] = VALUES("\"required\": [\"k\"], \"properties\": {\"k\": {"
                                         "\"const\": 1.0}}, \"additionalProperties\": false");
    static const char parts[] = VALUES("\"oneOf\": [{\"type\": \"null\"}, {\"type\": \"array\"}]");
    static const char both[] = VALUES("\"const\": 2.5");
    static const char few[] = "{\"enum\": [6.6, 0.3]}";
    static const char rest[] =
        "{\"anyOf\": [{\"enum\": [1], \"type\": \"string\"}, {\"const\": 2}]}";
    static const language_case cases[] = {
        {SCHEMA, integer, "1", YES},   {SCHEMA, integer, "2", NO},
        {SCHEMA, least, "2.5", YES},   {SCHEMA, least, "1", NO},
        {SCHEMA, least, "[]", YES},    {SCHEMA, above, "2.5", YES},
        {SCHEMA, above, "1", NO},      {SCHEMA, length, "\"abc\"", YES},
        {SCHEMA, length, "\"a\"", NO}, {SCHEMA, items, "[1]", YES},
        {SCHEMA, items, "[]", NO},     {SCHEMA, members, "{\"k\":1}", YES},
        {SCHEMA, parts, "[1]", YES},   {SCHEMA, parts, "1", NO},
        {SCHEMA, both, "2.5", YES},    {SCHEMA, both, "1", NO},
        {SCHEMA, few, "6.6", YES},     {SCHEMA, few, "0.3", YES},
        {SCHEMA, rest, "2", YES},      {SCHEMA, rest, "1", NO},
    };
    CHECK(cases);
}

/* A part of allOf that leads back to a schema around it is the same rule again. */
static void merged_schemas_may_recur(void **state) {
    (void)state;
    static const char list[] =
        "{\"$defs\": {\"n\": {\"type\": \"object\", \"properties\": {\"v\": {\"type\": "
        "\"integer\"}, "
        "\"next\": {\"allOf\": [{\"$ref\": \"#/$defs/n\"}], \"description\": \"the next\"}}, "
        "\"required\": [\"v\"]}}, \"allOf\": [{\"$ref\": \"#/$defs/n\"}]}";
    static const language_case cases[] = {
        {SCHEMA, list, "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}", YES},
        {SCHEMA, list, "{\"v\":1,\"next\":{}", NO},
    };
    CHECK(cases);
}

static void strings_of_schemas(void **state) {
    (void)state;
    static const char length[] = "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}";
    static const language_case cases[] = {
        {SCHEMA, length, "\"a\"", NO},
        {SCHEMA, length, "\"\xc3\xa9\\n\"", YES},
        {SCHEMA, length, "\"\\u00e9\xf0\x9f\x98\x80\\ud83d\\ude00\"", YES},
        {SCHEMA, length, "\"abcd", NO},
        {SCHEMA, "{\"pattern\": \"^a\\\"\\\\n[\\\\t-\\\\r]$\"}", "\"a\\\"\\n\\t\"", YES},
        {SCHEMA, "{\"pattern\": \"^a\\\"\\\\n[\\\\t-\\\\r]$\"}", "\"a\\\"\\nx", NO},
        {SCHEMA, "{\"pattern\": \"b+\"}", "\"xx\\\\b\\n\"", YES},
        {SCHEMA, "{\"pattern\": \"b+\"}", "\"xx\"", NO},
        {SCHEMA, "{\"pattern\": \"^\\\\S[^\\\\s]\\\\s[\\\\S][^\\\\S]$\"}", "\"\xc3\xa9x x \"", YES},
        {SCHEMA, "{\"pattern\": \"^\\\\S$\"}", "\"\xc2\xa0", NO}, /* white space, too */
        {SCHEMA, "{\"pattern\": \"^[^\\\\s]$\"}", "\"\xe2\x80\xa8", NO},
        {SCHEMA, "{\"pattern\": \"^[^\\\\S]$\"}", "\"\xc2\xa0", NO},
        {SCHEMA, "{\"format\": \"date\"}", "\"2024-12-31\"", YES},
        {SCHEMA, "{\"format\": \"date\"}", "\"2024-04-31\"", NO},
        {SCHEMA, "{\"format\": \"date-time\"}", "\"1999-02-28T23:59:59.5+05:30\"", YES},
        {SCHEMA, "{\"format\": \"uuid\"}", "\"123e4567-e89b-12d3-a456-426614174000\"", YES},
        {SCHEMA, "{\"format\": \"ipv4\"}", "\"255.0.10.1\"", YES},
        {SCHEMA, "{\"format\": \"ipv4\"}", "\"256", NO},
        {SCHEMA, "{\"format\": \"email\"}", "\"a.b@c-d.org\"", YES},
        {SCHEMA, "{\"format\": \"uri\"}", "\"https://a.b/c?d=e#f\"", YES},
    };
    CHECK(cases);
}

/* Every integer from -130 to 130 against bounds around all of them. */
static void integers_within_bounds(void **state) {
    (void)state;
    for (int low = -121; low <= 121; low += 11) {
        for (int high = low; high <= 125; high += 9) {
            char schema[128], text[16];
            snprintf(schema, sizeof schema,
                     "{\"type\": \"integer\", \"minimum\": %d, \"exclusiveMaximum\": %d}", low,
                     high + 1);
            ln_grammar *grammar = compile(SCHEMA, schema, NULL);
            for (int value = -130; value <= 130; value++) {
                snprintf(text, sizeof text, "%d", value);
                bool expected = value >= low && value <= high;
                if ((matches(grammar, text) == YES) != expected)
                    fail_msg("%s: %d", schema, value);
            }
            ln_grammar_release(grammar);
        }
    }
}

static void numbers_within_bounds(void **state) {
    (void)state;
    static const double bounds[] = {-120.25, -3, -0.125, 0, 0.1, 0.75, 2, 99.5, 100, 1e6};
    static const char *const texts[] = {
        "-121",   "-120.3", "-120.25", "-120.2", "-3.01",   "-3",       "-2.9", "-0.2",
        "-0.125", "-0.12",  "0",       "0.0",    "0.05",    "0.1",      "0.10", "0.11",
        "0.75",   "0.8",    "1.9999",  "2",      "2.0",     "2.1",      "99.4", "99.5",
        "99.51",  "100",    "101",     "5000",   "1000000", "1000000.5"};
    size_t n = sizeof bounds / sizeof *bounds;
    for (size_t i = 0; i < n * n; i++) {
        double low = bounds[i / n], high = bounds[i % n];
        char schema[128];
        if (low >= high)
            continue;
        snprintf(schema, sizeof schema, "{\"exclusiveMinimum\": %g, \"maximum\": %g}", low, high);
        ln_grammar *grammar = compile(SCHEMA, schema, NULL);
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) {
            double value = strtod(texts[j], NULL);
            if ((matches(grammar, texts[j]) == YES) != (value > low && value <= high))
                fail_msg("%s: %s", schema, texts[j]);
        }
        ln_grammar_release(grammar);
    }
}

static void choices(void **state) {
    (void)state;
    ln_grammar *grammar =
        compile(LINNET_GRAMMAR_CHOICE, "[\"yes\", \"yes, but\", \"\\u00e9\"]", NULL);
    assert_int_equal(matches(grammar, "yes"), YES);
    assert_int_equal(matches(grammar, "yes, but"), YES);
    assert_int_equal(matches(grammar, "yes,"), BEGINS);
    assert_int_equal(matches(grammar, "\xc3\xa9"), YES);
    assert_int_equal(matches(grammar, "no"), NO);
    ln_grammar_release(grammar);
}

/* More strings than a table has room for, with and without beginnings in common. */
static void many_choices(void **state) {
    (void)state;
    enum { N = 30000, BYTES = 32 };
    char *source = calloc(N, BYTES);
    assert_non_null(source);
    size_t n_bytes = 0;
    for (unsigned i = 0; i < N; i++)
        n_bytes += (size_t)sprintf(source + n_bytes, "%c\"key%u%s\"", i == 0 ? '[' : ',',
                                   i * 7919u % N, i % 2 ? "" : "-even");
    source[n_bytes] = ']';
    ln_grammar *grammar = compile(LINNET_GRAMMAR_CHOICE, source, NULL);
    free(source);
    assert_int_equal(matches(grammar, "key7919"), YES);
    assert_int_equal(matches(grammar, "key7919-even"), NO);
    assert_int_equal(matches(grammar, "key15838-even"), YES);
    assert_int_equal(matches(grammar, "key15838"), BEGINS);
    assert_int_equal(matches(grammar, "key30000"), NO);
    ln_grammar_release(grammar);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuse(linnet_grammar_kind kind, const char *text, size_t n_bytes, ln_status expected,
                   const char *message) {
    ln_grammar *grammar = NULL;
    ln_error err = {0};
    const ln_grammar_source source = {.kind = kind, .text = text, .n_bytes = n_bytes};
    ln_status status = ln_grammar_compile(&source, NULL, &grammar, &err);
    if (status != expected || grammar != NULL || strstr(err.message, message) == NULL)
        fail_msg("%.200s: %d, \"%s\", not \"%s\"", text, (int)status, err.message, message);
}

static const struct {
    linnet_grammar_kind kind;
    const char *text;
    ln_status status;
    const char *message;
} refused_texts[] = {
    {REGEX, "a(b", LINNET_ERR_ARGUMENT, "no )"},
    {REGEX, "a)b", LINNET_ERR_ARGUMENT, "byte 1: a ) has no group"},
    {REGEX, "[a", LINNET_ERR_ARGUMENT, "no ]"},
    {REGEX, "*a", LINNET_ERR_ARGUMENT, "repetition of nothing"},
    {REGEX, "a**", LINNET_ERR_ARGUMENT, "repetition of a repetition"},
    {REGEX, "a\\", LINNET_ERR_ARGUMENT, "backslash"},
    {REGEX, "[z-a]", LINNET_ERR_ARGUMENT, "backwards"},
    {REGEX, "a{3,2}", LINNET_ERR_ARGUMENT, "backwards"},
    {REGEX, "(?=a)", LINNET_ERR_ARGUMENT, "no text"},
    {REGEX, "((?=a)b)c", LINNET_ERR_UNSUPPORTED, "look-around"},
    {REGEX, "(?<=a)b", LINNET_ERR_UNSUPPORTED, "look-around"},
    {REGEX, "(?=a$|b)b", LINNET_ERR_UNSUPPORTED, "$ within"},
    {REGEX, "(a)\\1", LINNET_ERR_UNSUPPORTED, "reference back"},
    {REGEX, "\\bx", LINNET_ERR_UNSUPPORTED, "word boundary"},
    {REGEX, "\\p{L}", LINNET_ERR_UNSUPPORTED, "property"},
    {REGEX, "a{1000000000}", LINNET_ERR_LIMIT, "states"},
    {REGEX, "((a{1000}){1000}){1000}", LINNET_ERR_LIMIT, "states"},
    {REGEX, "[^\\d\\D]", LINNET_ERR_ARGUMENT, "no text"},
    {GBNF, "", LINNET_ERR_ARGUMENT, "no rule \"root\""},
    {GBNF, "root ::= x", LINNET_ERR_ARGUMENT, "no rule \"x\""},
    {GBNF, "root ::= \"a\"\nroot ::= \"b\"", LINNET_ERR_ARGUMENT, "line 2"},
    {GBNF, "root ::= \"a", LINNET_ERR_ARGUMENT, "literal"},
    {GBNF, "root ::= \"a\" )", LINNET_ERR_ARGUMENT, "line 1"},
    {GBNF, "root = \"a\"", LINNET_ERR_ARGUMENT, "::="},
    {GBNF, "root ::= \"\\q\"", LINNET_ERR_ARGUMENT, "escape"},
    {GBNF, "root ::= x \"a\"\nx ::= \"\" | root", LINNET_ERR_ARGUMENT, "refers to itself"},
    {GBNF, "root ::= root \"a\" | \"b\"", LINNET_ERR_ARGUMENT, "root refers to itself"},
    {GBNF, "root ::= \"(\" root \")\"", LINNET_ERR_ARGUMENT, "no text"},
    {GBNF, "root ::= [a]{1000000000}", LINNET_ERR_LIMIT, "states"},
    {GBNF, "root ::= \"a\"{4294967295,99999999999999999999}", LINNET_ERR_LIMIT, "states"},
    {SCHEMA, "{", LINNET_ERR_ARGUMENT, "line 1"},
    {SCHEMA, "[]", LINNET_ERR_UNSUPPORTED, "no object"},
    {SCHEMA, "false", LINNET_ERR_ARGUMENT, "no text"},
    {SCHEMA, "{\"not\": {}}", LINNET_ERR_ARGUMENT, "no text"},
    {SCHEMA, "{\"patternProperties\": 1}", LINNET_ERR_ARGUMENT, "patternProperties"},
    {SCHEMA, "{\"multipleOf\": 0}", LINNET_ERR_ARGUMENT, "multipleOf"},
    {SCHEMA, "{\"anyOf\": []}", LINNET_ERR_ARGUMENT, "anyOf"},
    {SCHEMA, "{\"type\": \"array\", \"uniqueItems\": true}", LINNET_ERR_UNSUPPORTED, "uniqueItems"},
    {SCHEMA, "{\"type\": \"strin\"}", LINNET_ERR_ARGUMENT, "strin"},
    {SCHEMA, "{\"type\": 3}", LINNET_ERR_ARGUMENT, "\"type\""},
    {SCHEMA, "{\"$ref\": \"#/a\"}", LINNET_ERR_ARGUMENT, "leads nowhere"},
    {SCHEMA, "{\"$ref\": \"http://a\"}", LINNET_ERR_UNSUPPORTED, "http://a"},
    {SCHEMA, "{\"$ref\": \"#\"}", LINNET_ERR_ARGUMENT, "refers to itself"},
    {SCHEMA, "{\"anyOf\": [{\"$ref\": \"#\"}, {\"type\": \"null\"}]}", LINNET_ERR_ARGUMENT,
     "refers to itself"},
    {SCHEMA,
     "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": "
     "[\"a\"]}",
     LINNET_ERR_ARGUMENT, "no text"},
    {SCHEMA, "{\"allOf\": [{\"$ref\": \"#\"}]}", LINNET_ERR_ARGUMENT, "refers to itself"},
    {SCHEMA, "{\"type\": \"number\", \"minimum\": 3, \"maximum\": 2}", LINNET_ERR_ARGUMENT,
     "no text"},
    {SCHEMA, "{\"type\": \"string\", \"minLength\": 3, \"maxLength\": 2}", LINNET_ERR_ARGUMENT,
     "no text"},
    {SCHEMA, "{\"minLength\": -1}", LINNET_ERR_ARGUMENT, "minLength"},
    {SCHEMA, "{\"type\": \"array\", \"minItems\": 1e9}", LINNET_ERR_LIMIT, "states"},
    {SCHEMA, "{\"enum\": []}", LINNET_ERR_ARGUMENT, "enum"},
    {SCHEMA, "{\"enum\": [1], \"type\": \"null\"}", LINNET_ERR_ARGUMENT, "no text"},
    {SCHEMA, "{\"const\": 1, \"enum\": [2]}", LINNET_ERR_ARGUMENT, "no text"},
    {SCHEMA, "{\"const\": 18446744073709551615}", LINNET_ERR_UNSUPPORTED, "2^63 or more"},
    {SCHEMA, "{\"enum\": [1, -9223372036854775809]}", LINNET_ERR_UNSUPPORTED, "2^63 or more"},
    {SCHEMA, "{\"const\": 1.8446744073709552e19}", LINNET_ERR_UNSUPPORTED, "2^63 or more"},
    {SCHEMA, "{\"const\": {\"a\": [9223372036854775808]}}", LINNET_ERR_UNSUPPORTED, "2^63 or more"},
    {SCHEMA, "{\"type\": \"number\", \"not\": {\"const\": 9223372036854775808}}",
     LINNET_ERR_UNSUPPORTED, "2^63 or more"},
    {SCHEMA, "{\"enum\": [\"a\"], \"pattern\": \"b\"}", LINNET_ERR_ARGUMENT, "no text"},
    {SCHEMA, "{\"oneOf\": [{\"const\": 1}, {\"const\": 1.0}]}", LINNET_ERR_ARGUMENT, "no text"},
    {SCHEMA, "{\"required\": [1]}", LINNET_ERR_ARGUMENT, "required"},
    {SCHEMA, "{\"pattern\": \"(\"}", LINNET_ERR_ARGUMENT, "no )"},
    {LINNET_GRAMMAR_CHOICE, "[]", LINNET_ERR_ARGUMENT, "choice"},
    {LINNET_GRAMMAR_CHOICE, "[1]", LINNET_ERR_ARGUMENT, "string"},
    {(linnet_grammar_kind)99, "", LINNET_ERR_ARGUMENT, "99"},
    {REGEX, "\xff", LINNET_ERR_ARGUMENT, "UTF-8"},
};

static void refusals_name_the_culprit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused_texts / sizeof *refused_texts; i++)
        refuse(refused_texts[i].kind, refused_texts[i].text, strlen(refused_texts[i].text),
               refused_texts[i].status, refused_texts[i].message);
}

/* `before` n times, then `middle`, then `after` n times. */
static char *nest(const char *before, const char *middle, const char *after, size_t n) {
    size_t n_before = strlen(before), n_after = strlen(after), n_middle = strlen(middle);
    char *text = malloc(n * (n_before + n_after) + n_middle + 1), *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++, at += n_before)
        memcpy(at, before, n_before);
    memcpy(at, middle, n_middle);
    at += n_middle;
    for (size_t i = 0; i < n; i++, at += n_after)
        memcpy(at, after, n_after);
    *at = '\0';
    return text;
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    char *text = nest("(", "a", ")", 60000);
    refuse(REGEX, text, strlen(text), LINNET_ERR_LIMIT, "deep");
    free(text);
    text = nest("(", "\"a\"", ")", 60000);
    char *grammar = malloc(strlen(text) + 16);
    assert_non_null(grammar);
    snprintf(grammar, strlen(text) + 16, "root ::= %s", text);
    refuse(GBNF, grammar, strlen(grammar), LINNET_ERR_LIMIT, "deep");
    free(text);
    free(grammar);
    text = nest("{\"not\":", "{\"const\": [1]}", "}", 500);
    refuse(SCHEMA, text, strlen(text), LINNET_ERR_LIMIT, "");
    free(text);
    text = nest("{\"items\":", "{}", "}", 60000);
    refuse(SCHEMA, text, strlen(text), LINNET_ERR_ARGUMENT, "depth");
    free(text);
    text = nest("a", "", "", (1 << 20) + 1);
    refuse(REGEX, text, strlen(text), LINNET_ERR_LIMIT, "bytes");
    free(text);
}

/* Whether the parts of oneOf name one value twice is not looked for without end. */
/* Refuses begin, n times `part` with its number where it has %d, with commas between, and end. */
static void refuse_repeated(const char *begin, const char *part, int n, const char *end) {
    size_t capacity = strlen(begin) + (size_t)n * (strlen(part) + 8) + 64, n_bytes;
    char *text = malloc(capacity);
    assert_non_null(text);
    n_bytes = (size_t)snprintf(text, capacity, "%s", begin);
    for (int i = 0; i < n; i++) {
        n_bytes += (size_t)snprintf(text + n_bytes, capacity - n_bytes, "%s", i > 0 ? "," : "");
        const char *number = strstr(part, "%d");
        if (number == NULL)
            n_bytes += (size_t)snprintf(text + n_bytes, capacity - n_bytes, "%s", part);
        else
            n_bytes += (size_t)snprintf(text + n_bytes, capacity - n_bytes, "%.*s%d%s",
                                        (int)(number - part), part, i, number + 2);
    }
    snprintf(text + n_bytes, capacity - n_bytes, "%s", end);
    refuse(SCHEMA, text, strlen(text), LINNET_ERR_LIMIT, "comparisons");
    free(text);
}

/* Each is less than a megabyte, and would take minutes. */
static void many_comparisons_are_refused(void **state) {
    (void)state;
    enum { N_PARTS = 100, N_VALUES = 100, N_MANY = 20000 };
    static char begin[N_PARTS * N_VALUES * 16];
    size_t n_bytes = (size_t)snprintf(begin, sizeof begin, "{\"oneOf\":[");
    for (int i = 0; i < N_PARTS * N_VALUES; i++)
        n_bytes += (size_t)snprintf(begin + n_bytes, sizeof begin - n_bytes, "%s%d",
                                    i % N_VALUES > 0 ? ","
                                    : i > 0          ? "]},{\"enum\":["
                                                     : "{\"enum\":[",
                                    i);
    refuse_repeated(begin, "0", 0, "]}]}");

    n_bytes = (size_t)snprintf(begin, sizeof begin, "{\"type\":[\"null\"");
    for (int i = 0; i < N_MANY; i++)
        n_bytes += (size_t)snprintf(begin + n_bytes, sizeof begin - n_bytes, ",\"null\"");
    snprintf(begin + n_bytes, sizeof begin - n_bytes, "],\"enum\":[");
    refuse_repeated(begin, "null", N_MANY, "]}");

    n_bytes = (size_t)snprintf(begin, sizeof begin, "{\"enum\":[\"");
    memset(begin + n_bytes, 'a', N_MANY);
    snprintf(begin + n_bytes + N_MANY, sizeof begin - n_bytes - N_MANY, "\"],\"anyOf\":[");
    refuse_repeated(begin, "{\"minLength\":1}", 1000, "]}");

    n_bytes = (size_t)snprintf(begin, sizeof begin, "{\"enum\":[{\"b\":0}");
    for (int i = 0; i < N_MANY / 4; i++)
        n_bytes += (size_t)snprintf(begin + n_bytes, sizeof begin - n_bytes, ",{\"b\":0}");
    snprintf(begin + n_bytes, sizeof begin - n_bytes, "],\"required\":[");
    refuse_repeated(begin, "\"b\"", N_MANY, "]}");

    refuse_repeated("{\"allOf\":[", "{\"properties\":{\"p%d\":{}}}", N_MANY, "]}");
}

/* A chain of rules as long as there may be compiles; what begins in more ways
 * than the automaton has room for does not. */
static void long_chains_of_rules(void **state) {
    (void)state;
    for (int with_more = 0; with_more < 2; with_more++) {
        size_t n_bytes = 0;
        char *text = malloc(1 << 20);
        assert_non_null(text);
        n_bytes += (size_t)snprintf(text, 64, "root ::= r0\n");
        for (int i = 0; i < 20000; i++)
            n_bytes += (size_t)snprintf(text + n_bytes, 64, "r%d ::= %sr%d\n", i,
                                        with_more ? "\"a\" root \"b\" | " : "", i + 1);
        snprintf(text + n_bytes, 64, "r20000 ::= \"x\" root | \"y\"\n");
        if (with_more) {
            refuse(GBNF, text, strlen(text), LINNET_ERR_LIMIT, "too many ways");
        } else {
            ln_grammar *grammar = NULL;
            ln_error err = {0};
            const ln_grammar_source source = {.kind = GBNF, .text = text, .n_bytes = strlen(text)};
            ln_status status = ln_grammar_compile(&source, NULL, &grammar, &err);
            assert_true(status == LINNET_OK || status == LINNET_ERR_LIMIT);
            ln_grammar_release(grammar);
        }
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regexes),
        cmocka_unit_test(gbnf),
        cmocka_unit_test(json),
        cmocka_unit_test(schemas),
        cmocka_unit_test(values_satisfy_the_rest),
        cmocka_unit_test(merged_schemas_may_recur),
        cmocka_unit_test(strings_of_schemas),
        cmocka_unit_test(integers_within_bounds),
        cmocka_unit_test(numbers_within_bounds),
        cmocka_unit_test(choices),
        cmocka_unit_test(many_choices),
        cmocka_unit_test(refusals_name_the_culprit),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(many_comparisons_are_refused),
        cmocka_unit_test(long_chains_of_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
