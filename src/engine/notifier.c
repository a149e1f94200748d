#include "engine/notifier.h"

#include <string.h>

static void *show_batches(void *argument) {
    ln_notifier *notifier = argument;
    pthread_mutex_lock(&notifier->mutex);
    for (;;) {
        while (!notifier->is_handed && !notifier->stopping)
            pthread_cond_wait(&notifier->batch_came, &notifier->mutex);
        if (!notifier->is_handed)
            break;
        pthread_mutex_unlock(&notifier->mutex);
        for (ln_completion_entry *entry = notifier->batch.first; entry != NULL;
             entry = entry->next_in_batch)
            ln_request_show(entry->request);
        ln_completion_batch_post(&notifier->batch, ln_request_end_showing);
        pthread_mutex_lock(&notifier->mutex);
        notifier->is_handed = false;
        pthread_cond_signal(&notifier->batch_done);
    }
    pthread_mutex_unlock(&notifier->mutex);
    return NULL;
}

ln_status ln_notifier_start(ln_notifier *notifier, ln_error *err) {
    int code = pthread_mutex_init(&notifier->mutex, NULL);
    if (code == 0) {
        notifier->has_mutex = true; /* conditions of the default attributes cannot fail */
        pthread_cond_init(&notifier->batch_came, NULL);
        pthread_cond_init(&notifier->batch_done, NULL);
        code = pthread_create(&notifier->thread, NULL, show_batches, notifier);
        notifier->has_thread = code == 0;
    }
    if (code == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_NOMEM, "cannot start the notifier thread: %s", strerror(code));
}

void ln_notifier_stop(ln_notifier *notifier) {
    if (notifier->has_thread) {
        pthread_mutex_lock(&notifier->mutex);
        notifier->stopping = true;
        pthread_cond_signal(&notifier->batch_came);
        pthread_mutex_unlock(&notifier->mutex);
        pthread_join(notifier->thread, NULL);
    }
    if (notifier->has_mutex) {
        pthread_cond_destroy(&notifier->batch_done);
        pthread_cond_destroy(&notifier->batch_came);
        pthread_mutex_destroy(&notifier->mutex);
    }
    notifier->has_thread = notifier->has_mutex = false;
}

void ln_notifier_note(ln_notifier *notifier, linnet_request *request) {
    if (!notifier->is_noting) {
        pthread_mutex_lock(&notifier->mutex);
        while (notifier->is_handed)
            pthread_cond_wait(&notifier->batch_done, &notifier->mutex);
        pthread_mutex_unlock(&notifier->mutex);
        notifier->is_noting = true;
    }
    ln_completion_batch_add(&notifier->batch, &request->entry);
}

void ln_notifier_hand_over(ln_notifier *notifier) {
    if (!notifier->is_noting)
        return;
    notifier->is_noting = false;
    pthread_mutex_lock(&notifier->mutex);
    notifier->is_handed = true;
    pthread_cond_signal(&notifier->batch_came);
    pthread_mutex_unlock(&notifier->mutex);
}
