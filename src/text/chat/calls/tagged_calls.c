/* Calls whose name and arguments stand between tags, each argument for itself, as models for code
 * write them. Values become JSON: as they are where they are JSON and the tool does not want text,
 * else as a string. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/load.h"
#include "text/chat/calls/forms.h"
#include "text/chat/calls/literal.h"

/* Where the parser stands. */
enum {
    BEFORE_CALL,  /* a call's tag, or the end */
    IN_NAME,      /* up to name_end */
    BEFORE_KEY,   /* a key's tag, or call_end */
    IN_KEY,       /* up to key_end */
    BEFORE_VALUE, /* a value's tag */
    IN_VALUE      /* up to value_end */
};

/* ---- what is handed on ------------------------------------------------------------------ */

/* The word without white space around it becomes the name of a call. */
static bool begin_call(ln_call_reader *r) {
    const char *text = r->word.data != NULL ? r->word.data : "";
    size_t n_bytes = r->word.len;
    while (n_bytes > 0 && ln_calls_is_space(*text))
        text++, n_bytes--;
    while (n_bytes > 0 && ln_calls_is_space(text[n_bytes - 1]))
        n_bytes--;
    const char *number = r->syntax->number != NULL && n_bytes > 0
                             ? memmem(text, n_bytes, r->syntax->number, strlen(r->syntax->number))
                             : NULL;
    n_bytes = number != NULL ? (size_t)(number - text) : n_bytes;
    if (n_bytes == 0 || memchr(text, '<', n_bytes) != NULL || memchr(text, '{', n_bytes) != NULL)
        return false;
    ln_strbuf_clear(&r->name);
    ln_strbuf_append(&r->name, text, n_bytes);
    ln_strbuf_clear(&r->word);
    r->n_parameters = 0;
    r->is_open = true;
    ln_calls_announce(r);
    ln_calls_give(r, "{");
    return true;
}

/* Text where the tool wants it; else JSON that it may want, or what a language writes for it. */
void ln_calls_put_value(ln_parameter_type type, const char *text, size_t n_bytes, ln_strbuf *json) {
    json_t *value = type == LN_PARAMETER_TEXT
                        ? NULL
                        : ln_json_load_bytes(text, n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool is_json = value != NULL && ln_parameter_may_be(type, value);
    json_decref(value);
    if (is_json) {
        ln_strbuf_append(json, text, n_bytes);
        return;
    }
    bool may_be_list =
        type == LN_PARAMETER_UNKNOWN || (type & (LN_PARAMETER_OBJECT | LN_PARAMETER_ARRAY)) != 0;
    bool looks_like_list = n_bytes > 0 && strchr("[{", *text) != NULL;
    if ((type != LN_PARAMETER_UNKNOWN && (type & LN_PARAMETER_TEXT) == 0) ||
        (may_be_list && looks_like_list)) {
        size_t before = json->len;
        if (ln_literal_convert(text, n_bytes, json))
            return;
        json->len = before;
    }
    ln_literal_put_string(json, text, n_bytes);
}

/* What the tag of a key says of the value's type: `KEY flag true'. */
static ln_parameter_type read_flag(ln_call_reader *r) {
    const char *flag = r->syntax->flag;
    const char *at = r->key.len > 0 ? memmem(r->key.data, r->key.len, flag, strlen(flag)) : NULL;
    if (at == NULL) {
        if (r->key.len > 0 && r->key.data[r->key.len - 1] == '"')
            r->key.data[--r->key.len] = '\0';
        return LN_PARAMETER_UNKNOWN;
    }
    const char *said = r->syntax->flag_text != NULL ? r->syntax->flag_text : "true";
    bool is_text = strncmp(at + strlen(flag), said, strlen(said)) == 0;
    r->key.len = (size_t)(at - r->key.data);
    r->key.data[r->key.len] = '\0';
    return is_text ? LN_PARAMETER_TEXT : LN_PARAMETER_OTHER;
}

static const char cdata_begin[] = "<![CDATA[", cdata_end[] = "]]>";

/* Whether what stands between these marks begins with the first. */
static bool is_cdata(const ln_call_reader *r, const char *text, size_t n_bytes) {
    size_t n_begin = sizeof cdata_begin - 1;
    return r->syntax->cdata && n_bytes >= n_begin && memcmp(text, cdata_begin, n_begin) == 0;
}

/* The word is a value, less the line breaks that the syntax has around it. */
static void give_parameter(ln_call_reader *r) {
    const char *text = r->word.data != NULL ? r->word.data : "";
    size_t n_bytes = r->word.len;
    ln_parameter_type type = LN_PARAMETER_UNKNOWN;
    ln_strbuf json;
    ln_parameter_type said = r->syntax->flag != NULL ? read_flag(r) : type;
    if (r->sink.type_of != NULL && r->name.len > 0 && r->key.len > 0)
        type = r->sink.type_of(r->sink.user, r->name.data, r->key.data);
    type = type == LN_PARAMETER_UNKNOWN ? said : type;
    if (r->syntax->value_line != NULL && n_bytes > 0 && *text == '\n')
        text++, n_bytes--;
    if (r->syntax->value_line != NULL && n_bytes > 0 && text[n_bytes - 1] == '\n')
        n_bytes--;
    if (is_cdata(r, text, n_bytes)) {
        text += sizeof cdata_begin - 1;
        n_bytes -= sizeof cdata_begin - 1;
        size_t n_end = sizeof cdata_end - 1;
        if (n_bytes >= n_end && memcmp(text + n_bytes - n_end, cdata_end, n_end) == 0)
            n_bytes -= n_end;
    }
    ln_strbuf_init(&json);
    if (r->n_parameters++ > 0)
        ln_strbuf_puts(&json, ", ");
    ln_literal_put_string(&json, r->key.data, r->key.len);
    ln_strbuf_puts(&json, ": ");
    if (r->syntax->nested)
        ln_nested_value_put(r, type, text, n_bytes, &json);
    else
        ln_calls_put_value(type, text, n_bytes, &json);
    if (!json.failed)
        ln_calls_give(r, json.data);
    r->word.failed |= json.failed;
    ln_strbuf_free(&json);
    ln_strbuf_clear(&r->word);
    ln_strbuf_clear(&r->held);
}

/* ---- bytes ------------------------------------------------------------------------------ */

static void cut(ln_strbuf *text, const char *end) {
    text->len -= strlen(end);
    text->data[text->len] = '\0';
}

/* What was begun is closed; what is held is no part of it. */
static ln_calls_result stop(ln_call_reader *r, bool in_call) {
    if (r->has_called && in_call)
        ln_calls_give(r, "}");
    return ln_calls_stop(r);
}

static void enter(ln_call_reader *r, int state) {
    ln_strbuf_clear(&r->word);
    r->state = state;
    if (r->has_called)
        ln_strbuf_clear(&r->held);
}

static ln_calls_result end_call(ln_call_reader *r, bool is_last) {
    ln_calls_give(r, "}");
    r->is_open = false;
    enter(r, BEFORE_CALL);
    return is_last ? LN_CALLS_ENDED : LN_CALLS_GO_ON;
}

/* A name ends at its tag, or, where that is missing, where a key or the end begins. */
static ln_calls_result step_name(ln_call_reader *r, char byte) {
    const ln_call_syntax *syntax = r->syntax;
    const char *close = syntax->call_end != NULL ? syntax->call_end : syntax->end;
    if (r->word.len == 0 && ln_calls_is_space(byte))
        return LN_CALLS_GO_ON;
    ln_strbuf_putc(&r->word, byte);
    bool at_key = ln_calls_ends_with(&r->word, syntax->key),
         at_end = ln_calls_ends_with(&r->word, close);
    if (!at_key && !at_end && !ln_calls_ends_with(&r->word, syntax->name_end))
        return r->word.len <= LN_CALLS_MAX_NAME ? LN_CALLS_GO_ON : stop(r, false);
    cut(&r->word, at_key ? syntax->key : at_end ? close : syntax->name_end);
    if (!begin_call(r))
        return stop(r, false);
    if (at_end)
        return end_call(r, close == syntax->end);
    enter(r, at_key ? IN_KEY : BEFORE_KEY);
    return LN_CALLS_GO_ON;
}

static ln_calls_result step_before(ln_call_reader *r, char byte) {
    const ln_call_syntax *syntax = r->syntax;
    bool is_outer = r->state == BEFORE_CALL, has_call_end = syntax->call_end != NULL;
    const char *const tags[] = {is_outer ? syntax->call : syntax->key,
                                is_outer || !has_call_end ? syntax->end : syntax->call_end};
    int found = ln_calls_match(r, byte, tags, 2);
    if (found == -1)
        return LN_CALLS_GO_ON;
    if (found == -2)
        return stop(r, !is_outer);
    if (found == 0) {
        enter(r, is_outer ? IN_NAME : IN_KEY);
        return LN_CALLS_GO_ON;
    }
    if (!is_outer)
        return end_call(r, !has_call_end);
    if (r->has_called)
        enter(r, BEFORE_CALL);
    return stop(r, false);
}

/* A nested key's tag that is the call's last one: they begin alike. */
static bool closes_call(const ln_call_reader *r) {
    const ln_call_syntax *syntax = r->syntax;
    if (!syntax->nested)
        return false;
    const char *rest = syntax->call_end + strlen(syntax->key);
    return r->word.len == strlen(rest) && memcmp(r->word.data, rest, r->word.len) == 0;
}

/* The word is a nested key: notes the tag that ends its value. */
static void expect_close(ln_call_reader *r) {
    ln_strbuf_clear(&r->close);
    ln_strbuf_puts(&r->close, r->syntax->key);
    ln_strbuf_putc(&r->close, '/');
    ln_strbuf_append(&r->close, r->word.data, r->word.len);
    ln_strbuf_puts(&r->close, r->syntax->key_end);
    r->depth = 0;
}

static ln_calls_result step_key(ln_call_reader *r, char byte) {
    ln_strbuf_putc(&r->word, byte);
    if (!ln_calls_ends_with(&r->word, r->syntax->key_end))
        return r->word.len <= LN_CALLS_MAX_NAME ? LN_CALLS_GO_ON : stop(r, true);
    if (closes_call(r))
        return end_call(r, false);
    cut(&r->word, r->syntax->key_end);
    if (r->word.len == 0 || (r->syntax->nested && *r->word.data == '/'))
        return stop(r, true);
    if (r->syntax->nested)
        expect_close(r);
    ln_strbuf_clear(&r->key);
    ln_strbuf_append(&r->key, r->word.data, r->word.len);
    enter(r, r->syntax->value != NULL ? BEFORE_VALUE : IN_VALUE);
    return LN_CALLS_GO_ON;
}

/* The tag that ends a nested value: as many have ended as have begun. */
static const char *nested_ends_with(ln_call_reader *r) {
    char open[LN_CALLS_MAX_NAME + 64];
    size_t n_key = strlen(r->syntax->key);
    if (r->word.data[r->word.len - 1] != '>' || r->close.failed)
        return NULL;
    if (ln_calls_ends_with(&r->word, r->close.data))
        return r->depth-- == 0 ? r->close.data : NULL;
    snprintf(open, sizeof open, "%s%s", r->syntax->key, r->close.data + n_key + 1);
    r->depth += ln_calls_ends_with(&r->word, open);
    return NULL;
}

/* The tag that ends a value: its own, or, where that was forgotten, the next one on a new line. */
static const char *value_ends_with(const ln_call_reader *r) {
    const char *const others[] = {r->syntax->key, r->syntax->call_end};
    if (is_cdata(r, r->word.data, r->word.len) &&
        memmem(r->word.data, r->word.len, cdata_end, sizeof cdata_end - 1) == NULL)
        return NULL;
    if (ln_calls_ends_with(&r->word, r->syntax->value_end))
        return r->syntax->value_end;
    for (size_t i = 0; i < 2 && r->syntax->value_line != NULL; i++) {
        size_t n_bytes = strlen(others[i]);
        if (ln_calls_ends_with(&r->word, others[i]) && r->word.len > n_bytes &&
            r->word.data[r->word.len - n_bytes - 1] == '\n')
            return others[i];
    }
    return NULL;
}

static ln_calls_result step_value(ln_call_reader *r, char byte) {
    if (r->state == BEFORE_VALUE) {
        const char *const tags[] = {r->syntax->value};
        int found = ln_calls_match(r, byte, tags, 1);
        if (found >= 0)
            enter(r, IN_VALUE);
        return found == -2 ? stop(r, true) : LN_CALLS_GO_ON;
    }
    ln_strbuf_putc(&r->word, byte);
    const char *closes = r->word.failed      ? NULL
                         : r->syntax->nested ? nested_ends_with(r)
                                             : value_ends_with(r);
    if (closes == NULL)
        return r->word.len <= LN_CALLS_MAX_VALUE ? LN_CALLS_GO_ON : stop(r, true);
    cut(&r->word, closes);
    give_parameter(r);
    if (closes == r->syntax->call_end)
        return end_call(r, false);
    enter(r, closes == r->syntax->key ? IN_KEY : BEFORE_KEY);
    return LN_CALLS_GO_ON;
}

ln_calls_result ln_tagged_calls_step(ln_call_reader *r, char byte) {
    if (r->state == BEFORE_CALL && r->syntax->call == NULL && r->word.len == 0) {
        if (r->has_called)
            return stop(r, false);
        r->state = IN_NAME;
    }
    switch (r->state) {
    case IN_NAME: return step_name(r, byte);
    case IN_KEY: return step_key(r, byte);
    case BEFORE_VALUE:
    case IN_VALUE: return step_value(r, byte);
    case BEFORE_CALL:
    case BEFORE_KEY:
    default: return step_before(r, byte);
    }
}
