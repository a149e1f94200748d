/* The groups that wait, run, and are swapped out, all in one order: first come, first served, or by
 * priority; before both go groups that are overdue. */
#ifndef LN_ENGINE_QUEUES_H
#define LN_ENGINE_QUEUES_H

#include <linnet.h>

#include "engine/sequence.h"

typedef struct ln_queues {
    linnet_order order;
    ln_group_queue waiting, swapped;
    ln_sequence_group **running; /* [n_running] of [max_seqs] */
    size_t n_running;
    size_t n_seqs, max_seqs; /* live sequences of running groups */
} ln_queues;

/* Puts a group to its place in `queue`, which is one of these. */
void ln_queues_insert(const ln_queues *queues, ln_group_queue *queue, ln_sequence_group *group);

/* Adds a group, which is in no queue, to the running ones; returns its place. */
size_t ln_queues_run(ln_queues *queues, ln_sequence_group *group);
/* Takes a running group out. */
void ln_queues_unrun(ln_queues *queues, ln_sequence_group *group);

#endif
