"""What vectors are compared by. In plain Python, so that NumPy is not needed; they are short."""

from __future__ import annotations

import math
from collections.abc import Sequence


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softmax(x: Sequence[float]) -> list[float]:
    largest = float(max(x))
    weights = [math.exp(float(v) - largest) for v in x]
    return [w / math.fsum(weights) for w in weights]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    a, b = [float(x) for x in a], [float(x) for x in b]
    lengths = math.sqrt(math.fsum(x * x for x in a) * math.fsum(x * x for x in b))
    return math.fsum(x * y for x, y in zip(a, b)) / lengths if lengths else 0.0
