#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/locale/number.h"

enum { NAME_BYTES = 128 };

/* Whether one of these keys is there; what the reference's config class takes does not count. */
static bool has_any(const ln_config *config, const char *names) {
    ln_meta_value value;
    ln_config own = *config;
    own.class_defaults = NULL;
    return names != NULL && ln_config_find(&own, (ln_key){names, ""}, &value, NULL);
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

/* The same of the reference's config class. */
static bool find_class_default(const ln_config *config, const char *names, ln_meta_value *value) {
    const char *row = config->is_gguf ? NULL : config->class_defaults;
    char key[NAME_BYTES];
    while (row != NULL && *row != '\0') {
        size_t n_key = strcspn(row, "="), n = strcspn(row, "|");
        snprintf(key, sizeof key, "%.*s", (int)n_key, row);
        if (ln_list_has(names, key, n_key) &&
            !ln_checkpoint_meta_is_null(config->checkpoint, key)) {
            read_default(row + n_key + 1, n - n_key - 1, value);
            return true;
        }
        row += n + (row[n] == '|');
    }
    return false;
}

/* The default of one of `names`, where the file does not hold that key, not even as null. */
static bool find_default(const ln_config *config, const char *names, ln_meta_value *value) {
    const ln_config_default *known = config->is_gguf ? NULL : config->defaults;
    bool is_named = false;
    for (; known != NULL && known->key != NULL; known++) {
        if (!ln_list_has(names, known->key, strlen(known->key)) ||
            (known->type != NULL && strcmp(known->type, config->arch) != 0))
            continue;
        is_named = true;
        if (ln_checkpoint_meta_is_null(config->checkpoint, known->key) ||
            has_any(config, known->unless))
            continue;
        if (known->text != NULL) {
            *value = (ln_meta_value){.kind = LN_META_STRING,
                                     .string = {known->text, strlen(known->text)}};
            return true;
        }
        bool whole = known->value == floor(known->value);
        *value = (ln_meta_value){.kind = known->is_flag ? LN_META_BOOL
                                         : whole        ? LN_META_INT
                                                        : LN_META_FLOAT};
        if (known->is_flag)
            value->boolean = known->value != 0;
        else if (whole)
            value->integer = (int64_t)known->value;
        else
            value->real = known->value;
        return true;
    }
    return !is_named && find_class_default(config, names, value);
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
    return find_default(config, key.hf, value);
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
    char name[NAME_BYTES];
    ln_config strict = *config; /* a size of a model that nothing wraps is always written */
    if (*config->nest == '\0')
        strict.class_defaults = NULL;
    if (!ln_config_find(&strict, key, &value, name))
        return wrong(config, name, "is missing", err);
    return ln_config_size(config, key, min, max, out, err);
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
