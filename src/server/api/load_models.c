/* /models/load, /models/unload, /models/sleep, /models/wake: models come and go by hand. */
#include <stdio.h>
#include <string.h>

#include "server/api/routes.h"
#include "server/api_task.h"
#include "server/json/out.h"

static void put_state(ln_strbuf *out, const ln_model_entry *entry, const char *state) {
    ln_strbuf_puts(out, "{\"success\":true,\"model\":");
    ln_json_put_text(out, entry->served.name);
    ln_strbuf_printf(out, ",\"status\":{\"value\":\"%s\"},\"load_seconds\":%.3f}", state,
                     entry->load_s);
}

/* By now it is loaded. */
static bool read_load(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"model", NULL};
    return ln_fields_only(fields, known) && ln_api_task_check_model(task, fields);
}

static void answer_load(ln_api_task *task) {
    ln_strbuf_clear(&task->reply);
    put_state(&task->reply, task->lease.entry, "loaded");
    ln_api_task_reply(task);
}

/* The body is needed behind `read`. */
static bool read_free(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"model", NULL};
    const char *name = NULL;
    if (!ln_fields_only(fields, known) || !ln_fields_text(fields, "model", &name))
        return false;
    if (name == NULL)
        return ln_api_fail(&task->error, 400, "model", "the field model must name one");
    return ln_strbuf_puts(&task->reply, name);
}

static void answer_free(ln_api_task *task, bool sleeps) {
    ln_registry *registry = &task->context->registry;
    ln_exchange *exchange = task->exchange;
    const char *name = task->reply.data != NULL ? task->reply.data : "", *why = NULL;
    ln_model_entry *entry = ln_registry_find(registry, name);
    if (entry == NULL || strcmp(entry->served.name, name) != 0) {
        ln_api_fail(&task->error, 404, "model", "there is no model '%.128s'", name);
        task->error.code = "model_not_found";
    } else if (!ln_registry_free(registry, entry, sleeps, &why)) {
        ln_api_fail(&task->error, 409, "model", "%s", why);
    }
    if (task->error.status != 0) {
        ln_reply_error(exchange, &task->error);
        ln_api_task_free(task);
        return;
    }
    ln_strbuf_clear(&task->reply);
    put_state(&task->reply, entry, ln_model_next_state_name(entry));
    ln_api_task_reply(task);
}

static void answer_unload(ln_api_task *task) {
    answer_free(task, false);
}

static void answer_sleep(ln_api_task *task) {
    answer_free(task, true);
}

void ln_endpoint_load_model(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {
        .needs = LN_NEEDS_ENGINE, .read = read_load, .answer = answer_load};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_unload_model(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {
        .needs = LN_NEEDS_NOTHING, .read = read_free, .answer = answer_unload};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_sleep_model(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {
        .needs = LN_NEEDS_NOTHING, .read = read_free, .answer = answer_sleep};
    ln_api_task_push(context, exchange, &work);
}
