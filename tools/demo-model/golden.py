"""Writes reference answers for the tests of the engine: greedy tokens in float32, and encoded texts.

    python golden.py --model ../../models/demo.gguf --out ../../models/demo.golden.json

`greedy` holds for each prompt its token ids, the ids that follow when the largest logit is always taken
(an end token does not stop it), and `gaps`, the distance of the largest logit from the second at each step:
where it is small, another order of summation may choose another token. `encoded` holds texts and their ids
without the beginning-of-text token.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from loader import Demo, load

STEPS = 32
# Prompts whose gaps are wide: the smallest is about 0.1.
PROMPTS = ["The fox is a", "KING RICHARD III:\nNow is"]
CHAT = [{"role": "user", "content": "Give me a recipe for pancakes."}]
TEXTS = [
    "Hello, world!",
    "What is 12 + 35? It's 47, isn't it?",
    '{"name": "Anna Bell", "age": 34}\n\n  indented\ttabs  and   spaces ',
    "Caf\u00e9 na\u00efve \u4f60\u597d \U0001f426 \u00df\u0416",
    "DON'T shout; we'll hear_you (really) -- at 1234567 o'clock...\r\n",
]


@torch.no_grad()
def greedy(demo: Demo, prompt: list[int]) -> dict:
    ids, gaps = list(prompt), []
    for _ in range(STEPS):
        best = demo.model(torch.tensor([ids]))[0, -1].topk(2)
        gaps.append(round((best.values[0] - best.values[1]).item(), 5))
        ids.append(best.indices[0].item())
    return {"prompt": prompt, "ids": ids[len(prompt) :], "gaps": gaps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    demo = load(args.model)
    prompts = [demo.text_ids(text) for text in PROMPTS] + [demo.chat_ids(CHAT)]
    golden = {
        "greedy": [greedy(demo, prompt) for prompt in prompts],
        "encoded": [{"text": text, "ids": demo.tokenizer.encode(text).ids} for text in TEXTS],
    }
    args.out.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
