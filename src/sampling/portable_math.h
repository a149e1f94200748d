/* Exponential and logarithm by IEEE additions, multiplications and divisions only: the same bits on
 * every machine, so that a seed gives the same tokens everywhere. */
#ifndef LN_SAMPLING_PORTABLE_MATH_H
#define LN_SAMPLING_PORTABLE_MATH_H

/* e^x for x <= 0; 0 below -700. */
double ln_exp_nonpositive(double x);
/* In place, for many at once: the same bits, faster. */
enum { LN_EXP_EACH = 64 };
void ln_exp_nonpositive_each(double x[LN_EXP_EACH]);

/* The natural logarithm of a normal number above 0. */
double ln_log(double x);

/* base^n. */
double ln_power(double base, unsigned n);

#endif
