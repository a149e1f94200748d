/* SIGINT and SIGTERM ask the program, or what it is doing, to end cleanly. */
#ifndef LN_CLI_INTERRUPT_H
#define LN_CLI_INTERRUPT_H

#include <stdbool.h>

/* How long to wait for an event before looking again, in ms. */
enum { LN_INTERRUPT_POLL_MS = 100 };

/* From now on the first signal is only seen; a second one ends the program at once. */
void ln_interrupt_catch(void);
bool ln_interrupt_seen(void);

/* For programs that go on: between hold and release any number of SIGINT is only seen. Release
 * gives it the effect that it had before; forget makes it unseen. */
void ln_interrupt_hold(void);
void ln_interrupt_release(void);
void ln_interrupt_forget(void);

#endif
