#include "dist/collectives.h"

#include <string.h>

enum {
    MANY_FLOATS = 64,
    BLOCK_FLOATS = 512,     /* that are summed at a time */
    SMALL_FLOATS = 2048,    /* up to so many all ranks send all that they have to all others */
    MESSAGE_BYTES = 1 << 30 /* of one message, at most */
};

/* ---- messages -------------------------------------------------------------------------------- */

ln_collectives ln_collectives_group(ln_collectives *all, size_t first, size_t n) {
    return (ln_collectives){.all = all,
                            .first = first,
                            .rank = all->rank - first,
                            .n_ranks = n,
                            .n_local = n,
                            .timeout_ns = all->timeout_ns};
}

/* c: all ranks, as messages [n] to ranks in turn, or from one, count them. */
static ln_status fail(ln_collectives *c, ln_transport_status status, const ln_message *messages,
                      size_t n, ln_error *err) {
    size_t other = messages->from != LN_NO_RANK ? messages->from : messages->to;
    const char *what = status == LN_TRANSPORT_TIMEOUT ? "does not answer" : "is lost";
    size_t lost =
        c->transport->find_lost != NULL ? c->transport->find_lost(c->transport) : LN_NO_RANK;
    other = lost != LN_NO_RANK ? lost : other;
    if (n > 1 && lost == LN_NO_RANK)
        ln_fail(&c->failure, LINNET_ERR_COMPUTE, "one of ranks %zu to %zu of %zu %s", other,
                other + n - 1, c->n_ranks, what);
    else
        ln_fail(&c->failure, LINNET_ERR_COMPUTE, "rank %zu of %zu %s", other, c->n_ranks, what);
    if (err != NULL)
        *err = c->failure;
    return c->failure.status;
}

void ln_collectives_lose(ln_collectives *group, size_t rank) {
    ln_collectives *c = group->all != NULL ? group->all : group;
    const ln_message e = {.to = LN_NO_RANK, .from = group->first + rank};
    if (c->failure.status == LINNET_OK)
        (void)fail(c, LN_TRANSPORT_TIMEOUT, &e, 1, NULL);
}

void ln_collectives_give_up(ln_collectives *group, const ln_error *why) {
    ln_collectives *c = group->all != NULL ? group->all : group;
    if (c->failure.status == LINNET_OK)
        c->failure = *why;
}

ln_status ln_collectives_check(ln_collectives *c, ln_error *err) {
    const ln_message none = {.to = LN_NO_RANK, .from = LN_NO_RANK};
    bool has_watch = c->transport != NULL && c->transport->find_lost != NULL;
    if (c->failure.status == LINNET_OK && has_watch &&
        c->transport->find_lost(c->transport) != LN_NO_RANK)
        return fail(c, LN_TRANSPORT_FAILED, &none, 1, err);
    if (c->failure.status != LINNET_OK && err != NULL)
        *err = c->failure;
    return c->failure.status;
}

void ln_collectives_watch(ln_collectives *c, void (*on_lost)(void *user), void *user) {
    if (c->transport != NULL && c->transport->watch != NULL)
        c->transport->watch(c->transport, on_lost, user);
}

/* messages [n], with ranks as the group counts them; changes them. */
static ln_status pass_on(ln_collectives *group, ln_message *messages, size_t n, ln_error *err) {
    ln_collectives *c = group->all != NULL ? group->all : group;
    for (size_t i = 0; i < n; i++) {
        messages[i].to += messages[i].to != LN_NO_RANK ? group->first : 0;
        messages[i].from += messages[i].from != LN_NO_RANK ? group->first : 0;
    }
    if (c->failure.status != LINNET_OK) {
        if (err != NULL)
            *err = c->failure;
        return c->failure.status;
    }
    ln_transport_status status = c->transport->exchange(c->transport, messages, n);
    return status == LN_TRANSPORT_OK ? LINNET_OK : fail(c, status, messages, n, err);
}

/* An exchange of any size; both sides cut it alike. */
static ln_status exchange(ln_collectives *c, const ln_message *whole, ln_error *err) {
    ln_message e = *whole;
    size_t out_left = e.to != LN_NO_RANK ? e.out_bytes : 0;
    size_t in_left = e.from != LN_NO_RANK ? e.in_bytes : 0;
    while (out_left > 0 || in_left > 0) {
        e.out_bytes = out_left < MESSAGE_BYTES ? out_left : MESSAGE_BYTES;
        e.in_bytes = in_left < MESSAGE_BYTES ? in_left : MESSAGE_BYTES;
        e.to = out_left > 0 ? whole->to : LN_NO_RANK;
        e.from = in_left > 0 ? whole->from : LN_NO_RANK;
        ln_message part = e;
        LN_TRY(pass_on(c, &part, 1, err));
        if (e.out_bytes > 0) /* else it may be NULL */
            e.out = (const char *)e.out + e.out_bytes;
        if (e.in_bytes > 0)
            e.in = (char *)e.in + e.in_bytes;
        out_left -= e.out_bytes;
        in_left -= e.in_bytes;
    }
    return LINNET_OK;
}

ln_status ln_send(ln_collectives *c, size_t to, const void *data, size_t bytes, ln_error *err) {
    ln_message e = {
        .to = to, .from = LN_NO_RANK, .out = data, .out_bytes = bytes, .timeout_ns = c->timeout_ns};
    return exchange(c, &e, err);
}

ln_status ln_receive(ln_collectives *c, size_t from, void *data, size_t bytes, ln_error *err) {
    ln_message e = {
        .to = LN_NO_RANK, .from = from, .in = data, .in_bytes = bytes, .timeout_ns = c->timeout_ns};
    return exchange(c, &e, err);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The rank that is `step` behind this one in turn, and the one before it. */
static size_t next_rank(const ln_collectives *c, size_t step) {
    return (c->rank + step) % c->n_ranks;
}

static size_t last_rank(const ln_collectives *c, size_t step) {
    return (c->rank + c->n_ranks - step) % c->n_ranks;
}

static size_t largest_part(size_t n_ranks, size_t n) {
    return (n + n_ranks - 1) / n_ranks;
}

bool ln_collectives_is_small(size_t n_ranks, size_t n) {
    return n <= SMALL_FLOATS || n < n_ranks;
}

size_t ln_collectives_scratch(size_t n_ranks, size_t n) {
    size_t small = n < SMALL_FLOATS ? n : SMALL_FLOATS;
    size_t large = n_ranks * largest_part(n_ranks, n);
    return n_ranks * small > large ? n_ranks * small : large;
}

/* A number of them known to the compiler, which makes vectors of them. */
static void add_many(float *restrict total, const float *restrict x) {
    for (size_t i = 0; i < MANY_FLOATS; i++)
        total[i] += x[i];
}

static void add(float *restrict total, const float *restrict x, size_t n) {
    size_t i = 0;
    for (; n - i >= MANY_FLOATS; i += MANY_FLOATS)
        add_many(total + i, x + i);
    for (; i < n; i++)
        total[i] += x[i];
}

/* own[n] becomes the sum of parts [n_ranks][n], in the order of ranks, where own is this rank's. */
static void sum(const ln_collectives *c, const float *parts, size_t n, float *own) {
    float total[BLOCK_FLOATS];
    for (size_t begin = 0; begin < n; begin += BLOCK_FLOATS) {
        size_t count = n - begin < BLOCK_FLOATS ? n - begin : BLOCK_FLOATS;
        memcpy(total, (c->rank == 0 ? own : parts) + begin, count * sizeof *total);
        for (size_t rank = 1; rank < c->n_ranks; rank++)
            add(total, (rank == c->rank ? own : parts + rank * n) + begin, count);
        memcpy(own + begin, total, count * sizeof *total);
    }
}

static ln_status reduce_small(ln_collectives *c, float *x, size_t n, float *parts, ln_error *err) {
    for (size_t step = 1; step < c->n_ranks; step++) {
        size_t from = last_rank(c, step);
        ln_message e = {.to = next_rank(c, step),
                        .from = from,
                        .out = x,
                        .in = parts + from * n,
                        .out_bytes = n * sizeof *x,
                        .in_bytes = n * sizeof *x,
                        .timeout_ns = c->timeout_ns};
        LN_TRY(exchange(c, &e, err));
    }
    sum(c, parts, n, x);
    return LINNET_OK;
}

/* Each rank sums a part and tells the others: twice a part from and to each. */
static ln_status reduce_large(ln_collectives *c, float *x, size_t n, float *parts, ln_error *err) {
    size_t begin = ln_rank_begin(n, c->rank, c->n_ranks);
    size_t n_own = ln_rank_begin(n, c->rank + 1, c->n_ranks) - begin;
    for (int is_second = 0; is_second < 2; is_second++) {
        for (size_t step = 1; step < c->n_ranks; step++) {
            size_t to = next_rank(c, step), from = last_rank(c, step);
            size_t to_begin = ln_rank_begin(n, to, c->n_ranks);
            size_t from_begin = ln_rank_begin(n, from, c->n_ranks);
            size_t n_to = ln_rank_begin(n, to + 1, c->n_ranks) - to_begin;
            size_t n_from = ln_rank_begin(n, from + 1, c->n_ranks) - from_begin;
            ln_message e = {.to = to,
                            .from = from,
                            .out = x + (is_second ? begin : to_begin),
                            .in = is_second ? x + from_begin : parts + from * n_own,
                            .out_bytes = (is_second ? n_own : n_to) * sizeof *x,
                            .in_bytes = (is_second ? n_from : n_own) * sizeof *x,
                            .timeout_ns = c->timeout_ns};
            LN_TRY(exchange(c, &e, err));
        }
        if (!is_second)
            sum(c, parts, n_own, x + begin);
    }
    return LINNET_OK;
}

ln_status ln_all_reduce(ln_collectives *c, float *x, size_t n, float *scratch, ln_error *err) {
    if (c->n_ranks == 1 || n == 0)
        return LINNET_OK;
    return ln_collectives_is_small(c->n_ranks, n) ? reduce_small(c, x, n, scratch, err)
                                                  : reduce_large(c, x, n, scratch, err);
}

/* ---- gathering and telling ------------------------------------------------------------------- */

ln_status ln_gather_columns(ln_collectives *c, const float *x, size_t n_rows, size_t n_cols,
                            float *scratch, float *out, ln_error *err) {
    for (size_t rank = 0; rank < c->n_ranks; rank++) {
        size_t begin = ln_rank_begin(n_cols, rank, c->n_ranks);
        size_t width = ln_rank_begin(n_cols, rank + 1, c->n_ranks) - begin;
        size_t bytes = n_rows * width * sizeof *x;
        if (rank == c->rank && rank > 0)
            LN_TRY(ln_send(c, 0, x, bytes, err));
        if (c->rank > 0)
            continue;
        if (rank > 0)
            LN_TRY(ln_receive(c, rank, scratch, bytes, err));
        for (size_t row = 0; row < n_rows; row++)
            memcpy(out + row * n_cols + begin, (rank > 0 ? scratch : x) + row * width,
                   width * sizeof *out);
    }
    return LINNET_OK;
}

ln_status ln_all_gather(ln_collectives *c, const void *x, size_t bytes, void *out, ln_error *err) {
    memcpy((char *)out + c->rank * bytes, x, bytes);
    for (size_t step = 1; step < c->n_ranks; step++) {
        size_t from = last_rank(c, step);
        ln_message e = {.to = next_rank(c, step),
                        .from = from,
                        .out = x,
                        .in = (char *)out + from * bytes,
                        .out_bytes = bytes,
                        .in_bytes = bytes,
                        .timeout_ns = c->timeout_ns};
        LN_TRY(exchange(c, &e, err));
    }
    return LINNET_OK;
}

/* To all others at once: a receiver may be asleep. */
static ln_status send_to_all(ln_collectives *c, const void *data, size_t bytes, ln_error *err) {
    for (size_t first = 1; first < c->n_ranks;) {
        ln_message messages[LN_MAX_MESSAGES];
        size_t n = 0;
        for (; n < LN_MAX_MESSAGES && first + n < c->n_ranks; n++)
            messages[n] = (ln_message){.to = first + n,
                                       .from = LN_NO_RANK,
                                       .out = data,
                                       .out_bytes = bytes,
                                       .timeout_ns = c->timeout_ns};
        LN_TRY(pass_on(c, messages, n, err));
        first += n;
    }
    return LINNET_OK;
}

ln_status ln_broadcast(ln_collectives *c, void *data, size_t bytes, bool is_idle, ln_error *err) {
    for (size_t begin = 0; begin < bytes; begin += MESSAGE_BYTES) {
        size_t n = bytes - begin < MESSAGE_BYTES ? bytes - begin : MESSAGE_BYTES;
        ln_message e = {.to = LN_NO_RANK,
                        .from = 0,
                        .in = (char *)data + begin,
                        .in_bytes = n,
                        .timeout_ns = is_idle ? 0 : c->timeout_ns};
        LN_TRY(c->rank == 0 ? send_to_all(c, (char *)data + begin, n, err)
                            : pass_on(c, &e, 1, err));
    }
    return LINNET_OK;
}

ln_status ln_barrier(ln_collectives *c, ln_error *err) {
    char own = 0, none = 0;
    for (size_t step = 1; step < c->n_ranks; step *= 2) { /* dissemination */
        ln_message e = {.to = next_rank(c, step),
                        .from = last_rank(c, step),
                        .out = &own,
                        .in = &none,
                        .out_bytes = 1,
                        .in_bytes = 1,
                        .timeout_ns = c->timeout_ns};
        LN_TRY(exchange(c, &e, err));
    }
    return LINNET_OK;
}
