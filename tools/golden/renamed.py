#!/usr/bin/env python3
"""Makes the golden of ChatGLM's line out of that of GLM: the same computation under the names and
keys that its own modelling code gives, with q, k and v in one tensor. The answers are GLM's.

    pip install numpy torch safetensors
    python3 tools/golden/renamed.py GOLDEN_GLM OUT_FOLDER
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

NAMES = {
    "model.embed_tokens.weight": "transformer.embedding.word_embeddings.weight",
    "model.norm.weight": "transformer.encoder.final_layernorm.weight",
    "lm_head.weight": "transformer.output_layer.weight",
    "self_attn.o_proj.": "self_attention.dense.",
    "mlp.gate_up_proj.": "mlp.dense_h_to_4h.",
    "mlp.down_proj.": "mlp.dense_4h_to_h.",
    "model.layers.": "transformer.encoder.layers.",
}


def rename(name: str) -> str:
    for old, new in NAMES.items():
        name = name.replace(old, new)
    return name


def main(source: pathlib.Path, out: pathlib.Path) -> None:
    tensors = load_file(source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    renamed = {}
    for name, tensor in tensors.items():
        if ".q_proj." in name:
            parts = [tensors[name.replace(".q_proj.", f".{p}_proj.")] for p in "qkv"]
            fused = rename(name).replace("self_attn.q_proj", "self_attention.query_key_value")
            renamed[fused] = torch.cat(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            renamed[rename(name)] = tensor
    half = config["head_dim"] // 2
    renamed["transformer.rotary_pos_emb.inv_freq"] = 10000.0 ** -(torch.arange(0, half, 2) / half)
    rope = config.get("rope_parameters", config)
    out.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in renamed.items()}, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps({
        "model_type": "chatglm", "architectures": ["ChatGLMModel"],
        "num_layers": config["num_hidden_layers"], "hidden_size": config["hidden_size"],
        "ffn_hidden_size": config["intermediate_size"], "kv_channels": config["head_dim"],
        "num_attention_heads": config["num_attention_heads"], "multi_query_attention": True,
        "multi_query_group_num": config["num_key_value_heads"],
        "padded_vocab_size": config["vocab_size"], "seq_length": config["max_position_embeddings"],
        "layernorm_epsilon": config["rms_norm_eps"], "rmsnorm": True, "post_layer_norm": True,
        "original_rope": True, "rope_ratio": rope["rope_theta"] / 10000.0,
        "add_qkv_bias": config["attention_bias"], "add_bias_linear": False,
        "apply_residual_connection_post_layernorm": False, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16"}, indent=2))
    golden = json.loads((source / "golden.json").read_text())
    (out / "golden.json").write_text(json.dumps(golden | {"model": "chatglm", "family": "chatglm"}))
    shutil.copyfile(source / "golden.bin", out / "golden.bin")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
