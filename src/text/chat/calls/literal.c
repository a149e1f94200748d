#include "text/chat/calls/literal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/load.h"

enum { MAX_DEPTH = 64 };

static bool is_space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static void skip_space(ln_literal *l) {
    while (l->at < l->end && is_space(*l->at))
        l->at++;
}

static bool take(ln_literal *l, const char *text) {
    size_t n_bytes = strlen(text);
    if ((size_t)(l->end - l->at) < n_bytes || memcmp(l->at, text, n_bytes) != 0)
        return false;
    l->at += n_bytes;
    return true;
}

void ln_literal_put_string(ln_strbuf *json, const char *text, size_t n_bytes) {
    json_t *value = json_stringn(text, n_bytes);
    char *dumped = value != NULL ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    ln_strbuf_puts(json, dumped != NULL ? dumped : "null"); /* bytes that are no UTF-8 */
    free(dumped);
    json_decref(value);
}

/* ---- texts ------------------------------------------------------------------------------ */

/* So many hexadecimal digits; false: they are none. */
static bool read_hex(ln_literal *l, int n, unsigned long *code) {
    *code = 0;
    for (; n > 0; n--, l->at++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = l->at < l->end && *l->at != '\0' ? strchr(digits, *l->at | 0x20) : NULL;
        if (digit == NULL)
            return false;
        *code = *code << 4 | (unsigned long)(digit - digits);
    }
    return true;
}

/* Behind a backslash. */
static bool read_escape(ln_literal *l, ln_strbuf *text) {
    static const char from[] = "ntrbf0\\'\"/", to[] = "\n\t\r\b\f\0\\'\"/";
    char byte = l->at < l->end ? *l->at++ : '\0';
    const char *known = byte != '\0' ? strchr(from, byte) : NULL;
    unsigned long code, low;
    if (known != NULL)
        return ln_strbuf_putc(text, to[known - from]);
    if (byte == '\n')
        return true;
    if (byte != 'x' && byte != 'u' && byte != 'U') { /* as Python: both stand for themselves */
        ln_strbuf_putc(text, '\\');
        return byte != '\0' && ln_strbuf_putc(text, byte);
    }
    if (!read_hex(l, byte == 'x' ? 2 : byte == 'u' ? 4 : 8, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00 && take(l, "\\u") && read_hex(l, 4, &low))
        code = 0x10000 + ((code - 0xd800) << 10) + ((low - 0xdc00) & 0x3ff);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return false;
    return ln_strbuf_put_utf8(text, (uint32_t)code);
}

/* Between ' or ", or three of them. */
static bool read_string(ln_literal *l) {
    char mark[4] = {*l->at, *l->at, *l->at, '\0'};
    ln_strbuf text;
    bool done = true;
    if (!take(l, mark)) {
        mark[1] = '\0';
        take(l, mark);
    }
    ln_strbuf_init(&text);
    while (done && !take(l, mark)) {
        if (l->at == l->end)
            done = false;
        else if (*l->at != '\\')
            ln_strbuf_putc(&text, *l->at++);
        else
            l->at++, done = read_escape(l, &text);
    }
    if (done)
        ln_literal_put_string(l->json, text.data != NULL ? text.data : "", text.len);
    l->json->failed |= text.failed;
    ln_strbuf_free(&text);
    return done;
}

/* Between Gemma's marks. */
static bool read_quoted(ln_literal *l) {
    const char *close = memmem(l->at, (size_t)(l->end - l->at), l->quote, strlen(l->quote));
    if (close == NULL)
        return false;
    ln_literal_put_string(l->json, l->at, (size_t)(close - l->at));
    l->at = close + strlen(l->quote);
    return true;
}

/* ---- words ------------------------------------------------------------------------------ */

static bool is_number(const char *text, size_t n_bytes) {
    json_t *value =
        ln_json_load_bytes(text, n_bytes, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    bool found = json_is_real(value);
    json_decref(value);
    return found;
}

static bool put_word(ln_literal *l, const char *text, size_t n_bytes) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n_bytes == strlen(words[i][0]) && memcmp(text, words[i][0], n_bytes) == 0)
            return ln_strbuf_puts(l->json, words[i][1]);
    while (n_bytes > 1 && *text == '0' && text[1] >= '0' && text[1] <= '9')
        text++, n_bytes--; /* JSON has no zeros there */
    if (is_number(text, n_bytes))
        return ln_strbuf_append(l->json, text, n_bytes);
    if (l->quote == NULL)
        return false;
    ln_literal_put_string(l->json, text, n_bytes);
    return true;
}

static bool read_word(ln_literal *l, const char *stops) {
    const char *begin = l->at;
    while (l->at < l->end && *l->at != '\0' && strchr(stops, *l->at) == NULL)
        l->at++;
    const char *end = l->at;
    while (end > begin && is_space(end[-1]))
        end--;
    return (end > begin || l->quote != NULL) && put_word(l, begin, (size_t)(end - begin));
}

/* ---- values ----------------------------------------------------------------------------- */

static bool read_key(ln_literal *l) {
    const char *begin = l->at;
    if (l->quote == NULL || *l->at == '"')
        return l->at < l->end && (*l->at == '"' || *l->at == '\'') && read_string(l);
    if (take(l, l->quote))
        return read_quoted(l);
    while (l->at < l->end && *l->at != ':')
        l->at++;
    if (l->at == begin)
        return false;
    ln_literal_put_string(l->json, begin, (size_t)(l->at - begin));
    return true;
}

/* Up to `close`. */
static bool read_members(ln_literal *l, char close, bool has_keys) {
    ln_strbuf_putc(l->json, has_keys ? '{' : '[');
    for (size_t n = 0;; n++) {
        skip_space(l);
        if (l->at < l->end && *l->at == close) {
            l->at++;
            return ln_strbuf_putc(l->json, has_keys ? '}' : ']');
        }
        if (l->at == l->end)
            return false;
        if (n > 0)
            ln_strbuf_puts(l->json, ", ");
        if (has_keys) {
            if (!read_key(l))
                return false;
            skip_space(l);
            if (!take(l, ":"))
                return false;
            ln_strbuf_puts(l->json, ": ");
        }
        if (!ln_literal_read(l))
            return false;
        skip_space(l);
        if (!take(l, ",") && (l->at == l->end || *l->at != close))
            return false;
    }
}

bool ln_literal_read(ln_literal *l) {
    skip_space(l);
    if (l->at == l->end || l->depth == MAX_DEPTH)
        return false;
    if (l->quote != NULL && take(l, l->quote))
        return read_quoted(l);
    char byte = *l->at;
    if (byte == '"' || (byte == '\'' && l->quote == NULL))
        return read_string(l);
    if (byte != '[' && byte != '{' && (byte != '(' || l->quote != NULL))
        return read_word(l, l->quote != NULL ? ",}]" : ",:)]} \n=");
    const char *begin = ++l->at;
    size_t before = l->json->len;
    l->depth++;
    bool done = read_members(l, byte == '[' ? ']' : byte == '{' ? '}' : ')', byte == '{');
    if (!done && byte == '{' && l->quote == NULL && l->depth == 1) { /* perhaps a set of Python's */
        l->at = begin;
        l->json->len = before;
        done = read_members(l, '}', false);
    }
    l->depth--;
    return done;
}

static bool is_name_byte(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_';
}

bool ln_literal_read_arguments(ln_literal *l) {
    ln_strbuf_putc(l->json, '{');
    for (size_t n = 0;; n++) {
        skip_space(l);
        const char *begin = l->at;
        if (l->at == l->end)
            return ln_strbuf_putc(l->json, '}');
        while (l->at < l->end && is_name_byte(*l->at))
            l->at++;
        size_t n_bytes = (size_t)(l->at - begin);
        skip_space(l);
        if (n_bytes == 0 || !take(l, "="))
            return false;
        if (n > 0)
            ln_strbuf_puts(l->json, ", ");
        ln_literal_put_string(l->json, begin, n_bytes);
        ln_strbuf_puts(l->json, ": ");
        if (!ln_literal_read(l))
            return false;
        skip_space(l);
        if (l->at < l->end && !take(l, ","))
            return false;
    }
}

bool ln_literal_convert(const char *text, size_t n_bytes, ln_strbuf *json) {
    ln_literal literal = {text, text + n_bytes, NULL, 0, json};
    if (!ln_literal_read(&literal))
        return false;
    skip_space(&literal);
    return literal.at == literal.end;
}
