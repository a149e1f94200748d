"""What the generators of conversations share: turns, tables and a user's ways of writing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

TEXT = Path(__file__).parent / "text"
IMPERATIVES = set(
    "Add Calculate Compute Create Define Describe Explain Generate Give List Make Name Tell Write".split()
)


@dataclass
class Turn:
    """A message of the user and the answer; `brief` is the answer to one who wants it short."""

    user: str
    answer: str
    brief: str = ""


def load_rows(path: Path) -> list[list[str]]:
    """The rows of a table: one per line, fields between bars."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line.split(" | ") for line in lines if line and line[0] not in "#["]


def load_sections(path: Path) -> dict[str, list[list[str]]]:
    """A file of several tables, each under a line `[name]`."""
    sections: dict[str, list[list[str]]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("["):
            rows = sections[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            rows.append(line.split(" | "))
    return sections


def with_article(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" and not noun.startswith("uni") else "a ") + noun


def sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def join_and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def casual(text: str, rng: random.Random) -> str:
    """The same request as people type it: polite, contracted, without capitals or full stop."""
    if len(text) > 300 or text.startswith(("Repeat", "Say", "Please say")):
        return text
    roll = rng.random()
    if text.split(" ", 1)[0] in IMPERATIVES and text.endswith("."):
        if roll < 0.1:
            text = text[:-1] + ", please."
        elif roll < 0.2:
            text = "Please " + text[0].lower() + text[1:]
    elif roll < 0.06 and text.endswith("?"):
        text = rng.choice(("Please tell me: ", "Question: ", "Hey, ", "Hi! ")) + text
    if rng.random() < 0.2:
        text = text.replace("What is ", "What's ").replace("what is ", "what's ")
    if rng.random() < 0.2:
        text = text.lower()
    if rng.random() < 0.2:
        text = text.rstrip(".?!")
    if rng.random() < 0.02:
        text = text.upper()
    return text or "?"
