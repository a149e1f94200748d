"""Where the tests find the package, the demo model and the reference answers (tests/golden)."""

import array
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "models", "demo.gguf")
if "LINNET_INSTALLED" not in os.environ:  # else the package of a wheel is tried
    sys.path.insert(0, os.path.join(ROOT, "python"))

try:
    import numpy
except ImportError:
    numpy = None


def golden(*name):
    """A folder of reference answers, its golden.json, and the floats of its golden.bin."""
    folder = os.path.join(ROOT, "tests", "golden", *name)
    with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
        answers = json.load(file)
    floats = array.array("f")
    with open(os.path.join(folder, "golden.bin"), "rb") as file:
        floats.frombytes(file.read())
    return folder, answers, floats
