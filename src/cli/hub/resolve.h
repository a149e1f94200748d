/* What MODEL may be: a path, a name of the hub's cache, or "hf:" and a name, which is pulled when
 * the cache lacks it. */
#ifndef LN_CLI_HUB_RESOLVE_H
#define LN_CLI_HUB_RESOLVE_H

#include <argp.h>
#include <linnet.h>

/* The options that name a model: -m, --hf. Their input is the `const char *` of the MODEL. */
extern const struct argp ln_cli_model_argp;

/* The children of a command that takes a model: these options, or the engine's before them. */
extern const struct argp_child ln_cli_model_children[], ln_cli_engine_children[];

/* The name that MODEL is, without "hf:"; NULL: it is a path. Borrowed. */
const char *ln_cli_model_name(const char *model);

/* Puts a path into the place of a name; what is a path, or NULL, stays. The text lives as long as
 * the program. */
linnet_status ln_cli_resolve_model(const char **model, linnet_error *err);

#endif
