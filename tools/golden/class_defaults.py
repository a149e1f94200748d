#!/usr/bin/env python3
"""Writes src/model/families/class_defaults.inc: what config classes of the transformers library take
where config.json lacks a key, for each model_type that a family has and each key that linnet reads.

usage: class_defaults.py SOURCE_DIR
"""
import dataclasses
import pathlib
import re
import sys
import warnings

warnings.filterwarnings("ignore")
import transformers

# Read otherwise: from tensors, or by rules of their own.
LEFT_OUT = {"vocab_size", "tie_word_embeddings", "eos_token_id", "bos_token_id", "pad_token_id"}
# Without it nobody knows how far the two lists of factors reach.
LEFT_OUT_OF = {"phi3": {"max_position_embeddings"}}


def words_of(folder):
    """Every alternative in every string of the reader of specs."""
    text = "".join(p.read_text() for p in sorted(folder.rglob("*.c")))
    text = re.sub(r'"\s*\n\s*"', "", text)
    found = set()
    for string in re.findall(r'"((?:[^"\\]|\\.)*)"', text):
        found.update(word.lstrip("!") for word in string.split("|"))
    return found


def types_of(folder):
    text = "".join(p.read_text() for p in sorted(folder.rglob("*.c")))
    found = set()
    for family in re.findall(r"^const ln_family \w+ = \{.*?^\};", text, re.M | re.S):
        match = re.search(r'\.hf_types\s*=\s*((?:"[^"]*"\s*)+)', family)
        match = match or re.search(r'\.name\s*=\s*("[^"]*")', family)
        found.update("".join(re.findall(r'"([^"]*)"', match.group(1))).split("|"))
    return sorted(found)


def text_class(model_type):
    """The config class of a type, or of the language model inside it; None: there is none."""
    if model_type not in transformers.CONFIG_MAPPING:
        return None
    config = transformers.CONFIG_MAPPING[model_type]
    if "text_config" not in {f.name for f in dataclasses.fields(config)}:
        return config
    inner = getattr(config, "sub_configs", {}).get("text_config")
    return inner if isinstance(inner, type) and dataclasses.is_dataclass(inner) else None


def literal(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def row_of(config, words):
    base = {f.name for f in dataclasses.fields(transformers.PreTrainedConfig)}
    row = {}
    for f in dataclasses.fields(config):
        left_out = base | LEFT_OUT | LEFT_OUT_OF.get(config.model_type, set())
        if f.name in left_out or f.name not in words:
            continue
        if isinstance(f.default, (bool, int, float, str)):
            row[f.name] = literal(f.default)
    theta = getattr(config, "default_theta", None)
    if isinstance(theta, (int, float)):
        row.setdefault("rope_theta", literal(float(theta)))
    return row


def main():
    source = pathlib.Path(sys.argv[1]) / "src/model"
    words = words_of(source)
    lines = [
        "/* Written by tools/golden/class_defaults.py. For each model_type what the transformers library\n"
        f" * {transformers.__version__} takes where config.json lacks a key. */\n"
    ]
    for model_type in types_of(source / "families"):
        config = text_class(model_type)
        if config is None:
            continue
        row = "|".join(f"{k}={v}" for k, v in row_of(config, words).items())
        lines.append(f'{{"{model_type}", "{row}"}},\n')
    (source / "families/class_defaults.inc").write_text("".join(lines))


main()
