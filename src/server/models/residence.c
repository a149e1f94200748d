#include "server/models/residence.h"

#include <stdlib.h>
#include <sys/mman.h>

void ln_residence_hold(ln_residence *residence, const ln_checkpoint *checkpoint) {
    size_t n_files = ln_checkpoint_file_count(checkpoint);
    residence->maps = calloc(n_files > 0 ? n_files : 1, sizeof *residence->maps);
    residence->is_locked = residence->maps != NULL;
    for (size_t i = 0; residence->maps != NULL && i < n_files; i++) {
        size_t n_bytes = 0;
        int fd;
        ln_checkpoint_file(checkpoint, i, &fd, &n_bytes);
        void *memory = n_bytes > 0
                           ? mmap(NULL, n_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0)
                           : MAP_FAILED;
        if (memory == MAP_FAILED) {
            residence->is_locked = false;
            continue;
        }
        residence->is_locked = mlock(memory, n_bytes) == 0 && residence->is_locked;
        residence->maps[residence->n_maps++] = (ln_residence_map){memory, n_bytes};
        residence->n_bytes += n_bytes;
    }
}

void ln_residence_release(ln_residence *residence) {
    for (size_t i = 0; i < residence->n_maps; i++)
        munmap(residence->maps[i].memory, residence->maps[i].n_bytes);
    free(residence->maps);
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
