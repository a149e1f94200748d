/* Tells a JSON text that is malformed from one for which there was no memory: jansson's parser says
 * the same of both. */
#ifndef LN_SERVER_JSON_MEMORY_H
#define LN_SERVER_JSON_MEMORY_H

#include <stdbool.h>

/* From now on jansson's allocations are watched. Before there are other threads. */
void ln_json_memory_watch(void);

/* Whether one of this thread's has failed since its last call of `clear`. */
void ln_json_memory_clear(void);
bool ln_json_memory_failed(void);

#endif
