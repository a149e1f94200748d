/* SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): who does not know
 * the key cannot make inputs collide. */
#ifndef LN_BASE_HASH_SIPHASH_H
#define LN_BASE_HASH_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ln_siphash(const uint64_t key[2], const void *data, size_t n_bytes);

#endif
