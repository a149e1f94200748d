/* Any bytes as what a chat model says, fed whole and cut into pieces: the
 * pieces that come, joined, are the same. The first two bytes say in which
 * syntax, and how the model thinks aloud. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat/chat_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct record {
    ln_strbuf text;
    int kind;
} record;

static void keep(void *user, const ln_chat_piece *piece) {
    record *r = user;
    if (piece->n_bytes == 0)
        __builtin_trap();
    if (r->kind != (int)piece->kind || piece->kind == LN_PIECE_CALL)
        ln_strbuf_putc(&r->text, (char)piece->kind);
    ln_strbuf_append(&r->text, piece->text, piece->n_bytes);
    r->kind = (int)piece->kind;
}

static void parse(const uint8_t *data, size_t bytes, size_t step, record *r) {
    ln_chat_text chat;
    linnet_error err = {0};
    *r = (record){.kind = -1};
    static const char *const formats[] = {"think", "harmony",    "command", "gemma",
                                          "muse",  "recipients", "kimi_k3", "minimax_m3"};
    const ln_call_syntax *syntax = ln_call_syntax_at(data[0] & 63); /* NULL behind the last */
    const ln_reasoning_format *format = ln_reasoning_find(formats[bytes > 1 ? data[1] & 7 : 0]);
    ln_chat_text_init(&chat, syntax, (data[0] & 64) != 0 ? format : NULL,
                      (data[0] & 128) != 0 && (data[0] & 64) != 0, keep, r);
    for (size_t at = 1; at < bytes; at += step)
        if (ln_chat_text_feed(&chat, (const char *)data + at, bytes - at < step ? bytes - at : step,
                              &err) != LINNET_OK)
            __builtin_trap();
    if (ln_chat_text_finish(&chat, &err) != LINNET_OK)
        __builtin_trap();
    ln_chat_text_free(&chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes == 0)
        return 0;
    record whole, cut;
    parse(data, bytes, bytes, &whole);
    parse(data, bytes, 1 + data[bytes / 2] % 7, &cut);
    if (whole.text.len != cut.text.len ||
        (cut.text.len > 0 && memcmp(whole.text.data, cut.text.data, cut.text.len) != 0))
        __builtin_trap();
    ln_strbuf_free(&whole.text);
    ln_strbuf_free(&cut.text);
    return 0;
}
