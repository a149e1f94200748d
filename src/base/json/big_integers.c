#include "base/json/big_integers.h"

#include <string.h>

typedef struct scan {
    const char *text;
    size_t n_bytes, at, depth;
    const char *key; /* [key_bytes]: the last string; NULL: more than a colon came behind it */
    size_t key_bytes;
    bool is_body;
} scan;

/* Digits [n] that are above a limit, which is the greatest of its length but for larger ones. */
static bool is_above(const char *digits, size_t n, const char *limit) {
    size_t n_limit = strlen(limit);
    return n > n_limit || (n == n_limit && memcmp(digits, limit, n) > 0);
}

static void pass_string(scan *s) {
    size_t begin = ++s->at;
    while (s->at < s->n_bytes && s->text[s->at] != '"')
        s->at += s->text[s->at] == '\\' ? 2 : 1;
    s->at = s->at < s->n_bytes ? s->at : s->n_bytes;
    s->key = s->text + begin;
    s->key_bytes = s->at - begin;
    s->at += s->at < s->n_bytes;
}

static bool is_seed(const scan *s) {
    static const char name[] = "seed";
    return s->is_body && s->depth <= 2 && s->key != NULL && s->key_bytes == sizeof name - 1 &&
           memcmp(s->key, name, s->key_bytes) == 0;
}

static void pass_number(scan *s, ln_strbuf *out) {
    const char *number = s->text + s->at;
    bool is_negative = *number == '-';
    size_t n_left = s->n_bytes - s->at, n = is_negative;
    while (n < n_left && number[n] >= '0' && number[n] <= '9')
        n++;
    size_t n_digits = n - is_negative, n_integer = n;
    while (n < n_left && number[n] != '\0' && strchr("0123456789.eE+-", number[n]) != NULL)
        n++;
    const char *limit = is_negative ? "9223372036854775808" : "9223372036854775807";
    bool is_big = n == n_integer && is_above(number + is_negative, n_digits, limit);
    bool is_kept =
        is_big && !is_negative && is_seed(s) && !is_above(number, n_digits, "18446744073709551615");
    ln_strbuf_puts(out, is_kept ? "\"" : "");
    ln_strbuf_append(out, number, n);
    ln_strbuf_puts(out, is_kept ? "\"" : is_big ? ".0" : "");
    s->at += n;
    s->key = NULL;
}

bool ln_json_rewrite_big_integers(const char *text, size_t n_bytes, bool is_body, ln_strbuf *out) {
    scan s = {.text = text, .n_bytes = n_bytes, .is_body = is_body};
    while (s.at < n_bytes) {
        size_t begin = s.at;
        char c = text[begin];
        if (c == '-' || (c >= '0' && c <= '9')) {
            pass_number(&s, out);
            continue;
        }
        if (c == '"') {
            pass_string(&s);
        } else {
            s.depth += c == '{' || c == '[';
            s.depth -= s.depth > 0 && (c == '}' || c == ']');
            if (c != ':' && c != ' ' && c != '\t' && c != '\r' && c != '\n')
                s.key = NULL;
            s.at++;
        }
        ln_strbuf_append(out, text + begin, s.at - begin);
    }
    return !out->failed;
}
