/* Counting on an eventfd that is known to take what is written: a signal, a policy or a fault may
 * keep a call from succeeding for a while. */
#ifndef LN_BASE_EVENTFD_H
#define LN_BASE_EVENTFD_H

#include <stdbool.h>
#include <stdint.h>

/* Adds to the count; false when the call fails again and again, not for a signal. */
bool ln_eventfd_add(int fd, uint64_t count);
/* Takes the count, or one of it with EFD_SEMAPHORE, from a descriptor that does not block. */
void ln_eventfd_take(int fd);

#endif
