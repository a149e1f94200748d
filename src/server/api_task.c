#include "server/api_task.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/api/api_keys.h"
#include "server/content_coding.h"
#include "server/http/response.h"
#include "server/json/reply.h"
#include "server/ollama/keep_alive.h"

enum { MAX_TASKS = 4096 };

/* The pool's task is the first member. */
static ln_api_task *of(ln_task *task) {
    return (ln_api_task *)(void *)task;
}

void ln_api_task_free(ln_api_task *task) {
    if (task == NULL)
        return;
    for (size_t i = 0; i < task->n_runs; i++)
        linnet_request_close(task->runs[i].request);
    free(task->runs);
    ln_lease_release(&task->context->registry, &task->lease);
    json_decref(task->root);
    ln_admission_release(task->admission, task->n_reserved);
    ln_generation_request_free(&task->request);
    ln_strbuf_free(&task->body);
    ln_strbuf_free(&task->reply);
    free(task);
}

void ln_api_task_cancel(ln_api_task *task) {
    task->exchange = NULL;
    atomic_store(&task->task.is_cancelled, true);
    if (task->lease.entry != NULL && !task->lease.is_granted)
        ln_api_task_free(task); /* it waits for a model: nobody else has it */
}

bool ln_api_task_check_model(ln_api_task *task, const ln_fields *fields) {
    const char *name = NULL, *adapter = NULL, *served = task->served->name;
    linnet_adapter found;
    if (!ln_fields_text(fields, "model", &name) || !ln_fields_text(fields, "lora", &adapter))
        return false;
    if (adapter == NULL && name != NULL && strcmp(name, served) != 0)
        adapter = name;
    if (adapter != NULL && ln_served_model_adapter(task->served, adapter, &found)) {
        memcpy(task->request.adapter, found.name, sizeof found.name);
        return true;
    }
    if (adapter == NULL)
        return true;
    if (adapter != name)
        return ln_api_fail(fields->error, 404, "lora", "there is no adapter '%.128s'", adapter);
    ln_served_model_miss(task->served, name, fields->error);
    return false;
}

static void count_refusal(ln_context *context, const ln_api_error *error) {
    if (error->status != 429)
        return;
    context->metrics.n_refused++;
    context->backs_off |= !error->is_own;
}

/* ---- what the pool calls ----------------------------------------------------------------- */

static bool needs_lease(const ln_api_task *task) {
    return task->served == NULL && task->work->needs != LN_NEEDS_NOTHING;
}

/* Whether a body of Ollama's says how long the model stays. */
static bool has_keep_alive(const ln_api_task *task) {
    const json_t *value = json_object_get(task->root, "keep_alive");
    return task->is_ollama && value != NULL && !json_is_null(value);
}

static void parse(ln_api_task *task) {
    if (!task->is_compressed ||
        ln_content_inflate(&task->body, task->context->max_body_bytes, &task->error))
        task->root = ln_fields_parse(task->body.data, task->body.len, &task->error);
    ln_strbuf_free(&task->body);
    if (task->root != NULL && has_keep_alive(task) &&
        !ln_ollama_read_keep_alive(json_object_get(task->root, "keep_alive"), &task->keep_ms))
        ln_api_fail(&task->error, 400, "keep_alive",
                    "keep_alive is neither seconds nor a duration");
}

static void run(ln_task *pool_task) {
    ln_api_task *task = of(pool_task);
    if (task->root == NULL)
        parse(task);
    if (task->root == NULL || task->error.status != 0 || needs_lease(task))
        return;
    const ln_fields fields = {task->root, "", &task->error,
                              task->context->refuses_unknown ? NULL : &task->ignored};
    task->request.template_variables = task->context->template_variables;
    if (task->work->read(task, &fields) && task->reply.failed)
        ln_api_fail_memory(&task->error);
    ln_api_error_rename(&task->error, task->work->names);
    json_decref(task->root);
    task->root = NULL;
}

/* Tells the client and the metrics which fields were ignored. */
static void note_ignored(ln_api_task *task) {
    if (task->ignored.count == 0)
        return;
    task->context->metrics.n_ignored_fields += task->ignored.count;
    ln_response_add_header(task->exchange, "X-Ignored-Fields", task->ignored.names);
}

/* ---- the model ---------------------------------------------------------------------------- */

static ln_api_task *of_lease(ln_lease *lease) {
    return (ln_api_task *)(void *)((char *)lease - offsetof(ln_api_task, lease));
}

static void on_grant(ln_lease *lease) {
    ln_api_task *task = of_lease(lease);
    task->served = &lease->entry->served;
    ln_worker_pool_push(&task->context->pool, &task->task);
}

static void on_refuse(ln_lease *lease, int status, const char *message) {
    ln_api_task *task = of_lease(lease);
    task->exchange->task = NULL;
    ln_api_fail(&task->error, status, NULL, "%s", message);
    ln_reply_error(task->exchange, &task->error);
    ln_api_task_free(task);
}

ln_model_entry *ln_api_task_find_model(ln_api_task *task) {
    static const char *const names[] = {"model", "name", "base_model_name"};
    ln_registry *registry = &task->context->registry;
    const char *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && name == NULL; i++)
        name = json_string_value(json_object_get(task->root, names[i]));
    ln_model_entry *found = ln_registry_find(registry, name);
    /* as Ollama's clients name it; elsewhere the tag would be refused once the model is loaded */
    if (found == NULL && name != NULL && task->exchange->dialect == LN_DIALECT_OLLAMA) {
        static const char tag[] = ":latest";
        size_t n_bytes = strlen(name), n_tag = sizeof tag - 1;
        bool has_tag = n_bytes > n_tag && strcmp(name + n_bytes - n_tag, tag) == 0;
        char *bare = has_tag ? strndup(name, n_bytes - n_tag) : NULL;
        found = bare != NULL ? ln_registry_find(registry, bare) : NULL;
        free(bare);
    }
    if (found != NULL)
        return found;
    if (name == NULL) {
        ln_api_fail(&task->error, 400, "model",
                    "the server has several models: the field model must name one");
    } else {
        ln_api_fail(&task->error, 404, "model",
                    "there is no model '%.128s'; GET /v1/models lists what there is", name);
        task->error.code = "model_not_found";
    }
    return NULL;
}

/* Whether a chat or a prompt asks for nothing but that the model leaves, which needs no engine.
 * What embeds always has a text, be it an empty one. */
static bool only_unloads(const ln_api_task *task) {
    return task->work->kind == LN_API_CHAT && task->lease.sets_keep && task->lease.keep_ms == 0 &&
           json_array_size(json_object_get(task->root, "messages")) == 0 &&
           json_string_length(json_object_get(task->root, "prompt")) == 0;
}

/* Leases the model that the body names; the task goes on when it is there. */
static bool lease_model(ln_api_task *task) {
    ln_model_entry *entry = ln_api_task_find_model(task);
    if (entry == NULL)
        return false;
    bool needs_engine = task->work->generates || task->work->needs == LN_NEEDS_ENGINE;
    task->lease.sets_keep = has_keep_alive(task);
    task->lease.keep_ms = task->keep_ms;
    task->lease.needs_engine = needs_engine && !only_unloads(task);
    task->lease.grant = on_grant;
    task->lease.refuse = on_refuse;
    task->exchange->task = task;
    ln_lease_take(&task->context->registry, entry, &task->lease);
    return true;
}

static void finish(ln_task *pool_task) {
    ln_api_task *task = of(pool_task);
    ln_exchange *exchange = task->exchange;
    if (exchange == NULL) { /* the client has gone meanwhile */
        ln_api_task_free(task);
        return;
    }
    exchange->task = NULL;
    if (task->context->shutdown.is_cut_off)
        ln_api_fail(&task->error, 503, NULL, "the server ends");
    if (task->error.status == 0 && needs_lease(task) && lease_model(task))
        return;
    note_ignored(task);
    if (task->error.status == 0) {
        task->work->answer(task);
        return;
    }
    count_refusal(task->context, &task->error);
    ln_reply_error(exchange, &task->error);
    ln_api_task_free(task);
}

static void discard(ln_task *task) {
    ln_api_task_free(of(task));
}

void ln_api_task_reply(ln_api_task *task) {
    ln_reply_json(task->exchange, &task->reply);
    ln_api_task_free(task);
}

/* ---- pushing ----------------------------------------------------------------------------- */

static ln_admission *admission_of(ln_context *context, const ln_exchange *exchange) {
    ln_api_key *key = exchange->key;
    return key != NULL ? &key->admission : &context->admission;
}

/* Takes the exchange's body; NULL when memory is out. */
static ln_api_task *create(ln_context *context, ln_exchange *exchange, const ln_api_work *work) {
    ln_api_task *task = calloc(1, sizeof *task);
    if (task == NULL)
        return NULL;
    task->task = (ln_task){.run = run, .finish = finish, .discard = discard};
    atomic_init(&task->task.is_cancelled, false);
    task->context = context;
    task->exchange = exchange;
    task->work = work;
    memcpy(task->serial, exchange->serial, sizeof task->serial);
    task->begin_ns = ln_clock_ns();
    task->n_reserved = work->generates;
    task->admission = admission_of(context, exchange);
    task->body = exchange->body;
    task->is_compressed = exchange->is_compressed;
    task->is_ollama = exchange->dialect == LN_DIALECT_OLLAMA;
    ln_strbuf_init(&exchange->body);
    ln_strbuf_init(&task->reply);
    return task;
}

void ln_api_task_push(ln_context *context, ln_exchange *exchange, const ln_api_work *work) {
    ln_api_error error = {0};
    ln_admission *admission = admission_of(context, exchange);
    if (exchange->is_late)
        ln_api_fail(&error, 503, NULL, "the server is about to end");
    else if (context->pool.n_tasks >= MAX_TASKS)
        ln_api_fail(&error, 429, NULL, "the server is busy: %d requests are being read", MAX_TASKS);
    if (error.status == 0 && work->generates)
        ln_admission_take(admission, 0, 1, NULL, &error);
    if (error.status != 0) {
        count_refusal(context, &error);
        ln_reply_error(exchange, &error);
        return;
    }
    ln_api_task *task = create(context, exchange, work);
    if (task == NULL) {
        ln_admission_release(admission, work->generates);
        ln_api_fail_memory(&error);
        ln_reply_error(exchange, &error);
        return;
    }
    exchange->task = task;
    if (context->registry.is_fixed && needs_lease(task)) {
        task->lease.grant = on_grant;
        task->lease.needs_engine = true;
        ln_lease_take(&context->registry, context->registry.entries, &task->lease);
    } else {
        ln_worker_pool_push(&context->pool, &task->task);
    }
}
