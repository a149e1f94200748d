"""The demo model: a llama-shaped decoder (RMSNorm, RoPE, grouped-query attention, SwiGLU, tied embeddings).

RoPE turns interleaved pairs (2i, 2i + 1) of each head, which is GGUF's convention for `llama`, so the Q and
K weights go into the file as they are, without the permutation that half-split checkpoints need.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    vocabulary: int = 4096
    context: int = 1024
    layers: int = 8
    width: int = 256
    ffn: int = 768
    heads: int = 8
    kv_heads: int = 4
    rope_base: float = 10000.0
    norm_epsilon: float = 1e-5

    @property
    def head_size(self) -> int:
        return self.width // self.heads


def rope_table(config: Config) -> tuple[Tensor, Tensor]:
    """Cosines and sines, each [context, head_size / 2]."""
    exponents = torch.arange(0, config.head_size, 2, dtype=torch.float64) / config.head_size
    angles = torch.outer(torch.arange(config.context, dtype=torch.float64), config.rope_base**-exponents)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates pairs (2i, 2i + 1) of x [batch, heads, tokens, head_size] by the angle of their position."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).type_as(x)


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width, kv_width = config.width, config.kv_heads * config.head_size
        self.attn_norm = nn.RMSNorm(width, eps=config.norm_epsilon)
        self.attn_q = nn.Linear(width, width, bias=False)
        self.attn_k = nn.Linear(width, kv_width, bias=False)
        self.attn_v = nn.Linear(width, kv_width, bias=False)
        self.attn_output = nn.Linear(width, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width, eps=config.norm_epsilon)
        self.ffn_gate = nn.Linear(width, config.ffn, bias=False)
        self.ffn_up = nn.Linear(width, config.ffn, bias=False)
        self.ffn_down = nn.Linear(config.ffn, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = self.attn_norm(x)
        split = lambda t: t.unflatten(-1, (-1, self.config.head_size)).transpose(1, 2)
        q, k, v = (
            rotate(split(self.attn_q(h)), cos, sin),
            rotate(split(self.attn_k(h)), cos, sin),
            split(self.attn_v(h)),
        )
        groups = self.config.heads // self.config.kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_output(a.transpose(1, 2).flatten(-2))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Model(nn.Module):
    """Parameters carry the names of the GGUF tensors, with `blk.N.` for layer N."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocabulary, config.width)
        self.blk = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output_norm = nn.RMSNorm(config.width, eps=config.norm_epsilon)
        cos, sin = rope_table(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * config.layers) ** 0.5 if residual else 0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """Token ids [batch, tokens] to logits [batch, tokens, vocabulary]; the output layer is the embedding."""
        count = ids.shape[1]
        x = self.token_embd(ids)
        for block in self.blk:
            x = block(x, self.cos[:count], self.sin[:count])
        return F.linear(self.output_norm(x), self.token_embd.weight)


@torch.no_grad()
def generate(
    model: Model, prompts: list[list[int]], count: int, end: int | None, temperature: float = 0.0
) -> list[list[int]]:
    """Continues prompts of any lengths together, greedily or by sampling; stops each at `end`."""
    device = model.token_embd.weight.device
    rows = [list(p) for p in prompts]
    out: list[list[int]] = [[] for _ in prompts]
    open_rows = set(range(len(rows)))
    for _ in range(count):
        active = sorted(open_rows)
        if not active:
            break
        width = max(len(rows[r]) for r in active)
        ids = torch.zeros(len(active), width, dtype=torch.long, device="cpu")
        for i, r in enumerate(active):
            ids[i, : len(rows[r])] = torch.tensor(rows[r], device="cpu")
        last = torch.tensor([len(rows[r]) - 1 for r in active], device=device)
        logits = model(ids.to(device))[torch.arange(len(active), device=device), last].float()
        if temperature > 0:
            chosen = torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]
        else:
            chosen = logits.argmax(-1)
        for r, token in zip(active, chosen.tolist()):
            if token == end or len(rows[r]) + 1 >= model.config.context:
                open_rows.discard(r)
            else:
                rows[r].append(token)
                out[r].append(token)
    return out
