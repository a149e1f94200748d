#include "hub/download.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/file.h"
#include "hub/cache.h"
#include "hub/partial.h"

enum { POLL_MS = 100, MAX_FAILURES = 8 };
static const uint64_t first_pause_ns = 200000000;

/* A file that some request is at. */
typedef struct open_file {
    const ln_hub_file *file;
    ln_hub_partial partial;
    size_t n_users; /* requests that are at it, and the cursor */
} open_file;

/* A request at a time: one part of a file, until that is whole. */
typedef struct transfer {
    struct download *download;
    open_file *file; /* NULL: idle */
    size_t part;
    CURL *easy;          /* NULL: between two tries */
    uint64_t begin;      /* of what this try asks for, in the file */
    bool is_checked;     /* the answer is what was asked for */
    uint64_t range;      /* that its Content-Range begins with; UINT64_MAX: has none */
    unsigned n_failures; /* since bytes came */
    uint64_t retry_ns;
} transfer;

typedef struct download {
    ln_hub_work *work;
    CURLM *multi;
    transfer *transfers;    /* [settings.n_parallel] */
    size_t next_file, part; /* the cursor: what nobody took yet */
    open_file *open;        /* of the cursor; NULL: between two files */
    ln_status status;       /* of a callback */
    ln_error *err;
} download;

char *ln_hub_work_blob(const ln_hub_work *work, const ln_hub_file *file) {
    return ln_hub_path("%s/blobs/%s", work->repo_path, file->hash);
}

char *ln_hub_work_lock(const ln_hub_work *work, const ln_hub_file *file) {
    return ln_hub_path("%s/%s.lock", work->lock_path, file->hash);
}

/* ---- files ------------------------------------------------------------------------------ */

static void release(open_file *open) {
    if (!open || --open->n_users > 0)
        return;
    ln_hub_partial_close(&open->partial);
    free(open);
}

/* Whether an earlier file has the same content. */
static bool is_repeated(const ln_hub_files *files, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (files->items[i].is_chosen &&
            strcmp(files->items[i].hash, files->items[index].hash) == 0)
            return true;
    return false;
}

static ln_status open_next(download *d, ln_error *err) {
    const ln_hub_file *file = &d->work->files->items[d->next_file++];
    char *blob = ln_hub_work_blob(d->work, file), *lock = ln_hub_work_lock(d->work, file);
    open_file *open = calloc(1, sizeof *open);
    ln_status status = LINNET_OK;
    if (!blob || !lock || !open)
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    if (status == LINNET_OK && file->is_chosen && !ln_file_exists(blob) &&
        !is_repeated(d->work->files, d->next_file - 1)) {
        status = ln_hub_partial_open(&open->partial, blob, lock, file->bytes,
                                     d->work->http->settings->part_bytes, err);
        if (status == LINNET_OK && ln_file_exists(blob)) { /* another process was faster */
            ln_hub_partial_discard(&open->partial);
            ln_hub_partial_close(&open->partial);
            d->work->progress.ready_bytes += file->bytes;
        } else if (status == LINNET_OK) {
            d->work->progress.ready_bytes += ln_hub_partial_ready(&open->partial);
            open->file = file;
            open->n_users = 1;
            d->open = open;
            d->part = 0;
            open = NULL;
        }
    } else if (file->is_chosen) {
        d->work->progress.ready_bytes += file->bytes;
    }
    free(open);
    free(blob);
    free(lock);
    return status;
}

/* Gives an idle transfer the next part that is not whole; without one it stays idle. */
static ln_status take_part(download *d, transfer *t, ln_error *err) {
    for (;;) {
        if (!d->open) {
            if (d->next_file == d->work->files->count)
                return LINNET_OK;
            LN_TRY(open_next(d, err));
            continue;
        }
        ln_hub_partial *partial = &d->open->partial;
        while (d->part < partial->n_parts &&
               partial->done[d->part] == ln_hub_partial_length(partial, d->part))
            d->part++;
        if (d->part < partial->n_parts) {
            *t = (transfer){.download = d, .file = d->open, .part = d->part++};
            d->open->n_users++;
            return LINNET_OK;
        }
        release(d->open);
        d->open = NULL;
    }
}

/* ---- answers ---------------------------------------------------------------------------- */

static size_t take_header(char *line, size_t one, size_t n_bytes, void *user) {
    static const char name[] = "content-range:";
    transfer *t = user;
    char text[128]; /* a range of a file of 2^50 bytes takes 73 */
    (void)one;
    if (n_bytes >= 5 && strncmp(line, "HTTP/", 5) == 0)
        t->range = UINT64_MAX; /* another answer, behind a redirect */
    if (n_bytes >= sizeof name && n_bytes < sizeof text &&
        strncasecmp(line, name, sizeof name - 1) == 0) {
        memcpy(text, line, n_bytes);
        text[n_bytes] = '\0';
        if (sscanf(text + sizeof name - 1, " bytes %" SCNu64 "-", &t->range) != 1)
            t->range = UINT64_MAX;
    }
    return n_bytes;
}

/* An answer without ranges is right where all was asked for. */
static ln_status check_answer(transfer *t, ln_error *err) {
    long http_status = 0;
    t->download->work->http->curl->easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &http_status);
    if (http_status == 206 && t->range == t->begin)
        return LINNET_OK;
    if (http_status == 200 && t->begin == 0 && t->file->partial.n_parts == 1)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "the hub sends another part of %s than it was asked for",
                   t->file->file->path);
}

static size_t take_data(char *bytes, size_t one, size_t n_bytes, void *user) {
    transfer *t = user;
    download *d = t->download;
    (void)one;
    if (d->status == LINNET_OK && !t->is_checked)
        d->status = check_answer(t, d->err);
    t->is_checked = true;
    if (d->status == LINNET_OK)
        d->status = ln_hub_partial_write(&t->file->partial, t->part, bytes, n_bytes, d->err);
    if (d->status != LINNET_OK)
        return 0;
    t->n_failures = 0;
    d->work->progress.ready_bytes += n_bytes;
    d->work->progress.new_bytes += n_bytes;
    return n_bytes;
}

/* ---- transfers -------------------------------------------------------------------------- */

static ln_status start(download *d, transfer *t, ln_error *err) {
    const ln_hub_http *http = d->work->http;
    const ln_hub_partial *partial = &t->file->partial;
    char range[48];
    char *prefix = ln_hub_path("%s/resolve/%s", d->work->repo, d->work->files->commit);
    char *url = prefix ? ln_hub_http_url(http, prefix, t->file->file->path) : NULL;
    t->easy = url ? ln_hub_http_request(http, url) : NULL;
    free(prefix);
    free(url);
    if (!t->easy)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    uint64_t begin = t->part * partial->part_bytes;
    t->begin = begin + partial->done[t->part];
    t->is_checked = false;
    t->range = UINT64_MAX;
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, t->begin,
             begin + ln_hub_partial_length(partial, t->part) - 1);
    http->curl->easy_setopt(t->easy, CURLOPT_RANGE, range);
    http->curl->easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    http->curl->easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, take_header);
    http->curl->easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
    http->curl->easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, take_data);
    http->curl->easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    CURLMcode code = http->curl->multi_add_handle(d->multi, t->easy);
    return code == CURLM_OK ? LINNET_OK
                            : ln_fail(err, LINNET_ERR_IO, "%s", http->curl->multi_strerror(code));
}

static void stop(download *d, transfer *t) {
    if (!t->easy)
        return;
    d->work->http->curl->multi_remove_handle(d->multi, t->easy);
    d->work->http->curl->easy_cleanup(t->easy);
    t->easy = NULL;
}

/* A request has ended: the part is whole, or is asked for again, or all fails. */
static ln_status end(download *d, transfer *t, CURLcode code, ln_error *err) {
    const ln_hub_http *http = d->work->http;
    ln_hub_partial *partial = &t->file->partial;
    long http_status = 0;
    http->curl->easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &http_status);
    stop(d, t);
    if (d->status != LINNET_OK)
        return d->status;
    if (partial->done[t->part] == ln_hub_partial_length(partial, t->part)) {
        release(t->file);
        t->file = NULL;
        return LINNET_OK;
    }
    if (code == CURLE_OK)
        code = CURLE_PARTIAL_FILE;
    if (!ln_hub_http_may_retry(code, http_status) || ++t->n_failures > MAX_FAILURES)
        return ln_error_prefix(err,
                               ln_hub_http_fail(http, code, http_status, t->file->file->path, err),
                               d->work->repo);
    t->retry_ns = ln_clock_ns() + (first_pause_ns << (t->n_failures - 1));
    return LINNET_OK;
}

/* Starts what can start; *is_done when nothing is left. */
static ln_status start_all(download *d, bool *is_done, ln_error *err) {
    *is_done = true;
    for (size_t i = 0; i < d->work->http->settings->n_parallel; i++) {
        transfer *t = &d->transfers[i];
        if (!t->file)
            LN_TRY(take_part(d, t, err));
        if (!t->file)
            continue;
        *is_done = false;
        if (!t->easy && ln_clock_ns() >= t->retry_ns)
            LN_TRY(start(d, t, err));
    }
    return LINNET_OK;
}

static ln_status run(download *d, ln_error *err) {
    const ln_hub_curl *curl = d->work->http->curl;
    const ln_hub_settings *settings = d->work->http->settings;
    for (bool is_done = false;;) {
        int n_running, n_left;
        LN_TRY(start_all(d, &is_done, err));
        if (is_done)
            return LINNET_OK;
        CURLMcode code = curl->multi_perform(d->multi, &n_running);
        if (code == CURLM_OK)
            code = curl->multi_poll(d->multi, NULL, 0, POLL_MS, NULL);
        if (code != CURLM_OK)
            return ln_fail(err, LINNET_ERR_IO, "%s", curl->multi_strerror(code));
        for (CURLMsg *message; (message = curl->multi_info_read(d->multi, &n_left)) != NULL;) {
            transfer *t = NULL;
            curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &t);
            LN_TRY(end(d, t, message->data.result, err));
        }
        if (settings->on_progress && !settings->on_progress(settings->user, &d->work->progress))
            return ln_fail(err, LINNET_ERR_CANCELLED, "interrupted");
    }
}

ln_status ln_hub_download(ln_hub_work *work, ln_error *err) {
    const ln_hub_curl *curl = work->http->curl;
    size_t n_transfers = work->http->settings->n_parallel;
    ln_error own = {0};
    download d = {.work = work,
                  .multi = curl->multi_init(),
                  .transfers = calloc(n_transfers, sizeof *d.transfers),
                  .err = &own};
    if (d.multi) /* a connection each: one of HTTP/2 for all is as slow as one */
        curl->multi_setopt(d.multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    ln_status status =
        d.multi && d.transfers ? run(&d, &own) : ln_fail(&own, LINNET_ERR_NOMEM, "out of memory");
    for (size_t i = 0; d.transfers && i < n_transfers; i++) {
        stop(&d, &d.transfers[i]);
        release(d.transfers[i].file);
    }
    release(d.open);
    free(d.transfers);
    if (d.multi)
        curl->multi_cleanup(d.multi);
    if (status != LINNET_OK && err)
        *err = own;
    return status;
}
