/* Runs a program as a user does, and keeps what it says. */
#ifndef LN_TESTS_CLI_SPAWN_H
#define LN_TESTS_CLI_SPAWN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct spawn_result {
    int status;       /* exit status, or 128 + the signal that ended it */
    char *out, *err;  /* NUL-terminated, malloc'd */
    size_t out_bytes; /* of `out`, which may hold any bytes */
} spawn_result;

typedef struct spawn_options {
    const char *input; /* what it reads from stdin; NULL: nothing */
    int out_fd;        /* its stdout; 0: a pipe that is read to the end */
    /* Once stdout has given this many bytes: */
    size_t interrupt_after_bytes; /* send SIGINT; 0: never */
    size_t close_after_bytes;     /* close our end of stdout; 0: never */
} spawn_options;

/* argv[0] is the program's path. Fails the test when it cannot start, or takes over a minute. */
spawn_result spawn(const spawn_options *options, const char *const *argv);
void spawn_free(spawn_result *result);

/* spawn of linnet itself with arguments; a NULL ends them. */
#define LINNET(...) spawn(NULL, (const char *const[]){TEST_LINNET, __VA_ARGS__, NULL})
#define LINNET_WITH(options, ...)                                                                  \
    spawn(options, (const char *const[]){TEST_LINNET, __VA_ARGS__, NULL})

/* Frees the result; fails the test where it has another status, or does not say this on stderr. */
void assert_status(spawn_result result, int status, const char *err);
void assert_contains(const char *text, const char *part);

/* A new empty folder, malloc'd; temp_remove deletes it with what is in it and frees the name. */
char *temp_create(void);
void temp_remove(char *folder);
/* "folder/name" in a ring of static buffers; valid for the next eight calls. */
const char *path_in(const char *folder, const char *name);
void write_file(const char *path, const void *bytes, size_t n_bytes);
/* The whole file, NUL-terminated and malloc'd. */
char *read_file(const char *path, size_t *n_bytes);

#endif
