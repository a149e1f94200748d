/* Preloaded into a program, it lets one allocation fail: the file that LINNET_FAILING_MALLOC names
 * holds a number, which the test writes and each allocation counts down; the one that brings it to
 * zero gets no memory. 0 or less: nothing is counted. Behind it stands how many allocations live.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's own, behind the names that this library takes. */
void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void *__libc_realloc(void *memory, size_t n_bytes);
void *__libc_memalign(size_t alignment, size_t n_bytes);
void __libc_free(void *memory);

#define TAKES __attribute__((visibility("default")))

static atomic_int *n_left; /* [2], shared with the test; NULL: not yet */

__attribute__((constructor)) static void open_count(void) {
    const char *path = getenv("LINNET_FAILING_MALLOC");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *shared = mmap(NULL, 2 * sizeof *n_left, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED)
        n_left = shared;
}

static bool fails(void) {
    if (n_left == NULL || atomic_load(n_left) <= 0 || atomic_fetch_sub(n_left, 1) != 1)
        return false;
    errno = ENOMEM;
    return true;
}

static void *count(void *memory, int n) {
    if (memory != NULL && n_left != NULL)
        atomic_fetch_add(&n_left[1], n);
    return memory;
}

TAKES void *malloc(size_t n_bytes) {
    return fails() ? NULL : count(__libc_malloc(n_bytes), 1);
}

TAKES void *calloc(size_t n, size_t n_bytes) {
    return fails() ? NULL : count(__libc_calloc(n, n_bytes), 1);
}

TAKES void *realloc(void *memory, size_t n_bytes) {
    return fails() ? NULL : count(__libc_realloc(memory, n_bytes), memory == NULL);
}

/* Aligned memory does not fail, since nobody asks for it while serving; free() takes it, too. */
TAKES void *aligned_alloc(size_t alignment, size_t n_bytes) {
    return count(__libc_memalign(alignment, n_bytes), 1);
}

TAKES int posix_memalign(void **memory, size_t alignment, size_t n_bytes) {
    void *taken = aligned_alloc(alignment, n_bytes);
    if (taken == NULL)
        return ENOMEM;
    *memory = taken;
    return 0;
}

TAKES void free(void *memory) {
    __libc_free(count(memory, -1));
}
