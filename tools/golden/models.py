#!/usr/bin/env python3
"""Makes tiny checkpoints with random weights and the answers that the Hugging Face implementation
gives for them (float32, eager attention), in the layout that tests/golden/README.md describes.

    pip install torch transformers==5.24.0
    python3 tools/golden/models.py OUT_FOLDER [NAME ...]

Each name below is a variant that no other golden covers.
"""
import importlib
import json
import pathlib
import sys

import torch
import transformers as hf

COMMON = dict(vocab_size=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA_LIKE = dict(COMMON, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)
SEQ2SEQ = dict(COMMON, d_model=48, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
               decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=96,
               max_position_embeddings=160, decoder_start_token_id=0, forced_eos_token_id=None)

VARIANTS = {
    # RoPE whose base would grow beyond the trained context; within it nothing changes
    "llama_dynamic": lambda: hf.LlamaConfig(
        **dict(LLAMA_LIKE, max_position_embeddings=512),
        rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}),
    # upper layers windowed, by use_sliding_window and max_window_layers
    "qwen2_window": lambda: hf.Qwen2Config(
        **dict(LLAMA_LIKE, num_hidden_layers=3), use_sliding_window=True, sliding_window=16,
        max_window_layers=1),
    # groups of query heads and two norms in parallel, as in Falcon 40B
    "falcon_grouped": lambda: hf.FalconConfig(
        **COMMON, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2,
        new_decoder_architecture=True, multi_query=False, alibi=False, bias=False),
    # ALiBi and blocks one after the other, as in Falcon RW; the reference rounds its biases to
    # bf16, which leaves powers of two as they are
    "falcon_rw": lambda: hf.FalconConfig(
        **COMMON, hidden_size=64, num_hidden_layers=2, num_attention_heads=8,
        new_decoder_architecture=False, multi_query=False, parallel_attn=False, alibi=True,
        bias=True),
    # norms behind the residual and an embedding of half the width, as in OPT 350M
    "opt_narrow": lambda: hf.OPTConfig(
        **COMMON, hidden_size=64, ffn_dim=128, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=512, do_layer_norm_before=False, word_embed_proj_dim=32),
    "gpt_neox_sequential": lambda: hf.GPTNeoXConfig(
        **COMMON, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=512, use_parallel_residual=False,
        hidden_act="gelu_new"),
    "stablelm_parallel": lambda: hf.StableLmConfig(
        **LLAMA_LIKE, use_parallel_residual=True, use_qkv_bias=True),
    "phi3_window": lambda: hf.Phi3Config(**LLAMA_LIKE, sliding_window=16),
    # bloom's slopes for a number of heads that is no power of two
    "bloom_six_heads": lambda: hf.BloomConfig(
        **COMMON, hidden_size=96, n_layer=2, n_head=6),
    "qwen3_moe_mixed": lambda: hf.Qwen3MoeConfig(
        **dict(LLAMA_LIKE, num_hidden_layers=4), num_experts=6, num_experts_per_tok=3,
        moe_intermediate_size=48, decoder_sparse_step=2, mlp_only_layers=[3], head_dim=16),
    # q and k normalised head by head, each head with weights of its own
    "cohere_qk_norm": lambda: hf.CohereConfig(**LLAMA_LIKE, use_qk_norm=True, logit_scale=0.25),
    "stablelm_qk_norm": lambda: hf.StableLmConfig(**LLAMA_LIKE, qk_layernorm=True),
    # windowed layers rotate by the same base, but without the scaling
    "olmo3_yarn": lambda: hf.Olmo3Config(
        **dict(LLAMA_LIKE, num_hidden_layers=5), sliding_window=16,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0},
            "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 4.0,
                               "original_max_position_embeddings": 32, "attention_factor": 1.1,
                               "beta_fast": 32.0, "beta_slow": 1.0}}),
    "gpt_bigcode": lambda: hf.GPTBigCodeConfig(
        **COMMON, n_embd=64, n_layer=2, n_head=4, n_inner=128, n_positions=512),
    # the output is the embedding, and has a bias all the same
    "phi_tied": lambda: hf.PhiConfig(**LLAMA_LIKE, tie_word_embeddings=True),
    # latent attention that rotates halves
    "deepseek_v3_half": lambda: hf.DeepseekV3Config(
        **dict(LLAMA_LIKE, num_key_value_heads=4), moe_intermediate_size=48, n_routed_experts=4,
        num_experts_per_tok=2, n_shared_experts=1, n_group=2, topk_group=1, q_lora_rank=24,
        kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        first_k_dense_replace=1, rope_interleave=False),
    # all layers windowed, whatever max_window_layers says
    "qwen3_moe_window": lambda: hf.Qwen3MoeConfig(
        **LLAMA_LIKE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48, head_dim=16,
        norm_topk_prob=True, use_sliding_window=True, sliding_window=16, max_window_layers=2),
    "arcee": lambda: hf.ArceeConfig(**LLAMA_LIKE),
    # an output beside the embedding, of which config.json says nothing
    "t5_untied": lambda: hf.T5Config(
        vocab_size=256, d_model=24, d_kv=8, d_ff=32, num_layers=1, num_decoder_layers=1,
        num_heads=2, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
        decoder_start_token_id=0),
    "bart_scaled": lambda: hf.BartConfig(
        **COMMON, d_model=64, encoder_layers=1, decoder_layers=3, encoder_attention_heads=2,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=128,
        max_position_embeddings=512, scale_embedding=True, decoder_start_token_id=2,
        forced_eos_token_id=None),
    "m2m_100": lambda: hf.M2M100Config(
        **dict(SEQ2SEQ, bos_token_id=0, pad_token_id=1, decoder_start_token_id=2),
        scale_embedding=True),
    "marian": lambda: hf.MarianConfig(
        **dict(SEQ2SEQ, pad_token_id=255, eos_token_id=0, decoder_start_token_id=255),
        scale_embedding=True, activation_function="swish"),
    # source and target have a vocabulary each
    "marian_two": lambda: hf.MarianConfig(
        **dict(SEQ2SEQ, pad_token_id=198, eos_token_id=0, decoder_start_token_id=198),
        decoder_vocab_size=199, share_encoder_decoder_embeddings=False),
    "blenderbot": lambda: hf.BlenderbotConfig(**SEQ2SEQ),
    "mvp": lambda: hf.MvpConfig(**SEQ2SEQ),
    "plbart": lambda: hf.PLBartConfig(**SEQ2SEQ),
    "mbart": lambda: hf.MBartConfig(**SEQ2SEQ, scale_embedding=True),
    "pegasus": lambda: hf.PegasusConfig(**SEQ2SEQ, activation_function="relu"),
}


variants = importlib.import_module("variants")
gemmas = importlib.import_module("gemmas")
hybrids = importlib.import_module("hybrids")
VARIANTS |= variants.VARIANTS | gemmas.VARIANTS | hybrids.VARIANTS


def randomize(model: torch.nn.Module) -> None:
    """Weights of a size that makes logits differ clearly, exact in bf16."""
    adds_one = ("gemma", "step3", "nemotron", "minimax_m3", "muse_glimmer", "muse_spark")  # families whose norms do
    model_type = model.config.model_type
    usual = 0.0 if any(n in model_type for n in adds_one) and model_type != "nemotron_h" else 1.0
    with torch.no_grad():
        for name, p in model.named_parameters():
            if model_type in ("pegasus", "marian") and "embed_positions" in name:
                continue  # sines and cosines
            name = name.replace("norm_attn_norm.attn", "attn")
            spread = 0.02 if p.ndim == 1 and "norm" not in name.lower() else 0.1
            if (p.ndim == 1 and "ln_" in name) or "norm" in name.lower():
                p.copy_(torch.randn_like(p) * 0.1 + (usual if name.endswith("weight") else 0.0))
            else:
                p.copy_(torch.randn_like(p) * (2 * spread))
            if model_type == "qwen2_moe" and not model.config.qkv_bias and "expert_gate" in name:
                p.zero_()  # a half of the shared expert, for kin.py
            if name.endswith("softmax_scaling.bias"):  # near one, as what multiplies is
                p.add_(1.0)
            if model_type == "doge" and name.endswith("_residual"):  # near one, likewise
                p.mul_(5.0).add_(1.0)
            if model_type == "doge" and name.endswith(".A"):
                p.mul_(20.0)
            if model_type == "dory" and p.ndim == 1 and "proj" not in name:  # near what they begin with
                near = {"sqk": 0.04, "s_gate": 0.1, "logit_scale": 0.6}.get(name.split(".")[-1], 1.0)
                p.mul_(5.0 if near == 1.0 else 0.5).add_(near)
            if model_type in ("deepseek_v4", "glm5_next") and name.endswith(("hc.scale", "hc_scale")):
                p.add_(1.0)
            p.copy_(p.to(torch.bfloat16).float())
        for name, b in model.named_buffers():
            if name.endswith("rotary_emb.alpha"):  # learned frequencies
                b.copy_((torch.randn_like(b) * 0.5).to(torch.bfloat16).float())
            if name == "final_logits_bias" and model_type != "bart":
                b.copy_((torch.randn_like(b) * 0.2).to(torch.bfloat16).float())
            if name.endswith("tid2eid"):  # different experts for each token
                n = model.config.n_routed_experts
                b.copy_(torch.stack([torch.randperm(n)[:b.shape[1]] for _ in range(b.shape[0])]))
            if name.endswith(("e_score_correction_bias", "expert_bias")):
                b.copy_((torch.randn_like(b) * 0.2).to(torch.bfloat16).float())


# What a model's generation_config.json forbids, or forces.
FORBIDDEN = {
    "marian": dict(bad_words_ids=[[255], [39, 39]], suppress_tokens=[9]),
    "marian_two": dict(bad_words_ids=[[198], [14, 14], [180, 180]], forced_eos_token_id=0),
}


def forbid(model, name: str) -> None:
    """Tokens that would be the best ones are forbidden."""
    if name not in FORBIDDEN:
        return
    config = model.generation_config
    for key, value in FORBIDDEN[name].items():
        setattr(config, key, value)
    with torch.no_grad():
        for word in config.bad_words_ids:
            model.final_logits_bias[0, word[-1]] += 3.0
        for token in config.suppress_tokens or []:
            model.final_logits_bias[0, token] += 3.0
        if len(config.bad_words_ids) > 1:
            model.final_logits_bias[0, config.bad_words_ids[1][0]] += 3.0
        model.final_logits_bias.copy_(model.final_logits_bias.to(torch.bfloat16).float())


def rules_of(model) -> hf.LogitsProcessorList:
    config, rules = model.generation_config, hf.LogitsProcessorList()
    if config.bad_words_ids:
        rules.append(hf.NoBadWordsLogitsProcessor(config.bad_words_ids))
    if config.suppress_tokens:
        rules.append(hf.SuppressTokensLogitsProcessor(config.suppress_tokens))
    return rules


def generate(model, prompt: list[int]) -> list[int]:
    out = model.generate(torch.tensor([prompt]), max_new_tokens=32, do_sample=False, num_beams=1,
                         eos_token_id=-1, forced_eos_token_id=None)
    return out[0, 1:].tolist()


def one_by_one(model, tokens: list[int]) -> torch.Tensor:
    """Logits of tokens that are read one after the other."""
    rows, cache = [], None
    for token in tokens:
        out = model(input_ids=torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        rows.append(out.logits[0])
    return torch.cat(rows)


def answer(model, prompt: list[int], encoder_decoder: bool):
    """Greedy ids, their gaps, and the logits rows of the golden layout."""
    ids, gaps = [], []
    start = [model.config.decoder_start_token_id] if encoder_decoder else prompt
    source = torch.tensor([prompt]) if encoder_decoder else None
    with torch.no_grad():
        def run(tokens):
            t = torch.tensor([tokens])
            if getattr(model.config, "is_moe", False):  # Doge mixes the scores of a pass's tokens
                return one_by_one(model, tokens)
            if encoder_decoder:
                return model(input_ids=source, decoder_input_ids=t, use_cache=False).logits[0]
            return model(input_ids=t, use_cache=False).logits[0]
        prompt_rows = run(prompt) if not encoder_decoder else None
        rules = rules_of(model)
        for _ in range(32):
            top = rules(torch.tensor([start + ids]), run(start + ids)[-1:])[0].topk(2)
            gaps.append(float(top.values[0] - top.values[1]))
            ids.append(int(top.indices[0]))
        rows = run(start + ids[:-1]) if encoder_decoder else prompt_rows
    return ids, gaps, rows


def make(folder_name: str, out: pathlib.Path) -> None:
    name = folder_name.removesuffix("_memory")
    in_memory = name != folder_name
    seeds = variants.SEEDS | gemmas.SEEDS | hybrids.SEEDS
    torch.manual_seed(sum(name.encode()) + seeds.get(name, 0))
    config = VARIANTS[name]()
    # eager attention of Falcon adds ALiBi twice
    attention = "sdpa" if getattr(config, "alibi", False) is True else "eager"
    config._attn_implementation = attention
    encoder_decoder = bool(config.is_encoder_decoder)
    auto = hf.AutoModelForSeq2SeqLM if encoder_decoder else hf.AutoModelForCausalLM
    if hasattr(config, "text_config"):
        auto = hf.AutoModelForImageTextToText
    if config.model_type in ("mllama_text_model", "emu3_text_model"):  # no AutoModel knows these
        auto = hf.MllamaForCausalLM if name == "mllama" else hf.Emu3ForCausalLM
    if config.model_type == "chameleon":
        auto = hf.ChameleonForConditionalGeneration
    if config.model_type == "qwen3_omni_moe_thinker":
        auto = hf.Qwen3OmniMoeThinkerForConditionalGeneration
    if config.model_type == "moss_transcribe_diarize":
        auto = hf.MossTranscribeDiarizeForConditionalGeneration
    if config.model_type == "granite_speech":
        auto = hf.GraniteSpeechForConditionalGeneration
    if config.model_type == "nemo_speechlm":
        auto = hf.Nemotron3_5TranscribeForConditionalGeneration
    make_model = auto.from_config if hasattr(auto, "from_config") else auto._from_config
    model = make_model(config, attn_implementation=attention).float().eval()
    if name == "t5_untied":
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    randomize(model)
    forbid(model, name)
    if name in gemmas.VARIANTS:
        gemmas.finish(model)
    if name in hybrids.VARIANTS:
        hybrids.randomize(model)
    text = getattr(config, "text_config", config)
    lengths = hybrids.PROMPT_LENGTHS if name in hybrids.VARIANTS else (5, 23, 70)
    if in_memory:
        lengths = (5, 12, 33)
    n_written = getattr(text, "unpadded_vocab_size", None) or getattr(text, "output_vocab_size", None)
    n_tokens = n_written or text.vocab_size
    prompts = [torch.randint(3, n_tokens, (n,)).tolist() for n in lengths]
    answers = [answer(model, p, encoder_decoder) for p in prompts]
    if name in FORBIDDEN:
        assert [generate(model, p) for p in prompts] == [a[0] for a in answers]
    folder = out / folder_name
    model.to(torch.bfloat16).save_pretrained(
        folder, save_original_format=not in_memory and name not in variants.STACKED)
    published = hybrids.PUBLISHED | variants.PUBLISHED
    if name in published and not in_memory:
        published[name](folder)
    golden = {
        "model": folder_name, "family": config.model_type, "encoder_decoder": encoder_decoder,
        "vocab": answers[0][2].shape[1], "prompts": prompts, "greedy": [a[0] for a in answers],
        "gaps": [[round(g, 6) for g in a[1]] for a in answers],
        "logits_rows": [len(a[2]) for a in answers],
        "transformers": hf.__version__, "torch": torch.__version__,
    }
    (folder / "golden.json").write_text(json.dumps(golden))
    rows = torch.cat([a[2] for a in answers]).float().contiguous().numpy().astype("<f4")
    rows.tofile(folder / "golden.bin")
    print(folder_name, rows.shape, "smallest gap", min(min(a[1]) for a in answers))


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    in_memory = [f"{name}_memory" for name in variants.IN_MEMORY]
    for each in sys.argv[2:] or [*VARIANTS, *in_memory]:
        make(each, target)
