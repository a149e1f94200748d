/* /v1/chat/completions and /v1/chat/completions/input_tokens. */
#include "server/api/routes.h"
#include "server/generation/chat_request.h"
#include "server/generation/generation.h"
#include "server/generation/openai_writer.h"

static bool generate(ln_api_task *task, const ln_fields *fields) {
    return ln_generate(task, fields, ln_chat_request_read);
}

/* As OpenAI counts the input of a response, of a chat's body. */
static bool count(ln_api_task *task, const ln_fields *fields) {
    if (!ln_api_task_check_model(task, fields) ||
        !ln_chat_request_read(fields, task->served->model, SIZE_MAX, &task->request))
        return false;
    ln_strbuf_printf(&task->reply, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
                     task->request.prompts[0].n_ids);
    return true;
}

void ln_endpoint_chat_tokens(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.read = count, .answer = ln_api_task_reply};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_chat_completions(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.kind = LN_API_CHAT,
                                     .generates = true,
                                     .format = &ln_openai_chat_format,
                                     .read = generate,
                                     .answer = ln_generation_begin};
    ln_api_task_push(context, exchange, &work);
}
