#include "cli/chat/chat_printer.h"

#include <string.h>

#include "cli/output.h"

static const char dim[] = "\033[2m", plain[] = "\033[0m";

static void put(ln_chat_printer *printer, const char *text, size_t n_bytes) {
    if (n_bytes > 0 && printer->is_open)
        printer->is_open = ln_cli_write(text, n_bytes);
}

static void set_dim(ln_chat_printer *printer, bool is_dim) {
    if (printer->is_dim == is_dim)
        return;
    put(printer, is_dim ? dim : plain, sizeof dim - 1);
    if (!is_dim && !printer->ends_line)
        put(printer, "\n", 1); /* what follows a thought begins a line */
    printer->is_dim = is_dim;
}

static void take_piece(void *user, const ln_chat_piece *piece) {
    ln_chat_printer *printer = user;
    set_dim(printer, piece->kind == LN_PIECE_REASONING);
    put(printer, piece->text, piece->n_bytes);
    if (piece->n_bytes > 0)
        printer->ends_line = piece->text[piece->n_bytes - 1] == '\n';
}

/* Bytes of an event's text that are shown: special tokens are not, unless they are markers. */
static size_t count_shown(const ln_chat_printer *printer, const linnet_event *event) {
    if (!printer->shows_markers || event->token < 0 || event->token == printer->marker_ids[0] ||
        event->token == printer->marker_ids[1])
        return event->text_bytes;
    return ln_tokenizer_count_plain(printer->tokenizer, event->token, event->text,
                                    event->text_bytes);
}

static bool take_event(void *user, const linnet_event *event) {
    ln_chat_printer *printer = user;
    size_t n_bytes = count_shown(printer, event);
    ln_strbuf_append(&printer->text, event->text, n_bytes);
    if (!printer->has_colour)
        put(printer, event->text, n_bytes);
    else if (ln_chat_text_feed(&printer->parser, event->text, n_bytes, NULL) != LINNET_OK)
        printer->text.failed = true;
    return printer->is_open;
}

static int32_t find_special(const ln_tokenizer *tokenizer, const char *marker) {
    int32_t id = ln_tokenizer_find(tokenizer, marker, strlen(marker));
    return id >= 0 && ln_tokenizer_is_special(tokenizer, id) ? id : -1;
}

void ln_chat_printer_init(ln_chat_printer *printer, const ln_tokenizer *tokenizer,
                          const char *prompt, bool has_colour) {
    const ln_reasoning_format *format = ln_reasoning_think();
    ln_reasoning reasoning = ln_reasoning_of_prompt(format, prompt, strlen(prompt));
    *printer = (ln_chat_printer){
        .sink = {.take = take_event, .user = printer},
        .tokenizer = tokenizer,
        .marker_ids = {find_special(tokenizer, LN_THINK_BEGIN),
                       find_special(tokenizer, LN_THINK_END)},
        .has_colour = has_colour,
        .is_open = true,
    };
    printer->shows_markers = printer->marker_ids[0] >= 0 || printer->marker_ids[1] >= 0;
    ln_strbuf_init(&printer->text);
    ln_chat_text_init(&printer->parser, NULL, reasoning != LN_REASONING_NONE ? format : NULL,
                      reasoning == LN_REASONING_OPEN, take_piece, printer);
}

void ln_chat_printer_free(ln_chat_printer *printer) {
    ln_chat_text_free(&printer->parser);
    ln_strbuf_free(&printer->text);
}

bool ln_chat_printer_finish(ln_chat_printer *printer) {
    if (printer->has_colour && ln_chat_text_finish(&printer->parser, NULL) != LINNET_OK)
        printer->text.failed = true;
    if (printer->is_dim)
        put(printer, plain, sizeof plain - 1);
    return printer->is_open;
}
