#include "cli/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
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

/* ---- system calls ------------------------------------------------------------------------ */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCHITECTURE AUDIT_ARCH_RISCV64
#endif

#ifdef ARCHITECTURE

static const uint32_t refused[] = {
#ifndef __SANITIZE_ADDRESS__ /* which looks for leaks by ptrace, at the end */
    SYS_ptrace,
#endif
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm,
#endif
    /* other programs and their memory */
    SYS_execve, SYS_execveat, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp,
    SYS_pidfd_getfd,
    /* the file system as a whole */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_move_mount, SYS_open_tree, SYS_fsopen,
    SYS_fsmount, SYS_open_by_handle_at, SYS_swapon, SYS_swapoff, SYS_quotactl, SYS_acct,
    /* namespaces and identities */
    SYS_unshare, SYS_setns, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
    SYS_setresgid, SYS_setgroups, SYS_capset, SYS_add_key, SYS_request_key, SYS_keyctl,
    /* the kernel: parts of it where most defects are found, and what only an administrator does */
    SYS_bpf, SYS_userfaultfd, SYS_perf_event_open, SYS_io_uring_setup, SYS_io_uring_enter,
    SYS_io_uring_register, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
    SYS_kexec_file_load, SYS_reboot, SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex,
    SYS_sethostname, SYS_setdomainname};

enum {
    N_REFUSED = sizeof refused / sizeof *refused,
    FIRST_OF_X32 = 0x40000000, /* x86-64's second table of calls */
    N_HEAD = 4,
    N_INSTRUCTIONS = N_HEAD + N_REFUSED + 2
};
_Static_assert(N_REFUSED < UINT8_MAX, "jumps go that far");

bool ln_cli_sandbox_confine_calls(void) {
    struct sock_filter filter[N_INSTRUCTIONS] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0, N_REFUSED + 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_OF_X32, N_REFUSED + 1, 0)};
    for (size_t i = 0; i < N_REFUSED; i++)
        filter[N_HEAD + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i],
                                                          (uint8_t)(N_REFUSED - i), 0);
    filter[N_INSTRUCTIONS - 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[N_INSTRUCTIONS - 1] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    const struct sock_fprog program = {.len = N_INSTRUCTIONS, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

#else

bool ln_cli_sandbox_confine_calls(void) {
    return false;
}

#endif
