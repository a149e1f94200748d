/* Items as clients send them become items as they are kept and listed. */
#ifndef LN_SERVER_RESPONSES_INPUT_ITEMS_H
#define LN_SERVER_RESPONSES_INPUT_ITEMS_H

#include <jansson.h>

#include "server/json/error.h"
#include "server/responses/response_store.h"

/* A list of the items of `input`, which is a string or a list: with what OpenAI's types ask for, an
 * id for instance, made of `serial`, a message's type and parts, or a status; and in the place of
 * references the items of the store that they name. Items keep the ids that clients gave them where
 * these are none of `past`, the items before them; `past` NULL: no item does. New, or NULL with the
 * error set: `name` is what clients call the field. What an item says is not looked at:
 * responses_items.h does so. */
json_t *ln_input_items_read(const json_t *input, const char *name, const char *serial,
                            const ln_item_list *past, ln_response_store *store,
                            ln_api_error *error);

/* Adds them to a list as texts; false: memory ran out. */
bool ln_input_items_keep(const json_t *items, ln_item_list *list);
/* The items of a list, new; NULL: memory ran out, or one is no object. */
json_t *ln_input_items_parse(const ln_item_list *list);

#endif
