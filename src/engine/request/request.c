#include "engine/request/request.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/eventfd.h"

/* ---- the engine thread's side ----------------------------------------------------------- */

void ln_request_release(linnet_request *request) {
    if (atomic_fetch_sub(&request->references, 1) > 1)
        return;
    ln_completion_entry_free(&request->entry);
    if (request->event_fd >= 0)
        close(request->event_fd);
    pthread_mutex_destroy(&request->on_logits_mutex);
    ln_grammar_release(request->grammar);
    free(request);
}

void ln_request_take_logprobs(linnet_request *request, size_t index, ln_sampler *sampler,
                              const float *logits) {
    const ln_output *output = &request->outputs[index];
    size_t n_top = request->options.logprobs ? (size_t)request->options.top_logprobs : 0;
    if (request->options.logprobs || request->is_ranked)
        ln_logprobs_take(sampler, logits, output->logprobs.top + output->n_made * n_top, n_top);
}

void ln_request_put_logprobs(linnet_request *request, size_t index, ln_sampler *sampler,
                             const ln_draw_report *report, int32_t token) {
    const ln_output *output = &request->outputs[index];
    size_t n_top = request->options.logprobs ? (size_t)request->options.top_logprobs : 0;
    ln_logprobs_put(sampler, report, token, output->logprobs.top + output->n_made * n_top, n_top);
}

void ln_request_give_prompt_logprobs(linnet_request *request, ln_sampler *sampler, size_t position,
                                     const float *logits) {
    const ln_logprob_lists *logprobs = &request->prompt_logprobs;
    size_t next = position + 1, n_top = (size_t)request->options.top_logprobs;
    if (next < request->n_prompt) {
        ln_logprobs_take(sampler, logits, logprobs->top + next * n_top, n_top);
        logprobs->chosen[next] = ln_logprobs_get(sampler, request->outputs[0].tokens[next]);
    }
    if (next + 1 >= request->n_prompt)
        request->has_prompt_logprobs = true;
}

/* Before the first event: what every event tells. */
static void begin(linnet_request *request) {
    if (!request->has_begun)
        request->n_cached_tokens = request->group.n_prefix_hit;
    request->has_begun = true;
}

bool ln_request_note_token(linnet_request *request, size_t index, const ln_sampler *sampler,
                           int32_t token) {
    ln_output *output = &request->outputs[index];
    LN_BUG_ON(output->n_made == request->max_output);
    if (request->options.logprobs)
        output->logprobs.chosen[output->n_made] = ln_logprobs_get(sampler, token);
    output->tokens[request->n_prompt + output->n_made] = token;
    if (request->is_ranked)
        output->score += (double)ln_logprobs_get(sampler, token);
    if (!request->has_stops)
        return false;
    size_t n_bytes;
    ln_text_stream_push(&output->stop_stream, token, &n_bytes);
    return output->stop_stream.stopped;
}

void ln_request_note_time(linnet_request *request, uint64_t now_ns) {
    request->last_token_ns = now_ns;
    if (request->first_token_ns == 0)
        request->first_token_ns = request->last_token_ns;
}

void ln_request_add_token(linnet_request *request, size_t index, uint64_t now_ns) {
    ln_request_note_time(request, now_ns);
    request->outputs[index].n_made++;
    begin(request);
}

void ln_request_give_logits(linnet_request *request, size_t position, const float *row,
                            size_t n_vocab) {
    pthread_mutex_lock(&request->on_logits_mutex);
    if (!request->is_closed && position == request->n_scored)
        request->options.on_logits(request->options.user, position, row, n_vocab);
    request->n_scored += position == request->n_scored;
    pthread_mutex_unlock(&request->on_logits_mutex);
}

void ln_request_end_output(linnet_request *request, size_t index, linnet_finish finish,
                           const ln_error *error) {
    if (error != NULL)
        request->error = *error;
    begin(request);
    request->outputs[index].end = finish;
    request->n_ended++;
    request->is_over = request->n_ended == request->group.n_sequences;
}

void ln_request_end_all(linnet_request *request, linnet_finish finish, const ln_error *error) {
    for (size_t i = 0; i < request->group.n_sequences; i++)
        if (request->outputs[i].end == LINNET_FINISH_NONE)
            ln_request_end_output(request, i, finish, error);
    request->is_over = true;
}

void ln_output_copy_logprobs(const linnet_request *request, ln_logprob_lists *to,
                             const ln_logprob_lists *from, size_t n) {
    size_t n_top = (size_t)request->options.top_logprobs;
    if (!request->options.logprobs || n == 0)
        return;
    memcpy(to->chosen, from->chosen, n * sizeof *to->chosen);
    if (n_top > 0)
        memcpy(to->top, from->top, n * n_top * sizeof *to->top);
}

/* ---- the notifier's side ---------------------------------------------------------------- */

/* So many more events wait; those that the descriptor did not take are counted with the next. Its
 * counter holds 2^64 - 2. */
static void count_events(linnet_request *request, uint64_t n_events) {
    if (n_events == 0 || request->entry.queue != NULL)
        return;
    request->n_uncounted += n_events;
    if (ln_eventfd_add(request->event_fd, request->n_uncounted))
        request->n_uncounted = 0;
}

/* All have ended: the best come first, ties in the order of their sequences. */
static void rank(linnet_request *request) {
    for (size_t i = 1; i < request->group.n_sequences; i++) {
        size_t rank = request->ranks[i], at = i;
        double score = request->outputs[rank].score;
        for (; at > 0 && score > request->outputs[request->ranks[at - 1]].score; at--)
            request->ranks[at] = request->ranks[at - 1];
        request->ranks[at] = rank;
    }
}

void ln_request_show(linnet_request *request) {
    uint64_t n_events = 0;
    if (request->is_ranked && request->n_ended < request->group.n_sequences)
        return;
    if (request->is_ranked)
        rank(request);
    for (size_t i = 0; i < request->n_outputs; i++) {
        ln_output *output = &request->outputs[request->ranks[i]];
        n_events += output->n_made - atomic_load(&output->n_shown);
        atomic_store(&output->n_shown, output->n_made);
        if (output->end == LINNET_FINISH_NONE ||
            atomic_load(&output->finish) != (int)LINNET_FINISH_NONE)
            continue;
        atomic_fetch_sub(&request->n_open, 1);
        atomic_store(&output->finish, (int)output->end);
        n_events++;
    }
    count_events(request, n_events);
}

void ln_request_end_showing(linnet_request *request) {
    if (request->is_over)
        ln_request_release(request);
}

/* ---- the receiver's side ---------------------------------------------------------------- */

/* Takes one from the eventfd's count, waiting until it is there or the time is up. */
static ln_status wait_for_event(const linnet_request *request, int timeout_ms, ln_error *err) {
    if (request->entry.queue != NULL)
        return timeout_ms == 0 ? LINNET_OK
                               : ln_fail(err, LINNET_ERR_ARGUMENT,
                                         "a request with a completion queue cannot be waited for");
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
static void show_logprobs(const linnet_request *request, const ln_output *output,
                          linnet_event *event) {
    size_t n_top = (size_t)request->options.top_logprobs;
    if (request->options.logprobs && event->token >= 0) {
        event->logprob = output->logprobs.chosen[output->n_taken - 1];
        if (n_top > 0)
            event->top_logprobs = output->logprobs.top + (output->n_taken - 1) * n_top;
    }
    if (request->options.prompt_logprobs && request->has_prompt_logprobs) {
        event->prompt_logprobs = request->prompt_logprobs.chosen;
        if (n_top > 0)
            event->prompt_top_logprobs = request->prompt_logprobs.top;
    }
}

/* The engine writes the first time before the first token, and the last one until all is over. */
static void show_times(const linnet_request *request, linnet_event *event) {
    bool is_last = event->n_open == 0;
    if ((event->token < 0 && !is_last) || request->first_token_ns == 0)
        return;
    event->first_token_ns = request->first_token_ns - request->submit_ns;
    if (is_last)
        event->last_token_ns = request->last_token_ns - request->submit_ns;
}

/* Takes the next event of an output, if there is one. What was shown before the finish was seen
 * comes before it. */
static bool take_event(linnet_request *request, ln_output *output, linnet_event *event) {
    if (output->is_over)
        return false;
    linnet_finish finish = (linnet_finish)atomic_load(&output->finish);
    if (output->n_taken < atomic_load(&output->n_shown)) {
        event->token = output->tokens[request->n_prompt + output->n_taken++];
        event->text = ln_text_stream_push(&output->stream, event->token, &event->text_bytes);
        return true;
    }
    if (finish == LINNET_FINISH_NONE)
        return false;
    event->finish = finish;
    event->text = ln_text_stream_finish(&output->stream, &event->text_bytes);
    event->score = (float)output->score;
    event->n_accepted_prediction = output->n_predicted_came;
    event->n_rejected_prediction = output->n_predicted - output->n_predicted_came;
    if (request->has_embedding) {
        event->embedding = request->embedding;
        event->n_embedding = request->n_embedding;
    }
    event->stop_index = output->stream.stopped ? (int32_t)output->stream.stop_index : -1;
    if (finish == LINNET_FINISH_ERROR)
        event->error = request->error.message;
    output->is_over = true;
    request->n_to_come--;
    return true;
}

/* Whether the order of the outputs is still to be found: the notifier then writes it. */
static bool is_unranked(const linnet_request *request) {
    return request->is_ranked && atomic_load(&request->n_open) == request->n_outputs;
}

static ln_status fail_without_event(const linnet_request *request, ln_error *err) {
    LN_BUG_ON(request->entry.queue == NULL); /* the count says that there is one */
    return ln_fail(err, LINNET_ERR_TIMEOUT, "there is no event");
}

ln_status ln_request_next(linnet_request *request, int timeout_ms, linnet_event *event,
                          ln_error *err) {
    if (request->n_to_come == 0)
        return ln_fail(err, LINNET_ERR_STATE, "the final event of this request was delivered");
    LN_TRY(wait_for_event(request, timeout_ms, err));
    *event = (linnet_event){.token = -1, .n_prompt_tokens = request->n_prompt, .stop_index = -1};
    size_t index = request->next, n_looked = 0;
    if (is_unranked(request))
        return fail_without_event(request, err);
    while (!take_event(request, &request->outputs[request->ranks[index]], event)) {
        index = (index + 1) % request->n_outputs;
        if (++n_looked < request->n_outputs)
            continue;
        return fail_without_event(request, err);
    }
    const ln_output *output = &request->outputs[request->ranks[index]];
    request->next = (index + 1) % request->n_outputs;
    event->index = (uint32_t)index;
    event->n_open = (uint32_t)request->n_to_come;
    event->n_output_tokens = output->n_taken;
    event->n_cached_tokens = request->n_cached_tokens;
    show_times(request, event);
    show_logprobs(request, output, event);
    return LINNET_OK;
}

void ln_request_cancel(linnet_request *request) {
    if (atomic_load(&request->n_open) == 0 || atomic_exchange(&request->cancelled, true))
        return;
    atomic_store(request->cancel_came, true);
}

void ln_request_close(linnet_request *request) {
    ln_request_cancel(request);
    ln_completion_entry_close(&request->entry);
    pthread_mutex_lock(&request->on_logits_mutex); /* a call of on_logits ends first */
    request->is_closed = true;
    pthread_mutex_unlock(&request->on_logits_mutex);
    ln_request_release(request);
}
