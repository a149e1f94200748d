/* Lists of items, by pages. */
#ifndef LN_SERVER_API_ITEM_PAGE_H
#define LN_SERVER_API_ITEM_PAGE_H

#include "server/context.h"
#include "server/responses/item_list.h"

/* Answers with the part of a list that the query asks for: `limit` (20, at most 100), `after` (an
 * item's id) and `order` (desc or asc). */
void ln_item_page_reply(ln_context *context, ln_exchange *exchange, const ln_item_list *items);

/* The items from the place `begin` on, at most `limit`, the last one of all first unless `ascends`,
 * as OpenAI's API has a list. */
void ln_item_page_put(const ln_item_list *items, size_t begin, size_t limit, bool ascends,
                      ln_strbuf *out);

#endif
