"""Writes checkpoints in the shapes of Qwen3.6-35B-A3B (moe) and Qwen3.6-27B (dense), with random
weights and as many layers as asked for, to measure them:

    python3 tools/shapes/qwen3_5.py FOLDER moe|dense LAYERS bf16|fp8
    linnet bench --backend cuda --prefill 2048 --max-batch-tokens 2048 FOLDER

Three layers of four are gated delta nets. fp8 has scales of 128 x 128 blocks, as the published
checkpoints do; what those keep in bf16 stays so. Needs torch, and a GPU to be fast.
"""

import json
import struct
import sys
from pathlib import Path

import torch

VOCABULARY = 248320
HEAD = 256  # of attention
DELTA_HEAD, DELTA_KEY_HEADS, TAPS = 128, 16, 4
EXPERTS, EXPERT_HIDDEN = 256, 512
BLOCK = 128  # of FP8's scales
SHAPES = {
    "moe": {"dim": 2048, "heads": 16, "kv_heads": 2, "value_heads": 32, "hidden": 0},
    "dense": {"dim": 5120, "heads": 24, "kv_heads": 4, "value_heads": 48, "hidden": 17408},
}
BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1}
CONSTANTS = {"zero": 0.0, "one": 1.0}


def config(kind, shape, layer_types, is_fp8):
    mixture = kind == "moe"
    values = {
        "architectures": ["Qwen3_5MoeForCausalLM" if mixture else "Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_moe_text" if mixture else "qwen3_5_text",
        "attention_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "dtype": "bfloat16",
        "head_dim": HEAD,
        "hidden_act": "silu",
        "hidden_size": shape["dim"],
        "layer_types": layer_types,
        "linear_conv_kernel_dim": TAPS,
        "linear_key_head_dim": DELTA_HEAD,
        "linear_num_key_heads": DELTA_KEY_HEADS,
        "linear_num_value_heads": shape["value_heads"],
        "linear_value_head_dim": DELTA_HEAD,
        "max_position_embeddings": 32768,
        "num_attention_heads": shape["heads"],
        "num_hidden_layers": len(layer_types),
        "num_key_value_heads": shape["kv_heads"],
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "partial_rotary_factor": 0.25,
            "rope_theta": 1e7,
            "rope_type": "default",
        },
        "tie_word_embeddings": False,
        "vocab_size": VOCABULARY,
    }
    if mixture:
        values |= {
            "moe_intermediate_size": EXPERT_HIDDEN,
            "shared_expert_intermediate_size": EXPERT_HIDDEN,
            "norm_topk_prob": True,
            "num_experts": EXPERTS,
            "num_experts_per_tok": 8,
        }
    else:
        values["intermediate_size"] = shape["hidden"]
    if is_fp8:
        values["quantization_config"] = {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "weight_block_size": [BLOCK, BLOCK],
            "modules_to_not_convert": ["lm_head", "model.embed_tokens"],
        }
    return values


class Tensors:
    """What the file will hold: names, shapes, types, and how values are made."""

    def __init__(self, is_fp8):
        self.is_fp8 = is_fp8
        self.list = []

    def vector(self, name, n, value):
        self.list.append((name, (n,), "BF16", value))

    def plain(self, name, *shape):
        self.list.append((name, shape, "BF16", "random"))

    def matrix(self, name, *shape):
        if not self.is_fp8:
            self.plain(name, *shape)
            return
        scales = (*shape[:-2], -(-shape[-2] // BLOCK), -(-shape[-1] // BLOCK))
        self.list.append((name, shape, "F8_E4M3", "random"))
        self.list.append((name + "_scale_inv", scales, "F32", shape[-1] ** -0.5 / 100))


def add_delta_net(tensors, prefix, shape):
    dim, heads = shape["dim"], shape["value_heads"]
    channels = 2 * DELTA_KEY_HEADS * DELTA_HEAD + heads * DELTA_HEAD
    tensors.matrix(prefix + "in_proj_qkv.weight", channels, dim)
    tensors.matrix(prefix + "in_proj_z.weight", heads * DELTA_HEAD, dim)
    tensors.plain(prefix + "in_proj_b.weight", heads, dim)
    tensors.plain(prefix + "in_proj_a.weight", heads, dim)
    tensors.plain(prefix + "conv1d.weight", channels, 1, TAPS)
    tensors.vector(prefix + "dt_bias", heads, "one")
    tensors.vector(prefix + "A_log", heads, "zero")
    tensors.vector(prefix + "norm.weight", DELTA_HEAD, "one")
    tensors.matrix(prefix + "out_proj.weight", dim, heads * DELTA_HEAD)


def add_attention(tensors, prefix, shape):
    dim, kv = shape["dim"], shape["kv_heads"] * HEAD
    tensors.matrix(prefix + "q_proj.weight", 2 * shape["heads"] * HEAD, dim)
    tensors.matrix(prefix + "k_proj.weight", kv, dim)
    tensors.matrix(prefix + "v_proj.weight", kv, dim)
    tensors.matrix(prefix + "o_proj.weight", dim, shape["heads"] * HEAD)
    tensors.vector(prefix + "q_norm.weight", HEAD, "zero")
    tensors.vector(prefix + "k_norm.weight", HEAD, "zero")


def add_feed_forward(tensors, prefix, dim, hidden):
    tensors.matrix(prefix + "gate_proj.weight", hidden, dim)
    tensors.matrix(prefix + "up_proj.weight", hidden, dim)
    tensors.matrix(prefix + "down_proj.weight", dim, hidden)


def add_experts(tensors, prefix, dim):
    tensors.plain(prefix + "gate.weight", EXPERTS, dim)
    tensors.plain(prefix + "shared_expert_gate.weight", 1, dim)
    add_feed_forward(tensors, prefix + "shared_expert.", dim, EXPERT_HIDDEN)
    if tensors.is_fp8:
        for expert in range(EXPERTS):
            add_feed_forward(tensors, f"{prefix}experts.{expert}.", dim, EXPERT_HIDDEN)
    else:
        tensors.plain(prefix + "experts.gate_up_proj", EXPERTS, 2 * EXPERT_HIDDEN, dim)
        tensors.plain(prefix + "experts.down_proj", EXPERTS, dim, EXPERT_HIDDEN)


def plan(kind, shape, layer_types, is_fp8):
    tensors, dim = Tensors(is_fp8), shape["dim"]
    tensors.plain("model.embed_tokens.weight", VOCABULARY, dim)
    for layer, layer_type in enumerate(layer_types):
        prefix = f"model.layers.{layer}."
        tensors.vector(prefix + "input_layernorm.weight", dim, "zero")
        tensors.vector(prefix + "post_attention_layernorm.weight", dim, "zero")
        if layer_type == "full_attention":
            add_attention(tensors, prefix + "self_attn.", shape)
        else:
            add_delta_net(tensors, prefix + "linear_attn.", shape)
        if kind == "moe":
            add_experts(tensors, prefix + "mlp.", dim)
        else:
            add_feed_forward(tensors, prefix + "mlp.", dim, shape["hidden"])
    tensors.vector("model.norm.weight", dim, "zero")
    tensors.plain("lm_head.weight", VOCABULARY, dim)
    return tensors.list


def count(shape):
    n = 1
    for extent in shape:
        n *= extent
    return n


def header(tensors):
    entries, at = {}, 0
    for name, shape, dtype, _ in tensors:
        end = at + count(shape) * BYTES[dtype]
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries).encode()
    return text + b" " * (-len(text) % 8)


def values(shape, dtype, how, pool, number):
    n = count(shape)
    if how in CONSTANTS:
        return torch.full((n,), CONSTANTS[how], dtype=torch.bfloat16)
    if how != "random":
        return torch.full((n,), how)
    if n > len(pool):
        x = pool.repeat(-(-n // len(pool)))[:n]
    else:
        x = pool[number * 977 % (len(pool) - n + 1) :][:n]
    if dtype == "F8_E4M3":
        return (x * 100).clamp(-440, 440).to(torch.float8_e4m3fn)
    return (x * shape[-1] ** -0.5).to(torch.bfloat16)


def main():
    folder, kind, layers, dtype = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    is_fp8, shape = dtype == "fp8", SHAPES[kind]
    layer_types = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(layers)]
    tensors = plan(kind, shape, layer_types, is_fp8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(kind, shape, layer_types, is_fp8)))
    torch.manual_seed(1)
    pool = torch.randn(1 << 26, device="cuda" if torch.cuda.is_available() else "cpu")
    with open(folder / "model.safetensors", "wb") as file:
        text = header(tensors)
        file.write(struct.pack("<Q", len(text)) + text)
        for number, (_, tensor_shape, tensor_dtype, how) in enumerate(tensors):
            x = values(tensor_shape, tensor_dtype, how, pool, number)
            file.write(memoryview(x.contiguous().cpu().view(torch.uint8).numpy()))


if __name__ == "__main__":
    main()
