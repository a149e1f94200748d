#!/usr/bin/env python3
"""Makes tiny EAGLE-3 heads (Li et al., 2025) for goldens that exist, and what they draft. A head is
a folder as SpecForge, ModelOpt or speculators publish it; attention and feed-forward are llama's of
transformers (float32, eager), what stands around them is written here.

    pip install torch transformers==5.23.0 safetensors gguf
    python3 tools/golden/eagle.py tests/golden/models tests/golden/eagle [NAME ...]

A folder of llama.cpp's has the same head in head.gguf, too. heads.json and heads.bin are as heads.py writes
them; ids are the model's, rows are of the head's
own tokens.

A head reads, at position p, what enters three layers of the model at p, through a matrix, and the
embedding of the token at p + 1. Both go side by side, each behind a norm of its own, into q, k and
v; the residual stream begins with the first. For the next draft it reads its own stream in front of
its last norm.
"""
import json
import pathlib
import sys

import gguf
import safetensors.torch
import torch
import transformers as hf

import models

N_DRAFTS = 3
N_POSITIONS = 6
SMALL = dict(vocab_size=256, hidden_size=48, intermediate_size=56, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=512, num_hidden_layers=1,
             rms_norm_eps=1e-5)
# config, layers that are read (None: the usual ones), tokens, whether the norm stays, whether the
# embedding is its own, who wrote it. llama.cpp's has a norm of what it reads of the model (EAGLE-3.1).
VARIANTS = {
    "gemma3": (dict(SMALL, rope_theta=500000.0), None, 64, False, True, "SpecForge"),
    "qwen3": (dict(SMALL, hidden_size=64), [0, 1, 1], 80, True, False, "speculators"),
    "qwen3_5": (SMALL, [1, 2, 3], 256, False, True, "ModelOpt"),
    "llama": (dict(SMALL, rope_theta=500000.0), [0, 1, 1], 96, False, True, "llama.cpp"),
}


class Head(torch.nn.Module):
    def __init__(self, config, dim, n_taps, n_tokens, has_input_norm):
        super().__init__()
        layer = hf.models.llama.modeling_llama.LlamaDecoderLayer(config, 0)
        norm = hf.models.llama.modeling_llama.LlamaRMSNorm
        own, a = config.hidden_size, layer.self_attn
        for name in ("q_proj", "k_proj", "v_proj"):
            old = getattr(a, name)
            setattr(a, name, torch.nn.Linear(2 * own, old.out_features, bias=False))
        self.fc = torch.nn.Linear(n_taps * dim, own, bias=False)
        self.input_norm = norm(n_taps * dim, config.rms_norm_eps) if has_input_norm else None
        self.midlayer = layer
        self.midlayer.hidden_norm = norm(own, config.rms_norm_eps)
        self.norm = norm(own, config.rms_norm_eps)
        self.lm_head = torch.nn.Linear(own, n_tokens, bias=False)
        self.embed_tokens = torch.nn.Embedding(config.vocab_size, own)

    def run(self, rope, stays, embedding, hidden, tokens):
        """hidden [n][own], tokens [n] behind them -> streams [n][own], logits [n][n_tokens]"""
        layer, n = self.midlayer, len(tokens)
        mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
        places = torch.arange(n)[None]
        normed = layer.hidden_norm(hidden)
        pairs = torch.cat([layer.input_layernorm(embedding(tokens)), normed], -1)[None]
        attended = layer.self_attn(pairs, attention_mask=mask,
                                   position_embeddings=rope(pairs, places))[0][0]
        x = (normed if stays else hidden) + attended
        x = x + layer.mlp(layer.post_attention_layernorm(x))
        return x, self.lm_head(self.norm(x))


GGUF_NAMES = {
    "fc": "fc", "input_norm": "enc.output_norm", "norm": "output_norm", "lm_head": "output",
    "embed_tokens": "token_embd", "midlayer.input_layernorm": "blk.0.attn_norm",
    "midlayer.hidden_norm": "blk.0.attn_norm_2", "midlayer.post_attention_layernorm": "blk.0.ffn_norm",
    "midlayer.self_attn.q_proj": "blk.0.attn_q", "midlayer.self_attn.k_proj": "blk.0.attn_k",
    "midlayer.self_attn.v_proj": "blk.0.attn_v", "midlayer.self_attn.o_proj": "blk.0.attn_output",
    "midlayer.mlp.gate_proj": "blk.0.ffn_gate", "midlayer.mlp.up_proj": "blk.0.ffn_up",
    "midlayer.mlp.down_proj": "blk.0.ffn_down"}


def write_gguf(path, head, config, ids, taps):
    """The same as llama.cpp's files have it: q and k rotate pairs side by side, d2t are tokens."""
    writer = gguf.GGUFWriter(path, "eagle3")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_array("eagle3.target_layers", taps)
    writer.add_uint32("eagle3.target_hidden_size", head.fc.in_features // len(taps))
    writer.add_bool("eagle3.norm_before_residual", False)
    writer.add_bool("eagle3.norm_before_fc", True)
    for name, tensor in head.state_dict().items():
        values = tensor.to(torch.bfloat16).float()
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            values = values.reshape(-1, 2, config.head_dim // 2, values.shape[1]).swapaxes(1, 2)
            values = values.reshape(-1, values.shape[-1])
        writer.add_tensor(GGUF_NAMES[name.removesuffix(".weight")] + ".weight", values.contiguous().numpy())
    writer.add_tensor("d2t", ids.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def save(out, name, head, config, ids, variant):
    said, taps, _, stays, has_embedding, by = variant
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    at = "layers.0." if by == "speculators" else "midlayer."
    tensors = {n.replace("midlayer.", at): p.detach().to(torch.bfloat16).contiguous()
               for n, p in head.state_dict().items() if has_embedding or "embed" not in n}
    if len(ids) < config.vocab_size:
        tensors["d2t"] = ids - torch.arange(len(ids))
        tensors["t2d"] = torch.isin(torch.arange(config.vocab_size), ids)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    layer = dict(said, model_type="llama", hidden_act="silu")
    outer = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": len(ids)}
    if by == "speculators":
        outer |= {"architectures": ["Eagle3DraftModel"], "speculators_model_type": "eagle3",
                  "norm_before_residual": stays, "transformer_layer_config": layer,
                  "eagle_aux_hidden_state_layer_ids": taps}
    else:
        outer |= layer
    if by == "ModelOpt":  # which counts what a layer gives
        outer["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [t - 1 for t in taps],
                                 "use_aux_hidden_state": True}
    if by == "llama.cpp":
        outer |= {"eagle_aux_hidden_state_layer_ids": taps, "norm_before_fc": True}
        write_gguf(folder / "head.gguf", head, config, ids, taps)
    (folder / "config.json").write_text(json.dumps(outer, indent=2) + "\n")
    return folder


def make(name: str, goldens: pathlib.Path, out: pathlib.Path) -> None:
    torch.manual_seed(sum(name.encode()))
    variant = said, taps, n_tokens, stays, has_embedding, _ = VARIANTS[name]
    model = hf.AutoModelForCausalLM.from_pretrained(goldens / name, dtype=torch.float32,
                                                    attn_implementation="eager").eval()
    golden = json.loads((goldens / name / "golden.json").read_text())
    n = model.config.num_hidden_layers
    taps = taps or [2, n // 2, n - 3]
    config = hf.LlamaConfig(**said)
    config._attn_implementation = "eager"
    head = Head(config, model.config.hidden_size, len(taps), n_tokens,
                variant[-1] == "llama.cpp").float().eval()
    head.config = config
    models.randomize(head)
    ids = torch.randperm(256)[:n_tokens].sort().values
    if 9 not in ids:  # which a test biases
        ids[(ids < 9).sum()] = 9
    table = head.embed_tokens if has_embedding else model.get_input_embeddings()
    rope = hf.models.llama.modeling_llama.LlamaRotaryEmbedding(config)

    def embedding(tokens):
        return torch.nn.functional.embedding(tokens, table.weight)

    positions, drafts, rows = [], [], []
    for prompt, greedy in zip(golden["prompts"], golden["greedy"]):
        positions.append(list(range(len(prompt) - 1, len(prompt) - 1 + N_POSITIONS)))
        drafts.append([])
        text = prompt + greedy
        with torch.no_grad():
            states = model(torch.tensor([text]), use_cache=False, output_hidden_states=True)
            read = torch.cat([states.hidden_states[t][0] for t in taps], -1)
            read = head.fc(head.input_norm(read) if head.input_norm else read)
            for p in positions[-1]:
                hidden, tokens = read[:p + 1], torch.tensor(text[1:p + 2])
                drafts[-1].append([])
                for _ in range(N_DRAFTS):
                    x, logits = head.run(rope, stays, embedding, hidden, tokens)
                    rows.append(logits[-1])
                    best = ids[logits[-1].argmax()]
                    drafts[-1][-1].append(int(best))
                    hidden, tokens = torch.cat([hidden, x[-1:]]), torch.cat([tokens, best[None]])
    folder = save(out, name, head, config, ids, variant)
    (folder / "heads.json").write_text(json.dumps({"positions": positions, "drafts": drafts}))
    torch.stack(rows).numpy().astype("<f4").tofile(folder / "heads.bin")
    print(name, len(rows), "taps", taps)


if __name__ == "__main__":
    for each in sys.argv[3:] or VARIANTS:
        make(each, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
