/* Strings of the template interpreter: views of growing buffers, and what they are made with. */
#include <string.h>

#include "text/jinja/run.h"

/* ---- UTF-8 ------------------------------------------------------------------------------ */

int32_t ln_jinja_decode(const char *bytes, size_t *n_bytes) {
    const unsigned char *b = (const unsigned char *)bytes;
    size_t n = b[0] < 0x80 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    if (n > *n_bytes)
        n = 1;
    *n_bytes = n;
    switch (n) {
    case 1: return b[0];
    case 2: return (b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    case 3: return (b[0] & 0x0f) << 12 | (b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    default: return (b[0] & 0x07) << 18 | (b[1] & 0x3f) << 12 | (b[2] & 0x3f) << 6 | (b[3] & 0x3f);
    }
}

bool ln_jinja_is_space(int32_t c) {
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

bool ln_jinja_is_line_end(int32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

size_t ln_jinja_count_chars(const char *bytes, size_t n_bytes) {
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return n;
}

/* ---- marks ------------------------------------------------------------------------------ */

/* The mark that covers the byte. */
static size_t find_mark(const ln_jinja_buffer *buffer, size_t byte) {
    size_t low = 0, high = buffer->n_marks;
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        if (buffer->marks[middle - 1].end > byte)
            high = middle;
        else
            low = middle;
    }
    return low;
}

bool ln_jinja_trusted_at(const ln_jinja_string *string, size_t byte) {
    const ln_jinja_buffer *buffer = string->buffer;
    if (buffer->n_marks == 0)
        return true;
    return buffer->marks[find_mark(buffer, string->begin + byte)].trusted;
}

bool ln_jinja_string_trusted(const ln_jinja_string *string) {
    const ln_jinja_buffer *buffer = string->buffer;
    size_t end = string->begin + string->n_bytes;
    size_t begin = string->begin;
    for (size_t i = find_mark(buffer, begin); begin < end; i++) {
        if (!buffer->marks[i].trusted)
            return false;
        begin = buffer->marks[i].end;
    }
    return true;
}

/* Marks that the buffer's bytes up to `end` are trusted or not. */
static ln_status mark(ln_jinja_run *run, ln_jinja_buffer *buffer, size_t end, bool trusted) {
    if (buffer->n_marks > 0 && buffer->marks[buffer->n_marks - 1].trusted == trusted) {
        buffer->marks[buffer->n_marks - 1].end = end;
        return LINNET_OK;
    }
    if (buffer->n_marks == buffer->mark_capacity) {
        size_t capacity = buffer->mark_capacity * 2 + 2;
        ln_jinja_mark *marks;
        LN_TRY(ln_jinja_alloc(run, capacity, sizeof *marks, &marks));
        if (buffer->n_marks > 0)
            memcpy(marks, buffer->marks, buffer->n_marks * sizeof *marks);
        buffer->marks = marks;
        buffer->mark_capacity = capacity;
    }
    buffer->marks[buffer->n_marks++] = (ln_jinja_mark){.end = end, .trusted = trusted};
    return LINNET_OK;
}

/* ---- builders --------------------------------------------------------------------------- */

ln_status ln_jinja_builder_init(ln_jinja_run *run, ln_jinja_builder *builder) {
    *builder = (ln_jinja_builder){.run = run};
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *builder->buffer, &builder->buffer));
    builder->buffer->data = builder->buffer->empty;
    return LINNET_OK;
}

static ln_status reserve(ln_jinja_builder *builder, size_t n_bytes) {
    ln_jinja_buffer *buffer = builder->buffer;
    LN_TRY(ln_jinja_spend_bytes(builder->run, n_bytes));
    if (n_bytes > LN_JINJA_MAX_ARENA_BYTES) /* keeps the sum below from wrapping */
        return ln_jinja_alloc(builder->run, n_bytes, 1, &(void *){NULL});
    if (buffer->capacity - buffer->used >= n_bytes)
        return LINNET_OK;
    size_t capacity = buffer->used + n_bytes;
    if (buffer->capacity > 0 && capacity < buffer->capacity * 2)
        capacity = buffer->capacity * 2;
    char *data;
    LN_TRY(ln_jinja_alloc(builder->run, capacity, 1, &data));
    if (buffer->used > 0)
        memcpy(data, buffer->data, buffer->used);
    buffer->data = data;
    buffer->capacity = capacity;
    return LINNET_OK;
}

static ln_status put(ln_jinja_builder *builder, const char *bytes, size_t n_bytes, size_t n_chars,
                     bool trusted) {
    if (n_bytes == 0)
        return LINNET_OK;
    LN_TRY(reserve(builder, n_bytes));
    ln_jinja_buffer *buffer = builder->buffer;
    memcpy(buffer->data + buffer->used, bytes, n_bytes);
    LN_TRY(mark(builder->run, buffer, buffer->used + n_bytes, trusted));
    buffer->used += n_bytes;
    builder->n_chars += n_chars;
    return LINNET_OK;
}

ln_status ln_jinja_put(ln_jinja_builder *builder, const char *bytes, size_t n_bytes, bool trusted) {
    return put(builder, bytes, n_bytes, ln_jinja_count_chars(bytes, n_bytes), trusted);
}

ln_status ln_jinja_puts(ln_jinja_builder *builder, const char *text, bool trusted) {
    return ln_jinja_put(builder, text, strlen(text), trusted);
}

ln_status ln_jinja_put_char(ln_jinja_builder *builder, int32_t c, bool trusted) {
    char bytes[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (n == 1) {
        bytes[0] = (char)c;
    } else {
        for (size_t i = n - 1; i > 0; i--, c >>= 6)
            bytes[i] = (char)(0x80 | (c & 0x3f));
        bytes[0] = (char)(c | (0xf0 << (4 - n)));
    }
    return put(builder, bytes, n, 1, trusted);
}

ln_status ln_jinja_put_part(ln_jinja_builder *builder, const ln_jinja_string *string, size_t begin,
                            size_t end) {
    const ln_jinja_buffer *buffer = string->buffer;
    size_t at = string->begin + begin, stop = string->begin + end;
    bool ascii = string->n_chars == string->n_bytes;
    if (at >= stop)
        return LINNET_OK;
    LN_TRY(reserve(builder, stop - at)); /* the parts then fit: string's own data cannot move */
    for (size_t i = find_mark(buffer, at); at < stop; i++) {
        size_t part = buffer->marks[i].end < stop ? buffer->marks[i].end : stop;
        const char *bytes = buffer->data + at;
        size_t n_chars = ascii ? part - at : ln_jinja_count_chars(bytes, part - at);
        bool trusted = buffer->marks[i].trusted;
        LN_TRY(put(builder, bytes, part - at, n_chars, trusted));
        at = part;
    }
    return LINNET_OK;
}

ln_status ln_jinja_put_string(ln_jinja_builder *builder, const ln_jinja_string *string) {
    return ln_jinja_put_part(builder, string, 0, string->n_bytes);
}

ln_status ln_jinja_put_repeated(ln_jinja_builder *builder, const ln_jinja_string *string,
                                size_t count) {
    size_t total;
    if (string->n_bytes == 0)
        return LINNET_OK;
    if (__builtin_mul_overflow(string->n_bytes, count, &total))
        total = SIZE_MAX;
    LN_TRY(reserve(builder, total));
    for (size_t i = 0; i < count; i++)
        LN_TRY(ln_jinja_put_string(builder, string));
    return LINNET_OK;
}

ln_status ln_jinja_put_spaces(ln_jinja_builder *builder, size_t count) {
    LN_TRY(reserve(builder, count));
    for (; count > 0; count -= count < 32 ? count : 32)
        LN_TRY(put(builder, "                                ", count < 32 ? count : 32,
                   count < 32 ? count : 32, true));
    return LINNET_OK;
}

ln_status ln_jinja_finish(ln_jinja_builder *builder, ln_jinja_value *out) {
    ln_jinja_string *string;
    LN_TRY(ln_jinja_alloc(builder->run, 1, sizeof *string, &string));
    string->buffer = builder->buffer;
    string->begin = builder->begin;
    string->n_bytes = builder->buffer->used - builder->begin;
    string->n_chars = builder->n_chars;
    *out = ln_jinja_of_string(string);
    return LINNET_OK;
}

/* ---- strings ---------------------------------------------------------------------------- */

ln_jinja_string *ln_jinja_string_borrow(ln_arena *arena, const char *bytes, size_t n_bytes,
                                        bool trusted) {
    struct whole {
        ln_jinja_string string;
        ln_jinja_buffer buffer;
    } *whole = ln_arena_alloc(arena, 1, sizeof *whole);
    if (whole == NULL)
        return NULL;
    union {
        const char *in;
        char *out;
    } data = {.in = bytes}; /* frozen: never written */
    whole->buffer = (ln_jinja_buffer){.data = data.out,
                                      .used = n_bytes,
                                      .capacity = n_bytes,
                                      .marks = &whole->buffer.whole,
                                      .n_marks = 1,
                                      .mark_capacity = 1,
                                      .whole = {.end = n_bytes, .trusted = trusted},
                                      .frozen = true};
    whole->string = (ln_jinja_string){.buffer = &whole->buffer,
                                      .n_bytes = n_bytes,
                                      .n_chars = ln_jinja_count_chars(bytes, n_bytes)};
    return &whole->string;
}

ln_status ln_jinja_string_new(ln_jinja_run *run, const char *bytes, size_t n_bytes, bool trusted,
                              ln_jinja_value *out) {
    ln_jinja_builder builder;
    LN_TRY(ln_jinja_builder_init(run, &builder));
    LN_TRY(ln_jinja_put(&builder, bytes, n_bytes, trusted));
    return ln_jinja_finish(&builder, out);
}

ln_status ln_jinja_string_c(ln_jinja_run *run, const char *text, ln_jinja_value *out) {
    return ln_jinja_string_new(run, text, strlen(text), true, out);
}

ln_status ln_jinja_string_part(ln_jinja_run *run, const ln_jinja_string *string, size_t begin,
                               size_t end, ln_jinja_value *out) {
    ln_jinja_string *part;
    bool ascii = string->n_chars == string->n_bytes;
    if (!ascii)
        LN_TRY(ln_jinja_spend_bytes(run, end - begin));
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *part, &part));
    *part = *string;
    part->begin += begin;
    part->n_bytes = end - begin;
    part->n_chars =
        ascii ? part->n_bytes : ln_jinja_count_chars(ln_jinja_bytes(part), part->n_bytes);
    *out = ln_jinja_of_string(part);
    return LINNET_OK;
}

/* The longer left string keeps its buffer when it ends where the buffer does. */
ln_status ln_jinja_string_concat(ln_jinja_run *run, ln_jinja_string *left, ln_jinja_string *right,
                                 ln_jinja_value *out) {
    ln_jinja_builder builder = {
        .run = run, .buffer = left->buffer, .begin = left->begin, .n_chars = left->n_chars};
    bool extend = !left->buffer->frozen && left->begin + left->n_bytes == left->buffer->used;
    if (!extend) {
        LN_TRY(ln_jinja_builder_init(run, &builder));
        LN_TRY(ln_jinja_put_string(&builder, left));
    }
    LN_TRY(ln_jinja_put_string(&builder, right));
    LN_TRY(ln_jinja_finish(&builder, out));
    out->as.string->markup = left->markup;
    return LINNET_OK;
}

bool ln_jinja_string_is(const ln_jinja_string *string, const char *text) {
    return string->n_bytes == strlen(text) &&
           memcmp(ln_jinja_bytes(string), text, string->n_bytes) == 0;
}

bool ln_jinja_string_equal(const ln_jinja_string *a, const ln_jinja_string *b) {
    return a->n_bytes == b->n_bytes &&
           (a->n_bytes == 0 || memcmp(ln_jinja_bytes(a), ln_jinja_bytes(b), a->n_bytes) == 0);
}

int ln_jinja_string_order(const ln_jinja_string *a, const ln_jinja_string *b) {
    size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
    int order = n == 0 ? 0 : memcmp(ln_jinja_bytes(a), ln_jinja_bytes(b), n);
    if (order != 0 || a->n_bytes == b->n_bytes)
        return order;
    return a->n_bytes < b->n_bytes ? -1 : 1;
}

size_t ln_jinja_string_offset(const ln_jinja_string *string, size_t index) {
    if (string->n_chars == string->n_bytes)
        return index;
    const char *bytes = ln_jinja_bytes(string);
    size_t at = 0;
    while (index > 0) {
        size_t n = string->n_bytes - at;
        ln_jinja_decode(bytes + at, &n);
        at += n;
        index--;
    }
    return at;
}

size_t ln_jinja_string_find(const ln_jinja_string *string, const ln_jinja_string *needle,
                            size_t from) {
    if (from > string->n_bytes || needle->n_bytes > string->n_bytes - from)
        return SIZE_MAX;
    if (needle->n_bytes == 0)
        return from;
    const char *bytes = ln_jinja_bytes(string);
    const char *found =
        memmem(bytes + from, string->n_bytes - from, ln_jinja_bytes(needle), needle->n_bytes);
    return found == NULL ? SIZE_MAX : (size_t)(found - bytes);
}

/* Naive for a short needle; else Knuth, Morris and Pratt over the bytes backwards. */
ln_status ln_jinja_string_rfind(ln_jinja_run *run, const ln_jinja_string *string,
                                const ln_jinja_string *needle, size_t end, size_t *found) {
    enum { SHORT_NEEDLE = 16 };
    const char *bytes = ln_jinja_bytes(string), *wanted = ln_jinja_bytes(needle);
    size_t n = needle->n_bytes, *border, matched = 0;
    *found = SIZE_MAX;
    if (n > end)
        return LINNET_OK;
    if (n <= SHORT_NEEDLE) {
        for (size_t at = end - n + 1; at-- > 0;)
            if (n == 0 || (bytes[at] == wanted[0] && memcmp(bytes + at, wanted, n) == 0)) {
                *found = at;
                break;
            }
        return LINNET_OK;
    }
    LN_TRY(ln_jinja_spend(run, n + end / 4));
    LN_TRY(ln_jinja_alloc(run, n + 1, sizeof *border, &border));
    for (size_t i = 1; i < n; i++) { /* borders of the needle read backwards */
        while (matched > 0 && wanted[n - 1 - matched] != wanted[n - 1 - i])
            matched = border[matched];
        matched += wanted[n - 1 - matched] == wanted[n - 1 - i];
        border[i + 1] = matched;
    }
    matched = 0;
    for (size_t at = end; at-- > 0;) {
        while (matched > 0 && wanted[n - 1 - matched] != bytes[at])
            matched = border[matched];
        matched += wanted[n - 1 - matched] == bytes[at];
        if (matched == n) {
            *found = at;
            break;
        }
    }
    return LINNET_OK;
}
