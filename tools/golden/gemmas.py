"""Small configurations of Gemma 4 and Gemma 3n, for models.py: windowed and full layers with heads of
other sizes, values that are keys, shared keys and values, a mixture, embeddings of layers."""
import torch
import transformers as hf

COMMON = dict(vocab_size=128, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=64,
              intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
              max_position_embeddings=512, sliding_window=16)
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
              num_key_value_heads=1, head_dim=16, position_embedding_size=4)
WINDOW, FULL = "sliding_attention", "full_attention"

VARIANTS = {
    # as the 31B: KV heads of full layers are fewer and larger, and their values are keys
    "gemma4": lambda: hf.Gemma4TextConfig(
        **COMMON, num_hidden_layers=4, layer_types=[WINDOW, WINDOW, FULL, FULL],
        global_head_dim=32, num_global_key_value_heads=1, attention_k_eq_v=True,
        hidden_size_per_layer_input=0, final_logit_softcapping=30.0),
    # as the 26B-A4B, inside the model that sees
    "gemma4_moe": lambda: hf.Gemma4Config(
        text_config=dict(
            COMMON, num_hidden_layers=3, layer_types=[WINDOW, WINDOW, FULL], global_head_dim=32,
            num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0,
            enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=16),
        vision_config=VISION, audio_config=None),
    # as E2B and E4B: embeddings of layers; the last layers share keys and values
    "gemma4_shared": lambda: hf.Gemma4TextConfig(
        **dict(COMMON, hidden_size=48, intermediate_size=32), num_hidden_layers=6,
        layer_types=[WINDOW, FULL, WINDOW, FULL, WINDOW, FULL],
        global_head_dim=32, num_kv_shared_layers=3, use_double_wide_mlp=True,
        hidden_size_per_layer_input=8, vocab_size_per_layer_input=128,
        final_logit_softcapping=30.0),
    # four streams, sparse gates, shared keys and values, fewer embeddings of layers than tokens
    "gemma3n": lambda: hf.Gemma3nTextConfig(
        **dict(COMMON, hidden_size=48, intermediate_size=[32, 48, 32, 32, 48]),
        num_hidden_layers=5, layer_types=[WINDOW, FULL, WINDOW, FULL, WINDOW],
        num_kv_shared_layers=2, activation_sparsity_pattern=[0.95, 0.5, 0.0, 0.0, 0.8],
        laurel_rank=8, hidden_size_per_layer_input=8, vocab_size_per_layer_input=120),
}

SEEDS = {}

# Weights near one, as trained ones are; the rest is as models.py makes it.
NEAR_ONE = ("layer_scalar", "router.scale", "per_expert_scale", "correct_output_scale")


def finish(model: torch.nn.Module) -> None:
    """Norms multiply by their weights in these models, where those of earlier Gemmas add one."""
    tensors = list(model.named_parameters()) + list(model.named_buffers())
    with torch.no_grad():
        for name, p in tensors:
            if name.endswith(("q_norm.weight", "k_norm.weight")):  # scores are not scaled
                p.copy_((torch.randn_like(p) * 0.05 + 0.5).to(torch.bfloat16).float())
            elif name.endswith(NEAR_ONE) or (name.endswith("weight") and "norm" in name):
                p.copy_((torch.randn_like(p) * 0.1 + 1.0).to(torch.bfloat16).float())
