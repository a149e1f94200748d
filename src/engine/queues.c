#include "engine/queues.h"

#include "base/error.h"

static bool is_before(const ln_queues *q, const ln_sequence_group *a, const ln_sequence_group *b) {
    if (a->is_overdue != b->is_overdue)
        return a->is_overdue;
    if (q->order == LINNET_ORDER_PRIORITY && a->priority != b->priority)
        return a->priority < b->priority;
    return a->arrival < b->arrival;
}

void ln_queues_insert(const ln_queues *q, ln_group_queue *queue, ln_sequence_group *group) {
    ln_sequence_group *place = queue->last;
    while (place != NULL && is_before(q, group, place))
        place = place->previous;
    ln_group_queue_insert(queue, group, place);
}

size_t ln_queues_run(ln_queues *q, ln_sequence_group *group) {
    size_t at = q->n_running++;
    for (; at > 0 && is_before(q, group, q->running[at - 1]); at--)
        q->running[at] = q->running[at - 1];
    q->running[at] = group;
    group->state = LN_GROUP_RUNNING;
    q->n_seqs += group->n_live;
    return at;
}

void ln_queues_unrun(ln_queues *q, ln_sequence_group *group) {
    size_t at = 0;
    while (at < q->n_running && q->running[at] != group)
        at++;
    LN_BUG_ON(at == q->n_running);
    for (q->n_running--; at < q->n_running; at++)
        q->running[at] = q->running[at + 1];
    q->n_seqs -= group->n_live;
}
