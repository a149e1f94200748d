/* safetensors and its index from memory: what is read, truncation, each refusal. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "format/safetensors.h"
#include "unit/format/fixture.h"
#include "unit/format/writer.h"

/* Parses the first n_bytes from memory of just that size. */
static ln_status parse_prefix(fixture *f, size_t n_bytes) {
    uint8_t *copy = take_prefix(f, n_bytes);
    ln_status status = ln_safetensors_parse(copy, n_bytes, 3, &f->arena, &f->tensors, &f->err);
    free(copy);
    return status;
}

static ln_status parse(fixture *f, const char *header, size_t n_data) {
    ln_strbuf_clear(&f->file);
    put_safetensors(&f->file, header, n_data);
    return parse_prefix(f, f->file.len);
}

static void assert_refused(fixture *f, const char *header, size_t n_data, ln_status status,
                           const char *message) {
    assert_int_equal(parse(f, header, n_data), status);
    assert_string_equal(f->err.message, message);
}

/* One tensor "t" of this type, shape and span over 16 bytes of data. */
static void assert_tensor_refused(fixture *f, const char *dtype, const char *shape,
                                  const char *offsets, ln_status status, const char *message) {
    char header[300];
    snprintf(header, sizeof header, "{\"t\":{\"dtype\":%s,\"shape\":%s,\"data_offsets\":%s}}",
             dtype, shape, offsets);
    assert_refused(f, header, 16, status, message);
}

static const char valid[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
    "\"c\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,1,1,1,3],\"data_offsets\":[16,19]}}   ";

static void reads_tensors(void **state) {
    fixture *f = *state;
    assert_int_equal(parse(f, valid, 19), LINNET_OK);
    assert_int_equal(f->tensors.count, 3);
    const ln_tensor *b = &f->tensors.items[0], *a = &f->tensors.items[1];
    assert_string_equal(b->name, "b");
    assert_int_equal(b->dtype, LN_DTYPE_BF16);
    assert_int_equal(b->n_dims, 2);
    assert_int_equal(b->dims[0], 2);
    assert_int_equal(b->dims[1], 3);
    assert_int_equal(b->bytes, 12);
    assert_int_equal(b->file, 3);
    assert_int_equal(b->file_offset, 8 + sizeof valid - 1 + 4);
    assert_int_equal(a->n_dims, 0);
    assert_int_equal(a->n_elems, 1);
    assert_int_equal(f->tensors.items[2].n_dims, 5);
    assert_int_equal(parse(f, "{}", 0), LINNET_OK);
    assert_int_equal(f->tensors.count, 0);
}

static void refuses_truncation_at_every_byte(void **state) {
    fixture *f = *state;
    assert_int_equal(parse(f, valid, 19), LINNET_OK);
    for (size_t n = 0; n < f->file.len; n++) {
        assert_int_not_equal(parse_prefix(f, n), LINNET_OK);
        assert_true(f->err.message[0] != '\0');
    }
}

static void refuses_bad_header_lengths(void **state) {
    fixture *f = *state;
    ln_strbuf_puts(&f->file, "\2\0\0\0\0\0\0");
    assert_int_equal(parse_prefix(f, 7), LINNET_ERR_FORMAT);
    assert_string_equal(f->err.message, "7 bytes are too few for a safetensors file");
    const uint64_t lengths[] = {(100 << 20) + 1, 1ull << 31, 1ull << 58, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char message[100];
        ln_strbuf_clear(&f->file);
        put_u64(&f->file, lengths[i]);
        assert_int_equal(parse_prefix(f, 8), LINNET_ERR_LIMIT);
        snprintf(message, sizeof message,
                 "the header length %llu passes the limit of 104857600 "
                 "bytes",
                 (unsigned long long)lengths[i]);
        assert_string_equal(f->err.message, message);
    }
    ln_strbuf_clear(&f->file);
    put_u64(&f->file, 3);
    ln_strbuf_puts(&f->file, "{}");
    assert_int_equal(parse_prefix(f, 10), LINNET_ERR_FORMAT);
    assert_string_equal(f->err.message,
                        "the header of 3 bytes passes the end of the file (10 bytes)");
    ln_strbuf_clear(&f->file);
    put_u64(&f->file, 0);
    assert_int_equal(parse_prefix(f, 8), LINNET_ERR_FORMAT);
}

static void refuses_bad_json(void **state) {
    fixture *f = *state;
    assert_refused(f, "[]", 0, LINNET_ERR_FORMAT, "header: the JSON is no object");
    assert_refused(f, "{\"t\":1}", 0, LINNET_ERR_FORMAT, "tensor t: its value is no object");
    assert_refused(f, "{\"t\":{},\"t\":{}}", 0, LINNET_ERR_FORMAT,
                   "header: line 1 column 11: duplicate object key near '\"t\"'");
    assert_refused(f, "{\"\":{}}", 0, LINNET_ERR_FORMAT,
                   "tensor : a name has 1 to 255 bytes, this one 0");
    assert_refused(f, "{\"__metadata__\":[]}", 0, LINNET_ERR_FORMAT, "__metadata__ is no object");
    assert_refused(f, "{\"__metadata__\":{\"k\":1}}", 0, LINNET_ERR_FORMAT,
                   "__metadata__: k is no string");
    assert_refused(f, "{\"t\":{\"dtype\":1e999}}", 0, LINNET_ERR_FORMAT,
                   "header: line 1 column 19: real number overflow near '1e999'");
}

static void refuses_deep_and_wide_json(void **state) {
    fixture *f = *state;
    ln_strbuf header = {0};
    ln_strbuf_puts(&header, "{\"t\":");
    put_bytes(&header, 1100000, '[');
    assert_int_equal(parse(f, header.data, 0), LINNET_ERR_LIMIT);
    ln_strbuf_clear(&header);
    ln_strbuf_puts(&header, "{\"t\":");
    put_bytes(&header, 10000, '[');
    assert_int_equal(parse(f, header.data, 0), LINNET_ERR_FORMAT);
    assert_non_null(strstr(f->err.message, "maximum parsing depth reached"));
    ln_strbuf_free(&header);
}

static void refuses_bad_types_and_shapes(void **state) {
    fixture *f = *state;
    assert_tensor_refused(f, "7", "[4]", "[0,16]", LINNET_ERR_FORMAT,
                          "tensor t: dtype is no string");
    assert_tensor_refused(f, "\"F4\"", "[4]", "[0,16]", LINNET_ERR_UNSUPPORTED,
                          "tensor t: unknown dtype F4");
    assert_tensor_refused(f, "\"Q8_0\"", "[32]", "[0,16]", LINNET_ERR_UNSUPPORTED,
                          "tensor t: unknown dtype Q8_0");
    assert_tensor_refused(f, "\"F32\"", "4", "[0,16]", LINNET_ERR_FORMAT,
                          "tensor t: shape is no array");
    assert_tensor_refused(f, "\"F32\"", "[-4]", "[0,16]", LINNET_ERR_FORMAT,
                          "tensor t: dimension 0 is no whole number");
    assert_tensor_refused(f, "\"F32\"", "[4.0]", "[0,16]", LINNET_ERR_FORMAT,
                          "tensor t: dimension 0 is no whole number");
    assert_tensor_refused(f, "\"F32\"", "[1,1,1,1,1,1,1,1,4]", "[0,16]", LINNET_ERR_FORMAT,
                          "tensor t: 9 dimensions, more than 8");
    assert_tensor_refused(f, "\"F32\"", "[4,0]", "[0,0]", LINNET_ERR_FORMAT,
                          "tensor t: dimension 1 is 0");
    assert_tensor_refused(f, "\"F32\"", "[2147483648,4294967296]", "[0,16]", LINNET_ERR_FORMAT,
                          "tensor t: the number of elements overflows");
    assert_tensor_refused(f, "\"F32\"", "[9223372036854775807]", "[0,16]", LINNET_ERR_FORMAT,
                          "tensor t: its size in bytes overflows");
}

static void refuses_bad_spans(void **state) {
    fixture *f = *state;
    const char *order = "tensor t: data_offsets are not two whole numbers in order";
    assert_tensor_refused(f, "\"F32\"", "[4]", "[0]", LINNET_ERR_FORMAT, order);
    assert_tensor_refused(f, "\"F32\"", "[4]", "[0,16,32]", LINNET_ERR_FORMAT, order);
    assert_tensor_refused(f, "\"F32\"", "[4]", "\"0\"", LINNET_ERR_FORMAT, order);
    assert_tensor_refused(f, "\"F32\"", "[4]", "[16,0]", LINNET_ERR_FORMAT, order);
    assert_tensor_refused(f, "\"F32\"", "[4]", "[-16,0]", LINNET_ERR_FORMAT, order);
    assert_tensor_refused(f, "\"F32\"", "[4]", "[1,17]", LINNET_ERR_FORMAT,
                          "tensor t: data offset 17 passes the end of the data (16 bytes)");
    assert_tensor_refused(
        f, "\"F32\"", "[4]", "[0,9223372036854775807]", LINNET_ERR_FORMAT,
        "tensor t: data offset 9223372036854775807 passes the end of the data (16 bytes)");
    assert_tensor_refused(
        f, "\"F32\"", "[5]", "[0,16]", LINNET_ERR_FORMAT,
        "tensor t: its span of 16 bytes differs from shape times type (20 bytes)");
    assert_tensor_refused(f, "\"F32\"", "[3]", "[4,16]", LINNET_ERR_FORMAT,
                          "tensor t: a gap of 4 bytes lies before it");
    assert_tensor_refused(f, "\"F32\"", "[3]", "[0,12]", LINNET_ERR_FORMAT,
                          "4 bytes at the end belong to no tensor");
    assert_refused(f, "{}", 5, LINNET_ERR_FORMAT, "5 bytes at the end belong to no tensor");
    assert_refused(f,
                   "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
                   7, LINNET_ERR_FORMAT, "tensor b: its bytes overlap those of a");
}

/* ---- the index of shards ---------------------------------------------------------------- */

static ln_status parse_index(fixture *f, const char *text, ln_shard_index *index) {
    ln_arena_free(&f->arena);
    f->err = (ln_error){0};
    return ln_shard_index_parse(text, strlen(text), &f->arena, index, &f->err);
}

static void reads_an_index(void **state) {
    fixture *f = *state;
    ln_shard_index index;
    assert_int_equal(parse_index(f,
                                 "{\"metadata\":{\"total_size\":3},\"weight_map\":{"
                                 "\"a\":\"y.safetensors\",\"b\":\"x.safetensors\","
                                 "\"c\":\"y.safetensors\"}}",
                                 &index),
                     LINNET_OK);
    assert_int_equal(index.n_files, 2);
    assert_string_equal(index.files[0], "y.safetensors");
    assert_string_equal(index.files[1], "x.safetensors");
    assert_int_equal(index.n_names, 3);
    assert_string_equal(index.names[2], "c");
    assert_int_equal(index.file_of[2], 0);
}

static void refuses_bad_indices(void **state) {
    fixture *f = *state;
    ln_shard_index index;
    assert_int_equal(parse_index(f, "{\"weight_map\":[]}", &index), LINNET_ERR_FORMAT);
    assert_string_equal(f->err.message, "weight_map is no object with tensors");
    assert_int_equal(parse_index(f, "{}", &index), LINNET_ERR_FORMAT);
    const char *shards[] = {"\"../model.safetensors\"",
                            "\"/etc/x.safetensors\"",
                            "\"a/b.safetensors\"",
                            "\".safetensors\"",
                            "\".x.safetensors\"",
                            "\"..\"",
                            "\"\"",
                            "\"model.bin\"",
                            "\"x.safetensors\\u0000\"",
                            "3",
                            "null"};
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"weight_map\":{\"t\":%s}}", shards[i]);
        assert_int_equal(parse_index(f, text, &index), LINNET_ERR_FORMAT);
        assert_non_null(strstr(f->err.message, "tensor t: its shard "));
        assert_non_null(strstr(f->err.message, " is no name of a safetensors file in this folder"));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(reads_tensors),
        TEST(refuses_truncation_at_every_byte),
        TEST(refuses_bad_header_lengths),
        TEST(refuses_bad_json),
        TEST(refuses_deep_and_wide_json),
        TEST(refuses_bad_types_and_shapes),
        TEST(refuses_bad_spans),
        TEST(reads_an_index),
        TEST(refuses_bad_indices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
