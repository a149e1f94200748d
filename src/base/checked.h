/* Arithmetic on sizes that come from files: false means overflow, and *out is then unchanged. */
#ifndef LN_BASE_CHECKED_H
#define LN_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool ln_mul(size_t a, size_t b, size_t *out) {
    size_t result;
    if (__builtin_mul_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}
static inline bool ln_add(size_t a, size_t b, size_t *out) {
    size_t result;
    if (__builtin_add_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}
static inline bool ln_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t result;
    if (__builtin_mul_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}
static inline bool ln_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t result;
    if (__builtin_add_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}

#endif
