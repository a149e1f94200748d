/* What clients may come back to, by id: responses and conversations, both called objects here, and
 * the items of which they are made. In memory, or in a file that outlives the server. Bounded in
 * number and bytes; the objects that were changed the longest ago give way. Any thread may call
 * these functions.
 *
 * An object has a list of items: what a response answers and says, or what a conversation holds.
 * Each item is kept once, with the item before it, and an object names the last item of its list.
 * So lists that begin alike, as those of responses that go on with one another, share their
 * beginning. An item goes with the last object whose list it is in. */
#ifndef LN_SERVER_RESPONSES_RESPONSE_STORE_H
#define LN_SERVER_RESPONSES_RESPONSE_STORE_H

#include "base/error.h"
#include "server/responses/item_list.h"

typedef struct ln_response_store ln_response_store;

typedef struct ln_response_store_limits {
    size_t max_objects, max_bytes;
} ln_response_store_limits;

/* `path` NULL: in memory. What ran in the background has failed, with an error that says so, unless
 * another process has the file open: then that may run it. PATH.lock says whether one has, and
 * stays. Errors: IO, when the file cannot be opened or is no store; NOMEM. */
ln_status ln_response_store_open(const char *path, const ln_response_store_limits *limits,
                                 ln_response_store **store, ln_error *err);
void ln_response_store_close(ln_response_store *store); /* NULL is fine */

/* ---- objects ---------------------------------------------------------------------------- */

/* Adds an object or replaces it; `json` is what clients see. Its list is `items`, of which the
 * first `n_input` are what a response answers; NULL: the list that it has, or an empty one. Items
 * that are stored already are shared where they still are, the others become stored. False when it
 * could not be kept: it is larger than the bound, or the file or memory is full. */
bool ln_response_store_put(ln_response_store *store, const char *id, const char *json,
                           ln_item_list *items, size_t n_input);
/* Whether an object could be kept at all with such items behind those that it has, and as `json`
 * unless that is NULL; `id` NULL: the items alone. */
bool ln_response_store_fits(ln_response_store *store, const char *id, const char *json,
                            const ln_item_list *items);
/* What was put, NUL-terminated and malloc'd; NULL: there is none. */
char *ln_response_store_get(ln_response_store *store, const char *id);
bool ln_response_store_delete(ln_response_store *store, const char *id); /* whether it was there */

/* The events of an object's stream, kept as long as the object itself is or is put again. */
bool ln_response_store_put_events(ln_response_store *store, const char *id, const char *events);
char *ln_response_store_get_events(ln_response_store *store, const char *id);

/* ---- items ------------------------------------------------------------------------------ */

/* Adds the items of an object to an empty list: all, or those that a response answers. False: there
 * is no such object. */
bool ln_response_store_list(ln_response_store *store, const char *id, bool only_input,
                            ln_item_list *items);
/* Adds items to an object's list: those of `items` from the place `first` on. If those before are
 * the list of the object, what is stored of them is shared, as in `put`. False as there, or when
 * there is no such object. */
bool ln_response_store_append(ln_response_store *store, const char *id, ln_item_list *items,
                              size_t first);
/* An item by its id, malloc'd, or NULL: of an object, or the newest of all (`id` NULL). */
char *ln_response_store_get_item(ln_response_store *store, const char *id, const char *item_id);
/* Removes an item of an object from all lists that it is in. Whether it was there. */
bool ln_response_store_delete_item(ln_response_store *store, const char *id, const char *item_id);

#endif
