#!/usr/bin/env python3
"""Makes tests/golden/embeddings/jina_bert: a tiny Jina Embeddings v2 with random weights, and its
vectors by the forward pass below (float32), since transformers has no such model: BERT with a bias
of -slope * |distance| on attention scores (ALiBi both ways) and a feed-forward whose first half,
by GELU, gates the other (jinaai/jina-bert-implementation).

    pip install torch safetensors
    python3 tools/golden/jina.py OUT_FOLDER

golden.json and golden.bin are those of embeddings.py.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch.nn import functional as f

VOCAB, DIM, HIDDEN, LAYERS, HEADS, EPS = 64, 30, 48, 2, 6, 1e-12


def make_weights() -> dict:
    shapes = {"embeddings.word_embeddings.weight": (VOCAB, DIM),
              "embeddings.token_type_embeddings.weight": (2, DIM),
              "embeddings.LayerNorm.weight": (DIM,), "embeddings.LayerNorm.bias": (DIM,),
              "pooler.dense.weight": (DIM, DIM), "pooler.dense.bias": (DIM,)}
    for i in range(LAYERS):
        at = f"encoder.layer.{i}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense"):
            shapes[at + name + ".weight"], shapes[at + name + ".bias"] = (DIM, DIM), (DIM,)
        for name in ("attention.output.LayerNorm", "mlp.layernorm"):
            shapes[at + name + ".weight"] = shapes[at + name + ".bias"] = (DIM,)
        shapes[at + "mlp.gated_layers.weight"] = (2 * HIDDEN, DIM)
        shapes[at + "mlp.wo.weight"], shapes[at + "mlp.wo.bias"] = (DIM, HIDDEN), (DIM,)
    weights = {}
    for name, shape in shapes.items():
        is_scale = "orm.weight" in name
        weights[name] = torch.randn(shape) * (0.1 if len(shape) == 1 else 0.2) + float(is_scale)
    return {k: v.to(torch.bfloat16).float() for k, v in weights.items()}


def make_slopes() -> torch.Tensor:
    """Of six heads: those of four, then every other one of eight (Press et al., 2021)."""
    four = [2.0 ** (-8 * (i + 1) / 4) for i in range(4)]
    eight = [2.0 ** (-(i + 1)) for i in range(8)]
    return torch.tensor(four + eight[0::2][:HEADS - 4])


def forward(w: dict, ids: list, n_first: int) -> torch.Tensor:
    n = len(ids)
    types = torch.tensor([0 if n_first == 0 or i < n_first else 1 for i in range(n)])

    def linear(x, name):
        return f.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    def norm(x, name):
        return f.layer_norm(x, (DIM,), w[name + ".weight"], w[name + ".bias"], EPS)

    x = w["embeddings.word_embeddings.weight"][torch.tensor(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][types], "embeddings.LayerNorm")
    at = torch.arange(n)
    bias = -make_slopes()[:, None, None] * (at[:, None] - at[None, :]).abs()
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        q, k, v = (linear(x, layer + "attention.self." + part).view(n, HEADS, -1).transpose(0, 1)
                   for part in ("query", "key", "value"))
        scores = q @ k.transpose(1, 2) / (DIM // HEADS) ** 0.5 + bias
        mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, DIM)
        x = norm(linear(mixed, layer + "attention.output.dense") + x,
                 layer + "attention.output.LayerNorm")
        gate, up = linear(x, layer + "mlp.gated_layers").chunk(2, -1)
        x = norm(linear(f.gelu(gate) * up, layer + "mlp.wo") + x, layer + "mlp.layernorm")
    return x


def main(out: pathlib.Path) -> None:
    torch.manual_seed(11)
    folder = out / "jina_bert"
    folder.mkdir(parents=True, exist_ok=True)
    weights = make_weights()
    prompts = [torch.randint(5, VOCAB, (n,)).tolist() for n in (1, 7, 40, 150)]
    firsts = [0, 3, 0, 0]
    hidden = [forward(weights, p, first) for p, first in zip(prompts, firsts)]
    rows = torch.cat([torch.stack([h[0], h.mean(0), h[-1]]).flatten() for h in hidden])
    rows.numpy().astype("<f4").tofile(folder / "golden.bin")
    save_file({k: v.to(torch.bfloat16) for k, v in weights.items()}, folder / "model.safetensors")
    (folder / "golden.json").write_text(json.dumps({
        "prompts": prompts, "first": firsts, "labels": 0, "dim": DIM, "torch": torch.__version__}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["JinaBertForMaskedLM"], "model_type": "bert", "vocab_size": VOCAB,
        "hidden_size": DIM, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "max_position_embeddings": 160, "type_vocab_size": 2,
        "hidden_act": "gelu", "layer_norm_eps": EPS, "position_embedding_type": "alibi",
        "feed_forward_type": "geglu", "emb_pooler": "mean", "pad_token_id": 0}, indent=2))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
