#!/usr/bin/env python3
"""Compares what llama.cpp makes of files that `linnet convert` writes with what linnet makes of their
folders: for each golden the relative error of logits, and how often the best token is the same.

    pip install numpy
    python3 tools/golden/llama_cpp.py LINNET LLAMA_LOGITS [NAME ...]

LLAMA_LOGITS is llama_logits.c, built with llama.cpp. Matrices are written as F32.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

MODELS = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "models"


def run(*command: object) -> str:
    """What went wrong, in a line, or nothing."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if line.strip(".")]
    return "" if done.returncode == 0 else (lines or [f"status {done.returncode}"])[0]


def compare(linnet: str, llama: str, name: str, scratch: pathlib.Path) -> str:
    golden = json.loads((MODELS / name / "golden.json").read_text())
    if golden.get("encoder_decoder"):
        return "skipped: it has an encoder"
    ids = golden["prompts"][2]
    text = ",".join(map(str, ids))
    file, ours, theirs = (scratch / part for part in ("model.gguf", "ours", "theirs"))
    why = run(linnet, "convert", MODELS / name, file, "--no-tokenizer", "--type", "f32")
    if why:
        return "not written: " + why.rpartition(": ")[2]
    why = run(linnet, "logits", MODELS / name, "--ids", text, "--out", ours, "--precision", "exact")
    why = why or run(llama, file, text, theirs)
    if why:
        return "not read: " + why
    a, b = (np.fromfile(path, "<f4").reshape(len(ids), -1) for path in (ours, theirs))
    if a.shape != b.shape:
        return f"not alike: {a.shape[1]} and {b.shape[1]} logits"
    error = np.linalg.norm(a - b) / np.linalg.norm(a)
    return f"{error:.1e}, the same best token of {(a.argmax(1) == b.argmax(1)).mean():.0%}"


def main() -> None:
    linnet, llama, *names = sys.argv[1:]
    for name in names or sorted(path.name for path in MODELS.iterdir()):
        with tempfile.TemporaryDirectory() as scratch:
            print(f"{name}: {compare(linnet, llama, name, pathlib.Path(scratch))}", flush=True)


if __name__ == "__main__":
    main()
