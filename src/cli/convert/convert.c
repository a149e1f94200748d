/* linnet convert: a GGUF file from a Hugging Face folder. */
#include <argp.h>
#include <linnet.h>
#include <stdbool.h>

#include "cli/commands.h"
#include "cli/convert/conversion.h"
#include "cli/options.h"
#include "convert/convert.h"

enum { KEY_NO_TOKENIZER = LN_KEYS_COMMAND };

typedef struct convert_args {
    const char *from, *to;
    bool no_tokenizer;
    ln_cli_conversion conversion;
} convert_args;

static const struct argp_option options[] = {
    {"no-tokenizer", KEY_NO_TOKENIZER, NULL, 0, "Leave the tokenizer out", 1}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    convert_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->conversion; break;
    case KEY_NO_TOKENIZER: args->no_tokenizer = true; break;
    case ARGP_KEY_ARG: ln_cli_take_two(state, &args->from, &args->to, arg); break;
    case ARGP_KEY_END:
        if (!args->to)
            argp_error(state, args->from ? "OUT.gguf is missing" : "FOLDER is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp convert_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FOLDER OUT.gguf",
    .doc = "Writes a GGUF file, as llama.cpp reads it, from a Hugging Face folder: architecture, "
           "tensors, tokenizer and chat template. Without --type matrices keep the type that the "
           "folder has. What GGUF has no form for is refused. OUT.gguf appears when it is "
           "complete.\vTypes are those of linnet quantize.",
    .children = ln_cli_conversion_children,
};

static linnet_status convert(void *user, const ln_checkpoint *checkpoint,
                             const ln_quantize_options *how, linnet_error *err) {
    const convert_args *args = user;
    return ln_convert(checkpoint, args->to, !args->no_tokenizer, how, err);
}

int ln_cli_convert(int argc, char **argv) {
    convert_args args = {0};
    int status = LN_EXIT_USAGE;
    if (ln_cli_parse(&convert_argp, argc, argv, &args) == 0)
        status = ln_cli_conversion_run(&args.conversion, args.from, args.to, convert, &args);
    ln_cli_conversion_free(&args.conversion);
    return status;
}
