#include "cli/generate.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"

static bool write_event(const linnet_event *event, bool print_ids, bool is_first) {
    if (!print_ids)
        return event->text_bytes == 0 || ln_cli_write(event->text, event->text_bytes);
    if (event->token < 0)
        return true;
    char id[16];
    int length = snprintf(id, sizeof id, is_first ? "%d" : " %d", (int)event->token);
    return ln_cli_write(id, (size_t)length);
}

/* How much of a prompt has been read, while that takes long. */
typedef struct prompt_bar {
    linnet_engine *engine;
    size_t n_prompt_tokens; /* 0: nothing is shown */
    uint64_t begin_ns, n_before;
    bool is_drawn;
} prompt_bar;

static uint64_t count_computed(linnet_engine *engine) {
    linnet_engine_stats stats = {.struct_bytes = sizeof stats};
    linnet_engine_get_stats(engine, &stats);
    return stats.n_computed_tokens;
}

static void draw_prompt(prompt_bar *bar) {
    enum { WIDTH = 40, PATIENCE_NS = 1000000000 };
    static const char full[] = "########################################";
    uint64_t elapsed_ns = ln_clock_ns() - bar->begin_ns;
    if (bar->n_prompt_tokens == 0 || elapsed_ns < PATIENCE_NS)
        return;
    double part =
        (double)(count_computed(bar->engine) - bar->n_before) / (double)bar->n_prompt_tokens;
    part = part < 1 ? part : 1;
    fprintf(stderr, "\rreading the prompt [%-*.*s] %3d%%", WIDTH, (int)(part * WIDTH), full,
            (int)(part * 100));
    if (part > 0) {
        double s = (double)elapsed_ns * 1e-9 * (1 - part) / part;
        fprintf(stderr, "  %d:%02d left\033[K", (int)s / 60, (int)s % 60);
    }
    bar->is_drawn = true;
}

static void end_prompt(prompt_bar *bar) {
    if (bar->is_drawn)
        fputs("\r\033[K", stderr);
    *bar = (prompt_bar){0};
}

/* Takes events until the final one. */
static int receive(linnet_request *request, bool print_ids, const ln_cli_sink *sink,
                   prompt_bar *bar, ln_cli_generation *generation) {
    bool is_cancelled = false, is_first = true;
    for (;;) {
        linnet_event event;
        linnet_error err = {0};
        linnet_status status = linnet_request_next(request, LN_INTERRUPT_POLL_MS, &event, &err);
        generation->interrupted = ln_interrupt_seen();
        if (!is_cancelled && (generation->interrupted || generation->stdout_closed)) {
            linnet_request_cancel(request);
            is_cancelled = true;
        }
        if (status == LINNET_ERR_TIMEOUT) {
            draw_prompt(bar);
            continue;
        }
        end_prompt(bar);
        if (status != LINNET_OK) {
            ln_cli_fail_with(&err);
            return LN_EXIT_FAILURE;
        }
        if (!generation->stdout_closed &&
            !(sink ? sink->take(sink->user, &event) : write_event(&event, print_ids, is_first)))
            generation->stdout_closed = true;
        is_first = false;
        if (event.finish == LINNET_FINISH_NONE)
            continue;
        generation->finish = event.finish;
        generation->n_prompt_tokens = event.n_prompt_tokens;
        generation->n_output_tokens = event.n_output_tokens;
        generation->prompt_ns = event.first_token_ns;
        generation->output_ns = event.last_token_ns - event.first_token_ns;
        if (event.finish == LINNET_FINISH_ERROR)
            return ln_cli_fail("%s", event.error ? event.error : "the engine failed");
        return generation->interrupted ? LN_EXIT_INTERRUPTED : 0;
    }
}

int ln_cli_generate(linnet_engine *engine, const linnet_request_options *options, bool print_ids,
                    bool quiet, const ln_cli_sink *sink, ln_cli_generation *generation) {
    *generation = (ln_cli_generation){0};
    linnet_request *request = NULL;
    linnet_error err = {0};
    bool shows = !quiet && ln_cli_is_terminal(STDERR_FILENO);
    prompt_bar bar = {.engine = engine,
                      .n_prompt_tokens = shows ? options->n_prompt_ids : 0,
                      .begin_ns = ln_clock_ns(),
                      .n_before = count_computed(engine)};
    if (linnet_request_submit(engine, options, &request, &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    int status = receive(request, print_ids, sink, &bar, generation);
    linnet_request_close(request);
    if (print_ids && !generation->stdout_closed)
        ln_cli_write("\n", 1);
    return status;
}
