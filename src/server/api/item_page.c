#include "server/api/item_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/query.h"
#include "server/json/out.h"
#include "server/json/reply.h"

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
static bool read_page(const ln_item_list *items, const char *query, page *asked,
                      ln_api_error *error) {
    char text[4096];
    bool is_given;
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
    ln_query_decode(text);
    size_t found = ln_item_list_find(items, text);
    asked->begin = asked->ascends ? found + 1 : items->n_items - found;
    return found < items->n_items ||
           ln_api_fail(error, 400, "after", "after: there is no item '%.64s'", text);
}

void ln_item_page_put(const ln_item_list *items, size_t begin, size_t limit, bool ascends,
                      ln_strbuf *out) {
    const char *first = NULL, *last = NULL, *comma = "";
    size_t end =
        begin < items->n_items && limit < items->n_items - begin ? begin + limit : items->n_items;
    ln_strbuf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = begin; i < end; i++) {
        const ln_stored_item *item = &items->items[ascends ? i : items->n_items - 1 - i];
        ln_strbuf_puts(out, comma);
        ln_strbuf_puts(out, item->json);
        first = first != NULL ? first : item->id;
        last = item->id;
        comma = ",";
    }
    ln_strbuf_puts(out, "],\"first_id\":");
    ln_json_put_text(out, first);
    ln_strbuf_puts(out, ",\"last_id\":");
    ln_json_put_text(out, last);
    ln_strbuf_printf(out, ",\"has_more\":%s}", end < items->n_items ? "true" : "false");
    out->failed |= items->failed;
}

void ln_item_page_reply(ln_context *context, ln_exchange *exchange, const ln_item_list *items) {
    page asked;
    ln_api_error error = {0};
    if (!read_page(items, exchange->query, &asked, &error)) {
        ln_reply_error(exchange, &error);
        return;
    }
    ln_strbuf_clear(&context->scratch);
    ln_item_page_put(items, asked.begin, asked.limit, asked.ascends, &context->scratch);
    ln_reply_json(exchange, &context->scratch);
}
