/* What models say in every syntax, through the builder of responses: whole, and as the chunks of a
 * stream cut anywhere, which must say the same. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/generation/openai_writer.h"
#include "server/ollama/ollama_writer.h"
#include "test.h"

typedef struct answer_case {
    const char *syntax; /* NULL: none */
    ln_reasoning reasoning;
    const char *text;
    const char *content, *thoughts; /* NULL: null */
    const char *calls;              /* "name{arguments};" for each */
    const char *finish;
} answer_case;

#define BAR         "\xef\xbd\x9c"
#define LOW         "\xe2\x96\x81"
#define CALLS(what) "<" BAR "tool" LOW "calls" LOW what BAR ">"
#define CALL(what)  "<" BAR "tool" LOW "call" LOW what BAR ">"
#define SEP         "<" BAR "tool" LOW "sep" BAR ">"

static const answer_case cases[] = {
    {NULL, LN_REASONING_NONE, "Hello <tool_call> \xc3\xa9", "Hello <tool_call> \xc3\xa9", NULL, "",
     "stop"},
    {NULL, LN_REASONING_MAY_COME, "<think>\nhm\n</think>\n\nyes", "yes", "hm\n", "", "stop"},
    {NULL, LN_REASONING_MAY_COME, "yes", "yes", NULL, "", "stop"},
    {NULL, LN_REASONING_OPEN, "still < thinking", "", "still < thinking", "", "stop"},
    {"hermes", LN_REASONING_NONE,
     "Look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"\\u00e9}\"}}\n</tool_call>\n"
     "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>",
     "Look.\n", NULL, "f{\"a\": \"\\u00e9}\"};g{};", "tool_calls"},
    {"hermes", LN_REASONING_OPEN,
     "I call it.\n</think>\n\n<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": [1, {}]}}"
     "</tool_call>",
     NULL, "I call it.\n", "f{\"x\": [1, {}]};", "tool_calls"},
    {"hermes", LN_REASONING_NONE, "<tool_call>none", "none", NULL, "", "stop"},
    {"llama3", LN_REASONING_NONE,
     "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"q\": 1}}; {\"name\": \"g\", "
     "\"parameters\": {}}",
     NULL, NULL, "f{\"q\": 1};g{};", "tool_calls"},
    {"llama3", LN_REASONING_NONE, "{\"name\": \"Bob\"}", "{\"name\": \"Bob\"}", NULL, "", "stop"},
    {"mistral", LN_REASONING_NONE,
     "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": null}}, {\"name\": \"g\", "
     "\"arguments\": {}}]",
     NULL, NULL, "f{\"a\": null};g{};", "tool_calls"},
    {"mistral", LN_REASONING_NONE, "[TOOL_CALLS]f[ARGS]{\"a\": 1}", NULL, NULL, "f{\"a\": 1};",
     "tool_calls"},
    {"deepseek", LN_REASONING_MAY_COME,
     "<think>so</think>" CALLS("begin")
         CALL("begin") "function" SEP "f\n```json\n{\"a\": 2}\n```" CALL("end") CALLS("end"),
     NULL, "so", "f{\"a\": 2};", "tool_calls"},
};

/* A message that is put together from deltas, or read from a whole answer. */
typedef struct message {
    ln_strbuf content, thoughts, calls;
    bool has_content, has_thoughts;
    char finish[32], ids[256];
} message;

static void init(message *m) {
    *m = (message){0};
    ln_strbuf_init(&m->content);
    ln_strbuf_init(&m->thoughts);
    ln_strbuf_init(&m->calls);
}

static void drop(message *m) {
    ln_strbuf_free(&m->content);
    ln_strbuf_free(&m->thoughts);
    ln_strbuf_free(&m->calls);
}

/* A whole call, or a part of one in a stream: a name begins the next. */
static void add_call(message *m, const json_t *call) {
    const json_t *function = json_object_get(call, "function");
    const char *name = json_string_value(json_object_get(function, "name"));
    const char *id = json_string_value(json_object_get(call, "id"));
    const char *arguments = json_string_value(json_object_get(function, "arguments"));
    assert_non_null(arguments);
    assert_true((name != NULL) == (id != NULL));
    if (name != NULL) {
        assert_int_equal(strlen(id), 9);
        assert_null(strstr(m->ids, id));
        assert_true(strlen(m->ids) + 10 < sizeof m->ids);
        strcat(strcat(m->ids, id), " ");
        if (m->calls.len > 0)
            ln_strbuf_putc(&m->calls, ';');
        ln_strbuf_puts(&m->calls, name);
    }
    ln_strbuf_puts(&m->calls, arguments);
}

static void add(message *m, const json_t *part, const json_t *finish) {
    const json_t *content = json_object_get(part, "content");
    const json_t *thoughts = json_object_get(part, "reasoning_content");
    const json_t *calls = json_object_get(part, "tool_calls");
    assert_true(json_equal((json_t *)(uintptr_t)thoughts, json_object_get(part, "reasoning")) ||
                thoughts == NULL);
    if (json_is_string(content))
        ln_strbuf_puts(&m->content, json_string_value(content)), m->has_content = true;
    if (json_is_string(thoughts))
        ln_strbuf_puts(&m->thoughts, json_string_value(thoughts)), m->has_thoughts = true;
    for (size_t i = 0; i < json_array_size(calls); i++)
        add_call(m, json_array_get(calls, i));
    if (json_is_string(finish))
        snprintf(m->finish, sizeof m->finish, "%s", json_string_value(finish));
}

static void read_whole(message *m, const ln_strbuf *json) {
    json_t *root = json_loadb(json->data, json->len, 0, NULL);
    assert_non_null(root);
    const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    add(m, json_object_get(choice, "message"), json_object_get(choice, "finish_reason"));
    json_decref(root);
}

static void read_chunks(message *m, ln_strbuf *events) {
    ln_strbuf_putc(events, '\0');
    for (const char *at = events->data; (at = strstr(at, "data: {")) != NULL; at++) {
        json_t *root = json_loadb(at + 6, strcspn(at + 6, "\n"), 0, NULL);
        assert_non_null(root);
        const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
        add(m, json_object_get(choice, "delta"), json_object_get(choice, "finish_reason"));
        json_decref(root);
    }
}

/* The text in steps of some bytes, each of them a chunk when it streams. */
static void answer(const answer_case *c, size_t step, bool streams, ln_strbuf *out) {
    ln_generation_request request = {.kind = LN_API_CHAT,
                                     .syntax =
                                         c->syntax != NULL ? ln_call_syntax_find(c->syntax) : NULL,
                                     .format = ln_reasoning_think(),
                                     .reasoning = c->reasoning,
                                     .model_reasons = c->reasoning != LN_REASONING_NONE,
                                     .hides_markers = true,
                                     .streams = streams};
    const ln_answer_format *format = &ln_openai_chat_format;
    ln_usage usage = {0};
    ln_answer_writer writer = {
        .request = &request, .usage = &usage, .model = "m", .id = "chatcmpl-1"};
    ln_choice choice = {.finish = LINNET_FINISH_NONE};
    size_t n_bytes = strlen(c->text);
    ln_strbuf_init(&choice.text);
    for (size_t i = 0; i < LN_LOGPROBS_COLUMNS; i++)
        ln_strbuf_init(&choice.logprobs[i]);
    ln_chat_answer_init(&choice.answer, &request);
    ln_strbuf_init(&writer.head);
    if (streams)
        format->begin(&writer, out);
    for (size_t at = 0, end; at < n_bytes; at = end) {
        end = n_bytes - at < step ? n_bytes : at + step;
        while ((c->text[end] & 0xc0) == 0x80) /* whole code points */
            end++;
        ln_chat_answer_feed(&choice.answer, c->text + at, end - at);
        if (streams)
            format->chunk(&writer, &choice, out);
    }
    ln_chat_answer_finish(&choice.answer, false);
    choice.finish = LINNET_FINISH_STOP;
    if (streams)
        format->chunk(&writer, &choice, out);
    else
        format->whole(&writer, &choice, 1, out);
    assert_false(choice.answer.failed || out->failed);
    ln_chat_answer_free(&choice.answer);
    ln_strbuf_free(&choice.text);
    ln_strbuf_free(&writer.head);
}

static void expect(const answer_case *c, message *m, size_t step, bool streams) {
    if (m->calls.len > 0)
        ln_strbuf_putc(&m->calls, ';');
    ln_strbuf *texts[] = {&m->content, &m->thoughts, &m->calls};
    const char *wanted[] = {c->content, c->thoughts, c->calls};
    for (size_t i = 0; i < 3; i++) {
        ln_strbuf_putc(texts[i], '\0');
        if (strcmp(texts[i]->data, wanted[i] != NULL ? wanted[i] : "") != 0)
            fail_msg("%s\nin steps of %zu%s: \"%s\" and not \"%s\"", c->text, step,
                     streams ? ", streamed" : "", texts[i]->data, wanted[i]);
    }
    assert_int_equal(m->has_thoughts, c->thoughts != NULL);
    if (!streams)
        assert_int_equal(m->has_content, c->content != NULL);
    assert_string_equal(m->finish, c->finish);
}

static void says_the_same_however_it_comes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t step = 1; step < 130; step += step < 8 ? 1 : 13) {
            for (int streams = 0; streams < 2; streams++) {
                message m;
                ln_strbuf out;
                init(&m);
                ln_strbuf_init(&out);
                answer(&cases[i], step, streams != 0, &out);
                if (streams != 0)
                    read_chunks(&m, &out);
                else
                    read_whole(&m, &out);
                expect(&cases[i], &m, step, streams != 0);
                drop(&m);
                ln_strbuf_free(&out);
            }
        }
    }
}

/* The answer of a model, whole, as text and calls: "text|name{arguments};". */
static void expect_parts(ln_generation_request request, const char *text, bool is_cut,
                         const char *expected) {
    ln_chat_answer answer;
    ln_strbuf said;
    ln_strbuf_init(&said);
    ln_chat_answer_init(&answer, &request);
    ln_chat_answer_feed(&answer, text, strlen(text));
    ln_chat_answer_finish(&answer, is_cut);
    for (size_t i = 0; i < answer.n_parts; i++) {
        const ln_answer_part *part = &answer.parts[i];
        if (part->kind == LN_PART_CALL)
            ln_strbuf_printf(&said, "|%s", part->name.data);
        ln_strbuf_append(&said, part->text.data, part->text.len);
    }
    assert_string_equal(said.data, expected);
    assert_int_equal(strchr(expected, '|') != NULL, answer.n_calls > 0);
    ln_chat_answer_free(&answer);
    ln_strbuf_free(&said);
}

static void expect_whole(const char *text, const char *custom, bool is_cut, const char *expected) {
    ln_generation_request request = {.kind = LN_API_CHAT,
                                     .syntax = ln_call_syntax_find("hermes"),
                                     .custom_tools = json_pack("[s*]", custom)};
    expect_parts(request, text, is_cut, expected);
    json_decref(request.custom_tools);
}

#define SAYS_CALL(name, arguments)                                                                 \
    "<tool_call>{\"name\": \"" name "\", \"arguments\": " arguments "}</tool_call>"

/* Arguments that are no JSON make the calls text, where none was sent; not where they were cut. */
static void takes_malformed_calls_as_text(void **state) {
    (void)state;
    expect_whole("a" SAYS_CALL("f", "{\"x\": }"), NULL, false, "a" SAYS_CALL("f", "{\"x\": }"));
    expect_whole(SAYS_CALL("f", "{}") SAYS_CALL("g", "{1}"), NULL, false,
                 SAYS_CALL("f", "{}") SAYS_CALL("g", "{1}"));
    expect_whole("a" SAYS_CALL("f", "{\"x\": 1}"), NULL, false, "a|f{\"x\": 1}");
    expect_whole(SAYS_CALL("f", "{\"x\": 123456789012345678901234567890}"), NULL, false,
                 "|f{\"x\": 123456789012345678901234567890}");
    expect_whole(SAYS_CALL("f", "{\"x\": 1e999}"), NULL, false, "|f{\"x\": 1e999}");
    expect_whole(SAYS_CALL("f", "{\"x\": 1e999, }"), NULL, false,
                 SAYS_CALL("f", "{\"x\": 1e999, }"));
    expect_whole(SAYS_CALL("f", "{\"x\": 12345678901234567890 1}"), NULL, false,
                 SAYS_CALL("f", "{\"x\": 12345678901234567890 1}"));
    expect_whole("<tool_call>{\"name\": \"f\", \"arguments\": {\"x", NULL, true, "|f{\"x");
    expect_whole("<tool_call>{\"name\": \"f\", \"arguments\": {\"x", NULL, false,
                 "<tool_call>{\"name\": \"f\", \"arguments\": {\"x");
    expect_whole(SAYS_CALL("f", "{\"input\": \"y\"}"), "f", false, "|fy");
    expect_whole("<tool_call>{\"name\": \"f\", \"arguments\": {\"input\": \"a\\n\\u00e", "f", true,
                 "|fa\n");
    expect_whole(SAYS_CALL("f", "{\"output\": \"y\"}"), "f", false,
                 SAYS_CALL("f", "{\"output\": \"y\"}"));
}

/* The input of a custom call is shown as far as it came, wherever the arguments are cut. */
static void shows_cut_inputs(void **state) {
    (void)state;
    static const char arguments[] =
        " {\"input\" : \"a\\\"\\u00e9\\ud83d\\ude42b\\\\\"  \n          }";
    static const struct {
        size_t n_bytes; /* from here on */
        const char *input;
    } shown[] = {{0, ""},
                 {14, "a"},
                 {16, "a\""},
                 {22, "a\"\xc3\xa9"},
                 {34, "a\"\xc3\xa9\xf0\x9f\x99\x82"},
                 {35, "a\"\xc3\xa9\xf0\x9f\x99\x82"
                      "b"},
                 {37, "a\"\xc3\xa9\xf0\x9f\x99\x82"
                      "b\\"}};
    enum { N_SHOWN = sizeof shown / sizeof *shown };
    for (size_t n = 2; n < sizeof arguments; n++) {
        char text[128], expected[32];
        size_t i = N_SHOWN - 1;
        while (shown[i].n_bytes > n)
            i--;
        snprintf(text, sizeof text, "<tool_call>{\"name\": \"f\", \"arguments\":%.*s", (int)n,
                 arguments);
        snprintf(expected, sizeof expected, "|f%s", shown[i].input);
        expect_whole(text, "f", true, expected);
    }
    expect_whole("<tool_call>{\"name\": \"f\", \"arguments\": {\"inputs\": \"a", "f", true,
                 "|f{\"inputs\": \"a");
}

/* Where a grammar demands calls, what was cut ahead of a name is neither text nor a call. */
static void drops_marks_of_cut_calls(void **state) {
    (void)state;
    static const char *const cut[] = {"<tool", "<tool_call>", "<tool_call>{\"name\": \"f"};
    ln_generation_request request = {
        .kind = LN_API_CHAT, .syntax = ln_call_syntax_find("hermes"), .must_call = true};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char text[128];
        expect_parts(request, cut[i], true, "");
        snprintf(text, sizeof text, "%s%s", SAYS_CALL("g", "{}"), cut[i]);
        expect_parts(request, text, true, "|g{}");
    }
    expect_parts(request, SAYS_CALL("f", "{1}"), false, SAYS_CALL("f", "{1}"));
    request.must_call = false;
    expect_parts(request, cut[0], true, cut[0]);
}

/* What APIs that show arguments as an object take for one. */
static void knows_whole_objects(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_object;
    } texts[] = {{"{\"x\": 123456789012345678901234567890}", true},
                 {"{\"x\": \"\\u0000\"}", true},
                 {"{\"x\": 123456789012345678901234567890", false},
                 {"{\"x\": 1e999", false},
                 {"[1]", false},
                 {"", false}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ln_answer_part part = {.kind = LN_PART_CALL};
        ln_strbuf_init(&part.text);
        ln_strbuf_puts(&part.text, texts[i].text);
        assert_int_equal(ln_answer_part_has_object(&part), texts[i].is_object);
        ln_strbuf_free(&part.text);
    }
}

/* Kimi's templates write ids down, so they are the model's own, counted through the chat. */
static void numbers_calls_as_the_model(void **state) {
    (void)state;
    static const char text[] =
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:4<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_call_begin|>functions.a\"b:5<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>";
    ln_generation_request request = {
        .kind = LN_API_CHAT, .syntax = ln_call_syntax_find("kimi_k2"), .n_past_calls = 4};
    ln_chat_answer answer;
    ln_strbuf id;
    ln_strbuf_init(&id);
    ln_chat_answer_init(&answer, &request);
    ln_chat_answer_feed(&answer, text, sizeof text - 1);
    ln_chat_answer_finish(&answer, false);
    assert_int_equal(answer.n_calls, 2);
    for (size_t i = 0; i < answer.n_parts; i++) {
        if (answer.parts[i].kind != LN_PART_CALL)
            continue;
        ln_strbuf_clear(&id);
        ln_chat_answer_put_call_id(&id, &answer, &answer.parts[i], "call_", "x", 0);
        if (answer.parts[i].call == 0)
            assert_string_equal(id.data, "functions.f:4");
        else /* a name that no tool can have */
            assert_int_equal(strlen(id.data), strlen("call_") + 9);
    }
    ln_chat_answer_free(&answer);
    ln_strbuf_free(&id);
}

/* Ollama's clients get a call whole and on one line, once its arguments are, and text around it in
 * its order. */
static void ollama_sends_whole_calls(void **state) {
    (void)state;
    static const char text[] =
        "Look.\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\":\r\n 1}}</tool_call>"
        "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call> Done";
    for (size_t step = 1; step < 120; step += 7) {
        ln_generation_request request = {.kind = LN_API_CHAT,
                                         .syntax = ln_call_syntax_find("hermes")};
        ln_usage usage = {0};
        ln_answer_writer writer = {.request = &request, .usage = &usage, .model = "m", .id = "o-1"};
        ln_choice choice = {.finish = LINNET_FINISH_NONE};
        const ln_answer_format *format = &ln_ollama_chat_format;
        ln_strbuf out, calls, content;
        ln_strbuf_init(&out);
        ln_strbuf_init(&calls);
        ln_strbuf_init(&content);
        ln_chat_answer_init(&choice.answer, &request);
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            size_t rest = sizeof text - 1 - at;
            ln_chat_answer_feed(&choice.answer, text + at, rest < step ? rest : step);
            format->chunk(&writer, &choice, &out);
        }
        ln_chat_answer_finish(&choice.answer, false);
        choice.finish = LINNET_FINISH_STOP;
        format->chunk(&writer, &choice, &out);
        for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n")) {
            json_t *root = json_loads(line, 0, NULL), *call;
            size_t index;
            assert_non_null(root);
            const json_t *said = json_object_get(root, "message");
            ln_strbuf_puts(&content, json_string_value(json_object_get(said, "content")));
            json_array_foreach(json_object_get(said, "tool_calls"), index, call) {
                char *json = json_dumps(json_object_get(call, "function"), JSON_COMPACT);
                ln_strbuf_puts(&calls, json);
                free(json);
            }
            json_decref(root);
        }
        assert_string_equal(calls.data, "{\"index\":0,\"name\":\"f\",\"arguments\":{\"a\":1}}"
                                        "{\"index\":1,\"name\":\"g\",\"arguments\":{}}");
        assert_string_equal(content.data, "Look.\nDone");
        ln_chat_answer_free(&choice.answer);
        ln_strbuf_free(&out);
        ln_strbuf_free(&calls);
        ln_strbuf_free(&content);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_the_same_however_it_comes),
                                       cmocka_unit_test(takes_malformed_calls_as_text),
                                       cmocka_unit_test(shows_cut_inputs),
                                       cmocka_unit_test(drops_marks_of_cut_calls),
                                       cmocka_unit_test(knows_whole_objects),
                                       cmocka_unit_test(numbers_calls_as_the_model),
                                       cmocka_unit_test(ollama_sends_whole_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
