#include "cli/chat/spoken.h"

#include <string.h>

#include "cli/output.h"

static const char dim[] = "\033[2m", plain[] = "\033[0m";

static void put(ln_spoken *spoken, const char *text, size_t n_bytes) {
    if (n_bytes > 0 && spoken->is_open)
        spoken->is_open = ln_cli_write(text, n_bytes);
}

static void set_dim(ln_spoken *spoken, bool is_dim) {
    if (spoken->is_dim == is_dim)
        return;
    put(spoken, is_dim ? dim : plain, sizeof dim - 1);
    if (!is_dim && !spoken->ends_line)
        put(spoken, "\n", 1); /* what follows a thought begins a line */
    spoken->is_dim = is_dim;
}

static void take_piece(void *user, const ln_chat_piece *piece) {
    ln_spoken *spoken = user;
    set_dim(spoken, piece->kind == LN_PIECE_REASONING);
    put(spoken, piece->text, piece->n_bytes);
    if (piece->n_bytes > 0)
        spoken->ends_line = piece->text[piece->n_bytes - 1] == '\n';
}

/* Bytes of an event's text that are shown: special tokens are not, unless they are markers. */
static size_t count_shown(const ln_spoken *spoken, const linnet_event *event) {
    if (!spoken->shows_markers || event->token < 0 || event->token == spoken->marker_ids[0] ||
        event->token == spoken->marker_ids[1])
        return event->text_bytes;
    return ln_tokenizer_count_plain(spoken->tokenizer, event->token, event->text,
                                    event->text_bytes);
}

static bool take_event(void *user, const linnet_event *event) {
    ln_spoken *spoken = user;
    size_t n_bytes = count_shown(spoken, event);
    ln_strbuf_append(&spoken->text, event->text, n_bytes);
    if (!spoken->has_colour)
        put(spoken, event->text, n_bytes);
    else if (ln_chat_text_feed(&spoken->parser, event->text, n_bytes, NULL) != LINNET_OK)
        spoken->text.failed = true;
    return spoken->is_open;
}

static int32_t find_special(const ln_tokenizer *tokenizer, const char *marker) {
    int32_t id = ln_tokenizer_find(tokenizer, marker, strlen(marker));
    return id >= 0 && ln_tokenizer_is_special(tokenizer, id) ? id : -1;
}

void ln_spoken_init(ln_spoken *spoken, const ln_tokenizer *tokenizer, const char *prompt,
                    bool has_colour) {
    ln_reasoning reasoning = ln_prompt_reasoning(prompt, strlen(prompt));
    *spoken = (ln_spoken){
        .sink = {.take = take_event, .user = spoken},
        .tokenizer = tokenizer,
        .marker_ids = {find_special(tokenizer, LN_THINK_BEGIN),
                       find_special(tokenizer, LN_THINK_END)},
        .has_colour = has_colour,
        .is_open = true,
    };
    spoken->shows_markers = spoken->marker_ids[0] >= 0 || spoken->marker_ids[1] >= 0;
    ln_strbuf_init(&spoken->text);
    ln_chat_text_init(&spoken->parser, LN_TOOLS_NONE, reasoning != LN_REASONING_NONE,
                      reasoning == LN_REASONING_OPEN, take_piece, spoken);
}

void ln_spoken_free(ln_spoken *spoken) {
    ln_chat_text_free(&spoken->parser);
    ln_strbuf_free(&spoken->text);
}

bool ln_spoken_finish(ln_spoken *spoken) {
    if (spoken->has_colour && ln_chat_text_finish(&spoken->parser, NULL) != LINNET_OK)
        spoken->text.failed = true;
    if (spoken->is_dim)
        put(spoken, plain, sizeof plain - 1);
    return spoken->is_open;
}
