/* Calls whose arguments are literals: name(key=value), as Python writes them, and call:name{...},
 * as Gemma's templates do. A call is handed on when it is whole, as it may be none until then. */
#include <string.h>

#include "text/chat/calls/forms.h"
#include "text/chat/calls/literal.h"

enum { BETWEEN, IN_NAME, IN_BODY };

static void enter(ln_call_reader *r, int state) {
    ln_strbuf_clear(&r->word);
    r->state = state;
}

static void begin_body(ln_call_reader *r) {
    enter(r, IN_BODY);
    r->depth = 1;
    r->in_string = r->is_escaped = false;
}

static ln_calls_result step_between(ln_call_reader *r, char byte) {
    const char *const tags[] = {r->syntax->end, r->syntax->call};
    bool is_python = r->form == LN_CALLS_PYTHON;
    if (r->word.len == 0) {
        if (ln_calls_is_space(byte) || (byte == ',' && r->n_calls > 0 && !r->list_is_over))
            return LN_CALLS_GO_ON;
        if (is_python && byte == '[' && !r->in_list && r->n_calls == 0) {
            r->in_list = true;
            return LN_CALLS_GO_ON;
        }
        if (byte == ']' && r->in_list && r->n_calls > 0) {
            r->in_list = false;
            r->list_is_over = true;
            ln_strbuf_clear(&r->held);
            return r->syntax->end == NULL ? LN_CALLS_ENDED : LN_CALLS_GO_ON;
        }
        if (is_python && byte == '{' && r->n_calls == 0) { /* models mix the two */
            r->form = LN_CALLS_JSON;
            return ln_json_calls_step(r, byte);
        }
        if (is_python && !r->list_is_over && byte != '<') {
            enter(r, IN_NAME);
            ln_strbuf_putc(&r->word, byte);
            return ln_calls_is_space(byte) || strchr("([{\"'", byte) != NULL ? ln_calls_stop(r)
                                                                             : LN_CALLS_GO_ON;
        }
    }
    int found = ln_calls_match(r, byte, tags, 2);
    if (found == -1)
        return LN_CALLS_GO_ON;
    if (found == 1) {
        enter(r, IN_NAME);
        return LN_CALLS_GO_ON;
    }
    if (found == 0 && r->has_called)
        ln_strbuf_clear(&r->held);
    return ln_calls_stop(r);
}

static bool is_name_byte(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '-' ||
           (unsigned char)byte >= 0x80;
}

/* Llama's tools that are built in are called by a method of theirs. */
static void take_name(ln_call_reader *r) {
    static const char method[] = ".call";
    size_t n_bytes = r->word.len;
    if (r->syntax->form == LN_CALLS_JSON && ln_calls_ends_with(&r->word, method))
        n_bytes -= sizeof method - 1;
    ln_strbuf_clear(&r->name);
    ln_strbuf_append(&r->name, r->word.data, n_bytes);
}

static ln_calls_result step_name(ln_call_reader *r, char byte) {
    if (byte == (r->form == LN_CALLS_PYTHON ? '(' : '{') && r->word.len > 0) {
        take_name(r);
        begin_body(r);
        return LN_CALLS_GO_ON;
    }
    ln_strbuf_putc(&r->word, byte);
    return is_name_byte(byte) && r->word.len <= LN_CALLS_MAX_NAME ? LN_CALLS_GO_ON
                                                                  : ln_calls_stop(r);
}

/* A byte of Python: whether it closes what ( began. */
static bool closes_python(ln_call_reader *r, char byte) {
    if (r->in_string) {
        if (r->is_escaped)
            r->is_escaped = false;
        else if (byte == '\\')
            r->is_escaped = true;
        else if (byte == r->quote)
            r->in_string = false;
    } else if (byte == '"' || byte == '\'') {
        r->in_string = true;
        r->quote = byte;
    } else if (strchr("([{", byte) != NULL) {
        r->depth++;
    } else if (strchr(")]}", byte) != NULL) {
        return --r->depth == 0;
    }
    return false;
}

static bool closes_gemma(ln_call_reader *r, char byte) {
    if (ln_calls_ends_with(&r->word, r->syntax->quote)) {
        r->in_string = !r->in_string;
        return false;
    }
    if (r->in_string)
        return false;
    if (byte == '{' || byte == '[')
        r->depth++;
    else if (byte == '}' || byte == ']')
        return --r->depth == 0;
    return false;
}

static bool read_body(ln_call_reader *r) {
    ln_literal literal = {.quote = r->form == LN_CALLS_GEMMA ? r->syntax->quote : NULL,
                          .json = &r->arguments};
    ln_strbuf_clear(&r->arguments);
    if (r->form == LN_CALLS_PYTHON) {
        literal.at = r->word.data;
        literal.end = r->word.data + r->word.len - 1; /* less the ) */
        return ln_literal_read_arguments(&literal);
    }
    ln_strbuf body;
    ln_strbuf_init(&body);
    ln_strbuf_putc(&body, '{');
    ln_strbuf_append(&body, r->word.data, r->word.len);
    literal.at = body.data;
    literal.end = body.data + body.len;
    bool done = !body.failed && ln_literal_read(&literal);
    r->arguments.failed |= body.failed;
    ln_strbuf_free(&body);
    return done;
}

static ln_calls_result step_body(ln_call_reader *r, char byte) {
    ln_strbuf_putc(&r->word, byte);
    bool is_over = r->form == LN_CALLS_PYTHON ? closes_python(r, byte) : closes_gemma(r, byte);
    if (!is_over)
        return r->word.len <= LN_CALLS_MAX_VALUE ? LN_CALLS_GO_ON : ln_calls_stop(r);
    if (r->word.failed || !read_body(r))
        return ln_calls_stop(r);
    ln_calls_announce(r);
    enter(r, BETWEEN);
    return LN_CALLS_GO_ON;
}

ln_calls_result ln_literal_calls_step(ln_call_reader *r, char byte) {
    switch (r->state) {
    case IN_NAME: return step_name(r, byte);
    case IN_BODY: return step_body(r, byte);
    case BETWEEN:
    default: return step_between(r, byte);
    }
}
