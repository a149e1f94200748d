#include "hub/curl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* ISO C has no cast from an object to a function. */
static bool find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void *open_library(void) {
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

ln_status ln_hub_curl_load(const ln_hub_curl **curl, ln_error *err) {
    static ln_hub_curl functions;
    static bool is_loaded;
    *curl = &functions;
    if (is_loaded)
        return LINNET_OK;
    void *library = open_library();
    if (!library)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "downloads need libcurl, which is not installed (Debian: libcurl4)");
    bool has_all = true;
#define LN_HUB_CURL_FIND(name) has_all = has_all && find(library, "curl_" #name, &functions.name);
    LN_HUB_CURL(LN_HUB_CURL_FIND)
#undef LN_HUB_CURL_FIND
    enum { MIN_VERSION = 0x075500 }; /* which limits redirects by the names of protocols */
    if (!has_all || functions.version_info(CURLVERSION_NOW)->version_num < MIN_VERSION ||
        functions.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "libcurl is older than 7.85");
    is_loaded = true;
    return LINNET_OK;
}
