/* The order of groups. */
#ifndef LN_ENGINE_ORDER_H
#define LN_ENGINE_ORDER_H

#include "engine/scheduler.h"

/* Whether `a` goes before `b`. */
bool ln_order_is_before(const ln_scheduler *scheduler, const ln_sequence_group *a,
                        const ln_sequence_group *b);
/* Puts a group to its place. */
void ln_order_insert(const ln_scheduler *scheduler, ln_group_queue *queue,
                     ln_sequence_group *group);
/* Of the running groups: returns its place. */
size_t ln_order_run(ln_scheduler *scheduler, ln_sequence_group *group);
void ln_order_unrun(ln_scheduler *scheduler, ln_sequence_group *group);

#endif
