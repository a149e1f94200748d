#include "engine/adapters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "model/adapter/load.h"

ln_status ln_adapters_init(ln_adapters *adapters, const ln_engine_plan *plan,
                           const ln_weights *weights, const ln_checkpoint *checkpoint,
                           ln_backend *backend, void *memory, ln_error *err) {
    *adapters = (ln_adapters){.plan = plan,
                              .weights = weights,
                              .checkpoint = checkpoint,
                              .backend = backend,
                              .memory = memory};
    if (plan->n_adapters == 0)
        return LINNET_OK;
    adapters->slots = calloc(plan->n_adapters, sizeof *adapters->slots);
    if (adapters->slots == NULL || pthread_mutex_init(&adapters->mutex, NULL) != 0) {
        free(adapters->slots);
        adapters->slots = NULL;
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for %zu adapters", plan->n_adapters);
    }
    return LINNET_OK;
}

void ln_adapters_free(ln_adapters *adapters) {
    if (adapters->slots != NULL)
        pthread_mutex_destroy(&adapters->mutex);
    for (size_t i = 0; adapters->slots != NULL && i < adapters->plan->n_adapters; i++)
        free(adapters->slots[i].path);
    free(adapters->slots);
    adapters->slots = NULL;
}

/* ---- names, under the mutex ---------------------------------------------------------------- */

static size_t count(const ln_adapters *adapters) {
    return adapters->slots != NULL ? adapters->plan->n_adapters : 0;
}

/* The slot of a name, loaded or loading, or NULL. */
static ln_adapter_slot *find(const ln_adapters *adapters, const char *name) {
    for (size_t i = 0; i < count(adapters); i++) {
        ln_adapter_slot *slot = &adapters->slots[i];
        bool has_name = slot->state == LN_SLOT_LOADING || slot->state == LN_SLOT_LOADED;
        if (has_name && strcmp(slot->info.name, name) == 0)
            return slot;
    }
    return NULL;
}

static ln_adapter_slot *find_loaded(const ln_adapters *adapters, const char *name) {
    ln_adapter_slot *slot = find(adapters, name);
    return slot != NULL && slot->state == LN_SLOT_LOADED ? slot : NULL;
}

static ln_status unknown(const char *name, ln_error *err) {
    return ln_fail(err, LINNET_ERR_ARGUMENT, "there is no adapter \"%.*s\"",
                   LINNET_MAX_ADAPTER_NAME, name);
}

/* ---- loading ------------------------------------------------------------------------------- */

static ln_status check_arguments(const ln_adapters *adapters, const char *name, const char *path,
                                 float scale, ln_error *err) {
    size_t n_bytes = name != NULL ? strnlen(name, LINNET_MAX_ADAPTER_NAME) : 0;
    if (count(adapters) == 0)
        return ln_fail(err, LINNET_ERR_STATE,
                       "the engine has no room for adapters: max_adapters "
                       "is 0");
    if (n_bytes == 0 || n_bytes == LINNET_MAX_ADAPTER_NAME || !ln_utf8_check(name, n_bytes))
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "the name of an adapter is no text of 1 to %d bytes in UTF-8",
                       LINNET_MAX_ADAPTER_NAME - 1);
    if (path == NULL || *path == '\0')
        return ln_fail(err, LINNET_ERR_ARGUMENT, "the path of adapter \"%s\" is empty", name);
    if (!isfinite(scale))
        return ln_fail(err, LINNET_ERR_ARGUMENT, "the scale of adapter \"%s\" is not finite", name);
    return LINNET_OK;
}

/* Takes a free slot and the name. */
static ln_status begin_load(ln_adapters *adapters, const char *name, float scale,
                            ln_adapter_slot **out, ln_error *err) {
    ln_status status = LINNET_OK;
    ln_adapter_slot *slot = NULL;
    pthread_mutex_lock(&adapters->mutex);
    for (size_t i = 0; i < count(adapters) && slot == NULL; i++)
        if (adapters->slots[i].state == LN_SLOT_FREE)
            slot = &adapters->slots[i];
    if (find(adapters, name) != NULL)
        status = ln_fail(err, LINNET_ERR_STATE, "adapter \"%s\" is loaded already", name);
    else if (slot == NULL)
        status = ln_fail(err, LINNET_ERR_STATE,
                         "there is no place for adapter \"%s\": max_adapters is %zu", name,
                         adapters->plan->n_adapters);
    if (status == LINNET_OK) {
        free(slot->path);
        *slot = (ln_adapter_slot){.state = LN_SLOT_LOADING,
                                  .number = ++adapters->n_loads,
                                  .info = {.struct_bytes = sizeof slot->info, .scale = scale}};
        memcpy(slot->info.name, name, strlen(name) + 1);
    }
    pthread_mutex_unlock(&adapters->mutex);
    *out = slot;
    return status;
}

static ln_status read_into(const ln_adapters *adapters, ln_adapter_slot *slot, const char *path,
                           ln_error *err) {
    const ln_engine_plan *plan = adapters->plan;
    size_t index = (size_t)(slot - adapters->slots);
    const ln_adapter_place place = {.slot = index,
                                    .memory = adapters->memory + index * plan->adapter_bytes,
                                    .bytes = plan->adapter_bytes,
                                    .rank = plan->adapter_rank,
                                    .backend = adapters->backend,
                                    .checkpoint = adapters->checkpoint};
    ln_adapter_file file;
    slot->path = strdup(path);
    if (slot->path == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for adapter %s", path);
    LN_TRY(ln_adapter_file_open(path, &file, err));
    slot->info.rank = file.rank;
    ln_status status = ln_adapter_load(&file, &plan->spec, adapters->weights, &place,
                                       slot->info.scale, &slot->info.n_linears, err);
    ln_adapter_file_close(&file);
    return status;
}

ln_status ln_adapters_load(ln_adapters *adapters, const char *name, const char *path, float scale,
                           ln_error *err) {
    ln_adapter_slot *slot;
    LN_TRY(check_arguments(adapters, name, path, scale, err));
    LN_TRY(begin_load(adapters, name, scale, &slot, err));
    ln_status status = read_into(adapters, slot, path, err);
    pthread_mutex_lock(&adapters->mutex);
    slot->state = status == LINNET_OK ? LN_SLOT_LOADED : LN_SLOT_FREE;
    pthread_mutex_unlock(&adapters->mutex);
    return status;
}

ln_status ln_adapters_put(ln_adapters *adapters, size_t slot, const char *path, float scale,
                          ln_error *err) {
    if (slot >= count(adapters))
        return ln_fail(err, LINNET_ERR_COMPUTE,
                       "rank 0 has an adapter in slot %zu, and there are %zu", slot,
                       count(adapters));
    ln_adapter_slot *own = &adapters->slots[slot];
    free(own->path);
    *own = (ln_adapter_slot){.info = {.struct_bytes = sizeof own->info, .scale = scale}};
    return read_into(adapters, own, path, err);
}

ln_status ln_adapters_unload(ln_adapters *adapters, const char *name, ln_error *err) {
    if (count(adapters) == 0 || name == NULL)
        return unknown(name != NULL ? name : "", err);
    pthread_mutex_lock(&adapters->mutex);
    ln_adapter_slot *slot = find_loaded(adapters, name);
    if (slot != NULL)
        slot->state = slot->info.n_requests > 0 ? LN_SLOT_LEAVING : LN_SLOT_FREE;
    pthread_mutex_unlock(&adapters->mutex);
    return slot != NULL ? LINNET_OK : unknown(name, err);
}

bool ln_adapters_get(ln_adapters *adapters, size_t index, linnet_adapter *adapter) {
    bool found = false;
    if (count(adapters) == 0)
        return false;
    pthread_mutex_lock(&adapters->mutex);
    for (size_t i = 0; i < count(adapters) && !found; i++) {
        found = adapters->slots[i].state == LN_SLOT_LOADED && index-- == 0;
        if (found)
            *adapter = adapters->slots[i].info;
    }
    pthread_mutex_unlock(&adapters->mutex);
    return found;
}

/* ---- requests ------------------------------------------------------------------------------ */

ln_status ln_adapters_acquire(ln_adapters *adapters, const char *name, size_t *slot,
                              uint64_t *number, ln_error *err) {
    *slot = 0;
    *number = 0;
    if (name == NULL)
        return LINNET_OK;
    if (count(adapters) == 0)
        return unknown(name, err);
    pthread_mutex_lock(&adapters->mutex);
    ln_adapter_slot *found = find_loaded(adapters, name);
    if (found != NULL) {
        found->info.n_requests++;
        *slot = (size_t)(found - adapters->slots) + 1;
        *number = found->number;
    }
    pthread_mutex_unlock(&adapters->mutex);
    return found != NULL ? LINNET_OK : unknown(name, err);
}

void ln_adapters_release(ln_adapters *adapters, size_t slot) {
    if (slot == 0)
        return;
    pthread_mutex_lock(&adapters->mutex);
    ln_adapter_slot *own = &adapters->slots[slot - 1];
    own->info.n_requests--;
    if (own->info.n_requests == 0 && own->state == LN_SLOT_LEAVING)
        own->state = LN_SLOT_FREE;
    pthread_mutex_unlock(&adapters->mutex);
}
