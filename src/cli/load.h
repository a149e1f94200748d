/* How commands open models and create engines. */
#ifndef LN_CLI_LOAD_H
#define LN_CLI_LOAD_H

#include <linnet.h>
#include <stdbool.h>

/* Warns when a context is longer than what the model was made for. */
void ln_cli_check_ctx(const linnet_model *model, size_t ctx_tokens);

/* linnet_engine_create with a bar on standard error meanwhile, when that is a terminal and it takes
 * a while, and the warning about the context; with `quiet` without both. With several ranks it
 * returns on rank 0 alone: the others serve that one and end the program. */
linnet_status ln_cli_create_engine(const linnet_model *model, const linnet_engine_options *options,
                                   bool quiet, linnet_engine **engine, linnet_error *err);

/* Warns where a GPU is there that `auto` cannot use, for want of the module with its backend. */
void ln_cli_check_gpu(const linnet_engine_options *options);

/* Whether the model is to be divided among ranks, by --tp, --ep or --pp. */
bool ln_cli_has_ranks(const linnet_engine_options *options);

/* linnet_model_open of a path or a name of the hub's cache (cli/hub/resolve.h). */
linnet_status ln_cli_open_model(const char *path, linnet_model **model, linnet_error *err);

/* The same of one that writes, and whose prompts are tokens alone; one with an encoder is refused
 * in the name of `command`. The model is the caller's, also then. */
linnet_status ln_cli_open_decoder(const char *command, const char *path, linnet_model **model,
                                  linnet_error *err);

/* Fails where a model makes vectors alone, and no text. */
linnet_status ln_cli_check_writes(const char *path, const linnet_model_info *info,
                                  linnet_error *err);

#endif
