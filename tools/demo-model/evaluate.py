"""Measures the model in a GGUF file on held-out additions, facts, JSON records and unseen text.

python evaluate.py --model ../../models/demo.gguf --text shakespeare.txt [--build build/]
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path

import torch

from arithmetic import ADDITIONS, FOLLOW_UPS, evaluation_pairs
from data import Encoder
from documents import Documents, split_plays
from facts import Facts, noun
from loader import Demo, load
from model import Config, Model, generate

BATCH = 100  # prompts that are continued together


def answers(demo: Demo, conversations: list[list[dict]], count: int) -> list[str]:
    """Greedy answers to conversations whose last message is the user's."""
    out = []
    for start in range(0, len(conversations), BATCH):
        prompts = [demo.chat_ids(messages) for messages in conversations[start : start + BATCH]]
        out += [demo.tokenizer.decode(ids) for ids in generate(demo.model, prompts, count, demo.eos)]
    return out


def asked(*contents: str) -> list[dict]:
    """A conversation of these messages, the user's first."""
    return [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]


def additions(demo: Demo) -> None:
    """1,000 ordered pairs of numbers from 0 to 99 that training never saw in either order."""
    rng = random.Random(0)
    pairs = evaluation_pairs(1000)
    questions = [rng.choice(ADDITIONS)[0].format(a=a, b=b, c=a + b) for a, b in pairs]
    report("held-out additions, one question", pairs, questions, answers(demo, [asked(q) for q in questions], 16))
    turns = []
    for a, b in pairs:
        c = rng.randrange(100)
        turns.append(
            asked(
                "What is the capital of Italy?",
                "The capital of Italy is Rome.",
                f"{c} + 0",
                f"{c} + 0 = {c}.",
                rng.choice(FOLLOW_UPS).format(a=a, b=b),
            )
        )
    report(
        "held-out additions, third question of a chat",
        pairs,
        [t[-1]["content"] for t in turns],
        answers(demo, turns, 16),
    )


def report(title: str, pairs: list[tuple[int, int]], questions: list[str], given: list[str]) -> None:
    """The last number of an answer counts."""
    wrong = [
        f"{q} -> {g}" for (a, b), q, g in zip(pairs, questions, given) if re.findall(r"\d+", g)[-1:] != [str(a + b)]
    ]
    print(f"{title}: {len(pairs) - len(wrong)} of {len(pairs)} right", *wrong[:10], sep="\n    ")


def facts(demo: Demo) -> None:
    known = Facts()
    cases = [(f"What is the capital of {row[0]}?", row[1]) for row in known.capitals]
    cases += [(f"What colour is {noun(row[0])}?", row[3]) for row in known.things if row[3] != "-"]
    cases += [(f"What is the opposite of {a}?", b) for a, b in known.small["opposite"]]
    cases += [tuple(row) for row in known.small["answer"]]
    given = answers(demo, [asked(q) for q, _ in cases], 80)
    wrong = [f"{q} -> {g}" for (q, a), g in zip(cases, given) if a.lower() not in g.lower()]
    print(f"facts: {len(cases) - len(wrong)} of {len(cases)} right", *wrong[:10], sep="\n    ")


def records(demo: Demo, documents: Documents) -> None:
    rng = random.Random("records")
    turns = [documents.dialogues.records.turns(rng)[0] for _ in range(100)]
    given = answers(demo, [asked(t.user) for t in turns], 160)
    valid = same = 0
    for turn, text in zip(turns, given):
        try:
            found, wanted = json.loads(text), json.loads(turn.answer)
        except ValueError:
            continue
        valid += 1
        same += isinstance(wanted, list) or list(found) == list(wanted)
    print(f"JSON records: {valid} of {len(turns)} valid, {same} with the keys in the order that the generator has")


@torch.no_grad()
def unseen_loss(demo: Demo, documents: Documents, held_out: str) -> None:
    """Nats per token on the held-out end of the plays and on fresh texts of the generators."""
    context = demo.model.config.context
    ids = torch.tensor(demo.tokenizer.encode(held_out).ids)
    rows = [ids[i : i + context] for i in range(0, len(ids) - 1, context)]
    losses = [torch.nn.functional.cross_entropy(demo.model(r[None, :-1])[0], r[1:]) for r in rows if len(r) > 1]
    print(f"loss on held-out plays: {torch.stack(losses).mean():.3f} nats per token")
    rng, encoder = random.Random("unseen"), Encoder(demo.tokenizer, context)
    for name, draw in (("stories", documents.story), ("conversations", documents.conversation)):
        total = count = 0.0
        for document in encoder.encode([draw(rng) for _ in range(200)], rng):
            logits = demo.model(torch.tensor([document.ids[:-1]]))[0]
            nats = torch.nn.functional.cross_entropy(logits, torch.tensor(document.ids[1:]), reduction="none")
            mask = torch.tensor(document.learned[1:])
            total, count = total + nats[mask].sum().item(), count + mask.sum().item()
        print(f"loss on fresh {name}: {total / count:.3f} nats per token")


@torch.no_grad()
def compare(demo: Demo, build: Path) -> None:
    """Distance of the logits of the file's weights from those of the float32 checkpoint."""
    checkpoint = torch.load(build / "checkpoint.pt", map_location=torch.get_default_device())
    model = Model(Config(**checkpoint["config"])).eval()
    model.load_state_dict(checkpoint["weights"])
    ids = torch.tensor([demo.text_ids("Once upon a time, there was a little fox named Rusty. One day, the fox")])
    exact, quantised = model(ids), demo.model(ids)
    print(
        f"logits of Q8_0 against float32: relative error {((quantised - exact).norm() / exact.norm()):.2e}, "
        f"same first choice at {(exact.argmax(-1) == quantised.argmax(-1)).float().mean():.0%} of positions"
    )


def check_encoding(demo: Demo, documents: Documents) -> None:
    """Training encoded conversations piece by piece; the chat template's whole text gives the same ids."""
    rng, encoder = random.Random("encoding"), Encoder(demo.tokenizer, demo.model.config.context)
    for _ in range(200):
        document = documents.conversation(rng)
        ids = encoder.encode([document], rng)[0].ids
        messages = [{"role": role, "content": content} for role, content in document.messages]
        if demo.chat_ids(messages)[: len(ids)] != ids:
            raise ValueError(f"the chat template encodes differently: {messages}")
    print("chat template: same ids as in training")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True, help="the plays of Shakespeare as plain text")
    parser.add_argument("--build", type=Path, help="the folder that train.py wrote, to compare with its checkpoint")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_default_device(device)
    demo = load(args.model)
    demo.model.to(device)
    plays, held_out = split_plays(args.text)
    documents = Documents(plays)
    check_encoding(demo, documents)
    if args.build:
        compare(demo, args.build)
    additions(demo)
    facts(demo)
    records(demo, documents)
    unseen_loss(demo, documents, held_out)


if __name__ == "__main__":
    main()
