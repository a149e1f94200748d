#include "hub/pull.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "hub/cache.h"
#include "hub/digest.h"
#include "hub/download.h"
#include "hub/partial.h"

enum { MAX_ANSWER_BYTES = 16 << 20 };

static ln_status ask(const ln_hub_http *http, const ln_hub_name *name, ln_hub_files *files,
                     ln_error *err) {
    char what[2 * LN_HUB_NAME_BYTES + 16];
    ln_strbuf body;
    ln_strbuf_init(&body);
    snprintf(what, sizeof what, strcmp(name->revision, "main") == 0 ? "%s" : "%s at %s", name->repo,
             name->revision);
    char *path = ln_hub_path("%s/revision", name->repo);
    char *prefix = path ? ln_hub_http_url(http, "api/models", path) : NULL;
    /* a revision such as refs/pr/1 is one component of the URL */
    char *revision = http->curl->easy_escape(NULL, name->revision, 0);
    char *url = prefix && revision ? ln_hub_path("%s/%s?blobs=true", prefix, revision) : NULL;
    ln_status status = url ? ln_hub_http_get(http, url, what, MAX_ANSWER_BYTES, &body, err)
                           : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    if (status == LINNET_OK) {
        status = ln_hub_files_parse(body.data ? body.data : "", body.len, files, err);
        if (status != LINNET_OK)
            ln_error_prefix(err, status, what);
    }
    if (revision)
        http->curl->free(revision);
    free(url);
    free(prefix);
    free(path);
    ln_strbuf_free(&body);
    return status;
}

/* Adds up what is to be there, and refuses what the disk has no room for. */
static ln_status measure(ln_hub_work *work, ln_error *err) {
    uint64_t lacks = 0;
    struct statvfs disk;
    for (size_t i = 0; i < work->files->count; i++) {
        const ln_hub_file *file = &work->files->items[i];
        if (!file->is_chosen)
            continue;
        char *blob = ln_hub_work_blob(work, file);
        if (!blob)
            return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
        work->progress.n_files++;
        work->progress.total_bytes += file->bytes; /* 10000 files of 2^50 bytes at most */
        lacks += ln_file_exists(blob) ? 0 : file->bytes;
        free(blob);
    }
    /* what an earlier try left counts as free: it is part of what lacks */
    if (lacks == 0 || statvfs(work->repo_path, &disk) != 0)
        return LINNET_OK;
    uint64_t n_free = (uint64_t)disk.f_bavail * disk.f_frsize;
    for (size_t i = 0; i < work->files->count && n_free < lacks; i++) {
        struct stat about;
        char *blob = ln_hub_work_blob(work, &work->files->items[i]);
        char *partial = blob ? ln_hub_path("%s.partial", blob) : NULL;
        if (partial && work->files->items[i].is_chosen && stat(partial, &about) == 0)
            n_free += (uint64_t)about.st_blocks * 512;
        free(partial);
        free(blob);
    }
    if (n_free >= lacks)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_IO,
                   "%s: %" PRIu64 " MiB are to be downloaded, but the disk of %s has %" PRIu64
                   " MiB free",
                   work->repo, lacks >> 20, work->repo_path, n_free >> 20);
}

static bool count_checked(void *user, unsigned long long n_bytes) {
    ln_hub_work *work = user;
    const ln_hub_settings *settings = work->http->settings;
    work->progress.ready_bytes += n_bytes;
    return !settings->on_progress || settings->on_progress(settings->user, &work->progress);
}

/* Turns a downloaded file into a blob, when its content is what the hub says. */
static ln_status check_file(ln_hub_work *work, const ln_hub_file *file, ln_error *err) {
    ln_hub_partial partial;
    char *blob = ln_hub_work_blob(work, file), *lock = ln_hub_work_lock(work, file);
    ln_status status = LINNET_OK;
    if (!blob || !lock)
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    if (status == LINNET_OK && !ln_file_exists(blob)) {
        status = ln_hub_partial_open(&partial, blob, lock, file->bytes,
                                     work->http->settings->part_bytes, err);
        if (status == LINNET_OK && ln_file_exists(blob)) { /* another process was faster */
            ln_hub_partial_discard(&partial);
            ln_hub_partial_close(&partial);
        } else if (status == LINNET_OK) {
            status =
                ln_hub_digest_check(partial.fd, file->path, file->hash, count_checked, work, err);
            if (status == LINNET_OK)
                status = ln_hub_partial_finish(&partial, blob, err);
            else if (status == LINNET_ERR_FORMAT)
                ln_hub_partial_discard(&partial);
            ln_hub_partial_close(&partial);
        }
    }
    free(blob);
    free(lock);
    return status;
}

static ln_status check_all(ln_hub_work *work, ln_error *err) {
    ln_status first = LINNET_OK;
    work->progress.is_checking = true;
    work->progress.ready_bytes = 0;
    for (size_t i = 0; i < work->files->count; i++) {
        ln_error own = {0};
        ln_status status = work->files->items[i].is_chosen
                               ? check_file(work, &work->files->items[i], &own)
                               : LINNET_OK;
        if (status == LINNET_OK)
            continue;
        if (first == LINNET_OK && err)
            *err = own;
        first = first == LINNET_OK ? status : first;
        if (status != LINNET_ERR_FORMAT)
            return first;
    }
    return first;
}

static ln_status pull_files(ln_hub_work *work, const ln_hub_name *name, ln_error *err) {
    char *blobs = ln_hub_path("%s/blobs/", work->repo_path);
    ln_status status =
        blobs ? ln_hub_make_folders(blobs, err) : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    free(blobs);
    LN_TRY(status);
    LN_TRY(measure(work, err));
    LN_TRY(ln_hub_download(work, err));
    LN_TRY(check_all(work, err));
    return ln_hub_cache_link(work->repo_path, work->files, name->revision, err);
}

static ln_status find_offline(const ln_hub_settings *settings, const ln_hub_name *name, char **path,
                              ln_error *err) {
    LN_TRY(ln_hub_cache_find(settings->cache, name, path, err));
    if (*path)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_IO, "%s%s%s is not in the cache, %s, and the hub is not asked",
                   name->repo, *name->quant ? ":" : "", name->quant, settings->cache);
}

ln_status ln_hub_pull(const ln_hub_settings *settings, const ln_hub_name *name, char **path,
                      ln_error *err) {
    ln_hub_http http;
    ln_hub_files files = {0};
    const char *main_file = NULL;
    *path = NULL;
    if (settings->is_offline)
        return find_offline(settings, name, path, err);
    LN_TRY(ln_hub_http_open(&http, settings, err));
    char *repo_path = ln_hub_cache_repo_path(settings->cache, name->repo);
    char *lock_path =
        repo_path ? ln_hub_path("%s/.locks%s", settings->cache, repo_path + strlen(settings->cache))
                  : NULL;
    ln_hub_work work = {.http = &http,
                        .repo = name->repo,
                        .repo_path = repo_path,
                        .lock_path = lock_path,
                        .files = &files};
    ln_status status =
        lock_path ? ask(&http, name, &files, err) : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    if (status == LINNET_OK)
        status = ln_hub_files_choose(&files, name, &main_file, err);
    if (status == LINNET_OK)
        status = pull_files(&work, name, err);
    if (status == LINNET_OK) {
        *path = ln_hub_path("%s/snapshots/%s%s%s", repo_path, files.commit, main_file ? "/" : "",
                            main_file ? main_file : "");
        if (!*path)
            status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    }
    ln_hub_files_free(&files);
    ln_hub_http_close(&http);
    free(lock_path);
    free(repo_path);
    return status;
}

ln_status ln_hub_curl_version(const char **version, ln_error *err) {
    const ln_hub_curl *curl;
    LN_TRY(ln_hub_curl_load(&curl, err));
    *version = curl->version_info(CURLVERSION_NOW)->version;
    return LINNET_OK;
}
