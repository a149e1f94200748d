/* The first SIGINT or SIGTERM asks the program to end cleanly; a second one ends it at once. */
#ifndef LN_CLI_INTERRUPT_H
#define LN_CLI_INTERRUPT_H

#include <stdbool.h>

/* How long to wait for an event before looking again, in ms. */
enum { LN_INTERRUPT_POLL_MS = 100 };

void ln_interrupt_catch(void);
bool ln_interrupt_seen(void);

#endif
