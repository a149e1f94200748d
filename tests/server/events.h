/* Server-sent events of a response, as JSON. */
#ifndef LN_TESTS_SERVER_EVENTS_H
#define LN_TESTS_SERVER_EVENTS_H

#include <jansson.h>

#include "server/client.h"

/* A list of the objects behind "data: ", owned. Where an event has a name, it is that of its type;
 * a last "[DONE]" is left out. */
json_t *events_read(const http_response *response);

/* The strings at `name` of `inner` of all events of a type, one after the other; malloc'd. `inner`
 * NULL: of the events themselves. */
char *events_join(const json_t *events, const char *type, const char *inner, const char *name);

/* The types of events in their order, with a space behind each; of equal ones that follow each
 * other only the first. malloc'd. */
char *events_types(const json_t *events);

#endif
