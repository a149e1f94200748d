#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "hub/cache.h"
#include "hub/snapshot.h"

static const char prefix[] = "models--";

typedef struct listing {
    void (*see)(void *user, const ln_hub_entry *entry);
    void *user;
    const char *repo;     /* "ORG/NAME" */
    const char *revision; /* of the snapshot at hand */
    char *folder;         /* of that snapshot, owned */
    ln_hub_files files;   /* of that snapshot */
} listing;

/* "ORG/NAME" of a repository's folder; false when it is none. */
static bool read_repo(const char *folder, char repo[LN_HUB_NAME_BYTES]) {
    const char *name = folder + sizeof prefix - 1;
    if (strncmp(folder, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *dashes = strstr(name, "--");
    size_t org = dashes ? (size_t)(dashes - name) : 0;
    if (!dashes || strlen(name) >= LN_HUB_NAME_BYTES)
        return false;
    memcpy(repo, name, org);
    repo[org] = '/';
    memcpy(repo + org + 1, dashes + 2, strlen(dashes + 2) + 1);
    return ln_hub_is_name(repo);
}

/* What the chosen files of the snapshot are together, as an entry. */
static ln_status show(const listing *at, const char *tag, const char *main_file, ln_error *err) {
    ln_hub_entry entry = {.repo = at->repo, .tag = tag, .revision = at->revision};
    for (size_t i = 0; i < at->files.count; i++) {
        struct stat about;
        if (!at->files.items[i].is_chosen)
            continue;
        char *path = ln_hub_path("%s/%s", at->folder, at->files.items[i].path);
        if (!path)
            return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
        if (stat(path, &about) == 0 && (int64_t)about.st_mtime > entry.modified)
            entry.modified = (int64_t)about.st_mtime;
        entry.bytes += at->files.items[i].bytes;
        free(path);
    }
    char *path =
        main_file ? ln_hub_path("%s/%s", at->folder, main_file) : ln_hub_path("%s", at->folder);
    if (!path)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    entry.path = path;
    at->see(at->user, &entry);
    free(path);
    return LINNET_OK;
}

/* The folder as a model, when it is one, and each GGUF file. */
static ln_status list_snapshot(listing *at, ln_error *err) {
    ln_hub_name name = {0};
    const char *main_file;
    if (ln_hub_files_choose(&at->files, &name, &main_file, NULL) == LINNET_OK && !main_file)
        LN_TRY(show(at, "", NULL, err));
    for (size_t i = 0; i < at->files.count; i++) {
        const char *path = at->files.items[i].path;
        ln_hub_file_tag(path, name.quant);
        if (!ln_hub_is_safe_path(path) || strlen(path) < 5 ||
            strcasecmp(path + strlen(path) - 5, ".gguf") != 0 ||
            ln_hub_files_choose(&at->files, &name, &main_file, NULL) != LINNET_OK)
            continue;
        /* neither a later part nor what is no model, nor, where the tag is empty, the folder */
        if (main_file && strcmp(main_file, path) == 0)
            LN_TRY(show(at, name.quant, main_file, err));
    }
    return LINNET_OK;
}

/* The name of a ref of this commit, or the commit itself; of `refs`, or borrowed. */
static const char *find_revision(const char *repo_path, const ln_hub_files *refs,
                                 const char *commit) {
    char actual[LN_HUB_COMMIT_BYTES];
    const char *found = commit;
    for (size_t i = 0; i < refs->count; i++) {
        const char *ref = refs->items[i].path;
        if (ln_hub_snapshot_commit(repo_path, ref, actual) && strcmp(actual, commit) == 0 &&
            (found == commit || strcmp(ref, "main") == 0))
            found = ref;
    }
    return found;
}

static ln_status list_repo(const char *repo_path, listing *at, ln_error *err) {
    ln_hub_files refs = {0};
    ln_hub_names commits = {0};
    char *refs_path = ln_hub_path("%s/refs", repo_path);
    char *snapshots = ln_hub_path("%s/snapshots", repo_path);
    ln_status status = refs_path && snapshots ? ln_hub_snapshot_read(refs_path, &refs, err)
                                              : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    if (status == LINNET_OK)
        status = ln_hub_names_read(snapshots, &commits, err);
    for (size_t i = 0; status == LINNET_OK && i < commits.count; i++) {
        if (!ln_hub_is_commit(commits.items[i])) /* no name leads to it */
            continue;
        at->revision = find_revision(repo_path, &refs, commits.items[i]);
        at->folder = ln_hub_path("%s/%s", snapshots, commits.items[i]);
        status = at->folder ? ln_hub_snapshot_read(at->folder, &at->files, err)
                            : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
        if (status == LINNET_OK)
            status = list_snapshot(at, err);
        ln_hub_files_free(&at->files);
        free(at->folder);
    }
    ln_hub_names_free(&commits);
    ln_hub_files_free(&refs);
    free(snapshots);
    free(refs_path);
    return status;
}

ln_status ln_hub_cache_list(const char *cache, void (*see)(void *user, const ln_hub_entry *entry),
                            void *user, ln_error *err) {
    ln_hub_names folders;
    char repo[LN_HUB_NAME_BYTES];
    ln_status status = ln_hub_names_read(cache, &folders, err);
    for (size_t i = 0; status == LINNET_OK && i < folders.count; i++) {
        listing at = {.see = see, .user = user, .repo = repo};
        if (!read_repo(folders.items[i], repo))
            continue;
        char *repo_path = ln_hub_path("%s/%s", cache, folders.items[i]);
        status = repo_path ? list_repo(repo_path, &at, err)
                           : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
        free(repo_path);
    }
    ln_hub_names_free(&folders);
    return status;
}
