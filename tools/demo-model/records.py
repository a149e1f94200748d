"""JSON records: requests that name a kind, fields or values, and the record as the answer."""

from __future__ import annotations

import json
import random
from typing import Any

from grammar import Grammar
from turns import Turn, join_and, with_article
from words import invented

CITIES = (
    "Paris London Rome Berlin Madrid Lisbon Vienna Oslo Dublin Athens Prague Tokyo Cairo Lima "
    "Ottawa Delhi Boston Sydney"
).split()
HOBBIES = "reading swimming chess painting music dancing cooking running fishing cycling gardening singing".split()
PRODUCTS = (
    "lamp chair table kettle clock mirror pencil notebook backpack scarf hat bicycle teapot guitar "
    "blanket radio ball umbrella vase puzzle"
).split()
CATEGORIES = ["kitchen", "garden", "office", "sport", "toys", "music", "clothing", "home"]
KEYS = (
    "id code size weight height width speed level score model brand owner status kind rating total month day room seat"
).split()
COLOURS = "red blue green yellow black white brown grey pink orange purple".split()
TITLES = [
    "The Silent River",
    "A Winter Song",
    "The Last Lighthouse",
    "Seven Keys",
    "The Clockmaker",
    "Under the Oak",
    "A Map of Stars",
    "The Brave Hedgehog",
    "Letters from the Sea",
    "The Grey Town",
]


class Records:
    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar

    def word(self, rule: str, rng: random.Random) -> str:
        return self.grammar.pick(rule, {}, rng)

    def city(self, rng: random.Random, rare: float = 0) -> str:
        return invented(rng).title() if rng.random() < rare else rng.choice(CITIES)

    def person(self, rng: random.Random, rare: float = 0) -> dict[str, Any]:
        """`rare` is the share of invented names, for requests that give the name."""
        first, last = self.word(rng.choice(("girl_name", "boy_name")), rng), self.word("surname", rng)
        if rng.random() < rare:
            first = invented(rng).title()
        if rng.random() < rare:
            last = invented(rng).title()
        return {
            "name": f"{first} {last}",
            "age": rng.randrange(5, 95),
            "city": self.city(rng, rare),
            "job": self.word("job", rng),
            "email": f"{first}.{last}@example.com".lower(),
            "married": rng.random() < 0.5,
            "hobbies": rng.sample(HOBBIES, rng.randrange(1, 4)),
            "address": {
                "street": f"{rng.randrange(1, 99)} {self.word('surname', rng)} Road",
                "city": rng.choice(CITIES),
            },
        }

    def product(self, rng: random.Random, rare: float = 0) -> dict[str, Any]:
        return {
            "name": invented(rng) if rng.random() < rare else rng.choice(PRODUCTS),
            "price": rng.randrange(1, 200) + rng.choice((0.5, 0.25, 0.99, 0.95, 0.75)),
            "colour": rng.choice(COLOURS),
            "in_stock": rng.random() < 0.7,
            "quantity": rng.randrange(100),
            "category": rng.choice(CATEGORIES),
            "tags": rng.sample(["new", "sale", "small", "large", "gift", "popular"], 2),
        }

    def book(self, rng: random.Random) -> dict[str, Any]:
        author = f"{self.word('girl_name', rng)} {self.word('surname', rng)}"
        return {
            "title": rng.choice(TITLES),
            "author": author,
            "year": rng.randrange(1900, 2025),
            "pages": rng.randrange(60, 700),
        }

    def animal(self, rng: random.Random) -> dict[str, Any]:
        return {
            "name": self.word("pet_name", rng), "species": self.word("animal", rng), "age": rng.randrange(1, 20),
            "colour": rng.choice(COLOURS),
        }  # fmt: skip

    def place(self, rng: random.Random) -> dict[str, Any]:
        return {
            "name": self.city(rng),
            "population": rng.randrange(1, 100) * 10000,
            "river": rng.random() < 0.5,
            "founded": rng.randrange(800, 1900),
        }

    def event(self, rng: random.Random) -> dict[str, Any]:
        date = f"{rng.randrange(2020, 2031)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
        title = rng.choice(("Concert", "Meeting", "Birthday party", "Market day", "Chess club", "Book fair", "Picnic"))
        return {"title": title, "date": date, "place": self.city(rng), "guests": rng.randrange(2, 200)}

    def anything(self, rng: random.Random) -> dict[str, Any]:
        """Fields of any name with any value."""
        keys = rng.sample(KEYS, 2) + [invented(rng)]
        rng.shuffle(keys)
        return {
            key: rng.choice((rng.randrange(1000), invented(rng), rng.choice(COLOURS), self.word("animal", rng)))
            for key in keys
        }

    def draw(self, rng: random.Random) -> tuple[str, dict[str, Any]]:
        kind = rng.choice(("person", "person", "person", "product", "product", "book", "animal", "place", "event"))
        return kind, getattr(self, kind)(rng)

    def turns(self, rng: random.Random) -> list[Turn]:
        roll = rng.random()
        kind, record = self.draw(rng)
        if roll < 0.08:
            return [self.listing(rng)]
        if roll < 0.23:
            return [self.free(kind, record, rng)]
        if roll < 0.45:
            return [self.with_fields(kind, record, rng)]
        if roll < 0.75:
            return [self.described(rng)]
        return [self.converted(self.anything(rng) if rng.random() < 0.4 else record, rng)]

    def free(self, kind: str, record: dict, rng: random.Random) -> Turn:
        """Nothing is given but the kind: the first three or four fields are made up."""
        asks = [
            "Write a JSON record for {}.",
            "Give me a JSON record of {}.",
            "Write {} as JSON.",
            "Make a JSON record for {}.",
            "Generate a JSON object for {}.",
            "Create a JSON record of {}.",
            "JSON for {}",
            "Write a small JSON object that describes {}.",
        ]
        fields = list(record)[: rng.choice((3, 4))]
        return self.answer(rng.choice(asks).format(with_article(kind)), {f: record[f] for f in fields}, rng)

    def with_fields(self, kind: str, record: dict, rng: random.Random) -> Turn:
        fields = rng.sample(list(record), min(len(record), rng.randrange(2, 6)))
        if rng.random() < 0.6:
            fields.sort(key=list(record).index)
        asks = [
            "Write a JSON record for {} with the fields {}.", "Give me a JSON record of {} with {}.",
            "Create a JSON object for {}. Use the fields {}.", "Write {} as JSON with the keys {}.",
        ]  # fmt: skip
        return self.answer(
            rng.choice(asks).format(with_article(kind), join_and(fields)), {f: record[f] for f in fields}, rng
        )

    def described(self, rng: random.Random) -> Turn:
        """The values stand in a sentence; the record has them and no others."""
        if rng.random() < 0.6:
            p = self.person(rng, 0.55)
            name, age, city, job = p["name"], p["age"], p["city"], p["job"]
            text, fields = rng.choice((
                (f"{name}, aged {age}, who lives in {city}", ("name", "age", "city")),
                (f"{name}, {age} years old, {job}", ("name", "age", "job")),
                (f"a person named {name}, aged {age}, from {city}", ("name", "age", "city")),
                (f"{name}, a {job} from {city}", ("name", "job", "city")),
                (f"{name}, who is {age} years old", ("name", "age")),
                (f"a {age}-year-old {job} named {name}", ("name", "age", "job")),
            ))  # fmt: skip
            record = p
        else:
            record = self.product(rng, 0.3)
            name, price, colour, stock = record["name"], record["price"], record["colour"], record["in_stock"]
            text, fields = rng.choice((
                (f"a {colour} {name} for {price}", ("name", "colour", "price")),
                (f"a {name} that costs {price}", ("name", "price")),
                (f"a {colour} {name} that costs {price} and is {'in stock' if stock else 'not in stock'}",
                 ("name", "colour", "price", "in_stock")),
                (f"a product: {name}, price {price}, colour {colour}", ("name", "price", "colour")),
            ))  # fmt: skip
        asks = [
            "Write a JSON record for {}.",
            "Give me JSON for {}.",
            "Make a JSON record of {}.",
            "Write {} as JSON.",
            "Create a JSON object for {}.",
        ]
        return self.answer(rng.choice(asks).format(text), {f: record[f] for f in fields}, rng)

    def converted(self, record: dict, rng: random.Random) -> Turn:
        simple = [f for f, value in record.items() if isinstance(value, (str, int, float))]
        fields = [f for f in simple if rng.random() < 0.7][:4] or simple[:2]
        plain = {True: "yes", False: "no"}
        values = [plain[record[f]] if isinstance(record[f], bool) else record[f] for f in fields]
        separator = rng.choice((": ", " ", " = "))
        text = rng.choice((", ", ", ", "; ", "\n")).join(f"{f}{separator}{v}" for f, v in zip(fields, values))
        asks = [
            "Turn this into JSON: {}",
            "Write this as JSON: {}",
            "Convert to JSON: {}",
            "As JSON: {}",
            "Make a JSON object from this: {}",
        ]
        return self.answer(rng.choice(asks).format(text), {f: record[f] for f in fields}, rng)

    def listing(self, rng: random.Random) -> Turn:
        count = rng.choice((2, 3))
        kind = rng.choice(("person", "product", "animal"))
        plural = {"person": "people", "product": "products", "animal": "animals"}[kind]
        if rng.random() < 0.4:
            items = rng.sample(rng.choice((COLOURS, CITIES, HOBBIES, PRODUCTS)), 3)
            name = (
                "colours"
                if items[0] in COLOURS
                else "cities"
                if items[0] in CITIES
                else "hobbies"
                if items[0] in HOBBIES
                else "things"
            )
            return Turn(f"Write a JSON list of three {name}.", json.dumps(items))
        records = []
        for _ in range(count):
            record = getattr(self, kind)(rng)
            records.append({f: record[f] for f in list(record)[:3]})
        return Turn(f"Write a JSON list of {'two' if count == 2 else 'three'} {plural}.", json.dumps(records))

    def answer(self, request: str, record: dict, rng: random.Random) -> Turn:
        if rng.random() < 0.12:
            return Turn(
                request.rstrip(".") + rng.choice((", with line breaks.", ", nicely indented.")),
                json.dumps(record, indent=2),
            )
        return Turn(request, json.dumps(record))

    def passage(self, rng: random.Random) -> str:
        """A plain text: records one below the other."""
        kind, record = self.draw(rng)
        fields = list(record)[: rng.randrange(2, len(record) + 1)]
        rows = [record] + [getattr(self, kind)(rng) for _ in range(rng.randrange(4))]
        return "\n".join(json.dumps({f: row[f] for f in fields}) for row in rows)
