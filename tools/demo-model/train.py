"""Trains the demo model from nothing but a seed, a text file and the generators beside this file.

python train.py --text shakespeare.txt --out build/
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import DataLoader

import tokenizer as bpe
from data import IGNORED, Batches
from documents import split_plays
from model import Config, Model

WARMUP = 200  # steps in which the learning rate rises


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Rises to its peak, then falls to zero as a cosine."""
    if step < WARMUP:
        return peak * (step + 1) / WARMUP
    return peak * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / max(1, steps - WARMUP)))


def loss_of(model: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats per learned token; inputs and targets are [rows, context]."""
    with torch.autocast(inputs.device.type, torch.bfloat16):
        logits = model(inputs)
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


@torch.no_grad()
def validate(model: torch.nn.Module, batches: list[tuple[Tensor, Tensor]]) -> float:
    return sum(loss_of(model, *batch).item() for batch in batches) / len(batches)


def plays_batches(text: str, tokenizer: Tokenizer, context: int, device: str) -> list[tuple[Tensor, Tensor]]:
    """The held-out end of the plays as one batch."""
    ids = tokenizer.encode(text).ids
    rows = len(ids) // (context + 1)
    batch = torch.tensor(ids[: rows * (context + 1)], device=device).view(rows, context + 1)
    return [(batch[:, :-1], batch[:, 1:])]


def optimizer_of(model: Model, device: str) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.dim() == 2]
    norms = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=device == "cuda")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="the plays of Shakespeare as plain text")
    parser.add_argument("--out", type=Path, required=True, help="folder for tokenizer, checkpoint and log")
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--rows", type=int, default=128, help="sequences per step")
    parser.add_argument("--rate", type=float, default=3e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--every", type=int, default=500, help="steps between validations")
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    plays, held_out = split_plays(args.text)
    tokenizer = bpe.train(plays, args.seed)
    tokenizer.save(str(args.out / "tokenizer.json"))
    config = Config(vocabulary=tokenizer.get_vocab_size())

    def batches(count: int, seed: int) -> DataLoader:
        data = Batches(plays, tokenizer.to_str(), args.rows, config.context, count, seed)
        return DataLoader(
            data,
            batch_size=None,
            num_workers=args.workers,
            pin_memory=device == "cuda",
            prefetch_factor=4 if args.workers else None,
        )

    unseen = [(inputs.to(device), targets.to(device)) for inputs, targets in batches(2, args.seed + 1)]
    unseen_plays = plays_batches(held_out, tokenizer, config.context, device)
    model = Model(config).to(device)
    optimizer = optimizer_of(model, device)
    step_model = torch.compile(model) if device == "cuda" else model
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {device}", flush=True)

    log, start, losses = [], time.time(), []
    for step, (inputs, targets) in enumerate(batches(args.steps, args.seed)):
        rate = learning_rate(step, args.steps, args.rate)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(step_model, inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        if (step + 1) % args.every == 0 or step + 1 == args.steps:
            row = {
                "step": step + 1, "loss": torch.stack(losses).mean().item(), "unseen": validate(model, unseen),
                "unseen_plays": validate(model, unseen_plays), "seconds": time.time() - start,
            }  # fmt: skip
            losses = []
            log.append(row)
            print(" ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)

    torch.save({"config": asdict(config), "weights": model.state_dict()}, args.out / "checkpoint.pt")
    (args.out / "log.json").write_text(json.dumps(log, indent=1))


if __name__ == "__main__":
    main()
