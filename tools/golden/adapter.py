#!/usr/bin/env python3
"""Writes tests/golden/adapter: a LoRA on tests/golden/models/llama as PEFT saves it, and golden.bin,
the logits behind each of the model's prompts as PEFT computes them with it, in float64 since the
adapter is large (written as float32, a row each).

usage: adapter.py REPOSITORY   (needs torch, transformers and peft)
"""
import json
import sys
from pathlib import Path

import numpy as np
import peft
import torch
from transformers import AutoModelForCausalLM

root = Path(sys.argv[1]) / "tests/golden"
torch.manual_seed(27)
model = AutoModelForCausalLM.from_pretrained(
    root / "models/llama", dtype=torch.float32, attn_implementation="eager"
)
config = peft.LoraConfig(
    r=2,
    lora_alpha=6,
    use_rslora=True,
    target_modules=["q_proj", "k_proj", "o_proj", "up_proj", "down_proj"],
    rank_pattern={"o_proj": 3},
    alpha_pattern={r"layers\.1\.mlp\.up_proj": 4},
)
model = peft.get_peft_model(model, config).eval()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.copy_((torch.randn_like(parameter) * 0.2).to(torch.bfloat16))
model.save_pretrained(root / "adapter")
(root / "adapter/README.md").unlink()
prompts = json.loads((root / "models/llama/golden.json").read_text())["prompts"]
model = model.double()
with torch.no_grad():
    rows = [model(input_ids=torch.tensor([ids])).logits[0, -1].numpy() for ids in prompts]
np.stack(rows).astype("<f4").tofile(root / "adapter/golden.bin")
