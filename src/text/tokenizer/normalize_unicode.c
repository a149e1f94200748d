/* Unicode normal forms: utf8proc decomposes and composes; the ordering of marks is our own, since
 * a run of marks may be as long as the text. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/grow.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "text/tokenizer/normalize.h"

enum { LONGEST_DECOMPOSITION = 32 };

typedef struct points {
    int32_t *data; /* [capacity] code points */
    size_t count, capacity;
} points;

static bool reserve(points *list, size_t extra) {
    return ln_grow((void **)&list->data, &list->capacity, list->count + extra, sizeof *list->data);
}

static bool decompose(points *list, const char *text, size_t n_bytes, bool compatible) {
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
    if (compatible)
        options |= UTF8PROC_COMPAT;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t c = ln_utf8_decode(text + at, &length);
        if (!reserve(list, LONGEST_DECOMPOSITION))
            return false;
        if (c < 0x80 || ln_is_not_decomposed(c)) {
            list->data[list->count++] = (int32_t)c;
            continue;
        }
        int bound_class = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((int32_t)c, list->data + list->count,
                                                     LONGEST_DECOMPOSITION, options, &bound_class);
        if (n < 0 || n > LONGEST_DECOMPOSITION) {
            list->data[list->count] = (int32_t)c;
            n = 1;
        }
        list->count += (size_t)n;
    }
    return true;
}

static int combining_class(int32_t c) {
    return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class;
}

/* Sorts a run of marks by class, stably: one pass per class would do, but a bottom-up merge sort
 * with keys beside the points needs no table. */
static bool sort_marks(int32_t *run, size_t n) {
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            int32_t c = run[i];
            size_t at = i;
            for (; at > 0 && combining_class(run[at - 1]) > combining_class(c); at--)
                run[at] = run[at - 1];
            run[at] = c;
        }
        return true;
    }
    size_t begins[257] = {0};
    int32_t *sorted = malloc(n * sizeof *sorted);
    if (sorted == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        begins[(combining_class(run[i]) & 255) + 1]++;
    for (size_t i = 0; i < 256; i++)
        begins[i + 1] += begins[i];
    for (size_t i = 0; i < n; i++)
        sorted[begins[combining_class(run[i]) & 255]++] = run[i];
    memcpy(run, sorted, n * sizeof *run);
    free(sorted);
    return true;
}

static bool order_marks(points *list) {
    for (size_t at = 0; at < list->count;) {
        if (combining_class(list->data[at]) == 0) {
            at++;
            continue;
        }
        size_t begin = at;
        while (at < list->count && combining_class(list->data[at]) != 0)
            at++;
        if (at - begin > 1 && !sort_marks(list->data + begin, at - begin))
            return false;
    }
    return true;
}

ln_status ln_normalize_unicode(ln_strbuf *out, const char *text, size_t n_bytes, bool compatible,
                               bool compose, ln_error *err) {
    size_t ascii = 0;
    while (ascii < n_bytes && (unsigned char)text[ascii] < 0x80)
        ascii++;
    if (ascii > 0 && ascii < n_bytes)
        ascii--; /* the last one may take a mark */
    ln_strbuf_append(out, text, ascii);
    points list = {0};
    bool ok = decompose(&list, text + ascii, n_bytes - ascii, compatible) && order_marks(&list);
    if (ok && compose && list.count > 0) {
        utf8proc_ssize_t n = utf8proc_normalize_utf32(list.data, (utf8proc_ssize_t)list.count,
                                                      UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        ok = n >= 0;
        list.count = ok ? (size_t)n : 0;
    }
    ok = ok && ln_strbuf_reserve(out, list.count * 4);
    for (size_t i = 0; ok && i < list.count; i++)
        out->len += ln_utf8_encode((uint32_t)list.data[i], out->data + out->len);
    if (ok)
        out->data[out->len] = '\0';
    free(list.data);
    bool has_memory = (ok && !out->failed) || out->is_full; /* the caller says what is full */
    return has_memory ? LINNET_OK : ln_fail_memory(err, "normalised text");
}
