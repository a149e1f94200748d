#include "server/http/connection.h"

#include <stdlib.h>

void ln_connection_set_deadline(ln_connection *connection, uint32_t ms) {
    struct timeval when = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    if (ms == 0)
        event_del(connection->timer);
    else
        event_add(connection->timer, &when);
}

void ln_connection_wake(ln_connection *connection) {
    if (connection->pending.len > 0)
        event_active(connection->read_event, EV_READ, 0);
}

void ln_connection_doom(ln_connection *connection) {
    ln_connection_set *set = connection->set;
    if (connection->state == LN_CONNECTION_DOOMED)
        return;
    connection->state = LN_CONNECTION_DOOMED;
    event_del(connection->read_event);
    event_del(connection->write_event);
    event_del(connection->timer);
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        set->first = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    connection->next = set->doomed;
    set->doomed = connection;
    event_active(set->reaper, EV_TIMEOUT, 0);
}

void ln_connection_reset(ln_connection *connection) {
    ln_exchange *exchange = &connection->exchange;
    free(exchange->path);
    free(exchange->query);
    free(exchange->host);
    free(exchange->asked_headers);
    free(exchange->api_key);
    free(exchange->credential);
    free(exchange->origin);
    free(exchange->if_none_match);
    free(exchange->load_format);
    ln_http_parser_free(&connection->parser);
    ln_strbuf_free(&exchange->body);
    ln_strbuf_free(&connection->headers);
    connection->set->n_body_bytes -= connection->n_body_bytes;
    connection->n_body_bytes = 0;
    *exchange = (ln_exchange){.peer = connection->peer};
    ln_strbuf_init(&exchange->body);
    ln_strbuf_init(&connection->headers);
    connection->n_headers = connection->n_blank = 0;
    connection->refusal = 0;
    connection->n_hosts = 0;
    connection->skips_body = false;
    connection->expects_continue = connection->is_chunked = false;
    connection->is_active = connection->is_whole = false;
}

void ln_connection_refuse(ln_connection *connection, int status, const char *message) {
    const ln_http_hooks *hooks = &connection->set->hooks;
    ln_exchange *exchange = &connection->exchange;
    exchange->is_bad = exchange->path == NULL;
    connection->keeps_alive = false;
    connection->state = LN_CONNECTION_RESPOND;
    hooks->on_refuse(hooks->user, exchange, status, message);
}

bool ln_connection_fail(ln_connection *connection, int status, const char *message) {
    if (connection->refusal == 0) {
        connection->refusal = status;
        connection->refusal_text = message;
    }
    return false;
}
