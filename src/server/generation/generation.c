#include "server/generation/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "server/generation/logprob_columns.h"
#include "server/http/response.h"
#include "server/json/reply.h"

struct ln_generation {
    ln_generations *set;
    ln_api_task *task;
    ln_generation *next, *previous; /* of the set */
    const ln_answer_format *format;
    ln_answer_writer writer;
    ln_usage usage;
    ln_event_stream stream; /* of a detached one that streams */
    bool runs;              /* detached, and its format knows that it runs */
    size_t n_open;          /* choices that are not over */
    ln_choice *choices;     /* [n_choices] */
    size_t n_choices;
    ln_api_error error; /* of the first request that failed */
};

/* ---- ends ------------------------------------------------------------------------------- */

static void destroy(ln_generation *generation) {
    for (size_t i = 0; i < generation->n_choices; i++) {
        ln_strbuf_free(&generation->choices[i].text);
        ln_strbuf_free(&generation->choices[i].piece);
        ln_strbuf_free(&generation->choices[i].token_ids);
        ln_strbuf_free(&generation->choices[i].prompt_logprobs);
        ln_chat_answer_free(&generation->choices[i].answer);
        for (size_t j = 0; j < LN_LOGPROBS_COLUMNS; j++)
            ln_strbuf_free(&generation->choices[i].logprobs[j]);
    }
    if (generation->previous != NULL)
        generation->previous->next = generation->next;
    else
        generation->set->first = generation->next;
    if (generation->next != NULL)
        generation->next->previous = generation->previous;
    ln_event_stream_free(&generation->stream);
    ln_strbuf_free(&generation->writer.head);
    ln_api_task_free(generation->task);
    if (generation->set->first == NULL)
        ln_health_end_work(&generation->set->context->health);
    free(generation->choices);
    free(generation);
}

/* Of its model. */
static ln_model_metrics *metrics_of(const ln_generation *generation) {
    return &generation->task->lease.entry->metrics;
}

static void count_cancelled(ln_generation *generation) {
    for (size_t i = 0; i < generation->n_choices; i++)
        if (generation->choices[i].finish == LINNET_FINISH_NONE)
            metrics_of(generation)->n_finished[LINNET_FINISH_CANCELLED]++;
}

/* For the log: also tokens of choices that were cancelled. */
static void note_tokens(const ln_generation *generation) {
    ln_exchange *exchange = generation->task->exchange;
    if (exchange == NULL)
        return;
    exchange->n_prompt_tokens = generation->usage.n_prompt_tokens;
    exchange->n_output_tokens = generation->usage.n_output_tokens;
    for (size_t i = 0; i < generation->n_choices; i++)
        if (generation->choices[i].finish == LINNET_FINISH_NONE)
            exchange->n_output_tokens += generation->choices[i].n_output_tokens;
}

void ln_generation_cancel(ln_generation *generation) {
    note_tokens(generation);
    count_cancelled(generation);
    destroy(generation);
}

/* Ends the stream of a detached one, with the events in `last`, and keeps what there was. */
static void end_stream(ln_generation *generation, const ln_strbuf *last) {
    ln_event_stream *stream = &generation->stream;
    ln_event_stream_add(stream, last);
    ln_event_stream_end(stream);
    if (stream->events.len > 0)
        generation->format->keep_events(&generation->writer, stream->events.data);
}

/* Sends the end of the response, or all of it where it is not streamed. */
static void finish(ln_generation *generation) {
    ln_context *context = generation->set->context;
    ln_exchange *exchange = generation->task->exchange;
    const ln_generation_request *request = &generation->task->request;
    ln_strbuf *out = &context->scratch;
    ln_metrics_request(metrics_of(generation),
                       (double)(ln_clock_ns() - generation->task->begin_ns) / 1e9);
    if (exchange != NULL)
        exchange->generation = NULL;
    note_tokens(generation);
    ln_strbuf_clear(out);
    if (request->streams) {
        generation->format->end(&generation->writer, generation->choices, generation->n_choices,
                                &generation->error, out);
        if (exchange == NULL) {
            end_stream(generation, out);
        } else {
            ln_response_write_text(exchange, out);
            ln_response_end(exchange);
        }
    } else if (exchange == NULL) {
        generation->format->settle(&generation->writer, generation->choices, &generation->error,
                                   false, out);
    } else if (generation->error.status != 0) {
        ln_reply_error(exchange, &generation->error);
    } else {
        generation->format->whole(&generation->writer, generation->choices, generation->n_choices,
                                  out);
        ln_reply_json(exchange, out);
    }
    destroy(generation);
}

/* ---- events ----------------------------------------------------------------------------- */

/* What is shown of the prompt: its logprobs, and it as the beginning of the output. */
static void take_prompt(ln_generation *generation, ln_choice *choice, const linnet_event *event) {
    const ln_generation_request *request = &generation->task->request;
    const ln_prompt *prompt = choice->prompt;
    choice->has_prompt = true;
    if (request->n_prompt_top >= 0 && event->prompt_logprobs != NULL)
        ln_logprob_columns_put_prompt(&generation->writer, prompt, event, &choice->prompt_logprobs);
    if (!request->echoes)
        return;
    if (request->kind == LN_API_CHAT) {
        ln_chat_answer_feed(&choice->answer, prompt->text, prompt->text_bytes);
        return;
    }
    ln_strbuf_append(&choice->text, prompt->text, prompt->text_bytes);
    if (event->prompt_logprobs != NULL && request->options.logprobs)
        ln_logprob_columns_add_echo(&generation->writer, choice, event);
}

/* Whether a part of what the choice says was lost. */
static bool has_lost(const ln_choice *choice) {
    bool lost = choice->answer.failed || choice->text.failed || choice->piece.failed ||
                choice->token_ids.failed || choice->prompt_logprobs.failed;
    for (size_t i = 0; i < LN_LOGPROBS_COLUMNS; i++)
        lost |= choice->logprobs[i].failed;
    return lost;
}

/* Bytes of the event's text, without a special token at its end that clients must not see. */
static size_t count_shown(const ln_generation *generation, const linnet_event *event) {
    const ln_generation_request *request = &generation->task->request;
    const ln_tokenizer *tokenizer = generation->task->served->tokenizer;
    if (!request->hides_special || event->token < 0)
        return event->text_bytes;
    for (size_t i = 0; i < request->n_shown_ids; i++)
        if (request->shown_ids[i] == event->token)
            return event->text_bytes;
    return ln_tokenizer_count_plain(tokenizer, event->token, event->text, event->text_bytes);
}

static void add_token(ln_generation *generation, ln_choice *choice, const linnet_event *event) {
    const ln_generation_request *request = &generation->task->request;
    if (request->drops_output)
        return;
    if (request->kind == LN_API_CHAT)
        ln_chat_answer_feed(&choice->answer, event->text, count_shown(generation, event));
    else
        ln_strbuf_append(&choice->text, event->text, event->text_bytes);
    if (event->token >= 0 && ln_chat_text_is_reasoning(&choice->answer.parser))
        generation->usage.n_reasoning_tokens++;
    if (event->token >= 0 && request->options.logprobs && !choice->has_output &&
        request->kind == LN_API_COMPLETION)
        ln_logprob_columns_begin_output(&generation->writer, choice);
    choice->has_output = true;
    if (event->token >= 0 && request->returns_ids)
        ln_strbuf_printf(&choice->token_ids, "%s%d", choice->token_ids.len > 0 ? "," : "",
                         (int)event->token);
    if (event->token >= 0 && request->options.logprobs)
        ln_logprob_columns_add(&generation->writer, choice, event);
}

/* What a client's own rules made impossible says nothing of the engine. */
static void take_failure(ln_generation *generation, const linnet_event *event) {
    const linnet_request_options *options = &generation->task->request.options;
    const char *error = event->error != NULL ? event->error : "the engine failed";
    bool has_rules = options->n_logit_bias > 0 || options->n_bad_words > 0;
    if (ln_api_fail_grammar(&generation->error, 400, error, &generation->task->request))
        return;
    if (has_rules && strstr(error, "minus infinity") != NULL) {
        ln_api_fail(&generation->error, 400, "logit_bias",
                    "logit_bias, allowed_token_ids or bad_words leave no token that could come");
        return;
    }
    ln_health_note_failure(&generation->set->context->health);
    ln_api_fail(&generation->error, 500, NULL, "%s", error);
}

static void take_end(ln_generation *generation, ln_choice *choice, const linnet_event *event) {
    bool is_dropped = generation->task->request.drops_output;
    choice->finish = event->finish;
    choice->stop_index = event->stop_index;
    if (event->embedding != NULL &&
        !ln_strbuf_append(&choice->text, (const char *)event->embedding,
                          event->n_embedding * sizeof *event->embedding))
        ln_api_fail_memory(&generation->error);
    if (generation->task->request.kind == LN_API_CHAT)
        ln_chat_answer_finish(&choice->answer, event->finish != LINNET_FINISH_STOP);
    if (has_lost(choice))
        ln_api_fail_memory(&generation->error);
    if (is_dropped && event->finish == LINNET_FINISH_STOP)
        choice->finish = LINNET_FINISH_LENGTH;
    metrics_of(generation)->n_finished[event->finish]++;
    if (event->finish == LINNET_FINISH_ERROR)
        take_failure(generation, event);
    if (!is_dropped)
        generation->usage.n_output_tokens += event->n_output_tokens;
    generation->usage.n_accepted_prediction += event->n_accepted_prediction;
    generation->usage.n_rejected_prediction += event->n_rejected_prediction;
    generation->n_open--;
}

/* An event of a request: a token's text, or an output's end. */
static void add_event(ln_prompt_run *run, const linnet_event *event) {
    ln_generation *generation = run->generation;
    ln_choice *choice = &run->choices[event->index];
    if (!choice->has_prompt && event->finish != LINNET_FINISH_ERROR)
        take_prompt(generation, choice, event);
    add_token(generation, choice, event);
    choice->n_output_tokens = event->n_output_tokens;
    if (run->first == 0 && event->n_cached_tokens > run->n_cached_tokens) {
        generation->usage.n_cached_tokens += event->n_cached_tokens - run->n_cached_tokens;
        run->n_cached_tokens = event->n_cached_tokens;
    }
    choice->is_dirty = true;
    if (event->finish != LINNET_FINISH_NONE) {
        take_end(generation, choice, event);
        run->n_open--;
    }
}

/* Adds the tokens that came together to the metrics, with their latencies. */
static void measure_latency(ln_prompt_run *run, uint64_t now_ns) {
    ln_generation *generation = run->generation;
    ln_model_metrics *metrics = metrics_of(generation);
    for (size_t i = 0; i < run->n; i++) {
        ln_choice *choice = &run->choices[i];
        size_t n_new = choice->n_output_tokens - choice->n_counted_tokens;
        if (n_new == 0)
            continue;
        metrics->n_output_tokens += n_new;
        if (choice->n_counted_tokens == 0) {
            ln_metrics_first_token(metrics, (double)(now_ns - generation->task->begin_ns) / 1e9);
            if (generation->writer.first_token_ns == 0)
                generation->writer.first_token_ns = now_ns;
            choice->last_ns = now_ns;
            n_new--; /* the first has no interval before it */
        }
        ln_metrics_tokens(metrics, (double)(now_ns - choice->last_ns) / 1e9, n_new);
        choice->last_ns = now_ns;
        choice->n_counted_tokens = choice->n_output_tokens;
    }
}

/* Sends what the run's choices have as chunks; false when the client is gone or does not read. */
static bool send_chunks(ln_prompt_run *run) {
    ln_generation *generation = run->generation;
    ln_strbuf *out = &generation->set->context->scratch;
    ln_strbuf_clear(out);
    for (size_t i = 0; i < run->n; i++)
        if (run->choices[i].is_dirty) {
            generation->format->chunk(&generation->writer, &run->choices[i], out);
            out->failed |= has_lost(&run->choices[i]);
        }
    if (generation->task->exchange != NULL)
        return ln_response_write_text(generation->task->exchange, out);
    ln_event_stream_add(&generation->stream, out);
    return true;
}

/* What is stored of a detached one says that it runs, and so does its stream. */
static void note_running(ln_generation *generation) {
    ln_strbuf *out = &generation->set->context->scratch;
    bool streams = generation->task->request.streams;
    if (generation->task->exchange != NULL || generation->runs ||
        (generation->n_open == 0 && !streams))
        return;
    generation->runs = true;
    ln_strbuf_clear(out);
    generation->format->run(&generation->writer, out);
    if (streams)
        ln_event_stream_add(&generation->stream, out);
}

/* Takes the events of a run and streams them; false when the generation has ended and is freed. */
static bool take_events(ln_prompt_run *run, uint64_t now_ns) {
    ln_generation *generation = run->generation;
    linnet_event event;
    while (run->n_open > 0 && linnet_request_next(run->request, 0, &event, NULL) == LINNET_OK)
        add_event(run, &event);
    measure_latency(run, now_ns);
    if (generation->writer.first_token_ns != 0)
        note_running(generation);
    if (run->n_open == 0) {
        linnet_request_close(run->request);
        run->request = NULL;
    }
    if (generation->task->request.streams && !send_chunks(run))
        return true; /* on_gone follows */
    if (generation->n_open > 0)
        return true;
    finish(generation);
    return false;
}

/* ---- completions ------------------------------------------------------------------------- */

/* Taking all events took long: waits as long before the next time, so that tokens of fast steps are
 * sent together and the event loop has time for other connections. */
static void set_backoff(ln_generations *generations, uint64_t begin_ns) {
    enum { LONG_NS = 1000000, MAX_BACKOFF_NS = 4000000 };
    uint64_t end_ns = ln_clock_ns(), backoff_ns = end_ns - begin_ns;
    backoff_ns = backoff_ns < LONG_NS          ? 0
                 : backoff_ns > MAX_BACKOFF_NS ? MAX_BACKOFF_NS
                                               : backoff_ns;
    generations->backoff_until_ns = end_ns + backoff_ns;
}

static void on_completions(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_generations *generations = argument;
    uint64_t now_ns = ln_clock_ns();
    if (now_ns < generations->backoff_until_ns) {
        struct timeval rest = {.tv_usec =
                                   (suseconds_t)((generations->backoff_until_ns - now_ns) / 1000)};
        if (event_add(generations->backoff_timer, &rest) == 0)
            event_del(generations->queue_event);
        return;
    }
    ln_health_note_progress(&generations->context->health, now_ns);
    /* at most once for each open request, so that this ends while the engine goes on */
    linnet_request *request;
    for (size_t n = atomic_load(&generations->context->admission.n_open) + 1;
         n > 0 && (request = linnet_completion_queue_next(generations->completion_queue)) != NULL;
         n--) {
        ln_prompt_run *run = linnet_request_get_user(request);
        if (run->generation != NULL)
            take_events(run, now_ns);
    }
    set_backoff(generations, now_ns);
}

static void on_backoff_over(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    static const struct timeval soon = {.tv_usec = 1000};
    ln_generations *generations = argument;
    if (event_add(generations->queue_event, NULL) != 0) /* no memory in the kernel: once more */
        event_add(generations->backoff_timer, &soon);
}

ln_status ln_generations_start(ln_generations *generations, ln_context *context,
                               struct event_base *base, ln_error *err) {
    generations->context = context;
    LN_TRY(linnet_completion_queue_create(&generations->completion_queue, err));
    generations->queue_event =
        event_new(base, linnet_completion_queue_get_fd(generations->completion_queue),
                  EV_READ | EV_PERSIST, on_completions, generations);
    generations->backoff_timer = evtimer_new(base, on_backoff_over, generations);
    if (generations->queue_event == NULL || generations->backoff_timer == NULL ||
        event_add(generations->queue_event, NULL) != 0)
        return ln_fail_memory(err, "the server");
    return LINNET_OK;
}

void ln_generations_end(ln_generations *generations) {
    while (generations->first != NULL) {
        ln_generation *generation = generations->first;
        count_cancelled(generation);
        ln_api_fail(&generation->error, 503, NULL, "the server ends");
        finish(generation);
    }
}

/* A detached one. */
static ln_generation *find(const ln_generations *generations, const char *id) {
    ln_generation *found = generations->first;
    while (found != NULL && (found->task->exchange != NULL || strcmp(found->writer.id, id) != 0))
        found = found->next;
    return found;
}

bool ln_generations_cancel(ln_generations *generations, const char *id, ln_strbuf *out) {
    static const ln_strbuf nothing;
    ln_generation *found = find(generations, id);
    ln_strbuf unseen;
    if (found == NULL)
        return false;
    ln_strbuf_init(&unseen);
    found->format->settle(&found->writer, found->choices, &found->error, true,
                          out != NULL ? out : &unseen);
    ln_strbuf_free(&unseen);
    if (found->task->request.streams)
        end_stream(found, &nothing);
    ln_generation_cancel(found);
    return true;
}

bool ln_generations_follow(ln_generations *generations, const char *id, ln_exchange *exchange,
                           long long after, ln_api_error *error) {
    ln_generation *found = find(generations, id);
    return found != NULL && found->task->request.streams &&
           ln_event_stream_follow(&found->stream, exchange, after, error);
}

void ln_generations_stop(ln_generations *generations) {
    while (generations->first != NULL)
        ln_generation_cancel(generations->first);
    if (generations->queue_event != NULL)
        event_free(generations->queue_event);
    if (generations->backoff_timer != NULL)
        event_free(generations->backoff_timer);
    linnet_completion_queue_destroy(generations->completion_queue);
}

/* ---- begin ------------------------------------------------------------------------------ */

static void begin_run(ln_generation *generation, size_t index) {
    ln_prompt_run *run = &generation->task->runs[index];
    const ln_generation_request *request = &generation->task->request;
    run->generation = generation;
    size_t first = run->prompt * request->n + run->first;
    run->choices = &generation->choices[first];
    run->n_open = run->n;
    for (size_t i = 0; i < run->n; i++) {
        run->choices[i].index = (uint32_t)(first + i);
        run->choices[i].prompt = &request->prompts[run->prompt];
        if (request->kind == LN_API_CHAT)
            ln_chat_answer_init(&run->choices[i].answer, request);
    }
}

static void link_generation(ln_generation *generation) {
    ln_generations *set = generation->set;
    if (set->first == NULL)
        ln_health_begin_work(&set->context->health);
    generation->next = set->first;
    if (generation->next != NULL)
        generation->next->previous = generation;
    set->first = generation;
}

static ln_generation *create(ln_api_task *task) {
    ln_generation *generation = calloc(1, sizeof *generation);
    if (generation == NULL)
        return NULL;
    const ln_generation_request *request = &task->request;
    generation->set = task->context->generations;
    generation->task = task;
    generation->n_choices = request->n_prompts * request->n;
    generation->choices = calloc(generation->n_choices, sizeof *generation->choices);
    if (generation->choices != NULL)
        return generation;
    free(generation);
    return NULL;
}

static void set_writer(ln_generation *generation) {
    const ln_api_task *task = generation->task;
    const ln_served_model *served = task->served;
    generation->format = task->work->format;
    generation->writer = (ln_answer_writer){
        .request = &task->request,
        .usage = &generation->usage,
        .tokenizer = served->tokenizer,
        .model = task->request.adapter[0] != '\0' ? task->request.adapter : served->name,
        .created_s = (int64_t)time(NULL),
        .begin_ns = task->begin_ns};
    snprintf(generation->writer.id, sizeof generation->writer.id, "%s%s",
             generation->format->id_prefix, task->serial);
    ln_strbuf_init(&generation->writer.head);
}

/* Sends the head of a stream, and what the format has before its chunks. */
static void begin_stream(ln_generation *generation) {
    ln_strbuf *out = &generation->set->context->scratch;
    ln_response_begin(generation->task->exchange, 200, generation->format->media_type);
    ln_strbuf_clear(out);
    if (generation->format->begin != NULL)
        generation->format->begin(&generation->writer, out);
    ln_response_write_text(generation->task->exchange, out);
}

/* Answers the exchange, with a stream if it wants one; the generation goes on without it. */
static void detach(ln_generation *generation) {
    ln_api_error error = {0};
    ln_exchange *exchange = generation->task->exchange;
    ln_strbuf *out = &generation->set->context->scratch;
    ln_strbuf_clear(out);
    generation->format->accept(&generation->writer, out);
    generation->task->exchange = NULL;
    exchange->generation = NULL;
    if (!generation->task->request.streams) {
        ln_reply_json(exchange, out);
        return;
    }
    ln_event_stream_init(&generation->stream, &generation->set->events,
                         generation->format->media_type);
    /* first, as what others keep may leave no room for the events */
    if (!ln_event_stream_follow(&generation->stream, exchange, -1, &error))
        ln_reply_error(exchange, &error);
    ln_strbuf_clear(out);
    generation->format->begin(&generation->writer, out);
    ln_event_stream_add(&generation->stream, out);
}

void ln_generation_begin(ln_api_task *task) {
    static const ln_api_error out_of_memory = {
        .status = 503, .type = "server_error", .message = "out of memory"};
    ln_exchange *exchange = task->exchange;
    ln_generation *generation = create(task);
    if (generation == NULL) {
        exchange->generation = NULL;
        ln_reply_error(exchange, &out_of_memory);
        ln_api_task_free(task);
        return;
    }
    link_generation(generation);
    generation->n_open = generation->n_choices;
    set_writer(generation);
    exchange->generation = generation;
    for (size_t i = 0; i < task->request.n_prompts; i++)
        generation->usage.n_prompt_tokens += task->request.prompts[i].n_ids;
    for (size_t i = 0; i < task->n_runs; i++)
        begin_run(generation, i);
    metrics_of(generation)->n_prompt_tokens += generation->usage.n_prompt_tokens;
    if (task->request.is_detached)
        detach(generation);
    else if (task->request.streams)
        begin_stream(generation);
    /* events that came before the task was back from its worker */
    uint64_t now_ns = ln_clock_ns();
    for (size_t i = 0; i < task->n_runs && take_events(&task->runs[i], now_ns); i++)
        continue;
}
