"""Training batches: documents are drawn, encoded and packed into rows without cutting them apart.

Batch number i depends on (seed, i) alone, so the order is the same with any number of worker processes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Iterator

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.utils.data import Dataset

from documents import Document, Documents
from tokenizer import BOS, EOS, START

NO_BOS = 0.25  # share of rows that start without the beginning-of-text token
IGNORED = -100  # the target where there is nothing to learn


def cut(text: str, rng: random.Random) -> tuple[str, str]:
    """Cuts some texts in two, to be encoded apart: a prompt ends where its writer stopped, perhaps
    between characters that the tokenizer would have joined, and the model has to go on from there."""
    roll = rng.random()
    if roll < 0.5:
        return text, ""
    at = rng.randrange(min(len(text), 200))
    if roll < 0.9:  # behind a word or a punctuation mark
        while at < len(text) and not (text[at].isspace() and not text[at - 1].isspace()):
            at += 1
    elif roll < 0.96:  # behind a space
        at = text.find(" ", at) + 1
    return text[:at], text[at:]


@dataclass
class Encoded:
    ids: list[int]
    learned: list[bool]  # which of them the model learns to write


class Encoder:
    """Encodes documents as the chat template and the inference engine do."""

    def __init__(self, tokenizer: Tokenizer, limit: int) -> None:
        self.tokenizer, self.limit = tokenizer, limit
        self.newline = tokenizer.encode("\n").ids

    def encode(self, documents: list[Document], rng: random.Random) -> list[Encoded]:
        texts = []
        for document in documents:
            texts += document.messages_text() if document.messages else cut(document.text, rng)
        pieces = iter([encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)])
        return [self.chat(d, pieces) if d.messages else self.plain(d, pieces) for d in documents]

    def plain(self, document: Document, pieces: Iterator[list[int]]) -> Encoded:
        ids = ([BOS] + next(pieces) + next(pieces) + [EOS] * document.ends)[: self.limit]
        return Encoded(ids, [False] + [True] * (len(ids) - 1))

    def chat(self, document: Document, pieces: Iterator[list[int]]) -> Encoded:
        """Only what the assistant says is learned. Messages past the limit are left out."""
        ids, learned, full = [BOS], [False], False
        for role, _ in document.messages:
            header, content = next(pieces), next(pieces)
            message = [START] + header + content + [EOS] + self.newline
            full = full or len(ids) + len(message) > self.limit
            if full:
                continue
            spoken = role == "assistant"
            ids += message
            learned += [False] * (1 + len(header)) + [spoken] * (len(content) + 1) + [False] * len(self.newline)
        return Encoded(ids, learned)


class Batches(Dataset):
    """`count` batches of inputs and targets, both [rows, context] token ids. The tokenizer comes as JSON."""

    def __init__(self, plays: str, tokenizer: str, rows: int, context: int, count: int, seed: int) -> None:
        self.plays, self.tokenizer = plays, tokenizer
        self.rows, self.width, self.count, self.seed = rows, context + 1, count, seed
        self.documents: Documents | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.documents is None:  # once per worker process
            self.documents = Documents(self.plays)
            self.encoder = Encoder(Tokenizer.from_str(self.tokenizer), self.width)
        rng = random.Random(f"{self.seed}/{index}")
        inputs = np.zeros((self.rows, self.width), dtype=np.int64)
        targets = np.full((self.rows, self.width), IGNORED, dtype=np.int64)
        used = [0] * self.rows
        misses = 0
        while misses < 40:  # documents in a row that fit nowhere: the batch is full
            for document in self.encoder.encode([self.documents.draw(rng) for _ in range(200)], rng):
                # From a random row on, so that documents of every length come first in a row.
                first = rng.randrange(self.rows)
                order = (r % self.rows for r in range(first, first + self.rows))
                row = next((r for r in order if used[r] + len(document.ids) <= self.width), None)
                if row is None:
                    misses += 1
                    continue
                misses = 0
                skip = int(used[row] == 0 and rng.random() < NO_BOS)
                span = slice(used[row], used[row] + len(document.ids) - skip)
                inputs[row, span] = document.ids[skip:]
                targets[row, span] = np.where(document.learned, document.ids, IGNORED)[skip:]
                used[row] = span.stop
        return torch.from_numpy(inputs[:, :-1]), torch.from_numpy(targets[:, 1:])
