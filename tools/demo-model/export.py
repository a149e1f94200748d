"""Turns a checkpoint and its tokenizer into a GGUF file.

python export.py --build build/ --out ../../models/demo.gguf
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

import gguf_file as gguf
from model import Config
from tokenizer import BOS, EOS, SPECIAL

NORMAL, CONTROL = 1, 3  # tokenizer.ggml.token_type
FILE_TYPE_Q8_0 = 7
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def add_general(writer: gguf.Writer, parameters: int) -> None:
    for key, text in {
        "architecture": "llama",
        "type": "model",
        "name": "linnet demo",
        "basename": "linnet-demo",
        "size_label": f"{parameters / 1e6:.1f}M",
        "license": "mit",
        "description": "A very small chat and story model that ships with linnet, "
        "trained on Shakespeare's plays and on generated texts.",
    }.items():
        writer.add("general." + key, gguf.STRING, text)
    writer.add("general.file_type", gguf.U32, FILE_TYPE_Q8_0)
    writer.add("general.quantization_version", gguf.U32, 2)
    writer.add_array("general.languages", gguf.STRING, ["en"])


def add_hyperparameters(writer: gguf.Writer, config: Config) -> None:
    for key, number in {
        "vocab_size": config.vocabulary,
        "context_length": config.context,
        "embedding_length": config.width,
        "block_count": config.layers,
        "feed_forward_length": config.ffn,
        "rope.dimension_count": config.head_size,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads,
    }.items():
        writer.add("llama." + key, gguf.U32, number)
    writer.add("llama.attention.layer_norm_rms_epsilon", gguf.F32, config.norm_epsilon)
    writer.add("llama.rope.freq_base", gguf.F32, config.rope_base)


def add_tokenizer(writer: gguf.Writer, path: Path) -> None:
    bpe = json.loads(path.read_text())["model"]
    tokens = sorted(bpe["vocab"], key=bpe["vocab"].get)
    writer.add("tokenizer.ggml.model", gguf.STRING, "gpt2")
    writer.add("tokenizer.ggml.pre", gguf.STRING, "qwen2")
    writer.add_array("tokenizer.ggml.tokens", gguf.STRING, tokens)
    writer.add_array("tokenizer.ggml.token_type", gguf.I32, [CONTROL if t in SPECIAL else NORMAL for t in tokens])
    writer.add_array("tokenizer.ggml.merges", gguf.STRING, [" ".join(pair) for pair in bpe["merges"]])
    writer.add("tokenizer.ggml.bos_token_id", gguf.U32, BOS)
    writer.add("tokenizer.ggml.eos_token_id", gguf.U32, EOS)
    writer.add("tokenizer.ggml.padding_token_id", gguf.U32, BOS)
    writer.add("tokenizer.ggml.add_bos_token", gguf.BOOL, True)
    writer.add("tokenizer.ggml.add_eos_token", gguf.BOOL, False)
    writer.add("tokenizer.chat_template", gguf.STRING, CHAT_TEMPLATE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="the folder that train.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    checkpoint = torch.load(args.build / "checkpoint.pt", map_location="cpu")
    weights = checkpoint["weights"]
    writer = gguf.Writer()
    add_general(writer, sum(w.numel() for w in weights.values()))
    add_hyperparameters(writer, Config(**checkpoint["config"]))
    add_tokenizer(writer, args.build / "tokenizer.json")
    for name, tensor in weights.items():
        writer.add_tensor(name, tensor.float().numpy())
    writer.write(args.out)
    print(f"{args.out}: {args.out.stat().st_size:,} bytes, {len(weights)} tensors")


if __name__ == "__main__":
    main()
