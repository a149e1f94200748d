/* GGUF files as other converters write them give the logits of those that linnet writes: queries,
 * keys and values, or experts' gates and up-projections, may be joined, and keys that one
 * architecture alone would need are left out. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/spawn.h"
#include "format/checkpoint.h"
#include "format/gguf_write.h"
#include "test.h"

enum { MAX_PARTS = 3, NAME_BYTES = 256 };

/* Which tensors become one, in their order. */
static const struct {
    const char *parts[MAX_PARTS], *joined;
} joins[] = {{{".attn_q.", ".attn_k.", ".attn_v."}, ".attn_qkv."},
             {{".ffn_gate_exps.", ".ffn_up_exps.", NULL}, ".ffn_gate_up_exps."}};

/* A tensor that is written: one of the file, or several of it. */
typedef struct piece {
    char name[NAME_BYTES];
    const ln_tensor *parts[MAX_PARTS];
    size_t n_parts, n_runs; /* parts lie one after another in each of n_runs (experts) */
} piece;

static char *folder;
static size_t n_joined;

static const ln_tensor *sibling(const ln_checkpoint *checkpoint, const char *name, const char *from,
                                const char *to, char other[NAME_BYTES]) {
    const char *at = strstr(name, from);
    snprintf(other, NAME_BYTES, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
    return ln_checkpoint_find(checkpoint, other);
}

/* What becomes of a tensor; false: it is part of an earlier one. */
static bool piece_of(const ln_checkpoint *checkpoint, const ln_tensor *tensor, piece *out) {
    *out = (piece){.parts = {tensor}, .n_parts = 1, .n_runs = 1};
    snprintf(out->name, sizeof out->name, "%s", tensor->name);
    for (size_t i = 0; i < 2; i++) {
        char other[NAME_BYTES];
        size_t n = 0, which = MAX_PARTS;
        const ln_tensor *parts[MAX_PARTS] = {0};
        for (size_t j = 0; j < MAX_PARTS && joins[i].parts[j] != NULL; j++, n++)
            if (strstr(tensor->name, joins[i].parts[j]) != NULL)
                which = j;
        bool all = which < MAX_PARTS;
        for (size_t j = 0; all && j < n; j++) {
            parts[j] =
                sibling(checkpoint, tensor->name, joins[i].parts[which], joins[i].parts[j], other);
            all = parts[j] != NULL && parts[j]->dtype == tensor->dtype;
        }
        if (!all)
            continue;
        memcpy(out->parts, parts, sizeof parts);
        out->n_parts = n;
        out->n_runs = i == 1 ? (size_t)tensor->dims[0] : 1;
        sibling(checkpoint, tensor->name, joins[i].parts[which], joins[i].joined, out->name);
        return which == 0;
    }
    return true;
}

static void add_piece(ln_gguf_writer *writer, const piece *p) {
    const ln_tensor *first = p->parts[0];
    uint64_t dims[LN_MAX_DIMS];
    size_t rows = p->n_runs > 1 ? 1 : 0; /* the dimension in which they are joined */
    memcpy(dims, first->dims, sizeof dims);
    for (size_t i = 1; i < p->n_parts; i++)
        dims[rows] += p->parts[i]->dims[rows];
    assert_int_equal(ln_gguf_add_tensor(writer, p->name, first->dtype, first->n_dims, dims, NULL),
                     LINNET_OK);
}

static void write_piece(const ln_gguf_writer *writer, size_t index, const piece *p) {
    size_t at = 0;
    for (size_t run = 0; run < p->n_runs; run++)
        for (size_t i = 0; i < p->n_parts; i++) {
            size_t n = p->parts[i]->bytes / p->n_runs;
            assert_int_equal(
                ln_gguf_write_tensor(writer, index, at, p->parts[i]->data + run * n, n, NULL),
                LINNET_OK);
            at += n;
        }
}

static const char *left_out; /* a key */

static bool is_left_out(const char *key, size_t n_bytes) {
    return n_bytes == strlen(left_out) && memcmp(key, left_out, n_bytes) == 0;
}

/* Copies a file, joining what can be and leaving a key out. */
static void join(const char *from, const char *to) {
    ln_checkpoint *checkpoint;
    ln_gguf_writer writer;
    ln_strbuf bytes;
    piece p;
    size_t index = 0;
    ln_strbuf_init(&bytes);
    ln_gguf_writer_init(&writer);
    assert_int_equal(ln_file_read(from, 1 << 26, &bytes, NULL), LINNET_OK);
    assert_int_equal(ln_checkpoint_open(from, false, &checkpoint, NULL), LINNET_OK);
    assert_int_equal(
        ln_gguf_copy_meta(&writer, (const uint8_t *)bytes.data, bytes.len, is_left_out, NULL),
        LINNET_OK);
    n_joined = 0;
    for (size_t i = 0; i < ln_checkpoint_tensor_count(checkpoint); i++)
        if (piece_of(checkpoint, ln_checkpoint_tensor(checkpoint, i), &p)) {
            add_piece(&writer, &p);
            n_joined += p.n_parts > 1;
        }
    assert_int_equal(ln_gguf_write_begin(&writer, to, NULL), LINNET_OK);
    for (size_t i = 0; i < ln_checkpoint_tensor_count(checkpoint); i++)
        if (piece_of(checkpoint, ln_checkpoint_tensor(checkpoint, i), &p))
            write_piece(&writer, index++, &p);
    assert_int_equal(ln_gguf_write_end(&writer, NULL), LINNET_OK);
    ln_gguf_writer_free(&writer);
    ln_checkpoint_close(checkpoint);
    ln_strbuf_free(&bytes);
}

static char *logits_of(const char *model, size_t *n_bytes) {
    const char *out = path_in(folder, "logits.bin");
    spawn_result result =
        LINNET("logits", model, "--ids", "5,9,3,44,12,7,31", "--out", out, "--precision", "exact");
    if (result.status != 0)
        fail_msg("%s: %s", model, result.err);
    spawn_free(&result);
    return read_file(out, n_bytes);
}

/* Whether the copy of a golden's GGUF file gives the same logits. */
static void check_copy(const char *golden, const char *key) {
    char from[512], written[512], copied[512];
    size_t n_written, n_copied;
    snprintf(from, sizeof from, "%s/tests/golden/models/%s", TEST_SOURCE_DIR, golden);
    snprintf(written, sizeof written, "%s/written.gguf", folder);
    snprintf(copied, sizeof copied, "%s/copied.gguf", folder);
    spawn_result result = LINNET("convert", from, written, "--no-tokenizer");
    assert_int_equal(result.status, 0);
    spawn_free(&result);
    left_out = key;
    join(written, copied);
    char *a = logits_of(written, &n_written), *b = logits_of(copied, &n_copied);
    assert_int_equal(n_written, n_copied);
    if (memcmp(a, b, n_written) != 0)
        fail_msg("%s: other logits", golden);
    free(a);
    free(b);
}

static void joined_tensors_are_read(void **state) {
    (void)state;
    /* biases; heads of a gate among the queries, and experts; the delta rule's own q, k and v */
    static const char *const goldens[] = {"llama", "qwen2", "qwen3_5_moe", "kimi_linear"};
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        check_copy(goldens[i], "");
        assert_true(n_joined > 1);
    }
}

static void missing_keys_are_known(void **state) {
    (void)state;
    check_copy("glm4_moe_lite", "deepseek2.expert_gating_func");
    check_copy("gpt_oss", "gpt-oss.rope.scaling.yarn_truncate");
}

static int make_folder(void **state) {
    (void)state;
    folder = temp_create();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    temp_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(joined_tensors_are_read),
                                       cmocka_unit_test(missing_keys_are_known)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
