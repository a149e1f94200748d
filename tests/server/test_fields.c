/* Fields that peers' clients send, and bodies in the codings that they use. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <zlib.h>

#include "server/client.h"
#include "test.h"

static int start(void **state) {
    (void)state;
    shared = SERVER("--threads=1", "--max-seqs=4", "--served-name=demo", "--max-body-bytes=20000",
                    "--max-waiting=8");
    return 0;
}

static void expect_error(http_response heard, int status, const char *param) {
    if (heard.status != status)
        fail_msg("status %d and not %d: %s", heard.status, status, heard.body);
    const char *found = response_field(&heard, "param");
    if (found == NULL || strcmp(found, param) != 0)
        fail_msg("param %s and not %s: %s", found != NULL ? found : "(none)", param, heard.body);
    response_free(&heard);
}

static json_t *ask_json(const char *path, const char *body) {
    http_response heard = post(&shared, path, body);
    if (heard.status != 200)
        fail_msg("status %d: %s", heard.status, heard.body);
    json_t *root = json_loads(heard.body, 0, NULL);
    assert_non_null(root);
    response_free(&heard);
    return root;
}

static json_t *choice_of(const json_t *root, size_t index) {
    return json_array_get(json_object_get(root, "choices"), index);
}

static double number_of(const json_t *object, const char *name) {
    return json_number_value(json_object_get(object, name));
}

/* ---- logprobs --------------------------------------------------------------------------- */

/* The same numbers as with echo, under the ids of the prompt's tokens. */
static void scores_the_prompt(void **state) {
    (void)state;
    json_t *echo = ask_json("/v1/completions", "{\"prompt\":[1753,1263,250],\"max_tokens\":0,"
                                               "\"echo\":true,\"logprobs\":0}");
    json_t *root = ask_json("/v1/completions",
                            "{\"prompt\":[1753,1263,250],\"max_tokens\":2,\"temperature\":0,"
                            "\"prompt_logprobs\":2}");
    const json_t *logprobs = json_object_get(choice_of(echo, 0), "logprobs");
    const json_t *expected = json_object_get(logprobs, "token_logprobs");
    const json_t *list = json_object_get(choice_of(root, 0), "prompt_logprobs");
    static const char *const ids[] = {NULL, "1263", "250"};
    assert_true(json_is_null(json_object_get(choice_of(root, 0), "logprobs")));
    assert_int_equal(json_array_size(list), 3);
    assert_true(json_is_null(json_array_get(list, 0)));
    for (size_t i = 1; i < 3; i++) {
        const json_t *places = json_array_get(list, i), *own = json_object_get(places, ids[i]);
        assert_non_null(own);
        assert_true(number_of(own, "logprob") == json_number_value(json_array_get(expected, i)));
        size_t n = json_object_size(places);
        assert_int_equal(n, json_is_null(json_object_get(own, "rank")) ? 3 : 2);
        const char *key;
        json_t *item;
        json_object_foreach((json_t *)(uintptr_t)places, key, item) {
            assert_true(json_is_string(json_object_get(item, "decoded_token")));
            if (number_of(item, "rank") == 1)
                assert_true(number_of(item, "logprob") >= number_of(own, "logprob"));
        }
    }
    json_decref(echo);
    json_decref(root);
    root = ask_json("/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"2+3=\""
                                            "}],\"temperature\":0,\"prompt_logprobs\":0,"
                                            "\"logprobs\":true,\"top_logprobs\":2}");
    list = json_object_get(root, "prompt_logprobs");
    assert_int_equal(json_array_size(list), json_integer_value(json_object_get(
                                                json_object_get(root, "usage"), "prompt_tokens")));
    assert_int_equal(json_object_size(json_array_get(list, 1)), 1);
    logprobs = json_object_get(json_object_get(choice_of(root, 0), "logprobs"), "content");
    assert_int_equal(json_array_size(json_object_get(json_array_get(logprobs, 0), "top_logprobs")),
                     2);
    json_decref(root);
    expect_error(post(&shared, "/v1/completions",
                      "{\"prompt\":\"a\",\"stream\":true,\"prompt_logprobs\":1}"),
                 400, "prompt_logprobs");
}

/* What an encoder reads has no logprobs, which would be those of other memory. */
static void encoders_score_no_prompt(void **state) {
    (void)state;
    test_server t5 = SERVER("tests/golden/models/t5", "--threads=1", "--max-seqs=1");
    expect_error(post(&t5, "/v1/completions",
                      "{\"prompt\":[39,150,221,210,200],\"max_tokens\":1,\"prompt_logprobs\":2}"),
                 400, "prompt_logprobs");
    expect_error(post(&t5, "/v1/completions",
                      "{\"prompt\":[39,150],\"max_tokens\":1,\"echo\":true,\"logprobs\":0}"),
                 400, "echo");
    http_response heard =
        post(&t5, "/v1/completions", "{\"prompt\":[39,150],\"max_tokens\":1,\"logprobs\":1}");
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    server_stop(&t5);
}

/* Vectors are rounded, and the cosine of equal ones is no more than 1. */
static void cosines_end_at_one(void **state) {
    (void)state;
    json_t *root = ask_json("/v1/rerank", "{\"query\":\"\",\"documents\":[\"\"]}");
    double score =
        number_of(json_array_get(json_object_get(root, "results"), 0), "relevance_score");
    assert_true(score > 0.9999 && score <= 1);
    json_decref(root);
}

/* A token that was drawn is among the likeliest that are named, whichever it is. */
static void names_the_drawn_token(void **state) {
    (void)state;
    json_t *root = ask_json("/v1/completions",
                            "{\"prompt\":\"Once\",\"max_tokens\":12,\"temperature\":2,\"seed\":5,"
                            "\"logprobs\":1,\"ignore_eos\":true}");
    const json_t *logprobs = json_object_get(choice_of(root, 0), "logprobs");
    const json_t *tokens = json_object_get(logprobs, "tokens");
    size_t n_unlikely = 0;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *top = json_array_get(json_object_get(logprobs, "top_logprobs"), i);
        const char *token = json_string_value(json_array_get(tokens, i));
        assert_non_null(json_object_get(top, token));
        assert_true(number_of(top, token) == json_number_value(json_array_get(
                                                 json_object_get(logprobs, "token_logprobs"), i)));
        n_unlikely += json_object_size(top) == 2;
    }
    assert_int_equal(json_array_size(tokens), 12);
    assert_true(n_unlikely > 0);
    json_decref(root);
}

/* ---- n ---------------------------------------------------------------------------------- */

/* Outputs beyond those of a step wait; the first ones are those of a smaller n, and all those of a
 * server whose steps hold them. */
static void queues_outputs(void **state) {
    (void)state;
    static const char format[] = "{\"prompt\":[\"Once upon a time\",\"The\"],\"max_tokens\":12,"
                                 "\"seed\":3,\"ignore_eos\":true,\"n\":%d}";
    char body[256];
    snprintf(body, sizeof body, format, 6);
    json_t *many = ask_json("/v1/completions", body);
    snprintf(body, sizeof body, format, 4);
    json_t *few = ask_json("/v1/completions", body);
    assert_int_equal(json_array_size(json_object_get(many, "choices")), 12);
    for (size_t i = 0; i < 12; i++) {
        const json_t *choice = choice_of(many, i);
        assert_int_equal(number_of(choice, "index"), i);
        const char *text = json_string_value(json_object_get(choice, "text"));
        for (size_t j = i - i % 6; j < i; j++)
            assert_string_not_equal(text,
                                    json_string_value(json_object_get(choice_of(many, j), "text")));
        if (i % 6 < 4)
            assert_string_equal(text, json_string_value(json_object_get(
                                          choice_of(few, i / 6 * 4 + i % 6), "text")));
    }
    const json_t *usage = json_object_get(many, "usage");
    assert_true(number_of(usage, "completion_tokens") == 144);
    assert_true(number_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens") <=
                number_of(usage, "prompt_tokens"));
    test_server larger = SERVER("--threads=1", "--max-seqs=8");
    snprintf(body, sizeof body, format, 6);
    http_response heard = post(&larger, "/v1/completions", body);
    json_t *whole = json_loads(heard.body, 0, NULL);
    assert_true(json_equal(json_object_get(whole, "choices"), json_object_get(many, "choices")));
    response_free(&heard);
    server_stop(&larger);
    json_decref(whole);
    json_decref(many);
    json_decref(few);
    expect_error(post(&shared, "/v1/completions", "{\"prompt\":\"a\",\"n\":13}"), 400, "n");
    expect_error(post(&shared, "/v1/completions", "{\"prompt\":\"a\",\"n\":2,\"best_of\":6}"), 400,
                 "best_of");
}

/* ---- templates -------------------------------------------------------------------------- */

#define TEMPLATE                                                                                   \
    "{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}{{ documents[0].text }}"     \
    "<|im_end|>\\n{% endfor %}<|im_start|>assistant\\n{##}"

static void takes_a_template(void **state) {
    (void)state;
    json_t *root =
        ask_json("/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"2+\"}],"
                                         "\"documents\":[{\"text\":\"3=\"}],\"temperature\":0,"
                                         "\"chat_template\":\"" TEMPLATE "\"}");
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(choice_of(root, 0), "message"), "content")),
                        "5");
    json_decref(root);
    root = ask_json("/tokenize", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                                 "\"chat_template\":\"ab\"}");
    assert_true(number_of(root, "count") > 0 && number_of(root, "count") <= 3);
    json_decref(root);
    expect_error(post(&shared, "/v1/chat/completions",
                      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                      "\"chat_template\":\"{% for\"}"),
                 400, "chat_template");
}

static char *prompt_of(const char *fields, const char *expected) {
    char body[2048];
    snprintf(body, sizeof body, "{%s}", fields);
    json_t *root = ask_json("/apply-template", body);
    char *prompt = strdup(json_string_value(json_object_get(root, "prompt")));
    assert_non_null(prompt);
    if (expected != NULL)
        assert_string_equal(prompt, expected);
    json_decref(root);
    return prompt;
}

#define VARIABLES "\"chat_template\":\"{{ date_string }}|{{ datetime }}|{{ functions }}|{##}\""
#define GREETING  "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"

static void put_date(char *date, size_t n_bytes) {
    time_t seconds = time(NULL);
    struct tm now;
    localtime_r(&seconds, &now);
    strftime(date, n_bytes, "%d %b %Y|", &now);
}

/* Lists within lists, [[...[1,1,...]...]], whose lines would be far longer than the text. */
static void put_deep(char *text) {
    enum { DEPTH = 60, WIDTH = 60 };
    for (size_t i = 0; i < DEPTH; i++)
        *text++ = '[';
    for (size_t i = 0; i < WIDTH; i++, text += 2)
        memcpy(text, "1,", 2);
    text[-1] = ']';
    for (size_t i = 1; i < DEPTH; i++)
        *text++ = ']';
    *text = '\0';
}

/* What templates of peers take for granted; what a client says wins. */
static void templates_have_the_date_and_functions(void **state) {
    (void)state;
    char today[32], later[32], deep[256], fields[1024], *prompt;
    put_date(today, sizeof today);
    prompt = prompt_of(GREETING VARIABLES, NULL);
    put_date(later, sizeof later);
    if (strcmp(today, later) == 0) /* no midnight in between */
        assert_int_equal(strncmp(prompt, today, strlen(today)), 0);
    assert_non_null(strstr(prompt, "||")); /* no functions */
    free(prompt);
    prompt = prompt_of(
        GREETING "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]," VARIABLES,
        NULL);
    assert_non_null(strstr(prompt, "|[\n  {\n"));
    free(prompt);
    put_deep(deep);
    snprintf(fields, sizeof fields,
             GREETING "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                      "\"parameters\":{\"x\":%s}}}]," VARIABLES,
             deep);
    prompt = prompt_of(fields, NULL);
    assert_non_null(strstr(prompt, "{\"x\":[[["));
    free(prompt);
    free(prompt_of(GREETING "\"chat_template_kwargs\":{\"date_string\":\"1\",\"datetime\":\"2\","
                            "\"functions\":\"3\"}," VARIABLES,
                   "1|2|3|"));
}

/* What the server's own command says holds where the request says nothing. */
static void variables_have_defaults(void **state) {
    (void)state;
    static const char *const kwargs[] = {"", "\"chat_template_kwargs\":{\"functions\":\"3\"},"};
    static const char *const prompts[] = {"\"1|2|{\\\"a\\\": 1}|\"", "\"1|2|3|\""};
    test_server server = SERVER(
        "--threads=1", "--max-seqs=1",
        "--chat-template-kwargs={\"date_string\":\"1\",\"datetime\":2,\"functions\":{\"a\":1}}");
    for (size_t i = 0; i < 2; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "{" GREETING "%s\"chat_template\":\"{{ date_string }}|{{ datetime }}|"
                 "{{ functions if functions is string else functions | tojson }}|{##}\"}",
                 kwargs[i]);
        http_response heard = post(&server, "/apply-template", body);
        assert_int_equal(heard.status, 200);
        assert_non_null(strstr(heard.body, prompts[i]));
        response_free(&heard);
    }
    server_stop(&server);
}

#define ROLES "\"chat_template\":\"{% for m in messages %}{{ m.role }};{% endfor %}{##}\""

static void takes_roles_that_templates_know(void **state) {
    (void)state;
    free(
        prompt_of("\"messages\":[{\"role\":\"critic-2\",\"content\":\"a\"},{\"role\":\"developer\","
                  "\"content\":\"b\"}]," ROLES,
                  "critic-2;system;"));
    expect_error(post(&shared, "/v1/chat/completions",
                      "{\"messages\":[{\"role\":\"a b\",\"content\":\"a\"}]}"),
                 400, "messages[0].role");
}

/* ---- functions -------------------------------------------------------------------------- */

#define FUNCTIONS                                                                                  \
    "\"functions\":[{\"name\":\"weather\",\"parameters\":{\"type\":\"object\",\"properties\":{"    \
    "\"city\":{"                                                                                   \
    "\"type\":\"string\",\"maxLength\":6}},\"required\":[\"city\"],\"additionalProperties\":"      \
    "false}}]"
#define ASK "\"messages\":[{\"role\":\"user\",\"content\":\"Weather?\"}]"

/* A call and its result in the older form are in the prompt what they are in the newer one. */
static void knows_functions(void **state) {
    (void)state;
    json_t *root = ask_json("/v1/chat/completions",
                            "{" ASK "," FUNCTIONS ",\"function_call\":{\"name\":\"weather\"}}");
    const json_t *message = json_object_get(choice_of(root, 0), "message");
    const json_t *call = json_object_get(message, "function_call");
    assert_string_equal(json_string_value(json_object_get(choice_of(root, 0), "finish_reason")),
                        "function_call");
    assert_null(json_object_get(message, "tool_calls"));
    assert_string_equal(json_string_value(json_object_get(call, "name")), "weather");
    json_t *arguments = json_loads(json_string_value(json_object_get(call, "arguments")), 0, NULL);
    assert_true(json_is_string(json_object_get(arguments, "city")));
    json_decref(arguments);
    json_decref(root);
    http_response heard =
        post(&shared, "/v1/chat/completions",
             "{" ASK "," FUNCTIONS ",\"function_call\":{\"name\":\"weather\"},\"stream\":true}");
    assert_non_null(strstr(heard.body, "\"delta\":{\"function_call\":{\"name\":\"weather\","));
    assert_non_null(strstr(heard.body, "\"finish_reason\":\"function_call\""));
    assert_null(strstr(heard.body, "tool_calls"));
    response_free(&heard);
#define TEMPLATE_OF_CALLS                                                                          \
    "\"chat_template\":\"{% for m in messages %}{{ m.role }}{% for c in m.tool_calls or [] %}"     \
    "[{{ c.id }} {{ c.function.name }} {{ c.function.arguments.city }}]{% endfor %}"               \
    "{{ m.tool_call_id }},{% endfor %}\""
    root = ask_json("/apply-template",
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                    "\"content\":null,\"function_call\":{\"name\":\"weather\",\"arguments\":"
                    "\"{\\\"city\\\":\\\"Bern\\\"}\"}},{\"role\":\"function\",\"name\":\"weather\","
                    "\"content\":\"wet\"}]," TEMPLATE_OF_CALLS "}");
    assert_string_equal(json_string_value(json_object_get(root, "prompt")),
                        "user,assistant[call00001 weather Bern],toolcall00001,");
    json_decref(root);
    expect_error(post(&shared, "/v1/chat/completions",
                      "{" ASK "," FUNCTIONS ",\"function_call\":{\"name\":\"other\"}}"),
                 400, "function_call");
    expect_error(post(&shared, "/v1/chat/completions", "{" ASK "," FUNCTIONS ",\"tools\":[]}"), 400,
                 "functions");
}

/* Clients that put a stream together have null where there were thoughts alone, or leave it out. */
static void takes_answers_without_text(void **state) {
    (void)state;
    static const char *const answers[] = {
        "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"so\"}",
        "{\"role\":\"assistant\",\"reasoning\":\"so\"}",
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[],\"reasoning_content\":\"so\"}",
    };
    static const char template[] =
        "\"chat_template\":\"{% for m in messages %}{{ m.role }}[{{ m.reasoning_content }}]"
        "{{ '' + m.content }};{% endfor %}\"";
    char body[512];
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},%s],%s}",
                 answers[i], template);
        json_t *root = ask_json("/apply-template", body);
        assert_string_equal(json_string_value(json_object_get(root, "prompt")),
                            "user[]a;assistant[so];");
        json_decref(root);
    }
    for (int is_tool = 0; is_tool < 2; is_tool++) {
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"%s\",\"content\":null}],%s}",
                 is_tool ? "tool" : "user", template);
        expect_error(post(&shared, "/apply-template", body), 400, "messages[0].content");
    }
}

/* ---- predictions ------------------------------------------------------------------------ */

/* The count of such tokens that the answer's usage has; the answer is the text. */
static json_int_t count_of(const char *prediction, const char *text, const char *count) {
    char body[2048];
    snprintf(body, sizeof body, "{" ASK ",\"temperature\":0,\"max_tokens\":24%s}", prediction);
    json_t *root = ask_json("/v1/chat/completions", body);
    const json_t *message = json_object_get(choice_of(root, 0), "message");
    assert_string_equal(json_string_value(json_object_get(message, "content")), text);
    const json_t *details =
        json_object_get(json_object_get(root, "usage"), "completion_tokens_details");
    json_int_t n = json_integer_value(json_object_get(details, count));
    json_decref(root);
    return n;
}

static void predictions_are_drafted(void **state) {
    (void)state;
    char text[512], prediction[1024];
    json_t *root =
        ask_json("/v1/chat/completions", "{" ASK ",\"temperature\":0,\"max_tokens\":24}");
    const json_t *content =
        json_object_get(json_object_get(choice_of(root, 0), "message"), "content");
    snprintf(text, sizeof text, "%s", json_string_value(content));
    json_t *field = json_pack("{s:s, s:[{s:s, s:s}]}", "type", "content", "content", "type", "text",
                              "text", text);
    char *dumped = json_dumps(field, JSON_COMPACT);
    snprintf(prediction, sizeof prediction, ",\"prediction\":%s", dumped);
    free(dumped);
    json_decref(field);
    json_decref(root);
    assert_int_equal(count_of("", text, "accepted_prediction_tokens"), 0);
    assert_true(count_of(prediction, text, "accepted_prediction_tokens") > 3);
    assert_int_equal(count_of(prediction, text, "rejected_prediction_tokens"), 0);
    assert_int_equal(count_of(",\"prediction\":{\"type\":\"content\",\"content\":\"\"}", text,
                              "accepted_prediction_tokens"),
                     0);
    static const char *const wrong[] = {"1", "{\"type\":\"content\"}", "{\"content\":\"a\"}",
                                        "{\"type\":\"content\",\"content\":[{\"type\":\"text\"}]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(prediction, sizeof prediction, "{" ASK ",\"prediction\":%s}", wrong[i]);
        expect_error(post(&shared, "/v1/chat/completions", prediction), 400, "prediction");
    }
}

/* A prompt of a round trip with a call, by a template that is all that differs. */
static void expect_round_trip(const char *chat_template, const char *expected) {
    char body[1024];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
             "\"content\":null,\"tool_calls\":[{\"id\":\"chatcmpl-tool-1\",\"type\":\"function\","
             "\"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"a\\\":1}\"}}]},"
             "{\"role\":\"tool\",\"tool_call_id\":\"chatcmpl-tool-1\",\"content\":\"wet\"}],"
             "\"chat_template\":\"%s\"}",
             chat_template);
    json_t *root = ask_json("/apply-template", body);
    assert_string_equal(json_string_value(json_object_get(root, "prompt")), expected);
    json_decref(root);
}

/* Templates differ in what they take: arguments as an object or a string, content that is null or
 * the empty text, ids of any length or of nine letters and digits. */
static void templates_get_calls_as_they_take_them(void **state) {
    (void)state;
#define EACH_CALL "{% for m in messages %}{% for c in m.tool_calls or [] %}"
#define END_EACH  "{% endfor %}{% endfor %}"
    expect_round_trip(EACH_CALL "{{ c.function.arguments.a + 1 }}" END_EACH, "2");
    expect_round_trip(EACH_CALL "{{ 'x' + c.function.arguments }}" END_EACH, "x{\"a\": 1}");
    expect_round_trip(EACH_CALL "{{ m.content is none }}" END_EACH, "True");
    expect_round_trip(EACH_CALL "{{ 'x' + m.content }}" END_EACH, "x");
    expect_round_trip(EACH_CALL "[{{ m.content }}]" END_EACH, "[]");
    expect_round_trip(EACH_CALL "{{ 'x' + m.content + c.function.arguments }}" END_EACH,
                      "x{\"a\": 1}");
    expect_round_trip(EACH_CALL
                      "{{ raise_exception('no') if c.id | length != 9 }}"
                      "{{ c.id == messages[2].tool_call_id }}{{ c.function.arguments.a }}" END_EACH,
                      "True1");
    expect_error(post(&shared, "/apply-template",
                      "{" ASK ",\"chat_template\":\"{{ raise_exception('never') }}\"}"),
                 400, "chat_template");
}

/* ---- peers' endpoints ------------------------------------------------------------------- */

static void speaks_native(void **state) {
    (void)state;
    json_t *expected = ask_json("/v1/completions", "{\"prompt\":\"Once upon\",\"max_tokens\":9,"
                                                   "\"temperature\":0,\"return_token_ids\":true}");
    json_t *root = ask_json("/completion", "{\"prompt\":\"Once upon\",\"n_predict\":9,\"seed\":-1,"
                                           "\"temperature\":0,\"return_tokens\":true}");
    const char *text = json_string_value(json_object_get(choice_of(expected, 0), "text"));
    assert_string_equal(json_string_value(json_object_get(root, "content")), text);
    assert_true(json_equal(json_object_get(root, "tokens"),
                           json_object_get(choice_of(expected, 0), "token_ids")));
    assert_string_equal(json_string_value(json_object_get(root, "stop_type")), "limit");
    assert_true(number_of(root, "tokens_predicted") == 9);
    const json_t *timings = json_object_get(root, "timings");
    assert_true(number_of(timings, "predicted_n") == 9);
    assert_true(number_of(timings, "prompt_n") + number_of(timings, "cache_n") ==
                number_of(root, "tokens_evaluated"));
    assert_true(json_number_value(json_object_get(timings, "predicted_per_second")) > 0);
    json_t *prompt_only = ask_json("/completion", "{\"prompt\":\"Once upon\",\"n_predict\":0}");
    assert_true(number_of(prompt_only, "tokens_predicted") == 0);
    json_decref(prompt_only);
    http_response heard =
        post(&shared, "/completion",
             "{\"prompt\":\"Once upon\",\"n_predict\":9,\"temperature\":0,\"stream\":true}");
    char *streamed = calloc(1, heard.body_bytes + 1);
    assert_non_null(streamed);
    for (const char *at = heard.body; (at = strstr(at, "data: {")) != NULL; at++) {
        json_t *chunk = json_loadb(at + 6, strcspn(at + 6, "\n"), 0, NULL);
        strcat(streamed, json_string_value(json_object_get(chunk, "content")));
        bool is_last = strstr(at + 1, "data: {") == NULL;
        assert_int_equal(json_is_true(json_object_get(chunk, "stop")), is_last);
        json_decref(chunk);
    }
    assert_string_equal(streamed, text);
    free(streamed);
    response_free(&heard);
    json_decref(expected);
    json_decref(root);
    root =
        ask_json("/completion", "{\"prompt\":\"Once upon\",\"temperature\":0,\"stop\":[\"time\"]}");
    assert_string_equal(json_string_value(json_object_get(root, "stop_type")), "word");
    assert_string_equal(json_string_value(json_object_get(root, "stopping_word")), "time");
    json_decref(root);
    expect_error(post(&shared, "/completion", "{\"prompt\":\"a\",\"n_probs\":2}"), 400, "n_probs");
    expect_error(post(&shared, "/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\"}"), 400,
                 "input_suffix");
    heard = get(&shared, "/props");
    assert_string_equal(response_field(&heard, "total_slots"), "4");
    response_free(&heard);
}

/* Biases as llama.cpp has them, and as others have. */
static void takes_lists_of_biases(void **state) {
    (void)state;
    static const char *const biases[] = {"[[1245,100],[5,false]]", "{\"1245\":100,\"5\":-100}"};
    char *biased[2];
    for (size_t i = 0; i < 2; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"prompt\":\"Once\",\"n_predict\":3,\"logit_bias\":%s}",
                 biases[i]);
        json_t *root = ask_json("/completion", body);
        biased[i] = strdup(json_string_value(json_object_get(root, "content")));
        json_decref(root);
    }
    assert_string_equal(biased[0], biased[1]);
    free(biased[0]);
    free(biased[1]);
    expect_error(post(&shared, "/completion", "{\"prompt\":\"a\",\"logit_bias\":[[5,1],[5]]}"), 400,
                 "logit_bias");
    expect_error(post(&shared, "/completion", "{\"prompt\":\"a\",\"logit_bias\":[[\"b\",1]]}"), 400,
                 "logit_bias");
    expect_error(post(&shared, "/completion", "{\"prompt\":\"a\",\"logit_bias\":[[-5,1]]}"), 400,
                 "logit_bias");
}

/* The ids of prompts, as /tokenize counts them. */
static void renders(void **state) {
    (void)state;
    json_t *ids = ask_json("/tokenize", "{" ASK "}");
    json_t *root = ask_json("/v1/chat/completions/render", "{" ASK "}");
    assert_true(json_equal(json_object_get(root, "token_ids"), json_object_get(ids, "tokens")));
    json_decref(ids);
    json_decref(root);
    root = ask_json("/v1/completions/render", "{\"prompt\":[[5,6,7],[8]],"
                                              "\"truncate_prompt_tokens\":2,"
                                              "\"truncation_side\":\"right\"}");
    assert_int_equal(json_array_size(root), 2);
    const json_t *first = json_object_get(json_array_get(root, 0), "token_ids");
    assert_int_equal(json_array_size(first), 2);
    assert_int_equal(json_integer_value(json_array_get(first, 0)), 5);
    json_decref(root);
    root = ask_json("/tokenize", "{\"prompt\":\"Once\",\"return_token_strs\":true}");
    const json_t *texts = json_object_get(root, "token_strs");
    assert_int_equal(json_array_size(texts), number_of(root, "count"));
    assert_string_equal(json_string_value(json_array_get(texts, json_array_size(texts) - 1)),
                        "Once");
    json_decref(root);
    root = ask_json("/v1/completions", "{\"prompt\":\"Once\",\"max_tokens\":1,\"logprobs\":0,"
                                       "\"return_tokens_as_token_ids\":true}");
    const json_t *logprobs = json_object_get(choice_of(root, 0), "logprobs");
    const char *token = json_string_value(json_array_get(json_object_get(logprobs, "tokens"), 0));
    assert_true(strncmp(token, "token_id:", 9) == 0);
    assert_non_null(
        json_object_get(json_array_get(json_object_get(logprobs, "top_logprobs"), 0), token));
    json_decref(root);
    expect_error(post(&shared, "/v1/chat/completions",
                      "{" ASK ",\"continue_final_message\":true,\"add_generation_prompt\":true}"),
                 400, "continue_final_message");
}

/* ---- bodies ----------------------------------------------------------------------------- */

/* Sends a body of a coding; `window_bits` are zlib's. `cut`: bytes that are left out. */
static http_response post_coded(const char *coding, int window_bits, const char *body, size_t cut) {
    static unsigned char coded[1 << 16];
    char head[256];
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)body,
                       .avail_in = (unsigned)strlen(body),
                       .next_out = coded,
                       .avail_out = sizeof coded};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t n_bytes = sizeof coded - stream.avail_out - cut;
    deflateEnd(&stream);
    int fd = dial(&shared);
    snprintf(
        head, sizeof head,
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: %s\r\nContent-Length: %zu"
        "\r\n\r\n",
        coding, n_bytes);
    say_text(fd, head);
    say(fd, coded, n_bytes);
    http_response heard = hear(fd, false);
    hang_up(fd);
    return heard;
}

static void takes_compressed_bodies(void **state) {
    (void)state;
    static const struct {
        const char *coding;
        int window_bits;
    } codings[] = {{"gzip", 15 + 16}, {"X-GZIP", 15 + 16}, {"deflate", 15}};
    http_response plain = post(&shared, "/tokenize", "{\"prompt\":\"Once upon a time\"}");
    for (size_t i = 0; i < 3; i++) {
        http_response heard = post_coded(codings[i].coding, codings[i].window_bits,
                                         "{\"prompt\":\"Once upon a time\"}", 0);
        assert_int_equal(heard.status, 200);
        assert_string_equal(heard.body, plain.body);
        response_free(&heard);
        heard = post_coded(codings[i].coding, codings[i].window_bits,
                           "{\"prompt\":\"Once upon a time\"}", 3);
        assert_int_equal(heard.status, 400);
        response_free(&heard);
    }
    response_free(&plain);
    char *large = malloc(5000000);
    assert_non_null(large);
    memset(large, 'a', 4999999); /* 5 KB where it is compressed */
    large[4999999] = '\0';
    http_response heard = post_coded("gzip", 15 + 16, large, 0);
    assert_int_equal(heard.status, 413);
    response_free(&heard);
    free(large);
    heard = post_coded("br", 15 + 16, "{}", 0);
    assert_int_equal(heard.status, 415);
    response_free(&heard);
}

/* ---- names ------------------------------------------------------------------------------ */

/* Bodies of other APIs are translated; what is wrong is said of the field that the client sent. */
static void errors_name_the_clients_fields(void **state) {
    (void)state;
#define ASKED "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
    static const struct {
        const char *path, *fields, *name;
    } cases[] = {
        {"/v1/responses", "\"input\":\"a\",\"max_output_tokens\":-1", "max_output_tokens"},
        {"/v1/responses/input_tokens", "\"input\":\"a\",\"max_output_tokens\":\"x\"",
         "max_output_tokens"},
        {"/v1/responses", "\"input\":\"a\",\"text\":{\"verbosity\":5}", "text.verbosity"},
        {"/v1/responses",
         "\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":"
         "\"x\"}}}",
         "text.format.schema"},
        {"/v1/responses",
         "\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"b\"}],\"tool_choice\":{"
         "\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"type\":5,\"name\":\"b\"}]}",
         "tool_choice.tools[0].type"},
        {"/v1/chat/completions",
         ASKED
         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"b\"}}],\"tool_choice\":{"
         "\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[{\"type\":"
         "5,\"function\":{\"name\":\"b\"}}]}}",
         "tool_choice.allowed_tools.tools[0].type"},
        {"/v1/chat/completions",
         ASKED "\"structured_outputs\":{\"structural_tag\":{\"type\":5,\"format\":{\"type\":"
               "\"any_text\"}}}",
         "structured_outputs.structural_tag"},
        {"/v1/messages", ASKED "\"max_tokens\":1,\"stop_sequences\":[5]", "stop_sequences"},
        {"/v1/messages",
         ASKED
         "\"max_tokens\":1,\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{"
         "\"type\":\"x\"}}}",
         "output_config.format.schema"},
        {"/api/chat", ASKED "\"options\":{\"stop\":5}", "options.stop"},
        {"/api/chat", ASKED "\"options\":{\"repeat_penalty\":-1}", "options.repeat_penalty"},
        {"/api/chat", ASKED "\"options\":{\"num_predict\":\"x\"}", "options.num_predict"},
        {"/api/chat", ASKED "\"format\":{\"type\":\"x\"}", "format"},
        {"/api/generate", "\"prompt\":\"a\",\"raw\":true,\"options\":{\"top_p\":0}",
         "options.top_p"},
        {"/infill", "\"input_prefix\":\"a\",\"input_suffix\":\"b\"", "input_suffix"},
    };
#undef ASKED
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512], said[64], param[64];
        snprintf(body, sizeof body, "{%s}", cases[i].fields);
        http_response heard = post(&shared, cases[i].path, body);
        snprintf(said, sizeof said, "\"%s ", cases[i].name);
        snprintf(param, sizeof param, "\"%s: ", cases[i].name);
        if (heard.status != 400 ||
            (strstr(heard.body, said) == NULL && strstr(heard.body, param) == NULL))
            fail_msg("%s: %d, %s", body, heard.status, heard.body);
        const char *field = response_field(&heard, "param");
        if (field != NULL)
            assert_string_equal(field, cases[i].name);
        response_free(&heard);
    }
}

/* ---- seeds, and other large numbers ------------------------------------------------------- */

/* The text of a completion with a seed, as JSON. */
static char *draw(const char *path, const char *format, const char *seed) {
    char body[256];
    snprintf(body, sizeof body, format, seed);
    http_response heard = post(&shared, path, body);
    if (heard.status != 200)
        fail_msg("%s: %d, %s", body, heard.status, heard.body);
    const char *name = response_field(&heard, "text") != NULL       ? "text"
                       : response_field(&heard, "response") != NULL ? "response"
                                                                    : "content";
    char *text = strdup(response_field(&heard, name));
    response_free(&heard);
    return text;
}

/* Seeds have 64 bits, and a negative one is that of its bits. */
static void seeds_are_wide(void **state) {
    (void)state;
    static const char *const seeds[][2] = {{"18446744073709551615", "-1"},
                                           {"9223372036854775808", "-9223372036854775808"},
                                           {"18446744073709551614", "-2"},
                                           {"7", "7"}};
    static const char *const forms[][2] = {
        {"/v1/completions", "{\"seed\" : %s ,\"prompt\":\"Once\",\"max_tokens\":12}"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"Once\"}],"
                                 "\"temperature\":2,\"max_tokens\":12,\"seed\":%s}"}};
    for (size_t i = 0; i < 2; i++) {
        char *last = NULL;
        for (size_t j = 0; j < sizeof seeds / sizeof *seeds; j++) {
            char *one = draw(forms[i][0], forms[i][1], seeds[j][0]);
            char *same = draw(forms[i][0], forms[i][1], seeds[j][1]);
            assert_string_equal(one, same);
            assert_true(last == NULL || strcmp(one, last) != 0);
            free(same);
            free(last);
            last = one;
        }
        free(last);
    }
    /* where a negative one stands for any */
    static const char *const others[][2] = {
        {"/completion", "{\"seed\":%s,\"prompt\":\"Once\",\"n_predict\":12}"},
        {"/api/generate",
         "{\"options\":{\"seed\":%s,\"num_predict\":12},\"prompt\":\"Once\",\"raw\":"
         "true,\"stream\":false}"}};
    for (size_t i = 0; i < 2; i++) {
        char *one = draw(others[i][0], others[i][1], "18446744073709551615");
        char *same = draw(others[i][0], others[i][1], "18446744073709551615");
        assert_string_equal(one, same);
        free(same);
        free(one);
    }
    expect_error(post(&shared, "/v1/completions", "{\"prompt\":\"a\",\"seed\":\"7\"}"), 400,
                 "seed");
    expect_error(
        post(&shared, "/v1/completions", "{\"prompt\":\"a\",\"seed\":18446744073709551616}"), 400,
        "seed");
}

/* A number that is too large for 64 bits is one nevertheless, as in schemas. */
static void large_numbers_are_json(void **state) {
    (void)state;
    json_t *root = ask_json(
        "/v1/chat/completions",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":2,\"tools\":[{"
        "\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{"
        "\"n\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":18446744073709551615},\"s\":{"
        "\"type\":"
        "\"string\",\"description\":\"18446744073709551615 \\\" 99999999999999999999\"}}}}}]}");
    json_decref(root);
    /* a seed within a call's arguments is no field of the body */
    root =
        ask_json("/apply-template",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                 "\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                 "\"arguments\":\"{\\\"seed\\\":18446744073709551615}\"}}]}],\"chat_template\":"
                 "\"{% for m in messages %}{% for c in m.tool_calls or [] %}"
                 "{{ c.function.arguments.seed is number }}{% endfor %}{% endfor %}\"}");
    assert_string_equal(json_string_value(json_object_get(root, "prompt")), "True");
    json_decref(root);
    expect_error(
        post(&shared, "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":99999999999999999999}"),
        400, "max_tokens");
    expect_error(post(&shared, "/v1/completions",
                      "{\"prompt\":\"a\",\"seed\":18446744073709551615,\"n\":0}"),
                 400, "n");
}

/* What a schema's values would be rounded to is not written in their place. */
static void schemas_round_no_integer(void **state) {
    (void)state;
    static const char *const schemas[] = {
        "{\"const\":18446744073709551615}",
        "\"{\\\"const\\\":18446744073709551615}\"",
    };
    for (size_t i = 0; i < 2; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"max_tokens\":30,\"guided_json\":%s}",
                 schemas[i]);
        http_response heard = post(&shared, "/v1/completions", body);
        assert_non_null(strstr(heard.body, "2^63 or more"));
        expect_error(heard, 400, "guided_json");
    }
    json_t *root = ask_json("/v1/completions",
                            "{\"prompt\":\"a\",\"max_tokens\":30,\"guided_json\":{\"enum\":["
                            "-9223372036854775808,9223372036854775807]}}");
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_the_prompt),
        cmocka_unit_test(schemas_round_no_integer),
        cmocka_unit_test(encoders_score_no_prompt),
        cmocka_unit_test(cosines_end_at_one),
        cmocka_unit_test(names_the_drawn_token),
        cmocka_unit_test(queues_outputs),
        cmocka_unit_test(takes_a_template),
        cmocka_unit_test(templates_have_the_date_and_functions),
        cmocka_unit_test(takes_roles_that_templates_know),
        cmocka_unit_test(variables_have_defaults),
        cmocka_unit_test(takes_compressed_bodies),
        cmocka_unit_test(knows_functions),
        cmocka_unit_test(speaks_native),
        cmocka_unit_test(takes_lists_of_biases),
        cmocka_unit_test(renders),
        cmocka_unit_test(templates_get_calls_as_they_take_them),
        cmocka_unit_test(takes_answers_without_text),
        cmocka_unit_test(predictions_are_drafted),
        cmocka_unit_test(errors_name_the_clients_fields),
        cmocka_unit_test(seeds_are_wide),
        cmocka_unit_test(large_numbers_are_json),
    };
    return cmocka_run_group_tests(tests, start, shared_stop);
}
