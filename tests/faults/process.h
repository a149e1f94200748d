/* A process in which one thing fails: its Nth allocation, or its Nth system call. System calls are
 * seen by ptrace, those of libraries among them; allocations by a library that is preloaded. */
#ifndef LN_TESTS_FAULTS_PROCESS_H
#define LN_TESTS_FAULTS_PROCESS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

typedef enum fault_kind { FAULT_NONE = 0, FAULT_ALLOCATION, FAULT_CALL } fault_kind;

typedef struct fault_process {
    fault_kind kind;
    const char *const *argv;
    int out_fd, err_fd; /* its stdout and stderr */
    const char *only;   /* the one call that may fail; NULL: all */
    /* how many allocations or calls until the one that fails, which brings it to zero; 0 or less:
     * nothing is counted down. For the test to set, at any time. */
    atomic_int *n_left;
    atomic_int own_n_left, n_calls; /* that could have failed */
    const char *_Atomic failed;     /* the call's name; NULL: none has failed yet */

    /* its own */
    pthread_t thread;
    sem_t started;
    pid_t pid;
    bool has_options, is_past_limits, is_loaded;
    pid_t failing_tid;
    int failing_errno;
    int status; /* of waitpid */
    atomic_bool is_over;
} fault_process;

/* Whether system calls can be made to fail here. */
bool fault_calls_work(void);

/* Runs argv[0] with arguments, which NULL ends. `only`: the one call that may fail; NULL: all. The
 * process ends with the test. What is loaded before main may not fail. */
void fault_process_start(fault_process *process, fault_kind kind, const char *const *argv,
                         int out_fd, int err_fd, const char *only, int nth);
/* Of FAULT_ALLOCATION: how many allocations and descriptors it holds, once that rests. */
long fault_process_held(const fault_process *process);
/* Waits for its end. False: it did not come in time, and the process was killed. *has_failed: the
 * Nth was there. */
bool fault_process_wait(fault_process *process, int timeout_ms, int *status, bool *has_failed);

#endif
