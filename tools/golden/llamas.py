#!/usr/bin/env python3
"""Makes goldens of llama's kin that the transformers library does not have, from their equations:
looped transformers (Nanbeige 4.2, Ouro), Nemotron NAS, Orion, openPangu Embedded, Maincoder, Spark 2.5, XVERSE.

    pip install numpy safetensors
    python3 tools/golden/llamas.py OUT_FOLDER [NAME ...]

Computed in float64 over bf16 weights; the layout is that of tests/golden/README.md.
"""
import math
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

import answers
from baichuan import bf16

DIM, LAYERS, HEADS, FFN, VOCAB, EPS, WINDOW = 48, 2, 4, 64, 256, 1e-5, 16
FULL, LOCAL = "full_attention", "sliding_attention"
# what config.json says beside the sizes, and how a model differs from llama: a head's width, KV
# heads, runs of all layers, whether the last norm stands between runs, norms behind blocks, what
# layers see, and the rest by its name
VARIANTS = {
    "nanbeige": dict(config=dict(num_loops=2, head_dim=16, rope_theta=70000000.0, enable_mhc=False,
                                 loop_middle_layers=[], emb_neighbor_num=None), runs=2, head=16),
    "nanbeige_plain": dict(config=dict(model_type="nanbeige", num_loops=3, rope_theta=10000.0, skip_loop_final_norm=True,
                                       head_dim=8), runs=3, norms=False, head=8),
    "ouro": dict(config=dict(total_ut_steps=2, rope_theta=1000000.0, early_exit_threshold=1.0),
                 runs=2, kv=4, post=("input_layernorm_2", "post_attention_layernorm_2")),
    "orion": dict(config=dict(rope_theta=10000.0), layer_norm=True),
    "pangu_embedded": dict(config=dict(model_type="PanguEmbedded", rope_theta=16000000.0, bias=True),
                           bias=True),
    "maincoder": dict(config=dict(rope_theta=1000000.0), interleaved=True, qk_norm=True),
    "spark2_5": dict(config=dict(
        head_dim=16, layer_types=[LOCAL, FULL], sliding_window=WINDOW, hidden_act="gelu",
        gate_attn_act_mode="sigmoid", headwise_attn_output_gate=True,
        rope_parameters={FULL: {"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5},
                         LOCAL: {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}),
        head=16, gate=True, fused=True, gelu=True, windows=(True, False)),
    # KV heads and widths of layers, where these have attention and a feed-forward
    "deci": dict(config=dict(model_type="nemotron-nas", rope_theta=500000.0, num_key_value_heads=None,
                             intermediate_size=None),
                 layers=((4, 64), (None, 48), (2, None), (None, None), (1, 96))),
    "xverse": dict(config=dict(rope_theta=500000.0), kv=4),
}
# no two ids are nearly equal
SEED = 5


def rms(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


class Model:
    def __init__(self, name: str):
        self.how = VARIANTS[name]
        self.config = {"model_type": name} | self.how["config"]
        self.width, self.kv_heads = self.how.get("head", DIM // HEADS), self.how.get("kv", 2)
        self.post = self.how.get("post")
        self.layers = self.how.get("layers", ((self.kv_heads, FFN),) * LAYERS)
        rng = np.random.default_rng(SEED)
        self.stored = {key: bf16(rng.standard_normal(s) * 0.2 + (key.endswith("norm.weight") or "norm_2" in key))
                       for key, s in self.shapes().items()}
        self.w = {key: t.astype(np.float64) for key, t in self.stored.items()}
        self.prompts = [[int(t) for t in rng.integers(3, VOCAB, n)] for n in (5, 23, 70)]

    def shapes(self) -> dict[str, tuple]:
        sizes = {"model.embed_tokens.weight": (VOCAB, DIM), "lm_head.weight": (VOCAB, DIM),
                 "model.norm.weight": (DIM,)}
        for i, (kv_heads, ffn) in enumerate(self.layers):
            p, q = f"model.layers.{i}.", HEADS * self.width
            sizes |= {p + name + ".weight": (DIM,) for name in self.post or ()}
            if kv_heads:
                kv = kv_heads * self.width
                heads = {"q_k_v": q + 2 * kv} if self.how.get("fused") else {"q": q, "k": kv, "v": kv}
                sizes |= {f"{p}self_attn.{key}_proj.weight": (n, DIM) for key, n in heads.items()}
                sizes |= {p + "input_layernorm.weight": (DIM,), p + "self_attn.o_proj.weight": (DIM, q)}
            if ffn:
                sizes |= {p + "post_attention_layernorm.weight": (DIM,), p + "mlp.down_proj.weight": (DIM, ffn),
                          p + "mlp.gate_proj.weight": (ffn, DIM), p + "mlp.up_proj.weight": (ffn, DIM)}
            if self.how.get("gate"):
                sizes[p + "self_attn.g_proj.weight"] = (HEADS, DIM)
            if self.how.get("qk_norm"):
                sizes |= {f"{p}self_attn.{key}_norm.weight": (self.width,) for key in "qk"}
        if self.post:
            sizes |= {"model.early_exit_gate.weight": (1, DIM), "model.early_exit_gate.bias": (1,)}
        if self.how.get("bias"):
            sizes |= {key.replace("weight", "bias"): (s[0],) for key, s in list(sizes.items()) if "attn" in key}
        if self.how.get("layer_norm"):
            sizes |= {key.replace("weight", "bias"): s for key, s in list(sizes.items()) if "norm" in key}
        return sizes

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        if not self.how.get("layer_norm"):
            return rms(x, self.w[name + ".weight"])
        x = x - x.mean(-1, keepdims=True)
        return rms(x, self.w[name + ".weight"]) + self.w[name + ".bias"]

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0)

    def turn(self, x: np.ndarray, i: int) -> np.ndarray:
        """Rotates heads [heads][n][width]: halves of what rotates, or pairs side by side."""
        rope = self.config.get("rope_parameters", {}).get((self.config.get("layer_types") or [0] * 9)[i], self.config)
        n = int(x.shape[-1] * rope.get("partial_rotary_factor", 1))
        angles = np.arange(x.shape[1])[:, None] / rope["rope_theta"] ** (np.arange(0, n, 2) / n)
        cos, sin = np.cos(angles), np.sin(angles)
        out = x.copy()
        first, second = (slice(0, n, 2), slice(1, n, 2)) if self.how.get("interleaved") else \
            (slice(0, n // 2), slice(n // 2, n))
        a, b = x[..., first], x[..., second]
        out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
        return out

    def attention(self, h: np.ndarray, p: str, i: int) -> np.ndarray:
        n, q, kv = len(h), HEADS * self.width, self.kv_heads * self.width
        if self.how.get("fused"):
            parts = np.split(self.linear(h, p + "q_k_v_proj"), [q, q + kv], -1)
        else:
            parts = [self.linear(h, f"{p}{key}_proj") for key in "qkv"]
        q, k, v = (t.reshape(n, -1, self.width).transpose(1, 0, 2) for t in parts)
        q, k = self.turn(q, i), self.turn(k, i)
        if self.how.get("qk_norm"):
            q, k = self.norm(q, p + "q_norm"), self.norm(k, p + "k_norm")
        k, v = (np.repeat(t, HEADS // len(t), axis=0) for t in (k, v))
        behind = np.arange(n)[:, None] - np.arange(n)[None, :]
        hidden = (behind < 0) | (behind >= (WINDOW if self.how.get("windows", (False,) * 9)[i] else n))
        s = np.where(hidden, -np.inf, q @ k.transpose(0, 2, 1) / np.sqrt(self.width))
        s = np.exp(s - s.max(-1, keepdims=True))
        out = ((s / s.sum(-1, keepdims=True)) @ v).transpose(1, 0, 2)
        if self.how.get("gate"):
            out = out / (1 + np.exp(-self.linear(h, p + "g_proj")))[..., None]
        return self.linear(out.reshape(n, -1), p + "o_proj")

    def layer(self, x: np.ndarray, i: int) -> np.ndarray:
        p, (kv_heads, ffn) = f"model.layers.{i}.", self.layers[i]
        if kv_heads:
            h = self.attention(self.norm(x, p + "input_layernorm"), p + "self_attn.", i)
            x = x + (self.norm(h, p + self.post[0]) if self.post else h)
        if not ffn:
            return x
        h = self.norm(x, p + "post_attention_layernorm")
        gate = self.linear(h, p + "mlp.gate_proj")
        act = gate * (0.5 + 0.5 * np.vectorize(math.erf)(gate / np.sqrt(2))) if self.how.get("gelu") else \
            gate / (1 + np.exp(-gate))
        h = self.linear(act * self.linear(h, p + "mlp.up_proj"), p + "mlp.down_proj")
        return x + (self.norm(h, p + self.post[1]) if self.post else h)

    def forward(self, ids: list[int]) -> np.ndarray:
        """Logits [len(ids)][VOCAB]."""
        x, runs = self.w["model.embed_tokens.weight"][ids], self.how.get("runs", 1)
        for run in range(runs):
            for i in range(len(self.layers)):
                x = self.layer(x, i)
            if self.how.get("norms", True) or run + 1 == runs:
                x = self.norm(x, "model.norm")
        return x @ self.w["lm_head.weight"].T

    def json(self) -> dict:
        return {"architectures": [self.config["model_type"].capitalize() + "ForCausalLM"],
                "hidden_size": DIM, "intermediate_size": FFN, "num_hidden_layers": len(self.layers),
                "num_attention_heads": HEADS, "num_key_value_heads": self.kv_heads,
                "vocab_size": VOCAB, "rms_norm_eps": EPS, "hidden_act": "silu",
                "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2,
                "pad_token_id": 0, "tie_word_embeddings": False} | self.config


def make(name: str, out: pathlib.Path) -> None:
    model = Model(name)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model.stored, folder / "model.safetensors")
    answers.save(folder, name, model.json(), model.prompts, model.forward)


if __name__ == "__main__":
    for each in sys.argv[2:] or VARIANTS:
        make(each, pathlib.Path(sys.argv[1]))
