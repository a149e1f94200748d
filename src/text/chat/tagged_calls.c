#include "text/chat/tagged_calls.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 256, MAX_VALUE = 16 << 20 };

/* Where the parser stands. */
enum {
    BEFORE_CALL,  /* a call's tag, or the end */
    IN_NAME,      /* up to name_end */
    BEFORE_KEY,   /* a key's tag, or call_end */
    IN_KEY,       /* up to key_end */
    BEFORE_VALUE, /* a value's tag */
    IN_VALUE      /* up to value_end */
};

/* The most special ones first: a template may show parts of several. */
static const ln_tagged_syntax syntaxes[] = {
    {"minimax", "<minimax:tool_call>", "<invoke name=\"", "\">", "<parameter name=\"", "\">", "",
     "</parameter>", "</invoke>", "</minimax:tool_call>"},
    {"seed_oss", "<seed:tool_call>", "<function=", ">", "<parameter=", ">", "", "</parameter>",
     "</function>", "</seed:tool_call>"},
    {"glm4", "<tool_call>", "", "\n", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "",
     "</tool_call>"},
    {"qwen3_coder", "<tool_call>", "<function=", ">", "<parameter=", ">", "", "</parameter>",
     "</function>", "</tool_call>"},
};

enum { N_SYNTAXES = sizeof syntaxes / sizeof *syntaxes };

static bool contains(const char *text, size_t n_bytes, const char *part) {
    return memmem(text, n_bytes, part, strlen(part)) != NULL;
}

const ln_tagged_syntax *ln_tagged_syntax_detect(const char *chat_template, size_t n_bytes) {
    for (size_t i = 0; i < N_SYNTAXES; i++)
        if (contains(chat_template, n_bytes, syntaxes[i].begin) &&
            contains(chat_template, n_bytes, syntaxes[i].key) &&
            contains(chat_template, n_bytes, syntaxes[i].call))
            return &syntaxes[i];
    return NULL;
}

const ln_tagged_syntax *ln_tagged_syntax_find(const char *name) {
    for (size_t i = 0; i < N_SYNTAXES; i++)
        if (strcmp(syntaxes[i].name, name) == 0)
            return &syntaxes[i];
    return NULL;
}

void ln_tagged_calls_init(ln_tagged_calls *calls, const ln_tagged_syntax *syntax,
                          const ln_tagged_sink *sink) {
    *calls = (ln_tagged_calls){.syntax = syntax, .sink = *sink};
    calls->state = *syntax->call == '\0' ? IN_NAME : BEFORE_CALL;
}

void ln_tagged_calls_free(ln_tagged_calls *calls) {
    ln_strbuf_free(&calls->held);
    ln_strbuf_free(&calls->word);
    ln_strbuf_free(&calls->name);
    ln_strbuf_free(&calls->key);
}

bool ln_tagged_calls_has_failed(const ln_tagged_calls *calls) {
    return calls->held.failed || calls->word.failed || calls->name.failed || calls->key.failed;
}

static bool is_space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* ---- what is handed on ------------------------------------------------------------------ */

static void give(ln_tagged_calls *calls, const char *json) {
    calls->sink.on_arguments(calls->sink.user, json, strlen(json));
}

/* The word without white space around it becomes the name of a call. */
static bool begin_call(ln_tagged_calls *calls) {
    const char *text = calls->word.data != NULL ? calls->word.data : "";
    size_t n_bytes = calls->word.len;
    while (n_bytes > 0 && is_space(*text))
        text++, n_bytes--;
    while (n_bytes > 0 && is_space(text[n_bytes - 1]))
        n_bytes--;
    if (n_bytes == 0 || memchr(text, '<', n_bytes) != NULL || memchr(text, '{', n_bytes) != NULL)
        return false;
    ln_strbuf_clear(&calls->name);
    ln_strbuf_append(&calls->name, text, n_bytes);
    ln_strbuf_clear(&calls->word);
    ln_strbuf_clear(&calls->held);
    calls->n_parameters = 0;
    calls->has_called = true;
    calls->sink.on_call(calls->sink.user, calls->name.data, calls->name.len);
    give(calls, "{");
    return true;
}

/* The value as JSON; NULL: no memory. */
static json_t *read_value(const ln_tagged_calls *calls, const char *text, size_t n_bytes) {
    bool is_text = calls->sink.is_text != NULL &&
                   calls->sink.is_text(calls->sink.user, calls->name.data, calls->key.data);
    json_t *value =
        is_text ? NULL : json_loadb(text, n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return value != NULL ? value : json_stringn(text, n_bytes);
}

static void put_json(ln_tagged_calls *calls, const json_t *value) {
    char *json = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    give(calls, json != NULL ? json : "null");
    free(json);
}

/* The word is a value, less the line breaks that stand around it. */
static void give_parameter(ln_tagged_calls *calls) {
    const char *text = calls->word.data != NULL ? calls->word.data : "";
    size_t n_bytes = calls->word.len;
    if (n_bytes > 0 && *text == '\n')
        text++, n_bytes--;
    if (n_bytes > 0 && text[n_bytes - 1] == '\n')
        n_bytes--;
    json_t *key = json_stringn(calls->key.data, calls->key.len);
    json_t *value = read_value(calls, text, n_bytes);
    if (calls->n_parameters++ > 0)
        give(calls, ", ");
    put_json(calls, key);
    give(calls, ": ");
    put_json(calls, value);
    json_decref(key);
    json_decref(value);
    ln_strbuf_clear(&calls->word);
    ln_strbuf_clear(&calls->held);
}

/* ---- bytes ------------------------------------------------------------------------------ */

static bool ends_with(const ln_strbuf *text, const char *end) {
    size_t n_bytes = strlen(end);
    return n_bytes > 0 && text->len >= n_bytes &&
           memcmp(text->data + text->len - n_bytes, end, n_bytes) == 0;
}

static void cut(ln_strbuf *text, const char *end) {
    text->len -= strlen(end);
    text->data[text->len] = '\0';
}

/* What was begun is closed; what is held is no part of it. */
static ln_tagged_result stop(ln_tagged_calls *calls, bool in_call) {
    if (!calls->has_called)
        return LN_TAGGED_FAILED;
    if (in_call)
        give(calls, "}");
    return LN_TAGGED_ENDED;
}

/* Adds a byte between tags and compares: 0 or 1 for the tag that is whole, -1 while one may come,
 * -2 when none can. */
static int match(ln_tagged_calls *calls, char byte, const char *first, const char *second) {
    const char *const tags[] = {first, second};
    bool may_come = false;
    if (calls->word.len == 0 && is_space(byte))
        return -1;
    ln_strbuf_putc(&calls->word, byte);
    for (int i = 0; i < 2; i++) {
        size_t n_bytes = strlen(tags[i]);
        if (n_bytes < calls->word.len || memcmp(tags[i], calls->word.data, calls->word.len) != 0)
            continue;
        if (n_bytes == calls->word.len)
            return i;
        may_come = true;
    }
    return may_come ? -1 : -2;
}

static void enter(ln_tagged_calls *calls, int state) {
    ln_strbuf_clear(&calls->word);
    calls->state = state;
    if (calls->has_called)
        ln_strbuf_clear(&calls->held);
}

static ln_tagged_result end_call(ln_tagged_calls *calls, bool is_last) {
    give(calls, "}");
    enter(calls, BEFORE_CALL);
    return is_last ? LN_TAGGED_ENDED : LN_TAGGED_GOES_ON;
}

/* A name ends at its tag, or, where that is missing, where a key or the end begins. */
static ln_tagged_result step_name(ln_tagged_calls *calls, char byte) {
    const ln_tagged_syntax *syntax = calls->syntax;
    const char *close = *syntax->call_end != '\0' ? syntax->call_end : syntax->end;
    if (calls->word.len == 0 && is_space(byte))
        return LN_TAGGED_GOES_ON;
    ln_strbuf_putc(&calls->word, byte);
    bool at_key = ends_with(&calls->word, syntax->key), at_end = ends_with(&calls->word, close);
    if (!at_key && !at_end && !ends_with(&calls->word, syntax->name_end))
        return calls->word.len <= MAX_NAME ? LN_TAGGED_GOES_ON : stop(calls, false);
    cut(&calls->word, at_key ? syntax->key : at_end ? close : syntax->name_end);
    if (!begin_call(calls))
        return stop(calls, false);
    if (at_end)
        return end_call(calls, close == syntax->end);
    enter(calls, at_key ? IN_KEY : BEFORE_KEY);
    return LN_TAGGED_GOES_ON;
}

static ln_tagged_result step_before(ln_tagged_calls *calls, char byte) {
    const ln_tagged_syntax *syntax = calls->syntax;
    bool is_outer = calls->state == BEFORE_CALL, has_call_end = *syntax->call_end != '\0';
    const char *close = is_outer || !has_call_end ? syntax->end : syntax->call_end;
    int found = match(calls, byte, is_outer ? syntax->call : syntax->key, close);
    if (found == -1)
        return LN_TAGGED_GOES_ON;
    if (found == -2)
        return stop(calls, !is_outer);
    if (found == 0) {
        enter(calls, is_outer ? IN_NAME : IN_KEY);
        return LN_TAGGED_GOES_ON;
    }
    if (!is_outer)
        return end_call(calls, !has_call_end);
    if (calls->has_called)
        enter(calls, BEFORE_CALL);
    return stop(calls, false);
}

static ln_tagged_result step_key(ln_tagged_calls *calls, char byte) {
    ln_strbuf_putc(&calls->word, byte);
    if (!ends_with(&calls->word, calls->syntax->key_end))
        return calls->word.len <= MAX_NAME ? LN_TAGGED_GOES_ON : stop(calls, true);
    cut(&calls->word, calls->syntax->key_end);
    if (calls->word.len == 0)
        return stop(calls, true);
    ln_strbuf_clear(&calls->key);
    ln_strbuf_append(&calls->key, calls->word.data, calls->word.len);
    enter(calls, *calls->syntax->value != '\0' ? BEFORE_VALUE : IN_VALUE);
    return LN_TAGGED_GOES_ON;
}

static ln_tagged_result step_value(ln_tagged_calls *calls, char byte) {
    if (calls->state == BEFORE_VALUE) {
        int found = match(calls, byte, calls->syntax->value, calls->syntax->value);
        if (found >= 0)
            enter(calls, IN_VALUE);
        return found == -2 ? stop(calls, true) : LN_TAGGED_GOES_ON;
    }
    ln_strbuf_putc(&calls->word, byte);
    if (!ends_with(&calls->word, calls->syntax->value_end))
        return calls->word.len <= MAX_VALUE ? LN_TAGGED_GOES_ON : stop(calls, true);
    cut(&calls->word, calls->syntax->value_end);
    give_parameter(calls);
    enter(calls, BEFORE_KEY);
    return LN_TAGGED_GOES_ON;
}

ln_tagged_result ln_tagged_calls_feed(ln_tagged_calls *calls, char byte) {
    ln_strbuf_putc(&calls->held, byte);
    switch (calls->state) {
    case IN_NAME: return step_name(calls, byte);
    case IN_KEY: return step_key(calls, byte);
    case BEFORE_VALUE:
    case IN_VALUE: return step_value(calls, byte);
    case BEFORE_CALL:
    case BEFORE_KEY:
    default: return step_before(calls, byte);
    }
}
