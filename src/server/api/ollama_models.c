/* Ollama's API: what it says of models, and what it does not do. */
#include <stdio.h>
#include <string.h>
#include <time.h>

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

/* The type that most bytes of the files have. */
static const char *find_main_type(const linnet_model *model) {
    size_t bytes[LN_DTYPE_COUNT] = {0};
    ln_dtype most = LN_DTYPE_F32;
    for (size_t i = 0; i < ln_checkpoint_tensor_count(model->checkpoint); i++) {
        const ln_tensor *tensor = ln_checkpoint_tensor(model->checkpoint, i);
        bytes[tensor->dtype] += tensor->bytes;
        if (bytes[tensor->dtype] > bytes[most])
            most = tensor->dtype;
    }
    return ln_dtype_name(most);
}

static void put_details(const ln_served_model *served, ln_strbuf *out) {
    double millions = (double)count_parameters(served->model) / 1e6;
    bool is_gguf = ln_checkpoint_get_format(served->model->checkpoint) == LN_FORMAT_GGUF;
    ln_strbuf_printf(out, "\"details\":{\"parent_model\":\"\",\"format\":\"%s\",\"family\":",
                     is_gguf ? "gguf" : "safetensors");
    ln_json_put_text(out, served->info.architecture);
    ln_strbuf_puts(out, ",\"families\":[");
    ln_json_put_text(out, served->info.architecture);
    ln_strbuf_printf(out, "],\"parameter_size\":\"%.1f%s\",\"quantization_level\":\"%s\"}",
                     millions >= 1000 ? millions / 1000 : millions, millions >= 1000 ? "B" : "M",
                     find_main_type(served->model));
}

/* The members of a model that lists share. Its digest is not known: no file is read for it; nor are
 * details of one that has not been opened. */
static void put_model(const ln_model_entry *entry, ln_strbuf *out) {
    const ln_served_model *served = &entry->served;
    unsigned long long n_bytes =
        served->model != NULL ? count_bytes(served->model) : entry->spec.file_bytes;
    ln_strbuf_puts(out, "{\"name\":");
    ln_json_put_text(out, served->name);
    ln_strbuf_puts(out, ",\"model\":");
    ln_json_put_text(out, served->name);
    ln_strbuf_printf(out, ",\"size\":%llu,\"digest\":\"%064d\",", n_bytes, 0);
    if (served->model != NULL)
        put_details(served, out);
    else
        ln_strbuf_puts(out, "\"details\":{\"parent_model\":\"\",\"format\":\"\",\"family\":\"\","
                            "\"families\":[],\"parameter_size\":\"\",\"quantization_level\":"
                            "\"unknown\"}");
}

void ln_endpoint_ollama_tags(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    const ln_registry *registry = &context->registry;
    const char *comma = "";
    ln_registry_look(&context->registry);
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"models\":[");
    for (size_t i = 0; i < registry->n_entries; i++) {
        const ln_model_entry *entry = &registry->entries[i];
        if (entry->is_gone)
            continue;
        ln_strbuf_puts(out, comma);
        comma = ",";
        put_model(entry, out);
        ln_strbuf_puts(out, ",\"modified_at\":");
        ln_ollama_put_time(
            entry->spec.modified_s > 0 ? entry->spec.modified_s : registry->created_s, out);
        ln_strbuf_putc(out, '}');
    }
    ln_strbuf_puts(out, "]}");
    ln_reply_json(exchange, out);
}

/* When a loaded model leaves, if no request comes; a far year: it does not. */
static void put_expiry(const ln_model_entry *entry, ln_strbuf *out) {
    int64_t rest_ms = ln_model_rest_ms(entry);
    if (rest_ms < 0)
        ln_strbuf_puts(out, "\"2318-01-01T00:00:00Z\"");
    else
        ln_ollama_put_time((int64_t)time(NULL) + rest_ms / 1000, out);
}

void ln_endpoint_ollama_ps(ln_context *context, ln_exchange *exchange) {
    ln_strbuf *out = &context->scratch;
    const ln_registry *registry = &context->registry;
    bool is_first = true;
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"models\":[");
    for (size_t i = 0; i < registry->n_entries; i++) {
        const ln_model_entry *entry = &registry->entries[i];
        if (entry->state != LN_MODEL_LOADED)
            continue;
        if (!is_first)
            ln_strbuf_putc(out, ',');
        is_first = false;
        put_model(entry, out);
        ln_strbuf_puts(out, ",\"expires_at\":");
        put_expiry(entry, out);
        ln_strbuf_printf(out, ",\"size_vram\":%zu,\"context_length\":%zu}",
                         entry->need.device_bytes, entry->served.ctx_tokens);
    }
    ln_strbuf_puts(out, "]}");
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
    const ln_served_model *served = task->served;
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
