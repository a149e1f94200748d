#!/usr/bin/env python3
"""Tokens per second of vLLM's LLM class on one GPU, for the cases that docs/performance.md compares:
random weights, prompts of random ids, bits that depend on the batch (vLLM's default).

    python3 bench/vllm_peer.py TYPE CASE...

TYPE: bf16, fp8, int8 (W8A8) or int4 (groups of 128), in the shape of Mistral 7B; or `experts`, four
layers of Qwen3 30B-A3B's experts in bf16. CASE: prefill=N, decode=SEQS@CONTEXT or serve=REQUESTS. Decode is
the time between 9 and 73 tokens of prompts that lie in the prefix cache. Of both the best of three
turns counts; of serve, with prompts of 512 and answers of 256, the only one.
"""
import json
import os
import random
import sys
import tempfile
import time

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
from vllm import LLM, SamplingParams  # noqa: E402

TURNS, SHORT, LONG = 3, 9, 73
COMMON = {"vocab_size": 32000, "head_dim": 128, "hidden_act": "silu", "rope_theta": 1e6,
          "tie_word_embeddings": False, "max_position_embeddings": 40960, "bos_token_id": 1,
          "eos_token_id": 2}
DENSE = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4096,
         "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "sliding_window": None}
EXPERTS = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
           "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 4,
           "num_attention_heads": 16, "num_key_value_heads": 4, "num_experts": 128,
           "num_experts_per_tok": 8, "norm_topk_prob": True, "decoder_sparse_step": 1,
           "mlp_only_layers": [], "rms_norm_eps": 1e-6, "attention_bias": False}


def quantization(bits, strategy, **more):
    """A checkpoint of compressed-tensors."""
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": strategy,
               "dynamic": False}
    group = {"targets": ["Linear"], "weights": weights}
    if bits == 8:
        group["input_activations"] = {**weights, "strategy": "token", "dynamic": True}
    weights.update(more)
    return {"quant_method": "compressed-tensors", "ignore": ["lm_head"],
            "format": "int-quantized" if bits == 8 else "pack-quantized",
            "config_groups": {"group_0": group}}


QUANTIZATION = {"int8": quantization(8, "channel"),
                "int4": quantization(4, "group", group_size=128)}


def load(kind, longest):
    dtype = "float16" if kind == "int4" else "bfloat16"
    config = {**COMMON, **(EXPERTS if kind == "experts" else DENSE), "torch_dtype": dtype}
    if kind in QUANTIZATION:
        config["quantization_config"] = QUANTIZATION[kind]
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return LLM(folder, skip_tokenizer_init=True, load_format="dummy", dtype=dtype,
               max_model_len=longest + 512, max_num_seqs=256, max_num_batched_tokens=8192,
               enable_prefix_caching=True, disable_log_stats=True, gpu_memory_utilization=0.85,
               quantization="fp8" if kind == "fp8" else None)


def make_ids(n):
    return [random.randrange(3, 32000) for _ in range(n)]


def time_of(llm, prompts, n_tokens):
    """Seconds that answers of n_tokens take."""
    sampling = SamplingParams(max_tokens=n_tokens, min_tokens=n_tokens, temperature=0.0,
                              ignore_eos=True, detokenize=False)
    start = time.perf_counter()
    llm.generate([{"prompt_token_ids": p} for p in prompts], sampling, use_tqdm=False)
    return time.perf_counter() - start


def rate(llm, what, size):
    if what == "prefill":
        n = int(size)
        return max(n / time_of(llm, [make_ids(n)], 1) for _ in range(TURNS + 1))
    if what == "serve":
        prompts = [make_ids(512) for _ in range(int(size))]
        return len(prompts) * 256 / time_of(llm, prompts, 256)
    n_seqs, context = map(int, size.split("@"))
    prompts = [make_ids(context) for _ in range(n_seqs)]
    time_of(llm, prompts, 2)
    spans = [-time_of(llm, prompts, SHORT) + time_of(llm, prompts, LONG) for _ in range(TURNS)]
    return n_seqs * (LONG - SHORT) / min(spans)


def main():
    kind, cases = sys.argv[1], [case.split("=") for case in sys.argv[2:]]
    lengths = [int(size.split("@")[-1]) for what, size in cases if what != "serve"]
    llm = load(kind, max(lengths + [2048]))
    time_of(llm, [make_ids(64)], 8)
    for what, size in cases:
        print(f"{kind} {what} {size}: {rate(llm, what, size):.1f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
