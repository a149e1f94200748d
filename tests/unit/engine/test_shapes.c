/* Whole engines on models of odd shapes: what they give is near what the scalar kernels give, with
 * every type of cache, and has the same bits in every batch and chunk and beside other engines.
 * usage: unit_engine_shapes [BACKEND] */
#include "made_model.h"

enum { CTX = 112, N_PROMPTS = 4, N_OUT = 10, MAX_SETS = 10, FEW_SEQS = 32 };
static const size_t lengths[N_PROMPTS] = {1, 9, 34, 97};
enum { N_ROWS = 1 + 9 + 34 + 97 };

/* So that on a GPU decode steps are chains, tiles are cut, and no vector fits. */
static const made_shape shapes[] = {
    {"heads of 64", "llama", 256, 4, 2, 64, 384, 3, 333, .quantize = "q8_0"},
    {"heads of 128", "mistral", 256, 3, 1, 128, 320, 2, 641, .window = 40},
    {"four bits", "llama", 128, 2, 2, 64, 256, 13, 200, .quantize = "q4_0"},
    {"odd sizes", "llama", 77, 5, 5, 20, 130, 2, 97, .has_bias = true},
    {"heads of 256", "gemma2", 90, 2, 1, 256, 136, 2, 250, .window = 33, .softcap = 20},
    {"normed heads", "qwen3", 200, 6, 3, 80, 224, 2, 512, .quantize = "bf16"},
    {"experts", "qwen3_moe", 96, 4, 2, 32, 77, 2, 300, .n_experts = 6},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* ---- asking ---------------------------------------------------------------------------------- */

/* Logits of all prompts' rows, and what is generated after each. */
typedef struct answers {
    size_t n_vocab;
    float *logits; /* [N_ROWS][n_vocab] */
    int32_t ids[N_PROMPTS][N_OUT];
    float logprobs[N_PROMPTS][N_OUT];
} answers;

typedef struct asked {
    linnet_request *requests[N_PROMPTS];
    float *rows[N_PROMPTS]; /* of each prompt in the answers */
} asked;

static void take_row(void *user, size_t position, const float *row, size_t n_vocab) {
    memcpy(*(float **)user + position * n_vocab, row, n_vocab * sizeof *row);
}

static linnet_request *ask_one(linnet_engine *engine, size_t n_vocab, size_t prompt,
                               linnet_request_kind kind, float **rows) {
    int32_t ids[CTX];
    linnet_request_options options;
    linnet_request_options_init(&options);
    for (size_t i = 0; i < lengths[prompt]; i++)
        ids[i] = (int32_t)(ln_rng_uniform(3, (uint32_t)prompt, i, 0) * (float)n_vocab);
    options.kind = kind;
    options.prompt_ids = ids;
    options.n_prompt_ids = lengths[prompt];
    options.max_tokens = N_OUT;
    options.ignore_eos = true;
    options.sampling.temperature = 0;
    if (kind == LINNET_REQUEST_SCORE)
        options.on_logits = take_row;
    options.logprobs = kind == LINNET_REQUEST_GENERATE;
    options.user = rows;
    return submit(engine, &options);
}

static void begin_asking(linnet_engine *engine, linnet_request_kind kind, asked *q, answers *a) {
    float *rows = a->logits;
    for (size_t prompt = 0; prompt < N_PROMPTS; prompt++) {
        q->rows[prompt] = rows;
        rows += lengths[prompt] * a->n_vocab;
        q->requests[prompt] = ask_one(engine, a->n_vocab, prompt, kind, &q->rows[prompt]);
    }
}

/* With n_out tokens of each. */
static void end_asking(asked *q, answers *a, size_t n_out) {
    linnet_error err = {0};
    for (size_t prompt = 0; prompt < N_PROMPTS; prompt++) {
        size_t n = 0;
        linnet_event event = {0};
        while (event.finish == LINNET_FINISH_NONE) {
            if (linnet_request_next(q->requests[prompt], 60000, &event, &err) != LINNET_OK)
                fail_msg("prompt %zu: %s", prompt, err.message);
            if (event.token < 0)
                continue;
            assert_true(n < N_OUT);
            a->ids[prompt][n] = event.token;
            a->logprobs[prompt][n++] = event.logprob;
        }
        if (event.finish == LINNET_FINISH_ERROR)
            fail_msg("prompt %zu: %s", prompt, event.error);
        assert_int_equal(n, n_out);
        linnet_request_close(q->requests[prompt]);
    }
}

/* The same n_sets times at once. */
static void ask(linnet_engine *engine, answers *sets, size_t n_sets) {
    asked all[MAX_SETS];
    for (size_t i = 0; i < n_sets; i++) /* NaN, until a row comes */
        memset(sets[i].logits, 0xff, N_ROWS * sets[i].n_vocab * sizeof *sets[i].logits);
    for (int kind = LINNET_REQUEST_GENERATE; kind <= LINNET_REQUEST_SCORE; kind++) {
        for (size_t i = 0; i < n_sets; i++)
            begin_asking(engine, (linnet_request_kind)kind, &all[i], &sets[i]);
        for (size_t i = 0; i < n_sets; i++)
            end_asking(&all[i], &sets[i], kind == LINNET_REQUEST_GENERATE ? N_OUT : 0);
    }
}

static answers make_answers(size_t n_vocab) {
    answers a = {.n_vocab = n_vocab, .logits = calloc(N_ROWS * n_vocab, sizeof *a.logits)};
    assert_non_null(a.logits);
    return a;
}

/* ---- engines --------------------------------------------------------------------------------- */

static linnet_engine_options options_for(const made_shape *s, linnet_kv_type kv_type,
                                         size_t max_seqs, size_t max_batch_tokens) {
    linnet_engine_options options = exact_options(CTX, max_seqs, max_batch_tokens, 1);
    options.precision = LINNET_PRECISION_FAST;
    options.kv_type = kv_type;
    options.quantize_on_load = s->quantize;
    options.prefix_cache = false; /* all is computed */
    return options;
}

/* With what was planned for it. */
static linnet_engine *make_engine(const linnet_model *model, const linnet_engine_options *options) {
    linnet_engine *engine = NULL;
    linnet_error err = {0};
    linnet_memory_plan plan = {.struct_bytes = sizeof plan}, reserved = plan;
    if (linnet_plan_memory(model, options, &plan, &err) != LINNET_OK ||
        linnet_engine_create(model, options, &engine, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    linnet_engine_get_memory(engine, &reserved);
    assert_memory_equal(&reserved, &plan, sizeof plan);
    return engine;
}

static void ask_engine(const linnet_model *model, const linnet_engine_options *options,
                       answers *sets, size_t n_sets) {
    linnet_engine *engine = make_engine(model, options);
    ask(engine, sets, n_sets);
    linnet_engine_destroy(engine);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static double distance(const answers *got, const answers *want) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < N_ROWS * want->n_vocab; i++) {
        difference += pow((double)got->logits[i] - (double)want->logits[i], 2);
        norm += pow((double)want->logits[i], 2);
    }
    return sqrt(difference / norm);
}

static void assert_same(const made_shape *s, const answers *got, const answers *want,
                        const char *what) {
    if (memcmp(got->logits, want->logits, N_ROWS * want->n_vocab * sizeof *got->logits) != 0)
        fail_msg("%s, %s: other logits", s->name, what);
    if (memcmp(got->ids, want->ids, sizeof got->ids) != 0 ||
        memcmp(got->logprobs, want->logprobs, sizeof got->logprobs) != 0)
        fail_msg("%s, %s: another output", s->name, what);
}

/* What `fast` may be off, with each type of cache; an expert that changes moves a row further. */
static const double most[] = {[LINNET_KV_F32] = 0.05,
                              [LINNET_KV_F16] = 0.05,
                              [LINNET_KV_BF16] = 0.05,
                              [LINNET_KV_Q8_0] = 0.1,
                              [LINNET_KV_FP8] = 0.2};

static void check_distances(const made_shape *s) {
    linnet_model *model = made_open(s);
    answers want = make_answers(s->n_vocab), got = make_answers(s->n_vocab);
    linnet_engine_options options = options_for(s, LINNET_KV_AUTO, 1, 100), oracle = options;
    oracle.backend = "cpu", oracle.cpu = "scalar";
    oracle.precision = options.precision = LINNET_PRECISION_EXACT;
    ask_engine(model, &oracle, &want, 1);
    ask_engine(model, &options, &got, 1);
    double exact = distance(&got, &want);
    if (!(exact < 1e-4))
        fail_msg("%s, exact: the logits are off by %g", s->name, exact);
    for (int kv = LINNET_KV_F32; kv <= LINNET_KV_FP8; kv++) {
        options = options_for(s, (linnet_kv_type)kv, 4, 100);
        ask_engine(model, &options, &got, 1);
        double fast = distance(&got, &want);
        if (!(fast < most[kv] * (s->n_experts > 0 ? 4 : 1)))
            fail_msg("%s, cache %d: the logits are off by %g", s->name, kv, fast);
    }
    free(want.logits), free(got.logits);
    linnet_model_close(model);
}

static void answers_are_near_those_of_scalar_kernels(void **state) {
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++)
        check_distances(&shapes[i]);
}

/* With chunks of a prompt, and with four to forty sequences in a step. Backends may pack weights of
 * blocks otherwise for more than FEW_SEQS sequences, which gives other bits. */
static void check_batches(const made_shape *s, linnet_kv_type kv_type) {
    static const struct {
        const char *name;
        size_t max_seqs, max_batch_tokens, n_sets;
    } others[] = {{"chunks", 1, 7, 1},
                  {"four", 4, 50, 1},
                  {"a crowd", FEW_SEQS, 300, MAX_SETS},
                  {"chunks beside room for a crowd", 40, 41, 1},
                  {"a large crowd", 40, 300, MAX_SETS}};
    linnet_model *model = made_open(s);
    answers alone = make_answers(s->n_vocab), sets[MAX_SETS];
    for (size_t i = 0; i < MAX_SETS; i++)
        sets[i] = make_answers(s->n_vocab);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool is_large = others[i].max_seqs > FEW_SEQS;
        linnet_engine_options options = options_for(s, kv_type, is_large ? 40 : 1, 128);
        if (i == 0 || is_large != (others[i - 1].max_seqs > FEW_SEQS))
            ask_engine(model, &options, &alone, 1);
        options = options_for(s, kv_type, others[i].max_seqs, others[i].max_batch_tokens);
        ask_engine(model, &options, sets, others[i].n_sets);
        for (size_t j = 0; j < others[i].n_sets; j++)
            assert_same(s, &sets[j], &alone, others[i].name);
    }
    for (size_t i = 0; i < MAX_SETS; i++)
        free(sets[i].logits);
    free(alone.logits);
    linnet_model_close(model);
}

static void every_batch_gives_the_same(void **state) {
    (void)state;
    static const linnet_kv_type types[] = {LINNET_KV_F16, LINNET_KV_Q8_0, LINNET_KV_BF16,
                                           LINNET_KV_FP8};
    for (size_t i = 0; i < N_SHAPES; i++) {
        check_batches(&shapes[i], LINNET_KV_AUTO);
        check_batches(&shapes[i], types[i % 4]);
    }
}

static void engines_beside_each_other_give_the_same(void **state) {
    (void)state;
    enum { N_ENGINES = 3, N_ROUNDS = 4 };
    const made_shape *s = &shapes[0];
    linnet_model *model = made_open(s);
    linnet_engine *engines[N_ENGINES];
    answers alone = make_answers(s->n_vocab), got = make_answers(s->n_vocab);
    linnet_engine_options options = options_for(s, LINNET_KV_AUTO, 4, 100);
    ask_engine(model, &options, &alone, 1);
    for (size_t i = 0; i < N_ENGINES; i++)
        engines[i] = make_engine(model, &options);
    for (size_t round = 0; round < N_ROUNDS; round++) {
        asked all[N_ENGINES];
        for (size_t i = 0; i < N_ENGINES; i++)
            begin_asking(engines[i], LINNET_REQUEST_GENERATE, &all[i], &got);
        for (size_t i = 0; i < N_ENGINES; i++) {
            end_asking(&all[i], &got, N_OUT);
            assert_memory_equal(got.ids, alone.ids, sizeof got.ids);
            assert_memory_equal(got.logprobs, alone.logprobs, sizeof got.logprobs);
        }
    }
    for (size_t i = 0; i < N_ENGINES; i++)
        linnet_engine_destroy(engines[i]);
    free(alone.logits), free(got.logits);
    linnet_model_close(model);
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_near_those_of_scalar_kernels),
        cmocka_unit_test(every_batch_gives_the_same),
        cmocka_unit_test(engines_beside_each_other_give_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
