"""Questions about capitals, things, animals and other simple facts, and plain texts about them."""

from __future__ import annotations

import random
from typing import Callable

from turns import TEXT, Turn, join_and, load_rows, load_sections, sentence, with_article

MASS = set(
    "bread cheese butter honey soup rice milk water tea coffee grass rain snow wind fog ice fire football tennis "
    "chess gold silver iron wood glass paper wool salt sugar coal blood money winter summer spring autumn".split()
)
DEFINITE = {"sun", "moon", "sky", "sea"}
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
PLURALS = {
    "fruit": "fruits", "vegetable": "vegetables", "food": "foods", "flower": "flowers", "tool": "tools",
    "vehicle": "vehicles", "musical instrument": "musical instruments", "building": "buildings", "place": "places",
    "piece of clothing": "pieces of clothing", "material": "materials", "machine": "machines", "bird": "birds",
    "mammal": "mammals", "insect": "insects", "colour": "colours", "animal": "animals",
}  # fmt: skip
SYLLABLES = "ba bo da dor fen gar gol ka kel lan lo mar mi nor pa ra rin sa sto tar ti vel vo za zan".split()
COLOURS = "red blue green yellow orange purple pink brown black white grey".split()


IRREGULAR = {"mouse": "mice", "goose": "geese", "wolf": "wolves", "sheep": "sheep", "deer": "deer", "fish": "fish",
             "leaf": "leaves", "knife": "knives"}  # fmt: skip


def plural(thing: str) -> str:
    if thing in IRREGULAR:
        return IRREGULAR[thing]
    if thing.endswith("y") and thing[-2] not in "aeo":
        return thing[:-1] + "ies"
    return thing + ("es" if thing.endswith(("s", "x", "ch", "sh", "o")) and thing != "piano" else "s")


def noun(thing: str) -> str:
    """The thing as the subject of a sentence: `bread`, `the sun`, `an apple`."""
    if thing in MASS:
        return thing
    return "the " + thing if thing in DEFINITE else with_article(thing)


class Facts:
    def __init__(self) -> None:
        self.capitals = load_rows(TEXT / "capitals.txt")
        self.animals = load_rows(TEXT / "animals.txt")
        self.things = load_rows(TEXT / "things.txt")
        self.small = load_sections(TEXT / "pairs.txt")
        self.members: dict[str, list[str]] = {"colour": COLOURS}
        for name, category, *_ in self.things:
            self.members.setdefault(category, []).append(name)
        for name, kind, *_ in self.animals:
            self.members.setdefault(kind, []).append(name)
            if kind != "animal":
                self.members.setdefault("animal", []).append(name)
        self.topics: list[tuple[Callable, int]] = [
            (self.capital, 8), (self.country, 2), (self.no_country, 1), (self.definition, 5), (self.colour, 4),
            (self.category, 3), (self.naming, 2), (self.animal, 5), (self.opposite, 3), (self.after, 2),
            (self.mix, 1), (self.choice, 1), (self.made_of, 1), (self.answer, 6), (self.about, 4),
        ]  # fmt: skip

    def turns(self, rng: random.Random) -> list[Turn]:
        topics, weights = zip(*self.topics)
        return rng.choices(topics, weights)[0](rng)

    def capital(self, rng: random.Random) -> list[Turn]:
        """One question, or several countries one after another."""
        turns = []
        for country, city, *_ in rng.sample(self.capitals, rng.choice((1, 1, 2, 3))):
            ask = [
                f"What is the capital of {country}?",
                f"What is the capital of {country}?",
                f"What is the capital city of {country}?",
                f"Name the capital of {country}.",
                f"Tell me the capital of {country}.",
                f"Which city is the capital of {country}?",
                f"Capital of {country}?",
                f"Do you know the capital of {country}?",
                f"What's {country}'s capital?",
            ]
            if turns:
                ask = [
                    f"And of {country}?",
                    f"And {country}?",
                    f"What about {country}?",
                    f"And the capital of {country}?",
                ]
            turns.append(Turn(rng.choice(ask), f"The capital of {country} is {city}.", city))
        return turns

    def country(self, rng: random.Random) -> list[Turn]:
        country, city, continent, language = rng.choice(self.capitals)
        other = rng.choice(self.capitals)
        right = other[1] == city
        # England and the United Kingdom share their capital
        owners = [row[0] for row in self.capitals if row[1] == city]
        return [
            rng.choice(
                (
                    Turn(f"In which country is {city}?", f"{city} is in {owners[0]}.", sentence(owners[0])),
                    Turn(f"Where is {city}?", f"{city} is the capital of {owners[0]}.", f"In {owners[0]}"),
                    Turn(f"Where is {country}?", f"{sentence(country)} is in {continent}.", f"In {continent}"),
                    Turn(f"On which continent is {country}?", f"{sentence(country)} is in {continent}.", continent),
                    Turn(
                        f"What language do people speak in {country}?",
                        f"Many people in {country} speak {language}.",
                        language,
                    ),
                    Turn(
                        f"Tell me about {country}.",
                        f"{sentence(country)} is a country in {continent}. Its capital is {city}. "
                        f"Many people there speak {language}.",
                    ),
                    Turn(
                        f"Is {city} the capital of {other[0]}?",
                        f"Yes, {city} is the capital of {other[0]}."
                        if right
                        else f"No, the capital of {other[0]} is {other[1]}.",
                        "Yes" if right else "No",
                    ),
                    Turn(f"Is {city} the capital of {country}?", f"Yes, {city} is the capital of {country}.", "Yes"),
                )
            )
        ]

    def no_country(self, rng: random.Random) -> list[Turn]:
        name = sentence("".join(rng.choices(SYLLABLES, k=rng.choice((2, 3))))) + rng.choice(("", "ia", "land", "stan"))
        return [Turn(f"What is the capital of {name}?", f"I do not know a country called {name}.", "I do not know.")]

    def definition(self, rng: random.Random) -> list[Turn]:
        turns = []
        for name, _, meaning, *_ in rng.sample(self.things, rng.choice((1, 1, 1, 2))):
            what = noun(name)
            ask = [
                f"What is {what}?", f"What is {what}?", f"What does the word {name} mean?", f"Explain the word {name}.",
                f"What do you call {meaning}?", f"Define {name}.",
            ]  # fmt: skip
            question = rng.choice([f"And {what}?", f"And what is {what}?"] if turns else ask)
            turns.append(Turn(question, f"{sentence(what)} is {meaning}.", sentence(meaning)))
            if question == ask[4]:
                turns[-1].answer = f"That is {what}."
                turns[-1].brief = sentence(what)
        return turns

    def colour(self, rng: random.Random) -> list[Turn]:
        turns = []
        coloured = [row for row in self.things if row[3] != "-"]
        for name, _, _, colour, _ in rng.sample(coloured, rng.choice((1, 1, 2))):
            what = noun(name)
            ask = [
                f"What colour is {what}?",
                f"What colour is {what}?",
                f"What color is {what}?",
                f"Which colour does {what} have?",
            ]
            if turns:
                ask = [f"And {what}?", f"And what colour is {what}?"]
            turns.append(Turn(rng.choice(ask), f"{sentence(what)} is {colour}.", sentence(colour)))
        if rng.random() < 0.25:
            name, _, _, colour, _ = rng.choice(coloured)
            what, guess = noun(name), rng.choice(COLOURS)
            if rng.random() < 0.4:
                guess = rng.choice(colour.replace(" and ", " or ").split(" or ")).split(", ")[0]
            yes = guess in colour
            answer = f"{'Yes' if yes else 'No'}, {what} is {colour}."
            turns.append(Turn(f"Is {what} {guess}?", answer, "Yes" if yes else "No"))
        return turns

    def category(self, rng: random.Random) -> list[Turn]:
        name, category, *_ = rng.choice(self.things + self.animals)
        what, kind = noun(name), with_article(category)
        other = rng.choice([c for c in PLURALS if c not in (category, "animal", "food", "place", "material", "colour")])
        return [rng.choice((
            Turn(f"Is {what} {kind}?", f"Yes, {what} is {kind}.", "Yes"),
            Turn(f"Is {what} {with_article(other)}?", f"No, {what} is {kind}.", "No"),
            Turn(f"What kind of thing is {what}?", f"{sentence(what)} is {kind}.", sentence(kind)),
        ))]  # fmt: skip

    def naming(self, rng: random.Random) -> list[Turn]:
        category = rng.choice(list(PLURALS))
        count = rng.choice((2, 3, 3, 4, 5))
        if count > len(self.members[category]):
            count = 2
        chosen = rng.sample(self.members[category], count)
        ask = rng.choice(("Name {}.", "Give me {}.", "List {}.", "Can you name {}?", "Tell me {}."))
        number = NUMBERS[count] if rng.random() < 0.8 else str(count)
        return [Turn(ask.format(f"{number} {PLURALS[category]}"), sentence(join_and(chosen)) + ".")]

    def animal(self, rng: random.Random) -> list[Turn]:
        """Some questions about one animal; from the second on it is only `it`."""
        name, kind, home, food, sound, young, legs, about = rng.choice(self.animals)
        what = with_article(name)
        count = int(legs)
        questions = [
            ("Where does {} live?", f"{sentence(what)} lives {home}.", sentence(home)),
            ("What does {} eat?", f"{sentence(what)} eats {food}.", sentence(food)),
            (rng.choice(("What sound does {} make?", "What does {} say?")), f"{sentence(what)} {sound}.", ""),
            ("What is the young of {} called?", f"A young {name} is called {with_article(young)}.", sentence(young)),
            ("How many legs does {} have?", f"{sentence(what)} has {NUMBERS[count]} legs.", str(count)),
            ("What kind of animal is {}?", f"{sentence(what)} is {with_article(kind)}.", sentence(with_article(kind))),
            ("Tell me something about {}.", f"{about} It lives {home}.".replace("It", sentence(what), 1), ""),
        ]
        turns = []
        for question, answer, brief in rng.sample(questions, rng.choice((1, 1, 2, 3))):
            asked = question.format("it" if turns else what)
            if turns and rng.random() < 0.4:
                asked = "And " + asked[0].lower() + asked[1:]
            turns.append(Turn(asked, answer, brief))
        return turns

    def opposite(self, rng: random.Random) -> list[Turn]:
        word, opposite = rng.choice(self.small["opposite"])
        if rng.random() < 0.4 and sum(opposite in row for row in self.small["opposite"]) == 1:
            word, opposite = opposite, word
        ask = rng.choice(("What is the opposite of {}?", "Opposite of {}?", "Tell me the opposite of {}."))
        return [Turn(ask.format(word), f"The opposite of {word} is {opposite}.", sentence(opposite))]

    def after(self, rng: random.Random) -> list[Turn]:
        first, second, unit = rng.choice(self.small["after"])
        return [rng.choice((
            Turn(f"What comes after {first}?", f"{sentence(second)} comes after {first}.", sentence(second)),
            Turn(f"Which {unit} comes after {first}?", f"{sentence(second)} comes after {first}.", sentence(second)),
            Turn(f"What comes before {second}?", f"{sentence(first)} comes before {second}.", sentence(first)),
            Turn(f"Which {unit} comes before {second}?", f"{sentence(first)} comes before {second}.", sentence(first)),
        ))]  # fmt: skip

    def mix(self, rng: random.Random) -> list[Turn]:
        one, two, result = rng.choice(self.small["mix"])
        if rng.random() < 0.5:
            one, two = two, one
        ask = rng.choice(("What do you get when you mix {} and {}?", "What colour do {} and {} make?"))
        return [Turn(ask.format(one, two), f"{sentence(one)} and {two} make {result}.", sentence(result))]

    def choice(self, rng: random.Random) -> list[Turn]:
        one, two = (self.common(rng) for _ in range(2))
        ask = rng.choice(
            ("Which is better, {} or {}?", "Do you prefer {} or {}?", "What do you like more, {} or {}?", "{} or {}?")
        )
        reply = rng.choice(
            ("I cannot choose between {} and {}. What do you prefer?", "Both {} and {} have their good sides.")
        )
        return [Turn(sentence(ask.format(one, two)), reply.format(one, two))]

    def common(self, rng: random.Random) -> str:
        """Something one can like: `tea`, `dogs`."""
        name = rng.choice(self.things + self.animals)[0]
        return noun(name) if name in MASS or name in DEFINITE else plural(name)

    def made_of(self, rng: random.Random) -> list[Turn]:
        what = noun(rng.choice(self.things)[0])
        material = rng.choice(("cheese", "chocolate", "bread", "sugar", "butter", "honey", "snow", "soup"))
        if what == material:
            what = "the moon"
        return [Turn(f"Is {what} made of {material}?", f"No, {what} is not made of {material}.", "No")]

    def answer(self, rng: random.Random) -> list[Turn]:
        question, answer = rng.choice(self.small["answer"])
        return [Turn(question, answer)]

    def about(self, rng: random.Random) -> list[Turn]:
        if rng.random() < 0.5:
            name = rng.choice(self.animals)[0]
            answer = self.animal_text(name, rng)
            if rng.random() < 0.3:
                return [Turn(f"What is {with_article(name)}?", answer)]
        else:
            row = rng.choice(self.things)
            name, answer = row[0], self.thing_text(row)
        if rng.random() < 0.4 and name not in MASS and name not in DEFINITE:
            ask = rng.choice(
                ("Tell me about {}.", "What do you know about {}?", "What are {}?", "Tell me something about {}.")
            )
            return [Turn(ask.format(plural(name)), answer)]
        ask = rng.choice(
            ("Tell me about {}.", "What do you know about {}?", "Describe {}.", "Tell me something about {}.")
        )
        return [Turn(ask.format(noun(name)), answer)]

    def animal_text(self, name: str, rng: random.Random) -> str:
        _, kind, home, food, _, young, _, about = next(row for row in self.animals if row[0] == name)
        start = f"{rng.choice(('The ' + name, sentence(with_article(name))))} is {with_article(kind)}."
        end = f" Its young is called {with_article(young)}." if rng.random() < 0.5 else ""
        return f"{start} It lives {home} and eats {food}. {about}{end}"

    def thing_text(self, row: list[str]) -> str:
        name, _, meaning, colour, more = row
        looks = "" if colour == "-" else f" It is {colour}."
        return f"{sentence(noun(name))} is {meaning}.{looks} {more}"

    def passage(self, rng: random.Random) -> str:
        """A plain text: some entries of a small encyclopaedia."""
        roll = rng.random()
        if roll < 0.35:
            names = [row[0] for row in rng.sample(self.animals, rng.choice((1, 2, 3)))]
            return "\n\n".join(self.animal_text(name, rng) for name in names)
        if roll < 0.6:
            return "\n\n".join(self.thing_text(row) for row in rng.sample(self.things, rng.choice((1, 2, 3, 4))))
        if roll < 0.8:
            rows = rng.sample(self.capitals, rng.choice((1, 2, 3)))
            return "\n\n".join(
                f"{sentence(a)} is a country in {c}. The capital of {a} is {b}. Many people there speak {d}."
                for a, b, c, d in rows
            )
        rows = rng.sample(self.capitals, rng.choice((1, 2, 4)))
        return " ".join(f"The capital of {row[0]} is {row[1]}." for row in rows)
