/* What every test includes: cmocka, in the order its header needs. */
#ifndef LN_TESTS_TEST_H
#define LN_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#endif
