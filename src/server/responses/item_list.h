/* Items of the Responses API as they are kept: JSON texts by their ids, in order. */
#ifndef LN_SERVER_RESPONSES_ITEM_LIST_H
#define LN_SERVER_RESPONSES_ITEM_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ln_stored_item {
    int64_t number; /* by which the store knows it; 0: it is not stored */
    char *id, *json;
} ln_stored_item;

/* A zeroed one is empty. */
typedef struct ln_item_list {
    ln_stored_item *items; /* [n_items] of [capacity], owned, as are the texts */
    size_t n_items, capacity;
    bool failed; /* memory ran out: an item is missing */
} ln_item_list;

void ln_item_list_free(ln_item_list *list);

/* Copies the texts; NULL counts as memory that ran out. */
void ln_item_list_add(ln_item_list *list, int64_t number, const char *id, const char *json);
void ln_item_list_reverse(ln_item_list *list);

/* The place of the first item with the id; n_items: there is none. */
size_t ln_item_list_find(const ln_item_list *list, const char *id);

#endif
