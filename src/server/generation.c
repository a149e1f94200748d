/* A generation: the requests of one exchange from submit to the last token. Their descriptors wake
 * the event loop; what has come since is shown in one piece. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/render.h"
#include "server/state.h"

/* One request of the engine, which gives the outputs of one prompt. */
struct request_source {
    ln_generation *generation;
    linnet_request *request; /* NULL: over */
    struct event *event;
    ln_choice *choices; /* [n] of the generation's */
    size_t n_open;
    uint64_t wake_ns; /* when its events were last looked at */
};

struct ln_generation {
    ln_server *server;
    ln_job *job;
    ln_generation *next, *previous; /* of server->generations */
    ln_render render;
    ln_usage usage;
    struct request_source *sources; /* [n_sources] */
    size_t n_sources, n_open;
    ln_choice *choices; /* [n_choices] */
    size_t n_choices;
    ln_api_error error; /* of the first request that failed */
};

/* ---- ends ------------------------------------------------------------------------------- */

static void close_source(struct request_source *source) {
    if (source->event != NULL)
        event_free(source->event);
    source->event = NULL;
    if (source->request != NULL)
        linnet_request_close(source->request);
    source->request = NULL;
}

static void destroy(ln_generation *generation) {
    ln_server *server = generation->server;
    for (size_t i = 0; i < generation->n_sources; i++)
        close_source(&generation->sources[i]);
    for (size_t i = 0; i < generation->n_choices; i++) {
        ln_strbuf_free(&generation->choices[i].text);
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
    generation->job->n_handles = 0; /* they were the sources' */
    ln_job_free(generation->job);
    free(generation->sources);
    free(generation->choices);
    free(generation);
}

void ln_generation_cancel(ln_generation *generation) {
    ln_server *server = generation->server;
    for (size_t i = 0; i < generation->n_choices; i++)
        if (generation->choices[i].finish == LINNET_FINISH_NONE)
            server->metrics.n_finished[LINNET_FINISH_CANCELLED]++;
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
    exchange->n_prompt_tokens = generation->usage.n_prompt_tokens;
    exchange->n_output_tokens = generation->usage.n_output_tokens;
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
        ln_http_write(exchange, out->data, out->len);
        ln_http_end(exchange);
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
    for (size_t i = 0; i < prompt->n_ids; i++) {
        const linnet_logprob *top = n_top > 0 ? event->prompt_top_logprobs + i * n_top : NULL;
        ln_render_logprob(&generation->render, choice, prompt->ids[i], i > 0,
                          event->prompt_logprobs[i], top, n_top);
    }
}

static void take_token(ln_generation *generation, ln_choice *choice, const linnet_event *event) {
    const ln_api_request *request = &generation->job->request;
    if (request->drops_output)
        return;
    ln_strbuf_append(&choice->text, event->text, event->text_bytes);
    if (event->token >= 0 && request->options.logprobs)
        ln_render_logprob(&generation->render, choice, event->token, true, event->logprob,
                          event->top_logprobs, (size_t)request->options.top_logprobs);
}

static void take_end(ln_generation *generation, ln_choice *choice, const linnet_event *event) {
    ln_server *server = generation->server;
    bool is_dropped = generation->job->request.drops_output;
    choice->finish = event->finish;
    if (is_dropped && event->finish == LINNET_FINISH_STOP)
        choice->finish = LINNET_FINISH_LENGTH;
    server->metrics.n_finished[event->finish]++;
    const char *error = event->error != NULL ? event->error : "the engine failed";
    if (event->finish == LINNET_FINISH_ERROR &&
        !ln_api_fail_grammar(&generation->error, 400, error, &generation->job->request))
        ln_api_fail(&generation->error, 500, NULL, "%s", error);
    if (!is_dropped)
        generation->usage.n_output_tokens += event->n_output_tokens;
    generation->n_open--;
}

static void take_event(struct request_source *source, const linnet_event *event) {
    ln_generation *generation = source->generation;
    ln_choice *choice = &source->choices[event->index];
    if (generation->job->request.echoes && !choice->has_prompt &&
        event->finish != LINNET_FINISH_ERROR)
        take_echo(generation, choice, event);
    take_token(generation, choice, event);
    choice->n_output_tokens = event->n_output_tokens;
    choice->is_dirty = true;
    if (event->finish != LINNET_FINISH_NONE) {
        take_end(generation, choice, event);
        source->n_open--;
    }
}

/* Times of the tokens that came together. */
static void measure(struct request_source *source) {
    ln_generation *generation = source->generation;
    ln_metrics *metrics = &generation->server->metrics;
    uint64_t now_ns = ln_clock_ns();
    generation->server->progress_ns = now_ns;
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
static bool show(struct request_source *source) {
    ln_generation *generation = source->generation;
    ln_strbuf *out = &generation->server->scratch;
    ln_strbuf_clear(out);
    for (size_t i = 0; i < generation->job->request.n; i++)
        if (source->choices[i].is_dirty)
            ln_render_chunk(&generation->render, &source->choices[i], out);
    return ln_http_write(generation->job->exchange, out->data, out->len);
}

static void on_events(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    /* Others have their turn after so many. A source that is slow to give events has given one: to
     * look for another would cost as much again, and the loop comes back when there is one. */
    enum { MAX_EVENTS = 256, SLOW_NS = 5000000 };
    struct request_source *source = argument;
    ln_generation *generation = source->generation;
    linnet_event event;
    uint64_t now_ns = ln_clock_ns();
    int n_most = now_ns - source->wake_ns > SLOW_NS ? 1 : MAX_EVENTS;
    source->wake_ns = now_ns;
    for (int i = 0; i < n_most && source->n_open > 0; i++) {
        if (linnet_request_next(source->request, 0, &event, NULL) != LINNET_OK)
            break;
        take_event(source, &event);
    }
    measure(source);
    if (source->n_open == 0)
        close_source(source);
    if (generation->job->request.streams && !show(source))
        return; /* on_gone follows */
    if (generation->n_open == 0)
        finish(generation);
}

/* ---- begin ------------------------------------------------------------------------------ */

static bool begin_source(ln_generation *generation, size_t index) {
    struct request_source *source = &generation->sources[index];
    const ln_api_request *request = &generation->job->request;
    linnet_request *handle = generation->job->handles[index];
    *source = (struct request_source){.generation = generation,
                                      .request = handle,
                                      .choices = &generation->choices[index * request->n],
                                      .n_open = request->n};
    for (size_t i = 0; i < request->n; i++) {
        source->choices[i].index = (uint32_t)(index * request->n + i);
        source->choices[i].prompt = &request->prompts[index];
    }
    source->event = event_new(generation->server->base, linnet_request_get_fd(handle),
                              EV_READ | EV_PERSIST, on_events, source);
    return source->event != NULL && event_add(source->event, NULL) == 0;
}

static void link_generation(ln_generation *generation) {
    ln_server *server = generation->server;
    if (server->generations == NULL)
        server->progress_ns = ln_clock_ns();
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
    generation->sources = calloc(job->n_handles, sizeof *generation->sources);
    if (generation->choices != NULL && generation->sources != NULL)
        return generation;
    free(generation->choices);
    free(generation->sources);
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
    bool begun = true;
    for (size_t i = 0; i < job->n_handles; i++) {
        generation->usage.n_prompt_tokens += job->request.prompts[i].n_ids;
        generation->n_sources++;
        begun = begin_source(generation, i) && begun;
    }
    server->metrics.n_prompt_tokens += generation->usage.n_prompt_tokens;
    if (!begun) {
        exchange->generation = NULL;
        ln_reply_error(exchange, &out_of_memory);
        ln_generation_cancel(generation);
        return;
    }
    if (job->request.streams)
        ln_http_begin(exchange, 200, "text/event-stream");
}
