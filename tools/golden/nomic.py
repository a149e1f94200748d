#!/usr/bin/env python3
"""Makes tests/golden/embeddings/nomic_bert_moe and nomic_bert_moe_gguf: a tiny Nomic Embed v2 with
random weights, and its vectors (float32). transformers has the rest of the model, so layers of its
Nomic BERT get biases and the feed-forwards below: one without a gate, and, in every second layer, a
mixture by a softmax over all experts, of which the best two are summed, and a vector is added
(nomic-ai/nomic-bert-2048). The GGUF file is by llama.cpp's names, which leave that vector out.

    pip install torch transformers==5.24.0 gguf
    python3 tools/golden/nomic.py OUT_FOLDER

golden.json and golden.bin are those of embeddings.py.
"""
import json
import pathlib
import sys

import gguf
import torch
import transformers as hf
from safetensors.torch import save_file
from torch.nn import functional as f

import embeddings

DIM, HIDDEN, LAYERS, HEADS, EXPERTS, USED, EVERY, EPS = 32, 24, 4, 4, 4, 2, 2, 1e-5


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(DIM, HIDDEN), torch.nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        return self.fc2(f.gelu(self.fc1(x)))


class Mixture(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.router = torch.nn.Linear(DIM, EXPERTS, bias=False)
        self.w1 = torch.nn.Parameter(torch.empty(EXPERTS * HIDDEN, DIM))
        self.w2 = torch.nn.Parameter(torch.empty(EXPERTS * HIDDEN, DIM))
        self.bias = torch.nn.Parameter(torch.empty(DIM))

    def forward(self, x):
        best = self.router(x).softmax(-1).topk(USED)
        hidden = f.gelu(torch.einsum("bti,ehi->bteh", x, self.w1.view(EXPERTS, HIDDEN, DIM)))
        each = torch.einsum("bteh,eho->bteo", hidden, self.w2.view(EXPERTS, HIDDEN, DIM))
        chosen = each.gather(2, best.indices[..., None].expand(*best.indices.shape, DIM))
        return (chosen * best.values[..., None]).sum(2) + self.bias


def make_model():
    config = hf.NomicBertConfig(
        vocab_size=64, hidden_size=DIM, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=160, type_vocab_size=1, pad_token_id=1,
        layer_norm_eps=EPS, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    config._attn_implementation = "eager"
    model = hf.NomicBertModel(config).float().eval()
    for i, layer in enumerate(model.layers):
        layer.mlp = Mixture() if (i + 1) % EVERY == 0 else Plain()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(layer.self_attn, name, torch.nn.Linear(DIM, DIM))
    embeddings.randomize(model)
    return model.eval()


def published(model) -> dict:
    """Tensors by the names of published folders."""
    w = model.state_dict()
    out = {"emb_ln.weight": w["embeddings.LayerNorm.weight"],
           "emb_ln.bias": w["embeddings.LayerNorm.bias"]}
    for name in ("word_embeddings", "token_type_embeddings"):
        out[f"embeddings.{name}.weight"] = w[f"embeddings.{name}.weight"]
    for i in range(LAYERS):
        own, at = f"layers.{i}.", f"encoder.layers.{i}."
        for kind in ("weight", "bias"):
            out[f"{at}attn.Wqkv.{kind}"] = torch.cat(
                [w[f"{own}self_attn.{part}_proj.{kind}"] for part in "qkv"])
            out[f"{at}attn.out_proj.{kind}"] = w[f"{own}self_attn.o_proj.{kind}"]
            out[f"{at}norm1.{kind}"] = w[f"{own}post_attention_layernorm.{kind}"]
            out[f"{at}norm2.{kind}"] = w[f"{own}post_mlp_layernorm.{kind}"]
        if (i + 1) % EVERY != 0:
            out |= {f"{at}mlp.{name}": w[f"{own}mlp.{name}"]
                    for name in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")}
            continue
        out[f"{at}mlp.router.layer.weight"] = w[f"{own}mlp.router.weight"]
        out[f"{at}mlp.experts.mlp.w1"] = w[f"{own}mlp.w1"]
        out[f"{at}mlp.experts.mlp.w2"] = w[f"{own}mlp.w2"]
        out[f"{at}mlp.experts.bias"] = w[f"{own}mlp.bias"]
    return out


def write_gguf(path: pathlib.Path, tensors: dict) -> None:
    writer = gguf.GGUFWriter(path, "nomic-bert-moe")
    writer.add_context_length(160)
    writer.add_embedding_length(DIM)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_block_count(LAYERS)
    writer.add_layer_norm_eps(EPS)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_rope_freq_base(10000.0)
    writer.add_moe_every_n_layers(EVERY)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.NOMIC_BERT_MOE, LAYERS)
    for name, tensor in tensors.items():
        if name.endswith("experts.bias"):
            continue
        if name.endswith(("mlp.w1", "mlp.w2")):
            tensor = tensor.view(EXPERTS, HIDDEN, DIM)
            tensor = tensor.transpose(1, 2) if name.endswith("w2") else tensor
            name += ".weight"
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")),
                          tensor.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    torch.manual_seed(12)
    out, model = pathlib.Path(sys.argv[1]), make_model()
    prompts = [torch.randint(5, 64, (n,)).tolist() for n in (1, 7, 40, 150)]
    folder, file = out / "nomic_bert_moe", out / "nomic_bert_moe_gguf"
    for each in (folder, file):
        each.mkdir(parents=True, exist_ok=True)
    embeddings.write_answers(folder, prompts, [embeddings.answer(model, p, 0) for p in prompts],
                             dim=DIM)
    save_file({k: v.to(torch.bfloat16).contiguous() for k, v in published(model).items()},
              folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["NomicBertModel"], "model_type": "nomic_bert", "vocab_size": 64,
        "n_embd": DIM, "n_inner": HIDDEN, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 160,
        "activation_function": "gelu", "layer_norm_epsilon": EPS, "type_vocab_size": 1,
        "rotary_emb_base": 10000.0, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
        "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "qkv_proj_bias": True,
        "mlp_fc1_bias": True, "mlp_fc2_bias": True, "prenorm": False, "causal": False,
        "use_rms_norm": None, "num_experts": EXPERTS, "moe_top_k": USED,
        "moe_every_n_layers": EVERY, "moe_normalize_expert_weights": False,
        "num_shared_experts": 0, "pad_token_id": 1}, indent=2) + "\n")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("mlp.bias"):
                p.zero_()
    embeddings.write_answers(file, prompts, [embeddings.answer(model, p, 0) for p in prompts],
                             dim=DIM)
    write_gguf(file / "model.gguf", published(model))


main()
