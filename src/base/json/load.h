/* jansson's parser, and its memory. Version 2.14 of jansson reads past its buffer where that cannot
 * grow, and says the same of malformed text and of a failed allocation. A program that calls
 * ln_json_memory_watch is safe from the first and can tell the second. */
#ifndef LN_BASE_JSON_LOAD_H
#define LN_BASE_JSON_LOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* As json_loadb. In a program that watches, memory for the whole document is reserved before; what
 * cannot be allocated lies there, the parser comes to its end, and NULL is returned with the code
 * json_error_out_of_memory. */
json_t *ln_json_load_bytes(const char *text, size_t n_bytes, size_t flags, json_error_t *where);

/* An upper estimate of what a document takes: structural characters inside strings count too, text
 * counts twice. */
size_t ln_json_estimate_bytes(const char *text, size_t n_bytes);

/* From now on jansson's allocations are watched. Before there are other threads. */
void ln_json_memory_watch(void);

/* Whether one of this thread's has failed since its last call of `clear`. */
void ln_json_memory_clear(void);
bool ln_json_memory_failed(void);

#endif
