/* /v1/responses: OpenAI's Responses API, and what it stores. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/load.h"
#include "server/api/query.h"
#include "server/api/routes.h"
#include "server/generation/chat_request.h"
#include "server/generation/generation.h"
#include "server/json/out.h"
#include "server/responses/responses_input.h"
#include "server/responses/responses_writer.h"

enum { MAX_ID_BYTES = 128 };

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
                           "background and stream exclude each "
                           "other here");
    if (kept->store == NULL)
        return ln_api_fail(&task->error, 400, "background",
                           "background can only be used when `store` is true");
    task->request.is_detached = true;
    return true;
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
    return ln_responses_input_translate(fields, task->context->responses, kept);
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

/* The id in a path; "" when it is too long to be one. */
static void take_id(const ln_exchange *exchange, char *id) {
    const char *begin = exchange->path + strlen("/v1/responses/");
    size_t n_bytes = strcspn(begin, "/");
    snprintf(id, MAX_ID_BYTES, "%.*s", n_bytes < MAX_ID_BYTES ? (int)n_bytes : 0, begin);
}

static void reply_missing(ln_exchange *exchange, const char *id) {
    ln_api_error error = {0};
    ln_api_fail(&error, 404, "response_id", "Response with id '%s' not found.", id);
    ln_reply_error(exchange, &error);
}

static void reply_bad(ln_exchange *exchange, const char *param, const char *message) {
    ln_api_error error = {0};
    ln_api_fail(&error, 400, param, "%s", message);
    ln_reply_error(exchange, &error);
}

static void reply_text(ln_context *context, ln_exchange *exchange, const char *json) {
    ln_strbuf_clear(&context->scratch);
    ln_strbuf_puts(&context->scratch, json);
    ln_reply_json(exchange, &context->scratch);
}

void ln_endpoint_response(ln_context *context, ln_exchange *exchange) {
    char id[MAX_ID_BYTES], streams[8];
    take_id(exchange, id);
    char *json = ln_response_store_get(context->responses, id, LN_STORED_RESPONSE);
    if (json == NULL)
        reply_missing(exchange, id);
    else if (ln_query_get(exchange->query, "stream", streams, sizeof streams) == LN_QUERY_GIVEN &&
             strcmp(streams, "true") == 0)
        reply_bad(exchange, "stream", "a stored response is not streamed");
    else
        reply_text(context, exchange, json);
    free(json);
}

void ln_endpoint_delete_response(ln_context *context, ln_exchange *exchange) {
    char id[MAX_ID_BYTES];
    take_id(exchange, id);
    ln_generations_cancel(context->generations, id, NULL);
    if (!ln_response_store_delete(context->responses, id)) {
        reply_missing(exchange, id);
        return;
    }
    ln_strbuf *out = &context->scratch;
    ln_strbuf_clear(out);
    ln_strbuf_puts(out, "{\"id\":");
    ln_json_put_text(out, id);
    ln_strbuf_puts(out, ",\"object\":\"response\",\"deleted\":true}");
    ln_reply_json(exchange, out);
}

/* Ends one that runs in the background; a second time it changes nothing. */
void ln_endpoint_cancel_response(ln_context *context, ln_exchange *exchange) {
    char id[MAX_ID_BYTES];
    take_id(exchange, id);
    ln_strbuf_clear(&context->scratch);
    if (ln_generations_cancel(context->generations, id, &context->scratch)) {
        ln_reply_json(exchange, &context->scratch);
        return;
    }
    char *json = ln_response_store_get(context->responses, id, LN_STORED_RESPONSE);
    if (json == NULL)
        reply_missing(exchange, id);
    else if (strstr(json, "\"background\":true") == NULL)
        reply_bad(exchange, "response_id", "Cannot cancel a synchronous response.");
    else
        reply_text(context, exchange, json);
    free(json);
}

/* ---- their input ------------------------------------------------------------------------ */

static size_t find_item(const json_t *items, const char *id) {
    size_t index;
    json_t *item;
    json_array_foreach(items, index, item) {
        const char *own = json_string_value(json_object_get(item, "id"));
        if (own != NULL && strcmp(own, id) == 0)
            return index;
    }
    return json_array_size(items);
}

typedef struct page {
    size_t begin, limit; /* in the order that is asked for */
    bool ascends;
} page;

/* False with an error where the value is too long. */
static bool read_value(const char *query, const char *name, char *text, size_t capacity,
                       bool *is_given, ln_api_error *error) {
    ln_query_value value = ln_query_get(query, name, text, capacity);
    *is_given = value == LN_QUERY_GIVEN;
    return value != LN_QUERY_TOO_LONG ||
           ln_api_fail(error, 400, name, "%s is longer than %zu bytes", name, capacity - 1);
}

static bool read_limit(const char *query, size_t *limit, ln_api_error *error) {
    enum { MAX_LIMIT = 100 };
    char text[32], *end = NULL;
    bool is_given;
    if (!read_value(query, "limit", text, sizeof text, &is_given, error))
        return false;
    if (!is_given)
        return true;
    errno = 0;
    long given = strtol(text, &end, 10);
    if (end == text || *end != '\0')
        return ln_api_fail(error, 400, "limit", "limit is not a whole number from 1 to %d",
                           MAX_LIMIT);
    if (errno == 0 && given >= 1 && given <= MAX_LIMIT) {
        *limit = (size_t)given;
        return true;
    }
    ln_api_fail(error, 400, "limit", "limit is not from 1 to %d", MAX_LIMIT);
    error->code = given < 1 ? "integer_below_min_value" : "integer_above_max_value";
    return false;
}

/* The last item comes first unless order is "asc". */
static bool read_page(const json_t *items, const char *query, page *asked, ln_api_error *error) {
    char text[4096];
    bool is_given;
    size_t n_items = json_array_size(items);
    *asked = (page){.limit = 20};
    if (!read_value(query, "order", text, sizeof text, &is_given, error))
        return false;
    if (is_given) {
        asked->ascends = strcmp(text, "asc") == 0;
        if (!asked->ascends && strcmp(text, "desc") != 0)
            return ln_api_fail(error, 400, "order", "order is not asc or desc");
    }
    if (!read_limit(query, &asked->limit, error) ||
        !read_value(query, "after", text, sizeof text, &is_given, error))
        return false;
    if (!is_given)
        return true;
    size_t found = find_item(items, text);
    asked->begin = asked->ascends ? found + 1 : n_items - found;
    return found < n_items ||
           ln_api_fail(error, 400, "after", "after: the response has no item '%.64s'", text);
}

static json_t *list_items(const json_t *items, const page *asked) {
    size_t n_items = json_array_size(items);
    json_t *data = json_array();
    for (size_t i = asked->begin; i < n_items && i < asked->begin + asked->limit; i++)
        json_array_append(data, json_array_get(items, asked->ascends ? i : n_items - 1 - i));
    size_t n_data = json_array_size(data);
    json_t *first = json_object_get(json_array_get(data, 0), "id");
    json_t *last = n_data > 0 ? json_object_get(json_array_get(data, n_data - 1), "id") : NULL;
    return json_pack("{s:s, s:O?, s:O?, s:b, s:o}", "object", "list", "first_id", first, "last_id",
                     last, "has_more", asked->begin + n_data < n_items, "data", data);
}

static void reply_items(ln_context *context, ln_exchange *exchange, const json_t *items,
                        const page *asked) {
    ln_strbuf *out = &context->scratch;
    json_t *list = list_items(items, asked);
    char *text = list != NULL ? json_dumps(list, JSON_COMPACT) : NULL;
    ln_strbuf_clear(out);
    if (text != NULL)
        ln_strbuf_puts(out, text);
    else
        out->failed = true;
    ln_reply_json(exchange, out);
    free(text);
    json_decref(list);
}

void ln_endpoint_response_input(ln_context *context, ln_exchange *exchange) {
    char id[MAX_ID_BYTES];
    take_id(exchange, id);
    char *json = ln_response_store_get(context->responses, id, LN_STORED_INPUT);
    if (json == NULL) {
        reply_missing(exchange, id);
        return;
    }
    page asked;
    ln_api_error error = {0};
    json_t *items = ln_json_load_bytes(json, strlen(json), JSON_ALLOW_NUL, NULL);
    if (read_page(items, exchange->query, &asked, &error))
        reply_items(context, exchange, items, &asked);
    else
        ln_reply_error(exchange, &error);
    json_decref(items);
    free(json);
}
