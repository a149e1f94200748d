/* The engine's adapters (LoRA, IA3): slots, their names, and who uses them. Any thread loads,
 * unloads and submits; a slot is written while no request has it, so steps read it without a lock.
 */
#ifndef LN_ENGINE_ADAPTERS_H
#define LN_ENGINE_ADAPTERS_H

#include <pthread.h>

#include "engine/plan/plan.h"

enum { LN_MAX_ADAPTERS = 1024 };

typedef enum ln_slot_state {
    LN_SLOT_FREE = 0,
    LN_SLOT_LOADING, /* its name is taken already */
    LN_SLOT_LOADED,
    LN_SLOT_LEAVING /* it has no name any more, but requests */
} ln_slot_state;

typedef struct ln_adapter_slot {
    ln_slot_state state;
    uint64_t number; /* each load has another one */
    uint64_t told;   /* the load that other ranks have, too; the engine thread's */
    char *path;      /* of a loaded one, owned */
    linnet_adapter info;
} ln_adapter_slot;

typedef struct ln_adapters {
    const ln_engine_plan *plan;
    const ln_weights *weights;
    const ln_checkpoint *checkpoint;
    ln_backend *backend;
    char *memory;           /* [plan->n_adapters][plan->adapter_bytes], the backend's */
    ln_adapter_slot *slots; /* [plan->n_adapters], owned; NULL: there are none */
    uint64_t n_loads;
    pthread_mutex_t mutex; /* over slots and n_loads */
} ln_adapters;

/* All that is passed outlives it; plan->n_adapters may be 0. */
ln_status ln_adapters_init(ln_adapters *adapters, const ln_engine_plan *plan,
                           const ln_weights *weights, const ln_checkpoint *checkpoint,
                           ln_backend *backend, void *memory, ln_error *err);
void ln_adapters_free(ln_adapters *adapters);

/* As linnet_engine_load_adapter, unload_adapter, get_adapter. */
ln_status ln_adapters_load(ln_adapters *adapters, const char *name, const char *path, float scale,
                           ln_error *err);
ln_status ln_adapters_unload(ln_adapters *adapters, const char *name, ln_error *err);
bool ln_adapters_get(ln_adapters *adapters, size_t index, linnet_adapter *adapter);

/* Another rank than 0: puts into a slot what rank 0 has there. Errors: as loading. */
ln_status ln_adapters_put(ln_adapters *adapters, size_t slot, const char *path, float scale,
                          ln_error *err);

/* A request takes the adapter of a name (NULL: none): *slot, plus 1, and the number of its load. It
 * gives the slot back when it is over. Errors: ARGUMENT. */
ln_status ln_adapters_acquire(ln_adapters *adapters, const char *name, size_t *slot,
                              uint64_t *number, ln_error *err);
void ln_adapters_release(ln_adapters *adapters, size_t slot);

#endif
