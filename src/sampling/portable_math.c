#include "sampling/portable_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double ln2_high = 0.6931471803691238, ln2_low = 1.9082149292705877e-10;

static const double inverse_factorials[] = {1.0,
                                            1.0,
                                            1.0 / 2,
                                            1.0 / 6,
                                            1.0 / 24,
                                            1.0 / 120,
                                            1.0 / 720,
                                            1.0 / 5040,
                                            1.0 / 40320,
                                            1.0 / 362880,
                                            1.0 / 3628800,
                                            1.0 / 39916800,
                                            1.0 / 479001600,
                                            1.0 / 6227020800};

/* x = n ln 2 + r with |r| <= ln 2 / 2, and the Taylor series of e^r, whose error is below 1e-15
 * relative. */
double ln_exp_nonpositive(double x) {
    if (!(x > -700))
        return 0;
    double n = floor(x * 1.4426950408889634 + 0.5);
    double r = (x - n * ln2_high) - n * ln2_low;
    double sum = inverse_factorials[13];
    for (int k = 12; k >= 0; k--)
        sum = inverse_factorials[k] + sum * r;
    uint64_t bits = (uint64_t)(1023 + (int64_t)n) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
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
