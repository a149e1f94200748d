/* libcurl, loaded when something is to be downloaded: nothing else needs it, and a program that
 * never does starts without it and the thirty libraries that it brings. */
#ifndef LN_HUB_CURL_H
#define LN_HUB_CURL_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/error.h"

/* The functions that we call, under their names without "curl_". */
#define LN_HUB_CURL(X)                                                                             \
    X(global_init)                                                                                 \
    X(version_info)                                                                                \
    X(easy_init)                                                                                   \
    X(easy_cleanup)                                                                                \
    X(easy_setopt)                                                                                 \
    X(easy_perform)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_escape)                                                                                 \
    X(free)                                                                                        \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(multi_init)                                                                                  \
    X(multi_setopt)                                                                                \
    X(multi_cleanup)                                                                               \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_perform)                                                                               \
    X(multi_poll)                                                                                  \
    X(multi_info_read)                                                                             \
    X(multi_strerror)

/* A header's macros hide the functions that take any arguments. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

typedef struct ln_hub_curl {
#define LN_HUB_CURL_FIELD(name) __typeof__(&curl_##name) name;
    LN_HUB_CURL(LN_HUB_CURL_FIELD)
#undef LN_HUB_CURL_FIELD
} ln_hub_curl;

/* Loads it once; it stays. LINNET_ERR_UNSUPPORTED where it is not installed. */
ln_status ln_hub_curl_load(const ln_hub_curl **curl, ln_error *err);

#endif
