#!/usr/bin/env python3
"""Makes the goldens of looped transformers (Nanbeige 4.2, Ouro), which the transformers library does
not have: layers of llama, which run several times, each run with keys and values of its own.

    pip install numpy safetensors
    python3 tools/golden/looped.py OUT_FOLDER [NAME ...]

Computed in float64 over bf16 weights; the layout is that of tests/golden/README.md.
"""
import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

from baichuan import bf16

DIM, LAYERS, HEADS, KV_HEADS, FFN, VOCAB, EPS = 48, 2, 4, 2, 64, 256, 1e-5
# config beside the sizes, a head's width, runs, whether the last norm stands between runs, norms
# behind blocks
VARIANTS = {
    "nanbeige": (dict(model_type="nanbeige", num_loops=2, head_dim=16, rope_theta=70000000.0,
                      loop_middle_layers=[], emb_neighbor_num=None, enable_mhc=False),
                 16, 2, True, None),
    "nanbeige_plain": (dict(model_type="nanbeige", num_loops=3, head_dim=8, rope_theta=10000.0,
                            skip_loop_final_norm=True), 8, 3, False, None),
    "ouro": (dict(model_type="ouro", total_ut_steps=4, rope_theta=1000000.0, early_exit_threshold=1.0),
             12, 4, True, ("input_layernorm_2", "post_attention_layernorm_2")),
}


# no two ids are nearly equal
SEED = 5


def rms(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def turn(x: np.ndarray, theta: float) -> np.ndarray:
    """Rotates halves of heads [heads][n][width]."""
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] / theta ** (np.arange(half) / half)
    a, b, cos, sin = x[..., :half], x[..., half:], np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def layer(w: dict, p: str, x: np.ndarray, config: dict, width: int, post) -> np.ndarray:
    n = len(x)
    h = rms(x, w[p + "input_layernorm.weight"])
    q, k, v = ((h @ w[f"{p}self_attn.{name}_proj.weight"].T).reshape(n, -1, width).transpose(1, 0, 2)
               for name in "qkv")
    q, k = turn(q, config["rope_theta"]), turn(k, config["rope_theta"])
    k, v = (np.repeat(t, HEADS // len(t), axis=0) for t in (k, v))
    s = q @ k.transpose(0, 2, 1) / np.sqrt(width) + np.triu(np.full((n, n), -np.inf), 1)
    s = np.exp(s - s.max(-1, keepdims=True))
    h = (s / s.sum(-1, keepdims=True)) @ v
    h = h.transpose(1, 0, 2).reshape(n, -1) @ w[p + "self_attn.o_proj.weight"].T
    x = x + (rms(h, w[f"{p}{post[0]}.weight"]) if post else h)
    h = rms(x, w[p + "post_attention_layernorm.weight"])
    gate, up = (h @ w[f"{p}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
    h = (gate / (1 + np.exp(-gate)) * up) @ w[p + "mlp.down_proj.weight"].T
    return x + (rms(h, w[f"{p}{post[1]}.weight"]) if post else h)


def forward(w: dict, variant: tuple, ids: list[int]) -> np.ndarray:
    """Logits [len(ids)][VOCAB]."""
    config, width, n_runs, norms, post = variant
    x = w["model.embed_tokens.weight"][ids]
    for run in range(n_runs):
        for i in range(LAYERS):
            x = layer(w, f"model.layers.{i}.", x, config, width, post)
        if norms or run + 1 == n_runs:
            x = rms(x, w["model.norm.weight"])
    return x @ w["lm_head.weight"].T


def shapes_of(width: int, kv_heads: int, post, has_gate: bool) -> dict[str, tuple]:
    sizes = {"model.embed_tokens.weight": (VOCAB, DIM), "lm_head.weight": (VOCAB, DIM),
             "model.norm.weight": (DIM,)}
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        sizes |= {p + name + ".weight": (DIM,) for name in
                  ("input_layernorm", "post_attention_layernorm", *(post or ()))}
        sizes |= {p + "self_attn.q_proj.weight": (HEADS * width, DIM),
                  p + "self_attn.k_proj.weight": (kv_heads * width, DIM),
                  p + "self_attn.v_proj.weight": (kv_heads * width, DIM),
                  p + "self_attn.o_proj.weight": (DIM, HEADS * width),
                  p + "mlp.gate_proj.weight": (FFN, DIM), p + "mlp.up_proj.weight": (FFN, DIM),
                  p + "mlp.down_proj.weight": (DIM, FFN)}
    if has_gate:
        sizes |= {"model.early_exit_gate.weight": (1, DIM), "model.early_exit_gate.bias": (1,)}
    return sizes


def make(name: str, out: pathlib.Path) -> None:
    variant = own, width, _, _, post = VARIANTS[name]
    kv_heads = HEADS if post else KV_HEADS
    rng = np.random.default_rng(SEED)
    stored = {key: bf16(rng.standard_normal(s) * 0.2 + (1.0 if len(s) == 1 else 0.0))
              for key, s in shapes_of(width, kv_heads, post, bool(post)).items()}
    w = {key: t.astype(np.float64) for key, t in stored.items()}
    prompts = [[int(t) for t in rng.integers(3, VOCAB, n)] for n in (5, 23, 70)]
    greedy, gaps, rows = [], [], []
    for prompt in prompts:
        ids, gap = list(prompt), []
        rows.append(forward(w, variant, prompt))
        for _ in range(32):
            last = forward(w, variant, ids)[-1]
            second, best = np.sort(last)[-2:]
            gap.append(round(float(best - second), 6))
            ids.append(int(last.argmax()))
        greedy.append(ids[len(prompt):])
        gaps.append(gap)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(stored, folder / "model.safetensors")
    config = {"architectures": [own["model_type"].capitalize() + "ForCausalLM"],
              "hidden_size": DIM, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": kv_heads, "vocab_size": VOCAB,
              "rms_norm_eps": EPS, "hidden_act": "silu", "max_position_embeddings": 512,
              "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
              "tie_word_embeddings": False} | own
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "golden.json").write_text(json.dumps({
        "model": name, "family": own["model_type"], "encoder_decoder": False, "vocab": VOCAB,
        "prompts": prompts, "greedy": greedy, "gaps": gaps,
        "logits_rows": [len(p) for p in prompts]}))
    np.concatenate(rows).astype("<f4").tofile(folder / "golden.bin")
    print(name, "smallest gap", min(min(g) for g in gaps))


if __name__ == "__main__":
    for each in sys.argv[2:] or VARIANTS:
        make(each, pathlib.Path(sys.argv[1]))
