#include "model/skipped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/family.h"

/* First words of names, behind "model." or not, of what sees, hears, speaks, or predicts more than
 * the next token. */
static const char *const parts[] = {
    "vision_tower",
    "image_tower", /* of Video-LLaVA */
    "video_tower",
    "vision_embed_tokens",
    "vision_model",
    "vision_encoder",
    "vision_backbone",
    "visual",
    "visual_embeddings_table", /* of Ovis 2 */
    "image_newline",
    "multi_modal_projector",
    "projector",
    "mlp1",
    "mm_projector",
    "vision_projector",
    "vision_language_adapter",
    "vision_adapter",
    "vision_projection",
    "language_projection", /* of BLIP-2 and InstructBLIP */
    "qformer",
    "query_tokens",
    "perception", /* of Nemotron 3.5 Transcribe */
    "ctc_timestamp",
    "word_timestamp_encoder", /* of the same, as transformers has it in memory */
    "word_timestamp_head",
    "vit_large_projector",
    "patch_merger",
    "patch_merge_mlp", /* of MiniMax M3 VL */
    "pre_mm_projector_norm",
    "mtp_dspark",
    "qwen2_model", /* of DeepSeek OCR 2, which sees */
    "sam_model",
    "view_seperator",
    "view_separator",
    "embed_tokens_extend",
    "layerwise_projectors",
    "resampler_model",
    "spatial_projectors",
    "connector",
    "embed_vision",
    "audio",            /* of Inkling */
    "vision_tokenizer", /* of Apertus 1.5 */
    "audio_tokenizer",
    "audio_tower",
    "audio_encoder",
    "audio_adapter",
    "acoustic_tokenizer_encoder",
    "semantic_tokenizer_encoder",
    "embed_audio",
    "aligner",
    "high_res_vision_alpha",
    "high_res_vision_model",
    "high_res_vision_neck",
    "high_res_vision_proj",
    "generation_aligner",
    "generation_embeddings",
    "generation_head",
    "vqmodel",
    "mlp_AR",
    "vit",
    "merger",
    "talker",
    "token2wav",
    "code2wav",
    "mtp",
    "mtp_layers",
    "mtp_block",
    "mtp_emb_norm",
    "mtp_hidden_norm",
    "mtp_linear_proj",
};

static bool begins_with(const char *name, const char *word) {
    size_t n = strlen(word);
    return strncmp(name, word, n) == 0 && (name[n] == '.' || name[n] == '\0');
}

/* Granite Speech's encoder has no word of its own before it. */
static bool is_of_encoder(const ln_checkpoint *checkpoint, const char *name) {
    ln_meta_value type;
    return begins_with(name, "encoder") &&
           ln_checkpoint_meta(checkpoint, "encoder_config.model_type", &type);
}

/* Neither have parts of Cosmos 3 Omni that see. */
static bool is_of_sight(const ln_checkpoint *checkpoint, const char *name) {
    static const char *const words[] = {"blocks", "patch_embed", "pos_embed",
                                        "deepstack_merger_list"};
    ln_meta_value type;
    bool is_omni = ln_checkpoint_meta(checkpoint, "model_type", &type) &&
                   type.kind == LN_META_STRING &&
                   ln_list_has("cosmos3_omni", type.string.data, type.string.bytes);
    for (size_t i = 0; i < sizeof words / sizeof *words && is_omni; i++)
        if (begins_with(name, words[i]))
            return true;
    return false;
}

static bool has_prediction_key(const ln_checkpoint *checkpoint) {
    static const char *const keys[] = {"num_nextn_predict_layers", "num_mtp_layers",
                                       "num_mtp_modules", "text_config.num_nextn_predict_layers",
                                       "text_config.num_mtp_layers"};
    ln_meta_value value;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (ln_checkpoint_meta(checkpoint, keys[i], &value) && value.kind == LN_META_INT &&
            value.integer > 0)
            return true;
    return false;
}

/* Whether layers stand behind the last one that predict several tokens at once: a key says it, or
 * the first of them has the projection that all such layers have. */
static bool has_prediction_layers(const ln_checkpoint *checkpoint, const ln_spec *spec) {
    char name[LN_TENSOR_NAME_BYTES], placed[LN_TENSOR_NAME_BYTES];
    if (has_prediction_key(checkpoint))
        return true;
    snprintf(name, sizeof name, "model.layers.%zu.eh_proj.weight", spec->n_layers);
    for (size_t i = 0; ln_family_place(spec->family, name, i, placed); i++)
        if (ln_checkpoint_find(checkpoint, placed) != NULL)
            return true;
    return false;
}

/* The number of the layer that a name is of; false: it is of none. */
static bool layer_of(const ln_spec *spec, const char *name, size_t *layer) {
    char prefix[LN_TENSOR_NAME_BYTES], *end;
    for (size_t i = 0; ln_family_place(spec->family, "model.layers.", i, prefix); i++) {
        size_t n = strlen(prefix);
        if (strncmp(name, prefix, n) != 0)
            continue;
        *layer = (size_t)strtoul(name + n, &end, 10);
        return *end == '.' && end > name + n;
    }
    return false;
}

/* Whether a tensor of layer `layer` is of experts that text does not meet. */
static bool is_of_pictures(const ln_spec *spec, size_t layer, const char *name) {
    static const char experts[] = ".mlp.experts.", router[] = ".mlp.gate.weight_1";
    static const char moe[] = ".mlp.vision_moe."; /* as transformers has them in memory */
    const char *found = strstr(name, experts);
    if (!spec->family->experts_of_pictures || layer >= spec->n_layers)
        return false;
    if (found == NULL)
        return strstr(name, router) != NULL || strstr(name, moe) != NULL;
    return strtoul(found + sizeof experts - 1, NULL, 10) >= spec->layers[layer].ffn.moe.n_experts;
}

const char *ln_skipped_part(const ln_checkpoint *checkpoint, const ln_spec *spec,
                            const ln_tensor *tensor) {
    static const char base[] = "model.", thinker[] = "thinker.";
    const char *name = tensor->name;
    size_t layer;
    if (spec->family->sparse_blocks &&
        (strstr(name, ".self_attn.index") != NULL || strstr(name, ".indexer.") != NULL))
        return "indexers";
    if (spec->family->compressed_attention &&
        (strstr(name, ".ffn.gate.bias_vl") != NULL || strstr(name, ".exp_probs_b_vl.") != NULL))
        return "biases of routers, for pictures";
    if (ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF)
        return strncmp(name, "blk.", 4) == 0 && strtoul(name + 4, NULL, 10) >= spec->n_layers &&
                       spec->n_prediction_layers > 0
                   ? "prediction layers"
                   : NULL;
    if (layer_of(spec, name, &layer) && is_of_pictures(spec, layer, name))
        return "experts of pictures";
    if (spec->family->idle_layers_key != NULL && layer_of(spec, name, &layer) &&
        layer < spec->n_layers && spec->layers[layer].attention.n_heads == 0)
        return "layers that read pictures";
    if (spec->family->shared_blocks && layer_of(spec, name, &layer) &&
        spec->layers[layer].shared.source == layer && strstr(name, "_adapter_list.") != NULL)
        return "adapters of other layers' blocks";
    if (layer_of(spec, name, &layer))
        return layer >= spec->n_layers && has_prediction_layers(checkpoint, spec)
                   ? "prediction layers"
                   : NULL;
    if (strncmp(name, thinker, sizeof thinker - 1) == 0)
        name += sizeof thinker - 1;
    if (strncmp(name, base, sizeof base - 1) == 0)
        name += sizeof base - 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (begins_with(name, parts[i]))
            return parts[i];
    if (is_of_sight(checkpoint, name))
        return "visual";
    return is_of_encoder(checkpoint, name) ? "encoder" : NULL;
}
