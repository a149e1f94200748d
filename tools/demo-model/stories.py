"""Short stories: a cast of characters is drawn, then one or two plots are told with it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

from grammar import Grammar, Slots, compile_template, tidy
from words import invented

TEXT = Path(__file__).parent / "text"
PRONOUNS = {
    "he": ("he", "him", "his", "himself"),
    "she": ("she", "her", "her", "herself"),
}
RELATIVES = {
    "he": ("father", "grandfather", "uncle", "big brother"),
    "she": ("mother", "grandmother", "aunt", "big sister"),
}


@dataclass
class Beat:
    """One step of a plot: one of its alternatives is told, or a paragraph starts (none)."""

    alternatives: list[list]
    optional: bool = False


@dataclass
class Plot:
    name: str
    kinds: list[str]
    lessons: list[str]
    themes: list[str]
    beats: list[Beat]


@dataclass
class Character:
    """How a story speaks of one character."""

    kind: str  # child, animal, grown or creature
    species: str  # "girl", "fox", "baker": what a request for a story may ask for
    full: str  # "a little girl named Mia"
    plain: str  # "a little girl"
    short: str  # "Mia" or "the fox"
    name: str  # how others call the character
    pronoun: str


@dataclass
class Story:
    text: str
    plot: Plot  # the first
    hero: Character
    slots: Slots


def load_plots(path: Path) -> list[Plot]:
    plots: list[Plot] = []
    open_beat = False
    for line in path.read_text().splitlines():
        line = line.strip()
        if line.startswith("#") or not line:
            open_beat = False
        elif line.startswith("@ "):
            name, kinds, lessons, themes = line[2:].split(": ")
            plots.append(Plot(name, kinds.split(), lessons.split(" | "), themes.split(", "), []))
        elif line == "--":
            plots[-1].beats.append(Beat([]))
        else:
            optional = line.startswith("?")
            beats = plots[-1].beats
            if not open_beat or beats[-1].optional != optional:
                beats.append(Beat([], optional))
            beats[-1].alternatives.append(compile_template(line.removeprefix("?")))
            open_beat = True
    return plots


class StoryTeller:
    def __init__(self) -> None:
        self.grammar = Grammar(TEXT / "words.txt")
        self.plots = [p for path in sorted(TEXT.glob("plots*.txt")) for p in load_plots(path)]

    def character(self, kind: str, rng: random.Random, rare: float) -> Character:
        pronoun = rng.choice(("he", "she"))
        draw = lambda rule: self.grammar.pick(rule, {}, rng)
        if kind == "child":
            species = "boy" if pronoun == "he" else "girl"
            name = draw(species + "_name")
            adjective = rng.choice(("little ", "young ", "small ", "", draw("trait") + " "))
        else:
            species = draw({"animal": "animal", "grown": "job", "creature": "creature"}[kind])
            if rng.random() < rare / 2:
                species = invented(rng)
            given = "boy_name" if pronoun == "he" else "girl_name"
            name = draw("pet_name" if kind in ("animal", "creature") else given)
            adjective = rng.choice(("little ", "young ", "small ", "", draw("trait") + " "))
            if kind == "grown":
                adjective = rng.choice(("old ", "young ", "poor ", "", draw("trait") + " "))
        if rng.random() < rare:
            name = invented(rng).title()
        plain = f"a {adjective}{species}"
        if kind != "child" and rng.random() < 0.35:
            return Character(kind, species, plain, plain, f"the {species}", species.title(), pronoun)
        full = f"{plain} {rng.choice(('named', 'named', 'called', 'by the name of'))} {name}"
        return Character(kind, species, full, plain, name, name, pronoun)

    def cast(self, plot: Plot, rng: random.Random, rare: float) -> tuple[Slots, Character]:
        """Draws hero, friend and elder, and names their slots."""
        hero = self.character(rng.choice(plot.kinds), rng, rare)
        friend = hero
        while friend.name == hero.name or friend.species == hero.species != friend.kind == "grown":
            mixed = ["child", "animal"] if hero.kind in ("grown", "creature") else [hero.kind, "child", "animal"]
            friend = self.character(rng.choice(mixed), rng, rare)
            if friend.kind == hero.kind == "child" and friend.name != hero.name:
                break
        elder_pronoun = rng.choice(("he", "she"))
        if hero.kind == "animal" and rng.random() < 0.5:
            elder = "the " + self.grammar.pick("elder_animal", {}, rng)
        elif hero.kind in ("grown", "creature") or rng.random() < 0.15:
            elder = "the old " + self.grammar.pick("job", {}, rng)
        else:
            elder = f"{PRONOUNS[hero.pronoun][2]} {rng.choice(RELATIVES[elder_pronoun])}"
        slots: Slots = {
            "hero": hero.short, "hero_is": hero.full, "hero_is0": hero.plain,
            "hero_name": hero.name, "hero_kind": hero.species,
            "friend": friend.short, "friend_is": friend.full, "friend_name": friend.name,
            "elder": elder,
        }  # fmt: skip
        for prefix, pronoun in (("", hero.pronoun), ("f", friend.pronoun), ("e", elder_pronoun)):
            he, him, his, himself = PRONOUNS[pronoun]
            slots |= {prefix + "he": he, prefix + "him": him, prefix + "his": his, prefix + "himself": himself}
        return slots, hero

    def introduce(self, text: str, slots: Slots, rng: random.Random) -> str:
        """Says who the friend is at the first mention, where the plot did not."""
        if slots["friend_is"].lower() in text.lower():
            return text
        short = slots["friend"]
        found = re.search(rf"\b{short}\b('?)", text, re.I)
        if not found or text.count('"', 0, found.start()) % 2:
            return text
        full = slots["friend_is"]
        if short == slots["friend_name"] and (found[1] or rng.random() < 0.7):
            full = f"{slots['his']} friend {short}"
        return text[: found.start()] + full + found[1] + text[found.end() :]

    def tell(self, plot: Plot, slots: Slots, rng: random.Random) -> str:
        """Tells a plot; beats of one paragraph are joined by spaces."""
        slots["lesson"] = rng.choice(plot.lessons)
        paragraphs: list[list[str]] = [[]]
        for beat in plot.beats:
            if not beat.alternatives:
                paragraphs.append([])
            elif not beat.optional or rng.random() < 0.4:
                choice = beat.alternatives[int(rng.random() * len(beat.alternatives))]
                paragraphs[-1].append(self.grammar.expand(choice, slots, rng))
        return "\n\n".join(" ".join(p) for p in paragraphs)

    def story(self, rng: random.Random, rare: float = 0.03) -> Story:
        """A story of one plot, or of two that follow each other. `rare` is the share of invented names."""
        plot = rng.choice(self.plots)
        slots, hero = self.cast(plot, rng, rare)
        people = dict(slots)
        slots["one_day"] = self.grammar.pick("first_day", slots, rng)
        parts = [self.tell(plot, slots, rng)]
        if rng.random() < 0.85:
            parts[0] = self.grammar.text("<opening>", slots, rng) + rng.choice((" ", " ", "\n\n")) + parts[0]
        if rng.random() < 0.2:
            later = rng.choice([p for p in self.plots if hero.kind in p.kinds and p is not plot])
            people["one_day"] = self.grammar.pick("next_day", people, rng)
            parts.append(self.tell(later, people, rng))
        text = self.introduce("\n\n".join(parts), slots, rng)
        return Story(tidy(text), plot, hero, slots)
