#include "text/chat/calls/call_state.h"

#include <string.h>

void ln_calls_announce(ln_call_reader *r) {
    const char *name = r->name.data != NULL ? r->name.data : "";
    r->has_called = true;
    r->n_calls++;
    r->sink.on_call(r->sink.user, name, r->name.len);
    if (r->arguments.len > 0)
        r->sink.on_arguments(r->sink.user, r->arguments.data, r->arguments.len);
    ln_strbuf_clear(&r->arguments);
    ln_strbuf_clear(&r->held);
}

void ln_calls_give(ln_call_reader *r, const char *json) {
    r->sink.on_arguments(r->sink.user, json, strlen(json));
}

ln_calls_result ln_calls_stop(ln_call_reader *r) {
    r->is_open = false;
    return r->has_called ? LN_CALLS_ENDED : LN_CALLS_FAILED;
}

int ln_calls_match(ln_call_reader *r, char byte, const char *const *tags, int n) {
    bool may_come = false;
    if (r->word.len == 0 && ln_calls_is_space(byte))
        return -1;
    ln_strbuf_putc(&r->word, byte);
    for (int i = 0; i < n; i++) {
        size_t n_bytes = tags[i] != NULL ? strlen(tags[i]) : 0;
        if (n_bytes < r->word.len || memcmp(tags[i], r->word.data, r->word.len) != 0)
            continue;
        if (n_bytes == r->word.len) {
            ln_strbuf_clear(&r->word);
            return i;
        }
        may_come = true;
    }
    return may_come ? -1 : -2;
}

ln_value_end ln_calls_step_value(ln_call_reader *r, char byte) {
    if (r->in_string) {
        if (r->is_escaped)
            r->is_escaped = false;
        else if (byte == '\\')
            r->is_escaped = true;
        else if (byte == '"')
            r->in_string = false;
        return !r->in_string && r->depth == 0 ? LN_VALUE_ENDS : LN_VALUE_GOES_ON;
    }
    switch (byte) {
    case '"': r->in_string = true; return LN_VALUE_GOES_ON;
    case '{':
    case '[': r->depth++; return LN_VALUE_GOES_ON;
    case '}':
    case ']':
        if (r->depth == 0)
            return LN_VALUE_ENDED;
        return --r->depth == 0 ? LN_VALUE_ENDS : LN_VALUE_GOES_ON;
    default:
        return r->depth == 0 && (byte == ',' || ln_calls_is_space(byte)) ? LN_VALUE_ENDED
                                                                         : LN_VALUE_GOES_ON;
    }
}

bool ln_calls_ends_with(const ln_strbuf *text, const char *end) {
    size_t n_bytes = end != NULL ? strlen(end) : 0;
    return n_bytes > 0 && text->len >= n_bytes &&
           memcmp(text->data + text->len - n_bytes, end, n_bytes) == 0;
}
