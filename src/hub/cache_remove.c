#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/cache.h"
#include "hub/snapshot.h"

enum { MAX_OPEN_FOLDERS = 16 };

/* ---- trees ------------------------------------------------------------------------------ */

static _Thread_local uint64_t tree_bytes; /* nftw has no place for a user's pointer */

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *at) {
    (void)type, (void)at;
    if (S_ISREG(about->st_mode))
        tree_bytes += (uint64_t)about->st_size;
    return remove(path);
}

/* Removes a folder with all that is in it; links are not followed. */
static ln_status remove_tree(const char *path, uint64_t *freed_bytes, ln_error *err) {
    tree_bytes = 0;
    if (nftw(path, remove_entry, MAX_OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        return ln_fail(err, LINNET_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    *freed_bytes += tree_bytes;
    return LINNET_OK;
}

/* ---- files of a snapshot ---------------------------------------------------------------- */

/* Marks in `removed` the files whose blob something in the repository still links, by taking their
 * hash away. *n_left is how many files all snapshots have. */
static ln_status keep_linked(const char *repo_path, ln_hub_files *removed, size_t *n_left,
                             ln_error *err) {
    ln_hub_names commits;
    *n_left = 0;
    char *snapshots = ln_hub_path("%s/snapshots", repo_path);
    if (!snapshots)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    ln_status status = ln_hub_names_read(snapshots, &commits, err);
    for (size_t i = 0; status == LINNET_OK && i < commits.count; i++) {
        ln_hub_files files = {0};
        char *folder = ln_hub_path("%s/%s", snapshots, commits.items[i]);
        status = folder ? ln_hub_snapshot_read(folder, &files, err)
                        : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
        for (size_t k = 0; k < files.count; k++)
            for (size_t r = 0; r < removed->count; r++)
                if (strcmp(files.items[k].hash, removed->items[r].hash) == 0)
                    removed->items[r].hash[0] = '\0';
        *n_left += files.count;
        ln_hub_files_free(&files);
        free(folder);
    }
    ln_hub_names_free(&commits);
    free(snapshots);
    return status;
}

/* Removes the links of the chosen files, and the blobs that were linked there alone. */
static ln_status remove_files(const char *repo_path, const char *folder, ln_hub_files *files,
                              uint64_t *freed_bytes, size_t *n_left, ln_error *err) {
    ln_status status = LINNET_OK;
    for (size_t i = 0; i < files->count && status == LINNET_OK; i++) {
        ln_hub_file *file = &files->items[i];
        char *path = ln_hub_path("%s/%s", folder, file->path);
        if (!path)
            status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
        else if (!file->is_chosen)
            file->hash[0] = '\0';
        else if (unlink(path) != 0)
            status = ln_fail(err, LINNET_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
        free(path);
    }
    if (status == LINNET_OK)
        status = keep_linked(repo_path, files, n_left, err);
    for (size_t i = 0; i < files->count && status == LINNET_OK; i++) {
        ln_hub_file *file = &files->items[i];
        bool is_name =
            file->hash[0] != '\0' && strspn(file->hash, "0123456789abcdef") == strlen(file->hash);
        char *blob = is_name ? ln_hub_path("%s/blobs/%s", repo_path, file->hash) : NULL;
        if (blob && unlink(blob) == 0)
            *freed_bytes += file->bytes;
        free(blob);
    }
    return status;
}

static ln_status remove_repo(const char *cache, const char *repo_path, uint64_t *freed_bytes,
                             ln_error *err) {
    uint64_t ignored = 0;
    char *locks = ln_hub_path("%s/.locks%s", cache, repo_path + strlen(cache));
    if (!locks)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    ln_status status = remove_tree(repo_path, freed_bytes, err);
    if (status == LINNET_OK)
        status = remove_tree(locks, &ignored, err);
    free(locks);
    return status;
}

/* Chooses the GGUF file that `list' calls so: what is removed is named as it is shown, while for
 * running any word of a file's name will do. */
static ln_status choose_tagged(ln_hub_files *files, const ln_hub_name *name, ln_error *err) {
    const char *main_file = NULL;
    LN_TRY(ln_hub_files_choose(files, name, &main_file, err));
    if (main_file && ln_hub_file_has_tag(main_file, name->quant))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_ARGUMENT,
                   "the cache has no file of %s that `linnet list' calls "
                   "%s",
                   name->repo, name->quant);
}

/* Removes the branches and tags that are the commit; `folder` is below the repository. */
static void remove_refs(const char *repo_path, const char *folder, const char *commit) {
    ln_hub_names refs = {0};
    ln_error ignored = {0};
    char *path = ln_hub_path("%s/%s", repo_path, folder);
    if (path && ln_hub_names_read(path, &refs, &ignored) == LINNET_OK)
        for (size_t i = 0; i < refs.count; i++) {
            char found[LN_HUB_COMMIT_BYTES];
            char *ref = ln_hub_path("%s/%s", folder, refs.items[i]);
            char *file = ref ? ln_hub_path("%s/%s", repo_path, ref) : NULL;
            if (file && ln_file_is_folder(file)) /* refs/pr/1 */
                remove_refs(repo_path, ref, commit);
            else if (file && ln_hub_snapshot_commit(repo_path, ref + strlen("refs/"), found) &&
                     strcmp(found, commit) == 0)
                unlink(file);
            free(file);
            free(ref);
        }
    ln_hub_names_free(&refs);
    free(path);
}

static ln_status remove_part(const char *cache, const char *repo_path, const ln_hub_name *name,
                             uint64_t *freed_bytes, ln_error *err) {
    char commit[LN_HUB_COMMIT_BYTES];
    size_t n_left = 0;
    ln_hub_files files = {0};
    bool is_known = ln_hub_snapshot_commit(repo_path, name->revision, commit);
    char *folder = ln_hub_path("%s/snapshots/%s", repo_path, is_known ? commit : "");
    ln_status status = LINNET_OK;
    if (!folder)
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    else if (!is_known || !ln_file_exists(folder))
        status =
            ln_fail(err, LINNET_ERR_IO, "the cache has no %s at %s", name->repo, name->revision);
    else
        status = ln_hub_snapshot_read(folder, &files, err);
    if (status == LINNET_OK && *name->quant)
        status = choose_tagged(&files, name, err);
    else
        for (size_t i = 0; i < files.count; i++)
            files.items[i].is_chosen = true;
    if (status == LINNET_OK)
        status = remove_files(repo_path, folder, &files, freed_bytes, &n_left, err);
    if (status == LINNET_OK && !*name->quant)
        status = remove_tree(folder, freed_bytes, err);
    if (status == LINNET_OK && !*name->quant)
        remove_refs(repo_path, "refs", commit);
    if (status == LINNET_OK && n_left == 0)
        status = remove_repo(cache, repo_path, freed_bytes, err);
    ln_hub_files_free(&files);
    free(folder);
    return status;
}

ln_status ln_hub_cache_remove(const char *cache, const char *text, uint64_t *freed_bytes,
                              ln_error *err) {
    ln_hub_name name;
    struct stat about;
    *freed_bytes = 0;
    LN_TRY(ln_hub_name_parse(text, &name, err));
    char *repo_path = ln_hub_cache_repo_path(cache, name.repo);
    ln_status status;
    if (!repo_path)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    if (lstat(repo_path, &about) != 0 || !S_ISDIR(about.st_mode))
        status = ln_fail(err, LINNET_ERR_IO, "the cache has no %s", name.repo);
    else if (!*name.quant && !strchr(text, '@'))
        status = remove_repo(cache, repo_path, freed_bytes, err);
    else
        status = remove_part(cache, repo_path, &name, freed_bytes, err);
    free(repo_path);
    return status;
}
