/* linnet convert: a GGUF file gives the logits of the folder that it came from, for every golden
 * model whose architecture GGUF has; and linnet quantize with what it wrote. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/spawn.h"
#include "test.h"

#define MODELS TEST_SOURCE_DIR "/tests/golden/models"

static char *folder;
static char whole[256], small[256];

/* What convert must refuse, and a part of what it says. */
static const struct {
    const char *model, *message;
} refused[] = {
    {"apertus1p5", "apertus1p5"},
    {"aria_text", "aria_text"},
    {"axk1", "axk1"},
    {"axk2", "axk2"},
    {"baichuan", "this kind of positions"},
    {"bart", "bart"},
    {"bart_scaled", "bart"},
    {"beam", "beam"},
    {"biogpt", "biogpt"},
    {"chameleon", "norms of heads that rotate halves"},
    {"chameleon_swin", "norms of heads that rotate halves"},
    {"codegen", "codegen"},
    {"cohere_compass", "cohere_compass"},
    {"cohere_qk_norm", "q/k norms in so few layers"},
    {"cosmos3_edge", "cosmos3_edge"},
    {"cwm", "sliding window"},
    {"ctrl", "ctrl"},
    {"deepseek_v3_yarn", "mscale"},
    {"deepseek_v4", "runs of other lengths"},
    {"deepseek_v4_fp4", "runs of other lengths"},
    {"diffllama", "diffllama"},
    {"dots3_note", "a shared expert of this width"},
    {"falcon_rw", "blocks one after the other"},
    {"flex_olmo", "flex_olmo"},
    {"flint", "flint"},
    {"fuyu", "persimmon"},
    {"glm_ocr", "sections"},
    {"gpt_neo", "gpt_neo"},
    {"gpt_neox_japanese", "gpt_neox_japanese"},
    {"gpt_neox_sequential", "activation"},
    {"doge", "doge"},
    {"doge_moe", "doge"},
    {"doge_window", "doge"},
    {"dory", "dory"},
    {"dory_published", "dory"},
    {"gpt_oss_limits", "limits of what gate and up give"},
    {"grok", "no config.json"},
    {"grok2", "no config.json"},
    {"hyperclovax", "hyperclovax"},
    {"inkling", "inkling"},
    {"inkling2", "inkling2"},
    {"inkling2_fp4", "inkling2"},
    {"inkling2_loop", "inkling2"},
    {"inkling2_mm", "inkling2"},
    {"inkling_mm", "inkling"},
    {"jetmoe", "jetmoe"},
    {"kolibri1", "kolibri1"},
    {"laguna", "a cap of the router's logits"},
    {"lara_mini", "lara_mini"},
    {"m2m_100", "m2m_100"},
    {"marian", "marian"},
    {"marian_two", "marian"},
    {"mllama", "mllama"},
    {"mistral_large4", "mistral_large4"},
    {"modernbert_decoder", "modernbert_decoder"},
    {"molmo2", "molmo2"},
    {"molmo2_even", "molmo2"},
    {"lfm3", "lfm3"},
    {"llama_dynamic", "dynamic RoPE"},
    {"longcat_flash", "longcat_flash"},
    {"mbart", "mbart"},
    {"mvp", "bart"},
    {"plbart", "bart"},
    {"blenderbot", "blenderbot"},
    {"minicpm3", "these multipliers"},
    {"minimax", "a scale of values"},
    {"minimax_m3", "a shared expert of this width"},
    {"muse_spark", "muse_spark"},
    {"nanochat", "nanochat"},
    {"nemotron_h_even", "models without recurrent layers"},
    {"olmo_hybrid", "olmo_hybrid"},
    {"olmoe_clip", "limits of queries"},
    {"openai_gpt", "openai-gpt"},
    {"opt", "opt"},
    {"opt_narrow", "opt"},
    {"ouro", "ouro"},
    {"pegasus", "pegasus"},
    {"persimmon", "persimmon"},
    {"phi_tied", "a bias of a tied output"},
    {"qwen2_window", "sliding window"},
    {"qwen3_moe_mixed", "dense layers"},
    {"qwen3_moe_window", "sliding window"},
    {"qwen3_next", "dense layers"},
    {"qwen4_exp", "n-grams in several layers"},
    {"qwen4_exp_plain", "gate of recurrent layers"},
    {"qwen4_exp_vision", "n-grams of another width"},
    {"recurrent_gemma", "recurrent_gemma"},
    {"smollm3", "layers without positions"},
    {"smallthinker", "a window of this size"},
    {"vaultgemma", "vaultgemma"},
    {"xglm", "xglm"},
    {"zamba", "zamba"},
    {"zamba2", "zamba2"},
    {"zamba_period", "zamba"},
    {"zaya", "zaya"},
    {"zaya_pairs", "zaya"},
    {"zaya_taps", "zaya"},
};
enum { N_REFUSED = sizeof refused / sizeof *refused };

/* The same of folders with names as transformers has them in memory. */
static const char *refusal_of(const char *model) {
    static const char suffix[] = "_memory";
    size_t n = strlen(model), n_suffix = sizeof suffix - 1;
    if (n > n_suffix && strcmp(model + n - n_suffix, suffix) == 0)
        n -= n_suffix;
    for (int i = 0; i < N_REFUSED; i++)
        if (strlen(refused[i].model) == n && strncmp(model, refused[i].model, n) == 0)
            return refused[i].message;
    return NULL;
}

static int count_files(void) {
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* The ids of list number 2 (the longest prompt), as text; `first` goes before them. */
static void ids_text(json_t *golden, const char *key, const char *first, size_t n_left_out,
                     char *text, size_t capacity) {
    json_t *ids = json_array_get(json_object_get(golden, key), 2);
    size_t n = json_array_size(ids);
    snprintf(text, capacity, "%s", first);
    for (size_t i = 0; i + n_left_out < n; i++)
        snprintf(text + strlen(text), capacity - strlen(text), "%s%lld", *text ? "," : "",
                 (long long)json_integer_value(json_array_get(ids, i)));
}

static float *logits_of(const char *model, json_t *golden, size_t *n_bytes) {
    char ids[4096], encoder_ids[4096];
    const char *out = path_in(folder, "logits.bin");
    bool has_encoder = json_is_true(json_object_get(golden, "encoder_decoder"));
    if (has_encoder) {
        ids_text(golden, "greedy", "0", 1, ids, sizeof ids);
        ids_text(golden, "prompts", "", 0, encoder_ids, sizeof encoder_ids);
    } else {
        ids_text(golden, "prompts", "", 0, ids, sizeof ids);
    }
    spawn_result result =
        has_encoder ? LINNET("logits", model, "--ids", ids, "--encoder-ids", encoder_ids, "--out",
                             out, "--precision", "exact")
                    : LINNET("logits", model, "--ids", ids, "--out", out, "--precision", "exact");
    if (result.status != 0)
        fail_msg("%s: %s", model, result.err);
    spawn_free(&result);
    return (float *)(void *)read_file(out, n_bytes);
}

static double relative_error(const char *a, const char *b, json_t *golden) {
    size_t a_bytes, b_bytes;
    float *left = logits_of(a, golden, &a_bytes), *right = logits_of(b, golden, &b_bytes);
    double error = 0, norm = 0;
    assert_int_equal(a_bytes, b_bytes);
    assert_true(a_bytes > 0);
    for (size_t i = 0; i < a_bytes / sizeof *left; i++) {
        double distance = (double)left[i] - (double)right[i];
        error += distance * distance;
        norm += (double)left[i] * (double)left[i];
    }
    free(left);
    free(right);
    return sqrt(error / norm);
}

static void check_model(const char *model) {
    char from[512], golden_path[600];
    snprintf(from, sizeof from, "%s/%s", MODELS, model);
    snprintf(golden_path, sizeof golden_path, "%s/golden.json", from);
    const char *message = refusal_of(model), *out = whole;
    spawn_result result = LINNET("convert", from, out, "--no-tokenizer");
    if (message != NULL) {
        assert_int_equal(result.status, 1);
        if (strstr(result.err, message) == NULL)
            fail_msg("%s: %s", model, result.err);
        spawn_free(&result);
        assert_int_equal(count_files(), 0);
        return;
    }
    if (result.status != 0)
        fail_msg("%s: %s", model, result.err);
    spawn_free(&result);
    json_t *golden = json_load_file(golden_path, 0, NULL);
    assert_non_null(golden);
    double error = relative_error(from, out, golden);
    print_message("%-20s %.1e\n", model, error);
    if (!(error <= 1e-5))
        fail_msg("%s: relative error %g", model, error);
    json_decref(golden);
    remove(out);
    remove(path_in(folder, "logits.bin"));
}

static void goldens_keep_their_logits(void **state) {
    (void)state;
    DIR *dir = opendir(MODELS);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.')
            check_model(entry->d_name);
    closedir(dir);
}

#define EMBEDDERS TEST_SOURCE_DIR "/tests/golden/embeddings"

static char *vector_of(const char *model) {
    spawn_result result = LINNET("embed", model, "--ids", "7,8,9,10,11,12", "--precision", "exact");
    if (result.status != 0)
        fail_msg("%s: %s", model, result.err);
    char *vector = strdup(result.out);
    spawn_free(&result);
    return vector;
}

/* q and k are permuted, so what is summed comes in another order. */
static void permuted_embedders_keep_their_vectors(void **state) {
    (void)state;
    const char *from = path_in(EMBEDDERS, "llama_bidirec");
    char *before = vector_of(from);
    assert_status(LINNET("convert", from, whole, "--no-tokenizer"), 0, "");
    char *after = vector_of(whole), *a = before, *b = after;
    size_t n = 0;
    for (; *a == '[' || *a == ','; n++) {
        float x = strtof(a + 1, &a), y = strtof(b + 1, &b);
        assert_true(fabsf(x - y) <= 1e-5F);
    }
    assert_int_equal(n, 32);
    free(before);
    free(after);
    remove(whole);
}

static void embedders_keep_their_vectors(void **state) {
    (void)state;
    static const char *const names[] = {"bert", "nomic_bert", "eurobert", "jina_v3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *from = path_in(EMBEDDERS, names[i]);
        char *before = vector_of(from);
        assert_status(LINNET("convert", from, whole, "--no-tokenizer"), 0, "");
        char *after = vector_of(whole);
        assert_string_equal(before, after);
        free(before);
        free(after);
        remove(whole);
    }
    static const struct {
        const char *name, *message;
    } others[] = {{"bert_classes", "models that classify"},
                  {"roberta", "positions that do not begin at 0"},
                  {"gemma3_embedding", "see those behind"},
                  {"qwen3_embedding", "models without an output"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_status(LINNET("convert", path_in(EMBEDDERS, others[i].name), whole), 1,
                      others[i].message);
}

/* Copies a file, in which `from`, which must be there, becomes `to`, as long. */
static void copy_changed(const char *source, const char *copy, const char *from, const char *to) {
    size_t n_bytes, n = strlen(from);
    char *data = read_file(source, &n_bytes), *found = memmem(data, n_bytes, from, n);
    if (found == NULL)
        fail_msg("%s: no %s", source, from);
    assert_int_equal(strlen(to), n);
    memcpy(found, to, n);
    write_file(copy, data, n_bytes);
    free(data);
}

/* Converts a golden model whose config.json is changed, in the folder `edited`. */
static spawn_result convert_changed(const char *model, const char *edited, const char *from,
                                    const char *to) {
    char tensors[512];
    assert_int_equal(mkdir(edited, 0700), 0);
    snprintf(tensors, sizeof tensors, "%s/%s/model.safetensors", MODELS, model);
    assert_int_equal(symlink(tensors, path_in(edited, "model.safetensors")), 0);
    const char *source = path_in(MODELS, model);
    copy_changed(path_in(source, "config.json"), path_in(edited, "config.json"), from, to);
    return LINNET("convert", edited, whole, "--no-tokenizer");
}

static void remove_changed(const char *edited) {
    remove(path_in(edited, "model.safetensors"));
    remove(path_in(edited, "config.json"));
    remove(edited);
}

/* A golden model whose config.json is changed, and what becomes of it. */
static void check_changed(const char *model, const char *from, const char *to) {
    char edited[256];
    snprintf(edited, sizeof edited, "%s/edited", folder);
    assert_status(convert_changed(model, edited, from, to), 0, "");
    const char *source = path_in(MODELS, model);
    json_t *golden = json_load_file(path_in(source, "golden.json"), 0, NULL);
    assert_true(relative_error(edited, whole, golden) <= 1e-5);
    assert_true(relative_error(source, whole, golden) > 1e-4); /* it does count */
    json_decref(golden);
    remove_changed(edited);
    remove(whole);
    remove(path_in(folder, "logits.bin"));
}

static void rare_values_are_kept(void **state) {
    (void)state;
    /* an epsilon of latents' norms that others do not have */
    check_changed("deepseek_v3", "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 5e-02");
    /* a scale of logits that are not tied */
    check_changed("t5_untied", "\"scale_decoder_outputs\": false",
                  "\"scale_decoder_outputs\": true ");
    /* limits of some layers' experts and of others' */
    check_changed("bailing_hybrid",
                  "\"attention_bias\": false,\n  \"attention_dropout\": 0.0,\n  "
                  "\"bos_token_id\": 1,\n  \"dtype\": \"bfloat16\",",
                  "\"expert_swiglu_limit_list\": [null, 0.02, 0],"
                  " \"share_expert_swiglu_limit_list\": [0, null, 0.03] ,");
    /* windowed layers with other numbers of heads, without a cap of the router's logits */
    check_changed("laguna", "\"moe_router_logit_softcapping\": 2.0",
                  "\"moe_router_logit_softcapping\": 0.0");
    /* a magnitude of YaRN beside multipliers that alone would give another */
    check_changed(
        "olmo3_yarn",
        "\"attention_factor\": 1.1,\n      \"beta_fast\": 32.0,\n      \"beta_slow\": 1.0,",
        "\"attention_factor\": 1.4, \"mscale\": 1.0,   \"mscale_all_dim\": 1.0,         ");
}

/* MiniCPM 3's readers have its multipliers, and keys and values of latents in one matrix. */
static void latents_are_joined(void **state) {
    (void)state;
    static const char *const lines[] = {"blk.1.attn_kv_b.weight, type BF16, shape [128, 16]",
                                        "minicpm3.attention.head_count_kv      4",
                                        "minicpm3.attention.key_length         24"};
    char edited[256];
    snprintf(edited, sizeof edited, "%s/edited", folder);
    assert_status(convert_changed("minicpm3", edited,
                                  "\"dim_model_base\": 32,\n  \"dtype\": \"bfloat16\",",
                                  "\"dim_model_base\": 256, \"dtype\": \"bfloat16\", "),
                  1, "these multipliers");
    const char *config = path_in(edited, "config.json");
    copy_changed(config, config, "\"scale_emb\": 6,", "\"scale_emb\":12,");
    assert_status(LINNET("convert", edited, whole, "--no-tokenizer"), 0, "");
    spawn_result report = LINNET("inspect", whole, "--tensors");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strstr(report.out, lines[i]) == NULL)
            fail_msg("no %s in %s", lines[i], report.out);
    spawn_free(&report);
    json_t *golden = json_load_file(MODELS "/minicpm3/golden.json", 0, NULL);
    assert_true(relative_error(edited, whole, golden) <= 1e-5);
    json_decref(golden);
    remove_changed(edited);
    remove(path_in(folder, "logits.bin"));
    remove(whole);
}

/* llama.cpp's converter says that no dimension rotates; all do. */
static void heads_of_ocr_rotate_whole(void **state) {
    (void)state;
    static const char key[] = "deepseek2-ocr.rope.dimension_count";
    const char *from = path_in(MODELS, "deepseek_ocr2");
    assert_status(LINNET("convert", from, whole, "--no-tokenizer"), 0, "");
    size_t n_bytes;
    char *data = read_file(whole, &n_bytes), *found = memmem(data, n_bytes, key, sizeof key - 1);
    assert_non_null(found);
    memset(found + sizeof key - 1 + sizeof(uint32_t), 0, sizeof(uint32_t)); /* behind its type */
    write_file(whole, data, n_bytes);
    free(data);
    json_t *golden = json_load_file(MODELS "/deepseek_ocr2/golden.json", 0, NULL);
    assert_true(relative_error(from, whole, golden) <= 1e-5);
    json_decref(golden);
    remove(path_in(folder, "logits.bin"));
    remove(whole);
}

/* Shapes and keys of recurrent layers that llama.cpp's loader asks for, as inspect prints them. */
static void recurrent_layers_have_their_shapes(void **state) {
    (void)state;
    static const struct {
        const char *model, *lines[5];
    } cases[] = {
        {"mamba2",
         {"blk.0.ssm_a, type F32, shape [4, 1]", "blk.0.ssm_d, type F32, shape [4, 1]",
          "blk.0.ssm_norm.weight, type F32, shape [2, 32]",
          "blk.0.ssm_conv1d.weight, type F32, shape [128, 4]", "mamba2.attention.head_count "}},
        {"kimi_linear",
         {"blk.0.ssm_a, type F32, shape [1, 1, 4, 1]",
          "blk.0.ssm_conv1d_q.weight, type F32, shape [1, 64, 1, 4]", "kimi-linear.kda.head_dim",
          "kimi-linear.attention.head_count_kv   [0, 1, 0]"}},
        {"lfm2", {"blk.0.shortconv.in_proj.weight", "lfm2.shortconv.l_cache"}},
        {"nemotron_h",
         {"nemotron_h_moe.attention.layer_norm_epsilon", "nemotron_h_moe.rope.scaling.finetuned",
          "[0, 64, 0, 24, 0, 24]"}},
        {"granitemoehybrid", {"granitehybrid.rope.scaling.finetuned", "[0, 2, 0]"}},
        {"jamba",
         {"blk.0.ssm_a, type F32, shape [64, 8]", "blk.1.ssm_x.weight, type BF16, shape [22, 64]",
          "blk.0.ssm_conv1d.weight, type F32, shape [64, 4]", "blk.1.ssm_b_norm.weight, type F32",
          "[0, 0, 2]"}},
        {"falcon_mamba",
         {"mamba.ssm.dt_b_c_rms ", "mamba.ssm.dt_b_c_rms_eps", "mamba.ssm.time_step_rank",
          "mamba.attention.head_count ", "blk.1.ssm_d, type F32, shape [40]"}},
        {"qwen3_5", {"qwen35.rope.dimension_sections", "qwen35.attention.recurrent_layers"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_status(LINNET("convert", path_in(MODELS, cases[i].model), whole, "--no-tokenizer"),
                      0, "");
        spawn_result report = LINNET("inspect", whole, "--tensors");
        for (size_t j = 0; j < 5 && cases[i].lines[j] != NULL; j++)
            if (strstr(report.out, cases[i].lines[j]) == NULL)
                fail_msg("%s: no %s in %s", cases[i].model, cases[i].lines[j], report.out);
        spawn_free(&report);
        remove(whole);
    }
}

/* Convolutions and what decays keep their precision when matrices lose it. */
static void recurrent_layers_are_quantised(void **state) {
    (void)state;
    static const char *const models[] = {"qwen3_5", "lfm2_moe", "granitemoehybrid", "jamba"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        assert_status(LINNET("convert", path_in(MODELS, models[i]), whole, "--no-tokenizer"), 0,
                      "");
        assert_status(LINNET("quantize", whole, small, "--type", "Q4_K_M"), 0, "");
        spawn_result report = LINNET("inspect", small, "--tensors");
        for (char *line = strtok(report.out, "\n"); line != NULL; line = strtok(NULL, "\n"))
            if (strstr(line, "conv1d") != NULL || strstr(line, "shortconv.conv") != NULL ||
                strstr(line, "ssm_a,") != NULL || strstr(line, "gate_inp") != NULL)
                assert_non_null(strstr(line, "F32"));
        spawn_free(&report);
        const char *source = path_in(MODELS, models[i]);
        json_t *golden = json_load_file(path_in(source, "golden.json"), 0, NULL);
        assert_true(relative_error(whole, small, golden) < 0.5);
        json_decref(golden);
        remove(path_in(folder, "logits.bin"));
        remove(small);
        remove(whole);
    }
}

/* GGUF keeps it in a tensor, which windowed layers would take, too. */
static void scalings_by_factors_are_refused(void **state) {
    (void)state;
    char edited[256];
    snprintf(edited, sizeof edited, "%s/edited", folder);
    assert_status(convert_changed("olmo3_yarn", edited, "  \"rope_type\": \"yarn\"",
                                  "\"rope_type\": \"llama3\""),
                  1, "RoPE scaling by factors of frequencies");
    remove_changed(edited);
}

/* GGUF has one key for heads of attention and of KDA. */
static void other_heads_of_recurrent_layers_are_refused(void **state) {
    (void)state;
    char edited[256];
    snprintf(edited, sizeof edited, "%s/edited", folder);
    assert_status(convert_changed("bailing_hybrid", edited, "\"linear_num_heads\": 2",
                                  "\"linear_num_heads\": 1"),
                  1, "heads of another number than attention's");
    remove_changed(edited);
}

/* Without --type each matrix keeps its own. */
static void types_may_differ(void **state) {
    (void)state;
    char edited[256];
    snprintf(edited, sizeof edited, "%s/edited", folder);
    assert_int_equal(mkdir(edited, 0700), 0);
    assert_int_equal(symlink(MODELS "/llama/config.json", path_in(edited, "config.json")), 0);
    copy_changed(MODELS "/llama/model.safetensors", path_in(edited, "model.safetensors"),
                 "\"model.layers.0.mlp.down_proj.weight\":{\"dtype\":\"BF16\"",
                 "\"model.layers.0.mlp.down_proj.weight\":{\"dtype\":\"F16\" ");
    assert_status(LINNET("convert", edited, whole, "--no-tokenizer"), 0, "");
    json_t *golden = json_load_file(MODELS "/llama/golden.json", 0, NULL);
    assert_true(relative_error(edited, whole, golden) <= 1e-5);
    json_decref(golden);
    remove_changed(edited);
    remove(path_in(folder, "logits.bin"));
    /* but where a rule says otherwise */
    assert_status(LINNET("convert", MODELS "/llama_int8", whole, "--keep", "ffn_down=Q8_0"), 0, "");
    spawn_result report = LINNET("inspect", whole, "--tensors");
    assert_non_null(strstr(report.out, "Q8_0"));
    spawn_free(&report);
    remove(whole);
}

/* The ids that end a text, of both files that name them, with or without a vocabulary. */
static void stops_are_kept(void **state) {
    (void)state;
    static const char *const lines[] = {"tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id"};
    static const char ids[] = "{\"eos_token_id\": [7, 2, 300, 9]}"; /* 300: past the vocabulary */
    char edited[256];
    snprintf(edited, sizeof edited, "%s/edited", folder);
    assert_int_equal(mkdir(edited, 0700), 0);
    const char *const linked[] = {"model.safetensors", "config.json"};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(symlink(path_in(MODELS "/llama", linked[i]), path_in(edited, linked[i])),
                         0);
    write_file(path_in(edited, "generation_config.json"), ids, strlen(ids));
    assert_status(LINNET("convert", edited, whole, "--no-tokenizer"), 0, "");
    spawn_result report = LINNET("inspect", whole);
    for (size_t i = 0; i < 3; i++) {
        const char *line = strstr(report.out, lines[i]);
        assert_non_null(line);
        assert_int_equal(atoi(line + strlen(lines[i])), i == 0 ? 2 : i == 1 ? 7 : 9);
    }
    spawn_free(&report);
    /* and a tokenizer that is no JSON is named */
    write_file(path_in(edited, "tokenizer.json"), "{\"a\":", 5);
    assert_status(LINNET("convert", edited, whole), 1, "edited/tokenizer.json: ");
    remove(path_in(edited, "tokenizer.json"));
    remove(path_in(edited, "generation_config.json"));
    for (size_t i = 0; i < 2; i++)
        remove(path_in(edited, linked[i]));
    remove(edited);
    remove(whole);
}

/* As llama.cpp writes Phi 3. */
static void longrope_needs_no_type(void **state) {
    (void)state;
    static const char key[] = "phi3.rope.scaling.type", other[] = "phi3.rope.scaling.none";
    assert_status(LINNET("convert", MODELS "/phi3_longrope", whole, "--no-tokenizer"), 0, "");
    copy_changed(whole, small, key, other);
    json_t *golden = json_load_file(MODELS "/phi3_longrope/golden.json", 0, NULL);
    assert_true(relative_error(whole, small, golden) == 0);
    json_decref(golden);
    remove(path_in(folder, "logits.bin"));
    remove(small);
    remove(whole);
}

static void quantised_files_load(void **state) {
    (void)state;
    assert_status(LINNET("convert", MODELS "/llama_int8", whole, "--no-tokenizer", "--type", "f32"),
                  0, "MiB");
    static const char *const types[] = {"F16",  "BF16", "Q8_0",   "Q6_K", "Q5_K_M", "Q5_1",
                                        "Q5_0", "q4_k", "Q4_K_S", "Q4_1", "Q4_0",   "IQ4_NL",
                                        "Q2_K", "Q3_K", "IQ4_XS", "MXFP4"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        assert_status(LINNET("quantize", whole, small, "--type", types[i], "--threads", "2"), 0,
                      "small.gguf");
        assert_status(
            LINNET("logits", small, "--ids", "1,2,3", "--out", path_in(folder, "logits.bin")), 0,
            "");
    }
    assert_status(LINNET("quantize", whole, small, "--type", "Q4_0", "--keep", "ffn_down=F16"), 0,
                  "");
    spawn_result report = LINNET("inspect", small, "--tensors");
    assert_non_null(strstr(report.out, "F16"));
    spawn_free(&report);
    remove(path_in(folder, "logits.bin"));
    remove(small);
    remove(whole);
}

/* Nothing is lost by a slip of the hand. */
static void targets_are_checked(void **state) {
    (void)state;
    const char *again = path_in(folder, "again.gguf"), *linked = path_in(folder, "linked.gguf");
    assert_status(LINNET("convert", MODELS "/llama_int8", whole, "--no-tokenizer", "--type", "f16"),
                  0, "MiB");
    assert_int_equal(symlink(whole, linked), 0);
    assert_status(LINNET("quantize", whole, whole, "--type", "Q8_0"), 2,
                  "is the file that is read");
    assert_status(LINNET("quantize", whole, linked, "--type", "Q8_0"), 2,
                  "is the file that is read");
    assert_status(LINNET("quantize", whole, folder, "--type", "Q8_0"), 2, "is a folder");
    assert_status(LINNET("quantize", whole, again, "--type", "Q8_0", "--keep", "atn_v=Q4_0"), 2,
                  "'atn_v=Q4_0' matches the name of no matrix");
    assert_status(LINNET("convert", MODELS "/llama", again, "--keep", "atn_v=Q4_0"), 2,
                  "'atn_v=Q4_0' matches the name of no matrix");
    assert_int_equal(count_files(), 2);
    spawn_result first = LINNET("quantize", whole, small, "--type", "Q8_0");
    assert_int_equal(first.status, 0);
    assert_null(strstr(first.err, "warning"));
    assert_null(strstr(first.err, "older file"));
    spawn_free(&first);
    assert_status(LINNET("quantize", whole, small, "--type", "Q8_0"), 0, "an older file of");
    assert_status(LINNET("quantize", small, again, "--type", "Q4_0"), 0,
                  "warning: the matrices are quantised already (Q8_0)");
    /* a mixture whose matrices have the types that they would get */
    assert_status(
        LINNET("convert", MODELS "/gpt_oss_mxfp4", small, "--no-tokenizer", "--type", "MXFP4_MOE"),
        0, "KiB");
    spawn_result kept = LINNET("quantize", small, again, "--type", "MXFP4_MOE");
    assert_int_equal(kept.status, 0);
    assert_null(strstr(kept.err, "warning"));
    spawn_free(&kept);
    assert_status(LINNET("quantize", small, again, "--type", "Q4_0"), 0, "already (Q8_0)");
    spawn_result widened = LINNET("quantize", small, again, "--type", "F16");
    assert_int_equal(widened.status, 0);
    assert_null(strstr(widened.err, "warning"));
    spawn_free(&widened);
    remove(again);
    remove(linked);
    remove(small);
    remove(whole);
}

static void bad_arguments_are_named(void **state) {
    (void)state;
    const char *out = path_in(folder, "a.gguf");
    assert_status(LINNET("quantize"), 2, "IN.gguf is missing");
    assert_status(LINNET("quantize", "a"), 2, "OUT.gguf is missing");
    assert_status(LINNET("quantize", "a", "b"), 2, "--type is missing");
    assert_status(LINNET("quantize", "a", "b", "--type", "Q9"), 2, "Q4_K_M");
    assert_status(LINNET("quantize", "a", "b", "--type", "Q8_0", "--keep", "x"), 2, "REGEX=TYPE");
    assert_status(LINNET("quantize", path_in(folder, "none"), out, "--type", "Q8_0"), 1, "none");
    assert_status(LINNET("quantize", MODELS "/llama", out, "--type", "Q8_0"), 2, "GGUF");
    assert_status(LINNET("convert", MODELS "/llama", path_in(folder, "no/a.gguf")), 1, "a.gguf");
    assert_status(LINNET("convert", MODELS "/llama"), 2, "OUT.gguf is missing");
    assert_int_equal(count_files(), 0);
}

static int make_folder(void **state) {
    (void)state;
    folder = temp_create();
    snprintf(whole, sizeof whole, "%s/whole.gguf", folder);
    snprintf(small, sizeof small, "%s/small.gguf", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    temp_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_keep_their_logits),
        cmocka_unit_test(embedders_keep_their_vectors),
        cmocka_unit_test(permuted_embedders_keep_their_vectors),
        cmocka_unit_test(rare_values_are_kept),
        cmocka_unit_test(latents_are_joined),
        cmocka_unit_test(heads_of_ocr_rotate_whole),
        cmocka_unit_test(recurrent_layers_have_their_shapes),
        cmocka_unit_test(recurrent_layers_are_quantised),
        cmocka_unit_test(scalings_by_factors_are_refused),
        cmocka_unit_test(other_heads_of_recurrent_layers_are_refused),
        cmocka_unit_test(types_may_differ),
        cmocka_unit_test(longrope_needs_no_type),
        cmocka_unit_test(targets_are_checked),
        cmocka_unit_test(quantised_files_load),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(stops_are_kept),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
