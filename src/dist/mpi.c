/* The MPI transport: a module of its own, which links MPI and nothing of ours.
 *
 * A thread of its own watches over the ranks. Rank 0 and each other one send each other heartbeats;
 * a rank on the same machine also has a descriptor of its process, which tells at once when it
 * ends. Calls of MPI are made by one thread at a time. */
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "dist/transport.h"

enum {
    TAG = 77,
    TAG_HEARTBEAT = 78,
    SPIN_NS = 100000,       /* a partner that computes the same is mostly that near */
    IDLE_SPIN_NS = 5000000, /* the next step mostly comes that soon */
    LONGEST_NAP_NS = 1000000,
    HEARTBEAT_MS = 250,
    START_S = 30,
    MAX_HOST = 256
};
static const uint64_t silence_ns = UINT64_C(5000000000); /* after which a rank counts as lost */
static const uint64_t pause_ns = UINT64_C(1000000000);   /* of this process, which excuses others */

typedef struct mpi_transport {
    ln_transport base;
    pthread_mutex_t calls;   /* around each call of MPI */
    pthread_mutex_t watcher; /* on_lost and user */
    void (*on_lost)(void *user);
    void *user;
    pthread_t thread;
    bool has_thread;
    int stop_fd;
    struct pollfd *fds; /* [n_ranks + 1] processes of this machine, else -1; stop_fd */
    uint64_t *heard_ns; /* [n_ranks] */
    atomic_size_t lost;
} mpi_transport;

__attribute__((visibility("default"))) ln_transport *ln_transport_open(char *why, size_t why_bytes);

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Yields at first; then sleeps, an eighth of what it has waited. */
static void pause_for(uint64_t waited_ns, bool is_idle) {
    if (waited_ns < (is_idle ? IDLE_SPIN_NS : SPIN_NS)) {
        sched_yield();
        return;
    }
    uint64_t nap_ns = waited_ns / 8;
    if (nap_ns > LONGEST_NAP_NS)
        nap_ns = LONGEST_NAP_NS;
    nanosleep(&(struct timespec){.tv_nsec = (long)nap_ns}, NULL);
}

static int post(const ln_message *e, MPI_Request *requests, int *n) {
    int code = MPI_SUCCESS;
    if (e->from != LN_NO_RANK)
        code = MPI_Irecv(e->in, (int)e->in_bytes, MPI_BYTE, (int)e->from, TAG, MPI_COMM_WORLD,
                         &requests[(*n)++]);
    if (e->to != LN_NO_RANK && code == MPI_SUCCESS)
        code = MPI_Isend(e->out, (int)e->out_bytes, MPI_BYTE, (int)e->to, TAG, MPI_COMM_WORLD,
                         &requests[(*n)++]);
    return code;
}

static ln_transport_status exchange(ln_transport *base, const ln_message *messages,
                                    size_t n_messages) {
    mpi_transport *self = (mpi_transport *)base;
    MPI_Request requests[2 * LN_MAX_MESSAGES];
    int n = 0, done = 0, code = MPI_SUCCESS;
    uint64_t begin_ns = now_ns(), timeout_ns = messages[0].timeout_ns;
    pthread_mutex_lock(&self->calls);
    for (size_t i = 0; i < n_messages && code == MPI_SUCCESS; i++)
        code = post(&messages[i], requests, &n);
    pthread_mutex_unlock(&self->calls);
    while (code == MPI_SUCCESS) {
        bool is_lost = atomic_load(&self->lost) != LN_NO_RANK; /* what came before counts */
        pthread_mutex_lock(&self->calls);
        code = MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        pthread_mutex_unlock(&self->calls);
        if (code != MPI_SUCCESS || is_lost || done)
            break;
        uint64_t waited_ns = now_ns() - begin_ns;
        if (timeout_ns > 0 && waited_ns > timeout_ns)
            return LN_TRANSPORT_TIMEOUT;
        pause_for(waited_ns, timeout_ns == 0);
    }
    return code == MPI_SUCCESS && done ? LN_TRANSPORT_OK : LN_TRANSPORT_FAILED;
}

/* ---- watching -------------------------------------------------------------------------------- */

static size_t find_lost(ln_transport *base) {
    return atomic_load(&((mpi_transport *)base)->lost);
}

/* Calls the watcher once, under its mutex. */
static void tell_lost(mpi_transport *self) {
    if (self->on_lost != NULL)
        self->on_lost(self->user);
    self->on_lost = NULL;
}

static void watch(ln_transport *base, void (*on_lost)(void *user), void *user) {
    mpi_transport *self = (mpi_transport *)base;
    pthread_mutex_lock(&self->watcher);
    self->on_lost = on_lost;
    self->user = user;
    if (atomic_load(&self->lost) != LN_NO_RANK)
        tell_lost(self);
    pthread_mutex_unlock(&self->watcher);
}

static void lose(mpi_transport *self, size_t rank) {
    size_t none = LN_NO_RANK;
    if (!atomic_compare_exchange_strong(&self->lost, &none, rank))
        return;
    pthread_mutex_lock(&self->watcher);
    tell_lost(self);
    pthread_mutex_unlock(&self->watcher);
}

static bool is_peer(const mpi_transport *self, size_t rank) {
    return rank != self->base.rank && (rank == 0 || self->base.rank == 0);
}

/* Sends a heartbeat to each peer and takes those that came. */
static void send_heartbeats(mpi_transport *self, uint64_t at_ns) {
    MPI_Request request;
    MPI_Status status;
    int is_there = 1;
    pthread_mutex_lock(&self->calls);
    for (size_t rank = 0; rank < self->base.n_ranks; rank++)
        if (is_peer(self, rank) && MPI_Isend(NULL, 0, MPI_BYTE, (int)rank, TAG_HEARTBEAT,
                                             MPI_COMM_WORLD, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    while (MPI_Iprobe(MPI_ANY_SOURCE, TAG_HEARTBEAT, MPI_COMM_WORLD, &is_there, &status) ==
               MPI_SUCCESS &&
           is_there) {
        MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TAG_HEARTBEAT, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        self->heard_ns[status.MPI_SOURCE] = at_ns;
    }
    pthread_mutex_unlock(&self->calls);
}

static void look(mpi_transport *self, uint64_t at_ns) {
    for (size_t rank = 0; rank < self->base.n_ranks; rank++) {
        bool has_ended = self->fds[rank].fd >= 0 && self->fds[rank].revents != 0;
        if (has_ended) {
            close(self->fds[rank].fd);
            self->fds[rank].fd = -1;
        }
        if (has_ended || (is_peer(self, rank) && at_ns - self->heard_ns[rank] > silence_ns))
            lose(self, rank);
    }
}

static void *watch_main(void *argument) {
    mpi_transport *self = argument;
    size_t n = self->base.n_ranks;
    uint64_t last_ns = now_ns(), sent_ns = 0;
    while (self->fds[n].revents == 0) {
        uint64_t at_ns = now_ns();
        for (size_t rank = 0; rank < n && at_ns - last_ns > pause_ns; rank++)
            self->heard_ns[rank] = at_ns; /* stopped, as all may have been */
        last_ns = at_ns;
        if (at_ns - sent_ns >= (uint64_t)HEARTBEAT_MS * 1000000u) {
            send_heartbeats(self, at_ns);
            sent_ns = at_ns;
        }
        look(self, at_ns);
        if (poll(self->fds, n + 1, HEARTBEAT_MS) < 0 && errno != EINTR)
            break;
    }
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* MPI_Init_thread waits for all ranks, for ever if one does not come. */
typedef struct init_call {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool has_ended, is_left; /* is_left: nobody waits for it any more, and it frees itself */
    int code, provided;
} init_call;

static void *init_main(void *argument) {
    init_call *call = argument;
    int provided = 0, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    pthread_mutex_lock(&call->mutex);
    call->code = code;
    call->provided = provided;
    call->has_ended = true;
    pthread_cond_signal(&call->changed);
    bool is_left = call->is_left;
    pthread_mutex_unlock(&call->mutex);
    if (is_left)
        free(call);
    return NULL;
}

/* Why MPI has not begun, or NULL. */
static const char *init_mpi(void) {
    struct timespec end;
    pthread_t thread;
    const char *why = NULL;
    init_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return "out of memory";
    *call = (init_call){.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += START_S;
    if (pthread_create(&thread, NULL, init_main, call) != 0) {
        free(call);
        return "no thread can start it";
    }
    pthread_detach(thread);
    pthread_mutex_lock(&call->mutex);
    while (!call->has_ended &&
           pthread_cond_timedwait(&call->changed, &call->mutex, &end) != ETIMEDOUT)
        continue;
    call->is_left = !call->has_ended;
    bool is_left = call->is_left;
    if (is_left)
        why = "not all ranks have come within half a minute";
    else if (call->code != MPI_SUCCESS || call->provided < MPI_THREAD_SERIALIZED)
        why = "MPI cannot be used by more than one thread";
    pthread_mutex_unlock(&call->mutex);
    if (!is_left)
        free(call);
    return why;
}

static void count_local(ln_transport *base) {
    MPI_Comm local;
    int n = 1, rank = 0;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local) ==
        MPI_SUCCESS) {
        MPI_Comm_size(local, &n);
        MPI_Comm_rank(local, &rank);
        MPI_Comm_free(&local);
    }
    base->n_local = (size_t)n;
    base->local_rank = (size_t)rank;
}

/* The host's name, and that of the processes' numbers, which containers have of their own. */
static bool name_host(char host[MAX_HOST]) {
    char space[MAX_HOST / 4] = "", name[MAX_HOST / 2] = "";
    if (gethostname(name, sizeof name - 1) != 0 ||
        readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0)
        return false;
    snprintf(host, MAX_HOST, "%s %s", name, space);
    return true;
}

/* Processes of the same host, where the kernel gives descriptors of them. */
static void open_processes(mpi_transport *self) {
    typedef struct place {
        char host[MAX_HOST];
        pid_t pid;
    } place;
    size_t n = self->base.n_ranks;
    place own = {.pid = getpid()}, *all = calloc(n, sizeof *all);
    if (all == NULL || !name_host(own.host) ||
        MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD) !=
            MPI_SUCCESS) {
        free(all);
        return;
    }
    for (size_t rank = 0; rank < n; rank++)
        if (rank != self->base.rank && strcmp(all[rank].host, own.host) == 0)
            self->fds[rank].fd = (int)syscall(SYS_pidfd_open, all[rank].pid, 0);
    free(all);
}

static bool start_watching(mpi_transport *self) {
    size_t n = self->base.n_ranks;
    self->fds = calloc(n + 1, sizeof *self->fds);
    self->heard_ns = calloc(n, sizeof *self->heard_ns);
    self->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (self->fds == NULL || self->heard_ns == NULL || self->stop_fd < 0)
        return false;
    for (size_t i = 0; i <= n; i++)
        self->fds[i] = (struct pollfd){.fd = i == n ? self->stop_fd : -1, .events = POLLIN};
    open_processes(self);
    for (size_t rank = 0; rank < n; rank++)
        self->heard_ns[rank] = now_ns();
    self->has_thread = pthread_create(&self->thread, NULL, watch_main, self) == 0;
    return self->has_thread;
}

static void end(mpi_transport *self) {
    const uint64_t one = 1;
    if (self->has_thread && write(self->stop_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(self->thread, NULL);
    for (size_t rank = 0; self->fds != NULL && rank < self->base.n_ranks; rank++)
        if (self->fds[rank].fd >= 0)
            close(self->fds[rank].fd);
    if (self->stop_fd >= 0)
        close(self->stop_fd);
    pthread_mutex_destroy(&self->calls);
    pthread_mutex_destroy(&self->watcher);
    free(self->fds);
    free(self->heard_ns);
    free(self);
}

static void close_mpi(ln_transport *base, bool has_failed) {
    mpi_transport *self = (mpi_transport *)base;
    bool all_are_there = !has_failed && atomic_load(&self->lost) == LN_NO_RANK;
    end(self);
    if (all_are_there)
        MPI_Finalize();
}

ln_transport *ln_transport_open(char *why, size_t why_bytes) {
    int rank = 0, n_ranks = 0, was_started = 0;
    mpi_transport *self = calloc(1, sizeof *self);
    MPI_Initialized(&was_started);
    if (self == NULL || was_started) {
        snprintf(why, why_bytes, "%s", was_started ? "MPI runs already" : "out of memory");
        free(self);
        return NULL;
    }
    const char *trouble = init_mpi();
    if (trouble != NULL) {
        snprintf(why, why_bytes, "%s", trouble);
        free(self);
        return NULL;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    *self = (mpi_transport){.base = {.name = "mpi",
                                     .rank = (size_t)rank,
                                     .n_ranks = (size_t)n_ranks,
                                     .exchange = exchange,
                                     .find_lost = find_lost,
                                     .watch = watch,
                                     .close = close_mpi},
                            .calls = PTHREAD_MUTEX_INITIALIZER,
                            .watcher = PTHREAD_MUTEX_INITIALIZER,
                            .lost = LN_NO_RANK};
    count_local(&self->base);
    if (start_watching(self))
        return &self->base;
    snprintf(why, why_bytes, "no thread can watch over the ranks: %s", strerror(errno));
    end(self);
    return NULL;
}
