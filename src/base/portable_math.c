#include "base/portable_math.h"

#include <stdint.h>
#include <string.h>

static const double ln2_high = LN_LN2_HIGH, ln2_low = LN_LN2_LOW;

static const double inverse_factorials[LN_EXP_TERMS] = LN_EXP_FACTORS;

/* Two lanes: every machine has vectors of that size, or the compiler does them one by one. */
typedef double lanes __attribute__((vector_size(16)));
typedef int64_t integer_lanes __attribute__((vector_size(16)));
enum { N_LANES = 2 };

/* x = n ln 2 + r with |r| <= ln 2 / 2, and the Taylor series of e^r, whose error is below 1e-15
 * relative. */
static inline void exponential(lanes *at) {
    const double round = LN_EXP_ROUND;
    integer_lanes is_seen = *at > LN_EXP_LEAST;
    lanes x = (lanes)((integer_lanes)*at & is_seen);
    lanes shifted = x * LN_LOG2_E + round;
    lanes n = shifted - round;
    lanes r = (x - n * ln2_high) - n * ln2_low;
    lanes sum = inverse_factorials[LN_EXP_TERMS - 1] + (lanes){0};
    for (int k = LN_EXP_TERMS - 2; k >= 0; k--)
        sum = inverse_factorials[k] + sum * r;
    lanes scale = (lanes)(((integer_lanes)shifted + 1023) << 52);
    *at = (lanes)((integer_lanes)(sum * scale) & is_seen);
}

double ln_exp_nonpositive(double x) {
    lanes both = {x, x};
    exponential(&both);
    return both[0];
}

void ln_exp_nonpositive_each(double x[LN_EXP_EACH]) {
    for (size_t i = 0; i < LN_EXP_EACH; i += N_LANES) {
        lanes some;
        memcpy(&some, x + i, sizeof some);
        exponential(&some);
        memcpy(x + i, &some, sizeof some);
    }
}

/* x = 2^n m with m around 1, and the series of log m = 2 artanh((m - 1) / (m + 1)). */
double ln_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t n = (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | (uint64_t)1023 << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        n++;
    }
    double f = (m - 1) / (m + 1), square = f * f, sum = 0;
    for (int k = 23; k >= 1; k -= 2)
        sum = sum * square + 1.0 / k;
    return (double)n * ln2_high + (2 * f * sum + (double)n * ln2_low);
}

double ln_power(double base, unsigned n) {
    double power = 1;
    for (; n > 0; n >>= 1) {
        if (n & 1)
            power *= base;
        base *= base;
    }
    return power;
}
