/* Exponential and logarithm by IEEE additions, multiplications and divisions only: the same bits on
 * every machine, so that a seed gives the same tokens everywhere. */
#ifndef LN_BASE_PORTABLE_MATH_H
#define LN_BASE_PORTABLE_MATH_H

/* e^x for x <= 0; 0 below -700. */
double ln_exp_nonpositive(double x);
/* In place, for many at once: the same bits, faster. */
enum { LN_EXP_EACH = 64 };
void ln_exp_nonpositive_each(double x[LN_EXP_EACH]);

/* A weight in [0, 1], rounded to a multiple of 2^-32: sums of up to 2^20 such are exact, whatever
 * their order. */
static inline double ln_round_weight(double weight) {
    const double unit = 0x1.8p20; /* whose last bit is 2^-32 */
    return (weight + unit) - unit;
}

/* The natural logarithm of a normal number above 0. */
double ln_log(double x);

/* base^n. */
double ln_power(double base, unsigned n);

#endif
