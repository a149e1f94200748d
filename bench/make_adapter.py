#!/usr/bin/env python3
"""Writes a LoRA of random numbers, in bf16, for all linears of a model in Llama's form.

    pip install numpy
    python3 bench/make_adapter.py OUT_FOLDER DIM KV_DIM HIDDEN LAYERS RANK
    python3 bench/make_adapter.py adapter 4096 1024 14336 32 16   # Mistral 7B
"""
import json
import pathlib
import struct
import sys

import numpy as np


def main(out: pathlib.Path, dim: int, kv: int, hidden: int, n_layers: int, rank: int) -> None:
    shapes = {"self_attn.q_proj": (dim, dim), "self_attn.k_proj": (kv, dim),
              "self_attn.v_proj": (kv, dim), "self_attn.o_proj": (dim, dim),
              "mlp.gate_proj": (hidden, dim), "mlp.up_proj": (hidden, dim),
              "mlp.down_proj": (dim, hidden)}
    random = np.random.default_rng(0)
    header, parts, at = {}, [], 0
    for layer in range(n_layers):
        for name, (n_out, n_in) in shapes.items():
            for part, shape in (("A", (rank, n_in)), ("B", (n_out, rank))):
                values = random.standard_normal(shape, dtype=np.float32) * 0.01
                parts.append((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
                header[f"base_model.model.model.layers.{layer}.{name}.lora_{part}.weight"] = {
                    "dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(parts[-1])]}
                at += len(parts[-1])
    out.mkdir(parents=True, exist_ok=True)
    (out / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none"}))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(out / "adapter_model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:]))
