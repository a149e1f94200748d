/* linnet: the program. Finds the command and hands over to it. */
#include <argp.h>
#include <fcntl.h>
#include <linnet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/output.h"

/* name, summary */
#define COMMANDS(X)                                                                                \
    X(run, "Generate text from a prompt")                                                          \
    X(chat, "Talk with a model")                                                                   \
    X(serve, "Serve a model over HTTP, as OpenAI's API")                                           \
    X(inspect, "Show a model's architecture, tokenizer, metadata and tensors")                     \
    X(plan, "Show the memory that a model will take, before loading it")                           \
    X(tokenize, "Turn text into token ids")                                                        \
    X(detokenize, "Turn token ids into text")                                                      \
    X(template, "Render a chat template")                                                          \
    X(bench, "Measure prefill and decode speed")                                                   \
    X(logits, "Write the logits of a token sequence to a file")                                    \
    X(convert, "Write a GGUF file from a Hugging Face folder")                                     \
    X(quantize, "Write a GGUF file with matrices in another type")                                 \
    X(eval, "Measure perplexity, or how far two checkpoints are apart")

typedef struct command {
    const char *name;
    const char *argv0; /* for messages */
    int (*main)(int argc, char **argv);
} command;

static const command commands[] = {
#define COMMAND_ENTRY(name, summary) {#name, "linnet " #name, ln_cli_##name},
    COMMANDS(COMMAND_ENTRY)
#undef COMMAND_ENTRY
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

typedef struct main_args {
    const command *command;
    int index; /* of the command's name in argv */
} main_args;

static const struct argp_option options[] = {
#define COMMAND_OPTION(name, summary) {#name, 0, NULL, OPTION_DOC, summary, 1},
    COMMANDS(COMMAND_OPTION)
#undef COMMAND_OPTION
        {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    main_args *args = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < N_COMMANDS; i++)
            if (strcmp(arg, commands[i].name) == 0)
                args->command = &commands[i];
        if (!args->command)
            argp_error(state, "unknown command '%s'", arg);
        args->index = state->next - 1;
        state->next = state->argc; /* the rest is the command's */
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "a command is missing"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp main_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "COMMAND [ARGUMENT...]",
    .doc = "linnet runs language models: it loads a checkpoint (a GGUF file or a Hugging Face "
           "folder) and generates text.\vCommands take options of their own: linnet COMMAND "
           "--help lists them. The exit status is 0 on success, 1 when a model is broken or "
           "something fails, and 2 when the arguments are wrong.",
};

static void print_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "linnet %s\n", linnet_version());
}

/* A descriptor that is closed at the start must not become that of a model's file. */
static void open_standard_descriptors(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv) {
    open_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);           /* a closed stdout shows as EPIPE */
    linnet_install_fault_handler(NULL); /* without it a truncated model ends the process */
    argp_err_exit_status = LN_EXIT_USAGE;
    argp_program_version_hook = print_version;

    static char program[] = "linnet";
    argv[0] = program;
    main_args args = {0};
    if (argp_parse(&main_argp, argc, argv, ARGP_IN_ORDER, NULL, &args) != 0)
        return LN_EXIT_USAGE;
    char argv0[32];
    snprintf(argv0, sizeof argv0, "%s", args.command->argv0);
    argv[args.index] = argv0;
    int status = args.command->main(argc - args.index, argv + args.index);
    return ln_cli_finish_stdout(status);
}
