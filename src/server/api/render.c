/* /v1/completions/render and /v1/chat/completions/render: the ids that a request's prompts become,
 * as vLLM has them. */
#include "server/api/routes.h"
#include "server/completions/completion_request.h"
#include "server/generation/chat_request.h"
#include "server/json/out.h"

static void put_prompt(ln_api_task *task, const ln_prompt *prompt) {
    ln_strbuf *out = &task->reply;
    ln_strbuf_puts(out, "{\"model\":");
    ln_json_put_text(out, task->served->name);
    ln_strbuf_puts(out, ",\"token_ids\":[");
    for (size_t i = 0; i < prompt->n_ids; i++)
        ln_strbuf_printf(out, "%s%d", i > 0 ? "," : "", (int)prompt->ids[i]);
    ln_strbuf_puts(out, "]}");
}

static bool render(ln_api_task *task, const ln_fields *fields) {
    const ln_served_model *served = task->served;
    if (!ln_api_task_check_model(task, fields) ||
        !ln_completion_request_read(fields, served->model, served->ctx_tokens, &task->request))
        return false;
    for (size_t i = 0; i < task->request.n_prompts; i++) {
        ln_strbuf_putc(&task->reply, i > 0 ? ',' : '[');
        put_prompt(task, &task->request.prompts[i]);
    }
    ln_strbuf_putc(&task->reply, ']');
    return true;
}

static bool render_chat(ln_api_task *task, const ln_fields *fields) {
    const ln_served_model *served = task->served;
    if (!ln_api_task_check_model(task, fields) ||
        !ln_chat_request_read(fields, served->model, served->ctx_tokens, &task->request))
        return false;
    put_prompt(task, &task->request.prompts[0]);
    return true;
}

void ln_endpoint_render(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.read = render, .answer = ln_api_task_reply};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_render_chat(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.read = render_chat, .answer = ln_api_task_reply};
    ln_api_task_push(context, exchange, &work);
}
