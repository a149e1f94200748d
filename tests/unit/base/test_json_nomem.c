/* jansson's parser while its memory gives out, at each allocation in turn: an error that says so or
 * the document; no byte is touched past a buffer, behind which a page is closed, and nothing is
 * left. The file under test is compiled here, with a malloc that fails. */
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test.h"

static int n_left = INT_MAX; /* until one fails, or all from there on */
static bool fails_for_good;
static int n_blocks; /* that are not given back */

/* A block ends where its closed pages begin, at a multiple of HEAD, which is as large as any
 * system's pages. */
enum { HEAD = 65536, ROOM = 2 * HEAD };

/* [ROOM + HEAD], at a multiple of HEAD: what lies before and behind it is given back. */
static char *map_aligned(void) {
    char *all =
        mmap(NULL, ROOM + 2 * HEAD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(all, MAP_FAILED);
    size_t n_before = -(uintptr_t)all % HEAD;
    if (n_before > 0)
        assert_int_equal(munmap(all, n_before), 0);
    assert_int_equal(munmap(all + n_before + ROOM + HEAD, HEAD - n_before), 0);
    return all + n_before;
}

static void *failing_malloc(size_t n_bytes) {
    bool fails = n_left == 1 || (n_left < 1 && fails_for_good);
    n_left -= n_left > INT_MIN;
    if (fails)
        return NULL;
    assert_true(n_bytes <= ROOM - HEAD);
    char *pages = map_aligned();
    assert_int_equal(mprotect(pages + ROOM, HEAD, PROT_NONE), 0);
    n_blocks++;
    return pages + ROOM - n_bytes;
}

static void counting_free(void *memory) {
    uintptr_t at = (uintptr_t)memory;
    if (memory == NULL)
        return;
    n_blocks--;
    assert_int_equal(munmap((void *)((at - 1) / HEAD * HEAD + HEAD - ROOM), ROOM + HEAD), 0);
}

/* The library has the same file. */
#define ln_json_load_bytes     own_json_load_bytes
#define ln_json_estimate_bytes own_json_estimate_bytes
#define ln_json_memory_watch   own_json_memory_watch
#define ln_json_memory_clear   own_json_memory_clear
#define ln_json_memory_failed  own_json_memory_failed
#define malloc                 failing_malloc
#define free                   counting_free
#include "base/json/load.c" // NOLINT(bugprone-suspicious-include)
#undef malloc
#undef free

/* A document with strings of all lengths, so that buffers grow at each byte of one, in an
 * allocation of just its size. */
static char *make_text(size_t n_strings, size_t *n_bytes) {
    enum { ELSE = 40 };
    char *text = malloc(n_strings * (n_strings + ELSE) + ELSE);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "[{\"k\":[1,2.5,true,null,{}],\"\\u00e9\":\"\"}");
    for (size_t i = 0; i < n_strings; i++) {
        memset(text + at, 'x', i + 3);
        text[at] = ',';
        text[at + 1] = '"';
        at += i + 3;
        text[at++] = '"';
    }
    text[at++] = ']';
    *n_bytes = at;
    char *fitting = realloc(text, at);
    assert_non_null(fitting);
    return fitting;
}

/* All N, one failing or all from it on; returns how many parses there were. */
static int fail_each(const char *text, size_t n_bytes, const json_t *right) {
    int nth = 0;
    for (bool is_over = false; !is_over;) {
        json_error_t error = {0};
        n_left = ++nth;
        json_t *root = ln_json_load_bytes(text, n_bytes, JSON_ALLOW_NUL, &error);
        is_over = n_left > 0; /* there is no Nth */
        n_left = INT_MAX;
        if (is_over)
            assert_true(json_equal(root, right));
        else
            assert_int_equal(json_error_code(&error), json_error_out_of_memory);
        assert_true((root != NULL) == is_over);
        json_decref(root);
    }
    return nth - 1;
}

static void says_that_memory_is_out(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 40};
    ln_json_memory_watch();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n_bytes;
        char *text = make_text(sizes[i], &n_bytes);
        json_t *right = ln_json_load_bytes(text, n_bytes, JSON_ALLOW_NUL, NULL);
        assert_non_null(right);
        int n_before = n_blocks;
        fails_for_good = false;
        int n_once = fail_each(text, n_bytes, right);
        fails_for_good = true;
        int n_for_good = fail_each(text, n_bytes, right);
        assert_int_equal(n_once, n_for_good);
        assert_true(n_once > (int)sizes[i]);
        assert_int_equal(n_blocks, n_before);
        print_message("%zu bytes: each of %d allocations failed, alone and for good\n", n_bytes,
                      n_once);
        json_decref(right);
        free(text);
    }
}

/* Malformed text is no lack of memory, and neither is said once the other has been cleared. */
static void tells_malformed_text(void **state) {
    (void)state;
    json_error_t error = {0};
    ln_json_memory_watch();
    ln_json_memory_clear();
    assert_null(ln_json_load_bytes("[1,", 3, 0, &error));
    assert_int_equal(json_error_code(&error), json_error_premature_end_of_input);
    assert_false(ln_json_memory_failed());
    n_left = 1;
    assert_null(ln_json_load_bytes("[1]", 3, 0, &error));
    n_left = INT_MAX;
    assert_true(ln_json_memory_failed());
    ln_json_memory_clear();
    assert_false(ln_json_memory_failed());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_that_memory_is_out),
                                       cmocka_unit_test(tells_malformed_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
