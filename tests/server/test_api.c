/* The API over the demo model: what clients ask for, and what they get. */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "server/client.h"
#include "test.h"

static void expect_field(const http_response *heard, const char *name, const char *value) {
    const char *field = response_field(heard, name);
    if (!field)
        fail_msg("%s is not in %s", name, heard->body);
    assert_string_equal(field, value);
}

static void expect_error(http_response heard, int status, const char *param) {
    if (heard.status != status)
        fail_msg("status %d and not %d: %s", heard.status, status, heard.body);
    assert_non_null(response_field(&heard, "message"));
    expect_field(&heard, "param", param);
    response_free(&heard);
}

static void lists_its_model(void **state) {
    (void)state;
    http_response heard = get(&shared, "/v1/models");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "id", "demo");
    expect_field(&heard, "max_model_len", "1024");
    expect_field(&heard, "root", "demo");
    response_free(&heard);
    heard = get(&shared, "/v1/models/demo");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "object", "model");
    response_free(&heard);
    expect_error(get(&shared, "/v1/models/other"), 404, "model");
    expect_error(post(&shared, "/v1/completions", "{\"model\":\"other\",\"prompt\":\"x\"}"), 404,
                 "model");
    expect_error(post(&shared, "/models/load", "{\"model\":\"other\"}"), 404, "model");
}

static void chats(void **state) {
    (void)state;
    static const struct {
        const char *question, *answer;
    } sums[] = {{"2+3=", "5"}, {"4+4=", "8"}, {"1+6=", "7"}};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"model\":\"demo\",\"temperature\":0,\"messages\":[{\"role\":\"user\","
                 "\"content\":\"%s\"}]}",
                 sums[i].question);
        http_response heard = post(&shared, "/v1/chat/completions", body);
        assert_int_equal(heard.status, 200);
        expect_field(&heard, "object", "chat.completion");
        expect_field(&heard, "content", sums[i].answer);
        expect_field(&heard, "finish_reason", "stop");
        response_free(&heard);
    }
}

static void joins_text_parts(void **state) {
    (void)state;
    http_response heard =
        post(&shared, "/v1/chat/completions",
             "{\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
             "\"text\":\"2+3=\"}]}]}");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "content", "5");
    response_free(&heard);
    expect_error(post(&shared, "/v1/chat/completions",
                      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
                      "\"image_url\":{}}]}]}"),
                 400, "messages[0].content[0]");
}

/* The text of a control token in a message is text: it makes more tokens than the token would. */
static void keeps_control_text_apart(void **state) {
    (void)state;
    http_response heard = post(&shared, "/v1/chat/completions",
                               "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":"
                               "\"<|endoftext|>\"}]}");
    http_response plain = post(&shared, "/v1/chat/completions",
                               "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":"
                               "\"a\"}]}");
    int n_control = atoi(response_field(&heard, "prompt_tokens"));
    int n_plain = atoi(response_field(&plain, "prompt_tokens"));
    assert_true(n_control > n_plain + 1);
    response_free(&heard);
    response_free(&plain);
}

/* A stream says what the whole answer says. */
static void streams(void **state) {
    (void)state;
    static const char whole_body[] =
        "{\"prompt\":\"Once upon a time\",\"max_tokens\":40,\"seed\":7}";
    static const char stream_body[] =
        "{\"prompt\":\"Once upon a time\",\"max_tokens\":40,\"seed\":7,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true}}";
    http_response whole = post(&shared, "/v1/completions", whole_body);
    http_response stream = post(&shared, "/v1/completions", stream_body);
    assert_int_equal(whole.status, 200);
    assert_int_equal(stream.status, 200);
    assert_string_equal(response_header(&stream, "content-type"), "text/event-stream");
    char *text = stream_text(&stream);
    expect_field(&whole, "text", text);
    assert_true(strlen(text) > 40);
    free(text);
    assert_non_null(strstr(stream.body, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(stream.body, "\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
                                        "\"completion_tokens\":40,\"total_tokens\":45,"));
    static const char end[] = "}}\n\ndata: [DONE]\n\n";
    assert_true(stream.body_bytes >= sizeof end - 1);
    assert_string_equal(stream.body + stream.body_bytes - (sizeof end - 1), end);
    response_free(&whole);
    response_free(&stream);
}

static void takes_many_prompts(void **state) {
    (void)state;
    http_response heard = post(&shared, "/v1/completions",
                               "{\"prompt\":[\"Once upon\",\"There was\"],\"max_tokens\":3,"
                               "\"temperature\":0,\"echo\":true}");
    assert_int_equal(heard.status, 200);
    assert_non_null(strstr(heard.body, "{\"index\":0,\"text\":\"Once upon a time"));
    assert_non_null(strstr(heard.body, "{\"index\":1,\"text\":\"There was"));
    expect_field(&heard, "completion_tokens", "6");
    response_free(&heard);
    heard = post(&shared, "/v1/completions",
                 "{\"prompt\":[[5,6,7],[8,9]],\"max_tokens\":2,\"temperature\":0}");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "prompt_tokens", "5");
    response_free(&heard);
    expect_error(post(&shared, "/v1/completions", "{\"prompt\":[[5],[99999999]]}"), 400,
                 "prompt[1]");
    heard =
        post(&shared, "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":0,\"min_tokens\":3}");
    assert_int_equal(heard.status, 400);
    expect_field(&heard, "message", "min_tokens is 3 and max_tokens 0");
    response_free(&heard);
}

/* With echo and max_tokens 0 a prompt is scored, and nothing is written. */
static void scores_prompts(void **state) {
    (void)state;
    http_response heard = post(&shared, "/v1/completions",
                               "{\"prompt\":\"Once upon a time\",\"max_tokens\":0,\"echo\":true,"
                               "\"logprobs\":2}");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "text", "Once upon a time");
    expect_field(&heard, "completion_tokens", "0");
    assert_non_null(strstr(heard.body, "\"token_logprobs\":[null,-"));
    assert_non_null(strstr(heard.body, "\"text_offset\":[0,0,4,9,11]"));
    response_free(&heard);
}

static void gives_logprobs(void **state) {
    (void)state;
    http_response heard =
        post(&shared, "/v1/chat/completions",
             "{\"temperature\":0,\"logprobs\":true,\"top_logprobs\":2,\"messages\":[{\"role\":"
             "\"user\",\"content\":\"2+3=\"}]}");
    assert_int_equal(heard.status, 200);
    assert_non_null(strstr(heard.body, "\"logprobs\":{\"content\":[{\"token\":\"5\",\"logprob\":"));
    assert_non_null(strstr(heard.body, "\"bytes\":[53],\"top_logprobs\":[{\"token\":\"5\""));
    response_free(&heard);
    expect_error(post(&shared, "/v1/chat/completions",
                      "{\"top_logprobs\":2,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}"),
                 400, "top_logprobs");
}

/* The echo of a prompt that was cut is the text that was used, and a special token in it takes the
 * characters that the client wrote, or none where its text is not shown. */
static void places_echoed_tokens(void **state) {
    (void)state;
    static const struct {
        const char *prompt, *text, *offsets;
    } cases[] = {
        {"\"<|im_start|>Once upon\"", "<|im_start|>Once upon", "[0,0,12,16]"},
        {"\"<|endoftext|>Once\"", "<|endoftext|>Once", "[0,0,13]"},
        {"\"Once upon a time\",\"truncate_prompt_tokens\":2", " a time", "[0,2]"},
        {"\"Once upon a time\",\"truncate_prompt_tokens\":3,\"truncation_side\":\"right\"",
         "Once upon", "[0,0,4]"},
        {"\"\xc3\xa9<|im_start|>Once\",\"truncate_prompt_tokens\":2", "<|im_start|>Once", "[0,12]"},
        {"[0,5,6]", "#$", "[0,0,1]"},
        {"[0,5,6],\"skip_special_tokens\":false", "<|endoftext|>#$", "[0,13,14]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256], expected[64];
        snprintf(body, sizeof body, "{\"prompt\":%s,\"max_tokens\":0,\"echo\":true,\"logprobs\":0}",
                 cases[i].prompt);
        http_response heard = post(&shared, "/v1/completions", body);
        assert_int_equal(heard.status, 200);
        expect_field(&heard, "text", cases[i].text);
        snprintf(expected, sizeof expected, "\"text_offset\":%s", cases[i].offsets);
        if (strstr(heard.body, expected) == NULL)
            fail_msg("%s: %s is not in %s", body, expected, heard.body);
        response_free(&heard);
    }
}

/* Tokens that are parts of a code point have its bytes, and begin where it begins. */
static void gives_bytes_of_parts(void **state) {
    (void)state;
    static const char answer[] = "\"guided_choice\":[\"\xf0\x9f\x99\x82\xc3\xa9"
                                 "b\"]";
    static const int bytes[] = {0xf0, 0x9f, 0x99, 0x82, 0xc3, 0xa9, 'b'};
    char body[256], expected[32];
    snprintf(body, sizeof body,
             "{\"logprobs\":true,%s,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", answer);
    http_response heard = post(&shared, "/v1/chat/completions", body);
    assert_int_equal(heard.status, 200);
    const char *at = heard.body;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        snprintf(expected, sizeof expected, "\"bytes\":[%d]", bytes[i]);
        at = strstr(at, expected);
        if (at == NULL)
            fail_msg("%s is not in %s", expected, heard.body);
    }
    response_free(&heard);
    snprintf(body, sizeof body, "{\"logprobs\":0,\"echo\":true,%s,\"prompt\":\"\xc3\xa9\"}",
             answer);
    heard = post(&shared, "/v1/completions", body);
    assert_int_equal(heard.status, 200);
    if (strstr(heard.body, "\"text_offset\":[0,0,0,1,1,1,1,2,2,3]") == NULL)
        fail_msg("%s", heard.body);
    response_free(&heard);
    /* a prompt that ends with f0, which 9f 9f 9f complete */
    heard =
        post(&shared, "/v1/completions",
             "{\"prompt\":[0,175],\"logit_bias\":{\"256\":100},\"max_tokens\":3,\"logprobs\":0}");
    assert_int_equal(heard.status, 200);
    if (strstr(heard.body, "\"text_offset\":[0,0,0]") == NULL)
        fail_msg("%s", heard.body);
    response_free(&heard);
}

static void stops_at_strings(void **state) {
    (void)state;
    http_response heard = post(&shared, "/v1/completions",
                               "{\"prompt\":\"Once upon a time there was a\",\"max_tokens\":60,"
                               "\"temperature\":0,\"stop\":[\".\"]}");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "finish_reason", "stop");
    assert_null(strchr(response_field(&heard, "text"), '.'));
    response_free(&heard);
}

static void biases_logits(void **state) {
    (void)state;
    http_response heard = post(&shared, "/v1/completions",
                               "{\"prompt\":\"Once\",\"max_tokens\":3,\"temperature\":0,"
                               "\"logprobs\":0,\"logit_bias\":{\"1245\":100}}");
    assert_int_equal(heard.status, 200);
    assert_non_null(strstr(heard.body, "\"tokens\":["));
    http_response ids = post(&shared, "/detokenize", "{\"tokens\":[1245,1245,1245]}");
    char *text = strdup(response_field(&ids, "prompt"));
    expect_field(&heard, "text", text);
    free(text);
    response_free(&ids);
    response_free(&heard);
}

static void same_seed_same_text(void **state) {
    (void)state;
    static const char body[] = "{\"prompt\":\"The\",\"max_tokens\":20,\"seed\":3}";
    http_response one = post(&shared, "/v1/completions", body);
    http_response two = post(&shared, "/v1/completions", body);
    char *text = strdup(response_field(&one, "text"));
    expect_field(&two, "text", text);
    free(text);
    response_free(&one);
    response_free(&two);
}

/* Tokens may come as servers list them, and as clients write them. */
static void takes_tokens_in_other_forms(void **state) {
    (void)state;
    http_response heard =
        post(&shared, "/tokenize", "{\"content\":\"Hello \xf0\x9f\xa6\x8a\",\"with_pieces\":true}");
    char *body = strdup(strstr(heard.body, "\"tokens\":") - 1);
    response_free(&heard);
    body[0] = '{';
    heard = post(&shared, "/detokenize", body);
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "content", "Hello \xf0\x9f\xa6\x8a");
    response_free(&heard);
    free(body);
    heard = post(&shared, "/detokenize", "{\"tokens\":[5.0,\"6\",{\"id\":7,\"piece\":\"%\"},8]}");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "prompt", "#$%&");
    response_free(&heard);
    static const char *const none[] = {"5.5",
                                       "-1.0",
                                       "1e300",
                                       "\"\"",
                                       "\"5a\"",
                                       "\"-5\"",
                                       "true",
                                       "[5]",
                                       "{\"piece\":\"%\"}",
                                       "{\"id\":\"5\"}",
                                       "4096.0",
                                       "\"99999999999\"",
                                       "\"5\\u00005\""};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char list[64];
        snprintf(list, sizeof list, "{\"tokens\":[1,%s]}", none[i]);
        expect_error(post(&shared, "/detokenize", list), 400, "tokens");
    }
}

static void tokenizes(void **state) {
    (void)state;
    http_response heard = post(&shared, "/tokenize", "{\"prompt\":\"Hello world\"}");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "count", "3");
    assert_non_null(strstr(heard.body, "\"tokens\":[0,"));
    response_free(&heard);
    heard = post(&shared, "/tokenize", "{\"prompt\":\"Hello world\",\"add_special_tokens\":false}");
    expect_field(&heard, "count", "2");
    char body[256];
    const char *list = strstr(heard.body, "\"tokens\":");
    snprintf(body, sizeof body, "{%s", list);
    response_free(&heard);
    heard = post(&shared, "/detokenize", body);
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "prompt", "Hello world");
    expect_field(&heard, "content", "Hello world");
    response_free(&heard);
    heard = post(&shared, "/tokenize",
                 "{\"content\":\"Hello \xf0\x9f\xa6\x8a\",\"add_special_tokens\":false,"
                 "\"with_pieces\":true}");
    assert_int_equal(heard.status, 200);
    assert_non_null(strstr(heard.body, ",\"piece\":\"Hello\"}"));
    assert_non_null(strstr(heard.body, ",\"piece\":[240]}")); /* the first byte of the fox */
    response_free(&heard);
}

static void tells_its_state(void **state) {
    (void)state;
    http_response heard = get(&shared, "/health");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "status", "ok");
    response_free(&heard);
    heard = get(&shared, "/ready");
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    double before = metric(&shared, "generation_tokens_total", NULL);
    heard = post(&shared, "/v1/completions", "{\"prompt\":\"The\",\"max_tokens\":5}");
    response_free(&heard);
    assert_true(metric(&shared, "generation_tokens_total", NULL) == before + 5);
    assert_true(metric(&shared, "time_to_first_token_seconds_count", NULL) >= 1);
    wait_for_metric(&shared, "num_requests_open", NULL, 0);
}

/* Clients know a prompt that is too long by the code, or by these words. */
static void refuses_long_prompts(void **state) {
    (void)state;
    static const struct {
        const char *path, *begin, *end, *param;
    } cases[] = {
        {"/v1/completions", "{\"prompt\":\"", "\"}", "prompt"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}",
         "messages"},
        {"/v1/responses", "{\"input\":\"", "\"}", "input"},
        {"/v1/messages", "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"",
         "\"}]}", NULL},
    };
    char body[16384];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(body, cases[i].begin);
        for (int k = 0; k < 1100; k++)
            strcat(body, " once");
        strcat(body, cases[i].end);
        http_response heard = post(&shared, cases[i].path, body);
        const char *message = response_field(&heard, "message");
        assert_ptr_equal(strstr(message, "prompt is too long: 11"), message);
        assert_non_null(strstr(message, " tokens > "));
        assert_non_null(strstr(message, "This model's maximum context length is "));
        if (cases[i].param == NULL) {
            assert_int_equal(heard.status, 400);
            response_free(&heard);
            continue;
        }
        expect_field(&heard, "code", "context_length_exceeded");
        expect_error(heard, 400, cases[i].param);
    }
}

/* What clients send although it changes nothing is accepted, and refused where it would. */
static void bears_what_changes_nothing(void **state) {
    (void)state;
    static const struct {
        const char *field, *nothing, *something;
        bool is_chat;
    } fields[] = {
        {"use_beam_search", "false", "true", false},
        {"length_penalty", "1", "2", false},
        {"length_penalty", "1.0", "1.5", false},
        {"include_stop_str_in_output", "false", "0", false},
        {"detokenize", "true", "false", false},
        {"modalities", "[\"text\"]", "[\"text\",\"audio\"]", true},
        {"best_of", "1", "2", true},
        {"continue_final_message", "false", "[]", true},
        {"logits_processors", "null", "[]", true},
        {"audio", "null", "{}", true},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (int something = 0; something < 2; something++) {
            char body[256];
            snprintf(body, sizeof body, "{%s,\"max_tokens\":1,\"%s\":%s}",
                     fields[i].is_chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
                                       : "\"prompt\":\"a\"",
                     fields[i].field, something ? fields[i].something : fields[i].nothing);
            http_response heard =
                post(&shared, fields[i].is_chat ? "/v1/chat/completions" : "/v1/completions", body);
            if (something) {
                expect_error(heard, 400, fields[i].field);
                continue;
            }
            if (heard.status != 200)
                fail_msg("%s gives %d %s", body, heard.status, heard.body);
            response_free(&heard);
        }
}

static void tells_its_version(void **state) {
    (void)state;
    http_response heard = get(&shared, "/version");
    assert_int_equal(heard.status, 200);
    assert_true(*response_field(&heard, "version") >= '0');
    response_free(&heard);
    heard = post(&shared, "/v1/images", "{\"model\":\"demo\",\"input\":\"a\"}");
    assert_int_equal(heard.status, 404);
    assert_non_null(strstr(heard.body, "/v1/images"));
    response_free(&heard);
}

/* Fields that nobody knows change nothing: the client is told, and the metrics count them. */
static void ignores_unknown_fields(void **state) {
    (void)state;
    static const char body[] =
        "{\"prompt\":\"a\",\"max_tokens\":2,\"stream\":true,\"stream_options\":{\"strange\":1},"
        "\"modalit\":1,\"a\\r\\nb,c\":2,\"top_p_\":null}";
    double before = metric(&shared, "request_fields_ignored_total", NULL);
    http_response heard = post(&shared, "/v1/completions", body);
    assert_int_equal(heard.status, 200);
    assert_string_equal(response_header(&heard, "x-ignored-fields"),
                        "modalit, a??b?c, stream_options.strange");
    response_free(&heard);
    assert_true(metric(&shared, "request_fields_ignored_total", NULL) == before + 3);
    heard = post(&shared, "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":2}");
    assert_null(response_header(&heard, "x-ignored-fields"));
    response_free(&heard);
    test_server strict = SERVER("--threads=1", "--max-seqs=1", "--strict-fields");
    expect_error(post(&strict, "/tokenize", "{\"prompt\":\"a\",\"modalit\":1}"), 400, "modalit");
    expect_error(post(&strict, "/v1/completions", body), 400, "modalit");
    server_stop(&strict);
}

static void tells_pickers_its_load(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-seqs=1", "--metrics-prefix=vllm",
                                "--backend=cpu", "--max-adapters=2");
    http_response heard = get(&server, "/metrics");
    static const char *const lines[] = {
        "\nvllm:num_requests_waiting{",
        "\nvllm:num_requests_running{",
        "\nvllm:kv_cache_usage_perc{",
        "\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"",
        "\nvllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"\",",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(heard.body, lines[i]) == NULL)
            fail_msg("no %s in %s", lines[i], heard.body);
    assert_null(strstr(heard.body, "linnet:"));
    response_free(&heard);
    heard = ask(&server, "GET", "/version", "endpoint-load-metrics-format: TEXT\r\n", NULL);
    assert_string_equal(
        response_header(&heard, "endpoint-load-metrics"),
        "TEXT named_metrics.kv_cache_usage_perc=0, named_metrics.num_requests_waiting=0");
    response_free(&heard);
    heard = ask(&server, "GET", "/version", "endpoint-load-metrics-format: json\r\n", NULL);
    assert_string_equal(response_header(&heard, "endpoint-load-metrics"),
                        "JSON {\"named_metrics\": {\"kv_cache_usage_perc\": 0, "
                        "\"num_requests_waiting\": 0}}");
    response_free(&heard);
    heard = ask(&server, "GET", "/version", "endpoint-load-metrics-format: BIN\r\n", NULL);
    assert_null(response_header(&heard, "endpoint-load-metrics"));
    response_free(&heard);
    server_stop(&server);
}

/* Every chunk says how many tokens there are so far. */
static void counts_while_it_streams(void **state) {
    (void)state;
    http_response heard =
        post(&shared, "/v1/completions",
             "{\"prompt\":\"Once\",\"max_tokens\":5,\"ignore_eos\":true,\"stream\":true,"
             "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}}");
    assert_int_equal(heard.status, 200);
    int most = 0, n_chunks = 0;
    for (const char *at = heard.body; (at = strstr(at, "\"completion_tokens\":")) != NULL; at++) {
        int count = atoi(at + strlen("\"completion_tokens\":"));
        assert_true(count >= most);
        most = count;
        n_chunks++;
    }
    assert_int_equal(most, 5);
    assert_true(n_chunks >= 2);
    assert_null(strstr(heard.body, "\"usage\":null"));
    response_free(&heard);
}

/* ---- fields of other servers -------------------------------------------------------------- */

static json_t *ask_json(const char *path, const char *body) {
    http_response heard = post(&shared, path, body);
    if (heard.status != 200)
        fail_msg("%s gives %d %s", body, heard.status, heard.body);
    json_t *root = json_loads(heard.body, 0, NULL);
    assert_non_null(root);
    response_free(&heard);
    return root;
}

static json_t *choice_of(json_t *root) {
    return json_array_get(json_object_get(root, "choices"), 0);
}

/* The ids of prompt and output, whole and in a stream. */
static void returns_token_ids(void **state) {
    (void)state;
    static const char body[] =
        "{\"prompt\":[5,6,7],\"max_tokens\":6,\"seed\":1,\"ignore_eos\":true,"
        "\"return_token_ids\":true%s}";
    char text[256];
    snprintf(text, sizeof text, body, "");
    json_t *root = ask_json("/v1/completions", text), *choice = choice_of(root);
    json_t *ids = json_object_get(choice, "token_ids");
    assert_int_equal(json_array_size(ids), 6);
    assert_int_equal(json_array_size(json_object_get(choice, "prompt_token_ids")), 3);
    snprintf(text, sizeof text, body, ",\"stream\":true");
    http_response heard = post(&shared, "/v1/completions", text);
    json_t *streamed = json_array();
    int n_prompts = 0;
    for (const char *at = heard.body; (at = strstr(at, "data: {")) != NULL; at++) {
        json_t *chunk = json_loadb(at + 6, strcspn(at + 6, "\n"), 0, NULL);
        json_array_extend(streamed, json_object_get(choice_of(chunk), "token_ids"));
        n_prompts += json_object_get(choice_of(chunk), "prompt_token_ids") != NULL;
        json_decref(chunk);
    }
    assert_true(json_equal(streamed, ids));
    assert_int_equal(n_prompts, 1);
    json_decref(streamed);
    response_free(&heard);
    json_decref(root);
    root = ask_json("/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"2+3="
                                            "\"}],\"temperature\":0,\"return_token_ids\":true}");
    assert_int_equal(json_array_size(json_object_get(root, "prompt_token_ids")), 12);
    assert_true(json_array_size(json_object_get(choice_of(root), "token_ids")) >= 1);
    json_decref(root);
}

static void allows_and_forbids_tokens(void **state) {
    (void)state;
    json_t *root = ask_json("/v1/completions",
                            "{\"prompt\":\"Once\",\"max_tokens\":8,\"temperature\":1.5,\"seed\":2,"
                            "\"allowed_token_ids\":[1245,1048],\"return_token_ids\":true}");
    json_t *id, *ids = json_object_get(choice_of(root), "token_ids");
    size_t index;
    assert_int_equal(json_array_size(ids), 8);
    json_array_foreach(ids, index, id) {
        assert_true(json_integer_value(id) == 1245 || json_integer_value(id) == 1048);
    }
    json_decref(root);
    root = ask_json("/v1/completions", "{\"prompt\":\"Once upon\",\"max_tokens\":4,\"temperature\":"
                                       "0}");
    const char *text = json_string_value(json_object_get(choice_of(root), "text"));
    assert_true(strncmp(text, " a time", 7) == 0);
    json_decref(root);
    root = ask_json("/v1/completions", "{\"prompt\":\"Once upon\",\"max_tokens\":4,\"temperature\":"
                                       "0,\"bad_words\":[\"time\"]}");
    text = json_string_value(json_object_get(choice_of(root), "text"));
    assert_null(strstr(text, " time"));
    json_decref(root);
}

/* Names that llama.cpp has for fields, and prompts that are cut at their beginning. */
static void knows_other_names(void **state) {
    (void)state;
    json_t *root =
        ask_json("/v1/completions", "{\"prompt\":[5,6,7,8],\"n_predict\":3,\"ignore_eos\":true,"
                                    "\"repeat_penalty\":1.1,\"cache_prompt\":true,"
                                    "\"truncate_prompt_tokens\":2,\"return_token_ids\":true}");
    json_t *prompt = json_object_get(choice_of(root), "prompt_token_ids");
    assert_int_equal(json_array_size(prompt), 2);
    assert_int_equal(json_integer_value(json_array_get(prompt, 0)), 7);
    assert_int_equal(json_array_size(json_object_get(choice_of(root), "token_ids")), 3);
    json_decref(root);
    root = ask_json("/v1/completions", "{\"prompt\":\"Once\",\"n_predict\":-1,\"temperature\":0}");
    assert_string_equal(json_string_value(json_object_get(choice_of(root), "finish_reason")),
                        "stop");
    json_decref(root);
    char *body = malloc(20000);
    assert_non_null(body);
    strcpy(body, "{\"max_tokens\":1,\"truncate_prompt_tokens\":-1,\"prompt\":\"");
    for (int i = 0; i < 2000; i++)
        strcat(body, " once");
    strcat(body, "\"}");
    root = ask_json("/v1/completions", body);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(root, "usage"), "prompt_tokens")), 1023);
    json_decref(root);
    free(body);
    expect_error(post(&shared, "/v1/completions", "{\"prompt\":\"a\",\"suffix\":\"b\"}"), 400,
                 "suffix");
}

/* Without a tokenizer ids are scored and named as such, and what needs one says so. */
static void serves_ids_alone(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", TEST_SOURCE_DIR "/tests/golden/models/qwen3");
    http_response heard =
        post(&server, "/v1/completions",
             "{\"prompt\":[1,2,3],\"max_tokens\":0,\"echo\":true,\"logprobs\":1}");
    assert_int_equal(heard.status, 200);
    expect_field(&heard, "text", "");
    assert_non_null(
        strstr(heard.body, "\"tokens\":[\"token_id:1\",\"token_id:2\",\"token_id:3\"]"));
    assert_non_null(strstr(heard.body, "\"top_logprobs\":[null,{\"token_id:2\":-"));
    assert_non_null(strstr(heard.body, "\"text_offset\":[0,0,0]"));
    response_free(&heard);
    expect_error(post(&server, "/v1/completions", "{\"prompt\":[1],\"stop\":\"x\"}"), 400, "stop");
    expect_error(post(&server, "/v1/completions", "{\"prompt\":[1],\"guided_regex\":\"x\"}"), 400,
                 "guided_regex");
    expect_error(post(&server, "/v1/completions", "{\"prompt\":\"x\"}"), 400, "prompt");
    char *log;
    kill(server.pid, SIGTERM);
    assert_int_equal(server_wait(&server, &log), 0);
    assert_non_null(strstr(log, "/v1/completions -d '{\"prompt\": [1, 2, 3]"));
    free(log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_its_model),
        cmocka_unit_test(chats),
        cmocka_unit_test(joins_text_parts),
        cmocka_unit_test(keeps_control_text_apart),
        cmocka_unit_test(streams),
        cmocka_unit_test(takes_many_prompts),
        cmocka_unit_test(scores_prompts),
        cmocka_unit_test(gives_logprobs),
        cmocka_unit_test(places_echoed_tokens),
        cmocka_unit_test(serves_ids_alone),
        cmocka_unit_test(gives_bytes_of_parts),
        cmocka_unit_test(stops_at_strings),
        cmocka_unit_test(biases_logits),
        cmocka_unit_test(same_seed_same_text),
        cmocka_unit_test(tokenizes),
        cmocka_unit_test(takes_tokens_in_other_forms),
        cmocka_unit_test(tells_its_state),
        cmocka_unit_test(bears_what_changes_nothing),
        cmocka_unit_test(returns_token_ids),
        cmocka_unit_test(allows_and_forbids_tokens),
        cmocka_unit_test(knows_other_names),
        cmocka_unit_test(ignores_unknown_fields),
        cmocka_unit_test(tells_pickers_its_load),
        cmocka_unit_test(counts_while_it_streams),
        cmocka_unit_test(tells_its_version),
        cmocka_unit_test(refuses_long_prompts),
    };
    return cmocka_run_group_tests(tests, shared_start, shared_stop);
}
