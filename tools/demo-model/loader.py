"""Reads a GGUF file back with the gguf package, as an independent check of what export.py wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from jinja2 import Environment
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from model import Config, Model
from tokenizer import QWEN2

CONTROL = 3


@dataclass
class Demo:
    """The model with its dequantised weights in float32, the tokenizer and the chat template."""

    model: Model
    tokenizer: Tokenizer
    template: str
    bos: int
    eos: int

    def text_ids(self, text: str) -> list[int]:
        return [self.bos] + self.tokenizer.encode(text).ids

    def chat_ids(self, messages: list[dict[str, str]]) -> list[int]:
        return self.text_ids(
            Environment().from_string(self.template).render(messages=messages, add_generation_prompt=True)
        )


def load(path: Path) -> Demo:
    reader = GGUFReader(path)
    field = lambda key: reader.fields[key].contents()
    if (field("general.architecture"), field("tokenizer.ggml.model"), field("tokenizer.ggml.pre")) != (
        "llama",
        "gpt2",
        "qwen2",
    ):
        raise ValueError(f"{path} is not a demo model")
    config = Config(
        vocabulary=field("llama.vocab_size"),
        context=field("llama.context_length"),
        layers=field("llama.block_count"),
        width=field("llama.embedding_length"),
        ffn=field("llama.feed_forward_length"),
        heads=field("llama.attention.head_count"),
        kv_heads=field("llama.attention.head_count_kv"),
        rope_base=field("llama.rope.freq_base"),
        norm_epsilon=field("llama.attention.layer_norm_rms_epsilon"),
    )
    model = Model(config).eval()
    model.load_state_dict({t.name: torch.from_numpy(dequantize(t.data, t.tensor_type).copy()) for t in reader.tensors})
    tokenizer = build_tokenizer(
        field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type"), field("tokenizer.ggml.merges")
    )
    return Demo(
        model,
        tokenizer,
        field("tokenizer.chat_template"),
        field("tokenizer.ggml.bos_token_id"),
        field("tokenizer.ggml.eos_token_id"),
    )


def build_tokenizer(tokens: list[str], types: list[int], merges: list[str]) -> Tokenizer:
    """The tokenizer that the metadata describe: byte-level BPE behind the qwen2 pre-tokeniser."""
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, types) if kind == CONTROL]
    )
    return tokenizer
