/* /, /status and /web/NAME: the web page, for browsers. Its files hold nothing that is secret: they
 * ask the API for all that they show, with the key that the user gave them. */
#include <string.h>

#include "server/api/routes.h"
#include "server/content_coding.h"
#include "server/http/response.h"
#include "server/web/web_file.h"

/* The page loads its own files and calls its own server. It makes no markup of text, so what a
 * model says cannot run (Trusted Types), and no other page can frame it. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

static const ln_web_file *find(const char *path) {
    static const char folder[] = "/web/";
    const char *name = path;
    if (strcmp(path, "/") == 0)
        name = "index.html";
    else if (strcmp(path, "/status") == 0)
        name = "status.html";
    else if (strncmp(path, folder, sizeof folder - 1) == 0)
        name = path + sizeof folder - 1;
    for (size_t i = 0; i < ln_n_web_files; i++)
        if (strcmp(ln_web_files[i].name, name) == 0)
            return &ln_web_files[i];
    return NULL;
}

static void add_headers(ln_exchange *exchange, const ln_web_file *file) {
    ln_response_add_header(exchange, "ETag", file->etag);
    ln_response_add_header(exchange, "Cache-Control", "no-cache"); /* ask whether it changed */
    ln_response_add_header(exchange, "Vary", "Accept, Accept-Encoding");
    ln_response_add_header(exchange, "Content-Security-Policy", policy);
    ln_response_add_header(exchange, "X-Content-Type-Options", "nosniff");
    ln_response_add_header(exchange, "Referrer-Policy", "no-referrer");
    ln_response_add_header(exchange, "Cross-Origin-Opener-Policy", "same-origin");
    ln_response_add_header(exchange, "Cross-Origin-Resource-Policy", "same-origin");
}

/* For clients that take no gzip. */
static void send_plain(ln_exchange *exchange, const ln_web_file *file) {
    ln_strbuf text;
    ln_api_error error = {0};
    ln_strbuf_init(&text);
    if (ln_strbuf_append(&text, file->gzip, file->n_gzip_bytes) &&
        ln_content_inflate(&text, file->n_bytes, &error)) {
        add_headers(exchange, file);
        ln_response_send(exchange, 200, file->type, text.data, text.len);
    } else {
        ln_api_fail_memory(&error);
        ln_reply_error(exchange, &error);
    }
    ln_strbuf_free(&text);
}

void ln_endpoint_web_file(ln_context *context, ln_exchange *exchange) {
    (void)context;
    const ln_web_file *file = find(exchange->path);
    const char *known = exchange->if_none_match;
    if (file == NULL) {
        ln_api_error error = {0};
        ln_api_fail(&error, 404, NULL, "the web page has no file %.256s", exchange->path);
        ln_reply_error(exchange, &error);
    } else if (known != NULL && (strcmp(known, "*") == 0 || strstr(known, file->etag) != NULL)) {
        add_headers(exchange, file);
        ln_response_send(exchange, 304, NULL, NULL, 0);
    } else if (!exchange->accepts_gzip) {
        send_plain(exchange, file);
    } else {
        add_headers(exchange, file);
        ln_response_add_header(exchange, "Content-Encoding", "gzip");
        ln_response_send(exchange, 200, file->type, file->gzip, file->n_gzip_bytes);
    }
}
