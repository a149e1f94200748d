#include "server/responses/response_store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PUT, GET, DELETE, COUNT, EVICT, N_STATEMENTS };

static const char *const sources[N_STATEMENTS] = {
    [PUT] = "REPLACE INTO responses (id, bytes, response, input, messages) VALUES (?, ?, ?, ?, ?)",
    [GET] = "SELECT response, input, messages FROM responses WHERE id = ?1",
    [DELETE] = "DELETE FROM responses WHERE id = ?1",
    [COUNT] = "SELECT count(*), coalesce(sum(bytes), 0) FROM responses",
    [EVICT] = "DELETE FROM responses WHERE number = (SELECT min(number) FROM responses)"};

struct ln_response_store {
    pthread_mutex_t mutex;
    sqlite3 *database;
    sqlite3_stmt *statements[N_STATEMENTS];
    ln_response_store_limits limits;
    size_t n_responses, n_bytes;
    int lock_fd; /* of PATH.lock, which all that have the file open share; or -1 */
};

/* ---- open and close --------------------------------------------------------------------- */

/* Reads how much there is. */
static bool measure(ln_response_store *store) {
    sqlite3_stmt *count = store->statements[COUNT];
    bool done = sqlite3_step(count) == SQLITE_ROW;
    if (done) {
        store->n_responses = (size_t)sqlite3_column_int64(count, 0);
        store->n_bytes = (size_t)sqlite3_column_int64(count, 1);
    }
    sqlite3_reset(count);
    return done;
}

/* How a response in the background has its status; in texts within it the quotation marks have
 * backslashes. */
#define STATUS(word) "'\"status\":\"" word "\",\"background\":true,\"error\":null'"
#define QUEUED       STATUS("queued")
#define RUNNING      STATUS("in_progress")
/* What becomes of one that runs no more; also of those that failed before they were told why. */
#define FAILED STATUS("failed")
#define ENDED                                                                                      \
    "'\"status\":\"failed\",\"background\":true,\"error\":{\"code\":\"server_error\","             \
    "\"message\":\"the server ended while the response was in progress\"}'"

/* Creates what SQLite would create for all to read: it holds what people asked. A file that is
 * there stays closed, as closing it would drop the locks that another store of this process has on
 * it. */
static bool create_private(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? close(fd) == 0 : errno == EEXIST;
}

/* Shares the companion of the file with whoever else has the file open. *is_first: nobody has. */
static bool share_file(ln_response_store *store, const char *path, bool *is_first) {
    char *name = NULL;
    *is_first = path == NULL;
    if (path == NULL)
        return true;
    if (asprintf(&name, "%s.lock", path) < 0)
        return false;
    store->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(name);
    if (store->lock_fd < 0 || !create_private(path))
        return false;
    *is_first = flock(store->lock_fd, LOCK_EX | LOCK_NB) == 0;
    return true;
}

static bool prepare(ln_response_store *store, bool is_first) {
    static const char schema[] =
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        "CREATE TABLE IF NOT EXISTS responses (number INTEGER PRIMARY KEY AUTOINCREMENT, "
        "id TEXT UNIQUE NOT NULL, bytes INTEGER NOT NULL, response TEXT NOT NULL, "
        "input TEXT NOT NULL, messages TEXT NOT NULL)";
    static const char fail_running[] =
        "UPDATE responses SET response = replace(replace(replace(response, " QUEUED ", " ENDED
        "), " RUNNING ", " ENDED "), " FAILED ", " ENDED ") WHERE instr(response, " QUEUED
        ") > 0 OR instr(response, " RUNNING ") > 0 OR instr(response, " FAILED ") > 0";
    bool done =
        sqlite3_exec(store->database, schema, NULL, NULL, NULL) == SQLITE_OK &&
        (!is_first || sqlite3_exec(store->database, fail_running, NULL, NULL, NULL) == SQLITE_OK);
    if (store->lock_fd >= 0) /* who comes now finds none that nobody runs */
        (void)flock(store->lock_fd, LOCK_SH);
    for (size_t i = 0; done && i < N_STATEMENTS; i++)
        done = sqlite3_prepare_v2(store->database, sources[i], -1, &store->statements[i], NULL) ==
               SQLITE_OK;
    return done && measure(store);
}

ln_status ln_response_store_open(const char *path, const ln_response_store_limits *limits,
                                 ln_response_store **out, ln_error *err) {
    enum { BUSY_MS = 1000 };
    ln_response_store *store = calloc(1, sizeof *store);
    *out = NULL;
    if (store == NULL)
        return ln_fail_memory(err, "the store of responses");
    store->limits = *limits;
    store->lock_fd = -1;
    pthread_mutex_init(&store->mutex, NULL);
    bool is_first,
        opened = share_file(store, path, &is_first) &&
                 sqlite3_open(path != NULL ? path : ":memory:", &store->database) == SQLITE_OK;
    if (opened)
        sqlite3_busy_timeout(store->database, BUSY_MS);
    if (opened && prepare(store, is_first)) {
        *out = store;
        return LINNET_OK;
    }
    ln_status status =
        ln_fail(err, LINNET_ERR_IO, "%s: no store of responses: %s", path != NULL ? path : "memory",
                store->database != NULL ? sqlite3_errmsg(store->database) : strerror(errno));
    ln_response_store_close(store);
    return status;
}

void ln_response_store_close(ln_response_store *store) {
    if (store == NULL)
        return;
    for (size_t i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->database);
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

/* ---- responses -------------------------------------------------------------------------- */

/* Runs a statement that gives no rows. */
static bool run(sqlite3_stmt *statement) {
    bool done = sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return done;
}

static bool bind_text(sqlite3_stmt *statement, int index, const char *text) {
    return sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC) == SQLITE_OK;
}

/* The oldest responses give way to those after them. */
static void evict(ln_response_store *store) {
    while (measure(store) && (store->n_responses > store->limits.max_responses ||
                              store->n_bytes > store->limits.max_bytes))
        if (!run(store->statements[EVICT]))
            return;
}

bool ln_response_store_put(ln_response_store *store, const char *id,
                           const ln_stored_response *response) {
    sqlite3_stmt *put = store->statements[PUT];
    size_t n_bytes =
        strlen(response->response) + strlen(response->input) + strlen(response->messages);
    if (n_bytes > store->limits.max_bytes || store->limits.max_responses == 0)
        return false;
    pthread_mutex_lock(&store->mutex);
    bool done = bind_text(put, 1, id) &&
                sqlite3_bind_int64(put, 2, (sqlite3_int64)n_bytes) == SQLITE_OK &&
                bind_text(put, 3, response->response) && bind_text(put, 4, response->input) &&
                bind_text(put, 5, response->messages);
    done = run(put) && done;
    evict(store);
    pthread_mutex_unlock(&store->mutex);
    return done;
}

char *ln_response_store_get(ln_response_store *store, const char *id, ln_stored_part part) {
    sqlite3_stmt *get = store->statements[GET];
    char *copy = NULL;
    pthread_mutex_lock(&store->mutex);
    if (bind_text(get, 1, id) && sqlite3_step(get) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(get, (int)part);
        copy = text != NULL ? strdup(text) : NULL;
    }
    sqlite3_reset(get);
    sqlite3_clear_bindings(get);
    pthread_mutex_unlock(&store->mutex);
    return copy;
}

bool ln_response_store_delete(ln_response_store *store, const char *id) {
    sqlite3_stmt *delete = store->statements[DELETE];
    pthread_mutex_lock(&store->mutex);
    bool done = bind_text(delete, 1, id) && run(delete) && sqlite3_changes(store->database) > 0;
    pthread_mutex_unlock(&store->mutex);
    return done;
}
