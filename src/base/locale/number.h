/* Numbers as text in the C locale, with a point, whatever locale the program around the library has
 * set (LC_NUMERIC: many write a comma). */
#ifndef LN_BASE_LOCALE_NUMBER_H
#define LN_BASE_LOCALE_NUMBER_H

#include <stddef.h>

/* As strtod and snprintf. */
double ln_strtod(const char *text, char **end);
int ln_snprintf(char *text, size_t n_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
