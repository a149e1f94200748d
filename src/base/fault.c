#include "base/fault.h"

#include <errno.h>
#include <linnet.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

enum { MAX_MAPS = 256 };

typedef struct watched_map {
    _Atomic uintptr_t begin; /* 0: the slot is free; 1: being filled */
    _Atomic size_t bytes;
    atomic_bool hit;
} watched_map;

static watched_map maps[MAX_MAPS];
static struct sigaction previous;
static size_t page_bytes;

int ln_fault_watch(const void *data, size_t bytes) {
    for (int slot = 0; slot < MAX_MAPS; slot++) {
        uintptr_t free_slot = 0;
        if (!atomic_compare_exchange_strong(&maps[slot].begin, &free_slot, 1))
            continue;
        atomic_store(&maps[slot].bytes, bytes);
        atomic_store(&maps[slot].hit, false);
        atomic_store(&maps[slot].begin, (uintptr_t)data);
        return slot;
    }
    return -1;
}

void ln_fault_unwatch(int slot) {
    if (slot >= 0)
        atomic_store(&maps[slot].begin, 0);
}

bool ln_fault_hit(int slot) {
    return slot >= 0 && atomic_load(&maps[slot].hit);
}

/* Puts zeros in place of the pages from `address` to the end of the map that holds it. */
static bool replace_lost_pages(uintptr_t address) {
    for (int slot = 0; slot < MAX_MAPS; slot++) {
        uintptr_t begin = atomic_load(&maps[slot].begin);
        size_t bytes = atomic_load(&maps[slot].bytes);
        if (begin <= 1 || address < begin || address - begin >= bytes)
            continue;
        uintptr_t page = address / page_bytes * page_bytes;
        void *zeros = mmap((void *)page, begin + bytes - page, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        atomic_store(&maps[slot].hit, true);
        return zeros != MAP_FAILED;
    }
    return false;
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    int saved_errno = errno;
    if (replace_lost_pages((uintptr_t)info->si_addr)) {
        errno = saved_errno;
        return;
    }
    if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != NULL)
        previous.sa_sigaction(signal_number, info, context);
    else
        sigaction(SIGBUS, &previous, NULL); /* the access repeats and meets the old action */
    errno = saved_errno;
}

ln_status ln_fault_install(ln_error *err) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction current;
    sigemptyset(&action.sa_mask);
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &current) != 0)
        return ln_fail(err, LINNET_ERR_STATE, "cannot read the action of SIGBUS: %s",
                       strerror(errno));
    if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_fault)
        return LINNET_OK;
    previous = current;
    if (sigaction(SIGBUS, &action, NULL) != 0)
        return ln_fail(err, LINNET_ERR_STATE, "cannot handle SIGBUS: %s", strerror(errno));
    return LINNET_OK;
}
