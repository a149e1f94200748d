/* Checkpoints on disk: GGUF whole and split, folders whole and sharded, tokenizers alone. */
#include "test.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "format/checkpoint.h"
#include "unit/format/writer.h"

/* A folder of its own for each test, removed afterwards. */
typedef struct fixture {
    char folder[64];
    char path[512]; /* the last path made */
    ln_checkpoint *checkpoint;
    ln_error err;
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/linnet-format-XXXXXX");
    *state = f;
    return mkdtemp(f->folder) == NULL;
}

static const char *path_of(fixture *f, const char *name) {
    snprintf(f->path, sizeof f->path, "%s/%s", f->folder, name);
    return f->path;
}

static int tear_down(void **state) {
    fixture *f = *state;
    ln_checkpoint_close(f->checkpoint);
    DIR *folder = opendir(f->folder);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        unlink(path_of(f, entry->d_name));
    closedir(folder);
    rmdir(f->folder);
    free(f);
    return 0;
}

static void write_bytes(fixture *f, const char *name, const char *data, size_t n_bytes) {
    FILE *file = fopen(path_of(f, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_text(fixture *f, const char *name, const char *text) {
    write_bytes(f, name, text, strlen(text));
}

static void write_safetensors(fixture *f, const char *name, const char *header, size_t n_data) {
    ln_strbuf file = {0};
    put_safetensors(&file, header, n_data);
    write_bytes(f, name, file.data, file.len);
    ln_strbuf_free(&file);
}

/* One F32 tensor of 8 elements. */
static void write_shard(fixture *f, const char *name, const char *tensor) {
    char header[200];
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}", tensor);
    write_safetensors(f, name, header, 32);
}

/* Part `number` of `count` with one tensor; no split keys when count is 0. */
static void write_gguf(fixture *f, const char *name, const char *tensor, uint64_t number,
                       uint64_t count, uint64_t n_tensors_in_all) {
    ln_strbuf file = {0};
    put_gguf(&file, 3, 1, 2 + (count > 0 ? 3 : 0));
    put_text_key(&file, "general.architecture", "llama");
    put_text_key(&file, "tokenizer.chat_template", "{{ messages }}");
    if (count > 0) {
        put_key(&file, "split.no", LN_GGUF_U16, number);
        put_key(&file, "split.count", LN_GGUF_U16, count);
        put_key(&file, "split.tensors.count", LN_GGUF_I32, n_tensors_in_all);
    }
    put_tensor(&file, tensor, 1, (uint64_t[]){8}, 0, 0);
    pad_to(&file, 32);
    put_bytes(&file, 32, (char)(number + 1));
    write_bytes(f, name, file.data, file.len);
    ln_strbuf_free(&file);
}

static ln_status open_at(fixture *f, const char *path, bool tokenizer_only) {
    ln_checkpoint_close(f->checkpoint);
    f->err = (ln_error){0};
    return ln_checkpoint_open(path, tokenizer_only, &f->checkpoint, &f->err);
}

static void assert_opens(fixture *f, const char *name) {
    if (open_at(f, path_of(f, name), false) != LINNET_OK)
        fail_msg("%s", f->err.message);
    assert_non_null(f->checkpoint);
}

/* The message is FOLDER/ and then `message`. */
static void assert_refused(fixture *f, const char *name, bool tokenizer_only, ln_status status,
                           const char *message) {
    assert_int_equal(open_at(f, path_of(f, name), tokenizer_only), status);
    assert_null(f->checkpoint);
    assert_string_equal(f->err.message, path_of(f, message));
}

static void assert_text(ln_meta_value value, const char *text) {
    assert_int_equal(value.kind, LN_META_STRING);
    assert_int_equal(value.string.bytes, strlen(text));
    assert_memory_equal(value.string.data, text, value.string.bytes);
}

/* ---- GGUF ------------------------------------------------------------------------------- */

static void opens_gguf(void **state) {
    fixture *f = *state;
    write_gguf(f, "m.gguf", "t", 0, 0, 0);
    assert_opens(f, "m.gguf");
    const ln_checkpoint *cp = f->checkpoint;
    assert_string_equal(ln_checkpoint_path(cp), f->path);
    assert_int_equal(ln_checkpoint_get_format(cp), LN_FORMAT_GGUF);
    assert_int_equal(ln_checkpoint_tensor_count(cp), 1);
    const ln_tensor *tensor = ln_checkpoint_find(cp, "t");
    assert_ptr_equal(tensor, ln_checkpoint_tensor(cp, 0));
    assert_null(ln_checkpoint_find(cp, "u"));
    assert_int_equal(tensor->data[31], 1);
    int fd;
    size_t bytes;
    uint8_t byte = 0;
    assert_int_equal(ln_checkpoint_file_count(cp), 1);
    assert_string_equal(ln_checkpoint_file(cp, tensor->file, &fd, &bytes), f->path);
    assert_int_equal(bytes, tensor->file_offset + 32);
    assert_int_equal(pread(fd, &byte, 1, (off_t)tensor->file_offset), 1);
    assert_int_equal(byte, 1);
    ln_meta_value value;
    const char *key;
    assert_true(ln_checkpoint_meta(cp, "general.architecture", &value));
    assert_text(value, "llama");
    assert_false(ln_checkpoint_generation_meta(cp, "general.architecture", &value));
    assert_false(ln_checkpoint_tokenizer_meta(cp, "general.architecture", &value));
    assert_true(ln_checkpoint_meta_at(cp, 1, &key, &value));
    assert_string_equal(key, "tokenizer.chat_template");
    assert_false(ln_checkpoint_meta_at(cp, 2, &key, &value));
    assert_string_equal(ln_checkpoint_chat_template(cp), "{{ messages }}");
    assert_null(ln_checkpoint_tokenizer_json(cp));
    assert_true(ln_checkpoint_header_bytes(cp) > 1000);
}

static void opens_any_part_of_a_split(void **state) {
    fixture *f = *state;
    const char *names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                           "m-00003-of-00003.gguf"};
    const char *tensors[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++)
        write_gguf(f, names[i], tensors[i], i, 3, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_opens(f, names[i]);
        assert_int_equal(ln_checkpoint_file_count(f->checkpoint), 3);
        assert_int_equal(ln_checkpoint_tensor_count(f->checkpoint), 3);
        for (uint32_t k = 0; k < 3; k++) {
            const ln_tensor *tensor = ln_checkpoint_find(f->checkpoint, tensors[k]);
            assert_int_equal(tensor->file, k);
            assert_int_equal(tensor->data[0], k + 1);
        }
    }
    assert_int_equal(open_at(f, path_of(f, names[1]), true), LINNET_OK);
    assert_int_equal(ln_checkpoint_file_count(f->checkpoint), 1);
}

static void refuses_broken_splits(void **state) {
    fixture *f = *state;
    write_gguf(f, "m-00001-of-00002.gguf", "a", 0, 2, 2);
    assert_int_equal(open_at(f, path_of(f, "m-00001-of-00002.gguf"), false), LINNET_ERR_IO);
    assert_non_null(strstr(f->err.message, "m-00002-of-00002.gguf: No such file"));
    write_gguf(f, "m-00002-of-00002.gguf", "b", 0, 2, 2);
    assert_refused(f, "m-00001-of-00002.gguf", false, LINNET_ERR_FORMAT,
                   "m-00002-of-00002.gguf: keys split.no and split.count tell part 1 of 2, not 2 "
                   "of 2");
    write_gguf(f, "m-00002-of-00002.gguf", "a", 1, 2, 2);
    assert_refused(f, "m-00001-of-00002.gguf", false, LINNET_ERR_FORMAT,
                   "m-00002-of-00002.gguf: tensor a: the name occurs twice");
    write_gguf(f, "m-00001-of-00002.gguf", "b", 0, 2, 5);
    assert_refused(f, "m-00001-of-00002.gguf", false, LINNET_ERR_FORMAT,
                   "m-00001-of-00002.gguf: key split.tensors.count: 5, but the parts hold 2");
    write_gguf(f, "m.gguf", "a", 1, 2, 2);
    assert_refused(f, "m.gguf", false, LINNET_ERR_FORMAT,
                   "m.gguf: the name of part 2 must end in -00002-of-00002.gguf");
    write_gguf(f, "m.gguf", "a", 2, 2, 2);
    assert_refused(f, "m.gguf", false, LINNET_ERR_FORMAT, "m.gguf: key split.no: 2 of 2 parts");
    write_gguf(f, "m.gguf", "a", 0, 65535, 2);
    assert_refused(f, "m.gguf", false, LINNET_ERR_FORMAT,
                   "m.gguf: the name of part 1 must end in -00001-of-65535.gguf");
}

static void refuses_bad_gguf(void **state) {
    fixture *f = *state;
    write_text(f, "m.gguf", "");
    assert_refused(f, "m.gguf", false, LINNET_ERR_FORMAT,
                   "m.gguf: not a GGUF file; a model of Hugging Face is named by its folder");
    write_text(f, "m.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n");
    assert_refused(f, "m.gguf", false, LINNET_ERR_FORMAT,
                   "m.gguf: only a pointer of Git LFS; `git lfs pull' fetches the file");
    ln_strbuf file = {0};
    put_gguf(&file, 3, 0, 1);
    put_key(&file, "general.architecture", LN_GGUF_U32, 1);
    write_bytes(f, "m.gguf", file.data, file.len);
    assert_refused(f, "m.gguf", false, LINNET_ERR_FORMAT,
                   "m.gguf: key general.architecture: no text");
    ln_strbuf_clear(&file);
    put_gguf(&file, 3, 0, 1);
    put_string(&file, "tokenizer.chat_template");
    put_u32(&file, LN_GGUF_STRING);
    put_u64(&file, 3);
    ln_strbuf_append(&file, "a\0b", 3);
    write_bytes(f, "m.gguf", file.data, file.len);
    assert_refused(f, "m.gguf", false, LINNET_ERR_FORMAT,
                   "m.gguf: key tokenizer.chat_template: no text");
    ln_strbuf_clear(&file);
    put_gguf(&file, 3, 2, 0);
    put_tensor(&file, "twin", 1, (uint64_t[]){8}, 0, 0);
    put_tensor(&file, "twin", 1, (uint64_t[]){8}, 0, 32);
    pad_to(&file, 32);
    put_bytes(&file, 64, 0);
    write_bytes(f, "m.gguf", file.data, file.len);
    assert_refused(f, "m.gguf", false, LINNET_ERR_FORMAT,
                   "m.gguf: tensor twin: the name occurs twice");
    ln_strbuf_free(&file);
    assert_int_equal(open_at(f, path_of(f, "absent.gguf"), false), LINNET_ERR_IO);
    assert_int_equal(mkfifo(path_of(f, "fifo.gguf"), 0600), 0);
    assert_int_equal(open_at(f, f->path, false), LINNET_ERR_IO);
}

/* ---- folders ---------------------------------------------------------------------------- */

/* Integers beyond 64 bits, and words that JSON does not have. */
static void reads_what_python_writes(void **state) {
    fixture *f = *state;
    write_text(f, "config.json",
               "{\"model_type\":\"llama\",\"limits\":[9223372036854775807,-9223372036854775808,"
               "9223372036854775808,-9223372036854775809,1.10000000000000000000,Infinity,"
               "-Infinity,\"\\\"Infinity,10000000000000000000\"]}");
    write_text(f, "tokenizer_config.json",
               "{\"model_max_length\":1000000000000000019884624838656}");
    write_shard(f, "model.safetensors", "w");
    assert_opens(f, "");
    ln_meta_value list, item;
    assert_true(ln_checkpoint_meta(f->checkpoint, "limits", &list));
    static const double reals[] = {0, 0, 0x1p63, -0x1p63, 1.1};
    for (size_t i = 0; i < 8; i++) {
        assert_true(ln_meta_item(&list, i, &item));
        if (i < 2)
            assert_true(item.integer == (i == 0 ? INT64_MAX : INT64_MIN));
        else if (i < 5)
            assert_true(item.real == reals[i]);
        else if (i < 7)
            assert_int_equal(item.kind, LN_META_OBJECT);
    }
    assert_text(item, "\"Infinity,10000000000000000000");
    write_text(f, "tokenizer_config.json", "{\"n\":infinity}");
    assert_refused(f, "", false, LINNET_ERR_FORMAT,
                   "tokenizer_config.json: line 1 column 13: invalid token near 'infinity'");
}

static void opens_a_folder(void **state) {
    fixture *f = *state;
    write_text(f, "config.json",
               "{\"model_type\":\"llama\",\"n\":3,\"x\":1e-5,\"off\":false,\"nil\":null,"
               "\"rope_parameters\":{\"rope_theta\":1.5,\"deep\":{\"er\":1}},"
               "\"ids\":[1,\"two\",null,[]],\"text_config\":{\"hidden\":64,\"n\":4}}");
    write_text(f, "generation_config.json", "{\"eos_token_id\":[2,3]}");
    write_text(f, "tokenizer_config.json",
               "{\"bos_token\":{\"content\":\"<s>\"},\"chat_template\":\"T\"}");
    write_text(f, "tokenizer.model", "");
    write_shard(f, "model.safetensors", "w");
    assert_opens(f, "");
    const ln_checkpoint *cp = f->checkpoint;
    assert_int_equal(ln_checkpoint_get_format(cp), LN_FORMAT_HF);
    assert_int_equal(ln_checkpoint_find(cp, "w")->data[0], 1);
    ln_meta_value value, item;
    assert_true(ln_checkpoint_meta(cp, "model_type", &value));
    assert_text(value, "llama");
    assert_true(ln_checkpoint_meta(cp, "n", &value));
    assert_int_equal(value.kind, LN_META_INT);
    assert_int_equal(value.integer, 3);
    assert_true(ln_checkpoint_meta(cp, "x", &value));
    assert_int_equal(value.kind, LN_META_FLOAT);
    assert_true(value.real == 1e-5);
    assert_true(ln_checkpoint_meta(cp, "off", &value));
    assert_int_equal(value.kind, LN_META_BOOL);
    assert_true(ln_checkpoint_meta(cp, "rope_parameters.rope_theta", &value));
    assert_true(value.real == 1.5);
    assert_true(ln_checkpoint_meta(cp, "rope_parameters.deep.er", &value));
    assert_true(ln_checkpoint_meta(cp, "rope_parameters", &value));
    assert_int_equal(value.kind, LN_META_OBJECT);
    assert_true(ln_checkpoint_meta(cp, "hidden", &value)); /* from text_config */
    assert_int_equal(value.integer, 64);
    assert_true(ln_checkpoint_meta(cp, "ids", &value));
    assert_int_equal(value.array.count, 4);
    assert_true(ln_meta_item(&value, 1, &item));
    assert_text(item, "two");
    assert_true(ln_meta_item(&value, 2, &item));
    assert_int_equal(item.kind, LN_META_NULL);
    assert_false(ln_meta_item(&value, 4, &item));
    const char *absent[] = {"nil", "", ".", "n.", "n.x", ".n", "rope_parameters.", "ids.0", "none"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_false(ln_checkpoint_meta(cp, absent[i], &value));
    assert_true(ln_checkpoint_generation_meta(cp, "eos_token_id", &value));
    assert_int_equal(value.array.count, 2);
    assert_true(ln_checkpoint_tokenizer_meta(cp, "bos_token.content", &value));
    assert_text(value, "<s>");
    const char *key;
    assert_true(ln_checkpoint_meta_at(cp, 0, &key, &value));
    assert_string_equal(key, "model_type");
    assert_false(ln_checkpoint_meta_at(cp, 8, &key, &value));
    assert_string_equal(ln_checkpoint_chat_template(cp), "T");
    assert_null(ln_checkpoint_tokenizer_json(cp));
    assert_non_null(strstr(ln_checkpoint_tokenizer_model(cp), "/tokenizer.model"));
}

static void opens_shards(void **state) {
    fixture *f = *state;
    write_text(f, "config.json", "{}");
    write_shard(f, "x.safetensors", "a");
    write_shard(f, "y.safetensors", "b");
    write_text(f, "model.safetensors.index.json",
               "{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"y.safetensors\"}}");
    assert_opens(f, "");
    assert_int_equal(ln_checkpoint_file_count(f->checkpoint), 2);
    assert_int_equal(ln_checkpoint_find(f->checkpoint, "b")->file, 1);
}

static void refuses_broken_shards(void **state) {
    fixture *f = *state;
    static const char index[] = "model.safetensors.index.json";
    write_text(f, "config.json", "{}");
    write_shard(f, "x.safetensors", "a");
    write_text(f, index, "{\"weight_map\":{\"a\":\"../x.safetensors\"}}");
    assert_refused(f, "", false, LINNET_ERR_FORMAT,
                   "model.safetensors.index.json: tensor a: its shard ../x.safetensors is no name "
                   "of a safetensors file in this folder");
    write_text(f, index, "{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"y.safetensors\"}}");
    assert_int_equal(open_at(f, f->folder, false), LINNET_ERR_IO);
    assert_non_null(strstr(f->err.message, "/y.safetensors: No such file"));
    write_shard(f, "y.safetensors", "c");
    assert_refused(f, "", false, LINNET_ERR_FORMAT,
                   "model.safetensors.index.json: tensor b is not in y.safetensors");
    write_text(f, index, "{\"weight_map\":{\"a\":\"y.safetensors\",\"c\":\"x.safetensors\"}}");
    assert_refused(f, "", false, LINNET_ERR_FORMAT,
                   "model.safetensors.index.json: tensor a is not in y.safetensors");
    write_text(f, index, "{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"y.safetensors\"}}");
    write_shard(f, "y.safetensors", "a");
    assert_refused(f, "", false, LINNET_ERR_FORMAT,
                   "y.safetensors: tensor a: the name occurs twice");
    write_safetensors(f, "y.safetensors", "{}", 1);
    assert_refused(f, "", false, LINNET_ERR_FORMAT,
                   "y.safetensors: 1 bytes at the end belong to no tensor");
}

static void refuses_incomplete_folders(void **state) {
    fixture *f = *state;
    char message[200];
    assert_int_equal(open_at(f, f->folder, false), LINNET_ERR_FORMAT);
    snprintf(message, sizeof message,
             "%s: no config.json, which the folder of a model has; a GGUF file is named itself",
             f->folder);
    assert_string_equal(f->err.message, message);
    write_text(f, "config.json", "{}");
    assert_int_equal(open_at(f, f->folder, false), LINNET_ERR_FORMAT);
    snprintf(message, sizeof message, "%s: no model.safetensors or model.safetensors.index.json",
             f->folder);
    assert_string_equal(f->err.message, message);
    write_text(f, "pytorch_model.bin", "");
    assert_int_equal(open_at(f, f->folder, false), LINNET_ERR_FORMAT);
    assert_non_null(strstr(f->err.message, "index.json; pytorch_model.bin is not read"));
    assert_int_equal(open_at(f, f->folder, true), LINNET_ERR_FORMAT);
    snprintf(message, sizeof message, "%s: no tokenizer.json, tokenizer.model or source.spm",
             f->folder);
    assert_string_equal(f->err.message, message);
    write_text(f, "config.json", "{\"a\":1,\n\"a\":2}");
    assert_refused(f, "", false, LINNET_ERR_FORMAT,
                   "config.json: line 2 column 3: duplicate object key near '\"a\"'");
    write_text(f, "config.json", "");
    assert_int_equal(open_at(f, f->folder, false), LINNET_ERR_FORMAT);
}

static void opens_a_tokenizer_alone(void **state) {
    fixture *f = *state;
    write_text(f, "tokenizer.json", "{}");
    assert_int_equal(open_at(f, f->folder, true), LINNET_OK);
    assert_non_null(ln_checkpoint_tokenizer_json(f->checkpoint));
    assert_int_equal(ln_checkpoint_tensor_count(f->checkpoint), 0);
    assert_null(ln_checkpoint_find(f->checkpoint, "w"));
    ln_meta_value value;
    const char *key;
    assert_false(ln_checkpoint_meta(f->checkpoint, "n", &value));
    assert_false(ln_checkpoint_meta_at(f->checkpoint, 0, &key, &value));
    assert_null(ln_checkpoint_chat_template(f->checkpoint));
}

static void assert_template(fixture *f, const char *expected) {
    if (open_at(f, f->folder, true) != LINNET_OK)
        fail_msg("%s", f->err.message);
    const char *text = ln_checkpoint_chat_template(f->checkpoint);
    if (expected == NULL)
        assert_null(text);
    else
        assert_string_equal(text, expected);
}

static void finds_the_chat_template(void **state) {
    fixture *f = *state;
    write_text(f, "tokenizer.model", "");
    write_text(f, "tokenizer_config.json",
               "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"}]}");
    assert_template(f, NULL);
    write_text(f, "tokenizer_config.json",
               "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"},"
               "{\"name\":\"default\",\"template\":\"D\"}]}");
    assert_template(f, "D");
    write_text(f, "chat_template.json", "{\"chat_template\":\"J\"}");
    assert_template(f, "J");
    write_text(f, "chat_template.jinja", "");
    assert_template(f, "");
    write_text(f, "chat_template.jinja", "jinja");
    assert_template(f, "jinja");
    write_bytes(f, "chat_template.jinja", "a\0b", 3);
    assert_refused(f, "", true, LINNET_ERR_FORMAT, "chat_template.jinja: the text holds a NUL");
    unlink(path_of(f, "chat_template.jinja"));
    write_text(f, "chat_template.json", "{\"chat_template\":7}");
    assert_refused(f, "", true, LINNET_ERR_FORMAT,
                   "chat_template.json: key chat_template is no text");
}

/* The tiny checkpoints with reference logits. */
static void opens_every_golden(void **state) {
    fixture *f = *state;
    DIR *folder = opendir(TEST_SOURCE_DIR "/tests/golden/models");
    assert_non_null(folder);
    int n_opened = 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char path[4096];
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/models/%s", entry->d_name);
        if (entry->d_name[0] == '.' || !ln_file_is_folder(path))
            continue;
        char *file = ln_path_join(path, "model.gguf");
        ln_status status = open_at(f, ln_file_exists(file) ? file : path, false);
        free(file);
        if (status != LINNET_OK)
            fail_msg("%s", f->err.message);
        assert_true(ln_checkpoint_tensor_count(f->checkpoint) > 0);
        n_opened++;
    }
    closedir(folder);
    assert_true(n_opened > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(opens_gguf),
        TEST(opens_any_part_of_a_split),
        TEST(refuses_broken_splits),
        TEST(refuses_bad_gguf),
        TEST(opens_a_folder),
        TEST(reads_what_python_writes),
        TEST(opens_shards),
        TEST(refuses_broken_shards),
        TEST(refuses_incomplete_folders),
        TEST(opens_a_tokenizer_alone),
        TEST(finds_the_chat_template),
        TEST(opens_every_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
