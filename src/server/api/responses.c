/* /v1/responses: OpenAI's Responses API, and what it stores. */
#include <stdlib.h>
#include <string.h>

#include "server/api/item_page.h"
#include "server/api/query.h"
#include "server/api/routes.h"
#include "server/api/stored_object.h"
#include "server/generation/chat_request.h"
#include "server/generation/generation.h"
#include "server/responses/responses_input.h"
#include "server/responses/responses_writer.h"

/* ---- a new response --------------------------------------------------------------------- */

static void free_kept(void *kept) {
    ln_responses_request_free(kept);
    free(kept);
}

static bool check_background(ln_api_task *task, const ln_responses_request *kept,
                             const ln_fields *fields) {
    bool streams = false;
    if (!kept->runs_in_background)
        return true;
    ln_fields_bool(fields, "stream", &streams);
    if (streams)
        return ln_api_fail(&task->error, 400, "background",
                           "background and stream exclude each other here");
    task->request.is_detached = true;
    return kept->is_stored || ln_api_fail(&task->error, 400, "background",
                                          "background can only be used when `store` is true");
}

/* The body as that of a chat; NULL with the error set. */
static json_t *translate(ln_api_task *task, const ln_fields *fields) {
    ln_responses_request *kept = calloc(1, sizeof *kept);
    if (kept == NULL) {
        ln_api_fail_memory(&task->error);
        return NULL;
    }
    task->request.extra = kept;
    task->request.free_extra = free_kept;
    task->request.keeps_text = true;
    return ln_responses_input_translate(fields, task->context->responses, task->serial, kept);
}

static bool generate(ln_api_task *task, const ln_fields *fields) {
    json_t *body = translate(task, fields);
    const ln_responses_request *kept = task->request.extra;
    bool done = body != NULL && check_background(task, kept, fields) &&
                ln_chat_request_generate(task, body, "input");
    json_decref(body);
    return done;
}

static const ln_field_name names[] = {
    {"max_tokens", "max_output_tokens"},
    {"verbosity", "text.verbosity"},
    {"response_format.json_schema.schema", "text.format.schema"},
    {"response_format", "text.format"},
    {"tool_choice.allowed_tools", "tool_choice"},
    {NULL, NULL},
};

void ln_endpoint_responses(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.kind = LN_API_CHAT,
                                     .generates = true,
                                     .format = &ln_responses_format,
                                     .names = names,
                                     .read = generate,
                                     .answer = ln_generation_begin};
    ln_api_task_push(context, exchange, &work);
}

/* /v1/responses/input_tokens */
static bool count(ln_api_task *task, const ln_fields *fields) {
    json_t *body = translate(task, fields);
    bool done = ln_chat_request_count(task, body);
    json_decref(body);
    if (done)
        ln_strbuf_printf(&task->reply,
                         "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
                         task->request.prompts[0].n_ids);
    return done;
}

void ln_endpoint_response_tokens(ln_context *context, ln_exchange *exchange) {
    static const ln_api_work work = {.names = names, .read = count, .answer = ln_api_task_reply};
    ln_api_task_push(context, exchange, &work);
}

/* ---- stored ones ------------------------------------------------------------------------ */

static void take_id(const ln_exchange *exchange, char *id) {
    ln_stored_take_id(exchange, "/v1/responses/", id);
}

static void reply_missing(ln_exchange *exchange, const char *id) {
    ln_stored_reply_missing(exchange, "Response", "response_id", id);
}

static void reply_bad(ln_exchange *exchange, const char *param, const char *message) {
    ln_api_error error = {0};
    ln_api_fail(&error, 400, param, "%s", message);
    ln_reply_error(exchange, &error);
}

void ln_endpoint_response(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES], streams[8];
    take_id(exchange, id);
    char *json = ln_response_store_get(context->responses, id);
    if (json != NULL &&
        (ln_query_get(exchange->query, "stream", streams, sizeof streams) != LN_QUERY_GIVEN ||
         strcmp(streams, "true") != 0)) {
        ln_stored_reply(context, exchange, json);
        return;
    }
    if (json == NULL)
        reply_missing(exchange, id);
    else
        reply_bad(exchange, "stream", "a stored response is not streamed");
    free(json);
}

void ln_endpoint_delete_response(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES];
    take_id(exchange, id);
    ln_generations_cancel(context->generations, id, NULL);
    if (ln_response_store_delete(context->responses, id))
        ln_stored_reply_deleted(context, exchange, id, "response");
    else
        reply_missing(exchange, id);
}

/* Ends one that runs in the background; a second time it changes nothing. */
void ln_endpoint_cancel_response(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES];
    take_id(exchange, id);
    ln_strbuf_clear(&context->scratch);
    if (ln_generations_cancel(context->generations, id, &context->scratch)) {
        ln_reply_json(exchange, &context->scratch);
        return;
    }
    char *json = ln_response_store_get(context->responses, id);
    if (json != NULL && strstr(json, "\"background\":true") != NULL) {
        ln_stored_reply(context, exchange, json);
        return;
    }
    if (json == NULL)
        reply_missing(exchange, id);
    else
        reply_bad(exchange, "response_id", "Cannot cancel a synchronous response.");
    free(json);
}

/* What it answers. */
void ln_endpoint_response_input(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES];
    ln_item_list items = {0};
    take_id(exchange, id);
    if (ln_response_store_list(context->responses, id, true, &items))
        ln_item_page_reply(context, exchange, &items);
    else
        reply_missing(exchange, id);
    ln_item_list_free(&items);
}
