"""The training mixture: plain texts and conversations, each from its own generator."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from dialogue import Dialogues, Message, Plays
from stories import StoryTeller

# Rules of prose.txt, and how often each is drawn.
PROSE = "self yesterday opinion scene_text routine memory advice if_text family day_text news".split()
PROSE_WEIGHTS = (2, 3, 4, 3, 1, 2, 1, 1, 1, 1, 3)
HELD_OUT_SHARE = 0.05  # the end of the plays, kept for validation


def split_plays(path: Path) -> tuple[str, str]:
    """The text for training and the text for validation."""
    text = path.read_text()
    cut = text.index("\n\n", int(len(text) * (1 - HELD_OUT_SHARE)))
    return text[:cut], text[cut:]


@dataclass
class Document:
    """A plain text, or a conversation where there are messages."""

    text: str = ""
    messages: list[Message] = field(default_factory=list)
    ends: bool = True  # whether the end-of-text token follows

    def messages_text(self) -> list[str]:
        """Header and content of each message, in turn."""
        return [text for role, content in self.messages for text in (role + "\n", content)]


class Documents:
    """Draws one text or conversation at a time."""

    def __init__(self, plays_text: str) -> None:
        self.plays = Plays(plays_text)
        self.teller = StoryTeller()
        self.dialogues = Dialogues(self.teller, self.plays)
        # Weights count documents, whose lengths differ: about 150 to 250 tokens for a story or a
        # conversation, 700 for a scene of a play.
        kinds = [
            (self.story, 40), (self.conversation, 50), (self.scene, 0.1), (self.passage, 4),
            (self.writing, 3), (self.prose, 15), (self.record, 1), (self.sums, 1),
        ]  # fmt: skip
        self.generators, self.weights = zip(*kinds)

    def draw(self, rng: random.Random) -> Document:
        return rng.choices(self.generators, self.weights)[0](rng)

    def conversation(self, rng: random.Random) -> Document:
        return Document(messages=self.dialogues.dialogue(rng))

    def story(self, rng: random.Random) -> Document:
        return Document(self.teller.story(rng).text)

    def scene(self, rng: random.Random) -> Document:
        """A stretch of a play; the plays go on behind it, so it has no end."""
        return Document(self.plays.scene(rng, 40), ends=False)

    def passage(self, rng: random.Random) -> Document:
        return Document(self.dialogues.facts.passage(rng))

    def record(self, rng: random.Random) -> Document:
        return Document(self.dialogues.records.passage(rng))

    def sums(self, rng: random.Random) -> Document:
        return Document(self.dialogues.arithmetic.passage(rng))

    def prose(self, rng: random.Random) -> Document:
        """One to three short texts of one writer on different subjects, each a paragraph."""
        slots = {"he": "I", "his": "my"}
        subjects = rng.choices(PROSE, PROSE_WEIGHTS, k=rng.choice((1, 1, 1, 2, 3)))
        paragraphs = [self.dialogues.grammar.text(f"<{subject}>", slots, rng) for subject in dict.fromkeys(subjects)]
        return Document("\n\n".join(paragraphs))

    def writing(self, rng: random.Random) -> Document:
        rule = rng.choice(("<letter>", "<letter>", "<diary>", "<diary>", "<recipe>", "<poem>"))
        return Document(self.dialogues.grammar.text(rule, {"he": "I", "his": "my"}, rng))
