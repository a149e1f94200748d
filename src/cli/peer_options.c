#include "cli/peer_options.h"

#include <stddef.h>
#include <string.h>

#include "cli/output.h"

/* ---- values ----------------------------------------------------------------------------- */

/* An option of a command or of its children; alias or not, *takes_value is what it stands for. */
static bool find_option(const struct argp *argp, const char *name, size_t n_bytes, int key,
                        bool *takes_value) {
    const struct argp_option *real = argp->options;
    for (const struct argp_option *at = real; at && (at->name || at->key || at->doc); at++) {
        if (!(at->flags & OPTION_ALIAS))
            real = at;
        bool is_same = name == NULL ? at->key == key
                                    : at->name != NULL && strncmp(at->name, name, n_bytes) == 0;
        if (!is_same)
            continue;
        *takes_value = real->arg != NULL && !(real->flags & OPTION_ARG_OPTIONAL);
        return true;
    }
    for (const struct argp_child *child = argp->children; child && child->argp; child++)
        if (find_option(child->argp, name, n_bytes, key, takes_value))
            return true;
    return false;
}

/* Whether the next argument is the value of this one: --name, or letters of which the first that
 * takes a value is the last one. */
static bool takes_next(const struct argp *argp, const char *arg) {
    bool takes_value = false;
    if (arg[0] != '-' || arg[1] == '\0')
        return false;
    if (arg[1] == '-')
        return strchr(arg, '=') == NULL &&
               (find_option(argp, arg + 2, strlen(arg + 2) + 1, 0, &takes_value) ||
                find_option(argp, arg + 2, strlen(arg + 2), 0, &takes_value)) &&
               takes_value;
    for (arg++; *arg != '\0' && !takes_value; arg++)
        if (!find_option(argp, NULL, 0, *arg, &takes_value))
            return false;
    return takes_value && *arg == '\0';
}

/* ---- names ------------------------------------------------------------------------------ */

/* What it is called here; NULL: it is no such option. */
static const char *own_name(const char *arg, const char **theirs) {
    static const char *const names[][2] = {
        {"--ctx-size", "--ctx"},
        {"--max-model-len", "--ctx"},
        {"--n-gpu-layers", "--gpu-layers"},
        {"--n-cpu-moe", "--cpu-experts"},
        {"--n-predict", "--max-tokens"},
        {"--predict", "--max-tokens"},
        {"--system-prompt", "--system"},
        {"--grammar-file", "--grammar"},
        {"--cache-type-k", "--kv-type"},
        {"--cache-type-v", "--kv-type"},
        {"--kv-cache-dtype", "--kv-type"},
        {"--model-draft", "--draft-model"},
        {"--max-num-seqs", "--max-seqs"},
        {"--max-num-batched-tokens", "--max-batch-tokens"},
        {"--served-model-name", "--served-name"},
        {"--alias", "--served-name"},
        {"--lora-modules", "--lora"},
        {"--max-loras", "--max-adapters"},
        {"--max-lora-rank", "--max-adapter-rank"},
        {"--tensor-parallel-size", "--tp"},
        {"--pipeline-parallel-size", "--pp"},
        {"--ssl-certfile", "--tls-cert"},
        {"--ssl-keyfile", "--tls-key"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i][0]);
        if (strncmp(arg, names[i][0], n) != 0 || (arg[n] != '\0' && arg[n] != '='))
            continue;
        *theirs = names[i][0];
        return names[i][1];
    }
    return NULL;
}

bool ln_cli_refuse_peer_option(const struct argp *argp, int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *theirs, *own = own_name(argv[i], &theirs);
        if (own != NULL) {
            ln_cli_fail("there is no option %s; here it is called %s", theirs, own);
            return true;
        }
        i += takes_next(argp, argv[i]);
    }
    return false;
}
