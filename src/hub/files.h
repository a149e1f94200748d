/* The files of a repository, as the hub or the cache lists them, and which of them a model is. */
#ifndef LN_HUB_FILES_H
#define LN_HUB_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "hub/name.h"

enum { LN_HUB_HASH_BYTES = 65 };

typedef struct ln_hub_file {
    char *path;     /* in the repository; owned */
    uint64_t bytes; /* its size */
    char
        hash[LN_HUB_HASH_BYTES]; /* hexadecimal: SHA-256, or of 40 digits the SHA-1 of git's blob */
    bool is_chosen;
} ln_hub_file;

typedef struct ln_hub_files {
    ln_hub_file *items; /* [count], owned */
    size_t count;
    char commit[LN_HUB_COMMIT_BYTES];
} ln_hub_files;

void ln_hub_files_free(ln_hub_files *files);

/* Adds a file of this path, to be filled; NULL when memory is out. */
ln_hub_file *ln_hub_files_add(ln_hub_files *files, const char *path);

/* Reads the hub's answer about a revision. Anything that is not as it must be is an error: what a
 * path, hash or commit may be is checked here. */
ln_status ln_hub_files_parse(const char *json, size_t n_bytes, ln_hub_files *files, ln_error *err);

/* Chooses the files of the model `name`: a GGUF file with all of its parts, or a folder of
 * safetensors with what belongs to it. *main is the file to open, borrowed; NULL: the folder. */
ln_status ln_hub_files_choose(ln_hub_files *files, const ln_hub_name *name, const char **main,
                              ln_error *err);

/* What to write behind the ':' of a name for this GGUF file: its quantisation, where the name has
 * one, otherwise its name without ending. */
void ln_hub_file_tag(const char *path, char tag[LN_HUB_NAME_BYTES]);

/* Whether the text is that, or more of the end of the file's name: Q4_K_M or UD-Q4_K_M of
 * model-UD-Q4_K_M.gguf, but not model. */
bool ln_hub_file_has_tag(const char *path, const char *text);

#endif
