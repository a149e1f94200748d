#include "server/api/host_guard.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { MAX_HOST_BYTES = 256 };

/* The host of "host:port" or "[address]:port", without the port; false when it is too long. */
static bool take_host(const char *text, char *host) {
    size_t n_bytes;
    if (*text == '[')
        n_bytes = strcspn(++text, "]");
    else
        n_bytes = strcspn(text, ":/");
    if (n_bytes >= MAX_HOST_BYTES)
        return false;
    memcpy(host, text, n_bytes);
    host[n_bytes] = '\0';
    if (n_bytes > 0 && host[n_bytes - 1] == '.') /* the root of names */
        host[n_bytes - 1] = '\0';
    return true;
}

static bool is_localhost(const char *host) {
    static const char name[] = "localhost", suffix[] = ".localhost";
    size_t n_bytes = strlen(host), n_suffix = sizeof suffix - 1;
    return strcasecmp(host, name) == 0 ||
           (n_bytes > n_suffix && strcasecmp(host + n_bytes - n_suffix, suffix) == 0);
}

/* No name stands behind an address, so none can be made to resolve to another. */
static bool is_address(const char *host) {
    struct in6_addr address;
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

bool ln_host_guard_is_loopback(const char *host) {
    struct in_addr address;
    struct in6_addr address_6;
    if (inet_pton(AF_INET, host, &address) == 1)
        return (ntohl(address.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &address_6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&address_6);
    return is_localhost(host);
}

static bool is_listed(const ln_host_guard *guard, const char *host) {
    for (size_t i = 0; i < guard->n_hosts; i++)
        if (strcmp(guard->hosts[i], "*") == 0 || strcasecmp(guard->hosts[i], host) == 0)
            return true;
    return false;
}

static bool allows_host(const ln_host_guard *guard, const char *value) {
    char host[MAX_HOST_BYTES];
    if (value == NULL || *value == '\0')
        return true; /* HTTP/1.0, which browsers do not speak */
    if (!take_host(value, host))
        return false;
    return is_localhost(host) || is_address(host) || is_listed(guard, host);
}

/* Sites have origins of http and https, or "null"; other schemes are those of programs. The page
 * that this server answered itself has the origin that `authority`, the Host, names. */
static bool allows_origin(const ln_host_guard *guard, const char *origin, const char *authority) {
    char host[MAX_HOST_BYTES];
    const char *allowed = guard->cors_origin;
    if (origin == NULL ||
        (allowed != NULL && (strcmp(allowed, "*") == 0 || strcmp(allowed, origin) == 0)))
        return true;
    if (strncasecmp(origin, "http://", 7) != 0 && strncasecmp(origin, "https://", 8) != 0)
        return strstr(origin, "://") != NULL;
    const char *rest = strchr(origin, ':') + 3;
    if (authority != NULL && *authority != '\0' && strcasecmp(rest, authority) == 0)
        return true; /* after allows_host: no name that could be made to resolve to here */
    if (!take_host(rest, host))
        return false;
    return ln_host_guard_is_loopback(host) || is_listed(guard, host);
}

const char *ln_host_guard_check(const ln_host_guard *guard, const ln_exchange *exchange) {
    if (!guard->is_active)
        return NULL;
    if (!allows_host(guard, exchange->host))
        return "Host";
    return allows_origin(guard, exchange->origin, exchange->host) ? NULL : "Origin";
}
