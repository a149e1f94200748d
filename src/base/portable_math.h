/* Exponential and logarithm by IEEE additions, multiplications and divisions only: the same bits on
 * every machine, so that a seed gives the same tokens everywhere. */
#ifndef LN_BASE_PORTABLE_MATH_H
#define LN_BASE_PORTABLE_MATH_H

/* What e^x is made of, for the host and for devices: x = n ln 2 + r, and the series of e^r. */
#define LN_LOG2_E   1.4426950408889634
#define LN_LN2_HIGH 0.6931471803691238
#define LN_LN2_LOW  1.9082149292705877e-10
/* Added, it rounds to a whole number, which is in the lowest bits. */
#define LN_EXP_ROUND 0x1.8p52
#define LN_EXP_LEAST (-700.0) /* below it is 0 */
enum { LN_EXP_TERMS = 14 };
#define LN_EXP_FACTORS                                                                             \
    {                                                                                              \
        1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,       \
            1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800         \
    }

/* e^x for x <= 0; 0 below -700. */
double ln_exp_nonpositive(double x);
/* In place, for many at once: the same bits, faster. */
enum { LN_EXP_EACH = 64 };
void ln_exp_nonpositive_each(double x[LN_EXP_EACH]);

/* A weight in [0, 1], rounded to a multiple of 2^-32: sums of up to 2^20 such are exact, whatever
 * their order. */
#define LN_WEIGHT_ROUND 0x1.8p20 /* whose last bit is 2^-32 */
static inline double ln_round_weight(double weight) {
    return (weight + LN_WEIGHT_ROUND) - LN_WEIGHT_ROUND;
}

/* The same to a multiple of 2^-40: sums of up to 2^12 are exact. */
#define LN_FINE_ROUND 0x1.8p12
static inline double ln_round_fine(double weight) {
    return (weight + LN_FINE_ROUND) - LN_FINE_ROUND;
}

/* The natural logarithm of a normal number above 0. */
double ln_log(double x);

/* base^n. */
double ln_power(double base, unsigned n);

#endif
