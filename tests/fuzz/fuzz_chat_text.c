/* Any bytes as what a chat model says, fed whole and cut into pieces: the
 * pieces that come, joined, are the same. The first byte says in which syntax,
 * and a second from 0xfc on that calls may stand between tags.
 */
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
    ln_chat_text_init(&chat, (ln_tool_syntax)(data[0] % 5), (data[0] & 64) != 0,
                      (data[0] & 128) != 0, keep, r);
    static const char *const tagged[] = {"minimax", "seed_oss", "glm4", "qwen3_coder"};
    if (bytes > 1 && data[1] >= 0xfc)
        ln_chat_text_set_tagged(&chat, ln_tagged_syntax_find(tagged[data[1] & 3]), NULL);
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
