/* /v1/messages and /v1/messages/count_tokens: Anthropic's Messages API. */
#include "server/messages/messages_input.h"

#include "server/api/routes.h"
#include "server/generation/chat_request.h"
#include "server/generation/generation.h"
#include "server/messages/messages_writer.h"

static bool generate(ln_api_task *task, const ln_fields *fields) {
    json_t *body = ln_messages_input_translate(fields, false);
    bool done = ln_chat_request_generate(task, body, "messages");
    json_decref(body);
    return done;
}

static bool count(ln_api_task *task, const ln_fields *fields) {
    json_t *body = ln_messages_input_translate(fields, true);
    bool done = ln_chat_request_count(task, body);
    json_decref(body);
    if (done)
        ln_strbuf_printf(&task->reply, "{\"input_tokens\":%zu}", task->request.prompts[0].n_ids);
    return done;
}

static const ln_field_name names[] = {
    {"stop", "stop_sequences"},
    {"response_format.json_schema.schema", "output_config.format.schema"},
    {NULL, NULL},
};

void ln_endpoint_messages(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.kind = LN_API_CHAT,
                                     .generates = true,
                                     .format = &ln_messages_format,
                                     .names = names,
                                     .read = generate,
                                     .answer = ln_generation_begin};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_count_tokens(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.names = names, .read = count, .answer = ln_api_task_reply};
    ln_api_task_push(context, exchange, &work);
}
