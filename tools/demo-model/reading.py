"""Questions whose answer stands in the conversation itself: little scenes, stories, the user's name."""

from __future__ import annotations

import random

from grammar import Grammar
from stories import Story, StoryTeller
from turns import Turn, sentence, with_article
from words import invented

ROOMS = "kitchen garden bathroom bedroom hall cellar attic shed office school park shop".split()
SPOTS = [
    "on the table",
    "under the bed",
    "in the box",
    "behind the door",
    "on the shelf",
    "in the drawer",
    "in the basket",
    "on the chair",
]
OBJECTS = "key ball book apple cup letter hat coin lamp pen spoon map scarf clock ring stone".split()
COLOURS = "red blue green yellow black white brown pink orange purple".split()
COMPARED = [
    ("older", "oldest", "youngest"),
    ("taller", "tallest", "shortest"),
    ("faster", "fastest", "slowest"),
    ("stronger", "strongest", "weakest"),
]


class Reading:
    def __init__(self, teller: StoryTeller) -> None:
        self.teller = teller
        self.grammar: Grammar = teller.grammar

    def names(self, count: int, rng: random.Random) -> list[str]:
        found: set[str] = set()
        while len(found) < count:
            rule = rng.choice(("girl_name", "boy_name"))
            found.add(invented(rng).title() if rng.random() < 0.2 else self.grammar.pick(rule, {}, rng))
        names = sorted(found)
        rng.shuffle(names)
        return names

    def turns(self, rng: random.Random) -> list[Turn]:
        return rng.choice(
            (self.belongings, self.belongings, self.places, self.hidden, self.ranking, self.of_story, self.of_story)
        )(rng)

    def belongings(self, rng: random.Random) -> list[Turn]:
        """Who has what, in which colour; one or several questions."""
        count = rng.choice((1, 2, 2, 3))
        names, things = self.names(count, rng), rng.sample(OBJECTS, count)
        colours = rng.sample(COLOURS, count)
        facts = [f"{n} has {with_article(c)} {t}." for n, c, t in zip(names, colours, things)]
        questions = []
        for n, c, t in zip(names, colours, things):
            questions += [
                (f"What colour is {n}'s {t}?", f"{n}'s {t} is {c}.", sentence(c)),
                (f"Who has the {t}?", f"{n} has the {t}.", n),
                (f"What does {n} have?", f"{n} has {with_article(c)} {t}.", sentence(f"{with_article(c)} {t}")),
            ]
        return self.ask(" ".join(facts), questions, rng)

    def places(self, rng: random.Random) -> list[Turn]:
        """People walk from room to room; the last place counts."""
        names = self.names(rng.choice((1, 2)), rng)
        where: dict[str, str] = {}
        steps = []
        for _ in range(rng.choice((1, 2, 3))):
            name = rng.choice(names)
            room = rng.choice([r for r in ROOMS if r != where.get(name)])
            steps.append(f"{name} {'then went' if name in where else rng.choice(('went', 'walked'))} to the {room}.")
            where[name] = room
        questions = [(f"Where is {n}?", f"{n} is in the {room}.", f"In the {room}") for n, room in where.items()]
        return self.ask(" ".join(steps), questions, rng)

    def hidden(self, rng: random.Random) -> list[Turn]:
        name, thing, spot = self.names(1, rng)[0], rng.choice(OBJECTS), rng.choice(SPOTS)
        questions = [
            (f"Where is the {thing}?", f"The {thing} is {spot}.", sentence(spot)),
            (f"Who {'hid' if rng.random() < 0.3 else 'put'} the {thing} {spot}?", f"{name} did.", name),
        ]
        return self.ask(f"{name} put the {thing} {spot}.", questions, rng)

    def ranking(self, rng: random.Random) -> list[Turn]:
        more, most, least = rng.choice(COMPARED)
        first, second, third = self.names(3, rng)
        facts = [f"{first} is {more} than {second}.", f"{second} is {more} than {third}."]
        questions = [
            (f"Who is the {most}?", f"{first} is the {most}.", first),
            (f"Who is the {least}?", f"{third} is the {least}.", third),
            (f"Is {first} {more} than {third}?", f"Yes, {first} is {more} than {third}.", "Yes"),
            (f"Is {third} {more} than {first}?", f"No, {first} is {more} than {third}.", "No"),
        ]
        rng.shuffle(facts)
        return self.ask(" ".join(facts), questions, rng)

    def of_story(self, rng: random.Random) -> list[Turn]:
        """A story to read and questions about it."""
        story = self.teller.story(rng)
        questions = self.questions_of(story)
        lead = rng.choice(("Read this story: ", "Here is a story: ", "Read this: ", ""))
        return self.ask(lead + story.text + "\n\n", questions, rng)

    def questions_of(self, story: Story) -> list[tuple[str, str, str]]:
        slots, hero = story.slots, story.hero
        about = hero.short if hero.full == hero.plain else hero.full
        questions = [("Who is the story about?", f"The story is about {about}.", sentence(hero.short))]
        if slots["friend"] in story.text:
            questions.append(
                (f"Who is {slots['hero']}'s friend?", f"{sentence(slots['friend'])} is.", sentence(slots["friend"]))
            )
        if "toy" in slots and f"{slots.get('colour')} {slots['toy']}" in story.text:
            questions.append(
                (
                    f"What colour is the {slots['toy']}?",
                    f"The {slots['toy']} is {slots['colour']}.",
                    sentence(slots["colour"]),
                )
            )
        if "town" in slots and f"in {slots['town']}" in story.text:
            questions.append(
                (
                    f"Where did {slots['hero']} live?",
                    f"{sentence(slots['hero'])} lived in {slots['town']}.",
                    f"In {slots['town']}",
                )
            )
        if "food" in slots and slots["food"] in story.text:
            questions.append(
                ("What is there to eat in the story?", sentence(slots["food"]) + ".", sentence(slots["food"]))
            )
        if slots["lesson"] in story.text:
            questions.append(("What does the story teach us?", sentence(slots["lesson"]) + ".", ""))
        return questions

    def ask(self, facts: str, questions: list[tuple[str, str, str]], rng: random.Random) -> list[Turn]:
        chosen = rng.sample(questions, min(len(questions), rng.choice((1, 1, 1, 2, 3))))
        turns = [Turn(*q) for q in chosen]
        separator = "" if facts.endswith("\n") else rng.choice((" ", " ", "\n"))
        turns[0].user = facts + separator + turns[0].user
        return turns
