#include "server/completions/completion_echo.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "model/model.h"

bool ln_completion_echo_find(const linnet_model *model, const json_t *text, const ln_prompt *prompt,
                             ln_shown_ids *shown, ln_api_error *error) {
    linnet_error err = {0};
    int32_t *ids = NULL;
    size_t n_ids = 0, begin = 0;
    if (linnet_model_encode(model, json_string_value(text), json_string_length(text), false, true,
                            &ids, &n_ids, &err) != LINNET_OK)
        return ln_api_fail_with(error, &err, "prompt");
    while (begin + n_ids <= prompt->n_ids && n_ids > 0 &&
           memcmp(prompt->ids + begin, ids, n_ids * sizeof *ids) != 0)
        begin++;
    linnet_free(ids);
    *shown = begin + n_ids <= prompt->n_ids ? (ln_shown_ids){begin, begin + n_ids}
                                            : (ln_shown_ids){0, prompt->n_ids};
    return true;
}

/* ---- a token's place in the client's text ----------------------------------------------- */

/* How far the tokens have come. */
typedef struct text_place {
    const char *text, *end;
    size_t n_chars; /* ahead of `text`, those that are whole */
} text_place;

static bool is_inside(const char *text, const char *end) { /* of a character */
    return text < end && ((unsigned char)*text & 0xc0) == 0x80;
}

static void skip_byte(text_place *place) {
    place->text++;
    place->n_chars += !is_inside(place->text, place->end);
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Goes on by what tokens are decoded to. That has spaces which the client's text lacks, lacks some
 * that it has, and may have other characters in their place, as a tokenizer normalises texts. */
static void follow(text_place *place, const char *piece, size_t n_bytes) {
    const char *piece_end = piece + n_bytes;
    while (piece < piece_end && place->text < place->end) {
        if (*piece == *place->text) {
            skip_byte(place);
            piece++;
        } else if (is_space(*piece)) {
            piece++;
        } else if (is_space(*place->text)) {
            skip_byte(place);
        } else {
            do
                skip_byte(place);
            while (is_inside(place->text, place->end));
            do
                piece++;
            while (is_inside(piece, piece_end));
        }
    }
}

/* Whether a special token is spelled in the client's text; else it stands for characters that the
 * vocabulary lacks. */
static bool is_spelled(const text_place *place, const char *piece, size_t n_bytes) {
    const char *text = place->text;
    while (text < place->end && is_space(*text))
        text++;
    return n_bytes <= (size_t)(place->end - text) && memcmp(text, piece, n_bytes) == 0;
}

/* Goes on to where a piece is found, behind unknown characters. What is normalised may be found
 * nowhere, or far away by chance: only what is near counts. */
static void find_piece(text_place *place, const char *piece, size_t n_bytes) {
    enum { MAX_UNKNOWN_BYTES = 1024 };
    size_t n_left = (size_t)(place->end - place->text);
    n_left = n_left < MAX_UNKNOWN_BYTES ? n_left : MAX_UNKNOWN_BYTES;
    const char *found = ln_find_text(place->text, n_left, piece, n_bytes);
    while (n_bytes > 1 && is_space(*piece))
        piece++, n_bytes--;
    if (found == NULL)
        found = ln_find_text(place->text, n_left, piece, n_bytes);
    while (found != NULL && place->text < found)
        skip_byte(place);
}

/* ---- texts and offsets ------------------------------------------------------------------ */

/* The text of the ids one after the other, as the output that goes on with them is decoded. */
static bool decode(const ln_tokenizer *tokenizer, const ln_generation_request *request,
                   ln_shown_ids shown, const ln_prompt *prompt, ln_strbuf *text) {
    enum { MAX_HELD = 16 };
    ln_detokenizer decoder;
    if (tokenizer == NULL) /* ids have no text, as those of the output */
        return ln_strbuf_puts(text, "");
    size_t most = ln_tokenizer_max_piece_bytes(tokenizer);
    ln_detokenizer_init(&decoder, tokenizer, request->options.keep_special);
    for (size_t i = shown.begin; i < shown.end && ln_strbuf_reserve(text, most); i++)
        text->len += ln_detokenizer_push(&decoder, prompt->ids[i], text->data + text->len, most);
    bool goes_on = request->options.continues_prompt && !request->drops_output;
    if (!goes_on && ln_strbuf_reserve(text, MAX_HELD))
        text->len += ln_detokenizer_flush(&decoder, text->data + text->len, MAX_HELD);
    return ln_strbuf_puts(text, "");
}

/* Sets where each id begins in the prompt's text. */
static bool locate(const ln_tokenizer *tokenizer, bool keeps_special, ln_shown_ids shown,
                   ln_prompt *prompt) {
    text_place place = {.text = prompt->text, .end = prompt->text + prompt->text_bytes};
    ln_detokenizer decoder;
    ln_strbuf piece;
    prompt->offsets = calloc(prompt->n_ids + 1, sizeof *prompt->offsets);
    if (tokenizer == NULL)
        return prompt->offsets != NULL;
    size_t most = ln_tokenizer_max_piece_bytes(tokenizer);
    ln_strbuf_init(&piece);
    bool done = prompt->offsets != NULL && ln_strbuf_reserve(&piece, most), is_lost = false;
    ln_detokenizer_init(&decoder, tokenizer, keeps_special);
    for (size_t i = 0; done && i < prompt->n_ids; i++) {
        prompt->offsets[i] = place.n_chars;
        if (i < shown.begin || i >= shown.end)
            continue;
        size_t n_bytes = ln_detokenizer_push(&decoder, prompt->ids[i], piece.data, most);
        bool is_special = ln_tokenizer_is_special(tokenizer, prompt->ids[i]);
        if (is_special && !is_spelled(&place, piece.data, n_bytes)) {
            is_lost = true;
            continue;
        }
        if (is_lost && n_bytes > 0)
            find_piece(&place, piece.data, n_bytes);
        prompt->offsets[i] = place.n_chars;
        is_lost = is_lost && n_bytes == 0;
        follow(&place, piece.data, n_bytes);
    }
    while (done && place.text < place.end)
        skip_byte(&place);
    if (done)
        prompt->offsets[prompt->n_ids] = place.n_chars;
    ln_strbuf_free(&piece);
    return done;
}

bool ln_completion_echo_keep(const linnet_model *model, const json_t *text, ln_shown_ids shown,
                             const ln_generation_request *request, ln_prompt *prompt,
                             ln_api_error *error) {
    const ln_tokenizer *tokenizer = model->tokenizer;
    ln_strbuf kept;
    ln_strbuf_init(&kept);
    bool done = text != NULL
                    ? ln_strbuf_append(&kept, json_string_value(text), json_string_length(text))
                    : decode(tokenizer, request, shown, prompt, &kept);
    prompt->text_bytes = kept.len;
    prompt->text = ln_strbuf_take(&kept);
    return (done && prompt->text != NULL &&
            locate(tokenizer, text != NULL || request->options.keep_special, shown, prompt)) ||
           ln_api_fail_memory(error);
}
