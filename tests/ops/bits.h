/* Recorded bits: a hash of what each test of operations got from a backend, so that a change that
 * is to keep bits (a move, a merge of kernels) shows that it does. A file per backend, instruction
 * set and precision; a line per test and what it compares, and one for functions of the C library
 * such as expf, which kernels of the CPU call. */
#ifndef LN_TESTS_OPS_BITS_H
#define LN_TESTS_OPS_BITS_H

#include <stdbool.h>
#include <stddef.h>

/* What is added from now on belongs to this test; the string stays the caller's. */
void bits_begin_test(const char *name);
/* Adds n numbers that the backend under test gave; all NaN count as one. */
void bits_add(const char *what, const float *x, size_t n);

bool bits_write(const char *path);
/* Whether all lines that the file and this run share are equal; prints those that differ. True
 * where there is no such file, or where it was recorded with a C library that rounds otherwise. */
bool bits_compare(const char *path);

#endif
