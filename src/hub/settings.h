/* Where the hub and its cache are, and how to download. Strings are the caller's. */
#ifndef LN_HUB_SETTINGS_H
#define LN_HUB_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LN_HUB_MAX_PARALLEL = 64 };

/* How far a pull is. */
typedef struct ln_hub_progress {
    uint64_t total_bytes; /* of the model */
    uint64_t ready_bytes; /* of them on disk, those of earlier tries included */
    uint64_t new_bytes;   /* received by this pull */
    size_t n_files;       /* of the model */
    bool is_checking;     /* all are here; ready_bytes counts what was hashed */
} ln_hub_progress;

typedef struct ln_hub_settings {
    const char *endpoint; /* "https://huggingface.co", without a '/' behind it */
    const char *cache;    /* the folder with models--ORG--NAME */
    const char *token;    /* NULL: none */
    bool is_offline;      /* ask no hub */
    size_t n_parallel;    /* requests at a time, 1 to LN_HUB_MAX_PARALLEL */
    uint64_t part_bytes;  /* of a request */
    /* Called some times a second; false ends the pull, which keeps what it has. NULL: nothing. */
    bool (*on_progress)(void *user, const ln_hub_progress *progress);
    void *user;
} ln_hub_settings;

#endif
