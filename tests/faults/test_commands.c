/* Commands of which one allocation or one system call fails, for each in turn: the right output, or
 * an error with a status; no death, no hang, and nothing left of a file that is not whole. A sample
 * of them, but for LINNET_FAULTS=all. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/spawn.h"
#include "faults/process.h"
#include "test.h"

#define DEMO  TEST_SOURCE_DIR "/models/demo.gguf"
#define LLAMA TEST_SOURCE_DIR "/tests/golden/models/llama"
#define BERT  TEST_SOURCE_DIR "/tests/golden/embeddings/bert_gguf/model.gguf"

enum { SAMPLE = 12, TIMEOUT_MS = 60000, MAX_ARGUMENTS = 12 };

typedef struct command {
    const char *name;
    const char *arguments[MAX_ARGUMENTS]; /* "OUT": the file that is written */
} command;

static const command commands[] = {
    {"run", {"run", DEMO, "-p", "Once upon", "-n", "3", "--threads=1", "--temp=0"}},
    {"inspect", {"inspect", LLAMA, "--json"}},
    {"plan", {"plan", LLAMA, "--ctx=64", "--json"}},
    {"tokenize", {"tokenize", DEMO, "--text=Once upon a time"}},
    {"embed", {"embed", BERT, "--ids=2,5,9", "--threads=1"}},
    {"logits", {"logits", LLAMA, "--ids=5,9,3", "--out=OUT", "--threads=1"}},
    {"quantize", {"quantize", BERT, "OUT", "--type=Q8_0", "--threads=1"}},
    {"convert", {"convert", LLAMA, "OUT", "--no-tokenizer", "--threads=1"}},
    {"merge",
     {"merge", LLAMA, "--lora=" TEST_SOURCE_DIR "/tests/golden/adapter", "--out=OUT",
      "--threads=1"}},
};

static bool all; /* no sample */
static char *folder;

/* What a process said and wrote. */
typedef struct outcome {
    int status;
    bool is_in_time, has_failed;
    int n_calls;
    const char *failed;
    char *out, *err;
    size_t out_bytes, err_bytes;
    char *file; /* NULL: there is none */
    size_t file_bytes;
    size_t n_others; /* what else is in the folder */
} outcome;

static char *take(int fd, size_t *n_bytes) {
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    char *text = calloc(1, (size_t)info.st_size + 1);
    assert_non_null(text);
    assert_int_equal(pread(fd, text, (size_t)info.st_size, 0), info.st_size);
    *n_bytes = (size_t)info.st_size;
    close(fd);
    return text;
}

/* All of a folder's files one behind the other: what merge writes is one. */
static char *read_output(const char *path, size_t *n_bytes) {
    DIR *opened = opendir(path);
    char *all_bytes = NULL;
    if (opened == NULL)
        return read_file(path, n_bytes);
    closedir(opened);
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    *n_bytes = 0;
    all_bytes = calloc(1, 1);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            size_t n_more;
            char *more = read_file(path_in(path, entries[i]->d_name), &n_more);
            all_bytes = realloc(all_bytes, *n_bytes + n_more + 1);
            assert_non_null(all_bytes);
            memcpy(all_bytes + *n_bytes, more, n_more);
            *n_bytes += n_more;
            free(more);
        }
        free(entries[i]);
    }
    free(entries);
    return all_bytes;
}

static void take_files(outcome *o) {
    const char *path = path_in(folder, "out");
    if (access(path, F_OK) == 0)
        o->file = read_output(path, &o->file_bytes);
    DIR *opened = opendir(folder);
    assert_non_null(opened);
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;)
        o->n_others += entry->d_name[0] != '.' && strcmp(entry->d_name, "out") != 0;
    rewinddir(opened);
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;)
        o->n_others += entry->d_name[0] == '.' && strcmp(entry->d_name, ".") != 0 &&
                       strcmp(entry->d_name, "..") != 0;
    closedir(opened);
}

static outcome run(const command *c, fault_kind kind, int nth) {
    outcome o = {0};
    fault_process process;
    const char *argv[MAX_ARGUMENTS + 2] = {TEST_LINNET};
    char out[PATH_MAX];
    folder = temp_create();
    for (size_t i = 0; c->arguments[i] != NULL; i++) {
        const char *end = strstr(c->arguments[i], "OUT");
        if (end != NULL)
            snprintf(out, sizeof out, "%.*s%s/out", (int)(end - c->arguments[i]), c->arguments[i],
                     folder);
        argv[i + 1] = end != NULL ? out : c->arguments[i];
    }
    int out_fd = memfd_create("out", MFD_CLOEXEC), err_fd = memfd_create("err", MFD_CLOEXEC);
    fault_process_start(&process, kind, argv, out_fd, err_fd, NULL, nth);
    o.is_in_time = fault_process_wait(&process, TIMEOUT_MS, &o.status, &o.has_failed);
    o.n_calls = kind == FAULT_ALLOCATION ? INT_MAX - atomic_load(process.n_left)
                                         : atomic_load(&process.n_calls);
    o.failed = atomic_load(&process.failed);
    o.out = take(out_fd, &o.out_bytes);
    o.err = take(err_fd, &o.err_bytes);
    take_files(&o);
    temp_remove(folder);
    return o;
}

static void drop(outcome *o) {
    free(o->out);
    free(o->err);
    free(o->file);
}

static bool same(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    return (a == NULL) == (b == NULL) &&
           (a == NULL || (a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0));
}

/* What is wrong with an outcome; NULL: nothing. */
static const char *judge(const outcome *o, const outcome *right) {
    if (!o->is_in_time)
        return "it hangs";
    if (!WIFEXITED(o->status))
        return "it died";
    if (o->n_others > 0)
        return "it left a file behind";
    if (WEXITSTATUS(o->status) != 0) {
        if (o->file != NULL)
            return "it left its output behind";
        return o->err_bytes > 0 ? NULL : "it says nothing";
    }
    if (!same(o->file, o->file_bytes, right->file, right->file_bytes))
        return "its output is wrong";
    return same(o->out, o->out_bytes, right->out, right->out_bytes) ? NULL
                                                                    : "what it prints is wrong";
}

typedef struct counts {
    int n_runs, n_errors, n_right, n_bad;
} counts;

static void fail_nth(const command *c, fault_kind kind, int nth, const outcome *right,
                     counts *all_counts) {
    outcome o = run(c, kind, nth);
    const char *complaint = judge(&o, right);
    all_counts->n_runs++;
    all_counts->n_right += complaint == NULL && o.status == 0;
    all_counts->n_errors += complaint == NULL && o.status != 0;
    if (complaint != NULL) {
        all_counts->n_bad++;
        print_error("%s, %s %d (%s): %s; status %d: %.300s\n", c->name,
                    kind == FAULT_CALL ? "call" : "allocation", nth,
                    o.failed != NULL ? o.failed : "", complaint, o.status, o.err);
    }
    drop(&o);
}

/* Each Nth fails, or every so many of them. */
static void fail_each(fault_kind kind) {
    int n_bad = 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const command *c = &commands[i];
        outcome right = run(c, FAULT_NONE, 0), counted = run(c, kind, INT_MAX);
        counts sum = {0};
        if (right.status != 0)
            fail_msg("%s: %s", c->name, right.err);
        int n = counted.n_calls, step = all ? 1 : n / SAMPLE + 1;
        assert_true(n > 10);
        for (int nth = all ? 1 : 1 + (int)i % step; nth <= n; nth += step)
            fail_nth(c, kind, nth, &right, &sum);
        print_message("%s: of %d %s %d failed: %d errors, %d right answers, %d wrong\n", c->name, n,
                      kind == FAULT_CALL ? "system calls" : "allocations", sum.n_runs, sum.n_errors,
                      sum.n_right, sum.n_bad);
        n_bad += sum.n_bad;
        drop(&right);
        drop(&counted);
    }
    assert_int_equal(n_bad, 0);
}

static void allocations_may_fail(void **state) {
    (void)state;
    fail_each(FAULT_ALLOCATION);
}

static void system_calls_may_fail(void **state) {
    (void)state;
    if (!fault_calls_work())
        skip();
    fail_each(FAULT_CALL);
}

int main(void) {
    const char *which = getenv("LINNET_FAULTS");
    all = which != NULL && strcmp(which, "all") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(allocations_may_fail),
                                       cmocka_unit_test(system_calls_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
