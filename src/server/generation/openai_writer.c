#include "server/generation/openai_writer.h"

#include <string.h>

#include "base/utf8.h"
#include "server/json/out.h"

/* ---- logprobs --------------------------------------------------------------------------- */

/* The bytes of a token in the middle of a text; they may be parts of code points. */
static ln_token_text spell(const ln_openai_writer *writer, int32_t token) {
    if (writer->tokenizer == NULL)
        return (ln_token_text){0};
    ln_token_text text = ln_tokenizer_text(writer->tokenizer, token);
    /* a word's end, which is a space where another word follows */
    while (!ln_tokenizer_joins(writer->tokenizer) && text.n_bytes > 1 &&
           text.data[text.n_bytes - 1] == '\xff')
        text.n_bytes--;
    return text;
}

static void put_chat_token(ln_strbuf *out, const ln_token_text *text, float logprob) {
    ln_strbuf_puts(out, "{\"token\":");
    ln_json_put_string(out, text->data, text->n_bytes);
    ln_strbuf_puts(out, ",\"logprob\":");
    ln_json_put_number(out, (double)logprob);
    ln_strbuf_puts(out, ",\"bytes\":");
    ln_json_put_bytes(out, text->data, text->n_bytes);
}

static void put_chat_logprob(const ln_openai_writer *writer, ln_strbuf *out,
                             const ln_token_text *text, float logprob, const linnet_logprob *top,
                             size_t n_top) {
    put_chat_token(out, text, logprob);
    ln_strbuf_puts(out, ",\"top_logprobs\":[");
    for (size_t i = 0; i < n_top; i++) {
        ln_token_text other = spell(writer, top[i].id);
        if (i > 0)
            ln_strbuf_putc(out, ',');
        put_chat_token(out, &other, top[i].logprob);
        ln_strbuf_putc(out, '}');
    }
    ln_strbuf_puts(out, "]}");
}

static size_t count_chars(const char *text, size_t n_bytes) {
    size_t count = 0;
    for (size_t i = 0; i < n_bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* {"text": logprob}: tokens that are spelled alike keep the best one. */
static void put_top(const ln_openai_writer *writer, ln_strbuf *out, const linnet_logprob *top,
                    size_t n_top) {
    bool is_first = true;
    ln_strbuf_putc(out, '{');
    for (size_t i = 0; i < n_top; i++) {
        bool is_known = false;
        ln_token_text text = spell(writer, top[i].id);
        for (size_t j = 0; j < i && !is_known; j++) {
            ln_token_text better = spell(writer, top[j].id);
            is_known = text.n_bytes == better.n_bytes &&
                       (text.n_bytes == 0 || memcmp(text.data, better.data, text.n_bytes) == 0);
        }
        if (is_known)
            continue;
        if (!is_first)
            ln_strbuf_putc(out, ',');
        is_first = false;
        ln_json_put_string(out, text.data, text.n_bytes);
        ln_strbuf_putc(out, ':');
        ln_json_put_number(out, (double)top[i].logprob);
    }
    ln_strbuf_putc(out, '}');
}

/* Returns where a token begins in the choice's text, and advances by the characters that it
 * completes. */
static size_t pass(const ln_openai_writer *writer, ln_choice *choice, int32_t token) {
    size_t begin = choice->offset_chars;
    if (writer->tokenizer == NULL)
        return begin;
    size_t most = ln_tokenizer_max_piece_bytes(writer->tokenizer);
    ln_strbuf_clear(&choice->piece);
    if (ln_strbuf_reserve(&choice->piece, most)) {
        char *text = choice->piece.data;
        choice->offset_chars +=
            count_chars(text, ln_detokenizer_push(&choice->decoder, token, text, most));
    }
    return begin;
}

void ln_openai_writer_begin_prompt(const ln_openai_writer *writer, ln_choice *choice) {
    if (writer->tokenizer != NULL)
        ln_detokenizer_init(&choice->decoder, writer->tokenizer,
                            writer->request->options.keep_special);
}

void ln_openai_writer_begin_output(const ln_openai_writer *writer, ln_choice *choice) {
    const ln_generation_request *request = writer->request;
    const ln_prompt *prompt = choice->prompt;
    ln_openai_writer_begin_prompt(writer, choice);
    for (size_t i = 0; request->options.continues_prompt && i < prompt->n_ids; i++)
        pass(writer, choice, prompt->ids[i]);
    choice->offset_chars = request->echoes ? count_chars(prompt->text, prompt->text_bytes) : 0;
}

void ln_openai_writer_logprob(const ln_openai_writer *writer, ln_choice *choice, int32_t token,
                              bool has_logprob, float logprob, const linnet_logprob *top,
                              size_t n_top) {
    ln_strbuf *columns = choice->logprobs;
    ln_token_text text = spell(writer, token);
    size_t n_columns = writer->request->kind == LN_API_CHAT ? 1 : LN_LOGPROBS_COLUMNS;
    for (size_t i = 0; choice->n_logprobs > 0 && i < n_columns; i++)
        ln_strbuf_putc(&columns[i], ',');
    choice->n_logprobs++;
    if (writer->request->kind == LN_API_CHAT) {
        put_chat_logprob(writer, &columns[LN_LOGPROBS_TOKENS], &text, logprob, top, n_top);
        return;
    }
    ln_json_put_string(&columns[LN_LOGPROBS_TOKENS], text.data, text.n_bytes);
    if (has_logprob)
        ln_json_put_number(&columns[LN_LOGPROBS_CHOSEN], (double)logprob);
    else
        ln_strbuf_puts(&columns[LN_LOGPROBS_CHOSEN], "null");
    if (has_logprob && top != NULL)
        put_top(writer, &columns[LN_LOGPROBS_TOP], top, n_top);
    else
        ln_strbuf_puts(&columns[LN_LOGPROBS_TOP], "null");
    ln_strbuf_printf(&columns[LN_LOGPROBS_OFFSETS], "%zu", pass(writer, choice, token));
}

static void put_column(ln_strbuf *out, const char *name, const ln_strbuf *column) {
    ln_strbuf_printf(out, "\"%s\":[", name);
    ln_strbuf_append(out, column->data != NULL ? column->data : "", column->len);
    ln_strbuf_putc(out, ']');
}

static void put_logprobs(const ln_openai_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    const ln_strbuf *columns = choice->logprobs;
    if (!writer->request->options.logprobs) {
        ln_strbuf_puts(out, "null");
        return;
    }
    ln_strbuf_putc(out, '{');
    if (writer->request->kind == LN_API_CHAT) {
        put_column(out, "content", &columns[LN_LOGPROBS_TOKENS]);
        ln_strbuf_puts(out, ",\"refusal\":null}");
        return;
    }
    put_column(out, "tokens", &columns[LN_LOGPROBS_TOKENS]);
    ln_strbuf_putc(out, ',');
    put_column(out, "token_logprobs", &columns[LN_LOGPROBS_CHOSEN]);
    ln_strbuf_putc(out, ',');
    put_column(out, "top_logprobs", &columns[LN_LOGPROBS_TOP]);
    ln_strbuf_putc(out, ',');
    put_column(out, "text_offset", &columns[LN_LOGPROBS_OFFSETS]);
    ln_strbuf_putc(out, '}');
}

/* ---- answers ---------------------------------------------------------------------------- */

static void put_head(const ln_openai_writer *writer, const char *object, ln_strbuf *out) {
    ln_strbuf_printf(out,
                     "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,"
                     "\"system_fingerprint\":\"linnet-%s\",\"model\":",
                     writer->id, object, (long long)writer->created_s, linnet_version());
    ln_json_put_text(out, writer->model);
    ln_strbuf_puts(out, ",\"choices\":[");
}

static const char *finish_text(linnet_finish finish) {
    switch (finish) {
    case LINNET_FINISH_NONE: return NULL;
    case LINNET_FINISH_LENGTH: return "length";
    case LINNET_FINISH_TIMEOUT: return "timeout";
    case LINNET_FINISH_CANCELLED: return "abort";
    default: return "stop";
    }
}

static const char *choice_finish(const ln_choice *choice) {
    bool is_calls = choice->answer.n_calls > 0 && choice->finish == LINNET_FINISH_STOP;
    return is_calls ? "tool_calls" : finish_text(choice->finish);
}

static void put_end(const ln_openai_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    ln_strbuf_puts(out, ",\"logprobs\":");
    put_logprobs(writer, choice, out);
    ln_strbuf_puts(out, ",\"finish_reason\":");
    ln_json_put_text(out, choice_finish(choice));
}

static void put_usage(const ln_usage *usage, ln_strbuf *out) {
    ln_strbuf_printf(out,
                     "\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,"
                     "\"total_tokens\":%zu,\"prompt_tokens_details\":{\"cached_tokens\":%zu},"
                     "\"completion_tokens_details\":{\"reasoning_tokens\":%zu}}",
                     usage->n_prompt_tokens, usage->n_output_tokens,
                     usage->n_prompt_tokens + usage->n_output_tokens, usage->n_cached_tokens,
                     usage->n_reasoning_tokens);
}

static const char *chunk_name(const ln_openai_writer *writer) {
    return writer->request->kind == LN_API_CHAT ? "chat.completion.chunk" : "text_completion";
}

void ln_openai_writer_init(ln_openai_writer *writer) {
    ln_strbuf_init(&writer->head);
    ln_strbuf_puts(&writer->head, "data: ");
    put_head(writer, chunk_name(writer), &writer->head);
}

/* An event with one choice; `is_role` begins a chat's answer. */
static void put_event(const ln_openai_writer *writer, ln_choice *choice, bool is_role,
                      ln_strbuf *out) {
    bool is_chat = writer->request->kind == LN_API_CHAT;
    ln_strbuf_append(out, writer->head.data, writer->head.len);
    ln_strbuf_printf(out, "{\"index\":%u,", choice->index);
    if (is_role) {
        ln_strbuf_puts(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                            "\"logprobs\":null,\"finish_reason\":null");
    } else {
        ln_strbuf_puts(out, is_chat ? "\"delta\":{" : "\"text\":");
        if (is_chat)
            ln_chat_answer_put_delta(&choice->answer, writer->id, choice->index, out);
        else
            ln_json_put_string(out, choice->text.data, choice->text.len);
        if (is_chat)
            ln_strbuf_putc(out, '}');
        put_end(writer, choice, out);
    }
    ln_strbuf_puts(out, writer->request->includes_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

void ln_openai_writer_chunk(const ln_openai_writer *writer, ln_choice *choice, ln_strbuf *out) {
    if (!choice->has_begun && writer->request->kind == LN_API_CHAT)
        put_event(writer, choice, true, out);
    choice->has_begun = true;
    choice->is_dirty = false;
    if (choice->text.len == 0 && choice->n_logprobs == 0 && choice->finish == LINNET_FINISH_NONE &&
        !ln_chat_answer_is_pending(&choice->answer))
        return;
    put_event(writer, choice, false, out);
    ln_strbuf_clear(&choice->text);
    for (size_t i = 0; i < LN_LOGPROBS_COLUMNS; i++)
        ln_strbuf_clear(&choice->logprobs[i]);
    choice->n_logprobs = 0;
}

void ln_openai_writer_usage_chunk(const ln_openai_writer *writer, const ln_usage *usage,
                                  ln_strbuf *out) {
    ln_strbuf_append(out, writer->head.data, writer->head.len);
    ln_strbuf_puts(out, "],");
    put_usage(usage, out);
    ln_strbuf_puts(out, "}\n\n");
}

static void put_choice(const ln_openai_writer *writer, const ln_choice *choice, ln_strbuf *out) {
    bool is_chat = writer->request->kind == LN_API_CHAT;
    ln_strbuf_printf(out, "{\"index\":%u,", choice->index);
    ln_strbuf_puts(out, is_chat ? "\"message\":{" : "\"text\":");
    if (is_chat)
        ln_chat_answer_put_message(&choice->answer, writer->id, choice->index, out);
    else
        ln_json_put_string(out, choice->text.data, choice->text.len);
    if (is_chat)
        ln_strbuf_putc(out, '}');
    put_end(writer, choice, out);
    ln_strbuf_putc(out, '}');
}

void ln_openai_writer_whole(const ln_openai_writer *writer, const ln_choice *choices,
                            size_t n_choices, const ln_usage *usage, ln_strbuf *out) {
    bool is_chat = writer->request->kind == LN_API_CHAT;
    put_head(writer, is_chat ? "chat.completion" : "text_completion", out);
    for (size_t i = 0; i < n_choices; i++) {
        if (i > 0)
            ln_strbuf_putc(out, ',');
        put_choice(writer, &choices[i], out);
    }
    ln_strbuf_puts(out, "],");
    put_usage(usage, out);
    ln_strbuf_putc(out, '}');
}
