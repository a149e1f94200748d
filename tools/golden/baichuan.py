#!/usr/bin/env python3
"""Makes the golden of Baichuan 13B's shape from its published modelling code's equations, since
the transformers library has no such model: llama with W_pack = [q; k; v] and ALiBi.

    pip install numpy safetensors
    python3 tools/golden/baichuan.py OUT_FOLDER

Computed in float64 over bf16 weights; the layout is that of tests/golden/README.md.
"""
import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

DIM, LAYERS, HEADS, FFN, VOCAB, EPS = 80, 2, 5, 128, 256, 1e-6
HEAD = DIM // HEADS


def bf16(x: np.ndarray) -> np.ndarray:
    """Rounds towards zero to bf16, which is exact in float32 afterwards."""
    bits = x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def slopes(n: int) -> np.ndarray:
    """ALiBi's slopes; 5 heads: those of 4, then every other one of 8."""
    def power(m: int) -> list[float]:
        return [2.0 ** (-8.0 * (i + 1) / m) for i in range(m)]
    closest = 2 ** int(np.floor(np.log2(n)))
    return np.array(power(closest) + power(2 * closest)[0::2][: n - closest])


def rms(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def forward(w: dict, ids: list[int]) -> np.ndarray:
    """Logits [len(ids)][VOCAB]."""
    n = len(ids)
    x = w["model.embed_tokens.weight"][ids]
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    bias = slopes(HEADS)[:, None, None] * (j - i) + np.where(j > i, -np.inf, 0.0)
    for layer in range(LAYERS):
        p = f"model.layers.{layer}."
        h = rms(x, w[p + "input_layernorm.weight"])
        q, k, v = np.split(h @ w[p + "self_attn.W_pack.weight"].T, 3, axis=-1)
        q, k, v = (t.reshape(n, HEADS, HEAD).transpose(1, 0, 2) for t in (q, k, v))
        s = q @ k.transpose(0, 2, 1) / np.sqrt(HEAD) + bias
        s = np.exp(s - s.max(-1, keepdims=True))
        a = (s / s.sum(-1, keepdims=True)) @ v
        x = x + a.transpose(1, 0, 2).reshape(n, DIM) @ w[p + "self_attn.o_proj.weight"].T
        h = rms(x, w[p + "post_attention_layernorm.weight"])
        gate = h @ w[p + "mlp.gate_proj.weight"].T
        up = h @ w[p + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[p + "mlp.down_proj.weight"].T
    return rms(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def main(out: pathlib.Path) -> None:
    rng = np.random.default_rng(13)
    shapes = {"model.embed_tokens.weight": (VOCAB, DIM), "lm_head.weight": (VOCAB, DIM),
              "model.norm.weight": (DIM,)}
    for layer in range(LAYERS):
        p = f"model.layers.{layer}."
        shapes |= {p + "input_layernorm.weight": (DIM,),
                   p + "post_attention_layernorm.weight": (DIM,),
                   p + "self_attn.W_pack.weight": (3 * DIM, DIM),
                   p + "self_attn.o_proj.weight": (DIM, DIM),
                   p + "mlp.gate_proj.weight": (FFN, DIM), p + "mlp.up_proj.weight": (FFN, DIM),
                   p + "mlp.down_proj.weight": (DIM, FFN)}
    stored = {name: bf16(rng.standard_normal(s) * 0.2 + (1.0 if len(s) == 1 else 0.0))
              for name, s in shapes.items()}
    w = {name: t.astype(np.float64) for name, t in stored.items()}
    prompts = [[int(t) for t in rng.integers(3, VOCAB, n)] for n in (5, 23, 70)]
    greedy, gaps, rows = [], [], []
    for prompt in prompts:
        ids, gap = list(prompt), []
        rows.append(forward(w, prompt))
        for _ in range(32):
            last = forward(w, ids)[-1]
            best = np.sort(last)[-2:]
            gap.append(round(float(best[1] - best[0]), 6))
            ids.append(int(last.argmax()))
        greedy.append(ids[len(prompt):])
        gaps.append(gap)
    out.mkdir(parents=True, exist_ok=True)
    save_file(stored, out / "model.safetensors")
    config = {"architectures": ["BaichuanForCausalLM"], "model_type": "baichuan",
              "hidden_size": DIM, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "vocab_size": VOCAB, "rms_norm_eps": EPS,
              "hidden_act": "silu", "model_max_length": 512, "bos_token_id": 1,
              "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False}
    (out / "config.json").write_text(json.dumps(config, indent=2))
    (out / "golden.json").write_text(json.dumps({
        "model": "baichuan", "family": "baichuan", "encoder_decoder": False, "vocab": VOCAB,
        "prompts": prompts, "greedy": greedy, "gaps": gaps, "logits_rows": [5, 23, 70]}))
    np.concatenate(rows).astype("<f4").tofile(out / "golden.bin")
    print("smallest gap", min(min(g) for g in gaps))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
