/* What the handlers of requests work with: the parts of the server, each of which says in its own
 * header who may use it from which thread. */
#ifndef LN_SERVER_CONTEXT_H
#define LN_SERVER_CONTEXT_H

#include "server/admission.h"
#include "server/health.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/models/registry.h"
#include "server/shutdown.h"
#include "server/worker_pool.h"

typedef struct ln_context {
    ln_registry registry;
    ln_admission admission;
    ln_worker_pool pool;
    ln_metrics metrics;
    ln_health health;
    ln_shutdown shutdown;
    const char *metrics_prefix;              /* of names in /metrics */
    const struct ln_kv_publisher *kv_events; /* kv_events/publisher.h; NULL: none */
    bool has_web_page;
    json_t *template_variables; /* of chat templates, owned; NULL: none */
    bool refuses_unknown;       /* fields of bodies that nobody knows */
    size_t max_body_bytes;      /* also of compressed ones, once they are not */
    ln_log *log;
    ln_listener *listener;
    struct ln_response_store *responses; /* responses/response_store.h */
    struct ln_generations *generations;  /* generation/generation.h */
    bool backs_off;    /* this iteration of the event loop refused a request with 429 */
    ln_strbuf scratch; /* of the server's thread: what is being rendered */
} ln_context;

#endif
