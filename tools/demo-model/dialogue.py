"""Conversations: one to ten exchanges on mixed subjects, with a system message or without."""

from __future__ import annotations

import random

from arithmetic import Arithmetic
from facts import Facts
from grammar import Grammar, compile_template, split_top, tidy
from reading import Reading
from records import Records
from stories import StoryTeller
from turns import TEXT, Turn, casual, sentence, with_article
from words import invented

Message = tuple[str, str]  # role and content
BRIEF = ["Answer briefly.", "Answer with one word.", "Be brief.", "Keep your answers as short as possible."]


class SmallTalk:
    """The blocks of talk.txt."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.blocks: list[tuple[list, list]] = []
        for block in (TEXT / "talk.txt").read_text().split("\n\n"):
            sides: dict[str, list] = {"U": [], "A": []}
            for line in block.splitlines():
                if not line.startswith("#"):
                    sides[line[0]] += [compile_template(t) for t in split_top(line[3:], " | ")]
            if sides["U"]:
                self.blocks.append((sides["U"], sides["A"]))

    def turns(self, rng: random.Random) -> list[Turn]:
        asks, answers = rng.choice(self.blocks)
        slots = {"he": "he", "his": "my"}
        user = self.grammar.expand(rng.choice(asks), slots, rng)
        return [Turn(tidy(user), tidy(self.grammar.expand(rng.choice(answers), slots, rng)))]


class Dialogues:
    def __init__(self, teller: StoryTeller, plays: "Plays") -> None:
        self.teller, self.plays = teller, plays
        self.grammar = Grammar(TEXT / "words.txt", TEXT / "phrases.txt", TEXT / "prose.txt")
        self.arithmetic, self.facts, self.reading = Arithmetic(), Facts(), Reading(teller)
        self.records, self.talk = Records(self.grammar), SmallTalk(self.grammar)
        self.topics = [
            (self.arithmetic.turns, 40),
            (self.facts.turns, 26),
            (self.talk.turns, 18),
            (self.story, 9),
            (self.records.turns, 10),
            (self.reading.turns, 7),
            (self.unknown, 5),
            (self.writing, 3),
            (self.name, 3),
            (self.verse, 0.4),
        ]

    def dialogue(self, rng: random.Random) -> list[Message]:
        """One conversation as messages."""
        messages: list[Message] = []
        brief = rng.random() < 0.06
        if brief:
            messages.append(("system", rng.choice(BRIEF)))
        elif rng.random() < 0.25:
            messages.append(("system", self.grammar.text("<system>", {}, rng)))
        topics, weights = zip(*self.topics)
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4, 6, 9))):
            turns = rng.choices(topics, weights)[0](rng)
            while brief and not all(turn.brief for turn in turns):
                turns = rng.choices(topics, weights)[0](rng)
            for turn in turns:
                answer = turn.brief if brief else turn.answer
                messages += [("user", casual(turn.user, rng)), ("assistant", answer)]
        return messages

    def story(self, rng: random.Random) -> list[Turn]:
        """A request for a story, sometimes for another one; the start of a story to continue."""
        by_name = rng.random() < 0.35
        story = self.teller.story(rng, 0.5 if by_name else 0)
        slots, hero = story.slots, story.hero
        if rng.random() < 0.15:
            start, _, rest = story.text.partition(". ")
            ask = rng.choice(("Continue this story: {}", "Go on: {}", "How does it go on? {}", "Finish the story: {}"))
            return [Turn(ask.format(start + "."), rest)]
        about = [with_article(hero.species), with_article(hero.species), hero.full, *story.plot.themes]
        about += [
            with_article(slots[s])
            for s in ("toy", "vegetable", "monster", "magic")
            if s in slots and slots[s] in story.text
        ]
        if by_name:
            about = [hero.full]
            if slots["friend_is"] in story.text:
                about += [f"{hero.full} and {slots['friend_is']}", f"{hero.plain} and {slots['friend_is']}"]
            if slots["friend_name"] in story.text and hero.short == hero.name:
                about.append(f"{hero.name} and {slots['friend_name']}")
        asks = [
            "Tell me a story about {}.",
            "Write a story about {}.",
            "Tell me a short story about {}.",
            "Write a short story about {}.",
            "Can you tell me a story about {}?",
            "I would like a story about {}.",
            "A story about {}, please.",
            "Make up a story about {}.",
            "Please tell a story about {}.",
            "story about {}",
        ]
        plain = [
            "Tell me a story.",
            "Tell me a short story.",
            "Write a story.",
            "A story, please.",
            "I want to hear a story.",
            "Please tell me a bedtime story.",
            "Can you write a short story?",
            "Do you have a story for me?",
        ]
        ask = rng.choice(plain) if not by_name and rng.random() < 0.4 else rng.choice(asks).format(rng.choice(about))
        turns = [Turn(tidy(ask), story.text)]
        if rng.random() < 0.15:
            questions = self.reading.questions_of(story)
            turns.append(Turn(*rng.choice(questions)))
        if rng.random() < 0.15:
            turns.append(
                Turn(
                    rng.choice(("Another one, please.", "Tell me another story.", "One more!")),
                    self.teller.story(rng, 0).text,
                )
            )
        return turns

    def unknown(self, rng: random.Random) -> list[Turn]:
        """Questions that the model was not taught, and it says so; words to say again."""
        if rng.random() < 0.1:
            words = self.plays.words(rng, rng.randrange(1, 9))
            return [Turn(rng.choice(("Repeat after me: {}", "Say: {}", "Repeat: {}")).format(words), words)]
        if rng.random() < 0.25:
            words = self.plays.words(rng, rng.randrange(2, 9))
            user = rng.choice(
                ("What is {}?", "Explain {}.", "{}", "{}?", "Why {}?", "How {}?", "Do you know {}?", "Tell me {}.")
            )
            return [Turn(sentence(user.format(words)), self.grammar.text("<sorry>", {}, rng))]
        return [Turn(self.grammar.text("<unknown>", {}, rng), self.grammar.text("<sorry>", {}, rng))]

    def writing(self, rng: random.Random) -> list[Turn]:
        """Letters, diaries and recipes."""
        slots = {"he": "I", "his": "my"}
        kind = rng.choice(("letter", "letter", "diary", "recipe"))
        if kind == "letter":
            if rng.random() < 0.3:
                slots["friend"] = invented(rng).title()
            friend = self.grammar.slot("friend", slots, rng)
            ask = rng.choice(
                (
                    f"Write a letter to {friend}.",
                    f"Write a short letter to my friend {friend}.",
                    f"Please write to {friend}.",
                )
            )
            return [Turn(ask, self.grammar.text("<letter>", slots, rng))]
        if kind == "diary":
            return [
                Turn(
                    rng.choice(("Write a diary entry.", "Write a page of a diary.")),
                    self.grammar.text("<diary>", slots, rng),
                )
            ]
        title, _, recipe = self.grammar.text("<recipe_body>", slots, rng).partition("\n\n")
        ask = rng.choice(
            ("How do I make {}?", "Give me a recipe for {}.", "How do you make {}?", "A recipe for {}, please.")
        )
        return [Turn(ask.format(title.lower()), recipe)]

    def name(self, rng: random.Random) -> list[Turn]:
        """The user's name, told and asked for, with something else between or not."""
        ask = rng.choice(("What is my name?", "Do you know my name?", "Who am I?", "Do you remember my name?"))
        if rng.random() < 0.1:
            return [Turn(ask, "You have not told me your name yet.", "I do not know.")]
        name = invented(rng).title() if rng.random() < 0.5 else self.grammar.text("<friend>", {}, rng)
        if rng.random() < 0.15:
            name += " " + (invented(rng).title() if rng.random() < 0.5 else self.grammar.text("<surname>", {}, rng))
        tell = rng.choice(
            ("My name is {}.", "I am {}.", "Hello, I am {}.", "Hi, my name is {}.", "I'm {}.", "Call me {}.")
        ).format(name)
        reply = rng.choice(
            ("Nice to meet you, {}!", "Hello, {}! How can I help you?", "Hello, {}! Nice to meet you.")
        ).format(name)
        between = (
            rng.choice((self.talk.turns, self.facts.turns, self.arithmetic.turns))(rng) if rng.random() < 0.5 else []
        )
        return [Turn(tell, reply, reply)] + between + [Turn(ask, f"Your name is {name}.", name)]

    def verse(self, rng: random.Random) -> list[Turn]:
        ask = rng.choice(
            (
                "Give me some lines of Shakespeare.",
                "Write like Shakespeare.",
                "Recite Shakespeare.",
                "Say something in the style of Shakespeare.",
                "Write a scene in the style of Shakespeare.",
                "Talk like Shakespeare.",
            )
        )
        return [Turn(ask, self.plays.scene(rng, 3))]


class Plays:
    """Pieces of the plays that the tool was given as a text file."""

    def __init__(self, text: str) -> None:
        self.speeches = [s.strip() for s in text.split("\n\n") if s.strip()]
        self.vocabulary = text.split()

    def scene(self, rng: random.Random, count: int) -> str:
        """Some speeches that follow each other."""
        start = rng.randrange(len(self.speeches))
        return "\n\n".join(self.speeches[start : start + rng.randrange(1, count + 1)])

    def words(self, rng: random.Random, count: int) -> str:
        start = rng.randrange(len(self.vocabulary) - count)
        return " ".join(self.vocabulary[start : start + count]).rstrip(".,;:!?").lower()
