#include "model/family.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
#define LN_FAMILIES(X)                                                                             \
    X(afmoe) X(apertus) X(apertus1p5) X(arcee) X(aria_text) X(axk1) X(axk2) X(baichuan) X(bailing_hybrid) X(bailing_moe) X(bailing_moe_v1) X(bamba)          \
    X(bart) X(beam) X(bert) X(biogpt) X(bitnet) X(blenderbot) X(bloom) X(chameleon) X(chatglm) X(codegen) X(codeshell) X(cohere) X(cohere2) X(cohere2_moe) X(cohere_compass) X(cosmos3_edge) X(ctrl) X(dbrx) X(deci)      \
    X(deepseek) X(deepseek_ocr2) X(deepseek_v2) X(deepseek_v3) X(deepseek_v32) X(deepseek_v4) X(dflash) X(diffllama) X(distilbert) X(doge) X(dory) X(dots1) X(dots3_note) X(eagle3) X(electra) X(ernie4_5)    \
    X(ernie4_5_moe) X(eurobert) X(exaone) X(exaone4) X(exaone_moe) X(falcon) X(falcon_h1) X(flex_olmo) X(flint)       \
    X(gemma) X(gemma2) X(gemma3) X(gemma3n) X(gemma4) X(gemma4_assistant) X(glm) X(glm4) X(glm4_moe)                   \
    X(glm4_moe_lite) X(glm5_next) X(glm_moe_dsa) X(gpt2) X(gpt_bigcode) X(gpt_neo) X(gpt_neox) X(gpt_neox_japanese) X(gpt_oss)       \
    X(gptj) X(granite) X(granite_swa) X(gte) X(granitemoe) X(granitemoehybrid) X(grok) X(helium)                  \
    X(hrm_text) X(hunyuan_v1_dense) X(hunyuan_v1_moe) X(hy_v3) X(hy_v4) X(hy_v4_vl) X(hyperclovax) X(inkling) X(inkling2) X(internlm2) X(jais) X(jais2) X(jamba)   \
    X(jetmoe) X(jina_bert) X(jina_embeddings_v3) X(kimi_k3) X(kimi_linear) X(kolibri1) X(laguna) X(lara_mini) X(lfm2) X(lfm2_moe) X(lfm3) X(llama)   \
    X(llama4) X(llama_bidirec) X(longcat_flash) X(m2m_100) X(maincoder) X(mamba) X(mamba2) X(marian) X(mbart) X(mellum) X(mimo) X(mimo_v2_flash) X(minicpm) X(minicpm3) X(minimax) X(minimax_m2) X(minimax_m3)   \
    X(ministral3) X(mistral) X(mistral4) X(mistral_large4) X(mixtral) X(mllama) X(modernbert) X(modernbert_decoder) X(molmo2) X(mpnet) X(mpt) X(muse_glimmer) X(muse_spark) X(nanbeige) X(nanochat)      \
    X(nemotron) X(nemotron_h) X(nomic_bert) X(nomic_bert_moe) X(olmo) X(olmo2) X(olmo_hybrid) X(olmoe) X(openai_gpt) X(openelm) X(opt) X(orion) X(ouro) X(pangu_embedded) X(paddleocr_vl)       \
    X(pegasus) X(persimmon) X(phi) X(phi3) X(phimoe) X(plamo3) X(plm) X(qwen) X(qwen2) X(qwen2_moe) X(qwen2_vl) X(qwen3) X(qwen3_5)    \
    X(qwen3_5_moe) X(qwen3_moe) X(qwen3_next) X(qwen3_vl) X(qwen3_vl_moe) X(qwen4_exp) X(recurrent_gemma) X(roberta) X(sarvam_mla) X(seed_oss)   \
    X(smallthinker) X(smollm3) X(solar_open) X(spark2_5) X(stablelm) X(starcoder2) X(step3p5) X(t5) X(t5_encoder) X(vaultgemma) X(xglm) X(youtu) X(zamba) X(zamba2) X(zaya)
/* clang-format on */

#define DECLARE(name) extern const ln_family ln_family_##name;
LN_FAMILIES(DECLARE)
#undef DECLARE

const ln_family *const ln_families[] = {
#define ENTRY(name) &ln_family_##name,
    LN_FAMILIES(ENTRY)
#undef ENTRY
        NULL,
};

const char *ln_binding_pattern(const ln_binding *binding, ln_checkpoint_format format,
                               bool *is_bare) {
    *is_bare = format == LN_FORMAT_HF ? binding->hf_bare : binding->gguf_bare;
    if (format == LN_FORMAT_HF)
        return binding->hf;
    if (binding->bare)
        return NULL;
    if (binding->gguf == NULL)
        return ln_gguf_name(binding->role, is_bare);
    return binding->gguf[0] != '\0' ? binding->gguf : NULL;
}

/* What converters to GGUF may join, of any family (llama.cpp's --fuse-qkv, --fuse-gate-up-exps). */
static const ln_binding *fused_binding(const ln_family *family, ln_role role) {
#define FUSED(role_, name, part)                                                                   \
    { .role = role_, .gguf = "blk.%d." name, .gguf_part = part }
    static const ln_binding gated[] = {
        FUSED(LN_ROLE_Q, "attn_qkv", LN_PART_GATED_QKV),
        FUSED(LN_ROLE_K, "attn_qkv", LN_PART_GATED_QKV),
        FUSED(LN_ROLE_V, "attn_qkv", LN_PART_GATED_QKV),
        FUSED(LN_ROLE_ATTENTION_GATE, "attn_qkv", LN_PART_GATED_QKV)};
    static const ln_binding fused[] = {
        FUSED(LN_ROLE_Q, "attn_qkv", LN_PART_QKV),
        FUSED(LN_ROLE_K, "attn_qkv", LN_PART_QKV),
        FUSED(LN_ROLE_V, "attn_qkv", LN_PART_QKV),
        FUSED(LN_ROLE_MIXER_Q, "attn_qkv", LN_PART_MIXER_QKV),
        FUSED(LN_ROLE_MIXER_K, "attn_qkv", LN_PART_MIXER_QKV),
        FUSED(LN_ROLE_MIXER_V, "attn_qkv", LN_PART_MIXER_QKV),
        FUSED(LN_ROLE_EXPERT_GATE, "ffn_gate_up_exps", LN_PART_GATE_UP),
        FUSED(LN_ROLE_EXPERT_UP, "ffn_gate_up_exps", LN_PART_GATE_UP)};
#undef FUSED
    bool is_gated = false;
    for (size_t i = 0; i < family->n_bindings; i++)
        is_gated |= family->bindings[i].gguf_part == LN_PART_Q_GATE_BY_HEAD;
    for (size_t i = 0; is_gated && i < sizeof gated / sizeof *gated; i++)
        if (gated[i].role == role)
            return &gated[i];
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
        if (fused[i].role == role)
            return &fused[i];
    return NULL;
}

const ln_binding *ln_family_binding(const ln_family *family, ln_checkpoint_format format,
                                    ln_tensor_id id, size_t index) {
    bool is_bare, has_any = false;
    for (size_t i = 0; i < family->n_bindings; i++) {
        const ln_binding *binding = &family->bindings[i];
        if (binding->role != id.role || binding->encoder != id.encoder ||
            ln_binding_pattern(binding, format, &is_bare) == NULL)
            continue;
        if (index-- == 0)
            return binding;
        has_any = true;
    }
    bool may_be_fused = format == LN_FORMAT_GGUF && has_any && !id.encoder && index == 0;
    return may_be_fused ? fused_binding(family, id.role) : NULL;
}

void ln_binding_name(const ln_binding *binding, ln_checkpoint_format format, ln_tensor_id id,
                     char name[LN_TENSOR_NAME_BYTES]) {
    static const char layers[] = "model.layers.%d";
    bool bare;
    const char *c = ln_binding_pattern(binding, format, &bare);
    const char *suffix = id.is_bias ? (bare ? "_bias" : ".bias") : (bare ? "" : ".weight");
    static const char weight[] = "_weight";
    size_t n = 0, n_layers = sizeof layers - 1, n_weight = sizeof weight - 1;
    if (format == LN_FORMAT_HF && id.stem != NULL && strncmp(c, layers, n_layers) == 0) {
        n = (size_t)snprintf(name, LN_TENSOR_NAME_BYTES, "%s", id.stem);
        c += n_layers;
    }
    while (*c != '\0' && n < LN_TENSOR_NAME_BYTES - 48) {
        size_t number = c[1] == 'd'   ? id.layer
                        : c[1] == 'h' ? id.layer / 2
                        : c[1] == 'p' ? id.layer % 2
                        : c[1] == 'n' ? id.layer + 1
                                      : id.expert;
        if (c[0] != '%' || c[1] == '\0' || strchr("dhpne", c[1]) == NULL) {
            name[n++] = *c++;
            continue;
        }
        n += (size_t)snprintf(name + n, LN_TENSOR_NAME_BYTES - n, "%zu", number);
        c += 2;
    }
    if (bare && id.is_bias && n > n_weight && memcmp(name + n - n_weight, weight, n_weight) == 0)
        n -= n_weight;
    snprintf(name + n, LN_TENSOR_NAME_BYTES - n, "%s", suffix);
}

bool ln_family_place(const ln_family *family, const char *name, size_t index,
                     char placed[LN_TENSOR_NAME_BYTES]) {
    const struct {
        const char *from, *to;
    } places[] = {{"", ""},
                  {family->hf_prefix != NULL ? family->hf_prefix : "", ""},
                  {"model.", "model.language_model."},
                  {"", "language_model."},
                  {"backbone.", "llm.model."}, /* of Nemotron 3.5 Transcribe */
                  {"backbone.", "model."},     /* as transformers has it in memory */
                  {"backbone.", "model.language_model."},
                  {"backbone.", "language_model.model."}, /* of Nemotron H Omni */
                  {"", "thinker."},
                  {"", "text_model."}, /* as saved of Emu 3 */
                  {"model.", "language_model."},
                  {"model.", "model.text_model."},
                  {"", "model.language_model."},
                  {"model.layers.", "language_model.model.blocks."}, /* as saved of Kimi K2.5 */
                  {"model.layers.", "language_model.model.encoder.layers."}}; /* of Qianfan OCR */
    if (index >= sizeof places / sizeof *places)
        return false;
    const char *from = places[index].from, *to = places[index].to;
    if (strncmp(name, from, strlen(from)) != 0)
        from = to = "";
    snprintf(placed, LN_TENSOR_NAME_BYTES, "%s%s", to, name + strlen(from));
    return true;
}

/* The tensor of this name, wherever the checkpoint keeps it. */
static const ln_tensor *find_placed(const ln_family *family, const ln_checkpoint *checkpoint,
                                    const char *name) {
    char placed[LN_TENSOR_NAME_BYTES];
    if (ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF)
        return ln_checkpoint_find(checkpoint, name);
    const ln_tensor *tensor = NULL;
    for (size_t i = 0; tensor == NULL && ln_family_place(family, name, i, placed); i++)
        tensor = ln_checkpoint_find(checkpoint, placed);
    return tensor;
}

const ln_tensor *ln_family_find(const ln_family *family, const ln_checkpoint *checkpoint,
                                ln_tensor_id id, const ln_binding **binding) {
    ln_checkpoint_format format = ln_checkpoint_get_format(checkpoint);
    char name[LN_TENSOR_NAME_BYTES];
    for (size_t i = 0;; i++) {
        *binding = ln_family_binding(family, format, id, i);
        if (*binding == NULL)
            return NULL;
        ln_binding_name(*binding, format, id, name);
        const ln_tensor *tensor = find_placed(family, checkpoint, name);
        if (tensor != NULL)
            return tensor;
    }
}

bool ln_family_has(const ln_family *family, const ln_checkpoint *checkpoint, ln_tensor_id id) {
    static const char *const values[] = {".qweight", ".weight_packed"};
    const ln_binding *binding;
    char name[LN_TENSOR_NAME_BYTES];
    if (ln_family_find(family, checkpoint, id, &binding) != NULL)
        return true;
    if (ln_checkpoint_get_format(checkpoint) != LN_FORMAT_HF)
        return false;
    for (size_t i = 0; (binding = ln_family_binding(family, LN_FORMAT_HF, id, i)) != NULL; i++)
        for (size_t j = 0; j < 2 && !binding->hf_bare; j++) {
            ln_binding_name(binding, LN_FORMAT_HF, id, name);
            size_t n = strlen(name) - strlen(".weight");
            snprintf(name + n, sizeof name - n, "%s", values[j]);
            if (find_placed(family, checkpoint, name) != NULL)
                return true;
        }
    return false;
}

bool ln_family_is_numbered(const ln_family *family, const ln_checkpoint *checkpoint,
                           ln_tensor_id id) {
    const ln_binding *binding;
    bool is_bare;
    return ln_family_find(family, checkpoint, id, &binding) != NULL &&
           strstr(ln_binding_pattern(binding, ln_checkpoint_get_format(checkpoint), &is_bare),
                  "%e") != NULL;
}

float ln_family_norm_offset(const ln_family *family, ln_role role) {
    double offset = role == LN_ROLE_ATTENTION_POST_NORM ? family->post_offsets[0]
                    : role == LN_ROLE_FFN_POST_NORM     ? family->post_offsets[1]
                                                        : 0;
    return offset > 0 ? (float)offset : 1.0f;
}

bool ln_family_is_bare(const ln_family *family, ln_role role) {
    for (size_t i = 0; i < family->n_bindings; i++)
        if (family->bindings[i].role == role && family->bindings[i].bare)
            return true;
    return false;
}
