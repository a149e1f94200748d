#include "server/generation/openai_writer.h"

#include "server/generation/logprob_columns.h"
#include "server/json/out.h"
#include "server/json/reply.h"

/* ---- messages --------------------------------------------------------------------------- */

/* What all parts of a kind have together: that was not sent, or, in a whole message, all of it.
 * What could not be joined, `out` lacks. */
static void join_parts(const ln_chat_answer *answer, ln_answer_part_kind kind, ln_strbuf *joined,
                       ln_strbuf *out) {
    for (size_t i = answer->n_complete; i < answer->n_parts; i++) {
        const ln_answer_part *part = &answer->parts[i];
        if (part->kind == kind)
            ln_strbuf_append(joined, ln_answer_part_get_unsent(part),
                             ln_answer_part_count_unsent(part));
    }
    out->failed |= joined->failed;
}

static void put_joined(const ln_strbuf *joined, ln_strbuf *out) {
    ln_json_put_string(out, joined->data != NULL ? joined->data : "", joined->len);
}

/* Under both names that clients know it by. */
static void put_reasoning(const ln_strbuf *reasoning, ln_strbuf *out) {
    static const char *const names[] = {"\"reasoning_content\":", ",\"reasoning\":"};
    for (size_t i = 0; i < 2; i++) {
        ln_strbuf_puts(out, names[i]);
        if (reasoning->len > 0)
            put_joined(reasoning, out);
        else
            ln_strbuf_puts(out, "null");
    }
}

/* {"name": ..., "arguments": ...}, or "input" of a custom tool; the name where it was not sent. */
static void put_function(const ln_answer_part *call, ln_strbuf *out) {
    ln_strbuf_putc(out, '{');
    if (!call->is_begun) {
        ln_strbuf_puts(out, "\"name\":");
        ln_json_put_string(out, call->name.data, call->name.len);
        ln_strbuf_putc(out, ',');
    }
    ln_strbuf_puts(out, call->is_custom ? "\"input\":" : "\"arguments\":");
    ln_json_put_string(out, ln_answer_part_get_unsent(call), ln_answer_part_count_unsent(call));
    ln_strbuf_putc(out, '}');
}

static void put_call(const ln_answer_writer *writer, const ln_choice *choice,
                     const ln_answer_part *call, bool is_delta, ln_strbuf *out) {
    ln_strbuf_putc(out, '{');
    if (is_delta)
        ln_strbuf_printf(out, "\"index\":%zu,", call->call);
    if (!call->is_begun) {
        ln_strbuf_puts(out, "\"id\":\"");
        ln_chat_answer_put_call_id(out, &choice->answer, call, "", writer->id, choice->index);
        ln_strbuf_printf(out, "\",\"type\":\"%s\",", call->is_custom ? "custom" : "function");
    }
    ln_strbuf_puts(out, call->is_custom ? "\"custom\":" : "\"function\":");
    put_function(call, out);
    ln_strbuf_putc(out, '}');
}

/* The calls that were not sent, or not wholly; `before` stands before the list, if there is one. */
static void put_calls(const ln_answer_writer *writer, const ln_choice *choice, bool is_delta,
                      const char *before, ln_strbuf *out) {
    const ln_chat_answer *answer = &choice->answer;
    size_t n_put = 0;
    for (size_t i = answer->n_complete; i < answer->n_parts; i++) {
        const ln_answer_part *part = &answer->parts[i];
        if (part->kind != LN_PART_CALL || (part->is_begun && !ln_answer_part_count_unsent(part)))
            continue;
        ln_strbuf_puts(out, n_put == 0 ? before : ",");
        if (answer->request->calls_function) { /* there is one at most */
            ln_strbuf_puts(out, "\"function_call\":");
            put_function(part, out);
            return;
        }
        if (n_put++ == 0)
            ln_strbuf_puts(out, "\"tool_calls\":[");
        put_call(writer, choice, part, is_delta, out);
    }
    if (n_put > 0)
        ln_strbuf_putc(out, ']');
}

static void put_message(const ln_answer_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    const ln_chat_answer *answer = &choice->answer;
    ln_strbuf content, reasoning;
    ln_strbuf_init(&content);
    ln_strbuf_init(&reasoning);
    join_parts(answer, LN_PART_TEXT, &content, out);
    join_parts(answer, LN_PART_REASONING, &reasoning, out);
    ln_strbuf_puts(out, "\"role\":\"assistant\",\"content\":");
    if (answer->n_calls > 0 && content.len == 0)
        ln_strbuf_puts(out, "null");
    else
        put_joined(&content, out);
    ln_strbuf_puts(out, ",\"refusal\":null");
    if (answer->request->model_reasons) {
        ln_strbuf_putc(out, ',');
        put_reasoning(&reasoning, out);
    }
    put_calls(writer, choice, false, ",", out);
    ln_strbuf_free(&content);
    ln_strbuf_free(&reasoning);
}

static void put_delta(const ln_answer_writer *writer, ln_choice *choice, ln_strbuf *out) {
    ln_chat_answer *answer = &choice->answer;
    const char *comma = "";
    ln_strbuf joined;
    ln_strbuf_init(&joined);
    join_parts(answer, LN_PART_TEXT, &joined, out);
    if (joined.len > 0) {
        ln_strbuf_puts(out, "\"content\":");
        put_joined(&joined, out);
        comma = ",";
    }
    ln_strbuf_clear(&joined);
    join_parts(answer, LN_PART_REASONING, &joined, out);
    if (joined.len > 0) {
        ln_strbuf_puts(out, comma);
        put_reasoning(&joined, out);
        comma = ",";
    }
    ln_strbuf_free(&joined);
    put_calls(writer, choice, true, comma, out);
    for (size_t i = answer->n_complete; i < answer->n_parts; i++)
        ln_chat_answer_note_sent(answer, &answer->parts[i]);
}

/* ---- answers ---------------------------------------------------------------------------- */

static void put_head(const ln_answer_writer *writer, const char *object, ln_strbuf *out) {
    ln_strbuf_printf(out,
                     "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,"
                     "\"system_fingerprint\":\"linnet-%s\",\"model\":",
                     writer->id, object, (long long)writer->created_s, linnet_version());
    ln_json_put_text(out, writer->model);
    ln_strbuf_puts(out, ",\"choices\":[");
}

/* NULL: it is not over, or an error follows. */
static const char *finish_text(linnet_finish finish) {
    switch (finish) {
    case LINNET_FINISH_NONE:
    case LINNET_FINISH_ERROR: return NULL;
    case LINNET_FINISH_LENGTH: return "length";
    case LINNET_FINISH_TIMEOUT: return "timeout";
    case LINNET_FINISH_CANCELLED: return "abort";
    default: return "stop";
    }
}

static const char *choice_finish(const ln_choice *choice) {
    bool is_calls = choice->answer.n_calls > 0 && choice->finish == LINNET_FINISH_STOP;
    if (is_calls)
        return choice->answer.request->calls_function ? "function_call" : "tool_calls";
    return finish_text(choice->finish);
}

/* Of a completion in its choices, of a chat beside them; in a stream once. */
static void put_prompt_ids(const ln_prompt *prompt, ln_strbuf *out) {
    ln_strbuf_puts(out, ",\"prompt_token_ids\":[");
    for (size_t i = 0; i < prompt->n_ids; i++)
        ln_strbuf_printf(out, "%s%d", i > 0 ? "," : "", (int)prompt->ids[i]);
    ln_strbuf_putc(out, ']');
}

/* Likewise; they are not streamed. */
static void put_prompt_logprobs(const ln_choice *choice, ln_strbuf *out) {
    if (choice->prompt_logprobs.len == 0)
        return;
    ln_strbuf_puts(out, ",\"prompt_logprobs\":");
    ln_strbuf_append(out, choice->prompt_logprobs.data, choice->prompt_logprobs.len);
    if (choice->prompt_logprobs.failed)
        out->failed = true;
}

static void put_end(const ln_answer_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    ln_strbuf_puts(out, ",\"logprobs\":");
    ln_logprob_columns_put(writer, choice, out);
    ln_strbuf_puts(out, ",\"finish_reason\":");
    ln_json_put_text(out, choice_finish(choice));
    if (writer->request->kind == LN_API_COMPLETION)
        put_prompt_logprobs(choice, out);
    if (!writer->request->returns_ids)
        return;
    ln_strbuf_puts(out, ",\"token_ids\":[");
    ln_strbuf_append(out, choice->token_ids.data, choice->token_ids.len);
    ln_strbuf_putc(out, ']');
    if (writer->request->kind == LN_API_COMPLETION && !choice->has_begun)
        put_prompt_ids(choice->prompt, out);
}

static void put_usage(const ln_usage *usage, size_t n_output_tokens, ln_strbuf *out) {
    ln_strbuf_printf(out,
                     "\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,"
                     "\"total_tokens\":%zu,\"prompt_tokens_details\":{\"cached_tokens\":%zu},"
                     "\"completion_tokens_details\":{\"reasoning_tokens\":%zu,"
                     "\"accepted_prediction_tokens\":%zu,\"rejected_prediction_tokens\":%zu}}",
                     usage->n_prompt_tokens, n_output_tokens,
                     usage->n_prompt_tokens + n_output_tokens, usage->n_cached_tokens,
                     usage->n_reasoning_tokens, usage->n_accepted_prediction,
                     usage->n_rejected_prediction);
}

static void begin(ln_answer_writer *writer, ln_strbuf *out) {
    bool is_chat = writer->request->kind == LN_API_CHAT;
    (void)out;
    ln_strbuf_clear(&writer->head);
    ln_strbuf_puts(&writer->head, "data: ");
    put_head(writer, is_chat ? "chat.completion.chunk" : "text_completion", &writer->head);
}

/* A server-sent event (SSE) with one choice; `is_role` begins a chat's answer. */
static void put_event(const ln_answer_writer *writer, ln_choice *choice, bool is_role,
                      ln_strbuf *out) {
    const ln_generation_request *request = writer->request;
    bool is_chat = request->kind == LN_API_CHAT;
    ln_strbuf_append(out, writer->head.data, writer->head.len);
    ln_strbuf_printf(out, "{\"index\":%u,", choice->index);
    if (is_role) {
        /* whether there will be content is not known */
        ln_strbuf_puts(out, "\"delta\":{\"role\":\"assistant\",\"content\":null},"
                            "\"logprobs\":null,\"finish_reason\":null");
    } else {
        ln_strbuf_puts(out, is_chat ? "\"delta\":{" : "\"text\":");
        if (is_chat)
            put_delta(writer, choice, out);
        else
            ln_json_put_string(out, choice->text.data, choice->text.len);
        if (is_chat)
            ln_strbuf_putc(out, '}');
        put_end(writer, choice, out);
    }
    ln_strbuf_puts(out, "}]");
    if (is_role && request->returns_ids)
        put_prompt_ids(choice->prompt, out);
    if (request->continuous_usage) {
        ln_strbuf_putc(out, ',');
        put_usage(writer->usage, is_role ? 0 : choice->n_output_tokens, out);
    } else if (request->includes_usage) {
        ln_strbuf_puts(out, ",\"usage\":null");
    }
    ln_strbuf_puts(out, "}\n\n");
}

static void put_chunk(ln_answer_writer *writer, ln_choice *choice, ln_strbuf *out) {
    if (!choice->has_begun && writer->request->kind == LN_API_CHAT)
        put_event(writer, choice, true, out);
    choice->is_dirty = false;
    if (choice->text.len == 0 && choice->n_logprobs == 0 && finish_text(choice->finish) == NULL &&
        choice->token_ids.len == 0 && !ln_chat_answer_is_pending(&choice->answer)) {
        choice->has_begun = choice->has_begun || writer->request->kind == LN_API_CHAT;
        return;
    }
    put_event(writer, choice, false, out);
    choice->has_begun = true;
    ln_strbuf_clear(&choice->text);
    ln_strbuf_clear(&choice->token_ids);
    for (size_t i = 0; i < LN_LOGPROBS_COLUMNS; i++)
        ln_strbuf_clear(&choice->logprobs[i]);
    choice->n_logprobs = 0;
}

static void end(ln_answer_writer *writer, ln_choice *choices, size_t n_choices,
                const ln_api_error *error, ln_strbuf *out) {
    (void)choices, (void)n_choices;
    if (error->status != 0) {
        ln_strbuf_puts(out, "data: ");
        ln_reply_put_error(out, error);
        ln_strbuf_puts(out, "\n\n");
    }
    if (writer->request->includes_usage) {
        ln_strbuf_append(out, writer->head.data, writer->head.len);
        ln_strbuf_puts(out, "],");
        put_usage(writer->usage, writer->usage->n_output_tokens, out);
        ln_strbuf_puts(out, "}\n\n");
    }
    ln_strbuf_puts(out, "data: [DONE]\n\n");
}

static void put_choice(const ln_answer_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    bool is_chat = writer->request->kind == LN_API_CHAT;
    ln_strbuf_printf(out, "{\"index\":%u,", choice->index);
    ln_strbuf_puts(out, is_chat ? "\"message\":{" : "\"text\":");
    if (is_chat)
        put_message(writer, choice, out);
    else
        ln_json_put_string(out, choice->text.data, choice->text.len);
    if (is_chat)
        ln_strbuf_putc(out, '}');
    put_end(writer, choice, out);
    ln_strbuf_putc(out, '}');
}

static void put_whole(ln_answer_writer *writer, const ln_choice *choices, size_t n_choices,
                      ln_strbuf *out) {
    bool is_chat = writer->request->kind == LN_API_CHAT;
    put_head(writer, is_chat ? "chat.completion" : "text_completion", out);
    for (size_t i = 0; i < n_choices; i++) {
        if (i > 0)
            ln_strbuf_putc(out, ',');
        put_choice(writer, &choices[i], out);
    }
    ln_strbuf_putc(out, ']');
    if (is_chat && writer->request->returns_ids)
        put_prompt_ids(choices->prompt, out);
    if (is_chat)
        put_prompt_logprobs(choices, out);
    ln_strbuf_putc(out, ',');
    put_usage(writer->usage, writer->usage->n_output_tokens, out);
    ln_strbuf_putc(out, '}');
}

const ln_answer_format ln_openai_chat_format = {.id_prefix = "chatcmpl-",
                                                .media_type = "text/event-stream",
                                                .begin = begin,
                                                .chunk = put_chunk,
                                                .end = end,
                                                .whole = put_whole};

const ln_answer_format ln_openai_completion_format = {.id_prefix = "cmpl-",
                                                      .media_type = "text/event-stream",
                                                      .begin = begin,
                                                      .chunk = put_chunk,
                                                      .end = end,
                                                      .whole = put_whole};
