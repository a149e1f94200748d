#include "server/ollama/ollama_writer.h"

#include <time.h>

#include "base/clock.h"
#include "server/json/out.h"
#include "server/json/reply.h"

void ln_ollama_put_time(int64_t seconds, ln_strbuf *out) {
    char text[40];
    time_t time = (time_t)seconds;
    struct tm fields;
    gmtime_r(&time, &fields);
    strftime(text, sizeof text, "\"%Y-%m-%dT%H:%M:%S.000000Z\"", &fields);
    ln_strbuf_puts(out, text);
}

static void put_head(const ln_answer_writer *writer, ln_strbuf *out) {
    ln_strbuf_puts(out, "{\"model\":");
    ln_json_put_text(out, writer->model);
    ln_strbuf_puts(out, ",\"created_at\":");
    ln_ollama_put_time(writer->created_s, out);
}

/* ---- what was said ---------------------------------------------------------------------- */

static void join_parts(const ln_choice *choice, ln_answer_part_kind kind, ln_strbuf *joined) {
    const ln_chat_answer *answer = &choice->answer;
    if (kind == LN_PART_TEXT && choice->text.len > 0) /* of a prompt that is continued */
        ln_strbuf_append(joined, choice->text.data, choice->text.len);
    for (size_t i = answer->n_complete; i < answer->n_parts; i++)
        if (answer->parts[i].kind == kind)
            ln_strbuf_append(joined, ln_answer_part_get_unsent(&answer->parts[i]),
                             ln_answer_part_count_unsent(&answer->parts[i]));
}

/* "NAME": "...", what all parts of a kind have that was not sent. */
static void put_text(const ln_choice *choice, ln_answer_part_kind kind, const char *name,
                     bool is_needed, ln_strbuf *out) {
    ln_strbuf joined;
    ln_strbuf_init(&joined);
    join_parts(choice, kind, &joined);
    if (joined.len > 0 || is_needed) {
        ln_strbuf_puts(out, name);
        ln_json_put_string(out, joined.data != NULL ? joined.data : "", joined.len);
    }
    out->failed |= joined.failed;
    ln_strbuf_free(&joined);
}

/* A call is whole once another part follows it, or all is over. */
static bool is_whole(const ln_choice *choice, size_t index) {
    return index + 1 < choice->answer.n_parts || choice->finish != LINNET_FINISH_NONE;
}

static bool is_call_to_send(const ln_choice *choice, size_t index) {
    const ln_answer_part *part = &choice->answer.parts[index];
    return part->kind == LN_PART_CALL && !part->is_ended && is_whole(choice, index);
}

/* A JSON object on one line, as NDJSON needs it: a line break can only lie between its tokens. */
static void put_on_line(const ln_strbuf *object, ln_strbuf *out) {
    for (size_t i = 0; i < object->len; i++)
        if (object->data[i] != '\n' && object->data[i] != '\r')
            ln_strbuf_putc(out, object->data[i]);
}

/* Arguments that are cut are none. */
static void put_call(const ln_answer_part *call, ln_strbuf *out) {
    ln_strbuf_printf(out, "{\"function\":{\"index\":%zu,\"name\":", call->call);
    ln_json_put_string(out, call->name.data, call->name.len);
    ln_strbuf_puts(out, ",\"arguments\":");
    if (ln_answer_part_has_object(call))
        put_on_line(&call->text, out);
    else
        ln_strbuf_puts(out, "{}");
    ln_strbuf_puts(out, "}}");
}

static size_t put_calls(const ln_choice *choice, ln_strbuf *out) {
    size_t n_put = 0;
    for (size_t i = 0; i < choice->answer.n_parts; i++) {
        if (!is_call_to_send(choice, i))
            continue;
        ln_strbuf_puts(out, n_put++ == 0 ? ",\"tool_calls\":[" : ",");
        put_call(&choice->answer.parts[i], out);
    }
    if (n_put > 0)
        ln_strbuf_putc(out, ']');
    return n_put;
}

/* What was not sent, as the members of an answer. */
static void put_said(const ln_choice *choice, bool is_chat, ln_strbuf *out) {
    if (is_chat) {
        ln_strbuf_puts(out, ",\"message\":{\"role\":\"assistant\"");
        put_text(choice, LN_PART_TEXT, ",\"content\":", true, out);
        put_text(choice, LN_PART_REASONING, ",\"thinking\":", false, out);
        put_calls(choice, out);
        ln_strbuf_putc(out, '}');
    } else {
        put_text(choice, LN_PART_TEXT, ",\"response\":", true, out);
        put_text(choice, LN_PART_REASONING, ",\"thinking\":", false, out);
    }
}

/* Those of tokens that were not sent; with them a chunk may have no text. */
static bool has_logprobs(const ln_answer_writer *writer, const ln_choice *choice) {
    return writer->request->options.logprobs && choice->logprobs[LN_LOGPROBS_TOKENS].len > 0;
}

static void put_logprobs(const ln_answer_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    const ln_strbuf *column = &choice->logprobs[LN_LOGPROBS_TOKENS];
    if (!has_logprobs(writer, choice))
        return;
    ln_strbuf_puts(out, ",\"logprobs\":[");
    ln_strbuf_append(out, column->data, column->len);
    ln_strbuf_putc(out, ']');
}

/* ---- answers ---------------------------------------------------------------------------- */

static void put_done(const ln_answer_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    uint64_t now_ns = ln_clock_ns();
    uint64_t first_ns = writer->first_token_ns > 0 ? writer->first_token_ns : now_ns;
    const ln_usage *usage = writer->usage;
    ln_strbuf_printf(
        out,
        ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%llu,\"load_duration\":0,"
        "\"prompt_eval_count\":%zu,\"prompt_eval_duration\":%llu,\"eval_count\":%zu,"
        "\"eval_duration\":%llu}",
        choice->finish == LINNET_FINISH_LENGTH ? "length" : "stop",
        (unsigned long long)(now_ns - writer->begin_ns), usage->n_prompt_tokens,
        (unsigned long long)(first_ns - writer->begin_ns), usage->n_output_tokens,
        (unsigned long long)(now_ns - first_ns));
}

static bool has_unsent(const ln_choice *choice) {
    const ln_chat_answer *answer = &choice->answer;
    bool found = choice->text.len > 0;
    for (size_t i = answer->n_complete; i < answer->n_parts && !found; i++)
        found = answer->parts[i].kind == LN_PART_CALL
                    ? is_call_to_send(choice, i)
                    : ln_answer_part_count_unsent(&answer->parts[i]) > 0;
    return found;
}

/* Calls stay until they are whole. */
static void note_sent(ln_choice *choice) {
    ln_chat_answer *answer = &choice->answer;
    size_t n_complete = answer->n_complete;
    for (size_t i = n_complete; i < answer->n_parts; i++) {
        ln_answer_part *part = &answer->parts[i];
        if (part->kind == LN_PART_CALL && !is_whole(choice, i))
            break;
        part->is_ended = is_whole(choice, i);
        ln_chat_answer_note_sent(answer, part);
        n_complete = i;
    }
    answer->n_complete = n_complete;
    ln_strbuf_clear(&choice->text);
}

static void put_chunk(const ln_answer_writer *writer, ln_choice *choice, bool is_chat,
                      ln_strbuf *out) {
    choice->is_dirty = false;
    bool is_over = choice->finish != LINNET_FINISH_NONE;
    if (!has_unsent(choice) && !(is_over && has_logprobs(writer, choice)))
        return;
    put_head(writer, out);
    put_said(choice, is_chat, out);
    put_logprobs(writer, choice, out);
    ln_strbuf_clear(&choice->logprobs[LN_LOGPROBS_TOKENS]);
    choice->n_logprobs = 0;
    ln_strbuf_puts(out, ",\"done\":false}\n");
    note_sent(choice);
}

static void put_end(const ln_answer_writer *writer, const ln_choice *choice, bool is_chat,
                    const ln_api_error *error, ln_strbuf *out) {
    if (error->status != 0) {
        ln_reply_put_error_in(LN_DIALECT_OLLAMA, out, error, NULL);
    } else {
        put_head(writer, out);
        ln_strbuf_puts(out, is_chat ? ",\"message\":{\"role\":\"assistant\",\"content\":\"\"}"
                                    : ",\"response\":\"\"");
        put_done(writer, choice, out);
    }
    ln_strbuf_putc(out, '\n');
}

static void put_all(const ln_answer_writer *writer, const ln_choice *choice, bool is_chat,
                    ln_strbuf *out) {
    put_head(writer, out);
    put_said(choice, is_chat, out);
    put_logprobs(writer, choice, out);
    put_done(writer, choice, out);
}

static void chat_chunk(ln_answer_writer *writer, ln_choice *choice, ln_strbuf *out) {
    put_chunk(writer, choice, true, out);
}

static void chat_end(ln_answer_writer *writer, ln_choice *choices, size_t n_choices,
                     const ln_api_error *error, ln_strbuf *out) {
    (void)n_choices; /* one */
    put_end(writer, choices, true, error, out);
}

static void chat_whole(ln_answer_writer *writer, const ln_choice *choices, size_t n_choices,
                       ln_strbuf *out) {
    (void)n_choices;
    put_all(writer, choices, true, out);
}

static void generate_chunk(ln_answer_writer *writer, ln_choice *choice, ln_strbuf *out) {
    put_chunk(writer, choice, false, out);
}

static void generate_end(ln_answer_writer *writer, ln_choice *choices, size_t n_choices,
                         const ln_api_error *error, ln_strbuf *out) {
    (void)n_choices;
    put_end(writer, choices, false, error, out);
}

static void generate_whole(ln_answer_writer *writer, const ln_choice *choices, size_t n_choices,
                           ln_strbuf *out) {
    (void)n_choices;
    put_all(writer, choices, false, out);
}

const ln_answer_format ln_ollama_chat_format = {.id_prefix = "ollama-",
                                                .media_type = "application/x-ndjson",
                                                .chunk = chat_chunk,
                                                .end = chat_end,
                                                .whole = chat_whole};

const ln_answer_format ln_ollama_generate_format = {.id_prefix = "ollama-",
                                                    .media_type = "application/x-ndjson",
                                                    .chunk = generate_chunk,
                                                    .end = generate_end,
                                                    .whole = generate_whole};
