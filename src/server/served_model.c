#include "server/served_model.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "model/model.h"

static void choose_name(ln_served_model *served) {
    snprintf(served->own_name, sizeof served->own_name, "%s", served->info.name);
    for (char *c = served->own_name; *c != '\0'; c++)
        if (strchr(" \t\"'%?#&\\<>", *c) != NULL || (unsigned char)*c < ' ')
            *c = '-';
    served->name = served->own_name;
}

void ln_served_model_init(ln_served_model *served, const linnet_model *model, linnet_engine *engine,
                          const linnet_memory_plan *plan, const char *name) {
    *served = (ln_served_model){.model = model,
                                .engine = engine,
                                .tokenizer = model->tokenizer,
                                .info = {.struct_bytes = sizeof served->info},
                                .ctx_tokens = plan->ctx_tokens,
                                .max_seqs = plan->max_seqs,
                                .max_adapters = engine != NULL ? engine->plan.n_adapters : 0,
                                .has_gpu = plan->device_bytes > 0,
                                .has_ranks = plan->n_ranks > 1,
                                .name = name};
    linnet_model_get_info(model, &served->info);
    if (name == NULL)
        choose_name(served);
}

bool ln_served_model_adapter(const ln_served_model *served, const char *name,
                             linnet_adapter *adapter) {
    *adapter = (linnet_adapter){.struct_bytes = sizeof *adapter};
    if (served->engine == NULL)
        return false;
    for (size_t i = 0; linnet_engine_get_adapter(served->engine, i, adapter); i++)
        if (strcmp(adapter->name, name) == 0)
            return true;
    return false;
}

void ln_served_model_miss(const ln_served_model *served, const char *name, ln_api_error *error) {
    ln_api_fail(error, 404, "model", "there is no model '%.128s'; this server has '%.128s'%s", name,
                served->name,
                served->max_adapters > 0 ? " and the adapters that GET /v1/models lists" : "");
    error->code = "model_not_found";
}
