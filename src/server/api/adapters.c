/* /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them: adapters come and go while
 * requests run. Workers read the files. */
#include <string.h>

#include "server/api/routes.h"
#include "server/api_task.h"
#include "server/http/response.h"

static bool has_adapter(linnet_engine *engine, const char *name) {
    linnet_adapter adapter = {.struct_bytes = sizeof adapter};
    bool found = false;
    for (size_t i = 0; !found && linnet_engine_get_adapter(engine, i, &adapter); i++)
        found = strcmp(adapter.name, name) == 0;
    return found;
}

/* What a failure of the library means here. No field is wrong where the engine has no place. */
static bool fail_load(ln_api_task *task, const char *name, const linnet_error *err) {
    int status = err->status == LINNET_ERR_NOMEM ? 503 : 400;
    const char *param = "lora_path";
    if (err->status == LINNET_ERR_STATE)
        param = has_adapter(task->served->engine, name) ? "lora_name" : NULL;
    return ln_api_fail(&task->error, status, param, "%s", err->message);
}

static bool read_name(ln_api_task *task, const ln_fields *fields, const char **name) {
    if (!ln_fields_text(fields, "lora_name", name))
        return false;
    return (*name != NULL && **name != '\0') ||
           ln_api_fail(&task->error, 400, "lora_name", "lora_name is missing");
}

static bool load(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"lora_name", "lora_path",       "lora_int_id",
                                        "scale",     "base_model_name", "load_inplace=false",
                                        NULL};
    const char *name = NULL, *path = NULL;
    float scale = 1;
    linnet_error err = {0};
    const ln_served_model *served = task->served;
    if (!ln_fields_only(fields, known) || !read_name(task, fields, &name) ||
        !ln_fields_text(fields, "lora_path", &path) ||
        !ln_fields_number(fields, "scale", -1e6, 1e6, &scale))
        return false;
    if (path == NULL || *path == '\0')
        return ln_api_fail(&task->error, 400, "lora_path", "lora_path is missing");
    if (strcmp(name, served->name) == 0)
        return ln_api_fail(&task->error, 400, "lora_name", "'%.128s' is the model's name", name);
    if (linnet_engine_load_adapter(served->engine, name, path, scale, &err) != LINNET_OK)
        return fail_load(task, name, &err);
    ln_strbuf_printf(&task->reply, "Success: LoRA adapter '%s' added successfully.", name);
    return true;
}

static bool unload(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"lora_name", "lora_int_id", NULL};
    const char *name = NULL;
    if (!ln_fields_only(fields, known) || !read_name(task, fields, &name))
        return false;
    if (linnet_engine_unload_adapter(task->served->engine, name, NULL) != LINNET_OK)
        return ln_api_fail(&task->error, 404, "lora_name", "there is no adapter '%.128s'", name);
    ln_strbuf_printf(&task->reply, "Success: LoRA adapter '%s' removed successfully.", name);
    return true;
}

/* One line of text. */
static void reply(ln_api_task *task) {
    ln_response_send(task->exchange, 200, "text/plain; charset=utf-8", task->reply.data,
                     task->reply.len);
    ln_api_task_free(task);
}

void ln_endpoint_load_adapter(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.needs = LN_NEEDS_ENGINE, .read = load, .answer = reply};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_unload_adapter(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.needs = LN_NEEDS_ENGINE, .read = unload, .answer = reply};
    ln_api_task_push(context, exchange, &work);
}
