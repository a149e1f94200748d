/* Options of llama.cpp and vLLM that have another name here. */
#ifndef LN_CLI_PEER_OPTIONS_H
#define LN_CLI_PEER_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

/* Says what the first such option of a command line is called here; false: there is none. `argp`
 * tells which arguments are values of options, and no options. */
bool ln_cli_refuse_peer_option(const struct argp *argp, int argc, char **argv);

#endif
