#include "server/responses/store_database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char *const sources[LN_STORE_STATEMENTS] = {
    [LN_STORE_BEGIN_READ] = "BEGIN",
    [LN_STORE_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [LN_STORE_COMMIT] = "COMMIT",
    [LN_STORE_ROLLBACK] = "ROLLBACK",
    [LN_STORE_ADD_OBJECT] =
        "INSERT INTO objects (number, id, head, input, bytes, json) VALUES "
        "((SELECT coalesce(max(number), 0) + 1 FROM objects), ?3, ?1, ?2, ?5, ?4)",
    [LN_STORE_REMOVE_OBJECT] = "DELETE FROM objects WHERE id = ?1",
    [LN_STORE_FIND_OBJECT] = "SELECT head, input, json, events, bytes FROM objects WHERE id = ?1",
    [LN_STORE_FIND_OLDEST] = "SELECT head, id FROM objects ORDER BY number LIMIT 1",
    [LN_STORE_SET_HEAD] = "UPDATE objects SET head = ?1, number = "
                          "(SELECT max(number) + 1 FROM objects) WHERE id = ?3",
    [LN_STORE_SET_EVENTS] = "UPDATE objects SET events = ?4, bytes = bytes - "
                            "coalesce(length(CAST(events AS BLOB)), 0) + ?1 "
                            "WHERE id = ?3",
    [LN_STORE_GET_TOTALS] = "SELECT objects, bytes FROM totals",
    [LN_STORE_ADD_ITEM] = "INSERT INTO items (parent, bytes, id, json) VALUES (?1, ?2, ?3, ?4)",
    [LN_STORE_GET_ITEM] = "SELECT parent, id, json, bytes FROM items WHERE number = ?1",
    [LN_STORE_FIND_ITEM] = "SELECT json FROM items WHERE id = ?1 ORDER BY number DESC LIMIT 1",
    [LN_STORE_IS_HELD] = "SELECT EXISTS (SELECT 1 FROM objects WHERE head = ?1) OR "
                         "EXISTS (SELECT 1 FROM items WHERE parent = ?1)",
    [LN_STORE_REMOVE_ITEM] = "DELETE FROM items WHERE number = ?1",
    [LN_STORE_MOVE_CHILDREN] = "UPDATE items SET parent = ?1 WHERE parent = ?2",
    [LN_STORE_MOVE_HEADS] = "UPDATE objects SET head = ?1 WHERE head = ?2",
    [LN_STORE_MOVE_INPUTS] = "UPDATE objects SET input = ?1 WHERE input = ?2"};

static const char schema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS objects (number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, "
    "head INTEGER NOT NULL, input INTEGER NOT NULL, bytes INTEGER NOT NULL, json TEXT NOT NULL, "
    "events TEXT);"
    "CREATE INDEX IF NOT EXISTS heads ON objects (head);"
    "CREATE TABLE IF NOT EXISTS items (number INTEGER PRIMARY KEY AUTOINCREMENT, "
    "parent INTEGER NOT NULL, bytes INTEGER NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS parents ON items (parent);"
    "CREATE INDEX IF NOT EXISTS ids ON items (id);"
    "CREATE TABLE IF NOT EXISTS totals (objects INTEGER NOT NULL, bytes INTEGER NOT NULL);"
    "INSERT INTO totals SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM totals);"
    "CREATE TRIGGER IF NOT EXISTS object_added AFTER INSERT ON objects BEGIN "
    "UPDATE totals SET objects = objects + 1, bytes = bytes + new.bytes; END;"
    "CREATE TRIGGER IF NOT EXISTS object_removed AFTER DELETE ON objects BEGIN "
    "UPDATE totals SET objects = objects - 1, bytes = bytes - old.bytes; END;"
    "CREATE TRIGGER IF NOT EXISTS object_changed AFTER UPDATE OF bytes ON objects BEGIN "
    "UPDATE totals SET bytes = bytes - old.bytes + new.bytes; END;"
    "CREATE TRIGGER IF NOT EXISTS item_added AFTER INSERT ON items BEGIN "
    "UPDATE totals SET bytes = bytes + new.bytes; END;"
    "CREATE TRIGGER IF NOT EXISTS item_removed AFTER DELETE ON items BEGIN "
    "UPDATE totals SET bytes = bytes - old.bytes; END;"
    "COMMIT";

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

static const char fail_running[] =
    "UPDATE objects SET json = replace(replace(replace(json, " QUEUED ", " ENDED "), " RUNNING
    ", " ENDED "), " FAILED ", " ENDED ") WHERE instr(json, " QUEUED ") > 0 OR instr(json, " RUNNING
    ") > 0 OR instr(json, " FAILED ") > 0";

/* ---- open and close --------------------------------------------------------------------- */

/* Creates what SQLite would create for all to read: it holds what people asked. A file that is
 * there stays closed, as closing it would drop the locks that another store of this process has on
 * it. */
static bool create_private(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? close(fd) == 0 : errno == EEXIST;
}

/* Shares the companion of the file with whoever else has the file open. *is_first: nobody has. */
static bool share_file(ln_store_database *database, const char *path, bool *is_first) {
    char *name = NULL;
    *is_first = path == NULL;
    if (path == NULL)
        return true;
    if (asprintf(&name, "%s.lock", path) < 0)
        return false;
    database->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(name);
    if (database->lock_fd < 0 || !create_private(path))
        return false;
    *is_first = flock(database->lock_fd, LOCK_EX | LOCK_NB) == 0;
    return true;
}

static bool execute(ln_store_database *database, const char *sql) {
    return sqlite3_exec(database->handle, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* The table in which each response had its whole chain is not read any more: nothing would ever
 * delete what it holds, or count it. */
static bool drop_former(ln_store_database *database) {
    bool is_there =
        execute(database, "SELECT id, response, input, messages FROM responses LIMIT 0");
    return !is_there || execute(database, "DROP TABLE responses");
}

static bool prepare(ln_store_database *database, bool is_first) {
    bool done = execute(database, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL") &&
                execute(database, schema) && drop_former(database) &&
                (!is_first || execute(database, fail_running));
    if (database->lock_fd >= 0) /* who comes now finds none that nobody runs */
        (void)flock(database->lock_fd, LOCK_SH);
    for (size_t i = 0; done && i < LN_STORE_STATEMENTS; i++)
        done = sqlite3_prepare_v2(database->handle, sources[i], -1, &database->statements[i],
                                  NULL) == SQLITE_OK;
    return done;
}

bool ln_store_database_open(ln_store_database *database, const char *path, const char **why) {
    enum { BUSY_MS = 1000 };
    bool is_first;
    *database = (ln_store_database){.lock_fd = -1};
    bool opened = share_file(database, path, &is_first) &&
                  sqlite3_open(path != NULL ? path : ":memory:", &database->handle) == SQLITE_OK;
    if (opened)
        sqlite3_busy_timeout(database->handle, BUSY_MS);
    if (opened && prepare(database, is_first))
        return true;
    *why = database->handle != NULL ? sqlite3_errmsg(database->handle) : strerror(errno);
    return false;
}

void ln_store_database_close(ln_store_database *database) {
    for (size_t i = 0; i < LN_STORE_STATEMENTS; i++)
        sqlite3_finalize(database->statements[i]);
    sqlite3_close(database->handle);
    if (database->lock_fd >= 0)
        close(database->lock_fd);
}

/* ---- statements ------------------------------------------------------------------------- */

sqlite3_stmt *ln_store_bind_numbers(ln_store_database *database, ln_store_statement which,
                                    int64_t first, int64_t second) {
    sqlite3_stmt *statement = database->statements[which];
    sqlite3_bind_int64(statement, 1, first);
    if (sqlite3_bind_parameter_count(statement) > 1)
        sqlite3_bind_int64(statement, 2, second);
    return statement;
}

sqlite3_stmt *ln_store_bind_texts(ln_store_database *database, ln_store_statement which, int index,
                                  const char *text, const char *next) {
    sqlite3_stmt *statement = database->statements[which];
    sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
    if (next != NULL)
        sqlite3_bind_text(statement, index + 1, next, -1, SQLITE_STATIC);
    return statement;
}

void ln_store_end(sqlite3_stmt *statement) {
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

bool ln_store_run(sqlite3_stmt *statement) {
    bool done = sqlite3_step(statement) == SQLITE_DONE;
    ln_store_end(statement);
    return done;
}

bool ln_store_step(sqlite3_stmt *statement) {
    return sqlite3_step(statement) == SQLITE_ROW;
}
