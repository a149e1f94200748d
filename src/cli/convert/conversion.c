#include "cli/convert/conversion.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/hub/resolve.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"

enum { KEY_TYPE = LN_KEYS_COMMAND + 0x40, KEY_KEEP, KEY_THREADS, MAX_THREADS = 1024 };

static const struct argp_option options[] = {
    {"type", KEY_TYPE, "TYPE", 0, "Type of most matrices, such as Q4_K_M, Q8_0 or F16", 0},
    {"keep", KEY_KEEP, "REGEX=TYPE", 0,
     "Give matrices whose name REGEX matches this type instead; may be repeated, the first that "
     "matches counts",
     0},
    {"threads", KEY_THREADS, "N", 0, "Threads that compute (one per processor)", 0},
    {0}};

static void add_rule(struct argp_state *state, ln_cli_conversion *conversion, const char *text) {
    linnet_error err = {0};
    ln_keep_rule *rules =
        realloc(conversion->rules, (conversion->n_rules + 1) * sizeof *conversion->rules);
    if (!rules) {
        argp_failure(state, LN_EXIT_FAILURE, 0, "out of memory");
        return; /* not reached */
    }
    conversion->rules = rules;
    if (ln_keep_rule_init(&rules[conversion->n_rules], text, &err) != LINNET_OK)
        argp_error(state, "--keep: %s", err.message);
    conversion->n_rules++;
}

static size_t count_processors(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : (size_t)count;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    ln_cli_conversion *conversion = state->input;
    switch (key) {
    case ARGP_KEY_INIT: conversion->n_threads = count_processors(); return 0;
    case KEY_TYPE:
        ln_cli_refuse_twice(state, "--type", conversion->mix != NULL);
        conversion->mix = ln_mix_find(arg);
        if (!conversion->mix)
            argp_error(state, "--type: '%s' is none of %s", arg, ln_mix_names());
        return 0;
    case KEY_KEEP: add_rule(state, conversion, arg); return 0;
    case KEY_THREADS:
        conversion->n_threads = ln_cli_parse_count(state, "--threads", arg, 1, MAX_THREADS);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp ln_cli_conversion_argp = {.options = options, .parser = parse};
const struct argp_child ln_cli_conversion_children[] = {{&ln_cli_conversion_argp, 0, NULL, 1}, {0}};

void ln_cli_conversion_free(ln_cli_conversion *conversion) {
    for (size_t i = 0; i < conversion->n_rules; i++)
        ln_keep_rule_free(&conversion->rules[i]);
    free(conversion->rules);
    *conversion = (ln_cli_conversion){0};
}

void ln_cli_take_two(const struct argp_state *state, const char **from, const char **to,
                     const char *arg) {
    ln_cli_take_argument(state, *from ? to : from, arg);
}

/* ---- the bar ---------------------------------------------------------------------------- */

bool ln_cli_bar_show(void *user, uint64_t done, uint64_t total) {
    enum { WIDTH = 40, REDRAW_NS = 100000000 };
    ln_cli_bar *bar = user;
    uint64_t now = ln_clock_ns();
    if (ln_interrupt_seen())
        return false;
    if (!ln_cli_is_terminal(STDERR_FILENO) || (bar->drawn && now - bar->drawn_ns < REDRAW_NS))
        return true;
    double part = total > 0 ? (double)done / (double)total : 1;
    char line[WIDTH + 1];
    memset(line, ' ', WIDTH);
    line[WIDTH] = '\0';
    memset(line, '=', (size_t)(part * WIDTH));
    if (bar->unit)
        fprintf(stderr, "\r[%s] %3d%% of %llu %s", line, (int)(part * 100),
                (unsigned long long)total, bar->unit);
    else
        fprintf(stderr, "\r[%s] %3d%% of %s", line, (int)(part * 100),
                ln_cli_size_text((size_t)total).text);
    bar->drawn_ns = now;
    bar->drawn = true;
    return true;
}

void ln_cli_bar_end(ln_cli_bar *bar) {
    if (bar->drawn)
        fputs("\r\033[K", stderr);
    bar->drawn = false;
}

/* ---- the conversion --------------------------------------------------------------------- */

/* The new file must not be one of those that are read: what they say would be lost. */
static int check_target(const ln_checkpoint *checkpoint, const char *to) {
    struct stat target, source;
    if (stat(to, &target) != 0)
        return 0; /* a new one */
    if (S_ISDIR(target.st_mode)) {
        ln_cli_fail("%s is a folder; name the new file", to);
        return LN_EXIT_USAGE;
    }
    for (size_t i = 0; i < ln_checkpoint_file_count(checkpoint); i++) {
        int fd;
        size_t bytes;
        ln_checkpoint_file(checkpoint, i, &fd, &bytes);
        if (fstat(fd, &source) == 0 && source.st_dev == target.st_dev &&
            source.st_ino == target.st_ino) {
            ln_cli_fail("%s is the file that is read; give the new one another name", to);
            return LN_EXIT_USAGE;
        }
    }
    return 0;
}

/* Warns where matrices that are quantised already would be quantised again, and not kept, as most
 * of a mixture are that is MXFP4 already. Such weights may be what was published. */
static void warn_of_loss(const ln_checkpoint *checkpoint, const ln_cli_conversion *conversion) {
    const ln_mix *mix = conversion->mix;
    const ln_mix_choice choice = {
        mix, conversion->rules, conversion->n_rules, {{0}, 0, 0, 0, false}};
    size_t n_again = 0, n_same = 0;
    ln_dtype first = LN_DTYPE_F32;
    for (size_t i = 0; mix && i < ln_checkpoint_tensor_count(checkpoint); i++) {
        const ln_tensor *tensor = ln_checkpoint_tensor(checkpoint, i);
        if (tensor->n_dims < 2 || ln_dtype_block_elems(tensor->dtype) == 1)
            continue;
        ln_dtype to =
            ln_mix_choose(&choice, tensor->name, tensor->n_dims, tensor->dims, tensor->dtype);
        if (to == tensor->dtype || tensor->dtype == mix->base)
            n_same++;
        else if (ln_dtype_block_elems(to) > 1 && n_again++ == 0)
            first = tensor->dtype;
    }
    if (n_again > n_same)
        ln_cli_warn("the matrices are quantised already (%s): their error adds to that of %s%s",
                    ln_dtype_name(first), mix->name,
                    first == LN_DTYPE_MXFP4 ? "" : "; the original model would give a better file");
}

static void report_file(const char *path, const struct stat *replaced) {
    struct stat info;
    if (stat(path, &info) != 0)
        return;
    fprintf(stderr, "%s: %s", path, ln_cli_size_text((size_t)info.st_size).text);
    if (replaced->st_ino != 0)
        fprintf(stderr, " (in the place of an older file of %s)",
                ln_cli_size_text((size_t)replaced->st_size).text);
    fputc('\n', stderr);
}

int ln_cli_conversion_run(const ln_cli_conversion *conversion, const char *from, const char *to,
                          ln_cli_write_fn *write, void *user) {
    ln_checkpoint *checkpoint = NULL;
    linnet_error err = {0};
    ln_cli_bar bar = {0};
    struct stat replaced = {0};
    ln_interrupt_catch();
    ln_quantize_options how = {.mix = conversion->mix,
                               .rules = conversion->rules,
                               .n_rules = conversion->n_rules,
                               .n_threads = conversion->n_threads,
                               .progress = ln_cli_bar_show,
                               .user = &bar};
    if (ln_cli_resolve_model(&from, &err) != LINNET_OK ||
        ln_checkpoint_open(from, false, &checkpoint, &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    int status = check_target(checkpoint, to);
    if (status == 0) {
        warn_of_loss(checkpoint, conversion);
        if (stat(to, &replaced) != 0)
            replaced = (struct stat){0};
        linnet_status written = write(user, checkpoint, &how, &err);
        ln_cli_bar_end(&bar);
        if (written == LINNET_OK)
            report_file(to, &replaced);
        else
            status = written == LINNET_ERR_CANCELLED ? LN_EXIT_INTERRUPTED : ln_cli_fail_with(&err);
    }
    ln_checkpoint_close(checkpoint);
    return status;
}
