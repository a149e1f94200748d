#include "server/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "server/json/out.h"

typedef struct log_time {
    char text[40];
} log_time;

static log_time time_text(void) {
    struct timespec now;
    struct tm fields;
    log_time text;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &fields);
    size_t n = strftime(text.text, sizeof text.text, "%Y-%m-%dT%H:%M:%S", &fields);
    snprintf(text.text + n, sizeof text.text - n, ".%03ldZ", now.tv_nsec / 1000000);
    return text;
}

/* Frees the line; whether it was taken. */
static bool emit(const ln_log *log, ln_strbuf *line) {
    ln_strbuf_putc(line, '\n');
    bool is_taken = !line->failed && log->write(log->user, line->data, line->len);
    ln_strbuf_free(line);
    return is_taken;
}

static void put_message(const ln_log *log, ln_strbuf *line, const char *message) {
    if (log->as_json) {
        ln_strbuf_printf(line, "{\"time\":\"%s\",\"message\":", time_text().text);
        ln_json_put_text(line, message);
        ln_strbuf_putc(line, '}');
    } else {
        ln_strbuf_printf(line, "%s %s", time_text().text, message);
    }
}

/* A reader of the log learns what it does not see. */
static void tell_of_dropped(ln_log *log) {
    uint64_t n_new = log->n_dropped - log->n_told;
    if (n_new == 0)
        return;
    char message[80];
    ln_strbuf line = {0};
    snprintf(message, sizeof message, "%llu lines of the log were dropped here",
             (unsigned long long)n_new);
    put_message(log, &line, message);
    if (emit(log, &line))
        log->n_told = log->n_dropped;
}

void ln_log_message(ln_log *log, const char *format, ...) {
    if (log->write == NULL)
        return;
    char message[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    ln_strbuf line = {0};
    tell_of_dropped(log);
    put_message(log, &line, message);
    log->n_dropped += !emit(log, &line);
}

static void put_json(ln_strbuf *line, const ln_exchange *exchange, double ms) {
    ln_strbuf_printf(line, "{\"time\":\"%s\",\"request_id\":", time_text().text);
    ln_json_put_text(line, exchange->id);
    ln_strbuf_puts(line, ",\"peer\":");
    ln_json_put_text(line, exchange->peer);
    ln_strbuf_puts(line, ",\"method\":");
    ln_json_put_text(line, exchange->verb);
    ln_strbuf_puts(line, ",\"path\":");
    ln_json_put_text(line, exchange->path);
    if (exchange->key_name != NULL && *exchange->key_name != '\0') {
        ln_strbuf_puts(line, ",\"key\":");
        ln_json_put_text(line, exchange->key_name);
    }
    ln_strbuf_printf(line,
                     ",\"status\":%d,\"bytes\":%zu,\"ms\":%.3f,\"prompt_tokens\":%zu,"
                     "\"output_tokens\":%zu,\"cut\":%s}",
                     exchange->status, exchange->sent_bytes, ms, exchange->n_prompt_tokens,
                     exchange->n_output_tokens, exchange->was_cut ? "true" : "false");
}

void ln_log_exchange(ln_log *log, const ln_exchange *exchange) {
    if (log->write == NULL)
        return;
    double ms = (double)(ln_clock_ns() - exchange->begin_ns) / 1e6;
    ln_strbuf line = {0};
    tell_of_dropped(log);
    if (log->as_json) {
        put_json(&line, exchange, ms);
    } else {
        ln_strbuf_printf(&line, "%s %s %s \"%s %.512s\" %d %zu bytes %.1f ms", time_text().text,
                         exchange->id, exchange->peer,
                         exchange->verb != NULL ? exchange->verb : "-",
                         exchange->path != NULL ? exchange->path : "-", exchange->status,
                         exchange->sent_bytes, ms);
        if (exchange->key_name != NULL && *exchange->key_name != '\0')
            ln_strbuf_printf(&line, " key %s", exchange->key_name);
        if (exchange->n_prompt_tokens > 0)
            ln_strbuf_printf(&line, " %zu tokens in, %zu out", exchange->n_prompt_tokens,
                             exchange->n_output_tokens);
        if (exchange->was_cut)
            ln_strbuf_puts(&line, ", cut: the client went or did not read");
    }
    log->n_dropped += !emit(log, &line);
}
