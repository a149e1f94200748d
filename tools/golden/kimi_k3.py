#!/usr/bin/env python3
"""Makes goldens of Kimi K3's shape from its equations, since the transformers library has no such model.

    pip install numpy safetensors torch transformers
    python3 tools/golden/kimi_k3.py OUT_FOLDER [NAME ...]

`kimi_k3` is as published: inside a model that sees, with experts in MXFP4 and rates of decays behind those of
heads; `kimi_k3_text` is the language model alone, where queries go straight, linear halves of activations have no
cap, and what experts give together no norm. Computed in float64 over the weights; the layout is that of
tests/golden/README.md.
"""
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file

import answers
from quantised import mxfp4_pairs

DIM, HEADS, KDA, TAPS, LATENT, PLAIN, EXTRA, V_DIM, VOCAB = 32, 4, 8, 4, 16, 16, 8, 16, 128
EXPERTS, USED, HIDDEN, ROUTED, SHARED, SCALE = 6, 2, 32, 32, 2, 1.5
EPS, LATENT_EPS, UNIT_EPS, LEAST, BETA = 1e-5, 1e-6, 1e-6, -5.0, 1.5
# full attention, counted from 1; layers of a block; width that queries go through; the cap of linear halves
VARIANTS = {
    "kimi_k3": dict(full=(3, 5), layers=5, block=2, q_latent=24, linear_beta=2.5, norm=True, wrapped=True, seed=1),
    "kimi_k3_text": dict(full=(2,), layers=3, block=3, q_latent=None, linear_beta=None, norm=False, wrapped=False,
                         seed=2),
}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x: np.ndarray, w: np.ndarray | float = 1.0, eps: float = EPS) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


class Model:
    def __init__(self, name: str):
        self.how = VARIANTS[name]
        rng = np.random.default_rng(self.how["seed"])
        self.stored, self.w = {}, {}
        for key, shape in self.shapes().items():
            value = rng.standard_normal(shape) * 0.15 + key.endswith("norm.weight")
            self.put(key, value.astype(np.float32))
        self.prompts = [[int(t) for t in rng.integers(3, VOCAB, n)] for n in (7, 50, 96)]

    def put(self, key: str, value: np.ndarray) -> None:
        if self.how["wrapped"] and ".experts." in key:
            packed, value = mxfp4_pairs(value)
            self.stored |= {key.removesuffix(".weight") + end: t.contiguous() for end, t in packed.items()}
        elif key.endswith(("A_log", "dt_bias", "correction_bias")):
            self.stored[key] = torch.tensor(value)
        else:
            self.stored[key] = torch.tensor(value).to(torch.bfloat16)
            value = self.stored[key].float().numpy()
        self.w[key] = value.astype(np.float64)

    def is_full(self, i: int) -> bool:
        return i + 1 in self.how["full"]

    def attention_shapes(self, p: str) -> dict[str, tuple]:
        q, rank = HEADS * (PLAIN + EXTRA), self.how["q_latent"]
        through = {"q_a_proj": (rank, DIM), "q_a_layernorm": (rank,), "q_b_proj": (q, rank)}
        sizes = (through if rank else {"q_proj": (q, DIM)}) | {
            "kv_a_proj_with_mqa": (LATENT + EXTRA, DIM), "kv_a_layernorm": (LATENT,),
            "kv_b_proj": (HEADS * (PLAIN + V_DIM), LATENT), "g_proj": (HEADS * V_DIM, DIM),
            "o_proj": (DIM, HEADS * V_DIM)}
        return {f"{p}{key}.weight": shape for key, shape in sizes.items()}

    def recurrent_shapes(self, p: str) -> dict[str, tuple]:
        n, n_rates = HEADS * KDA, KDA if self.how["wrapped"] else HEADS
        sizes = {f"{key}_proj": (n, DIM) for key in "qkvg"} | {f"{key}_conv1d": (n, 1, TAPS) for key in "qkv"} | {
            "f_a_proj": (KDA, DIM), "f_b_proj": (n, KDA), "b_proj": (HEADS, DIM), "o_norm": (KDA,), "o_proj": (DIM, n)}
        return {f"{p}{key}.weight": shape for key, shape in sizes.items()} | {
            p + "A_log": (n_rates,), p + "dt_bias": (n,)}

    def ffn_shapes(self, p: str, i: int) -> dict[str, tuple]:
        def gated(base, n, dim, names=("gate_proj", "up_proj", "down_proj")):
            return {f"{base}{name}.weight": (dim, n) if name == names[2] else (n, dim) for name in names}
        if i == 0:
            return gated(p + "mlp.", HIDDEN + 16, DIM)
        p += "block_sparse_moe."
        sizes = {p + "gate.weight": (EXPERTS, DIM), p + "gate.e_score_correction_bias": (EXPERTS,),
                 p + "routed_expert_down_proj.weight": (ROUTED, DIM),
                 p + "routed_expert_up_proj.weight": (DIM, ROUTED)}
        if self.how["norm"]:
            sizes[p + "routed_expert_norm.weight"] = (ROUTED,)
        for e in range(EXPERTS):
            sizes |= gated(f"{p}experts.{e}.", HIDDEN, ROUTED, ("w1", "w3", "w2"))
        return sizes | gated(p + "shared_experts.", SHARED * HIDDEN, DIM)

    def shapes(self) -> dict[str, tuple]:
        def scores(base):
            return {base + "_norm.weight": (DIM,), base + "_proj.weight": (1, DIM)}
        sizes = {"model.embed_tokens.weight": (VOCAB, DIM), "model.norm.weight": (DIM,),
                 "lm_head.weight": (VOCAB, DIM)} | scores("model.output_attn_res")
        for i in range(self.how["layers"]):
            p = f"model.layers.{i}."
            of_heads = self.attention_shapes if self.is_full(i) else self.recurrent_shapes
            sizes |= {p + "input_layernorm.weight": (DIM,), p + "post_attention_layernorm.weight": (DIM,)}
            sizes |= scores(p + "self_attention_res") | scores(p + "mlp_res")
            sizes |= of_heads(p + "self_attn.") | self.ffn_shapes(p, i)
        return sizes

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.w[name + ".weight"].T

    def norm(self, x: np.ndarray, name: str, eps: float = EPS) -> np.ndarray:
        return rms(x, self.w[name + ".weight"], eps)

    def mix(self, x: np.ndarray, bank: list[np.ndarray], name: str) -> np.ndarray:
        """x and the streams of blocks before, by a softmax of what a query makes of their norms."""
        streams = np.stack([*bank, x], 1)
        query = self.w[name + "_norm.weight"] * self.w[name + "_proj.weight"][0]
        return np.einsum("nk,nkd->nd", softmax(rms(streams) @ query), streams)

    def attention(self, h: np.ndarray, p: str) -> np.ndarray:
        n = len(h)
        if self.how["q_latent"]:
            q = self.linear(self.norm(self.linear(h, p + "q_a_proj"), p + "q_a_layernorm", LATENT_EPS), p + "q_b_proj")
        else:
            q = self.linear(h, p + "q_proj")
        latent, extra = np.split(self.linear(h, p + "kv_a_proj_with_mqa"), [LATENT], -1)
        kv = self.linear(self.norm(latent, p + "kv_a_layernorm", LATENT_EPS), p + "kv_b_proj")
        k, v = np.split(kv.reshape(n, HEADS, -1), [PLAIN], -1)
        k = np.concatenate([k, np.repeat(extra[:, None], HEADS, 1)], -1)
        s = np.einsum("ihd,jhd->hij", q.reshape(n, HEADS, -1), k) / np.sqrt(PLAIN + EXTRA)
        s = softmax(np.where(np.tri(n, dtype=bool), s, -np.inf))
        out = np.einsum("hij,jhd->ihd", s, v).reshape(n, -1)
        return self.linear(out * sigmoid(self.linear(h, p + "g_proj")), p + "o_proj")

    def convolve(self, h: np.ndarray, p: str, key: str) -> np.ndarray:
        x = self.linear(h, f"{p}{key}_proj")
        taps, n = self.w[f"{p}{key}_conv1d.weight"][:, 0], len(x)
        padded = np.concatenate([np.zeros((TAPS - 1, x.shape[1])), x])
        y = sum(padded[j:j + n] * taps[:, j] for j in range(TAPS))
        return (y * sigmoid(y)).reshape(n, HEADS, KDA)

    def recurrent(self, h: np.ndarray, p: str) -> np.ndarray:
        q, k, v = (self.convolve(h, p, key) for key in "qkv")
        q, k = (t / np.sqrt((t * t).sum(-1, keepdims=True) + UNIT_EPS) for t in (q, k))
        decay = self.linear(self.linear(h, p + "f_a_proj"), p + "f_b_proj") + self.w[p + "dt_bias"]
        rates = np.exp(self.w[p + "A_log"][:HEADS])[:, None]
        keep = np.exp(LEAST * sigmoid(rates * decay.reshape(-1, HEADS, KDA)))
        beta = sigmoid(self.linear(h, p + "b_proj"))
        state, rows = np.zeros((HEADS, KDA, KDA)), []
        for t in range(len(h)):
            state = state * keep[t][..., None]
            error = beta[t][:, None] * (v[t] - np.einsum("hk,hkv->hv", k[t], state))
            state = state + k[t][..., None] * error[:, None]
            rows.append(np.einsum("hk,hkv->hv", q[t] / np.sqrt(KDA), state))
        gate = self.linear(h, p + "g_proj").reshape(-1, HEADS, KDA)
        out = self.norm(np.stack(rows), p + "o_norm") * sigmoid(gate)
        return self.linear(out.reshape(len(h), -1), p + "o_proj")

    def gated(self, h: np.ndarray, p: str, names=("gate_proj", "up_proj", "down_proj")) -> np.ndarray:
        gate, up = (self.linear(h, p + name) for name in names[:2])
        cap = self.how["linear_beta"]
        up = cap * np.tanh(up / cap) if cap else up
        return self.linear(BETA * np.tanh(gate / BETA) * sigmoid(gate) * up, p + names[2])

    def ffn(self, h: np.ndarray, p: str, i: int) -> np.ndarray:
        if i == 0:
            return self.gated(h, p + "mlp.")
        p += "block_sparse_moe."
        scores = sigmoid(self.linear(h, p + "gate"))
        chosen = np.argsort(-(scores + self.w[p + "gate.e_score_correction_bias"]), -1)[:, :USED]
        weights = np.take_along_axis(scores, chosen, -1)
        weights = SCALE * weights / weights.sum(-1, keepdims=True)
        x, routed = self.linear(h, p + "routed_expert_down_proj"), np.zeros((len(h), ROUTED))
        for e in range(EXPERTS):
            weight = (weights * (chosen == e)).sum(-1, keepdims=True)
            routed += weight * self.gated(x, f"{p}experts.{e}.", ("w1", "w3", "w2"))
        routed = self.norm(routed, p + "routed_expert_norm") if self.how["norm"] else routed
        return self.linear(routed, p + "routed_expert_up_proj") + self.gated(h, p + "shared_experts.")

    def forward(self, ids: list[int]) -> np.ndarray:
        """Logits [len(ids)][VOCAB]."""
        x, bank = self.w["model.embed_tokens.weight"][ids], []
        for i in range(self.how["layers"]):
            p = f"model.layers.{i}."
            h = self.norm(self.mix(x, bank, p + "self_attention_res"), p + "input_layernorm")
            if i % self.how["block"] == 0:
                bank.append(x)
                x = np.zeros_like(x)
            x = x + (self.attention if self.is_full(i) else self.recurrent)(h, p + "self_attn.")
            h = self.norm(self.mix(x, bank, p + "mlp_res"), p + "post_attention_layernorm")
            x = x + self.ffn(h, p, i)
        return self.linear(self.norm(self.mix(x, bank, "model.output_attn_res"), "model.norm"), "lm_head")

    def config(self) -> dict:
        how, n = self.how, self.how["layers"]
        text = {
            "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "hidden_size": DIM,
            "intermediate_size": HIDDEN + 16, "num_hidden_layers": n, "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS, "vocab_size": VOCAB, "rms_norm_eps": EPS, "hidden_act": "situ",
            "activation_situ_beta": BETA, "activation_situ_linear_beta": how["linear_beta"],
            "attn_res_block_size": how["block"], "q_lora_rank": how["q_latent"], "kv_lora_rank": LATENT,
            "qk_nope_head_dim": PLAIN, "qk_rope_head_dim": EXTRA, "v_head_dim": V_DIM, "mla_use_nope": True,
            "mla_use_output_gate": True, "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_experts": EXPERTS,
            "num_experts_per_token": USED, "num_shared_experts": SHARED, "moe_intermediate_size": HIDDEN,
            "moe_renormalize": True, "moe_router_activation_func": "sigmoid", "routed_scaling_factor": SCALE,
            "routed_expert_hidden_size": ROUTED, "latent_moe_use_norm": how["norm"], "topk_method": "noaux_tc",
            "use_grouped_topk": True, "num_expert_group": 1, "topk_group": 1,
            "linear_attn_config": {
                "full_attn_layers": list(how["full"]), "kda_layers": [i + 1 for i in range(n) if not self.is_full(i)],
                "head_dim": KDA, "num_heads": HEADS, "short_conv_kernel_size": TAPS, "gate_lower_bound": LEAST,
                "use_full_rank_gate": True},
            "max_position_embeddings": 1024, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
            "tie_word_embeddings": False}
        if not how["wrapped"]:
            return text
        return {"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", "text_config": text,
                "quantization_config": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}}


def make(name: str, out: pathlib.Path) -> None:
    model = Model(name)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    prefix = "language_model." if model.how["wrapped"] else ""
    save_file({prefix + key: t for key, t in model.stored.items()}, folder / "model.safetensors")
    answers.save(folder, "kimi_k3", model.config(), model.prompts, model.forward)


if __name__ == "__main__":
    for each in sys.argv[2:] or VARIANTS:
        make(each, pathlib.Path(sys.argv[1]))
