#include "server/api/model_of.h"

#include "server/api/query.h"
#include "server/json/reply.h"

const ln_served_model *ln_model_of(const ln_context *context, ln_exchange *exchange) {
    const ln_registry *registry = &context->registry;
    const ln_model_entry *entry = ln_registry_latest(registry);
    ln_api_error error = {0};
    char part[512] = "";
    ln_query_value asked = ln_query_get(exchange->query, "model", part, sizeof part);
    if (asked != LN_QUERY_ABSENT) {
        entry = NULL;
        for (size_t i = 0; i < registry->n_entries && asked == LN_QUERY_GIVEN; i++)
            if (!registry->entries[i].is_gone &&
                ln_query_is(part, registry->entries[i].served.name))
                entry = &registry->entries[i];
        if (entry == NULL)
            ln_api_fail(&error, 404, "model", "there is no model '%.128s'", part);
    }
    if (entry != NULL && entry->served.model != NULL)
        return &entry->served;
    ln_api_fail(&error, 503, "model", "the model is not loaded; POST /models/load loads it");
    ln_reply_error(exchange, &error);
    return NULL;
}
