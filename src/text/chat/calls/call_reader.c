#include "text/chat/calls/call_reader.h"

#include <string.h>

#include "text/chat/calls/forms.h"

void ln_call_reader_init(ln_call_reader *reader, const ln_call_syntax *syntax,
                         const ln_call_sink *sink) {
    *reader = (ln_call_reader){.syntax = syntax, .sink = *sink, .form = syntax->form};
}

void ln_call_reader_free(ln_call_reader *reader) {
    ln_strbuf_free(&reader->held);
    ln_strbuf_free(&reader->word);
    ln_strbuf_free(&reader->name);
    ln_strbuf_free(&reader->key);
    ln_strbuf_free(&reader->arguments);
    ln_strbuf_free(&reader->close);
}

bool ln_call_reader_has_failed(const ln_call_reader *reader) {
    return reader->held.failed || reader->word.failed || reader->name.failed ||
           reader->key.failed || reader->arguments.failed || reader->close.failed;
}

/* The first byte may show another form than the syntax's own, which models were taught as well. */
static void choose_form(ln_call_reader *r, char byte) {
    bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
    if (r->has_called || r->held.len > 0 || ln_calls_is_space(byte))
        return;
    if (byte == '{' && r->form != LN_CALLS_GEMMA)
        r->form = LN_CALLS_JSON;
    else if (byte == '[' && r->form == LN_CALLS_NAMED && r->syntax->call == NULL)
        r->form = LN_CALLS_JSON;
    else if (is_letter && r->form == LN_CALLS_JSON && r->syntax->name_end != NULL)
        r->form = LN_CALLS_NAMED;
    else if (is_letter && r->form == LN_CALLS_JSON && r->syntax->bare)
        r->form = LN_CALLS_PYTHON; /* a tool that is built in */
}

ln_calls_result ln_call_reader_feed(ln_call_reader *r, char byte) {
    choose_form(r, byte);
    if (r->held.len > 0 || !ln_calls_is_space(byte) || r->has_called)
        ln_strbuf_putc(&r->held, byte);
    switch (r->form) {
    case LN_CALLS_NAMED: return ln_named_calls_step(r, byte);
    case LN_CALLS_TAGGED: return ln_tagged_calls_step(r, byte);
    case LN_CALLS_PYTHON:
    case LN_CALLS_GEMMA: return ln_literal_calls_step(r, byte);
    case LN_CALLS_JSON:
    case LN_CALLS_HARMONY:
    case LN_CALLS_RECIPIENT:
    default: return ln_json_calls_step(r, byte);
    }
}

ln_calls_result ln_call_reader_finish(ln_call_reader *r) {
    const ln_call_syntax *syntax = r->syntax;
    const char *const tags[] = {syntax->end, syntax->call_end, syntax->call};
    if (!r->has_called)
        return LN_CALLS_FAILED;
    const char *text = r->held.data;
    size_t n_bytes = r->held.len;
    while (n_bytes > 0 && ln_calls_is_space(*text))
        text++, n_bytes--;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) /* a tag that is not whole */
        if (tags[i] != NULL && n_bytes <= strlen(tags[i]) && n_bytes > 0 &&
            memcmp(text, tags[i], n_bytes) == 0)
            n_bytes = 0;
    if (n_bytes == 0 || r->is_open)
        ln_strbuf_clear(&r->held);
    return LN_CALLS_ENDED;
}
