/* linnet plan: the memory that a model will take, from its headers alone. */
#include <argp.h>
#include <linnet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backend/registry.h"
#include "cli/commands.h"
#include "cli/hub/resolve.h"
#include "cli/load.h"
#include "cli/options.h"
#include "cli/output.h"

enum { KEY_JSON = LN_KEYS_COMMAND, KEY_BEAMS, KEY_GPU, KEY_DISK_RATE, KEY_SERVE };
enum { MAX_BEAMS = 64 };

typedef struct plan_args {
    const char *model;
    bool json;
    size_t n_beams;   /* 0: none */
    size_t disk_rate; /* bytes per second; 0: not known */
    linnet_engine_options engine;
} plan_args;

static const struct argp_option options[] = {
    {"beams", KEY_BEAMS, "N", 0, "As for `linnet run --beams N'", 1},
    {"disk-rate", KEY_DISK_RATE, "BYTES", 0,
     "Bytes per second that the disk gives, to say what --experts-from-disk is to give", 1},
    {"gpu", KEY_GPU, NULL, 0, "As `--backend=cuda'", 1},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object, or one for each rank, sizes in bytes", 1},
    {"serve", KEY_SERVE, NULL, 0, "As for `linnet serve', which chooses sizes that are not given",
     1},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    plan_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->engine;
        state->child_inputs[1] = &args->model;
        break;
    case KEY_BEAMS: args->n_beams = ln_cli_parse_count(state, "--beams", arg, 1, MAX_BEAMS); break;
    case KEY_DISK_RATE:
        args->disk_rate = ln_cli_parse_bytes(state, "--disk-rate", arg, 1, INT64_MAX);
        break;
    case KEY_GPU: args->engine.backend = "cuda"; break;
    case KEY_JSON: args->json = true; break;
    case KEY_SERVE: args->engine.serves = true; break;
    case ARGP_KEY_ARG: ln_cli_take_argument(state, &args->model, arg); break;
    case ARGP_KEY_END:
        if (!args->model)
            argp_error(state, "MODEL is missing");
        if (args->disk_rate > 0 && args->engine.experts_from_disk == 0)
            argp_error(state, "--disk-rate says what --experts-from-disk gives, which is missing");
        if (args->engine.max_seqs < args->n_beams) /* a beam is a sequence */
            args->engine.max_seqs = args->n_beams;
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp plan_argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .doc = "Prints how much memory a model will take with these options, arena by arena. Reads "
           "headers, and of tensors a sample of an output that config.json calls tied; "
           "`linnet run' with the same options reserves just these bytes.",
    .children = ln_cli_engine_children,
};

/* What lies in an arena. */
static const char *explain(const char *arena) {
    static const struct {
        const char *arena, *what;
    } all[] = {
        {"weights", "copies of matrices as the kernels read them, and vectors"},
        {"tables", "where each weight lies"},
        {"kv", "keys and values of the tokens in all contexts"},
        {"swap", "keys and values that gave way to others"},
        {"blocks", "which sequence has which part of kv"},
        {"activations", "what the layers hand on in a step, and logits"},
        {"scratch", "working memory of the threads that compute"},
        {"batch", "tokens and positions of a step"},
        {"sampler", "candidates for the next tokens"},
        {"grammar", "which tokens structured output allows"},
        {"heads", "what vectors of texts go through, and room for one"},
        {"draft", "the draft model, all of it; or the weights of a head that drafts"},
        {"cpu layers", "what the CPU runs beside a GPU: layers or experts, and their rows"},
        {"engine", "queues and the operations of a step"},
        {"tokenizer", "vocabulary and merges"},
        {"headers", "names, shapes and metadata of the files"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].arena, arena) == 0)
            return all[i].what;
    return "";
}

static void print_row(const char *name, size_t bytes, const char *what) {
    printf("%-22s %16zu %12s%s%s\n", name, bytes, ln_cli_size_text(bytes).text,
           *what != '\0' ? "  " : "", what);
}

/* Experts that are read when they are chosen, and what a token waits for at worst. */
static void print_disk_experts(const linnet_memory_plan *plan, size_t disk_rate) {
    size_t bytes = plan->disk_token_bytes;
    printf("%-22s %16zu %12s  of %zu%s\n", "experts in memory", plan->cached_experts, "",
           plan->disk_experts,
           plan->cached_experts < plan->disk_experts ? ", the others stay in the files" : "");
    print_row("read for a token", bytes, "at worst, when none of its experts is in memory");
    if (disk_rate > 0 && bytes > 0)
        printf("%-22s %16.1f %12s  at worst, of one sequence, as fast as the disk gives it\n",
               "tokens per second", (double)disk_rate / (double)bytes, "");
}

static void print_plan(const linnet_memory_plan *plan, size_t disk_rate) {
    printf("context %zu tokens; sequences in a step %zu, tokens %zu; threads %zu\n",
           plan->ctx_tokens, plan->max_seqs, plan->max_batch_tokens, plan->n_threads);
    if (plan->kv_tokens < plan->ctx_tokens * plan->max_seqs)
        printf("KV cache %zu tokens\n", plan->kv_tokens);
    putchar('\n');
    printf("%-22s %16s\n", "reserved", "bytes");
    for (size_t i = 0; i < plan->n_arenas && i < LINNET_MAX_ARENAS; i++)
        if (plan->arenas[i].bytes > 0)
            print_row(plan->arenas[i].name, plan->arenas[i].bytes, explain(plan->arenas[i].name));
    print_row("total", plan->total_bytes, "");
    if (plan->device_bytes > 0)
        print_row("of these on the GPU", plan->device_bytes, "");
    if (plan->gpu_layers > 0)
        printf("%-22s %16zu\n", "layers on the GPU", plan->gpu_layers);
    if (plan->cpu_experts > 0)
        printf("%-22s %16zu %12s  %s\n", "experts on the CPU", plan->cpu_experts, "layers",
               "the CPU reads the experts that tokens choose in each of them");
    if (plan->disk_experts > 0)
        print_disk_experts(plan, disk_rate);
    if (plan->draft_tokens > 0)
        printf("%-22s %s\n", "drafts", ln_cli_drafts_text(plan).text);
    putchar('\n');
    print_row("mapped from files", plan->mapped_bytes, "weights that are used where they lie");
    print_row("libraries (estimate)", plan->libraries_bytes, "and stacks of threads");
}

/* Warns when a backend has less free memory than is to be reserved of it, or mapped. */
static void check_memory(const linnet_memory_plan *plan, const char *backend_name, size_t bytes) {
    const ln_backend_options how = {.isa = "auto", .n_threads = 1};
    ln_backend *backend;
    if (bytes == 0 || ln_backend_create(backend_name, &how, &backend, NULL) != LINNET_OK)
        return;
    size_t available = backend->vtable->available_bytes(backend);
    if (bytes > available)
        ln_cli_warn("with a context of %zu tokens the model does not fit the %smemory: it needs "
                    "%s, and %s are free",
                    plan->ctx_tokens, backend->vtable->on_device ? "GPU's " : "",
                    ln_cli_size_text(bytes).text, ln_cli_size_text(available).text);
    backend->vtable->destroy(backend);
}

static int print(const linnet_model *model, const linnet_memory_plan *plan, size_t disk_rate,
                 bool as_json) {
    ln_cli_check_ctx(model, plan->ctx_tokens);
    check_memory(plan, "cpu", plan->total_bytes - plan->device_bytes + plan->mapped_bytes);
    check_memory(plan, "cuda", plan->device_bytes);
    if (as_json)
        return ln_cli_print_memory(stdout, plan);
    print_plan(plan, disk_rate);
    return 0;
}

/* What each of several ranks takes, in the context that rank 0 chooses; the first plan is its. */
static int print_ranks(const linnet_model *model, linnet_engine_options how,
                       linnet_memory_plan *plan, bool as_json) {
    linnet_error err = {0};
    int status = print(model, plan, 0, as_json);
    if (!as_json)
        printf("\n%-22s %16s %16s\n", "ranks", "reserved", "mapped");
    const size_t n_ranks = plan->n_ranks;
    how.ctx_tokens = plan->ctx_tokens;
    for (; how.rank < n_ranks && status == 0; how.rank++) {
        if (linnet_plan_memory(model, &how, plan, &err) != LINNET_OK)
            return ln_cli_fail_with(&err);
        if (!as_json)
            printf("rank %-17zu %16zu %16zu\n", how.rank, plan->total_bytes, plan->mapped_bytes);
        else if (how.rank > 0)
            status = ln_cli_print_memory(stdout, plan);
    }
    if (!as_json)
        printf("\neach rank sends %zu bytes for a token of a step, and its part of the logits\n",
               plan->rank_token_bytes);
    return status;
}

int ln_cli_plan(int argc, char **argv) {
    plan_args args = {0};
    linnet_engine_options_init(&args.engine);
    if (ln_cli_parse(&plan_argp, argc, argv, &args) != 0)
        return LN_EXIT_USAGE;

    linnet_model *model = NULL;
    linnet_error err = {0};
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    int status = 0;
    if (ln_cli_open_model(args.model, &model, &err) != LINNET_OK ||
        linnet_plan_memory(model, &args.engine, &plan, &err) != LINNET_OK)
        status = ln_cli_fail_with(&err);
    else if (plan.n_ranks > 1)
        status = print_ranks(model, args.engine, &plan, args.json);
    else
        status = print(model, &plan, args.disk_rate, args.json);
    linnet_model_close(model);
    return status;
}
