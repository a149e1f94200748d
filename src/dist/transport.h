/* What carries messages between ranks. A module that is loaded at run time gives one (mpi.c); it
 * uses nothing of the program, so that the program runs where its libraries are not installed. */
#ifndef LN_DIST_TRANSPORT_H
#define LN_DIST_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ln_transport_status {
    LN_TRANSPORT_OK = 0,
    LN_TRANSPORT_TIMEOUT, /* nothing came, or nobody took what was sent */
    LN_TRANSPORT_FAILED
} ln_transport_status;

#define LN_NO_RANK ((size_t)-1)
enum { LN_MAX_MESSAGES = 16 };

/* Messages of one exchange: to one rank, from one, or both at once. */
typedef struct ln_message {
    size_t to, from; /* LN_NO_RANK: none */
    const void *out;
    void *in;
    size_t out_bytes, in_bytes; /* below 2 GiB; what comes has just this size */
    uint64_t timeout_ns;        /* 0: waits for ever, after some time mostly asleep */
} ln_message;

typedef struct ln_transport {
    const char *name;
    size_t rank, n_ranks;
    size_t n_local, local_rank; /* ranks on this machine, and which of them this one is */
    /* Messages [n], all under way at once; n is at most LN_MAX_MESSAGES, and the first one's time
     * counts for all. Those between two ranks arrive in the order in which they were sent. */
    ln_transport_status (*exchange)(struct ln_transport *self, const ln_message *messages,
                                    size_t n);
    /* The first rank that is known to have ended or to be silent, or LN_NO_RANK; then exchanges
     * fail. Any thread; NULL: nobody knows. */
    size_t (*find_lost)(struct ln_transport *self);
    /* on_lost(user) is called once, on a thread of the transport's own, when a rank is lost or at
     * once if one is; NULL: no more. NULL with find_lost. */
    void (*watch)(struct ln_transport *self, void (*on_lost)(void *user), void *user);
    /* Ends the transport. After a failure the other ranks are not waited for. */
    void (*close)(struct ln_transport *self, bool has_failed);
} ln_transport;

/* The one symbol of a module; NULL: it cannot start, for the reason in `why`. */
typedef ln_transport *(*ln_transport_open_fn)(char *why, size_t why_bytes);
#define LN_TRANSPORT_SYMBOL "ln_transport_open"

#endif
