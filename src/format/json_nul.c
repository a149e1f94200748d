#include "format/json_nul.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/load.h"
#include "base/utf8.h"

static const char nul_escape[] = "\\u0000";

/* Whether the backslash at `at` begins an escape, that is, is not escaped itself. */
static bool begins_escape(const char *bytes, size_t at) {
    size_t n = 0;
    while (n < at && bytes[at - 1 - n] == '\\')
        n++;
    return n % 2 == 0;
}

/* Copies the file with the escapes replaced; nothing is done when there are none. */
static ln_status replace_nuls(const char *bytes, size_t n_bytes, ln_strbuf *out,
                              ln_nul_stand_in *stand_in, ln_error *err) {
    enum { ESCAPE_BYTES = 6, FIRST_PRIVATE = 0xf0000, LAST_PRIVATE = 0xffffd };
    *stand_in = (ln_nul_stand_in){0};
    if (memmem(bytes, n_bytes, nul_escape, ESCAPE_BYTES) == NULL)
        return LINNET_OK;
    for (uint32_t c = FIRST_PRIVATE; c <= LAST_PRIVATE && stand_in->code_point == 0; c += 257) {
        size_t n = ln_utf8_encode(c, stand_in->text);
        if (memmem(bytes, n_bytes, stand_in->text, n) == NULL) {
            stand_in->code_point = c;
            stand_in->n_bytes = n;
        }
    }
    size_t at = 0;
    for (size_t from = 0;;) {
        const char *hit = memmem(bytes + from, n_bytes - from, nul_escape, ESCAPE_BYTES);
        if (hit == NULL || stand_in->code_point == 0)
            break;
        size_t begin = (size_t)(hit - bytes);
        from = begin + 1;
        if (!begins_escape(bytes, begin))
            continue;
        ln_strbuf_append(out, bytes + at, begin - at);
        ln_strbuf_append(out, stand_in->text, stand_in->n_bytes);
        at = from = begin + ESCAPE_BYTES;
    }
    ln_strbuf_append(out, bytes + at, n_bytes - at);
    return out->failed ? ln_fail_memory(err, "the tokenizer") : LINNET_OK;
}

/* Puts U+0000 back in place; returns the length. */
static size_t restore_nuls(char *text, size_t n_bytes, const ln_nul_stand_in *stand_in) {
    size_t to = 0;
    for (size_t at = 0; at < n_bytes;) {
        if (n_bytes - at >= stand_in->n_bytes &&
            memcmp(text + at, stand_in->text, stand_in->n_bytes) == 0) {
            text[to++] = '\0';
            at += stand_in->n_bytes;
        } else {
            text[to++] = text[at++];
        }
    }
    return to;
}

static ln_status restore_value(json_t *value, const ln_nul_stand_in *stand_in, ln_error *err) {
    json_t *item;
    size_t i;
    const char *key;
    json_array_foreach(value, i, item) LN_TRY(restore_value(item, stand_in, err));
    if (json_is_object(value))
        json_object_foreach(value, key, item) LN_TRY(restore_value(item, stand_in, err));
    size_t n = json_string_length(value);
    if (!json_is_string(value) ||
        memmem(json_string_value(value), n, stand_in->text, stand_in->n_bytes) == NULL)
        return LINNET_OK;
    char *text = malloc(n + 1);
    if (text == NULL)
        return ln_fail_memory(err, "the tokenizer");
    memcpy(text, json_string_value(value), n);
    int failed = json_string_setn(value, text, restore_nuls(text, n, stand_in));
    free(text);
    return failed ? ln_fail_memory(err, "the tokenizer") : LINNET_OK;
}

ln_status ln_json_load(const char *bytes, size_t n_bytes, json_t **root, ln_nul_stand_in *stand_in,
                       ln_error *err) {
    json_error_t json_err;
    ln_strbuf replaced;
    ln_strbuf_init(&replaced);
    *root = NULL;
    ln_status status = replace_nuls(bytes, n_bytes, &replaced, stand_in, err);
    bool has_nuls = stand_in->code_point != 0;
    if (status == LINNET_OK)
        *root = ln_json_load_bytes(has_nuls ? replaced.data : bytes,
                                   has_nuls ? replaced.len : n_bytes, JSON_ALLOW_NUL, &json_err);
    ln_strbuf_free(&replaced);
    if (status == LINNET_OK && *root == NULL)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s at byte %d", json_err.text, json_err.position);
    if (status == LINNET_OK && has_nuls)
        status = restore_value(*root, stand_in, err);
    if (status != LINNET_OK) {
        json_decref(*root);
        *root = NULL;
    }
    return status;
}

const char *ln_json_key(const char *key, const ln_nul_stand_in *stand_in, ln_strbuf *scratch,
                        size_t *n_bytes) {
    *n_bytes = strlen(key);
    if (stand_in->code_point == 0 ||
        memmem(key, *n_bytes, stand_in->text, stand_in->n_bytes) == NULL)
        return key;
    ln_strbuf_clear(scratch);
    if (!ln_strbuf_append(scratch, key, *n_bytes))
        return NULL;
    *n_bytes = restore_nuls(scratch->data, *n_bytes, stand_in);
    return scratch->data;
}
