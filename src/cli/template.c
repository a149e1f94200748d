/* linnet template: renders a chat template over a context. */
#include <argp.h>
#include <jansson.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json/load.h"
#include "cli/commands.h"
#include "cli/hub/resolve.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "format/checkpoint.h"
#include "text/chat/special_tokens.h"
#include "text/jinja/template.h"

enum { KEY_CONTEXT = LN_KEYS_COMMAND, KEY_NOW };

typedef struct template_args {
    const char *source; /* a template's file, or a model */
    const char *context;
    struct tm now;
} template_args;

static const struct argp_option options[] = {
    {"context", KEY_CONTEXT, "FILE", 0, "A JSON object: the template's variables", 0},
    {"now", KEY_NOW, "TIME", 0, "What strftime_now formats, as 2026-11-20T09:30:05 (now)", 0},
    {0}};

static void parse_time(const struct argp_state *state, const char *text, struct tm *now) {
    static const char format[] = "%Y-%m-%dT%H:%M:%S";
    char again[32];
    *now = (struct tm){0};
    const char *end = strptime(text, format, now);
    /* a day that the month does not have, or a missing zero, comes back different */
    if (!end || *end != '\0' || timegm(now) == (time_t)-1 ||
        strftime(again, sizeof again, format, now) == 0 || strcmp(again, text) != 0)
        argp_error(state, "--now: '%s' is not a time such as 2026-11-20T09:30:05", text);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    template_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT: {
        time_t seconds = time(NULL);
        localtime_r(&seconds, &args->now);
        state->child_inputs[0] = &args->source;
        break;
    }
    case KEY_CONTEXT: args->context = arg; break;
    case KEY_NOW: parse_time(state, arg, &args->now); break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->source, arg); break;
    case ARGP_KEY_END:
        if (!args->source)
            argp_error(state, "FILE.jinja or MODEL is missing");
        if (!args->context)
            argp_error(state, "--context is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp template_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE.jinja\nMODEL",
    .doc = "Renders a chat template, from a file or from a checkpoint, over the variables of a "
           "JSON object, and prints the result with nothing added. The usual variables are "
           "messages and add_generation_prompt, and bos_token and eos_token, which a checkpoint "
           "gives where the object does not.",
    .children = ln_cli_model_children,
};

/* Special tokens of a checkpoint as variables; none where it has no tokenizer. */
static json_t *read_tokens(const ln_checkpoint *checkpoint) {
    json_t *tokens = json_object();
    ln_tokenizer *tokenizer = NULL;
    linnet_error ignored = {0};
    if (tokens && ln_tokenizer_open(checkpoint, &tokenizer, &ignored) == LINNET_OK)
        ln_chat_set_special_tokens(tokens, checkpoint, tokenizer);
    ln_tokenizer_close(tokenizer);
    return tokens;
}

/* The template's text: of a checkpoint (a folder or a .gguf file) with its special tokens, or the
 * file itself, whose *tokens are NULL. */
static int read_source(const char *path, char **source, size_t *n_bytes, json_t **tokens) {
    size_t length = strlen(path);
    bool is_gguf = length > 5 && strcmp(path + length - 5, ".gguf") == 0;
    *tokens = NULL;
    if (!is_gguf && !ln_file_is_folder(path))
        return ln_cli_read_text(path, source, n_bytes);

    ln_checkpoint *checkpoint = NULL;
    linnet_error err = {0};
    if (ln_checkpoint_open(path, true, &checkpoint, &err) != LINNET_OK)
        return ln_cli_fail("%s", err.message);
    const char *text = ln_checkpoint_chat_template(checkpoint);
    int status = 0;
    if (!text)
        status = ln_cli_fail("%s has no chat template", path);
    else if (!(*source = strdup(text)) || !(*tokens = read_tokens(checkpoint)))
        status = ln_cli_fail("out of memory");
    else
        *n_bytes = strlen(text);
    ln_checkpoint_close(checkpoint);
    return status;
}

static int read_context(const char *path, json_t **context) {
    char *text = NULL;
    size_t n_bytes = 0;
    int status = ln_cli_read_text(path, &text, &n_bytes);
    if (status != 0)
        return status;
    json_error_t where;
    *context = ln_json_load_bytes(text, n_bytes, JSON_ALLOW_NUL, &where);
    if (!*context)
        status = ln_cli_fail("%s: line %d: %s", path, where.line, where.text);
    else if (!json_is_object(*context))
        status = ln_cli_fail("%s is not a JSON object", path);
    free(text);
    return status;
}

static int render(const template_args *args, const char *source, size_t n_bytes, json_t *context) {
    ln_jinja_template *compiled = NULL;
    ln_jinja_output output = {0};
    linnet_error err = {0};
    int status = 0;
    if (ln_jinja_compile(source, n_bytes, args->source, &compiled, &err) != LINNET_OK ||
        ln_jinja_render(compiled, context, &args->now, &output, &err) != LINNET_OK)
        status = ln_cli_fail("%s", err.message);
    else
        fwrite(output.text.data, 1, output.text.len, stdout);
    ln_jinja_output_free(&output);
    ln_jinja_free(compiled);
    return status;
}

int ln_cli_template(int argc, char **argv) {
    template_args args = {0};
    if (ln_cli_parse(&template_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    char *source = NULL;
    size_t n_bytes = 0;
    json_t *context = NULL, *tokens = NULL;
    linnet_error err = {0};
    int status = ln_cli_resolve_model(&args.source, &err) == LINNET_OK ? 0 : ln_cli_fail_with(&err);
    if (status == 0)
        status = read_source(args.source, &source, &n_bytes, &tokens);
    if (status == 0)
        status = read_context(args.context, &context);
    if (status == 0 && tokens && json_object_update_missing(context, tokens) != 0)
        status = ln_cli_fail("out of memory");
    if (status == 0)
        status = render(&args, source, n_bytes, context);
    json_decref(context);
    json_decref(tokens);
    free(source);
    return status;
}
