/* Adapters: the same bits alone and in a crowd, the base model's as ever, loading under load, and
 * what is refused. */
#include "base/hash/fnv.h"
#include "golden_llama.h"
#include "made_adapter.h"

enum { N_ADAPTERS = 32, RANK = 5, DIM = 64, KV_DIM = 32, HIDDEN = 128 };

/* A llama adapter on all of layer 1 and parts of layer 0, and perhaps embedding and output. */
static void make(made_adapter *a, size_t rank, uint32_t seed, bool has_ends) {
    made_adapter_begin(a, rank, seed);
    made_adapter_linear(a, "model.layers.0.self_attn.q_proj", DIM, DIM);
    made_adapter_linear(a, "model.layers.0.mlp.down_proj", DIM, HIDDEN);
    made_adapter_linear(a, "model.layers.1.self_attn.k_proj", KV_DIM, DIM);
    made_adapter_linear(a, "model.layers.1.self_attn.v_proj", KV_DIM, DIM);
    made_adapter_linear(a, "model.layers.1.self_attn.o_proj", DIM, DIM);
    made_adapter_linear(a, "model.layers.1.mlp.gate_proj", HIDDEN, DIM);
    made_adapter_linear(a, "model.layers.1.mlp.up_proj", HIDDEN, DIM);
    if (has_ends) {
        made_adapter_put(a, "model.embed_tokens", "lora_embedding_A", rank, N_VOCAB);
        made_adapter_put(a, "model.embed_tokens", "lora_embedding_B", DIM, rank);
        made_adapter_linear(a, "lm_head", N_VOCAB, DIM);
    }
}

static void load(linnet_engine *engine, const char *name, const made_adapter *a) {
    linnet_error err = {0};
    if (linnet_engine_load_adapter(engine, name, a->folder, 1.0f, &err) != LINNET_OK)
        fail_msg("%s", err.message);
}

static linnet_engine_options with_adapters(linnet_engine_options options, size_t n, size_t rank) {
    options.max_adapters = n;
    options.max_adapter_rank = rank;
    return options;
}

/* Adds each row of logits to a hash. */
static void hash_row(void *user, size_t position, const float *row, size_t n_vocab) {
    uint64_t *sum = user;
    for (size_t i = 0; i < n_vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        *sum = ln_fnv_add(*sum, bits + position);
    }
}

static linnet_request *score(linnet_engine *engine, size_t prompt, const char *adapter,
                             uint64_t *sum) {
    *sum = LN_FNV_START;
    return submit_score(engine, &g, prompt, adapter, hash_row, sum);
}

static uint64_t score_alone(linnet_engine *engine, size_t prompt, const char *adapter) {
    uint64_t sum;
    finish_score(score(engine, prompt, adapter, &sum));
    return sum;
}

/* Every request has the bits that it has alone, whoever shares its steps: requests of 32 adapters,
 * two of each, and of none. */
static void check_crowd(const char *cpu, linnet_precision precision) {
    static made_adapter made[N_ADAPTERS];
    char names[N_ADAPTERS][8];
    linnet_engine_options options = exact_options(128, 70, 200, 2);
    options.cpu = cpu;
    options.precision = precision;
    linnet_engine *plain = engine_on(&g, options);
    linnet_engine *engine = engine_on(&g, with_adapters(options, N_ADAPTERS, RANK + 20));
    for (size_t i = 0; i < N_ADAPTERS; i++) {
        snprintf(names[i], sizeof names[i], "a%zu", i);
        make(&made[i], i % 3 == 0 ? RANK + 20 : RANK, (uint32_t)i + 1, i % 2 == 0);
        made_adapter_end(&made[i]);
        load(engine, names[i], &made[i]);
    }
    enum { N = 2 * N_ADAPTERS + 2 };
    uint64_t alone[N], crowd[N], base = score_alone(plain, 1, NULL);
    linnet_request *requests[N];
    for (size_t i = 0; i < N; i++)
        alone[i] = score_alone(engine, 1 + i / N_ADAPTERS % 2, i < 64 ? names[i % 32] : NULL);
    for (size_t i = 0; i < N; i++)
        requests[i] =
            score(engine, 1 + i / N_ADAPTERS % 2, i < 64 ? names[i % 32] : NULL, &crowd[i]);
    for (size_t i = 0; i < N; i++)
        finish_score(requests[i]);
    for (size_t i = 0; i < N; i++) {
        assert_true(crowd[i] == alone[i]);
        assert_true(i >= 64 || alone[i] != base);
        for (size_t k = 0; k < i && i < 32; k++)
            assert_true(alone[i] != alone[k]);
    }
    assert_true(alone[64] == base);
    for (size_t i = 0; i < N_ADAPTERS; i++)
        made_adapter_remove(&made[i]);
    linnet_engine_destroy(plain);
    linnet_engine_destroy(engine);
}

static void bits_do_not_depend_on_the_batch(void **state) {
    (void)state;
    if (strcmp(engine_test_backend, "cpu") == 0)
        check_crowd("scalar", LINNET_PRECISION_EXACT);
    check_crowd("auto", LINNET_PRECISION_EXACT);
    check_crowd("auto", LINNET_PRECISION_FAST);
}

static void keep_row(void *user, size_t position, const float *row, size_t n_vocab) {
    (void)position;
    memcpy(user, row, n_vocab * sizeof *row); /* the last one stays */
}

/* Logits behind each prompt are those of PEFT (tools/golden/adapter.py), in float32. */
static void logits_are_those_of_peft(void **state) {
    (void)state;
    static float want[GOLDEN_PROMPTS][N_VOCAB], row[N_VOCAB];
    static const char folder[] = TEST_SOURCE_DIR "/tests/golden/adapter";
    const char *const sets[] = {"scalar", "auto"};
    linnet_error err = {0};
    FILE *file = fopen(TEST_SOURCE_DIR "/tests/golden/adapter/golden.bin", "rb");
    assert_non_null(file);
    assert_int_equal(fread(want, sizeof want, 1, file), 1);
    fclose(file);
    for (size_t set = 0; set < 2; set++) {
        linnet_engine_options options = with_adapters(exact_options(128, 1, 32, 1), 1, 3);
        options.cpu = sets[set];
        linnet_engine *engine = engine_on(&g, options);
        if (linnet_engine_load_adapter(engine, "a", folder, 1.0f, &err) != LINNET_OK)
            fail_msg("%s", err.message);
        for (size_t prompt = 0; prompt < GOLDEN_PROMPTS; prompt++) {
            linnet_request_options request = greedy_options(&g, prompt);
            request.kind = LINNET_REQUEST_SCORE;
            request.on_logits = keep_row;
            request.user = row;
            request.adapter = "a";
            finish_score(submit(engine, &request));
            for (size_t i = 0; i < N_VOCAB; i++)
                if (!(fabsf(row[i] - want[prompt][i]) <= 1e-5f))
                    fail_msg("%s: prompt %zu, token %zu: %g, not %g", sets[set], prompt, i,
                             (double)row[i], (double)want[prompt][i]);
        }
        linnet_engine_destroy(engine);
    }
}

/* DoRAs of two scales, a LoRA and none share steps, and have the bits that they have alone. */
static void doras_share_steps(void **state) {
    (void)state;
    static const char folder[] = TEST_SOURCE_DIR "/tests/golden/adapter_dora";
    static const char *const names[] = {"a", "b", "c", NULL};
    const char *const sets[] = {"scalar", "auto"};
    made_adapter made;
    make(&made, RANK, 1, false), made_adapter_end(&made);
    for (size_t set = 0; set < 2; set++) {
        linnet_engine_options options = with_adapters(exact_options(128, 4, 64, 2), 3, RANK);
        options.cpu = sets[set];
        linnet_engine *engine = engine_on(&g, options);
        uint64_t alone[4], crowd[4];
        linnet_request *requests[4];
        load(engine, "c", &made);
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(
                linnet_engine_load_adapter(engine, names[i], folder, i == 0 ? 1.0f : 0.5f, NULL),
                LINNET_OK);
        for (size_t i = 0; i < 4; i++)
            alone[i] = score_alone(engine, 1, names[i]);
        for (size_t i = 0; i < 4; i++)
            requests[i] = score(engine, 1, names[i], &crowd[i]);
        for (size_t i = 0; i < 4; i++)
            finish_score(requests[i]);
        for (size_t i = 0; i < 4; i++) {
            assert_true(crowd[i] == alone[i]);
            for (size_t k = 0; k < i; k++)
                assert_true(alone[i] != alone[k]);
        }
        linnet_engine_destroy(engine);
    }
    made_adapter_remove(&made);
}

/* Prefixes are found by requests of the same adapter alone, not even by one loaded in its place. */
static void prefixes_are_of_one_adapter(void **state) {
    (void)state;
    made_adapter first, second;
    linnet_engine *engine = engine_on(&g, with_adapters(exact_options(128, 4, 64, 1), 1, RANK));
    linnet_request_options options = greedy_options(&g, 1);
    int32_t ids[3][MAX_IDS];
    linnet_finish end;
    make(&first, RANK, 1, true), made_adapter_end(&first);
    make(&second, RANK, 2, true), made_adapter_end(&second);
    for (int turn = 0; turn < 2; turn++) {
        load(engine, "a", turn == 0 ? &first : &second);
        options.adapter = "a";
        receive(submit(engine, &options), ids[turn], &end);
        uint64_t hits = stats_of(engine).n_prefix_hit_tokens;
        receive(submit(engine, &options), ids[2], &end);
        assert_true(stats_of(engine).n_prefix_hit_tokens > hits);
        assert_memory_equal(ids[2], ids[turn], GOLDEN_OUTPUT * sizeof ids[0][0]);
        assert_int_equal(linnet_engine_unload_adapter(engine, "a", NULL), LINNET_OK);
        if (turn == 0)
            assert_true(hits == 0);
    }
    assert_memory_not_equal(ids[0], ids[1], GOLDEN_OUTPUT * sizeof ids[0][0]);
    options.adapter = NULL;
    receive(submit(engine, &options), ids[2], &end);
    assert_memory_equal(ids[2], g.greedy[1], sizeof g.greedy[1]);
    linnet_engine_destroy(engine);
    made_adapter_remove(&first), made_adapter_remove(&second);
}

/* Adapters come and go 1,000 times while others are used; a request keeps the one that it has. */
static void adapters_come_and_go(void **state) {
    (void)state;
    enum { TURNS = 1000 };
    made_adapter made[2];
    linnet_engine *engine = engine_on(&g, with_adapters(exact_options(128, 8, 64, 2), 3, RANK));
    linnet_request_options options = greedy_options(&g, 0);
    int32_t ids[MAX_IDS], want[2][MAX_IDS];
    linnet_finish end;
    for (uint32_t i = 0; i < 2; i++) {
        make(&made[i], RANK, i + 1, true), made_adapter_end(&made[i]);
        load(engine, i == 0 ? "a" : "b", &made[i]);
        options.adapter = i == 0 ? "a" : "b";
        receive(submit(engine, &options), want[i], &end);
    }
    assert_int_equal(linnet_engine_unload_adapter(engine, "b", NULL), LINNET_OK);
    linnet_request *running = NULL, *leaving = NULL;
    for (size_t turn = 0; turn < TURNS; turn++) {
        if (turn % 25 == 0) {
            options.adapter = "a";
            running = submit(engine, &options);
        }
        while (linnet_engine_load_adapter(engine, "b", made[1].folder, 1.0f, NULL) != LINNET_OK)
            assert_non_null(leaving); /* both places are taken: by one that is leaving, too */
        options.adapter = "b";
        if (turn % 25 == 0)
            leaving = submit(engine, &options);
        assert_int_equal(linnet_engine_unload_adapter(engine, "b", NULL), LINNET_OK);
        if (turn % 25 == 24) {
            receive(running, ids, &end);
            assert_memory_equal(ids, want[0], GOLDEN_OUTPUT * sizeof *ids);
            receive(leaving, ids, &end);
            assert_memory_equal(ids, want[1], GOLDEN_OUTPUT * sizeof *ids);
        }
    }
    linnet_adapter info = {.struct_bytes = sizeof info};
    assert_true(linnet_engine_get_adapter(engine, 0, &info));
    assert_string_equal(info.name, "a");
    assert_int_equal(info.rank, RANK);
    assert_int_equal(info.n_linears, 9);
    assert_false(linnet_engine_get_adapter(engine, 1, &info));
    linnet_engine_destroy(engine);
    made_adapter_remove(&made[0]), made_adapter_remove(&made[1]);
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void expect(linnet_engine *engine, made_adapter *a, linnet_status status, const char *part) {
    linnet_error err = {0};
    made_adapter_end(a);
    linnet_status got = linnet_engine_load_adapter(engine, "x", a->folder, 1.0f, &err);
    if (got != status || strstr(err.message, part) == NULL)
        fail_msg("%s (%d), not %s", err.message, (int)got, part);
    linnet_adapter info = {.struct_bytes = sizeof info};
    assert_false(linnet_engine_get_adapter(engine, 0, &info));
    made_adapter_remove(a);
}

static void expect_key(linnet_engine *engine, const char *key, json_t *value, linnet_status status,
                       const char *part) {
    made_adapter a;
    make(&a, RANK, 1, false);
    json_object_set_new(a.config, key, value);
    expect(engine, &a, status, part);
}

static void keys_are_refused(void **state) {
    (void)state;
    linnet_engine *e = engine_on(&g, with_adapters(exact_options(64, 1, 64, 1), 1, RANK));
    const linnet_status no = LINNET_ERR_UNSUPPORTED, bad = LINNET_ERR_FORMAT;
    expect_key(e, "use_dora", json_true(), bad, "has no lora_magnitude_vector");
    expect_key(e, "bias", json_string("all"), no, "bias");
    expect_key(e, "modules_to_save", json_pack("[s]", "lm_head"), no, "modules_to_save");
    expect_key(e, "init_lora_weights", json_string("pissa_niter_4"), no, "pissa");
    expect_key(e, "peft_type", json_string("LOHA"), no, "peft_type is \"LOHA\"");
    expect_key(e, "peft_type", json_string("IA3"), bad, "is not of a IA3 adapter");
    expect_key(e, "r", json_integer(RANK + 1), bad, "its rank is 5");
    expect_key(e, "r", json_string("5"), bad, "key r");
    expect_key(e, "lora_alpha", json_null(), bad, "key lora_alpha");
    expect_key(e, "rank_pattern", json_pack("[i]", 3), bad, "key rank_pattern");
    expect_key(e, "rank_pattern", json_pack("{s:i}", "q_proj", 3), bad, "the configuration says 3");
    linnet_engine_destroy(e);
}

static void tensors_are_refused(void **state) {
    (void)state;
    made_adapter a;
    linnet_error err = {0};
    linnet_engine *e = engine_on(&g, with_adapters(exact_options(64, 1, 64, 1), 1, RANK));
    make(&a, RANK + 1, 1, false);
    expect(e, &a, LINNET_ERR_LIMIT, "max_adapter_rank is 5");
    make(&a, RANK, 1, false);
    made_adapter_linear(&a, "model.layers.2.self_attn.q_proj", DIM, DIM);
    expect(e, &a, LINNET_ERR_UNSUPPORTED, "model.layers.2.self_attn.q_proj: the model has no such");
    make(&a, RANK, 1, false);
    made_adapter_linear(&a, "model.layers.0.mlp.up_proj", HIDDEN + 1, DIM);
    expect(e, &a, LINNET_ERR_FORMAT, "has shape 129 x 5, not 128 x 5");
    make(&a, RANK, 1, false);
    made_adapter_put(&a, "model.layers.0.mlp.up_proj", "lora_A.weight", RANK, DIM);
    expect(e, &a, LINNET_ERR_FORMAT, "lacks one of its matrices");
    make(&a, RANK, 1, false);
    made_adapter_put(&a, "model.layers.0.self_attn.q_proj", "lora_magnitude_vector", DIM, 1);
    expect(e, &a, LINNET_ERR_FORMAT, "has a lora_magnitude_vector");
    make(&a, RANK, 1, false);
    json_object_set_new(a.config, "use_dora", json_true());
    expect(e, &a, LINNET_ERR_FORMAT, "has no lora_magnitude_vector");
    made_adapter_begin(&a, RANK, 1);
    json_object_set_new(a.config, "use_dora", json_true());
    made_adapter_linear(&a, "model.layers.0.self_attn.q_proj", DIM, DIM);
    made_adapter_put(&a, "model.layers.0.self_attn.q_proj", "lora_magnitude_vector", DIM, 1);
    made_adapter_put(&a, "model.layers.0.self_attn.k_proj", "lora_magnitude_vector", DIM, 1);
    expect(e, &a, LINNET_ERR_FORMAT, "k_proj lacks one of its matrices");
    made_adapter_begin(&a, RANK, 1);
    json_object_set_new(a.config, "use_dora", json_true());
    made_adapter_linear(&a, "model.layers.0.self_attn.q_proj", DIM, DIM);
    made_adapter_put(&a, "model.layers.0.self_attn.q_proj", "lora_magnitude_vector", DIM - 1, 1);
    expect(e, &a, LINNET_ERR_FORMAT, "has not a value for each row of B");
    make(&a, RANK, 1, false);
    made_adapter_end(&a);
    assert_int_equal(linnet_engine_load_adapter(e, "", a.folder, 1, &err), LINNET_ERR_ARGUMENT);
    assert_int_equal(linnet_engine_load_adapter(e, "x", a.folder, NAN, &err), LINNET_ERR_ARGUMENT);
    assert_int_equal(linnet_engine_load_adapter(e, "x", "/nowhere", 1, &err), LINNET_ERR_IO);
    load(e, "x", &a);
    assert_int_equal(linnet_engine_load_adapter(e, "x", a.folder, 1, &err), LINNET_ERR_STATE);
    assert_int_equal(linnet_engine_load_adapter(e, "y", a.folder, 1, &err), LINNET_ERR_STATE);
    assert_int_equal(linnet_engine_unload_adapter(e, "y", &err), LINNET_ERR_ARGUMENT);
    linnet_request_options options = greedy_options(&g, 0);
    linnet_request *request;
    options.adapter = "y";
    assert_int_equal(linnet_request_submit(e, &options, &request, &err), LINNET_ERR_ARGUMENT);
    assert_string_equal(err.message, "there is no adapter \"y\"");
    linnet_engine_destroy(e);
    made_adapter_remove(&a);
}

static void expect_path(linnet_engine *engine, const char *path, const char *part) {
    linnet_error err = {0};
    assert_int_not_equal(linnet_engine_load_adapter(engine, "x", path, 1.0f, &err), LINNET_OK);
    if (strstr(err.message, part) == NULL || strchr(err.message, '\n') != NULL)
        fail_msg("%s, not %s", err.message, part);
}

/* Folders that lack a file or name what is not theirs, and ranks that nobody has. */
static void folders_are_refused(void **state) {
    (void)state;
    made_adapter a;
    char path[128], other[128];
    linnet_engine *e = engine_on(&g, with_adapters(exact_options(64, 1, 64, 1), 1, 256));
    make(&a, 257, 1, false);
    expect(e, &a, LINNET_ERR_LIMIT, "its rank is 257; at most 256 is possible");
    expect_key(e, "r", json_integer(INT64_C(1) << 40), LINNET_ERR_FORMAT, "key r");
    expect_key(e, "r", json_integer(0), LINNET_ERR_FORMAT, "key r");
    expect_key(e, "lora_alpha", json_real(1e300), LINNET_ERR_FORMAT, "key lora_alpha");
    golden looped;
    golden_open(&looped, "dory");
    linnet_engine *of_looped =
        engine_on(&looped, with_adapters(exact_options(64, 1, 64, 1), 1, 16));
    make(&a, 5, 1, false);
    expect(of_looped, &a, LINNET_ERR_UNSUPPORTED, "layers that run several times");
    linnet_engine_destroy(of_looped);
    linnet_model_close(looped.model);
    made_adapter_begin(&a, 5, 1);
    made_adapter_linear(&a, "../../../../etc/passwd", DIM, DIM);
    expect(e, &a, LINNET_ERR_UNSUPPORTED, "passwd: the model has no such linear");
    made_adapter_begin(&a, 5, 1);
    made_adapter_linear(&a, "model.layers.0.mlp.experts.7.up_proj", DIM, DIM);
    expect(e, &a, LINNET_ERR_UNSUPPORTED, "adapters change experts only with adapt_experts");
    make(&a, 5, 1, false);
    made_adapter_end(&a);
    made_adapter_path(&a, "adapter_config.json", path);
    expect_path(e, path, "adapter_config.json"); /* no folder, and no GGUF file */
    assert_int_equal(unlink(path), 0);
    expect_path(e, a.folder, "adapter_config.json");
    FILE *file = fopen(path, "w");
    fputs("{\"peft_type\": \"LORA\", ", file);
    fclose(file);
    expect_path(e, a.folder, "adapter_config.json");
    made_adapter_path(&a, "adapter_model.safetensors", path);
    made_adapter_path(&a, "adapter_model.bin", other);
    assert_int_equal(rename(path, other), 0);
    expect_path(e, a.folder, "pickles are not read");
    assert_int_equal(unlink(other), 0);
    expect_path(e, a.folder, "adapter_config.json");
    linnet_engine_destroy(e);
    made_adapter_remove(&a);
}

/* A file of tensors that is cut anywhere, or whose bytes are others, is an error and no crash. */
static void broken_files_are_refused(void **state) {
    (void)state;
    made_adapter a;
    char path[128];
    static char bytes[1 << 20];
    linnet_engine *e = engine_on(&g, with_adapters(exact_options(64, 1, 64, 1), 1, RANK));
    make(&a, RANK, 1, false);
    made_adapter_end(&a);
    made_adapter_path(&a, "adapter_model.safetensors", path);
    FILE *file = fopen(path, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t cut = 0; cut < n; cut += 1 + n / 37) {
        file = fopen(path, "wb");
        fwrite(bytes, 1, cut, file);
        fclose(file);
        linnet_error err = {0};
        assert_int_not_equal(linnet_engine_load_adapter(e, "x", a.folder, 1, &err), LINNET_OK);
        assert_true(err.message[0] != '\0');
    }
    memset(bytes + n - 64, 0xff, 64); /* NaN */
    file = fopen(path, "wb");
    fwrite(bytes, 1, n, file);
    fclose(file);
    linnet_error err = {0};
    assert_int_equal(linnet_engine_load_adapter(e, "x", a.folder, 1, &err), LINNET_ERR_FORMAT);
    assert_non_null(strstr(err.message, "not finite"));
    linnet_engine_destroy(e);
    made_adapter_remove(&a);
}

int main(int argc, char **argv) {
    if (!engine_test_begin(argc, argv))
        return TEST_EXIT_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_peft),
        cmocka_unit_test(bits_do_not_depend_on_the_batch),
        cmocka_unit_test(doras_share_steps),
        cmocka_unit_test(prefixes_are_of_one_adapter),
        cmocka_unit_test(adapters_come_and_go),
        cmocka_unit_test(keys_are_refused),
        cmocka_unit_test(tensors_are_refused),
        cmocka_unit_test(folders_are_refused),
        cmocka_unit_test(broken_files_are_refused),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
