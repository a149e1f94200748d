#!/usr/bin/env python3
"""Makes goldens of SmallThinker's shape from its equations, since the transformers library has no
such model: routers read the residual stream in front of a layer's first norm, experts have gates of
ReLU, and where layers see a window, the others have no positions.

    pip install numpy safetensors
    python3 tools/golden/smallthinker.py OUT_FOLDER

`smallthinker` has windows and routes by sigmoid, `smallthinker_plain` neither. Computed in float64
over bf16 weights; the layout is that of tests/golden/README.md.
"""
import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

DIM, LAYERS, HEADS, KV_HEADS, HEAD, EXPERTS, USED, HIDDEN, VOCAB = 32, 5, 4, 2, 8, 4, 2, 16, 48
EPS, THETA, WINDOW = 1e-6, 10000.0, 16


def bf16(x: np.ndarray) -> np.ndarray:
    """Rounds towards zero to bf16, which is exact in float32 afterwards."""
    bits = x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def rms(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def rotate(x: np.ndarray) -> np.ndarray:
    """[heads][tokens][HEAD], halves of each head."""
    angles = np.arange(x.shape[1])[:, None] * THETA ** (-np.arange(0, HEAD, 2) / HEAD)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(w: dict, p: str, h: np.ndarray, windowed: bool, rotates: bool) -> np.ndarray:
    n = len(h)
    q, k, v = (
        (h @ w[f"{p}self_attn.{name}_proj.weight"].T).reshape(n, -1, HEAD).transpose(1, 0, 2)
        for name in "qkv")
    if rotates:
        q, k = rotate(q), rotate(k)
    k, v = (np.repeat(t, HEADS // KV_HEADS, axis=0) for t in (k, v))
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    hidden = (j > i) | (windowed & (i - j >= WINDOW))
    s = softmax(np.where(hidden, -np.inf, q @ k.transpose(0, 2, 1) / np.sqrt(HEAD)))
    return (s @ v).transpose(1, 0, 2).reshape(n, -1) @ w[p + "self_attn.o_proj.weight"].T


def mixture(w: dict, p: str, logits: np.ndarray, h: np.ndarray, sigmoid: bool) -> np.ndarray:
    scores = 1 / (1 + np.exp(-logits)) if sigmoid else softmax(logits)
    out = np.zeros_like(h)
    for t, row in enumerate(scores):
        chosen = np.argsort(-row)[:USED]
        for e in chosen:
            gate, up, down = (w[f"{p}experts.{e}.{m}.weight"] for m in ("gate", "up", "down"))
            hidden = np.maximum(gate @ h[t], 0) * (up @ h[t])
            out[t] += row[e] / row[chosen].sum() * (down @ hidden)
    return out


def forward(w: dict, ids: list[int], windows: bool) -> np.ndarray:
    """Logits [len(ids)][VOCAB]."""
    x = w["model.embed_tokens.weight"][ids]
    for layer in range(LAYERS):
        p = f"model.layers.{layer}."
        windowed = windows and layer % 4 != 0
        logits = x @ w[p + "block_sparse_moe.primary_router.weight"].T
        h = rms(x, w[p + "input_layernorm.weight"])
        x = x + attention(w, p, h, windowed, windowed or not windows)
        h = rms(x, w[p + "post_attention_layernorm.weight"])
        x = x + mixture(w, p + "block_sparse_moe.", logits, h, windows)
    return rms(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def shapes() -> dict:
    found = {"model.embed_tokens.weight": (VOCAB, DIM), "lm_head.weight": (VOCAB, DIM),
             "model.norm.weight": (DIM,)}
    for layer in range(LAYERS):
        p = f"model.layers.{layer}."
        found |= {p + "input_layernorm.weight": (DIM,),
                  p + "post_attention_layernorm.weight": (DIM,),
                  p + "self_attn.q_proj.weight": (HEADS * HEAD, DIM),
                  p + "self_attn.k_proj.weight": (KV_HEADS * HEAD, DIM),
                  p + "self_attn.v_proj.weight": (KV_HEADS * HEAD, DIM),
                  p + "self_attn.o_proj.weight": (DIM, HEADS * HEAD),
                  p + "block_sparse_moe.primary_router.weight": (EXPERTS, DIM)}
        for e in range(EXPERTS):
            m = f"{p}block_sparse_moe.experts.{e}."
            found |= {m + "gate.weight": (HIDDEN, DIM), m + "up.weight": (HIDDEN, DIM),
                      m + "down.weight": (DIM, HIDDEN)}
    return found


def config_of(windows: bool) -> dict:
    layout = [int(windows and layer % 4 != 0) for layer in range(LAYERS)]
    return {"architectures": ["SmallThinkerForCausalLM"], "model_type": "smallthinker",
            "hidden_size": DIM, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "vocab_size": VOCAB,
            "moe_ffn_hidden_size": HIDDEN, "moe_num_primary_experts": EXPERTS,
            "moe_num_active_primary_experts": USED, "moe_enable_early_router": True,
            "moe_primary_router_apply_softmax": not windows,
            "moe_enable_secondary_experts": False, "norm_topk_prob": True, "rms_norm_eps": EPS,
            "rope_theta": THETA, "rope_layout": layout if windows else [1] * LAYERS,
            "sliding_window_layout": layout, "sliding_window_size": WINDOW if windows else None,
            "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2,
            "pad_token_id": 0, "tie_word_embeddings": False}


def make(out: pathlib.Path, name: str, windows: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    stored = {n: bf16(rng.standard_normal(s) * 0.2 + (1.0 if len(s) == 1 else 0.0))
              for n, s in shapes().items()}
    w = {n: t.astype(np.float64) for n, t in stored.items()}
    prompts = [[int(t) for t in rng.integers(3, VOCAB, n)] for n in (5, 23, 70)]
    greedy, gaps, rows = [], [], []
    for prompt in prompts:
        ids, gap = list(prompt), []
        rows.append(forward(w, prompt, windows))
        for _ in range(32):
            last = forward(w, ids, windows)[-1]
            best = np.sort(last)[-2:]
            gap.append(round(float(best[1] - best[0]), 6))
            ids.append(int(last.argmax()))
        greedy.append(ids[len(prompt):])
        gaps.append(gap)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(stored, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_of(windows), indent=2))
    (folder / "golden.json").write_text(json.dumps({
        "model": name, "family": "smallthinker", "encoder_decoder": False, "vocab": VOCAB,
        "prompts": prompts, "greedy": greedy, "gaps": gaps, "logits_rows": [5, 23, 70]}))
    np.concatenate(rows).astype("<f4").tofile(folder / "golden.bin")
    print(name, "smallest gap", min(min(g) for g in gaps))


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]), "smallthinker", True, 1)
    make(pathlib.Path(sys.argv[1]), "smallthinker_plain", False, 3)
