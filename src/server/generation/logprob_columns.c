#include "server/generation/logprob_columns.h"

#include <string.h>

#include "server/json/out.h"

/* The bytes of a token in the middle of a text; they may be parts of code points. */
static ln_token_text spell(const ln_answer_writer *writer, int32_t token) {
    if (writer->tokenizer == NULL)
        return (ln_token_text){0};
    ln_token_text text = ln_tokenizer_text(writer->tokenizer, token);
    /* a word's end, which is a space where another word follows */
    while (!ln_tokenizer_joins(writer->tokenizer) && text.n_bytes > 1 &&
           text.data[text.n_bytes - 1] == '\xff')
        text.n_bytes--;
    return text;
}

/* Whether tokens are named by their ids: that is wanted, or they have no texts. */
static bool names_ids(const ln_answer_writer *writer) {
    return writer->request->names_ids || writer->tokenizer == NULL;
}

/* A token's text or id, as a string. */
static void put_name(const ln_answer_writer *writer, ln_strbuf *out, int32_t token,
                     const ln_token_text *text) {
    if (names_ids(writer))
        ln_strbuf_printf(out, "\"token_id:%d\"", (int)token);
    else
        ln_json_put_string(out, text->data, text->n_bytes);
}

static void put_chat_token(const ln_answer_writer *writer, ln_strbuf *out, int32_t token,
                           float logprob) {
    ln_token_text spelled = spell(writer, token);
    const ln_token_text *text = &spelled;
    ln_strbuf_puts(out, "{\"token\":");
    put_name(writer, out, token, text);
    ln_strbuf_puts(out, ",\"logprob\":");
    ln_json_put_number(out, (double)logprob);
    ln_strbuf_puts(out, ",\"bytes\":");
    ln_json_put_bytes(out, text->data, text->n_bytes);
}

static void put_chat_logprob(const ln_answer_writer *writer, ln_strbuf *out, int32_t token,
                             float logprob, const linnet_logprob *top, size_t n_top) {
    put_chat_token(writer, out, token, logprob);
    ln_strbuf_puts(out, ",\"top_logprobs\":[");
    for (size_t i = 0; i < n_top; i++) {
        if (i > 0)
            ln_strbuf_putc(out, ',');
        put_chat_token(writer, out, top[i].id, top[i].logprob);
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

static bool is_spelled(const ln_token_text *text, const ln_token_text *other) {
    return text->n_bytes == other->n_bytes &&
           (text->n_bytes == 0 || memcmp(text->data, other->data, text->n_bytes) == 0);
}

static void put_pair(const ln_answer_writer *writer, ln_strbuf *out, int32_t token,
                     const ln_token_text *text, float logprob) {
    put_name(writer, out, token, text);
    ln_strbuf_putc(out, ':');
    ln_json_put_number(out, (double)logprob);
}

/* Whether two tokens have one name. */
static bool are_same(const ln_answer_writer *writer, int32_t token, int32_t other) {
    const ln_token_text text = spell(writer, token), other_text = spell(writer, other);
    return names_ids(writer) ? token == other : is_spelled(&text, &other_text);
}

/* {"text": logprob} of the token that came and, behind it, the likeliest ones. Tokens that are
 * spelled alike keep the best one. */
static void put_top(const ln_answer_writer *writer, ln_strbuf *out, const linnet_logprob *top,
                    size_t n_top, int32_t token, float logprob) {
    const ln_token_text chosen = spell(writer, token);
    size_t same = 0;
    while (same < n_top && !are_same(writer, top[same].id, token))
        same++;
    ln_strbuf_putc(out, '{');
    put_pair(writer, out, token, &chosen, same < n_top ? top[same].logprob : logprob);
    for (size_t i = 0; i < n_top; i++) {
        const ln_token_text text = spell(writer, top[i].id);
        bool is_known = are_same(writer, top[i].id, token);
        for (size_t j = 0; j < i && !is_known; j++)
            is_known = are_same(writer, top[i].id, top[j].id);
        if (is_known)
            continue;
        ln_strbuf_putc(out, ',');
        put_pair(writer, out, top[i].id, &text, top[i].logprob);
    }
    ln_strbuf_putc(out, '}');
}

/* Returns where a token begins in the choice's text, and advances by the characters that it
 * completes. */
static size_t pass(const ln_answer_writer *writer, ln_choice *choice, int32_t token) {
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

void ln_logprob_columns_begin_output(const ln_answer_writer *writer, ln_choice *choice) {
    const ln_generation_request *request = writer->request;
    const ln_prompt *prompt = choice->prompt;
    if (writer->tokenizer != NULL)
        ln_detokenizer_init(&choice->decoder, writer->tokenizer, request->options.keep_special);
    for (size_t i = 0; request->options.continues_prompt && i < prompt->n_ids; i++)
        pass(writer, choice, prompt->ids[i]);
    choice->offset_chars = prompt->offsets != NULL ? prompt->offsets[prompt->n_ids] : 0;
}

/* A completion's token, which begins at a character of its text. `has_logprob` false: null. */
static void add_text_token(const ln_answer_writer *writer, ln_choice *choice, int32_t token,
                           bool has_logprob, float logprob, const linnet_logprob *top, size_t n_top,
                           size_t offset) {
    ln_strbuf *columns = choice->logprobs;
    ln_token_text text = spell(writer, token);
    for (size_t i = 0; choice->n_logprobs > 0 && i < LN_LOGPROBS_COLUMNS; i++)
        ln_strbuf_putc(&columns[i], ',');
    choice->n_logprobs++;
    put_name(writer, &columns[LN_LOGPROBS_TOKENS], token, &text);
    if (has_logprob)
        ln_json_put_number(&columns[LN_LOGPROBS_CHOSEN], (double)logprob);
    else
        ln_strbuf_puts(&columns[LN_LOGPROBS_CHOSEN], "null");
    if (has_logprob)
        put_top(writer, &columns[LN_LOGPROBS_TOP], top, n_top, token, logprob);
    else
        ln_strbuf_puts(&columns[LN_LOGPROBS_TOP], "null");
    ln_strbuf_printf(&columns[LN_LOGPROBS_OFFSETS], "%zu", offset);
}

void ln_logprob_columns_add_echo(const ln_answer_writer *writer, ln_choice *choice,
                                 const linnet_event *event) {
    const ln_generation_request *request = writer->request;
    const ln_prompt *prompt = choice->prompt;
    size_t stride = (size_t)request->options.top_logprobs;
    for (size_t i = 0; i < prompt->n_ids && i < event->n_prompt_tokens; i++)
        add_text_token(writer, choice, prompt->ids[i], i > 0, event->prompt_logprobs[i],
                       request->n_top > 0 ? event->prompt_top_logprobs + i * stride : NULL,
                       (size_t)request->n_top, prompt->offsets[i]);
}

void ln_logprob_columns_add(const ln_answer_writer *writer, ln_choice *choice,
                            const linnet_event *event) {
    ln_strbuf *column = &choice->logprobs[LN_LOGPROBS_TOKENS];
    size_t n_top = (size_t)writer->request->n_top;
    if (writer->request->kind != LN_API_CHAT) {
        add_text_token(writer, choice, event->token, true, event->logprob, event->top_logprobs,
                       n_top, pass(writer, choice, event->token));
        return;
    }
    if (choice->n_logprobs++ > 0)
        ln_strbuf_putc(column, ',');
    put_chat_logprob(writer, column, event->token, event->logprob, event->top_logprobs, n_top);
}

/* ---- prompt_logprobs -------------------------------------------------------------------- */

/* "id": {...}; rank 0: not known. */
static void put_ranked(const ln_answer_writer *writer, int32_t token, float logprob, size_t rank,
                       ln_strbuf *out) {
    ln_token_text text = spell(writer, token);
    ln_strbuf_printf(out, "\"%d\":{\"logprob\":", (int)token);
    ln_json_put_number(out, (double)logprob);
    if (rank > 0)
        ln_strbuf_printf(out, ",\"rank\":%zu", rank);
    else
        ln_strbuf_puts(out, ",\"rank\":null");
    ln_strbuf_puts(out, ",\"decoded_token\":");
    ln_json_put_string(out, text.data, text.n_bytes);
    ln_strbuf_putc(out, '}');
}

void ln_logprob_columns_put_prompt(const ln_answer_writer *writer, const ln_prompt *prompt,
                                   const linnet_event *event, ln_strbuf *out) {
    size_t stride = (size_t)writer->request->options.top_logprobs;
    size_t n_top = (size_t)writer->request->n_prompt_top;
    ln_strbuf_puts(out, "[null");
    for (size_t i = 1; i < prompt->n_ids && i < event->n_prompt_tokens; i++) {
        const linnet_logprob *top = stride > 0 ? event->prompt_top_logprobs + i * stride : NULL;
        size_t rank = 0;
        for (size_t j = 0; j < stride && rank == 0; j++)
            rank = top[j].id == prompt->ids[i] ? j + 1 : 0;
        ln_strbuf_puts(out, ",{");
        put_ranked(writer, prompt->ids[i], event->prompt_logprobs[i], rank, out);
        for (size_t j = 0; j < n_top; j++) {
            if (j + 1 == rank)
                continue;
            ln_strbuf_putc(out, ',');
            put_ranked(writer, top[j].id, top[j].logprob, j + 1, out);
        }
        ln_strbuf_putc(out, '}');
    }
    ln_strbuf_putc(out, ']');
}

/* ---- columns ---------------------------------------------------------------------------- */

static void put_column(ln_strbuf *out, const char *name, const ln_strbuf *column) {
    ln_strbuf_printf(out, "\"%s\":[", name);
    ln_strbuf_append(out, column->data != NULL ? column->data : "", column->len);
    ln_strbuf_putc(out, ']');
}

void ln_logprob_columns_put(const ln_answer_writer *writer, const ln_choice *choice,
                            ln_strbuf *out) {
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
