"""Writes a checkpoint in the shape of Qwen3-Embedding-0.6B, with random weights in bf16 and no
tokenizer, and measures what transformers makes of it on a GPU: last hidden states by SDPA, which
takes flash attention, then the last token's vector, normalised.

    python3 tools/shapes/qwen3_embedding.py FOLDER write
    python3 tools/shapes/qwen3_embedding.py FOLDER measure TOKENS TEXTS BATCH [compile]
    build/bench/bench_embeddings FOLDER cuda TOKENS TEXTS SEQS BATCH_TOKENS

Needs torch and transformers.
"""

import sys
import time

import torch
from transformers import AutoModel, Qwen3Config, Qwen3Model

RUNS = 5


def write(folder):
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151669,
        max_position_embeddings=32768,
        rope_theta=1e6,
        rms_norm_eps=1e-6,
        bos_token_id=151643,
        eos_token_id=151643,
        tie_word_embeddings=True,
        architectures=["Qwen3Model"],
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = Qwen3Model(config).to(torch.bfloat16)
    model.cpu().save_pretrained(folder)


@torch.inference_mode()
def measure(folder, n_tokens, n_texts, n_batch, compiles):
    model = AutoModel.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa")
    model = model.cuda().eval()
    if compiles:
        model = torch.compile(model, dynamic=False)
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 151643, (n_texts, n_tokens), generator=random)
    least = None
    for _ in range(RUNS + 1):
        begin = time.perf_counter()
        vectors = []
        for batch in ids.split(n_batch):
            states = model(input_ids=batch.cuda(), use_cache=False).last_hidden_state
            vectors.append(torch.nn.functional.normalize(states[:, -1].float(), dim=-1))
        torch.cat(vectors).cpu()
        seconds = time.perf_counter() - begin
        least = seconds if least is None else min(least, seconds)
    how = "torch, compiled" if compiles else "torch"
    print(
        f"{how}: {n_texts} texts of {n_tokens} tokens by {n_batch}: "
        f"{n_texts / least:.1f} texts/s, {n_texts * n_tokens / least:.0f} tokens/s"
    )


if __name__ == "__main__":
    if sys.argv[2] == "write":
        write(sys.argv[1])
    else:
        measure(sys.argv[1], *map(int, sys.argv[3:6]), compiles="compile" in sys.argv[6:])
