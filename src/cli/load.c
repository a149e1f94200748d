#include "cli/load.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/registry.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/hub/resolve.h"
#include "cli/output.h"
#include "engine/engine.h"
#include "engine/plan/options.h"

void ln_cli_check_ctx(const linnet_model *model, size_t ctx_tokens) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    if (info.ctx_tokens > 0 && ctx_tokens > (size_t)info.ctx_tokens)
        ln_cli_warn("the context is %zu tokens, but the model was made for %lld; what it says "
                    "behind these may make no sense",
                    ctx_tokens, (long long)info.ctx_tokens);
}

void ln_cli_check_gpu(const linnet_engine_options *options) {
    linnet_error err = {0};
    bool is_auto = options->backend == NULL || strcmp(options->backend, "auto") == 0;
    if (is_auto && options->gpu_layers != 0 && ln_backend_lacks_cuda(&err))
        ln_cli_warn("the GPU is not used: %s", err.message);
}

typedef struct load_bar {
    uint64_t begin_ns;
    int shown; /* percent; -1: nothing yet */
} load_bar;

static void draw_bar(void *user, size_t ready_bytes, size_t total_bytes) {
    enum { WIDTH = 40, PATIENCE_NS = 300000000 };
    static const char full[] = "########################################";
    load_bar *bar = user;
    int percent = total_bytes > 0 ? (int)((double)ready_bytes * 100 / (double)total_bytes) : 100;
    if (percent == bar->shown || ln_clock_ns() - bar->begin_ns < PATIENCE_NS)
        return;
    bar->shown = percent;
    fprintf(stderr, "\rloading   [%-*.*s] %3d%%", WIDTH, percent * WIDTH / 100, full, percent);
    if (percent > 0 && percent < 100) {
        double s = (double)(ln_clock_ns() - bar->begin_ns) / 1e9 * (100 - percent) / percent;
        fprintf(stderr, "  %d:%02d left\033[K", (int)s / 60, (int)s % 60);
    }
}

/* Says that --quantize-on-load left matrices as they are. */
static void tell_quantized(const linnet_engine *engine, const char *type) {
    const ln_weights *weights = &engine->weights;
    if (type && weights->n_quantized < weights->n_matrices)
        ln_cli_warn("--quantize-on-load %s: %zu of %zu matrices stay as they are: quantised "
                    "already, stored transposed, or of a width that its blocks do not divide",
                    type, weights->n_matrices - weights->n_quantized, weights->n_matrices);
}

linnet_status ln_cli_open_model(const char *path, linnet_model **model, linnet_error *err) {
    linnet_status status = ln_cli_resolve_model(&path, err);
    return status == LINNET_OK ? linnet_model_open(path, model, err) : status;
}

linnet_status ln_cli_check_writes(const char *path, const linnet_model_info *info,
                                  linnet_error *err) {
    if (!info->embeds_only)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s makes vectors alone, which `linnet embed' prints", path);
}

linnet_status ln_cli_open_decoder(const char *command, const char *path, linnet_model **model,
                                  linnet_error *err) {
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_status status = ln_cli_open_model(path, model, err);
    if (status != LINNET_OK)
        return status;
    linnet_model_get_info(*model, &info);
    LN_TRY(ln_cli_check_writes(path, &info, err));
    if (!info.has_encoder)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s has an encoder: %s needs a model that only decodes", path, command);
}

/* Another rank than 0 has nothing to do but to follow that one; it tells when to end. */
static void follow(linnet_engine *engine) {
    linnet_error err = {0};
    bool follows;
    if (engine->ranks.rank == 0)
        return;
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    linnet_status status = linnet_engine_follow(engine, &follows, &err);
    int code = status == LINNET_OK ? 0 : ln_cli_fail_with(&err);
    linnet_engine_destroy(engine);
    exit(code);
}

bool ln_cli_has_ranks(const linnet_engine_options *options) {
    const ln_mesh mesh = ln_engine_plan_mesh(options);
    return ln_mesh_count(&mesh) > 1;
}

/* Whoever starts several with mpirun wants them to be ranks of one; the first of them says it. */
static void check_launcher(const linnet_engine_options *options) {
    const char *count = getenv("OMPI_COMM_WORLD_SIZE"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (count != NULL && rank != NULL && strtol(count, NULL, 10) > 1 && strcmp(rank, "0") == 0 &&
        !ln_cli_has_ranks(options))
        ln_cli_warn("mpirun has started this %ld times, each with the whole model; --tp N, --pp N "
                    "or --ep N divides one among them",
                    strtol(count, NULL, 10));
}

linnet_status ln_cli_create_engine(const linnet_model *model, const linnet_engine_options *options,
                                   bool quiet, linnet_engine **engine, linnet_error *err) {
    linnet_engine_options own = *options;
    load_bar bar = {.begin_ns = ln_clock_ns(), .shown = -1};
    if (!quiet) {
        ln_cli_check_gpu(options);
        check_launcher(options);
    }
    if (!quiet && ln_cli_is_terminal(STDERR_FILENO)) {
        own.on_load = draw_bar;
        own.load_user = &bar;
    }
    LN_TRY(ln_cli_resolve_model(&own.draft_model, err));
    linnet_status status = linnet_engine_create(model, &own, engine, err);
    if (bar.shown >= 0)
        fputs("\r\033[K", stderr);
    if (status == LINNET_OK)
        follow(*engine);
    if (status == LINNET_OK && !quiet) {
        linnet_memory_plan memory = {.struct_bytes = sizeof memory};
        linnet_engine_get_memory(*engine, &memory);
        ln_cli_check_ctx(model, memory.ctx_tokens);
        if (own.gpu_layers > 0 && memory.gpu_layers == 0)
            ln_cli_warn("no GPU can be used, so --gpu-layers %d changes nothing; `linnet doctor' "
                        "says what there is",
                        (int)own.gpu_layers);
        if (own.cpu_experts > 0 && memory.cpu_experts == 0 && memory.device_bytes == 0)
            ln_cli_warn("no GPU is used, so --cpu-experts changes nothing: the CPU computes all");
        tell_quantized(*engine, own.quantize_on_load);
    }
    return status;
}
