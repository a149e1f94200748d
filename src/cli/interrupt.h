/* SIGINT and SIGTERM ask the program, or what it is doing, to end cleanly. */
#ifndef LN_CLI_INTERRUPT_H
#define LN_CLI_INTERRUPT_H

#include <stdbool.h>

/* How long to wait for an event before looking again, in ms. */
enum { LN_INTERRUPT_POLL_MS = 100 };

/* From now on the first signal is only seen; a second one ends the program at once. */
void ln_interrupt_catch(void);
bool ln_interrupt_seen(void);

/* For programs that go on: between hold and release all signals are only seen. Release gives them
 * the effect that they had before, and returns the number of the last one that came, or 0. */
void ln_interrupt_hold(void);
int ln_interrupt_release(void);

#endif
