#include "engine/request.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "engine/request_check.h"
#include "engine/request_rules.h"
#include "sampling/logprobs.h"

void linnet_request_options_init(linnet_request_options *options) {
    *options = (linnet_request_options){
        .struct_bytes = sizeof *options,
        .sampling = {.temperature = 0.8f,
                     .top_k = 40,
                     .top_p = 0.95f,
                     .repeat_penalty = 1,
                     .repeat_last_n = 64,
                     .xtc_threshold = 0.1f,
                     .dry_base = 1.75f,
                     .dry_allowed_length = 2,
                     .dry_last_n = 1024,
                     .mirostat_eta = 0.1f},
        .length_penalty = 1,
    };
}

/* ---- submit ----------------------------------------------------------------------------- */

static size_t output_limit(const linnet_request_options *o, size_t ctx_tokens) {
    size_t room = ctx_tokens - o->n_prompt_ids;
    if (o->kind == LINNET_REQUEST_SCORE)
        return 0;
    return o->max_tokens > 0 && o->max_tokens < room ? o->max_tokens : room;
}

/* Sizes of the stop strings: their number, the longest, the sum. */
typedef struct stop_sizes {
    size_t count, longest, total;
} stop_sizes;

static stop_sizes measure_stops(const linnet_request_options *o) {
    stop_sizes sizes = {.count = o->kind == LINNET_REQUEST_GENERATE ? o->n_stop : 0};
    for (size_t i = 0; i < sizes.count; i++) {
        size_t n_bytes = strlen(o->stop[i]);
        sizes.longest = n_bytes > sizes.longest ? n_bytes : sizes.longest;
        sizes.total += n_bytes;
    }
    return sizes;
}

/* Copies the stop strings to bytes[total], with their borders[total]. */
static void copy_stops(const linnet_request_options *o, size_t count, ln_stop_string *stops,
                       char *bytes, uint32_t *borders) {
    for (size_t i = 0; i < count; i++) {
        size_t n_bytes = strlen(o->stop[i]);
        memcpy(bytes, o->stop[i], n_bytes);
        ln_stop_string_init(&stops[i], bytes, n_bytes, borders);
        bytes += n_bytes;
        borders += n_bytes;
    }
}

/* The arrays of logprobs, with those of tokens that they are about. */
typedef struct logprob_layout {
    size_t output, output_top, prompt, prompt_top;
} logprob_layout;

static logprob_layout lay_out_logprobs(const linnet_request_options *o, size_t max_output,
                                       ln_layout *layout) {
    size_t top_bytes = (size_t)o->top_logprobs * sizeof(linnet_logprob);
    size_t n_output = o->logprobs ? max_output : 0;
    size_t n_prompt = o->prompt_logprobs ? o->n_prompt_ids : 0;
    return (logprob_layout){.output = ln_layout_add(layout, n_output, sizeof(float)),
                            .output_top = ln_layout_add(layout, n_output, top_bytes),
                            .prompt = ln_layout_add(layout, n_prompt, sizeof(float)),
                            .prompt_top = ln_layout_add(layout, n_prompt, top_bytes)};
}

static void bind_logprobs(linnet_request *request, const linnet_request_options *o,
                          const logprob_layout *at) {
    char *base = (char *)request;
    request->logprobs = (ln_request_logprobs){(float *)(void *)(base + at->output),
                                              (linnet_logprob *)(void *)(base + at->output_top)};
    request->prompt_logprobs = (ln_request_logprobs){
        (float *)(void *)(base + at->prompt), (linnet_logprob *)(void *)(base + at->prompt_top)};
    for (int32_t i = 0; o->prompt_logprobs && i < o->top_logprobs; i++)
        request->prompt_logprobs.top[i].id = -1;
}

/* One allocation with everything in it; NULL when memory is out. */
static linnet_request *allocate(const linnet_engine *engine, const linnet_request_options *o) {
    const ln_tokenizer *tokenizer = engine->model->tokenizer;
    size_t max_output = output_limit(o, engine->plan.ctx_tokens);
    stop_sizes sizes = measure_stops(o);
    ln_layout layout = {0};
    ln_layout_add(&layout, 1, sizeof(linnet_request));
    size_t tokens = ln_layout_add(&layout, o->n_prompt_ids + max_output, sizeof(int32_t));
    size_t encoder_tokens = ln_layout_add(&layout, o->n_encoder_ids, sizeof(int32_t));
    size_t rules = ln_request_rules_plan(&layout, engine->model, o);
    logprob_layout logprobs = lay_out_logprobs(o, max_output, &layout);
    size_t stops = ln_layout_add(&layout, sizes.count, sizeof(ln_stop_string));
    size_t bytes = ln_layout_add(&layout, sizes.total, 1);
    size_t borders = ln_layout_add(&layout, sizes.total, sizeof(uint32_t));
    size_t stream = ln_text_stream_plan(&layout, tokenizer, sizes.count, sizes.longest);
    size_t stop_stream = ln_text_stream_plan(&layout, tokenizer, sizes.count, sizes.longest);
    char *base = layout.overflow ? NULL : calloc(1, layout.bytes);
    if (base == NULL)
        return NULL;

    linnet_request *request = (linnet_request *)(void *)base;
    request->n_prompt = o->n_prompt_ids;
    request->max_output = max_output;
    request->tokens = (int32_t *)(void *)(base + tokens);
    memcpy(request->tokens, o->prompt_ids, o->n_prompt_ids * sizeof *o->prompt_ids);
    request->encoder_tokens = (int32_t *)(void *)(base + encoder_tokens);
    if (o->n_encoder_ids > 0)
        memcpy(request->encoder_tokens, o->encoder_ids, o->n_encoder_ids * sizeof *o->encoder_ids);
    ln_request_rules_init(&request->rules, engine->model, o, base + rules);
    bind_logprobs(request, o, &logprobs);
    ln_stop_string *own_stops = (ln_stop_string *)(void *)(base + stops);
    copy_stops(o, sizes.count, own_stops, base + bytes, (uint32_t *)(void *)(base + borders));
    request->has_stops = sizes.count > 0;
    ln_text_stream_init(&request->stream, tokenizer, o->keep_special, own_stops, sizes.count,
                        sizes.longest, base + stream);
    ln_text_stream_init(&request->stop_stream, tokenizer, o->keep_special, own_stops, sizes.count,
                        sizes.longest, base + stop_stream);
    return request;
}

linnet_status linnet_request_submit(linnet_engine *engine, const linnet_request_options *options,
                                    linnet_request **out, linnet_error *err) {
    linnet_request_options own;
    linnet_request_options_init(&own);
    *out = NULL;
    LN_TRY(ln_options_take(options, &own, sizeof own, "linnet_request_options", err));
    if (own.n_prompt_ids == 0 && own.n_encoder_ids > 0 && own.kind == LINNET_REQUEST_GENERATE) {
        own.prompt_ids = &engine->model->spec.decoder_start_id;
        own.n_prompt_ids = 1;
    }
    LN_TRY(ln_request_check(engine, &own, err));
    linnet_request *request = allocate(engine, &own);
    if (request == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for a request of %zu tokens",
                       own.n_prompt_ids);
    request->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (request->event_fd < 0) {
        free(request);
        return ln_fail(err, LINNET_ERR_LIMIT, "cannot create the eventfd of a request: %s",
                       strerror(errno));
    }
    pthread_mutex_init(&request->on_logits_mutex, NULL);
    own.prompt_ids = own.encoder_ids = NULL;
    own.stop = NULL;
    own.stop_ids = own.dry_breakers = NULL;
    own.logit_bias = NULL;
    own.bad_words = NULL;
    own.cache_salt = NULL;
    request->options = own;
    request->engine = engine;
    if (own.timeout_ms > 0)
        request->deadline_ns = ln_clock_ns() + (uint64_t)own.timeout_ms * 1000000u;
    atomic_init(&request->references, 2);
    request->sequence = (ln_sequence){
        .request = request,
        .tokens = request->tokens,
        .n_prompt = request->n_prompt,
        .n_tokens = request->n_prompt,
        .max_tokens = request->n_prompt + request->max_output,
        .encoder_tokens = request->encoder_tokens,
        .n_encoder = own.n_encoder_ids,
        .needs_encoder = own.n_encoder_ids > 0,
        .wants_all_logits = own.kind == LINNET_REQUEST_SCORE || own.prompt_logprobs,
    };
    *out = request;
    ln_engine_enqueue(engine, &request->sequence);
    return LINNET_OK;
}

/* ---- the engine thread's side ----------------------------------------------------------- */

static void release(linnet_request *request) {
    if (atomic_fetch_sub(&request->references, 1) > 1)
        return;
    close(request->event_fd);
    pthread_mutex_destroy(&request->on_logits_mutex);
    free(request);
}

/* One more event waits. The counter of an eventfd holds 2^64 - 2, so the write cannot fail. */
static void count_event(const linnet_request *request) {
    uint64_t one = 1;
    ssize_t written;
    do
        written = write(request->event_fd, &one, sizeof one);
    while (written < 0 && errno == EINTR);
    LN_BUG_ON(written != sizeof one);
}

void ln_request_take_logprobs(linnet_request *request, ln_sampler *sampler, const float *logits) {
    size_t at = atomic_load_explicit(&request->n_output, memory_order_relaxed);
    size_t n_top = (size_t)request->options.top_logprobs;
    if (request->options.logprobs)
        ln_logprobs_take(sampler, logits, request->logprobs.top + at * n_top, n_top);
}

void ln_request_give_prompt_logprobs(linnet_request *request, ln_sampler *sampler, size_t position,
                                     const float *logits) {
    const ln_request_logprobs *logprobs = &request->prompt_logprobs;
    size_t next = position + 1, n_top = (size_t)request->options.top_logprobs;
    if (next < request->n_prompt) {
        ln_logprobs_take(sampler, logits, logprobs->top + next * n_top, n_top);
        logprobs->chosen[next] = ln_logprobs_get(sampler, request->tokens[next]);
    }
    if (next + 1 >= request->n_prompt)
        request->has_prompt_logprobs = true;
}

bool ln_request_give_token(linnet_request *request, const ln_sampler *sampler, int32_t token) {
    size_t n_output = atomic_load_explicit(&request->n_output, memory_order_relaxed);
    LN_BUG_ON(n_output == request->max_output);
    request->tokens[request->n_prompt + n_output] = token;
    if (request->options.logprobs)
        request->logprobs.chosen[n_output] = ln_logprobs_get(sampler, token);
    atomic_store(&request->n_output, n_output + 1);
    count_event(request);
    if (!request->has_stops)
        return false;
    size_t n_bytes;
    ln_text_stream_push(&request->stop_stream, token, &n_bytes);
    return request->stop_stream.stopped;
}

void ln_request_give_logits(linnet_request *request, size_t position, const float *row,
                            size_t n_vocab) {
    pthread_mutex_lock(&request->on_logits_mutex);
    if (!request->is_closed)
        request->options.on_logits(request->options.user, position, row, n_vocab);
    pthread_mutex_unlock(&request->on_logits_mutex);
}

void ln_request_give_end(linnet_request *request, linnet_finish finish, const ln_error *error) {
    if (error != NULL)
        request->error = *error;
    atomic_store(&request->finish, (int)finish);
    count_event(request);
    release(request);
}

/* ---- the receiver's side ---------------------------------------------------------------- */

/* Takes one from the eventfd's count, waiting until it is there or the time is up. */
static ln_status wait_for_event(const linnet_request *request, int timeout_ms, ln_error *err) {
    uint64_t deadline_ns = ln_clock_ns() + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000u : 0);
    for (;;) {
        uint64_t one;
        if (read(request->event_fd, &one, sizeof one) == sizeof one)
            return LINNET_OK;
        uint64_t now_ns = ln_clock_ns();
        if (timeout_ms >= 0 && now_ns >= deadline_ns)
            return ln_fail(err, LINNET_ERR_TIMEOUT, "no event within %d ms", timeout_ms);
        int wait_ms = timeout_ms < 0 ? -1 : (int)((deadline_ns - now_ns + 999999u) / 1000000u);
        struct pollfd poll_fd = {.fd = request->event_fd, .events = POLLIN};
        poll(&poll_fd, 1, wait_ms); /* whatever it says, the read decides */
    }
}

/* Adds what was asked for of the logprobs; the event's token is taken. */
static void show_logprobs(const linnet_request *request, linnet_event *event) {
    size_t n_top = (size_t)request->options.top_logprobs;
    if (request->options.logprobs && event->token >= 0) {
        event->logprob = request->logprobs.chosen[request->n_taken - 1];
        if (n_top > 0)
            event->top_logprobs = request->logprobs.top + (request->n_taken - 1) * n_top;
    }
    if (request->options.prompt_logprobs && request->has_prompt_logprobs) {
        event->prompt_logprobs = request->prompt_logprobs.chosen;
        if (n_top > 0)
            event->prompt_top_logprobs = request->prompt_logprobs.top;
    }
}

linnet_status linnet_request_next(linnet_request *request, int timeout_ms, linnet_event *event,
                                  linnet_error *err) {
    if (request->is_over)
        return ln_fail(err, LINNET_ERR_STATE, "the final event of this request was delivered");
    LN_TRY(wait_for_event(request, timeout_ms, err));
    *event = (linnet_event){.token = -1, .n_prompt_tokens = request->n_prompt};
    if (request->n_taken < atomic_load(&request->n_output)) {
        event->token = request->tokens[request->n_prompt + request->n_taken++];
        event->text = ln_text_stream_push(&request->stream, event->token, &event->text_bytes);
    } else {
        event->finish = (linnet_finish)atomic_load(&request->finish);
        event->text = ln_text_stream_finish(&request->stream, &event->text_bytes);
        if (event->finish == LINNET_FINISH_ERROR)
            event->error = request->error.message;
        request->is_over = true;
    }
    event->n_output_tokens = request->n_taken;
    event->n_open = request->is_over ? 0 : 1;
    show_logprobs(request, event);
    return LINNET_OK;
}

int linnet_request_get_fd(const linnet_request *request) {
    return request->event_fd;
}

void linnet_request_cancel(linnet_request *request) {
    if (atomic_load(&request->finish) != LINNET_FINISH_NONE ||
        atomic_exchange(&request->cancelled, true))
        return;
    atomic_store(&request->engine->cancel_came, true);
}

void linnet_request_close(linnet_request *request) {
    if (request == NULL)
        return;
    linnet_request_cancel(request);
    pthread_mutex_lock(&request->on_logits_mutex); /* a call of on_logits ends first */
    request->is_closed = true;
    pthread_mutex_unlock(&request->on_logits_mutex);
    release(request);
}
