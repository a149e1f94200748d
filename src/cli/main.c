/* linnet: the program. Finds the command and hands over to it. */
#include <argp.h>
#include <fcntl.h>
#include <linnet.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json/load.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"

/* name, summary */
#define COMMANDS(X)                                                                                \
    X(run, "Generate text from a prompt")                                                          \
    X(chat, "Talk with a model")                                                                   \
    X(serve, "Serve a model over HTTP, as OpenAI's API")                                           \
    X(pull, "Bring a model from the Hugging Face hub into its cache")                              \
    X(list, "List the models of the cache")                                                        \
    X(rm, "Remove a model from the cache")                                                         \
    X(show, "The same as inspect")                                                                 \
    X(inspect, "Show a model's architecture, tokenizer, metadata and tensors")                     \
    X(plan, "Show the memory that a model will take, before loading it")                           \
    X(tokenize, "Turn text into token ids")                                                        \
    X(detokenize, "Turn token ids into text")                                                      \
    X(grammar, "Check a grammar, and texts against it")                                            \
    X(template, "Render a chat template")                                                          \
    X(bench, "Measure prefill and decode speed")                                                   \
    X(logits, "Write the logits of a token sequence to a file")                                    \
    X(embed, "Print the vectors of texts")                                                         \
    X(convert, "Write a GGUF file from a Hugging Face folder")                                     \
    X(merge, "Write a checkpoint that adapters have been merged into")                             \
    X(quantize, "Write a GGUF file with matrices in another type")                                 \
    X(eval, "Measure perplexity, or how far apart two checkpoints are")                            \
    X(doctor, "Show what this machine can do, and what is missing")                                \
    X(help, "Show the options of a command, or of the engine")

typedef struct command {
    const char *name;
    const char *argv0; /* for messages */
    int (*main)(int argc, char **argv);
} command;

static int ln_cli_help(int argc, char **argv);

static const command commands[] = {
#define COMMAND_ENTRY(name, summary) {#name, "linnet " #name, ln_cli_##name},
    COMMANDS(COMMAND_ENTRY)
#undef COMMAND_ENTRY
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

typedef struct main_args {
    const command *command;
    int index; /* of the command's name in argv */
} main_args;

enum { KEY_USAGE = 0x100 };

static const struct argp_option options[] = {
    {"help", 'h', NULL, OPTION_HIDDEN, "", 0},        {NULL, '?', NULL, OPTION_HIDDEN, "", 0},
    {"usage", KEY_USAGE, NULL, OPTION_HIDDEN, "", 0}, {"version", 'V', NULL, OPTION_HIDDEN, "", 0},
    {NULL, 'v', NULL, OPTION_HIDDEN, "", 0},          {0}};

static void print_help(FILE *stream) {
    fputs("Usage: linnet COMMAND [OPTION...] [ARGUMENT...]\n"
          "linnet runs language models: it loads a checkpoint (a GGUF file or a Hugging Face\n"
          "folder) and generates text.\n\n",
          stream);
#define PRINT_COMMAND(name, summary) fprintf(stream, "  %-12s %s\n", #name, summary);
    COMMANDS(PRINT_COMMAND)
#undef PRINT_COMMAND
    fputs(
        "\n`linnet COMMAND --help' lists the options of a command, `linnet --version' says which\n"
        "linnet this is, and `man linnet' says more. Try:\n\n"
        "  linnet run -p \"Once upon a time\"              # with the demo model\n"
        "  linnet chat\n"
        "  linnet run MODEL --chat -p \"Name three birds.\"\n\n"
        "The exit status is 0 on success, 1 when a model is broken or something fails, and 2\n"
        "when the arguments are wrong.\n",
        stream);
}

static void print_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "linnet %s\n", linnet_version());
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    main_args *args = state->input;
    switch (key) {
    case 'h':
    case '?':
    case KEY_USAGE: print_help(state->out_stream); exit(ln_cli_finish_stdout(0));
    case 'V':
    case 'v': print_version(state->out_stream, state); exit(ln_cli_finish_stdout(0));
    case ARGP_KEY_ARG:
        args->command = find_command(arg);
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
};

/* linnet help [COMMAND]: what --help says. */
static int ln_cli_help(int argc, char **argv) {
    static char program[] = "linnet", option[] = "--help";
    char name[32];
    const command *about = argc > 1 ? find_command(argv[1]) : NULL;
    char *own[] = {name, option, NULL};
    bool is_own = argc < 2 || argv[1][0] == '-' || (about && about->main == ln_cli_help);
    snprintf(name, sizeof name, "%s", about ? about->argv0 : program);
    if (argc > 2) {
        ln_cli_fail("help: unexpected argument '%s'", argv[2]);
        return LN_EXIT_USAGE;
    }
    if (is_own) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "engine") == 0) {
        ln_cli_print_engine_help(stdout);
        return 0;
    }
    if (about)
        return about->main(2, own);
    ln_cli_fail("help: there is no command '%s'; `linnet help' lists them", argv[1]);
    return LN_EXIT_USAGE;
}

/* A descriptor that is closed at the start must not become that of a model's file. What goes to a
 * closed standard output fails as it would have. */
static void open_standard_descriptors(void) {
    for (int fd = 0; fd <= STDERR_FILENO;) {
        fd = open("/dev/null", fcntl(STDIN_FILENO, F_GETFD) < 0 || fcntl(STDOUT_FILENO, F_GETFD) < 0
                                   ? O_RDONLY
                                   : O_WRONLY);
        if (fd < 0)
            return;
        if (fd > STDERR_FILENO)
            close(fd);
    }
}

/* Options of llama.cpp with one dash and several letters, which argp would take apart. */
static void spell_out(int argc, char **argv) {
    static char hf[] = "--hf", gpu_layers[] = "--gpu-layers";
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-hf") == 0)
            argv[i] = hf;
        else if (strcmp(argv[i], "-ngl") == 0)
            argv[i] = gpu_layers;
    }
}

int main(int argc, char **argv) {
    open_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);           /* a closed stdout shows as EPIPE */
    signal(SIGXFSZ, SIG_IGN);           /* a file that may not grow, as EFBIG */
    linnet_install_fault_handler(NULL); /* without it a truncated model ends the process */
    ln_json_memory_watch();
    argp_err_exit_status = LN_EXIT_USAGE;
    argp_program_version_hook = print_version;

    static char program[] = "linnet";
    argv[0] = program;
    main_args args = {0};
    if (argp_parse(&main_argp, argc, argv, ARGP_IN_ORDER | ARGP_NO_HELP, NULL, &args) != 0) {
        ln_cli_fail("out of memory"); /* what else is wrong, it has said, and ended the program */
        return LN_EXIT_USAGE;
    }
    char argv0[32];
    snprintf(argv0, sizeof argv0, "%s", args.command->argv0);
    argv[args.index] = argv0;
    spell_out(argc - args.index, argv + args.index);
    int status = args.command->main(argc - args.index, argv + args.index);
    return ln_cli_finish_stdout(status);
}
