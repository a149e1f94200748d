/* What clients do to a server that speaks TLS: whatever it is, they get no answer that they should
 * not, do not hold a connection for longer than a head may take, and others are served. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/client.h"
#include "test.h"

enum { MANY = 1000 };

/* ---- the server -------------------------------------------------------------------------- */

static void write_pem(char *path, EVP_PKEY *key, X509 *certificate) {
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    if (certificate)
        assert_int_equal(PEM_write_X509(file, certificate), 1);
    else
        assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
}

/* A key, and a certificate that it signed itself. */
static void make_certificate(char *certificate_path, char *key_path) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    assert_true(key && certificate);
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                               0);
    X509_set_issuer_name(certificate, name);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    write_pem(certificate_path, key, certificate);
    write_pem(key_path, key, NULL);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

/* To this one what is slow on purpose is late soon; to the shared one nothing is, however slow this
 * machine is. */
static test_server hasty;

static int start(void **state) {
    (void)state;
    char certificate[] = "/tmp/linnet-cert-XXXXXX", key[] = "/tmp/linnet-key-XXXXXX";
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    make_certificate(certificate, key);
    shared = SERVER("--threads=1", "--max-seqs=2", "--tls-cert", certificate, "--tls-key", key,
                    "--head-timeout=60000", "--idle-timeout=60000");
    hasty = SERVER("--threads=1", "--max-seqs=2", "--tls-cert", certificate, "--tls-key", key,
                   "--head-timeout=1000", "--idle-timeout=60000");
    unlink(certificate);
    unlink(key);
    return 0;
}

static int stop(void **state) {
    server_stop(&hasty);
    return shared_stop(state);
}

/* ---- clients ----------------------------------------------------------------------------- */

typedef struct client {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
} client;

static client begin_at(const test_server *server, int min_version, int max_version) {
    client begun = {.context = SSL_CTX_new(TLS_client_method()), .fd = dial(server)};
    assert_non_null(begun.context);
    SSL_CTX_set_security_level(begun.context, 0); /* versions of the past, too */
    SSL_CTX_set_min_proto_version(begun.context, min_version);
    SSL_CTX_set_max_proto_version(begun.context, max_version);
    begun.ssl = SSL_new(begun.context);
    assert_non_null(begun.ssl);
    assert_int_equal(SSL_set_fd(begun.ssl, begun.fd), 1);
    return begun;
}

static client begin(int min_version, int max_version) {
    return begin_at(&shared, min_version, max_version);
}

static void end(client *ended) {
    SSL_free(ended->ssl);
    SSL_CTX_free(ended->context);
    hang_up(ended->fd);
}

/* Asks on an open connection and reads until the body's end is there. */
static void expect_health(client *asking) {
    static const char ask_health[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer[4096] = "";
    int n = 0;
    assert_int_equal(SSL_write(asking->ssl, ask_health, sizeof ask_health - 1),
                     sizeof ask_health - 1);
    while (!strstr(answer, "\"status\":\"ok\"")) {
        int more = SSL_read(asking->ssl, answer + n, (int)sizeof answer - 1 - n);
        if (more <= 0)
            fail_msg("no answer after '%s'", answer);
        n += more;
        answer[n] = '\0';
    }
    assert_int_equal(strncmp(answer, "HTTP/1.1 200 ", 13), 0);
}

static void expect_served(void) {
    client good = begin(TLS1_2_VERSION, 0);
    assert_int_equal(SSL_connect(good.ssl), 1);
    expect_health(&good);
    end(&good);
}

/* The same of the hasty server, which this machine may be too slow for at times. */
static void expect_hasty_served(void) {
    enum { TIMES = 60 };
    static const char ask_health[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    bool is_served = false;
    for (int times = 0; times < TIMES && !is_served; times++) {
        char answer[64] = "";
        client good = begin_at(&hasty, TLS1_2_VERSION, 0);
        if (SSL_connect(good.ssl) == 1 &&
            SSL_write(good.ssl, ask_health, sizeof ask_health - 1) > 0)
            SSL_read(good.ssl, answer, sizeof answer - 1);
        is_served = strncmp(answer, "HTTP/1.1 200 ", 13) == 0;
        end(&good);
    }
    assert_true(is_served);
}

/* The first message of a handshake: its length. */
static size_t make_hello(unsigned char *bytes, size_t capacity) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(context);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    assert_true(SSL_connect(ssl) <= 0);
    int n_bytes = BIO_read(out, bytes, (int)capacity);
    assert_true(n_bytes > 100);
    SSL_free(ssl);
    SSL_CTX_free(context);
    return (size_t)n_bytes;
}

/* Reads what comes until the other side closes, which it must; fails when it answers in HTTP. */
static void expect_closed(int fd) {
    char heard[8192] = "";
    size_t n = 0;
    for (ssize_t more; (more = recv(fd, heard + n, sizeof heard - 1 - n, 0)) != 0;
         n += (size_t)more)
        if (more < 0) {
            assert_true(errno == ECONNRESET || errno == EPIPE);
            break;
        }
    assert_null(memmem(heard, n, "HTTP/", 5));
}

/* ---- tests ------------------------------------------------------------------------------- */

static void serves(void **state) {
    (void)state;
    client twice = begin(TLS1_2_VERSION, 0);
    assert_int_equal(SSL_connect(twice.ssl), 1);
    expect_health(&twice);
    expect_health(&twice);
    end(&twice);
}

static void refuses_plain_http(void **state) {
    (void)state;
    int fd = dial(&shared);
    say_text(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect_closed(fd);
    hang_up(fd);
    expect_served();
}

static void refuses_versions_of_the_past(void **state) {
    (void)state;
    static const int versions[] = {TLS1_VERSION, TLS1_1_VERSION};
    for (size_t i = 0; i < 2; i++) {
        client old = begin(versions[i], versions[i]);
        assert_int_not_equal(SSL_connect(old.ssl), 1);
        end(&old);
    }
    expect_served();
}

static void bears_cut_and_broken_handshakes(void **state) {
    (void)state;
    unsigned char hello[4096], broken[4096];
    size_t n_bytes = make_hello(hello, sizeof hello);
    for (size_t n = 1; n < n_bytes; n += n < 16 ? 1 : 37) { /* cut, and the client is gone */
        int fd = dial(&hasty);
        say(fd, hello, n);
        hang_up(fd);
    }
    for (size_t at = 0; at < n_bytes; at += at < 80 ? 1 : 23) { /* a byte is another */
        int fd = dial(&hasty);
        memcpy(broken, hello, n_bytes);
        broken[at] ^= 0xff;
        say(fd, broken, n_bytes);
        shutdown(fd, SHUT_WR);
        expect_closed(fd);
        hang_up(fd);
    }
    static const char giant[] = "\x16\x03\x01\xff\xff\x01\x00\xff\xff\xff";
    int fd = dial(&hasty);
    say(fd, giant, sizeof giant - 1);
    expect_closed(fd);
    hang_up(fd);
    expect_hasty_served();
}

/* A byte now and then does not buy time. */
static void times_slow_handshakes(void **state) {
    (void)state;
    unsigned char hello[4096];
    make_hello(hello, sizeof hello);
    int fd = dial(&hasty);
    for (size_t i = 0; i < 60; i++) {
        say(fd, hello + i, 1);
        sleep_ms(25);
    }
    expect_closed(fd);
    hang_up(fd);
    expect_hasty_served();
}

/* Of a head that begins late in the time that it shares with its handshake, a second: ms until it
 * is refused. */
static double time_late_head(void) {
    char answer[256] = "";
    struct timespec begun, ended;
    client late = begin_at(&hasty, TLS1_2_VERSION, 0);
    sleep_ms(600);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    if (SSL_connect(late.ssl) == 1 && SSL_write(late.ssl, "GET /", 5) == 5)
        SSL_read(late.ssl, answer, sizeof answer - 1);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    end(&late);
    if (strncmp(answer, "HTTP/1.1 408 ", 13) != 0)
        return 1e9; /* this machine was late */
    return (double)(ended.tv_sec - begun.tv_sec) * 1e3 +
           (double)(ended.tv_nsec - begun.tv_nsec) * 1e-6;
}

/* Handshake and head have one deadline together: one of the head alone would let a second go by
 * each time. */
static void times_handshake_and_head_as_one(void **state) {
    (void)state;
    enum { TIMES = 20 };
    double ms = 1e9;
    for (int times = 0; times < TIMES && ms >= 1000; times++)
        ms = time_late_head();
    assert_true(ms < 1000);
}

/* A client may ask for it, and gets none. */
static void does_not_renegotiate(void **state) {
    (void)state;
    client asking = begin(TLS1_2_VERSION, TLS1_2_VERSION);
    char byte;
    assert_int_equal(SSL_connect(asking.ssl), 1);
    expect_health(&asking);
    assert_int_equal(SSL_renegotiate(asking.ssl), 1);
    /* it is refused, with which this client ends */
    assert_true(SSL_do_handshake(asking.ssl) != 1 || SSL_read(asking.ssl, &byte, 1) <= 0);
    end(&asking);
    expect_served();
}

/* A thousand that begin and say no more do not keep others out, and are closed. */
static void bears_half_open_clients(void **state) {
    (void)state;
    static int fds[MANY];
    unsigned char hello[4096];
    make_hello(hello, sizeof hello);
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial(&hasty);
        say(fds[i], hello, (size_t)(i % 100));
    }
    expect_hasty_served();
    for (int i = 0; i < MANY; i++) {
        expect_closed(fds[i]);
        hang_up(fds[i]);
    }
    expect_hasty_served();
}

/* A stream whose client goes is cancelled: the next one is not held up by it. */
static void cancels_those_who_leave(void **state) {
    (void)state;
    static const char body[] = "{\"prompt\":\"Once\",\"max_tokens\":1000,\"ignore_eos\":true,"
                               "\"stream\":true}";
    for (int i = 0; i < 3; i++) {
        char request[512], some[64];
        client leaving = begin(TLS1_2_VERSION, 0);
        assert_int_equal(SSL_connect(leaving.ssl), 1);
        int n_bytes =
            snprintf(request, sizeof request,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
                     "\r\n%s",
                     strlen(body), body);
        assert_int_equal(SSL_write(leaving.ssl, request, n_bytes), n_bytes);
        assert_true(SSL_read(leaving.ssl, some, sizeof some) > 0);
        end(&leaving);
    }
    expect_served();
}

/* What the program says of two files that it cannot use. */
static void expect_complaint(const char *certificate, const char *key, const char *expected) {
    char command[512], said[512] = "";
    snprintf(command, sizeof command,
             TEST_LINNET " serve --port=0 --threads=1 --tls-cert=%s --tls-key=%s 2>&1 </dev/null",
             certificate, key);
    FILE *program = popen(command, "r"); // NOLINT(bugprone-command-processor, cert-env33-c)
    assert_non_null(program);
    size_t n = fread(said, 1, sizeof said - 1, program);
    assert_true(n > 0);
    assert_int_not_equal(pclose(program), 0);
    if (!strstr(said, expected))
        fail_msg("'%s' does not say '%s'", said, expected);
}

static void names_files_that_do_not_do(void **state) {
    (void)state;
    char certificate[] = "/tmp/linnet-cert-XXXXXX", key[] = "/tmp/linnet-key-XXXXXX";
    char other[] = "/tmp/linnet-cert-XXXXXX", other_key[] = "/tmp/linnet-key-XXXXXX";
    make_certificate(certificate, key);
    make_certificate(other, other_key);
    expect_complaint("/nowhere.pem", key, "cannot read the certificate /nowhere.pem");
    expect_complaint(certificate, "/nowhere.pem", "cannot read the key /nowhere.pem");
    expect_complaint(key, key, "has no certificate chain in PEM form");
    expect_complaint(certificate, certificate, "has no key in PEM form");
    expect_complaint(certificate, other_key, "is not that of /tmp/linnet-cert-");
    unlink(certificate);
    unlink(key);
    unlink(other);
    unlink(other_key);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves),
        cmocka_unit_test(refuses_plain_http),
        cmocka_unit_test(refuses_versions_of_the_past),
        cmocka_unit_test(bears_cut_and_broken_handshakes),
        cmocka_unit_test(times_slow_handshakes),
        cmocka_unit_test(times_handshake_and_head_as_one),
        cmocka_unit_test(does_not_renegotiate),
        cmocka_unit_test(bears_half_open_clients),
        cmocka_unit_test(cancels_those_who_leave),
        cmocka_unit_test(names_files_that_do_not_do),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
