/* Any bytes as a hub's answer about a revision, and as the name of a model: what is taken has paths
 * that stay below a folder, hashes that are file names, and a choice that is one of its files. */
#include <stdlib.h>
#include <string.h>

#include "hub/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(bool is_right) {
    if (!is_right)
        __builtin_trap();
}

static bool is_hash(const char *hash) {
    size_t n = strlen(hash);
    return (n == 40 || n == 64) && strspn(hash, "0123456789abcdef") == n;
}

static void choose(ln_hub_files *files, const char *text) {
    ln_hub_name name;
    const char *main_file = NULL;
    if (ln_hub_name_parse(text, &name, NULL) != LINNET_OK ||
        ln_hub_files_choose(files, &name, &main_file, NULL) != LINNET_OK)
        return;
    size_t n_chosen = 0, n_main = 0;
    for (size_t i = 0; i < files->count; i++) {
        n_chosen += files->items[i].is_chosen;
        n_main += files->items[i].is_chosen && files->items[i].path == main_file;
    }
    check(n_chosen > 0 && n_main == (main_file ? 1 : 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ln_hub_files files;
    ln_hub_name name;
    char tag[LN_HUB_NAME_BYTES];
    char *text = malloc(bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    if (ln_hub_name_parse(text, &name, NULL) == LINNET_OK)
        check(!strstr(name.repo, "..") && !strstr(name.revision, "..") && *name.repo != '/' &&
              *name.revision != '/');
    if (ln_hub_files_parse(text, bytes, &files, NULL) == LINNET_OK) {
        check(ln_hub_is_commit(files.commit));
        for (size_t i = 0; i < files.count; i++) {
            const char *path = files.items[i].path;
            check(is_hash(files.items[i].hash) && ln_hub_is_safe_path(path));
            check(*path != '/' && strncmp(path, "../", 3) != 0 && !strstr(path, "/../"));
            ln_hub_file_tag(path, tag);
            check(strlen(tag) < sizeof tag);
        }
        choose(&files, "org/name");
        choose(&files, "org/name:Q4_K_M");
        choose(&files, "org/name:tiny@main");
        ln_hub_files_free(&files);
    }
    free(text);
    return 0;
}
