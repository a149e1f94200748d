/* FNV-1a of 64 bits (Fowler, Noll and Vo) over words in place of bytes: a quick hash of numbers,
 * not one against those who choose them (siphash.h). */
#ifndef LN_BASE_HASH_FNV_H
#define LN_BASE_HASH_FNV_H

#include <stdint.h>

#define LN_FNV_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t ln_fnv_add(uint64_t hash, uint64_t word) {
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

#endif
