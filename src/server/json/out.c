#include "server/json/out.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"

/* Bytes at the start of the text that stand for themselves in a JSON string. */
static size_t count_plain(const char *text, size_t n_bytes) {
    size_t i = 0;
    while (i < n_bytes) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == '"' || c == '\\' || c >= 0x7f)
            break;
        i++;
    }
    return i;
}

static void put_escape(ln_strbuf *out, unsigned char c) {
    static const char letters[] = "btn\0fr";
    if (c == '"' || c == '\\')
        ln_strbuf_printf(out, "\\%c", c);
    else if (c >= 8 && c <= 13 && c != 11)
        ln_strbuf_printf(out, "\\%c", letters[c - 8]);
    else
        ln_strbuf_printf(out, "\\u%04x", c);
}

void ln_json_put_string(ln_strbuf *out, const char *text, size_t n_bytes) {
    ln_strbuf_putc(out, '"');
    while (n_bytes > 0) {
        size_t n = count_plain(text, n_bytes);
        if (n > 0) {
            ln_strbuf_append(out, text, n);
        } else if ((unsigned char)*text < 0x80) {
            put_escape(out, (unsigned char)*text);
            n = 1;
        } else if ((n = ln_utf8_valid(text, n_bytes)) > 0) {
            ln_strbuf_append(out, text, n);
        } else {
            bool cut_short;
            n = ln_utf8_invalid(text, n_bytes, &cut_short);
            ln_strbuf_put_utf8(out, 0xfffd);
        }
        text += n;
        n_bytes -= n;
    }
    ln_strbuf_putc(out, '"');
}

void ln_json_put_text(ln_strbuf *out, const char *text) {
    if (text == NULL)
        ln_strbuf_puts(out, "null");
    else
        ln_json_put_string(out, text, strlen(text));
}

void ln_json_put_bytes(ln_strbuf *out, const char *bytes, size_t n_bytes) {
    ln_strbuf_putc(out, '[');
    for (size_t i = 0; i < n_bytes; i++)
        ln_strbuf_printf(out, "%s%d", i > 0 ? "," : "", (unsigned char)bytes[i]);
    ln_strbuf_putc(out, ']');
}

void ln_json_put_number(ln_strbuf *out, double value) {
    if (isfinite(value))
        ln_strbuf_printf(out, "%.9g", value);
    else
        ln_strbuf_puts(out, "null");
}
