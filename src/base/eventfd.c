#include "base/eventfd.h"

#include <errno.h>
#include <unistd.h>

enum { MAX_ATTEMPTS = 1000 };

bool ln_eventfd_add(int fd, uint64_t count) {
    for (int failed = 0; failed < MAX_ATTEMPTS;) {
        if (write(fd, &count, sizeof count) == sizeof count)
            return true;
        failed += errno != EINTR;
    }
    return false;
}

void ln_eventfd_take(int fd) {
    uint64_t count;
    for (int failed = 0; failed < MAX_ATTEMPTS;) {
        if (read(fd, &count, sizeof count) == sizeof count || errno == EAGAIN)
            return;
        failed += errno != EINTR;
    }
}
