/* Values that are elements themselves, each tag behind the syntax's mark: <KEY>VALUE</KEY> makes an
 * object of them, <item>VALUE</item> a list. */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "text/chat/calls/forms.h"
#include "text/chat/calls/literal.h"

enum { MAX_DEPTH = 32 };

typedef struct nested {
    const ln_call_reader *reader;
    const char *mark;
    size_t n_mark;
    ln_strbuf path; /* keys down to the value, with line breaks between them */
    int depth;
    ln_strbuf *json;
} nested;

typedef struct element {
    const char *name, *value, *end; /* the value ends there */
    size_t n_name;
    const char *after;
} element;

static const char *skip_space(const char *at, const char *end) {
    while (at < end && ln_calls_is_space(*at))
        at++;
    return at;
}

/* Whether the tag at `at`, behind a mark, is <NAME>, or </NAME>. */
static bool is_tag(const element *e, const char *at, const char *end, bool closes) {
    size_t n_open = closes ? 2 : 1, n_bytes = n_open + e->n_name + 1;
    return (size_t)(end - at) >= n_bytes && memcmp(at, "</", n_open) == 0 &&
           memcmp(at + n_open, e->name, e->n_name) == 0 && at[n_bytes - 1] == '>';
}

/* The element that the text begins with, up to the tag that closes it. */
static bool find_element(const nested *v, const char *at, const char *end, element *e) {
    size_t depth = 1;
    if ((size_t)(end - at) < v->n_mark + 3 || memcmp(at, v->mark, v->n_mark) != 0 ||
        at[v->n_mark] != '<')
        return false;
    e->name = at + v->n_mark + 1;
    const char *close = memchr(e->name, '>', (size_t)(end - e->name));
    if (close == NULL || close == e->name || *e->name == '/' || close - e->name > LN_CALLS_MAX_NAME)
        return false;
    e->n_name = (size_t)(close - e->name);
    e->value = close + 1;
    for (at = e->value; (at = memmem(at, (size_t)(end - at), v->mark, v->n_mark)) != NULL;) {
        e->end = at;
        at += v->n_mark;
        if (is_tag(e, at, end, false))
            depth++;
        else if (is_tag(e, at, end, true) && --depth == 0) {
            e->after = at + e->n_name + 3;
            return true;
        }
    }
    return false;
}

static bool put(nested *v, ln_parameter_type type, const char *at, const char *end);

/* The value behind its key, whose type the schema has at the path. */
static bool put_member(nested *v, const element *e) {
    const ln_call_reader *r = v->reader;
    ln_parameter_type type = LN_PARAMETER_UNKNOWN;
    size_t n_path = v->path.len;
    ln_strbuf_putc(&v->path, '\n');
    if (!ln_strbuf_append(&v->path, e->name, e->n_name))
        return false;
    if (r->sink.type_of != NULL)
        type = r->sink.type_of(r->sink.user, r->name.data, v->path.data);
    bool done = put(v, type, e->value, e->end);
    v->path.len = n_path;
    v->path.data[n_path] = '\0';
    return done;
}

static bool are_alike(const element *a, const element *b) {
    return a->n_name == b->n_name && memcmp(a->name, b->name, a->n_name) == 0;
}

/* A member of an object; what has its name comes with it, as a list, unless there is too much to
 * compare. */
static bool put_named(nested *v, const element *all, size_t n, size_t index) {
    enum { MAX_COMPARED = 256 };
    const element *e = &all[index];
    size_t n_alike = 1;
    for (size_t i = 0; i < index && n <= MAX_COMPARED; i++)
        if (are_alike(&all[i], e))
            return true; /* it was a member of that */
    if (index > 0)
        ln_strbuf_puts(v->json, ", ");
    ln_literal_put_string(v->json, e->name, e->n_name);
    ln_strbuf_puts(v->json, ": ");
    for (size_t i = index + 1; i < n && n <= MAX_COMPARED; i++)
        n_alike += are_alike(&all[i], e);
    if (n_alike == 1)
        return put_member(v, e);
    for (size_t i = index, n_put = 0; i < n; i++) {
        if (!are_alike(&all[i], e))
            continue;
        ln_strbuf_puts(v->json, n_put++ == 0 ? "[" : ", ");
        if (!put_member(v, &all[i]))
            return false;
    }
    return ln_strbuf_putc(v->json, ']');
}

static bool put_list(nested *v, const element *all, size_t n) {
    ln_strbuf_putc(v->json, '[');
    for (size_t i = 0; i < n; i++) {
        ln_strbuf_puts(v->json, i > 0 ? ", " : "");
        if (!put_member(v, &all[i]))
            return false;
    }
    return ln_strbuf_putc(v->json, ']');
}

static bool put_object(nested *v, const element *all, size_t n) {
    ln_strbuf_putc(v->json, '{');
    for (size_t i = 0; i < n; i++)
        if (!put_named(v, all, n, i))
            return false;
    return ln_strbuf_putc(v->json, '}');
}

/* All elements of a value. */
static bool put_elements(nested *v, bool is_list, const char *at, const char *end) {
    element *all = NULL;
    size_t n = 0, capacity = 0;
    bool done = true;
    for (at = skip_space(at, end); at < end && done; at = skip_space(all[n - 1].after, end)) {
        done = ln_grow((void **)&all, &capacity, n + 1, sizeof *all) &&
               find_element(v, at, end, &all[n]);
        if (!done)
            break;
        n++;
    }
    done = done && (is_list ? put_list(v, all, n) : put_object(v, all, n));
    free(all);
    return done;
}

/* Elements, where the type is not text and there are such; else the value as it stands. */
static bool put(nested *v, ln_parameter_type type, const char *at, const char *end) {
    element first;
    size_t before = v->json->len;
    const char *begin = skip_space(at, end);
    if ((type & LN_PARAMETER_TEXT) == 0 && v->depth < MAX_DEPTH &&
        find_element(v, begin, end, &first)) {
        bool is_item = first.n_name == 4 && memcmp(first.name, "item", 4) == 0;
        bool may_be_list = type == LN_PARAMETER_UNKNOWN || (type & LN_PARAMETER_ARRAY) != 0;
        v->depth++;
        bool done = put_elements(v, is_item && may_be_list, at, end);
        v->depth--;
        if (done)
            return true;
        v->json->len = before;
    }
    ln_calls_put_value(type, at, (size_t)(end - at), v->json);
    return !v->json->failed;
}

void ln_nested_value_put(const ln_call_reader *reader, ln_parameter_type type, const char *text,
                         size_t n_bytes, ln_strbuf *json) {
    nested v = {.reader = reader, .mark = reader->syntax->mark, .json = json};
    v.n_mark = strlen(v.mark);
    ln_strbuf_init(&v.path);
    ln_strbuf_append(&v.path, reader->key.data, reader->key.len);
    put(&v, type, text, text + n_bytes);
    json->failed |= v.path.failed;
    ln_strbuf_free(&v.path);
}
