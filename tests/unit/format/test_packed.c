/* Quantised matrices of Hugging Face folders: blocks by hand for the internal types, and golden
 * folders whose shapes or settings are made wrong. The numbers of whole folders are checked by the
 * golden test. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/half.h"
#include "format/packed.h"
#include "format/quants.h"

static void internal_blocks_are_their_formulas(void **state) {
    (void)state;
    uint8_t block[36] = {0};
    float scale = 0.25f, out[32];
    memcpy(block, &scale, sizeof scale);
    block[4] = 3; /* the zero */
    block[5] = 0xf0;
    block[5 + 15] = 0x29;
    ln_dequantize_row(LN_DTYPE_I4_G32, block, out, 32);
    assert_true(out[0] == -0.75f && out[16] == 3.0f);  /* 0 - 3, 15 - 3 */
    assert_true(out[15] == 1.5f && out[31] == -0.25f); /* 9 - 3, 2 - 3 */
    memset(block + 4, 0, 32);
    block[4] = 0x80;
    block[35] = 127;
    ln_dequantize_row(LN_DTYPE_I8_G32, block, out, 32);
    assert_true(out[0] == -32.0f && out[31] == 31.75f && out[1] == 0.0f);
    block[4] = 0x38; /* 1 */
    block[5] = 0x7e; /* 448, the largest */
    block[6] = 0x81; /* -2^-9, the smallest */
    block[7] = 0xff; /* NaN */
    block[8] = 0x07; /* 7 * 2^-9 */
    ln_dequantize_row(LN_DTYPE_F8_G32, block, out, 32);
    assert_true(out[0] == 0.25f && out[1] == 112.0f && out[2] == -0x1p-11f);
    assert_true(isnan(out[3]) && out[4] == 7 * 0x1p-11f);
}

/* Opens a golden folder with one piece of its config.json replaced. */
static ln_checkpoint *open_edited(const char *golden, const char *from, const char *to) {
    char folder[] = "/tmp/linnet-packed-XXXXXX", path[512], link[96];
    ln_strbuf text;
    ln_checkpoint *checkpoint;
    ln_strbuf_init(&text);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/models/%s/config.json", golden);
    assert_int_equal(ln_file_read(path, 1 << 20, &text, NULL), LINNET_OK);
    char *at = strstr(text.data, from);
    assert_non_null(at);
    snprintf(link, sizeof link, "%s/config.json", folder);
    FILE *file = fopen(link, "w");
    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)(at - text.data), text.data, to, at + strlen(from));
    fclose(file);
    ln_strbuf_free(&text);
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/models/%s/model.safetensors",
             golden);
    snprintf(link, sizeof link, "%s/model.safetensors", folder);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(ln_checkpoint_open(folder, false, &checkpoint, NULL), LINNET_OK);
    unlink(link);
    snprintf(link, sizeof link, "%s/config.json", folder);
    unlink(link);
    rmdir(folder);
    return checkpoint;
}

static const struct {
    const char *golden, *from, *to;
    size_t n_rows, n_cols; /* of model.layers.0.self_attn.q_proj: 192 x 192 */
    const char *message;   /* NULL: it is right */
} forms[] = {
    {"llama_gptq", "\"bits\": 4", "\"bits\": 4", 192, 192, NULL},
    {"llama_gptq", "\"bits\": 4", "\"bits\": 3", 192, 192, NULL}, /* its shape says it */
    {"llama_gptq8", "\"bits\"", "\"bits\"", 192, 192, NULL},
    {"llama_gptq8", "\"bits\"", "\"bits\"", 192, 64, ".qweight has a wrong"},
    {"llama_gptq8", "\"bits\"", "\"bits\"", 96, 192, ".qweight has a wrong"},
    {"llama_int3", "\"num_bits\"", "\"num_bits\"", 192, 192, NULL},
    {"llama_int3", "\"num_bits\"", "\"num_bits\"", 96, 192, ".weight_packed has a wrong"},
    {"llama_int3", "\"num_bits\": 3", "\"num_bits\": 7", 192, 72, "packed with unused bits"},
    {"llama_mxfp8", "MXFP8", "MXFP8", 192, 192, NULL},
    {"llama_mxfp8", "MXFP8", "MXFP8", 96, 192, ".weight has a wrong shape"},
    {"llama_modelopt_awq", "AWQ", "AWQ", 192, 192, NULL},
    {"llama_modelopt_awq", "AWQ", "AWQ", 192, 96, ".weight has a wrong shape"},
    {"llama_quark_int4", "\"int4\"", "\"int4\"", 192, 192, NULL},
    {"llama_quark_int4", "\"int4\"", "\"int2\"", 192, 192, ".weight has a wrong shape"},
    {"llama_quark_int4", "\"int4\"", "\"int4\"", 96, 192, ".weight has a wrong shape"},
    {"llama_quark_int4", "\"quark\"", "\"quark\", \"export\": {\"pack_method\": \"reorder\"}", 192,
     192, NULL},
    {"llama_quark_int4", "\"quark\"", "\"quark\", \"export\": {\"pack_method\": \"order\"}", 192,
     192, "key quantization_config.export.pack_method"},
    {"llama_quark_int4", "\"quark\"", "\"quark\", \"layer_quant_config\": {}", 192, 192, NULL},
    {"llama_quark_int4", "\"quark\"", "\"quark\", \"layer_quant_config\": {\"*.q_proj\": {}}", 192,
     192, "key quantization_config.layer_quant_config"},
    {"llama_gptq", "\"group_size\": 64", "\"group_size\": 48", 192, 192,
     "group_size 48 is no multiple of 32"},
    {"llama_gptq", "\"group_size\": 64", "\"group_size\": 32", 192, 192, ".qzeros has a wrong"},
    {"llama_gptq", "\"group_size\": 64", "\"group_size\": 64", 192, 256, ".qzeros has a wrong"},
    {"llama_gptq", "\"quant_method\": \"gptq\"", "\"quant_method\": \"awq\"", 192, 192,
     ".qweight has a wrong shape"},
    {"llama_awq", "\"bits\": 4", "\"bits\": 4", 192, 192, NULL},
    {"llama_int4", "\"num_bits\": 4", "\"num_bits\": 8", 192, 192, NULL},
    {"llama_int4", "\"group_0\"", "\"config_group_0\"", 192, 192, NULL},
    {"llama_int4", "\"group_0\"", "\"group_0\": {\"weights\": {\"group_size\": 192}}, \"group_1\"",
     192, 192, NULL},
    {"llama_int4", "\"group_0\"", "\"group_0\": {\"weights\": {\"group_size\": 192}}, \"nothing\"",
     192, 192, ".weight_scale has a wrong"},
    {"llama_int4", "\"num_bits\": 4", "\"num_bits\": 4", 200, 192, ".weight_packed has a wrong"},
    {"llama_int8", "\"num_bits\": 8", "\"num_bits\": 8", 192, 64, ".weight has a wrong shape"},
    {"llama_fp8_tiles", "\"fp8\"", "\"fp8\"", 192, 192, NULL},
    {"llama_fp8_tiles", "128", "64", 192, 192, "neither rows nor tiles of 64 x 128"},
    {"llama_fp8_tiles", "128", "96", 192, 192, NULL},
    {"llama_fp8_rows", "\"format\"", "\"format\"", 192, 192, NULL},
    {"llama_nvfp4", "NVFP4", "NVFP4", 192, 192, NULL},
    {"llama_nvfp4", "NVFP4", "NVFP4", 192, 96, ".weight has a wrong shape"},
    {"llama_mxfp4", "mxfp4", "mxfp4", 192, 192, NULL},
    {"llama_mxfp4", "mxfp4", "mxfp4", 200, 192, ".weight_packed has a wrong shape"},
    {"llama_nf4", "nf4", "nf4", 192, 192, NULL},
    {"llama_nf4", "nf4", "nf4", 192, 96, ".weight has a wrong shape"},
    {"llama_nf4", "nf4", "nf4", 200, 192, ".weight has a wrong shape"},
    {"llama_llm_int8", "bitsandbytes", "bitsandbytes", 192, 192, NULL},
};

static void wrong_forms_are_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        ln_checkpoint *checkpoint = open_edited(forms[i].golden, forms[i].from, forms[i].to);
        ln_packed packed;
        ln_error err = {0};
        ln_status status = ln_packed_find(checkpoint, "model.layers.0.self_attn.q_proj", 1,
                                          forms[i].n_rows, forms[i].n_cols, &packed, &err);
        if (forms[i].message == NULL
                ? status != LINNET_OK || packed.kind == LN_PACKED_NONE
                : status == LINNET_OK || strstr(err.message, forms[i].message) == NULL)
            fail_msg("case %zu: status %d, message: %s", i, (int)status, err.message);
        ln_checkpoint_close(checkpoint);
    }
}

/* Experts below one another, whose tensor has the module's name: layer 0's are NVFP4, layer 1's
 * MXFP8. Golden models compare their values. */
static void experts_in_one_tensor_are_found(void **state) {
    (void)state;
    static const struct {
        const char *layer;
        size_t n_rows, n_cols; /* of an expert: 64 x 32 */
        ln_packed_kind kind;
        const char *message;
    } cases[] = {{"0", 64, 32, LN_PACKED_NVFP4, NULL},
                 {"1", 64, 32, LN_PACKED_FP8, NULL},
                 {"0", 32, 32, LN_PACKED_NONE, "w13_weight has a wrong shape"},
                 {"0", 64, 64, LN_PACKED_NONE, "w13_weight has a wrong shape"},
                 {"1", 64, 64, LN_PACKED_NONE, "w13_weight has a wrong shape"}};
    ln_checkpoint *checkpoint = open_edited("inkling2_fp4", "\"bos_", "\"bos_");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[96];
        ln_packed packed;
        ln_error err = {0};
        snprintf(name, sizeof name, "model.llm.layers.%s.mlp.experts.w13_weight", cases[i].layer);
        ln_status status = ln_packed_find(checkpoint, name, 3, 3 * cases[i].n_rows, cases[i].n_cols,
                                          &packed, &err);
        if ((status == LINNET_OK) != (cases[i].message == NULL) || packed.kind != cases[i].kind ||
            (status != LINNET_OK && strstr(err.message, cases[i].message) == NULL))
            fail_msg("case %zu: status %d, message: %s", i, (int)status, err.message);
    }
    ln_checkpoint_close(checkpoint);
}

/* Where 32 columns do not share a scale, or rows that become columns, the rows are float32. */
static void tiles_of_any_size_are_read(void **state) {
    (void)state;
    enum { N = 192, WIDE = 112 };
    const char *name = "model.layers.0.self_attn.q_proj";
    ln_checkpoint *plain = open_edited("llama_fp8_tiles", "128", "128");
    ln_checkpoint *odd =
        open_edited("llama_fp8_tiles", "[\n      128,\n      128", "[\n      128,\n      112");
    ln_packed a, b;
    uint8_t blocks[36 * N / 32];
    float x[N], y[N], column[40];
    assert_int_equal(ln_packed_find(plain, name, 1, N, N, &a, NULL), LINNET_OK);
    assert_int_equal(ln_packed_find(odd, name, 1, N, N, &b, NULL), LINNET_OK);
    assert_true(ln_packed_dtype(&a) == LN_DTYPE_F8_G32 && ln_packed_dtype(&b) == LN_DTYPE_F32);
    ln_packed_row(&a, 150, blocks);
    ln_dequantize_row(LN_DTYPE_F8_G32, blocks, x, N);
    ln_packed_row(&b, 150, (uint8_t *)y);
    for (size_t i = 0; i < N; i++)
        if (i < WIDE || i >= 128)
            assert_true(x[i] == y[i]);
    assert_int_equal(ln_packed_turn(plain, &a, 120, 40, NULL), LINNET_OK);
    assert_true(ln_packed_dtype(&a) == LN_DTYPE_F32);
    ln_packed_row(&a, 7, (uint8_t *)column);
    assert_true(column[150 - 120] == x[7]);
    ln_checkpoint_close(plain);
    ln_checkpoint_close(odd);
}

/* Rows that pass through float32: whole, in parts, as columns, and quantised again. */
static void rows_of_values_are_read(void **state) {
    (void)state;
    enum { N = 192, BEGIN = 64, PART = 32 };
    static const char *const goldens[] = {"llama_nvfp4", "llama_nf4", "llama_modelopt_awq"};
    for (size_t g = 0; g < 3; g++) {
        ln_checkpoint *checkpoint = open_edited(goldens[g], "quant", "quant");
        ln_packed packed, part, turned;
        uint16_t row[N], some[N];
        uint8_t blocks[34 * N / 32];
        float x[N];
        assert_int_equal(
            ln_packed_find(checkpoint, "model.layers.0.self_attn.q_proj", 1, N, N, &packed, NULL),
            LINNET_OK);
        assert_int_equal(ln_packed_dtype(&packed), LN_DTYPE_BF16);
        part = turned = packed;
        ln_packed_row(&packed, 150, (uint8_t *)row);
        part.first_col = BEGIN;
        part.n_part_cols = PART;
        ln_packed_row(&part, 150, (uint8_t *)some);
        assert_memory_equal(some, row + BEGIN, PART * sizeof *row);
        assert_int_equal(ln_packed_turn(checkpoint, &turned, 120, 40, NULL), LINNET_OK);
        assert_false(ln_packed_quantize(&turned, LN_DTYPE_Q8_0));
        ln_packed_row(&turned, 7, (uint8_t *)some);
        assert_int_equal(some[150 - 120], row[7]);
        assert_false(ln_packed_quantize(&packed, LN_DTYPE_Q4_K)); /* no whole number of blocks */
        assert_true(ln_packed_quantize(&packed, LN_DTYPE_Q8_0));
        ln_packed_row(&packed, 150, blocks);
        ln_dequantize_row(LN_DTYPE_Q8_0, blocks, x, N);
        for (size_t i = 0; i < N; i++)
            assert_true(fabsf(x[i] - ln_f32_from_bf16(row[i])) < 0.01f);
        ln_checkpoint_close(checkpoint);
    }
}

/* Whether activations become numbers of 8 bits, too, is what the checkpoint says. */
static void activations_follow_the_checkpoint(void **state) {
    (void)state;
    static const struct {
        const char *golden, *from, *to;
        bool meets_8_bits;
    } cases[] = {
        {"llama_fp8_rows", "\"targets\"", "\"targets\"", false},
        {"llama_fp8_rows", "\"targets\"", "\"input_activations\": {\"num_bits\": 8}, \"targets\"",
         true},
        {"llama_fp8_rows", "\"targets\"", "\"input_activations\": {\"num_bits\": 4}, \"targets\"",
         false},
        {"llama_int8", "\"targets\"", "\"input_activations\": {\"num_bits\": 8}, \"targets\"",
         true},
        {"llama_fp8_tiles", "\"fp8\"", "\"fp8\"", false},
        {"llama_fp8_tiles", "\"fp8\"", "\"fp8\", \"activation_scheme\": \"dynamic\"", true},
        {"llama_fp8_tiles", "\"fp8\"", "\"fp8\", \"activation_scheme\": \"static\"", true},
        {"llama_fp8_tiles", "\"fp8\"", "\"fbgemm_fp8\"", true},
        {"llama_fp8_tiles", "\"fp8\"", "\"modelopt\", \"quant_algo\": \"FP8\"", true},
        {"llama_llm_int8", "\"load_in_8bit\"", "\"load_in_8bit\"", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_checkpoint *checkpoint = open_edited(cases[i].golden, cases[i].from, cases[i].to);
        ln_packed packed;
        assert_int_equal(ln_packed_find(checkpoint, "model.layers.0.self_attn.q_proj", 1, 192, 192,
                                        &packed, NULL),
                         LINNET_OK);
        if (packed.meets_8_bits != cases[i].meets_8_bits)
            fail_msg("case %zu", i);
        ln_checkpoint_close(checkpoint);
    }
}

/* auto-round says how it packed: as AWQ, or as GPTQ with zeros that are one too small or not. */
static void zeros_follow_the_packing(void **state) {
    (void)state;
    static const struct {
        const char *golden, *to;
        ln_packed_kind kind;
        unsigned zero_offset;
    } cases[] = {
        {"llama_gptq", "\"gptq\"", LN_PACKED_GPTQ, 1},
        {"llama_gptq", "\"gptq\", \"checkpoint_format\": \"gptq_v2\"", LN_PACKED_GPTQ, 0},
        {"llama_gptq", "\"auto-round\", \"packing_format\": \"auto_round:auto_gptq\"",
         LN_PACKED_GPTQ, 1},
        {"llama_gptq", "\"intel/auto-round\", \"backend\": \"auto_round:gptq:exllamav2\"",
         LN_PACKED_GPTQ, 1},
        {"llama_gptq", "\"auto-round\", \"packing_format\": \"auto_round:gptqmodel\"",
         LN_PACKED_GPTQ, 0},
        {"llama_gptq", "\"auto-round\", \"packing_format\": \"auto_round\"", LN_PACKED_GPTQ, 0},
        {"llama_awq", "\"auto-round\", \"packing_format\": \"auto_round:auto_awq\"", LN_PACKED_AWQ,
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_awq = strcmp(cases[i].golden, "llama_awq") == 0;
        ln_checkpoint *checkpoint =
            open_edited(cases[i].golden, is_awq ? "\"awq\"" : "\"gptq\"", cases[i].to);
        ln_packed packed;
        assert_int_equal(ln_packed_find(checkpoint, "model.layers.0.self_attn.q_proj", 1, 192, 192,
                                        &packed, NULL),
                         LINNET_OK);
        if (packed.kind != cases[i].kind || packed.zero_offset != cases[i].zero_offset)
            fail_msg("case %zu", i);
        ln_checkpoint_close(checkpoint);
    }
}

/* Scales that are powers of two are bytes: 127 is 1. */
static void exponents_are_scales(void **state) {
    (void)state;
    enum { N = 32 };
    uint8_t codes[N] = {0x38, 0xb8}, exponents[1], block[36]; /* 1, -1 */
    float x[N];
    ln_tensor values = {.dtype = LN_DTYPE_F8_E4M3, .data = codes};
    ln_tensor scales = {.dtype = LN_DTYPE_F8_E8M0, .data = exponents};
    ln_packed packed = {.kind = LN_PACKED_FP8,
                        .values = &values,
                        .scales = &scales,
                        .n_rows = 1,
                        .n_cols = N,
                        .scale_cols = 1,
                        .group_rows = 1,
                        .group_cols = N};
    static const float expected[] = {0x1p-127f, 0x1p-126f, 1.0f, 0x1p127f};
    static const uint8_t bytes[] = {0, 1, 127, 254};
    for (size_t i = 0; i < sizeof bytes; i++) {
        exponents[0] = bytes[i];
        ln_packed_row(&packed, 0, block);
        ln_dequantize_row(LN_DTYPE_F8_G32, block, x, N);
        assert_true(x[0] == expected[i] && x[1] == -expected[i] && x[2] == 0.0f);
    }
    exponents[0] = 255;
    ln_packed_row(&packed, 0, block);
    ln_dequantize_row(LN_DTYPE_F8_G32, block, x, N);
    assert_true(isnan(x[0]));
}

/* Codes of 8 bits less their zeros are 8 bits where all zeros are in the middle; numbers of nine
 * bits are float32. */
static void codes_of_8_bits_are_read(void **state) {
    (void)state;
    enum { N = 32 };
    uint8_t codes[4][N], zeros[4] = {128, 128, 128, 128}, block[36];
    float scales[4] = {0.5f, 1.0f, 1.0f, 2.0f}, x[N];
    for (unsigned i = 0; i < 4 * N; i++)
        codes[i / N][i % N] = (uint8_t)(i * 37 + 11);
    codes[3][0] = 0;
    codes[3][1] = 255;
    ln_tensor words = {.dtype = LN_DTYPE_I32, .data = codes[0]};
    ln_tensor middle = {.dtype = LN_DTYPE_I32, .data = zeros};
    ln_tensor factors = {.dtype = LN_DTYPE_F32, .data = (const uint8_t *)scales};
    ln_packed packed = {.kind = LN_PACKED_INT,
                        .values = &words,
                        .scales = &factors,
                        .zeros = &middle,
                        .n_rows = 4,
                        .n_cols = N,
                        .n_bits = 8,
                        .scale_cols = 1,
                        .group_rows = 1,
                        .group_cols = N};
    assert_int_equal(ln_packed_dtype(&packed), LN_DTYPE_I8_G32);
    ln_packed_row(&packed, 3, block);
    ln_dequantize_row(LN_DTYPE_I8_G32, block, x, N);
    assert_true(x[0] == -256.0f && x[1] == 254.0f);
    for (int i = 0; i < N; i++)
        assert_true(x[i] == 2.0f * (float)(codes[3][i] - 128));
    zeros[3] = 3;
    packed.as_floats = true;
    assert_int_equal(ln_packed_dtype(&packed), LN_DTYPE_F32);
    ln_packed_row(&packed, 3, (uint8_t *)x);
    assert_true(x[0] == -6.0f && x[1] == 504.0f);
    packed.first_col = 8;
    packed.n_part_cols = 4;
    ln_packed_row(&packed, 3, (uint8_t *)x);
    assert_true(x[0] == 2.0f * (float)(codes[3][8] - 3) && x[4] != x[0]);
}

/* A row's largest number becomes 448, and each the nearest of the numbers of E4M3. */
static void fp8_on_load_is_the_nearest(void **state) {
    (void)state;
    enum { N_COLS = 1024 };
    uint8_t rows[N_COLS / 32 * 36], codes[256 / 32 * 36] = {0};
    float x[N_COLS], out[N_COLS], values[256], one = 1.0f;
    ln_tensor tensor = {.dtype = LN_DTYPE_F32, .data = (const uint8_t *)x};
    ln_packed packed = ln_packed_on_load(&tensor, 1, N_COLS, LN_DTYPE_F8_G32);
    for (size_t i = 0; i < 256; i++) {
        memcpy(codes + i / 32 * 36, &one, sizeof one);
        codes[i / 32 * 36 + 4 + i % 32] = (uint8_t)i;
    }
    ln_dequantize_row(LN_DTYPE_F8_G32, codes, values, 256);
    for (int i = 0; i < N_COLS; i++) /* from 448 down to where all is rounded to 0 */
        x[i] = (i % 2 ? -448.0f : 448.0f) * powf(2.0f, -(float)i / 45.0f);
    ln_packed_row(&packed, 0, rows);
    ln_dequantize_row(LN_DTYPE_F8_G32, rows, out, N_COLS);
    for (int i = 0; i < N_COLS; i++) {
        float nearest = INFINITY;
        for (int code = 0; code < 256; code++)
            nearest = fminf(nearest, fabsf(values[code] - x[i])); /* passes over NaN */
        assert_true(fabsf(out[i] - x[i]) == nearest);
    }
    assert_true(out[0] == 448.0f && out[N_COLS - 1] == 0.0f);
}

static void plain_modules_stay_plain(void **state) {
    (void)state;
    ln_checkpoint *checkpoint = open_edited("llama_gptq", "\"bits\"", "\"bits\"");
    ln_packed packed = {.kind = LN_PACKED_AWQ};
    assert_int_equal(ln_packed_find(checkpoint, "lm_head", 1, 256, 192, &packed, NULL), LINNET_OK);
    assert_int_equal(packed.kind, LN_PACKED_NONE);
    ln_checkpoint_close(checkpoint);
}

/* F32 rows of length one. */
static void unit_rows_have_length_one(void **state) {
    (void)state;
    const float numbers[2][3] = {{3, 0, 4}, {0, 0, 0}};
    ln_tensor tensor = {.name = "t", .dtype = LN_DTYPE_F32, .data = (const uint8_t *)numbers};
    ln_packed packed = ln_packed_unit_rows(&tensor, 2, 3);
    float row[3];
    assert_int_equal(ln_packed_dtype(&packed), LN_DTYPE_F32);
    ln_packed_row(&packed, 0, (uint8_t *)row);
    assert_true(row[0] == 0.6f && row[1] == 0.0f && row[2] == 0.8f);
    ln_packed_row(&packed, 1, (uint8_t *)row);
    assert_true(row[0] == 0.0f && row[2] == 0.0f);
}

/* Columns of a group come side by side, in the order in which they are stored. */
static void ordered_columns_are_gathered(void **state) {
    (void)state;
    int32_t groups[64], columns[64];
    for (int i = 0; i < 64; i++)
        groups[i] = i % 2 == 0; /* odd columns are group 0 */
    ln_tensor order = {.name = "g_idx", .dtype = LN_DTYPE_I32, .data = (const uint8_t *)groups};
    ln_packed packed = {.n_cols = 64, .group_cols = 32, .order = &order};
    ln_packed_columns(&packed, columns);
    assert_int_equal(columns[0], 1);
    assert_int_equal(columns[31], 63);
    assert_int_equal(columns[32], 0);
    assert_int_equal(columns[63], 62);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_follow_the_checkpoint),
        cmocka_unit_test(fp8_on_load_is_the_nearest),
        cmocka_unit_test(unit_rows_have_length_one),
        cmocka_unit_test(ordered_columns_are_gathered),
        cmocka_unit_test(tiles_of_any_size_are_read),
        cmocka_unit_test(internal_blocks_are_their_formulas),
        cmocka_unit_test(zeros_follow_the_packing),
        cmocka_unit_test(exponents_are_scales),
        cmocka_unit_test(codes_of_8_bits_are_read),
        cmocka_unit_test(rows_of_values_are_read),
        cmocka_unit_test(experts_in_one_tensor_are_found),
        cmocka_unit_test(wrong_forms_are_refused_by_name),
        cmocka_unit_test(plain_modules_stay_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
