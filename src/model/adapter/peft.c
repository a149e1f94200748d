/* Folders of PEFT: adapter_config.json says what the tensors mean, and much that a session of
 * training alone needs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json/value.h"
#include "model/adapter/file.h"
#include "text/regex/regex.h"

static const char PREFIX[] = "base_model.model.";

static ln_status bad_key(const ln_adapter_file *file, const char *key, ln_error *err) {
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s of adapter_config.json has no such value",
                   file->path, key);
}

/* ---- what cannot be honoured --------------------------------------------------------------- */

/* Whether a value says something: not null, false, "", 0, nor empty. */
static bool says_something(const json_t *value) {
    if (value == NULL || json_is_null(value) || json_is_false(value))
        return false;
    if (json_is_string(value))
        return json_string_length(value) > 0;
    if (json_is_array(value))
        return json_array_size(value) > 0;
    return !json_is_object(value) || json_object_size(value) > 0;
}

/* Ways to begin training that change the model's own matrices. */
static bool changes_model(const json_t *begin) {
    static const char *const words[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const char *text = json_string_value(begin);
    bool any = false;
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++)
        any |= strncmp(text, words[i], strlen(words[i])) == 0;
    return any;
}

static ln_status refuse(const ln_adapter_file *file, ln_error *err) {
    static const char *const keys[] = {"modules_to_save",
                                       "lora_bias",
                                       "layer_replication",
                                       "use_qalora",
                                       "use_bdlora",
                                       "alora_invocation_tokens",
                                       "trainable_token_indices",
                                       "ensure_weight_tying",
                                       "arrow_config",
                                       "kasa_config",
                                       "monteclora_config"};
    const json_t *bias = json_object_get(file->config, "bias");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (says_something(json_object_get(file->config, keys[i])))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: %s of adapter_config.json is not supported", file->path, keys[i]);
    if (says_something(bias) && !ln_json_is(bias, "none"))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: bias of adapter_config.json is not \"none\": trained biases are not "
                       "supported",
                       file->path);
    const json_t *begin = json_object_get(file->config, "init_lora_weights");
    if (changes_model(begin))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: init_lora_weights is \"%s\", which changes the model itself; PEFT can "
                       "save such an adapter as a plain LoRA",
                       file->path, json_string_value(begin));
    return LINNET_OK;
}

/* ---- ranks and scales ---------------------------------------------------------------------- */

/* Whether a pattern is the module's name, or what stands behind one of its dots. */
static ln_status matches(const ln_adapter_file *file, const char *pattern, const char *module,
                         bool *found, ln_error *err) {
    ln_strbuf text = {0};
    ln_regex *regex = NULL;
    ln_regex_work work = {0};
    size_t begin, end;
    ln_strbuf_puts(&text, "\\A(?:.*\\.)?(?:");
    ln_strbuf_puts(&text, pattern);
    ln_strbuf_puts(&text, ")\\z");
    ln_status status = LINNET_OK;
    if (text.failed)
        status = ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", file->path);
    if (status == LINNET_OK)
        status = ln_regex_compile(text.data, text.len, &regex, err);
    if (status == LINNET_OK)
        status = ln_regex_find(regex, &work, module, strlen(module), 0, &begin, &end, found, err);
    if (status != LINNET_OK && status != LINNET_ERR_NOMEM)
        status = ln_error_prefix(err, status, file->path);
    ln_regex_work_free(&work);
    ln_regex_free(regex);
    ln_strbuf_free(&text);
    return status;
}

/* The module's entry of rank_pattern or alpha_pattern, the first that fits; NULL: none does. */
static ln_status find_pattern(const ln_adapter_file *file, const char *key, const char *module,
                              const json_t **value, ln_error *err) {
    json_t *patterns = json_object_get(file->config, key), *item;
    const char *pattern;
    *value = NULL;
    if (patterns == NULL || json_is_null(patterns))
        return LINNET_OK;
    if (!json_is_object(patterns))
        return bad_key(file, key, err);
    json_object_foreach(patterns, pattern, item) {
        bool found = false;
        LN_TRY(matches(file, pattern, module, &found, err));
        if (!found)
            continue;
        *value = item;
        return LINNET_OK;
    }
    return LINNET_OK;
}

/* Whether target_parameters names one that ends so. */
static bool names_parameter(const ln_adapter_file *file, const char *end) {
    const json_t *names = json_object_get(file->config, "target_parameters");
    bool any = false;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        size_t n = name != NULL ? strlen(name) : 0, n_end = strlen(end);
        any |= n >= n_end && strcmp(name + n - n_end, end) == 0;
    }
    return any;
}

/* What patterns are compared with: the module or, of stacked experts, the parameter inside. Where
 * PEFT changes two of these, gates and ups read what the others give. */
static const char *pattern_name(const ln_adapter_file *file, const ln_adapter_part *part,
                                char name[LN_MAX_NAME_BYTES + 32]) {
    static const char experts[] = ".experts", inner[] = ".base_layer";
    size_t n = strlen(part->module), n_inner = strlen(inner), n_experts = strlen(experts);
    bool is_inner = n > n_inner && strcmp(part->module + n - n_inner, inner) == 0;
    n -= is_inner ? n_inner : 0;
    if (n <= n_experts || strncmp(part->module + n - n_experts, experts, n_experts) != 0)
        return part->module;
    snprintf(name, LN_MAX_NAME_BYTES + 32, "%.*s%s", (int)n, part->module, is_inner ? "" : inner);
    const ln_adapter_part *other = ln_adapter_file_find(file, name);
    bool reads_other = !names_parameter(file, "down_proj");
    if (other != NULL && other->b != NULL && part->a != NULL)
        reads_other = part->a->dims[1] == other->b->dims[0];
    snprintf(name, LN_MAX_NAME_BYTES + 32, "%.*s.%s", (int)n, part->module,
             reads_other ? "gate_up_proj" : "down_proj");
    return name;
}

static ln_status read_scale(const ln_adapter_file *file, ln_adapter_part *part, ln_error *err) {
    const json_t *rank, *alpha, *rooted = json_object_get(file->config, "use_rslora");
    char room[LN_MAX_NAME_BYTES + 32];
    const char *name = pattern_name(file, part, room);
    LN_TRY(find_pattern(file, "rank_pattern", name, &rank, err));
    LN_TRY(find_pattern(file, "alpha_pattern", name, &alpha, err));
    if (rank == NULL)
        rank = json_object_get(file->config, "r");
    if (alpha == NULL)
        alpha = json_object_get(file->config, "lora_alpha");
    if (!json_is_integer(rank) || json_integer_value(rank) < 1 ||
        json_integer_value(rank) > INT32_MAX)
        return bad_key(file, "r", err);
    double value = json_number_value(alpha);
    if (!json_is_number(alpha) || !(fabs(value) < 1e9))
        return bad_key(file, "lora_alpha", err);
    part->rank = (size_t)json_integer_value(rank);
    if (says_something(json_object_get(file->config, "target_parameters")) && part->b != NULL &&
        part->b->n_dims == 2 && part->b->dims[1] > part->rank && part->b->dims[1] % part->rank == 0)
        part->n_experts = (size_t)part->b->dims[1] / part->rank;
    part->scale = value / (json_is_true(rooted) ? sqrt((double)part->rank) : (double)part->rank);
    return LINNET_OK;
}

/* ---- tensors ------------------------------------------------------------------------------- */

typedef enum tensor_kind {
    KIND_A,
    KIND_B,
    KIND_EMBEDDING_A,
    KIND_EMBEDDING_B,
    KIND_MAGNITUDE,
    KIND_VECTOR
} tensor_kind;

/* What a tensor is, by the end of its name; false: nothing that is known. */
static bool split_name(const char *name, size_t *n_module, tensor_kind *kind) {
    static const struct {
        const char *end;
        tensor_kind kind;
    } ends[] = {{".lora_A.weight", KIND_A},
                {".lora_B.weight", KIND_B},
                {".lora_embedding_A", KIND_EMBEDDING_A},
                {".lora_embedding_B", KIND_EMBEDDING_B},
                {".lora_magnitude_vector", KIND_MAGNITUDE},
                {".lora_magnitude_vector.weight", KIND_MAGNITUDE},
                {".ia3_l", KIND_VECTOR}};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n_end = strlen(ends[i].end);
        if (n <= n_end || strcmp(name + n - n_end, ends[i].end) != 0)
            continue;
        *n_module = n - n_end;
        *kind = ends[i].kind;
        return true;
    }
    return false;
}

/* Whether the tensor is a copy of the model's own, which PEFT keeps beside an embedding's. */
static bool is_copy(const char *name) {
    static const char end[] = ".base_layer.weight";
    size_t n = strlen(name), n_end = strlen(end);
    return n > n_end && strcmp(name + n - n_end, end) == 0;
}

static ln_status take_tensor(ln_adapter_file *file, const ln_tensor *tensor, ln_error *err) {
    const char *name = tensor->name;
    size_t n_module;
    tensor_kind kind;
    if (is_copy(name))
        return LINNET_OK;
    if (strncmp(name, PREFIX, strlen(PREFIX)) == 0)
        name += strlen(PREFIX);
    if (!split_name(name, &n_module, &kind))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s is no part of a LoRA or IA3 that is supported", file->path,
                       tensor->name);
    ln_adapter_part *part = ln_adapter_file_part(file, name, n_module);
    if (part == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", file->path);
    part->is_embedding |= kind == KIND_EMBEDDING_A || kind == KIND_EMBEDDING_B;
    part->a_by_rank = true;
    if (kind == KIND_VECTOR)
        part->vector = tensor;
    else if (kind == KIND_MAGNITUDE)
        part->magnitude = tensor;
    else if (kind == KIND_A || kind == KIND_EMBEDDING_A)
        part->a = tensor;
    else
        part->b = tensor;
    return LINNET_OK;
}

ln_status ln_adapter_read_peft(ln_adapter_file *file, ln_error *err) {
    const char *type = json_string_value(json_object_get(file->config, "peft_type"));
    bool is_lora = type != NULL && strcmp(type, "LORA") == 0;
    if (!is_lora && (type == NULL || strcmp(type, "IA3") != 0))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: peft_type is \"%.40s\"; LORA and IA3 are supported", file->path,
                       type != NULL ? type : "");
    LN_TRY(refuse(file, err));
    bool is_dora = says_something(json_object_get(file->config, "use_dora"));
    for (size_t i = 0; i < file->tensors.count; i++)
        LN_TRY(take_tensor(file, &file->tensors.items[i], err));
    for (size_t i = 0; i < file->n_parts; i++) {
        ln_adapter_part *part = &file->parts[i];
        if (is_lora != (part->vector == NULL))
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: module %s is not of a %s adapter",
                           file->path, part->module, type);
        if (is_lora && part->a != NULL && is_dora != (part->magnitude != NULL))
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "%s: module %s %s lora_magnitude_vector, and use_dora of "
                           "adapter_config.json is %s",
                           file->path, part->module, is_dora ? "has no" : "has a",
                           is_dora ? "true" : "not");
        if (is_lora)
            LN_TRY(read_scale(file, part, err));
        else /* a row: what the module reads; a column: what it gives */
            part->is_input = part->vector->n_dims == 2 && part->vector->dims[0] == 1;
    }
    return LINNET_OK;
}
