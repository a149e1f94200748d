/* Read before every file by `make check-tidy`: tells the analyzer that ln_fail returns the status
 * that it is given, so that it follows no path where a failure counts as success. */
#include "base/error.h"

#define ln_fail(err, status, ...) ((void)ln_fail(err, status, __VA_ARGS__), (status))
