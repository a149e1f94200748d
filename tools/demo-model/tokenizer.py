"""Trains the tokenizer: byte-level BPE with the `qwen2` pre-tokeniser, which splits digits one by one.

python tokenizer.py --text shakespeare.txt --out tokenizer.json
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Iterator

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from documents import Documents, split_plays

VOCABULARY = 4096
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]  # ids 0, 1, 2
BOS, START, EOS = range(3)
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def sample(plays: str, seed: int, count: int) -> Iterator[str]:
    """Texts of the training mixture, and the plays once."""
    documents, rng = Documents(plays), random.Random(seed)
    yield plays
    for _ in range(count):
        document = documents.draw(rng)
        yield document.text or "\n".join(document.messages_text())


def train(plays: str, seed: int, count: int = 10000) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in SPECIAL],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sample(plays, seed, count), trainer)
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="the plays of Shakespeare as plain text")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    train(split_plays(args.text)[0], args.seed).save(str(args.out))


if __name__ == "__main__":
    main()
