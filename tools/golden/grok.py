#!/usr/bin/env python3
"""Makes goldens of Grok 1's and Grok 2's shapes as GGUF files by llama.cpp's names, from the equations
of its graph, since the transformers library has no such model. llama_cpp.py's reader checks them.

    pip install numpy gguf
    python3 tools/golden/grok.py OUT_FOLDER

Computed in float64 over float32 weights; the layout is that of tests/golden/README.md.
"""
import json
import pathlib
import sys

import gguf
import numpy as np

DIM, LAYERS, HEADS, KV_HEADS, VOCAB, EPS = 32, 2, 4, 2, 96, 1e-5
HEAD = DIM // HEADS
EXPERTS, USED, CTX = 4, 2, 512
SHAPES = {
    # a file of before the keys, whose readers know what Grok 1 has
    "grok": dict(expert=40, dense=0, embedding=78.38367176906169, output=0.5773502691896257,
                 attention=0.08838834764831845, cap=30.0, has_keys=False),
    "grok2": dict(expert=16, dense=40, embedding=3.0, output=0.7, attention=0.2, cap=4.0,
                  final_cap=6.0, has_keys=True, yarn=(4.0, 64, 8.0, 1.0)),
}
SEEDS = {"grok": 7, "grok2": 7}


def rms(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rotations(shape: dict, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [n][HEAD / 2]; YaRN's are longer than one."""
    pair = np.arange(HEAD // 2)
    freq, length = 10000.0 ** (-2.0 * pair / HEAD), 1.0
    if "yarn" in shape:
        factor, original, fast, slow = shape["yarn"]
        low, high = (HEAD * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(10000.0))
                     for turns in (fast, slow))
        low, high = max(np.floor(low), 0), min(np.ceil(high), HEAD - 1)
        kept = 1 - np.clip((pair - low) / max(high - low, 0.001), 0, 1)
        freq = freq / factor * (1 - kept) + freq * kept
        length = 1 + 0.1 * np.log(factor)
    angle = np.arange(n)[:, None] * freq
    return np.cos(angle) * length, np.sin(angle) * length


def turn(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """x [heads][n][HEAD], by halves."""
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def feed_forward(x: np.ndarray, gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
    return gelu(x @ gate.T) * (x @ up.T) @ down.T


def mixture(shape: dict, w: dict, blk: str, x: np.ndarray) -> np.ndarray:
    weights = softmax(x @ w[blk + "ffn_gate_inp"].T)
    chosen = np.argsort(-weights, axis=-1)[:, :USED]
    out = np.zeros_like(x)
    for row in range(len(x)):
        total = weights[row, chosen[row]].sum()
        for e in chosen[row]:
            part = feed_forward(x[row], *(w[f"{blk}ffn_{kind}_exps"][e] for kind in ("gate", "up", "down")))
            out[row] += weights[row, e] / total * part
    if shape["dense"] == 0:
        return out
    dense = feed_forward(x, *(w[f"{blk}ffn_{kind}"] for kind in ("gate", "up", "down")))
    return (out + dense) * np.sqrt(2) / 2


def forward(shape: dict, w: dict, ids: list[int]) -> np.ndarray:
    """Logits [len(ids)][VOCAB]."""
    n = len(ids)
    x = w["token_embd"][ids] * shape["embedding"]
    cos, sin = rotations(shape, n)
    unseen = np.arange(n)[:, None] < np.arange(n)[None, :]
    for layer in range(LAYERS):
        blk = f"blk.{layer}."
        h = rms(x, w[blk + "attn_norm"])
        q, k, v = ((h @ w[f"{blk}attn_{name}"].T).reshape(n, -1, HEAD).transpose(1, 0, 2) for name in "qkv")
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        k, v = (np.repeat(t, HEADS // KV_HEADS, axis=0) for t in (k, v))
        s = shape["cap"] * np.tanh(q @ k.transpose(0, 2, 1) * shape["attention"] / shape["cap"])
        a = softmax(np.where(unseen, -np.inf, s)) @ v
        a = a.transpose(1, 0, 2).reshape(n, DIM) @ w[blk + "attn_output"].T
        x = x + rms(a, w[blk + "attn_output_norm"])
        h = mixture(shape, w, blk, rms(x, w[blk + "ffn_norm"]))
        x = x + rms(h, w[blk + "layer_output_norm"])
    logits = rms(x, w["output_norm"]) @ w["output"].T * shape["output"]
    cap = shape.get("final_cap", 0)
    return cap * np.tanh(logits / cap) if cap else logits


def shapes_of(shape: dict) -> dict[str, tuple]:
    sizes = {"token_embd": (VOCAB, DIM), "output": (VOCAB, DIM), "output_norm": (DIM,)}
    for layer in range(LAYERS):
        blk = f"blk.{layer}."
        kv, wide, expert = KV_HEADS * HEAD, shape["dense"], shape["expert"]
        sizes |= {blk + name: (DIM,) for name in ("attn_norm", "attn_output_norm", "ffn_norm",
                                                  "layer_output_norm")}
        sizes |= {blk + "attn_q": (DIM, DIM), blk + "attn_k": (kv, DIM), blk + "attn_v": (kv, DIM),
                  blk + "attn_output": (DIM, DIM), blk + "ffn_gate_inp": (EXPERTS, DIM),
                  blk + "ffn_gate_exps": (EXPERTS, expert, DIM),
                  blk + "ffn_up_exps": (EXPERTS, expert, DIM),
                  blk + "ffn_down_exps": (EXPERTS, DIM, expert)}
        if wide:
            sizes |= {blk + "ffn_gate": (wide, DIM), blk + "ffn_up": (wide, DIM),
                      blk + "ffn_down": (DIM, wide)}
    return sizes


def write(path: pathlib.Path, shape: dict, stored: dict) -> None:
    writer = gguf.GGUFWriter(path, "grok")
    writer.add_context_length(CTX)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(shape["dense"] or shape["expert"])
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_vocab_size(VOCAB)
    if shape["has_keys"]:
        writer.add_attn_logit_softcapping(shape["cap"])
        writer.add_router_logit_softcapping(30.0)
        writer.add_attn_output_scale(shape["attention"])
        writer.add_embedding_scale(shape["embedding"])
        writer.add_logit_scale(shape["output"])
    if shape["dense"]:
        writer.add_expert_feed_forward_length(shape["expert"])
        writer.add_final_logit_softcapping(shape["final_cap"])
    if "yarn" in shape:
        factor, original, fast, slow = shape["yarn"]
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(factor)
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_yarn_ext_factor(1.0)
        writer.add_rope_scaling_yarn_attn_factor(1.0)
        writer.add_rope_scaling_yarn_beta_fast(fast)
        writer.add_rope_scaling_yarn_beta_slow(slow)
    for name, tensor in stored.items():
        writer.add_tensor(name + ".weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def answer(shape: dict, w: dict, prompt: list[int]) -> tuple[list[int], list[float]]:
    """32 greedy ids and how far each is ahead of the next best."""
    ids, gaps = list(prompt), []
    for _ in range(32):
        row = forward(shape, w, ids)[-1]
        second, best = np.argsort(row)[-2:]
        gaps.append(float(row[best] - row[second]))
        ids.append(int(best))
    return ids[len(prompt):], gaps


def make(name: str, out: pathlib.Path) -> None:
    shape, rng = SHAPES[name], np.random.default_rng(SEEDS[name])
    stored = {}
    for key, size in shapes_of(shape).items():
        stored[key] = (rng.standard_normal(size) * 0.2 + (len(size) == 1)).astype(np.float32)
    w = {key: t.astype(np.float64) for key, t in stored.items()}
    prompts = [[int(t) for t in rng.integers(3, VOCAB, n)] for n in (5, 23, 70)]
    answers = [answer(shape, w, p) for p in prompts]
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "model.gguf", shape, stored)
    rows = np.concatenate([forward(shape, w, p) for p in prompts])
    rows.astype("<f4").tofile(folder / "golden.bin")
    (folder / "golden.json").write_text(json.dumps(
        {"vocab": VOCAB, "prompts": prompts, "greedy": [ids for ids, _ in answers],
         "gaps": [gaps for _, gaps in answers], "logits_rows": [len(p) for p in prompts]}))
    print(name, "smallest gap", min(min(gaps) for _, gaps in answers))


if __name__ == "__main__":
    for each in sys.argv[2:] or SHAPES:
        make(each, pathlib.Path(sys.argv[1]))
