#!/usr/bin/env python3
"""Makes goldens of models that the transformers library lacks out of those of models that compute
the same: their tensors under other names, fused as their own modelling code has them. The answers
stay.

    pip install torch safetensors
    python3 tools/golden/kin.py internlm2 GOLDEN_LLAMA OUT_FOLDER
    python3 tools/golden/kin.py exaone GOLDEN_LLAMA3_SMALL OUT_FOLDER
    python3 tools/golden/kin.py qwen GOLDEN_QWEN2_MHA OUT_FOLDER
    python3 tools/golden/kin.py minicpm GOLDEN_GRANITE_DEPTH OUT_FOLDER
    python3 tools/golden/kin.py bailing_moe GOLDEN_GLM4_MOE OUT_FOLDER
    python3 tools/golden/kin.py bailing_moe_v1 GOLDEN_QWEN2_MOE_UNBIASED OUT_FOLDER
    python3 tools/golden/kin.py kimi_k2 GOLDEN_DEEPSEEK_V3 OUT_FOLDER
    python3 tools/golden/kin.py step3p5 GOLDEN_STEP3P7 OUT_FOLDER
    python3 tools/golden/kin.py molmo2 GOLDEN_MOLMO2_EVEN OUT_FOLDER
    python3 tools/golden/kin.py qwen3_omni_moe GOLDEN_QWEN3_OMNI_THINKER OUT_FOLDER
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file


def internlm2(tensors: dict, config: dict) -> dict:
    """q, k and v in one tensor: for each KV head its queries, then k, then v."""
    names = {"model.embed_tokens": "model.tok_embeddings", "lm_head": "output",
             "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
             "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1",
             "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2"}
    groups = config["num_key_value_heads"]

    def fuse(q, k, v):
        parts = [t.reshape(groups, -1, t.shape[-1]) for t in (q, k, v)]
        return torch.cat(parts, dim=1).reshape(-1, q.shape[-1])
    return rename(tensors, names, "attention.wqkv", fuse)


def exaone(tensors: dict, config: dict) -> dict:
    names = {"model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f",
             "model.layers.": "transformer.h.", "input_layernorm": "ln_1",
             "post_attention_layernorm": "ln_2", "self_attn.o_proj": "attn.attention.out_proj",
             "self_attn.": "attn.attention.", "mlp.gate_proj": "mlp.c_fc_0",
             "mlp.up_proj": "mlp.c_fc_1", "mlp.down_proj": "mlp.c_proj"}
    config |= {"num_layers": config.pop("num_hidden_layers"), "activation_function": "silu",
               "layer_norm_epsilon": config.pop("rms_norm_eps")}
    config.pop("hidden_act")
    return replace(tensors, names)


def qwen(tensors: dict, config: dict) -> dict:
    """q, k and v in one tensor; the second matrix of the feed-forward is its gate."""
    names = {"model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f",
             "model.layers.": "transformer.h.", "input_layernorm": "ln_1",
             "post_attention_layernorm": "ln_2", "self_attn.o_proj": "attn.c_proj",
             "mlp.gate_proj": "mlp.w2", "mlp.up_proj": "mlp.w1", "mlp.down_proj": "mlp.c_proj"}
    config |= {"intermediate_size": 2 * config["intermediate_size"],
               "layer_norm_epsilon": config.pop("rms_norm_eps"),
               "seq_length": config["max_position_embeddings"], "rotary_emb_base": 10000,
               "kv_channels": config["hidden_size"] // config["num_attention_heads"]}
    for key in ("rope_parameters", "num_key_value_heads", "hidden_act", "layer_types"):
        config.pop(key, None)
    return rename(tensors, names, "attn.c_attn", lambda *qkv: torch.cat(qkv))


def minicpm(tensors: dict, config: dict) -> dict:
    config |= {"scale_emb": config.pop("embedding_multiplier"),
               "scale_depth": config.pop("residual_multiplier") * config["num_hidden_layers"] ** 0.5,
               "dim_model_base": config["hidden_size"] / config.pop("logits_scaling")}
    config.pop("attention_multiplier")
    return tensors


def bailing_moe(tensors: dict, config: dict) -> dict:
    names = {"model.embed_tokens": "model.word_embeddings",
             "self_attn.o_proj": "attention.dense", "self_attn.q_norm": "attention.query_layernorm",
             "self_attn.k_norm": "attention.key_layernorm",
             "gate.e_score_correction_bias": "gate.expert_bias"}
    config |= {"num_experts": config.pop("n_routed_experts"),
               "num_shared_experts": config.pop("n_shared_experts"),
               "score_function": "sigmoid", "moe_router_enable_expert_bias": True,
               "partial_rotary_factor": config["rope_parameters"]["partial_rotary_factor"],
               "rope_theta": config.pop("rope_parameters")["rope_theta"]}
    return rename(tensors, names, "attention.query_key_value", lambda *qkv: torch.cat(qkv))


def bailing_moe_v1(tensors: dict, config: dict) -> dict:
    """The gate of the shared expert is a half whatever it reads, which goes into its last matrix."""
    names = {"model.embed_tokens": "model.word_embeddings",
             "self_attn.o_proj": "attention.dense", "mlp.shared_expert.": "mlp.shared_experts."}
    config |= {"num_experts": config.pop("num_local_experts", None) or config["num_experts"],
               "num_shared_experts": config.pop("shared_expert_intermediate_size")
               // config["moe_intermediate_size"],
               "first_k_dense_replace": 0, "use_qk_norm": False, "use_bias": False,
               "rope_theta": config.pop("rope_parameters")["rope_theta"]}
    for key in ("qkv_bias", "decoder_sparse_step", "mlp_only_layers", "layer_types",
                "use_sliding_window", "sliding_window", "max_window_layers"):
        config.pop(key, None)
    kept = {n: t for n, t in tensors.items() if "shared_expert_gate" not in n}
    for name in kept:
        if name.endswith("mlp.shared_expert.down_proj.weight"):
            kept[name] = kept[name] * 0.5
    return rename(kept, names, "attention.query_key_value", lambda *qkv: torch.cat(qkv))


def kimi_k2(tensors: dict, config: dict) -> dict:
    """The keys of its published config.json, which is that of DeepSeek V3's own code."""
    rope = config.pop("rope_parameters")
    config |= {"rope_theta": rope.pop("rope_theta"),
               "rope_scaling": {"type": rope.pop("rope_type")} | rope, "topk_method": "noaux_tc",
               "scoring_func": "sigmoid", "moe_layer_freq": 1, "num_nextn_predict_layers": 0,
               "aux_loss_alpha": 0.001, "seq_aux": True}
    for key in ("rope_interleave", "head_dim", "qk_head_dim"):
        config.pop(key, None)
    return tensors


def step3p5(tensors: dict, config: dict) -> dict:
    """The text model alone, with the keys of its published config.json."""
    text = config.pop("text_config")
    config.clear()
    types, mlp = text["layer_types"], text["mlp_layer_types"]
    rope = text["rope_parameters"]
    full = dict(rope["full_attention"])
    for key in ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers",
                "vocab_size", "head_dim", "rms_norm_eps", "moe_intermediate_size",
                "max_position_embeddings", "share_expert_dim", "sliding_window",
                "swiglu_limits", "swiglu_limits_shared", "moe_router_scaling_factor",
                "layer_types", "bos_token_id", "eos_token_id"):
        config[key] = text[key]
    config |= {
        "num_attention_groups": text["num_key_value_heads"], "use_head_wise_attn_gate": True,
        "attention_other_setting": {
            "attention_type": "sliding_attention",
            "num_attention_heads": text["num_sliding_attention_heads"],
            "num_attention_groups": text["num_key_value_heads"]},
        "moe_num_experts": text["n_routed_experts"], "moe_top_k": text["num_experts_per_tok"],
        "moe_layers_enum": ",".join(str(i) for i, m in enumerate(mlp) if m == "sparse"),
        "rope_theta": [rope[t]["rope_theta"] for t in types],
        "partial_rotary_factors": [rope[t]["partial_rotary_factor"] for t in types],
        "moe_router_activation": "sigmoid", "norm_expert_weight": True,
        "yarn_only_types": ["full_attention"]}
    full.pop("rope_theta"), full.pop("partial_rotary_factor")
    config["rope_scaling"] = full
    return {n: t.contiguous() for n, t in tensors.items() if not n.startswith("vi")}


def qwen3_omni_moe(tensors: dict, config: dict) -> dict:
    """The thinker inside a model that speaks, too, of which one tensor stands here, as of towers."""
    thinker = dict(config)
    config.clear()
    config |= {"thinker_config": thinker, "enable_audio_output": True}
    towers = ("audio_tower.", "visual.")
    kept = ("proj1.weight", "linear_fc1.weight")
    inner = {n: t for n, t in tensors.items() if not n.startswith(towers) or n.endswith(kept)}
    return {"thinker." + n: t for n, t in inner.items()} | {
        "talker.codec_head.weight": torch.zeros(4, 4, dtype=torch.bfloat16)}


def molmo2(tensors: dict, config: dict) -> dict:
    """The tokens of pictures in a table of their own, which transformers saves as halves of both;
    of what sees, one tensor."""
    base, added = "model.transformer.wte.embedding", "model.transformer.wte.new_embedding"
    table = torch.cat([tensors.pop(base), tensors.pop(added)])
    n = config["text_config"]["vocab_size"]
    seen = "model.vision_backbone.image_vit.positional_embedding"
    return {n: t for n, t in tensors.items() if "vision" not in n or n == seen} | {
        base: table[:n].contiguous(), added: table[n:].contiguous()}


def replace(tensors: dict, names: dict) -> dict:
    """Each tensor under a name in which words are replaced by others."""
    renamed = {}
    for name, tensor in tensors.items():
        for old, new in names.items():
            name = name.replace(old, new)
        renamed[name] = tensor.contiguous()
    return renamed


def rename(tensors: dict, names: dict, fused: str, fuse) -> dict:
    renamed = {}
    for name, tensor in tensors.items():
        if ".k_proj." in name or ".v_proj." in name:
            continue
        if ".q_proj." in name:
            tensor = fuse(*(tensors[name.replace(".q_proj.", f".{p}_proj.")] for p in "qkv"))
            name = name.replace("self_attn.q_proj", fused)
        for old, new in names.items():
            name = name.replace(old, new)
        renamed[name] = tensor.contiguous()
    return renamed


KINDS = {"internlm2": ("internlm2", "InternLM2ForCausalLM", internlm2),
         "exaone": ("exaone", "ExaoneForCausalLM", exaone),
         "qwen": ("qwen", "QWenLMHeadModel", qwen),
         "minicpm": ("minicpm", "MiniCPMForCausalLM", minicpm),
         "bailing_moe": ("bailing_moe_v2", "BailingMoeV2ForCausalLM", bailing_moe),
         "bailing_moe_v1": ("bailing_moe", "BailingMoeForCausalLM", bailing_moe_v1),
         "kimi_k2": ("kimi_k2", "DeepseekV3ForCausalLM", kimi_k2),
         "step3p5": ("step3p5", "Step3p5ForCausalLM", step3p5),
         "molmo2": ("molmo2", "Molmo2ForConditionalGeneration", molmo2),
         "qwen3_omni_moe": ("qwen3_omni_moe", "Qwen3OmniMoeForConditionalGeneration",
                            qwen3_omni_moe)}


def main(kind: str, source: pathlib.Path, out: pathlib.Path) -> None:
    model_type, architecture, change = KINDS[kind]
    config = json.loads((source / "config.json").read_text())
    tensors = change(load_file(source / "model.safetensors"), config)
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / "model.safetensors")
    config |= {"model_type": model_type, "architectures": [architecture]}
    (out / "config.json").write_text(json.dumps(config, indent=2))
    golden = json.loads((source / "golden.json").read_text())
    (out / "golden.json").write_text(json.dumps(golden | {"model": kind, "family": kind}))
    shutil.copyfile(source / "golden.bin", out / "golden.bin")


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
