/* /v1/responses: OpenAI's Responses API, and what it stores. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/item_page.h"
#include "server/api/query.h"
#include "server/api/routes.h"
#include "server/api/stored_object.h"
#include "server/generation/chat_request.h"
#include "server/generation/generation.h"
#include "server/http/response.h"
#include "server/responses/responses_input.h"
#include "server/responses/responses_writer.h"

/* ---- a new response --------------------------------------------------------------------- */

static void free_kept(void *kept) {
    ln_responses_request_free(kept);
    free(kept);
}

static bool check_background(ln_api_task *task, const ln_responses_request *kept) {
    task->request.is_detached = kept->runs_in_background;
    return !kept->runs_in_background || kept->is_stored ||
           ln_api_fail(&task->error, 400, "background",
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
    bool done = body != NULL && check_background(task, kept) &&
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

/* The query's `stream`, and the number of the event `starting_after` which it begins. */
static bool read_stream(const char *query, bool *streams, long long *after, ln_api_error *error) {
    char text[24], *end = text;
    *after = -1;
    ln_query_value given = ln_query_get(query, "stream", text, sizeof text);
    *streams = given == LN_QUERY_GIVEN && strcmp(text, "true") == 0;
    if (given != LN_QUERY_ABSENT && !*streams && strcmp(text, "false") != 0)
        return ln_api_fail(error, 400, "stream", "stream is not true or false");
    given = ln_query_get(query, "starting_after", text, sizeof text);
    if (given == LN_QUERY_ABSENT)
        return true;
    errno = 0;
    if (given == LN_QUERY_GIVEN && *text >= '0' && *text <= '9')
        *after = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || *after >= INT32_MAX)
        return ln_api_fail(error, 400, "starting_after", "starting_after is not a whole number");
    return *streams || ln_api_fail(error, 400, "starting_after",
                                   "starting_after is of use with stream=true alone");
}

/* The events of one that runs, or that is over. */
static void reply_events(ln_context *context, ln_exchange *exchange, const char *id,
                         long long after) {
    ln_api_error error = {0};
    if (ln_generations_follow(context->generations, id, exchange, after, &error))
        return;
    char *events = error.status == 0 ? ln_response_store_get_events(context->responses, id) : NULL;
    size_t n_bytes = events != NULL ? strlen(events) : 0, begin = SIZE_MAX;
    if (events != NULL)
        begin = ln_events_find(events, n_bytes, after, &error);
    else
        ln_api_fail(&error, 400, "stream",
                    "the response has no events here: it was not made with background and stream, "
                    "or they were more than the server stores");
    if (begin == SIZE_MAX) {
        ln_reply_error(exchange, &error);
    } else {
        ln_response_begin(exchange, 200, ln_responses_format.media_type);
        ln_response_write(exchange, events + begin, n_bytes - begin);
        ln_response_end(exchange);
    }
    free(events);
}

void ln_endpoint_response(ln_context *context, ln_exchange *exchange) {
    char id[LN_STORED_ID_BYTES];
    bool streams;
    long long after;
    ln_api_error error = {0};
    take_id(exchange, id);
    char *json = ln_response_store_get(context->responses, id);
    if (json == NULL) {
        reply_missing(exchange, id);
        return;
    }
    if (read_stream(exchange->query, &streams, &after, &error) && !streams) {
        ln_stored_reply(context, exchange, json);
        return;
    }
    free(json);
    if (error.status != 0)
        ln_reply_error(exchange, &error);
    else
        reply_events(context, exchange, id, after);
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
