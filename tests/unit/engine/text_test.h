/* Golden checkpoints beside a tokenizer made here: id 3 + b is byte b, and 0, 1, 2 are control
 * tokens. */
#ifndef LN_TESTS_UNIT_ENGINE_TEXT_TEST_H
#define LN_TESTS_UNIT_ENGINE_TEXT_TEST_H

#include "engine_test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "model/model.h"

enum { FIRST_BYTE_ID = 3 };

typedef struct text_folder {
    char path[64];
} text_folder;

static inline void text_folder_path(const text_folder *f, char path[256], const char *name) {
    snprintf(path, 256, "%s/%s", f->path, name);
}

/* Writes `value`, which it takes. */
static inline void text_folder_write(const text_folder *f, const char *name, json_t *value) {
    char path[256];
    text_folder_path(f, path, name);
    assert_int_equal(json_dump_file(value, path, 0), 0);
    json_decref(value);
}

static inline void text_folder_write_tokenizer(const text_folder *f) {
    static const char *const control[] = {"<s>", "<|im_start|>", "<|im_end|>"};
    json_t *vocab = json_object(), *added = json_array();
    for (unsigned byte = 0; byte < 253; byte++) {
        char piece[5] = {0};
        ln_utf8_encode(ln_byte_to_char((unsigned char)byte), piece);
        json_object_set_new(vocab, piece, json_integer(FIRST_BYTE_ID + byte));
    }
    for (int id = 0; id < FIRST_BYTE_ID; id++) {
        json_object_set_new(vocab, control[id], json_integer(id));
        json_array_append_new(added, json_pack("{s:i,s:s,s:b,s:b,s:b,s:b,s:b}", "id", id, "content",
                                               control[id], "single_word", 0, "lstrip", 0, "rstrip",
                                               0, "normalized", 0, "special", 1));
    }
    text_folder_write(f, "tokenizer.json",
                      json_pack("{s:s,s:o,s:n,s:{s:s,s:b,s:b,s:b},s:n,s:{s:s,s:b,s:b,s:b},"
                                "s:{s:s,s:o,s:[]}}",
                                "version", "1.0", "added_tokens", added, "normalizer",
                                "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0,
                                "trim_offsets", 0, "use_regex", 0, "post_processor", "decoder",
                                "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 0,
                                "use_regex", 0, "model", "type", "BPE", "vocab", vocab, "merges"));
}

/* A file of a golden checkpoint. */
static inline void text_folder_link(const text_folder *f, const char *name, const char *file) {
    char from[1024], to[256];
    snprintf(from, sizeof from, "%s/tests/golden/models/%s/%s", TEST_SOURCE_DIR, name, file);
    text_folder_path(f, to, file);
    assert_int_equal(symlink(from, to), 0);
}

/* The files of a golden checkpoint, and a tokenizer. */
static inline void text_folder_make(text_folder *f, const char *name) {
    strcpy(f->path, "/tmp/linnet-text-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    text_folder_link(f, name, "config.json");
    text_folder_link(f, name, "model.safetensors");
    text_folder_write_tokenizer(f);
}

static inline linnet_model *text_folder_open(const text_folder *f) {
    linnet_model *model;
    linnet_error err = {0};
    if (linnet_model_open(f->path, &model, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    return model;
}

static inline void text_folder_remove(const text_folder *f) {
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json", "generation_config.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256];
        text_folder_path(f, path, files[i]);
        unlink(path);
    }
    rmdir(f->path);
}

#endif
