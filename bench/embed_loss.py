#!/usr/bin/env python3
"""What `--precision fast` costs vectors of texts on the CPU: sentences of this repository's docs,
embedded by linnet serve in both precisions, and each sentence as a query for all others.

    python3 bench/embed_loss.py build/linnet FOLDER [OPTION OF linnet serve ...]
"""
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

import numpy as np

PORT, BATCH, NEAREST = 18479, 64, 10


def read_texts() -> list:
    texts = {}
    for path in sorted((pathlib.Path(__file__).parent.parent / "docs").rglob("*.md")):
        for paragraph in re.split(r"\n\s*\n", path.read_text()):
            if re.match(r"\s*(#|\||<|```|    )", paragraph):
                continue
            for text in re.split(r"(?<=[.:])\s+", " ".join(paragraph.split())):
                if 6 <= len(text.split()) <= 80:
                    texts[text] = None
    return list(texts)


def embed(linnet: str, folder: str, precision: str, texts: list, options: list) -> np.ndarray:
    server = subprocess.Popen([linnet, "serve", folder, "--port", str(PORT), "--max-seqs",
                               str(BATCH), "--precision", precision, *options],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url, kind = f"http://127.0.0.1:{PORT}", {"content-type": "application/json"}
    while server.poll() is None:
        try:
            urllib.request.urlopen(url + "/ready")
            break
        except OSError:
            time.sleep(0.2)
    rows = []
    for i in range(0, len(texts), BATCH):
        body = json.dumps({"input": texts[i:i + BATCH]}).encode()
        request = urllib.request.Request(url + "/v1/embeddings", body, kind)
        data = json.load(urllib.request.urlopen(request))["data"]
        rows += [each["embedding"] for each in data]
    server.terminate()
    server.wait()
    vectors = np.array(rows)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main(linnet: str, folder: str, options: list) -> None:
    texts = read_texts()
    exact, fast = (embed(linnet, folder, name, texts, options) for name in ("exact", "fast"))
    cosines = (exact * fast).sum(1)
    print(f"{len(texts)} texts")
    print(f"relative error of vectors: {np.linalg.norm(exact - fast) / np.linalg.norm(exact):.1e}")
    print(f"cosine of a text's two vectors: median {np.median(cosines):.6f}, "
          f"least {cosines.min():.6f}")
    of_exact, of_fast = exact @ exact.T, fast @ fast.T
    off = np.abs(of_exact - of_fast)
    print(f"scores of pairs differ by: median {np.median(off):.1e}, most {off.max():.1e}")
    for scores in (of_exact, of_fast):
        np.fill_diagonal(scores, -2)
    best, found = of_exact.argmax(1), of_fast.argmax(1)
    rows = np.arange(len(texts))
    gaps = of_exact[rows, best] - of_exact[rows, found]
    print(f"the nearest text is the same for {(best == found).mean():.2%} of all; "
          f"where not, it scores less by at most {gaps.max():.1e}")
    first, second = (np.argsort(-scores, 1)[:, :NEAREST] for scores in (of_exact, of_fast))
    shared = np.mean([len(set(a) & set(b)) for a, b in zip(first, second)]) / NEAREST
    print(f"of the nearest {NEAREST}, {shared:.2%} are the same, and for "
          f"{(first == second).all(1).mean():.2%} of all texts in the same order")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
