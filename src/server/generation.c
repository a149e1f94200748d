/* A generation: the requests of one exchange from submit to the last token. Their mailbox wakes the
 * event loop once for all that a step gave; what has come to a request since is shown in one
 * piece. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/http/response.h"
#include "server/render.h"
#include "server/state.h"

struct ln_generation {
    ln_server *server;
    ln_job *job;
    ln_generation *next, *previous; /* of server->generations */
    ln_render render;
    ln_usage usage;
    size_t n_open;      /* choices that are not over */
    ln_choice *choices; /* [n_choices] */
    size_t n_choices;
    ln_api_error error; /* of the first request that failed */
};

/* ---- ends ------------------------------------------------------------------------------- */

static void destroy(ln_generation *generation) {
    ln_server *server = generation->server;
    for (size_t i = 0; i < generation->n_choices; i++) {
        ln_strbuf_free(&generation->choices[i].text);
        ln_strbuf_free(&generation->choices[i].piece);
        ln_answer_free(&generation->choices[i].answer);
        for (size_t j = 0; j < LN_LOGPROBS_COLUMNS; j++)
            ln_strbuf_free(&generation->choices[i].logprobs[j]);
    }
    if (generation->previous != NULL)
        generation->previous->next = generation->next;
    else
        server->generations = generation->next;
    if (generation->next != NULL)
        generation->next->previous = generation->previous;
    ln_strbuf_free(&generation->render.head);
    ln_job_free(generation->job);
    free(generation->choices);
    free(generation);
}

static void count_cancelled(ln_generation *generation) {
    for (size_t i = 0; i < generation->n_choices; i++)
        if (generation->choices[i].finish == LINNET_FINISH_NONE)
            generation->server->metrics.n_finished[LINNET_FINISH_CANCELLED]++;
}

/* For the log, those of choices that did not come to their end, too. */
static void note_tokens(const ln_generation *generation) {
    ln_exchange *exchange = generation->job->exchange;
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

/* Everything has come: the last of the answer. */
static void finish(ln_generation *generation) {
    ln_server *server = generation->server;
    ln_exchange *exchange = generation->job->exchange;
    const ln_api_request *request = &generation->job->request;
    ln_strbuf *out = &server->scratch;
    ln_metrics_request(&server->metrics, (double)(ln_clock_ns() - generation->job->begin_ns) / 1e9);
    exchange->generation = NULL;
    note_tokens(generation);
    ln_strbuf_clear(out);
    if (request->streams) {
        if (generation->error.status != 0) {
            ln_strbuf_puts(out, "data: ");
            ln_render_error(out, &generation->error);
            ln_strbuf_puts(out, "\n\n");
        }
        if (request->includes_usage)
            ln_render_usage_chunk(&generation->render, &generation->usage, out);
        ln_strbuf_puts(out, "data: [DONE]\n\n");
        ln_response_write(exchange, out->data, out->len);
        ln_response_end(exchange);
    } else if (generation->error.status != 0) {
        ln_reply_error(exchange, &generation->error);
    } else {
        ln_render_whole(&generation->render, generation->choices, generation->n_choices,
                        &generation->usage, out);
        ln_reply_json(server, exchange, out);
    }
    destroy(generation);
}

/* ---- events ----------------------------------------------------------------------------- */

/* The prompt as the beginning of the output. */
static void take_echo(ln_generation *generation, ln_choice *choice, const linnet_event *event) {
    const linnet_request_options *options = &generation->job->request.options;
    const ln_prompt *prompt = choice->prompt;
    size_t n_top = (size_t)options->top_logprobs;
    choice->has_prompt = true;
    ln_strbuf_append(&choice->text, prompt->text, prompt->text_bytes);
    if (event->prompt_logprobs == NULL)
        return;
    ln_render_begin_prompt(&generation->render, choice);
    for (size_t i = 0; i < prompt->n_ids; i++) {
        const linnet_logprob *top = n_top > 0 ? event->prompt_top_logprobs + i * n_top : NULL;
        ln_render_logprob(&generation->render, choice, prompt->ids[i], i > 0,
                          event->prompt_logprobs[i], top, n_top);
    }
}

/* Bytes of the event's text without a special token's at its end that is not for clients. */
static size_t count_shown(const ln_generation *generation, const linnet_event *event) {
    const ln_api_request *request = &generation->job->request;
    const ln_tokenizer *tokenizer = generation->server->tokenizer;
    if (!request->hides_special || event->token < 0)
        return event->text_bytes;
    for (size_t i = 0; i < request->n_shown_ids; i++)
        if (request->shown_ids[i] == event->token)
            return event->text_bytes;
    return ln_tokenizer_count_plain(tokenizer, event->token, event->text, event->text_bytes);
}

static void take_token(ln_generation *generation, ln_choice *choice, const linnet_event *event) {
    const ln_api_request *request = &generation->job->request;
    if (request->drops_output)
        return;
    if (request->kind == LN_API_CHAT)
        ln_answer_feed(&choice->answer, event->text, count_shown(generation, event));
    else
        ln_strbuf_append(&choice->text, event->text, event->text_bytes);
    if (event->token >= 0 && ln_chat_text_is_reasoning(&choice->answer.parser))
        generation->usage.n_reasoning_tokens++;
    if (event->token >= 0 && request->options.logprobs && !choice->has_output &&
        request->kind == LN_API_COMPLETION)
        ln_render_begin_output(&generation->render, choice);
    choice->has_output = true;
    if (event->token >= 0 && request->options.logprobs)
        ln_render_logprob(&generation->render, choice, event->token, true, event->logprob,
                          event->top_logprobs, (size_t)request->options.top_logprobs);
}

static void take_end(ln_generation *generation, ln_choice *choice, const linnet_event *event) {
    ln_server *server = generation->server;
    bool is_dropped = generation->job->request.drops_output;
    choice->finish = event->finish;
    if (generation->job->request.kind == LN_API_CHAT)
        ln_answer_finish(&choice->answer);
    if (choice->answer.failed)
        ln_api_fail(&generation->error, 503, NULL, "out of memory");
    if (is_dropped && event->finish == LINNET_FINISH_STOP)
        choice->finish = LINNET_FINISH_LENGTH;
    server->metrics.n_finished[event->finish]++;
    if (event->finish == LINNET_FINISH_ERROR)
        ln_watch_note_failure(server);
    const char *error = event->error != NULL ? event->error : "the engine failed";
    if (event->finish == LINNET_FINISH_ERROR &&
        !ln_api_fail_grammar(&generation->error, 400, error, &generation->job->request))
        ln_api_fail(&generation->error, 500, NULL, "%s", error);
    if (!is_dropped)
        generation->usage.n_output_tokens += event->n_output_tokens;
    generation->n_open--;
}

static void take_event(ln_source *source, const linnet_event *event) {
    ln_generation *generation = source->generation;
    ln_choice *choice = &source->choices[event->index];
    if (generation->job->request.echoes && !choice->has_prompt &&
        event->finish != LINNET_FINISH_ERROR)
        take_echo(generation, choice, event);
    take_token(generation, choice, event);
    choice->n_output_tokens = event->n_output_tokens;
    if (event->n_cached_tokens > source->n_cached_tokens) {
        generation->usage.n_cached_tokens += event->n_cached_tokens - source->n_cached_tokens;
        source->n_cached_tokens = event->n_cached_tokens;
    }
    choice->is_dirty = true;
    if (event->finish != LINNET_FINISH_NONE) {
        take_end(generation, choice, event);
        source->n_open--;
    }
}

/* Times of the tokens that came together. */
static void measure(ln_source *source, uint64_t now_ns) {
    ln_generation *generation = source->generation;
    ln_metrics *metrics = &generation->server->metrics;
    for (size_t i = 0; i < generation->job->request.n; i++) {
        ln_choice *choice = &source->choices[i];
        size_t n_new = choice->n_output_tokens - choice->n_counted_tokens;
        if (n_new == 0)
            continue;
        metrics->n_output_tokens += n_new;
        if (choice->n_counted_tokens == 0) {
            ln_metrics_first_token(metrics, (double)(now_ns - generation->job->begin_ns) / 1e9);
            choice->last_ns = now_ns;
            n_new--; /* the first has no one before it */
        }
        ln_metrics_tokens(metrics, (double)(now_ns - choice->last_ns) / 1e9, n_new);
        choice->last_ns = now_ns;
        choice->n_counted_tokens = choice->n_output_tokens;
    }
}

/* Shows what the source's choices have; false once the client takes nothing any more. */
static bool show(ln_source *source) {
    ln_generation *generation = source->generation;
    ln_strbuf *out = &generation->server->scratch;
    ln_strbuf_clear(out);
    for (size_t i = 0; i < generation->job->request.n; i++)
        if (source->choices[i].is_dirty)
            ln_render_chunk(&generation->render, &source->choices[i], out);
    return ln_response_write(generation->job->exchange, out->data, out->len);
}

/* Takes what has come to a source, and shows it; false when the generation is over, and gone. */
static bool look_at(ln_source *source, uint64_t now_ns) {
    ln_generation *generation = source->generation;
    linnet_event event;
    while (source->n_open > 0 && linnet_request_next(source->request, 0, &event, NULL) == LINNET_OK)
        take_event(source, &event);
    measure(source, now_ns);
    if (source->n_open == 0) {
        linnet_request_close(source->request);
        source->request = NULL;
    }
    if (generation->job->request.streams && !show(source))
        return true; /* on_gone follows */
    if (generation->n_open > 0)
        return true;
    finish(generation);
    return false;
}

/* ---- mail ------------------------------------------------------------------------------- */

/* After a look at the mailbox that took long, the next comes after as long a rest, so that tokens
 * of fast steps go out together and the loop has time for the rest. */
static void plan_rest(ln_server *server, uint64_t begin_ns) {
    enum { LONG_NS = 1000000, MAX_REST_NS = 4000000 };
    uint64_t end_ns = ln_clock_ns(), rest_ns = end_ns - begin_ns;
    rest_ns = rest_ns < LONG_NS ? 0 : rest_ns > MAX_REST_NS ? MAX_REST_NS : rest_ns;
    server->rest_until_ns = end_ns + rest_ns;
}

static void on_mail(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_server *server = argument;
    uint64_t now_ns = ln_clock_ns();
    if (now_ns < server->rest_until_ns) {
        struct timeval rest = {.tv_usec = (suseconds_t)((server->rest_until_ns - now_ns) / 1000)};
        event_del(server->mail_event);
        event_add(server->rest_timer, &rest);
        return;
    }
    server->progress_ns = now_ns;
    /* once for each request that is open, and the NULL behind them */
    linnet_request *request;
    for (size_t n = atomic_load(&server->n_open) + 1;
         n > 0 && (request = linnet_mailbox_next(server->mailbox)) != NULL; n--) {
        ln_source *source = linnet_request_get_user(request);
        if (source->generation != NULL)
            look_at(source, now_ns);
    }
    plan_rest(server, now_ns);
}

static void on_rest_over(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    ln_server *server = argument;
    event_add(server->mail_event, NULL);
}

ln_status ln_generations_start(ln_server *server, ln_error *err) {
    LN_TRY(linnet_mailbox_create(&server->mailbox, err));
    server->mail_event = event_new(server->base, linnet_mailbox_get_fd(server->mailbox),
                                   EV_READ | EV_PERSIST, on_mail, server);
    server->rest_timer = evtimer_new(server->base, on_rest_over, server);
    if (server->mail_event == NULL || server->rest_timer == NULL ||
        event_add(server->mail_event, NULL) != 0)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the server");
    return LINNET_OK;
}

void ln_generations_end(ln_server *server) {
    while (server->generations != NULL) {
        ln_generation *generation = server->generations;
        count_cancelled(generation);
        ln_api_fail(&generation->error, 503, NULL, "the server ends");
        finish(generation);
    }
}

void ln_generations_stop(ln_server *server) {
    while (server->generations != NULL)
        ln_generation_cancel(server->generations);
    if (server->mail_event != NULL)
        event_free(server->mail_event);
    if (server->rest_timer != NULL)
        event_free(server->rest_timer);
    linnet_mailbox_destroy(server->mailbox);
}

/* ---- begin ------------------------------------------------------------------------------ */

static void begin_source(ln_generation *generation, size_t index) {
    ln_source *source = &generation->job->sources[index];
    const ln_api_request *request = &generation->job->request;
    source->generation = generation;
    source->choices = &generation->choices[index * request->n];
    source->n_open = request->n;
    for (size_t i = 0; i < request->n; i++) {
        source->choices[i].index = (uint32_t)(index * request->n + i);
        source->choices[i].prompt = &request->prompts[index];
        if (request->kind == LN_API_CHAT)
            ln_answer_init(&source->choices[i].answer, request, &source->choices[i].text);
    }
}

static void link_generation(ln_generation *generation) {
    ln_server *server = generation->server;
    if (server->generations == NULL)
        ln_watch_begin(server);
    generation->next = server->generations;
    if (generation->next != NULL)
        generation->next->previous = generation;
    server->generations = generation;
}

static ln_generation *create(ln_job *job) {
    ln_generation *generation = calloc(1, sizeof *generation);
    if (generation == NULL)
        return NULL;
    const ln_api_request *request = &job->request;
    generation->server = job->server;
    generation->job = job;
    generation->n_choices = request->n_prompts * request->n;
    generation->choices = calloc(generation->n_choices, sizeof *generation->choices);
    if (generation->choices != NULL)
        return generation;
    free(generation);
    return NULL;
}

void ln_generation_begin(ln_job *job) {
    static const ln_api_error out_of_memory = {
        .status = 503, .type = "server_error", .message = "out of memory"};
    ln_exchange *exchange = job->exchange;
    ln_server *server = job->server;
    ln_generation *generation = create(job);
    if (generation == NULL) {
        exchange->generation = NULL;
        ln_reply_error(exchange, &out_of_memory);
        ln_job_free(job);
        return;
    }
    link_generation(generation);
    generation->n_open = generation->n_choices;
    generation->render = (ln_render){.request = &job->request,
                                     .tokenizer = server->tokenizer,
                                     .model = server->name,
                                     .created_s = (int64_t)time(NULL)};
    snprintf(generation->render.id, sizeof generation->render.id, "%s-%s",
             job->kind == LN_API_CHAT ? "chatcmpl" : "cmpl", exchange->serial);
    ln_render_init(&generation->render);
    exchange->generation = generation;
    for (size_t i = 0; i < job->n_sources; i++) {
        generation->usage.n_prompt_tokens += job->request.prompts[i].n_ids;
        begin_source(generation, i);
    }
    server->metrics.n_prompt_tokens += generation->usage.n_prompt_tokens;
    if (job->request.streams)
        ln_response_begin(exchange, 200, "text/event-stream");
    /* what came before the job was back */
    uint64_t now_ns = ln_clock_ns();
    for (size_t i = 0; i < job->n_sources && look_at(&job->sources[i], now_ns); i++)
        continue;
}
