#!/usr/bin/env python3
"""Makes tests/golden/embeddings/qwen3_reranker: a tiny language model with random weights that
scores pairs by its tokens yes and no, as sentence-transformers keeps it (LogitScore), and what
sentence-transformers and transformers give for it (float32, eager attention).

    pip install torch transformers==5.23.0 sentence-transformers==6.2.0
    python3 tools/golden/rerankers.py OUT_FOLDER

golden.json and golden.bin are those of embeddings.py; pairs.json has a query, documents and the
score of each pair. The chat template knows the roles query and document.
"""
import json
import pathlib
import sys

import torch
import transformers as hf
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content if m.content is string else m.content[0].text }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)


def make_tokenizer() -> hf.PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    tokenizer.train_from_iterator(["yes no yes no the document, yes or no"] * 50, trainer)
    wrapped = hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
    )
    wrapped.chat_template = TEMPLATE
    return wrapped


def make_model(n_vocab: int) -> hf.Qwen3ForCausalLM:
    config = hf.Qwen3Config(
        vocab_size=n_vocab, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=256,
        tie_word_embeddings=True, bos_token_id=0, eos_token_id=2, pad_token_id=0)
    config._attn_implementation = "eager"
    model = hf.Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                p.copy_((torch.randn_like(p) * 0.3).to(torch.bfloat16))
    return model


def write_answers(folder: pathlib.Path, model, yes: int, no: int) -> None:
    prompts = [torch.randint(5, 64, (n,)).tolist() for n in (1, 7, 40)]
    rows = []
    for prompt in prompts:
        ids = {"input_ids": torch.tensor([prompt])}
        with torch.no_grad():
            hidden = model.model(**ids).last_hidden_state[0]
            logits = model(**ids).logits[0, -1]
        rows += [hidden[0], hidden.mean(0), hidden[-1], (logits[yes] - logits[no]).reshape(1)]
    (folder / "golden.json").write_text(json.dumps({
        "prompts": prompts, "first": [0] * len(prompts), "labels": 1, "dim": 32,
        "transformers": hf.__version__, "torch": torch.__version__}))
    torch.cat(rows).numpy().astype("<f4").tofile(folder / "golden.bin")


def main(out: pathlib.Path) -> None:
    torch.manual_seed(5)
    folder = out / "qwen3_reranker"
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer))
    yes, no = (tokenizer(word)["input_ids"] for word in ("yes", "no"))
    assert len(yes) == len(no) == 1
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    whole = CrossEncoder(modules=[Transformer(str(folder), transformer_task="text-generation"),
                                  LogitScore(yes[0], no[0])], device="cpu")
    whole.save_pretrained(str(folder), create_model_card=False)
    query = "What is the capital of France?"
    documents = ["Paris.", "the baking of bread", "Lyon, Paris, Nice", "Zürich \u4e2d\u6587"]
    scores = whole.predict([(query, d) for d in documents], activation_fn=torch.nn.Identity())
    (folder / "pairs.json").write_text(json.dumps({
        "query": query, "documents": documents, "tokens": 200,
        "logits": [[float(s)] for s in scores]}))
    write_answers(folder, model, yes[0], no[0])
    model.to(torch.bfloat16).save_pretrained(folder)
    for extra in ("generation_config.json", "README.md"):
        (folder / extra).unlink(missing_ok=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
