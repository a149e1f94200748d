/* linnet_completion_queue_*, of linnet.h. */
#include "engine/completion_queue.h"

linnet_status linnet_completion_queue_create(linnet_completion_queue **queue, linnet_error *err) {
    return ln_completion_queue_create(queue, err);
}

void linnet_completion_queue_destroy(linnet_completion_queue *queue) {
    ln_completion_queue_release(queue);
}

int linnet_completion_queue_get_fd(const linnet_completion_queue *queue) {
    return ln_completion_queue_fd(queue);
}

linnet_request *linnet_completion_queue_next(linnet_completion_queue *queue) {
    return ln_completion_queue_next(queue);
}
