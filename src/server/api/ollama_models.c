/* Ollama's API: what it says of models, and what it does not do. */
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "server/api/routes.h"
#include "server/api_task.h"
#include "server/json/out.h"
#include "server/ollama/ollama_input.h"
#include "server/ollama/ollama_writer.h"
#include "text/chat/reasoning.h"

/* The version of Ollama whose API this is: clients ask for a least one. */
static const char api_version[] = "0.12.0";

static unsigned long long count_parameters(const linnet_model *model) {
    unsigned long long count = 0;
    for (size_t i = 0; i < ln_checkpoint_tensor_count(model->checkpoint); i++)
        count += ln_checkpoint_tensor(model->checkpoint, i)->n_elems;
    return count;
}

static unsigned long long count_bytes(const linnet_model *model) {
    unsigned long long count = 0;
    for (size_t i = 0; i < ln_checkpoint_file_count(model->checkpoint); i++) {
        size_t n_bytes = 0;
        int fd;
        ln_checkpoint_file(model->checkpoint, i, &fd, &n_bytes);
        count += n_bytes;
    }
    return count;
}

static void put_details(const ln_served_model *served, ln_strbuf *out) {
    double millions = (double)count_parameters(served->model) / 1e6;
    ln_strbuf_puts(out, "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":");
    ln_json_put_text(out, served->info.architecture);
    ln_strbuf_puts(out, ",\"families\":[");
    ln_json_put_text(out, served->info.architecture);
    ln_strbuf_printf(out, "],\"parameter_size\":\"%.1f%s\",\"quantization_level\":\"unknown\"}",
                     millions >= 1000 ? millions / 1000 : millions, millions >= 1000 ? "B" : "M");
}

/* The members of a model that lists share. Its digest is not known: no file is read for it. */
static void put_model(const ln_served_model *served, ln_strbuf *out) {
    ln_strbuf_puts(out, "{\"name\":");
    ln_json_put_text(out, served->name);
    ln_strbuf_puts(out, ",\"model\":");
    ln_json_put_text(out, served->name);
    ln_strbuf_printf(out, ",\"size\":%llu,\"digest\":\"%064d\",", count_bytes(served->model), 0);
    put_details(served, out);
}

void ln_endpoint_ollama_tags(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"models\":[");
    put_model(&context->served, out);
    ln_strbuf_puts(out, ",\"modified_at\":");
    ln_ollama_put_time(context->served.created_s, out);
    ln_strbuf_puts(out, "}]}");
    ln_reply_json(exchange, out);
}

/* The model stays until the server ends: it expires in a far year. */
void ln_endpoint_ollama_ps(ln_context *context, ln_exchange *exchange) {
    const ln_served_model *served = &context->served;
    ln_strbuf *out = &context->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"models\":[");
    put_model(served, out);
    ln_strbuf_printf(out,
                     ",\"expires_at\":\"2318-01-01T00:00:00Z\",\"size_vram\":%llu,"
                     "\"context_length\":%zu}]}",
                     served->has_gpu ? count_bytes(served->model) : 0, served->ctx_tokens);
    ln_reply_json(exchange, out);
}

void ln_endpoint_ollama_version(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_printf(out, "{\"version\":\"%s\",\"linnet\":\"%s\"}", api_version, linnet_version());
    ln_reply_json(exchange, out);
}

/* ---- show ------------------------------------------------------------------------------- */

static void put_info(const ln_served_model *served, ln_strbuf *out) {
    const char *architecture = served->info.architecture;
    ln_strbuf_puts(out, ",\"model_info\":{\"general.architecture\":");
    ln_json_put_text(out, architecture);
    ln_strbuf_printf(out, ",\"general.parameter_count\":%llu", count_parameters(served->model));
    ln_strbuf_printf(out, ",\"%s.context_length\":%zu,\"%s.block_count\":%d}", architecture,
                     served->ctx_tokens, architecture, (int)served->info.n_layers);
}

static bool show(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"model",    "name",    "verbose", "system",
                                        "template", "options", NULL};
    const ln_served_model *served = &task->context->served;
    const char *template = served->model->chat_source;
    size_t n_template = template != NULL ? strlen(template) : 0;
    const json_t *given = ln_fields_get(fields, "model");
    ln_strbuf *out = &task->reply;
    if (!ln_fields_only(fields, known))
        return false;
    json_t *name = ln_ollama_input_model(given != NULL ? given : ln_fields_get(fields, "name"));
    bool is_served = name != NULL && strcmp(json_string_value(name), served->name) == 0;
    json_decref(name);
    if (!is_served)
        return ln_api_fail(&task->error, 404, "model",
                           "there is no such model; this server has "
                           "'%.128s'",
                           served->name);
    ln_strbuf_puts(out, "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":");
    ln_json_put_string(out, template != NULL ? template : "", n_template);
    ln_strbuf_putc(out, ',');
    put_details(served, out);
    put_info(served, out);
    ln_strbuf_puts(out, ",\"capabilities\":[\"completion\"");
    if (template != NULL && strstr(template, "tools") != NULL)
        ln_strbuf_puts(out, ",\"tools\"");
    if (template != NULL && ln_reasoning_detect(template, n_template) != NULL)
        ln_strbuf_puts(out, ",\"thinking\"");
    ln_strbuf_puts(out, "],\"modified_at\":");
    ln_ollama_put_time(served->created_s, out);
    ln_strbuf_putc(out, '}');
    return true;
}

void ln_endpoint_ollama_show(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.read = show, .answer = ln_api_task_reply};
    ln_api_task_push(context, exchange, &work);
}
