#include "model/spec_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "model/config.h"
#include "model/family.h"
#include "model/heads/assistant_spec.h"
#include "model/heads/dflash_spec.h"
#include "model/heads/eagle_spec.h"
#include "model/layers/blend.h"
#include "model/layers/cycles.h"
#include "model/spec_layers.h"

enum { MAX_VOCAB = 1 << 24 };

/* Types of folders whose text_config is a language model that linnet runs alone: what stands around
 * it sees and hears, and does not change how text is read. */
static const char wrappers[] =
    "apertus1p5|aria|aya_vision|blip-2|cohere2_vision|cohere_compass|cosmos3_edge|cosmos3_omni|"
    "deepseek_ocr2|deepseek_vl|deepseek_vl_hybrid|dots3_note|emu3|ernie4_5_vl_moe|exaone4_5|"
    "fast_vlm|fun_asr_nano|fuyu|gemma3|gemma3n|gemma4|gemma4_unified|glm46v|glm4v|glm4v_moe|"
    "glm5_next|glm_ocr|glmasr|glmga|got_ocr2|granite4_vision|granite_docling|granite_speech|"
    "granite_speech_plus|hunyuan_vl|hy_v4_vl|hyperclovax_vision_v2|idefics2|idefics3|inkling2|"
    "inkling2_loop|inkling_mm_model|instructblip|instructblipvideo|internvl|janus|kimi_k25|"
    "kimi_k3|lfm2_vl|lfm3_vl|lighton_ocr|llama4|llava|llava_next|llava_next_video|llava_onevision|"
    "minicpm_ocr|minicpmv4_6|minicpmv4_7|minimax_m3_vl|mistral3|mistral_large4|mllama|molmo2|"
    "moss_transcribe_diarize|muse_glimmer|muse_spark|nemo_speechlm|nemotron_h_omni|omniasr|"
    "ovis2|paddleocr_vl|paligemma|perception_lm|pp_chart2table|qianfan_ocr|qwen2_5_omni_thinker|"
    "qwen2_5_vl|qwen2_audio|qwen2_vl|qwen3_5|qwen3_5_moe|qwen3_asr|qwen3_omni_moe_thinker|"
    "qwen3_vl|qwen3_vl_moe|qwen4_exp|shieldgemma2|smolvlm|step3p7|vibevoice_asr|video_llama_3|"
    "video_llava|vipllava|voxtral";

static ln_status read_type(const ln_config *config, const char *key, ln_meta_value *value,
                           ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    if (!ln_checkpoint_meta(config->checkpoint, key, value))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s is missing", path, key);
    if (value->kind != LN_META_STRING)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s is not a string", path, key);
    return LINNET_OK;
}

/* Types that are known, and cannot run: why. */
static const struct {
    const char *types, *reason;
} impossible[] = {
    {"unlimited_ocr|unlimited_ocr_text|unlimited-ocr",
     "its tokens see a window and all of the prompt, so that what they see depends on "
     "where the prompt ended"}};

static ln_status unknown_type(const ln_config *config, const ln_meta_value *type, ln_error *err) {
    char nearest[LN_NEAREST_BYTES];
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++)
        if (ln_list_has(impossible[i].types, type->string.data, type->string.bytes))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: the architecture \"%.*s\" is not supported: %s",
                           ln_checkpoint_path(config->checkpoint), (int)type->string.bytes,
                           type->string.data, impossible[i].reason);
    ln_family_nearest(config->is_gguf ? LN_FORMAT_GGUF : LN_FORMAT_HF, type->string.data,
                      type->string.bytes, nearest);
    return ln_fail(
        err, LINNET_ERR_UNSUPPORTED, "%s: the architecture \"%.*s\" is not supported%s%s",
        ln_checkpoint_path(config->checkpoint),
        (int)(type->string.bytes < 64 ? type->string.bytes : 64), type->string.data,
        *nearest ? "; the nearest that are: " : ", nor is one of a name like it", nearest);
}

/* The family of a type, which is where its keys are from then on; false: there is none. */
static bool take_family(ln_config *config, ln_spec *spec, const ln_meta_value *type) {
    const ln_family *family = ln_family_of(config->is_gguf ? LN_FORMAT_GGUF : LN_FORMAT_HF,
                                           type->string.data, type->string.bytes);
    if (family == NULL || type->string.bytes >= sizeof config->arch)
        return false;
    spec->family = family;
    memcpy(config->arch, type->string.data, type->string.bytes);
    config->arch[type->string.bytes] = '\0';
    config->defaults = config->is_gguf ? family->gguf_defaults : family->defaults;
    config->class_defaults = ln_family_class_defaults(config->arch);
    config->by_layer = family->by_layer || (config->is_gguf && family->gguf_lists);
    return true;
}

/* Where the keys of a model are that speaks, too: what thinks is a model of its own, whose
 * text_config it is. */
static bool find_thinker(const ln_config *config, const char **nest, ln_meta_value *type) {
    static const char type_key[] = "thinker_config.text_config.model_type";
    if (config->is_gguf || !ln_checkpoint_meta(config->checkpoint, type_key, type) ||
        type->kind != LN_META_STRING)
        return false;
    *nest = "thinker_config.text_config.";
    return true;
}

/* Whether a folder holds T5's encoder alone: model_type does not tell. */
static bool is_t5_encoder(const ln_config *config, const ln_meta_value *type) {
    static const char ending[] = "EncoderModel";
    ln_meta_value list, name;
    if (config->is_gguf || !ln_list_has("t5|mt5", type->string.data, type->string.bytes) ||
        !ln_checkpoint_meta(config->checkpoint, "architectures", &list) ||
        !ln_meta_item(&list, 0, &name) || name.kind != LN_META_STRING)
        return false;
    size_t n = sizeof ending - 1;
    return name.string.bytes >= n &&
           memcmp(name.string.data + name.string.bytes - n, ending, n) == 0;
}

/* Whether a folder that says BERT has ALiBi, and with it another feed-forward. */
static bool is_jina_bert(const ln_config *config, const ln_meta_value *type) {
    ln_meta_value positions;
    return !config->is_gguf && ln_list_has("bert", type->string.data, type->string.bytes) &&
           ln_checkpoint_meta(config->checkpoint, "position_embedding_type", &positions) &&
           positions.kind == LN_META_STRING &&
           ln_list_has("alibi", positions.string.data, positions.string.bytes);
}

/* Whether a folder that says Nomic BERT has mixtures. */
static bool is_nomic_moe(const ln_config *config, const ln_meta_value *type) {
    ln_meta_value step;
    return !config->is_gguf && ln_list_has("nomic_bert", type->string.data, type->string.bytes) &&
           ln_checkpoint_meta(config->checkpoint, "moe_every_n_layers", &step) &&
           step.kind == LN_META_INT && step.integer > 0;
}

/* Whether a model that says Kimi Linear has block attention residuals. */
static bool is_kimi_k3(const ln_config *config, const ln_meta_value *type) {
    ln_meta_value size;
    return !config->is_gguf && ln_list_has("kimi_linear", type->string.data, type->string.bytes) &&
           ln_config_find(config, (ln_key){"attn_res_block_size", ""}, &size, NULL);
}

/* A GGUF file may be what belongs to a model: an adapter, the part that sees, or a vocabulary. */
static ln_status check_is_model(const ln_config *config, ln_error *err) {
    ln_meta_value type;
    const char *path = ln_checkpoint_path(config->checkpoint);
    if (!config->is_gguf)
        return LINNET_OK;
    if (ln_checkpoint_meta(config->checkpoint, "general.type", &type) &&
        type.kind == LN_META_STRING &&
        ln_list_has("adapter|mmproj|imatrix", type.string.data, type.string.bytes)) {
        bool is_adapter = ln_list_has("adapter", type.string.data, type.string.bytes);
        return ln_fail(
            err, LINNET_ERR_UNSUPPORTED, "%s is no model: its general.type is \"%.*s\"%s", path,
            (int)type.string.bytes, type.string.data, is_adapter ? ", which --lora loads" : "");
    }
    if (ln_checkpoint_tensor_count(config->checkpoint) == 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s is no model: it has no tensors", path);
    return LINNET_OK;
}

static ln_meta_value type_named(const char *name) {
    return (ln_meta_value){.kind = LN_META_STRING, .string = {name, strlen(name)}};
}

/* The family, and where its keys are: a folder's text_config describes the model where others see
 * and hear beside it. */
static ln_status find_family(ln_config *config, ln_spec *spec, ln_error *err) {
    ln_meta_value type, text;
    bool is_dflash = ln_spec_is_dflash(config, &config->nest);
    if (is_dflash || ln_spec_is_eagle(config, &config->nest)) {
        type = type_named(is_dflash ? "dflash" : "eagle3");
        return take_family(config, spec, &type) ? LINNET_OK : unknown_type(config, &type, err);
    }
    LN_TRY(check_is_model(config, err));
    LN_TRY(read_type(config, config->is_gguf ? "general.architecture" : "model_type", &type, err));
    if (is_t5_encoder(config, &type))
        type = type_named("t5encoder");
    if (is_jina_bert(config, &type))
        type = type_named("jina_bert");
    if (is_kimi_k3(config, &type))
        type = type_named("kimi_k3");
    if (is_nomic_moe(config, &type))
        type = type_named("nomic_bert_moe");
    if (find_thinker(config, &config->nest, &text))
        return take_family(config, spec, &text) ? LINNET_OK : unknown_type(config, &text, err);
    if (config->is_gguf || !ln_checkpoint_meta(config->checkpoint, "text_config", &text) ||
        text.kind != LN_META_OBJECT)
        return take_family(config, spec, &type) ? LINNET_OK : unknown_type(config, &type, err);
    bool assists = take_family(config, spec, &type) && spec->family->assists;
    if (!assists && !ln_list_has(wrappers, type.string.data, type.string.bytes))
        return unknown_type(config, &type, err);
    config->nest = "text_config.";
    if (assists)
        return LINNET_OK;
    if (ln_checkpoint_meta(config->checkpoint, "text_config.model_type", &text)) {
        LN_TRY(read_type(config, "text_config.model_type", &text, err));
        if (is_kimi_k3(config, &text))
            text = type_named("kimi_k3");
        return take_family(config, spec, &text) ? LINNET_OK : unknown_type(config, &text, err);
    }
    return take_family(config, spec, &type) ? LINNET_OK : unknown_type(config, &type, err);
}

/* Flags that must not be true, or with '!' before them not false. */
static ln_status check_flags(const ln_config *config, const char *keys, ln_error *err) {
    while (*keys != '\0') {
        size_t length = strcspn(keys, "|");
        char key[64];
        bool wanted = keys[0] == '!', flag = wanted;
        snprintf(key, sizeof key, "%.*s", (int)(length - wanted), keys + wanted);
        ln_meta_value value;
        if (ln_config_find(config, (ln_key){key, ""}, &value, NULL) && value.kind != LN_META_BOOL)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s is not supported",
                           ln_checkpoint_path(config->checkpoint), key);
        LN_TRY(ln_config_flag(config, (ln_key){key, ""}, &flag, err));
        if (flag != wanted)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s: %s is not supported",
                           ln_checkpoint_path(config->checkpoint), key, flag ? "true" : "false");
        keys += length + (keys[length] == '|');
    }
    return LINNET_OK;
}

/* Whether another model wraps this one, of this type. */
static bool is_wrapped_by(const ln_config *config, const char *type) {
    ln_config outer = *config;
    outer.nest = "";
    return *config->nest != '\0' && ln_config_is(&outer, (ln_key){"model_type", ""}, type);
}

/* Variants that this family's data, or that of all, does not describe are refused rather than
 * computed wrongly. */
static ln_status check_refused(const ln_config *config, const ln_family *family, ln_error *err) {
    ln_meta_value value;
    if (config->is_gguf)
        return LINNET_OK;
    if (!family->by_layer && ln_config_find(config, (ln_key){"per_layer_config", ""}, &value, NULL))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key per_layer_config is not supported",
                       ln_checkpoint_path(config->checkpoint));
    if (is_wrapped_by(config, "paligemma")) /* its prompts see both ways with pictures alone */
        return LINNET_OK;
    if (!family->bidirectional && family->direction_key == NULL && !family->drafts_blocks)
        LN_TRY(check_flags(config, "!is_causal", err));
    return family->refused != NULL ? check_flags(config, family->refused, err) : LINNET_OK;
}

/* How a folder's matrices are quantised; tensors of other methods may have the same names. */
static ln_status check_quantised(const ln_config *config, ln_error *err) {
    static const char known[] = "fp8|fbgemm_fp8|compressed-tensors|gptq|awq|mxfp4|modelopt|"
                                "bitsandbytes|auto-round|intel/auto-round|quark|mxfp8";
    ln_meta_value value;
    char name[128];
    ln_key key = {"quantization_config.quant_method", ""};
    ln_config outer = *config;
    outer.nest = "";
    if (!ln_config_find(&outer, key, &value, name) && !ln_config_find(config, key, &value, name))
        return LINNET_OK;
    bool is_text = value.kind == LN_META_STRING;
    if (is_text && ln_list_has(known, value.string.data, value.string.bytes))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: key %s: weights quantised as \"%.*s\" are not supported",
                   ln_checkpoint_path(config->checkpoint), name,
                   is_text && value.string.bytes < 64 ? (int)value.string.bytes : 0,
                   is_text ? value.string.data : "");
}

/* The first dimension of a table that must be there. */
static ln_status read_rows_of(const ln_config *config, const ln_spec *spec, ln_tensor_id id,
                              size_t *n_rows, ln_error *err) {
    const char *path = ln_checkpoint_path(config->checkpoint);
    ln_checkpoint_format format = ln_checkpoint_get_format(config->checkpoint);
    const ln_binding *binding;
    char name[LN_TENSOR_NAME_BYTES];
    const ln_tensor *tensor = ln_family_find(spec->family, config->checkpoint, id, &binding);
    if (tensor == NULL) {
        binding = ln_family_binding(spec->family, format, id, 0);
        if (binding == NULL)
            return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: no table of this kind in family %s",
                           path, spec->family->name);
        ln_binding_name(binding, format, id, name);
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is missing", path, name);
    }
    if (tensor->n_dims != 2 || tensor->dims[0] == 0 || tensor->dims[0] > MAX_VOCAB)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has an impossible shape", path,
                       tensor->name);
    *n_rows = (size_t)tensor->dims[0];
    return LINNET_OK;
}

static ln_status read_table_rows(const ln_config *config, const ln_spec *spec, ln_role role,
                                 size_t *n_rows, ln_error *err) {
    return read_rows_of(config, spec, (ln_tensor_id){.role = role}, n_rows, err);
}

/* Whether the encoder has an embedding of its own, in families where it may. */
static ln_status read_encoder_vocab(const ln_config *config, ln_spec *spec, ln_error *err) {
    ln_tensor_id id = {.role = LN_ROLE_EMBEDDING, .encoder = true};
    bool is_shared = true, is_tied = true;
    if (!spec->family->has_encoder ||
        ln_family_binding(spec->family, ln_checkpoint_get_format(config->checkpoint), id, 0) ==
            NULL)
        return LINNET_OK;
    LN_TRY(
        ln_config_flag(config, (ln_key){"share_encoder_decoder_embeddings", ""}, &is_shared, err));
    LN_TRY(ln_config_flag(config, (ln_key){"tie_word_embeddings", ""}, &is_tied, err));
    if (is_shared && is_tied)
        return LINNET_OK;
    return read_rows_of(config, spec, id, &spec->n_encoder_vocab, err);
}

/* The vocabulary is the embedding's first dimension; config.json must agree. */
static ln_status read_vocab(const ln_config *config, ln_spec *spec, ln_error *err) {
    if (spec->family->drafts_blocks)
        return ln_spec_read_dflash_vocab(config, MAX_VOCAB, spec, err);
    if (spec->family->drafts) /* which is that of what it drafts */
        return read_table_rows(config, spec, LN_ROLE_OUTPUT, &spec->n_vocab, err);
    LN_TRY(read_table_rows(config, spec, LN_ROLE_EMBEDDING, &spec->n_vocab, err));
    if (spec->n_vocab > spec->family->n_only_embedded)
        spec->n_vocab -= spec->family->n_only_embedded;
    size_t claimed = spec->n_vocab, unpadded, added = 0;
    LN_TRY(read_encoder_vocab(config, spec, err));
    const char *key = "padded_vocab_size|vocab_size";
    if (spec->n_encoder_vocab > 0)
        key = "decoder_vocab_size|vocab_size";
    LN_TRY(ln_config_size(config, (ln_key){key, ""}, 1, MAX_VOCAB, &claimed, err));
    if (spec->family->added_key != NULL)
        LN_TRY(ln_config_size(config, (ln_key){spec->family->added_key, ""}, 0, MAX_VOCAB, &added,
                              err));
    if (claimed != spec->n_vocab && claimed + added != spec->n_vocab)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: the embedding has %zu rows, but vocab_size is %zu",
                       ln_checkpoint_path(config->checkpoint), spec->n_vocab, claimed);
    unpadded = claimed;
    if (spec->family->unpadded_key != NULL)
        LN_TRY(ln_config_size(config, (ln_key){spec->family->unpadded_key, ""}, 1, spec->n_vocab,
                              &unpadded, err));
    spec->n_padding = spec->n_vocab - unpadded;
    spec->n_vocab = unpadded;
    return LINNET_OK;
}

/* MiniCPM's: the embedding, each block by the root of the depth, logits by a width. */
static ln_status read_depth_scales(const ln_config *config, const ln_spec *spec, double *embedding,
                                   double *residual, double *logit, ln_error *err) {
    double depth = sqrt((double)spec->n_layers), width = (double)spec->dim;
    if (!spec->family->scale_by_depth || (config->is_gguf && spec->family->gguf == NULL))
        return LINNET_OK;
    if (config->is_gguf) { /* what files of before its keys mean */
        *embedding = 12;
        depth = 1.4;
        width = 256;
    }
    LN_TRY(ln_config_real(config, (ln_key){"scale_emb", ""}, -1e9, 1e9, embedding, err));
    LN_TRY(ln_config_real(config, (ln_key){"scale_depth", ""}, -1e9, 1e9, &depth, err));
    LN_TRY(ln_config_real(config, (ln_key){"dim_model_base", ""}, 1e-9, 1e9, &width, err));
    *residual = depth / sqrt((double)spec->n_layers);
    double scale = width / (double)spec->dim;
    *logit = spec->family->divide_logits ? 1.0 / scale : scale;
    return LINNET_OK;
}

static ln_status read_scales(const ln_config *config, ln_spec *spec, ln_error *err) {
    bool scale_embedding = spec->family->scale_embedding;
    LN_TRY(
        ln_config_flag(config, (ln_key){"scale_embedding|mup_enabled", ""}, &scale_embedding, err));
    double embedding = scale_embedding ? sqrt((double)spec->dim) : 1.0;
    if (spec->family->cycles && !config->is_gguf) {
        double range = 0.02;
        LN_TRY(ln_config_real(config, (ln_key){"initializer_range", ""}, 1e-9, 1, &range, err));
        embedding = 1.0 / range;
        LN_TRY(ln_config_real(config, (ln_key){"embedding_scale", ""}, -1e9, 1e9, &embedding, err));
    }
    if (spec->family->bf16_embedding_scale)
        embedding = (double)ln_f32_from_bf16(ln_bf16_from_f32((float)embedding));
    bool scale_logits = spec->tied || (spec->family->tied_by_default && !config->is_gguf);
    LN_TRY(ln_config_flag(config, (ln_key){"tie_word_embeddings", ""}, &scale_logits, err));
    scale_logits = scale_logits && spec->family->scale_tied_logits;
    LN_TRY(ln_config_flag(config, (ln_key){"scale_decoder_outputs", ""}, &scale_logits, err));
    double residual = 1.0, softcap = 0.0;
    double logit = scale_logits ? 1.0 / sqrt((double)spec->dim) : 1.0;
    LN_TRY(read_depth_scales(config, spec, &embedding, &residual, &logit, err));
    LN_TRY(ln_config_real(
        config,
        (ln_key){"embedding_multiplier|mup_embeddings_scale|embeddings_scale", "embedding_scale"},
        -1e9, 1e9, &embedding, err));
    const char *scale_key = "residual_scale";
    if (spec->family->placement == LN_PLACE_NORMED) /* a factor of what is kept (normed_spec.c) */
        scale_key = "";
    LN_TRY(ln_config_real(config, (ln_key){"residual_multiplier", scale_key}, -1e9, 1e9, &residual,
                          err));
    LN_TRY(
        ln_config_real(config,
                       (ln_key){"logit_scale|logits_scaling|lm_head_multiplier|output_multiplier|"
                                "logits_mup_width_multiplier|width_scale",
                                "logit_scale"},
                       1e-9, 1e9, &logit, err));
    double alpha = 1.0, width = 1.0; /* Jais' */
    LN_TRY(ln_config_real(config, (ln_key){"mup_output_alpha", ""}, -1e9, 1e9, &alpha, err));
    LN_TRY(ln_config_real(config, (ln_key){"mup_width_scale", ""}, -1e9, 1e9, &width, err));
    logit *= alpha * width;
    LN_TRY(ln_config_real(
        config, (ln_key){"final_logit_softcapping|logits_soft_cap", "final_logit_softcapping"}, 0,
        1e9, &softcap, err));
    spec->turns_latents = config->is_gguf && spec->family->gguf_rope != spec->family->hf_rope;
    spec->has_folded_output = config->is_gguf && spec->family->scale_tied_logits;
    spec->has_folded_weights = config->is_gguf && spec->family->gguf_folds_scales;
    spec->embedding_scale = (float)embedding;
    spec->residual_scale = (float)residual;
    spec->logit_scale = (float)(spec->family->divide_logits ? 1.0 / logit : logit);
    spec->logit_softcap = (float)softcap;
    return LINNET_OK;
}

static ln_status read_relative(const ln_config *config, ln_spec *spec, ln_error *err) {
    spec->n_relative_buckets = 32;
    spec->relative_max_distance = 128;
    LN_TRY(ln_config_size(
        config, (ln_key){"relative_attention_num_buckets", "attention.relative_buckets_count"}, 4,
        1 << 20, &spec->n_relative_buckets, err));
    LN_TRY(ln_config_size(config, (ln_key){"relative_attention_max_distance", ""}, 2, INT32_MAX,
                          &spec->relative_max_distance, err));
    if (spec->n_relative_buckets % 2 != 0 ||
        spec->relative_max_distance <= spec->n_relative_buckets / 2)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: %zu buckets of relative positions up to distance %zu are impossible",
                       ln_checkpoint_path(config->checkpoint), spec->n_relative_buckets,
                       spec->relative_max_distance);
    return LINNET_OK;
}

/* ALiBi's last slope is 2 to the power of -8; MPT's own code reads another power, of which the
 * transformers library takes no notice. */
static ln_status check_alibi(const ln_config *config, const ln_spec *spec, ln_error *err) {
    double power = 8;
    LN_TRY(ln_config_real(config,
                          (ln_key){"attn_config.alibi_bias_max", "attention.max_alibi_bias"}, 0,
                          1e9, &power, err));
    if (spec->positions != LN_POSITIONS_ALIBI || power == 8)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: ALiBi up to a bias of %g is not supported",
                   ln_checkpoint_path(config->checkpoint), power);
}

/* Layers that see the best blocks alone see all of a context that has no more blocks. */
static ln_status read_sparse_blocks(const ln_config *config, ln_spec *spec, ln_error *err) {
    static const ln_key n_key = {"index_topk_blocks|sparse_attention_config.sparse_topk_blocks",
                                 "attention.indexer.top_k"};
    static const ln_key block_key = {"index_block_size|sparse_attention_config.sparse_block_size",
                                     "attention.indexer.block_size"};
    static const ln_key local_key = {
        "index_local_blocks|sparse_attention_config.sparse_local_block",
        "attention.indexer.local_blocks"};
    size_t n_blocks = 16, block = 128, n_local = 1;
    if (!spec->family->sparse_blocks)
        return LINNET_OK;
    LN_TRY(ln_config_size(config, n_key, 1, 1 << 20, &n_blocks, err));
    LN_TRY(ln_config_size(config, block_key, 1, 1 << 20, &block, err));
    LN_TRY(ln_config_size(config, local_key, 0, 1 << 20, &n_local, err));
    spec->block_tokens = block;
    spec->n_local_blocks = n_local;
    spec->max_ctx_tokens = n_blocks * block;
    if (spec->ctx_tokens > spec->max_ctx_tokens)
        spec->ctx_tokens = spec->max_ctx_tokens;
    return LINNET_OK;
}

/* Of a context with more tokens queries would see those of the greatest biases alone. */
static ln_status read_kept_window(const ln_config *config, ln_spec *spec, ln_error *err) {
    size_t n_kept = 2048;
    if (!spec->family->key_bias)
        return LINNET_OK;
    LN_TRY(ln_config_size(config, (ln_key){"keep_window_size", ""}, 1, INT32_MAX, &n_kept, err));
    spec->max_ctx_tokens = n_kept;
    if (spec->ctx_tokens > n_kept)
        spec->ctx_tokens = n_kept;
    return LINNET_OK;
}

/* Behind what these models were trained on, queries are scaled and the base grows. GGUF does not
 * say how far that goes. */
static ln_status read_trained_ctx(const ln_config *config, ln_spec *spec, ln_error *err) {
    bool scales = true, grows = true;
    if (!spec->family->trained_ctx || config->is_gguf)
        return LINNET_OK;
    LN_TRY(
        ln_config_size(config, (ln_key){"seq_length", ""}, 1, INT32_MAX, &spec->ctx_tokens, err));
    LN_TRY(ln_config_flag(config, (ln_key){"use_logn_attn", ""}, &scales, err));
    LN_TRY(ln_config_flag(config, (ln_key){"use_dynamic_ntk", ""}, &grows, err));
    if (scales || grows)
        spec->max_ctx_tokens = spec->ctx_tokens;
    return LINNET_OK;
}

/* As many as the checkpoint was made for; the padding token's number is that of a row, too. */
static ln_status read_computed_positions(const ln_config *config, ln_spec *spec, ln_error *err) {
    size_t n_positions = 2048;
    spec->computed_positions = true;
    spec->blank_position = 1;
    LN_TRY(ln_config_size(config, (ln_key){"max_position_embeddings|n_positions", ""}, 1, MAX_VOCAB,
                          &n_positions, err));
    LN_TRY(ln_config_size(config, (ln_key){"pad_token_id", ""}, 0, MAX_VOCAB, &spec->blank_position,
                          err));
    if (spec->family->even_sinusoids)
        spec->blank_position = SIZE_MAX;
    spec->n_learned = n_positions + spec->learned_offset;
    return LINNET_OK;
}

static ln_status read_positions(const ln_config *config, ln_spec *spec, ln_error *err) {
    const ln_family *family = spec->family;
    ln_meta_value value;
    spec->positions = family->positions;
    if (config->is_gguf && family->gguf_alibi_layers > 0)
        spec->positions =
            spec->n_layers == family->gguf_alibi_layers ? LN_POSITIONS_ALIBI : LN_POSITIONS_ROPE;
    else if (config->is_gguf && family->gguf_rope_flag) {
        bool rotates = true;
        LN_TRY(ln_config_flag(config, (ln_key){"", "rope.scaling.finetuned"}, &rotates, err));
        spec->positions = rotates ? LN_POSITIONS_ROPE : LN_POSITIONS_NONE;
    } else if (family->rope_key != NULL &&
               ln_config_find(config, (ln_key){family->rope_key, ""}, &value, NULL) &&
               (value.kind != LN_META_STRING ||
                ln_list_has("rope", value.string.data, value.string.bytes)))
        spec->positions = LN_POSITIONS_ROPE;
    bool is_alibi = false;
    if (family->alibi_key != NULL)
        LN_TRY(ln_config_flag(config, (ln_key){family->alibi_key, ""}, &is_alibi, err));
    if (is_alibi)
        spec->positions = LN_POSITIONS_ALIBI;
    spec->first_position = is_wrapped_by(config, "paligemma") ? 1 : 0;
    LN_TRY(check_alibi(config, spec, err));
    LN_TRY(read_sparse_blocks(config, spec, err));
    LN_TRY(read_kept_window(config, spec, err));
    LN_TRY(read_trained_ctx(config, spec, err));
    if (spec->positions == LN_POSITIONS_RELATIVE || family->also_relative)
        LN_TRY(read_relative(config, spec, err));
    if (spec->positions != LN_POSITIONS_LEARNED)
        return LINNET_OK;
    spec->learned_offset = family->learned_offset;
    if (family->computed_positions)
        LN_TRY(read_computed_positions(config, spec, err));
    else
        LN_TRY(read_table_rows(config, spec, LN_ROLE_LEARNED_POSITIONS, &spec->n_learned, err));
    if (family->learned_after_pad && !config->is_gguf) {
        size_t pad = 1;
        LN_TRY(ln_config_size(config, (ln_key){"pad_token_id", ""}, 0, MAX_VOCAB, &pad, err));
        spec->learned_offset = pad + 1;
    }
    if (spec->n_learned <= spec->learned_offset)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: the table of positions has only %zu rows",
                       ln_checkpoint_path(config->checkpoint), spec->n_learned);
    spec->max_ctx_tokens = spec->n_learned - spec->learned_offset;
    if (spec->ctx_tokens > spec->max_ctx_tokens)
        spec->ctx_tokens = spec->max_ctx_tokens;
    return LINNET_OK;
}

/* Whether tokens see those behind them, and what tells texts of a pair apart. */
static ln_status read_direction(const ln_config *config, ln_spec *spec, ln_error *err) {
    const ln_family *family = spec->family;
    const ln_binding *binding;
    bool is_causal = !family->bidirectional, sees_both = false;
    ln_tensor_id types = {.role = LN_ROLE_TOKEN_TYPES};
    if (family->direction_key != NULL) {
        LN_TRY(ln_config_flag(config, (ln_key){family->direction_key, ""}, &sees_both, err));
        LN_TRY(ln_config_flag(config, (ln_key){"is_causal", "attention.causal"}, &is_causal, err));
    }
    spec->bidirectional = sees_both || !is_causal;
    if (ln_family_find(family, config->checkpoint, types, &binding) != NULL)
        return read_table_rows(config, spec, LN_ROLE_TOKEN_TYPES, &spec->n_types, err);
    return LINNET_OK;
}

/* Whether two tensors of a checkpoint have other bytes, by a sample of them: one that differs in a
 * few rows alone may count as the same. */
static bool are_different(const ln_tensor *a, const ln_tensor *b) {
    enum { SAMPLES = 64, SAMPLE_BYTES = 1024 };
    if (a->dtype != b->dtype || a->bytes != b->bytes)
        return true;
    size_t n_bytes = a->bytes < SAMPLE_BYTES ? a->bytes : SAMPLE_BYTES;
    bool differ = false;
    for (size_t i = 0; i < SAMPLES && !differ; i++) {
        size_t at = (a->bytes - n_bytes) / (SAMPLES - 1) * i;
        differ = memcmp(a->data + at, b->data + at, n_bytes) != 0;
    }
    return differ;
}

/* Whether an output lies there beside the embedding that is not the same matrix: what multiplies
 * then whatever config.json says, as transformers has it. */
static bool has_own_output(const ln_config *config, const ln_family *family) {
    const ln_binding *binding;
    const ln_checkpoint *checkpoint = config->checkpoint;
    ln_tensor_id output_id = {.role = LN_ROLE_OUTPUT}, embedding_id = {.role = LN_ROLE_EMBEDDING};
    const ln_tensor *output = ln_family_find(family, checkpoint, output_id, &binding);
    const ln_tensor *embedding = ln_family_find(family, checkpoint, embedding_id, &binding);
    return output != NULL && embedding != NULL && are_different(output, embedding);
}

/* Either of a model and the one around it may say it. */
static ln_status read_tied_flag(const ln_config *config, bool *tied, ln_error *err) {
    static const ln_key key = {"tie_word_embeddings", ""};
    bool outer = *tied;
    ln_config around = *config;
    around.nest = "";
    LN_TRY(ln_config_flag(&around, key, &outer, err));
    LN_TRY(ln_config_flag(config, key, tied, err));
    *tied |= *config->nest != '\0' && outer;
    return LINNET_OK;
}

/* Whether a folder says that it holds a model without its output. */
static bool is_bare(const ln_config *config) {
    static const char *const endings[] = {"ForSequenceClassification", "Model"};
    static const char no[] = "LMHeadModel";
    ln_meta_value list, name;
    if (!ln_checkpoint_meta(config->checkpoint, "architectures", &list) ||
        !ln_meta_item(&list, 0, &name) || name.kind != LN_META_STRING)
        return false;
    const char *end = name.string.data + name.string.bytes;
    size_t n_no = sizeof no - 1;
    if (name.string.bytes >= n_no && memcmp(end - n_no, no, n_no) == 0)
        return false;
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(endings[i]);
        if (name.string.bytes >= n && memcmp(end - n, endings[i], n) == 0)
            return true;
    }
    return false;
}

/* Whether the output is the embedding: by a flag of config.json, or because there is no other. A
 * flag that is false wants the tensor. */
static ln_status read_tied(const ln_config *config, ln_spec *spec, ln_error *err) {
    ln_tensor_id id = {.role = LN_ROLE_OUTPUT};
    bool is_there = ln_family_has(spec->family, config->checkpoint, id);
    if (spec->family->drafts)
        return LINNET_OK;
    spec->tied = !is_there || (spec->family->tied_by_default && !config->is_gguf);
    LN_TRY(read_tied_flag(config, &spec->tied, err));
    if (!spec->tied && !is_there && !config->is_gguf && is_bare(config))
        spec->tied = spec->lacks_output = true;
    if (!spec->tied || !is_there || config->is_gguf)
        return LINNET_OK;
    spec->tied = !has_own_output(config, spec->family);
    return ln_checkpoint_check(config->checkpoint, err);
}

/* Whether quantised matrices say which group a column belongs to. */
static bool has_order(const ln_checkpoint *checkpoint) {
    static const char ending[] = "g_idx";
    for (size_t i = 0; i < ln_checkpoint_tensor_count(checkpoint); i++) {
        const char *name = ln_checkpoint_tensor(checkpoint, i)->name;
        size_t n = strlen(name), n_ending = sizeof ending - 1;
        if (n > n_ending && memcmp(name + n - n_ending, ending, n_ending) == 0)
            return true;
    }
    return false;
}

/* By its key, or where there is none by the list of what layers are. */
static ln_status read_layer_count(const ln_config *config, size_t *n_layers, ln_error *err) {
    static const ln_key key = {
        "num_decoder_layers|decoder_layers|num_hidden_layers|n_layer|num_layers|n_layers|"
        "num_transformer_layers",
        "decoder_block_count|block_count"};
    ln_meta_value value, list, item;
    char name[128];
    if (ln_config_find(config, key, &value, name) ||
        !ln_config_find(config, (ln_key){"layers_block_type", ""}, &list, name))
        return ln_config_need_size(config, key, 1, LN_MAX_LAYERS, n_layers, err);
    for (*n_layers = 0; ln_meta_item(&list, *n_layers, &item);)
        if (++*n_layers > LN_MAX_LAYERS)
            break;
    if (*n_layers > 0 && *n_layers <= LN_MAX_LAYERS)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s lists an impossible number of layers",
                   ln_checkpoint_path(config->checkpoint), name);
}

/* A folder has its family's default; a GGUF file that does not say it was never written whole. */
static ln_status read_eps(const ln_config *config, double *eps, ln_error *err) {
    static const ln_key key = {
        "rms_norm_eps|layer_norm_epsilon|layer_norm_eps|norm_epsilon|layernorm_epsilon|norm_eps",
        "attention.layer_norm_rms_epsilon|attention.layer_norm_epsilon"};
    ln_meta_value value;
    if (config->is_gguf && !ln_config_find(config, key, &value, NULL))
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: no key says the norms' epsilon",
                       ln_checkpoint_path(config->checkpoint));
    return ln_config_real(config, key, 0, 1, eps, err);
}

static ln_status read_size(ln_config *config, ln_spec *spec, ln_error *err) {
    LN_TRY(ln_config_need_size(
        config, (ln_key){"hidden_size|n_embd|n_embed|d_model|dim|model_dim", "embedding_length"}, 1,
        LN_MAX_DIM, &spec->dim, err));
    LN_TRY(read_layer_count(config, &spec->n_layers, err));
    if (spec->family->shortcut) {
        LN_TRY(ln_config_need_size(config, (ln_key){"num_layers", ""}, 1, LN_MAX_LAYERS / 2,
                                   &spec->n_layers, err));
        spec->n_layers *= 2;
    }
    LN_TRY(ln_spec_read_cycles(config, spec, err));
    config->n_layers = spec->n_layers;
    return LINNET_OK;
}

static ln_status read_common(const ln_config *config, ln_spec *spec, ln_error *err) {
    if (!spec->family->assists) /* of an assistant the key counts all its layers */
        LN_TRY(ln_config_size(config, (ln_key){"", "nextn_predict_layers"}, 0, spec->n_layers - 1,
                              &spec->n_prediction_layers, err));
    spec->n_layers -= spec->n_prediction_layers;
    spec->ctx_tokens = 2048;
    LN_TRY(
        ln_config_size(config,
                       (ln_key){"max_position_embeddings|n_positions|model_max_length|seq_length|"
                                "max_seq_len|max_context_length",
                                "context_length"},
                       1, INT32_MAX, &spec->ctx_tokens, err));
    double eps = spec->norm_kind == LN_NORM_LAYER ? 1e-5 : 1e-6;
    LN_TRY(read_eps(config, &eps, err));
    spec->output_norm_eps = spec->family->output_eps ? (float)eps : 0.0f;
    if (!config->is_gguf && spec->family->norm_eps > 0)
        eps = spec->family->norm_eps;
    spec->norm_eps = (float)eps;
    double post_eps = eps;
    if (config->is_gguf && spec->family->gguf_post_eps > 0)
        post_eps = spec->family->gguf_post_eps;
    LN_TRY(ln_config_real(config, (ln_key){"post_norm_eps", ""}, 0, 1, &post_eps, err));
    spec->post_norm_eps = (float)post_eps;
    if (!config->is_gguf && spec->family->latent_eps > 0)
        eps = spec->family->latent_eps;
    LN_TRY(ln_config_real(config, (ln_key){"", "attention.latent_layer_norm_rms_epsilon"}, 0, 1,
                          &eps, err));
    spec->latent_norm_eps = (float)eps;
    if (spec->family->blends) {
        spec->blend_temperature = 0.3;
        LN_TRY(ln_config_real(config, (ln_key){"residual_gate_temperature", ""}, 1e-9, 1e9,
                              &spec->blend_temperature, err));
    }
    spec->scales_residual = spec->family->scales_residual;
    LN_TRY(ln_spec_read_unit_sphere(config, spec, err));
    if (spec->family->gated_norms)
        LN_TRY(ln_config_need_size(config, (ln_key){"gated_norm_rank", ""}, 1, LN_MAX_DIM,
                                   &spec->norm_gate_rank, err));
    LN_TRY(read_tied(config, spec, err));
    LN_TRY(read_vocab(config, spec, err));
    LN_TRY(read_direction(config, spec, err));
    spec->unit_output = !config->is_gguf && spec->n_vocab == spec->family->unit_output_vocab;
    spec->has_order = has_order(config->checkpoint);
    LN_TRY(read_scales(config, spec, err));
    return read_positions(config, spec, err);
}

ln_status ln_spec_read(const ln_checkpoint *checkpoint, ln_arena *arena, ln_spec *spec,
                       ln_error *err) {
    ln_config config = {.checkpoint = checkpoint,
                        .nest = "",
                        .is_gguf = ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF};
    *spec = (ln_spec){.decoder_start_id = -1};
    LN_TRY(find_family(&config, spec, err));
    LN_TRY(check_refused(&config, spec->family, err));
    LN_TRY(check_quantised(&config, err));
    spec->norm_kind = spec->family->norm;
    if (config.is_gguf && spec->norm_kind == LN_NORM_RMS_PLUS_ONE)
        spec->norm_kind = LN_NORM_RMS;
    ln_meta_value eps;
    if (spec->family->rms_where_said &&
        ln_config_find(&config, (ln_key){"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, &eps,
                       NULL))
        spec->norm_kind = LN_NORM_RMS;
    LN_TRY(read_size(&config, spec, err));
    LN_TRY(read_common(&config, spec, err));
    LN_TRY(ln_spec_read_layers(&config, arena, spec, err));
    if (spec->family->assists)
        return ln_spec_read_assistant(&config, spec, err);
    if (spec->family->drafts_blocks)
        return ln_spec_read_dflash(&config, spec, err);
    return spec->family->drafts ? ln_spec_read_eagle(&config, spec, err) : LINNET_OK;
}
