/* Calls whose name stands before arguments in JSON. */
#include <string.h>

#include "text/chat/calls/forms.h"

enum { BEFORE_CALL, IN_HEADER, IN_ARGUMENTS, AFTER_ARGUMENTS };

static void enter(ln_call_reader *r, int state) {
    ln_strbuf_clear(&r->word);
    r->state = state;
}

static const char *find(const char *text, const char *end, const char *part) {
    return part != NULL ? memmem(text, (size_t)(end - text), part, strlen(part)) : NULL;
}

/* A name in its header: `name', `type name_end name line break fence', less what stands around it.
 */
static void take_name(ln_call_reader *r, const char *text, const char *end) {
    const ln_call_syntax *syntax = r->syntax;
    const char *id = find(text, end, syntax->id_end);
    text = id != NULL ? id + strlen(syntax->id_end) : text;
    const char *at = find(text, end, syntax->name_end);
    if (at != NULL && syntax->type != NULL && (size_t)(at - text) == strlen(syntax->type) &&
        memcmp(text, syntax->type, strlen(syntax->type)) == 0)
        text = at + strlen(syntax->name_end);
    else if (at != NULL)
        end = at;
    while (text < end && ln_calls_is_space(*text))
        text++;
    size_t n_bytes = 0;
    while (text + n_bytes < end && strchr("\n[<{`", text[n_bytes]) == NULL)
        n_bytes++;
    size_t n_prefix = syntax->prefix != NULL ? strlen(syntax->prefix) : 0;
    if (n_bytes > n_prefix && n_prefix > 0 && memcmp(text, syntax->prefix, n_prefix) == 0) {
        text += n_prefix;
        n_bytes -= n_prefix;
    }
    const char *colon = syntax->counts ? memrchr(text, ':', n_bytes) : NULL;
    if (colon != NULL)
        n_bytes = (size_t)(colon - text);
    while (n_bytes > 0 && ln_calls_is_space(text[n_bytes - 1]))
        n_bytes--;
    ln_strbuf_clear(&r->name);
    ln_strbuf_append(&r->name, text, n_bytes);
}

static ln_calls_result end_call(ln_call_reader *r) {
    r->is_open = false;
    ln_strbuf_clear(&r->held);
    enter(r, BEFORE_CALL);
    return r->syntax->call != NULL ? LN_CALLS_GO_ON : LN_CALLS_ENDED;
}

/* The header ends where arguments begin, or the call does without any. */
static ln_calls_result step_header(ln_call_reader *r, char byte) {
    bool is_whole = ln_calls_ends_with(&r->word, r->syntax->name_end);
    const char *close = r->syntax->call_end != NULL ? r->syntax->call_end : r->syntax->end;
    if (!ln_strbuf_putc(&r->word, byte))
        return ln_calls_stop(r);
    bool at_end = ln_calls_ends_with(&r->word, close) &&
                  find(r->word.data, r->word.data + r->word.len, r->syntax->name_end) != NULL;
    if (byte != '{' && !at_end && !(is_whole && strchr("[\"", byte) != NULL && r->syntax->call))
        return r->word.len <= 4 * LN_CALLS_MAX_NAME ? LN_CALLS_GO_ON : ln_calls_stop(r);
    size_t n_bytes = r->word.len - (at_end ? strlen(close) : 1);
    take_name(r, r->word.data, r->word.data + n_bytes);
    if (r->name.len == 0)
        return ln_calls_stop(r);
    if (at_end)
        ln_strbuf_puts(&r->arguments, "{}");
    ln_calls_announce(r);
    if (at_end)
        return end_call(r);
    r->is_open = true;
    r->in_string = r->is_escaped = false;
    r->depth = 0;
    enter(r, IN_ARGUMENTS);
    return ln_named_calls_step(r, byte);
}

static ln_calls_result step_before(ln_call_reader *r, char byte) {
    const ln_call_syntax *syntax = r->syntax;
    const char *const tags[] = {syntax->call, syntax->end};
    if (r->word.len == 0 && ln_calls_is_space(byte))
        return LN_CALLS_GO_ON;
    if (syntax->call == NULL) {
        enter(r, IN_HEADER);
        return step_header(r, byte);
    }
    int found = ln_calls_match(r, byte, tags, 2);
    if (found == -1)
        return LN_CALLS_GO_ON;
    if (found == 0) {
        enter(r, IN_HEADER);
        return LN_CALLS_GO_ON;
    }
    if (found == 1 && r->has_called)
        ln_strbuf_clear(&r->held);
    return ln_calls_stop(r);
}

static ln_calls_result step_after(ln_call_reader *r, char byte) {
    const char *const tags[] = {r->syntax->call_end, r->syntax->end};
    if (r->word.len == 0 && (ln_calls_is_space(byte) || byte == '`'))
        return LN_CALLS_GO_ON;
    int found = ln_calls_match(r, byte, tags, 2);
    if (found == -1)
        return LN_CALLS_GO_ON;
    if (found == 0)
        return end_call(r);
    if (found == 1)
        ln_strbuf_clear(&r->held);
    return ln_calls_stop(r);
}

ln_calls_result ln_named_calls_step(ln_call_reader *r, char byte) {
    switch (r->state) {
    case BEFORE_CALL: return step_before(r, byte);
    case IN_HEADER: return step_header(r, byte);
    case IN_ARGUMENTS:
        if (byte == '<' && !r->in_string) { /* arguments that are not whole */
            r->is_open = false;
            enter(r, AFTER_ARGUMENTS);
            return step_after(r, byte);
        }
        r->sink.on_arguments(r->sink.user, &byte, 1);
        ln_strbuf_clear(&r->held);
        if (ln_calls_step_value(r, byte) != LN_VALUE_ENDS)
            return LN_CALLS_GO_ON;
        r->is_open = false;
        if (r->syntax->call_end == NULL && r->syntax->end == NULL)
            return LN_CALLS_ENDED;
        enter(r, AFTER_ARGUMENTS);
        return LN_CALLS_GO_ON;
    case AFTER_ARGUMENTS:
    default: return step_after(r, byte);
    }
}
