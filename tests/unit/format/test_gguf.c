/* GGUF from memory: what is read, truncation at every byte, and each refusal with its sentence. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "unit/format/fixture.h"
#include "unit/format/writer.h"

/* Parses the first n_bytes from memory of just that size. */
static ln_status parse_prefix(fixture *f, size_t n_bytes) {
    uint8_t *copy = take_prefix(f, n_bytes);
    ln_status status = ln_gguf_parse(copy, n_bytes, 7, &f->arena, &f->gguf, &f->tensors, &f->err);
    free(copy);
    return status;
}

static ln_status parse(fixture *f) {
    ln_status status = parse_prefix(f, f->file.len);
    ln_strbuf_clear(&f->file);
    return status;
}

static void assert_refused(fixture *f, ln_status status, const char *message) {
    assert_int_equal(parse(f), status);
    assert_string_equal(f->err.message, message);
    assert_true(f->arena.reserved_bytes < 1 << 16);
}

static void write_valid(ln_strbuf *out, uint32_t version) {
    put_gguf(out, version, 2, 16);
    put_text_key(out, "general.architecture", "llama");
    put_key(out, "u8", LN_GGUF_U8, 255);
    put_key(out, "i8", LN_GGUF_I8, 0xff);
    put_key(out, "u16", LN_GGUF_U16, 65535);
    put_key(out, "i16", LN_GGUF_I16, 0xffff);
    put_key(out, "u32", LN_GGUF_U32, UINT32_MAX);
    put_key(out, "i32", LN_GGUF_I32, UINT32_MAX);
    put_key(out, "f32", LN_GGUF_F32, 0x3fc00000);
    put_key(out, "bool", LN_GGUF_BOOL, 1);
    put_key(out, "u64", LN_GGUF_U64, INT64_MAX);
    put_key(out, "u64 huge", LN_GGUF_U64, 1ull << 63);
    put_key(out, "i64", LN_GGUF_I64, UINT64_MAX);
    put_key(out, "f64", LN_GGUF_F64, 0xbff8000000000000);
    put_array_key(out, "tokens", LN_GGUF_STRING, 3);
    put_string(out, "a");
    put_string(out, "");
    put_string(out, "xyz");
    put_array_key(out, "types", LN_GGUF_I32, 2);
    put_u32(out, 1);
    put_u32(out, UINT32_MAX);
    put_array_key(out, "none", LN_GGUF_F32, 0);
    put_tensor(out, "b", 2, (uint64_t[]){64, 3}, 8, 32);
    put_tensor(out, "a", 1, (uint64_t[]){5}, 0, 0);
    pad_to(out, 32);
    put_bytes(out, 32 + (size_t)3 * 2 * 34, 1);
}

static ln_meta_value find(const fixture *f, const char *key) {
    ln_meta_value value;
    assert_true(ln_gguf_find(&f->gguf, key, &value));
    return value;
}

static void assert_integer(const fixture *f, const char *key, int64_t expected) {
    ln_meta_value value = find(f, key);
    assert_int_equal(value.kind, LN_META_INT);
    assert_true(value.integer == expected);
}

static void assert_real(const fixture *f, const char *key, double expected) {
    ln_meta_value value = find(f, key);
    assert_int_equal(value.kind, LN_META_FLOAT);
    assert_true(value.real == expected);
}

static void check_values(const fixture *f) {
    assert_int_equal(f->gguf.n_entries, 16);
    assert_integer(f, "u8", 255);
    assert_integer(f, "i8", -1);
    assert_integer(f, "u16", 65535);
    assert_integer(f, "i16", -1);
    assert_integer(f, "u32", UINT32_MAX);
    assert_integer(f, "i32", -1);
    assert_integer(f, "u64", INT64_MAX);
    assert_integer(f, "i64", -1);
    assert_real(f, "f32", 1.5);
    assert_real(f, "f64", -1.5);
    assert_real(f, "u64 huge", 0x1p63);
    ln_meta_value value = find(f, "bool"), item;
    assert_int_equal(value.kind, LN_META_BOOL);
    assert_true(value.boolean);
    value = find(f, "general.architecture");
    assert_int_equal(value.string.bytes, 5);
    assert_memory_equal(value.string.data, "llama", 5);
    value = find(f, "tokens");
    assert_int_equal(value.kind, LN_META_ARRAY);
    assert_int_equal(value.array.count, 3);
    assert_true(ln_meta_item(&value, 2, &item));
    assert_int_equal(item.kind, LN_META_STRING);
    assert_int_equal(item.string.bytes, 3);
    assert_memory_equal(item.string.data, "xyz", 3);
    assert_true(ln_meta_item(&value, 1, &item));
    assert_int_equal(item.string.bytes, 0);
    assert_false(ln_meta_item(&value, 3, &item));
    assert_false(ln_meta_item(&item, 0, &item));
    value = find(f, "types");
    assert_true(ln_meta_item(&value, 1, &item));
    assert_true(item.integer == -1);
    value = find(f, "none");
    assert_false(ln_meta_item(&value, 0, &item));
    assert_false(ln_gguf_find(&f->gguf, "absent", &value));
}

static void reads_versions_2_and_3(void **state) {
    fixture *f = *state;
    for (uint32_t version = 2; version <= 3; version++) {
        write_valid(&f->file, version);
        size_t n_bytes = f->file.len;
        assert_int_equal(parse(f), LINNET_OK);
        check_values(f);
        assert_int_equal(f->tensors.count, 2);
        const ln_tensor *b = &f->tensors.items[0], *a = &f->tensors.items[1];
        assert_string_equal(b->name, "b");
        assert_int_equal(b->dtype, LN_DTYPE_Q8_0);
        assert_int_equal(b->n_dims, 2);
        assert_int_equal(b->dims[0], 3); /* outermost first */
        assert_int_equal(b->dims[1], 64);
        assert_int_equal(b->n_elems, 192);
        assert_int_equal(b->bytes, 204);
        assert_int_equal(b->file, 7);
        assert_int_equal(b->file_offset + b->bytes, n_bytes);
        assert_int_equal(a->file_offset + 32, b->file_offset);
        assert_int_equal(a->bytes, 20);
    }
}

static void refuses_truncation_at_every_byte(void **state) {
    fixture *f = *state;
    write_valid(&f->file, 3);
    for (size_t n = 0; n < f->file.len; n++) {
        assert_int_equal(parse_prefix(f, n), LINNET_ERR_FORMAT);
        assert_true(f->err.message[0] != '\0');
    }
    assert_int_equal(parse_prefix(f, f->file.len), LINNET_OK);
}

/* Any single byte set to 0xff, or one bit turned: no crash, and an error has a sentence. */
static void survives_every_changed_byte(void **state) {
    fixture *f = *state;
    write_valid(&f->file, 3);
    for (size_t i = 0; i < f->file.len; i++) {
        for (int change = 0; change < 9; change++) {
            char old = f->file.data[i];
            f->file.data[i] = (char)(change == 8 ? 0xff : old ^ 1 << change);
            if (parse_prefix(f, f->file.len) != LINNET_OK)
                assert_true(f->err.message[0] != '\0');
            f->file.data[i] = old;
        }
    }
}

static void opens_without_tensors(void **state) {
    fixture *f = *state;
    put_gguf(&f->file, 3, 0, 1);
    put_text_key(&f->file, "tokenizer.ggml.model", "gpt2");
    assert_int_equal(parse(f), LINNET_OK);
    assert_int_equal(f->tensors.count, 0);
    put_gguf(&f->file, 3, 0, 0);
    assert_int_equal(parse(f), LINNET_OK);
}

static void refuses_bad_headers(void **state) {
    fixture *f = *state;
    ln_strbuf_puts(&f->file, "GGML\3\0\0\0");
    assert_refused(f, LINNET_ERR_FORMAT,
                   "not a GGUF file; a model of Hugging Face is named by its folder");
    put_gguf(&f->file, 1, 0, 0);
    assert_refused(f, LINNET_ERR_UNSUPPORTED, "GGUF version 1 is not supported");
    put_gguf(&f->file, 0x03000000, 0, 0);
    assert_refused(f, LINNET_ERR_UNSUPPORTED, "GGUF version 3 (big-endian) is not supported");
}

static void refuses_huge_counts(void **state) {
    fixture *f = *state;
    const uint64_t counts[] = {1, 1ull << 31, 1ull << 58, INT64_MAX, UINT64_MAX};
    char message[200];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        unsigned long long count = counts[i];
        put_gguf(&f->file, 3, 0, count);
        snprintf(message, sizeof message,
                 "header: %llu keys do not fit in the file (24 bytes; at most 65536 keys)", count);
        assert_refused(f, LINNET_ERR_FORMAT, message);
        put_gguf(&f->file, 3, count, 0);
        snprintf(message, sizeof message,
                 "header: %llu tensors do not fit in the file (24 bytes; at most 1048576 tensors)",
                 count);
        assert_refused(f, LINNET_ERR_FORMAT, message);
        for (uint32_t type = LN_GGUF_U8; type < LN_GGUF_TYPE_COUNT; type++) {
            if (type == LN_GGUF_ARRAY)
                continue;
            put_gguf(&f->file, 3, 0, 1);
            put_array_key(&f->file, "k", type, count);
            assert_int_equal(parse(f), LINNET_ERR_FORMAT);
            size_t item_bytes = type == LN_GGUF_STRING ? 8 : ln_gguf_type_bytes(type);
            if (count > UINT64_MAX / item_bytes)
                snprintf(message, sizeof message, "key k: the size of %llu items overflows", count);
            else
                snprintf(message, sizeof message,
                         "key k: offset 49 + %llu bytes passes the end of the file (49 bytes)",
                         count * item_bytes);
            assert_string_equal(f->err.message, message);
        }
        put_gguf(&f->file, 3, 0, 1);
        put_string(&f->file, "k");
        put_u32(&f->file, LN_GGUF_STRING);
        put_u64(&f->file, count);
        snprintf(message, sizeof message,
                 "key k: offset 45 + %llu bytes passes the end of the file (45 bytes)", count);
        assert_refused(f, LINNET_ERR_FORMAT, message);
    }
}

static void refuses_bad_names(void **state) {
    fixture *f = *state;
    put_gguf(&f->file, 3, 0, 1);
    put_key(&f->file, "", LN_GGUF_U32, 1);
    put_bytes(&f->file, 8, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "key 0: the name is empty");
    put_gguf(&f->file, 3, 0, 1);
    put_u64(&f->file, UINT64_MAX);
    put_bytes(&f->file, 16, 0);
    assert_refused(f, LINNET_ERR_LIMIT,
                   "key 0: a name of 18446744073709551615 bytes passes the limit of 255");
    put_gguf(&f->file, 3, 0, 1);
    put_key(&f->file, "a\xff", LN_GGUF_U32, 1);
    assert_refused(f, LINNET_ERR_FORMAT, "key 0: the name is no UTF-8 text");
    put_gguf(&f->file, 3, 0, 1);
    put_u64(&f->file, 3);
    ln_strbuf_append(&f->file, "a\0b", 3);
    put_bytes(&f->file, 8, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "key 0: the name is no UTF-8 text");
    put_gguf(&f->file, 3, 0, 2);
    put_key(&f->file, "twin", LN_GGUF_U32, 1);
    put_key(&f->file, "twin", LN_GGUF_U32, 2);
    assert_refused(f, LINNET_ERR_FORMAT, "key twin: the key occurs twice");
    put_gguf(&f->file, 3, 1, 0);
    put_tensor(&f->file, "", 1, (uint64_t[]){8}, 0, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "tensor 0: the name is empty");
}

static void refuses_bad_values(void **state) {
    fixture *f = *state;
    put_gguf(&f->file, 3, 0, 1);
    put_key(&f->file, "k", 13, 0);
    put_u64(&f->file, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "key k: unknown value type 13");
    put_gguf(&f->file, 3, 0, 1);
    put_array_key(&f->file, "k", UINT32_MAX, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "key k: array of the unknown type 4294967295");
    put_gguf(&f->file, 3, 0, 1);
    put_array_key(&f->file, "k", LN_GGUF_ARRAY, 1);
    assert_refused(f, LINNET_ERR_UNSUPPORTED, "key k: arrays of arrays are not supported");
    put_gguf(&f->file, 3, 0, 1);
    put_key(&f->file, "k", LN_GGUF_BOOL, 2);
    assert_refused(f, LINNET_ERR_FORMAT, "key k: a bool is neither 0 nor 1");
    put_gguf(&f->file, 3, 0, 1);
    put_array_key(&f->file, "k", LN_GGUF_BOOL, 2);
    put_bytes(&f->file, 2, 1);
    f->file.data[f->file.len - 1] = 3;
    assert_refused(f, LINNET_ERR_FORMAT, "key k: a bool is neither 0 nor 1");
    put_gguf(&f->file, 3, 0, 1);
    put_array_key(&f->file, "k", LN_GGUF_STRING, 2);
    put_string(&f->file, "a");
    put_u64(&f->file, 1ull << 58);
    assert_refused(f, LINNET_ERR_FORMAT,
                   "key k: offset 66 + 288230376151711744 bytes passes the end of the file (66 "
                   "bytes)");
}

static void refuses_bad_alignments(void **state) {
    fixture *f = *state;
    const uint32_t alignments[] = {0, 3, 4, 33, UINT32_MAX};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        char message[100];
        put_gguf(&f->file, 3, 0, 1);
        put_key(&f->file, "general.alignment", LN_GGUF_U32, alignments[i]);
        snprintf(message, sizeof message,
                 "key general.alignment: %u is no power of two of at least 8", alignments[i]);
        assert_refused(f, LINNET_ERR_FORMAT, message);
    }
    put_gguf(&f->file, 3, 0, 1);
    put_text_key(&f->file, "general.alignment", "32");
    assert_refused(f, LINNET_ERR_FORMAT, "key general.alignment: its type is not u32");
    put_gguf(&f->file, 3, 0, 1);
    put_key(&f->file, "general.alignment", LN_GGUF_U64, 32);
    assert_refused(f, LINNET_ERR_FORMAT, "key general.alignment: its type is not u32");
}

static void follows_the_alignment(void **state) {
    fixture *f = *state;
    put_gguf(&f->file, 3, 1, 1);
    put_key(&f->file, "general.alignment", LN_GGUF_U32, 256);
    put_tensor(&f->file, "t", 1, (uint64_t[]){1}, 0, 256);
    pad_to(&f->file, 256);
    put_bytes(&f->file, 260, 1);
    assert_int_equal(parse(f), LINNET_OK);
    assert_int_equal(f->tensors.items[0].file_offset, 512);
    put_gguf(&f->file, 3, 1, 1);
    put_key(&f->file, "general.alignment", LN_GGUF_U32, 1u << 31);
    put_tensor(&f->file, "t", 1, (uint64_t[]){1}, 0, 0);
    pad_to(&f->file, 256);
    assert_refused(f, LINNET_ERR_FORMAT,
                   "tensor t: offset 2147483648 + 4 bytes passes the end of the file (256 bytes)");
}

/* One tensor "t", then 64 bytes of data from offset 96. */
static void put_one(fixture *f, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                    uint64_t offset) {
    put_gguf(&f->file, 3, 1, 0);
    put_tensor(&f->file, "t", n_dims, dims, type, offset);
    pad_to(&f->file, 96);
    put_bytes(&f->file, 64, 1);
}

static void refuses_bad_shapes(void **state) {
    fixture *f = *state;
    put_one(f, 2, (uint64_t[]){4, 0}, 0, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "tensor t: dimension 0 is 0");
    put_one(f, 5, (uint64_t[]){1, 1, 1, 1, 1}, 0, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "tensor t: 5 dimensions, more than 4");
    put_one(f, 1, (uint64_t[]){16}, 8, 0);
    assert_refused(f, LINNET_ERR_FORMAT,
                   "tensor t: rows of 16 elements are no multiple of the Q8_0 block of 32");
    put_one(f, 1, (uint64_t[]){16}, 4, 0);
    assert_refused(f, LINNET_ERR_UNSUPPORTED, "tensor t: unknown type 4");
    put_one(f, 2, (uint64_t[]){1ull << 31, 1ull << 33}, 0, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "tensor t: the number of elements overflows");
    put_one(f, 2, (uint64_t[]){1ull << 58, 64}, 0, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "tensor t: the number of elements overflows");
    put_one(f, 1, (uint64_t[]){INT64_MAX}, 0, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "tensor t: its size in bytes overflows");
    put_one(f, 1, (uint64_t[]){1ull << 58}, 0, 0);
    assert_refused(f, LINNET_ERR_FORMAT,
                   "tensor t: offset 64 + 1152921504606846976 bytes passes the end of the file "
                   "(160 bytes)");
}

static void refuses_bad_offsets(void **state) {
    fixture *f = *state;
    const uint64_t dims[] = {8};
    put_one(f, 1, dims, 0, 1);
    assert_refused(f, LINNET_ERR_FORMAT, "tensor t: offset 1 is no multiple of the alignment 32");
    put_one(f, 1, dims, 0, 96);
    assert_refused(f, LINNET_ERR_FORMAT,
                   "tensor t: offset 160 + 32 bytes passes the end of the file (160 bytes)");
    put_one(f, 1, dims, 0, UINT64_MAX - 31);
    assert_refused(f, LINNET_ERR_FORMAT,
                   "tensor t: offset 18446744073709551584 + 32 bytes overflows");
    put_one(f, 1, dims, 0, 1ull << 62);
    assert_refused(f, LINNET_ERR_FORMAT,
                   "tensor t: offset 4611686018427387968 + 32 bytes passes the end of the file "
                   "(160 bytes)");
    put_gguf(&f->file, 3, 2, 0);
    put_tensor(&f->file, "late", 1, (uint64_t[]){8}, 0, 32);
    put_tensor(&f->file, "wide", 1, (uint64_t[]){9}, 0, 0);
    pad_to(&f->file, 32);
    put_bytes(&f->file, 64, 1);
    assert_refused(f, LINNET_ERR_FORMAT, "tensor late: its bytes overlap those of wide");
    put_gguf(&f->file, 3, 2, 0);
    put_tensor(&f->file, "one", 1, (uint64_t[]){8}, 0, 0);
    put_tensor(&f->file, "two", 1, (uint64_t[]){8}, 0, 0);
    pad_to(&f->file, 32);
    put_bytes(&f->file, 64, 1);
    assert_int_equal(parse(f), LINNET_ERR_FORMAT);
    assert_non_null(strstr(f->err.message, "overlap"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(reads_versions_2_and_3),      TEST(refuses_truncation_at_every_byte),
        TEST(survives_every_changed_byte), TEST(opens_without_tensors),
        TEST(refuses_bad_headers),         TEST(refuses_huge_counts),
        TEST(refuses_bad_names),           TEST(refuses_bad_values),
        TEST(refuses_bad_alignments),      TEST(follows_the_alignment),
        TEST(refuses_bad_shapes),          TEST(refuses_bad_offsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
