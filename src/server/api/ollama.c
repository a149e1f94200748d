/* Ollama's API: /api/chat and /api/generate. */
#include <time.h>

#include "server/api/routes.h"
#include "server/completions/completion_request.h"
#include "server/generation/chat_request.h"
#include "server/generation/generation.h"
#include "server/json/out.h"
#include "server/ollama/ollama_input.h"
#include "server/ollama/ollama_writer.h"

/* Clients ask for a model to be loaded, which it is by now, or unloaded, which happens behind this
 * where it may be. */
static bool reply_loaded(ln_api_task *task, const char *said) {
    ln_strbuf *out = &task->reply;
    ln_strbuf_puts(out, "{\"model\":");
    ln_json_put_text(out, task->served->name);
    ln_strbuf_puts(out, ",\"created_at\":");
    ln_ollama_put_time((int64_t)time(NULL), out);
    bool leaves = task->lease.sets_keep && task->lease.keep_ms == 0;
    ln_strbuf_printf(out, ",%s,\"done\":true,\"done_reason\":\"%s\"}", said,
                     leaves ? "unload" : "load");
    return true;
}

static bool chat(ln_api_task *task, const ln_fields *fields) {
    bool is_empty = false;
    json_t *body = ln_ollama_input_translate_chat(fields, &is_empty);
    if (is_empty)
        return reply_loaded(task, "\"message\":{\"role\":\"assistant\",\"content\":\"\"}");
    bool done = ln_chat_request_generate(task, body, "messages");
    json_decref(body);
    return done;
}

static bool generate(ln_api_task *task, const ln_fields *fields) {
    bool is_empty = false;
    ln_ollama_kind kind;
    json_t *body = ln_ollama_input_translate_generate(fields, &kind, &is_empty);
    if (is_empty)
        return reply_loaded(task, "\"response\":\"\"");
    const ln_fields inner = {body, "", &task->error, NULL};
    bool done = kind == LN_OLLAMA_RAW
                    ? body != NULL && ln_generate(task, &inner, ln_completion_request_read)
                    : ln_chat_request_generate(task, body, "prompt");
    json_decref(body);
    return done;
}

static void answer(ln_api_task *task) {
    if (task->n_runs > 0)
        ln_generation_begin(task);
    else
        ln_api_task_reply(task);
}

#define OPTION(name)                                                                               \
    { name, "options." name }

static const ln_field_name names[] = {
    {"max_tokens", "options.num_predict"},
    {"repetition_penalty", "options.repeat_penalty"},
    {"response_format.json_schema.schema", "format"},
    {"response_format", "format"},
    OPTION("temperature"),
    OPTION("top_p"),
    OPTION("top_k"),
    OPTION("min_p"),
    OPTION("typical_p"),
    OPTION("stop"),
    OPTION("presence_penalty"),
    OPTION("frequency_penalty"),
    {NULL, NULL},
};

void ln_endpoint_ollama_chat(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.kind = LN_API_CHAT,
                                     .generates = true,
                                     .format = &ln_ollama_chat_format,
                                     .names = names,
                                     .read = chat,
                                     .answer = answer};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_ollama_generate(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.kind = LN_API_CHAT,
                                     .generates = true,
                                     .format = &ln_ollama_generate_format,
                                     .names = names,
                                     .read = generate,
                                     .answer = answer};
    ln_api_task_push(context, exchange, &work);
}
