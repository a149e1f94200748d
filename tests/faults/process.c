#include "faults/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

#ifdef __x86_64__
#define CAN_TRACE 1
#else
#define CAN_TRACE 0
#endif

/* ---- which calls fail, and how ---------------------------------------------------------- */

#if CAN_TRACE

typedef struct failing_call {
    long number;
    const char *name;
    int error;
    bool is_done; /* the call happens, and still says that it failed */
} failing_call;

#define CALL(name, error)                                                                          \
    { SYS_##name, #name, error, false }
static const failing_call calls[] = {CALL(openat, EMFILE),
                                     CALL(read, EIO),
                                     CALL(pread64, EIO),
                                     CALL(write, ENOSPC),
                                     CALL(pwrite64, ENOSPC),
                                     CALL(writev, ECONNRESET),
                                     CALL(mmap, ENOMEM),
                                     CALL(mprotect, ENOMEM),
                                     CALL(fstat, EIO),
                                     CALL(newfstatat, EACCES),
                                     CALL(statx, EACCES),
                                     CALL(lseek, EINVAL),
                                     CALL(getdents64, EIO),
                                     CALL(fsync, EIO),
                                     CALL(fdatasync, EIO),
                                     CALL(ftruncate, ENOSPC),
                                     CALL(fallocate, ENOSPC),
                                     CALL(rename, EACCES),
                                     CALL(renameat2, EACCES),
                                     CALL(linkat, EACCES),
                                     CALL(clone, EAGAIN),
                                     CALL(clone3, EAGAIN),
                                     CALL(epoll_create1, EMFILE),
                                     CALL(epoll_ctl, ENOMEM),
                                     CALL(epoll_wait, EINTR),
                                     CALL(epoll_pwait2, EINTR),
                                     CALL(eventfd2, EMFILE),
                                     CALL(timerfd_create, EMFILE),
                                     CALL(timerfd_settime, EINVAL),
                                     CALL(socket, EMFILE),
                                     CALL(socketpair, EMFILE),
                                     CALL(bind, EADDRINUSE),
                                     CALL(listen, EADDRINUSE),
                                     CALL(accept4, EMFILE),
                                     CALL(recvfrom, ECONNRESET),
                                     CALL(sendto, ECONNRESET),
                                     CALL(sendmsg, ECONNRESET),
                                     CALL(getsockname, ENOBUFS),
                                     CALL(setsockopt, ENOPROTOOPT),
                                     CALL(pipe2, EMFILE),
                                     CALL(fcntl, EINVAL),
                                     CALL(ioctl, EINVAL),
                                     CALL(getrandom, EINTR),
                                     CALL(madvise, EINVAL),
                                     CALL(sched_getaffinity, EINVAL),
                                     CALL(memfd_create, EMFILE),
                                     CALL(getcwd, ENOENT),
                                     CALL(readlink, EACCES),
                                     {SYS_close, "close", EIO, true}};

static const failing_call *find_call(unsigned long long number) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if ((unsigned long long)calls[i].number == number)
            return &calls[i];
    return NULL;
}

/* The loader asks for limits late, and at its end unmaps the list of libraries. */
static bool is_loaded(fault_process *process, unsigned long long number) {
    process->is_past_limits |= number == SYS_prlimit64;
    process->is_loaded |= process->is_past_limits && number == SYS_munmap;
    return process->is_loaded;
}

static void enter_call(fault_process *process, pid_t tid, unsigned long long number) {
    const failing_call *call = find_call(number);
    struct user_regs_struct registers;
    if (!is_loaded(process, number) || call == NULL ||
        (process->only != NULL && strcmp(call->name, process->only) != 0))
        return;
    atomic_fetch_add(&process->n_calls, 1);
    if (atomic_load(process->n_left) <= 0 || atomic_fetch_sub(process->n_left, 1) != 1)
        return;
    process->failing_tid = tid;
    process->failing_errno = call->error;
    if (!call->is_done && ptrace(PTRACE_GETREGS, tid, NULL, &registers) == 0) {
        registers.orig_rax = (unsigned long long)-1; /* no call */
        ptrace(PTRACE_SETREGS, tid, NULL, &registers);
    }
    atomic_store(&process->failed, call->name);
}

static void leave_call(fault_process *process, pid_t tid) {
    struct user_regs_struct registers;
    if (process->failing_tid != tid)
        return;
    process->failing_tid = 0;
    if (ptrace(PTRACE_GETREGS, tid, NULL, &registers) == 0) {
        registers.rax = (unsigned long long)-process->failing_errno;
        ptrace(PTRACE_SETREGS, tid, NULL, &registers);
    }
}

static void see_call(fault_process *process, pid_t tid) {
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) <= 0)
        return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
        enter_call(process, tid, info.entry.nr);
    else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
        leave_call(process, tid);
}

/* Goes from stop to stop till the process ends. */
static void trace(fault_process *process) {
    enum { OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL };
    for (int status = 0;;) {
        pid_t tid = waitpid(-1, &status, __WALL | __WNOTHREAD);
        if (tid < 0 && errno == EINTR)
            continue;
        if (tid < 0)
            return;
        if (!WIFSTOPPED(status)) {
            if (tid != process->pid)
                continue;
            process->status = status;
            return;
        }
        int signal = WSTOPSIG(status), passed = 0;
        if (!process->has_options)
            process->has_options = ptrace(PTRACE_SETOPTIONS, tid, NULL, (long)OPTIONS) == 0;
        else if (signal == (SIGTRAP | 0x80))
            see_call(process, tid);
        else if (status >> 16 == 0 && signal != SIGSTOP) /* SIGSTOP: a thread begins */
            passed = signal;
        ptrace(PTRACE_SYSCALL, tid, NULL, (long)passed);
    }
}

#else
static void trace(fault_process *process) {
    waitpid(process->pid, &process->status, 0);
}
#endif

/* ---- the process ------------------------------------------------------------------------ */

static void be_child(const fault_process *process) {
    bool is_ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                    dup2(process->out_fd, STDOUT_FILENO) >= 0 &&
                    dup2(process->err_fd, STDERR_FILENO) >= 0 &&
                    (process->kind != FAULT_CALL || ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    if (is_ready)
        execv(process->argv[0], (char *const *)(uintptr_t)process->argv);
    _exit(127);
}

static void *run(void *argument) {
    fault_process *process = argument;
    process->pid = fork();
    if (process->pid == 0)
        be_child(process);
    sem_post(&process->started);
    if (process->pid < 0)
        return NULL;
    if (process->kind == FAULT_CALL)
        trace(process);
    else
        waitpid(process->pid, &process->status, 0);
    atomic_store(&process->is_over, true);
    return NULL;
}

/* What failing_malloc.c counts down, shared with the process by the file that it is told of. */
static atomic_int *share_count(void) {
    char path[] = "/tmp/linnet-failing-XXXXXX";
    static atomic_int *shared;
    if (shared != NULL)
        return shared;
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 2 * sizeof *shared), 0);
    shared = mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    unlink(path);
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), fd);
    setenv("LINNET_FAILING_MALLOC", name, 1);
    return shared;
}

bool fault_calls_work(void) {
    pid_t pid = CAN_TRACE ? fork() : -1;
    int status = 1;
    if (pid == 0)
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

void fault_process_start(fault_process *process, fault_kind kind, const char *const *argv,
                         int out_fd, int err_fd, const char *only, int nth) {
    memset(process, 0, sizeof *process);
    process->kind = kind;
    process->argv = argv;
    process->out_fd = out_fd;
    process->err_fd = err_fd;
    process->only = only;
    process->n_left = kind == FAULT_ALLOCATION ? share_count() : &process->own_n_left;
    atomic_store(process->n_left, nth);
    if (kind == FAULT_ALLOCATION) {
        atomic_store(&process->n_left[1], 0);
        setenv("LD_PRELOAD", TEST_FAILING_MALLOC, 1);
    }
    assert_int_equal(sem_init(&process->started, 0, 0), 0);
    assert_int_equal(pthread_create(&process->thread, NULL, run, process), 0);
    sem_wait(&process->started);
    unsetenv("LD_PRELOAD");
    assert_true(process->pid > 0);
}

/* What the process holds: allocations and open descriptors. */
static long count_held(const fault_process *process) {
    enum { MANY = 1000000 };
    char path[64];
    long n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)process->pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n * MANY + atomic_load(&process->n_left[1]);
}

long fault_process_held(const fault_process *process) {
    enum { TRIES = 100, PAUSE_MS = 20, ALIKE = 3 };
    long held = count_held(process);
    for (int tries = 0, n_alike = 0; tries < TRIES && n_alike < ALIKE; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
        long now = count_held(process);
        n_alike = now == held ? n_alike + 1 : 0;
        held = now;
    }
    return held;
}

bool fault_process_wait(fault_process *process, int timeout_ms, int *status, bool *has_failed) {
    bool is_in_time = true;
    for (int waited = 0; !atomic_load(&process->is_over); waited++) {
        if (waited == timeout_ms) {
            is_in_time = false;
            kill(process->pid, SIGKILL);
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    pthread_join(process->thread, NULL);
    sem_destroy(&process->started);
    *status = process->status;
    *has_failed = process->kind != FAULT_NONE && atomic_load(process->n_left) <= 0 &&
                  (process->kind != FAULT_CALL || atomic_load(&process->failed) != NULL);
    return is_in_time;
}
