/* A Hugging Face hub on the loopback interface, with one repository, that can be made to misbehave.
 */
#ifndef LN_TESTS_CLI_HUB_SERVER_H
#define LN_TESTS_CLI_HUB_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define HUB_REPO   "test/tiny"
#define HUB_COMMIT "0123456789abcdef0123456789abcdef01234567"

typedef struct hub_file {
    const char *path;
    const char *bytes; /* [n_bytes] */
    size_t n_bytes;
    bool is_large; /* named by its SHA-256, as git LFS does; otherwise by git's SHA-1 */
    char hash[65]; /* filled by hub_start, unless it is set */
} hub_file;

typedef struct hub_server {
    /* set before hub_start, or between two runs of the program */
    hub_file *files; /* [n_files] */
    size_t n_files;
    const char *_Atomic token;     /* that requests must have; NULL: none */
    const char *_Atomic listing;   /* the answer about a revision; NULL: what is right */
    atomic_bool redirects;         /* files come from another host */
    atomic_bool redirects_to_file; /* to a file:// URL */
    atomic_bool shifts_range;      /* answers another range than was asked for */
    atomic_bool sends_more;        /* than was asked for */
    atomic_int n_cuts;             /* so many answers with files end after cut_bytes */
    atomic_size_t cut_bytes;
    atomic_int n_busy; /* so many answers are 503 */
    atomic_long quota; /* bytes of files until all that follows is 404; -1: none */
    /* what it saw */
    atomic_int n_requests;
    atomic_long n_file_bytes;
    atomic_bool gave_token_away; /* a request to the other host had it */

    int fd;
    unsigned port;
    atomic_bool ends;
    unsigned long thread;
} hub_server;

/* Fails the test when it cannot. Sets HF_ENDPOINT. */
void hub_start(hub_server *hub);
void hub_stop(hub_server *hub);

#endif
