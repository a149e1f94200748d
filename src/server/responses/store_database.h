/* The SQLite database of a store of responses: its tables and the statements over them.
 *
 * `objects` are responses and conversations, the larger number the newer one; `head` is the last
 * item of its list, `input` the last that a response answers, 0 none. `items` have the item before
 * them as `parent`. `totals` is one row, which triggers keep. */
#ifndef LN_SERVER_RESPONSES_STORE_DATABASE_H
#define LN_SERVER_RESPONSES_STORE_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* With their parameters, numbers before texts, and the columns of the row that they give. */
typedef enum ln_store_statement {
    LN_STORE_BEGIN_READ = 0,
    LN_STORE_BEGIN_WRITE,
    LN_STORE_COMMIT,
    LN_STORE_ROLLBACK,
    LN_STORE_ADD_OBJECT,    /* head, input, id, json, bytes */
    LN_STORE_REMOVE_OBJECT, /* id */
    LN_STORE_FIND_OBJECT,   /* id -> head, input, json, events, bytes */
    LN_STORE_FIND_OLDEST,   /* -> head, id */
    LN_STORE_SET_HEAD,      /* head, -, id; the object becomes the newest */
    LN_STORE_SET_EVENTS,    /* their bytes, -, id, events */
    LN_STORE_GET_TOTALS,    /* -> objects, bytes */
    LN_STORE_ADD_ITEM,      /* parent, bytes, id, json */
    LN_STORE_GET_ITEM,      /* number -> parent, id, json, bytes */
    LN_STORE_FIND_ITEM,     /* id -> json, of the newest */
    LN_STORE_IS_HELD,       /* number -> whether anything names it */
    LN_STORE_REMOVE_ITEM,   /* number */
    LN_STORE_MOVE_CHILDREN, /* new parent, number */
    LN_STORE_MOVE_HEADS,    /* new head, number */
    LN_STORE_MOVE_INPUTS,   /* new input, number */
    LN_STORE_STATEMENTS
} ln_store_statement;

typedef struct ln_store_database {
    sqlite3 *handle;
    sqlite3_stmt *statements[LN_STORE_STATEMENTS];
    int lock_fd; /* of PATH.lock, which all that have the file open share; or -1 */
} ln_store_database;

/* `path` NULL: in memory. False: *why says why not; it is static or lives as long as the database,
 * which is to be closed in either case. */
bool ln_store_database_open(ln_store_database *database, const char *path, const char **why);
void ln_store_database_close(ln_store_database *database);

/* Binds parameters of a statement: the first two, or texts from the place `index` on. */
sqlite3_stmt *ln_store_bind_numbers(ln_store_database *database, ln_store_statement which,
                                    int64_t first, int64_t second);
sqlite3_stmt *ln_store_bind_texts(ln_store_database *database, ln_store_statement which, int index,
                                  const char *text, const char *next);
/* Runs one that gives no rows, and makes it ready for the next time. */
bool ln_store_run(sqlite3_stmt *statement);
/* Runs one that gives a row; it is to be ended, whether there is one or not. */
bool ln_store_step(sqlite3_stmt *statement);
void ln_store_end(sqlite3_stmt *statement);

#endif
