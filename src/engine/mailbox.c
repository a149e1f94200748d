#include "engine/mailbox.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

struct linnet_mailbox {
    atomic_uint references; /* the owner's, and one of each request */
    pthread_mutex_t mutex;
    ln_mail *first, *last; /* under the mutex, as is what follows */
    bool is_signalled;     /* the descriptor polls readable */
    int fd;                /* eventfd */
};

linnet_status linnet_mailbox_create(linnet_mailbox **out, linnet_error *err) {
    *out = NULL;
    linnet_mailbox *mailbox = calloc(1, sizeof *mailbox);
    if (mailbox == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for a mailbox");
    mailbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->fd < 0) {
        free(mailbox);
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot create the eventfd of a mailbox: %s",
                       strerror(errno));
    }
    pthread_mutex_init(&mailbox->mutex, NULL);
    atomic_init(&mailbox->references, 1);
    *out = mailbox;
    return LINNET_OK;
}

static void release(linnet_mailbox *mailbox) {
    if (mailbox == NULL || atomic_fetch_sub(&mailbox->references, 1) > 1)
        return;
    close(mailbox->fd);
    pthread_mutex_destroy(&mailbox->mutex);
    free(mailbox);
}

void linnet_mailbox_destroy(linnet_mailbox *mailbox) {
    release(mailbox);
}

int linnet_mailbox_get_fd(const linnet_mailbox *mailbox) {
    return mailbox->fd;
}

void ln_mail_init(ln_mail *mail, linnet_request *request, linnet_mailbox *mailbox) {
    mail->request = request;
    mail->mailbox = mailbox;
    if (mailbox != NULL)
        atomic_fetch_add(&mailbox->references, 1);
}

void ln_mail_free(ln_mail *mail) {
    release(mail->mailbox);
}

/* ---- the list ----------------------------------------------------------------------------- */

static void append(linnet_mailbox *mailbox, ln_mail *mail) {
    mail->next = NULL;
    mail->previous = mailbox->last;
    mail->is_listed = true;
    if (mailbox->last != NULL)
        mailbox->last->next = mail;
    else
        mailbox->first = mail;
    mailbox->last = mail;
}

static void take_off(linnet_mailbox *mailbox, ln_mail *mail) {
    if (mail->previous != NULL)
        mail->previous->next = mail->next;
    else
        mailbox->first = mail->next;
    if (mail->next != NULL)
        mail->next->previous = mail->previous;
    else
        mailbox->last = mail->previous;
    mail->is_listed = false;
}

linnet_request *linnet_mailbox_next(linnet_mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->mutex);
    ln_mail *mail = mailbox->first;
    if (mail != NULL) {
        take_off(mailbox, mail);
    } else if (mailbox->is_signalled) {
        uint64_t count;
        while (read(mailbox->fd, &count, sizeof count) < 0 && errno == EINTR)
            continue;
        mailbox->is_signalled = false;
    }
    pthread_mutex_unlock(&mailbox->mutex);
    return mail != NULL ? mail->request : NULL;
}

void ln_mail_close(ln_mail *mail) {
    linnet_mailbox *mailbox = mail->mailbox;
    if (mailbox == NULL)
        return;
    pthread_mutex_lock(&mailbox->mutex);
    if (mail->is_listed)
        take_off(mailbox, mail);
    mail->is_closed = true;
    pthread_mutex_unlock(&mailbox->mutex);
}

/* ---- the side of who makes events --------------------------------------------------------- */

bool ln_mail_round_add(ln_mail_round *round, ln_mail *mail) {
    if (mail->is_in_round)
        return false;
    mail->is_in_round = true;
    mail->next_in_round = NULL;
    if (round->last != NULL)
        round->last->next_in_round = mail;
    else
        round->first = mail;
    round->last = mail;
    return true;
}

static void signal_events(linnet_mailbox *mailbox) {
    uint64_t one = 1;
    ssize_t written;
    do
        written = write(mailbox->fd, &one, sizeof one);
    while (written < 0 && errno == EINTR);
    LN_BUG_ON(written != sizeof one);
    mailbox->is_signalled = true;
}

void ln_mail_round_post(ln_mail_round *round, void (*give_back)(linnet_request *request)) {
    ln_mail *begin = round->first;
    *round = (ln_mail_round){0};
    for (ln_mail *mail = begin; mail != NULL;) {
        linnet_mailbox *mailbox = mail->mailbox;
        if (mailbox == NULL) {
            mail = mail->next_in_round;
            continue;
        }
        pthread_mutex_lock(&mailbox->mutex);
        for (; mail != NULL && mail->mailbox == mailbox; mail = mail->next_in_round)
            if (!mail->is_listed && !mail->is_closed)
                append(mailbox, mail);
        if (mailbox->first != NULL && !mailbox->is_signalled)
            signal_events(mailbox);
        pthread_mutex_unlock(&mailbox->mutex);
    }
    for (ln_mail *mail = begin, *next; mail != NULL; mail = next) {
        next = mail->next_in_round;
        mail->is_in_round = false;
        give_back(mail->request);
    }
}
