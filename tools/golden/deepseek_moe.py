#!/usr/bin/env python3
"""Makes the golden of the first DeepSeek MoE, which the transformers library lacks: its Llama, whose
feed-forwards behind the first layer are the mixtures of its DeepSeek V2.

    pip install torch transformers==5.23.0 safetensors
    python3 tools/golden/deepseek_moe.py OUT_FOLDER
"""
import json
import pathlib
import sys

import torch
import transformers as hf
from safetensors.torch import save_file
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe

import models
import variants

MIXTURE = dict(n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2,
               moe_intermediate_size=16, first_k_dense_replace=1, norm_topk_prob=False)


def tensors_of(model) -> dict:
    """As folders have them: a tensor for each matrix of each expert."""
    tensors = {}
    for name, p in model.state_dict().items():
        stem, _, last = name.rpartition(".experts.")
        if last == "gate_up_proj":
            for e, both in enumerate(p):
                gate, up = both.chunk(2)
                tensors[f"{stem}.experts.{e}.gate_proj.weight"] = gate
                tensors[f"{stem}.experts.{e}.up_proj.weight"] = up
        elif last == "down_proj":
            for e, down in enumerate(p):
                tensors[f"{stem}.experts.{e}.down_proj.weight"] = down
        else:
            tensors[name] = p
    return {n: t.to(torch.bfloat16).contiguous() for n, t in tensors.items()}


def main(out: pathlib.Path) -> None:
    torch.manual_seed(3)
    config = hf.LlamaConfig(**dict(variants.TINY, num_hidden_layers=3))
    config._attn_implementation = "eager"
    model = hf.LlamaForCausalLM(config)
    mixture = hf.DeepseekV2Config(**variants.TINY, **MIXTURE, topk_method="greedy",
                                  routed_scaling_factor=1.0)
    mixture._experts_implementation = "eager"
    for layer in model.model.layers[1:]:
        layer.mlp = DeepseekV2Moe(mixture)
    model = model.float().eval()
    models.randomize(model)
    prompts = [torch.randint(3, config.vocab_size, (n,)).tolist() for n in (5, 23, 70)]
    answers = [models.answer(model, p, False) for p in prompts]
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors_of(model), out / "model.safetensors", metadata={"format": "pt"})
    said = config.to_dict() | MIXTURE | {"model_type": "deepseek", "moe_layer_freq": 1,
                                         "scoring_func": "softmax",
                                         "architectures": ["DeepseekForCausalLM"]}
    (out / "config.json").write_text(json.dumps(said, indent=2, default=str))
    (out / "golden.json").write_text(json.dumps({
        "model": "deepseek", "family": "deepseek", "encoder_decoder": False,
        "vocab": config.vocab_size, "prompts": prompts, "greedy": [a[0] for a in answers],
        "gaps": [[round(g, 6) for g in a[1]] for a in answers],
        "logits_rows": [len(a[2]) for a in answers],
        "transformers": hf.__version__, "torch": torch.__version__}))
    torch.cat([a[2] for a in answers]).numpy().astype("<f4").tofile(out / "golden.bin")
    print("smallest gap", min(min(a[1]) for a in answers))


main(pathlib.Path(sys.argv[1]))
