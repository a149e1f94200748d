/* linnet quantize: a GGUF file with matrices in other types. */
#include <argp.h>
#include <linnet.h>

#include "cli/commands.h"
#include "cli/convert/conversion.h"
#include "cli/options.h"
#include "format/quantize/gguf.h"

typedef struct quantize_args {
    const char *from, *to;
    ln_cli_conversion conversion;
} quantize_args;

static error_t parse(int key, char *arg, struct argp_state *state) {
    quantize_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->conversion; break;
    case ARGP_KEY_ARG: ln_cli_take_two(state, &args->from, &args->to, arg); break;
    case ARGP_KEY_END:
        if (!args->to)
            argp_error(state, args->from ? "OUT.gguf is missing" : "IN.gguf is missing");
        if (!args->conversion.mix)
            argp_error(state, "--type is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp quantize_argp = {
    .parser = parse,
    .args_doc = "IN.gguf OUT.gguf",
    .doc = "Writes a GGUF file whose matrices have another type. Norms and other vectors stay "
           "F32; the output and some other matrices get more bits, as llama.cpp chooses. OUT.gguf "
           "appears when it is complete.\vTypes: F32, F16, BF16, Q8_0, Q6_K, Q5_K_M, Q5_K_S, "
           "Q5_1, Q5_0, Q4_K_M, Q4_K_S, Q4_1, Q4_0, IQ4_NL, IQ4_XS, MXFP4, MXFP4_MOE, Q3_K_L, "
           "Q3_K_M, Q3_K_S, Q2_K, Q2_K_S; REGEX=TYPE takes the same without _M, _S, _L and _MOE.",
    .children = ln_cli_conversion_children,
};

static linnet_status quantize(void *user, const ln_checkpoint *checkpoint,
                              const ln_quantize_options *how, linnet_error *err) {
    const quantize_args *args = user;
    return ln_quantize_gguf(checkpoint, args->to, how, err);
}

int ln_cli_quantize(int argc, char **argv) {
    quantize_args args = {0};
    int status = LN_EXIT_USAGE;
    if (ln_cli_parse(&quantize_argp, argc, argv, &args) == 0)
        status = ln_cli_conversion_run(&args.conversion, args.from, args.to, quantize, &args);
    ln_cli_conversion_free(&args.conversion);
    return status;
}
