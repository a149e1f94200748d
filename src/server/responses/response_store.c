#include "server/responses/response_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/responses/store_database.h"

/* What an object and an item take beside their texts: rows, indices and pages that are not full. */
enum { OBJECT_BYTES = 128, ITEM_BYTES = 128 };
/* Of a list: others wait while one is removed, item by item. */
enum { MAX_LIST_ITEMS = 50000 };

struct ln_response_store {
    pthread_mutex_t mutex;
    ln_store_database database; /* under the mutex */
    ln_response_store_limits limits;
};

ln_status ln_response_store_open(const char *path, const ln_response_store_limits *limits,
                                 ln_response_store **out, ln_error *err) {
    const char *why = NULL;
    ln_response_store *store = calloc(1, sizeof *store);
    *out = NULL;
    if (store == NULL)
        return ln_fail_memory(err, "the store of responses");
    store->limits = *limits;
    pthread_mutex_init(&store->mutex, NULL);
    if (ln_store_database_open(&store->database, path, &why)) {
        *out = store;
        return LINNET_OK;
    }
    ln_status status = ln_fail(err, LINNET_ERR_IO, "%s: no store of responses: %s",
                               path != NULL ? path : "memory", why);
    ln_response_store_close(store);
    return status;
}

void ln_response_store_close(ln_response_store *store) {
    if (store == NULL)
        return;
    ln_store_database_close(&store->database);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

/* ---- transactions ----------------------------------------------------------------------- */

/* What a call reads or writes, it does alone: beside other threads and other processes. */
static bool begin(ln_response_store *store, bool writes) {
    pthread_mutex_lock(&store->mutex);
    if (ln_store_run(
            store->database.statements[writes ? LN_STORE_BEGIN_WRITE : LN_STORE_BEGIN_READ]))
        return true;
    pthread_mutex_unlock(&store->mutex);
    return false;
}

static bool end(ln_response_store *store, bool done) {
    sqlite3_stmt *const *statements = store->database.statements;
    done = done && ln_store_run(statements[LN_STORE_COMMIT]);
    if (!done)
        ln_store_run(statements[LN_STORE_ROLLBACK]);
    pthread_mutex_unlock(&store->mutex);
    return done;
}

/* ---- parts of transactions -------------------------------------------------------------- */

static char *copy_text(sqlite3_stmt *statement, int column) {
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL ? strdup(text) : NULL;
}

typedef struct stored_object {
    int64_t head, input;
    size_t n_bytes; /* without its list */
} stored_object;

/* *json and *events, unless NULL, receive copies. */
static bool find_object(ln_response_store *store, const char *id, stored_object *found, char **json,
                        char **events) {
    sqlite3_stmt *find = ln_store_bind_texts(&store->database, LN_STORE_FIND_OBJECT, 1, id, NULL);
    bool is_there = ln_store_step(find);
    *found = (stored_object){0};
    if (is_there)
        *found = (stored_object){sqlite3_column_int64(find, 0), sqlite3_column_int64(find, 1),
                                 (size_t)sqlite3_column_int64(find, 4)};
    if (json != NULL)
        *json = is_there ? copy_text(find, 2) : NULL;
    if (events != NULL)
        *events = is_there ? copy_text(find, 3) : NULL;
    ln_store_end(find);
    return is_there;
}

typedef struct stored_link {
    int64_t parent;
    size_t n_bytes;
} stored_link;

/* What is before the item of the statement's row. Items are younger than those before them; in a
 * damaged file a list ends where that is not so. */
static int64_t get_parent(sqlite3_stmt *row, int64_t number) {
    int64_t parent = sqlite3_column_int64(row, 0);
    return parent < number ? parent : 0;
}

/* The item of a number: what is before it, and, unless `into` is NULL, its texts. */
static bool get_item(ln_response_store *store, int64_t number, stored_link *link,
                     ln_item_list *into) {
    sqlite3_stmt *get = ln_store_bind_numbers(&store->database, LN_STORE_GET_ITEM, number, 0);
    bool is_there = number != 0 && ln_store_step(get);
    if (is_there) {
        *link = (stored_link){get_parent(get, number), (size_t)sqlite3_column_int64(get, 3)};
        if (into != NULL)
            ln_item_list_add(into, number, (const char *)sqlite3_column_text(get, 1),
                             (const char *)sqlite3_column_text(get, 2));
    }
    ln_store_end(get);
    return is_there;
}

/* The number of the last item with the id in a list; 0: none. */
static int64_t find_in(ln_response_store *store, int64_t head, const char *item_id,
                       stored_link *link) {
    int64_t number = head;
    while (number != 0) {
        sqlite3_stmt *get = ln_store_bind_numbers(&store->database, LN_STORE_GET_ITEM, number, 0);
        bool is_there = ln_store_step(get), is_it = false;
        if (is_there) {
            const char *id = (const char *)sqlite3_column_text(get, 1);
            link->parent = get_parent(get, number);
            is_it = id != NULL && strcmp(id, item_id) == 0;
        }
        ln_store_end(get);
        if (is_it)
            return number;
        number = is_there ? link->parent : 0;
    }
    return 0;
}

/* Whether a list may have so many more items and bytes. */
static bool may_grow(ln_response_store *store, int64_t head, size_t n_items, size_t n_bytes) {
    stored_link link;
    for (int64_t number = head; get_item(store, number, &link, NULL); number = link.parent) {
        n_bytes += link.n_bytes;
        n_items++;
    }
    return n_bytes <= store->limits.max_bytes && n_items <= MAX_LIST_ITEMS;
}

/* Removes the items at the end of a list that nothing holds any more. */
static bool release(ln_response_store *store, int64_t head) {
    stored_link link;
    for (int64_t number = head; get_item(store, number, &link, NULL); number = link.parent) {
        sqlite3_stmt *held = ln_store_bind_numbers(&store->database, LN_STORE_IS_HELD, number, 0);
        bool is_held = !ln_store_step(held) || sqlite3_column_int(held, 0) != 0;
        ln_store_end(held);
        if (is_held)
            return true;
        if (!ln_store_run(ln_store_bind_numbers(&store->database, LN_STORE_REMOVE_ITEM, number, 0)))
            return false;
    }
    return true;
}

static bool remove_object(ln_response_store *store, const char *id, int64_t head) {
    return ln_store_run(
               ln_store_bind_texts(&store->database, LN_STORE_REMOVE_OBJECT, 1, id, NULL)) &&
           release(store, head);
}

/* The oldest objects give way to those after them. */
static bool evict(ln_response_store *store) {
    ln_store_database *database = &store->database;
    for (;;) {
        sqlite3_stmt *totals = database->statements[LN_STORE_GET_TOTALS];
        bool fits = ln_store_step(totals) &&
                    (size_t)sqlite3_column_int64(totals, 0) <= store->limits.max_objects &&
                    (size_t)sqlite3_column_int64(totals, 1) <= store->limits.max_bytes;
        ln_store_end(totals);
        if (fits)
            return true;
        sqlite3_stmt *oldest = database->statements[LN_STORE_FIND_OLDEST];
        char *id = ln_store_step(oldest) ? copy_text(oldest, 1) : NULL;
        int64_t head = id != NULL ? sqlite3_column_int64(oldest, 0) : 0;
        ln_store_end(oldest);
        bool done = id != NULL && remove_object(store, id, head);
        free(id);
        if (!done)
            return false;
    }
}

/* ---- lists ------------------------------------------------------------------------------ */

static size_t count_item_bytes(const ln_stored_item *item) {
    return ITEM_BYTES + 2 * strlen(item->id) + strlen(item->json);
}

static size_t count_bytes(const ln_item_list *items, size_t first) {
    size_t n_bytes = 0;
    for (size_t i = first; i < items->n_items; i++)
        n_bytes += count_item_bytes(&items->items[i]);
    return n_bytes;
}

/* Stores the items from the place `first` on behind `parent`; *head receives the last one. */
static bool add_items(ln_response_store *store, ln_item_list *items, size_t first, int64_t parent,
                      int64_t *head) {
    *head = parent;
    for (size_t i = first; i < items->n_items; i++) {
        ln_stored_item *item = &items->items[i];
        sqlite3_stmt *add = ln_store_bind_numbers(&store->database, LN_STORE_ADD_ITEM, *head,
                                                  (int64_t)count_item_bytes(item));
        ln_store_bind_texts(&store->database, LN_STORE_ADD_ITEM, 3, item->id, item->json);
        if (!ln_store_run(add))
            return false;
        *head = item->number = sqlite3_last_insert_rowid(store->database.handle);
    }
    return true;
}

/* How many items at the beginning of a list are stored, and still there. What is behind an item
 * that is there is there, too. */
static size_t count_shared(ln_response_store *store, const ln_item_list *items) {
    stored_link link;
    size_t n_shared = 0;
    while (n_shared < items->n_items && items->items[n_shared].number != 0)
        n_shared++;
    bool is_there = n_shared > 0 && get_item(store, items->items[n_shared - 1].number, &link, NULL);
    return is_there ? n_shared : 0;
}

/* What was stored is not, after all. */
static void forget_from(ln_item_list *items, size_t first) {
    for (size_t i = first; i < items->n_items; i++)
        items->items[i].number = 0;
}

/* ---- objects ---------------------------------------------------------------------------- */

static size_t count_object_bytes(const char *id, const char *json) {
    return OBJECT_BYTES + 2 * strlen(id) + strlen(json);
}

static bool add_object(ln_response_store *store, const char *id, const char *json,
                       const stored_object *object) {
    sqlite3_stmt *add =
        ln_store_bind_numbers(&store->database, LN_STORE_ADD_OBJECT, object->head, object->input);
    ln_store_bind_texts(&store->database, LN_STORE_ADD_OBJECT, 3, id, json);
    sqlite3_bind_int64(add, 5, (sqlite3_int64)count_object_bytes(id, json));
    return ln_store_run(add);
}

static bool put(ln_response_store *store, const char *id, const char *json, ln_item_list *items,
                size_t n_input) {
    stored_object old, object;
    bool replaces = find_object(store, id, &old, NULL, NULL);
    object = old;
    if (!may_grow(store, items == NULL ? old.head : 0, items != NULL ? items->n_items : 0,
                  count_object_bytes(id, json) + (items != NULL ? count_bytes(items, 0) : 0)))
        return false;
    if (items != NULL) {
        size_t n_shared = count_shared(store, items);
        int64_t last = n_shared > 0 ? items->items[n_shared - 1].number : 0;
        forget_from(items, n_shared);
        if (!add_items(store, items, n_shared, last, &object.head))
            return false;
        object.input = n_input > 0 ? items->items[n_input - 1].number : 0;
    }
    /* the old one goes last: it may hold what the new one shares */
    if (replaces &&
        !ln_store_run(ln_store_bind_texts(&store->database, LN_STORE_REMOVE_OBJECT, 1, id, NULL)))
        return false;
    return add_object(store, id, json, &object) && release(store, old.head) && evict(store);
}

bool ln_response_store_fits(ln_response_store *store, const char *id, const char *json,
                            const ln_item_list *items) {
    stored_object found = {0};
    if (store->limits.max_objects == 0 || !begin(store, false))
        return false;
    if (id != NULL)
        find_object(store, id, &found, NULL, NULL);
    if (json != NULL)
        found.n_bytes = count_object_bytes(id, json);
    bool fits = may_grow(store, found.head, items->n_items, found.n_bytes + count_bytes(items, 0));
    end(store, true);
    return fits;
}

bool ln_response_store_put(ln_response_store *store, const char *id, const char *json,
                           ln_item_list *items, size_t n_input) {
    if ((items != NULL && items->failed) || store->limits.max_objects == 0 || !begin(store, true))
        return false;
    bool done = end(store, put(store, id, json, items, n_input));
    if (!done && items != NULL)
        forget_from(items, 0);
    return done;
}

char *ln_response_store_get(ln_response_store *store, const char *id) {
    stored_object found;
    char *json = NULL;
    if (begin(store, false)) {
        find_object(store, id, &found, &json, NULL);
        end(store, true);
    }
    return json;
}

bool ln_response_store_delete(ln_response_store *store, const char *id) {
    stored_object found;
    if (!begin(store, true))
        return false;
    return end(store,
               find_object(store, id, &found, NULL, NULL) && remove_object(store, id, found.head));
}

bool ln_response_store_put_events(ln_response_store *store, const char *id, const char *events) {
    stored_object found;
    size_t n_bytes = strlen(events);
    if (n_bytes > store->limits.max_bytes || !begin(store, true))
        return false;
    bool done = find_object(store, id, &found, NULL, NULL) &&
                may_grow(store, found.head, 0, found.n_bytes + n_bytes);
    if (done) {
        ln_store_bind_numbers(&store->database, LN_STORE_SET_EVENTS, (int64_t)n_bytes, 0);
        done = ln_store_run(
                   ln_store_bind_texts(&store->database, LN_STORE_SET_EVENTS, 3, id, events)) &&
               evict(store);
    }
    return end(store, done);
}

char *ln_response_store_get_events(ln_response_store *store, const char *id) {
    stored_object found;
    char *events = NULL;
    if (begin(store, false)) {
        find_object(store, id, &found, NULL, &events);
        end(store, true);
    }
    return events;
}

/* ---- items ------------------------------------------------------------------------------ */

bool ln_response_store_list(ln_response_store *store, const char *id, bool only_input,
                            ln_item_list *items) {
    stored_object found;
    stored_link link;
    if (!begin(store, false))
        return false;
    bool is_there = find_object(store, id, &found, NULL, NULL);
    int64_t number = only_input ? found.input : found.head;
    while (get_item(store, number, &link, items))
        number = link.parent;
    end(store, true);
    ln_item_list_reverse(items);
    return is_there;
}

/* Whether the items from `first` on are stored as they would follow `head`. */
static bool follow_already(ln_response_store *store, const ln_item_list *items, size_t first,
                           int64_t head) {
    stored_link link;
    return first < items->n_items && count_shared(store, items) == items->n_items &&
           get_item(store, items->items[first].number, &link, NULL) && link.parent == head;
}

bool ln_response_store_append(ln_response_store *store, const char *id, ln_item_list *items,
                              size_t first) {
    stored_object found;
    if (items->failed || !begin(store, true))
        return false;
    bool done = find_object(store, id, &found, NULL, NULL);
    int64_t head = found.head;
    if (done && follow_already(store, items, first, head))
        head = items->items[items->n_items - 1].number;
    else
        done = done &&
               may_grow(store, head, items->n_items - first,
                        found.n_bytes + count_bytes(items, first)) &&
               add_items(store, items, first, head, &head);
    if (done) {
        ln_store_bind_numbers(&store->database, LN_STORE_SET_HEAD, head, 0);
        done =
            ln_store_run(ln_store_bind_texts(&store->database, LN_STORE_SET_HEAD, 3, id, NULL)) &&
            evict(store);
    }
    return end(store, done);
}

char *ln_response_store_get_item(ln_response_store *store, const char *id, const char *item_id) {
    stored_object found;
    stored_link link;
    char *json = NULL;
    sqlite3_stmt *get = NULL;
    if (!begin(store, false))
        return NULL;
    if (id == NULL) {
        get = ln_store_bind_texts(&store->database, LN_STORE_FIND_ITEM, 1, item_id, NULL);
        json = ln_store_step(get) ? copy_text(get, 0) : NULL;
    } else if (find_object(store, id, &found, NULL, NULL)) {
        int64_t number = find_in(store, found.head, item_id, &link);
        get = ln_store_bind_numbers(&store->database, LN_STORE_GET_ITEM, number, 0);
        json = ln_store_step(get) ? copy_text(get, 2) : NULL;
    }
    if (get != NULL)
        ln_store_end(get);
    end(store, true);
    return json;
}

bool ln_response_store_delete_item(ln_response_store *store, const char *id, const char *item_id) {
    static const ln_store_statement moves[] = {LN_STORE_MOVE_CHILDREN, LN_STORE_MOVE_HEADS,
                                               LN_STORE_MOVE_INPUTS};
    ln_store_database *database = &store->database;
    stored_object found;
    stored_link link;
    if (!begin(store, true))
        return false;
    int64_t number =
        find_object(store, id, &found, NULL, NULL) ? find_in(store, found.head, item_id, &link) : 0;
    bool done = number != 0;
    for (size_t i = 0; done && i < sizeof moves / sizeof *moves; i++)
        done = ln_store_run(ln_store_bind_numbers(database, moves[i], link.parent, number));
    return end(store, done && ln_store_run(ln_store_bind_numbers(database, LN_STORE_REMOVE_ITEM,
                                                                 number, 0)));
}
