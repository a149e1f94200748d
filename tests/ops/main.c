/* Every operation of a backend against the scalar kernels, on fresh random inputs and odd shapes;
 * and the same bits for a row whatever else is in the batch.
 * usage: linnet-ops-test [--backend NAME] [--precision fast] [--batch-invariant off] [--max-seqs N]
 * [--seed N] [--cpu ISA] [--only PATTERN] [--part K/N] [--brief on] [--bits FOLDER] [--record
 * FOLDER]; a pattern of names of tests has * for any part. Part K of N, from 0 on, has every Nth
 * case, and `brief` few steps and layers of each, and no prompt's rows once more in smaller
 * batches: for tools that watch every access. `record` writes hashes of all results to a file of
 * the folder, and `bits` compares them with those that were recorded (bits.h): with all tests and
 * the usual seed. Exit status 77: there is no such device. */
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "ops/bits.h"
#include "ops/ops.h"
#include "test_backend.h"

static int begin_test(void **state) {
    ops_begin_test(*state);
    return 0;
}

/* Runs a group whose tests tell bits.h their names. */
static int run_group(const char *name, const struct CMUnitTest *tests, size_t n) {
    struct CMUnitTest named[64];
    assert_true(n <= sizeof named / sizeof *named);
    for (size_t i = 0; i < n; i++) {
        named[i] = tests[i];
        named[i].setup_func = begin_test;
        named[i].initial_state = (void *)(uintptr_t)tests[i].name;
    }
    return _cmocka_run_group_tests(name, named, n, NULL, NULL);
}

/* FOLDER/BACKEND-ARCH-PRECISION.txt */
static const char *bits_path(const char *folder, const ln_backend_options *options) {
    static char path[512];
    const ln_backend *backend = subject.backend;
    snprintf(path, sizeof path, "%s/%s-%s-%s%s.txt", folder, backend->vtable->name, backend->arch,
             options->exact ? "exact" : "fast",
             options->lets_rows_vary ? "-vary"
             : options->max_seqs > 0 ? "-many"
                                     : "");
    return path;
}

static ln_status create(const char *name, const ln_backend_options *options, side *s,
                        ln_error *err) {
    ln_step_limits limits = {.max_tokens = 1024,
                             .max_seqs = 64,
                             .max_ctx = 33024,
                             .max_blocks = 2064,
                             .max_read_bytes = 64 << 20,
                             .max_width = 28672,
                             .max_grouped_width = 28672,
                             .max_expert_width = 1024,
                             .max_head_dim = 640,
                             .max_heads = 128,
                             .max_indexed = 2048,
                             .max_experts = 600,
                             .max_state_dim = 160,
                             .n_adapters = MAX_ADAPTERS};
    LN_TRY(ln_backend_create(name, options, &s->backend, err));
    return s->backend->vtable->reserve_scratch(s->backend, &limits, err);
}

/* "K/N" */
static bool read_part(const char *text) {
    if (sscanf(text, "%zu/%zu", &ops_part, &ops_n_parts) == 2 && ops_part < ops_n_parts)
        return true;
    fprintf(stderr, "--part %s is none\n", text);
    return false;
}

int main(int argc, char **argv) {
    const char *name = "cpu", *recorded = NULL, *record = NULL;
    ln_backend_options options = {.isa = "auto", .n_threads = 2, .exact = true};
    ln_backend_options of_oracle = {.isa = "scalar", .n_threads = 2, .exact = true};
    ln_error err = {0};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--backend") == 0)
            name = argv[i + 1];
        else if (strcmp(argv[i], "--precision") == 0)
            options.exact = strcmp(argv[i + 1], "exact") == 0;
        else if (strcmp(argv[i], "--batch-invariant") == 0)
            options.lets_rows_vary = strcmp(argv[i + 1], "off") == 0;
        else if (strcmp(argv[i], "--max-seqs") == 0)
            options.max_seqs = strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            ops_seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--cpu") == 0)
            options.isa = argv[i + 1];
        else if (strcmp(argv[i], "--bits") == 0)
            recorded = argv[i + 1];
        else if (strcmp(argv[i], "--record") == 0)
            record = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            cmocka_set_test_filter(argv[i + 1]);
        else if (strcmp(argv[i], "--brief") == 0)
            ops_is_brief = strcmp(argv[i + 1], "on") == 0;
        else if (strcmp(argv[i], "--part") == 0 && !read_part(argv[i + 1]))
            return 1;
    }
    ln_status status = create(name, &options, &subject, &err);
    if (status == LINNET_ERR_UNSUPPORTED || (status == LINNET_ERR_ARGUMENT && argc > 1)) {
        printf("skipped: %s\n", err.message);
        return TEST_EXIT_SKIPPED;
    }
    if (status != LINNET_OK || create("cpu", &of_oracle, &oracle, &err) != LINNET_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    oracle.is_oracle = true;
    ops_rows_vary = options.lets_rows_vary;
    ops_tolerance = options.exact ? 0 : 2e-2;
    int failed = run_group("linear", linear_tests, n_linear_tests);
    failed |= run_group("grouped", grouped_tests, n_grouped_tests);
    failed |= run_group("rows", row_tests, n_row_tests);
    failed |= run_group("attention", attention_tests, n_attention_tests);
    failed |= run_group("index", index_tests, n_index_tests);
    failed |= run_group("entries", entry_tests, n_entry_tests);
    failed |= run_group("recurrent", recurrent_tests, n_recurrent_tests);
    failed |= run_group("chain", chain_tests, n_chain_tests);
    failed |= run_group("adapters", adapter_tests, n_adapter_tests);
    failed |= run_group("keys", key_tests, n_key_tests);
    if (record != NULL && !bits_write(bits_path(record, &options)))
        failed = 1;
    if (recorded != NULL && !bits_compare(bits_path(recorded, &options)))
        failed = 1;
    subject.backend->vtable->destroy(subject.backend);
    oracle.backend->vtable->destroy(oracle.backend);
    return failed != 0;
}
