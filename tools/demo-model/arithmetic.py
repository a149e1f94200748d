"""Sums in conversations. Pairs of numbers that the evaluation asks for never occur in training."""

from __future__ import annotations

import random

from turns import Turn

LIMIT = 100  # additions that are evaluated have two operands from 0 to 99
HELD_OUT = 520  # unordered pairs kept for the evaluation, of 5050
ITEMS = "apples pears nuts coins books shells stones eggs marbles cookies stamps candles flowers balls".split()
WORDS = "no one two three four five six seven eight nine ten eleven twelve".split()
NAMES = "Tom Mia Ben Anna Leo Lily Sam Nora Max Emma Omar Priya Jack Ruby Yuki Clara".split()

# Question and answer; {a} and {b} are the operands, {c} is the sum. Brief answers are the sum alone.
ADDITIONS = [
    ("What is {a} + {b}?", "{a} + {b} = {c}."),
    ("What is {a} plus {b}?", "{a} + {b} = {c}."),
    ("{a}+{b}=", "{c}"),
    ("{a} + {b} =", "{c}"),
    ("{a} + {b}", "{a} + {b} = {c}."),
    ("{a}+{b}", "{a} + {b} = {c}."),
    ("{a} + {b} = ?", "{a} + {b} = {c}."),
    ("{a}+{b}?", "{a} + {b} = {c}."),
    ("Add {a} and {b}.", "{a} + {b} = {c}."),
    ("Add {a} to {b}.", "{a} + {b} = {c}."),
    ("How much is {a} + {b}?", "{a} + {b} = {c}."),
    ("How much is {a} plus {b}?", "{a} + {b} = {c}."),
    ("What is the sum of {a} and {b}?", "{a} + {b} = {c}."),
    ("Calculate {a} + {b}.", "{a} + {b} = {c}."),
    ("Compute {a}+{b}.", "{a} + {b} = {c}."),
    ("Can you add {a} and {b}?", "{a} + {b} = {c}."),
    ("What is {a}+{b}?", "{a} + {b} = {c}."),
]
FOLLOW_UPS = [
    "And {a} + {b}?",
    "And {a}+{b}?",
    "What about {a} + {b}?",
    "And what is {a} + {b}?",
    "Now {a} + {b}.",
    "And {a} plus {b}?",
]
SUBTRACTIONS = [
    "What is {a} - {b}?",
    "{a}-{b}",
    "{a} - {b} =",
    "What is {a} minus {b}?",
    "Subtract {b} from {a}.",
    "How much is {a} - {b}?",
]
PRODUCTS = [
    "What is {a} * {b}?",
    "What is {a} times {b}?",
    "{a} x {b}",
    "{a}*{b}",
    "Multiply {a} by {b}.",
    "How much is {a} times {b}?",
]


def held_out_pairs() -> set[tuple[int, int]]:
    """The unordered pairs (a <= b) that training never sees."""
    pairs = [(a, b) for a in range(LIMIT) for b in range(a, LIMIT)]
    return set(random.Random("held-out additions").sample(pairs, HELD_OUT))


def evaluation_pairs(count: int) -> list[tuple[int, int]]:
    """Ordered pairs for the evaluation, all of them held out."""
    ordered = sorted({pair for a, b in held_out_pairs() for pair in ((a, b), (b, a))})
    return random.Random("evaluation").sample(ordered, count)


class Arithmetic:
    def __init__(self) -> None:
        self.held_out = held_out_pairs()

    def is_held_out(self, a: int, b: int) -> bool:
        return (min(a, b), max(a, b)) in self.held_out

    def pair(self, rng: random.Random) -> tuple[int, int]:
        """Two numbers from 0 to 99 of a training pair; small numbers are a little more likely."""
        while True:
            top = rng.choice((13, 20)) if rng.random() < 0.15 else LIMIT
            a, b = rng.randrange(top), rng.randrange(top)
            if not self.is_held_out(a, b):
                return a, b

    def turns(self, rng: random.Random) -> list[Turn]:
        roll = rng.random()
        if roll < 0.03:
            return [self.three(rng)]
        if roll < 0.75:
            return self.additions(rng)
        if roll < 0.82:
            return [self.story_sum(rng)]
        if roll < 0.87:
            return [self.large_addition(rng)]
        if roll < 0.93:
            return [self.subtraction(rng)]
        return [self.product(rng) if roll < 0.96 else rng.choice((self.order, self.counting, self.sorting))(rng)]

    def additions(self, rng: random.Random) -> list[Turn]:
        turns: list[Turn] = []
        total = LIMIT
        for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
            a, b = self.pair(rng)
            question, answer = rng.choice(ADDITIONS)
            if turns and total < LIMIT and rng.random() < 0.3 and not self.is_held_out(total, b):
                a, question, answer = (
                    total,
                    rng.choice(("Add {b}.", "Now add {b}.", "And add {b} to that.")),
                    ADDITIONS[0][1],
                )
            elif turns and rng.random() < 0.5:
                question, answer = rng.choice(FOLLOW_UPS), ADDITIONS[0][1]
            total = a + b
            numbers = {"a": a, "b": b, "c": total}
            turns.append(Turn(question.format(**numbers), answer.format(**numbers), str(total)))
        return turns

    def story_sum(self, rng: random.Random) -> Turn:
        a, b = self.pair(rng)
        (one, two), item = rng.sample(NAMES, 2), rng.choice(ITEMS)
        kinds = [
            (
                f"{one} has {a} {item} and finds {b} more. How many {item} does {one} have now?",
                f"{one} has {a + b} {item}.",
            ),
            (
                f"{one} has {a} {item} and {two} has {b} {item}. How many {item} do they have together?",
                f"Together they have {a + b} {item}.",
            ),
            (
                f"There are {a} {item} in one box and {b} {item} in another box. How many {item} are there?",
                f"There are {a + b} {item}.",
            ),
        ]
        verb = rng.choice(("buy", "get", "find", "pick", "take", "receive"))
        start, now = rng.choice(("I have", "Suppose I have", "Yesterday I had")), rng.choice((" now", "", " in total"))
        kinds.append(
            (
                f"{start} {self.spelled(a, rng)} {item} and {verb} {self.spelled(b, rng)} more. "
                f"How many {item} do I have{now}?",
                f"You have {a + b} {item}.",
            )
        )
        question, answer = rng.choice(kinds)
        return Turn(question, answer, str(a + b))

    def spelled(self, number: int, rng: random.Random) -> str:
        """Small numbers sometimes as words."""
        return WORDS[number] if number < len(WORDS) and rng.random() < 0.5 else str(number)

    def three(self, rng: random.Random) -> Turn:
        """a + b + c, where neither a + b nor (a + b) + c is held out."""
        while True:
            a, b = self.pair(rng)
            c = rng.randrange(LIMIT)
            if not self.is_held_out(a + b, c):
                break
        question = rng.choice(("What is {} + {} + {}?", "{}+{}+{}", "{} + {} + {} =", "Add {}, {} and {}."))
        return Turn(question.format(a, b, c), f"{a} + {b} + {c} = {a + b + c}.", str(a + b + c))

    def large_addition(self, rng: random.Random) -> Turn:
        a, b = rng.randrange(LIMIT, 1000), rng.randrange(1000)
        if rng.random() < 0.5:
            a, b = b, a
        question, answer = rng.choice(ADDITIONS)
        numbers = {"a": a, "b": b, "c": a + b}
        return Turn(question.format(**numbers), answer.format(**numbers), str(a + b))

    def subtraction(self, rng: random.Random) -> Turn:
        """a - b with b and the difference from a training pair, so that none gives a held-out sum away."""
        b, difference = self.pair(rng)
        a = b + difference
        return Turn(rng.choice(SUBTRACTIONS).format(a=a, b=b), f"{a} - {b} = {difference}.", str(difference))

    def product(self, rng: random.Random) -> Turn:
        a, b = rng.randrange(13), rng.randrange(13)
        return Turn(rng.choice(PRODUCTS).format(a=a, b=b), f"{a} x {b} = {a * b}.", str(a * b))

    def order(self, rng: random.Random) -> Turn:
        a, b = rng.sample(range(LIMIT), 2)
        return rng.choice(
            (
                Turn(f"Which is bigger, {a} or {b}?", f"{max(a, b)} is bigger than {min(a, b)}.", str(max(a, b))),
                Turn(f"Which is smaller, {a} or {b}?", f"{min(a, b)} is smaller than {max(a, b)}.", str(min(a, b))),
                Turn(
                    f"Is {a} bigger than {b}?",
                    f"Yes, {a} is bigger than {b}." if a > b else f"No, {a} is smaller than {b}.",
                    "Yes" if a > b else "No",
                ),
            )
        )

    def counting(self, rng: random.Random) -> Turn:
        a = rng.randrange(LIMIT)
        count = rng.randrange(2, 9)
        even = "even" if a % 2 == 0 else "odd"
        return rng.choice((
            Turn(f"Count from {a} to {a + count}.", ", ".join(str(n) for n in range(a, a + count + 1)) + "."),
            Turn(f"Which number comes after {a}?", f"{a + 1} comes after {a}.", str(a + 1)),
            Turn(f"Which number comes before {a + 1}?", f"{a} comes before {a + 1}.", str(a)),
            Turn(f"Is {a} even or odd?", f"{a} is {even}.", even.title()),
        ))  # fmt: skip

    def sorting(self, rng: random.Random) -> Turn:
        numbers = rng.sample(range(LIMIT), rng.randrange(3, 6))
        ask = rng.choice(("Sort these numbers: {}", "Sort {}.", "Put these numbers in order: {}"))
        return Turn(ask.format(", ".join(map(str, numbers))), ", ".join(map(str, sorted(numbers))))

    def passage(self, rng: random.Random) -> str:
        """A plain text: lines of sums."""
        rows = [self.pair(rng) for _ in range(rng.randrange(1, 9))]
        return "\n".join(f"{a} + {b} = {a + b}" for a, b in rows)
