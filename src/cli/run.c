/* linnet run: generates text from a prompt. */
#include <argp.h>
#include <jansson.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/adapters.h"
#include "cli/chat/chat.h"
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/grammar_options.h"
#include "cli/hub/resolve.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/options.h"
#include "cli/output.h"

enum {
    KEY_IDS = LN_KEYS_COMMAND,
    KEY_ENCODER_IDS,
    KEY_CHAT,
    KEY_SYSTEM,
    KEY_CHAT_TEMPLATE,
    KEY_STOP,
    KEY_BEAMS,
    KEY_IGNORE_EOS,
    KEY_KEEP_SPECIAL,
    KEY_PRINT_IDS,
    KEY_PRINT_MEMORY
};

enum { MAX_BEAMS = 64 }; /* the engine's */

typedef struct run_args {
    const char *model;         /* NULL: the demo model */
    const char *prompt;        /* NULL: not given */
    const char *file;          /* NULL: not given */
    const char *system;        /* NULL: none */
    const char *chat_template; /* a file; NULL: the model's own */
    const char **stop;         /* [n_stop], owned; the strings are argv's */
    size_t n_stop;
    size_t max_tokens; /* 0: until the context is full */
    size_t n_beams;    /* 0: none */
    ln_cli_ids ids, encoder_ids;
    bool chat, ignore_eos, keep_special, print_ids, print_memory, quiet;
    linnet_engine_options engine;
    ln_cli_adapters adapters;
    linnet_sampling sampling;
    ln_cli_grammar_choice grammar;
    linnet_request_options request; /* what the grammar says */
} run_args;

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Prompt (standard input without any of these):", 1},
    {"prompt", 'p', "TEXT", 0, "Continue TEXT", 1},
    {"file", 'f', "FILE", 0, "Continue the text of FILE, byte for byte", 1},
    {"ids", KEY_IDS, "IDS", 0, "Continue token ids as given, such as 5,9,3; needs no tokenizer", 1},
    {"encoder-ids", KEY_ENCODER_IDS, "IDS", 0,
     "What the encoder reads, for models that have one (a prompt is the encoder's text, too)", 1},
    {"chat", KEY_CHAT, NULL, 0, "The prompt is a user's message: apply the chat template", 1},
    {"system", KEY_SYSTEM, "TEXT", 0, "With --chat: a system message before it", 1},
    {"chat-template", KEY_CHAT_TEMPLATE, "FILE", 0,
     "With --chat: Jinja that takes the place of the model's chat template", 1},
    {NULL, 0, NULL, 0, "Output:", 2},
    {"max-tokens", 'n', "N", 0, "At most N tokens (until a stop, or the context is full)", 2},
    {"stop", KEY_STOP, "TEXT", 0, "End before TEXT appears in the output; may be repeated", 2},
    {"beams", KEY_BEAMS, "N", 0,
     "Search for the likeliest text with N beams (1 to 64), each a sequence of --max-seqs, "
     "instead of drawing tokens; it comes at the end",
     2},
    {"ignore-eos", KEY_IGNORE_EOS, NULL, 0, "Do not end at the model's stop tokens", 2},
    {"keep-special", KEY_KEEP_SPECIAL, NULL, 0, "Write control tokens as their text", 2},
    {"print-ids", KEY_PRINT_IDS, NULL, 0, "Print the ids instead of the text, on one line", 2},
    {"print-memory", KEY_PRINT_MEMORY, NULL, 0,
     "Print the memory that was reserved to standard error, as `linnet plan --json' does", 2},
    {"quiet", 'q', NULL, 0, "Print nothing but the text, and errors", 2},
    {0}};

static void add_stop(struct argp_state *state, run_args *args, const char *text) {
    if (*text == '\0')
        argp_error(state, "--stop: the text is empty");
    const char **stop = realloc(args->stop, (args->n_stop + 1) * sizeof *stop);
    if (!stop) {
        argp_failure(state, LN_EXIT_FAILURE, 0, "out of memory");
        return;
    }
    args->stop = stop;
    args->stop[args->n_stop++] = text;
}

static void check_prompt(struct argp_state *state, const run_args *args) {
    int n_prompts = (args->prompt != NULL) + (args->file != NULL) + (args->ids.ids != NULL);
    if (args->encoder_ids.ids && (args->prompt || args->file || args->chat))
        argp_error(state, "--encoder-ids stands in for -p, -f and --chat");
    if (n_prompts > 1)
        argp_error(state, "-p, -f and --ids exclude each other");
    if (args->chat && args->ids.ids)
        argp_error(state, "--chat and --ids exclude each other");
    if (args->system && !args->chat)
        argp_error(state, "--system needs --chat");
    if (args->chat_template && !args->chat)
        argp_error(state, "--chat-template needs --chat");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    run_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->sampling;
        state->child_inputs[1] = &args->grammar;
        state->child_inputs[2] = &args->engine;
        state->child_inputs[3] = &args->adapters;
        state->child_inputs[4] = &args->model;
        break;
    case 'p': args->prompt = arg; break;
    case 'f': args->file = arg; break;
    case KEY_IDS: ln_cli_parse_ids(state, arg, false, &args->ids); break;
    case KEY_ENCODER_IDS: ln_cli_parse_ids(state, arg, false, &args->encoder_ids); break;
    case KEY_CHAT: args->chat = true; break;
    case KEY_SYSTEM: args->system = arg; break;
    case KEY_CHAT_TEMPLATE: args->chat_template = arg; break;
    case 'n': args->max_tokens = ln_cli_parse_count(state, "-n", arg, 1, INT32_MAX); break;
    case KEY_STOP: add_stop(state, args, arg); break;
    case KEY_BEAMS: args->n_beams = ln_cli_parse_count(state, "--beams", arg, 1, MAX_BEAMS); break;
    case KEY_IGNORE_EOS: args->ignore_eos = true; break;
    case KEY_KEEP_SPECIAL: args->keep_special = true; break;
    case KEY_PRINT_IDS: args->print_ids = true; break;
    case KEY_PRINT_MEMORY: args->print_memory = true; break;
    case 'q': args->quiet = true; break;
    case ARGP_KEY_ARG:
        if (args->model != NULL)
            argp_error(state, "unexpected argument '%s'; a prompt is given with -p", arg);
        args->model = arg;
        break;
    case ARGP_KEY_END:
        check_prompt(state, args);
        if (args->n_beams > 0 && args->engine.draft_tokens > 0)
            argp_error(state, "--beams does not combine with --draft-tokens or --draft-model");
        if (args->engine.max_seqs < args->n_beams) /* a beam is a sequence */
            args->engine.max_seqs = args->n_beams;
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {
    {&ln_cli_sampling_argp, 0, "Sampling:", 3},
    {&ln_cli_grammar_argp, 0, "What the output must be (at most one of these):", 4},
    {&ln_cli_engine_argp, 0, LN_CLI_ENGINE_HEADER, 5},
    {&ln_cli_adapters_argp, 0, NULL, 1},
    {&ln_cli_model_argp, 0, NULL, 1},
    {0}};

static const struct argp run_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[MODEL]",
    .doc = "Generates text from a prompt and streams it to standard output; everything else goes "
           "to standard error. MODEL is a GGUF file or a Hugging Face folder; without it the "
           "demo model runs.\vWithout --chat the prompt is raw text: the tokenizer puts its BOS "
           "before it, and the model continues it. Ctrl-C ends the generation and keeps what was "
           "written (exit status 130).",
    .children = children,
};

/* Encodes the prompt through the chat template. */
static int encode_chat(const linnet_model *model, const run_args *args, const char *text,
                       size_t n_bytes, int32_t **ids, size_t *n_ids) {
    json_t *messages = json_array();
    int failed = messages == NULL;
    if (args->system)
        failed |= json_array_append_new(
            messages, json_pack("{s:s, s:s}", "role", "system", "content", args->system));
    json_t *content = json_stringn(text, n_bytes); /* NULL unless it is UTF-8 */
    failed |= json_array_append_new(messages,
                                    json_pack("{s:s, s:o}", "role", "user", "content", content));
    char *dump = failed ? NULL : json_dumps(messages, JSON_COMPACT);
    json_decref(messages);
    if (!dump)
        return ln_cli_fail("--chat needs a prompt and a system message in UTF-8");
    linnet_error err = {0};
    linnet_status status = linnet_model_encode_chat(model, dump, ids, n_ids, &err);
    free(dump);
    if (status == LINNET_OK)
        return 0;
    ln_cli_fail_with(&err);
    return LN_EXIT_FAILURE;
}

/* Ids of a request; those from text are `owned`, which linnet_free takes afterwards. */
typedef struct prompt_ids {
    const int32_t *ids, *encoder_ids;
    size_t n_ids, n_encoder_ids;
    int32_t *owned;
} prompt_ids;

/* Encodes the prompt's text, wherever it comes from. */
static int encode_text(const linnet_model *model, const run_args *args, int32_t **owned,
                       size_t *n_ids) {
    char *text = NULL;
    size_t n_bytes = 0;
    if (args->prompt) {
        n_bytes = strlen(args->prompt);
    } else {
        if (!args->file && !args->quiet)
            ln_cli_tell_stdin("the prompt");
        int status = ln_cli_read_text(args->file, &text, &n_bytes);
        if (status != 0)
            return status;
    }
    const char *prompt = args->prompt ? args->prompt : text;
    int status = 0;
    if (args->chat) {
        status = encode_chat(model, args, prompt, n_bytes, owned, n_ids);
    } else {
        linnet_error err = {0};
        if (linnet_model_encode(model, prompt, n_bytes, true, false, owned, n_ids, &err) !=
            LINNET_OK)
            status = ln_cli_fail_with(&err);
    }
    free(text);
    return status;
}

/* Ids as given, or the prompt's text: the decoder's prompt, or with an encoder what that reads. */
static int encode_prompt(const linnet_model *model, const run_args *args, bool has_encoder,
                         prompt_ids *prompt) {
    *prompt = (prompt_ids){.ids = args->ids.ids,
                           .n_ids = args->ids.count,
                           .encoder_ids = args->encoder_ids.ids,
                           .n_encoder_ids = args->encoder_ids.count};
    if (has_encoder ? args->encoder_ids.ids != NULL : args->ids.ids != NULL)
        return 0;
    size_t n_ids = 0;
    int status = encode_text(model, args, &prompt->owned, &n_ids);
    if (has_encoder) {
        prompt->encoder_ids = prompt->owned;
        prompt->n_encoder_ids = n_ids;
    } else {
        prompt->ids = prompt->owned;
        prompt->n_ids = n_ids;
    }
    return status;
}

static void print_settings(const run_args *args, const char *path, const linnet_model_info *info,
                           const linnet_memory_plan *memory) {
    ln_cli_print_settings(path, info, memory);
    const linnet_sampling *sampling = &args->sampling;
    if (args->n_beams > 0)
        fprintf(stderr, "search    %s\n", ln_cli_count_text(args->n_beams, "beam").text);
    else if (sampling->temperature > 0)
        fprintf(stderr, "sampling  --temp %g --top-k %d --top-p %g --seed %llu\n",
                (double)sampling->temperature, (int)sampling->top_k, (double)sampling->top_p,
                (unsigned long long)sampling->seed);
    else
        fputs("sampling  the most likely token\n", stderr);
    if (args->prompt && !args->chat && info->has_chat_template && args->model)
        fputs("hint      the model has a chat template: --chat makes the prompt a message\n",
              stderr);
}

/* What draws tokens changes nothing where none are drawn. */
static void warn_of_temperature(const run_args *args) {
    linnet_request_options defaults;
    linnet_request_options_init(&defaults);
    float temperature = args->sampling.temperature;
    if (args->n_beams > 0 && temperature > 0 && temperature != defaults.sampling.temperature)
        ln_cli_warn("a beam search draws no tokens, so --temp %g changes nothing",
                    (double)temperature);
}

static void print_speed(const ln_cli_generation *generation) {
    static const char *const ends[] = {
        [LINNET_FINISH_STOP] = "stopped",
        [LINNET_FINISH_LENGTH] = "length reached",
        [LINNET_FINISH_CANCELLED] = "cancelled",
    };
    double prompt_s = (double)generation->prompt_ns / 1e9;
    double output_s = (double)generation->output_ns / 1e9;
    fprintf(stderr, "prompt    %s", ln_cli_count_text(generation->n_prompt_tokens, "token").text);
    if (prompt_s > 0)
        fprintf(stderr, " in %.2f s (%.1f tokens/s)", prompt_s,
                (double)generation->n_prompt_tokens / prompt_s);
    fprintf(stderr, "\noutput    %s", ln_cli_count_text(generation->n_output_tokens, "token").text);
    if (output_s > 0 && generation->n_output_tokens > 1)
        fprintf(stderr, " in %.2f s (%.1f tokens/s)", output_s,
                (double)(generation->n_output_tokens - 1) / output_s);
    fprintf(stderr, ", %s\n", ends[generation->finish]);
}

/* Generates with an engine that stands. */
static int run_engine(linnet_engine *engine, const run_args *args, const char *path,
                      const linnet_model_info *info, const prompt_ids *prompt) {
    linnet_memory_plan memory = {.struct_bytes = sizeof memory};
    linnet_engine_get_memory(engine, &memory);
    if (!args->quiet) {
        print_settings(args, path, info, &memory);
        warn_of_temperature(args);
    }
    if (args->print_memory && ln_cli_print_memory(stderr, &memory) != 0)
        return LN_EXIT_FAILURE;

    linnet_request_options request = args->request; /* with the grammar */
    request.prompt_ids = prompt->ids;
    request.n_prompt_ids = prompt->n_ids;
    request.encoder_ids = prompt->encoder_ids;
    request.n_encoder_ids = prompt->n_encoder_ids;
    request.max_tokens = args->max_tokens;
    request.ignore_eos = args->ignore_eos;
    request.keep_special = args->keep_special;
    request.continues_prompt = !args->chat && !info->has_encoder;
    request.sampling = args->sampling;
    request.beam_width = (uint32_t)args->n_beams;
    request.stop = args->stop;
    request.n_stop = args->n_stop;

    ln_interrupt_catch();
    if (!args->quiet)
        fputc('\n', stderr);
    ln_cli_generation generation;
    int status = ln_cli_generate(engine, &request, args->print_ids, args->quiet, NULL, &generation);
    if (status != 0 && status != LN_EXIT_INTERRUPTED)
        return status;
    if (!args->print_ids && isatty(STDOUT_FILENO))
        fputc('\n', stderr); /* the text may end anywhere in its line */
    if (!args->quiet) {
        fputc('\n', stderr);
        print_speed(&generation);
    }
    return status;
}

/* A path with spaces that is not there may be meant as something else. */
static int fail_to_open(const run_args *args, const linnet_error *err) {
    bool has_prompt = args->prompt || args->file || args->ids.ids || args->encoder_ids.ids;
    if (err->status == LINNET_ERR_IO && !has_prompt && strchr(args->model, ' ') != NULL)
        return ln_cli_fail("%s; a prompt is given with -p", err->message);
    return ln_cli_fail_with(err);
}

/* A prompt that no context holds is refused before the model is loaded for it. */
static int check_length(const run_args *args, const linnet_model_info *info,
                        const prompt_ids *prompt) {
    size_t most = args->engine.ctx_tokens > 0 ? args->engine.ctx_tokens : (size_t)info->ctx_tokens;
    if (most == 0 || prompt->n_ids < most)
        return 0;
    return ln_cli_fail("the prompt has %s, which a context of %zu does not hold with an answer",
                       ln_cli_count_text(prompt->n_ids, "token").text, most);
}

/* Whether a person at a terminal gives no prompt, and nothing that only a single answer has. */
static bool wants_chat(const linnet_model *model, const run_args *args) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    bool has_prompt = args->prompt || args->file || args->ids.ids || args->encoder_ids.ids;
    bool has_form = args->grammar.option || args->n_stop > 0 || args->n_beams > 0 ||
                    args->ignore_eos || args->keep_special || args->print_ids || args->print_memory;
    return !has_prompt && !has_form && info.has_chat_template && !info.has_encoder &&
           isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static int run_chat(linnet_model *model, const run_args *args, const char *path) {
    ln_chat_options how = {.system = args->system,
                           .max_tokens = args->max_tokens,
                           .quiet = args->quiet,
                           .engine = args->engine,
                           .adapters = &args->adapters,
                           .sampling = args->sampling};
    return ln_chat_run(model, path, &how);
}

static int run_model(const linnet_model *model, const run_args *args, const char *path) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_error err = {0};
    linnet_model_get_info(model, &info);
    if (ln_cli_check_writes(path, &info, &err) != LINNET_OK)
        return ln_cli_fail_with(&err);
    const int32_t *given = info.has_encoder ? args->encoder_ids.ids : args->ids.ids;
    if (!info.has_tokenizer && !(given && args->print_ids))
        return ln_cli_fail("%s has no tokenizer: give %s and --print-ids", path,
                           info.has_encoder ? "--encoder-ids" : "--ids");

    prompt_ids prompt;
    int status = encode_prompt(model, args, info.has_encoder, &prompt);
    if (status == 0)
        status = check_length(args, &info, &prompt);
    if (status == 0) {
        linnet_engine *engine = NULL;
        linnet_engine_options engine_options = args->engine;
        if (ln_cli_adapters_plan(&args->adapters, &engine_options, &err) != LINNET_OK ||
            ln_cli_create_engine(model, &engine_options, args->quiet, &engine, &err) != LINNET_OK ||
            ln_cli_adapters_load(&args->adapters, engine, &err) != LINNET_OK)
            status = ln_cli_fail_with(&err);
        else
            status = run_engine(engine, args, path, &info, &prompt);
        if (engine)
            linnet_engine_destroy(engine);
    }
    linnet_free(prompt.owned);
    return status;
}

static int open_and_run(const run_args *args, const char *path) {
    linnet_model *model = NULL;
    linnet_error err = {0};
    int status = 0;
    if (!path)
        status = ln_cli_fail("the demo model, models/demo.gguf, is not there; name a MODEL");
    else if (ln_cli_open_model(path, &model, &err) != LINNET_OK)
        status = args->model != NULL ? fail_to_open(args, &err) : ln_cli_fail_with(&err);
    else if (args->chat_template)
        status = ln_cli_set_chat_template(model, args->chat_template);
    if (status == 0 && wants_chat(model, args))
        status = run_chat(model, args, path);
    else if (status == 0)
        status = run_model(model, args, path);
    linnet_model_close(model);
    return status;
}

int ln_cli_run(int argc, char **argv) {
    run_args args = {.adapters.most = 1};
    linnet_engine_options_init(&args.engine);
    args.engine.lazy_weights = true;
    if (ln_cli_parse(&run_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;

    char *demo = args.model ? NULL : ln_cli_find_demo_model();
    linnet_request_options_init(&args.request);
    args.request.adapter = ln_cli_adapters_first(&args.adapters);
    int status = ln_cli_grammar_load(&args.grammar, &args.request);
    if (status == 0)
        status = open_and_run(&args, args.model ? args.model : demo);
    free(demo);
    free(args.ids.ids);
    free(args.encoder_ids.ids);
    free(args.stop);
    free(args.grammar.text);
    ln_cli_adapters_free(&args.adapters);
    return status;
}
