#include "cli/output.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json/load.h"
#include "cli/commands.h"

int ln_cli_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("linnet: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return LN_EXIT_FAILURE;
}

void ln_cli_warn(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("linnet: warning: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* What the library calls fields of its structs, and a user options. */
static const char *const fields[][2] = {
    {"ctx_tokens", "--ctx"},
    {"max_seqs", "--max-seqs"},
    {"max_batch_tokens", "--max-batch-tokens"},
    {"kv_tokens", "--kv-tokens"},
    {"kv_type", "--kv-type"},
    {"swap_bytes", "--swap-bytes"},
    {"gpu_layers", "--gpu-layers"},
    {"cpu_experts", "--cpu-experts"},
    {"experts_from_disk", "--experts-from-disk"},
    {"quantize_on_load", "--quantize-on-load"},
    {"batch_invariant", "--batch-invariant"},
    {"draft_tokens", "--draft-tokens"},
    {"draft_model", "--draft-model"},
    {"max_tokens", "--max-tokens"},
    {"prompt_ids", "--ids"},
    {"encoder_ids", "--encoder-ids"},
};

static bool is_of_name(char c) {
    return strchr("_-./", c) ? c != '\0' : isalnum((unsigned char)c) != 0;
}

/* The option for the field that begins at `at`, and the field's length; NULL: none does. */
static const char *find_option(const char *message, const char *at, size_t *length) {
    if (at > message && is_of_name(at[-1]))
        return NULL;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        *length = strlen(fields[i][0]);
        if (strncmp(at, fields[i][0], *length) == 0 && !is_of_name(at[*length]))
            return fields[i][1];
    }
    return NULL;
}

/* Prints the message of a library that knows no options. */
static void print_message(const char *message) {
    fflush(stdout);
    fputs("linnet: ", stderr);
    for (const char *at = message; *at;) {
        size_t length = 1;
        const char *option = find_option(message, at, &length);
        if (option)
            fputs(option, stderr);
        else
            fputc(*at, stderr);
        at += option ? length : 1;
    }
    fputc('\n', stderr);
}

int ln_cli_fail_with(const linnet_error *err) {
    print_message(err->message);
    return err->status == LINNET_ERR_ARGUMENT    ? LN_EXIT_USAGE
           : err->status == LINNET_ERR_CANCELLED ? LN_EXIT_INTERRUPTED
                                                 : LN_EXIT_FAILURE;
}

static int stdout_error; /* errno of a write that failed, for the message at the end */

bool ln_cli_write(const char *bytes, size_t n_bytes) {
    if (fwrite(bytes, 1, n_bytes, stdout) == n_bytes && fflush(stdout) == 0)
        return true;
    stdout_error = errno;
    return false;
}

/* Whether stdout is a pipe or socket that nobody reads any more. */
static bool is_reader_gone(void) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

int ln_cli_finish_stdout(int status) {
    if (fflush(stdout) != 0)
        stdout_error = errno;
    if (!ferror(stdout) || is_reader_gone())
        return status;
    ln_cli_fail("cannot write to standard output: %s",
                stdout_error ? strerror(stdout_error) : "a write failed");
    return status ? status : LN_EXIT_FAILURE;
}

bool ln_cli_is_terminal(int fd) {
    const char *term = getenv("TERM");
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

ln_cli_size ln_cli_size_text(size_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    ln_cli_size size;
    if (bytes < 1024) {
        snprintf(size.text, sizeof size.text, "%zu bytes", bytes);
        return size;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(size.text, sizeof size.text, "%.*f %s", value < 100 ? 1 : 0, value, units[unit]);
    return size;
}

int ln_cli_print_json(FILE *stream, json_t *value, bool indent) {
    size_t flags = indent ? JSON_INDENT(2) : JSON_COMPACT;
    bool printed = value && !ln_json_memory_failed() &&
                   json_dumpf(value, stream, flags | JSON_ENCODE_ANY) == 0;
    json_decref(value);
    if (!printed && !ferror(stream))
        return ln_cli_fail("out of memory");
    fputc('\n', stream);
    return 0;
}

void ln_cli_print_settings(const char *path, const linnet_model_info *info,
                           const linnet_memory_plan *plan) {
    fprintf(stderr, "model     %s: %s, %s, vocabulary of %d\n", path, info->architecture,
            ln_cli_count_text((size_t)info->n_layers, "layer").text, (int)info->n_vocab);
    fprintf(stderr, "engine    context of %s, ", ln_cli_count_text(plan->ctx_tokens, "token").text);
    if (plan->max_seqs > 1)
        fprintf(stderr, "%s and %s in a step, ", ln_cli_count_text(plan->max_seqs, "sequence").text,
                ln_cli_count_text(plan->max_batch_tokens, "token").text);
    if (plan->kv_tokens < plan->ctx_tokens * plan->max_seqs)
        fprintf(stderr, "a KV cache of %s, ", ln_cli_count_text(plan->kv_tokens, "token").text);
    fprintf(stderr, "%s, %s reserved", ln_cli_count_text(plan->n_threads, "thread").text,
            ln_cli_size_text(plan->total_bytes).text);
    if (plan->mapped_bytes > 0)
        fprintf(stderr, ", %s mapped", ln_cli_size_text(plan->mapped_bytes).text);
    if (plan->gpu_layers > 0)
        fprintf(stderr, ", %s and %s on the GPU", ln_cli_count_text(plan->gpu_layers, "layer").text,
                ln_cli_size_text(plan->device_bytes).text);
    else
        fputs(", on the CPU", stderr);
    if (plan->cpu_experts > 0)
        fprintf(stderr, ", experts of %s on the CPU",
                ln_cli_count_text(plan->cpu_experts, "layer").text);
    if (plan->disk_experts > 0)
        fprintf(stderr, ", %zu of %s in memory", plan->cached_experts,
                ln_cli_count_text(plan->disk_experts, "expert").text);
    fputc('\n', stderr);
    if (plan->draft_tokens > 0)
        fprintf(stderr, "drafts    %s\n", ln_cli_drafts_text(plan).text);
}

ln_cli_drafts ln_cli_drafts_text(const linnet_memory_plan *plan) {
    ln_cli_drafts drafts;
    snprintf(drafts.text, sizeof drafts.text, "%s: up to %s in steps of up to %s", plan->draft,
             ln_cli_count_text(plan->draft_tokens, "token").text,
             ln_cli_count_text(plan->draft_seqs, "sequence").text);
    if (plan->draft_tokens == 0)
        snprintf(drafts.text, sizeof drafts.text, "none");
    return drafts;
}

int ln_cli_print_memory(FILE *stream, const linnet_memory_plan *plan) {
    json_t *arenas = json_object();
    int failed = arenas == NULL;
    for (size_t i = 0; i < plan->n_arenas && i < LINNET_MAX_ARENAS; i++)
        failed |= json_object_set_new(arenas, plan->arenas[i].name,
                                      json_integer((json_int_t)plan->arenas[i].bytes));
    json_t *value = NULL;
    if (!failed)
        value = json_pack(
            "{s:I, s:I, s:I, s:I, s:O, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, "
            "s:I}",
            "ctx_tokens", (json_int_t)plan->ctx_tokens, "max_seqs", (json_int_t)plan->max_seqs,
            "max_batch_tokens", (json_int_t)plan->max_batch_tokens, "n_threads",
            (json_int_t)plan->n_threads, "arenas", arenas, "total_bytes",
            (json_int_t)plan->total_bytes, "mapped_bytes", (json_int_t)plan->mapped_bytes,
            "libraries_bytes", (json_int_t)plan->libraries_bytes, "device_bytes",
            (json_int_t)plan->device_bytes, "gpu_layers", (json_int_t)plan->gpu_layers, "draft",
            plan->draft, "draft_tokens", (json_int_t)plan->draft_tokens, "draft_seqs",
            (json_int_t)plan->draft_seqs, "cpu_experts", (json_int_t)plan->cpu_experts,
            "disk_experts", (json_int_t)plan->disk_experts, "cached_experts",
            (json_int_t)plan->cached_experts, "disk_token_bytes",
            (json_int_t)plan->disk_token_bytes, "kv_tokens", (json_int_t)plan->kv_tokens);
    json_decref(arenas);
    return ln_cli_print_json(stream, value, false);
}

ln_cli_count ln_cli_count_text(size_t count, const char *noun) {
    ln_cli_count text;
    snprintf(text.text, sizeof text.text, "%zu %s%s", count, noun, count == 1 ? "" : "s");
    return text;
}
