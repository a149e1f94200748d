/* Adapters of linears and embeddings for the tests of operations: random ones, on a side in the
 * form that its backend reads, and rows sorted by the adapter that they have. */
#ifndef LN_TESTS_OPS_ADAPTER_SLOTS_H
#define LN_TESTS_OPS_ADAPTER_SLOTS_H

#include "ops/ops.h"

/* What one slot does to one matrix. */
typedef struct slot_data {
    size_t rank, n_in, n_out;
    float *a, *b, *multiply, *after; /* the last two or NULL */
} slot_data;

/* n in whole LN_ADAPTER_ROWS. */
size_t whole_adapter_rows(size_t n);

/* A and B of numbers in [-most, most), without vectors. */
slot_data make_slot(size_t rank, size_t n_in, size_t n_out, float most);
void free_slot(slot_data *d);

/* Lets a weight, or the table of an embedding, have the adapters; `targets` [n_slots], the host's,
 * outlive it. */
void put_slots(side *s, const slot_data *slots, size_t n_slots, bool is_embedding,
               ln_weight *weight, ln_adapter_target *targets);

/* Sorts n rows by adapter, in runs; `order` and `runs` have room for n. */
ln_adapter_rows sort_by_slot(const int32_t *slots, size_t n, size_t n_slots, int32_t *order,
                             ln_adapter_run *runs);

#endif
