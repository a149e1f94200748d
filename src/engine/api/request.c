/* linnet_request_*. */
#include "engine/api/options.h"
#include "engine/engine.h"

void linnet_request_options_init(linnet_request_options *options) {
    *options = (linnet_request_options){
        .struct_bytes = sizeof *options,
        .sampling = {.temperature = 0.8f,
                     .top_k = 40,
                     .top_p = 0.95f,
                     .repeat_penalty = 1,
                     .repeat_last_n = 64,
                     .xtc_threshold = 0.1f,
                     .dry_base = 1.75f,
                     .dry_allowed_length = 2,
                     .dry_last_n = 1024,
                     .mirostat_eta = 0.1f},
        .length_penalty = 1,
    };
}

linnet_status linnet_request_submit(linnet_engine *engine, const linnet_request_options *options,
                                    linnet_request **request, linnet_error *err) {
    linnet_request_options own;
    linnet_request_options_init(&own);
    *request = NULL;
    LN_TRY(ln_options_take(options, &own, sizeof own, "linnet_request_options", err));
    return ln_engine_submit(engine, &own, request, err);
}

linnet_status linnet_request_next(linnet_request *request, int timeout_ms, linnet_event *event,
                                  linnet_error *err) {
    return ln_request_next(request, timeout_ms, event, err);
}

int linnet_request_get_fd(const linnet_request *request) {
    return request->event_fd;
}

void *linnet_request_get_user(const linnet_request *request) {
    return request->options.user;
}

void linnet_request_cancel(linnet_request *request) {
    ln_request_cancel(request);
}

void linnet_request_close(linnet_request *request) {
    if (request != NULL)
        ln_request_close(request);
}
