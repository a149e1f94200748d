#!/usr/bin/env python3
"""Writes adapters on tests/golden/models/llama as PEFT saves them, and golden.bin beside each, the
logits behind each of the model's prompts as PEFT computes them with it, in float64 since adapters
are large (written as float32, a row each): tests/golden/adapter, a LoRA with all that ranks and
scales can be, and tests/golden/adapter_dora, a DoRA.

usage: adapter.py REPOSITORY [adapter|adapter_dora]   (needs torch, transformers and peft)
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
}


def write(root: Path, name: str) -> None:
    torch.manual_seed(27)
    model = AutoModelForCausalLM.from_pretrained(
        root / "models/llama", dtype=torch.float32, attn_implementation="eager"
    )
    model = peft.get_peft_model(model, peft.LoraConfig(**CONFIGS[name])).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_magnitude_vector" in key:
                parameter.mul_(torch.rand_like(parameter) + 0.5)
            elif "lora_" in key:
                parameter.copy_((torch.randn_like(parameter) * 0.2).to(torch.bfloat16))
    model.save_pretrained(root / name)
    (root / name / "README.md").unlink()
    prompts = json.loads((root / "models/llama/golden.json").read_text())["prompts"]
    model = model.double()
    with torch.no_grad():
        rows = [model(input_ids=torch.tensor([ids])).logits[0, -1].numpy() for ids in prompts]
    np.stack(rows).astype("<f4").tofile(root / name / "golden.bin")


if __name__ == "__main__":
    for each in sys.argv[2:] or CONFIGS:
        write(Path(sys.argv[1]) / "tests/golden", each)
