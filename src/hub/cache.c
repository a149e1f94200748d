#include "hub/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "hub/snapshot.h"

static ln_status out_of_memory(ln_error *err) {
    return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
}

char *ln_hub_path(const char *format, ...) {
    char *path = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&path, format, args);
    va_end(args);
    return length < 0 ? NULL : path;
}

char *ln_hub_cache_repo_path(const char *cache, const char *repo) {
    size_t org = strcspn(repo, "/");
    return ln_hub_path("%s/models--%.*s--%s", cache, (int)org, repo, repo + org + 1);
}

ln_status ln_hub_make_folders(const char *path, ln_error *err) {
    char *copy = strdup(path);
    if (!copy)
        return out_of_memory(err);
    ln_status status = LINNET_OK;
    for (char *c = copy + 1; *c && status == LINNET_OK; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            status =
                ln_fail(err, LINNET_ERR_IO, "cannot make the folder %s: %s", copy, strerror(errno));
        *c = '/';
    }
    free(copy);
    return status;
}

/* ---- links and refs --------------------------------------------------------------------- */

/* A link from below snapshots/COMMIT to a blob: "../" once for each folder in between. */
static char *link_target(const ln_hub_file *file) {
    ln_strbuf target;
    ln_strbuf_init(&target);
    ln_strbuf_puts(&target, "../../");
    for (const char *c = file->path; *c; c++)
        if (*c == '/')
            ln_strbuf_puts(&target, "../");
    ln_strbuf_printf(&target, "blobs/%s", file->hash);
    return ln_strbuf_take(&target);
}

/* Puts the link in the place of what is there, at once. */
static ln_status make_link(const char *target, const char *path, ln_error *err) {
    char *beside = ln_hub_path("%s.%d.new", path, (int)getpid());
    if (!beside)
        return out_of_memory(err);
    ln_status status = ln_hub_make_folders(path, err);
    unlink(beside);
    if (status == LINNET_OK && (symlink(target, beside) != 0 || rename(beside, path) != 0)) {
        status = ln_fail(err, LINNET_ERR_IO, "cannot make %s: %s", path, strerror(errno));
        unlink(beside);
    }
    free(beside);
    return status;
}

static ln_status write_ref(const char *repo_path, const char *revision, const char *commit,
                           ln_error *err) {
    char *path = ln_hub_path("%s/refs/%s", repo_path, revision);
    char *beside = path ? ln_hub_path("%s.%d.new", path, (int)getpid()) : NULL;
    ln_status status = beside ? ln_hub_make_folders(path, err) : out_of_memory(err);
    if (status == LINNET_OK) {
        int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        bool is_written = fd >= 0 && write(fd, commit, strlen(commit)) == (ssize_t)strlen(commit);
        if (fd >= 0 && close(fd) != 0)
            is_written = false;
        if (!is_written || rename(beside, path) != 0) {
            status = ln_fail(err, LINNET_ERR_IO, "cannot write %s: %s", path, strerror(errno));
            unlink(beside);
        }
    }
    free(beside);
    free(path);
    return status;
}

ln_status ln_hub_cache_link(const char *repo_path, const ln_hub_files *files, const char *revision,
                            ln_error *err) {
    ln_status status = LINNET_OK;
    for (size_t i = 0; i < files->count && status == LINNET_OK; i++) {
        if (!files->items[i].is_chosen)
            continue;
        char *target = link_target(&files->items[i]);
        char *path =
            ln_hub_path("%s/snapshots/%s/%s", repo_path, files->commit, files->items[i].path);
        status = target && path ? make_link(target, path, err) : out_of_memory(err);
        free(target);
        free(path);
    }
    if (status != LINNET_OK || strcmp(revision, files->commit) == 0)
        return status;
    return write_ref(repo_path, revision, files->commit, err);
}

/* ---- finding ---------------------------------------------------------------------------- */

ln_status ln_hub_cache_find(const char *cache, const ln_hub_name *name, char **path,
                            ln_error *err) {
    char commit[LN_HUB_COMMIT_BYTES];
    ln_hub_files files = {0};
    const char *main_file = NULL;
    ln_status status = LINNET_OK;
    *path = NULL;
    char *repo_path = ln_hub_cache_repo_path(cache, name->repo);
    char *folder = NULL;
    if (!repo_path)
        return out_of_memory(err);
    if (ln_hub_snapshot_commit(repo_path, name->revision, commit)) {
        folder = ln_hub_path("%s/snapshots/%s", repo_path, commit);
        status = folder ? ln_hub_snapshot_read(folder, &files, err) : out_of_memory(err);
    }
    if (status == LINNET_OK && files.count > 0 &&
        ln_hub_files_choose(&files, name, &main_file, NULL) == LINNET_OK) {
        *path = main_file ? ln_hub_path("%s/%s", folder, main_file) : strdup(folder);
        if (!*path)
            status = out_of_memory(err);
    }
    ln_hub_files_free(&files);
    free(folder);
    free(repo_path);
    return status;
}
