/* Mailboxes: where many requests say that they have events, for receivers that wait for all of them
 * at once.
 *
 * The requests that a step gave events to form a round, which is posted when the step is over: one
 * lock and at most one write for all, however many they are. A mailbox's list links requests that
 * are open, each once; close takes them off. */
#ifndef LN_ENGINE_MAILBOX_H
#define LN_ENGINE_MAILBOX_H

#include <linnet.h>
#include <stdbool.h>

/* A request's part in its mailbox. */
typedef struct ln_mail ln_mail;
struct ln_mail {
    linnet_request *request; /* whose this is */
    linnet_mailbox *mailbox; /* a reference; NULL: none */
    /* under the mailbox's mutex */
    ln_mail *next, *previous; /* in its list */
    bool is_listed;
    bool is_closed; /* the request is never listed again */
    /* of who has the round */
    ln_mail *next_in_round;
    bool is_in_round;
};

/* Requests with events that were not posted yet, with a mailbox or without. */
typedef struct ln_mail_round {
    ln_mail *first, *last;
} ln_mail_round;

/* Begins the part of a request that lies in zeroed memory; takes a reference to the mailbox, which
 * free gives back. */
void ln_mail_init(ln_mail *mail, linnet_request *request, linnet_mailbox *mailbox);
void ln_mail_free(ln_mail *mail);
/* The request will be closed: it is never listed again. */
void ln_mail_close(ln_mail *mail);

/* Notes that a request has events. True when it was not in the round already: then it must stay
 * until post gives it to `release`. */
bool ln_mail_round_add(ln_mail_round *round, ln_mail *mail);
void ln_mail_round_post(ln_mail_round *round, void (*release)(linnet_request *request));

#endif
