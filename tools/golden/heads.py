#!/usr/bin/env python3
"""Makes tiny checkpoints whose heads predict a token more (multi-token prediction), and what the
heads say: the layer is the Hugging Face implementation's (float32, eager attention), what stands
around it is written here, since transformers leaves heads out.

    pip install torch transformers==5.23.0 safetensors
    python3 tools/golden/heads.py OUT_FOLDER [NAME ...]

Beside what models.py writes, heads.json has `positions`, for each prompt the positions in prompt
and greedy ids at which the head was asked, and `drafts`, the ids that it says there, one after the
other; heads.bin has the logits row of each, float32.

A head reads, at position p, the model's hidden state at p behind its last norm and the embedding of
the token at p + 1, each through a norm of its own, side by side through a matrix; then its layer,
its norm and the output. For the next draft it reads its own state behind its norm.
"""
import json
import pathlib
import sys

import safetensors.torch
import torch
import transformers as hf

import hybrids
import models

N_DRAFTS = 3
N_POSITIONS = 10
SMALL = dict(vocab_size=128, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=48,
             intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512)
MIXTURE = dict(moe_intermediate_size=32, n_routed_experts=4, num_experts_per_tok=2,
               n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1)
EXPERTS = "experts.gate_up_proj"

# config, where folders keep the head's layer, and names: the matrix, norms of token and hidden
# state, the last norm; whether the head has an output of its own
DEEPSEEK = ("eh_proj", "enorm", "hnorm", "shared_head.norm", True)
MIMO = ("input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm", False)
QWEN = ("fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", False)
VARIANTS = {
    "glm4_moe_mtp": (lambda: hf.Glm4MoeConfig(
        **SMALL, **MIXTURE, num_hidden_layers=2, head_dim=16, use_qk_norm=True,
        attention_bias=True), "model.layers.2.", "model.layers.2.", DEEPSEEK),
    "deepseek_v3_mtp": (lambda: hf.DeepseekV3Config(
        **dict(SMALL, num_key_value_heads=4), **MIXTURE, num_hidden_layers=2, kv_lora_rank=16,
        q_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        rope_interleave=True), "model.layers.2.", "model.layers.2.", DEEPSEEK),
    "qwen3_next_mtp": (lambda: hf.Qwen3NextConfig(
        **SMALL, **hybrids.DELTA, **hybrids.EXPERTS, num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"]), "mtp.layers.0.", "mtp.", QWEN),
    "qwen3_5_mtp": (lambda: hf.Qwen3_5TextConfig(
        **dict(SMALL, vocab_size=256), **hybrids.DELTA, num_hidden_layers=2, tie_word_embeddings=True,
        layer_types=["linear_attention", "full_attention"]), "mtp.layers.0.", "mtp.", QWEN),
    # computes what Qwen2 does, and its head has the hidden state first
    "mimo_mtp": (lambda: hf.Qwen2Config(**SMALL, num_hidden_layers=2), "model.mtp_layers.0.",
                 "model.mtp_layers.0.", MIMO),
}


# where the first draw has choices of experts that are nearly equal
SEEDS = {"deepseek_v3_mtp": 1, "glm4_moe_mtp": 1}


class Head(torch.nn.Module):
    """A head of a model, whose layer is like the model's last one."""

    def __init__(self, model, own_output: bool):
        super().__init__()
        layers, dim = model.model.layers, model.config.hidden_size
        norm = type(model.model.norm)
        self.layer = type(layers[-1])(model.config, len(layers) - 1)
        self.input = torch.nn.Linear(2 * dim, dim, bias=False)
        self.token_norm, self.hidden_norm, self.norm = (
            norm(dim, eps=model.config.rms_norm_eps) for _ in range(3))
        self.output = torch.nn.Linear(dim, model.config.vocab_size, bias=False) \
            if own_output else None
        if own_output:
            self.embedding = torch.nn.Embedding(model.config.vocab_size, dim)

    def run(self, model, hidden, tokens):
        """hidden [n][dim], tokens [n] behind them -> states [n][dim], logits [n][vocab]"""
        table = self.embedding if self.output is not None else model.model.embed_tokens
        parts = [self.token_norm(table(tokens)), self.hidden_norm(hidden)]
        x = self.input(torch.cat(parts[::-1] if model.config.model_type == "qwen2" else parts, -1))
        n = len(tokens)
        mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
        places = torch.arange(n)[None]
        out = self.layer(x[None], attention_mask=mask, position_ids=places,
                         position_embeddings=model.model.rotary_emb(x[None], places))
        states = self.norm((out[0] if isinstance(out, tuple) else out)[0])
        return states, (self.output or model.lm_head)(states)


def ask(model, head, ids, position):
    """Drafts and their rows at one position of ids."""
    drafts, rows = [], []
    with torch.no_grad():
        hidden = model.model(torch.tensor([ids[:position + 1]]), use_cache=False)[0][0]
        tokens = torch.tensor(ids[1:position + 2])
        for _ in range(N_DRAFTS):
            states, logits = head.run(model, hidden, tokens)
            rows.append(logits[-1])
            drafts.append(int(logits[-1].argmax()))
            hidden = torch.cat([hidden, states[-1:]])
            tokens = torch.cat([tokens, torch.tensor(drafts[-1:])])
    return drafts, rows


def head_tensors(head, layer_at, at, names):
    fc, token_norm, hidden_norm, norm, has_own = names
    tensors = {at + fc: head.input, at + token_norm: head.token_norm,
               at + hidden_norm: head.hidden_norm, at + norm: head.norm}
    if has_own:
        tensors |= {at + "shared_head.head": head.output, at + "embed_tokens": head.embedding}
    result = {name + ".weight": m.weight for name, m in tensors.items()}
    for name, p in head.layer.state_dict().items():
        if name.endswith(EXPERTS):
            half = p.shape[1] // 2
            for e in range(p.shape[0]):
                stem = f"{layer_at}{name.removesuffix('gate_up_proj')}{e}."
                result[stem + "gate_proj.weight"] = p[e, :half]
                result[stem + "up_proj.weight"] = p[e, half:]
        elif name.endswith("experts.down_proj"):
            for e in range(p.shape[0]):
                stem = f"{layer_at}{name.removesuffix('down_proj')}{e}."
                result[stem + "down_proj.weight"] = p[e]
        else:
            result[layer_at + name] = p
    return {n: t.detach().to(torch.bfloat16).contiguous() for n, t in result.items()}


def make(name: str, out: pathlib.Path) -> None:
    torch.manual_seed(sum(name.encode()) + SEEDS.get(name, 0))
    make_config, layer_at, at, names = VARIANTS[name]
    config = make_config()
    config._attn_implementation = "eager"
    model = hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model = model.float().eval()
    head = Head(model, names[4]).float().eval()
    head.config = model.config
    for each in (model, head):
        models.randomize(each)
        if at == "mtp.":
            hybrids.randomize(each)
    prompts = [torch.randint(3, config.vocab_size, (n,)).tolist() for n in (5, 23, 70)]
    answers = [models.answer(model, p, False) for p in prompts]
    positions, drafts, rows = [], [], []
    for prompt, (greedy, _, _) in zip(prompts, answers):
        positions.append(list(range(len(prompt) - 1, len(prompt) - 1 + N_POSITIONS)))
        asked = [ask(model, head, prompt + greedy, p) for p in positions[-1]]
        drafts.append([a[0] for a in asked])
        rows += [row for a in asked for row in a[1]]
    folder = out / name
    model.to(torch.bfloat16).save_pretrained(folder)
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path) | head_tensors(head, layer_at, at, names)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    said = json.loads((folder / "config.json").read_text())
    if names is MIMO:
        said |= {"model_type": "mimo", "architectures": ["MiMoForCausalLM"]}
    said["mtp_num_hidden_layers" if at == "mtp." else "num_nextn_predict_layers"] = 1
    (folder / "config.json").write_text(json.dumps(said, indent=2) + "\n")
    (folder / "golden.json").write_text(json.dumps({
        "model": name, "family": config.model_type, "encoder_decoder": False,
        "vocab": config.vocab_size, "prompts": prompts, "greedy": [a[0] for a in answers],
        "gaps": [[round(g, 6) for g in a[1]] for a in answers],
        "logits_rows": [len(a[2]) for a in answers],
        "transformers": hf.__version__, "torch": torch.__version__}))
    torch.cat([a[2] for a in answers]).numpy().astype("<f4").tofile(folder / "golden.bin")
    (folder / "heads.json").write_text(json.dumps({"positions": positions, "drafts": drafts}))
    torch.stack(rows).numpy().astype("<f4").tofile(folder / "heads.bin")
    print(name, len(rows), "smallest gap", min(min(a[1]) for a in answers))


if __name__ == "__main__":
    for each in sys.argv[2:] or VARIANTS:
        make(each, pathlib.Path(sys.argv[1]))
