"""Small configurations of the families of 2025 and 2026, for models.py."""
import importlib
import pathlib
import re

import transformers as hf
from safetensors.torch import load_file, save_file

COMMON = dict(vocab_size=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)
SMALL = dict(COMMON, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)
HEADS = dict(SMALL, head_dim=16)
TINY = dict(COMMON, vocab_size=40, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)
MOE = dict(HEADS, num_experts_per_tok=2, moe_intermediate_size=32)


def yarn(**more):
    return dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0, **more)


LATENT = dict(SMALL, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=16,
              qk_rope_head_dim=8, v_head_dim=16)
LATENT_MOE = dict(LATENT, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                  n_shared_experts=1, n_group=1, topk_group=1)

CHAMELEON_PICTURES = dict(embed_dim=4, num_embeddings=4, latent_channels=4, resolution=8,
                          base_channels=32, channel_multiplier=[1], num_res_blocks=1)

VARIANTS = {
    "seed_oss": lambda: hf.SeedOssConfig(**HEADS),
    "ernie4_5": lambda: hf.Ernie4_5Config(**HEADS, use_bias=True, tie_word_embeddings=False),
    "ernie4_5_moe": lambda: hf.Ernie4_5_MoeConfig(
        **dict(SMALL, num_hidden_layers=3), moe_k=2, moe_num_experts=4, moe_num_shared_experts=2,
        moe_intermediate_size=32, moe_layer_start_index=1, tie_word_embeddings=True),
    "exaone4": lambda: hf.Exaone4Config(
        **dict(SMALL, num_hidden_layers=4), sliding_window=16, sliding_window_pattern=4),
    "dots1": lambda: hf.Dots1Config(
        **dict(MOE, num_hidden_layers=3), n_routed_experts=4, n_shared_experts=1, n_group=1,
        topk_group=1, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5,
        sliding_window=None),
    "hunyuan_v1_dense": lambda: hf.HunYuanDenseV1Config(
        **HEADS, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 50.0,
                                  "factor": 1.0}),
    "hunyuan_v1_moe": lambda: hf.HunYuanMoEV1Config(**HEADS, num_experts=4, moe_topk=2),
    "olmoe": lambda: hf.OlmoeConfig(**SMALL, num_experts=4, num_experts_per_tok=2),
    "glm4_moe": lambda: hf.Glm4MoeConfig(
        **dict(MOE, num_hidden_layers=3), n_routed_experts=4, n_shared_experts=1, use_qk_norm=True,
        attention_bias=True, routed_scaling_factor=1.5, first_k_dense_replace=1),
    # the source of bailing_moe's golden, which kin.py makes
    "glm4_moe_groups": lambda: hf.Glm4MoeConfig(
        **dict(MOE, num_hidden_layers=3), n_routed_experts=8, n_shared_experts=1, use_qk_norm=True,
        routed_scaling_factor=2.5, first_k_dense_replace=1, n_group=4, topk_group=2),
    # the source of bailing_moe_v1's
    "qwen2_moe_unbiased": lambda: hf.Qwen2MoeConfig(
        **dict(TINY, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
               shared_expert_intermediate_size=32, norm_topk_prob=True, qkv_bias=False)),
    # the source of internlm2's
    "llama_small": lambda: hf.LlamaConfig(**SMALL),
    "minimax_m2": lambda: hf.MiniMaxM2Config(
        **HEADS, num_local_experts=4, num_experts_per_tok=2, partial_rotary_factor=0.5),
    "minimax_m2_stacked": lambda: hf.MiniMaxM2Config(
        **dict(TINY, intermediate_size=16), head_dim=8, num_local_experts=3, num_experts_per_tok=2,
        partial_rotary_factor=0.5),
    "qwen3_moe_stacked": lambda: hf.Qwen3MoeConfig(
        **dict(TINY, intermediate_size=24), head_dim=8, num_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=16),
    "granitemoe": lambda: hf.GraniteMoeConfig(
        **SMALL, num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=6.0,
        attention_multiplier=0.2, residual_multiplier=0.3, logits_scaling=3.0,
        tie_word_embeddings=True),
    "phimoe": lambda: hf.PhimoeConfig(
        **SMALL, num_local_experts=4, num_experts_per_tok=2, attention_bias=True,
        lm_head_bias=True, sliding_window=None),
    "apertus": lambda: hf.ApertusConfig(**SMALL, hidden_act="xielu"),
    "gemma3_vision": lambda: hf.Gemma3Config(
        text_config=dict(HEADS, intermediate_size=48, num_hidden_layers=6, sliding_window=16,
                         query_pre_attn_scalar=16,
                         rope_scaling={"rope_type": "linear", "factor": 8.0}),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                           num_attention_heads=1, image_size=28, patch_size=14),
        mm_tokens_per_image=4, image_token_index=300),
    "mistral3": lambda: hf.Mistral3Config(
        text_config=hf.Ministral3Config(
            **HEADS, rope_parameters=yarn(mscale=1.0, mscale_all_dim=1.0,
                                          llama_4_scaling_beta=0.1)),
        vision_config=hf.PixtralVisionConfig(hidden_size=16, intermediate_size=16, head_dim=16,
                                             num_hidden_layers=1, num_attention_heads=1,
                                             image_size=28, patch_size=14),
        image_token_index=300, tie_word_embeddings=False),
    "qwen2_5_vl": lambda: hf.Qwen2_5_VLConfig(
        text_config=dict(SMALL, rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                                 "mrope_section": [2, 3, 3]}),
        vision_config=dict(depth=1, hidden_size=16, out_hidden_size=64, num_heads=1,
                           intermediate_size=16, patch_size=2, fullatt_block_indexes=[0]),
        image_token_id=300, video_token_id=301, vision_start_token_id=302, vision_end_token_id=303),
    "qwen3_vl": lambda: hf.Qwen3VLConfig(
        text_config=dict(HEADS, rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                                 "mrope_section": [3, 3, 2],
                                                 "mrope_interleaved": True}),
        vision_config=dict(depth=1, hidden_size=16, out_hidden_size=64, num_heads=1,
                           intermediate_size=16, patch_size=2, num_position_embeddings=4,
                           deepstack_visual_indexes=[0]),
        tie_word_embeddings=True,
        image_token_id=300, video_token_id=301, vision_start_token_id=302, vision_end_token_id=303),
    "qwen3_vl_moe": lambda: hf.Qwen3VLMoeConfig(
        text_config=dict(MOE, num_experts=4, decoder_sparse_step=1,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                          "mrope_section": [3, 3, 2]}),
        vision_config=dict(depth=1, hidden_size=16, out_hidden_size=64, num_heads=1,
                           intermediate_size=16, patch_size=2, num_position_embeddings=4,
                           deepstack_visual_indexes=[0]),
        image_token_id=300, video_token_id=301, vision_start_token_id=302, vision_end_token_id=303),
    "kimi_k25": lambda: hf.AutoConfig.for_model(
        "kimi_k25",
        text_config=dict(
            dict(SMALL, num_key_value_heads=4, num_hidden_layers=2), model_type="deepseek_v3",
            n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
            n_shared_experts=1, n_group=1, topk_group=1, q_lora_rank=24, kv_lora_rank=16,
            qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, first_k_dense_replace=1),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                           num_attention_heads=1, patch_size=2)),
    "afmoe": lambda: hf.AfmoeConfig(
        **dict(MOE, num_hidden_layers=4), num_dense_layers=1, num_experts=4, num_shared_experts=1,
        route_scale=2.0, sliding_window=16, global_attn_every_n_layers=4, mup_enabled=True),
    "llama4": lambda: hf.Llama4Config(
        text_config=dict(HEADS, num_hidden_layers=4, intermediate_size_mlp=80,
                         num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2,
                         attention_chunk_size=16, floor_scale=8, attn_scale=0.1),
        vision_config=dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1,
                           num_attention_heads=1, image_size=28, patch_size=14,
                           vision_output_dim=16, projector_input_dim=16,
                           projector_output_dim=16),
        image_token_index=300),
    # norms of heads behind rotations that make these longer
    "llama4_yarn": lambda: hf.Llama4Config(
        text_config=dict(TINY, num_hidden_layers=2, intermediate_size_mlp=48, head_dim=8,
                         num_local_experts=2, num_experts_per_tok=1, interleave_moe_layer_step=1,
                         attention_chunk_size=16, floor_scale=8, attn_scale=0.1,
                         rope_parameters=yarn()),
        vision_config=dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1,
                           num_attention_heads=1, image_size=28, patch_size=14,
                           vision_output_dim=16, projector_input_dim=16,
                           projector_output_dim=16),
        image_token_index=300),
    "mimo_v2_flash": lambda: hf.AutoConfig.for_model(
        "mimo_v2_flash",
        **dict(MOE, num_hidden_layers=3, head_dim=24), v_head_dim=16, n_routed_experts=4,
        sliding_window=17, n_group=1, topk_group=1),
    "hy_v3": lambda: hf.AutoConfig.for_model(
        "hy_v3", **dict(MOE, num_hidden_layers=3), num_experts=4, num_shared_experts=1),
    "glm4_moe_lite": lambda: hf.Glm4MoeLiteConfig(**LATENT_MOE),
    "youtu": lambda: hf.AutoConfig.for_model("youtu", **LATENT),
    "mistral4": lambda: hf.Mistral3Config(
        text_config=hf.Mistral4Config(
            **dict(LATENT_MOE, n_routed_experts=4, n_group=2, topk_group=1, q_lora_rank=None,
                   moe_intermediate_size=16),
            rope_parameters=yarn(mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
        vision_config=hf.PixtralVisionConfig(hidden_size=16, intermediate_size=16, head_dim=16,
                                             num_hidden_layers=1, num_attention_heads=1,
                                             image_size=28, patch_size=14),
        image_token_index=300, tie_word_embeddings=False),
    # the source of kimi_k2's, which kin.py makes
    "deepseek_v3_small": lambda: hf.DeepseekV3Config(
        **LATENT_MOE, first_k_dense_replace=1, rope_parameters=yarn(mscale=1.0,
                                                                    mscale_all_dim=1.0)),
    # sparse attention: rotation of halves in the indexer, and an indexer in each layer
    "deepseek_v32": lambda: hf.DeepseekV32Config(
        **dict(LATENT_MOE, intermediate_size=48), first_k_dense_replace=1, index_topk=16,
        index_n_heads=10, index_head_dim=16),
    # layers that share the positions of an earlier one
    "glm_moe_dsa": lambda: hf.GlmMoeDsaConfig(
        **dict(LATENT_MOE, num_hidden_layers=3, hidden_size=48, moe_intermediate_size=24),
        index_topk=16, index_n_heads=10, index_head_dim=12, first_k_dense_replace=1,
        indexer_types=["full", "shared", "full"]),
    "minicpm3": lambda: hf.AutoConfig.for_model(
        "minicpm3", **LATENT, scale_emb=6, scale_depth=1.4, dim_model_base=32),
    "solar_open": lambda: hf.SolarOpenConfig(
        **dict(MOE, moe_intermediate_size=24), n_routed_experts=4, n_shared_experts=1, n_group=1,
        topk_group=1, routed_scaling_factor=1.5),
    "exaone_moe": lambda: hf.ExaoneMoeConfig(
        **dict(SMALL, hidden_size=48, num_hidden_layers=4, intermediate_size=48,
               num_experts_per_tok=2, moe_intermediate_size=16), num_experts=4, sliding_window=16, first_k_dense_replace=1),
    "mellum": lambda: hf.AutoConfig.for_model(
        "mellum", **MOE, num_experts=4, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={
            "full_attention": yarn(),
            "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}}),
    "jais2": lambda: hf.AutoConfig.for_model("jais2", **HEADS),
    "helium": lambda: hf.HeliumConfig(**HEADS),
    "cwm": lambda: hf.AutoConfig.for_model(
        "cwm", **HEADS, sliding_window=16, layer_types=["full_attention", "sliding_attention"],
        rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0,
                         "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32}),
    # the source of step3p5's, which kin.py makes
    "step3p7": lambda: hf.AutoConfig.for_model(
        "step3p7",
        text_config=dict(
            MOE, hidden_size=48, num_hidden_layers=3, intermediate_size=48, n_routed_experts=4,
            moe_intermediate_size=16, share_expert_dim=32, sliding_window=16,
            num_sliding_attention_heads=6, moe_router_scaling_factor=1.5,
            layer_types=["full_attention"] + ["sliding_attention"] * 2,
            mlp_layer_types=["dense"] + ["sparse"] * 2,
            swiglu_limits=[0, 0.3, None], swiglu_limits_shared=[0.2, 0, 0.25],
            rope_parameters={
                "full_attention": {"rope_type": "llama3", "rope_theta": 20000.0, "factor": 2.0,
                                   "low_freq_factor": 1.0, "high_freq_factor": 8.0,
                                   "original_max_position_embeddings": 32,
                                   "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0,
                                      "partial_rotary_factor": 1.0}}),
        vision_config=dict(width=16, layers=1, heads=1, image_size=28, patch_size=14),
        image_token_id=300),
    # the source of qwen3_omni_moe's, which kin.py makes
    "qwen3_omni_thinker": lambda: importlib.import_module(
        "transformers.models.qwen3_omni_moe").Qwen3OmniMoeThinkerConfig(
        text_config=dict(dict(MOE, moe_intermediate_size=24), num_experts=4,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                          "mrope_section": [3, 3, 2], "mrope_interleaved": True}),
        vision_config=dict(depth=1, hidden_size=16, out_hidden_size=64, num_heads=1,
                           intermediate_size=16, patch_size=2, num_position_embeddings=4,
                           deepstack_visual_indexes=[0]),
        audio_config=dict(d_model=16, encoder_layers=1, encoder_attention_heads=1,
                          encoder_ffn_dim=16, output_dim=64, num_mel_bins=16,
                          downsample_hidden_size=16)),
    "nemotron": lambda: hf.NemotronConfig(**TINY, norm_eps=1e-5),
    "olmo": lambda: hf.OlmoConfig(**TINY, clip_qkv=1.0),
    # q and k are normalised, then clamped
    "olmoe_clip": lambda: hf.OlmoeConfig(
        **dict(TINY, intermediate_size=24), num_experts=4, num_experts_per_tok=2, clip_qkv=1.0),
    "flex_olmo": lambda: hf.AutoConfig.for_model(
        "flex_olmo", **dict(TINY, intermediate_size=24), num_experts=4, num_experts_per_tok=2),
    # slopes of a number of heads that is no power of two
    "mpt": lambda: hf.MptConfig(
        vocab_size=40, d_model=24, n_heads=6, n_layers=2, max_seq_len=512,
        attn_config={"clip_qkv": 1.0, "softmax_scale": 0.3}),
    "dbrx": lambda: hf.DbrxConfig(
        vocab_size=40, d_model=32, n_heads=4, n_layers=2, max_seq_len=512,
        attn_config={"kv_n_heads": 2, "clip_qkv": 1.0, "rope_theta": 500000.0},
        ffn_config={"hidden_size": 32, "ffn_hidden_size": 24, "moe_num_experts": 4,
                    "moe_top_k": 2}),
    "persimmon": lambda: hf.PersimmonConfig(
        vocab_size=40, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=512),
    "gpt_neo": lambda: hf.GPTNeoConfig(
        vocab_size=40, hidden_size=32, num_layers=2, num_heads=4, intermediate_size=40,
        attention_types=[[["global", "local"], 1]], window_size=16, max_position_embeddings=256),
    "gpt_neox_japanese": lambda: hf.GPTNeoXJapaneseConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_multiple_size=2, max_position_embeddings=256),
    "xglm": lambda: hf.XGLMConfig(
        vocab_size=40, d_model=32, ffn_dim=40, num_layers=2, attention_heads=4, pad_token_id=9,
        max_position_embeddings=256),
    "biogpt": lambda: hf.BioGptConfig(
        vocab_size=40, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=256),
    "nanochat": lambda: hf.AutoConfig.for_model("nanochat", **TINY),
    "vaultgemma": lambda: hf.AutoConfig.for_model(
        "vaultgemma", **TINY, head_dim=8, query_pre_attn_scalar=8, sliding_window=16),
    "hyperclovax": lambda: hf.AutoConfig.for_model(
        "hyperclovax", **TINY, embedding_multiplier=3.0, residual_multiplier=0.4,
        logits_scaling=0.5),
    # a layer that does not rotate, a shared expert
    "granitemoe_swa": lambda: hf.AutoConfig.for_model(
        "granitemoe_swa", **dict(TINY, intermediate_size=16), num_local_experts=3,
        num_experts_per_tok=2, shared_intermediate_size=24, sliding_window=16,
        layer_types=["full_attention", "sliding_attention"], layer_rope_theta=[0, 20000.0],
        attention_multiplier=0.3, residual_multiplier=0.5, logits_scaling=2.0),
    # dense, which rotates; windowed; seeing all, which does not rotate
    "cohere2_moe": lambda: hf.AutoConfig.for_model(
        "cohere2_moe", **dict(TINY, intermediate_size=16, num_hidden_layers=3), head_dim=8,
        num_experts=3, num_experts_per_tok=2, num_shared_experts=1, sliding_window=16,
        expert_selection_fn="sigmoid", prefix_dense_intermediate_size=24, logit_scale=0.25,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        mlp_layer_types=["dense", "sparse", "sparse"]),
    "kolibri1": lambda: hf.AutoConfig.for_model(
        "kolibri1", **TINY, head_dim=8, num_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=16, shared_expert_intermediate_size=16, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"]),
    # three experts, and two that give what they read
    "longcat_flash": lambda: hf.AutoConfig.for_model(
        "longcat_flash", vocab_size=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        hidden_size=32, ffn_hidden_size=24, num_layers=2, num_attention_heads=4,
        max_position_embeddings=512, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8,
        qk_rope_head_dim=8, head_dim=8, v_head_dim=8, moe_topk=2, n_routed_experts=3,
        zero_expert_num=2, expert_ffn_hidden_size=16, routed_scaling_factor=2.5),
    # dense, then mixtures that see a window and rotate, or all and do not
    "flint": lambda: hf.AutoConfig.for_model(
        "flint", **dict(TINY, num_hidden_layers=4), head_dim=8, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24,
        mlp_only_layers=[0], sliding_window=17,
        layer_types=["full_attention", "sliding_attention", "sliding_attention",
                     "full_attention"]),
    "muse_glimmer": lambda: hf.AutoConfig.for_model(
        "muse_glimmer",
        text_config=dict(TINY, num_hidden_layers=5, head_dim=8, sliding_window=16,
                         output_multiplier=4.0, qk_scale_factor=2.5),
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                           num_attention_heads=1, patch_size=2, pos_emb_height=4,
                           pos_emb_width=4, max_position_embeddings=16),
        out_hidden_size=8, projector_hidden_size=8),
    # experts in fewer dimensions than the model's
    "muse_spark": lambda: hf.AutoConfig.for_model(
        "muse_spark",
        text_config=dict(TINY, num_hidden_layers=4, head_dim=8, sliding_window=16,
                         output_multiplier=2.0, qk_scale_factor=2.5, num_local_experts=4,
                         num_experts_per_tok=2, moe_intermediate_size=16, moe_hidden_size=24,
                         mlp_layer_types=["dense", "sparse", "sparse", "dense"]),
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                           num_attention_heads=1, patch_size=2, pos_emb_height=4,
                           pos_emb_width=4, max_position_embeddings=16),
        audio_config=dict(patch_sizes=[4], hidden_sizes=[8], depths=[1], num_hidden_layers=1,
                          out_hidden_size=32),
        out_hidden_size=8, projector_hidden_size=8),
    "cohere_compass": lambda: hf.AutoConfig.for_model(
        "cohere_compass",
        text_config=dict(TINY, num_hidden_layers=3, head_dim=8, sliding_window=16, logit_scale=0.25,
                         layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                         rope_parameters={
                             "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0,
                                                   "mrope_section": [2, 1, 1]},
                             "full_attention": None}),
        vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=1,
                           out_hidden_size=32, patch_size=2, num_position_embeddings=16,
                           deepstack_visual_indexes=[0])),
    "axk1": lambda: hf.AutoConfig.for_model(
        "axk1", **dict(LATENT_MOE, vocab_size=40, hidden_size=32, intermediate_size=24,
                       moe_intermediate_size=16, n_routed_experts=3, qk_nope_head_dim=8,
                       v_head_dim=8, q_lora_rank=16)),
    # a dense layer, and mixtures whose norms are gated; the indexer chooses 24 tokens
    "axk2": lambda: hf.AutoConfig.for_model(
        "axk2", **dict(LATENT_MOE, vocab_size=40, hidden_size=32, intermediate_size=24,
                       moe_intermediate_size=16, n_routed_experts=4, qk_nope_head_dim=8,
                       v_head_dim=12, q_lora_rank=16, n_group=None, topk_group=None), index_topk=24, index_n_heads=12,
        index_head_dim=16, gated_norm_rank=4),
    # four residual streams; the indexer chooses 24 tokens, and the third layer shares the choice
    "hy_v4": lambda: hf.AutoConfig.for_model(
        "hy_v4", **dict(LATENT_MOE, vocab_size=40, hidden_size=32, intermediate_size=24,
                        num_hidden_layers=3, moe_intermediate_size=16, n_routed_experts=4,
                        qk_nope_head_dim=8, v_head_dim=12, q_lora_rank=16),
        index_topk=24, index_n_heads=12, index_head_dim=16, swiglu_limit=0.5),
    # the same rotating pairs side by side, inside a model that sees
    "hy_v4_vl": lambda: hf.AutoConfig.for_model(
        "hy_v4_vl",
        text_config=dict(LATENT_MOE, vocab_size=40, hidden_size=32, intermediate_size=24,
                         num_hidden_layers=3, moe_intermediate_size=16, n_routed_experts=4,
                         qk_nope_head_dim=8, v_head_dim=12, q_lora_rank=16, index_topk=24,
                         index_n_heads=12, index_head_dim=16, swiglu_limit=0.5, rms_norm_eps=1e-4,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                          "mrope_section": [2, 1, 1]}),
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                           num_attention_heads=1, num_key_value_heads=1, patch_size=4,
                           max_image_size=8, out_hidden_size=32),
        image_token_id=300, video_token_id=301),
    # DeepSeek V3 without latents of queries
    "sarvam_mla": lambda: hf.AutoConfig.for_model(
        "sarvam_mla", **dict(LATENT_MOE, vocab_size=48, hidden_size=32, intermediate_size=40,
                             moe_intermediate_size=16, num_hidden_layers=3, q_lora_rank=None),
        rope_parameters=yarn(mscale=1.0, mscale_all_dim=1.0)),
    # Bailing MoE's tensors, with biases of q, k and v
    "sarvam_moe": lambda: hf.AutoConfig.for_model(
        "sarvam_moe", **dict(TINY, vocab_size=48, num_hidden_layers=3, head_dim=16),
        moe_intermediate_size=16, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
        n_group=3, topk_group=2, attention_bias=True),
    # four fifths of what is embedded is written; what stands around it sees and hears
    "apertus1p5": lambda: hf.AutoConfig.for_model(
        "apertus1p5", text_config=dict(TINY, vocab_size=60, output_vocab_size=48),
        vision_config=dict(CHAMELEON_PICTURES, codebook_size=4, attn_resolutions=[]),
        audio_config=dict(model_type="wavtokenizer_encoder", codebook_size=4, num_filters=4,
                          hidden_size=8, codebook_dim=8, num_lstm_layers=1,
                          upsampling_ratios=[2]),
        image_token_id=49, audio_token_id=50, image_token_offset=52, audio_token_offset=56),
    # biases everywhere, and a head's own width
    "exaone_bias": lambda: hf.AutoConfig.for_model(
        "exaone", **TINY, head_dim=12, attention_bias=True, mlp_bias=True),
    # four pairs of blocks, of which two run three times; windows of 16
    "dory": lambda: hf.AutoConfig.for_model(
        "dory", **dict(TINY, vocab_size=96, num_hidden_layers=4), head_dim=16, sliding_window=16,
        n_input_layers=1, n_recurrent_layers=2, n_output_layers=1, n_recurrent_loops=3,
        initializer_range=0.1, ngpt_alpha_init=0.05,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]),
    # the same with the names of published folders: attention and feed-forwards are layers each
    "dory_published": lambda: hf.AutoConfig.for_model(
        "dory", **dict(TINY, vocab_size=48, num_hidden_layers=3, max_position_embeddings=128),
        head_dim=8, sliding_window=16, n_input_layers=1, n_recurrent_layers=1, n_output_layers=1,
        initializer_range=0.1, ngpt_alpha_init=0.05,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": yarn()}),
    # four residual streams that mix; a window alone, and beside runs of 12 tokens, and the best
    # three of runs of 4 that overlap; the first layer's experts by a table of tokens
    "deepseek_v4": lambda: hf.AutoConfig.for_model(
        "deepseek_v4", vocab_size=128, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        hidden_size=32, moe_intermediate_size=16, num_hidden_layers=3, num_attention_heads=4,
        head_dim=16, q_lora_rank=16, num_experts_per_tok=2, n_routed_experts=4, sliding_window=16,
        o_groups=2, o_lora_rank=8, index_n_heads=12, index_head_dim=8, index_topk=3,
        swiglu_limit=0.5, max_position_embeddings=512, partial_rotary_factor=0.5,
        layer_types=["sliding_attention", "heavily_compressed_attention",
                     "compressed_sparse_attention"],
        mlp_layer_types=["hash_moe", "moe", "moe"],
        compress_rates={"heavily_compressed_attention": 12, "compressed_sparse_attention": 4},
        rope_parameters=yarn()),
    # the lengths of runs that GGUF has
    "deepseek_v4_runs": lambda: hf.AutoConfig.for_model(
        "deepseek_v4", vocab_size=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        hidden_size=16, moe_intermediate_size=8, num_hidden_layers=3, num_attention_heads=4,
        head_dim=8, q_lora_rank=8, num_experts_per_tok=2, n_routed_experts=4, sliding_window=16,
        o_groups=2, o_lora_rank=8, index_n_heads=12, index_head_dim=8, index_topk=3,
        swiglu_limit=0.5, max_position_embeddings=512, partial_rotary_factor=0.5,
        layer_types=["sliding_attention", "heavily_compressed_attention",
                     "compressed_sparse_attention"],
        mlp_layer_types=["hash_moe", "moe", "moe"], rope_parameters=yarn()),
    # KDA beside latents whose indexer chooses six runs of four tokens, which a layer shares; four
    # residual streams that mix
    "glm5_next": lambda: hf.AutoConfig.for_model(
        "glm5_next",
        text_config=dict(vocab_size=96, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=32,
                         intermediate_size=24, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=4, moe_intermediate_size=16, n_routed_experts=4,
                         num_experts_per_tok=2, kv_lora_rank=16, q_lora_rank=16, qk_nope_head_dim=8,
                         v_head_dim=12, linear_head_dim=8, linear_num_heads=4, index_topk=24,
                         index_n_heads=12, index_head_dim=16, index_kpool=4, swiglu_limit=0.5,
                         layer_types=["linear_attention", "indexed_attention", "indexed_attention"],
                         indexer_types=["full", "full", "shared"],
                         mlp_layer_types=["dense", "sparse", "sparse"], max_position_embeddings=512),
        vision_config=dict(hidden_size=8, intermediate_size=8, depth=1, num_heads=1, patch_size=4,
                           image_size=16, out_hidden_size=32, projection_intermediate_size=8)),
    # a windowed layer that rotates, two that see all and whose queries grow; groups of experts
    "beam": lambda: hf.AutoConfig.for_model(
        "beam", **dict(TINY, num_hidden_layers=3), head_dim=16, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, n_group=2, topk_group=1,
        sliding_window=16, mlp_layer_types=["dense", "sparse", "sparse"],
        layer_types=["sliding_attention", "full_attention", "full_attention"]),
    # two layers whose indexers choose 24 tokens, one with a window and latents of other sizes
    "dots3_note": lambda: hf.AutoConfig.for_model(
        "dots3_note_text", **dict(LATENT_MOE, vocab_size=40, hidden_size=32, intermediate_size=24,
                                  num_hidden_layers=3, moe_intermediate_size=16, qk_nope_head_dim=8,
                                  n_routed_experts=4, v_head_dim=12, q_lora_rank=16),
        head_dim=16, index_topk=24, index_n_heads=12, index_head_dim=16, sliding_window=16,
        shared_experts_intermediate_size=24, swa_num_attention_heads=2, swa_num_key_value_heads=2,
        swa_q_lora_rank=24, swa_kv_lora_rank=24, swa_head_dim=12, swa_qk_nope_head_dim=8,
        swa_v_head_dim=16),
    # the same as GGUF has it: latents of queries, and what rotates, are as wide in all layers
    "dots3_note_even": lambda: hf.AutoConfig.for_model(
        "dots3_note_text", **dict(LATENT_MOE, vocab_size=40, hidden_size=32, intermediate_size=24,
                                  num_hidden_layers=3, moe_intermediate_size=16, qk_nope_head_dim=8,
                                  n_routed_experts=4, v_head_dim=12, q_lora_rank=16),
        head_dim=16, index_topk=24, index_n_heads=12, index_head_dim=16, sliding_window=16,
        shared_experts_intermediate_size=16, swa_num_attention_heads=2, swa_num_key_value_heads=2,
        swa_q_lora_rank=16, swa_kv_lora_rank=24, swa_head_dim=20, swa_qk_nope_head_dim=12,
        swa_v_head_dim=16),
    # a dense layer, and mixtures; the third does not rotate, the second shares what the first chose
    "mistral_large4": lambda: hf.AutoConfig.for_model(
        "mistral_large4",
        text_config=dict(
            COMMON, vocab_size=40, hidden_size=32, intermediate_size=24, moe_intermediate_size=16,
            num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, n_routed_experts=4,
            num_experts_per_tok=2, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8,
            v_head_dim=12, index_topk=24, index_n_heads=12, index_head_dim=16,
            no_rope_layers=[1, 1, 0], indexer_types=["full", "shared", "full"],
            max_position_embeddings=512),
        vision_config=dict(model_type="pixtral", hidden_size=8, intermediate_size=8,
                           num_hidden_layers=1, num_attention_heads=1, patch_size=4, image_size=16,
                           head_dim=8)),
    "cosmos3_edge": lambda: hf.AutoConfig.for_model(
        "cosmos3_edge",
        text_config=dict(TINY, head_dim=8, rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}),
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                           num_attention_heads=1, patch_size=4, num_patches=16),
        projector_hidden_size=8),
    "cosmos3_omni": lambda: hf.AutoConfig.for_model(
        "cosmos3_omni",
        text_config=dict(TINY, head_dim=8, rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}),
        vision_config=dict(depth=1, hidden_size=8, out_hidden_size=32, num_heads=1,
                           intermediate_size=8, patch_size=2, num_position_embeddings=4,
                           deepstack_visual_indexes=[0]),
        image_token_id=36, video_token_id=37, vision_start_token_id=38, vision_end_token_id=39),
    "deepseek_ocr2": lambda: hf.AutoConfig.for_model(
        "deepseek_ocr2",
        text_config=dict(TINY, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2,
                         moe_intermediate_size=16, n_shared_experts=1,
                         mlp_layer_types=["dense", "sparse"]),
        vision_config=dict(
            sam_config=dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, mlp_dim=8,
                            output_channels=8, downsample_channels=[8, 8],
                            global_attn_indexes=[0], image_size=32),
            encoder_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                num_attention_heads=1, num_key_value_heads=1))),
    "aria_text": lambda: hf.AriaTextConfig(
        **dict(TINY, intermediate_size=16), moe_num_experts=3, moe_topk=2,
        moe_num_shared_experts=1),
    "glm_ocr": lambda: hf.AutoConfig.for_model(
        "glm_ocr",
        text_config=dict(TINY, head_dim=8, rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1],
            "partial_rotary_factor": 1.0}),
        vision_config=dict(depth=1, hidden_size=16, out_hidden_size=32, num_heads=1,
                           intermediate_size=16, patch_size=2)),
    "paddleocr_vl": lambda: hf.AutoConfig.for_model(
        "paddleocr_vl",
        text_config=dict(TINY, head_dim=8, rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                           num_attention_heads=1, image_size=28, patch_size=14)),
    "hunyuan_vl": lambda: hf.AutoConfig.for_model(
        "hunyuan_vl",
        text_config=dict(TINY, head_dim=8, rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 1, 1]}),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                           num_attention_heads=1, max_image_size=32)),
    # windows of half of local_attention, and a matrix before the output
    "modernbert_decoder": lambda: hf.AutoConfig.for_model(
        "modernbert-decoder", vocab_size=40, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        cls_token_id=1, sep_token_id=2, hidden_size=32, intermediate_size=40, num_hidden_layers=4,
        num_attention_heads=4, local_attention=32, max_position_embeddings=512),
    "ctrl": lambda: hf.CTRLConfig(
        vocab_size=40, bos_token_id=1, eos_token_id=2, n_positions=256, n_embd=32, dff=40,
        n_layer=2, n_head=4, layer_norm_epsilon=1e-3),
    # the reference forgets logits_scaling here, by which Granite divides
    "granite_speech": lambda: hf.AutoConfig.for_model(
        "granite_speech",
        text_config=dict(TINY, model_type="granite", embedding_multiplier=3.0,
                         attention_multiplier=0.3, residual_multiplier=0.7, logits_scaling=1.0,
                         tie_word_embeddings=True),
        encoder_config=dict(input_dim=8, num_layers=1, hidden_dim=8, num_heads=1, dim_head=8,
                            output_dim=4, context_size=4, max_pos_emb=4, conv_kernel_size=3),
        projector_config=dict(model_type="blip_2_qformer", num_hidden_layers=1, hidden_size=8,
                              intermediate_size=8, num_attention_heads=1, encoder_hidden_size=8),
        has_lora_adapter=False, tie_word_embeddings=True),
    "moss_transcribe_diarize": lambda: hf.AutoConfig.for_model(
        "moss_transcribe_diarize", text_config=dict(TINY, model_type="qwen3", head_dim=8),
        audio_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                          num_attention_heads=1, num_mel_bins=8, max_source_positions=16)),
    "codegen": lambda: hf.CodeGenConfig(
        vocab_size=40, bos_token_id=1, eos_token_id=2, n_embd=32, n_layer=2, n_head=4, rotary_dim=4,
        n_inner=40, n_positions=512, n_ctx=512),
    "chameleon": lambda: hf.ChameleonConfig(
        **TINY, attention_bias=True, mlp_bias=True, vq_config=CHAMELEON_PICTURES,
        vocabulary_map={"<image>": 3}),
    # norms behind the blocks, and tokens that are never written
    "chameleon_swin": lambda: hf.ChameleonConfig(
        **TINY, swin_norm=True, vq_config=CHAMELEON_PICTURES,
        vocabulary_map={"<image>": 3} | {f"IMGIMG{c}Z": 4 + i for i, c in enumerate("ABCDEF")}),
    "openai_gpt": lambda: hf.AutoConfig.for_model(
        "openai-gpt", vocab_size=40, n_embd=32, n_layer=2, n_head=4, n_positions=512),
    "lfm3": lambda: hf.AutoConfig.for_model(
        "lfm3", **dict(TINY, num_hidden_layers=4), head_dim=8, conv_L_cache=7, sliding_window=16,
        layer_types=["conv", "sliding_attention", "full_attention", "conv"]),
    "ernie4_5_vl_moe": lambda: hf.Ernie4_5_VLMoeConfig(
        text_config=dict(TINY, moe_k=2, moe_num_experts=4, moe_num_shared_experts=1,
                         moe_intermediate_size=[16, 8],
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                          "mrope_section": [1, 1, 2]}),
        vision_config=dict(depth=1, hidden_size=8, num_heads=1, intermediate_size=8, patch_size=2)),
    # two stacks of layers that run in cycles, with biases
    "hrm_text": lambda: hf.HrmTextConfig(
        **dict(COMMON, vocab_size=96), hidden_size=32, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=2, head_dim=16, L_cycles=2, H_cycles=2, attention_bias=True,
        embedding_scale=3.0),
    # queries and outputs have experts; the output's norm has an epsilon of its own
    "jetmoe": lambda: hf.JetMoeConfig(
        **dict(COMMON, vocab_size=96), hidden_size=32, intermediate_size=16, num_hidden_layers=2,
        num_key_value_heads=2, kv_channels=8, num_local_experts=4, num_experts_per_tok=2,
        rms_norm_eps=1e-3),
    # heads that are subtracted from one another, with biases
    "diffllama": lambda: hf.DiffLlamaConfig(
        **dict(COMMON, vocab_size=96), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=4, head_dim=8, attention_bias=True),
    # layers that read pictures do nothing, and more tokens are embedded than written
    "mllama": lambda: hf.MllamaTextConfig(
        **dict(COMMON, vocab_size=96), hidden_size=32, intermediate_size=48, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, cross_attention_layers=[1, 3],
        rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                         "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64}),
    "fuyu": lambda: hf.FuyuConfig(
        text_config=dict(COMMON, vocab_size=96, model_type="persimmon", hidden_size=32,
                         intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                         max_position_embeddings=512), patch_size=4, num_channels=1),
    "emu3": lambda: hf.Emu3TextConfig(
        **dict(COMMON, vocab_size=96), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2),
    "paligemma": lambda: hf.PaliGemmaConfig(
        text_config=dict(TINY, model_type="gemma2", head_dim=8, query_pre_attn_scalar=8,
                         sliding_window=16),
        vision_config=dict(model_type="siglip_vision_model", hidden_size=8, intermediate_size=8,
                           num_hidden_layers=1, num_attention_heads=1, image_size=28,
                           patch_size=14),
        projection_dim=32, image_token_index=300),
    "phi4_multimodal": lambda: hf.AutoConfig.for_model(
        "phi4_multimodal", **TINY, original_max_position_embeddings=512,
        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0,
                         "partial_rotary_factor": 0.5, "short_factor": [1.2, 1.5],
                         "long_factor": [4.0, 4.5]},
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=2,
                           num_attention_heads=1, crop_size=28, patch_size=14, feature_layer=-1,
                           image_token_id=1),
        audio_config=dict(hidden_size=8, intermediate_size=8, num_blocks=1, num_attention_heads=1,
                          ext_pw_out_channel=8, depthwise_separable_out_channel=8,
                          nemo_conv_channels=8, audio_token_id=1)),
    "olmo_hybrid": lambda: hf.AutoConfig.for_model(
        "olmo_hybrid", **dict(TINY, num_hidden_layers=3, num_key_value_heads=4),
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8,
        linear_value_head_dim=16, rope_parameters=None),
    "doge": lambda: hf.AutoConfig.for_model("doge", **TINY),
    # one KV head, layers that see a window, biases
    "doge_window": lambda: hf.AutoConfig.for_model(
        "doge", **dict(TINY, num_attention_heads=3, num_key_value_heads=1, hidden_size=30),
        sliding_window=16, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    # experts of one row, of which pairs of keys choose some; not all are pairs
    "doge_moe": lambda: hf.AutoConfig.for_model(
        "doge", **dict(TINY, vocab_size=96), is_moe=True, num_experts=40, num_experts_per_tok=5,
        norm_topk_prob=True, mlp_bias=True),
    "internlm3": lambda: hf.InternLM3Config(**HEADS, attention_bias=True, mlp_bias=True),
    "bitnet": lambda: hf.AutoConfig.for_model("bitnet", **TINY, hidden_act="silu"),
    "laguna": lambda: hf.AutoConfig.for_model(
        "laguna", **dict(TINY, num_hidden_layers=3), head_dim=8, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24,
        num_attention_heads_per_layer=[4, 2, 6], moe_routed_scaling_factor=2.5,
        moe_router_logit_softcapping=2.0, sliding_window=16,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": yarn(partial_rotary_factor=0.5),
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
    # as Laguna M: all layers see all, and gates are by element
    "laguna_full": lambda: hf.AutoConfig.for_model(
        "laguna", **dict(TINY, num_hidden_layers=3), head_dim=8, num_experts=4,
        num_experts_per_tok=2, gating="per-element", sliding_window=0,
        moe_intermediate_size=16, shared_expert_intermediate_size=16,
        layer_types=["full_attention"] * 3, mlp_layer_types=["dense", "dense", "sparse"],
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 500000.0,
                                            "partial_rotary_factor": 0.5}}),
    "minimax_m3": lambda: hf.AutoConfig.for_model(
        "minimax_m3_vl_text", **dict(TINY, num_hidden_layers=3), head_dim=8, num_local_experts=4,
        num_experts_per_tok=2, dense_intermediate_size=24, shared_intermediate_size=16,
        mlp_layer_types=["dense", "sparse", "sparse"], index_n_heads=2, index_head_dim=8,
        layer_types=["full_attention", "minimax_m3_sparse", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                         "partial_rotary_factor": 0.5}),
    # names of the published checkpoint, and an indexer beside all experts
    "minimax_m3_published": lambda: hf.AutoConfig.for_model(
        "minimax_m3_vl_text", **dict(TINY, num_hidden_layers=3, intermediate_size=16), head_dim=8,
        num_local_experts=4, num_experts_per_tok=2, dense_intermediate_size=24,
        shared_intermediate_size=16, mlp_layer_types=["dense", "sparse", "sparse"],
        index_n_heads=2, index_head_dim=8,
        layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                         "partial_rotary_factor": 0.5}),
    # limits other than those that kernels know
    "gpt_oss_limits": lambda: hf.GptOssConfig(
        **dict(TINY, num_hidden_layers=2), head_dim=8, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=16, swiglu_limit=0.5, swiglu_alpha=1.25,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    # the source of molmo2's golden
    "molmo2_even": lambda: hf.AutoConfig.for_model(
        "molmo2",
        text_config=dict(TINY, additional_vocab_size=4, head_dim=8, rope_parameters={
            "rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}),
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=2, head_dim=8,
                           num_attention_heads=1, num_key_value_heads=1, image_size=[28, 28],
                           patch_size=14),
        adapter_config=dict(hidden_size=8, intermediate_size=8, num_attention_heads=1, head_dim=8,
                            num_key_value_heads=1, text_hidden_size=32,
                            vision_feature_layer=[1, 0])),
    # the source of exaone's golden
    "llama3_small": lambda: hf.LlamaConfig(
        **TINY, rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                                 "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                 "original_max_position_embeddings": 32}),
    # the source of qwen's
    "qwen2_mha": lambda: hf.Qwen2Config(**dict(TINY, num_key_value_heads=4)),
    # the source of minicpm's
    "granite_depth": lambda: hf.GraniteConfig(
        **TINY, embedding_multiplier=6.0, attention_multiplier=8**-0.5,
        residual_multiplier=1.25 * 2**-0.5, logits_scaling=4.0, tie_word_embeddings=True),
}

# Folders whose tensors are as transformers has them in memory: a layer's experts in one.
STACKED = {"qwen3_moe_stacked", "minimax_m2_stacked"}

# Variants that NAME_memory is of, with all names as transformers has them in memory, and short prompts.
IN_MEMORY = ("aria_text", "bailing_hybrid_latent", "deepseek_v4", "dory_published", "ernie4_5_vl_moe",
             "glm5_next", "inkling2", "inkling2_loop", "kimi_linear", "longcat_flash", "mistral_large4",
             "molmo2_even", "nemo_speechlm", "nemotron_h_latent", "olmo_hybrid", "qwen4_exp", "sarvam_moe", "step3p7")

# Added to the seed where otherwise two experts or tokens are so near that rounding decides.
SEEDS = {"llama4_yarn": 2, "qwen2_moe_unbiased": 1, "deepseek_ocr2": 1, "deepseek_v3_small": 1, "dory_published": 1, "deepseek_v32": 2, "exaone_moe": 9, "glm_moe_dsa": 2, "helium": 1,
         "jais2": 1, "qwen3_omni_thinker": 3, "mimo_v2_flash": 1, "qwen3_vl_moe": 1, "olmoe": 1,
         "minimax_m2": 2, "gpt_neox_japanese": 1, "muse_glimmer": 1, "longcat_flash": 1, "axk2": 3,
         "dots3_note": 1, "glm5_next": 2}


def publish_dory(folder: pathlib.Path) -> None:
    """Names of layers that are one block each."""
    path = folder / "model.safetensors"
    tensors = {}
    for name, tensor in load_file(path).items():
        found = re.match(r"backbone\.layers\.(\d+)\.(self_attn|mlp|lambda_1|lambda_2)(.*)", name)
        if found:
            part = ("self_attn", "mlp", "lambda_1", "lambda_2").index(found[2])
            block = ("mixer", "mixer", "attn_alpha", "mlp_alpha")[part]
            name = f"backbone.layers.{2 * int(found[1]) + part % 2}.{block}{found[3]}"
        tensors[name] = tensor
    save_file(tensors, path, metadata={"format": "pt"})


def publish_minimax_m3(folder: pathlib.Path) -> None:
    """Gates and up-projections, and experts, in tensors of their own."""
    path = folder / "model.safetensors"
    tensors = {}
    for name, tensor in load_file(path).items():
        name = name.replace(".self_attn.indexer.", ".self_attn.index_")
        name = re.sub(r"\.mlp\.(experts|shared_experts|gate)\.", r".block_sparse_moe.\1.", name)
        name = name.replace(".gate.e_score", ".e_score")
        base, _, kind = name.removesuffix(".weight").rpartition(".")
        for e in range(tensor.shape[0]) if ".experts." in name else ("",):
            part = tensor if e == "" else tensor[e]
            to = base if e == "" else f"{base}.{e}"
            gate, up, down = ("gate_proj", "up_proj", "down_proj") if e == "" else ("w1", "w3", "w2")
            if kind == "gate_up_proj":
                for word, half in zip((gate, up), part.chunk(2)):
                    tensors[f"{to}.{word}.weight"] = half.contiguous()
            elif kind == "down_proj":
                tensors[f"{to}.{down}.weight"] = part.contiguous()
            else:
                tensors[name] = part
    save_file(tensors, path, metadata={"format": "pt"})


PUBLISHED = {"dory_published": publish_dory, "minimax_m3_published": publish_minimax_m3}
