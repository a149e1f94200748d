#include "cli/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The interface of the kernel, of which headers may know less than the kernel: what newer versions
 * of Landlock have added. */
enum { ABI_REFER = 2, ABI_TRUNCATE, ABI_NET, ABI_IOCTL, ABI_SCOPE };

#define FS_REFER           (1ULL << 13)
#define FS_TRUNCATE        (1ULL << 14)
#define NET_CONNECT_TCP    (1ULL << 1)
#define SCOPE_UNIX_SOCKETS (1ULL << 0)
#define SCOPE_SIGNALS      (1ULL << 1)

typedef struct ruleset_attr { /* struct landlock_ruleset_attr */
    uint64_t fs, net, scoped;
} ruleset_attr;

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_WRITE                                                                                   \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                               \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |   \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)
/* A rule for a file may name no right of folders. */
#define FS_OF_FILES                                                                                \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE |   \
     FS_TRUNCATE)

void ln_cli_sandbox_allow(ln_cli_sandbox *sandbox, const char *path, bool is_writable) {
    size_t *count = is_writable ? &sandbox->n_writable : &sandbox->n_readable;
    const char **paths = is_writable ? sandbox->writable : sandbox->readable;
    if (path != NULL && *count < LN_CLI_SANDBOX_PATHS)
        paths[(*count)++] = path;
}

/* A path that is not there needs no rule. */
static bool allow(int ruleset, const char *path, uint64_t access) {
    struct stat found;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return true;
    bool is_ok = fstat(fd, &found) == 0;
    struct landlock_path_beneath_attr rule = {
        .allowed_access = is_ok && S_ISDIR(found.st_mode) ? access : access & FS_OF_FILES,
        .parent_fd = fd};
    is_ok =
        is_ok && syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    close(fd);
    return is_ok;
}

/* The folders of LD_LIBRARY_PATH and their like: libraries may be loaded when they are first used.
 */
static bool allow_list(int ruleset, const char *list, uint64_t access) {
    char *copy = list != NULL ? strdup(list) : NULL, *rest = copy;
    bool is_ok = list == NULL || copy != NULL;
    for (char *path; is_ok && (path = strsep(&rest, ":")) != NULL;)
        if (*path != '\0')
            is_ok = allow(ruleset, path, access);
    free(copy);
    return is_ok;
}

/* What symbolic links in a folder point to, as those of the hub's cache do, and `depth` folders
 * below it, as an embedder's modules have them. */
static bool allow_links(int ruleset, const char *folder, int depth) {
    DIR *entries = opendir(folder);
    bool is_ok = true;
    for (const struct dirent *entry; entries != NULL && is_ok && (entry = readdir(entries));) {
        char *path = NULL;
        bool is_other = entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN &&
                        (entry->d_type != DT_DIR || depth == 0);
        if (is_other || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        is_ok = asprintf(&path, "%s/%s", folder, entry->d_name) > 0;
        if (is_ok && entry->d_type == DT_DIR)
            is_ok = allow_links(ruleset, path, depth - 1);
        else
            is_ok = is_ok && allow(ruleset, path, FS_READ);
        free(path);
    }
    if (entries != NULL)
        closedir(entries);
    return is_ok;
}

/* The files of a model: its folder, or a file's, beside which others of its parts may lie. */
static bool allow_model(int ruleset, const char *path) {
    struct stat found;
    bool is_folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    char *copy = strdup(path);
    if (copy == NULL)
        return false;
    const char *folder = is_folder ? copy : dirname(copy);
    bool is_ok = allow(ruleset, folder, FS_READ) && allow_links(ruleset, folder, is_folder ? 1 : 0);
    free(copy);
    return is_ok;
}

static bool add_rules(int ruleset, const ln_cli_sandbox *sandbox, uint64_t writing) {
    /* libraries and their data, names of hosts, the processors, terminals and GPUs */
    static const char *const system[] = {"/usr", "/lib", "/lib64", "/etc", "/proc",
                                         "/sys", "/opt", "/run",   "/nix"};
    bool is_ok = allow(ruleset, "/dev", FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE);
    for (size_t i = 0; is_ok && i < sizeof system / sizeof *system; i++)
        is_ok = allow(ruleset, system[i], FS_READ);
    is_ok = is_ok && allow_list(ruleset, getenv("LD_LIBRARY_PATH"), FS_READ);
    for (size_t i = 0; is_ok && i < sandbox->n_models; i++)
        is_ok = sandbox->models[i] == NULL || allow_model(ruleset, sandbox->models[i]);
    for (size_t i = 0; is_ok && i < sandbox->n_readable; i++)
        is_ok = allow(ruleset, sandbox->readable[i], FS_READ);
    for (size_t i = 0; is_ok && i < sandbox->n_writable; i++)
        is_ok = allow(ruleset, sandbox->writable[i], FS_READ | writing);
    if (is_ok && sandbox->reads_anything)
        is_ok = allow(ruleset, "/", FS_READ);
    return is_ok;
}

int ln_cli_sandbox_landlock(void) {
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

bool ln_cli_sandbox_confine_files(const ln_cli_sandbox *sandbox) {
    int abi = ln_cli_sandbox_landlock();
    if (abi < 1)
        return false;
    uint64_t writing =
        FS_WRITE | (abi >= ABI_REFER ? FS_REFER : 0) | (abi >= ABI_TRUNCATE ? FS_TRUNCATE : 0);
    ruleset_attr attr = {.fs = FS_READ | writing | LANDLOCK_ACCESS_FS_EXECUTE};
    size_t n_bytes = sizeof attr.fs;
    if (abi >= ABI_NET) {
        attr.net = sandbox->connects ? 0 : NET_CONNECT_TCP;
        n_bytes += sizeof attr.net;
    }
    if (abi >= ABI_SCOPE) {
        attr.scoped = sandbox->connects ? 0 : SCOPE_UNIX_SOCKETS | SCOPE_SIGNALS;
        n_bytes += sizeof attr.scoped;
    }
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, n_bytes, 0);
    if (ruleset < 0)
        return false;
    bool is_ok = add_rules(ruleset, sandbox, writing) &&
                 prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                 syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
    close(ruleset);
    return is_ok;
}

bool ln_cli_sandbox_confine_calls(void) {
    static const int refused[] = {
#ifndef __SANITIZE_ADDRESS__ /* which looks for leaks by ptrace, at the end */
        SCMP_SYS(ptrace),
#endif
        /* other programs and their memory */
        SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(process_vm_readv),
        SCMP_SYS(process_vm_writev), SCMP_SYS(kcmp), SCMP_SYS(pidfd_getfd),
        /* the file system as a whole */
        SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot),
        SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(fsopen), SCMP_SYS(fsmount),
        SCMP_SYS(open_by_handle_at), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(quotactl),
        SCMP_SYS(acct),
        /* namespaces and identities */
        SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(setuid), SCMP_SYS(setgid), SCMP_SYS(setreuid),
        SCMP_SYS(setregid), SCMP_SYS(setresuid), SCMP_SYS(setresgid), SCMP_SYS(setgroups),
        SCMP_SYS(capset), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(keyctl),
        /* the kernel: parts of it where most defects are found, and what only an administrator
         * does */
        SCMP_SYS(bpf), SCMP_SYS(userfaultfd), SCMP_SYS(perf_event_open), SCMP_SYS(io_uring_setup),
        SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register), SCMP_SYS(init_module),
        SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
        SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(syslog), SCMP_SYS(settimeofday),
        SCMP_SYS(clock_settime), SCMP_SYS(adjtimex), SCMP_SYS(sethostname), SCMP_SYS(setdomainname),
        SCMP_SYS(iopl), SCMP_SYS(ioperm)};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    bool is_ok = filter != NULL && seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0;
    for (size_t i = 0; is_ok && i < sizeof refused / sizeof *refused; i++) {
        int status = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
        is_ok = status == 0 || status == -EDOM || status == -EINVAL; /* not of this processor */
    }
    is_ok = is_ok && seccomp_load(filter) == 0;
    seccomp_release(filter);
    return is_ok;
}
