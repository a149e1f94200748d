#!/usr/bin/env python3
"""Makes tiny assistants of Gemma 4 (multi-token prediction in a folder of its own) for goldens that
exist, and what they draft: Gemma4AssistantForCausalLM of transformers (float64, eager), which reads
keys, values and hidden states of the golden's model.

    pip install torch transformers==5.24.0 safetensors
    python3 tools/golden/assistants.py tests/golden/models tests/golden/assistants [NAME ...]

heads.json and heads.bin are as heads.py writes them.

At position p an assistant reads the embedding of the token at p + 1 and the model's hidden state at
p behind its last norm. It stands at position p + 1 and attends to what the model has cached up to p;
for the next draft it reads its own hidden state and draft, at the same position.
"""
import json
import pathlib
import sys

import torch
import transformers as hf

import models

N_DRAFTS = 3
N_POSITIONS = 6
# whether its tokens are ordered by centroids, which count for speed alone
VARIANTS = {"gemma4": False, "gemma4_shared": True}


def make(name: str, goldens: pathlib.Path, out: pathlib.Path) -> None:
    torch.manual_seed(sum(name.encode()))
    model = hf.AutoModelForCausalLM.from_pretrained(goldens / name, dtype=torch.float32,
                                                    attn_implementation="eager").eval()
    golden = json.loads((goldens / name / "golden.json").read_text())
    of_model = model.config.get_text_config()
    kinds = ["sliding_attention", "full_attention"]
    own = of_model.to_dict()["per_layer_config"][str(of_model.num_hidden_layers - 1)]
    own = {str(i): own for i, kind in enumerate(kinds) if kind == "full_attention"}
    text = hf.Gemma4TextConfig(**(of_model.to_dict() | dict(
        hidden_size=32, intermediate_size=40, num_hidden_layers=len(kinds), layer_types=kinds,
        per_layer_config=own, num_kv_shared_layers=len(kinds), hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0, final_logit_softcapping=None, use_double_wide_mlp=False)))
    config = hf.Gemma4AssistantConfig(
        text_config=text, backbone_hidden_size=of_model.hidden_size, num_centroids=4,
        centroid_intermediate_top_k=2, use_ordered_embeddings=VARIANTS[name])
    config._attn_implementation = text._attn_implementation = "eager"
    head = hf.Gemma4AssistantForCausalLM(config).float().eval()
    models.randomize(head)
    for layer in head.model.layers:  # scores are not divided, and large ones magnify errors
        layer.self_attn.q_norm.weight.data.mul_(0.1)
    if VARIANTS[name]:
        head.masked_embedding.token_ordering.copy_(torch.randperm(text.vocab_size))
    head = head.to(torch.bfloat16)
    folder = out / name
    head.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    head, model = head.double(), model.double()
    head.config.use_ordered_embeddings = False  # all logits
    embedding = model.get_input_embeddings()

    positions, drafts, rows = [], [], []
    for prompt, greedy in zip(golden["prompts"], golden["greedy"]):
        positions.append(list(range(len(prompt) - 1, len(prompt) - 1 + N_POSITIONS)))
        drafts.append([])
        ids = torch.tensor([prompt + greedy])
        with torch.no_grad():
            states = model(ids, use_cache=False, output_hidden_states=True,
                           return_shared_kv_states=True)
            for p in positions[-1]:
                seen = {"full_attention": p + 1,
                        "sliding_attention": min(p + 1, of_model.sliding_window)}
                kv = {k: tuple(x[:, :, p + 1 - seen[k]:p + 1] for x in pair)
                      for k, pair in states.shared_kv_states.items()}
                hidden, token = states.hidden_states[-1][:, p:p + 1], ids[:, p + 1:p + 2]
                drafts[-1].append([])
                for _ in range(N_DRAFTS):
                    said = head(inputs_embeds=torch.cat([embedding(token), hidden], -1),
                                position_ids=torch.tensor([[p + 1]]), shared_kv_states=kv)
                    rows.append(said.logits[0, -1])
                    hidden, token = said.last_hidden_state, said.logits.argmax(-1)
                    drafts[-1][-1].append(int(token))
    (folder / "heads.json").write_text(json.dumps({"positions": positions, "drafts": drafts}))
    torch.stack(rows).numpy().astype("<f4").tofile(folder / "heads.bin")
    print(name, len(rows), [k.shape for k, _ in states.shared_kv_states.values()])


if __name__ == "__main__":
    for each in sys.argv[3:] or VARIANTS:
        make(each, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
