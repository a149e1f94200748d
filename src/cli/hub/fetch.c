#include "cli/hub/fetch.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "hub/pull.h"

enum { WIDTH = 24, DRAW_NS = 100000000, RATE_NS = 500000000 };

typedef struct fetch_bar {
    bool is_shown, has_drawn;
    uint64_t begin_ns, drawn_ns;
    /* bytes per second, smoothed over some seconds */
    uint64_t rate_ns, rate_bytes;
    double rate;
    ln_hub_progress last;
} fetch_bar;

static void update_rate(fetch_bar *bar, const ln_hub_progress *progress, uint64_t now) {
    uint64_t bytes = progress->new_bytes;
    if (bar->rate_ns == 0) {
        bar->rate_ns = now;
        bar->rate_bytes = bytes;
    }
    if (now - bar->rate_ns < RATE_NS)
        return;
    double rate = (double)(bytes - bar->rate_bytes) * 1e9 / (double)(now - bar->rate_ns);
    bar->rate = bar->rate > 0 ? 0.7 * bar->rate + 0.3 * rate : rate;
    bar->rate_ns = now;
    bar->rate_bytes = bytes;
}

static void draw(fetch_bar *bar, const ln_hub_progress *progress) {
    static const char full[] = "########################";
    double part = progress->total_bytes > 0
                      ? (double)progress->ready_bytes / (double)progress->total_bytes
                      : 1;
    part = part < 1 ? part : 1;
    fprintf(stderr, "\r%-9s [%-*.*s] %3d%%  %s of %s",
            progress->is_checking ? "checking" : "pulling", WIDTH, (int)(part * WIDTH), full,
            (int)(part * 100), ln_cli_size_text(progress->ready_bytes).text,
            ln_cli_size_text(progress->total_bytes).text);
    if (!progress->is_checking && bar->rate >= 1) {
        double left = (double)(progress->total_bytes - progress->ready_bytes) / bar->rate;
        unsigned long seconds = left < 359999 ? (unsigned long)left : 359999;
        fprintf(stderr, "  %s/s  %lu:%02lu:%02lu left", ln_cli_size_text((size_t)bar->rate).text,
                seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    fputs("\033[K", stderr);
    bar->has_drawn = true;
}

static bool on_progress(void *user, const ln_hub_progress *progress) {
    fetch_bar *bar = user;
    uint64_t now = ln_clock_ns();
    if (progress->n_files == 0) /* the hub was asked, but has not answered */
        return !ln_interrupt_seen();
    bar->last = *progress;
    update_rate(bar, progress, now);
    if (bar->is_shown && now - bar->drawn_ns >= DRAW_NS) {
        bar->drawn_ns = now;
        draw(bar, progress);
    }
    return !ln_interrupt_seen();
}

static void tell_end(const fetch_bar *bar, const ln_hub_name *name) {
    double seconds = (double)(ln_clock_ns() - bar->begin_ns) / 1e9;
    uint64_t bytes = bar->last.new_bytes;
    fprintf(stderr, "pulled    %s%s%s", name->repo, *name->quant ? ":" : "", name->quant);
    if (bytes == 0)
        fputs(": the cache has all of it\n", stderr);
    else
        fprintf(stderr, ": %s in %.1f s (%s/s)\n", ln_cli_size_text(bytes).text, seconds,
                ln_cli_size_text((size_t)((double)bytes / (seconds > 0 ? seconds : 1))).text);
}

linnet_status ln_cli_hub_fetch(const ln_hub_settings *settings, const ln_hub_name *name, bool quiet,
                               char **path, linnet_error *err) {
    fetch_bar bar = {.begin_ns = ln_clock_ns(),
                     .is_shown = !quiet && ln_cli_is_terminal(STDERR_FILENO)};
    ln_hub_settings own = *settings;
    own.on_progress = on_progress;
    own.user = &bar;
    ln_interrupt_hold();
    linnet_status status = ln_hub_pull(&own, name, path, err);
    ln_interrupt_forget();
    ln_interrupt_release();
    if (bar.has_drawn)
        fputs("\r\033[K", stderr);
    if (status == LINNET_OK && !quiet && !own.is_offline)
        tell_end(&bar, name);
    if (status == LINNET_ERR_CANCELLED)
        return ln_fail(err, status,
                       "interrupted; what was received is kept, and the same command goes on");
    return status;
}
