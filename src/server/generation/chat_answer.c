#include "server/generation/chat_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/siphash.h"
#include "server/json/out.h"

/* ---- pieces ----------------------------------------------------------------------------- */

static void begin_call(ln_chat_answer *answer, const ln_chat_piece *piece) {
    if (!ln_grow((void **)&answer->calls, &answer->capacity, answer->n_calls + 1,
                 sizeof *answer->calls)) {
        answer->failed = true;
        return;
    }
    ln_chat_answer_call *call = &answer->calls[answer->n_calls++];
    *call = (ln_chat_answer_call){0};
    ln_strbuf_init(&call->name);
    ln_strbuf_init(&call->arguments);
    ln_strbuf_append(&call->name, piece->text, piece->n_bytes);
}

static void take(void *user, const ln_chat_piece *piece) {
    ln_chat_answer *answer = user;
    bool is_unwanted = answer->request->calls_once && piece->call > 0;
    switch (piece->kind) {
    case LN_PIECE_CONTENT: ln_strbuf_append(answer->content, piece->text, piece->n_bytes); return;
    case LN_PIECE_REASONING:
        ln_strbuf_append(&answer->reasoning, piece->text, piece->n_bytes);
        return;
    case LN_PIECE_CALL:
        if (!is_unwanted)
            begin_call(answer, piece);
        return;
    case LN_PIECE_ARGUMENTS:
        if (!is_unwanted && piece->call < answer->n_calls)
            ln_strbuf_append(&answer->calls[piece->call].arguments, piece->text, piece->n_bytes);
    }
}

void ln_chat_answer_init(ln_chat_answer *answer, const ln_generation_request *request,
                         ln_strbuf *content) {
    *answer = (ln_chat_answer){.content = content, .request = request};
    ln_strbuf_init(&answer->reasoning);
    ln_chat_text_init(&answer->parser, request->syntax, request->reasoning != LN_REASONING_NONE,
                      request->reasoning == LN_REASONING_OPEN, take, answer);
    answer->parser.hides_marker = request->hides_markers;
}

void ln_chat_answer_free(ln_chat_answer *answer) {
    for (size_t i = 0; i < answer->n_calls; i++) {
        ln_strbuf_free(&answer->calls[i].name);
        ln_strbuf_free(&answer->calls[i].arguments);
    }
    free(answer->calls);
    ln_strbuf_free(&answer->reasoning);
    ln_chat_text_free(&answer->parser);
    *answer = (ln_chat_answer){0};
}

void ln_chat_answer_feed(ln_chat_answer *answer, const char *text, size_t n_bytes) {
    answer->failed |= ln_chat_text_feed(&answer->parser, text, n_bytes, NULL) != LINNET_OK;
}

void ln_chat_answer_finish(ln_chat_answer *answer) {
    answer->failed |= ln_chat_text_finish(&answer->parser, NULL) != LINNET_OK;
}

/* ---- JSON ------------------------------------------------------------------------------- */

/* Nine letters and digits, as Mistral's templates ask for; the same each time. */
static void put_call_id(ln_strbuf *out, const char *id, uint32_t choice, size_t index) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    static const uint64_t key[2] = {0x746f6f6c, 0x63616c6c}; /* no secret */
    char text[96];
    int n = snprintf(text, sizeof text, "%s/%u/%zu", id, (unsigned)choice, index);
    uint64_t number = ln_siphash(key, text, (size_t)n);
    for (int i = 0; i < 9; i++, number /= 36)
        ln_strbuf_putc(out, digits[number % 36]);
}

static void put_call(const ln_chat_answer *answer, size_t index, const char *id, uint32_t choice,
                     bool is_delta, ln_strbuf *out) {
    const ln_chat_answer_call *call = &answer->calls[index];
    ln_strbuf_putc(out, '{');
    if (is_delta)
        ln_strbuf_printf(out, "\"index\":%zu,", index);
    if (!call->is_sent) {
        ln_strbuf_puts(out, "\"id\":\"");
        put_call_id(out, id, choice, index);
        ln_strbuf_puts(out, "\",\"type\":\"function\",");
    }
    ln_strbuf_puts(out, "\"function\":{");
    if (!call->is_sent) {
        ln_strbuf_puts(out, "\"name\":");
        ln_json_put_string(out, call->name.data, call->name.len);
        ln_strbuf_putc(out, ',');
    }
    ln_strbuf_puts(out, "\"arguments\":");
    ln_json_put_string(out, call->arguments.data, call->arguments.len);
    ln_strbuf_puts(out, "}}");
}

/* Both names that clients know it by. */
static void put_reasoning(const ln_strbuf *reasoning, ln_strbuf *out) {
    static const char *const names[] = {"\"reasoning_content\":", ",\"reasoning\":"};
    for (size_t i = 0; i < 2; i++) {
        ln_strbuf_puts(out, names[i]);
        if (reasoning->len > 0)
            ln_json_put_string(out, reasoning->data, reasoning->len);
        else
            ln_strbuf_puts(out, "null");
    }
}

void ln_chat_answer_put_message(const ln_chat_answer *answer, const char *id, uint32_t choice,
                                ln_strbuf *out) {
    ln_strbuf_puts(out, "\"role\":\"assistant\",\"content\":");
    if (answer->n_calls > 0 && answer->content->len == 0)
        ln_strbuf_puts(out, "null");
    else
        ln_json_put_string(out, answer->content->data, answer->content->len);
    ln_strbuf_puts(out, ",\"refusal\":null");
    if (answer->request->model_reasons) {
        ln_strbuf_putc(out, ',');
        put_reasoning(&answer->reasoning, out);
    }
    for (size_t i = 0; i < answer->n_calls; i++) {
        ln_strbuf_puts(out, i == 0 ? ",\"tool_calls\":[" : ",");
        put_call(answer, i, id, choice, false, out);
    }
    if (answer->n_calls > 0)
        ln_strbuf_putc(out, ']');
}

static bool is_unsent(const ln_chat_answer_call *call) {
    return !call->is_sent || call->arguments.len > 0;
}

bool ln_chat_answer_is_pending(const ln_chat_answer *answer) {
    bool is_pending = answer->reasoning.len > 0;
    for (size_t i = answer->n_sent; i < answer->n_calls; i++)
        is_pending = is_pending || is_unsent(&answer->calls[i]);
    return is_pending;
}

void ln_chat_answer_put_delta(ln_chat_answer *answer, const char *id, uint32_t choice,
                              ln_strbuf *out) {
    const char *comma = "";
    if (answer->content->len > 0) {
        ln_strbuf_puts(out, "\"content\":");
        ln_json_put_string(out, answer->content->data, answer->content->len);
        comma = ",";
    }
    if (answer->reasoning.len > 0) {
        ln_strbuf_puts(out, comma);
        put_reasoning(&answer->reasoning, out);
        ln_strbuf_clear(&answer->reasoning);
        comma = ",";
    }
    size_t n_put = 0;
    for (size_t i = answer->n_sent; i < answer->n_calls; i++) {
        ln_chat_answer_call *call = &answer->calls[i];
        if (!is_unsent(call))
            continue;
        if (n_put++ == 0)
            ln_strbuf_printf(out, "%s\"tool_calls\":[", comma);
        else
            ln_strbuf_putc(out, ',');
        put_call(answer, i, id, choice, true, out);
        call->is_sent = true;
        ln_strbuf_clear(&call->arguments);
    }
    if (n_put > 0)
        ln_strbuf_putc(out, ']');
    answer->n_sent = answer->n_calls > 0 ? answer->n_calls - 1 : 0; /* the last may go on */
}
