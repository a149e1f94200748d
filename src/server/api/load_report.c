#include "server/api/load_report.h"

#include <stdio.h>
#include <strings.h>

#include "server/http/response.h"

void ln_load_report_add(const ln_context *context, ln_exchange *exchange) {
    const char *format = exchange->load_format;
    bool as_json = format != NULL && strcasecmp(format, "json") == 0;
    char value[192];
    if (!as_json && (format == NULL || strcasecmp(format, "text") != 0))
        return;
    linnet_engine_stats stats;
    ln_registry_stats(&context->registry, &stats);
    double usage = stats.n_kv_blocks > 0 ? (double)stats.n_kv_used / (double)stats.n_kv_blocks : 0;
    snprintf(value, sizeof value,
             as_json ? "JSON {\"named_metrics\": {\"kv_cache_usage_perc\": %.6g, "
                       "\"num_requests_waiting\": %zu}}"
                     : "TEXT named_metrics.kv_cache_usage_perc=%.6g, "
                       "named_metrics.num_requests_waiting=%zu",
             usage, stats.n_waiting);
    ln_response_add_header(exchange, "endpoint-load-metrics", value);
}
