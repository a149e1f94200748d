/* A model that is served, with its engine: set while no request has it, and read by handlers and
 * workers that do. */
#ifndef LN_SERVER_SERVED_MODEL_H
#define LN_SERVER_SERVED_MODEL_H

#include <linnet.h>
#include <stdbool.h>

#include "server/json/error.h"
#include "text/tokenizer/tokenizer.h"

typedef struct ln_served_model {
    const linnet_model *model;     /* borrowed, as is engine */
    linnet_engine *engine;         /* NULL: it is not loaded */
    const ln_tokenizer *tokenizer; /* the model's; NULL: none */
    linnet_model_info info;
    size_t ctx_tokens, max_seqs, max_adapters;
    bool has_gpu;     /* the engine's, as are ranks */
    bool has_ranks;   /* several */
    const char *name; /* to clients */
    char own_name[256];
    int64_t created_s; /* of the server */
} ln_served_model;

/* `name` is borrowed; NULL: the checkpoint's, without what a path or a shell would take apart. The
 * engine is NULL, or one by this plan. */
void ln_served_model_init(ln_served_model *served, const linnet_model *model, linnet_engine *engine,
                          const linnet_memory_plan *plan, const char *name);

/* The loaded adapter of this name; false: there is none. Any thread. */
bool ln_served_model_adapter(const ln_served_model *served, const char *name,
                             linnet_adapter *adapter);

/* Says that a server of this model alone has none of that name, nor such an adapter. */
void ln_served_model_miss(const ln_served_model *served, const char *name, ln_api_error *error);

#endif
