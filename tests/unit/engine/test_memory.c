/* engine/: memory to the byte, and no allocation while running. */
#include "text_test.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MEMORY 0 /* sanitizers have the allocator to themselves */
#else
#define COUNTS_MEMORY 1
static _Thread_local bool is_main;
static atomic_size_t engine_allocations; /* on other threads than the test's */
static atomic_size_t reserved_bytes;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

static _Thread_local long failing = -1; /* on this thread: so many allocations succeed, then none */

/* Counts; false when the allocation has to fail. */
static bool may_allocate(void) {
    if (!is_main)
        atomic_fetch_add(&engine_allocations, 1);
    if (failing > 0)
        failing--;
    else if (failing == 0)
        return false;
    return true;
}

void *malloc(size_t bytes) {
    return may_allocate() ? __libc_malloc(bytes) : NULL;
}
void *calloc(size_t count, size_t bytes) {
    return may_allocate() ? __libc_calloc(count, bytes) : NULL;
}
void *realloc(void *memory, size_t bytes) {
    return may_allocate() ? __libc_realloc(memory, bytes) : NULL;
}
void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (flags & MAP_ANONYMOUS) {
        atomic_fetch_add(&reserved_bytes, bytes);
        if (!may_allocate()) {
            errno = ENOMEM;
            return MAP_FAILED;
        }
    }
    /* NOLINTNEXTLINE: what the C library does */
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}
#endif

static size_t arena(const linnet_memory_plan *plan, const char *name) {
    for (size_t i = 0; i < plan->n_arenas; i++)
        if (strcmp(plan->arenas[i].name, name) == 0)
            return plan->arenas[i].bytes;
    fail_msg("there is no arena %s", name);
    return 0;
}

static void plan_equals_what_is_reserved(void **state) {
    (void)state;
    static const char *const models[] = {
        "llama",         "gemma3",        "qwen3",          "glm_moe_dsa",
        "gemma4_shared", "gemma3n",       "mamba2",         "granitemoehybrid",
        "qwen3_5",       "falcon_h1",     "kimi_linear",    "jamba",
        "falcon_mamba",  "minimax",       "bailing_hybrid", "recurrent_gemma",
        "zamba2",        "deepseek_v4",   "glm5_next",      "inkling",
        "beam",          "zaya",          "inkling2",       "qwen4_exp",
        "doge",          "inkling2_loop", "zamba",          "kimi_k3",
        "openelm"};
    static const linnet_kv_type types[] = {LINNET_KV_BF16, LINNET_KV_Q8_0, LINNET_KV_FP8};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        golden g;
        golden_open(&g, models[i]);
        for (size_t seqs = 1; seqs <= 9; seqs += 4) {
            linnet_engine_options options = exact_options(97 * seqs, seqs, 40, 3);
            if (i == 1)
                options = (linnet_engine_options){.struct_bytes = sizeof options,
                                                  .backend = "cpu",
                                                  .cpu = "scalar",
                                                  .kv_type = types[seqs / 4]};
            linnet_memory_plan plan = {.struct_bytes = sizeof plan}, reserved = plan;
            assert_int_equal(linnet_plan_memory(g.model, &options, &plan, NULL), LINNET_OK);
#if COUNTS_MEMORY
            size_t before = atomic_load(&reserved_bytes);
#endif
            linnet_engine *engine = engine_on(&g, options);
#if COUNTS_MEMORY
            assert_int_equal(atomic_load(&reserved_bytes) - before, plan.total_bytes -
                                                                        arena(&plan, "headers") -
                                                                        arena(&plan, "tokenizer"));
#endif
            linnet_engine_get_memory(engine, &reserved);
            assert_memory_equal(&reserved, &plan, sizeof plan);
            size_t total = 0;
            for (size_t a = 0; a < plan.n_arenas; a++)
                total += plan.arenas[a].bytes;
            assert_int_equal(total, plan.total_bytes);
            assert_true(arena(&plan, "kv") > 0);
            linnet_engine_destroy(engine);
        }
        linnet_model_close(g.model);
    }
}

static void windows_need_less_memory(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "mistral"); /* a window of 16 tokens in every layer */
    linnet_memory_plan small = {.struct_bytes = sizeof small}, large = small;
    linnet_engine_options options = exact_options(200, 2, 16, 1);
    assert_int_equal(linnet_plan_memory(g.model, &options, &small, NULL), LINNET_OK);
    options.ctx_tokens = 400;
    assert_int_equal(linnet_plan_memory(g.model, &options, &large, NULL), LINNET_OK);
    assert_int_equal(arena(&small, "kv"), arena(&large, "kv"));
    linnet_model_close(g.model);
}

static void the_engine_thread_allocates_nothing(void **state) {
    (void)state;
#if COUNTS_MEMORY
    golden g;
    golden_open(&g, "llama");
    linnet_engine *engine = engine_on(&g, exact_options(128, 4, 32, 2));
    linnet_request *requests[4];
    linnet_event event;
    for (size_t i = 0; i < 4; i++) {
        linnet_request_options options = greedy_options(&g, i % GOLDEN_PROMPTS);
        options.sampling.temperature = i % 2 ? 0.9f : 0;
        options.sampling.repeat_penalty = 1.1f;
        requests[i] = submit(engine, &options);
    }
    assert_int_equal(linnet_request_next(requests[0], -1, &event, NULL), LINNET_OK);
    assert_int_equal(linnet_request_next(requests[0], -1, &event, NULL), LINNET_OK);
    size_t before = atomic_load(&engine_allocations);
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    for (size_t i = 1; i < 4; i++)
        receive(requests[i], ids, &finish);
    do
        assert_int_equal(linnet_request_next(requests[0], -1, &event, NULL), LINNET_OK);
    while (event.finish == LINNET_FINISH_NONE);
    assert_int_equal(atomic_load(&engine_allocations), before);
    linnet_request_close(requests[0]);
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
#else
    skip();
#endif
}

#if COUNTS_MEMORY
/* Of every kind that a step treats in its own way. */
static linnet_request_options make_request(const golden *g, size_t i) {
    static const char *const stops[] = {"never said"};
    static const char printable[] = "[ -~]{40}";
    linnet_request_options o = greedy_options(g, 1 + i % 2);
    o.sampling.temperature = 0.9f;
    o.sampling.seed = i;
    o.logprobs = i % 2 == 0;
    o.top_logprobs = i % 2 == 0 ? 3 : 0;
    o.stop = stops;
    o.n_stop = i % 3 == 0;
    switch (i % 5) {
    case 0: o.n = 3; break;
    case 1: o.beam_width = o.n = 3; break;
    case 2:
        o.grammar_kind = LINNET_GRAMMAR_REGEX;
        o.grammar = printable;
        o.grammar_bytes = strlen(printable);
        break;
    case 3: o.best_of = 2; break;
    default: o.sampling.dry_multiplier = o.sampling.xtc_probability = 0.5f;
    }
    return o;
}
#endif

/* Nor when requests give way, fork, search and follow grammars. */
static void nor_under_pressure(void **state) {
    (void)state;
#if COUNTS_MEMORY
    enum { N = 15 };
    golden g;
    text_folder folder;
    golden_open(&g, "llama");
    linnet_model_close(g.model);
    text_folder_make(&folder, "llama");
    g.model = text_folder_open(&folder);
    for (size_t variant = 0; variant < 2; variant++) {
        linnet_engine_options options = exact_options(112, 7, 40, 2);
        options.kv_tokens = 256;
        options.swap_bytes = variant == 0 ? 400000 : 0;
        options.preemption = variant == 0 ? LINNET_PREEMPTION_SWAP : LINNET_PREEMPTION_RECOMPUTE;
        linnet_engine *engine = engine_on(&g, options);
        linnet_request *requests[N];
        linnet_engine_stats stats = {.struct_bytes = sizeof stats};
        gate held;
        gate_hold(&held, engine);
        for (size_t i = 0; i < N; i++) {
            linnet_request_options o = make_request(&g, i);
            requests[i] = submit(engine, &o);
        }
        size_t before = atomic_load(&engine_allocations);
        gate_release(&held);
        for (size_t i = 0; i < N; i++) {
            linnet_event event;
            do
                assert_int_equal(linnet_request_next(requests[i], -1, &event, NULL), LINNET_OK);
            while (event.n_open > 0);
            assert_int_equal(event.finish, LINNET_FINISH_LENGTH);
            linnet_request_close(requests[i]);
        }
        assert_int_equal(atomic_load(&engine_allocations), before);
        linnet_engine_get_stats(engine, &stats);
        assert_true((variant == 0 ? stats.n_swap_preemptions : stats.n_recompute_preemptions) > 0);
        linnet_engine_destroy(engine);
    }
    linnet_model_close(g.model);
    text_folder_remove(&folder);
#else
    skip();
#endif
}

/* Adapters of experts: their slots are planned, and steps that have them allocate nothing. */
static void adapting_experts_allocates_nothing(void **state) {
    (void)state;
#if COUNTS_MEMORY
    golden g;
    golden_open(&g, "qwen3_moe");
    linnet_engine_options options = exact_options(128, 2, 16, 2);
    linnet_memory_plan plan = {.struct_bytes = sizeof plan}, less = plan;
    options.max_adapters = 2;
    options.max_adapter_rank = 2;
    assert_int_equal(linnet_plan_memory(g.model, &options, &less, NULL), LINNET_OK);
    options.adapt_experts = true;
    assert_int_equal(linnet_plan_memory(g.model, &options, &plan, NULL), LINNET_OK);
    assert_true(arena(&plan, "weights") > arena(&less, "weights"));
    size_t reserved = atomic_load(&reserved_bytes);
    linnet_engine *engine = engine_on(&g, options);
    assert_int_equal(atomic_load(&reserved_bytes) - reserved,
                     plan.total_bytes - arena(&plan, "headers") - arena(&plan, "tokenizer"));
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(linnet_engine_load_adapter(engine, i == 0 ? "a" : "b",
                                                    TEST_SOURCE_DIR "/tests/golden/adapter_experts",
                                                    i == 0 ? 1.0f : 2.0f, NULL),
                         LINNET_OK);
    gate held;
    gate_hold(&held, engine);
    linnet_request *requests[2];
    for (size_t i = 0; i < 2; i++) {
        linnet_request_options request_options = greedy_options(&g, i);
        request_options.adapter = i == 0 ? "a" : "b";
        requests[i] = submit(engine, &request_options);
    }
    size_t before = atomic_load(&engine_allocations);
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    gate_release(&held);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(receive(requests[i], ids, &finish), GOLDEN_OUTPUT);
    assert_int_equal(atomic_load(&engine_allocations), before);
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
#else
    skip();
#endif
}

/* Experts that steps read from files: plain rows, panels, rows that are put together. */
static void reading_experts_allocates_nothing(void **state) {
    (void)state;
#if COUNTS_MEMORY
    static const struct {
        const char *name, *quantize;
    } cases[] = {{"qwen3_moe", NULL},
                 {"deepseek_v3_half", NULL},
                 {"gpt_oss_mxfp4", NULL},
                 {"qwen3_moe", "q8_0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden g;
        golden_open(&g, cases[i].name);
        linnet_engine_options options = exact_options(128, 1, 16, 2);
        options.precision = LINNET_PRECISION_FAST;
        options.quantize_on_load = cases[i].quantize;
        linnet_memory_plan plan = {.struct_bytes = sizeof plan};
        for (options.experts_from_disk = 1 << 12; /* the least that is enough, about */
             linnet_plan_memory(g.model, &options, &plan, NULL) != LINNET_OK;)
            options.experts_from_disk *= 2;
        size_t reserved = atomic_load(&reserved_bytes);
        linnet_engine *engine = engine_on(&g, options);
        assert_int_equal(atomic_load(&reserved_bytes) - reserved,
                         plan.total_bytes - arena(&plan, "headers") - arena(&plan, "tokenizer"));
        gate held;
        gate_hold(&held, engine);
        linnet_request_options request_options = greedy_options(&g, 0);
        linnet_request *request = submit(engine, &request_options);
        size_t before = atomic_load(&engine_allocations);
        int32_t ids[MAX_IDS];
        linnet_finish finish;
        gate_release(&held);
        assert_int_equal(receive(request, ids, &finish), GOLDEN_OUTPUT);
        assert_int_equal(atomic_load(&engine_allocations), before);
        assert_true(stats_of(engine).n_expert_reads > 0);
        linnet_engine_destroy(engine);
        linnet_model_close(g.model);
    }
#else
    skip();
#endif
}

/* Each allocation of creating and submitting fails in turn. */
static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
#if COUNTS_MEMORY
    golden g;
    golden_open(&g, "llama");
    linnet_engine_options options = exact_options(128, 2, 32, 2);
    linnet_request_options request_options = greedy_options(&g, 0);
    linnet_engine *engine = NULL;
    linnet_request *request = NULL;
    linnet_status status = LINNET_ERR_NOMEM;
    long n = 0;
    for (; n < 1000 && status == LINNET_ERR_NOMEM; n++) {
        failing = n;
        status = linnet_engine_create(g.model, &options, &engine, NULL);
        failing = -1;
        assert_true((status == LINNET_OK) == (engine != NULL));
    }
    assert_int_equal(status, LINNET_OK);
    assert_in_range(n, 10, 999); /* an mmap for each arena, and more */
    status = LINNET_ERR_NOMEM;
    for (n = 0; n < 1000 && status == LINNET_ERR_NOMEM; n++) {
        failing = n;
        status = linnet_request_submit(engine, &request_options, &request, NULL);
        failing = -1;
    }
    assert_int_equal(status, LINNET_OK);
    assert_int_equal(n, 2);
    int32_t ids[MAX_IDS];
    linnet_finish finish;
    assert_int_equal(receive(request, ids, &finish), GOLDEN_OUTPUT);
    linnet_engine_destroy(engine);
    linnet_model_close(g.model);
#else
    skip();
#endif
}

/* What on_load was told. */
typedef struct load_report {
    size_t n_calls, ready, total;
    bool falls;
} load_report;

static void take_report(void *user, size_t ready_bytes, size_t total_bytes) {
    load_report *report = user;
    report->falls |= ready_bytes < report->ready || ready_bytes > total_bytes ||
                     (report->n_calls > 0 && total_bytes != report->total);
    report->n_calls++;
    report->ready = ready_bytes;
    report->total = total_bytes;
}

static void loading_says_how_far_it_is(void **state) {
    (void)state;
    golden g;
    golden_open(&g, "llama");
    for (int precision = LINNET_PRECISION_FAST; precision <= LINNET_PRECISION_EXACT; precision++) {
        load_report report = {0};
        linnet_memory_plan plan = {.struct_bytes = sizeof plan};
        linnet_engine_options options = exact_options(64, 1, 16, 2);
        options.precision = (linnet_precision)precision;
        options.on_load = take_report;
        options.load_user = &report;
        options.pin_threads = true;
        options.batch_invariant = precision == LINNET_PRECISION_EXACT; /* no matter to a CPU */
        linnet_engine *engine = engine_on(&g, options);
        linnet_engine_get_memory(engine, &plan);
        assert_false(report.falls);
        assert_true(report.n_calls > 10);
        assert_int_equal(report.ready, report.total);
        assert_int_equal(report.total, arena(&plan, "weights") + plan.mapped_bytes);
        linnet_engine_destroy(engine);
    }
    linnet_model_close(g.model);
}

int main(void) {
#if COUNTS_MEMORY
    is_main = true;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_equals_what_is_reserved),
        cmocka_unit_test(windows_need_less_memory),
        cmocka_unit_test(loading_says_how_far_it_is),
        cmocka_unit_test(the_engine_thread_allocates_nothing),
        cmocka_unit_test(nor_under_pressure),
        cmocka_unit_test(reading_experts_allocates_nothing),
        cmocka_unit_test(adapting_experts_allocates_nothing),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
