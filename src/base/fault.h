/* Files that shrink while they are mapped: reading past their new end raises SIGBUS. With the
 * handler installed, the lost pages are replaced by zeros and the map is marked failed; whoever
 * reads it asks afterwards.
 *
 * A table of the maps that are open, which the signal handler searches, is the library's only
 * global but for two of the CUDA backend: whether an engine of the process has the fused kernels
 * (cuda/backend.c), and which code each device runs (cuda/runtime/pdl.cu). The program decides
 * whether the handler is installed (linnet_install_fault_handler). */
#ifndef LN_BASE_FAULT_H
#define LN_BASE_FAULT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* As linnet_install_fault_handler. */
ln_status ln_fault_install(ln_error *err);

/* Watches bytes [data, data + bytes) until unwatched; returns a slot, or -1 when the table is full
 * (the map is then not watched, and a fault in it ends the process as without a handler). */
int ln_fault_watch(const void *data, size_t bytes);
void ln_fault_unwatch(int slot); /* -1 is fine */

/* Whether a fault hit the map. */
bool ln_fault_hit(int slot);

#endif
