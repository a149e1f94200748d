/* Pieces of a chat's answer as one text: content as it is, <R:reasoning>, <C:name>, <A:arguments>.
 */
#ifndef LN_TESTS_UNIT_TEXT_PIECES_H
#define LN_TESTS_UNIT_TEXT_PIECES_H

#include "text/chat/chat_text.h"

typedef struct record {
    ln_strbuf text;
    int kind;
} record;

static void keep(void *user, const ln_chat_piece *piece) {
    static const char *const opens[] = {"", "<R:", "<C:", "<A:"};
    record *r = user;
    bool is_new = r->kind != (int)piece->kind || piece->kind == LN_PIECE_CALL;
    if (is_new && r->kind > 0)
        ln_strbuf_putc(&r->text, '>');
    if (is_new)
        ln_strbuf_puts(&r->text, opens[piece->kind]);
    ln_strbuf_append(&r->text, piece->text, piece->n_bytes);
    r->kind = (int)piece->kind;
}

#endif
