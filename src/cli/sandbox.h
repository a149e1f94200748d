/* The server's sandbox: what the process gives up, so that a defect in a parser cannot be used to
 * read other files, write anything, start programs or call out. */
#ifndef LN_CLI_SANDBOX_H
#define LN_CLI_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

enum { LN_CLI_SANDBOX_PATHS = 64 };

/* What is still needed beside the system's own folders; paths are borrowed. */
typedef struct ln_cli_sandbox {
    /* [n_models] files, which may have shards beside them, or folders; NULL: none */
    const char *const *models;
    size_t n_models;
    const char *readable[LN_CLI_SANDBOX_PATHS]; /* [n_readable] files, or folders with all below */
    size_t n_readable;
    const char *writable[LN_CLI_SANDBOX_PATHS]; /* [n_writable] likewise */
    size_t n_writable;
    bool reads_anything; /* files that nobody can name yet are to be read */
    bool connects;       /* to other hosts, as ranks do */
} ln_cli_sandbox;

/* The version of the kernel's Landlock; 0: it has none. */
int ln_cli_sandbox_landlock(void);

/* Adds a path, a NULL one not; one that does not exist counts for nothing. */
void ln_cli_sandbox_allow(ln_cli_sandbox *sandbox, const char *path, bool is_writable);

/* Confines files and TCP connections by Landlock, of this thread and of those that it starts later:
 * call it before there are others. False: the kernel has no Landlock, so nothing is confined. */
bool ln_cli_sandbox_confine_files(const ln_cli_sandbox *sandbox);

/* Gives up the system calls that a server has no use for (starting programs, tracing, mounting,
 * loading code into the kernel) by a seccomp filter for all threads: they fail with EPERM. False:
 * the kernel has no seccomp, so nothing is given up. */
bool ln_cli_sandbox_confine_calls(void);

#endif
