/* Which values the keywords of JSON schemas allow, alone and together. */
#include "grammar_test.h"

/* A schema, and texts of which it allows some: a + before a text says so. */
typedef struct schema_case {
    const char *schema;
    const char *texts[10];
} schema_case;

static bool is_allowed(ln_grammar *grammar, const char *text) {
    size_t n_accepted;
    bool complete;
    ln_error err = {0};
    if (ln_grammar_match(grammar, text, strlen(text), &n_accepted, &complete, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    return complete && n_accepted == strlen(text);
}

static void check(const schema_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ln_grammar *grammar = compile(LINNET_GRAMMAR_JSON_SCHEMA, cases[i].schema, NULL);
        for (size_t j = 0; j < 10 && cases[i].texts[j] != NULL; j++) {
            const char *text = cases[i].texts[j];
            if (is_allowed(grammar, text + 1) != (text[0] == '+'))
                fail_msg("%s: %s", cases[i].schema, text);
        }
        ln_grammar_release(grammar);
    }
}

#define CHECK(cases) check(cases, sizeof(cases) / sizeof *(cases))

static void what_schemas_leave_open(void **state) {
    (void)state;
    static const schema_case cases[] = {
        {"{\"minLength\": 2, \"minimum\": 3}", {"+\"ab\"", "-\"a\"", "+4", "-2", "+null", "+[]"}},
        {"{\"not\": {\"type\": [\"string\", \"object\"]}}", {"+1", "-\"\"", "-{}", "+[]"}},
        {"{\"not\": {\"minLength\": 2}}", {"+\"a\"", "-\"ab\"", "-1"}},
        {"{\"not\": {\"enum\": [1, \"a\", null]}}", {"-1", "+12", "-\"a\"", "+\"ab\"", "-null"}},
        {"{\"not\": {\"const\": {\"a\": [1]}}}",
         {"-{\"a\": [1]}", "+{\"a\": [2]}", "+{\"a\": [1, 1]}", "+{}", "+{\"b\": [1]}"}},
        {"{\"oneOf\": [{\"type\": \"string\"}, {\"maxLength\": 1}]}", {"+\"ab\"", "-\"a\"", "+1"}},
        {"{\"oneOf\": [{\"multipleOf\": 3}, {\"multipleOf\": 5}], \"type\": \"integer\"}",
         {"+3", "+5", "-15", "-1", "-30", "+33"}},
        {"{\"if\": {\"properties\": {\"k\": {\"const\": 1}}, \"required\": [\"k\"]}, \"then\": "
         "{\"required\": [\"a\"]}, \"else\": {\"required\": [\"b\"]}, \"type\": \"object\"}",
         {"+{\"k\": 1, \"a\": 0}", "-{\"k\": 1}", "+{\"k\": 2, \"b\": 0}", "+{\"b\": 0}", "-{}"}},
        {"{\"allOf\": [{\"properties\": {\"a\": {\"minimum\": 1}}}, {\"properties\": {\"a\": "
         "{\"maximum\": 3}}}], \"type\": \"object\"}",
         {"+{\"a\": 2}", "-{\"a\": 0}", "-{\"a\": 4}", "+{}"}},
        {"{\"type\": \"object\", \"dependentRequired\": {\"a\": [\"b\"]}}",
         {"+{}", "+{\"b\": 1}", "-{\"a\": 1}", "+{\"a\": 1, \"b\": 1}"}},
        {"{\"type\": \"object\", \"dependencies\": {\"a\": {\"maxProperties\": 1}}}",
         {"+{\"a\": 1}", "-{\"a\": 1, \"b\": 1}", "+{\"b\": 1, \"c\": 2}"}},
        {"{\"\": 3, \"enum const\": {\"$anchor\": \"a\", \"type\": \"integer\"}, \"$ref\": \"#a\"}",
         {"+1", "-\"a\""}},
        {"{\"x-order\": 3, \"surprise\": [], \"format\": \"unheard of\"}", {"+\"a\""}},
    };
    CHECK(cases);
}

static void members(void **state) {
    (void)state;
    static const schema_case cases[] = {
        {"{\"type\": \"object\", \"patternProperties\": {\"^a\": {\"type\": \"integer\"}, \"b$\": "
         "{\"minimum\": 5}}, \"additionalProperties\": false}",
         {"+{\"a\": 1}", "-{\"a\": \"\"}", "+{\"ab\": 7}", "-{\"ab\": 3}", "+{\"b\": 6}",
          "+{\"b\": \"x\"}", "-{\"c\": 1}"}},
        {"{\"type\": \"object\", \"propertyNames\": {\"maxLength\": 2}}",
         {"+{\"ab\": 1}", "-{\"abc\": 1}", "+{}"}},
        {"{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}, \"c\": {}}, "
         "\"additionalProperties\": false, \"minProperties\": 2, \"maxProperties\": 2}",
         {"-{\"a\": 1}", "+{\"a\": 1, \"c\": 1}", "-{\"a\": 1, \"b\": 1, \"c\": 1}"}},
        {"{\"type\": \"object\", \"not\": {\"additionalProperties\": {\"type\": \"null\"}}}",
         {"-{}", "-{\"a\": null}", "+{\"a\": 1}", "+{\"a\": null, \"b\": 1}"}},
        {"{\"type\": \"object\", \"allOf\": [{\"properties\": {\"a\": {}}}], \"properties\": "
         "{\"b\": {}}, \"unevaluatedProperties\": false}",
         {"+{\"b\": 1, \"a\": 1}", "-{\"c\": 1}", "+{}"}},
        {"{\"type\": \"object\", \"anyOf\": [{\"properties\": {\"a\": {\"const\": 1}}, "
         "\"required\": [\"a\"]}, {\"properties\": {\"b\": {}}}], \"unevaluatedProperties\": "
         "false}",
         {"+{\"b\": 1}", "+{\"a\": 1}", "-{\"a\": 2}", "-{\"c\": 2}"}},
        {"{\"type\": \"object\", \"properties\": {\"ab\": {\"type\": \"null\"}, \"ac\": {}, \"b\": "
         "{}}, \"required\": [\"ac\", \"b\"], \"additionalProperties\": false}",
         {"+{\"b\": 1, \"ac\": 2}", "+{\"ab\": null, \"ac\": 1, \"b\": 2}", "-{\"b\": 1}",
          "-{\"b\": 1, \"b\": 1, \"ac\": 1}", "+{\"ac\": 1, \"b\": 2}"}},
        {"{\"const\": {\"a\": [1], \"b\": {}}}", {"+{\"b\": {}, \"a\": [ 1 ]}", "-{\"a\": [1]}"}},
    };
    CHECK(cases);
}

/* A key is no way in when all that begins like it came already, nor a comma when nothing can
 * follow: whatever begins can be finished. */
static void nothing_leads_nowhere(void **state) {
    (void)state;
    static const struct {
        const char *schema, *text;
        size_t n_accepted;
    } cases[] = {
        {"{\"properties\": {\"ab\": {}, \"ac\": {}, \"x\": {}}, \"additionalProperties\": false}",
         "{\"ac\":1,\"ab\":2,\"a", 16},
        {"{\"properties\": {\"a\": {}}, \"additionalProperties\": false}", "{\"a\":1,", 6},
        {"{\"properties\": {\"a\": {}, \"b\": {}, \"c\": {}}, \"required\": [\"c\"], "
         "\"maxProperties\": 2, \"additionalProperties\": false}",
         "{\"a\":1,\"b", 8},
        {"{\"properties\": {\"a\": false, \"b\": {}}, \"additionalProperties\": false}", "{\"a", 2},
        {"{\"type\": \"string\", \"pattern\": \"^[a-z]+@[a-z]+$\", \"maxLength\": 5}", "\"abcd@",
         4},
        {"{\"type\": \"string\", \"pattern\": \"^([a-c]x)+$\", \"minLength\": 3, \"maxLength\": 5}",
         "\"axbxc", 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_grammar *grammar = compile(LINNET_GRAMMAR_JSON_SCHEMA, cases[i].schema, NULL);
        size_t n_accepted;
        bool complete;
        ln_error err = {0};
        assert_int_equal(ln_grammar_match(grammar, cases[i].text, strlen(cases[i].text),
                                          &n_accepted, &complete, &err),
                         LINNET_OK);
        if (n_accepted != cases[i].n_accepted)
            fail_msg("%s: %zu", cases[i].schema, n_accepted);
        ln_grammar_release(grammar);
    }
}

static void items(void **state) {
    (void)state;
    static const schema_case cases[] = {
        {"{\"type\": \"array\", \"contains\": {\"type\": \"null\"}}",
         {"-[]", "-[1]", "+[null]", "+[1, null, 2]"}},
        {"{\"type\": \"array\", \"contains\": {\"minimum\": 5}, \"items\": {\"type\": "
         "\"integer\"}, \"minContains\": 2, \"maxContains\": 3}",
         {"-[5]", "+[5, 6]", "+[1, 5, 1, 7, 8]", "-[5, 6, 7, 8]", "-[\"\", 5, 5]"}},
        {"{\"type\": \"array\", \"items\": {\"enum\": [\"a\", \"b\", \"c\"]}, \"uniqueItems\": "
         "true, \"minItems\": 2}",
         {"-[\"a\"]", "+[\"a\", \"b\"]", "-[\"a\", \"a\"]", "+[\"c\", \"b\", \"a\"]"}},
        {"{\"type\": \"array\", \"prefixItems\": [{\"type\": \"null\"}], \"unevaluatedItems\": "
         "false}",
         {"+[null]", "-[null, 1]", "-[1]", "+[]"}},
        {"{\"not\": {\"items\": {\"type\": \"integer\"}}}", {"-[1]", "+[1, \"\"]", "-[]", "-1"}},
    };
    CHECK(cases);
}

static void scalars(void **state) {
    (void)state;
    static const schema_case cases[] = {
        {"{\"type\": \"string\", \"pattern\": \"^[a-z]+$\", \"minLength\": 2, \"maxLength\": 4}",
         {"-\"a\"", "+\"ab\"", "+\"abcd\"", "-\"abcde\"", "-\"AB\""}},
        {"{\"type\": \"string\", \"pattern\": \"^(abc)*$\", \"minLength\": 4, \"maxLength\": 8}",
         {"-\"abc\"", "+\"abcabc\"", "-\"abcabcabc\""}},
        {"{\"type\": \"string\", \"allOf\": [{\"pattern\": \"a\"}, {\"pattern\": \"b\"}]}",
         {"-\"a\"", "+\"xbya\"", "-\"b\""}},
        {"{\"type\": \"string\", \"pattern\": \"^a|b$\"}", {"+\"ax\"", "+\"xb\"", "-\"xa\""}},
        {"{\"type\": \"string\", \"pattern\": \"^(?!ab)(?=.*c)[a-c]*$\"}",
         {"+\"aac\"", "-\"abc\"", "-\"aa\"", "-\"\""}},
        {"{\"type\": \"string\", \"format\": \"ipv6\"}",
         {"+\"::1\"", "+\"1::2:3\"", "+\"::ffff:1.2.3.4\"", "-\"1::2::3\"", "-\"12345::\""}},
        {"{\"type\": \"string\", \"format\": \"duration\"}",
         {"+\"P1Y2M3DT4H5M6S\"", "+\"PT1M\"", "+\"P2W\"", "-\"P\"", "-\"P1Y2W\"", "-\"PT\""}},
        {"{\"format\": \"date\"}", {"+\"2024-02-29\"", "-\"today\"", "+1"}},
        {"{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"format\": \"date\"}",
         {"+\"today\""}},
        {"{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"format\": \"date\", "
         "\"type\": \"string\"}",
         {"-\"today\"", "+\"2024-02-29\""}},
        {"{\"type\": \"string\", \"format\": \"date\"}",
         {"+\"2024-02-29\"", "-\"2023-02-29\"", "-\"1900-02-29\"", "+\"2000-02-29\""}},
        {"{\"type\": \"string\", \"format\": \"hostname\"}",
         {"+\"a.b-c.d\"", "-\"-a\"", "-\"a-\"", "-\"ab--c\"", "-\"a..b\""}},
        {"{\"type\": \"number\", \"multipleOf\": 0.25}",
         {"+1", "+-0.75", "+2.50", "-0.3", "-1.125", "+100.250"}},
        {"{\"type\": \"integer\", \"multipleOf\": 7, \"minimum\": 10}",
         {"-7", "+14", "-15", "+70"}},
        {"{\"type\": \"number\", \"not\": {\"type\": \"integer\"}}", {"-1", "+1.5", "-1.0"}},
    };
    CHECK(cases);
}

/* Bounds that are larger than the numbers which are written digit by digit. */
static void far_bounds(void **state) {
    (void)state;
#define DIGITS "00000000000000000000000000000000000000"
    static const schema_case cases[] = {
        {"{\"type\": \"number\", \"maximum\": 1e30}", {"+-5", "+7.5", "-9e40", "-9" DIGITS}},
        {"{\"type\": \"number\", \"minimum\": -1e22}",
         {"+5",
          "-"
          "-9e40",
          "-"
          "-9" DIGITS}},
        {"{\"type\": \"integer\", \"maximum\": 1e30}", {"+5", "+-5", "-9" DIGITS}},
        {"{\"type\": \"integer\", \"minimum\": 0, \"maximum\": 18446744073709551615}",
         {"+5", "--5", "-9" DIGITS}},
        {"{\"maximum\": 1e308}", {"+9e40", "+9" DIGITS, "+\"a\""}},
        {"{\"type\": \"integer\", \"maximum\": 1e40}", {"+9" DIGITS, "+-9" DIGITS}},
    };
#undef DIGITS
    CHECK(cases);
}

static void references(void **state) {
    (void)state;
    static const schema_case cases[] = {
        {"{\"$id\": \"http://x/root.json\", \"$defs\": {\"a\": {\"$id\": \"item.json\", \"type\": "
         "\"null\"}, \"b\": {\"$anchor\": \"here\", \"type\": \"boolean\"}}, \"anyOf\": "
         "[{\"$ref\": "
         "\"item.json\"}, {\"$ref\": \"#here\"}]}",
         {"+null", "+true", "-1"}},
        {"{\"$ref\": \"#/$defs/a\", \"minimum\": 3, \"$defs\": {\"a\": {\"type\": \"integer\"}}}",
         {"+3", "-2", "-\"\""}},
        {"{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"$ref\": "
         "\"#/definitions/a\", \"minimum\": 3, \"definitions\": {\"a\": {\"type\": \"integer\"}}}",
         {"+3", "+2", "-\"\""}},
        {"{\"$dynamicAnchor\": \"n\", \"type\": \"object\", \"properties\": {\"c\": "
         "{\"$dynamicRef\": \"#n\"}}}",
         {"+{\"c\": {\"c\": {}}}", "-{\"c\": {\"c\": 1}}"}},
    };
    CHECK(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_schemas_leave_open),
        cmocka_unit_test(members),
        cmocka_unit_test(nothing_leads_nowhere),
        cmocka_unit_test(items),
        cmocka_unit_test(scalars),
        cmocka_unit_test(far_bounds),
        cmocka_unit_test(references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
