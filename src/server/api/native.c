/* llama.cpp's own API: /completion, /infill, /apply-template and /props. */
#include "server/api/model_of.h"
#include "server/api/routes.h"
#include "server/completions/completion_request.h"
#include "server/generation/chat_request.h"
#include "server/generation/generation.h"
#include "server/json/out.h"
#include "server/native/native_input.h"
#include "server/native/native_writer.h"

#include "model/model.h"

static bool generate(ln_api_task *task, const ln_fields *fields, bool fills_in) {
    json_t *body = ln_native_input_translate(fields, fills_in);
    const ln_fields inner = {body, "", fields->error, fields->ignored};
    bool done = body != NULL && ln_generate(task, &inner, ln_completion_request_read);
    json_decref(body);
    return done;
}

static bool complete(ln_api_task *task, const ln_fields *fields) {
    return generate(task, fields, false);
}

static bool fill_in(ln_api_task *task, const ln_fields *fields) {
    return generate(task, fields, true);
}

static bool apply_template(ln_api_task *task, const ln_fields *fields) {
    task->request.keeps_rendered = true;
    if (!ln_chat_request_count(task, (json_t *)(uintptr_t)fields->root))
        return false;
    ln_strbuf_puts(&task->reply, "{\"prompt\":");
    ln_json_put_text(&task->reply, task->request.rendered);
    ln_strbuf_putc(&task->reply, '}');
    return true;
}

#define GENERATES(reader, client_names)                                                            \
    {                                                                                              \
        .kind = LN_API_COMPLETION, .generates = true, .format = &ln_native_format,                 \
        .names = (client_names), .read = reader, .answer = ln_generation_begin                     \
    }

void ln_endpoint_native_completion(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = GENERATES(complete, NULL);
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_native_infill(ln_context *context, ln_exchange *exchange) {
    static const ln_field_name names[] = {{"suffix", "input_suffix"}, {NULL, NULL}};
    static const ln_api_work work = GENERATES(fill_in, names);
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_apply_template(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.read = apply_template, .answer = ln_api_task_reply};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_props(ln_context *context, ln_exchange *exchange) {
    const ln_served_model *served = ln_model_of(context, exchange);
    if (served == NULL)
        return;
    ln_strbuf *out = &context->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_printf(out,
                     "{\"default_generation_settings\":{\"n_ctx\":%zu},\"total_slots\":%zu,"
                     "\"model_alias\":",
                     served->ctx_tokens, served->max_seqs);
    ln_json_put_text(out, served->name);
    ln_strbuf_puts(out, ",\"modalities\":{\"vision\":false,\"audio\":false},\"chat_template\":");
    ln_json_put_text(out, served->model->chat_source);
    ln_strbuf_printf(out, ",\"build_info\":\"linnet-%s\"}", linnet_version());
    ln_reply_json(exchange, out);
}
