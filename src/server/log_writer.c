#include "server/log_writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { POLL_MS = 50 };

struct ln_log_writer {
    int fd;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    char *ring; /* [capacity] */
    size_t capacity, begin, n_waiting;
    bool is_closing;
    uint64_t end_ns; /* with is_closing: when to give up */
};

/* A pipe that poll calls writable takes PIPE_BUF bytes without blocking. */
static size_t next_piece(const ln_log_writer *writer) {
    size_t n = writer->capacity - writer->begin;
    n = n < writer->n_waiting ? n : writer->n_waiting;
    return n < PIPE_BUF ? n : PIPE_BUF;
}

/* Writes some of the ring's bytes without the mutex, which the caller holds before and after; how
 * many are done with. */
static size_t write_some(ln_log_writer *writer) {
    size_t n = next_piece(writer);
    const char *piece = writer->ring + writer->begin;
    struct pollfd fd = {.fd = writer->fd, .events = POLLOUT};
    pthread_mutex_unlock(&writer->mutex);
    ssize_t written = poll(&fd, 1, POLL_MS) > 0 ? write(writer->fd, piece, n) : 0;
    if (written < 0) /* nobody will read it, or the disk is full: the server goes on */
        written = errno == EINTR || errno == EAGAIN ? 0 : (ssize_t)n;
    pthread_mutex_lock(&writer->mutex);
    return (size_t)written;
}

static void *run(void *argument) {
    ln_log_writer *writer = argument;
    pthread_mutex_lock(&writer->mutex);
    for (;;) {
        while (writer->n_waiting == 0 && !writer->is_closing)
            pthread_cond_wait(&writer->changed, &writer->mutex);
        if (writer->n_waiting == 0 || (writer->is_closing && ln_clock_ns() >= writer->end_ns))
            break;
        size_t n = write_some(writer);
        writer->begin = (writer->begin + n) % writer->capacity;
        writer->n_waiting -= n;
    }
    pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

/* Signals go to the server's thread. */
static int start_thread(ln_log_writer *writer) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&writer->thread, NULL, run, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

ln_status ln_log_writer_open(int fd, size_t capacity, ln_log_writer **out, ln_error *err) {
    ln_log_writer *writer = calloc(1, sizeof *writer);
    char *ring = malloc(capacity);
    *out = NULL;
    if (writer == NULL || ring == NULL) {
        free(writer);
        free(ring);
        return ln_fail_memory(err, "the log");
    }
    writer->fd = fd;
    writer->ring = ring;
    writer->capacity = capacity;
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    int code = start_thread(writer);
    if (code != 0) {
        free(writer);
        free(ring);
        return ln_fail(err, LINNET_ERR_IO, "no thread for the log: %s", strerror(code));
    }
    *out = writer;
    return LINNET_OK;
}

bool ln_log_writer_put(ln_log_writer *writer, const char *line, size_t n_bytes) {
    pthread_mutex_lock(&writer->mutex);
    bool has_room = n_bytes <= writer->capacity - writer->n_waiting;
    if (has_room) {
        size_t at = (writer->begin + writer->n_waiting) % writer->capacity;
        size_t n_first = writer->capacity - at < n_bytes ? writer->capacity - at : n_bytes;
        memcpy(writer->ring + at, line, n_first);
        memcpy(writer->ring, line + n_first, n_bytes - n_first);
        writer->n_waiting += n_bytes;
        pthread_cond_signal(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
    return has_room;
}

void ln_log_writer_close(ln_log_writer *writer, uint32_t wait_ms) {
    if (writer == NULL)
        return;
    pthread_mutex_lock(&writer->mutex);
    writer->is_closing = true;
    writer->end_ns = ln_clock_ns() + (uint64_t)wait_ms * 1000000;
    pthread_cond_signal(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    pthread_join(writer->thread, NULL);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->mutex);
    free(writer->ring);
    free(writer);
}
