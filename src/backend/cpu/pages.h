/* Huge pages for memory that is read from end to end, which then misses the TLB less. All of it is
 * advice: a refusal is no matter. */
#ifndef LN_BACKEND_CPU_PAGES_H
#define LN_BACKEND_CPU_PAGES_H

#include "backend/op.h"

enum { LN_HUGE_PAGE_BYTES = 2 << 20 };

/* For what will be written first from now on; the ends are moved outward to multiples of `page`. */
void ln_cpu_advise_huge_pages(void *memory, size_t bytes, size_t page);

/* For the part of the cache that the steps of a long prompt fill, before they do. A short one
 * touches a few bytes in many places, and would wait for a huge page to be cleared for each. */
void ln_cpu_advise_huge_cache(const ln_op *ops, size_t n_ops);

#endif
