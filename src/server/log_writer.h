/* Writes lines to a descriptor from a thread of its own: who logs never waits for a terminal or a
 * pipe that nobody reads. What does not fit into the queue is dropped. */
#ifndef LN_SERVER_LOG_WRITER_H
#define LN_SERVER_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct ln_log_writer ln_log_writer;

/* The descriptor stays the caller's, open until close. `capacity`: bytes that may wait. Errors:
 * NOMEM, IO. */
ln_status ln_log_writer_open(int fd, size_t capacity, ln_log_writer **writer, ln_error *err);
/* Queues a line; false: it was dropped. From any thread. */
bool ln_log_writer_put(ln_log_writer *writer, const char *line, size_t n_bytes);
/* Waits until all is written, wait_ms at most. NULL is fine. */
void ln_log_writer_close(ln_log_writer *writer, uint32_t wait_ms);

#endif
