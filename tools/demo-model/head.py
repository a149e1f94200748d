"""Trains a head for multi-token prediction beside the finished demo model and writes both into one file.

python head.py --model ../../models/demo.gguf --text shakespeare.txt --out demo-mtp.gguf

The model stays as it is. At position p the head reads the model's hidden state behind its last norm and the
embedding of the token at p + 1, each through a norm of its own, side by side through a matrix; then a layer
of attention alone, a norm, and the model's output. It learns what the model itself says at p + 1; for the
next draft it reads its own state. In GGUF it is a layer behind the last one.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from gguf import GGUFReader, GGUFValueType
from torch import Tensor, nn
from torch.utils.data import DataLoader

import gguf_file as gguf
from data import Batches
from documents import split_plays
from loader import Demo, load
from model import Config, Model, rotate

WARMUP = 0.05  # share of the time in which the learning rate rises
DRAFTS = 3  # so many steps of the head are trained


class Head(nn.Module):
    """Parameters carry the names of the GGUF tensors behind `blk.N.`."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width, kv_width = config.width, config.kv_heads * config.head_size
        norm = lambda: nn.RMSNorm(width, eps=config.norm_epsilon)
        self.nextn = nn.ModuleDict({
            "eh_proj": nn.Linear(2 * width, width, bias=False), "enorm": norm(), "hnorm": norm(),
            "shared_head_norm": norm(),
        })  # fmt: skip
        self.attn_norm = norm()
        self.attn_q = nn.Linear(width, width, bias=False)
        self.attn_k = nn.Linear(width, kv_width, bias=False)
        self.attn_v = nn.Linear(width, kv_width, bias=False)
        self.attn_output = nn.Linear(width, width, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
        nn.init.zeros_(self.attn_output.weight)
        eye = torch.eye(width)
        with torch.no_grad():
            self.nextn["eh_proj"].weight.copy_(0.5 * torch.cat((eye, eye), dim=1))

    def forward(self, embedded: Tensor, hidden: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """States behind the norm, [batch, tokens, width]."""
        parts = (self.nextn["enorm"](embedded), self.nextn["hnorm"](hidden))
        x = self.nextn["eh_proj"](torch.cat(parts, dim=-1))
        h = self.attn_norm(x)
        split = lambda t: t.unflatten(-1, (-1, self.config.head_size)).transpose(1, 2)
        q, k = rotate(split(self.attn_q(h)), cos, sin), rotate(split(self.attn_k(h)), cos, sin)
        groups = self.config.heads // self.config.kv_heads
        k, v = k.repeat_interleave(groups, dim=1), split(self.attn_v(h)).repeat_interleave(groups, dim=1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.nextn["shared_head_norm"](x + self.attn_output(a.transpose(1, 2).flatten(-2)))


@torch.no_grad()
def hidden_of(model: Model, ids: Tensor) -> Tensor:
    """The model's hidden states behind its last norm."""
    count = ids.shape[1]
    x = model.token_embd(ids)
    for block in model.blk:
        x = block(x, model.cos[:count], model.sin[:count])
    return model.output_norm(x)


def losses_of(model: Model, head: Head, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The loss, and for each draft the share that the model itself would say."""
    hidden = hidden_of(model, ids)
    said = F.linear(hidden, model.token_embd.weight).argmax(-1)  # said[p]: the token behind p
    loss, hits = torch.zeros((), device=ids.device), []
    states = hidden
    for draft in range(1, DRAFTS + 1):
        # Row p has the state of p - draft + 1 drafts ago and the token at p + 1; it learns said[p + 1].
        count = ids.shape[1] - draft
        embedded = model.token_embd(ids[:, draft:])
        states = head(embedded, states[:, :count], model.cos[draft - 1 : draft - 1 + count],
                      model.sin[draft - 1 : draft - 1 + count])  # fmt: skip
        logits = F.linear(states, model.token_embd.weight)
        wanted = said[:, draft:]
        loss = loss + F.cross_entropy(logits.float().flatten(0, 1), wanted.flatten()) / draft
        hits.append((logits.argmax(-1) == wanted).float().mean())
    return loss, hits


def copy_field(writer: gguf.Writer, field) -> None:
    """A key of the model's file, as it is."""
    item = field.contents()
    if field.types[0] == GGUFValueType.ARRAY:
        writer.add_array(field.name, int(field.types[1]), item)
    else:
        writer.add(field.name, int(field.types[0]), item)


def write(model_path: Path, head: Head, out: Path) -> None:
    reader = GGUFReader(model_path)
    layers = reader.fields["llama.block_count"].contents()
    writer = gguf.Writer()
    for field in reader.fields.values():
        if field.name == "llama.block_count":
            writer.add("llama.block_count", gguf.U32, layers + 1)
            writer.add("llama.nextn_predict_layers", gguf.U32, 1)
        elif not field.name.startswith("GGUF."):
            copy_field(writer, field)
    for tensor in reader.tensors:
        writer.tensors.append((tensor.name, tuple(int(n) for n in tensor.shape), int(tensor.tensor_type),
                               tensor.data.tobytes()))  # fmt: skip
    for name, tensor in head.state_dict().items():
        writer.add_tensor(f"blk.{layers}.{name}", tensor.float().cpu().numpy())
    writer.write(out)


def train(demo: Demo, head: Head, args: argparse.Namespace, device: str) -> None:
    model = demo.model.to(device).requires_grad_(False)
    plays, _ = split_plays(args.text)
    data = Batches(plays, demo.tokenizer.to_str(), args.rows, args.context, 1 << 20, args.seed)
    loader = DataLoader(data, batch_size=None, num_workers=args.workers, pin_memory=device == "cuda",
                        prefetch_factor=4 if args.workers else None)  # fmt: skip
    optimizer = torch.optim.AdamW(head.parameters(), betas=(0.9, 0.95), weight_decay=0.01)
    step_losses = torch.compile(losses_of) if device == "cuda" else losses_of
    start, step, recent = time.time(), 0, []
    for inputs, _ in loader:
        done = (time.time() - start) / args.seconds
        if done >= 1:
            break
        rate = args.rate * min(1, done / WARMUP) * 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = max(rate, 1e-6)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss, hits = step_losses(model, head, inputs.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        recent.append(torch.stack([loss.detach(), *hits]))
        if step % args.every == 0:
            row = torch.stack(recent).mean(0).tolist()
            recent = []
            shares = " ".join(f"{share:.4f}" for share in row[1:])
            print(f"step {step} seconds {time.time() - start:.0f} loss {row[0]:.4f} drafts {shares}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="the demo model")
    parser.add_argument("--text", type=Path, required=True, help="the plays of Shakespeare as plain text")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--rows", type=int, default=64, help="sequences per step")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--every", type=int, default=100, help="steps between lines of the log")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    demo = load(args.model)
    head = Head(demo.model.config).to(device)
    print(f"{sum(p.numel() for p in head.parameters()):,} parameters on {device}", flush=True)
    train(demo, head, args, device)
    write(args.model, head, args.out)
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
