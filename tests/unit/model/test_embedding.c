/* The files of sentence-transformers: what is read of them, and what is refused by name. */
#include "model/embedding/embedding.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static char folder[64];

static void write_file(const char *name, const char *text) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void remove_file(const char *name) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    remove(path);
}

static int make_folder(void **state) {
    (void)state;
    char part[160];
    snprintf(folder, sizeof folder, "/tmp/linnet-modules-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(part, sizeof part, "%s/part", folder);
    return mkdir(part, 0700);
}

static int remove_folder(void **state) {
    (void)state;
    remove_file("part/config.json");
    remove_file("part/model.safetensors");
    remove_file("part");
    remove_file("modules.json");
    remove_file("sentence_bert_config.json");
    remove_file("tokenizer_config.json");
    remove_file("config_sentence_transformers.json");
    return rmdir(folder);
}

/* Reads the folder with such files; NULL: there is none. */
static ln_status read_folder(const char *modules, const char *part, ln_embedding *embedding,
                             ln_error *err) {
    ln_arena arena;
    const ln_spec spec = {.dim = 4};
    if (modules != NULL)
        write_file("modules.json", modules);
    if (part != NULL)
        write_file("part/config.json", part);
    ln_arena_init(&arena);
    *embedding = (ln_embedding){.normalizes = true};
    embedding->dense.pooling = LINNET_POOLING_CLS;
    ln_status status = ln_embedding_read_modules(folder, &spec, &arena, embedding, err);
    ln_embedding kept = *embedding;
    ln_embedding_free(embedding);
    *embedding = kept;
    ln_arena_free(&arena);
    return status;
}

#define MODULE(type, path)                                                                         \
    "{\"type\":\"sentence_transformers.models." type "\",\"path\":\"" path "\"}"

static void without_modules_nothing_changes(void **state) {
    (void)state;
    ln_embedding e;
    ln_error err = {0};
    assert_int_equal(read_folder(NULL, NULL, &e, &err), LINNET_OK);
    assert_true(e.normalizes && e.dense.pooling == LINNET_POOLING_CLS && e.max_tokens == 0 &&
                !e.is_described);
}

static void modules_say_pooling_and_length(void **state) {
    (void)state;
    ln_embedding e;
    ln_error err = {0};
    write_file("sentence_bert_config.json", "{\"max_seq_length\": 77}");
    assert_int_equal(read_folder("[" MODULE("Transformer", "") "," MODULE("Pooling", "part") "]",
                                 "{\"pooling_mode_mean_tokens\": true}", &e, &err),
                     LINNET_OK);
    assert_true(e.is_described && !e.normalizes && e.dense.pooling == LINNET_POOLING_MEAN &&
                e.max_tokens == 77);
    assert_int_equal(read_folder("[" MODULE("Pooling", "part") "," MODULE("Normalize", "n") "]",
                                 "{\"pooling_mode\": \"lasttoken\"}", &e, &err),
                     LINNET_OK);
    assert_true(e.normalizes && e.dense.pooling == LINNET_POOLING_LAST);
}

static void prompts_are_read(void **state) {
    (void)state;
    static const char file[] = "config_sentence_transformers.json";
    const ln_spec spec = {.dim = 4};
    ln_embedding e = {0};
    ln_error err = {0};
    ln_arena arena;
    write_file("modules.json", "[" MODULE("Transformer", "") "]");
    write_file(file, "{\"prompts\": {\"query\": \"query: \", \"odd\": null, \"document\": \"\"}}");
    ln_arena_init(&arena);
    assert_int_equal(ln_embedding_read_modules(folder, &spec, &arena, &e, &err), LINNET_OK);
    assert_int_equal(e.n_prompts, 2);
    for (size_t i = 0; i < e.n_prompts; i++)
        if (strcmp(e.prompts[i].name, "query") == 0)
            assert_string_equal(e.prompts[i].text, "query: ");
        else
            assert_string_equal(e.prompts[i].text, "");
    write_file(file, "{\"prompts\": {\"a\": \"A\", \"b\": \"B\"}, \"default_prompt_name\": \"b\"}");
    e = (ln_embedding){0};
    assert_int_equal(ln_embedding_read_modules(folder, &spec, &arena, &e, &err), LINNET_OK);
    assert_string_equal(e.default_prompt, "B");
    ln_embedding_free(&e);
    ln_arena_free(&arena);
    write_file(file, "{\"prompts\": {\"a\": \"A\"}, \"default_prompt_name\": \"c\"}");
    assert_int_equal(read_folder(NULL, NULL, &e, &err), LINNET_ERR_FORMAT);
    assert_non_null(strstr(err.message, "there is no prompt \"c\""));
    write_file(file, "{\"prompts\": {\"query\": 5}}");
    assert_int_equal(read_folder(NULL, NULL, &e, &err), LINNET_ERR_FORMAT);
    assert_non_null(strstr(err.message, "the prompt query is no string"));
    write_file(file, "{\"prompts\": 5}");
    assert_int_equal(read_folder(NULL, NULL, &e, &err), LINNET_OK);
}

static void others_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *modules, *part;
        ln_status status;
        const char *message;
    } cases[] = {
        {"[", NULL, LINNET_ERR_FORMAT, "modules.json"},
        {"{}", NULL, LINNET_ERR_FORMAT, "no list"},
        {"[5]", NULL, LINNET_ERR_FORMAT, "no type and path"},
        {"[" MODULE("Pooling", "../part") "]", NULL, LINNET_ERR_FORMAT, "no type and path"},
        {"[" MODULE("Pooling", "/etc") "]", NULL, LINNET_ERR_FORMAT, "no type and path"},
        {"[" MODULE("Transformer", "0_Transformer") "]", NULL, LINNET_ERR_UNSUPPORTED, "folder"},
        {"[" MODULE("LSTM", "part") "]", NULL, LINNET_ERR_UNSUPPORTED, "LSTM"},
        {"[" MODULE("Pooling", "nowhere") "]", NULL, LINNET_ERR_FORMAT, "nowhere"},
        {"[" MODULE("Pooling", "part") "]", "{\"pooling_mode_max_tokens\": true}",
         LINNET_ERR_UNSUPPORTED, "max_tokens"},
        {"[" MODULE("Pooling", "part") "]",
         "{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": true}",
         LINNET_ERR_UNSUPPORTED, "pooling"},
        {"[" MODULE("Normalize", "n") "," MODULE("Dense", "part") "]", "{}", LINNET_ERR_UNSUPPORTED,
         "Dense"},
        {"[" MODULE("Dense", "part") "]", "{\"in_features\": 5, \"out_features\": 2}",
         LINNET_ERR_FORMAT, "from 5 to 2"},
        {"[" MODULE("Dense", "part") "]", "{\"in_features\": 4, \"out_features\": -1}",
         LINNET_ERR_FORMAT, "to -1"},
        {"[" MODULE("Dense", "part") "]",
         "{\"in_features\": 4, \"out_features\": 2, \"activation_function\": \"torch.nn.Odd\"}",
         LINNET_ERR_UNSUPPORTED, "Odd"},
        {"[" MODULE("Dense", "part") "]", "{\"in_features\": 4, \"out_features\": 2}",
         LINNET_ERR_IO, "model.safetensors"},
        {"[" MODULE("Dense", "part") "]",
         "{\"in_features\": 4, \"out_features\": 2, \"module_input_name\": \"token_embeddings\"}",
         LINNET_ERR_UNSUPPORTED, "module_input_name"},
        {"[" MODULE("Dense", "part") "]",
         "{\"in_features\": 4, \"out_features\": 4, \"use_residual\": true}",
         LINNET_ERR_UNSUPPORTED, "use_residual"},
        {"[" MODULE("Pooling", "part") "," MODULE("Pooling", "part") "]",
         "{\"pooling_mode\": \"mean\"}", LINNET_ERR_UNSUPPORTED, "behind another layer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_embedding e;
        ln_error err = {0};
        ln_status status = read_folder(cases[i].modules, cases[i].part, &e, &err);
        if (status != cases[i].status || strstr(err.message, cases[i].message) == NULL)
            fail_msg("case %zu: status %d, message: %s", i, (int)status, err.message);
    }
}

/* What would change the text or its vector is refused, but where it changes nothing. */
static void other_texts_are_refused(void **state) {
    (void)state;
    static const char file[] = "config_sentence_transformers.json";
    static const char modules[] = "[" MODULE("Pooling", "part") "]";
    static const char pooling[] = "{\"pooling_mode\": \"mean\", \"include_prompt\": false}";
    ln_embedding e;
    ln_error err = {0};
    write_file(file, "{\"prompts\": {\"query\": \"\"}}");
    assert_int_equal(read_folder(modules, pooling, &e, &err), LINNET_OK);
    write_file(file, "{\"prompts\": {\"query\": \"query: \"}}");
    assert_int_equal(read_folder(modules, pooling, &e, &err), LINNET_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "include_prompt"));
    remove_file(file);
    write_file("sentence_bert_config.json", "{\"do_lower_case\": true}");
    assert_int_equal(read_folder(modules, pooling, &e, &err), LINNET_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "do_lower_case"));
    write_file("tokenizer_config.json", "{\"do_lower_case\": true}");
    assert_int_equal(read_folder(modules, pooling, &e, &err), LINNET_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_modules_nothing_changes, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(modules_say_pooling_and_length, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(prompts_are_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(others_are_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(other_texts_are_refused, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
