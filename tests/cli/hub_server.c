#include "cli/hub_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

enum { MAX_REQUEST_BYTES = 8192, MAX_LISTING_BYTES = 65536 };

/* ---- answers ---------------------------------------------------------------------------- */

static void hash_of(hub_file *file) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n_digest = 0;
    char header[40];
    int n_header = snprintf(header, sizeof header, "blob %zu", file->n_bytes) + 1;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_DigestInit_ex(context, file->is_large ? EVP_sha256() : EVP_sha1(), NULL);
    if (!file->is_large)
        EVP_DigestUpdate(context, header, (size_t)n_header);
    EVP_DigestUpdate(context, file->bytes, file->n_bytes);
    EVP_DigestFinal_ex(context, digest, &n_digest);
    EVP_MD_CTX_free(context);
    for (unsigned i = 0; i < n_digest; i++)
        snprintf(file->hash + 2 * (size_t)i, 3, "%02x", digest[i]);
}

static size_t put_all(int fd, const char *bytes, size_t n_bytes) {
    size_t done = 0;
    while (done < n_bytes) {
        ssize_t n = send(fd, bytes + done, n_bytes - done, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

static void put_status(int fd, const char *status) {
    char head[256];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);
    put_all(fd, head, (size_t)n);
}

static void put_listing(const hub_server *hub, int fd) {
    static char body[MAX_LISTING_BYTES];
    char head[256];
    size_t n = (size_t)snprintf(body, sizeof body, "{\"sha\": \"%s\", \"siblings\": [", HUB_COMMIT);
    for (size_t i = 0; i < hub->n_files; i++) {
        const hub_file *file = &hub->files[i];
        n +=
            (size_t)snprintf(body + n, sizeof body - n, "%s{\"rfilename\": \"%s\", \"size\": %zu, ",
                             i > 0 ? ", " : "", file->path, file->n_bytes);
        n += file->is_large
                 ? (size_t)snprintf(body + n, sizeof body - n,
                                    "\"lfs\": {\"sha256\": \"%s\", \"size\": %zu}}", file->hash,
                                    file->n_bytes)
                 : (size_t)snprintf(body + n, sizeof body - n, "\"blobId\": \"%s\"}", file->hash);
    }
    n += (size_t)snprintf(body + n, sizeof body - n, "]}");
    const char *other = hub->listing, *text = other ? other : body;
    n = other ? strlen(other) : n;
    int n_head = snprintf(head, sizeof head,
                          "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", n);
    put_all(fd, head, (size_t)n_head);
    put_all(fd, text, n);
}

static void put_file(hub_server *hub, int fd, const hub_file *file, const char *request) {
    char head[256];
    size_t begin = 0, end = file->n_bytes;
    const char *range = strcasestr(request, "\r\nRange: bytes=");
    if (range && sscanf(range + 15, "%zu-%zu", &begin, &end) == 2)
        end++;
    if (begin >= file->n_bytes || end > file->n_bytes) {
        put_status(fd, "416 Range Not Satisfiable");
        return;
    }
    if (hub->shifts_range && begin > 0)
        begin--;
    bool is_longer = hub->sends_more;
    size_t n = end - begin, sent = n;
    if (atomic_fetch_sub(&hub->n_cuts, 1) > 0)
        sent = atomic_load(&hub->cut_bytes) < n ? atomic_load(&hub->cut_bytes) : n;
    long quota = atomic_load(&hub->quota);
    if (quota >= 0 && atomic_fetch_sub(&hub->quota, (long)sent) < (long)sent) {
        atomic_store(&hub->quota, 0);
        put_status(fd, "404 Not Found");
        return;
    }
    int n_head = snprintf(head, sizeof head,
                          "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %zu-%zu/%zu\r\n"
                          "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                          begin, end - 1, file->n_bytes, n + (is_longer ? 1 : 0));
    put_all(fd, head, (size_t)n_head);
    atomic_fetch_add(&hub->n_file_bytes, (long)put_all(fd, file->bytes + begin, sent));
    if (is_longer)
        put_all(fd, "!", 1);
}

static const hub_file *find_file(const hub_server *hub, const char *path) {
    for (size_t i = 0; i < hub->n_files; i++) {
        size_t n = strlen(hub->files[i].path);
        if (strncmp(path, hub->files[i].path, n) == 0 && path[n] == ' ')
            return &hub->files[i];
    }
    return NULL;
}

static void redirect(const hub_server *hub, int fd, const hub_file *file) {
    char head[512];
    int n =
        snprintf(head, sizeof head,
                 "HTTP/1.1 302 Found\r\nLocation: %s%u/cdn/%s\r\nContent-Length: 0\r\n"
                 "Connection: close\r\n\r\n",
                 hub->redirects_to_file ? "file:///" : "http://localhost:", hub->port, file->path);
    put_all(fd, head, (size_t)n);
}

static void answer(hub_server *hub, int fd, const char *request) {
    static const char listing[] = "GET /api/models/" HUB_REPO "/revision/main?",
                      at_commit[] = "GET /api/models/" HUB_REPO "/revision/" HUB_COMMIT "?",
                      resolve[] = "GET /" HUB_REPO "/resolve/" HUB_COMMIT "/", cdn[] = "GET /cdn/";
    char token[256];
    const char *needed = hub->token;
    snprintf(token, sizeof token, "\r\nAuthorization: Bearer %s\r\n", needed ? needed : "");
    bool has_token = strstr(request, "\r\nAuthorization:") != NULL;
    bool is_cdn = strncmp(request, cdn, sizeof cdn - 1) == 0;
    bool is_file = strncmp(request, resolve, sizeof resolve - 1) == 0;
    const hub_file *file = is_cdn    ? find_file(hub, request + sizeof cdn - 1)
                           : is_file ? find_file(hub, request + sizeof resolve - 1)
                                     : NULL;
    atomic_fetch_add(&hub->n_requests, 1);
    if (is_cdn && has_token)
        atomic_store(&hub->gave_token_away, true);
    if (atomic_fetch_sub(&hub->n_busy, 1) > 0)
        put_status(fd, "503 Service Unavailable");
    else if (!is_cdn && needed && !strstr(request, token))
        put_status(fd, "401 Unauthorized");
    else if (strncmp(request, listing, sizeof listing - 1) == 0 ||
             strncmp(request, at_commit, sizeof at_commit - 1) == 0)
        put_listing(hub, fd);
    else if (file && is_file && hub->redirects)
        redirect(hub, fd, file);
    else if (file)
        put_file(hub, fd, file, request);
    else
        put_status(fd, "404 Not Found");
}

/* ---- the server ------------------------------------------------------------------------- */

static void serve_one(hub_server *hub, int fd) {
    char request[MAX_REQUEST_BYTES];
    size_t n_bytes = 0;
    for (;;) {
        ssize_t n = recv(fd, request + n_bytes, sizeof request - 1 - n_bytes, 0);
        if (n <= 0)
            break;
        n_bytes += (size_t)n;
        request[n_bytes] = '\0';
        if (strstr(request, "\r\n\r\n")) {
            answer(hub, fd, request);
            break;
        }
    }
    shutdown(fd, SHUT_WR);
    while (recv(fd, request, sizeof request, 0) > 0)
        ;
}

/* One connection after the other; those that are open at the same time wait. */
static void *serve(void *user) {
    hub_server *hub = user;
    for (;;) {
        const struct timeval patience = {.tv_sec = 5};
        int fd = accept(hub->fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (!atomic_load(&hub->ends))
            serve_one(hub, fd);
        close(fd);
    }
}

void hub_start(hub_server *hub) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n_address = sizeof address;
    char endpoint[64];
    pthread_t thread;
    for (size_t i = 0; i < hub->n_files; i++)
        if (hub->files[i].hash[0] == '\0')
            hash_of(&hub->files[i]);
    hub->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(hub->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(hub->fd, (struct sockaddr *)&address, &n_address), 0);
    assert_int_equal(listen(hub->fd, 64), 0);
    hub->port = ntohs(address.sin_port);
    atomic_store(&hub->quota, -1);
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u/", hub->port);
    setenv("HF_ENDPOINT", endpoint, 1);
    assert_int_equal(pthread_create(&thread, NULL, serve, hub), 0);
    hub->thread = (unsigned long)thread;
}

void hub_stop(hub_server *hub) {
    atomic_store(&hub->ends, true);
    shutdown(hub->fd, SHUT_RDWR);
    pthread_join((pthread_t)hub->thread, NULL);
    close(hub->fd);
}
