/* /v1/completions. */
#include "server/api/routes.h"
#include "server/completions/completion_request.h"
#include "server/generation/generation.h"
#include "server/generation/openai_writer.h"

static bool generate(ln_api_task *task, const ln_fields *fields) {
    return ln_generate(task, fields, ln_completion_request_read);
}

void ln_endpoint_completions(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.kind = LN_API_COMPLETION,
                                     .generates = true,
                                     .format = &ln_openai_completion_format,
                                     .read = generate,
                                     .answer = ln_generation_begin};
    ln_api_task_push(context, exchange, &work);
}
