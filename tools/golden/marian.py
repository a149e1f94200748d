#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/marian and marian_separate: the files of MarianTokenizer over two small
SentencePiece models of made-up sentences, and what it makes of texts. Needs transformers and
sentencepiece.

usage: marian.py [--out tests/golden/tokenizers]
"""
import argparse
import json
import os
import random
import shutil

os.environ["USE_TORCH"] = "0"
import sentencepiece  # noqa: E402
from transformers import MarianTokenizer  # noqa: E402

ENGLISH = ("the a my our old small green quiet bird boat river house garden table letter window sees "
           "finds keeps paints opens carries before behind under near with 12 305 today slowly never "
           "light stone bread winter morning song teacher friend waits reads and or but not").split()
FRENCH = ("le la une mon notre vieux petit vert calme oiseau bateau rivière maison jardin été table lettre "
          "fenêtre voit trouve garde peint ouvre porte avant derrière sous près avec 12 305 aujourd'hui "
          "jamais lumière pierre pain hiver matin chanson élève garçon forêt déjà naïve Noël œuf").split()


def sentences(words, seed, count=500):
    pick = random.Random(seed)
    for _ in range(count):
        text = " ".join(pick.choice(words) for _ in range(pick.randint(3, 10)))
        yield text[0].upper() + text[1:] + pick.choice(".!?,;:")


def rules():
    """A part of NFKC: the whole charsmap would be 240 kB."""
    for i in range(10):
        yield [0xFF10 + i], [0x30 + i]
    for i in range(26):
        yield [0xFF21 + i], [0x41 + i]
        yield [0xFF41 + i], [0x61 + i]
    for source, target in (("\ufb01", "fi"), ("\ufb02", "fl"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "),
                           ("\n", " "), ("\u2026", "..."), ("e\u0301", "é"), ("e\u0300", "è"), ("\u200b", ""),
                           ("½", "1\u20442"), ("™", "TM"), ("²", "2"), ("\uff01", "!")):
        yield [ord(c) for c in source], [ord(c) for c in target]


def train(folder, side, lines, size):
    text, tsv = os.path.join(folder, "text"), os.path.join(folder, "rules.tsv")
    with open(text, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    with open(tsv, "w", encoding="utf-8") as out:
        for source, target in rules():
            out.write("%s\t%s\n" % (" ".join("%X" % c for c in source), " ".join("%X" % c for c in target)))
    sentencepiece.SentencePieceTrainer.train(
        input=text, model_prefix=os.path.join(folder, side), vocab_size=size, model_type="unigram",
        character_coverage=1.0, normalization_rule_tsv=tsv, num_threads=1, bos_id=-1, eos_id=0, unk_id=1)
    os.rename(os.path.join(folder, side + ".model"), os.path.join(folder, side + ".spm"))
    os.remove(os.path.join(folder, side + ".vocab"))
    os.remove(text)
    os.remove(tsv)
    model = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, side + ".spm"))
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


def number(pieces, seed):
    """</s> and <unk> first, <pad> last, the rest in an order of its own."""
    rest = sorted(set(pieces) - {"</s>", "<unk>"})
    random.Random(seed).shuffle(rest)
    return {piece: i for i, piece in enumerate(["</s>", "<unk>"] + rest + ["<pad>"])}


TEXTS = ["", " ", "   ", "\n", "a", "The old bird sees the river.", "  two  spaces   here ", "The house\tnear\nthe river",
         "ﬁnds ﬂowers", "１２ ３０５", "ＴＨＥ ｇａｒｄｅｎ", "été", "éé", "é", "rivière près de la forêt", "cafe\u0301 e\u0300", "œuf Noël",
         "naïve œ ï ñ", "😀", "bird 😀 boat", "😀😀😀", "🏳️‍🌈 flag", "日本語", "bird日本bird", "Ünïcödé", "…", "½ ² ™",
         "a\u200bb", "a\u00a0b", "\u3000x\u3000", "▁", "▁▁a", "a▁b", "</s>", "a</s>b", "a </s> b", "<unk>", "x<unk>y", "<pad>",
         "</s></s>", ">>fra<<", ">>fra<< The old bird", ">>fra<<The old bird", ">>fra<<   The  bird ", ">>ita<< bread",
         ">>deu<< bread", " >>fra<< bread", "bread >>fra<< bread", ">>fra<< >>ita<< bread", ">>", "<<", ">><<", ">><<x",
         ">> bread << bread", ">>fra<", ">>fra< <", ">>>fra<<", ">>fra<<</s>", "</s>>>fra<< bread", ">>fra<<😀", "12.5% of 305",
         "don't", "e-mail@example.org", "UPPER CASE", "a" * 100, "the " * 30, "\U0010ffff", "\u0301", "x\u0301y", "é è ê ë",
         "!?.,;:", "(bracket) [x] {y}", "\"quoted\" 'x'", "a\r\nb", "<s>", "<s> x </s>", "\ufeffa", "١٢", "１＋１", "ab cd\u2028ef"]


def texts():
    yield from TEXTS
    yield from sentences(ENGLISH, 11, 45)
    yield from sentences(FRENCH, 12, 25)
    yield from (">>fra<< " + text for text in sentences(ENGLISH, 13, 10))
    pick = random.Random(14)
    for _ in range(40):
        yield "".join(pick.choice("abcdeé èœ 😀ﬁ１>< \u3000.the") for _ in range(pick.randint(1, 30)))


def ends_with_space(tokenizer, ids):
    """Whether the tokenizer cuts a space at the end, which one that streams has written by then."""
    pieces = tokenizer.convert_ids_to_tokens(ids, skip_special_tokens=True)
    return pieces != [] and "".join(pieces).strip("▁") != "" and pieces[-1].endswith("▁")


def targets(tokenizer):
    """Ids that a model could write: of French sentences, and any that end with no space."""
    for text in sentences(FRENCH, 15, 25):
        yield tokenizer(text_target=text)["input_ids"]
    vocab = tokenizer.decoder
    pick = random.Random(16)
    for _ in range(25):
        ids = [pick.choice(sorted(vocab)) for _ in range(pick.randint(1, 12))]
        if not ends_with_space(tokenizer, ids):
            yield ids + pick.choice([[], [0]])


def cases(folder):
    tokenizer = MarianTokenizer.from_pretrained(folder)
    special = set(tokenizer.all_special_ids)
    shared = not tokenizer.separate_vocabs
    out = []
    for text in texts():
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        entry = {"text": text, "ids": ids, "ids_special": tokenizer(text)["input_ids"]}
        if shared and not ends_with_space(tokenizer, entry["ids_special"]):
            entry["decoded_skip"] = tokenizer.decode(entry["ids_special"], skip_special_tokens=True)
        if shared and not special & set(ids):
            entry["decoded"] = tokenizer.decode(ids)
        out.append(entry)
    for ids in targets(tokenizer):
        out.append({"target_ids": ids, "target_text": tokenizer.decode(ids, skip_special_tokens=True)})
    return out


def write(path, value, indent=None):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=False, indent=indent)
        out.write("\n")


def write_cases(folder):
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as out:
        out.write("[" + ",\n ".join(json.dumps(c, ensure_ascii=False) for c in cases(folder)) + "]\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="tests/golden/tokenizers")
    out = parser.parse_args().out
    for name, separate in (("marian", False), ("marian_separate", True)):
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        source = train(folder, "source", list(sentences(ENGLISH, 1)), 140)
        target = train(folder, "target", list(sentences(FRENCH, 2)), 140)
        config = {"source_lang": "eng", "target_lang": "fra", "tokenizer_class": "MarianTokenizer"}
        if separate:
            config["separate_vocabs"] = True
            write(os.path.join(folder, "target_vocab.json"), number(target[:-10], 4))
            write(os.path.join(folder, "vocab.json"), number(source[:-10], 3))  # some have no id
        else:
            write(os.path.join(folder, "vocab.json"), number(source[:-5] + target + [">>fra<<", ">>ita<<"], 3))
        write(os.path.join(folder, "tokenizer_config.json"), config, 2)
        write_cases(folder)
    # further special tokens; the vocabulary lacks the last one, which transformers would add
    folder = os.path.join(out, "marian_special")
    shutil.copytree(os.path.join(out, "marian"), folder, dirs_exist_ok=True)
    extra = [">>ita<<", {"content": "▁the", "special": True, "__type": "AddedToken"}, "<none>"]
    path = os.path.join(folder, "tokenizer_config.json")
    with open(path, encoding="utf-8") as file:
        write(path, json.load(file) | {"additional_special_tokens": extra}, 2)
    write_cases(folder)


if __name__ == "__main__":
    main()
