/* The size of the device memory by which CTAs combine partial sums of split-K. It follows from the
 * SM count, since CTAs that wait for each other must all be resident. */
#ifndef LN_BACKEND_CUDA_RUNTIME_SPLIT_K_H
#define LN_BACKEND_CUDA_RUNTIME_SPLIT_K_H

#include <stddef.h>

/* Floats of a slot: partial sums of 64 rows by 128 columns. */
enum { LN_SPLIT_K_SLOT_FLOATS = 64 * 128 };

typedef struct ln_split_k_sizes {
    unsigned n_flags; /* 4 for each of up to 12 warps of a CTA */
    unsigned
        n_floats; /* a slot for each CTA, or 8 K splits of an output tile of 128 x 128 for two */
    unsigned n_slots; /* 4 for each CTA */
} ln_split_k_sizes;

static inline ln_split_k_sizes ln_split_k_sizes_of(unsigned n_sms) {
    ln_split_k_sizes sizes = {4 * 12 * n_sms, (n_sms + 1) / 2 * (8 * 128 * 128), 4 * n_sms};
    return sizes;
}

static inline size_t ln_split_k_bytes(unsigned n_sms) {
    ln_split_k_sizes sizes = ln_split_k_sizes_of(n_sms);
    return sizeof(float) * (sizes.n_flags + (size_t)sizes.n_floats +
                            (size_t)sizes.n_slots * LN_SPLIT_K_SLOT_FLOATS);
}

#endif
