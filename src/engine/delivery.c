#include "engine/delivery.h"

#include <string.h>

#include "engine/request.h"

static void *show_rounds(void *argument) {
    ln_delivery *delivery = argument;
    pthread_mutex_lock(&delivery->mutex);
    for (;;) {
        while (!delivery->is_handed && !delivery->stopping)
            pthread_cond_wait(&delivery->round_came, &delivery->mutex);
        if (!delivery->is_handed)
            break;
        pthread_mutex_unlock(&delivery->mutex);
        for (ln_mail *mail = delivery->round.first; mail != NULL; mail = mail->next_in_round)
            ln_request_show(mail->request);
        ln_mail_round_post(&delivery->round, ln_request_end_showing);
        pthread_mutex_lock(&delivery->mutex);
        delivery->is_handed = false;
        pthread_cond_signal(&delivery->round_done);
    }
    pthread_mutex_unlock(&delivery->mutex);
    return NULL;
}

ln_status ln_delivery_start(ln_delivery *delivery, ln_error *err) {
    int code = pthread_mutex_init(&delivery->mutex, NULL);
    if (code == 0) {
        delivery->has_mutex = true; /* conditions of the default attributes cannot fail */
        pthread_cond_init(&delivery->round_came, NULL);
        pthread_cond_init(&delivery->round_done, NULL);
        code = pthread_create(&delivery->thread, NULL, show_rounds, delivery);
        delivery->has_thread = code == 0;
    }
    if (code == 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_NOMEM, "cannot start the delivery thread: %s", strerror(code));
}

void ln_delivery_stop(ln_delivery *delivery) {
    if (delivery->has_thread) {
        pthread_mutex_lock(&delivery->mutex);
        delivery->stopping = true;
        pthread_cond_signal(&delivery->round_came);
        pthread_mutex_unlock(&delivery->mutex);
        pthread_join(delivery->thread, NULL);
    }
    if (delivery->has_mutex) {
        pthread_cond_destroy(&delivery->round_done);
        pthread_cond_destroy(&delivery->round_came);
        pthread_mutex_destroy(&delivery->mutex);
    }
    delivery->has_thread = delivery->has_mutex = false;
}

void ln_delivery_note(ln_delivery *delivery, ln_mail *mail) {
    if (!delivery->is_noting) {
        pthread_mutex_lock(&delivery->mutex);
        while (delivery->is_handed)
            pthread_cond_wait(&delivery->round_done, &delivery->mutex);
        pthread_mutex_unlock(&delivery->mutex);
        delivery->is_noting = true;
    }
    ln_mail_round_add(&delivery->round, mail);
}

void ln_delivery_hand_over(ln_delivery *delivery) {
    if (!delivery->is_noting)
        return;
    delivery->is_noting = false;
    pthread_mutex_lock(&delivery->mutex);
    delivery->is_handed = true;
    pthread_cond_signal(&delivery->round_came);
    pthread_mutex_unlock(&delivery->mutex);
}
