/* Structured output over HTTP: by every field that clients have for it, in every company. */
#include <jansson.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "server/client.h"
#include "test.h"

static int start(void **state) {
    (void)state;
    shared = SERVER("--threads=1", "--max-seqs=4", "--served-name=demo", "--draft-tokens=4");
    return 0;
}

#define PERSON                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},"        \
    "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":130}},\"required\":[\"name\","        \
    "\"age\"],\"additionalProperties\":false}"
#define FORMAT(schema)                                                                             \
    "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"p\",\"strict\":"    \
    "true,\"schema\":" schema "}}"

/* A chat whose body ends with these fields. */
static http_response chat(const char *fields) {
    char body[4096];
    snprintf(body, sizeof body,
             "{\"max_tokens\":200,\"seed\":3,\"messages\":[{\"role\":\"user\",\"content\":\"A "
             "person as JSON\"}],%s}",
             fields);
    return post(&shared, "/v1/chat/completions", body);
}

static json_t *parse(const http_response *heard) {
    if (heard->status != 200)
        fail_msg("status %d: %s", heard->status, heard->body);
    json_t *root = json_loads(heard->body, 0, NULL);
    assert_non_null(root);
    return root;
}

static const char *content_of(json_t *root, size_t choice) {
    json_t *message =
        json_object_get(json_array_get(json_object_get(root, "choices"), choice), "message");
    const char *content = json_string_value(json_object_get(message, "content"));
    assert_non_null(content);
    return content;
}

static void expect_person(const char *text) {
    json_t *person = json_loads(text, 0, NULL);
    if (!json_is_string(json_object_get(person, "name")) || json_object_size(person) != 2)
        fail_msg("no person: %s", text);
    json_int_t age = json_integer_value(json_object_get(person, "age"));
    assert_true(age >= 0 && age <= 130);
    json_decref(person);
}

static void gives_objects(void **state) {
    (void)state;
    http_response heard = chat("\"response_format\":{\"type\":\"json_object\"}");
    json_t *root = parse(&heard), *object = json_loads(content_of(root, 0), 0, NULL);
    assert_true(json_is_object(object));
    json_decref(object);
    json_decref(root);
    response_free(&heard);
}

/* The same schema by each of its names, for several outputs at once. */
static void holds_schemas(void **state) {
    (void)state;
    static const char *const fields[] = {
        "\"n\":3,\"temperature\":1.5," FORMAT(PERSON),
        "\"n\":3,\"response_format\":{\"type\":\"json_object\",\"schema\":" PERSON "}",
        "\"n\":3,\"guided_json\":" PERSON, "\"n\":3,\"json_schema\":" PERSON,
        "\"n\":3,\"structured_outputs\":{\"json\":" PERSON "}"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        http_response heard = chat(fields[i]);
        json_t *root = parse(&heard);
        for (size_t choice = 0; choice < 3; choice++)
            expect_person(content_of(root, choice));
        json_decref(root);
        response_free(&heard);
    }
}

static void expect_match(const char *fields, const char *pattern) {
    regex_t regex;
    http_response heard = chat(fields);
    json_t *root = parse(&heard);
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&regex, content_of(root, 0), 0, NULL, 0) != 0)
        fail_msg("%s is not %s", content_of(root, 0), pattern);
    regfree(&regex);
    json_decref(root);
    response_free(&heard);
}

static void holds_other_languages(void **state) {
    (void)state;
    expect_match("\"guided_regex\":\"[a-c]{3}-[0-9]{2}\"", "^[a-c]{3}-[0-9]{2}$");
    expect_match("\"structured_outputs\":{\"regex\":\"x[0-9]y\"}", "^x[0-9]y$");
    expect_match("\"guided_choice\":[\"yes\",\"no\"]", "^(yes|no)$");
    expect_match("\"structured_outputs\":{\"choice\":[\"on\"]}", "^on$");
    expect_match("\"grammar\":\"root ::= [p-q] \\\"!\\\"\"", "^[pq]!$");
    expect_match("\"guided_grammar\":\"root ::= \\\"ab\\\" | \\\"cd\\\"\"", "^(ab|cd)$");
    expect_match("\"structured_outputs\":{\"grammar\":\"root ::= [0-9]\"}", "^[0-9]$");
    expect_match("\"structured_outputs\":{\"json_object\":true}", "^\\{.*\\}$");
    expect_match("\"grammar\":\"start: /[0-9]/ X\\nX: \\\"y\\\"\"", "^[0-9]y$");
    expect_match("\"grammar_type\":\"lark\",\"guided_grammar\":\"start: \\\"ab\\\"\"", "^ab$");
    expect_match(
        "\"response_format\":{\"type\":\"structural_tag\",\"format\":{\"type\":\"tag\","
        "\"begin\":\"<a>\",\"content\":{\"type\":\"json_schema\",\"json_schema\":{\"enum\":"
        "[[1,true]]}},\"end\":\"</a>\"}},\"json_whitespace\":\"compact\"",
        "^<a>\\[1,true\\]</a>$");
    expect_match("\"structured_outputs\":{\"json\":{\"enum\":[[1,{\"a\":2}]]},"
                 "\"disable_any_whitespace\":true}",
                 "^\\[1,\\{\"a\":2\\}\\]$");
}

static void streams_what_it_gives_whole(void **state) {
    (void)state;
    http_response whole = chat("\"logprobs\":true," FORMAT(PERSON));
    http_response stream = chat("\"logprobs\":true,\"stream\":true," FORMAT(PERSON));
    json_t *root = parse(&whole);
    assert_int_equal(stream.status, 200);
    assert_non_null(strstr(stream.body, "\"finish_reason\":\"stop\""));
    char *text = stream_content(&stream);
    assert_string_equal(text, content_of(root, 0));
    expect_person(text);
    free(text);
    json_decref(root);
    response_free(&whole);
    response_free(&stream);
}

static void holds_completions_too(void **state) {
    (void)state;
    http_response heard = post(&shared, "/v1/completions",
                               "{\"prompt\":[\"one \",\"two \"],\"guided_regex\":\"[0-9]{4}\"}");
    json_t *root = parse(&heard);
    for (size_t i = 0; i < 2; i++) {
        json_t *choice = json_array_get(json_object_get(root, "choices"), i);
        const char *text = json_string_value(json_object_get(choice, "text"));
        assert_true(strlen(text) == 4 && strspn(text, "0123456789") == 4);
    }
    json_decref(root);
    response_free(&heard);
}

static void refuses_by_name(void **state) {
    (void)state;
    static const struct {
        const char *fields, *param, *part;
    } cases[] = {
        {FORMAT("{\"$ref\":\"http://a\"}"), "response_format.json_schema.schema", "http://a"},
        {FORMAT("{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}"),
         "response_format.json_schema.schema", "schema"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}}",
         "response_format.json_schema.schema", "missing"},
        {"\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema", "object"},
        {"\"response_format\":{\"type\":\"json_object\",\"schema\":{\"multipleOf\":0}}",
         "response_format.schema", "multipleOf"},
        {"\"response_format\":{\"type\":\"json_object\",\"strange\":1}", "response_format.strange",
         "strange"},
        {"\"guided_json\":\"{\"", "guided_json", "guided_json"},
        {"\"guided_regex\":\"(\"", "guided_regex", "byte"},
        {"\"guided_choice\":[]", "guided_choice", "list"},
        {"\"guided_choice\":[\"a\",\"\"]", "guided_choice", "list"},
        {"\"grammar\":\"root ::= other\"", "grammar", "other"},
        {"\"structured_outputs\":{\"json\":{\"not\":1}}", "structured_outputs.json", "no object"},
        {"\"structured_outputs\":{\"whitespace_pattern\":\" \"}",
         "structured_outputs.whitespace_pattern", "supported"},
        {"\"structured_outputs\":{}", "structured_outputs", "none of json"},
        {"\"structured_outputs\":{\"json\":null,\"backend\":\"auto\"}", "structured_outputs",
         "none of"},
        {"\"grammar\":\"root ::= \\\"a\\\"\",\"guided_regex\":\"a\"", "grammar", "exclude"},
        {"\"guided_regex\":\"a\"," FORMAT(PERSON), "guided_regex", "exclude"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        http_response heard = chat(cases[i].fields);
        const char *param = response_field(&heard, "param");
        if (heard.status != 400 || !param || strcmp(param, cases[i].param) != 0 ||
            !strstr(heard.body, cases[i].part))
            fail_msg("%s gives %d %s", cases[i].fields, heard.status, heard.body);
        response_free(&heard);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_objects),         cmocka_unit_test(holds_schemas),
        cmocka_unit_test(holds_other_languages), cmocka_unit_test(streams_what_it_gives_whole),
        cmocka_unit_test(holds_completions_too), cmocka_unit_test(refuses_by_name),
    };
    return cmocka_run_group_tests(tests, start, shared_stop);
}
