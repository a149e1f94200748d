#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/family.h"
#include "model/skipped.h"

/* Longer arrays of metadata, such as a vocabulary, are only counted. */
enum { MAX_SHOWN_ITEMS = 16 };

/* A JSON string of bytes that may be no UTF-8; what is not ASCII is then replaced. */
static json_t *text_value(const char *bytes, size_t n_bytes) {
    json_t *value = json_stringn(bytes, n_bytes);
    if (value)
        return value;
    char *plain = malloc(n_bytes + 1);
    if (!plain)
        return NULL;
    for (size_t i = 0; i < n_bytes; i++)
        plain[i] = (unsigned char)bytes[i] < 0x80 ? bytes[i] : '?';
    value = json_stringn(plain, n_bytes);
    free(plain);
    return value;
}

static json_t *count_value(size_t count) {
    return json_integer((json_int_t)count);
}

/* names[value], for enumerators that have a name. */
static json_t *name_value(const char *const *names, size_t n_names, size_t value) {
    return json_string(value < n_names && names[value] ? names[value] : "unnamed");
}
#define NAME_VALUE(names, value) name_value(names, sizeof names / sizeof *names, (size_t)(value))

/* ---- spec ------------------------------------------------------------------------------- */

static const char *const norm_names[] = {[LN_NORM_RMS] = "rms",
                                         [LN_NORM_RMS_PLUS_ONE] = "rms, 1 + w",
                                         [LN_NORM_LAYER] = "layer",
                                         [LN_NORM_NONE] = "none"};
static const char *const placement_names[] = {
    [LN_PLACE_PRE] = "pre",           [LN_PLACE_POST] = "post",   [LN_PLACE_SANDWICH] = "sandwich",
    [LN_PLACE_PARALLEL] = "parallel", [LN_PLACE_AFTER] = "after", [LN_PLACE_NORMED] = "normed"};
static const char *const qk_norm_names[] = {[LN_QK_NORM_NONE] = "none",
                                            [LN_QK_NORM_HEAD] = "head",
                                            [LN_QK_NORM_FULL] = "full",
                                            [LN_QK_NORM_OWN] = "own"};
static const char *const activation_names[] = {
    [LN_ACT_NONE] = "none", [LN_ACT_SILU] = "silu",
    [LN_ACT_GELU] = "gelu", [LN_ACT_GELU_TANH] = "gelu_tanh",
    [LN_ACT_RELU] = "relu", [LN_ACT_RELU_SQUARED] = "relu_squared"};
static const char *const rope_style_names[] = {
    [LN_ROPE_HALF] = "half-split", [LN_ROPE_INTERLEAVED] = "interleaved"};
static const char *const scaling_names[] = {[LN_ROPE_PLAIN] = "none",
                                            [LN_ROPE_LINEAR] = "linear",
                                            [LN_ROPE_LLAMA3] = "llama3",
                                            [LN_ROPE_YARN] = "yarn",
                                            [LN_ROPE_LONGROPE] = "longrope",
                                            [LN_ROPE_DYNAMIC] = "dynamic",
                                            [LN_ROPE_PROPORTIONAL] = "proportional"};
static const char *const position_names[] = {[LN_POSITIONS_ROPE] = "rope",
                                             [LN_POSITIONS_LEARNED] = "learned",
                                             [LN_POSITIONS_ALIBI] = "alibi",
                                             [LN_POSITIONS_RELATIVE] = "relative",
                                             [LN_POSITIONS_NONE] = "none"};

static json_t *latent_value(const ln_latent_spec *latent) {
    json_t *value = json_object();
    json_object_set_new(value, "n_latent", count_value(latent->n_latent));
    json_object_set_new(value, "n_plain", count_value(latent->n_plain));
    json_object_set_new(value, "n_rope", count_value(latent->n_rope));
    json_object_set_new(value, "q_latent", count_value(latent->q_latent));
    return value;
}

static json_t *moe_value(const ln_moe_spec *moe) {
    json_t *value = json_object();
    json_object_set_new(value, "n_experts", count_value(moe->n_experts));
    json_object_set_new(value, "n_used", count_value(moe->n_used));
    json_object_set_new(value, "n_hidden", count_value(moe->n_hidden));
    json_object_set_new(value, "n_groups", count_value(moe->n_groups));
    json_object_set_new(value, "n_groups_used", count_value(moe->n_groups_used));
    json_object_set_new(value, "shared_hidden", count_value(moe->shared_hidden));
    return value;
}

static json_t *layer_value(const ln_layer_spec *layer) {
    const ln_attention_spec *attention = &layer->attention;
    json_t *value = json_object();
    json_object_set_new(value, "norm_placement", NAME_VALUE(placement_names, layer->placement));
    json_object_set_new(value, "n_heads", count_value(attention->n_heads));
    json_object_set_new(value, "n_kv_heads", count_value(attention->n_kv_heads));
    json_object_set_new(value, "k_dim", count_value(attention->k_dim));
    json_object_set_new(value, "v_dim", count_value(attention->v_dim));
    if (attention->latent.n_latent > 0)
        json_object_set_new(value, "latent", latent_value(&attention->latent));
    json_object_set_new(value, "window_tokens", count_value(attention->window));
    if (layer->has_cross)
        json_object_set_new(value, "cross_attention", json_true());
    if (attention->borrows_kv)
        json_object_set_new(value, "kv_of_layer", count_value(attention->kv_layer));
    json_object_set_new(value, "qk_norm", NAME_VALUE(qk_norm_names, attention->qk_norm));
    json_object_set_new(value, "rope", json_integer(attention->rope));
    if (layer->ffn.moe.n_experts > 0)
        json_object_set_new(value, "moe", moe_value(&layer->ffn.moe));
    else
        json_object_set_new(value, "n_hidden", count_value(layer->ffn.n_hidden));
    json_object_set_new(value, "gated", json_boolean(layer->ffn.gated));
    json_object_set_new(value, "activation", NAME_VALUE(activation_names, layer->ffn.activation));
    return value;
}

/* Layers that are alike, one after another, make one entry. */
static json_t *layers_value(const ln_layer_spec *layers, size_t n_layers) {
    json_t *groups = json_array();
    for (size_t first = 0, next; first < n_layers; first = next) {
        json_t *layer = layer_value(&layers[first]);
        for (next = first + 1; next < n_layers; next++) {
            json_t *other = layer_value(&layers[next]);
            bool is_same = json_equal(layer, other);
            json_decref(other);
            if (!is_same)
                break;
        }
        json_t *group = json_object();
        json_object_set_new(group, "layers",
                            next == first + 1 ? json_sprintf("%zu", first)
                                              : json_sprintf("%zu-%zu", first, next - 1));
        json_object_update(group, layer);
        json_decref(layer);
        json_array_append_new(groups, group);
    }
    return groups;
}

static json_t *ropes_value(const ln_spec *spec) {
    json_t *ropes = json_array();
    for (size_t i = 0; i < spec->n_ropes; i++) {
        const ln_rope_spec *rope = &spec->ropes[i];
        json_t *value = json_object();
        json_object_set_new(value, "style", NAME_VALUE(rope_style_names, rope->style));
        json_object_set_new(value, "n_dims", count_value(rope->n_dims));
        json_object_set_new(value, "theta", json_real(rope->theta));
        json_object_set_new(value, "scaling", NAME_VALUE(scaling_names, rope->scaling));
        if (rope->scaling != LN_ROPE_PLAIN)
            json_object_set_new(value, "factor", json_real(rope->factor));
        json_array_append_new(ropes, value);
    }
    return ropes;
}

static json_t *spec_value(const ln_spec *spec) {
    json_t *value = json_object();
    json_object_set_new(value, "dim", count_value(spec->dim));
    json_object_set_new(value, "n_vocab", count_value(spec->n_vocab));
    json_object_set_new(value, "n_layers", count_value(spec->n_layers));
    json_object_set_new(value, "ctx_tokens", count_value(spec->ctx_tokens));
    json_object_set_new(value, "norm", NAME_VALUE(norm_names, spec->norm_kind));
    json_object_set_new(value, "norm_eps", json_real((double)spec->norm_eps));
    json_object_set_new(value, "positions", NAME_VALUE(position_names, spec->positions));
    json_object_set_new(value, "layers", layers_value(spec->layers, spec->n_layers));
    if (spec->mtp != NULL)
        json_object_set_new(value, "mtp_layers", layers_value(spec->mtp, 1));
    if (spec->n_encoder_layers > 0)
        json_object_set_new(value, "encoder_layers",
                            layers_value(spec->encoder_layers, spec->n_encoder_layers));
    json_object_set_new(value, "ropes", ropes_value(spec));
    return value;
}

/* Whether tensors of this part are the head's, which the spec lists then. */
static bool is_of_head(const ln_spec *spec, const char *part) {
    return spec->mtp != NULL && (strcmp(part, "mtp") == 0 || strcmp(part, "mtp_layers") == 0 ||
                                 strcmp(part, "prediction layers") == 0);
}

/* Tensors that are skipped on purpose, by what they belong to: how many, and their bytes. */
static json_t *skipped_value(const ln_checkpoint *checkpoint, const ln_spec *spec) {
    json_t *parts = json_object();
    for (size_t i = 0; i < ln_checkpoint_tensor_count(checkpoint); i++) {
        const ln_tensor *tensor = ln_checkpoint_tensor(checkpoint, i);
        const char *name = ln_skipped_part(checkpoint, spec, tensor);
        if (!name || is_of_head(spec, name))
            continue;
        const json_t *part = json_object_get(parts, name);
        json_int_t count = json_integer_value(json_object_get(part, "n_tensors"));
        json_int_t bytes = json_integer_value(json_object_get(part, "bytes"));
        json_object_set_new(parts, name,
                            json_pack("{s:I, s:I}", "n_tensors", count + 1, "bytes",
                                      bytes + (json_int_t)tensor->bytes));
    }
    return parts;
}

/* ---- tokenizer -------------------------------------------------------------------------- */

static json_t *token_value(const ln_tokenizer *tokenizer, int32_t id) {
    size_t n_bytes = 0;
    const char *piece = ln_tokenizer_piece(tokenizer, id, &n_bytes);
    json_t *value = json_object();
    json_object_set_new(value, "id", json_integer(id));
    json_object_set_new(value, "text", text_value(piece ? piece : "", piece ? n_bytes : 0));
    return value;
}

static json_t *tokenizer_value(const struct linnet_model *model) {
    const ln_tokenizer *tokenizer = model->tokenizer;
    if (!tokenizer)
        return json_null();
    json_t *value = json_object();
    json_object_set_new(value, "kind", json_string(ln_tokenizer_kind(tokenizer)));
    json_object_set_new(value, "n_vocab", count_value(ln_tokenizer_vocab_size(tokenizer)));
    if (model->bos_id >= 0)
        json_object_set_new(value, "bos", token_value(tokenizer, model->bos_id));
    json_t *stops = json_array();
    for (size_t i = 0; i < model->n_stop_ids; i++)
        json_array_append_new(stops, token_value(tokenizer, model->stop_ids[i]));
    json_object_set_new(value, "stops", stops);
    if (model->n_outside_ids > 0)
        json_object_set_new(value, "stops_outside_vocabulary", count_value(model->n_outside_ids));
    ln_tokenizer_oddities odd = ln_tokenizer_find_oddities(tokenizer);
    if (odd.n_dangling_merges > 0)
        json_object_set_new(value, "dangling_merges", count_value(odd.n_dangling_merges));
    if (odd.n_empty_tokens > 0)
        json_object_set_new(value, "empty_tokens", count_value(odd.n_empty_tokens));
    json_object_set_new(value, "chat_template", json_boolean(model->chat_template != NULL));
    return value;
}

/* ---- metadata --------------------------------------------------------------------------- */

static json_t *meta_value(const ln_meta_value *meta) {
    switch (meta->kind) {
    case LN_META_BOOL: return json_boolean(meta->boolean);
    case LN_META_INT: return json_integer(meta->integer);
    case LN_META_FLOAT: {
        json_t *value = json_real(meta->real);
        return value ? value : json_string("not finite");
    }
    case LN_META_STRING: return text_value(meta->string.data, meta->string.bytes);
    case LN_META_ARRAY: {
        if (meta->array.count > MAX_SHOWN_ITEMS)
            return json_sprintf("%zu items", meta->array.count);
        json_t *items = json_array();
        ln_meta_value item;
        for (size_t i = 0; ln_meta_item(meta, i, &item); i++)
            json_array_append_new(items, item.kind == LN_META_ARRAY ? json_string("array")
                                                                    : meta_value(&item));
        return items;
    }
    case LN_META_OBJECT: return json_string("object");
    case LN_META_NULL:
    default: return json_null();
    }
}

static json_t *metadata_value(const ln_checkpoint *checkpoint) {
    json_t *metadata = json_object();
    const char *key;
    ln_meta_value value;
    for (size_t i = 0; ln_checkpoint_meta_at(checkpoint, i, &key, &value); i++)
        json_object_set_new(metadata, key, meta_value(&value));
    return metadata;
}

/* ---- files and tensors ------------------------------------------------------------------ */

static json_t *files_value(const ln_checkpoint *checkpoint) {
    json_t *files = json_array();
    for (size_t i = 0; i < ln_checkpoint_file_count(checkpoint); i++) {
        int fd;
        size_t bytes = 0;
        const char *path = ln_checkpoint_file(checkpoint, i, &fd, &bytes);
        json_t *file = json_object();
        json_object_set_new(file, "path", text_value(path, strlen(path)));
        json_object_set_new(file, "bytes", count_value(bytes));
        json_array_append_new(files, file);
    }
    return files;
}

static bool ends_in(const char *name, const char *ending) {
    size_t n = strlen(name), n_ending = strlen(ending);
    return n >= n_ending && strcmp(name + n - n_ending, ending) == 0;
}

/* Bits of a number in a quantised folder's words of 32. */
static size_t packed_bits(const ln_checkpoint *checkpoint) {
    static const char *const keys[] = {
        "quantization_config.bits", "quantization_config.config_groups.group_0.weights.num_bits",
        "text_config.quantization_config.bits",
        "text_config.quantization_config.config_groups.group_0.weights.num_bits"};
    ln_meta_value value;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (ln_checkpoint_meta(checkpoint, keys[i], &value) && value.kind == LN_META_INT &&
            value.integer >= 2 && value.integer <= 8)
            return (size_t)value.integer;
    return 4;
}

/* Parameters in a tensor: where numbers are packed into larger words, each of them; none in what
 * only says how they are packed. */
static size_t parameters_of(const ln_checkpoint *checkpoint, const ln_tensor *tensor) {
    static const char *const beside[] = {".scales",
                                         ".qzeros",
                                         ".g_idx",
                                         ".weight_scale",
                                         ".weight_scale_inv",
                                         ".weight_shape",
                                         ".weight_g_idx",
                                         "_scales",
                                         ".input_scale",
                                         ".weight_zero_point",
                                         ".output_scale",
                                         ".k_scale",
                                         ".v_scale",
                                         ".weight_scale_2",
                                         ".weight_global_scale",
                                         ".pre_quant_scale",
                                         ".input_global_scale",
                                         ".SCB",
                                         ".weight_format",
                                         ".absmax",
                                         ".quant_map",
                                         ".nested_absmax",
                                         ".nested_quant_map",
                                         "__nf4",
                                         "__fp4"};
    const char *name = tensor->name;
    if (ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF)
        return tensor->n_elems;
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (ends_in(name, beside[i]))
            return 0;
    if (tensor->dtype == LN_DTYPE_I32 &&
        (ends_in(name, ".qweight") || ends_in(name, ".weight") || ends_in(name, ".weight_packed")))
        return tensor->n_elems * 32 / packed_bits(checkpoint);
    bool is_pair =
        tensor->dtype == LN_DTYPE_U8 &&
        (ends_in(name, "_blocks") || ends_in(name, ".weight") || ends_in(name, ".weight_packed"));
    return is_pair ? tensor->n_elems * 2 : tensor->n_elems;
}

static json_t *types_value(const ln_checkpoint *checkpoint, size_t *n_parameters) {
    size_t counts[LN_DTYPE_COUNT] = {0}, bytes[LN_DTYPE_COUNT] = {0};
    *n_parameters = 0;
    for (size_t i = 0; i < ln_checkpoint_tensor_count(checkpoint); i++) {
        const ln_tensor *tensor = ln_checkpoint_tensor(checkpoint, i);
        counts[tensor->dtype]++;
        bytes[tensor->dtype] += tensor->bytes;
        *n_parameters += parameters_of(checkpoint, tensor);
    }
    json_t *types = json_array();
    for (size_t dtype = 0; dtype < LN_DTYPE_COUNT; dtype++) {
        if (counts[dtype] == 0)
            continue;
        json_t *type = json_object();
        json_object_set_new(type, "type", json_string(ln_dtype_name((ln_dtype)dtype)));
        json_object_set_new(type, "n_tensors", count_value(counts[dtype]));
        json_object_set_new(type, "bytes", count_value(bytes[dtype]));
        json_array_append_new(types, type);
    }
    return types;
}

static json_t *tensors_value(const ln_checkpoint *checkpoint) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < ln_checkpoint_tensor_count(checkpoint); i++) {
        const ln_tensor *tensor = ln_checkpoint_tensor(checkpoint, i);
        json_t *shape = json_array();
        for (int dim = 0; dim < tensor->n_dims; dim++)
            json_array_append_new(shape, count_value(tensor->dims[dim]));
        json_t *value = json_object();
        json_object_set_new(value, "name", text_value(tensor->name, strlen(tensor->name)));
        json_object_set_new(value, "type", json_string(ln_dtype_name(tensor->dtype)));
        json_object_set_new(value, "shape", shape);
        json_object_set_new(value, "bytes", count_value(tensor->bytes));
        json_array_append_new(tensors, value);
    }
    return tensors;
}

json_t *ln_cli_report(const ln_checkpoint *checkpoint, const struct linnet_model *model,
                      const char *why, bool with_tensors) {
    bool is_gguf = ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF;
    size_t n_parameters;
    json_t *types = types_value(checkpoint, &n_parameters);
    json_t *report = json_object();
    const char *path = ln_checkpoint_path(checkpoint);
    json_object_set_new(report, "path", text_value(path, strlen(path)));
    json_object_set_new(report, "format", json_string(is_gguf ? "GGUF" : "Hugging Face"));
    if (model) {
        json_object_set_new(report, "architecture", json_string(model->spec.family->name));
        json_object_set_new(report, "name", text_value(model->name, strlen(model->name)));
    } else {
        json_object_set_new(report, "unsupported", text_value(why, strlen(why)));
    }
    json_object_set_new(report, "n_parameters", count_value(n_parameters));
    json_object_set_new(report, "n_tensors", count_value(ln_checkpoint_tensor_count(checkpoint)));
    json_object_set_new(report, "types", types);
    json_object_set_new(report, "files", files_value(checkpoint));
    if (model) {
        json_object_set_new(report, "spec", spec_value(&model->spec));
        json_object_set_new(report, "skipped", skipped_value(checkpoint, &model->spec));
        json_object_set_new(report, "tokenizer", tokenizer_value(model));
    }
    json_object_set_new(report, "metadata", metadata_value(checkpoint));
    if (with_tensors)
        json_object_set_new(report, "tensors", tensors_value(checkpoint));
    return report;
}
