/* Calls that are objects of JSON: one, several behind each other, or a list. */
#include <jansson.h>
#include <string.h>

#include "base/json/load.h"
#include "text/chat/calls/forms.h"

enum {
    BETWEEN, /* objects, or before the first */
    BEFORE_KEY,
    IN_KEY,
    BEFORE_COLON,
    BEFORE_VALUE,
    IN_VALUE,
    IN_NAME,
    IN_ARGUMENTS,
    AFTER_VALUE
};

static void begin_object(ln_call_reader *r) {
    r->state = BEFORE_KEY;
    r->has_name = r->has_arguments = r->is_text = r->is_open = false;
    r->in_string = r->is_escaped = false;
    r->depth = 0;
    ln_strbuf_clear(&r->word);
    ln_strbuf_clear(&r->name);
    ln_strbuf_clear(&r->arguments);
}

static void announce(ln_call_reader *r) {
    r->is_open = true;
    ln_calls_announce(r);
}

/* The text of a JSON string, to `out`. */
static bool decode_string(const ln_strbuf *json, ln_strbuf *out) {
    json_t *value = ln_json_load_bytes(json->data, json->len, JSON_DECODE_ANY, NULL);
    bool is_string = json_is_string(value);
    ln_strbuf_clear(out);
    if (is_string)
        ln_strbuf_append(out, json_string_value(value), json_string_length(value));
    json_decref(value);
    return is_string;
}

/* Bytes of the arguments: handed on, or kept until the name is known. Arguments that are a string
 * are the JSON in it, known when it ends. */
static void give_arguments(ln_call_reader *r, char byte) {
    if (r->is_open && !r->is_text)
        r->sink.on_arguments(r->sink.user, &byte, 1);
    else
        ln_strbuf_putc(&r->arguments, byte);
}

static void end_arguments(ln_call_reader *r) {
    ln_strbuf text;
    r->has_arguments = true;
    if (r->is_text) {
        ln_strbuf_init(&text);
        if (decode_string(&r->arguments, &text)) {
            ln_strbuf_clear(&r->arguments);
            ln_strbuf_append(&r->arguments, text.data, text.len);
        }
        r->arguments.failed |= text.failed;
        ln_strbuf_free(&text);
        r->is_text = false;
    }
    if (r->has_name && !r->is_open)
        announce(r);
}

static bool is_key(const ln_strbuf *word, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (word->len == strlen(keys[i]) + 2 &&
            memcmp(word->data + 1, keys[i], strlen(keys[i])) == 0)
            return true;
    return false;
}

/* After a key and its colon. */
static void begin_value(ln_call_reader *r, char byte) {
    static const char *const names[] = {"name", "tool_name", "function"};
    static const char *const arguments[] = {"arguments", "parameters"};
    bool is_arguments = is_key(&r->word, arguments, 2);
    r->state = IN_VALUE;
    if (r->syntax->keyed && !r->has_name)
        r->has_name = is_arguments = decode_string(&r->word, &r->name) && r->name.len > 0;
    else if (!r->has_name && byte == '"' && is_key(&r->word, names, 3))
        r->state = IN_NAME;
    if (r->state == IN_VALUE && is_arguments && !r->has_arguments && (byte == '{' || byte == '"'))
        r->state = IN_ARGUMENTS;
    r->is_text = r->state == IN_ARGUMENTS && byte == '"';
    if (r->state == IN_ARGUMENTS && r->has_name && !r->is_text)
        announce(r);
    ln_strbuf_clear(&r->word);
}

static ln_calls_result step_object(ln_call_reader *r, char byte);

static ln_calls_result step_in_value(ln_call_reader *r, char byte) {
    ln_value_end end = ln_calls_step_value(r, byte);
    if (end != LN_VALUE_ENDED) {
        if (r->state == IN_ARGUMENTS)
            give_arguments(r, byte);
        else if (r->state == IN_NAME)
            ln_strbuf_putc(&r->word, byte);
    }
    if (end == LN_VALUE_GOES_ON)
        return r->word.len <= 6 * LN_CALLS_MAX_NAME ? LN_CALLS_GO_ON : ln_calls_stop(r);
    if (r->state == IN_ARGUMENTS)
        end_arguments(r);
    if (r->state == IN_NAME) {
        r->has_name = decode_string(&r->word, &r->name) && r->name.len > 0;
        if (!r->has_name)
            return ln_calls_stop(r);
        if (r->has_arguments)
            announce(r);
    }
    r->state = AFTER_VALUE;
    return end == LN_VALUE_ENDS ? LN_CALLS_GO_ON : step_object(r, byte);
}

/* The } of a call's object. What needs no marker is only a call when it has arguments. */
static ln_calls_result end_object(ln_call_reader *r) {
    if (!r->is_open && r->has_name && !r->syntax->bare) {
        ln_strbuf_clear(&r->arguments);
        ln_strbuf_puts(&r->arguments, "{}");
        announce(r);
    }
    if (!r->is_open)
        return ln_calls_stop(r);
    r->is_open = false;
    r->state = BETWEEN;
    ln_strbuf_clear(&r->word);
    ln_strbuf_clear(&r->held);
    if (r->syntax->once && r->syntax->end == NULL && !r->in_list)
        return LN_CALLS_ENDED;
    return LN_CALLS_GO_ON;
}

static ln_calls_result step_key(ln_call_reader *r, char byte) {
    if (ln_calls_is_space(byte) || byte == ',')
        return LN_CALLS_GO_ON;
    if (byte == '}')
        return end_object(r);
    if (byte != '"')
        return ln_calls_stop(r);
    ln_strbuf_clear(&r->word);
    ln_strbuf_putc(&r->word, byte);
    r->state = IN_KEY;
    return LN_CALLS_GO_ON;
}

/* A byte of the object of a call; its first { came before. */
static ln_calls_result step_object(ln_call_reader *r, char byte) {
    bool fits = true;
    switch (r->state) {
    case BEFORE_KEY: return step_key(r, byte);
    case IN_KEY:
        ln_strbuf_putc(&r->word, byte);
        if (byte == '"')
            r->state = BEFORE_COLON;
        fits = byte != '\\' && r->word.len <= LN_CALLS_MAX_NAME;
        break;
    case BEFORE_COLON:
        if (byte == ':')
            r->state = BEFORE_VALUE;
        fits = byte == ':' || ln_calls_is_space(byte);
        break;
    case BEFORE_VALUE:
        if (ln_calls_is_space(byte))
            break;
        begin_value(r, byte);
        return step_in_value(r, byte);
    case AFTER_VALUE:
        if (byte == '}')
            return end_object(r);
        if (byte == ',')
            r->state = BEFORE_KEY;
        fits = byte == ',' || ln_calls_is_space(byte);
        break;
    default: return step_in_value(r, byte);
    }
    return fits ? LN_CALLS_GO_ON : ln_calls_stop(r);
}

static ln_calls_result end_all(ln_call_reader *r) {
    ln_strbuf_clear(&r->held);
    return LN_CALLS_ENDED;
}

static ln_calls_result step_between(ln_call_reader *r, char byte) {
    const ln_call_syntax *syntax = r->syntax;
    const char *const tags[] = {syntax->end, r->has_called ? syntax->call_end : NULL,
                                r->has_called ? NULL : syntax->call};
    if (r->word.len == 0 && !r->list_is_over) {
        if (byte == '{') {
            begin_object(r);
            return LN_CALLS_GO_ON;
        }
        if (ln_calls_is_space(byte) || ((byte == ',' || byte == ';') && r->n_calls > 0))
            return LN_CALLS_GO_ON;
        if (byte == '[' && !r->in_list && r->n_calls == 0) {
            r->in_list = true;
            return LN_CALLS_GO_ON;
        }
        if (byte == ']' && r->in_list && r->n_calls > 0) {
            r->in_list = false;
            r->list_is_over = true;
            ln_strbuf_clear(&r->held);
            return syntax->end != NULL || syntax->call_end != NULL ? LN_CALLS_GO_ON
                                                                   : LN_CALLS_ENDED;
        }
    }
    int found = ln_calls_match(r, byte, tags, 3);
    if (found == -1 || found == 2)
        return LN_CALLS_GO_ON;
    return r->has_called && (found == 0 || found == 1) ? end_all(r) : ln_calls_stop(r);
}

ln_calls_result ln_json_calls_step(ln_call_reader *r, char byte) {
    ln_calls_result result = r->state == BETWEEN ? step_between(r, byte) : step_object(r, byte);
    if (result != LN_CALLS_GO_ON)
        return result;
    if (r->is_open)
        ln_strbuf_clear(&r->held);
    return r->held.len <= LN_CALLS_MAX_HELD && r->arguments.len <= LN_CALLS_MAX_HELD
               ? LN_CALLS_GO_ON
               : ln_calls_stop(r);
}
