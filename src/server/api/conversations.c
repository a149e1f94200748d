/* /v1/conversations: OpenAI's Conversations API, lists of items that responses add to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json/load.h"
#include "server/api/item_page.h"
#include "server/api/query.h"
#include "server/api/routes.h"
#include "server/api/stored_object.h"
#include "server/api_task.h"
#include "server/generation/common_fields.h"
#include "server/json/out.h"
#include "server/responses/input_items.h"
#include "server/responses/responses_items.h"

/* What a body says, till it is stored. */
typedef struct wanted {
    char *metadata; /* a JSON object, owned */
    ln_item_list items;
} wanted;

static void free_wanted(void *extra) {
    wanted *given = extra;
    free(given->metadata);
    ln_item_list_free(&given->items);
    free(given);
}

/* ---- bodies ----------------------------------------------------------------------------- */

static wanted *add_wanted(ln_api_task *task) {
    wanted *given = calloc(1, sizeof *given);
    if (given == NULL) {
        ln_api_fail_memory(&task->error);
        return NULL;
    }
    task->request.extra = given;
    task->request.free_extra = free_wanted;
    return given;
}

/* The field "items", whose items must be such as responses can go on with. */
static bool read_items(ln_api_task *task, const ln_fields *fields, wanted *given) {
    ln_chat_builder builder;
    json_t *items = ln_input_items_read(ln_fields_get(fields, "items"), "items", task->serial, NULL,
                                        task->context->responses, fields->error);
    if (items == NULL)
        return false;
    ln_chat_builder_init(&builder);
    ln_responses_items_add(&builder, items, 0, "items", fields->error);
    json_decref(ln_chat_builder_take(&builder, fields->error));
    bool done = fields->error->status == 0;
    if (done && !ln_input_items_keep(items, &given->items))
        done = ln_api_fail_memory(fields->error);
    json_decref(items);
    return done;
}

static bool read_metadata(const ln_fields *fields, wanted *given) {
    const json_t *metadata = ln_fields_get(fields, "metadata");
    if (!ln_api_check_metadata(fields))
        return false;
    given->metadata = metadata != NULL ? json_dumps(metadata, JSON_COMPACT) : strdup("{}");
    return given->metadata != NULL || ln_api_fail_memory(fields->error);
}

static bool read_creation(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"items", "metadata", NULL};
    const json_t *items = ln_fields_get(fields, "items");
    bool is_empty = items == NULL || (json_is_array(items) && json_array_size(items) == 0);
    wanted *given = add_wanted(task);
    return given != NULL && ln_fields_only(fields, known) && read_metadata(fields, given) &&
           (is_empty || read_items(task, fields, given));
}

static bool read_addition(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"items", NULL};
    wanted *given = add_wanted(task);
    return given != NULL && ln_fields_only(fields, known) && read_items(task, fields, given);
}

static bool read_update(ln_api_task *task, const ln_fields *fields) {
    static const char *const known[] = {"metadata", NULL};
    wanted *given = add_wanted(task);
    if (given == NULL || !ln_fields_only(fields, known))
        return false;
    if (json_object_get(fields->root, "metadata") == NULL)
        return ln_api_fail(fields->error, 400, "metadata", "metadata is missing");
    return read_metadata(fields, given);
}

/* ---- answers ---------------------------------------------------------------------------- */

static void take_id(const ln_exchange *exchange, char *id) {
    ln_stored_take_id(exchange, "/v1/conversations/", id);
}

/* The id of the item in a path, malloc'd and decoded: the log has the path as it came. NULL: it has
 * answered that memory is out. */
static char *take_item_id(ln_exchange *exchange) {
    ln_api_error error = {0};
    char *id = strdup(strrchr(exchange->path, '/') + 1);
    if (id != NULL) {
        ln_query_decode(id);
        return id;
    }
    ln_api_fail_memory(&error);
    ln_reply_error(exchange, &error);
    return NULL;
}

static void reply_missing(ln_exchange *exchange, const char *id) {
    ln_stored_reply_missing(exchange, "Conversation", "conversation_id", id);
}

static void reply_missing_item(ln_exchange *exchange, const char *id, const char *item_id) {
    ln_api_error error = {0};
    ln_api_fail(&error, 404, "item_id", "Item with id '%.128s' not found in conversation '%s'.",
                item_id, id);
    ln_reply_error(exchange, &error);
}

static void reply_conversation(ln_context *context, ln_exchange *exchange, const char *id) {
    char *json = ln_response_store_get(context->responses, id);
    if (json != NULL)
        ln_stored_reply(context, exchange, json);
    else
        reply_missing(exchange, id);
}

/* Nothing was stored: it is too much, or memory is out. */
static void refuse_to_store(ln_api_task *task, const char *id, const char *json) {
    const wanted *given = task->request.extra;
    if (ln_response_store_fits(task->context->responses, id, json, &given->items))
        ln_api_fail_memory(&task->error);
    else
        ln_api_fail(&task->error, 400, NULL,
                    "the conversation is larger than what the server stores "
                    "(--max-response-bytes), or it stores nothing");
    ln_reply_error(task->exchange, &task->error);
    ln_api_task_free(task);
}

static void put_conversation(ln_strbuf *out, const char *id, long long created_s,
                             const char *metadata) {
    ln_strbuf_puts(out, "{\"id\":");
    ln_json_put_text(out, id);
    ln_strbuf_printf(out, ",\"object\":\"conversation\",\"created_at\":%lld,\"metadata\":%s}",
                     created_s, metadata);
}

static void create_conversation(ln_api_task *task) {
    wanted *given = task->request.extra;
    char id[LN_STORED_ID_BYTES];
    snprintf(id, sizeof id, "conv_%s", task->serial);
    put_conversation(&task->reply, id, (long long)time(NULL), given->metadata);
    if (!task->reply.failed &&
        !ln_response_store_put(task->context->responses, id, task->reply.data, &given->items, 0))
        refuse_to_store(task, id, task->reply.data);
    else
        ln_api_task_reply(task);
}

static void add_items(ln_api_task *task) {
    wanted *given = task->request.extra;
    ln_response_store *store = task->context->responses;
    ln_exchange *exchange = task->exchange;
    char id[LN_STORED_ID_BYTES];
    take_id(exchange, id);
    char *json = ln_response_store_get(store, id);
    if (json == NULL) {
        reply_missing(exchange, id);
        ln_api_task_free(task);
    } else if (!ln_response_store_append(store, id, &given->items, 0)) {
        refuse_to_store(task, id, NULL);
    } else {
        ln_item_page_put(&given->items, 0, given->items.n_items, true, &task->reply);
        ln_api_task_reply(task);
    }
    free(json);
}

static void update_conversation(ln_api_task *task) {
    const wanted *given = task->request.extra;
    ln_response_store *store = task->context->responses;
    char id[LN_STORED_ID_BYTES];
    take_id(task->exchange, id);
    char *json = ln_response_store_get(store, id);
    if (json == NULL) {
        reply_missing(task->exchange, id);
        ln_api_task_free(task);
        return;
    }
    json_t *old = ln_json_load_bytes(json, strlen(json), JSON_ALLOW_NUL, NULL);
    put_conversation(&task->reply, id, json_integer_value(json_object_get(old, "created_at")),
                     given->metadata);
    json_decref(old);
    free(json);
    if (!task->reply.failed && !ln_response_store_put(store, id, task->reply.data, NULL, 0))
        refuse_to_store(task, id, task->reply.data);
    else
        ln_api_task_reply(task);
}

/* ---- endpoints -------------------------------------------------------------------------- */

void ln_endpoint_create_conversation(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {
        .needs = LN_NEEDS_NOTHING, .read = read_creation, .answer = create_conversation};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_add_items(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {
        .needs = LN_NEEDS_NOTHING, .read = read_addition, .answer = add_items};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_update_conversation(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {
        .needs = LN_NEEDS_NOTHING, .read = read_update, .answer = update_conversation};
    ln_api_task_push(context, exchange, &work);
}

void ln_endpoint_conversation(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES];
    take_id(exchange, id);
    reply_conversation(context, exchange, id);
}

void ln_endpoint_delete_conversation(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES];
    take_id(exchange, id);
    if (ln_response_store_delete(context->responses, id))
        ln_stored_reply_deleted(context, exchange, id, "conversation.deleted");
    else
        reply_missing(exchange, id);
}

void ln_endpoint_conversation_items(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES];
    ln_item_list items = {0};
    take_id(exchange, id);
    if (ln_response_store_list(context->responses, id, false, &items))
        ln_item_page_reply(context, exchange, &items);
    else
        reply_missing(exchange, id);
    ln_item_list_free(&items);
}

void ln_endpoint_conversation_item(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES];
    take_id(exchange, id);
    char *item_id = take_item_id(exchange);
    if (item_id == NULL)
        return;
    char *json = ln_response_store_get_item(context->responses, id, item_id);
    if (json == NULL)
        reply_missing_item(exchange, id, item_id);
    else
        ln_stored_reply(context, exchange, json);
    free(item_id);
}

/* Answers with the conversation. */
void ln_endpoint_delete_item(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES];
    take_id(exchange, id);
    char *item_id = take_item_id(exchange);
    if (item_id == NULL)
        return;
    if (ln_response_store_delete_item(context->responses, id, item_id))
        reply_conversation(context, exchange, id);
    else
        reply_missing_item(exchange, id, item_id);
    free(item_id);
}
