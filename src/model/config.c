#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/locale/number.h"

enum { NAME_BYTES = 128 };

/* Whether this key is there; what the reference's config class takes does not count. */
static bool has_key(const ln_config *config, const char *key) {
    ln_meta_value value;
    ln_config own = *config;
    own.class_defaults = NULL;
    return ln_config_find(&own, (ln_key){key, ""}, &value, NULL);
}

/* A default as text: a number, true, false, or a name. */
static void read_default(const char *text, size_t n_bytes, ln_meta_value *value) {
    char number[32], *end;
    *value = (ln_meta_value){.kind = LN_META_STRING, .string = {text, n_bytes}};
    if (ln_list_has("true|false", text, n_bytes))
        *value = (ln_meta_value){.kind = LN_META_BOOL, .boolean = text[0] == 't'};
    if (n_bytes >= sizeof number || n_bytes == 0)
        return;
    memcpy(number, text, n_bytes);
    number[n_bytes] = '\0';
    double real = ln_strtod(number, &end);
    if (*end != '\0')
        return;
    *value = (ln_meta_value){.kind = LN_META_FLOAT, .real = real};
    if (real == floor(real))
        *value = (ln_meta_value){.kind = LN_META_INT, .integer = (int64_t)real};
}

/* Whether a key is there that a row's value, up to `text`, gives way to: "... unless key". */
static bool gives_way(const ln_config *config, const char *text, const char *end) {
    static const char word[] = " unless ";
    char key[NAME_BYTES];
    size_t n_word = sizeof word - 1;
    while ((size_t)(end - text) > n_word && memcmp(text, word, n_word) == 0) {
        size_t n_key = strcspn(text + n_word, " |");
        snprintf(key, sizeof key, "%.*s", (int)n_key, text + n_word);
        if (has_key(config, key))
            return true;
        text += n_word + n_key;
    }
    return false;
}

/* The value of one of `names` in rows of defaults, where the file does not hold that key, not even
 * as null. *is_named: whether a row is about one of them. */
static bool find_row(const ln_config *config, const char *rows, const char *names,
                     ln_meta_value *value, bool *is_named) {
    char key[NAME_BYTES];
    *is_named = false;
    for (const char *end; rows != NULL && *rows != '\0'; rows = end + (*end == '|')) {
        end = rows + strcspn(rows, "|");
        size_t n_type = strcspn(rows, ":=|"), n_key;
        if (rows[n_type] == ':') {
            if (strlen(config->arch) != n_type || memcmp(rows, config->arch, n_type) != 0)
                continue;
            rows += n_type + 1;
        }
        n_key = strcspn(rows, "=|");
        if (rows + n_key == end || !ln_list_has(names, rows, n_key))
            continue;
        *is_named = true;
        snprintf(key, sizeof key, "%.*s", (int)n_key, rows);
        const char *text = rows + n_key + 1;
        size_t n_text = strcspn(text, " |");
        if (ln_checkpoint_meta_is_null(config->checkpoint, key) ||
            gives_way(config, text + n_text, end))
            continue;
        read_default(text, n_text, value);
        return true;
    }
    return false;
}

static bool find_default(const ln_config *config, ln_key key, ln_meta_value *value) {
    bool is_named;
    if (config->is_gguf)
        return find_row(config, config->defaults, key.gguf, value, &is_named);
    return find_row(config, config->defaults, key.hf, value, &is_named) ||
           (!is_named && find_row(config, config->class_defaults, key.hf, value, &is_named));
}

/* What per_layer_config has for this layer, whose number may have zeros before it. */
static bool find_override(const ln_config *config, const char *names, ln_meta_value *value,
                          char name[NAME_BYTES]) {
    for (; *names != '\0'; names += names[0] == '|') {
        int length = (int)strcspn(names, "|");
        for (int width = 1; width <= 4; width++) {
            snprintf(name, NAME_BYTES, "%sper_layer_config.%0*zu.%.*s", config->nest, width,
                     config->layer, length, names);
            if (ln_checkpoint_meta(config->checkpoint, name, value) && value->kind != LN_META_NULL)
                return true;
        }
        names += length;
    }
    return false;
}

bool ln_config_find(const ln_config *config, ln_key key, ln_meta_value *value,
                    char name[NAME_BYTES]) {
    char buffer[NAME_BYTES];
    if (name == NULL)
        name = buffer;
    const char *names = config->is_gguf ? key.gguf : key.hf;
    if (config->by_layer && !config->is_gguf && find_override(config, names, value, name))
        return true;
    snprintf(name, NAME_BYTES, "%s", names);
    while (*names != '\0') {
        int length = (int)strcspn(names, "|");
        if (config->is_gguf)
            snprintf(name, NAME_BYTES, "%s.%.*s", config->arch, length, names);
        else
            snprintf(name, NAME_BYTES, "%s%.*s", config->nest, length, names);
        if (ln_checkpoint_meta(config->checkpoint, name, value) && value->kind != LN_META_NULL)
            return true;
        names += length + (names[length] == '|');
    }
    return find_default(config, key, value);
}

bool ln_config_entry(const ln_meta_value *list, size_t index, ln_meta_value *entry) {
    if (list->kind != LN_META_STRING)
        return ln_meta_item(list, index, entry);
    const char *text = list->string.data, *end = text + list->string.bytes, *word = text;
    for (size_t i = 0; i < index; i++) {
        const char *comma = memchr(word, ',', (size_t)(end - word));
        word = comma != NULL ? comma + 1 : text;
    }
    const char *comma = memchr(word, ',', (size_t)(end - word));
    *entry = (ln_meta_value){
        .kind = LN_META_STRING,
        .string = {word, (size_t)((comma != NULL ? comma : end) - word)},
    };
    return true;
}

static ln_status wrong(const ln_config *config, const char *name, const char *what, ln_error *err) {
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s %s", ln_checkpoint_path(config->checkpoint),
                   name, what);
}

ln_status ln_config_size(const ln_config *config, ln_key key, size_t min, size_t max, size_t *out,
                         ln_error *err) {
    ln_meta_value value;
    char name[NAME_BYTES], what[96];
    if (!ln_config_find(config, key, &value, name))
        return LINNET_OK;
    /* GGUF gives one value, or one per layer where all must agree */
    if (value.kind == LN_META_ARRAY) {
        ln_meta_value list = value, item;
        if (config->n_layers == 0)
            return wrong(config, name, "is a list", err);
        if (!config->by_layer && list.array.count < config->n_layers)
            return wrong(config, name, "lists fewer values than there are layers", err);
        if (!ln_meta_item(&list, config->by_layer ? config->layer : 0, &value))
            return wrong(config, name,
                         config->by_layer ? "has no entry for a layer" : "is an empty list", err);
        for (size_t i = 1; !config->by_layer && ln_meta_item(&list, i, &item); i++)
            if (item.kind != value.kind || item.integer != value.integer)
                return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                               "%s: key %s differs from layer to layer",
                               ln_checkpoint_path(config->checkpoint), name);
    }
    if (value.kind != LN_META_INT)
        return wrong(config, name, "is not a whole number", err);
    if (value.integer < 0 || (uint64_t)value.integer < min || (uint64_t)value.integer > max) {
        snprintf(what, sizeof what, "is %lld, outside %zu to %zu", (long long)value.integer, min,
                 max);
        return wrong(config, name, what, err);
    }
    *out = (size_t)value.integer;
    return LINNET_OK;
}

ln_status ln_config_need_size(const ln_config *config, ln_key key, size_t min, size_t max,
                              size_t *out, ln_error *err) {
    ln_meta_value value;
    char names[2 * NAME_BYTES]; /* all that it may have */
    ln_config strict = *config; /* a size of a model that nothing wraps is always written */
    if (*config->nest == '\0')
        strict.class_defaults = NULL;
    if (ln_config_find(&strict, key, &value, NULL))
        return ln_config_size(config, key, min, max, out, err);
    if (config->is_gguf)
        snprintf(names, sizeof names, "%s.%s", config->arch, key.gguf);
    else
        snprintf(names, sizeof names, "%s%s", config->nest, key.hf);
    return wrong(config, names, "is missing", err);
}

ln_status ln_config_real(const ln_config *config, ln_key key, double min, double max, double *out,
                         ln_error *err) {
    ln_meta_value value;
    char name[NAME_BYTES], what[96];
    if (!ln_config_find(config, key, &value, name))
        return LINNET_OK;
    double number;
    ln_meta_value list = value;
    if (config->by_layer && list.kind == LN_META_ARRAY &&
        !ln_meta_item(&list, config->layer, &value))
        return wrong(config, name, "has no entry for a layer", err);
    if (value.kind == LN_META_INT)
        number = (double)value.integer;
    else if (value.kind == LN_META_FLOAT)
        number = value.real;
    else
        return wrong(config, name, "is not a number", err);
    if (!isfinite(number) || number < min || number > max) {
        snprintf(what, sizeof what, "is %g, outside %g to %g", number, min, max);
        return wrong(config, name, what, err);
    }
    *out = number;
    return LINNET_OK;
}

ln_status ln_config_flag(const ln_config *config, ln_key key, bool *out, ln_error *err) {
    ln_meta_value value;
    char name[NAME_BYTES];
    if (!ln_config_find(config, key, &value, name))
        return LINNET_OK;
    if (value.kind != LN_META_BOOL)
        return wrong(config, name, "is not true or false", err);
    *out = value.boolean;
    return LINNET_OK;
}

ln_status ln_config_list(const ln_config *config, ln_key key, ln_meta_value *list, bool *is_there,
                         ln_error *err) {
    char name[NAME_BYTES];
    *is_there = ln_config_find(config, key, list, name);
    if (*is_there && list->kind != LN_META_ARRAY)
        return wrong(config, name, "is no list", err);
    return LINNET_OK;
}

ln_status ln_config_lists(const ln_config *config, ln_key key, size_t number, bool *is_there,
                          bool *has, ln_error *err) {
    ln_meta_value list, item;
    *has = false;
    LN_TRY(ln_config_list(config, key, &list, is_there, err));
    for (size_t i = 0; *is_there && ln_meta_item(&list, i, &item); i++)
        *has |= item.kind == LN_META_INT && item.integer == (int64_t)number;
    return LINNET_OK;
}

bool ln_config_is(const ln_config *config, ln_key key, const char *text) {
    ln_meta_value value;
    return ln_config_find(config, key, &value, NULL) && value.kind == LN_META_STRING &&
           value.string.bytes == strlen(text) &&
           memcmp(value.string.data, text, value.string.bytes) == 0;
}

bool ln_list_has(const char *list, const char *word, size_t n_bytes) {
    while (*list != '\0') {
        size_t length = strcspn(list, "|");
        if (length == n_bytes && memcmp(list, word, length) == 0)
            return true;
        list += length + (list[length] == '|');
    }
    return false;
}
