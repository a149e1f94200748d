#!/usr/bin/env python3
"""Writes adapters on models of tests/golden/models as PEFT saves them, and golden.bin beside each,
the logits behind each of the model's prompts as PEFT computes them with it (written as float32, a
row each): tests/golden/adapter, a LoRA on llama with all that ranks and scales can be, and
adapter_dora, a DoRA, both in float64 since adapters are large; adapter_dora_bias, a DoRA on qwen2,
whose linears have biases; adapter_hybrid, a LoRA on kimi_linear, whose recurrent layers compute in
float32 whatever they are asked for; adapter_experts, a LoRA on qwen3_moe and all its experts;
adapter_mamba, a LoRA on jamba, merged by PEFT: transformers multiplies with the matrix of dt_proj
itself, past the module that PEFT puts around it, so that unmerged the adapter of dt_proj would do
nothing.

usage: adapter.py REPOSITORY [NAME ..]
(needs torch, transformers and peft)
"""
import json
import sys
from pathlib import Path

import numpy as np
import peft
import torch
from transformers import AutoModelForCausalLM

CONFIGS = {
    "adapter": dict(
        r=2,
        lora_alpha=6,
        use_rslora=True,
        target_modules=["q_proj", "k_proj", "o_proj", "up_proj", "down_proj"],
        rank_pattern={"o_proj": 3},
        alpha_pattern={r"layers\.1\.mlp\.up_proj": 4},
    ),
    "adapter_dora": dict(
        r=2, lora_alpha=4, use_dora=True, target_modules=["q_proj", "v_proj", "down_proj"]
    ),
    "adapter_dora_bias": dict(
        r=2, lora_alpha=4, use_dora=True, target_modules=["q_proj", "k_proj", "up_proj"]
    ),
    "adapter_hybrid": dict(
        r=2,
        lora_alpha=4,
        rank_pattern={"k_proj": 3},
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "b_proj"]
        + ["f_a_proj", "f_b_proj", "g_a_proj", "g_b_proj", "kv_b_proj"],
    ),
    "adapter_experts": dict(
        r=2,
        lora_alpha=4,
        target_modules=["q_proj"],
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
    ),
    "adapter_mamba": dict(r=2, lora_alpha=4, target_modules=["x_proj", "dt_proj"]),
}
MODELS = {
    "adapter_dora_bias": "qwen2",
    "adapter_hybrid": "kimi_linear",
    "adapter_experts": "qwen3_moe",
    "adapter_mamba": "jamba",
}
SCALES = {"adapter_hybrid": 0.03, "adapter_experts": 0.1, "adapter_mamba": 0.03}
MERGED = ["adapter_mamba"]


def write(root: Path, name: str) -> None:
    torch.manual_seed(27)
    scale = SCALES.get(name, 0.2)
    base = root / "models" / MODELS.get(name, "llama")
    model = AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.float32, attn_implementation="eager"
    )
    model = peft.get_peft_model(model, peft.LoraConfig(**CONFIGS[name])).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_magnitude_vector" in key:
                parameter.mul_(torch.rand_like(parameter) + 0.5)
            elif "lora_" in key:
                parameter.copy_((torch.randn_like(parameter) * scale).to(torch.bfloat16))
    model.save_pretrained(root / name)
    (root / name / "README.md").unlink()
    prompts = json.loads((base / "golden.json").read_text())["prompts"]
    if name in MERGED:
        model = model.merge_and_unload()
    if name not in MODELS:
        model = model.double()
    with torch.no_grad():
        rows = [model(input_ids=torch.tensor([ids])).logits[0, -1].numpy() for ids in prompts]
    np.stack(rows).astype("<f4").tofile(root / name / "golden.bin")


if __name__ == "__main__":
    for each in sys.argv[2:] or CONFIGS:
        write(Path(sys.argv[1]) / "tests/golden", each)
