/* Lists, tuples and dicts. */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "text/jinja/run.h"

/* ---- lists ------------------------------------------------------------------------------ */

ln_status ln_jinja_list_new(ln_jinja_run *run, ln_jinja_kind kind, size_t capacity,
                            ln_jinja_value *out) {
    struct whole {
        ln_jinja_list list;
        ln_jinja_backing backing;
    } * whole;
    LN_TRY(ln_jinja_alloc(run, 1, sizeof *whole, &whole));
    LN_TRY(ln_jinja_alloc(run, capacity, sizeof(ln_jinja_value), &whole->backing.items));
    whole->backing.capacity = capacity;
    whole->list.backing = &whole->backing;
    whole->list.items = whole->backing.items;
    *out = (ln_jinja_value){.kind = kind, .as.list = &whole->list};
    return LINNET_OK;
}

ln_status ln_jinja_list_push(ln_jinja_run *run, ln_jinja_value value, ln_jinja_value item) {
    ln_jinja_list *list = value.as.list;
    ln_jinja_backing *backing = list->backing;
    if (backing->used == backing->capacity) {
        size_t capacity = backing->capacity * 2 + 4;
        ln_jinja_value *items;
        LN_TRY(ln_jinja_alloc(run, capacity, sizeof *items, &items));
        if (backing->used > 0)
            memcpy(items, backing->items, backing->used * sizeof *items);
        backing->items = items;
        backing->capacity = capacity;
        list->items = items;
    }
    backing->items[backing->used++] = item;
    list->n_items++;
    return ln_jinja_spend(run, 1);
}

ln_status ln_jinja_pair_new(ln_jinja_run *run, ln_jinja_value first, ln_jinja_value second,
                            ln_jinja_value *out) {
    LN_TRY(ln_jinja_list_new(run, LN_JINJA_TUPLE, 2, out));
    LN_TRY(ln_jinja_list_push(run, *out, first));
    return ln_jinja_list_push(run, *out, second);
}

/* ---- dicts ------------------------------------------------------------------------------ */

static ln_status hash_value(ln_jinja_run *run, ln_jinja_value key, uint64_t *hash) {
    uint64_t seed = run->hash_seed;
    switch (key.kind) {
    case LN_JINJA_STRING:
        LN_TRY(ln_jinja_spend(run, key.as.string->n_bytes / 64));
        *hash = XXH3_64bits_withSeed(ln_jinja_bytes(key.as.string), key.as.string->n_bytes, seed);
        return LINNET_OK;
    case LN_JINJA_BOOL: key = ln_jinja_int(key.as.boolean); break;
    case LN_JINJA_FLOAT:
        if (key.as.real >= -0x1p63 && key.as.real < 0x1p63 && key.as.real == trunc(key.as.real))
            key = ln_jinja_int((int64_t)key.as.real);
        break;
    case LN_JINJA_TUPLE:
        LN_TRY(ln_jinja_enter(run));
        for (size_t i = 0; i < key.as.list->n_items; i++) {
            uint64_t item;
            LN_TRY(hash_value(run, key.as.list->items[i], &item));
            seed = XXH3_64bits_withSeed(&item, sizeof item, seed);
        }
        ln_jinja_leave(run);
        *hash = seed;
        return LINNET_OK;
    case LN_JINJA_LIST:
    case LN_JINJA_DICT:
        return ln_jinja_raise(run, "TypeError", "unhashable type: '%s'", ln_jinja_type_name(key));
    case LN_JINJA_UNDEFINED:
    case LN_JINJA_NONE: key = ln_jinja_int(key.kind == LN_JINJA_NONE ? -1 : -2); break;
    default: break;
    }
    *hash = XXH3_64bits_withSeed(&key.as, sizeof key.as, seed);
    return LINNET_OK;
}

enum { SMALL_DICT = 8 };

ln_status ln_jinja_dict_new(ln_jinja_run *run, ln_jinja_value *out) {
    out->kind = LN_JINJA_DICT;
    return ln_jinja_alloc(run, 1, sizeof *out->as.dict, &out->as.dict);
}

ln_status ln_jinja_dict_get(ln_jinja_run *run, const ln_jinja_dict *dict, ln_jinja_value key,
                            ln_jinja_value **found) {
    uint64_t hash;
    bool equal = false;
    *found = NULL;
    LN_TRY(hash_value(run, key, &hash)); /* before anything else: the key may be unhashable */
    if (dict->slots == NULL) {
        for (size_t i = 0; i < dict->n_pairs; i++) {
            LN_TRY(ln_jinja_equal(run, dict->pairs[i].key, key, &equal));
            if (equal) {
                *found = &dict->pairs[i].item;
                break;
            }
        }
        return LINNET_OK;
    }
    for (size_t slot = hash & dict->mask; dict->slots[slot] != 0; slot = (slot + 1) & dict->mask) {
        ln_jinja_pair *pair = &dict->pairs[dict->slots[slot] - 1];
        LN_TRY(ln_jinja_equal(run, pair->key, key, &equal));
        if (equal) {
            *found = &pair->item;
            break;
        }
    }
    return LINNET_OK;
}

ln_jinja_value *ln_jinja_dict_get_c(const ln_jinja_dict *dict, const char *key) {
    for (size_t i = 0; i < dict->n_pairs; i++)
        if (ln_jinja_is_string(dict->pairs[i].key, key))
            return &dict->pairs[i].item;
    return NULL;
}

static ln_status index_pair(ln_jinja_run *run, ln_jinja_dict *dict, size_t pair) {
    uint64_t hash;
    LN_TRY(hash_value(run, dict->pairs[pair].key, &hash));
    size_t slot = hash & dict->mask;
    while (dict->slots[slot] != 0)
        slot = (slot + 1) & dict->mask;
    dict->slots[slot] = (uint32_t)(pair + 1);
    return LINNET_OK;
}

static ln_status grow_dict(ln_jinja_run *run, ln_jinja_dict *dict) {
    size_t capacity = dict->capacity == 0 ? 4 : dict->capacity * 2;
    ln_jinja_pair *pairs;
    LN_TRY(ln_jinja_alloc(run, capacity, sizeof *pairs, &pairs));
    if (dict->n_pairs > 0)
        memcpy(pairs, dict->pairs, dict->n_pairs * sizeof *pairs);
    dict->pairs = pairs;
    dict->capacity = capacity;
    if (capacity <= SMALL_DICT)
        return LINNET_OK;
    LN_TRY(ln_jinja_alloc(run, capacity * 2, sizeof *dict->slots, &dict->slots));
    dict->mask = capacity * 2 - 1;
    for (size_t i = 0; i < dict->n_pairs; i++)
        LN_TRY(index_pair(run, dict, i));
    return LINNET_OK;
}

ln_status ln_jinja_dict_set(ln_jinja_run *run, ln_jinja_dict *dict, ln_jinja_value key,
                            ln_jinja_value item) {
    ln_jinja_value *found;
    LN_TRY(ln_jinja_spend(run, 1));
    LN_TRY(ln_jinja_dict_get(run, dict, key, &found));
    if (found != NULL) {
        *found = item;
        return LINNET_OK;
    }
    if (dict->n_pairs == dict->capacity)
        LN_TRY(grow_dict(run, dict));
    dict->pairs[dict->n_pairs++] = (ln_jinja_pair){.key = key, .item = item};
    return dict->slots != NULL ? index_pair(run, dict, dict->n_pairs - 1) : LINNET_OK;
}
