#include "server/http/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

struct ln_tls {
    SSL_CTX *context;
};

struct ln_tls_stream {
    SSL *ssl;
};

/* Why OpenSSL could not use a file: it cannot be read, or what is in it is not `expected`. */
static ln_status fail(const char *what, const char *path, const char *expected, ln_error *err) {
    unsigned long code = ERR_peek_error();
    if (ERR_SYSTEM_ERROR(code))
        return ln_fail(err, LINNET_ERR_IO, "cannot read the %s %s: %s", what, path,
                       strerror(ERR_GET_REASON(code)));
    return ln_fail(err, LINNET_ERR_ARGUMENT, "%s has no %s", path, expected);
}

/* A server does not ask whoever started it. */
static int give_no_passphrase(char *text, int capacity, int writes, void *user) {
    (void)text, (void)capacity, (void)writes, (void)user;
    return -1;
}

static bool is_mismatch(void) {
    unsigned long code = ERR_peek_last_error();
    return ERR_GET_LIB(code) == ERR_LIB_X509 &&
           (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
            ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH);
}

ln_status ln_tls_create(const char *certificate, const char *key, ln_tls **out, ln_error *err) {
    *out = NULL;
    ln_tls *tls = calloc(1, sizeof *tls);
    SSL_CTX *context = tls != NULL ? SSL_CTX_new(TLS_server_method()) : NULL;
    if (context == NULL) {
        free(tls);
        return ln_fail_memory(err, "TLS");
    }
    tls->context = context;
    ERR_clear_error();
    ln_status status = LINNET_OK;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_default_passwd_cb(context, give_no_passphrase);
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
        status = fail("certificate", certificate, "certificate chain in PEM form", err);
    else if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 && !is_mismatch())
        status = fail("key", key, "key in PEM form without a passphrase", err);
    else if (SSL_CTX_check_private_key(context) != 1)
        status =
            ln_fail(err, LINNET_ERR_ARGUMENT, "the key %s is not that of %s", key, certificate);
    if (status != LINNET_OK)
        ln_tls_destroy(tls);
    else
        *out = tls;
    return status;
}

void ln_tls_destroy(ln_tls *tls) {
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}

ln_tls_stream *ln_tls_stream_create(ln_tls *tls, int fd) {
    ln_tls_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->ssl = SSL_new(tls->context);
    if (stream->ssl == NULL || SSL_set_fd(stream->ssl, fd) != 1) {
        ln_tls_stream_destroy(stream);
        return NULL;
    }
    SSL_set_accept_state(stream->ssl);
    return stream;
}

void ln_tls_stream_destroy(ln_tls_stream *stream) {
    if (stream == NULL)
        return;
    SSL_free(stream->ssl);
    free(stream);
}

/* What a result of SSL_read or SSL_write means as one of recv or send. */
static ssize_t as_socket(ln_tls_stream *stream, int result) {
    if (result > 0)
        return result;
    switch (SSL_get_error(stream->ssl, result)) {
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    default: errno = EPROTO; return -1;
    }
}

ssize_t ln_tls_read(ln_tls_stream *stream, void *bytes, size_t n_bytes, bool *wants_write) {
    ERR_clear_error();
    int result = SSL_read(stream->ssl, bytes, n_bytes < INT_MAX ? (int)n_bytes : INT_MAX);
    *wants_write = result <= 0 && SSL_get_error(stream->ssl, result) == SSL_ERROR_WANT_WRITE;
    return as_socket(stream, result);
}

ssize_t ln_tls_write(ln_tls_stream *stream, const void *bytes, size_t n_bytes) {
    ERR_clear_error();
    return as_socket(stream,
                     SSL_write(stream->ssl, bytes, n_bytes < INT_MAX ? (int)n_bytes : INT_MAX));
}

void ln_tls_finish(ln_tls_stream *stream) {
    ERR_clear_error();
    SSL_shutdown(stream->ssl);
}
