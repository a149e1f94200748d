#!/usr/bin/env python3
"""Makes goldens of models that the transformers library does not have and that are not of llama's
names, from their equations: CodeShell, Jais, OpenELM, PLM and PLaMo 3.

    pip install numpy safetensors
    python3 tools/golden/early.py OUT_FOLDER [NAME ...]

Computed in float64 over bf16 weights; the layout is that of tests/golden/README.md.
"""
import math
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

import answers
from baichuan import bf16

DIM, VOCAB, WINDOW = 48, 256, 16
GPT = dict(embed="transformer.wte", last="transformer.ln_f", layer="transformer.h.{}.", norms=("ln_1", "ln_2"),
           qkv="attn.c_attn", out="attn.c_proj", down="mlp.c_proj")
# how a model computes: heads, KV heads and widths of feed-forwards, all layer by layer; a head's
# width; epsilon; the rest by its name
VARIANTS = {
    "codeshell": dict(
        names=GPT | dict(up="mlp.c_fc"), heads=(4, 4), kv=(2, 2), head=12, ffn=(96, 96), eps=1e-5, layer_norm=True,
        bias=True, theta=10000.0, act="gelu_tanh",
        config=dict(
            architectures=["CodeShellForCausalLM"], model_type="kclgpt", n_embd=DIM, n_layer=2, n_head=4, n_inner=96,
            n_positions=512, num_query_groups=2, group_query_attention=True, layer_norm_epsilon=1e-5,
            activation_function="gelu_pytorch_tanh", position_embedding_type="rope", rope_scaling=None,
            scale_attn_weights=True, tie_word_embeddings=False)),
    "plm": dict(
        names=dict(embed="model.embed_tokens", last="model.norm", layer="model.layers.{}.",
                   norms=("input_layernorm", "post_attention_layernorm"), out="self_attn.o_proj", up="mlp.up_proj",
                   down="mlp.down_proj"),
        heads=(4, 4), kv=(4, 4), head=24, ffn=(96, 96), eps=1e-6, theta=100000.0, act="relu2", tied=True, pairs=True,
        latent=16, plain=16, turned=8, v_head=12,
        config=dict(
            architectures=["PLMForCausalLM"], model_type="plm", hidden_size=DIM, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, intermediate_size=96, hidden_act="relu2", rms_norm_eps=1e-6,
            max_position_embeddings=512, rope_theta=100000.0, rope_scaling=None, q_lora_rank=None, kv_lora_rank=16,
            qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12, attention_bias=False, tie_word_embeddings=True)),
    "jais": dict(
        names=GPT | dict(gate="mlp.c_fc2", up="mlp.c_fc"), heads=(4, 4), kv=(4, 4), head=12, ffn=(80, 80), eps=1e-5,
        layer_norm=True, bias=True, transposed=True, by_dim=True, tied=True, embedding_scale=7.0,
        logit_scale=0.6 * 0.25, unused={"transformer.relative_pe.slopes": (4, 1, 1)},
        config=dict(
            architectures=["JAISLMHeadModel"], model_type="jais", n_embd=DIM, n_layer=2, n_head=4, n_inner=80,
            n_positions=512, layer_norm_epsilon=1e-5, activation_function="swiglu", position_embedding_type="alibi",
            mup_embeddings_scale=7.0, mup_output_alpha=0.6, mup_width_scale=0.25, mup_scale_qk_dot_by_d=True,
            scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, reorder_and_upcast_attn=False,
            tie_word_embeddings=True)),
    "openelm": dict(
        names=dict(embed="transformer.token_embeddings", last="transformer.norm", layer="transformer.layers.{}.",
                   norms=("attn_norm", "ffn_norm"), qkv="attn.qkv_proj", out="attn.out_proj", gate_up="ffn.proj_1",
                   down="ffn.proj_2"),
        heads=(4, 6, 8), kv=(2, 2, 4), head=12, ffn=(32, 80, 112), eps=1e-6, theta=10000.0, tied=True, qk_norm=True,
        config=dict(
            architectures=["OpenELMForCausalLM"], model_type="openelm", model_dim=DIM, num_transformer_layers=3,
            head_dim=12, num_query_heads=[4, 6, 8], num_kv_heads=[2, 2, 4], num_gqa_groups=2,
            ffn_multipliers=[0.48, 1.6, 2.4], ffn_dim_divisor=16, ffn_with_glu=True, activation_fn_name="swish",
            normalization_layer_name="rms_norm", normalize_qk_projections=True, share_input_output_layers=True,
            qkv_multipliers=[0.5, 1.0], max_context_length=512, rope_freq_constant=10000, rope_max_length=1024)),
    "plamo3": dict(
        names=dict(embed="model.embed_tokens", last="model.norm", layer="model.layers.layers.{}.",
                   norms=("pre_mixer_norm", "pre_mlp_norm", "post_mixer_norm", "post_mlp_norm"), qkv="mixer.qkv_proj",
                   out="mixer.o_proj", gate_up="mlp.gate_up_proj", down="mlp.down_proj"),
        heads=(4, 4, 4), kv=(2, 2, 2), head=16, ffn=(80, 80, 80), eps=1e-6, theta=1000000.0, local_theta=10000.0,
        qk_norm=True, tied=True, windows=(True, False, True), offsets=(1, 1, 1 / 5, 5 ** -1.5),
        config=dict(
            architectures=["Plamo3ForCausalLM"], model_type="plamo3", hidden_size=DIM, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=80, hidden_act="silu",
            rms_norm_eps=1e-6, max_position_embeddings=512, rope_theta=1000000, rope_local_theta=10000,
            window_size=WINDOW, sliding_window_pattern=2, tie_word_embeddings=True)),
}
# no two ids are nearly equal
SEED = 5


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


class Model:
    def __init__(self, name: str):
        self.how = VARIANTS[name]
        self.names = self.how["names"]
        self.n_layers = len(self.how["heads"])
        rng = np.random.default_rng(self.how.get("seed", SEED))
        self.stored = {key: bf16(rng.standard_normal(s) * 0.2 + self.centre(key)) for key, s in self.shapes().items()}
        self.w = {key: t.astype(np.float64) for key, t in self.stored.items()}
        self.prompts = [[int(t) for t in rng.integers(3, VOCAB, n)] for n in (5, 23, 70)]

    def is_norm(self, key: str) -> bool:
        return key.endswith(".weight") and ("norm" in key or ".ln_" in key)

    def centre(self, key: str) -> float:
        """What weights are noise around: norms, one."""
        return 1.0 if self.is_norm(key) and "offsets" not in self.how else 0.0

    def attention_shapes(self, p: str, i: int) -> dict[str, tuple]:
        how, width = self.how, self.how["head"]
        q, kv = how["heads"][i] * width, how["kv"][i] * width
        if "latent" not in how:
            sizes = {p + self.names["qkv"]: (q + 2 * kv, DIM), p + self.names["out"]: (DIM, q)}
            if how.get("qk_norm"):
                sizes |= {p + self.names["qkv"].rpartition(".")[0] + f".{key}_norm": (width,) for key in "qk"}
            return sizes
        p, out = p + "self_attn.", p + self.names["out"]
        return {p + "q_proj": (q, DIM), p + "kv_a_proj_with_mqa": (how["latent"] + how["turned"], DIM),
                p + "kv_a_layernorm": (how["latent"],),
                p + "kv_b_proj": (how["heads"][i] * (how["plain"] + how["v_head"]), how["latent"]),
                out: (DIM, how["heads"][i] * how["v_head"])}

    def shapes(self) -> dict[str, tuple]:
        how, names = self.how, self.names
        sizes = {names["embed"]: (VOCAB, DIM), names["last"]: (DIM,)}
        if not how.get("tied"):
            sizes["lm_head"] = (VOCAB, DIM)
        for i in range(self.n_layers):
            p, n = names["layer"].format(i), how["ffn"][i]
            sizes |= {p + key: (DIM,) for key in names["norms"]} | self.attention_shapes(p, i)
            if "gate_up" in names:
                sizes[p + names["gate_up"]] = (2 * n, DIM)
            sizes |= {p + names[key]: (n, DIM) for key in ("gate", "up") if key in names}
            sizes[p + names["down"]] = (DIM, n)
        biases = {key + ".bias": s[:1] for key, s in sizes.items()
                  if how.get("bias") and key not in (names["embed"], "lm_head")}
        sizes = {key + ".weight": s[::-1] if how.get("transposed") and key not in (names["embed"], "lm_head") else s
                 for key, s in sizes.items()}
        return sizes | biases | how.get("unused", {})

    def norm(self, x: np.ndarray, name: str, offset: float = 0) -> np.ndarray:
        if self.how.get("layer_norm"):
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.how["eps"])
        return x * (self.w[name + ".weight"] + offset) + self.w.get(name + ".bias", 0)

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        w = self.w[name + ".weight"]
        return x @ (w if self.how.get("transposed") else w.T) + self.w.get(name + ".bias", 0)

    def turn(self, x: np.ndarray, theta: float) -> np.ndarray:
        """Rotates heads [heads][n][width]: halves, or pairs side by side."""
        n = x.shape[-1]
        angles = np.arange(x.shape[1])[:, None] / theta ** (np.arange(0, n, 2) / n)
        cos, sin, out = np.cos(angles), np.sin(angles), x.copy()
        first, second = (slice(0, n, 2), slice(1, n, 2)) if self.how.get("pairs") else \
            (slice(0, n // 2), slice(n // 2, n))
        a, b = x[..., first], x[..., second]
        out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
        return out

    def latent_heads(self, h: np.ndarray, p: str, i: int) -> tuple:
        """q, k and v [heads][n][..], through latents; the first dimensions do not rotate."""
        how, n, p = self.how, len(h), p + "self_attn."
        q = self.linear(h, p + "q_proj").reshape(n, how["heads"][i], -1).transpose(1, 0, 2)
        latent, key = np.split(self.linear(h, p + "kv_a_proj_with_mqa"), [how["latent"]], -1)
        kv = self.linear(self.norm(latent, p + "kv_a_layernorm"), p + "kv_b_proj")
        k, v = np.split(kv.reshape(n, how["heads"][i], -1).transpose(1, 0, 2), [how["plain"]], -1)
        key = np.repeat(self.turn(key[None], how["theta"]), how["heads"][i], 0)
        q = np.concatenate([q[..., :how["plain"]], self.turn(q[..., how["plain"]:], how["theta"])], -1)
        return q, np.concatenate([k, key], -1), v

    def heads(self, h: np.ndarray, p: str, i: int) -> tuple:
        how, n, width = self.how, len(h), self.how["head"]
        q, kv = how["heads"][i] * width, how["kv"][i] * width
        parts = np.split(self.linear(h, p + self.names["qkv"]), [q, q + kv], -1)
        q, k, v = (t.reshape(n, -1, width).transpose(1, 0, 2) for t in parts)
        if how.get("qk_norm"):
            base, one = p + self.names["qkv"].rpartition(".")[0], float("offsets" in how)
            q, k = self.norm(q, base + ".q_norm", one), self.norm(k, base + ".k_norm", one)
        if "theta" in how:
            theta = how["local_theta"] if self.window(i) and "local_theta" in how else how["theta"]
            q, k = self.turn(q, theta), self.turn(k, theta)
        return (q, *(np.repeat(t, how["heads"][i] // len(t), axis=0) for t in (k, v)))

    def window(self, i: int) -> bool:
        return self.how.get("windows", (False,) * self.n_layers)[i]

    def attention(self, h: np.ndarray, p: str, i: int) -> np.ndarray:
        n, how = len(h), self.how
        q, k, v = (self.latent_heads if "latent" in how else self.heads)(h, p, i)
        behind = np.arange(n)[:, None] - np.arange(n)[None, :]
        hidden = (behind < 0) | (behind >= (WINDOW if self.window(i) else n))
        s = q @ k.transpose(0, 2, 1) / (how["head"] if how.get("by_dim") else math.sqrt(how["head"]))
        if "theta" not in how:
            slopes = 2.0 ** (-8 * np.arange(1, len(q) + 1) / len(q))
            s = s - slopes[:, None, None] * behind
        out = softmax(np.where(hidden, -np.inf, s)) @ v
        return self.linear(out.transpose(1, 0, 2).reshape(n, -1), p + self.names["out"])

    def ffn(self, h: np.ndarray, p: str, i: int) -> np.ndarray:
        names, act = self.names, self.how.get("act")
        if "gate_up" in names:
            gate, up = np.split(self.linear(h, p + names["gate_up"]), 2, -1)
            h = silu(gate) * up
        elif "gate" in names:
            h = silu(self.linear(h, p + names["gate"])) * self.linear(h, p + names["up"])
        else:
            h = self.linear(h, p + names["up"])
            h = np.maximum(h, 0) ** 2 if act == "relu2" else \
                h * (0.5 + 0.5 * np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h ** 3)))
        return self.linear(h, p + names["down"])

    def forward(self, ids: list[int]) -> np.ndarray:
        """Logits [len(ids)][VOCAB]."""
        names, offsets = self.names, self.how.get("offsets", (0, 0, 0, 0, 0))
        x = self.w[names["embed"] + ".weight"][ids] * self.how.get("embedding_scale", 1)
        for i in range(self.n_layers):
            p = names["layer"].format(i)
            norms = [(p + name, offset) for name, offset in zip(names["norms"], offsets)]
            h = self.attention(self.norm(x, *norms[0]), p, i)
            x = x + (self.norm(h, *norms[2]) if len(norms) > 2 else h)
            h = self.ffn(self.norm(x, *norms[1]), p, i)
            x = x + (self.norm(h, *norms[3]) if len(norms) > 2 else h)
        x = self.norm(x, names["last"], offsets[0])
        output = names["embed"] if self.how.get("tied") else "lm_head"
        return x @ self.w[output + ".weight"].T * self.how.get("logit_scale", 1)


def make(name: str, out: pathlib.Path) -> None:
    model = Model(name)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model.stored, folder / "model.safetensors")
    config = model.how["config"] | {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    answers.save(folder, name, config, model.prompts, model.forward)


if __name__ == "__main__":
    for each in sys.argv[2:] or VARIANTS:
        make(each, pathlib.Path(sys.argv[1]))
