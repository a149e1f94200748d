#!/usr/bin/env python3
"""Makes tiny quantised checkpoints in the forms that Hugging Face folders have, and the answers of
the Hugging Face implementation over the dequantised weights (float32).

    pip install torch transformers==5.17.0 safetensors
    python3 tools/golden/quantised.py OUT_FOLDER [NAME ...]

The packing of each form is written here from its published description.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import models

RNG = np.random.default_rng(5)
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def words(nibbles: np.ndarray, order=range(8)) -> np.ndarray:
    """Packs the last axis, eight values to an int32."""
    v = nibbles.reshape(*nibbles.shape[:-1], -1, 8).astype(np.uint32)
    out = np.zeros(v.shape[:-1], np.uint32)
    for i, source in enumerate(order):
        out |= v[..., source] << np.uint32(4 * i)
    return out.view(np.int32)


def int4(w: np.ndarray, group: int, symmetric: bool, scale_dtype):
    """(codes [rows][cols], zeros and scales [rows][groups], dequantised)."""
    rows, cols = w.shape
    g = w.reshape(rows, cols // group, group)
    if symmetric:
        scale = np.abs(g).max(-1) / 7
        zero = np.full(scale.shape, 8)
    else:
        scale = (g.max(-1) - g.min(-1)) / 15
        zero = np.clip(np.round(-g.min(-1) / scale), 1, 15).astype(int)
    scale = torch.tensor(scale).to(scale_dtype)
    s = scale.float().numpy()
    codes = np.clip(np.round(g / s[..., None]) + zero[..., None], 0, 15).astype(int)
    value = (codes - zero[..., None]).astype(np.float32) * s[..., None]
    return codes.reshape(rows, cols), zero, scale, value.reshape(rows, cols)


def gptq(w):
    codes, zero, scale, value = int4(w, 64, False, torch.float16)
    tensors = {"qweight": torch.tensor(words(codes).T.copy()),
               "qzeros": torch.tensor(words((zero - 1).T.copy())),
               "scales": scale.T.contiguous(),
               "g_idx": torch.arange(w.shape[1], dtype=torch.int32) // 64}
    return {f".{k}": v for k, v in tensors.items()}, value


def gptq_order(w):
    """Columns in the order of activation: any 64 of them are a group, as g_idx says."""
    order = np.random.default_rng(w.shape[1]).permutation(w.shape[1])
    codes, zero, scale, value = int4(w[:, order], 64, False, torch.float16)
    back = np.argsort(order)
    tensors = {"qweight": torch.tensor(words(codes[:, back]).T.copy()),
               "qzeros": torch.tensor(words((zero - 1).T.copy())),
               "scales": scale.T.contiguous(),
               "g_idx": torch.tensor((back // 64).astype(np.int32))}
    return {f".{k}": v for k, v in tensors.items()}, value[:, back]


def bits(codes: np.ndarray, n: int) -> np.ndarray:
    """Packs the last axis, n bits each, one after another, into int32."""
    ones = (codes[..., None] >> np.arange(n) & 1).astype(np.uint8)
    packed = np.packbits(ones.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.int32)


def ints(w: np.ndarray, n: int, symmetric: bool, scale_dtype):
    """As int4, of n bits."""
    g, most = w.reshape(w.shape[0], -1, 64), 2 ** n - 1
    spread = 2 * np.abs(g).max(-1) if symmetric else g.max(-1) - g.min(-1)
    scale = torch.tensor(spread / most).to(scale_dtype)
    s = scale.float().numpy()
    zero = np.full(s.shape, 2 ** (n - 1)) if symmetric else \
        np.clip(np.round(-g.min(-1) / s), 1, most).astype(int)
    codes = np.clip(np.round(g / s[..., None]) + zero[..., None], 0, most).astype(int)
    value = (codes - zero[..., None]).astype(np.float32) * s[..., None]
    return codes.reshape(w.shape), zero, scale, value.reshape(w.shape)


def gptq8(w):
    order = np.random.default_rng(w.shape[1]).permutation(w.shape[1])
    codes, zero, scale, value = ints(w[:, order], 8, True, torch.float16)
    back = np.argsort(order)
    return {".qweight": torch.tensor(bits(codes[:, back], 8).T.copy()),
            ".qzeros": torch.tensor(bits((zero - 1).T, 8)), ".scales": scale.T.contiguous(),
            ".g_idx": torch.tensor((back // 64).astype(np.int32))}, value[:, back]


def packed(n: int):
    def pack(w):
        codes, zero, scale, value = ints(w, n, False, torch.bfloat16)
        return {".weight_packed": torch.tensor(bits(codes, n)), ".weight_scale": scale,
                ".weight_zero_point": torch.tensor(bits(zero.T, n).T.copy()),
                ".weight_shape": torch.tensor(w.shape)}, value
    return pack


def mxfp8(w):
    g = torch.tensor(w).reshape(w.shape[0], -1, 32)
    exponent = torch.ceil(torch.log2(g.abs().amax(-1) / 448))
    codes = (g / torch.exp2(exponent)[..., None]).to(torch.float8_e4m3fn)
    value = (codes.float() * torch.exp2(exponent)[..., None]).reshape(w.shape)
    return {".weight": codes.reshape(w.shape),
            ".weight_scale": (exponent + 127).to(torch.uint8)}, value.numpy()


def modelopt_awq(w):
    """Two rows to a byte; some modules keep the factors of their activations."""
    codes, _, scale, value = int4(w, 64, True, torch.bfloat16)
    codes = codes ^ 8
    tensors = {".weight": torch.tensor((codes[0::2] | codes[1::2] << 4).astype(np.uint8)),
               ".weight_scale": scale}
    if w.shape[0] == 192:
        factor = torch.tensor(RNG.uniform(0.5, 1.5, w.shape[1])).to(torch.bfloat16)
        tensors[".pre_quant_scale"] = factor
        value = rounded(value * factor.float().numpy())
    return tensors, value


def quark_int4(w):
    codes, _, scale, value = int4(w, 64, True, torch.bfloat16)
    return {".weight": torch.tensor(words((codes ^ 8).T.copy(), AWQ_ORDER)),
            ".weight_scale": scale.T.contiguous(),
            ".weight_zero_point": torch.zeros(scale.shape[1], w.shape[0] // 8, dtype=torch.int32)}, \
        value


def awq(w):
    codes, zero, scale, value = int4(w, 64, False, torch.float16)
    tensors = {"qweight": torch.tensor(words(codes.T.copy(), AWQ_ORDER)),
               "qzeros": torch.tensor(words(zero.T.copy(), AWQ_ORDER)),
               "scales": scale.T.contiguous()}
    return {f".{k}": v for k, v in tensors.items()}, value


def packed_int4(w):
    codes, _, scale, value = int4(w, 64, True, torch.bfloat16)
    tensors = {"weight_packed": torch.tensor(words(codes)), "weight_scale": scale,
               "weight_shape": torch.tensor(w.shape)}
    return {f".{k}": v for k, v in tensors.items()}, value


def int8(w):
    scale = torch.tensor(np.abs(w).max(1, keepdims=True) / 127)
    codes = torch.round(torch.tensor(w) / scale).to(torch.int8)
    return {".weight": codes, ".weight_scale": scale}, (codes.float() * scale).numpy()


def fp8(scale_of):
    def pack(w):
        t = torch.tensor(w)
        full, stored, name = scale_of(t)
        codes = (t / full).to(torch.float8_e4m3fn)
        return {".weight": codes, name: stored}, (codes.float() * full).numpy()
    return pack


def one_scale(t):
    s = t.abs().max() / 448
    return s, s.reshape(1), ".weight_scale"


def row_scales(t):
    s = t.abs().amax(1, keepdim=True) / 448
    return s, s, ".weight_scale"


def tile_scales(t):
    rows, cols = (t.shape[0] + 127) // 128, (t.shape[1] + 127) // 128
    s = torch.stack([torch.stack([t[i * 128:(i + 1) * 128, j * 128:(j + 1) * 128].abs().max() / 448
                                  for j in range(cols)]) for i in range(rows)])
    full = s.repeat_interleave(128, 0).repeat_interleave(128, 1)[:t.shape[0], :t.shape[1]]
    return full, s, ".weight_scale_inv"


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
NF4 = np.array([-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0,
                0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1],
               np.float32)


def e2m1(scaled: np.ndarray):
    """(codes, values) of the nearest values."""
    codes = np.abs(np.abs(scaled)[..., None] - E2M1).argmin(-1)
    return codes + np.where(scaled < 0, 8, 0), np.where(scaled < 0, -E2M1[codes], E2M1[codes])


def rounded(values: np.ndarray) -> np.ndarray:
    return torch.tensor(values).to(torch.bfloat16).float().numpy()


def pairs(codes: np.ndarray) -> torch.Tensor:
    return torch.tensor((codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8))


def nvfp4(w):
    """Of ModelOpt: a scale in E4M3 for 16 values, and one of the matrix."""
    g = w.reshape(w.shape[0], -1, 16)
    whole = torch.tensor(np.abs(w).max() / (6 * 448))
    scale = (torch.tensor(np.abs(g).max(-1) / 6) / whole).to(torch.float8_e4m3fn)
    full = (scale.float() * whole).numpy()[..., None]
    codes, value = e2m1(g / full)
    return {".weight": pairs(codes.reshape(w.shape)), ".weight_scale": scale,
            ".weight_scale_2": whole, ".input_scale": torch.tensor(0.01)}, \
        rounded(value * full).reshape(w.shape)


def mxfp4_pairs(w):
    """Of compressed-tensors and Quark, which have it under another name."""
    blocks, scales, value = mxfp4(w)
    return {".weight_packed": torch.tensor(blocks).reshape(w.shape[0], -1),
            ".weight_scale": torch.tensor(scales)}, value


def nf4(w):
    """Of bitsandbytes: 64 values share a scale, and the scales are quantised, 256 at a time."""
    g = w.reshape(-1, 64)
    most = np.abs(g).max(-1)
    offset = np.float32(most.mean())
    table = np.linspace(-1, 1, 256, dtype=np.float32)
    rest = np.pad(most - offset, (0, -len(most) % 256)).reshape(-1, 256)
    nested = np.abs(rest).max(-1)
    indices = np.abs((rest / nested[:, None])[..., None] - table).argmin(-1)
    scale = (table[indices] * nested[:, None] + offset).reshape(-1)[:len(most), None]
    codes = np.abs((g / scale)[..., None] - NF4).argmin(-1)
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": list(w.shape),
             "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": float(offset)}
    swapped = codes.reshape(-1, 2)[:, ::-1].reshape(-1)  # the first of two has the high bits
    return {".weight": pairs(swapped).reshape(-1, 1),
            ".weight.absmax": torch.tensor(indices.reshape(-1)[:len(most)].astype(np.uint8)),
            ".weight.quant_map": torch.tensor(NF4),
            ".weight.nested_absmax": torch.tensor(nested),
            ".weight.nested_quant_map": torch.tensor(table),
            ".weight.quant_state.bitsandbytes__nf4":
                torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)}, \
        rounded(NF4[codes] * scale).reshape(w.shape)


def llm_int8(w):
    """Of bitsandbytes: the largest value of a row becomes 127."""
    most = torch.tensor(np.abs(w).max(1))
    codes = torch.round(torch.tensor(w) * 127 / most[:, None]).to(torch.int8)
    return {".weight": codes, ".SCB": most, ".weight_format": torch.tensor(0, dtype=torch.uint8)}, \
        (codes.float() * (most[:, None] / 127)).numpy()


def group(num_bits: int, kind: str, strategy: str) -> dict:
    weights = {"num_bits": num_bits, "type": kind, "strategy": strategy, "symmetric": True}
    if strategy == "group":
        weights["group_size"] = 64
    return {"group_0": {"targets": ["Linear"], "weights": weights}}


FORMS = {
    "llama_gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": False,
                          "desc_act": False}),
    "llama_gptq_order": (gptq_order, {"quant_method": "gptq", "bits": 4, "group_size": 64,
                                      "sym": False, "desc_act": True, "lm_head": True}),
    "llama_awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm",
                        "zero_point": True}),
    "llama_int4": (packed_int4, {"quant_method": "compressed-tensors", "format": "pack-quantized",
                                 "config_groups": group(4, "int", "group")}),
    "llama_gptq8": (gptq8, {"quant_method": "gptq", "bits": 8, "group_size": 64,
                                        "sym": True, "desc_act": True}),
    "llama_int3": (packed(3), {"quant_method": "compressed-tensors", "format": "pack-quantized",
                               "config_groups": group(3, "int", "group")}),
    "llama_mxfp8": (mxfp8, {"quant_method": "modelopt", "quant_algo": "MXFP8"}),
    "llama_modelopt_awq": (modelopt_awq, {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ",
                                          "group_size": 64, "pre_quant_scale": True}),
    "llama_quark_int4": (quark_int4, {"quant_method": "quark", "global_quant_config": {
        "weight": {"dtype": "int4", "qscheme": "per_group", "group_size": 64}}}),
    "llama_int8": (int8, {"quant_method": "compressed-tensors", "format": "int-quantized",
                          "config_groups": group(8, "int", "channel")}),
    "llama_fp8": (fp8(one_scale), {"quant_method": "fp8"}),
    "llama_fp8_rows": (fp8(row_scales), {"quant_method": "compressed-tensors",
                                         "format": "float-quantized",
                                         "config_groups": group(8, "float", "channel")}),
    "llama_fp8_tiles": (fp8(tile_scales), {"quant_method": "fp8", "weight_block_size": [128, 128]}),
    "llama_nvfp4": (nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4",
                            "producer": {"name": "modelopt", "version": "0.29.0"}}),
    "llama_mxfp4": (mxfp4_pairs, {"quant_method": "compressed-tensors",
                                  "format": "mxfp4-pack-quantized"}),
    "llama_nf4": (nf4, {"quant_method": "bitsandbytes", "load_in_4bit": True,
                        "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}),
    "llama_llm_int8": (llm_int8, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
}


def mxfp4(w: np.ndarray):
    """[rows][cols] to (blocks [rows][cols / 32][16], scales [rows][cols / 32], dequantised)."""
    g = w.reshape(w.shape[0], -1, 32)
    exponent = np.ceil(np.log2(np.abs(g).max(-1) / 6 + 1e-30)).astype(int)
    codes, value = e2m1(g / np.exp2(exponent)[..., None])
    value = value * np.exp2(exponent)[..., None]
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)
    return blocks, (exponent + 127).astype(np.uint8), value.reshape(w.shape).astype(np.float32)


def llama(pack, with_output):
    model = hf.AutoModelForCausalLM.from_config(hf.LlamaConfig(
        **dict(models.COMMON), hidden_size=192, intermediate_size=320, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=512),
        attn_implementation="eager").float().eval()
    models.randomize(model)
    tensors = {}
    for name, p in model.named_parameters():
        is_matrix = ".layers." in name or (name == "lm_head.weight" and with_output)
        if not is_matrix or p.ndim != 2:
            tensors[name] = p.detach().to(torch.bfloat16)
            continue
        packed, value = pack(p.detach().numpy())
        tensors |= {name.removesuffix(".weight") + k: v.contiguous() for k, v in packed.items()}
        p.data.copy_(torch.tensor(value))
    return model, tensors


def gpt_oss():
    model = hf.AutoModelForCausalLM.from_config(hf.GptOssConfig(
        **models.COMMON, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=16, max_position_embeddings=512),
        attn_implementation="eager").float().eval()
    models.randomize(model)
    tensors = {}
    for name, p in model.named_parameters():
        if not name.endswith(("gate_up_proj", "down_proj")):
            tensors[name] = p.detach().to(torch.bfloat16)
            continue
        experts = [mxfp4(e.T.copy()) for e in p.detach().numpy()]  # stored [out][in]
        tensors[name + "_blocks"] = torch.tensor(np.stack([e[0] for e in experts]))
        tensors[name + "_scales"] = torch.tensor(np.stack([e[1] for e in experts]))
        p.data.copy_(torch.tensor(np.stack([e[2].T for e in experts])))
    return model, tensors


def deepseek():
    """DeepSeek V3 as it is published: every matrix of its layers but the router in tiles. Written
    and read back by the library, which knows the names of the experts on disk."""
    model = hf.AutoModelForCausalLM.from_config(hf.DeepseekV3Config(
        **models.COMMON, hidden_size=160, intermediate_size=192, moe_intermediate_size=64,
        num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=5, q_lora_rank=64,
        kv_lora_rank=96, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32,
        n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, n_group=4, topk_group=2,
        first_k_dense_replace=1, max_position_embeddings=512),
        attn_implementation="eager").float().eval()
    models.randomize(model)
    pack, tensors = fp8(tile_scales), {}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        plain = load_file(file)
        for name, w in plain.items():
            if ".layers." not in name or w.ndim != 2 or name.endswith("mlp.gate.weight"):
                tensors[name] = w.to(torch.bfloat16)
                plain[name] = tensors[name].float()
                continue
            packed, value = pack(w.numpy())
            tensors |= {name.removesuffix(".weight") + k: v.contiguous() for k, v in packed.items()}
            plain[name] = torch.tensor(value)
        save_file(plain, file, {"format": "pt"})
        model = hf.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
    return model, tensors


def power_tiles(t):
    """Tiles whose scales are powers of two."""
    _, s, _ = tile_scales(t)
    s = torch.exp2(torch.ceil(torch.log2(s)))
    full = s.repeat_interleave(128, 0).repeat_interleave(128, 1)[:t.shape[0], :t.shape[1]]
    return full, s, ".scale"


def deepseek_v4():
    """DeepSeek V4 as it is published: attention and shared experts in tiles, experts in FP4, both
    with scales that are exponents; written and read back likewise."""
    model = hf.AutoModelForCausalLM.from_config(hf.DeepseekV4Config(
        **models.COMMON, hidden_size=160, moe_intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, head_dim=32, q_lora_rank=64, num_experts_per_tok=2,
        n_routed_experts=4, sliding_window=16, o_groups=2, o_lora_rank=32, index_n_heads=12,
        index_head_dim=16, index_topk=3, max_position_embeddings=512, partial_rotary_factor=0.25,
        layer_types=["heavily_compressed_attention", "compressed_sparse_attention"],
        mlp_layer_types=["hash_moe", "moe"],
        compress_rates={"heavily_compressed_attention": 12, "compressed_sparse_attention": 4}),
        attn_implementation="eager").float().eval()
    models.randomize(model)
    pack, tensors, exponent = fp8(power_tiles), {}, torch.float8_e8m0fnu
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        plain = load_file(file)
        for name, w in plain.items():
            module = name.removesuffix(".weight")
            if ".experts." in name:
                blocks, scales, value = mxfp4(w.numpy())
                tensors[name] = torch.tensor(blocks).reshape(w.shape[0], -1).view(torch.int8)
                tensors[module + ".scale"] = torch.tensor(scales).view(exponent)
                plain[name] = torch.tensor(value)
            elif module.endswith(("wq_a", "wq_b", "wkv", "wo_a", "wo_b", "w1", "w2", "w3")) and \
                    ".compressor." not in name:
                packed, value = pack(w.numpy())
                tensors[name] = packed[".weight"]
                tensors[module + ".scale"] = packed[".scale"].to(exponent)
                plain[name] = torch.tensor(value)
            elif w.dtype == torch.float32:
                tensors[name] = w.to(torch.bfloat16)
                plain[name] = tensors[name].float()
            else:
                tensors[name] = w
        save_file(plain, file, {"format": "pt"})
        model = hf.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
    return model, tensors


def mimo():
    """MiMo V2.5 as it is published: q, k and v in one matrix, of which each of four ranks has its
    heads, and tiles that begin anew with each."""
    model = hf.AutoModelForCausalLM.from_config(hf.AutoConfig.for_model(
        "mimo_v2_flash", **dict(models.COMMON, vocab_size=256), hidden_size=32,
        intermediate_size=32, moe_intermediate_size=32, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=4, head_dim=96, v_head_dim=72, n_routed_experts=2,
        num_experts_per_tok=1, sliding_window=17, n_group=1, topk_group=1,
        max_position_embeddings=512), attn_implementation="eager").float().eval()
    models.randomize(model)
    pack, tensors, n_ranks = fp8(tile_scales), {}, 4
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        plain = {k: v.to(torch.bfloat16).float() for k, v in load_file(file).items()}
        for layer in range(model.config.num_hidden_layers):
            module = f"model.layers.{layer}.self_attn."
            names = [f"{module}{part}_proj.weight" for part in "qkv"]
            shares = [torch.cat(share) for share in
                      zip(*(plain[name].chunk(n_ranks) for name in names))]
            packed, values = zip(*(pack(share.numpy()) for share in shares))
            for key in packed[0]:
                tensors[module + "qkv_proj" + key] = torch.cat([p[key] for p in packed])
            rows = [plain[name].shape[0] // n_ranks for name in names]
            parts = zip(*(torch.tensor(value).split(rows) for value in values))
            plain |= {name: torch.cat(part) for name, part in zip(names, parts)}
        tensors |= {k: v.to(torch.bfloat16) for k, v in plain.items()
                    if not k.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))}
        save_file(plain, file, {"format": "pt"})
        model = hf.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
    return model, tensors


def publish_inkling2(config: dict) -> dict:
    """The keys of published folders."""
    loop = {"core_start": "loop_layer_index_start", "core_end": "loop_layer_index_end",
            "num_passes": "loop_num_passes", "gate_rank": "loop_gate_rank"}
    config["loop_config"] = {new: config.pop(old) for new, old in loop.items()}
    for new, old in {"sconv_kernel_size": "conv_kernel_size", "intermediate_size":
                     "moe_intermediate_size", "model_max_length": "max_position_embeddings"}.items():
        config[new] = config.pop(old)
    return config


def exact_nvfp4(w):
    """Of Inkling 2: a scale in E4M3 for 16 values, and for each expert the largest value over what
    codes and scales can say at most. A power of two here, so that values are exact in bf16."""
    most = 6.0 * 448.0
    amax = most * np.exp2(np.ceil(np.log2(np.abs(w).max((1, 2)) / most)))
    whole = torch.tensor(amax / most).float()[:, None, None, None]
    g = torch.tensor(w).reshape(*w.shape[:2], -1, 16) / whole
    scale = (g.abs().amax(-1, keepdim=True) / 6).to(torch.float8_e4m3fn)
    codes, values = e2m1((g / scale.float()).numpy().reshape(w.shape[0] * w.shape[1], -1))
    value = torch.tensor(values).reshape(g.shape) * scale.float() * whole
    return {"": pairs(codes).reshape(*w.shape[:2], -1), "_scale": scale.squeeze(-1),
            "_amax": torch.tensor(amax).float(),
            "_outer_scale_denominator": torch.tensor(most)}, value.reshape(w.shape)


def expert_mxfp8(w):
    packed, value = mxfp8(w.reshape(-1, w.shape[-1]))
    return {"": packed[".weight"].reshape(w.shape),
            "_scale": packed[".weight_scale"].reshape(*w.shape[:2], -1)}, \
        torch.tensor(value).reshape(w.shape)


def inkling2():
    """Inkling 2 Mini as it is published: experts of some layers in NVFP4, of others in MXFP8."""
    torch.manual_seed(2)
    model = hf.AutoModelForCausalLM.from_config(hf.AutoConfig.for_model(
        "inkling2_loop_text", **dict(
            models.hybrids.INKLING2, num_hidden_layers=3, vocab_size=256, unpadded_vocab_size=256,
            n_layers_per_attn_res_block=1, loop_layer_index_start=1, loop_layer_index_end=2,
            loop_num_passes=2, loop_gate_rank=4, hidden_size=32, moe_intermediate_size=32,
            n_routed_experts=3, layer_types=["hybrid_sliding", "hybrid", "hybrid_sliding"])),
        attn_implementation="eager").float().eval()
    models.randomize(model)
    models.hybrids.randomize(model)
    tensors = {}
    with tempfile.TemporaryDirectory() as folder:
        model.to(torch.bfloat16).save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        for name, w in load_file(file).items():
            if ".experts." in name:
                pack = expert_mxfp8 if ".layers.1." in name else exact_nvfp4
                packed, _ = pack(w.float().numpy())
                tensors |= {name + suffix: t for suffix, t in packed.items()}
            else:
                tensors[name] = w
        save_file(tensors, file, {"format": "pt"})
        model = hf.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
    return model, tensors


def qwen3_vl_moe():
    """Qwen3 VL MoE with all of a layer's experts in one tensor, columns before rows, as FP8 folders of
    it have them: in tiles that begin anew with each expert."""
    torch.manual_seed(0)
    config = models.VARIANTS["qwen3_vl_moe"]()
    config.text_config.vocab_size, config.text_config.moe_intermediate_size = 256, 40
    config.text_config.hidden_size = 48
    config.vision_config.out_hidden_size = 48
    model = hf.AutoModelForImageTextToText.from_config(
        config, attn_implementation="eager").float().eval()
    models.randomize(model)
    tensors, (pack, _) = {}, FORMS["llama_fp8_tiles"]
    with tempfile.TemporaryDirectory() as folder:
        model.to(torch.bfloat16).save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        plain = load_file(file)
        for name, w in plain.items():
            if ".experts." not in name:
                tensors[name] = w
                continue
            packed, values = zip(*(pack(e.float().T.contiguous().numpy()) for e in w))
            tensors[name] = torch.stack([p[".weight"] for p in packed])
            tensors[name + "_scale_inv"] = torch.stack([p[".weight_scale_inv"] for p in packed])
            plain[name] = torch.stack([torch.tensor(v).T for v in values]).contiguous()
        save_file(plain, file, {"format": "pt"})
        model = hf.AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
    return model, tensors


def make(name: str, out: pathlib.Path) -> None:
    torch.manual_seed(sum(name.encode()))
    if name == "deepseek_v3_fp8":
        (model, tensors), settings = deepseek(), FORMS["llama_fp8_tiles"][1]
    elif name == "mimo_v2_fp8":
        (model, tensors), settings = mimo(), FORMS["llama_fp8_tiles"][1]
    elif name == "deepseek_v4_fp4":
        (model, tensors), settings = deepseek_v4(), FORMS["llama_fp8_tiles"][1]
    elif name == "qwen3_vl_moe_fp8":
        (model, tensors), settings = qwen3_vl_moe(), FORMS["llama_fp8_tiles"][1]
    elif name == "inkling2_fp4":
        (model, tensors), settings = inkling2(), None
    elif name == "gpt_oss_mxfp4":
        (model, tensors), settings = gpt_oss(), {"quant_method": "mxfp4"}
    else:
        pack, settings = FORMS[name]
        model, tensors = llama(pack, settings.get("lm_head", False))
    prompts = [torch.randint(3, 256, (n,)).tolist() for n in (5, 23, 70)]
    answers = [models.answer(model, p, False) for p in prompts]
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    config = model.config.to_dict() | ({"quantization_config": settings} if settings else {})
    if name == "inkling2_fp4":
        config = publish_inkling2(config)
    (folder / "config.json").write_text(json.dumps(config, indent=2, default=str))
    (folder / "golden.json").write_text(json.dumps({
        "model": name, "family": model.config.model_type, "encoder_decoder": False, "vocab": 256,
        "prompts": prompts, "greedy": [a[0] for a in answers],
        "gaps": [[round(g, 6) for g in a[1]] for a in answers],
        "logits_rows": [len(a[2]) for a in answers]}))
    torch.cat([a[2] for a in answers]).float().contiguous().numpy().astype("<f4").tofile(
        folder / "golden.bin")
    print(name, "smallest gap", min(min(a[1]) for a in answers))


if __name__ == "__main__":
    for each in sys.argv[2:] or [*FORMS, "gpt_oss_mxfp4", "deepseek_v3_fp8", "deepseek_v4_fp4",
                                 "mimo_v2_fp8", "inkling2_fp4", "qwen3_vl_moe_fp8"]:
        make(each, pathlib.Path(sys.argv[1]))
