#include "server/responses/item_list.h"

#include <stdlib.h>
#include <string.h>

void ln_item_list_free(ln_item_list *list) {
    for (size_t i = 0; i < list->n_items; i++) {
        free(list->items[i].id);
        free(list->items[i].json);
    }
    free(list->items);
    *list = (ln_item_list){0};
}

static bool grow(ln_item_list *list) {
    size_t capacity = list->capacity > 0 ? 2 * list->capacity : 8;
    if (list->n_items < list->capacity)
        return true;
    ln_stored_item *items = realloc(list->items, capacity * sizeof *items);
    if (items == NULL)
        return false;
    list->items = items;
    list->capacity = capacity;
    return true;
}

void ln_item_list_add(ln_item_list *list, int64_t number, const char *id, const char *json) {
    ln_stored_item item = {.number = number};
    if (list->failed || id == NULL || json == NULL || !grow(list)) {
        list->failed = true;
        return;
    }
    item.id = strdup(id);
    item.json = strdup(json);
    list->failed = item.id == NULL || item.json == NULL;
    list->items[list->n_items] = item;
    if (list->failed) {
        free(item.id);
        free(item.json);
    } else {
        list->n_items++;
    }
}

void ln_item_list_reverse(ln_item_list *list) {
    for (size_t i = 0; i < list->n_items / 2; i++) {
        ln_stored_item item = list->items[i];
        list->items[i] = list->items[list->n_items - 1 - i];
        list->items[list->n_items - 1 - i] = item;
    }
}

size_t ln_item_list_find(const ln_item_list *list, const char *id) {
    size_t i = 0;
    while (i < list->n_items && strcmp(list->items[i].id, id) != 0)
        i++;
    return i;
}
