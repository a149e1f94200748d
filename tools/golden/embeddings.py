#!/usr/bin/env python3
"""Makes tiny checkpoints of models that embed, with random weights, and the vectors that the Hugging
Face implementation gives for them (float32, eager attention).

    pip install torch transformers==5.23.0
    python3 tools/golden/embeddings.py OUT_FOLDER [NAME ...]

golden.json: prompts (token ids), how many ids the first of two texts has (0: there is one), and
labels. golden.bin: float32, for each prompt the vectors of pooling cls, mean and last, as long as
they are, then the labels' logits.
"""
import json
import pathlib
import sys

import torch
import transformers as hf

SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, max_position_embeddings=160, pad_token_id=1, bos_token_id=2,
             eos_token_id=3)
GROUPED = dict(SMALL, num_key_value_heads=2, head_dim=8)
LABELS = dict(num_labels=3)

# name: config, class of the whole model, whether texts may be pairs
VARIANTS = {
    "bert": (lambda: hf.BertConfig(**SMALL), hf.BertModel, True),
    "bert_classes": (lambda: hf.BertConfig(**SMALL, **LABELS), hf.BertForSequenceClassification,
                     True),
    "roberta": (lambda: hf.RobertaConfig(**SMALL), hf.RobertaModel, False),
    "xlm_roberta_classes": (lambda: hf.XLMRobertaConfig(**SMALL, num_labels=1, type_vocab_size=1),
                            hf.XLMRobertaForSequenceClassification, False),
    "electra": (lambda: hf.ElectraConfig(**SMALL, embedding_size=32, **LABELS),
                hf.ElectraForSequenceClassification, True),
    "mpnet": (lambda: hf.MPNetConfig(**SMALL), hf.MPNetModel, False),
    "distilbert": (lambda: hf.DistilBertConfig(
        vocab_size=64, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=160,
        **LABELS), hf.DistilBertForSequenceClassification, False),
    "nomic_bert": (lambda: hf.NomicBertConfig(**SMALL), hf.NomicBertModel, True),
    "gte": (lambda: hf.GteConfig(**SMALL, type_vocab_size=2), hf.GteModel, True),
    "gte_new": (lambda: hf.GteConfig(**SMALL, type_vocab_size=2, rope_parameters=dict(
        rope_type="default", rope_theta=500000.0)), hf.GteModel, True),
    "t5_encoder": (lambda: hf.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
        feed_forward_proj="gated-gelu", relative_attention_num_buckets=8,
        relative_attention_max_distance=20), hf.T5EncoderModel, False),
    "jina_v3": (lambda: hf.JinaEmbeddingsV3Config(**SMALL, type_vocab_size=1),
                hf.JinaEmbeddingsV3Model, False),
    "modernbert": (lambda: hf.ModernBertConfig(
        **dict(SMALL, num_hidden_layers=4), local_attention=16, cls_token_id=2, sep_token_id=3,
        **LABELS), hf.ModernBertForSequenceClassification, False),
    "eurobert": (lambda: hf.EuroBertConfig(**GROUPED, mask_token_id=4), hf.EuroBertModel, False),
    "gemma3_embedding": (lambda: hf.Gemma3TextConfig(
        **dict(GROUPED, num_hidden_layers=3), use_bidirectional_attention=True, sliding_window=16,
        sliding_window_pattern=2, query_pre_attn_scalar=8), hf.Gemma3TextModel, False),
    "qwen3_embedding": (lambda: hf.Qwen3Config(**GROUPED), hf.Qwen3Model, False),
    "qwen3_classes": (lambda: hf.Qwen3Config(**GROUPED, **LABELS),
                      hf.Qwen3ForSequenceClassification, False),
    "qwen2_embedding": (lambda: hf.Qwen2Config(**dict(SMALL, num_key_value_heads=2)),
                        hf.Qwen2Model, False),
    "llama_embedding": (lambda: hf.LlamaConfig(**GROUPED), hf.LlamaModel, False),
    # tokens all see each other, by a mask; pooled for classes by their mean
    "llama_bidirec": (lambda: hf.LlamaConfig(**dict(GROUPED, rope_parameters={
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64})), hf.LlamaModel, False),
    "mistral_embedding": (lambda: hf.MistralConfig(**GROUPED, sliding_window=None),
                          hf.MistralModel, False),
}


def randomize(model: torch.nn.Module) -> None:
    """Weights that make vectors differ clearly, exact in bf16."""
    usual = 0.0 if "gemma" in model.config.model_type else 1.0
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_norm = p.ndim == 1 and "norm" in name.lower()
            if is_norm:
                p.copy_(torch.randn_like(p) * 0.1 + (usual if name.endswith("weight") else 0.0))
            else:
                is_unscaled = name.endswith("SelfAttention.q.weight") # of T5
                p.copy_(torch.randn_like(p) * (0.05 if p.ndim == 1 or is_unscaled else 0.2))
            p.copy_(p.to(torch.bfloat16).float())


def answer(model, prompt: list[int], n_first: int) -> list[torch.Tensor]:
    ids = {"input_ids": torch.tensor([prompt])}
    if n_first > 0:
        types = [int(i >= n_first) for i in range(len(prompt))]
        ids["token_type_ids"] = torch.tensor([types])
    if getattr(model, "sees_both", False):
        ids["attention_mask"] = torch.zeros(1, 1, len(prompt), len(prompt))
    base = model.base_model
    with torch.no_grad():
        hidden = base(**ids).last_hidden_state[0]
        vectors = [hidden[0], hidden.mean(0), hidden[-1]]
        if hasattr(model, "num_labels") and type(model).__name__.endswith("Classification"):
            vectors.append(model(**ids).logits[0])
    return vectors


def make(name: str, out: pathlib.Path) -> None:
    torch.manual_seed(sum(name.encode()))
    new_config, new_model, has_pairs = VARIANTS[name]
    config = new_config()
    config._attn_implementation = "eager"
    model = new_model(config).float().eval()
    randomize(model)
    if name == "gte_new":
        scale_by_ntk(model, 2.0)
    model.sees_both = name == "llama_bidirec"
    prompts = [torch.randint(5, 64, (n,)).tolist() for n in (1, 7, 40, 150)]
    firsts = [0, 3 if has_pairs else 0, 0, 0]
    answers = [answer(model, p, f) for p, f in zip(prompts, firsts)]
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    if name in ("bert_classes", "xlm_roberta_classes"):
        make_pairs(model, folder, name.startswith("xlm"))
    model.to(torch.bfloat16).save_pretrained(folder)
    if name == "gte_new":
        write_as_new(folder, 2.0)
    if name == "llama_bidirec":
        path = folder / "config.json"
        path.write_text(path.read_text().replace('"model_type": "llama"',
                                                 '"model_type": "llama_bidirec"'))
    n_labels = len(answers[0][3]) if len(answers[0]) > 3 else 0
    (folder / "golden.json").write_text(json.dumps({
        "prompts": prompts, "first": firsts, "labels": n_labels, "dim": len(answers[0][0]),
        "transformers": hf.__version__, "torch": torch.__version__}))
    rows = torch.cat([v for a in answers for v in a]).float().contiguous().numpy().astype("<f4")
    rows.tofile(folder / "golden.bin")
    print(name, rows.shape, "largest", abs(rows).max())


def scale_by_ntk(model, factor: float) -> None:
    """NTK scaling as gte-base-en-v1.5's own modelling code has it (https://kexue.fm/archives/9706,
    formula 6): a base `factor` times as large, and frequencies divided by factor^(2 / dim)."""
    rotary = model.rotary_emb
    dim = 2 * len(rotary.inv_freq)
    base = model.config.rope_parameters["rope_theta"] * factor
    rotary.inv_freq = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim) / factor ** (2 / dim)


def write_as_new(folder: pathlib.Path, factor: float) -> None:
    """config.json with the keys of that code."""
    config = json.loads((folder / "config.json").read_text())
    rope = config.pop("rope_parameters")
    config |= {"architectures": ["NewModel"], "model_type": "new", "pack_qkv": True,
               "position_embedding_type": "rope", "layer_norm_type": "layer_norm",
               "rope_theta": rope["rope_theta"], "logn_attention_scale": False,
               "logn_attention_clip1": False, "rope_scaling": {"type": "ntk", "factor": factor}}
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def make_tokenizer(folder: pathlib.Path, roberta: bool):
    """Letters as pieces of words, and the post-processor of BERT or RoBERTa."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    special = ["[UNK]", "<pad>", "<s>", "</s>", "<mask>"]
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = special + list(letters) + ["##" + c for c in letters] + [".", ",", "?", "the", "##ing"]
    assert len(pieces) <= 64
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    make = processors.RobertaProcessing if roberta else processors.BertProcessing
    tokenizer.post_processor = make(("</s>", 3), ("<s>", 2))
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def make_pairs(model, folder: pathlib.Path, roberta: bool) -> None:
    """pairs.json: a query, documents, and the logits of each pair; the last is cut to 40 tokens."""
    tokenizer = make_tokenizer(folder, roberta)
    query = "What is the capital of France?"
    documents = ["Paris.", "the baking of bread", "Lyon, Paris, Nice", "the " * 50]
    logits = []
    for document in documents:
        tokenizer.enable_truncation(40, strategy="longest_first")
        pair = tokenizer.encode(query, document)
        ids = {"input_ids": torch.tensor([pair.ids])}
        if not roberta:
            ids["token_type_ids"] = torch.tensor([pair.type_ids])
        with torch.no_grad():
            logits.append(model(**ids).logits[0].tolist())
    (folder / "pairs.json").write_text(json.dumps(
        {"query": query, "documents": documents, "tokens": 40, "logits": logits}))


def write_answers(folder: pathlib.Path, prompts, answers, **more) -> None:
    (folder / "golden.json").write_text(json.dumps(dict(
        prompts=prompts, first=[0] * len(prompts), labels=0, transformers=hf.__version__, **more)))
    rows = torch.cat([v for a in answers for v in a]).float().contiguous().numpy().astype("<f4")
    rows.tofile(folder / "golden.bin")


def make_modules(out: pathlib.Path) -> None:
    """A folder of sentence-transformers: mean, two dense layers, a length of one. The vectors are
    those of the whole, for prompts of token ids."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers import models as modules
    torch.manual_seed(7)
    source, folder = out / "bert_classes", out / "sentence_dense"
    bert = modules.Transformer(str(source), max_seq_length=150)
    dense = [modules.Dense(32, 20), modules.Dense(20, 24, bias=False,
                                                  activation_function=torch.nn.Identity())]
    parts = [bert, modules.Pooling(32, "mean"), *dense, modules.Normalize()]
    whole = SentenceTransformer(modules=parts, device="cpu").float().eval()
    whole.save(str(folder), create_model_card=False)
    prompts = [torch.randint(5, 64, (n,)).tolist() for n in (1, 20, 140)]
    answers = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        with torch.no_grad():
            features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            answers.append([whole(features)["sentence_embedding"][0]])
    write_answers(folder, prompts, answers, dim=24, whole=True)


def make_gguf(out: pathlib.Path) -> None:
    """The same BERT as a GGUF file by llama.cpp's names, without a tokenizer."""
    import gguf
    from safetensors.torch import load_file
    source, folder = out / "bert", out / "bert_gguf"
    folder.mkdir(exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    writer = gguf.GGUFWriter(folder / "model.gguf", "bert")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    ends = {"word_embeddings": "token_embd", "position_embeddings": "position_embd",
            "token_type_embeddings": "token_types", "LayerNorm": "token_embd_norm"}
    layers = {"attention.self.query": "attn_q", "attention.self.key": "attn_k",
              "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
              "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
              "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
    for name, tensor in load_file(source / "model.safetensors").items():
        stem, ending = name.rsplit(".", 1)
        parts = stem.split(".")
        if parts[0] == "pooler":
            continue
        own = ends[parts[1]] if parts[0] == "embeddings" else (
            f"blk.{parts[2]}.{layers['.'.join(parts[3:])]}")
        writer.add_tensor(f"{own}.{ending}", tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for name in ("golden.json", "golden.bin"):
        (folder / name).write_bytes((source / name).read_bytes())


def make_t5_gguf(out: pathlib.Path) -> None:
    """An encoder of T5 as a GGUF file by llama.cpp's names, without a tokenizer. Distances end at
    128, for which GGUF has no key."""
    import gguf
    torch.manual_seed(11)
    config = hf.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                         feed_forward_proj="gated-gelu", relative_attention_num_buckets=8)
    config._attn_implementation = "eager"
    model = hf.T5EncoderModel(config).float().eval()
    randomize(model)
    prompts = [torch.randint(5, 64, (n,)).tolist() for n in (1, 7, 40, 150)]
    answers = [answer(model, p, 0) for p in prompts]
    folder = out / "t5_encoder_gguf"
    folder.mkdir(exist_ok=True)
    write_answers(folder, prompts, answers, dim=config.d_model)
    writer = gguf.GGUFWriter(folder / "model.gguf", "t5encoder")
    writer.add_context_length(512)
    writer.add_embedding_length(config.d_model)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_block_count(config.num_layers)
    writer.add_head_count(config.num_heads)
    writer.add_key_length(config.d_kv)
    writer.add_value_length(config.d_kv)
    writer.add_relative_attn_buckets_count(config.relative_attention_num_buckets)
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.T5ENCODER, config.num_layers)
    for name, tensor in model.state_dict().items():
        if name != "encoder.embed_tokens.weight":
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    folders = pathlib.Path(sys.argv[1])
    for each in sys.argv[2:] or VARIANTS:
        make(each, folders)
    if len(sys.argv) == 2:
        make_modules(folders)
        make_gguf(folders)
        make_t5_gguf(folders)
