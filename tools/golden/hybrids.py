"""Variants of models with recurrent layers, for models.py."""
import json
import math
import pathlib

import torch
import transformers as hf

COMMON = dict(vocab_size=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)
SMALL = dict(COMMON, hidden_size=48, intermediate_size=64, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=1024)
DELTA = dict(linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8,
             linear_value_head_dim=16, linear_conv_kernel_dim=4, head_dim=16)
MAMBA = dict(mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=8, mamba_d_head=16, mamba_d_conv=4,
             mamba_expand=2)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
               shared_expert_intermediate_size=32, norm_topk_prob=True)

INKLING = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=32,
               intermediate_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
               swa_num_attention_heads=6, swa_num_key_value_heads=3, swa_head_dim=8,
               sliding_window_size=16, d_rel=4, rel_extent=24, moe_intermediate_size=16,
               n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, route_scale=2.5,
               logits_mup_width_multiplier=0.4, max_position_embeddings=1024)
# Qwen 4: what is chosen are two runs of some tokens
QSA = dict(indexer_n_heads=12, indexer_kv_heads=1, indexer_head_dim=16)
PLE = dict(ple_embed_dim=24, ngram_vocab_size_base=40, make_ngram_vocab_size_divisible_by=8)

INKLING2 = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=32,
                num_attention_heads=4, num_key_value_heads=2, head_dim=16, swa_num_attention_heads=6,
                swa_num_key_value_heads=3, swa_head_dim=8, sliding_window_size=16, d_rel=4,
                rel_extent=24, log_scaling_n_floor=20, log_scaling_alpha=0.4,
                moe_intermediate_size=16, n_routed_experts=6, num_experts_per_tok=2,
                route_scale=2.5, qk_l2_clip_threshold=4.0, rel_l2_clip_threshold=2.0,
                mlp_gate_softcap=0.8, mlp_up_softcap=1.5, final_logit_softcapping=5.0,
                max_position_embeddings=1024)

# Of what stands around a language model.
HEARS = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
             num_key_value_heads=1)

VARIANTS = {
    "qwen3_next": lambda: hf.Qwen3NextConfig(
        **SMALL, **DELTA, **EXPERTS, num_hidden_layers=4, mlp_only_layers=[1],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                         "partial_rotary_factor": 0.25}),
    "qwen3_5": lambda: hf.Qwen3_5TextConfig(
        **dict(SMALL, vocab_size=256), **DELTA, num_hidden_layers=4, tie_word_embeddings=True),
    "qwen3_5_moe": lambda: hf.Qwen3_5MoeTextConfig(
        **SMALL, **DELTA, **EXPERTS, num_hidden_layers=3,
        layer_types=["linear_attention", "full_attention", "linear_attention"]),
    # embeddings of two and three tokens in two layers, from the ends of texts on; runs of four tokens
    "qwen4_exp": lambda: hf.AutoConfig.for_model(
        "qwen4_exp_text", **dict(SMALL, vocab_size=96, hidden_size=32, eos_token_id=[77, 2]), **DELTA,
        **dict(EXPERTS, moe_intermediate_size=16, shared_expert_intermediate_size=16),
        num_hidden_layers=4, hc_count=4, hc_lowrank=12, ple_layer_ids=[3, 1], **PLE,
        heads_per_ngram=2, ngram_size=3, split_ngram_parts=3, indexer_budget=24,
        indexer_compress_ratio=4, **QSA, layer_types=["linear_attention", "full_attention"] * 2),
    # the same inside a model that sees: three streams, pairs of tokens, a sigmoid as gate, runs of
    # three
    "qwen4_exp_vision": lambda: hf.AutoConfig.for_model(
        "qwen4_exp",
        text_config=dict(SMALL, model_type="qwen4_exp_text", vocab_size=96, hidden_size=32,
                         num_attention_heads=2, num_key_value_heads=1, **DELTA,
                         **dict(EXPERTS, moe_intermediate_size=16, shared_expert_intermediate_size=16),
                         num_hidden_layers=3, hc_count=3, hc_lowrank=8, ple_layer_ids=[2], **PLE,
                         heads_per_ngram=3, ngram_size=2, split_ngram_parts=1, indexer_budget=18,
                         ple_conv_kernel_size=3, indexer_compress_ratio=3, **QSA,
                         output_gate_type="sigmoid", full_attention_interval=3,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                          "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5}),
        vision_config=dict(hidden_size=8, intermediate_size=8, depth=1, num_heads=1, patch_size=4,
                           out_hidden_size=32, num_position_embeddings=4)),
    # without embeddings of n-grams
    "qwen4_exp_plain": lambda: hf.AutoConfig.for_model(
        "qwen4_exp_text", **dict(SMALL, vocab_size=96, hidden_size=24, num_key_value_heads=4),
        **dict(DELTA, head_dim=8, linear_value_head_dim=8),
        **dict(EXPERTS, moe_intermediate_size=12, shared_expert_intermediate_size=12),
        num_hidden_layers=2, hc_count=2, hc_lowrank=5, indexer_budget=16, indexer_compress_ratio=8,
        **QSA, tie_word_embeddings=True, layer_types=["indexed_attention", "linear_attention"]),
    # as GGUF has them: n-grams in one layer, as wide as the model, keys of delta nets as wide as values
    "qwen4_exp_one": lambda: hf.AutoConfig.for_model(
        "qwen4_exp_text", **dict(SMALL, vocab_size=96, hidden_size=32, eos_token_id=77),
        **dict(DELTA, head_dim=8, linear_value_head_dim=8),
        **dict(EXPERTS, moe_intermediate_size=8, shared_expert_intermediate_size=8),
        num_hidden_layers=2, hc_count=2, hc_lowrank=6, ple_layer_ids=[1],
        **dict(PLE, ple_embed_dim=32), heads_per_ngram=2, ngram_size=3, split_ngram_parts=3,
        indexer_budget=16, indexer_compress_ratio=4, **QSA,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                         "partial_rotary_factor": 0.5}, output_gate_type="sigmoid",
        layer_types=["linear_attention", "full_attention"]),
    "granitemoehybrid": lambda: hf.GraniteMoeHybridConfig(
        **dict(SMALL, intermediate_size=32), **MAMBA, num_hidden_layers=3, num_local_experts=4, num_experts_per_tok=2,
        shared_intermediate_size=32, embedding_multiplier=3.0, logits_scaling=2.0,
        residual_multiplier=0.5, attention_multiplier=0.125, tie_word_embeddings=True,
        layer_types=["linear_attention", "full_attention", "linear_attention"]),
    "granitemoehybrid_dense": lambda: hf.GraniteMoeHybridConfig(
        **SMALL, **MAMBA, num_hidden_layers=2, num_local_experts=0, num_experts_per_tok=0,
        shared_intermediate_size=64, position_embedding_type="rope", logits_scaling=2.0,
        mamba_proj_bias=True, mamba_conv_bias=False, attention_multiplier=0.25,
        layer_types=["full_attention", "linear_attention"]),
    "mamba2": lambda: hf.Mamba2Config(
        **COMMON, hidden_size=32, num_hidden_layers=3, num_heads=4, head_dim=16, state_size=16,
        n_groups=2, conv_kernel=4, time_step_limit=(0.05, 1.5)),
    "bamba": lambda: hf.BambaConfig(
        **SMALL, **MAMBA, num_hidden_layers=3, attn_layer_indices=[1]),
    "nemo_speechlm": lambda: hf.AutoConfig.for_model(
        "nemo_speechlm",
        text_config=dict(
            SMALL, model_type="nemotron_h", num_hidden_layers=3,
            layers_block_type=["mamba", "attention", "mlp"], mamba_num_heads=4, mamba_head_dim=8,
            ssm_state_size=8, n_groups=2, conv_kernel=4, head_dim=8),
        audio_config=dict(asr_config=HEARS, diarization_config=dict(
            audio_config=HEARS, head_config=dict(audio_hidden_size=8, hidden_size=8))),
        word_timestamp_config=dict(HEARS, vocab_size=8, blank_token_id=7)),
    # two blocks that three layers share
    "zamba2": lambda: hf.Zamba2Config(
        vocab_size=40, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=32,
        num_hidden_layers=5, layers_block_type=["mamba", "hybrid", "hybrid", "mamba", "hybrid"],
        mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_ngroups=2, n_mamba_heads=4,
        intermediate_size=40, num_attention_heads=4, num_mem_blocks=2, adapter_rank=4,
        use_shared_attention_adapter=True, use_mem_rope=True, chunk_size=8,
        max_position_embeddings=512),
    # Mamba 1 of three heads behind one block that two layers share; biases of projections
    "zamba": lambda: hf.ZambaConfig(
        vocab_size=96, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=24,
        num_hidden_layers=4, layers_block_type=["linear_attention", "hybrid", "linear_attention", "hybrid"],
        mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=5, n_mamba_heads=3,
        intermediate_size=28, num_attention_heads=4, num_key_value_heads=2,
        mamba_proj_bias=True, max_position_embeddings=512),
    # heads of odd sizes, and layers by their period
    "zamba_period": lambda: hf.ZambaConfig(
        vocab_size=40, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=20,
        num_hidden_layers=6, attn_layer_period=2, attn_layer_offset=1,
        mamba_d_state=4, mamba_d_conv=3, mamba_expand=2, n_mamba_heads=4, mamba_conv_bias=False,
        intermediate_size=24, num_attention_heads=2, num_key_value_heads=2, attention_head_dim=12,
        tie_word_embeddings=False, max_position_embeddings=512),
    "falcon_h1": lambda: hf.FalconH1Config(
        **dict(SMALL, vocab_size=256), **dict(MAMBA, mamba_n_heads=4), num_hidden_layers=3,
        mamba_d_ssm=64, mamba_rms_norm=True, mamba_norm_before_gate=False, projectors_bias=True,
        head_dim=16, embedding_multiplier=2.5, lm_head_multiplier=0.5, key_multiplier=0.7,
        attention_in_multiplier=1.25, attention_out_multiplier=0.8, ssm_in_multiplier=0.6,
        ssm_out_multiplier=1.5, mlp_multipliers=[0.9, 0.4],
        ssm_multipliers=[0.7, 0.8, 1.2, 0.5, 1.4], time_step_limit=[0.01, 2.0],
        rope_parameters={"rope_type": "default", "rope_theta": 1e11}),
    # neither a norm before the output nor biases
    "falcon_h1_bare": lambda: hf.FalconH1Config(
        **SMALL, **dict(MAMBA, mamba_n_heads=4, mamba_d_head="auto"), num_hidden_layers=2,
        mamba_d_ssm=64, mamba_conv_bias=False, tie_word_embeddings=True,
        mlp_multipliers=[1.0, 0.5]),
    # biases of attention, whose output is multiplied
    "falcon_h1_biased": lambda: hf.FalconH1Config(
        **dict(SMALL, vocab_size=96, hidden_size=32, intermediate_size=32), mamba_n_heads=4, mamba_n_groups=1,
        mamba_d_state=8, mamba_d_head=8, mamba_d_conv=3, num_hidden_layers=2, mamba_d_ssm=32,
        head_dim=8, attention_bias=True, attention_out_multiplier=1.7, key_multiplier=0.6,
        attention_in_multiplier=0.8),
    "kimi_linear": lambda: hf.KimiLinearConfig(
        **dict(SMALL, vocab_size=256, num_key_value_heads=4), num_hidden_layers=3,
        moe_intermediate_size=24, n_shared_experts=1, routed_scaling_factor=2.446, kv_lora_rank=16,
        q_lora_rank=None, qk_rope_head_dim=8, v_head_dim=16, qk_nope_head_dim=16, n_group=1,
        topk_group=1, num_experts_per_tok=2, num_local_experts=6, first_k_dense_replace=1,
        linear_attn_config=dict(head_dim=16, num_heads=4, short_conv_kernel_size=4,
                                kda_layers=[1, 3], full_attn_layers=[2])),
    "nemotron_h": lambda: hf.NemotronHConfig(
        **SMALL, head_dim=16, ssm_state_size=8, mamba_num_heads=6, mamba_head_dim=16, n_groups=2,
        conv_kernel=4, n_routed_experts=6, n_shared_experts=1, moe_intermediate_size=24,
        moe_shared_expert_intermediate_size=40, num_experts_per_tok=2, routed_scaling_factor=2.5,
        layers_block_type=["linear_attention", "mlp", "linear_attention", "moe",
                           "full_attention", "moe"]),
    # experts that work in fewer dimensions, as in Nemotron 3 Super
    "nemotron_h_latent": lambda: hf.NemotronHConfig(
        **dict(SMALL, vocab_size=96, hidden_size=32, intermediate_size=32), head_dim=16, ssm_state_size=8,
        mamba_num_heads=4, mamba_head_dim=8, n_groups=2, conv_kernel=4, n_routed_experts=6,
        n_shared_experts=1, moe_intermediate_size=24, moe_latent_size=16,
        moe_shared_expert_intermediate_size=24, num_experts_per_tok=2, routed_scaling_factor=2.5,
        layers_block_type=["linear_attention", "moe", "full_attention", "moe"]),
    # no recurrent layers
    "nemotron_h_even": lambda: hf.NemotronHConfig(
        **dict(SMALL, vocab_size=96, hidden_size=32, intermediate_size=40), head_dim=8,
        ssm_state_size=8, mamba_num_heads=4, mamba_head_dim=8, n_groups=2, conv_kernel=4,
        layers_block_type=["full_attention", "mlp"]),
    "lfm2": lambda: hf.Lfm2Config(
        **SMALL, num_hidden_layers=4, conv_L_cache=3, conv_bias=False,
        block_auto_adjust_ff_dim=True, block_multiple_of=16, block_ffn_dim_multiplier=1.0,
        layer_types=["conv", "full_attention", "conv", "conv"]),
    # a text model inside another, whose tower is skipped
    "lfm2_vl": lambda: hf.Lfm2VlConfig(
        text_config=dict(SMALL, vocab_size=96, hidden_size=32, intermediate_size=32,
                         model_type="lfm2", num_hidden_layers=2, block_multiple_of=16, conv_L_cache=3, conv_bias=False,
                         layer_types=["conv", "full_attention"]),
        vision_config=dict(model_type="siglip2_vision_model", hidden_size=8, intermediate_size=8,
                           num_hidden_layers=1, num_attention_heads=1, patch_size=4,
                           num_patches=4),
        projector_hidden_size=8, downsample_factor=1, image_token_id=300),
    "jamba": lambda: hf.JambaConfig(
        **dict(SMALL, vocab_size=96, hidden_size=32, intermediate_size=20), num_hidden_layers=3,
        attn_layer_period=3, attn_layer_offset=2, expert_layer_period=2, expert_layer_offset=1,
        num_experts=4, num_experts_per_tok=2, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2,
        mamba_dt_rank=6),
    "mamba": lambda: hf.MambaConfig(
        **dict(COMMON, vocab_size=96), hidden_size=32, num_hidden_layers=3, state_size=16,
        conv_kernel=4, use_bias=True, time_step_rank=5),
    # norms without weights, and columns that are no whole vectors
    "falcon_mamba": lambda: hf.FalconMambaConfig(
        **COMMON, hidden_size=20, num_hidden_layers=2, state_size=5, conv_kernel=3,
        use_conv_bias=False, mixer_rms_eps=1e-3, tie_word_embeddings=False),
    # a residual stream of norms, and states that decay by heads and layers
    "minimax": lambda: hf.MiniMaxConfig(
        **dict(SMALL, vocab_size=96, hidden_size=32, intermediate_size=12, num_attention_heads=3,
               num_key_value_heads=1), head_dim=12, num_hidden_layers=3, num_local_experts=4,
        num_experts_per_tok=2, block_size=8,
        full_attn_alpha_factor=3.5, full_attn_beta_factor=0.8, linear_attn_alpha_factor=2.5,
        linear_attn_beta_factor=1.2, mlp_alpha_factor=3.0, mlp_beta_factor=0.9,
        layer_types=["linear_attention", "full_attention", "linear_attention"]),
    # one factor of what is kept, as GGUF has it
    "minimax_kept": lambda: hf.MiniMaxConfig(
        **dict(SMALL, vocab_size=96, hidden_size=24, intermediate_size=12, num_attention_heads=2,
               num_key_value_heads=1), head_dim=8, num_hidden_layers=3, num_local_experts=4,
        num_experts_per_tok=2, block_size=8,
        full_attn_alpha_factor=3.5, linear_attn_alpha_factor=3.5, mlp_alpha_factor=3.5,
        layer_types=["linear_attention", "full_attention", "linear_attention"]),
    # KDA whose decays are bounded, beside latents whose heads have gates
    "bailing_hybrid": lambda: hf.BailingHybridConfig(
        **dict(COMMON, vocab_size=96), hidden_size=24, intermediate_size=24, num_attention_heads=2,
        num_key_value_heads=2, head_dim=12, num_hidden_layers=3, moe_intermediate_size=12,
        num_local_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
        first_k_dense_replace=1, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=8,
        v_head_dim=12, layer_group_size=2, max_position_embeddings=1024, num_mtp_layers=0),
    # latents of queries, too
    "bailing_hybrid_latent": lambda: hf.BailingHybridConfig(
        **dict(COMMON, vocab_size=96), hidden_size=24, intermediate_size=24, num_attention_heads=2,
        num_key_value_heads=2, head_dim=12, num_hidden_layers=3, moe_intermediate_size=12,
        num_local_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
        first_k_dense_replace=1, q_lora_rank=16, kv_lora_rank=12, qk_nope_head_dim=8,
        qk_rope_head_dim=8, v_head_dim=12, layer_group_size=2, max_position_embeddings=1024,
        num_mtp_layers=0, attention_bias=True),
    # delta nets, layers with windows that rotate, and one that sees all
    "lara_mini": lambda: hf.AutoConfig.for_model(
        "lara_mini", **dict(COMMON, vocab_size=64), hidden_size=32, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=1024, **DELTA,
        **dict(EXPERTS, moe_intermediate_size=16, shared_expert_intermediate_size=24),
        sliding_window=16, num_hidden_layers=5, tie_word_embeddings=False),
    # gated linear recurrences, of a width of their own, and the attention of every third layer
    "recurrent_gemma": lambda: hf.RecurrentGemmaConfig(
        **dict(COMMON, vocab_size=96), hidden_size=40, intermediate_size=64, num_attention_heads=2,
        num_key_value_heads=1, num_hidden_layers=4, lru_width=48, attention_window_size=16),
    # biases of scores that hidden states make, four short convolutions in each layer, windowed layers
    # with heads of their own, and shared experts whose weights the router gives
    "inkling": lambda: hf.InklingTextConfig(
        **INKLING, num_hidden_layers=3, vocab_size=96, unpadded_vocab_size=91, conv_kernel_size=4,
        layer_types=["hybrid_sliding", "hybrid", "hybrid_sliding"],
        mlp_layer_types=["dense", "sparse", "sparse"], log_scaling_n_floor=20,
        log_scaling_alpha=0.4),
    # the same inside a model that sees and hears, by the names of its own folders
    "inkling_mm": lambda: hf.InklingConfig(
        text_config=dict(INKLING, model_type="inkling_text", num_hidden_layers=2, vocab_size=96,
                         conv_kernel_size=3, sliding_window_size=70, rel_extent=200,
                         n_shared_experts=1, local_layer_ids=[0], dense_mlp_idx=1),
        vision_config=dict(patch_size=4, temporal_patch_size=2, hidden_size=8, num_hidden_layers=3),
        audio_config=dict(n_mel_bins=2, mel_vocab_size=4), image_token_id=90, audio_token_id=91,
        image_bos_token_id=92, audio_bos_token_id=93),
    # layers that see a window and rotate by another base
    "zaya": lambda: hf.AutoConfig.for_model(
        "zaya", **dict(COMMON, vocab_size=96), hidden_size=32, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, moe_intermediate_size=16,
        num_experts=4, router_hidden_size=12, sliding_window=16, max_position_embeddings=1024,
        tie_word_embeddings=False,
        layer_types=["hybrid", "hybrid_sliding", "hybrid"]),
    # longer convolutions, one KV head, biases
    "zaya_taps": lambda: hf.AutoConfig.for_model(
        "zaya", **dict(COMMON, vocab_size=64), hidden_size=24, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, head_dim=8, moe_intermediate_size=12,
        num_experts=3, router_hidden_size=10, cca_time0=3, cca_time1=4, attention_bias=True,
        lm_head_bias=True, tie_word_embeddings=False, max_position_embeddings=1024),
    # as many KV heads as heads, and the second convolution alone
    "zaya_pairs": lambda: hf.AutoConfig.for_model(
        "zaya", **dict(COMMON, vocab_size=64), hidden_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, head_dim=12, moe_intermediate_size=12,
        num_experts=3, router_hidden_size=10, cca_time0=1, cca_time1=2, lm_head_bias=True,
        max_position_embeddings=1024,
        rope_parameters={"hybrid": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0,
                                    "partial_rotary_factor": 1.0}}),
    # a residual stream that attends to blocks of layers before it, taps that hidden states make,
    # limits of lengths, sinks of each token
    "inkling2": lambda: hf.AutoConfig.for_model(
        "inkling2_text", **INKLING2, num_hidden_layers=5, vocab_size=96, unpadded_vocab_size=91,
        layer_types=["hybrid_sliding", "hybrid", "hybrid", "hybrid_sliding", "hybrid_sliding"],
        n_layers_per_attn_res_block=2),
    # the same inside a model that sees; its first layer sees all
    "inkling2_mm": lambda: hf.AutoConfig.for_model(
        "inkling2",
        text_config=dict(INKLING2, model_type="inkling2_text", num_hidden_layers=2, vocab_size=96,
                         unpadded_vocab_size=96, conv_kernel_size=3,
                         layer_types=["hybrid", "hybrid_sliding"], n_layers_per_attn_res_block=6),
        vision_config=dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, patch_size=4,
                           posemb_grid_size=4, projection_hidden_dim=8, text_hidden_size=32),
        image_token_id=90),
    # layers in the middle run three times, in two blocks; messages of the run before
    "inkling2_loop": lambda: hf.AutoConfig.for_model(
        "inkling2_loop",
        text_config=dict(INKLING2, model_type="inkling2_loop_text", num_hidden_layers=4,
                         vocab_size=96, unpadded_vocab_size=96, n_layers_per_attn_res_block=1,
                         loop_layer_index_start=1, loop_layer_index_end=3, loop_num_passes=3,
                         loop_gate_rank=6, moe_intermediate_size=8, n_routed_experts=4,
                         layer_types=["hybrid_sliding", "hybrid"] * 2),
        vision_config=dict(model_type="inkling2_vision", hidden_size=8, num_hidden_layers=1,
                           num_attention_heads=1, patch_size=4, posemb_grid_size=4,
                           projection_hidden_dim=8, text_hidden_size=32),
        image_token_id=90),
    "lfm2_moe": lambda: hf.Lfm2MoeConfig(
        **SMALL, num_hidden_layers=3, conv_L_cache=3, conv_bias=False, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=32, num_dense_layers=1,
        use_expert_bias=True, layer_types=["conv", "full_attention", "conv"]),
}

# where the first draw has two tokens that are nearly equal
SEEDS = {"falcon_h1": 2, "falcon_h1_bare": 2, "granitemoehybrid": 1, "kimi_linear": 7, "qwen3_next": 1,
         "lfm2": 1, "nemo_speechlm": 1, "inkling": 3, "inkling_mm": 1, "zaya": 4,
         "inkling2": 2, "inkling2_mm": 3, "inkling2_loop": 1,
         "zamba": 3, "zamba_period": 1, "qwen4_exp": 1, "qwen4_exp_vision": 1, "qwen4_exp_plain": 1,
         "qwen4_exp_one": 5}



def publish_inkling(folder: pathlib.Path) -> None:
    """config.json by the keys of published folders."""
    config = json.loads((folder / "config.json").read_text())
    text = config["text_config"]
    for key in ("layer_types", "mlp_layer_types", "model_type", "number_of_conv_states"):
        del text[key]
    text["sconv_kernel_size"] = text.pop("conv_kernel_size")
    text["model_max_length"] = text.pop("max_position_embeddings")
    text["dense_intermediate_size"] = text.pop("intermediate_size")
    text["intermediate_size"] = text.pop("moe_intermediate_size")
    text["dense_mlp_idx"] = 1
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def publish_zamba(folder):
    """Without the list of layers, which their period tells."""
    config = json.loads((folder / "config.json").read_text())
    for key in ("layers_block_type", "layer_types"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


PUBLISHED = {"inkling_mm": publish_inkling, "zamba_period": publish_zamba}

PROMPT_LENGTHS = (7, 50, 96)  # states lie at multiples of 64


def randomize(model: torch.nn.Module) -> None:
    """Decays from short memories to long ones, and norms by what their weights mean."""
    adds_one = model.config.model_type.startswith(("qwen3", "qwen4"))
    shares = model.config.model_type in ("zamba", "zamba2")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("A_log"):
                p.copy_(torch.empty_like(p).uniform_(math.log(0.02), math.log(4.0)))
            elif name.endswith(("dt_bias", "dt_proj.bias", "dt_proj_bias")):
                p.copy_(torch.empty_like(p).uniform_(-3.0, 1.0))
            elif name.endswith("recurrent_param"):
                p.copy_(torch.empty_like(p).uniform_(-6.0, 0.0))
            elif name.endswith(".D"):
                p.copy_(torch.randn_like(p))
            elif name.endswith(("conv1d.weight", "conv.conv.weight", "conv_1d.weight")):
                p.copy_(torch.randn_like(p) * 0.4)
            elif name.endswith(("hidden_states_scale", "residual_scale", "router_states_scale")):
                p.copy_(torch.randn_like(p) * 0.2 + 1.0)
            elif name.endswith(("hidden_states_bias", "residual_bias")):
                p.copy_(torch.randn_like(p) * 0.03)
            elif name.endswith("qk_norm.temp"):
                p.copy_(torch.empty_like(p).uniform_(0.6, 1.6))
            elif "mlp.gate" in name and "router" in name and p.ndim > 1:
                p.copy_(torch.randn_like(p) * 0.8)  # so that all experts are chosen
            elif "conv_qk_" in name:
                p.copy_(torch.randn_like(p) * (0.4 if name.endswith("weight") else 0.2))
            elif name.endswith("l2_clip.scale"):
                p.add_(1.0)
            elif name.endswith("_input.query"):
                p.mul_(3.0)
            elif "_message_gate." in name:  # runs in a row would magnify what rounding leaves
                p.mul_(0.4)
            elif adds_one and "norm" in name and "linear_attn" not in name:
                p.sub_(1.0)
            elif shares and ("transformer" in name or "shared_transf" in name) and p.ndim > 1:
                p.mul_(0.5)  # blocks in a row would magnify what rounding leaves
            p.copy_(p.to(torch.bfloat16).float())
        for name, b in model.named_buffers():
            if name.endswith("balancing_biases"):
                b.copy_(torch.randn_like(b) * 0.1)
                b[-1] += 0.5  # no expert, which some tokens shall have
                b.copy_(b.to(torch.bfloat16).float())
