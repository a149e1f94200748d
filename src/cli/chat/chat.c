/* linnet chat: a conversation with a model on a terminal, or over a pipe. */
#include "cli/chat/chat.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat/answer.h"
#include "cli/chat/chat_commands.h"
#include "cli/chat/line_reader.h"
#include "cli/commands.h"
#include "cli/hub/resolve.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/options.h"
#include "cli/output.h"

enum { KEY_SYSTEM = LN_KEYS_COMMAND, KEY_CHAT_TEMPLATE };

typedef struct chat_args {
    const char *model; /* NULL: the demo model */
    ln_cli_adapters adapters;
    ln_chat_options options;
} chat_args;

static const struct argp_option options[] = {
    {"system", KEY_SYSTEM, "TEXT", 0, "A system message before the conversation", 1},
    {"chat-template", KEY_CHAT_TEMPLATE, "FILE", 0,
     "Jinja that takes the place of the model's chat template", 1},
    {"max-tokens", 'n', "N", 0, "At most N tokens in an answer", 1},
    {"quiet", 'q', NULL, 0, "Print nothing but the answers, and errors", 1},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    chat_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->options.sampling;
        state->child_inputs[1] = &args->options.engine;
        state->child_inputs[2] = &args->adapters;
        state->child_inputs[3] = &args->model;
        return 0;
    case KEY_SYSTEM: args->options.system = arg; return 0;
    case KEY_CHAT_TEMPLATE: args->options.chat_template = arg; return 0;
    case 'n':
        args->options.max_tokens = ln_cli_parse_count(state, "-n", arg, 1, INT32_MAX);
        return 0;
    case 'q': args->options.quiet = true; return 0;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->model, arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&ln_cli_sampling_argp, 0, "Sampling:", 2},
                                             {&ln_cli_engine_argp, 0, LN_CLI_ENGINE_HEADER, 3},
                                             {&ln_cli_adapters_argp, 0, NULL, 1},
                                             {&ln_cli_model_argp, 0, NULL, 1},
                                             {0}};

static const struct argp chat_argp = {
    .options = options,
    .children = children,
    .parser = parse,
    .args_doc = "[MODEL]",
    .doc = "Talks with a model: each line is a message, and the answer streams to standard "
           "output. MODEL is a GGUF file or a Hugging Face folder with a chat template; without it "
           "the demo model answers.\vA line that ends in a backslash goes on in the next one, and "
           "lines between two \"\"\" are one message. Ctrl-C stops an answer, Ctrl-D ends the "
           "program, and /help lists the commands. From a pipe, each line of standard input is a "
           "message.",
};

/* ---- what is typed ---------------------------------------------------------------------- */

typedef struct chat_prompts {
    const char *first, *next; /* before a message's first line, and its others */
} chat_prompts;

static bool ends_with(const ln_strbuf *text, const char *end) {
    size_t n = strlen(end);
    return text->len >= n && memcmp(text->data + text->len - n, end, n) == 0;
}

/* Reads the rest of a message whose first line is in `text`. */
static ln_line_result read_more(ln_line_reader *reader, const char *prompt, ln_strbuf *text) {
    static const char fence[] = "\"\"\"";
    size_t n = strlen(fence);
    bool fenced = text->len >= n && memcmp(text->data, fence, n) == 0;
    ln_line_result result = LN_LINE_OK;
    while (result == LN_LINE_OK && !text->failed) {
        bool closed = fenced && text->len >= 2 * n && ends_with(text, fence);
        if (fenced ? closed : !ends_with(text, "\\"))
            break;
        if (!fenced)
            text->data[--text->len] = '\0';
        ln_strbuf_putc(text, '\n');
        result = ln_line_reader_read(reader, prompt, text);
    }
    if (fenced && result == LN_LINE_OK && !text->failed) {
        text->len -= 2 * n;
        memmove(text->data, text->data + n, text->len);
        text->data[text->len] = '\0';
    }
    return result == LN_LINE_END ? LN_LINE_OK : result; /* what was typed before the end counts */
}

static ln_line_result read_message(ln_line_reader *reader, const chat_prompts *prompts,
                                   ln_strbuf *text) {
    ln_strbuf_clear(text);
    ln_line_result result = ln_line_reader_read(reader, prompts->first, text);
    return result == LN_LINE_OK ? read_more(reader, prompts->next, text) : result;
}

static bool is_blank(const ln_strbuf *text) {
    return text->len == 0 || strspn(text->data, " \t\n\r") == text->len;
}

/* Takes one message or command; false when the chat ends. */
static bool take(ln_chat *chat, ln_line_reader *reader, const ln_strbuf *text) {
    if (text->failed) {
        ln_cli_fail("out of memory");
        return false;
    }
    if (is_blank(text))
        return true;
    ln_line_reader_remember(reader, text->data);
    if (text->data[0] == '/') {
        ln_chat_command(chat, text->data);
        return !chat->quits;
    }
    if (!ln_conversation_add(&chat->conversation, "user", text->data, text->len)) {
        ln_cli_fail("the message is not valid UTF-8");
        chat->failed = true;
        return true;
    }
    return ln_chat_answer(chat);
}

static int talk(ln_chat *chat) {
    bool editing = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    chat->editing = editing;
    chat->has_colour = ln_cli_is_terminal(STDOUT_FILENO) && !getenv("NO_COLOR");
    const chat_prompts prompts = {
        editing && chat->has_colour ? "\1\033[1;36m\1>\1\033[0m\1 " : "> ", ". "};
    ln_line_reader *reader = ln_line_reader_create(editing);
    if (!reader)
        return ln_cli_fail("cannot read from the terminal");
    if (editing)
        ln_interrupt_hold(); /* while a line is typed, Ctrl-C is a key */
    ln_strbuf text;
    ln_strbuf_init(&text);
    ln_line_result result;
    do
        result = read_message(reader, &prompts, &text);
    while (result != LN_LINE_END && (result == LN_LINE_DISCARDED || take(chat, reader, &text)));
    if (editing && result == LN_LINE_END)
        fputc('\n', stderr);
    ln_strbuf_free(&text);
    ln_line_reader_destroy(reader);
    return chat->failed && !editing ? LN_EXIT_FAILURE : 0; /* a person saw what failed */
}

/* ---- the command ------------------------------------------------------------------------ */

static int begin(ln_chat *chat, const char *path, const ln_chat_options *how) {
    linnet_error err = {0};
    if (how->chat_template && ln_cli_set_chat_template(chat->model, how->chat_template) != 0)
        return LN_EXIT_FAILURE;
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(chat->model, &info);
    if (ln_cli_check_writes(path, &info, &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    if (info.has_encoder)
        return ln_cli_fail("%s has an encoder: chats need a model that only decodes", path);
    if (!info.has_chat_template)
        return ln_cli_fail("%s has no chat template; `linnet run' continues plain text", path);
    linnet_engine_options engine = how->engine;
    if (ln_cli_adapters_plan(how->adapters, &engine, &err) != LINNET_OK ||
        ln_cli_create_engine(chat->model, &engine, how->quiet, &chat->engine, &err) != LINNET_OK ||
        ln_cli_adapters_load(how->adapters, chat->engine, &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    linnet_memory_plan memory = {.struct_bytes = sizeof memory};
    linnet_engine_get_memory(chat->engine, &memory);
    chat->ctx_tokens = memory.ctx_tokens;
    chat->quiet = how->quiet;
    if (!how->quiet)
        fprintf(stderr, "%s: %s, %s, context of %s. /help lists the commands.\n", path,
                info.architecture, ln_cli_count_text((size_t)info.n_layers, "layer").text,
                ln_cli_count_text(memory.ctx_tokens, "token").text);
    return talk(chat);
}

int ln_chat_run(linnet_model *model, const char *path, const ln_chat_options *how) {
    ln_chat chat = {.model = model,
                    .sampling = how->sampling,
                    .max_tokens = how->max_tokens,
                    .adapter = ln_cli_adapters_first(how->adapters)};
    int status;
    if (!ln_conversation_init(&chat.conversation) ||
        !ln_conversation_set_system(&chat.conversation, how->system ? how->system : ""))
        status = ln_cli_fail("--system needs a text in UTF-8");
    else
        status = begin(&chat, path, how);
    linnet_engine_destroy(chat.engine);
    ln_conversation_free(&chat.conversation);
    return status;
}

int ln_cli_chat(int argc, char **argv) {
    chat_args args = {.adapters.most = 1};
    args.options.adapters = &args.adapters;
    linnet_engine_options_init(&args.options.engine);
    if (ln_cli_parse(&chat_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    char *demo = args.model ? NULL : ln_cli_find_demo_model();
    const char *path = args.model ? args.model : demo;
    linnet_model *model = NULL;
    linnet_error err = {0};
    int status;
    if (!path)
        status = ln_cli_fail("the demo model, models/demo.gguf, is not there; name a MODEL");
    else if (ln_cli_open_model(path, &model, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else
        status = ln_chat_run(model, path, &args.options);
    linnet_model_close(model);
    ln_cli_adapters_free(&args.adapters);
    free(demo);
    return status;
}
