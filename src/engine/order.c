#include "engine/order.h"

bool ln_order_is_before(const ln_scheduler *s, const ln_sequence_group *a,
                        const ln_sequence_group *b) {
    if (a->is_overdue != b->is_overdue)
        return a->is_overdue;
    if (s->options.order == LINNET_ORDER_PRIORITY && a->priority != b->priority)
        return a->priority < b->priority;
    return a->arrival < b->arrival;
}

void ln_order_insert(const ln_scheduler *s, ln_group_queue *queue, ln_sequence_group *group) {
    ln_sequence_group *place = queue->last;
    while (place != NULL && ln_order_is_before(s, group, place))
        place = place->previous;
    ln_group_queue_insert(queue, group, place);
}

size_t ln_order_run(ln_scheduler *s, ln_sequence_group *group) {
    size_t at = s->n_running++;
    for (; at > 0 && ln_order_is_before(s, group, s->running[at - 1]); at--)
        s->running[at] = s->running[at - 1];
    s->running[at] = group;
    group->state = LN_GROUP_RUNNING;
    s->n_seqs += group->n_live;
    return at;
}

void ln_order_unrun(ln_scheduler *s, ln_sequence_group *group) {
    size_t at = 0;
    while (at < s->n_running && s->running[at] != group)
        at++;
    LN_BUG_ON(at == s->n_running);
    for (s->n_running--; at < s->n_running; at++)
        s->running[at] = s->running[at + 1];
    s->n_seqs -= group->n_live;
}
