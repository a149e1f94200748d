/* Preemption: a running group gives its blocks up and comes back later. */
#ifndef LN_ENGINE_PREEMPT_H
#define LN_ENGINE_PREEMPT_H

#include "engine/scheduler.h"

/* Takes a running group, none of whose sequences has a chunk in this step, out: to the swap space,
 * or to the waiting ones, to be computed again. */
void ln_preempt(ln_scheduler *scheduler, ln_sequence_group *group);

/* Brings a swapped group back and runs it; false when there is no room. *place: among the running
 * ones. */
bool ln_preempt_resume(ln_scheduler *scheduler, ln_sequence_group *group, size_t *place);

#endif
