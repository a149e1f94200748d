"""Invented words, so that the model learns to repeat names that it has never seen."""

import random

ONSETS = "b br c ch cl d dr f fl g gr h j k l m n p pl qu r s sh sl st t th tr v w y z".split() + [""]
VOWELS = "a a e e i i o o u ai ea ee ia ie oo ou".split()
CODAS = ["", "", "", "n", "r", "l", "s", "t", "k", "x", "m", "nd", "rt", "ck", "ng", "sh"]


def invented(rng: random.Random) -> str:
    """A word of one to three syllables in lower case."""
    count = rng.choice((1, 2, 2, 2, 3))
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(count)) + rng.choice(CODAS)
