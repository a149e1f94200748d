/* A written GGUF file reads back as it was meant, types and all; a run that fails leaves nothing;
 * matrices get the types of the mix. */
#include "test.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/gguf_write.h"
#include "format/quantize/gguf.h"
#include "format/quantize/write.h"
#include "format/quants.h"

static char folder[64];

static const char *path_of(const char *name) {
    static char paths[4][384];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/test_gguf_write.XXXXXX");
    return mkdtemp(folder) == NULL;
}

/* Removes all files of the folder; returns how many there were. */
static int empty_folder(void) {
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.') {
            unlink(path_of(entry->d_name));
            count++;
        }
    closedir(dir);
    return count;
}

static int remove_folder(void **state) {
    (void)state;
    empty_folder();
    return rmdir(folder);
}

/* ---- values ----------------------------------------------------------------------------- */

static void put_every_type(ln_gguf_writer *w) {
    static const int64_t number = -3;
    static const double real = 1.5;
    static const uint8_t bytes[5] = {1, 2, 3, 4, 255};
    static const float floats[2] = {0.25f, -1};
    char key[32];
    ln_gguf_put_string(w, "general.architecture", "llama", 5);
    for (int type = 0; type < LN_GGUF_TYPE_COUNT; type++) {
        snprintf(key, sizeof key, "test.type_%d", type);
        const float single = 2.5f;
        const void *value = type == LN_GGUF_F32   ? (const void *)&single
                            : type == LN_GGUF_F64 ? (const void *)&real
                                                  : (const void *)&number;
        if (type == LN_GGUF_BOOL)
            ln_gguf_put_bool(w, key, true);
        else if (ln_gguf_type_bytes((uint32_t)type) > 0)
            ln_gguf_put_scalar(w, key, (ln_gguf_type)type, value);
    }
    ln_gguf_put_string(w, "test.nothing", "", 0);
    ln_gguf_put_array(w, "test.bytes", LN_GGUF_U8, bytes, 5);
    ln_gguf_put_array(w, "test.floats", LN_GGUF_F32, floats, 2);
    ln_gguf_put_array(w, "test.empty", LN_GGUF_I32, NULL, 0);
    ln_gguf_put_string_array(w, "test.strings", 2);
    ln_gguf_add_string(w, "a\0b", 3);
    ln_gguf_add_string(w, "", 0);
}

static const float row[64] = {1, -2, 3, -4};

/* A file with two tensors. */
static void write_small(const char *path) {
    ln_gguf_writer w;
    ln_error err = {0};
    ln_gguf_writer_init(&w);
    put_every_type(&w);
    assert_int_equal(ln_gguf_add_tensor(&w, "odd", LN_DTYPE_F32, 1, (const uint64_t[]){3}, &err),
                     LINNET_OK);
    assert_int_equal(
        ln_gguf_add_tensor(&w, "matrix", LN_DTYPE_Q8_0, 2, (const uint64_t[]){2, 32}, &err),
        LINNET_OK);
    assert_int_equal(ln_gguf_write_begin(&w, path, &err), LINNET_OK);
    assert_false(ln_file_exists(path));
    uint8_t blocks[68];
    ln_quantize_row(LN_DTYPE_Q8_0, row, blocks, 64);
    assert_int_equal(ln_gguf_write_tensor(&w, 1, 34, blocks + 34, 34, &err), LINNET_OK);
    assert_int_equal(ln_gguf_write_tensor(&w, 1, 0, blocks, 34, &err), LINNET_OK);
    assert_int_equal(ln_gguf_write_tensor(&w, 0, 0, row, 12, &err), LINNET_OK);
    assert_int_equal(ln_gguf_write_end(&w, &err), LINNET_OK);
    ln_gguf_writer_free(&w);
}

static ln_meta_value meta_of(const ln_checkpoint *c, const char *key, ln_meta_kind kind) {
    ln_meta_value value = {0};
    if (!ln_checkpoint_meta(c, key, &value) || value.kind != kind)
        fail_msg("%s", key);
    return value;
}

static void check_values(const ln_checkpoint *c) {
    static const int64_t expected[] = {253, -3, 65533, -3, 4294967293, -3};
    char key[32];
    ln_meta_value item;
    for (int type = 0; type < 6; type++) {
        snprintf(key, sizeof key, "test.type_%d", type);
        assert_int_equal(meta_of(c, key, LN_META_INT).integer, expected[type]);
    }
    assert_true(meta_of(c, "test.type_6", LN_META_FLOAT).real == 2.5);
    assert_true(meta_of(c, "test.type_7", LN_META_BOOL).boolean);
    assert_int_equal(meta_of(c, "test.type_11", LN_META_INT).integer, -3);
    assert_true(meta_of(c, "test.type_12", LN_META_FLOAT).real == 1.5);
    assert_int_equal(meta_of(c, "test.nothing", LN_META_STRING).string.bytes, 0);
    assert_int_equal(meta_of(c, "test.empty", LN_META_ARRAY).array.count, 0);
    ln_meta_value list = meta_of(c, "test.bytes", LN_META_ARRAY);
    assert_true(ln_meta_item(&list, 4, &item) && item.integer == 255);
    list = meta_of(c, "test.floats", LN_META_ARRAY);
    assert_true(ln_meta_item(&list, 0, &item) && item.real == 0.25);
    list = meta_of(c, "test.strings", LN_META_ARRAY);
    assert_true(ln_meta_item(&list, 0, &item) && item.string.bytes == 3);
    assert_memory_equal(item.string.data, "a\0b", 3);
}

static ln_checkpoint *open_file(const char *path) {
    ln_checkpoint *c = NULL;
    ln_error err = {0};
    if (ln_checkpoint_open(path, false, &c, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    return c;
}

static void files_read_back(void **state) {
    (void)state;
    write_small(path_of("a.gguf"));
    struct stat info;
    assert_int_equal(stat(path_of("a.gguf"), &info), 0);
    assert_int_equal(info.st_size % LN_GGUF_ALIGNMENT, 0);
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
    ln_checkpoint *c = open_file(path_of("a.gguf"));
    check_values(c);
    const ln_tensor *odd = ln_checkpoint_find(c, "odd"), *matrix = ln_checkpoint_find(c, "matrix");
    assert_non_null(odd);
    assert_non_null(matrix);
    assert_memory_equal(odd->data, row, 12);
    assert_int_equal(matrix->file_offset % LN_GGUF_ALIGNMENT, 0);
    assert_int_equal(matrix->dims[0], 2);
    assert_int_equal(matrix->dims[1], 32);
    float out[64];
    ln_dequantize_row(LN_DTYPE_Q8_0, matrix->data, out, 64);
    assert_true(fabsf(out[3] + 4) < 0.02f && fabsf(out[2] - 3) < 0.02f);
    ln_checkpoint_close(c);
    assert_int_equal(empty_folder(), 1);
}

/* ---- failures --------------------------------------------------------------------------- */

static void failures_leave_nothing(void **state) {
    (void)state;
    ln_gguf_writer w;
    ln_error err = {0};
    const uint64_t dims[2] = {1 << 10, 1 << 10};
    for (int kind = 0; kind < 4; kind++) {
        ln_gguf_writer_init(&w);
        put_every_type(&w);
        assert_int_equal(ln_gguf_add_tensor(&w, "t", LN_DTYPE_F32, 2, dims, &err), LINNET_OK);
        struct rlimit old, small = {1 << 20, RLIM_INFINITY};
        getrlimit(RLIMIT_FSIZE, &old);
        small.rlim_max = old.rlim_max;
        signal(SIGXFSZ, SIG_IGN);
        if (kind == 1)
            setrlimit(RLIMIT_FSIZE, &small);
        const char *path = kind == 2   ? path_of("missing/a.gguf")
                           : kind == 3 ? folder
                                       : path_of("a.gguf");
        ln_status status = ln_gguf_write_begin(&w, path, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        static const ln_status expected[] = {LINNET_OK, LINNET_ERR_IO, LINNET_ERR_IO,
                                             LINNET_ERR_ARGUMENT};
        assert_int_equal(status, expected[kind]);
        if (status != LINNET_OK)
            assert_non_null(strstr(err.message, kind == 3 ? folder : "a.gguf"));
        ln_gguf_writer_free(&w);
        assert_int_equal(empty_folder(), 0);
    }
}

static void bad_tensors_are_refused(void **state) {
    (void)state;
    ln_gguf_writer w;
    ln_error err = {0};
    const uint64_t dims[2] = {4, 33}, huge[2] = {1ull << 40, 1ull << 40};
    ln_gguf_writer_init(&w);
    assert_int_not_equal(ln_gguf_add_tensor(&w, "t", LN_DTYPE_Q8_0, 2, dims, &err), LINNET_OK);
    assert_non_null(strstr(err.message, "33"));
    assert_int_not_equal(ln_gguf_add_tensor(&w, "t", LN_DTYPE_F32, 2, huge, &err), LINNET_OK);
    assert_int_equal(ln_gguf_add_tensor(&w, "t", LN_DTYPE_U64, 2, dims, &err), LINNET_ERR_ARGUMENT);
    assert_int_equal(w.n_tensors, 0);
    ln_gguf_writer_free(&w);
}

/* ---- quantising files ------------------------------------------------------------------- */

typedef struct planned {
    const char *name;
    int n_dims;
    uint64_t dims[2];
    ln_dtype q4_k_m, q2_k;
} planned;

/* 16 layers: the first two, the last two and every third between are favoured. */
static const planned model[] = {
    {"token_embd.weight", 2, {8, 256}, LN_DTYPE_Q4_K, LN_DTYPE_Q2_K},
    {"output.weight", 2, {8, 256}, LN_DTYPE_Q6_K, LN_DTYPE_Q6_K},
    {"output_norm.weight", 1, {256}, LN_DTYPE_F32, LN_DTYPE_F32},
    {"blk.0.attn_v.weight", 2, {8, 256}, LN_DTYPE_Q6_K, LN_DTYPE_Q4_K},
    {"blk.2.attn_v.weight", 2, {8, 256}, LN_DTYPE_Q4_K, LN_DTYPE_Q4_K},
    {"blk.4.ffn_down.weight", 2, {8, 256}, LN_DTYPE_Q6_K, LN_DTYPE_Q3_K},
    {"blk.5.ffn_down.weight", 2, {8, 256}, LN_DTYPE_Q4_K, LN_DTYPE_Q3_K},
    {"blk.5.ffn_up.weight", 2, {8, 96}, LN_DTYPE_Q5_0, LN_DTYPE_IQ4_NL},
    {"blk.5.ffn_gate.weight", 2, {8, 33}, LN_DTYPE_F16, LN_DTYPE_F16},
    {"blk.5.ffn_gate_inp.weight", 2, {8, 256}, LN_DTYPE_F32, LN_DTYPE_F32},
    {"blk.15.attn_q.bias", 1, {256}, LN_DTYPE_F32, LN_DTYPE_F32},
    {"blk.7.attn_output.weight", 2, {8, 256}, LN_DTYPE_Q4_K, LN_DTYPE_Q3_K},
    {"altup_proj.weight", 2, {8, 256}, LN_DTYPE_F32, LN_DTYPE_F32},
    {"blk.3.altup_router.weight", 2, {8, 256}, LN_DTYPE_F32, LN_DTYPE_F32},
    {"blk.3.laurel_r.weight", 2, {8, 256}, LN_DTYPE_F32, LN_DTYPE_F32},
    {"blk.3.hc_attn_down.weight", 2, {8, 256}, LN_DTYPE_F32, LN_DTYPE_F32},
    {"per_layer_model_proj.weight", 2, {8, 256}, LN_DTYPE_F32, LN_DTYPE_F32},
    {"blk.3.indexer.k_proj.weight", 2, {8, 256}, LN_DTYPE_F32, LN_DTYPE_F32},
};
enum { N_MODEL = sizeof model / sizeof *model };

static ln_status fill(const ln_write_tensor *tensor, size_t first, size_t n_rows, float *out,
                      ln_error *err) {
    size_t n = n_rows * (size_t)tensor->dims[tensor->n_dims - 1];
    (void)err;
    for (size_t i = 0; i < n; i++)
        out[i] = sinf((float)(first + i));
    return LINNET_OK;
}

static void write_model(const char *path) {
    ln_write_tensor tensors[N_MODEL];
    for (int i = 0; i < N_MODEL; i++)
        tensors[i] = (ln_write_tensor){.name = model[i].name,
                                       .dtype = LN_DTYPE_F32,
                                       .n_dims = model[i].n_dims,
                                       .dims = {model[i].dims[0], model[i].dims[1]}};
    ln_write_job job = {.tensors = tensors, .n_tensors = N_MODEL, .n_threads = 3, .rows = fill};
    ln_gguf_writer w;
    ln_error err = {0};
    ln_gguf_writer_init(&w);
    ln_gguf_put_string(&w, "general.architecture", "llama", 5);
    ln_gguf_put_u32(&w, "general.file_type", 0);
    ln_gguf_put_u32(&w, "llama.block_count", 16);
    ln_gguf_put_u32(&w, "llama.attention.head_count", 8);
    ln_gguf_put_u32(&w, "llama.attention.head_count_kv", 2);
    if (ln_write_gguf(&w, path, &job, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    ln_gguf_writer_free(&w);
}

static ln_status quantise(const char *from, const char *to, const char *mix, const char *keep,
                          bool (*progress)(void *, uint64_t, uint64_t)) {
    ln_checkpoint *c = open_file(from);
    ln_keep_rule rule;
    ln_error err = {0};
    if (keep != NULL)
        assert_int_equal(ln_keep_rule_init(&rule, keep, &err), LINNET_OK);
    ln_quantize_options options = {.mix = ln_mix_find(mix),
                                   .rules = &rule,
                                   .n_rules = keep != NULL,
                                   .n_threads = 2,
                                   .progress = progress};
    assert_non_null(options.mix);
    ln_status status = ln_quantize_gguf(c, to, &options, &err);
    if (keep != NULL)
        ln_keep_rule_free(&rule);
    ln_checkpoint_close(c);
    return status;
}

static void check_types(const char *path, bool is_q2_k, uint32_t file_type) {
    ln_checkpoint *c = open_file(path);
    assert_int_equal(meta_of(c, "general.file_type", LN_META_INT).integer, file_type);
    assert_int_equal(meta_of(c, "general.quantization_version", LN_META_INT).integer, 2);
    assert_int_equal(meta_of(c, "llama.block_count", LN_META_INT).integer, 16);
    for (int i = 0; i < N_MODEL; i++) {
        ln_dtype expected = is_q2_k ? model[i].q2_k : model[i].q4_k_m;
        const ln_tensor *tensor = ln_checkpoint_find(c, model[i].name);
        if (tensor->dtype != expected)
            fail_msg("%s is %s", model[i].name, ln_dtype_name(tensor->dtype));
    }
    ln_checkpoint_close(c);
}

static void mixes_choose_types(void **state) {
    (void)state;
    write_model(path_of("in.gguf"));
    assert_int_equal(quantise(path_of("in.gguf"), path_of("a.gguf"), "Q4_K_M", NULL, NULL), 0);
    check_types(path_of("a.gguf"), false, 15);
    assert_int_equal(quantise(path_of("in.gguf"), path_of("b.gguf"), "q2_k", NULL, NULL), 0);
    check_types(path_of("b.gguf"), true, 10);
    /* what has its type already is copied bit for bit */
    assert_int_equal(quantise(path_of("a.gguf"), path_of("b.gguf"), "q4_k", NULL, NULL), 0);
    ln_file_map a, b;
    assert_int_equal(ln_file_map_open(&a, path_of("a.gguf"), NULL), LINNET_OK);
    assert_int_equal(ln_file_map_open(&b, path_of("b.gguf"), NULL), LINNET_OK);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.data, b.data, a.bytes);
    ln_file_map_close(&a);
    ln_file_map_close(&b);
    empty_folder();
}

/* What quantised mixes leave alone keeps the type that it has. */
static void small_matrices_keep_their_types(void **state) {
    (void)state;
    write_model(path_of("in.gguf"));
    assert_int_equal(quantise(path_of("in.gguf"), path_of("a.gguf"), "BF16", NULL, NULL), 0);
    assert_int_equal(quantise(path_of("a.gguf"), path_of("b.gguf"), "Q4_0", NULL, NULL), 0);
    ln_checkpoint *c = open_file(path_of("b.gguf"));
    assert_int_equal(ln_checkpoint_find(c, "altup_proj.weight")->dtype, LN_DTYPE_BF16);
    assert_int_equal(ln_checkpoint_find(c, "blk.3.altup_router.weight")->dtype, LN_DTYPE_BF16);
    assert_int_equal(ln_checkpoint_find(c, "blk.0.attn_v.weight")->dtype, LN_DTYPE_Q4_0);
    ln_checkpoint_close(c);
    assert_int_equal(quantise(path_of("a.gguf"), path_of("b.gguf"), "Q4_0", "altup=Q8_0", NULL), 0);
    c = open_file(path_of("b.gguf"));
    assert_int_equal(ln_checkpoint_find(c, "altup_proj.weight")->dtype, LN_DTYPE_Q8_0);
    ln_checkpoint_close(c);
    empty_folder();
}

static void rules_keep_types(void **state) {
    (void)state;
    ln_keep_rule rule;
    ln_error err = {0};
    write_model(path_of("in.gguf"));
    assert_int_equal(
        quantise(path_of("in.gguf"), path_of("a.gguf"), "Q2_K", "ffn_(down|norm)|_v=bf16", NULL),
        0);
    ln_checkpoint *c = open_file(path_of("a.gguf"));
    assert_int_equal(ln_checkpoint_find(c, "blk.4.ffn_down.weight")->dtype, LN_DTYPE_BF16);
    assert_int_equal(ln_checkpoint_find(c, "blk.0.attn_v.weight")->dtype, LN_DTYPE_BF16);
    assert_int_equal(ln_checkpoint_find(c, "token_embd.weight")->dtype, LN_DTYPE_Q2_K);
    ln_checkpoint_close(c);
    empty_folder();
    static const char *const bad[] = {"", "=Q8_0", "a", "a=", "a=Q9_0", "a=IQ1_S", "(=Q8_0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ln_keep_rule_init(&rule, bad[i], &err), LINNET_ERR_ARGUMENT);
}

static bool stop(void *user, uint64_t done, uint64_t total) {
    (void)user;
    (void)done;
    (void)total;
    return false;
}

static void interruptions_leave_nothing(void **state) {
    (void)state;
    write_model(path_of("in.gguf"));
    write_small(path_of("old.gguf"));
    assert_int_equal(quantise(path_of("in.gguf"), path_of("a.gguf"), "Q4_0", NULL, stop),
                     LINNET_ERR_CANCELLED);
    assert_int_equal(quantise(path_of("in.gguf"), path_of("old.gguf"), "Q4_0", NULL, stop),
                     LINNET_ERR_CANCELLED);
    ln_checkpoint *c = open_file(path_of("old.gguf"));
    check_values(c); /* the old file stands */
    ln_checkpoint_close(c);
    assert_int_equal(empty_folder(), 2);
}

static ln_status fill_badly(const ln_write_tensor *tensor, size_t first, size_t n_rows, float *out,
                            ln_error *err) {
    fill(tensor, first, n_rows, out, err);
    out[1] = NAN;
    return LINNET_OK;
}

static void values_must_be_finite(void **state) {
    (void)state;
    ln_write_tensor tensor = {.name = "bad", .dtype = LN_DTYPE_Q4_K, .n_dims = 2, .dims = {2, 256}};
    ln_write_job job = {.tensors = &tensor, .n_tensors = 1, .n_threads = 1, .rows = fill_badly};
    ln_gguf_writer w;
    ln_error err = {0};
    ln_gguf_writer_init(&w);
    assert_int_equal(ln_write_gguf(&w, path_of("a.gguf"), &job, &err), LINNET_ERR_FORMAT);
    assert_non_null(strstr(err.message, "tensor bad"));
    ln_gguf_writer_free(&w);
    assert_int_equal(empty_folder(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_read_back),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(bad_tensors_are_refused),
        cmocka_unit_test(mixes_choose_types),
        cmocka_unit_test(rules_keep_types),
        cmocka_unit_test(interruptions_leave_nothing),
        cmocka_unit_test(values_must_be_finite),
        cmocka_unit_test(small_matrices_keep_their_types),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
