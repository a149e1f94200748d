/* Ollama's keep_alive: how long a model stays loaded behind a request. */
#ifndef LN_SERVER_OLLAMA_KEEP_ALIVE_H
#define LN_SERVER_OLLAMA_KEEP_ALIVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Seconds as a number, or a duration as Go writes it ("5m", "1h30m", "500ms"); a negative one is
 * for ever, and -1 then. False: it is neither. */
bool ln_ollama_read_keep_alive(const json_t *value, int64_t *keep_ms);

#endif
