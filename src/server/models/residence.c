#include "server/models/residence.h"

#include <sys/mman.h>

/* At once, as other threads cannot map memory meanwhile. */
enum { PART_BYTES = 64 << 20 };

/* Reads a part of a map, and locks it where the system lets it. */
static bool hold_part(char *memory, size_t n_bytes, bool can_lock) {
    if (can_lock && mlock(memory, n_bytes) == 0)
        return true;
    if (madvise(memory, n_bytes, MADV_POPULATE_READ) != 0)
        (void)madvise(memory, n_bytes, MADV_WILLNEED); /* an older kernel */
    return false;
}

void ln_residence_hold(ln_residence *residence, const ln_checkpoint *checkpoint,
                       const atomic_bool *is_awaited) {
    *residence = (ln_residence){.checkpoint = checkpoint, .is_locked = true};
    for (size_t i = 0; i < ln_checkpoint_file_count(checkpoint); i++) {
        size_t n_bytes;
        char *memory = ln_checkpoint_map(checkpoint, i, &n_bytes);
        for (size_t at = 0; at < n_bytes && !atomic_load(is_awaited); at += PART_BYTES) {
            size_t n = n_bytes - at < PART_BYTES ? n_bytes - at : PART_BYTES;
            residence->is_locked = hold_part(memory + at, n, residence->is_locked);
            residence->n_bytes += n;
        }
    }
    residence->is_locked = residence->is_locked && !atomic_load(is_awaited);
}

void ln_residence_release(ln_residence *residence, bool drops) {
    const ln_checkpoint *checkpoint = residence->checkpoint;
    size_t n_files = checkpoint != NULL ? ln_checkpoint_file_count(checkpoint) : 0;
    for (size_t i = 0; i < n_files; i++) {
        size_t n_bytes;
        char *memory = ln_checkpoint_map(checkpoint, i, &n_bytes);
        for (size_t at = 0; at < n_bytes; at += PART_BYTES) {
            size_t n = n_bytes - at < PART_BYTES ? n_bytes - at : PART_BYTES;
            munlock(memory + at, n);
            if (drops)
                (void)madvise(memory + at, n, MADV_DONTNEED);
        }
    }
    *residence = (ln_residence){0};
}

size_t ln_residence_file_bytes(const ln_checkpoint *checkpoint) {
    size_t total = 0;
    for (size_t i = 0; i < ln_checkpoint_file_count(checkpoint); i++) {
        size_t n_bytes = 0;
        int fd;
        ln_checkpoint_file(checkpoint, i, &fd, &n_bytes);
        total += n_bytes;
    }
    return total;
}
