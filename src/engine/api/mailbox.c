/* linnet_mailbox_*: completion queues. */
#include "engine/completion_queue.h"

linnet_status linnet_mailbox_create(linnet_mailbox **mailbox, linnet_error *err) {
    return ln_completion_queue_create(mailbox, err);
}

void linnet_mailbox_destroy(linnet_mailbox *mailbox) {
    ln_completion_queue_release(mailbox);
}

int linnet_mailbox_get_fd(const linnet_mailbox *mailbox) {
    return ln_completion_queue_fd(mailbox);
}

linnet_request *linnet_mailbox_next(linnet_mailbox *mailbox) {
    return ln_completion_queue_next(mailbox);
}
