#!/usr/bin/env python3
"""Makes tiny drafters of blocks (DFlash) for goldens that exist, and what they draft: the layers of
MuseGlimmerAssistantModel of transformers (float64, eager), whose masks are made here. A drafter is a
folder as z-lab, speculators or transformers publish it.

    pip install torch transformers==5.24.0 safetensors gguf
    python3 tools/golden/dflash.py tests/golden/models tests/golden/dflash [NAME ...]

A folder of llama.cpp's has the same drafter in head.gguf, too. heads.json has positions of the last
known token for each prompt; heads.bin has for each of them the rows of blocks with one, two and
three masks behind it.

Keys and values of all positions before a block are made of what three layers of the model give
there, through a matrix and a norm. The block's tokens, the last known one and masks, attend to these
and to each other.
"""
import copy
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
BLOCK = 8
SMALL = dict(hidden_size=64, intermediate_size=56, num_attention_heads=4, num_key_value_heads=2,
             head_dim=16, max_position_embeddings=512, rms_norm_eps=1e-5,
             rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
# config, kinds of layers, window, whether windows see tokens ahead, layers that are read, mask, own
# tokens (0: embedding and output are the model's), who wrote it
FULL, LOCAL = "full_attention", "sliding_attention"
VARIANTS = {
    "muse_glimmer": (dict(SMALL, hidden_size=32, head_dim=8), [LOCAL, FULL], 12, True, [0, 2, 3], 7, 0,
                     "transformers"),
    "qwen3": (SMALL, [FULL, FULL, FULL], None, True, [0, 0], 11, 0, "z-lab"),
    "gemma3": (SMALL, [LOCAL, FULL], 10, False, [1, 3, 5], 3, 0, "z-lab"),
    "qwen3_5": (dict(SMALL, hidden_size=48), [FULL, FULL], None, True, [0, 1, 2], 5, 80, "speculators"),
    "llama": (SMALL, [LOCAL, LOCAL], 12, True, [0, 0], 9, 0, "llama.cpp"),
}


class Drafter(torch.nn.Module):
    def __init__(self, config, dim, n_read, n_tokens):
        super().__init__()
        self.config = config
        self.model = hf.models.muse_glimmer_assistant.MuseGlimmerAssistantModel(config)
        self.model.encoder.fc = torch.nn.Linear(n_read * dim, config.hidden_size, bias=False)
        own = config.hidden_size
        self.embed_tokens = torch.nn.Embedding(256, own) if n_tokens else None
        self.lm_head = torch.nn.Linear(own, n_tokens, bias=False) if n_tokens else None

    def run(self, read, embedded, window, both_ways, plus):
        """read [n][n_read * dim], embedded [block][own] -> [block][own]"""
        n, n_all = len(read), len(read) + len(embedded)
        q, k = torch.arange(n, n_all)[:, None], torch.arange(n_all)[None]
        sees = {FULL: k >= 0}
        if window is not None:
            sees[LOCAL] = (q - k < window + plus) & ((k - q < window + plus) if both_ways else (k <= q))
        masks = {kind: torch.where(s.expand(n_all - n, n_all), 0.0, float("-inf"))[None, None].to(read)
                 for kind, s in sees.items()}
        cache = hf.cache_utils.DFlashCache(config=self.config)
        cache.activate_past_recording()
        cache.set_previous_accepted_tokens(n)
        if plus:  # transformers' own masks
            masks = torch.ones(1, n_all, dtype=torch.long)
        return self.model(noise_embeds=embedded[None], context_hidden_states=read[None],
                          attention_mask=masks, cache=cache).last_hidden_state[0]


GGUF_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
              "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
              "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
              "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
              "mlp.down_proj": "ffn_down"}


def write_gguf(path, tensors, config, window, read, mask):
    """The same as llama.cpp's files have it."""
    writer = gguf.GGUFWriter(path, "dflash")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_sliding_window(window)
    writer.add_array("dflash.attention.sliding_window_pattern",
                     [kind == LOCAL for kind in config.layer_types])
    writer.add_uint32("dflash.block_size", BLOCK)
    writer.add_array("dflash.target_layers", [i + 1 for i in read])
    writer.add_uint32("tokenizer.ggml.mask_token_id", mask)
    for name, tensor in tensors.items():
        name = name.removesuffix(".weight")
        outer = {"fc": "fc", "hidden_norm": "enc.output_norm", "norm": "output_norm"}.get(name)
        if outer is None:
            _, layer, rest = name.split(".", 2)
            outer = f"blk.{layer}.{GGUF_NAMES[rest]}"
        writer.add_tensor(outer + ".weight", tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def save(out, name, drafter, ids):
    said, kinds, window, both_ways, read, mask, n_tokens, by = VARIANTS[name]
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    if by == "transformers":
        copy.deepcopy(drafter.model).to(torch.bfloat16).save_pretrained(folder)
        return folder
    names = {"model.encoder.fc": "fc", "model.encoder.output_norm_enc": "hidden_norm"}
    tensors = {}
    for n, p in drafter.state_dict().items():
        stem, kind = n.rsplit(".", 1)
        tensors[names.get(stem, stem.removeprefix("model.")) + "." + kind] = p.detach().to(torch.bfloat16).contiguous()
    layer = dict(said, model_type="qwen3", hidden_act="silu", num_hidden_layers=len(kinds),
                 layer_types=kinds, sliding_window=window, vocab_size=256)
    if by == "speculators":
        outer = {"architectures": ["DFlashSpeculator"], "speculators_model_type": "dflash",
                 "transformer_layer_config": layer, "block_size": BLOCK, "mask_token_id": mask,
                 "aux_hidden_state_layer_ids": [i + 1 for i in read], "draft_vocab_size": n_tokens}
        tensors["d2t"] = ids - torch.arange(len(ids))
        tensors["t2d"] = torch.isin(torch.arange(256), ids)
    else:
        outer = dict(layer, architectures=["DFlashDraftModel"], block_size=BLOCK, is_causal=None,
                     dflash_config={"mask_token_id": mask, "target_layer_ids": read})
        if by == "llama.cpp":
            outer["dflash_config"]["causal"] = False
            write_gguf(folder / "head.gguf", tensors, drafter.config, window, read, mask)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(outer, indent=2) + "\n")
    return folder


def make(name: str, goldens: pathlib.Path, out: pathlib.Path) -> None:
    torch.manual_seed(sum(name.encode()))
    said, kinds, window, both_ways, read, mask, n_tokens, by = VARIANTS[name]
    kind = hf.MuseGlimmerForConditionalGeneration if name == "muse_glimmer" else hf.AutoModelForCausalLM
    model = kind.from_pretrained(goldens / name, dtype=torch.float32,
                                 attn_implementation="eager").eval()
    golden = json.loads((goldens / name / "golden.json").read_text())
    dim = model.config.get_text_config().hidden_size
    config = hf.MuseGlimmerAssistantConfig(
        **said, num_hidden_layers=len(kinds), layer_types=kinds, sliding_window=window or 2048,
        block_size=BLOCK, mask_token_id=mask, target_layer_ids=read)
    config._attn_implementation = "eager"
    drafter = Drafter(config, dim, len(read), n_tokens).float().eval()
    models.randomize(drafter)
    with torch.no_grad():
        for each, p in drafter.named_parameters():
            if "norm" in each:
                p.add_(1.0)
    with torch.no_grad():  # what a folder holds, but for rotations, which stay float32
        for p in drafter.parameters():
            p.copy_(p.to(torch.bfloat16))
    ids = torch.randperm(256)[:n_tokens or 256].sort().values
    if n_tokens and 9 not in ids:  # which a test biases
        ids[(ids < 9).sum()] = 9
    folder = save(out, name, drafter, ids)
    (folder / "generation_config.json").unlink(missing_ok=True)
    drafter, model = drafter.double(), model.double()
    embedding = drafter.embed_tokens or model.get_input_embeddings()
    output = drafter.lm_head or model.get_output_embeddings()
    is_own = by == "transformers"

    def embed(tokens):  # without the norm that Muse Glimmer's has
        plain = hasattr(embedding, "embed_norm")
        return torch.nn.functional.embedding(tokens, embedding.weight) if plain else embedding(tokens)

    positions, rows = [], []
    for prompt, greedy in zip(golden["prompts"], golden["greedy"]):
        positions.append(list(range(len(prompt), len(prompt) + N_POSITIONS)))
        text = torch.tensor([prompt + greedy])
        with torch.no_grad():
            states = model(text, use_cache=False, output_hidden_states=True).hidden_states
            hidden = torch.cat([states[i + 1][0] for i in read], -1)
            for at in positions[-1]:
                for n in range(1, N_DRAFTS + 1):
                    block = torch.tensor([text[0, at]] + n * [mask])
                    x = drafter.run(hidden[:at], embed(block), window, both_ways, int(is_own))
                    rows += list(output(x[1:]))
    (folder / "heads.json").write_text(json.dumps({"positions": positions}))
    torch.stack(rows).numpy().astype("<f4").tofile(folder / "heads.bin")
    print(name, len(rows), by)


if __name__ == "__main__":
    for each in sys.argv[3:] or VARIANTS:
        make(each, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
