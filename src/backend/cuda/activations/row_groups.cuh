/* Which rows belong to which group (expert or head), where a linear has a matrix for each.
 *
 * Rows of a group are taken ROWS at a time; a slot is one such tile of one group. Only the device
 * knows how many slots there are, so the grid covers the most that there may be, and CTAs without a
 * slot exit. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_ROW_GROUPS_CUH
#define LN_BACKEND_CUDA_ACTIVATIONS_ROW_GROUPS_CUH

#include <stdint.h>

#include "backend/cuda/ptx/reduce.cuh"
#include "backend/cuda/runtime/pdl.cuh"

typedef struct ln_group_order {
    unsigned n_groups;
    const int32_t *order, *starts; /* order NULL: row r is of group r % n_groups */
} ln_group_order;

/* n rows of a group, from its row `begin` on (in order, with an order); n 0: none. */
typedef struct ln_group_slot {
    unsigned group, n;
    size_t begin;
} ln_group_slot;

/* As it stands in a list, which one kernel makes for others. */
typedef struct ln_listed_slot {
    ln_group_slot slot;
    unsigned first, count; /* of its group's slots */
} ln_listed_slot;

/* Slots for n_rows rows at the most. */
static inline size_t ln_most_slots(const ln_group_order &g, size_t n_rows, unsigned rows) {
    if (g.order == NULL)
        return g.n_groups * (size_t)ln_ceil_div(ln_ceil_div(n_rows, g.n_groups), rows);
    size_t most = n_rows / rows + (n_rows < g.n_groups ? n_rows : g.n_groups);
    return most < n_rows ? most : n_rows;
}

template <unsigned ROWS>
static __device__ __forceinline__ ln_group_slot ln_find_head_slot(const ln_group_order &g,
                                                                  size_t n_rows, unsigned number) {
    size_t most = (n_rows + g.n_groups - 1) / g.n_groups;
    unsigned per_group = (unsigned)((most + ROWS - 1) / ROWS);
    ln_group_slot slot = {number / per_group, 0, (size_t)(number % per_group) * ROWS};
    size_t n = slot.group < n_rows ? (n_rows - slot.group + g.n_groups - 1) / g.n_groups : 0;
    if (slot.group < g.n_groups && slot.begin < n)
        slot.n = (unsigned)min(n - slot.begin, (size_t)ROWS);
    return slot;
}

/* Slot `number`; all lanes of a warp call together. */
template <unsigned ROWS>
static __device__ __forceinline__ ln_group_slot ln_find_slot(const ln_group_order &g, size_t n_rows,
                                                             unsigned number) {
    if (g.order == NULL)
        return ln_find_head_slot<ROWS>(g, n_rows, number);
    unsigned lane = threadIdx.x % LN_WARP, per_lane = (g.n_groups + LN_WARP - 1) / LN_WARP;
    unsigned first = min(lane * per_lane, g.n_groups), end = min(first + per_lane, g.n_groups);
    unsigned own = 0;
    for (unsigned i = first; i < end; i++)
        own += ((unsigned)(g.starts[i + 1] - g.starts[i]) + ROWS - 1) / ROWS;
    unsigned through = own; /* slots of this lane's groups and those before */
    for (int step = 1; step < LN_WARP; step *= 2) {
        unsigned before = __shfl_up_sync(0xffffffffu, through, step);
        through += lane >= step ? before : 0;
    }
    ln_group_slot slot = {};
    unsigned left = number - (through - own), has = left < own; /* wraps around in lanes behind */
    for (unsigned i = first; has && i < end; i++) {
        unsigned n = (unsigned)(g.starts[i + 1] - g.starts[i]), slots = (n + ROWS - 1) / ROWS;
        if (left < slots) {
            slot.group = i;
            slot.n = min(n - left * ROWS, ROWS);
            slot.begin = (size_t)g.starts[i] + left * ROWS;
            break;
        }
        left -= slots;
    }
    unsigned found = __ballot_sync(0xffffffffu, has), from = found != 0 ? __ffs((int)found) - 1 : 0;
    slot.group = __shfl_sync(0xffffffffu, slot.group, (int)from);
    slot.n = __shfl_sync(0xffffffffu, slot.n, (int)from);
    slot.begin = __shfl_sync(0xffffffffu, (unsigned long long)slot.begin, (int)from);
    return slot;
}

/* Slot `number` and which others its group has. */
template <unsigned ROWS>
static __device__ __forceinline__ ln_listed_slot ln_find_in_list(const ln_group_order &g,
                                                                 size_t n_rows, unsigned number) {
    ln_listed_slot listed = {ln_find_slot<ROWS>(g, n_rows, number), 0, 0};
    const ln_group_slot &slot = listed.slot;
    if (slot.n == 0)
        return listed;
    size_t begin = 0, n = (n_rows - slot.group + g.n_groups - 1) / g.n_groups;
    if (g.order != NULL) {
        begin = (size_t)g.starts[slot.group];
        n = (size_t)g.starts[slot.group + 1] - begin;
    }
    listed.first = number - (unsigned)((slot.begin - begin) / ROWS);
    listed.count = (unsigned)((n + ROWS - 1) / ROWS);
    return listed;
}

/* The row of the result that row i of a slot is. */
static __device__ __forceinline__ size_t ln_slot_row(const ln_group_order &g,
                                                     const ln_group_slot &slot, unsigned i) {
    if (g.order == NULL)
        return slot.group + (slot.begin + i) * g.n_groups;
    return (size_t)g.order[slot.begin + i];
}

#endif
