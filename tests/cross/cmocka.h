/* Stands in for cmocka where tests are built for another machine, whose libraries are not there:
 * what the tests of base/ and backend/ use of it. A failed assertion ends the test program. */
#ifndef LN_TESTS_CROSS_CMOCKA_H
#define LN_TESTS_CROSS_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
};
#define cmocka_unit_test(function)                                                                 \
    { #function, function }

#define fail_msg(...)                                                                              \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        exit(EXIT_FAILURE);                                                                        \
    } while (0)
#define assert_true(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s", #condition);                                                            \
    } while (0)
#define assert_false(condition)          assert_true(!(condition))
#define assert_null(pointer)             assert_true((pointer) == NULL)
#define assert_non_null(pointer)         assert_true((pointer) != NULL)
#define assert_int_equal(a, b)           assert_true((unsigned long long)(a) == (unsigned long long)(b))
#define assert_string_equal(a, b)        assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, bytes) assert_true(memcmp(a, b, bytes) == 0)

static inline int run_tests(const struct CMUnitTest *tests, size_t n_tests) {
    for (size_t i = 0; i < n_tests; i++) {
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].test_func(NULL);
    }
    return EXIT_SUCCESS;
}
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    run_tests(tests, sizeof(tests) / sizeof(tests)[0])

#endif
