#!/usr/bin/env python3
"""Beam searches of the Hugging Face implementation over checkpoints of tests/golden/models, in
float32 with eager attention, four beams wide.

    pip install torch transformers==5.17.0
    python3 tools/golden/beams.py tests/golden/models llama qwen3 t5

writes NAME/beams.json in each folder; tests/golden/README.md describes it.
"""
import collections
import json
import pathlib
import sys

import torch
import transformers as hf

WIDTH = 4
MAX_TOKENS = 24

# length penalty, early stopping, whether sequences may end by a stop id
CASES = [
    (1.0, False, False),
    (1.0, False, True),
    (0.0, False, True),
    (2.0, False, True),
    (-1.0, False, True),
    (1.0, True, True),
    (2.0, True, True),
    (1.0, "never", True),
    (2.0, "never", True),
]


def search(model, prompt: list[int], length_penalty, early_stopping, stop_ids: list[int],
           **more):
    """The beams, best first: their ids, each with the stop id that ended it, and scores."""
    ids = torch.tensor([prompt])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=MAX_TOKENS, num_beams=WIDTH,
        num_return_sequences=WIDTH, do_sample=False, length_penalty=length_penalty,
        early_stopping=early_stopping, eos_token_id=stop_ids or None, pad_token_id=0,
        return_dict_in_generate=True, output_scores=True, **more)
    begin = 1 if model.config.is_encoder_decoder else len(prompt)
    beams = []
    for row in out.sequences.tolist():
        row = row[begin:]
        ends = [i for i, token in enumerate(row) if token in stop_ids]
        beams.append(row[:ends[0] + 1] if ends else row)
    return beams, [round(s, 6) for s in out.sequences_scores.tolist()]


def choose_stop_ids(beams: list[list[int]]) -> list[int]:
    """Two ids that come up neither at once nor last in beams that nothing stopped; else those
    that are neither the commonest nor alone."""
    counts, all_ids = collections.Counter(), collections.Counter()
    for beam in beams:
        counts.update(set(beam[3:-3]) - set(beam[:3]))
        all_ids.update(beam)
    chosen = counts.most_common(2) or all_ids.most_common(3)[1:]
    return sorted(token for token, _ in chosen)


def say_less(model, number: int, prompt: list[int], beams: list[list[int]]) -> list[dict]:
    """Searches that lower or forbid what the best of beams[] says."""
    best = beams[0]
    bad_words = [[best[0]], best[1:3]]
    searches = []
    for repeat_penalty, words in ((1.3, []), (1.0, bad_words), (1.15, bad_words)):
        more = {"repetition_penalty": repeat_penalty, "bad_words_ids": words or None}
        found, scores = search(model, prompt, 1.0, False, [], **more)
        searches.append({
            "prompt": number, "length_penalty": 1.0, "early_stopping": False, "stop_ids": [],
            "repeat_penalty": repeat_penalty, "bad_words": words, "beams": found,
            "scores": scores})
    return searches


def run(folder: pathlib.Path) -> dict:
    config = hf.AutoConfig.from_pretrained(folder)
    kind = hf.AutoModelForSeq2SeqLM if config.is_encoder_decoder else hf.AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    model.generation_config.eos_token_id = None
    golden = json.loads((folder / "golden.json").read_text())
    searches = []
    for number, prompt in enumerate(golden["prompts"]):
        stop_ids: list[int] = []
        for length_penalty, early_stopping, stops in CASES:
            beams, scores = search(model, prompt, length_penalty, early_stopping,
                                   stop_ids if stops else [])
            if not stops:
                stop_ids, unstopped = choose_stop_ids(beams), beams
            searches.append({
                "prompt": number, "length_penalty": length_penalty,
                "early_stopping": early_stopping, "stop_ids": stop_ids if stops else [],
                "beams": beams, "scores": scores})
        searches += say_less(model, number, prompt, unstopped)
    return {"width": WIDTH, "max_tokens": MAX_TOKENS, "transformers": hf.__version__,
            "torch": torch.__version__, "searches": searches}


def main() -> None:
    root = pathlib.Path(sys.argv[1])
    torch.set_grad_enabled(False)
    for name in sys.argv[2:]:
        result = run(root / name)
        text = json.dumps(result).replace('{"prompt"', '\n{"prompt"')
        (root / name / "beams.json").write_text(text + "\n")
        print(name, len(result["searches"]), "searches")


if __name__ == "__main__":
    main()
