/* Opening a checkpoint while one allocation fails, for each in turn: the error says so, and
 * nothing leaks. A sanitizer brings its own malloc; under one this test does nothing. The
 * allocations of jansson do not fail here: 2.14 reads past its buffer when that cannot grow. */
#include "test.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "format/checkpoint.h"

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&       \
    !HAS_FEATURE(address_sanitizer) && !HAS_FEATURE(thread_sanitizer) &&                           \
    !HAS_FEATURE(memory_sanitizer)
#define INTERPOSE 1
#else
#define INTERPOSE 0
#endif

#if INTERPOSE
static long countdown = -1; /* allocations until the one that fails; negative: none fails */
static long n_live;

#pragma GCC visibility push(default) /* the libraries are to use these too */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

static bool fails(void) {
    if (countdown < 0 || countdown-- > 0)
        return false;
    errno = ENOMEM;
    return true;
}

static void *counted(void *memory) {
    n_live += memory != NULL;
    return memory;
}

void *malloc(size_t bytes) {
    return fails() ? NULL : counted(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes) {
    return fails() ? NULL : counted(__libc_calloc(count, bytes));
}

void *realloc(void *memory, size_t bytes) {
    if (fails())
        return NULL;
    void *moved = __libc_realloc(memory, bytes);
    n_live += memory == NULL && moved != NULL;
    return moved;
}

void free(void *memory) {
    n_live -= memory != NULL;
    __libc_free(memory);
}
#pragma GCC visibility pop

static void *malloc_for_json(size_t bytes) {
    return counted(__libc_malloc(bytes));
}

/* How many allocations an open makes. */
static long open_without(const char *path) {
    ln_checkpoint *checkpoint;
    for (long n = 0;; n++) {
        ln_error err = {0};
        long before = n_live;
        countdown = n;
        ln_status status = ln_checkpoint_open(path, false, &checkpoint, &err);
        bool failed = countdown < 0;
        countdown = -1;
        if (status == LINNET_OK) {
            ln_checkpoint_close(checkpoint);
        } else {
            assert_null(checkpoint);
            if (status != LINNET_ERR_NOMEM)
                fail_msg("allocation %ld: %s", n, err.message);
        }
        assert_int_equal(n_live, before);
        if (!failed) {
            assert_int_equal(status, LINNET_OK);
            return n;
        }
    }
}

#endif

static void each_failed_allocation_is_an_error(void **state) {
    (void)state;
#if INTERPOSE
    json_set_alloc_funcs(malloc_for_json, free);
    ln_checkpoint *checkpoint;
    const char *paths[] = {TEST_SOURCE_DIR "/tests/golden/models/llama",
                           TEST_SOURCE_DIR "/tests/golden/models/llama_sharded"};
    for (size_t i = 0; i < 2; i++) {
        /* once before, for what libraries allocate just once */
        assert_int_equal(ln_checkpoint_open(paths[i], false, &checkpoint, NULL), LINNET_OK);
        ln_checkpoint_close(checkpoint);
        assert_true(open_without(paths[i]) > 10);
    }
#endif
}

static void gguf_too(void **state) {
    (void)state;
#if INTERPOSE
    static const char gguf[] = TEST_SOURCE_DIR "/tests/fuzz/corpus/gguf/valid";
    assert_true(open_without(gguf) > 5);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failed_allocation_is_an_error),
        cmocka_unit_test(gguf_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
