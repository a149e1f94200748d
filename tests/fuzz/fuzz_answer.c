/* Any bytes as what a chat model says, shown by every API: whole and as the chunks of a stream,
 * which hold well-formed JSON. The first three bytes say in which syntax, by which API, and how. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "server/generation/openai_writer.h"
#include "server/messages/messages_writer.h"
#include "server/ollama/ollama_writer.h"
#include "server/responses/responses_input.h"
#include "server/responses/responses_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},"
    "\"c\":{\"type\":[\"array\",\"null\"]}}}}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}"
    "}]";

/* Integers that a model writes may be larger than jansson's. */
static void check_line(const char *text, size_t n_bytes) {
    json_t *root = json_loadb(text, n_bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    if (root == NULL)
        __builtin_trap();
    json_decref(root);
}

/* Each line is an event's data, or an object of its own. */
static void check_stream(const ln_strbuf *out) {
    for (size_t at = 0, n; at < out->len; at += n + 1) {
        const char *line = out->data + at, *end = memchr(line, '\n', out->len - at);
        n = end != NULL ? (size_t)(end - line) : out->len - at;
        if (n > 6 && memcmp(line, "data: {", 7) == 0)
            check_line(line + 6, n - 6);
        else if (n > 0 && *line == '{')
            check_line(line, n);
    }
}

static void answer(const ln_answer_format *format, const ln_generation_request *request,
                   const char *text, size_t n_bytes, size_t step, bool streams, bool is_cut) {
    ln_usage usage = {.n_prompt_tokens = 1};
    ln_answer_writer writer = {.request = request, .usage = &usage, .model = "m", .id = "x-1"};
    ln_choice choice = {.finish = LINNET_FINISH_NONE};
    const ln_api_error none = {0};
    ln_strbuf out;
    ln_strbuf_init(&out);
    ln_chat_answer_init(&choice.answer, request);
    if (streams && format->begin != NULL)
        format->begin(&writer, &out);
    for (size_t at = 0, end; at < n_bytes; at = end) {
        end = n_bytes - at < step ? n_bytes : at + step;
        while (end < n_bytes && (text[end] & 0xc0) == 0x80) /* whole code points */
            end++;
        ln_chat_answer_feed(&choice.answer, text + at, end - at);
        if (streams)
            format->chunk(&writer, &choice, &out);
    }
    ln_chat_answer_finish(&choice.answer, is_cut);
    choice.finish = is_cut ? LINNET_FINISH_LENGTH : LINNET_FINISH_STOP;
    if (streams)
        format->chunk(&writer, &choice, &out);
    if (streams && format->end != NULL)
        format->end(&writer, &choice, 1, &none, &out);
    if (!streams)
        format->whole(&writer, &choice, 1, &out);
    if (choice.answer.failed || out.failed)
        __builtin_trap();
    if (streams)
        check_stream(&out);
    else
        check_line(out.data, out.len);
    ln_chat_answer_free(&choice.answer);
    ln_strbuf_free(&choice.text);
    ln_strbuf_free(&writer.head);
    ln_strbuf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const ln_answer_format *const formats[] = {&ln_openai_chat_format, &ln_messages_format,
                                                      &ln_ollama_chat_format, &ln_responses_format};
    static const char *const reasoning[] = {"think", "harmony",    "command", "gemma",
                                            "muse",  "recipients", "kimi_k3", "minimax_m3"};
    ln_responses_request kept = {0};
    if (bytes < 3 || !ln_utf8_check((const char *)data + 3, bytes - 3))
        return 0; /* models' text is well-formed once it is here */
    ln_generation_request request = {
        .kind = LN_API_CHAT,
        .syntax = ln_call_syntax_at(data[0] & 63), /* NULL behind the last */
        .tools = json_loads(tools_json, 0, NULL),
        .custom_tools = (data[1] & 16) != 0 ? json_loads("[\"g\"]", 0, NULL) : NULL,
        .format = (data[0] & 64) != 0 ? ln_reasoning_find(reasoning[data[2] >> 1 & 7]) : NULL,
        .reasoning = (data[0] & 64) == 0    ? LN_REASONING_NONE
                     : (data[0] & 128) != 0 ? LN_REASONING_OPEN
                                            : LN_REASONING_MAY_COME,
        .model_reasons = (data[0] & 64) != 0,
        .calls_once = (data[1] & 32) != 0,
        .hides_markers = (data[1] & 64) != 0,
        .hides_reasoning = (data[1] & 128) != 0,
        .keeps_text = (data[1] & 3) == 3,
        .streams = (data[2] & 1) != 0,
        .extra = &kept};
    answer(formats[data[1] & 3], &request, (const char *)data + 3, bytes - 3,
           1 + data[bytes / 2] % 7, request.streams, (data[2] & 16) != 0);
    ln_responses_request_free(&kept);
    json_decref(request.tools);
    json_decref(request.custom_tools);
    return 0;
}
