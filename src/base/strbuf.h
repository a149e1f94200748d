/* A growing byte buffer. After a failed append `failed` stays set and further appends do
 * nothing, so that a chain of appends is checked once at its end. */
#ifndef LN_BASE_STRBUF_H
#define LN_BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ln_strbuf {
    char *data; /* NUL-terminated once something was appended; owned */
    size_t len;
    size_t capacity;
    size_t limit; /* bytes that it may hold; 0: any number */
    bool failed;
    bool is_full; /* it failed since the limit allows no more */
} ln_strbuf;

void ln_strbuf_init(ln_strbuf *buf);
void ln_strbuf_free(ln_strbuf *buf);
void ln_strbuf_clear(ln_strbuf *buf); /* keeps the memory and the limit */
bool ln_strbuf_reserve(ln_strbuf *buf, size_t extra_bytes);
bool ln_strbuf_append(ln_strbuf *buf, const void *bytes, size_t n_bytes);
bool ln_strbuf_puts(ln_strbuf *buf, const char *text);
bool ln_strbuf_putc(ln_strbuf *buf, char c);
bool ln_strbuf_put_utf8(ln_strbuf *buf, uint32_t code_point);
__attribute__((format(printf, 2, 3))) bool ln_strbuf_printf(ln_strbuf *buf, const char *format,
                                                            ...);
/* Gives the NUL-terminated bytes to the caller (free), or NULL after a failure; empties buf. */
char *ln_strbuf_take(ln_strbuf *buf);

#endif
