"""The files of a golden that equations gave (tests/golden/README.md), but for its weights."""
import json
import pathlib
from collections.abc import Callable

import numpy as np


def greedy(forward: Callable[[list[int]], np.ndarray], prompt: list[int]) -> tuple[list[int], list[float]]:
    """32 greedy ids and how far each is ahead of the next best. forward: the logits [tokens, vocab] of ids."""
    ids, gaps = list(prompt), []
    for _ in range(32):
        last = forward(ids)[-1]
        second, best = np.sort(last)[-2:]
        gaps.append(round(float(best - second), 6))
        ids.append(int(last.argmax()))
    return ids[len(prompt):], gaps


def save(folder: pathlib.Path, family: str, config: dict, prompts: list[list[int]],
         forward: Callable[[list[int]], np.ndarray]) -> None:
    """Writes config.json, golden.json and golden.bin."""
    answers = [greedy(forward, p) for p in prompts]
    vocab = config.get("text_config", config)["vocab_size"]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "golden.json").write_text(json.dumps({
        "model": folder.name, "family": family, "encoder_decoder": False, "vocab": vocab,
        "prompts": prompts, "greedy": [a[0] for a in answers], "gaps": [a[1] for a in answers],
        "logits_rows": [len(p) for p in prompts]}))
    np.concatenate([forward(p) for p in prompts]).astype("<f4").tofile(folder / "golden.bin")
    print(folder.name, "smallest gap", min(min(a[1]) for a in answers))
