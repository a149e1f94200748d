/* Impossible and unsupported configurations are refused in one sentence that names the key; what
 * is read lands in the spec. Each case edits the config.json of a golden checkpoint. */
#include "backend/registry.h"
#include "model/load.h"
#include "model/spec_read.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "model/family.h"
#include "model/rope.h"
#include "model/skipped.h"
#include "model/source.h"
#include "model/spec.h"
#include "model/weights.h"

/* A folder with the edited config.json and a link to the golden's tensors. */
typedef struct edited {
    char folder[64];
    char config[96], tensors[96];
} edited;

static char *replace(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    if (at == NULL)
        fail_msg("the config has no %s", from);
    ln_strbuf out;
    ln_strbuf_init(&out);
    ln_strbuf_append(&out, text, (size_t)(at - text));
    ln_strbuf_puts(&out, to);
    ln_strbuf_puts(&out, at + strlen(from));
    return ln_strbuf_take(&out);
}

/* What `from` says becomes `to`. */
typedef struct change {
    const char *from, *to;
} change;

static edited edit(const char *golden, const change *changes, size_t n_changes) {
    edited e = {.folder = "/tmp/linnet-spec-XXXXXX"};
    char path[512];
    ln_strbuf text;
    ln_strbuf_init(&text);
    assert_non_null(mkdtemp(e.folder));
    snprintf(e.config, sizeof e.config, "%s/config.json", e.folder);
    snprintf(e.tensors, sizeof e.tensors, "%s/model.safetensors", e.folder);
    snprintf(path, sizeof path, "%s/tests/golden/models/%s/model.safetensors", TEST_SOURCE_DIR,
             golden);
    assert_int_equal(symlink(path, e.tensors), 0);
    snprintf(path, sizeof path, "%s/tests/golden/models/%s/config.json", TEST_SOURCE_DIR, golden);
    assert_int_equal(ln_file_read(path, 1 << 20, &text, NULL), LINNET_OK);
    for (size_t i = 0; i < n_changes; i++) {
        char *changed = replace(text.data, changes[i].from, changes[i].to);
        ln_strbuf_free(&text);
        ln_strbuf_init(&text);
        ln_strbuf_puts(&text, changed);
        free(changed);
    }
    FILE *file = fopen(e.config, "w");
    assert_non_null(file);
    fputs(text.data, file);
    fclose(file);
    ln_strbuf_free(&text);
    return e;
}

static void forget(const edited *e) {
    unlink(e->config);
    unlink(e->tensors);
    rmdir(e->folder);
}

/* Replaces the link to the tensors by a copy, in whose header `from`, which must be there, becomes
 * `to`; a header's end is spaces, which make up for the difference. */
static void edit_tensors(const edited *e, const char *from, const char *to) {
    ln_strbuf file, header;
    ln_strbuf_init(&file);
    assert_int_equal(ln_file_read(e->tensors, 1 << 24, &file, NULL), LINNET_OK);
    uint64_t n_header;
    memcpy(&n_header, file.data, sizeof n_header);
    ln_strbuf_init(&header);
    ln_strbuf_append(&header, file.data + 8, n_header);
    char *changed = replace(header.data, from, to);
    size_t n = strlen(changed);
    while (n > n_header && changed[n - 1] == ' ')
        n--;
    assert_int_equal(n, n_header);
    memcpy(file.data + 8, changed, n);
    assert_int_equal(unlink(e->tensors), 0);
    FILE *out = fopen(e->tensors, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file.data, 1, file.len, out), file.len);
    fclose(out);
    free(changed);
    ln_strbuf_free(&header);
    ln_strbuf_free(&file);
}

/* Reads spec and weight plan of a folder, which is then removed. */
static ln_status read_folder(const edited *e, ln_spec *spec, ln_arena *arena, ln_error *err) {
    ln_checkpoint *checkpoint;
    ln_backend *backend;
    ln_weights_plan plan;
    ln_backend_options options = {.isa = "scalar", .n_threads = 1};
    assert_int_equal(ln_backend_create("cpu", &options, &backend, NULL), LINNET_OK);
    ln_status status = ln_checkpoint_open(e->folder, false, &checkpoint, err);
    if (status == LINNET_OK) {
        status = ln_spec_read(checkpoint, arena, spec, err);
        if (status == LINNET_OK)
            status = ln_weights_plan_bytes(checkpoint, spec, &(ln_weights_options){0}, backend,
                                           &plan, err);
        ln_checkpoint_close(checkpoint);
    }
    backend->vtable->destroy(backend);
    forget(e);
    return status;
}

/* Reads spec and weight plan of an edited golden; the status and the message. */
static ln_status read_changed(const char *golden, const change *changes, size_t n_changes,
                              ln_spec *spec, ln_arena *arena, ln_error *err) {
    edited e = edit(golden, changes, n_changes);
    return read_folder(&e, spec, arena, err);
}

static ln_status read_edited(const char *golden, const char *from, const char *to, ln_spec *spec,
                             ln_arena *arena, ln_error *err) {
    return read_changed(golden, &(change){from, to}, 1, spec, arena, err);
}

/* A message of NULL: it is right. */
static const struct {
    const char *golden, *from, *to, *message;
} changed_values[] = {
    {"llama", "\"num_attention_heads\": 4", "\"num_attention_heads\": 0",
     "key num_attention_heads is 0"},
    {"seed_oss", "\"model_type\": \"seed_oss\"", "\"model_type\": \"seed_os\"",
     "\"seed_os\" is not supported; the nearest that are: seed_oss"},
    {"seed_oss", "\"model_type\": \"seed_oss\"", "\"model_type\": \"rwkv\"",
     "\"rwkv\" is not supported, nor is one of a name like it"},
    {"gemma3_vision", "\"model_type\": \"gemma3\"", "\"model_type\": \"unlimited_ocr\"",
     "\"unlimited_ocr\" is not supported: its tokens see a window and all of the prompt"},
    {"gemma3_vision", "\"model_type\": \"gemma3\"", "\"model_type\": \"gemma3_tv\"",
     "\"gemma3_tv\" is not supported; the nearest that are: gemma3"},
    {"gemma3_vision", "\"model_type\": \"gemma3_text\"", "\"model_type\": \"gemma9_text\"",
     "\"gemma9_text\" is not supported"},
    {"gemma3_vision", "\"num_attention_heads\": 4", "\"num_attention_heads\": 0",
     "key text_config.num_attention_heads is 0"},
    {"olmoe", "\"clip_qkv\": null", "\"clip_qkv\": 8.0", NULL},
    {"../dflash/qwen3", "\"block_size\": 8", "\"block_size\": 1", "key block_size is 1"},
    {"../dflash/qwen3", "\"block_size\": 8", "\"block_size\": 65", "key block_size is 65"},
    {"../dflash/qwen3", "\"mask_token_id\": 11", "\"mask_token_id\": -1",
     "key dflash_config.mask_token_id is -1"},
    {"../dflash/qwen3", "\"mask_token_id\": 11", "\"mask\": 11", "mask_token_id is missing"},
    {"../dflash/qwen3", "\"target_layer_ids\"", "\"layers\"",
     "no key says which layers of the model are read"},
    {"../dflash/qwen3", "\"target_layer_ids\": [", "\"target_layer_ids\": [1,",
     "does not read 3 hidden states"},
    {"../dflash/qwen3", "\"target_layer_ids\": [", "\"target_layer_ids\": [-1,",
     "key dflash_config.target_layer_ids lists impossible layers"},
    {"../dflash/qwen3", "\"target_layer_ids\": [", "\"target_layer_ids\": [4096,",
     "key dflash_config.target_layer_ids lists impossible layers"},
    {"../dflash/qwen3", "\"hidden_size\": 64", "\"hidden_size\": 32", "fc.weight"},
    {"../dflash/qwen3", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2", "layers.2."},
    {"../dflash/qwen3", "DFlashDraftModel", "DFlash2DraftModel",
     "this kind of DFlash (DFlash2DraftModel) is not supported"},
    {"../dflash/qwen3", "\"is_causal\": null", "\"is_causal\": false", NULL},
    {"../dflash/qwen3_5", "\"draft_vocab_size\": 80", "\"markov_rank\": 8",
     "this kind of DFlash (DFlashSpeculator) is not supported"},
    {"../dflash/gemma3", "\"sliding_window\": 10", "\"sliding_window\": null",
     "layer 0 sees a window of no size"},
    {"phimoe", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 1", "a sparse mixer of 1"},
    {"hy_v3", "\"sparse\"", "\"sparze\"", "key mlp_layer_types has no known kind for layer 1"},
    {"llama", "\"num_attention_heads\": 4", "\"num_attention_heads\": \"4\"",
     "key num_attention_heads is not a whole number"},
    {"llama", "\"num_attention_heads\": 4", "\"num_attention_headz\": 4",
     "|num_attention_heads|attention_heads|n_head|num_heads|n_heads|num_query_heads is missing"},
    {"llama", "\"num_attention_heads\": 4", "\"num_attention_heads\": [4]",
     "key num_attention_heads lists fewer values than there are layers"},
    {"llama", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": [2]",
     "key num_hidden_layers is a list"},
    {"llama", "\"hidden_size\": 64", "\"hidden_size\": [64, 64]", "key hidden_size is a list"},
    {"llama", "\"vocab_size\": 256", "\"vocab_size\": 256, \"rope_scaling\": \"yarn\"",
     "key rope_scaling is no object"},
    {"llama", "\"rope_parameters\"", "\"rope_parameters\": [1], \"nothing\"",
     "key rope_parameters is no object"},
    {"deepseek_v4", "\"compress\": {", "\"compress\": \"yarn\", \"nothing\": {",
     "key rope_parameters.compress is no object"},
    {"gemma3", "\"sliding_attention\": {", "\"sliding_attention\": [], \"nothing\": {",
     "key rope_parameters.sliding_attention is no object"},
    {"qwen4_exp_one", "\"output_gate_type\": \"sigmoid\"", "\"output_gate_type\": true",
     "key output_gate_type is neither silu nor sigmoid"},
    {"qwen4_exp_plain", "\"ple_layer_ids\": []", "\"ple_layer_ids\": 5",
     "key ple_layer_ids is no list"},
    {"mamba2", "\"time_step_limit\": [", "\"time_step_limit\": [2.0, 1.0], \"nothing\": [",
     "key time_step_limit has no limits of time steps"},
    {"mamba2", "\"time_step_limit\": [", "\"time_step_limit\": 0.1, \"nothing\": [",
     "key time_step_limit has no limits of time steps"},
    {"falcon_h1", "\"ssm_multipliers\": [",
     "\"ssm_multipliers\": [1, 1, 1, \"1\", 1], \"nothing\": [",
     "key ssm_multipliers has not 5 numbers"},
    {"recurrent_gemma", "\"recurrent\",", "\"recurent\",",
     "key block_types has no known kind for layer 0"},
    {"glm_moe_dsa", "\"shared\"", "\"shard\"", "key indexer_types has no known kind for layer 1"},
    {"glm_moe_dsa", "\"shared\"", "5.0", "key indexer_types has no known kind for layer 1"},
    {"qwen2_moe", "\"mlp_only_layers\": []", "\"mlp_only_layers\": \"1\"",
     "key mlp_only_layers is no list"},
    {"llama4", "\"moe_layers\": [", "\"moe_layers\": 1, \"nothing\": [", "moe_layers is no list"},
    {"ernie4_5_moe", "\"moe_layer_end_index\": 2", "\"moe_layer_end_index\": \"2\"",
     "key moe_layer_end_index is not a whole number"},
    {"mllama", "\"cross_attention_layers\": [", "\"cross_attention_layers\": 1, \"nothing\": [",
     "key cross_attention_layers is no list"},
    {"step3p5", "\"1,2\"", "2", "key moe_layers_enum is no list"},
    {"step3p5", "\"1,2\"", "[1, 2]", NULL},
    {"deepseek_v3", "\"n_group\": 2", "\"n_group\": 2, \"moe_layer_freq\": \"1\"",
     "key moe_layer_freq is not a whole number"},
    {"deepseek_v3", "\"n_group\": 2", "\"n_group\": 2, \"moe_layer_freq\": [0, true, 1]",
     "key moe_layer_freq has no whole number for layer 1"},
    {"deepseek_v3", "\"n_group\": 2", "\"n_group\": 2, \"moe_layer_freq\": [0]",
     "key moe_layer_freq has no whole number for layer 1"},
    {"mamba2", "\"time_step_limit\": [", "\"time_step_limit\": [\"0\", 1.0], \"nothing\": [",
     "key time_step_limit has no limits of time steps"},
    {"smollm3", "\"no_rope_layers\": [", "\"no_rope_layers\": 4, \"nothing\": [",
     "key no_rope_layers is no list"},
    {"step3p5", "\"swiglu_limits\": [", "\"swiglu_limits\": \"1\", \"nothing\": [",
     "key swiglu_limits has no limit for layer 0"},
    {"llama", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3",
     "no multiple of 3 KV heads"},
    {"llama", "\"hidden_size\": 64", "\"hidden_size\": 9223372036854775807", "key hidden_size"},
    {"llama", "\"hidden_size\": 64", "\"hidden_size\": 128", "has shape"},
    {"llama", "\"hidden_size\": 64", "\"hidden_size\": -64", "key hidden_size is -64"},
    {"llama", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 4294967295",
     "key num_hidden_layers"},
    {"llama", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
     "tensor model.layers.2.input_layernorm.weight is missing"},
    {"llama", "\"vocab_size\": 256", "\"vocab_size\": 255", "vocab_size is 255"},
    {"llama", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": -1", "key rms_norm_eps"},
    {"llama", "\"head_dim\": 16", "\"head_dim\": 15", "rotary dimensions are not even"},
    {"llama", "\"head_dim\": 16", "\"head_dim\": 0", "key head_dim is 0"},
    {"llama", "\"head_dim\": 16", "\"head_dim\": 4096", "has shape"},
    {"llama", "\"head_dim\": 16", "\"head_dim\": 4098", "heads of 4098 dimensions; at most 4096"},
    {"gemma4", "\"per_layer_config\"", "\"global_head_dim\": 8192, \"nothing\"",
     "heads of 8192 dimensions"},
    {"deepseek_v3", "\"kv_lora_rank\": 16", "\"kv_lora_rank\": 4096", "dimensions; at most 4096"},
    {"deepseek_v32", "\"index_head_dim\": 16", "\"index_head_dim\": 8192",
     "heads of 8192 dimensions"},
    {"t5", "\"d_kv\": 16", "\"d_kv\": 5000", "heads of 5000 dimensions"},
    {"llama", "\"rope_type\": \"default\"", "\"rope_type\": \"spiral\"",
     "RoPE scaling \"spiral\" is unknown"},
    {"llama", "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", "has no factor"},
    {"llama", "\"model_type\": \"llama\"", "\"model_type\": \"lama\"",
     "the architecture \"lama\" is not supported"},
    {"llama", "\"model_type\": \"llama\"", "\"model_type\": 7", "model_type is not a string"},
    {"llama", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"mish\"", "key hidden_act"},
    {"qwen2", "\"full_attention\"", "\"linear_attention\"", "\"linear_attention\" of layer 0"},
    {"cohere", "\"use_qk_norm\": false", "\"use_qk_norm\": true",
     "tensor model.layers.0.self_attn.q_norm.weight is missing"},
    {"mixtral", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5",
     "key num_experts_per_tok"},
    {"opt", "\"do_layer_norm_before\": true", "\"do_layer_norm_before\": false",
     "tensor model.decoder.final_layer_norm.bias"},
    {"opt", "\"_remove_final_layer_norm\": false", "\"_remove_final_layer_norm\": true",
     "key _remove_final_layer_norm: true is not supported"},
    {"arcee", "\"vocab_size\": 256", "\"vocab_size\": 256, \"is_causal\": false",
     "key is_causal: false is not supported"},
    {"llama", "\"vocab_size\": 256", "\"vocab_size\": 256, \"is_causal\": false", NULL},
    {"llama", "\"vocab_size\": 256", "\"vocab_size\": 256, \"is_causal\": true", NULL},
    {"mistral", "\"vocab_size\": 256",
     "\"vocab_size\": 256, \"per_layer_config\": {\"1\": {\"sliding_window\": null}}",
     "key per_layer_config is not supported"},
    {"t5", "\"num_heads\": 4", "\"num_heads\": 4, \"num_key_value_heads\": 2",
     "with an encoder, 2 KV heads for 4 heads"},
    /* tensors that nothing reads */
    {"llama", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
     "tensor model.layers.1.input_layernorm.weight: nothing in the family llama reads it"},
    {"cohere_qk_norm", "\"use_qk_norm\": true", "\"use_qk_norm\": false",
     "_norm.weight: nothing in the family cohere reads it"},
    {"llama_mha_bias", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true", NULL},
    {"llama3", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
     "tensor lm_head.weight is missing"},
    {"llama3", "\"tie_word_embeddings\": true", "\"nothing\": true", NULL},
    {"falcon", "\"model_type\": \"falcon\"", "\"model_type\": \"RefinedWebModel\"", NULL},
    {"falcon", "\"new_decoder_architecture\": false", "\"nothing\": true", NULL},
    {"falcon", "\"parallel_attn\": true", "\"parallel_attn\": false",
     "tensor transformer.h.0.post_attention_layernorm.weight is missing"},
    {"falcon_rw", "\"parallel_attn\": false", "\"parallel_attn\": true",
     "tensor transformer.h.0.post_attention_layernorm.weight is not one of parallel layers"},
    {"falcon_rw", "\"new_decoder_architecture\": false", "\"new_decoder_architecture\": true",
     "key parallel_attn: false is not supported with new_decoder_architecture"},
    {"phi", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true", NULL},
    {"bart", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
     "key tie_word_embeddings: false is not supported"},
    {"llama_gptq", "\"quant_method\": \"gptq\"", "\"quant_method\": \"hqq\"",
     "quant_method: weights quantised as \"hqq\" are not supported"},
    {"deepseek_v3", "\"n_group\": 2", "\"n_group\": 3", "in 3 groups"},
    {"deepseek_v3", "\"n_group\": 2", "\"n_group\": 2, \"moe_layer_freq\": 2",
     "tensor model.layers.1.mlp.gate_proj.weight is missing"},
    {"gpt_oss", "\"vocab_size\": 256", "\"vocab_size\": 256, \"swiglu_limit\": 0.0",
     "key swiglu_limit"},
    {"gpt_oss", "\"vocab_size\": 256", "\"vocab_size\": 256, \"swiglu_limit\": 5.0", NULL},
    {"gpt_oss", "\"vocab_size\": 256", "\"vocab_size\": 256, \"swiglu_limit\": 7.0", NULL},
    {"phi3_longrope", "\"original_max_position_embeddings\": 4,",
     "\"original_max_position_embeddings\": 1,",
     "longrope cannot grow from original_max_position_embeddings 1"},
    {"phi3_longrope", "\"max_position_embeddings\"", "\"nothing\"",
     "neither a factor nor max_position_embeddings"},
    {"t5", "\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"mish\"",
     "key feed_forward_proj: the activation"},
    {"t5", "\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": 1",
     "key feed_forward_proj: the activation"},
    /* as it is published: keys of layers that see all, and without a list of what differs */
    {"gemma4", "\"per_layer_config\"",
     "\"global_head_dim\": 32, \"num_global_key_value_heads\": 1, \"nothing\"", NULL},
    {"gemma4", "\"per_layer_config\"", "\"global_head_dim\": 16, \"nothing\"", "has shape"},
    {"gemma4_moe", "\"hidden_size_per_layer_input\": 0", "\"hidden_size_per_layer_input\": null",
     NULL},
    {"gemma4", "\"use_bidirectional_attention\": null",
     "\"use_bidirectional_attention\": \"vision\"", NULL},
    {"gemma4", "\"use_bidirectional_attention\": null", "\"use_bidirectional_attention\": \"all\"",
     "use_bidirectional_attention: \"all\" is not supported"},
    {"gemma4_shared", "\"num_kv_shared_layers\": 3", "\"num_kv_shared_layers\": 5",
     "no layer before the last 5 has keys and values that layer 1 can share"},
    {"gemma3n", "\"altup_active_idx\": 0", "\"altup_active_idx\": 1",
     "AltUp whose layers run on stream 1, not 0, is not supported"},
    {"gemma3n", "\"altup_num_inputs\": 4", "\"altup_num_inputs\": 3", "has shape"},
    {"gemma3n", "0.95", "1.0", "key activation_sparsity_pattern has no possible number"},
    {"molmo2", "\"norm_after\": false", "\"norm_after\": true", "norm_after: true"},
    {"molmo2", "\"rope_scaling_layers\": [", "\"rope_scaling_layers\": [], \"nothing\": [",
     "layers that differ in it"},
    {"dbrx", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1", NULL},
    {"hy_v3", "\"mlp_layer_types\"", "\"first_k_dense_replace\": 2, \"nothing\"", NULL},
    {"olmo_hybrid", "\"linear_value_head_dim\"", "\"nothing\"", NULL},
    {"olmo_hybrid", "\"linear_key_head_dim\"", "\"nothing\"", "has shape 16 x 32, not 24 x 32"},
    {"olmo_hybrid", "\"linear_num_key_heads\"", "\"nothing\"",
     "2 recurrent heads are no multiple of 4 heads of keys"},
    {"nemotron_h", "\"moe_latent_size\": null", "\"moe_latent_size\": 0", "key moe_latent_size"},
    {"nemotron_h", "\"moe_latent_size\": null", "\"moe_latent_size\": 16",
     "experts.0.up_proj.weight has shape 24 x 48, not 24 x 16"},
    {"nemotron_h", "\"mlp\"", "\"mamba1\"", "key layers_block_type has no known kind for layer 1"},
    {"nemotron_h", "\"n_routed_experts\": 6", "\"n_routed_experts\": 0",
     "layer 3 is a mixture of no experts"},
    {"granitemoehybrid", "\"mamba_d_head\": 16", "\"mamba_d_head\": \"auto\"", NULL},
    {"granitemoehybrid", "\"mamba_n_groups\": 2", "\"mamba_n_groups\": 4",
     "6 recurrent heads are no multiple of 4 heads of keys"},
    {"recurrent_gemma", "\"block_types\": [", "\"block_types\": 3, \"nothing\": [",
     "key block_types has no word for layer 0"},
    {"recurrent_gemma", "\"block_types\": [", "\"block_types\": [], \"nothing\": [",
     "key block_types has no word for layer 0"},
    {"recurrent_gemma", "\"attention\"", "2", "key block_types has no word for layer 2"},
    {"zamba2", "\"hybrid\"", "\"attention\"",
     "key layers_block_type: the kind of layer 1 is not supported"},
    {"deepseek_v4", "\"o_groups\": 2", "\"o_groups\": 3", "4 heads of 16 in 3 groups"},
    {"deepseek_v4", "\"qk_rope_head_dim\": 8", "\"qk_rope_head_dim\": 32", "key qk_rope_head_dim"},
    {"deepseek_v4", "\"sliding_attention\"", "\"full_attention\"",
     "key layer_types has no known kind for layer 0"},
    {"glm5_next", "\"index_kpool\": 4", "\"index_kpool\": 5", "no multiple of index_kpool 5"},
    {"glm5_next", "\"index_kpool\": 4", "\"index_kpool\": 0", "index_kpool is 0"},
    {"glm5_next", "\"qk_rope_head_dim\": 0", "\"qk_rope_head_dim\": 8", "qk_rope_head_dim is 8"},
    {"qwen4_exp", "\"indexer_budget\": 24", "\"indexer_budget\": 25",
     "no multiple of indexer_compress_ratio 4"},
    {"qwen4_exp", "\"indexer_kv_heads\": 1", "\"indexer_kv_heads\": 2", "indexer_kv_heads is 2"},
    {"qwen4_exp", "\"indexer_head_dim\": 16", "\"indexer_head_dim\": 8",
     "12 heads of 8, of which 16 dimensions rotate"},
    {"qwen4_exp", "\"hc_count\": 4", "\"hc_count\": 1", "hc_count is 1"},
    {"qwen4_exp", "\"hc_lowrank\": 12", "\"hc_lowrank\": 13", "not 13 x 128"},
    {"qwen4_exp", "\"heads_per_ngram\": 2", "\"heads_per_ngram\": 5",
     "10 heads of n-grams do not share 24 columns"},
    {"qwen4_exp", "\"ngram_size\": 3", "\"ngram_size\": 1", "ngram_size is 1"},
    {"qwen4_exp", "\"ngram_vocab_size_base\": 40", "\"ngram_vocab_size_base\": 1000",
     "has shape 62 x 6"},
    {"qwen4_exp", "\"eos_token_id\": [", "\"eos_token_id\": [], \"nothing\": [",
     "key eos_token_id is no token"},
    {"qwen4_exp", "\"ple_layer_ids\": [", "\"ple_layer_ids\": [5,",
     "key ple_layer_ids does not name layers"},
    {"qwen4_exp", "\"ple_layer_ids\": [", "\"ple_layer_ids\": [2,", "layer 2 is not recurrent"},
    {"qwen4_exp", "\"output_gate_type\": null", "\"output_gate_type\": \"relu\"",
     "key output_gate_type is neither silu nor sigmoid"},
    {"deepseek_v4", "\"n_routed_experts\": 4", "\"n_routed_experts\": 3", "not 3 x 32"},
    {"zamba", "\"n_mamba_heads\": 3", "\"n_mamba_heads\": 5",
     "5 recurrent heads do not share 48 dimensions"},
    {"zamba", "\"n_mamba_heads\": 3", "\"n_mamba_heads\": 2",
     "mamba.x_proj_weight has shape 3 x 21 x 16, not 2 x 21 x 24"},
    {"zamba", "\"hidden_mamba_act\": \"silu\"", "\"hidden_mamba_act\": \"gelu\"",
     "key hidden_mamba_act: recurrent layers take silu alone"},
    {"zamba", "\"hybrid\"", "7", "key layers_block_type has no word for layer 1"},
    {"zamba_period", "\"attn_layer_offset\": 1", "\"attn_layer_offset\": 0",
     "tensor model.layers.3.linear.weight is missing"},
    {"zamba2", "\"hybrid\"", "7", "key layers_block_type has no word for layer 1"},
    {"zamba2", "\"adapter_rank\": 4", "\"adapter_rank\": 5", "has shape 4 x 64, not 5 x 64"},
    {"zamba2", "\"add_bias_linear\": false", "\"add_bias_linear\": true", "add_bias_linear: true"},
    {"doge", "\"is_moe\": false", "\"is_moe\": true",
     "tensor model.layers.0.mlp.router_gate.weight is missing"},
    {"doge_moe", "\"num_experts\": 40", "\"num_experts\": 4",
     "5 of 4 experts by product keys are not supported"},
    {"doge_moe", "\"num_experts_per_tok\": 5", "\"num_experts_per_tok\": 37",
     "37 of 40 experts by product keys are not supported"},
    {"doge_moe", "\"num_experts\": 40", "\"num_experts\": 41",
     "mlp.down_embed.weight has shape 40 x 32, not 41 x 32"},
    {"doge", "\"mlp_bias\": false", "\"v_head_dim\": 1", "values of 1 beside keys of 8"},
    {"inkling", "\"n_shared_experts\": 2", "\"n_shared_experts\": 65", "65 shared experts of"},
    {"doge", "\"keep_window_size\": 2048", "\"keep_window_size\": 0", "key keep_window_size"},
    {"zaya", "\"cca_time0\": 2", "\"cca_time0\": 9", "key cca_time0"},
    {"zaya", "\"cca_time1\": 2", "\"cca_time1\": 0", "key cca_time1"},
    {"zaya", "\"cca_time0\": 2", "\"cca_time0\": 3",
     "conv_qk_depthwise.weight does not have 144 elements"},
    {"zaya", "\"cca_time0\": 2", "\"cca_time0\": 1",
     "conv_qk_depthwise.weight does not have 48 elements"},
    {"zaya", "\"cca_time1\": 2", "\"cca_time1\": 3",
     "conv_qk_grouped.weight has shape 48 x 8 x 2, not 6 x 8 x 24"},
    {"zaya", "\"router_hidden_size\": 12", "\"router_hidden_size\": 13", "not 5 x 13"},
    {"zaya", "\"num_experts_per_tok\": 1", "\"num_experts_per_tok\": 2",
     "key num_experts_per_tok: 2 experts of a token, not 1"},
    {"zaya", "\"num_experts\": 4", "\"num_experts\": 3", "not 4 x 12"},
    {"zaya", "\"hybrid_sliding\"", "\"mamba\"",
     "key layer_types: the kind \"mamba\" of layer 1 is not supported"},
    {"jamba", "\"mamba_dt_rank\": 6", "\"mamba_dt_rank\": 7",
     "mamba.x_proj.weight has shape 22 x 64, not 23 x 64"},
    {"jamba", "\"num_experts\": 4", "\"num_experts\": 1", "layers.1.feed_forward.gate_proj.weight"},
    {"jamba", "\"attn_layer_offset\": 2", "\"attn_layer_offset\": 1",
     "layers.1.self_attn.q_proj.weight"},
    {"bailing_hybrid", "\"kda_lower_bound\": -5.0", "\"kda_lower_bound\": 1.0",
     "key kda_lower_bound"},
    {"bailing_hybrid", "\"layer_types\"", "\"nothing\"", NULL},
    {"bailing_hybrid", "\"linear_head_dim\": 12", "\"linear_head_dim\": 8",
     "attention.q_proj.weight has shape 24 x 24, not 16 x 24"},
    {"minimax", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"",
     "recurrent layers take silu alone"},
    {"bailing_hybrid", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\"",
     "key hidden_act: recurrent layers take silu alone"},
    {"bamba", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"swish\"", NULL},
    {"qwen3_next", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"",
     "key hidden_act: recurrent layers take silu alone"},
    {"nemotron_h", "\"mamba_hidden_act\": \"silu\"", "\"mamba_hidden_act\": \"gelu\"",
     "key mamba_hidden_act: recurrent layers take silu alone"},
    {"minimax", "\"head_dim\": 12", "\"head_dim\": 0", "key head_dim"},
    {"minimax", "\"head_dim\": 12", "\"head_dim\": 8",
     "self_attn.qkv_proj.weight has shape 108 x 32, not 72 x 32"},
    {"minimax", "\"sliding_window\": null", "\"sliding_window\": 16", NULL},
    {"minimax", "\"layer_types\"", "\"nothing\"", "layers.0.self_attn.q_proj.weight"},
    {"falcon_mamba", "\"conv_kernel\": 3", "\"conv_kernel\": 33", "key conv_kernel"},
    {"codegen", "\"n_head\": 4", "\"n_head\": 2", "2 KV heads are no multiple of 4"},
    {"../embeddings/nomic_bert", "\"vocab_size\": 64", "\"vocab_size\": 64, \"num_experts\": 8",
     "a mixture of 8 experts is not supported in models of the type \"nomic_bert\""},
    {"../embeddings/nomic_bert", "\"vocab_size\": 64", "\"vocab_size\": 64, \"num_experts\": 0",
     NULL},
    {"qwen3_vl", "\"model_type\": \"qwen3_vl\"", "\"model_type\": \"cosmos3_omni\"", NULL},
    {"apertus1p5", "\"output_vocab_size\": 48", "\"output_vocab_size\": 61",
     "key text_config.output_vocab_size is 61"},
    {"lara_mini", "\"layer_types\"", "\"nothing\"", NULL},
    {"lara_mini", "\"full_attention\"", "\"sliding_attention\"", NULL},
    {"lara_mini", "\"linear_num_key_heads\": 2", "\"linear_num_key_heads\": 4",
     "linear_attn.in_proj.weight has shape 168 x 32, not 200 x 32"},
    {"granitemoehybrid", "\"layer_types\"", "\"full_attention_interval\": 2, \"nothing\"",
     "tensor model.layers.1.mamba.in_proj.weight is missing"},
    {"inkling2_loop", "\"loop_layer_index_end\": 3", "\"loop_layer_index_end\": 1",
     "layers 1 to 1 of 4 cannot run 3 times"},
    {"inkling2_loop", "\"n_layers_per_attn_res_block\": 1", "\"n_layers_per_attn_res_block\": 4",
     "are no whole blocks of 4"},
    {"inkling2_loop", "\"loop_num_passes\": 3", "\"loop_num_passes\": 65",
     "key text_config.loop_num_passes is 65"},
    {"inkling2_loop", "\"sliding_window_size\": 16", "\"sliding_window_size\": 2147483647",
     "relative logits in a window of 2147483647 tokens"},
    {"kimi_k3", "\"attn_res_block_size\": 2", "\"attn_res_block_size\": 0",
     "key text_config.attn_res_block_size is 0"},
    {"kimi_k3", "\"mla_use_nope\": true", "\"mla_use_nope\": false",
     "key mla_use_nope: false is not supported"},
    {"kimi_k3", "\"situ\"", "\"gelu\"", NULL},
    {"kimi_k3_text", "\"gate_lower_bound\": -5.0", "\"gate_lower_bound\": null", NULL},
    {"kimi_k3_text", "\"attn_res_block_size\"", "\"nothing\"", "\"situ\" is not supported"},
    {"openelm", "\"ffn_with_glu\": true", "\"ffn_with_glu\": false",
     "key ffn_with_glu: false is not supported"},
    {"openelm", "0.48", "999", "not 95904 x 48"},
    {"openelm", "\"ffn_dim_divisor\": 16", "\"ffn_dim_divisor\": 0", "key ffn_dim_divisor is 0"},
    {"openelm", "\"num_transformer_layers\": 3", "\"num_transformer_layers\": 4",
     "has no entry for a layer"},
    {"dory", "\"per_loop\"", "\"last_loop\"", "key recurrent_kv_cache_mode"},
    {"dory", "\"n_input_layers\": 2", "\"n_input_layers\": 1", "key n_input_layers: 1 blocks"},
    {"dory", "\"n_output_layers\": 2", "\"n_output_layers\": 6", "do not leave 4"},
    {"dory", "\"n_recurrent_loops\": 3", "\"n_recurrent_loops\": 0", "key n_recurrent_loops is 0"},
    {"dory", "\"n_recurrent_loops\": 3", "\"n_recurrent_loops\": 1", NULL},
    {"dory", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "key hidden_act"},
    {"dory", "\"initializer_range\": 0.1", "\"initializer_range\": 0", "key initializer_range"},
    {"dory", "\"mlp\"", "\"moe\"", "layer 1 is a mixture of no experts"},
    {"dory", "\"sliding_attention\",", "\"linear_attention\",", "no known kind for layer 0"},
    {"dory", "\"layer_types\"", "\"nothing\"", "key layers_block_type has no known kind"},
    {"smallthinker", "\"rope_layout\": [", "\"rope_layout\": [0, 1], \"nothing\": [",
     "key rope_layout has no number for layer 2"},
    {"smallthinker", "\"sliding_window_layout\": [",
     "\"sliding_window_layout\": [0, 1, true], \"nothing\": [",
     "key sliding_window_layout has no number for layer 2"},
    {"olmo_hybrid_memory", "\"linear_conv_kernel_dim\": 4", "\"linear_conv_kernel_dim\": 2",
     "conv1d.weight does not have"},
};

static void bad_values_are_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof changed_values / sizeof *changed_values; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_error err = {0};
        ln_arena_init(&arena);
        ln_status status = read_edited(changed_values[i].golden, changed_values[i].from,
                                       changed_values[i].to, &spec, &arena, &err);
        bool expected = changed_values[i].message != NULL
                            ? status < 0 && strstr(err.message, changed_values[i].message)
                            : status == LINNET_OK;
        if (!expected)
            fail_msg("%s -> %s: status %d, message: %s", changed_values[i].from,
                     changed_values[i].to, (int)status, err.message);
        ln_arena_free(&arena);
    }
}

static void old_spellings_are_read(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_error err = {0};
    ln_arena_init(&arena);
    ln_status status = read_edited(
        "llama3", "\"rope_parameters\"",
        "\"rope_theta\": 250000.0, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5}, "
        "\"not_rope\"",
        &spec, &arena, &err);
    if (status != LINNET_OK)
        fail_msg("%s", err.message);
    assert_true(spec.ropes[0].theta == 250000.0);
    assert_int_equal(spec.ropes[0].scaling, LN_ROPE_LINEAR);
    assert_true(spec.ropes[0].factor == 2.5);
    assert_true(spec.tied);
    ln_arena_free(&arena);
}

/* A letter for each layer, as published folders have it, instead of a list of words. */
static void a_layer_may_be_one_block(void **state) {
    (void)state;
    static const size_t heads[] = {0, 0, 0, 0, 4, 0}, hidden[] = {0, 64, 0, 64, 0, 64};
    ln_spec spec;
    ln_arena arena;
    ln_error err = {0};
    ln_arena_init(&arena);
    ln_status status = read_edited("nemotron_h", "\"layers_block_type\"",
                                   "\"num_hidden_layers\": 6, "
                                   "\"hybrid_override_pattern\": \"M-ME*E\", \"unread\"",
                                   &spec, &arena, &err);
    if (status != LINNET_OK)
        fail_msg("%s", err.message);
    assert_int_equal(spec.n_layers, 6);
    for (size_t i = 0; i < spec.n_layers; i++) {
        bool recurs = i == 0 || i == 2, has_experts = i == 3 || i == 5;
        assert_int_equal(spec.layers[i].attention.n_heads, heads[i]);
        assert_int_equal(spec.layers[i].mixer.kind, recurs ? LN_MIXER_SSD : LN_MIXER_NONE);
        assert_int_equal(spec.layers[i].ffn.n_hidden, hidden[i]);
        assert_int_equal(spec.layers[i].ffn.moe.n_experts, has_experts ? 6 : 0);
    }
    ln_arena_free(&arena);
}

/* rope_scaling that a user put beside the rope_parameters of a newer folder. */
static void added_scaling_counts(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(read_edited("llama", "\"rope_parameters\"",
                                 "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5}, "
                                 "\"rope_parameters\"",
                                 &spec, &arena, NULL),
                     LINNET_OK);
    assert_int_equal(spec.ropes[0].scaling, LN_ROPE_LINEAR);
    assert_true(spec.ropes[0].factor == 2.5);
    assert_true(spec.ropes[0].theta == 10000.0);
    assert_int_equal(read_edited("gemma3", "\"rope_parameters\"",
                                 "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5}, "
                                 "\"rope_parameters\"",
                                 &spec, &arena, NULL),
                     LINNET_OK);
    assert_int_equal(spec.ropes[0].scaling, LN_ROPE_LINEAR);
    assert_int_equal(spec.ropes[1].scaling, LN_ROPE_PLAIN);
    ln_arena_free(&arena);
}

/* What the reference implementations do with a flag that real models leave as it is. */
static void rare_flags_are_heeded(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(read_edited("deepseek_v3", "\"rope_interleave\": true",
                                 "\"rope_interleave\": false", &spec, &arena, NULL),
                     LINNET_OK);
    assert_int_equal(spec.ropes[0].style, LN_ROPE_HALF);
    assert_int_equal(read_edited("deepseek_v3", "\"rope_interleave\": true", "\"nothing\": true",
                                 &spec, &arena, NULL),
                     LINNET_OK);
    assert_int_equal(spec.ropes[0].style, LN_ROPE_INTERLEAVED);
    /* every layer of Qwen3-MoE is windowed then, whatever max_window_layers says */
    static const char off[] = "\"sliding_window\": null,\n  \"tie_word_embeddings\": false,\n  "
                              "\"transformers_version\": \"5.17.0\",\n  \"use_cache\": true,\n  "
                              "\"use_sliding_window\": false";
    static const char on[] = "\"sliding_window\": 16, \"use_sliding_window\": true";
    assert_int_equal(read_edited("qwen3_moe", off, on, &spec, &arena, NULL), LINNET_OK);
    assert_int_equal(spec.n_kv_groups, 1);
    assert_int_equal(spec.kv_groups[0].window, 16);
    /* and those layers of SmolLM3 that do not rotate */
    static const change smollm3[] = {
        {"\"layer_types\"", "\"nothing\""},
        {"\"sliding_window\": null", "\"sliding_window\": 16"},
        {"\"use_sliding_window\": false", "\"use_sliding_window\": true"}};
    assert_int_equal(read_changed("smollm3", smollm3, 3, &spec, &arena, NULL), LINNET_OK);
    assert_true(spec.layers[0].attention.rope == 0 && spec.layers[0].attention.window == 0);
    assert_true(spec.layers[1].attention.rope == -1 && spec.layers[1].attention.window == 16);
    /* latents are normalised with an epsilon of their own */
    assert_int_equal(read_edited("deepseek_v3", "\"rms_norm_eps\": 1e-06",
                                 "\"rms_norm_eps\": 0.001", &spec, &arena, NULL),
                     LINNET_OK);
    assert_true(spec.norm_eps == 1e-3f && spec.latent_norm_eps == 1e-6f);
    ln_arena_free(&arena);
}

/* Gemma's config.json may name an activation, a cap of scores and a temperature of residual gates
 * that its code does not read. */
static void keys_that_do_not_count_are_left(void **state) {
    (void)state;
    static const struct {
        const char *golden, *from, *to;
        ln_activation activation;
        float softcap;
    } cases[] = {
        {"gemma", "\"hidden_act\": \"gelu_pytorch_tanh\"", "\"hidden_act\": \"gelu\"",
         LN_ACT_GELU_TANH, 0},
        {"gemma", "\"hidden_act\": \"gelu_pytorch_tanh\"",
         "\"hidden_activation\": \"relu\", \"hidden_act\": \"silu\"", LN_ACT_SILU, 0},
        {"gemma2", "\"hidden_activation\": \"gelu_pytorch_tanh\"",
         "\"hidden_activation\": null, \"hidden_act\": \"gelu\"", LN_ACT_GELU_TANH, 20},
        {"gemma3", "\"hidden_activation\": \"gelu_pytorch_tanh\"",
         "\"hidden_activation\": \"silu\", \"hidden_act\": \"relu\"", LN_ACT_SILU, 0},
        {"gemma3", "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 2.5",
         LN_ACT_GELU_TANH, 0},
        {"gemma", "\"hidden_act\": \"gelu_pytorch_tanh\"",
         "\"residual_gate_temperature\": 0.5, \"hidden_act\": \"gelu\"", LN_ACT_GELU_TANH, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_arena_init(&arena);
        assert_int_equal(
            read_edited(cases[i].golden, cases[i].from, cases[i].to, &spec, &arena, NULL),
            LINNET_OK);
        assert_int_equal(spec.layers[0].ffn.activation, cases[i].activation);
        assert_true(spec.layers[0].attention.softcap == cases[i].softcap);
        assert_true(spec.blend_temperature == 0.0);
        ln_arena_free(&arena);
    }
}

/* Nor do those that other families have. */
static void keys_of_other_families_are_left(void **state) {
    (void)state;
    static const struct {
        const char *golden, *from, *to;
        size_t n_experts, n_padding;
    } cases[] = {
        {"mixtral", "\"hidden_act\"", "\"is_moe\": false, \"hidden_act\"", 4, 0},
        {"mixtral", "\"hidden_act\"", "\"enable_moe_block\": false, \"hidden_act\"", 4, 0},
        {"llama", "\"hidden_act\"", "\"unpadded_vocab_size\": 7, \"hidden_act\"", 0, 0},
        {"inkling", "\"unpadded_vocab_size\": 91", "\"unpadded_vocab_size\": 7", 6, 96 - 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_error err = {0};
        ln_arena_init(&arena);
        if (read_edited(cases[i].golden, cases[i].from, cases[i].to, &spec, &arena, &err) < 0)
            fail_msg("%s", err.message);
        assert_int_equal(spec.layers[spec.n_layers - 1].ffn.moe.n_experts, cases[i].n_experts);
        assert_int_equal(spec.n_padding, cases[i].n_padding);
        ln_arena_free(&arena);
    }
}

/* Behind seq_length Qwen 1 scales queries and turns by other angles, unless both are off. */
static void contexts_end_where_angles_change(void **state) {
    (void)state;
    static const struct {
        const char *to;
        size_t ctx_tokens, max_ctx_tokens;
    } cases[] = {
        {"\"seq_length\": 128", 128, 128},
        {"\"seq_length\": 128, \"use_logn_attn\": false", 128, 128},
        {"\"seq_length\": 128, \"use_dynamic_ntk\": false", 128, 128},
        {"\"seq_length\": 128, \"use_logn_attn\": false, \"use_dynamic_ntk\": false", 128, 0},
        {"\"unread\": 128", 512, 512},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_arena_init(&arena);
        assert_int_equal(
            read_edited("qwen", "\"seq_length\": 512", cases[i].to, &spec, &arena, NULL),
            LINNET_OK);
        assert_int_equal(spec.ctx_tokens, cases[i].ctx_tokens);
        assert_int_equal(spec.max_ctx_tokens, cases[i].max_ctx_tokens);
        ln_arena_free(&arena);
    }
}

/* Gives a tensor the bytes of another one, of the same size. */
static void copy_tensor(const edited *e, const char *from, const char *to) {
    ln_checkpoint *checkpoint;
    ln_strbuf file;
    ln_strbuf_init(&file);
    assert_int_equal(ln_checkpoint_open(e->folder, false, &checkpoint, NULL), LINNET_OK);
    assert_int_equal(ln_file_read(e->tensors, 1 << 24, &file, NULL), LINNET_OK);
    const ln_tensor *source = ln_checkpoint_find(checkpoint, from),
                    *target = ln_checkpoint_find(checkpoint, to);
    assert_int_equal(source->bytes, target->bytes);
    memcpy(file.data + target->file_offset, file.data + source->file_offset, source->bytes);
    ln_checkpoint_close(checkpoint);
    assert_int_equal(unlink(e->tensors), 0);
    FILE *out = fopen(e->tensors, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file.data, 1, file.len, out), file.len);
    fclose(out);
    ln_strbuf_free(&file);
}

/* A tied output that lies there beside the embedding counts, unless it is the same matrix. */
static void another_output_is_not_tied(void **state) {
    (void)state;
    static const change tie = {"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"};
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(read_changed("llama", &tie, 1, &spec, &arena, NULL), LINNET_OK);
    assert_false(spec.tied);
    edited e = edit("llama", &tie, 1);
    copy_tensor(&e, "model.embed_tokens.weight", "lm_head.weight");
    assert_int_equal(read_folder(&e, &spec, &arena, NULL), LINNET_OK);
    assert_true(spec.tied);
    ln_arena_free(&arena);
}

/* Of gpt-oss all of the scaling is a default, or none. */
static void a_scaling_may_be_a_default(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(
        read_edited("gpt_oss", "\"rope_parameters\"", "\"nothing\"", &spec, &arena, NULL),
        LINNET_OK);
    const ln_rope_spec *rope = &spec.ropes[0];
    assert_true(rope->theta == 150000 && rope->factor == 32 && rope->original_ctx == 4096);
    assert_true(rope->scaling == LN_ROPE_YARN && !rope->truncate);
    assert_true(rope->beta_fast == 32 && rope->beta_slow == 1);
    assert_int_equal(read_edited("gpt_oss", "\"rope_parameters\"",
                                 "\"rope_parameters\": {\"rope_theta\": 5000.0}, \"nothing\"",
                                 &spec, &arena, NULL),
                     LINNET_OK);
    assert_true(rope->theta == 5000 && rope->scaling == LN_ROPE_PLAIN);
    ln_arena_free(&arena);
}

/* T5 names activation and gate in one word, which counts more than `dense_act_fn`. */
static void projections_are_read(void **state) {
    (void)state;
    static const struct {
        const char *golden, *from, *to;
        ln_activation activation;
    } cases[] = {
        {"t5", "\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"gelu\"", LN_ACT_GELU},
        {"t5", "\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"silu\"", LN_ACT_SILU},
        {"t5_gated", "\"gated-gelu\"", "\"gated-relu\"", LN_ACT_RELU},
        {"t5_gated", "\"dense_act_fn\": \"gelu_new\"", "\"dense_act_fn\": \"relu\"",
         LN_ACT_GELU_TANH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_error err = {0};
        ln_arena_init(&arena);
        if (read_edited(cases[i].golden, cases[i].from, cases[i].to, &spec, &arena, &err) < 0)
            fail_msg("%s", err.message);
        assert_int_equal(spec.layers[0].ffn.activation, cases[i].activation);
        assert_int_equal(spec.layers[0].ffn.gated, strcmp(cases[i].golden, "t5_gated") == 0);
        ln_arena_free(&arena);
    }
    static const change mt5[] = {
        {"\"model_type\": \"t5\"", "\"model_type\": \"mt5\""},
        {"\"feed_forward_proj\"", "\"nothing\""},
        {"\"dense_act_fn\"", "\"no_function\""},
        {"\"is_gated_act\"", "\"no_gate\""},
    };
    ln_spec spec;
    ln_arena arena;
    ln_error err = {0};
    ln_arena_init(&arena);
    if (read_changed("t5_gated", mt5, 4, &spec, &arena, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(spec.layers[0].ffn.activation, LN_ACT_GELU_TANH);
    assert_true(spec.layers[0].ffn.gated);
    ln_arena_free(&arena);
}

/* Where config.json lacks a key, the reference implementation has a value; null is another. */
static void missing_keys_have_defaults(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_error err = {0};
    ln_arena_init(&arena);
    static const char *const cases[][3] = {
        {"mixtral", "\"rope_parameters\"", "\"nothing\""},
        {"olmo3", "\"rope_parameters\"", "\"nothing\""},
        {"cohere", "\"logit_scale\"", "\"nothing\""},
        {"granite", "\"attention_multiplier\"", "\"nothing\""},
        {"qwen3_moe", "\"norm_topk_prob\"", "\"nothing\""},
        {"gemma2", "\"final_logit_softcapping\"", "\"nothing\""},
        {"gemma2", "\"attn_logit_softcapping\": 20.0", "\"attn_logit_softcapping\": null"},
        {"olmo2", "\"rms_norm_eps\"", "\"nothing\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (read_edited(cases[i][0], cases[i][1], cases[i][2], &spec, &arena, &err) != LINNET_OK)
            fail_msg("%s", err.message);
        double expected[] = {1e6, 5e5, 0.0625, 1, 0, 30, 0, 1e-5};
        double got[] = {spec.ropes[0].theta,
                        spec.ropes[0].theta,
                        spec.logit_scale,
                        spec.layers[0].attention.scale,
                        spec.layers[0].ffn.moe.normalize,
                        spec.logit_softcap,
                        spec.layers[0].attention.softcap,
                        spec.norm_eps};
        if (fabs(got[i] - expected[i]) > 1e-6 * expected[i])
            fail_msg("%s without %s: %g instead of %g", cases[i][0], cases[i][1], got[i],
                     expected[i]);
    }
    ln_arena_free(&arena);
}

/* What decoders begin with, and which scale their embedding, where config.json does not say it. */
static void decoders_begin_as_in_the_reference(void **state) {
    (void)state;
    static const change changes[] = {{"\"decoder_start_token_id\"", "\"nothing\""},
                                     {"\"scale_embedding\"", "\"no scale\""}};
    static const struct {
        const char *golden;
        int32_t start;
        bool scales;
    } cases[] = {
        {"bart", 2, false}, {"mvp", 2, false}, {"plbart", 0, true}, {"blenderbot", 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_error err = {0};
        ln_arena_init(&arena);
        if (read_changed(cases[i].golden, changes, 2, &spec, &arena, &err) < 0)
            fail_msg("%s", err.message);
        assert_int_equal(spec.decoder_start_id, cases[i].start);
        assert_true((spec.embedding_scale > 1) == cases[i].scales);
        ln_arena_free(&arena);
    }
}

/* GGUF's share of YaRN's extrapolation: all of it, or as the kind of scaling has it. */
static void yarn_extrapolates_wholly(void **state) {
    (void)state;
    static const char source[] = TEST_SOURCE_DIR "/tests/golden/models/grok2/model.gguf";
    static const char key[] = "grok.rope.scaling.yarn_ext_factor";
    static const float factors[] = {1, -1, 0.5f, 0};
    ln_strbuf file;
    ln_strbuf_init(&file);
    assert_int_equal(ln_file_read(source, 1 << 24, &file, NULL), LINNET_OK);
    char *value = memmem(file.data, file.len, key, sizeof key - 1);
    assert_non_null(value);
    value += sizeof key - 1 + sizeof(uint32_t); /* behind its type */
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        char path[] = "/tmp/linnet-spec-XXXXXX";
        ln_checkpoint *checkpoint;
        ln_spec spec;
        ln_arena arena;
        ln_error err = {0};
        ln_arena_init(&arena);
        memcpy(value, &factors[i], sizeof *factors);
        FILE *out = fdopen(mkstemp(path), "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(file.data, 1, file.len, out), file.len);
        fclose(out);
        assert_int_equal(ln_checkpoint_open(path, false, &checkpoint, NULL), LINNET_OK);
        ln_status status = ln_spec_read(checkpoint, &arena, &spec, &err);
        assert_int_equal(status, i < 2 ? LINNET_OK : LINNET_ERR_UNSUPPORTED);
        assert_true(status == LINNET_OK || strstr(err.message, "yarn_ext_factor") != NULL);
        ln_checkpoint_close(checkpoint);
        ln_arena_free(&arena);
        unlink(path);
    }
    ln_strbuf_free(&file);
}

/* DeepSeek V2's weights of experts stay as they are, whatever its flag says; those of
 * others do not. */
static void some_flags_say_nothing(void **state) {
    (void)state;
    static const struct {
        const char *golden, *from;
        bool normalizes;
    } cases[] = {{"deepseek_v2", "\"norm_topk_prob\": false", false},
                 {"flex_olmo", "\"norm_topk_prob\": false", true}};
    for (size_t i = 0; i < 2; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_error err = {0};
        ln_arena_init(&arena);
        if (read_edited(cases[i].golden, cases[i].from, "\"norm_topk_prob\": true", &spec, &arena,
                        &err) < 0)
            fail_msg("%s", err.message);
        assert_true(spec.layers[spec.n_layers - 1].ffn.moe.normalize == cases[i].normalizes);
        ln_arena_free(&arena);
    }
}

/* An option may give a model a longer context than the one it declares: what sparse attention
 * chooses does not shrink to the latter. */
static void choices_outgrow_a_declared_context(void **state) {
    (void)state;
    static const struct {
        const char *golden, *from;
        size_t top_k;
    } cases[] = {
        {"deepseek_v32", "\"max_position_embeddings\": 512", 16},
        {"deepseek_v4", "\"max_position_embeddings\": 512", 3},
        {"glm5_next", "\"max_position_embeddings\": 512", 24 / 4},
        {"qwen4_exp", "\"max_position_embeddings\": 1024", 24 / 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t most = 0;
        ln_spec spec;
        ln_arena arena;
        ln_error err = {0};
        ln_arena_init(&arena);
        if (read_edited(cases[i].golden, cases[i].from, "\"max_position_embeddings\": 2", &spec,
                        &arena, &err) < 0)
            fail_msg("%s", err.message);
        assert_int_equal(spec.ctx_tokens, 2);
        for (size_t layer = 0; layer < spec.n_layers; layer++)
            if (spec.layers[layer].attention.indexer.top_k > most)
                most = spec.layers[layer].attention.indexer.top_k;
        assert_int_equal(most, cases[i].top_k);
        ln_arena_free(&arena);
    }
}

/* The context before it was scaled: all of it where nothing says another. */
static void original_contexts_are_found(void **state) {
    (void)state;
    static const struct {
        const char *golden, *from, *to;
        double original_ctx;
    } cases[] = {
        {"llama_yarn", "\"original_max_position_embeddings\": 64,", "", 512},
        {"llama_yarn", "\"mlp_bias\"", "\"original_max_position_embeddings\": 32, \"mlp_bias\"",
         32},
        {"phi3_longrope", "\"original_max_position_embeddings\"", "\"nothing\"", 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_error err = {0};
        ln_arena_init(&arena);
        if (read_edited(cases[i].golden, cases[i].from, cases[i].to, &spec, &arena, &err) < 0)
            fail_msg("%s", err.message);
        assert_true(spec.ropes[0].original_ctx == cases[i].original_ctx);
        ln_arena_free(&arena);
    }
}

/* GGUF's and other writers keep an outermost dimension of one, as of a single head's matrix. */
static void outer_dimensions_of_one_do_not_count(void **state) {
    (void)state;
    static const struct {
        const char *shape, *message;
    } cases[] = {{"[1,256,64]", NULL}, {"[256,1,64]", "has shape 256 x 1 x 64, not 256 x 64"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_error err = {0};
        ln_arena_init(&arena);
        edited e = edit("arcee", NULL, 0);
        edit_tensors(&e, "[256,64]", cases[i].shape);
        ln_status status = read_folder(&e, &spec, &arena, &err);
        if (cases[i].message == NULL)
            assert_string_equal(err.message, "");
        else
            assert_non_null(strstr(err.message, cases[i].message));
        assert_int_equal(status == LINNET_OK, cases[i].message == NULL);
        ln_arena_free(&arena);
    }
}

/* A tensor without dimensions, which has one element, is no vector. */
static void a_scalar_is_no_vector(void **state) {
    (void)state;
    const ln_tensor scalar = {.name = "output_norm.weight", .n_elems = 1};
    ln_checkpoint *checkpoint;
    ln_error err = {0};
    assert_int_equal(
        ln_checkpoint_open(TEST_SOURCE_DIR "/tests/golden/models/llama", false, &checkpoint, &err),
        LINNET_OK);
    assert_int_equal(ln_source_check_vector(checkpoint, &scalar, 64, &err), LINNET_ERR_FORMAT);
    assert_non_null(strstr(err.message, "tensor output_norm.weight has shape (), not 64"));
    ln_checkpoint_close(checkpoint);
}

/* Where config.json lacks a key, what the reference's config class takes counts; a null is none. */
static void missing_keys_are_those_of_the_reference(void **state) {
    (void)state;
    const struct {
        change change;
        float eps;
    } cases[] = {{{"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0.25"}, 0.25f},
                 {{"\"rms_norm_eps\": 1e-05", "\"other\": 0"}, 1e-5f},
                 {{"\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": null"}, 1e-6f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        edited e = edit("cwm", &cases[i].change, 1);
        ln_spec spec;
        ln_arena arena;
        ln_arena_init(&arena);
        assert_int_equal(read_folder(&e, &spec, &arena, NULL), LINNET_OK);
        assert_true(spec.norm_eps == cases[i].eps);
        ln_arena_free(&arena);
    }
}

/* Tensors of what sees and hears, by the names of published folders; `part` NULL: one that counts.
 */
static void parts_that_do_not_read_text_are_skipped(void **state) {
    (void)state;
    static const struct {
        const char *golden, *name, *part;
    } cases[] = {
        {"llama", "image_tower.encoder.layers.0.mlp.fc1.weight", "image_tower"},
        {"llama", "model.video_tower.post_layernorm.bias", "video_tower"},
        {"llama", "model.visual_embeddings_table.weight", "visual_embeddings_table"},
        {"llama", "patch_merge_mlp.linear_1.bias", "patch_merge_mlp"},
        {"llama", "blocks.0.attn.qkv.weight", NULL},
        {"llama", "model.layers.0.mlp.other.weight", NULL},
        {"cosmos3_omni", "blocks.0.attn.qkv.weight", "visual"},
        {"cosmos3_omni", "deepstack_merger_list.0.norm.weight", "visual"},
        {"cosmos3_omni", "layers.0.mlp.other.weight", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/tests/golden/models/%s", TEST_SOURCE_DIR, cases[i].golden);
        ln_checkpoint *checkpoint;
        ln_spec spec;
        ln_arena arena;
        ln_arena_init(&arena);
        assert_int_equal(ln_checkpoint_open(path, false, &checkpoint, NULL), LINNET_OK);
        assert_int_equal(ln_spec_read(checkpoint, &arena, &spec, NULL), LINNET_OK);
        const ln_tensor tensor = {.name = cases[i].name};
        const char *part = ln_skipped_part(checkpoint, &spec, &tensor);
        if (cases[i].part == NULL)
            assert_null(part);
        else if (part == NULL)
            fail_msg("%s is not skipped", cases[i].name);
        else
            assert_string_equal(part, cases[i].part);
        ln_checkpoint_close(checkpoint);
        ln_arena_free(&arena);
    }
}

/* Of a model that sees, what is skipped and what chunks and windows make of its layers. */
static void models_inside_others_are_read(void **state) {
    (void)state;
    static const char path[] = TEST_SOURCE_DIR "/tests/golden/models/gemma3_vision";
    ln_checkpoint *checkpoint;
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(ln_checkpoint_open(path, false, &checkpoint, NULL), LINNET_OK);
    assert_int_equal(ln_spec_read(checkpoint, &arena, &spec, NULL), LINNET_OK);
    size_t n_seen = 0, n_projected = 0, n_read = 0;
    for (size_t i = 0; i < ln_checkpoint_tensor_count(checkpoint); i++) {
        const char *part = ln_skipped_part(checkpoint, &spec, ln_checkpoint_tensor(checkpoint, i));
        n_seen += part != NULL && strcmp(part, "vision_tower") == 0;
        n_projected += part != NULL && strcmp(part, "multi_modal_projector") == 0;
        n_read += part == NULL;
    }
    assert_int_equal(n_projected, 2);
    assert_true(n_seen > 10);
    assert_int_equal(n_read, 2 + 13 * spec.n_layers);
    ln_checkpoint_close(checkpoint);
    ln_arena_free(&arena);
}

/* As MiMo's published config.json says it: windowed layers between the first and every sixth, that
 * many tokens before the own one, and a base for them. */
static void published_windows_are_read(void **state) {
    (void)state;
    static const change changes[] = {
        {"\"layer_types\": [\n    \"full_attention\",\n    \"sliding_attention\",\n    "
         "\"sliding_attention\"\n  ],",
         "\"sliding_window_size\": 8, \"swa_rope_theta\": 5000,"},
        {"\"rope_parameters\"", "\"rope_parameterz\""}};
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(read_changed("mimo_v2_flash", changes, 2, &spec, &arena, NULL), LINNET_OK);
    assert_int_equal(spec.layers[0].attention.window, 0);
    assert_int_equal(spec.layers[1].attention.window, 9);
    assert_int_equal(spec.layers[1].attention.n_kv_heads, 2 * spec.layers[0].attention.n_kv_heads);
    assert_true(spec.layers[1].attention.sinks && !spec.layers[0].attention.sinks);
    assert_true(spec.ropes[0].theta == 5e6 && spec.ropes[1].theta == 5000);
    assert_int_equal(spec.ropes[1].n_dims, 8);
    ln_arena_free(&arena);
}

/* BLOOM's smaller folders have a name of their own for the width. */
static void the_width_of_bloom_is_read(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(read_edited("bloom", "\"hidden_size\"", "\"n_embed\"", &spec, &arena, NULL),
                     LINNET_OK);
    assert_int_equal(spec.dim, 64);
    ln_arena_free(&arena);
}

/* CWM's, where config.json does not list what layers see: every fourth sees all, from the first. */
static void windows_of_cwm_need_no_list(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(read_edited("cwm", "\"layer_types\"", "\"nothing\"", &spec, &arena, NULL),
                     LINNET_OK);
    assert_int_equal(spec.layers[0].attention.window, 0);
    assert_int_equal(spec.layers[1].attention.window, 16);
    ln_arena_free(&arena);
}

/* Gemma 2's folders say its window twice. */
static void a_second_window_key_counts_nothing(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(read_edited("gemma2", "\"sliding_window\":",
                                 "\"sliding_window_size\": 24, \"sliding_window\":", &spec, &arena,
                                 NULL),
                     LINNET_OK);
    assert_int_equal(spec.layers[0].attention.window, 16);
    ln_arena_free(&arena);
}

/* Llama 4's ramp between long waves and short ones has no width. */
static void a_ramp_may_have_no_width(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_error err = {0};
    ln_arena_init(&arena);
    ln_status status = read_edited(
        "llama", "\"rope_parameters\"",
        "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 16.0, \"low_freq_factor\": 1.0, "
        "\"high_freq_factor\": 1.0, \"original_max_position_embeddings\": 64}, "
        "\"rope_parameters\"",
        &spec, &arena, &err);
    if (status != LINNET_OK)
        fail_msg("%s", err.message);
    ln_rope_spec plain = spec.ropes[0];
    float whole[32], scaled[32];
    size_t n = plain.n_dims / 2;
    assert_true(n <= 32);
    ln_rope_fill(&spec.ropes[0], 64, NULL, scaled);
    plain.scaling = LN_ROPE_PLAIN;
    ln_rope_fill(&plain, 64, NULL, whole);
    for (size_t i = 0; i < n; i++) /* a wave of 64 tokens and more is long */
        assert_true(scaled[i] ==
                    (2 * 3.14159265358979 / whole[i] >= 64 ? whole[i] / 16 : whole[i]));
    ln_arena_free(&arena);
}

/* GPT-Neo's words for layers, and how often they follow one another. */
static void repeated_words_are_read(void **state) {
    (void)state;
    static const char types[] =
        "[\n    [\n      [\n        \"global\",\n        \"local\"\n      ],\n      1\n    ]\n  ]";
    static const struct {
        const char *types;
        size_t windows[2];
        bool is_wrong;
    } cases[] = {{"[[[\"global\", \"local\"], 1]]", {0, 16}, false},
                 {"[[[\"local\", \"global\"], 7]]", {16, 0}, false},
                 {"[[[\"local\"], 1], [[\"global\"], 1]]", {16, 0}, false},
                 {"[[[\"local\"], 2]]", {16, 16}, false},
                 {"[[[\"local\"], 1]]", {0}, true},
                 {"[[[], 2]]", {0}, true},
                 {"[[[\"local\"], -1]]", {0}, true},
                 {"[[[\"nowhere\"], 2]]", {0}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const change changes[] = {{"\"attention_layers\"", "\"nothing\""}, {types, cases[i].types}};
        ln_spec spec;
        ln_arena arena;
        ln_arena_init(&arena);
        ln_status status = read_changed("gpt_neo", changes, 2, &spec, &arena, NULL);
        assert_int_equal(status != LINNET_OK, cases[i].is_wrong);
        for (size_t j = 0; j < 2 && !cases[i].is_wrong; j++)
            assert_int_equal(spec.layers[j].attention.window, cases[i].windows[j]);
        ln_arena_free(&arena);
    }
}

/* OLMo Hybrid rotates unless it says that there is no base, and by the base that it says. */
static void absent_bases_do_not_hide_others(void **state) {
    (void)state;
    static const char base[] = "\"rope_theta\": 10000.0,";
    static const struct {
        change change;
        double theta;
    } cases[] = {{{base, "\"rope_theta\": 500.0,"}, 500},
                 {{"\"rope_parameters\"", "\"rope_theta\": 500.0, \"nothing\""}, 500},
                 {{"\"rope_parameters\"", "\"nothing\""}, 10000},
                 {{base, "\"rope_theta\": null,"}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ln_spec spec;
        ln_arena arena;
        ln_arena_init(&arena);
        assert_int_equal(read_changed("olmo_hybrid", &cases[i].change, 1, &spec, &arena, NULL),
                         LINNET_OK);
        bool rotates = spec.positions == LN_POSITIONS_ROPE;
        assert_int_equal(rotates, cases[i].theta > 0);
        if (rotates)
            assert_true(spec.ropes[0].theta == cases[i].theta);
        ln_arena_free(&arena);
    }
}

/* Of two layers without a list the last is attention, as there is one in four. */
static void short_models_end_in_attention(void **state) {
    (void)state;
    static const change changes[] = {{"\"layer_types\"", "\"nothing\""},
                                     {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2"}};
    ln_spec spec;
    ln_arena arena;
    ln_error err = {0};
    ln_arena_init(&arena);
    assert_int_not_equal(read_changed("olmo_hybrid", changes, 2, &spec, &arena, &err), LINNET_OK);
    assert_non_null(strstr(err.message, "model.layers.2.")); /* which is one too many */
    assert_int_equal(spec.layers[0].attention.n_heads, 0);
    assert_int_equal(spec.layers[1].attention.n_heads, 4);
    ln_arena_free(&arena);
}

static void chunks_follow_positions(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(read_edited("llama4", "\"attention_chunk_size\": 16",
                                 "\"attention_chunk_size\": 32", &spec, &arena, NULL),
                     LINNET_OK);
    for (size_t i = 0; i < spec.n_layers; i++) {
        const ln_attention_spec *a = &spec.layers[i].attention;
        assert_int_equal(a->chunk, a->rope >= 0 ? 32 : 0);
        assert_true((a->q_scale.beta > 0) == (a->rope < 0));
        assert_int_equal(a->window, 0);
        assert_int_equal(spec.kv_groups[a->kv_group].window, a->chunk);
    }
    ln_op_attention p = {.chunk = 32};
    assert_int_equal(ln_attention_begin(&p, 31), 0);
    assert_int_equal(ln_attention_begin(&p, 32), 32);
    assert_int_equal(ln_attention_begin(&p, 70), 64);
    const ln_op_attention both = {.window = 8, .sees_all = true}; /* as far ahead as back */
    assert_int_equal(ln_attention_begin(&both, 20), 13);
    assert_int_equal(ln_attention_end(&both, 20, 100), 28);
    assert_int_equal(ln_attention_end(&both, 20, 22), 22);
    assert_int_equal(ln_attention_end(&p, 20, 100), 21);
    ln_arena_free(&arena);
}

static void windows_make_groups(void **state) {
    (void)state;
    ln_spec spec;
    ln_arena arena;
    ln_arena_init(&arena);
    assert_int_equal(read_edited("cohere2", "\"sliding_window\": 16", "\"sliding_window\": 32",
                                 &spec, &arena, NULL),
                     LINNET_OK);
    assert_int_equal(spec.n_kv_groups, 2);
    assert_int_equal(spec.kv_groups[spec.layers[0].attention.kv_group].window, 32);
    assert_int_equal(spec.kv_groups[spec.layers[3].attention.kv_group].window, 0);
    assert_int_equal(spec.layers[0].attention.rope, 0);
    assert_int_equal(spec.layers[3].attention.rope, -1);
    ln_arena_free(&arena);
}

/* Dynamic NTK looks at the context chosen at load, and only beyond the trained one. */
static void dynamic_rope_follows_the_chosen_context(void **state) {
    (void)state;
    ln_rope_spec rope = {
        .n_dims = 8, .theta = 10000, .scaling = LN_ROPE_DYNAMIC, .factor = 2, .original_ctx = 100};
    float near[4], far[4];
    assert_true(ln_rope_fill(&rope, 100, NULL, near) == 1.0f);
    ln_rope_fill(&rope, 300, NULL, far);
    assert_true(near[0] == 1.0f && far[0] == 1.0f);
    assert_true(fabs(near[3] - pow(10000, -0.75)) < 1e-9);
    double theta = 10000 * pow(2.0 * 300 / 100 - 1, 8.0 / 6);
    assert_true(fabs(far[3] - pow(theta, -0.75)) < 1e-9);
}

/* Frequencies have the bits of the reference implementation (transformers 5.23, float32), of pairs
 * 1, 5 and 17 of 32. */
static void frequencies_are_rounded_as_the_reference_does(void **state) {
    (void)state;
    static const struct {
        ln_rope_spec rope;
        float expected[3];
    } cases[] = {
        {{.n_dims = 64, .theta = 10000}, {0x1.7ff222p-1f, 0x1.e5a846p-3f, 0x1.eb7360p-8f}},
        {{.n_dims = 64,
          .theta = 500000,
          .scaling = LN_ROPE_LLAMA3,
          .factor = 8,
          .low_freq = 1,
          .high_freq = 4,
          .original_ctx = 64},
         {0x1.53c38cp-1f, 0x1.c6adc8p-6f, 0x1.ec07d4p-14f}},
        {{.n_dims = 64,
          .theta = 10000,
          .scaling = LN_ROPE_YARN,
          .factor = 4,
          .beta_fast = 32,
          .beta_slow = 1,
          .original_ctx = 512,
          .truncate = true},
         {0x1.7ff222p-1f, 0x1.ad9eb6p-3f, 0x1.eb7360p-10f}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float got[32];
        ln_rope_fill(&cases[i].rope, 4096, NULL, got);
        assert_true(got[1] == cases[i].expected[0]);
        assert_true(got[5] == cases[i].expected[1]);
        assert_true(got[17] == cases[i].expected[2]);
    }
}

static void rows_are_turned_as_their_own_layer_rotates(void **state) {
    (void)state;
    const ln_spec spec = {.n_ropes = 2,
                          .ropes = {{.n_dims = 128}, {.n_dims = 32, .style = LN_ROPE_HALF}}};
    const ln_spec still = {0};
    const struct {
        int rope;
        size_t k_dim, want, n_dims;
    } cases[] = {{0, 128, 0, 128}, {1, 64, 1, 32}, {-1, 128, 0, 128}, {0, 64, 0, 64}};
    size_t n_dims;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ln_attention_spec attention = {.rope = cases[i].rope, .k_dim = cases[i].k_dim};
        assert_ptr_equal(ln_spec_rope_of(&spec, &attention, &n_dims), &spec.ropes[cases[i].want]);
        assert_int_equal(n_dims, cases[i].n_dims);
        assert_null(ln_spec_rope_of(&still, &attention, &n_dims));
    }
}

/* "type:key=value unless other", the first and the last of which may lack. */
static void rows_of_defaults_are_whole(void **state) {
    (void)state;
    for (size_t i = 0; ln_families[i] != NULL; i++) {
        const char *end, *row = ln_families[i]->defaults;
        for (; row != NULL && *row != '\0'; row = end + (*end == '|')) {
            end = row + strcspn(row, "|");
            const char *key = row + strcspn(row, ":=|"), *value;
            key = *key == ':' ? key + 1 : row;
            value = key + strcspn(key, ":=| ");
            size_t n_value = *value == '=' ? strcspn(value + 1, " |") : 0;
            const char *rest = value + 1 + n_value;
            while (n_value > 0 && rest < end && strncmp(rest, " unless ", 8) == 0)
                rest += 8 + strcspn(rest + 8, " |");
            if (n_value == 0 || value == key || rest != end)
                fail_msg("%s: %.*s", ln_families[i]->name, (int)(end - row), row);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_values_are_refused_by_name),
        cmocka_unit_test(old_spellings_are_read),
        cmocka_unit_test(a_layer_may_be_one_block),
        cmocka_unit_test(added_scaling_counts),
        cmocka_unit_test(rare_flags_are_heeded),
        cmocka_unit_test(keys_that_do_not_count_are_left),
        cmocka_unit_test(keys_of_other_families_are_left),
        cmocka_unit_test(contexts_end_where_angles_change),
        cmocka_unit_test(projections_are_read),
        cmocka_unit_test(another_output_is_not_tied),
        cmocka_unit_test(a_scaling_may_be_a_default),
        cmocka_unit_test(missing_keys_have_defaults),
        cmocka_unit_test(decoders_begin_as_in_the_reference),
        cmocka_unit_test(yarn_extrapolates_wholly),
        cmocka_unit_test(some_flags_say_nothing),
        cmocka_unit_test(choices_outgrow_a_declared_context),
        cmocka_unit_test(original_contexts_are_found),
        cmocka_unit_test(frequencies_are_rounded_as_the_reference_does),
        cmocka_unit_test(outer_dimensions_of_one_do_not_count),
        cmocka_unit_test(a_scalar_is_no_vector),
        cmocka_unit_test(windows_make_groups),
        cmocka_unit_test(missing_keys_are_those_of_the_reference),
        cmocka_unit_test(parts_that_do_not_read_text_are_skipped),
        cmocka_unit_test(models_inside_others_are_read),
        cmocka_unit_test(published_windows_are_read),
        cmocka_unit_test(repeated_words_are_read),
        cmocka_unit_test(absent_bases_do_not_hide_others),
        cmocka_unit_test(the_width_of_bloom_is_read),
        cmocka_unit_test(windows_of_cwm_need_no_list),
        cmocka_unit_test(a_second_window_key_counts_nothing),
        cmocka_unit_test(a_ramp_may_have_no_width),
        cmocka_unit_test(short_models_end_in_attention),
        cmocka_unit_test(chunks_follow_positions),
        cmocka_unit_test(dynamic_rope_follows_the_chosen_context),
        cmocka_unit_test(rows_are_turned_as_their_own_layer_rotates),
        cmocka_unit_test(rows_of_defaults_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
