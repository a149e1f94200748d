#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/error.h"
#include "base/locale/number.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/peer_options.h"

/* ---- a command's arguments -------------------------------------------------------------- */

static error_t parse_help(int key, char *arg, struct argp_state *state) {
    (void)arg;
    if (key != 'h')
        return ARGP_ERR_UNKNOWN;
    argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
    return 0;
}

error_t ln_cli_parse_json(int key, char *arg, struct argp_state *state) {
    bool *json = state->input;
    switch (key) {
    case LN_KEYS_COMMAND: *json = true; return 0;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

error_t ln_cli_parse(const struct argp *argp, int argc, char **argv, void *input) {
    enum { MAX_CHILDREN = 8 };
    static const struct argp_option help_options[] = {{NULL, 'h', NULL, OPTION_HIDDEN, "", 0}, {0}};
    static const struct argp help_argp = {.options = help_options, .parser = parse_help};
    struct argp_child children[MAX_CHILDREN + 2] = {{0}};
    struct argp whole = *argp;
    size_t n = 0;
    for (; argp->children && argp->children[n].argp && n < MAX_CHILDREN; n++)
        children[n] = argp->children[n];
    children[n] = (struct argp_child){&help_argp, 0, NULL, -1};
    whole.children = children;
    if (ln_cli_refuse_peer_option(&whole, argc, argv))
        exit(LN_EXIT_USAGE); /* as argp does where an option is unknown */
    error_t error = argp_parse(&whole, argc, argv, 0, NULL, input);
    if (error == ENOMEM) /* what else is wrong, it has said, and ended the program */
        ln_cli_fail("out of memory");
    return error;
}

uint64_t ln_cli_parse_count(const struct argp_state *state, const char *option, const char *text,
                            uint64_t min, uint64_t max) {
    uint64_t value = 0;
    bool valid = *text != '\0';
    for (const char *digit = text; *digit && valid; digit++)
        valid = *digit >= '0' && *digit <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
                !__builtin_add_overflow(value, (uint64_t)(*digit - '0'), &value);
    if (!valid || value < min || value > max)
        argp_error(state, "%s: '%s' is not a whole number from %llu to %llu", option, text,
                   (unsigned long long)min, (unsigned long long)max);
    return value;
}

uint64_t ln_cli_parse_bytes(const struct argp_state *state, const char *option, const char *text,
                            uint64_t min, uint64_t max) {
    static const char units[] = "KMGT";
    if (*text != '\0' && text[strspn(text, "0123456789")] == '\0')
        return ln_cli_parse_count(state, option, text, min, max);
    char *end;
    double number = ln_strtod(text, &end);
    const char *unit = *end >= 'A' ? strchr(units, *end & ~0x20) : NULL;
    if (unit != NULL) {
        number *= (double)(1ull << 10 * (unit - units + 1));
        end++;
        if ((*end & ~0x20) == 'B')
            end++;
    }
    bool is_number = (*text >= '0' && *text <= '9') || *text == '.';
    if (!is_number || unit == NULL || *end != '\0')
        argp_error(state, "%s: '%s' is not a number of bytes, such as 800M or 24G", option, text);
    if (!(number >= (double)min && number <= (double)max && (uint64_t)number <= max))
        argp_error(state, "%s: %s is not from %llu to %llu bytes", option, text,
                   (unsigned long long)min, (unsigned long long)max);
    return (uint64_t)number;
}

double ln_cli_parse_number(const struct argp_state *state, const char *option, const char *text,
                           double min, double max) {
    char *end = NULL;
    bool plain = *text != '\0' && strspn(text, "+-.0123456789eE") == strlen(text);
    double value = plain ? ln_strtod(text, &end) : NAN;
    if (!plain || *end != '\0' || !(value >= min && value <= max))
        argp_error(state, "%s: '%s' is not a number from %g to %g", option, text, min, max);
    return value;
}

void ln_cli_parse_ids(const struct argp_state *state, const char *text, bool allow_none,
                      ln_cli_ids *ids) {
    ln_cli_refuse_twice(state, "--ids", ids->ids != NULL);
    size_t count = 1;
    for (const char *c = text; *c; c++)
        count += *c == ',';
    ids->ids = calloc(count, sizeof *ids->ids);
    char *copy = strdup(text);
    if (!ids->ids || !copy) {
        free(copy);
        argp_failure(state, LN_EXIT_FAILURE, 0, "out of memory");
        return; /* not reached */
    }
    bool is_none = allow_none && *text == '\0';
    char *rest = copy;
    for (char *item = is_none ? NULL : strsep(&rest, ","); item; item = strsep(&rest, ","))
        ids->ids[ids->count++] = (int32_t)ln_cli_parse_count(state, "--ids", item, 0, INT32_MAX);
    free(copy);
}

void ln_cli_refuse_twice(const struct argp_state *state, const char *option, bool given) {
    if (given)
        argp_error(state, "%s is given twice", option);
}

void ln_cli_take_argument(const struct argp_state *state, const char **slot, const char *arg) {
    if (*slot)
        argp_error(state, "unexpected argument '%s'", arg);
    *slot = arg;
}

/* One of several words, as its index. */
static int parse_choice(const struct argp_state *state, const char *option, const char *text,
                        const char *const *choices, int n_choices) {
    char list[128] = "";
    for (int i = 0; i < n_choices; i++) {
        if (strcmp(text, choices[i]) == 0)
            return i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s",
                 i == 0 ? "" : (i + 1 == n_choices ? " or " : ", "), choices[i]);
    }
    argp_error(state, "%s: '%s' is not %s", option, text, list);
    return 0;
}

/* ---- engine ----------------------------------------------------------------------------- */

enum {
    KEY_PRECISION = LN_KEYS_ENGINE,
    KEY_BACKEND,
    KEY_CPU,
    KEY_KV_TYPE,
    KEY_MAX_SEQS,
    KEY_MAX_BATCH_TOKENS,
    KEY_QUANTIZE_ON_LOAD,
    KEY_DRAFT,
    KEY_DRAFT_TOKENS,
    KEY_DRAFT_MODEL,
    KEY_KV_TOKENS,
    KEY_PREFIX_CACHE,
    KEY_SWAP_BYTES,
    KEY_PREEMPTION,
    KEY_POLICY,
    KEY_ORDER,
    KEY_MAX_LONG_PREFILLS,
    KEY_LONG_PREFILL_TOKENS,
    KEY_PIN,
    KEY_GPU_LAYERS,
    KEY_BATCH_INVARIANT,
    KEY_MAX_ADAPTERS,
    KEY_MAX_ADAPTER_RANK,
    KEY_ADAPT_EXPERTS,
    KEY_TP,
    KEY_COLLECTIVES,
    KEY_CPU_EXPERTS,
    KEY_EXPERTS_FROM_DISK,
    KEY_PP,
    KEY_EP,
    KEY_CTX = 'c', /* as llama.cpp has them */
    KEY_THREADS = 't'
};

/* Those that few people need are hidden from --help. */
enum { RARE = OPTION_HIDDEN };

static const struct argp_option engine_options[] = {
    {"backend", KEY_BACKEND, "auto|cpu|cuda", 0,
     "What computes (auto: a GPU where one can be used)", 0},
    {"gpu-layers", KEY_GPU_LAYERS, "N", 0,
     "Layers on the GPU, the last ones; the CPU runs the others (all that fit)", 0},
    {"cpu-experts", KEY_CPU_EXPERTS, "N|all|auto", 0,
     "Layers, the first ones, whose experts the CPU computes while a GPU has all else (0); auto: "
     "as "
     "few as make the rest fit",
     0},
    {"experts-from-disk", KEY_EXPERTS_FROM_DISK, "BYTES", OPTION_ARG_OPTIONAL,
     "Read the CPU's experts from the model's files when tokens choose them, and keep those used "
     "last in so many bytes of memory, such as 24G (what is free)",
     0},
    {"ctx", KEY_CTX, "N", 0,
     "Longest sequence in tokens (what the model was made for, if the memory allows)", 0},
    {"kv-type", KEY_KV_TYPE, "f32|f16|bf16|q8_0|fp8", 0,
     "Type of the KV cache (f16 when fast, f32 when exact)", 0},
    {"quantize-on-load", KEY_QUANTIZE_ON_LOAD, "TYPE", 0,
     "Quantise matrices of float types while they load: q4_0, q8_0, q4_k ..., int8, fp8 or int4",
     0},
    {"precision", KEY_PRECISION, "exact|fast", 0,
     "exact: float32 throughout; fast: the types that each kernel likes (fast)", 0},
    {"threads", KEY_THREADS, "N", 0, "Threads that compute (one per processor)", 0},
    {"max-seqs", KEY_MAX_SEQS, "N", 0, "Sequences in one step (1; serve: what suits the memory)",
     0},
    {"cpu", KEY_CPU, "NAME", RARE,
     "Instruction set of the CPU backend: auto, scalar, avx2, avx512, avx512-vnni, avx512-bf16, "
     "amx, neon, neon-dotprod or neon-i8mm",
     0},
    {"pin", KEY_PIN, NULL, RARE, "Keep each thread that computes on one processor", 0},
    {"batch-invariant", KEY_BATCH_INVARIANT, "on|off", RARE,
     "The same answer bit for bit whatever else runs; off: a GPU, which holds bf16 and f16 weights "
     "twice then, multiplies them faster in steps of 256 rows and more (on)",
     0},
    {"max-batch-tokens", KEY_MAX_BATCH_TOKENS, "N", RARE,
     "Tokens in one step (512; on a GPU serve: up to 4096, models of vectors: up to 32768)", 0},
    {"kv-tokens", KEY_KV_TOKENS, "N", RARE,
     "Tokens that the KV cache holds (sequences in a step times the longest; serve: what suits "
     "the memory)",
     0},
    {"prefix-cache", KEY_PREFIX_CACHE, "on|off", RARE,
     "Keep the KV cache of what has ended for what begins alike (on)", 0},
    {"swap-bytes", KEY_SWAP_BYTES, "BYTES", RARE,
     "Memory for KV blocks that give way to others, such as 4G (0)", 0},
    {"preemption", KEY_PREEMPTION, "auto|swap|recompute", RARE,
     "What becomes of KV blocks that give way (auto: what costs less time)", 0},
    {"policy", KEY_POLICY, "chunked|prefill-first", RARE,
     "What a step does first: go on with what is generated, or read prompts (chunked)", 0},
    {"order", KEY_ORDER, "fcfs|priority", RARE, "Which request goes first (fcfs: who came first)",
     0},
    {"max-long-prefills", KEY_MAX_LONG_PREFILLS, "N", RARE,
     "Long prompts that are read at once; 0: any number (0)", 0},
    {"long-prefill-tokens", KEY_LONG_PREFILL_TOKENS, "N", RARE,
     "Tokens beyond which a prompt is long (1024)", 0},
    {"tp", KEY_TP, "N", RARE,
     "Divide the model among N ranks, as which `mpirun -n N linnet ...' has started this one (1)",
     0},
    {"ep", KEY_EP, "N", RARE,
     "Divide whole experts among N times as many ranks as --tp says, which repeat attention (1)",
     0},
    {"pp", KEY_PP, "N", RARE,
     "Divide the layers among N stages, of as many ranks each as --tp says (1)", 0},
    {"collectives", KEY_COLLECTIVES, "auto|nccl", RARE,
     "What carries activations between the GPUs of ranks (auto: their own memory where they reach "
     "each other's, else NCCL)",
     0},
    {"draft", KEY_DRAFT, "auto|none|mtp|eagle|dflash|ngram|model", RARE,
     "Who guesses tokens that are then checked in one step, with the same output: the checkpoint's "
     "head for multi-token prediction or an assistant in --draft-model, an EAGLE-3 head, a "
     "DFlash drafter or a smaller model there, or what came after the last tokens before (auto: "
     "the head, if there is "
     "one, where it pays)",
     0},
    {"draft-tokens", KEY_DRAFT_TOKENS, "N", RARE,
     "Guess up to N tokens of a sequence (none; 4 with --draft-model, a block with a DFlash "
     "drafter; "
     "as many as pay with a head)",
     0},
    {"draft-model", KEY_DRAFT_MODEL, "MODEL", RARE,
     "A smaller model with the same vocabulary, an EAGLE-3 head, an assistant or a DFlash drafter, "
     "that guesses (what came after the last tokens before)",
     0},
    {"max-adapters", KEY_MAX_ADAPTERS, "N", RARE,
     "Adapters that can be loaded at a time (none; as many as --lora loads)", 0},
    {"max-adapter-rank", KEY_MAX_ADAPTER_RANK, "N", RARE,
     "The greatest rank that an adapter may have, up to 256 (16; what those of --lora have)", 0},
    {"adapt-experts", KEY_ADAPT_EXPERTS, NULL, RARE,
     "Let adapters change experts, too; memory for as many matrices is reserved for each", 0},
    {0}};

void ln_cli_print_engine_help(FILE *stream) {
    enum { N_OPTIONS = sizeof engine_options / sizeof *engine_options };
    struct argp_option all[N_OPTIONS];
    char name[] = "linnet";
    for (size_t i = 0; i < N_OPTIONS; i++) {
        all[i] = engine_options[i];
        all[i].flags &= ~RARE;
        all[i].group = i < N_OPTIONS - 1 ? 1 : 0;
    }
    const struct argp argp = {
        .options = all,
        .doc = "Options of the engine, the same for run, chat, serve, plan, bench, logits, embed "
               "and eval (what holds without them):",
    };
    argp_help(&argp, stream, ARGP_HELP_PRE_DOC | ARGP_HELP_LONG, name);
}

enum { MAX_SEQS = 65536 };

/* Options that are a count: a size_t of linnet_engine_options each. */
static const struct engine_count {
    int key;
    const char *name;
    size_t offset;
    uint64_t min, max;
} engine_counts[] = {
    {KEY_CTX, "--ctx", offsetof(linnet_engine_options, ctx_tokens), 1, INT32_MAX},
    {KEY_MAX_SEQS, "--max-seqs", offsetof(linnet_engine_options, max_seqs), 1, MAX_SEQS},
    {KEY_MAX_BATCH_TOKENS, "--max-batch-tokens", offsetof(linnet_engine_options, max_batch_tokens),
     1, INT32_MAX},
    {KEY_TP, "--tp", offsetof(linnet_engine_options, n_ranks), 1, 1024},
    {KEY_EP, "--ep", offsetof(linnet_engine_options, n_expert_ranks), 1, 1024},
    {KEY_PP, "--pp", offsetof(linnet_engine_options, n_stages), 1, 1024},
    {KEY_THREADS, "--threads", offsetof(linnet_engine_options, n_threads), 1, 1024},
    {KEY_DRAFT_TOKENS, "--draft-tokens", offsetof(linnet_engine_options, draft_tokens), 0, 64},
    {KEY_KV_TOKENS, "--kv-tokens", offsetof(linnet_engine_options, kv_tokens), 1, INT32_MAX},
    {KEY_EXPERTS_FROM_DISK, "--experts-from-disk",
     offsetof(linnet_engine_options, experts_from_disk), 1, INT64_MAX},
    {KEY_SWAP_BYTES, "--swap-bytes", offsetof(linnet_engine_options, swap_bytes), 0, INT64_MAX},
    {KEY_MAX_LONG_PREFILLS, "--max-long-prefills",
     offsetof(linnet_engine_options, max_long_prefills), 0, MAX_SEQS},
    {KEY_LONG_PREFILL_TOKENS, "--long-prefill-tokens",
     offsetof(linnet_engine_options, long_prefill_tokens), 0, INT32_MAX},
    {KEY_MAX_ADAPTERS, "--max-adapters", offsetof(linnet_engine_options, max_adapters), 0, 1024},
    {KEY_MAX_ADAPTER_RANK, "--max-adapter-rank", offsetof(linnet_engine_options, max_adapter_rank),
     1, 256},
};

static error_t parse_engine_count(int key, const char *arg, struct argp_state *state) {
    if (key == KEY_EXPERTS_FROM_DISK && arg == NULL) {
        ((linnet_engine_options *)state->input)->experts_from_disk = SIZE_MAX;
        return 0;
    }
    for (size_t i = 0; i < sizeof engine_counts / sizeof *engine_counts; i++) {
        const struct engine_count *count = &engine_counts[i];
        if (count->key != key)
            continue;
        size_t *value = (size_t *)(void *)((char *)state->input + count->offset);
        *value = key == KEY_EXPERTS_FROM_DISK || key == KEY_SWAP_BYTES
                     ? ln_cli_parse_bytes(state, count->name, arg, count->min, count->max)
                     : ln_cli_parse_count(state, count->name, arg, count->min, count->max);
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static int32_t parse_cpu_experts(const struct argp_state *state, const char *arg) {
    if (strcmp(arg, "auto") == 0)
        return -1;
    if (strcmp(arg, "all") == 0)
        return INT32_MAX;
    return (int32_t)ln_cli_parse_count(state, "--cpu-experts", arg, 0, INT32_MAX);
}

static linnet_kv_type parse_kv_type(struct argp_state *state, const char *arg) {
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0", "fp8"};
    const char *name = strcmp(arg, "q8") == 0 ? "q8_0" : arg;
    return (linnet_kv_type)(LINNET_KV_F32 + parse_choice(state, "--kv-type", name, types, 5));
}

static error_t parse_engine(int key, char *arg, struct argp_state *state) {
    static const char *const precisions[] = {"fast", "exact"};
    static const char *const switches[] = {"off", "on"};
    static const char *const preemptions[] = {"auto", "swap", "recompute"};
    static const char *const policies[] = {"chunked", "prefill-first"};
    static const char *const orders[] = {"fcfs", "priority"};
    static const char *const drafters[] = {"auto",   "none",  "mtp",  "eagle",
                                           "dflash", "ngram", "model"};
    static const char *const collectives[] = {"auto", "nccl"};
    linnet_engine_options *options = state->input;
    switch (key) {
    case KEY_PRECISION:
        options->precision = parse_choice(state, "--precision", arg, precisions, 2)
                                 ? LINNET_PRECISION_EXACT
                                 : LINNET_PRECISION_FAST;
        return 0;
    case KEY_BACKEND: options->backend = arg; return 0;
    case KEY_CPU: options->cpu = arg; return 0;
    case KEY_GPU_LAYERS:
        options->gpu_layers = (int32_t)ln_cli_parse_count(state, "--gpu-layers", arg, 0, INT32_MAX);
        return 0;
    case KEY_CPU_EXPERTS: options->cpu_experts = parse_cpu_experts(state, arg); return 0;
    case KEY_KV_TYPE: options->kv_type = parse_kv_type(state, arg); return 0;
    case KEY_PIN: options->pin_threads = true; return 0;
    case KEY_ADAPT_EXPERTS: options->adapt_experts = true; return 0;
    case KEY_QUANTIZE_ON_LOAD: options->quantize_on_load = arg; return 0;
    case KEY_DRAFT:
        options->draft = drafters[parse_choice(state, "--draft", arg, drafters, 7)];
        return 0;
    case KEY_DRAFT_MODEL: options->draft_model = arg; return 0;
    case KEY_PREFIX_CACHE:
        options->prefix_cache = parse_choice(state, "--prefix-cache", arg, switches, 2) == 1;
        return 0;
    case KEY_BATCH_INVARIANT:
        options->batch_invariant = parse_choice(state, "--batch-invariant", arg, switches, 2) == 1;
        return 0;
    case KEY_PREEMPTION:
        options->preemption =
            (linnet_preemption)parse_choice(state, "--preemption", arg, preemptions, 3);
        return 0;
    case KEY_POLICY:
        options->policy = (linnet_policy)parse_choice(state, "--policy", arg, policies, 2);
        return 0;
    case KEY_COLLECTIVES:
        options->collectives =
            (linnet_collectives)parse_choice(state, "--collectives", arg, collectives, 2);
        return 0;
    case KEY_ORDER:
        options->order = (linnet_order)parse_choice(state, "--order", arg, orders, 2);
        return 0;
    default: return parse_engine_count(key, arg, state);
    }
}

const struct argp ln_cli_engine_argp = {.options = engine_options, .parser = parse_engine};

/* ---- one option of the engine, from elsewhere than the command line ---------------------- */

/* Whether "--KEY" or "--KEY=VALUE" is an option that takes such a value. */
static linnet_status check_engine_option(const char *argument, linnet_error *err) {
    const char *key = argument + 2;
    size_t n = strcspn(key, "=");
    bool has_value = key[n] == '=';
    const struct argp_option *option = engine_options;
    while (option->name != NULL && (strncmp(option->name, key, n) != 0 || option->name[n] != '\0'))
        option++;
    if (option->name == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%.*s is no option of the engine", (int)n, key);
    if (has_value && option->arg == NULL)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s takes no value, only true", option->name);
    if (!has_value && option->arg != NULL && (option->flags & OPTION_ARG_OPTIONAL) == 0)
        return ln_fail(err, LINNET_ERR_ARGUMENT, "%s needs a value: %s", option->name, option->arg);
    return LINNET_OK;
}

typedef struct quiet_parse {
    linnet_engine_options *options;
    FILE *said; /* what the command line would tell its user */
} quiet_parse;

static error_t parse_quietly(int key, char *arg, struct argp_state *state) {
    const quiet_parse *quiet = state->input;
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = quiet->options;
    state->err_stream = quiet->said;
    return 0;
}

linnet_status ln_cli_set_engine_option(char *argument, linnet_engine_options *options,
                                       linnet_error *err) {
    static const struct argp_child children[] = {{&ln_cli_engine_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.parser = parse_quietly, .children = children};
    static char program[] = "linnet";
    char *argv[] = {program, argument, NULL}, *text = NULL;
    size_t n_bytes = 0;
    LN_TRY(check_engine_option(argument, err));
    quiet_parse quiet = {options, open_memstream(&text, &n_bytes)};
    if (quiet.said == NULL)
        return ln_fail_memory(err, "an option");
    error_t error = argp_parse(&argp, 2, argv, ARGP_NO_EXIT | ARGP_NO_HELP, NULL, &quiet);
    linnet_status status = LINNET_OK;
    if (fclose(quiet.said) != 0 || error == ENOMEM)
        status = ln_fail_memory(err, "an option");
    else if (error != 0 || n_bytes > 0) { /* "linnet: WHY", and where to look for help */
        const char *why = n_bytes > sizeof program ? text + sizeof program + 1 : argument;
        status = ln_fail(err, LINNET_ERR_ARGUMENT, "%.*s", (int)strcspn(why, "\n"), why);
    }
    free(text);
    return status;
}

/* ---- sampling --------------------------------------------------------------------------- */

enum {
    KEY_TEMP = LN_KEYS_SAMPLING,
    KEY_TOP_K,
    KEY_TOP_P,
    KEY_MIN_P,
    KEY_REPEAT_PENALTY,
    KEY_REPEAT_LAST_N,
    KEY_FREQUENCY_PENALTY,
    KEY_PRESENCE_PENALTY,
    KEY_SEED
};

static const struct argp_option sampling_options[] = {
    {"temp", KEY_TEMP, "T", 0, "Temperature; 0: the most likely token (0.8; bench: 0)", 0},
    {"temperature", 0, NULL, OPTION_ALIAS | RARE, NULL, 0},
    {"top-k", KEY_TOP_K, "N", 0, "Draw from the N most likely tokens; 0: off (40)", 0},
    {"top-p", KEY_TOP_P, "P", 0,
     "Draw from the most likely tokens that together reach probability P; 1: off (0.95)", 0},
    {"min-p", KEY_MIN_P, "P", 0,
     "Drop tokens less likely than P times the most likely one; 0: off (0)", 0},
    {"repeat-penalty", KEY_REPEAT_PENALTY, "F", 0,
     "Divide the logits of recent tokens by F; 1: off (1)", 0},
    {"repeat-last-n", KEY_REPEAT_LAST_N, "N", 0, "How many tokens the penalties look at (64)", 0},
    {"frequency-penalty", KEY_FREQUENCY_PENALTY, "F", 0,
     "Subtract F for each time that a recent token occurred (0)", 0},
    {"presence-penalty", KEY_PRESENCE_PENALTY, "F", 0,
     "Subtract F from the logits of recent tokens (0)", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of the random draws (random, and printed)", 0},
    {0}};

static uint64_t random_seed(void) {
    uint32_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed)
        return seed;
    return (uint64_t)time(NULL);
}

static error_t parse_sampling(int key, char *arg, struct argp_state *state) {
    linnet_sampling *sampling = state->input;
    switch (key) {
    case ARGP_KEY_INIT: {
        linnet_request_options defaults;
        linnet_request_options_init(&defaults);
        *sampling = defaults.sampling;
        sampling->seed = random_seed();
        return 0;
    }
    case KEY_TEMP:
        sampling->temperature = (float)ln_cli_parse_number(state, "--temp", arg, 0, 100);
        return 0;
    case KEY_TOP_K:
        sampling->top_k = (int32_t)ln_cli_parse_count(state, "--top-k", arg, 0, INT32_MAX);
        return 0;
    case KEY_TOP_P:
        sampling->top_p = (float)ln_cli_parse_number(state, "--top-p", arg, 0, 1);
        return 0;
    case KEY_MIN_P:
        sampling->min_p = (float)ln_cli_parse_number(state, "--min-p", arg, 0, 1);
        return 0;
    case KEY_REPEAT_PENALTY:
        sampling->repeat_penalty =
            (float)ln_cli_parse_number(state, "--repeat-penalty", arg, 0.01, 100);
        return 0;
    case KEY_REPEAT_LAST_N:
        sampling->repeat_last_n =
            (int32_t)ln_cli_parse_count(state, "--repeat-last-n", arg, 0, INT32_MAX);
        return 0;
    case KEY_FREQUENCY_PENALTY:
        sampling->frequency_penalty =
            (float)ln_cli_parse_number(state, "--frequency-penalty", arg, -100, 100);
        return 0;
    case KEY_PRESENCE_PENALTY:
        sampling->presence_penalty =
            (float)ln_cli_parse_number(state, "--presence-penalty", arg, -100, 100);
        return 0;
    case KEY_SEED:
        sampling->seed = ln_cli_parse_count(state, "--seed", arg, 0, UINT64_MAX);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp ln_cli_sampling_argp = {.options = sampling_options, .parser = parse_sampling};

void ln_cli_sampling_value(const linnet_sampling *sampling, const char *name, char *text,
                           size_t n_bytes) {
    const struct {
        int key;
        double value;
    } values[] = {
        {KEY_TEMP, (double)sampling->temperature},
        {KEY_TOP_K, sampling->top_k},
        {KEY_TOP_P, (double)sampling->top_p},
        {KEY_MIN_P, (double)sampling->min_p},
        {KEY_REPEAT_PENALTY, (double)sampling->repeat_penalty},
        {KEY_REPEAT_LAST_N, sampling->repeat_last_n},
        {KEY_FREQUENCY_PENALTY, (double)sampling->frequency_penalty},
        {KEY_PRESENCE_PENALTY, (double)sampling->presence_penalty},
    };
    const struct argp_option *option = sampling_options;
    while (option->name && strcmp(option->name, name) != 0)
        option++;
    *text = '\0';
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i].key == option->key)
            snprintf(text, n_bytes, "%.6g", values[i].value);
    if (option->key == KEY_SEED)
        snprintf(text, n_bytes, "%llu", (unsigned long long)sampling->seed);
}
