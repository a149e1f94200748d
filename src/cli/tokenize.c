/* linnet tokenize, linnet detokenize: text to token ids and back. */
#include <argp.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/hub/resolve.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "text/tokenizer/tokenizer.h"

enum { KEY_NO_SPECIAL = LN_KEYS_COMMAND, KEY_IDS, KEY_KEEP_SPECIAL };

#define MODEL_DOC                                                                                  \
    "MODEL is a checkpoint, a GGUF file with only a vocabulary, or a folder with tokenizer.json, " \
    "tokenizer.model or source.spm."

/* Opens just the tokenizer of `path`. */
static int open_tokenizer(const char *path, ln_checkpoint **checkpoint, ln_tokenizer **tokenizer) {
    linnet_error err = {0};
    if (ln_cli_resolve_model(&path, &err) == LINNET_OK &&
        ln_checkpoint_open(path, true, checkpoint, &err) == LINNET_OK &&
        ln_tokenizer_open(*checkpoint, tokenizer, &err) == LINNET_OK)
        return 0;
    ln_cli_fail_with(&err);
    return LN_EXIT_FAILURE;
}

/* ---- tokenize --------------------------------------------------------------------------- */

typedef struct tokenize_args {
    const char *model, *text, *file;
    bool no_special;
} tokenize_args;

static const struct argp_option tokenize_options[] = {
    {"text", 'p', "TEXT", 0, "The same as TEXT without an option", 0},
    {"file", 'f', "FILE", 0, "The text of FILE, byte for byte", 0},
    {"no-special", KEY_NO_SPECIAL, NULL, 0, "Add no BOS, EOS or the like", 0},
    {0}};

static error_t parse_tokenize(int key, char *arg, struct argp_state *state) {
    tokenize_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->model; break;
    case 'p': args->text = arg; break;
    case 'f': args->file = arg; break;
    case KEY_NO_SPECIAL: args->no_special = true; break;
    case ARGP_KEY_ARG:
        ln_cli_take_argument(state, args->model ? &args->text : &args->model, arg);
        break;
    case ARGP_KEY_END:
        if (!args->model)
            argp_error(state, "MODEL is missing");
        if (args->text && args->file)
            argp_error(state, "TEXT and --file exclude each other");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp tokenize_argp = {
    .options = tokenize_options,
    .parser = parse_tokenize,
    .args_doc = "MODEL [TEXT]",
    .doc = "Prints the token ids of a text, or of standard input, as a JSON array. " MODEL_DOC
           "\vThe text of added "
           "tokens is recognised inside the text, with --no-special too.",
    .children = ln_cli_model_children,
};

static int print_ids(const tokenize_args *args, const ln_tokenizer *tokenizer) {
    char *owned = NULL;
    size_t n_bytes = args->text ? strlen(args->text) : 0;
    if (!args->text) {
        if (!args->file)
            ln_cli_tell_stdin("the text");
        int status = ln_cli_read_text(args->file, &owned, &n_bytes);
        if (status != 0)
            return status;
    }
    unsigned flags = LN_ENCODE_PARSE_SPECIAL | (args->no_special ? 0u : LN_ENCODE_ADD_SPECIAL);
    ln_ids ids = {0};
    linnet_error err = {0};
    linnet_status encoded =
        ln_tokenizer_encode(tokenizer, args->text ? args->text : owned, n_bytes, flags, &ids, &err);
    free(owned);
    int status = encoded == LINNET_OK ? 0 : ln_cli_fail("%s", err.message);
    if (status == 0) {
        putchar('[');
        for (size_t i = 0; i < ids.count; i++)
            printf(i == 0 ? "%d" : ", %d", (int)ids.data[i]);
        puts("]");
    }
    ln_ids_free(&ids);
    return status;
}

int ln_cli_tokenize(int argc, char **argv) {
    tokenize_args args = {0};
    if (ln_cli_parse(&tokenize_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    ln_checkpoint *checkpoint = NULL;
    ln_tokenizer *tokenizer = NULL;
    int status = open_tokenizer(args.model, &checkpoint, &tokenizer);
    if (status == 0)
        status = print_ids(&args, tokenizer);
    ln_tokenizer_close(tokenizer);
    ln_checkpoint_close(checkpoint);
    return status;
}

/* ---- detokenize ------------------------------------------------------------------------- */

typedef struct detokenize_args {
    const char *model;
    ln_cli_ids ids;
    bool keep_special;
} detokenize_args;

static const struct argp_option detokenize_options[] = {
    {"ids", KEY_IDS, "IDS", 0, "Token ids, such as 5,9,3", 0},
    {"keep-special", KEY_KEEP_SPECIAL, NULL, 0, "Write control tokens as their text", 0},
    {0}};

static error_t parse_detokenize(int key, char *arg, struct argp_state *state) {
    detokenize_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->model; break;
    case KEY_IDS: ln_cli_parse_ids(state, arg, true, &args->ids); break;
    case KEY_KEEP_SPECIAL: args->keep_special = true; break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->model, arg); break;
    case ARGP_KEY_END:
        if (!args->model)
            argp_error(state, "MODEL is missing");
        if (!args->ids.ids)
            argp_error(state, "--ids is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp detokenize_argp = {
    .options = detokenize_options,
    .parser = parse_detokenize,
    .args_doc = "MODEL",
    .doc = "Prints the text of token ids exactly, without a newline of its own. " MODEL_DOC,
    .children = ln_cli_model_children,
};

static int print_text(const detokenize_args *args, const ln_tokenizer *tokenizer) {
    enum { FLUSH_BYTES = 16 };
    size_t vocab_size = ln_tokenizer_vocab_size(tokenizer);
    for (size_t i = 0; i < args->ids.count; i++)
        if ((size_t)args->ids.ids[i] >= vocab_size) {
            ln_cli_fail("--ids: %d is not in the vocabulary of %zu tokens", (int)args->ids.ids[i],
                        vocab_size);
            return LN_EXIT_USAGE;
        }
    size_t capacity = ln_tokenizer_max_piece_bytes(tokenizer) + FLUSH_BYTES;
    char *piece = malloc(capacity);
    if (!piece)
        return ln_cli_fail("out of memory");
    ln_detokenizer decoder;
    ln_detokenizer_init(&decoder, tokenizer, args->keep_special);
    for (size_t i = 0; i < args->ids.count; i++)
        fwrite(piece, 1, ln_detokenizer_push(&decoder, args->ids.ids[i], piece, capacity), stdout);
    fwrite(piece, 1, ln_detokenizer_flush(&decoder, piece, capacity), stdout);
    free(piece);
    return 0;
}

int ln_cli_detokenize(int argc, char **argv) {
    detokenize_args args = {0};
    if (ln_cli_parse(&detokenize_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;
    ln_checkpoint *checkpoint = NULL;
    ln_tokenizer *tokenizer = NULL;
    int status = open_tokenizer(args.model, &checkpoint, &tokenizer);
    if (status == 0)
        status = print_text(&args, tokenizer);
    ln_tokenizer_close(tokenizer);
    ln_checkpoint_close(checkpoint);
    free(args.ids.ids);
    return status;
}
