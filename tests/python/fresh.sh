#!/bin/sh
# As a user does: the wheel in a fresh virtual environment, ten lines of Python that give text, then the tests with
# NumPy. Needs a package index. Part of `make test-python`, not of `make test`.
# usage: fresh.sh WHEEL SOURCE_DIR
set -eu
wheel=$1 source=$2
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check "$wheel"
cd "$venv" # nothing of the source tree is on the way
cat >ten.py <<'END'
import sys
from linnet import LLM, SamplingParams

prompts = ["Once upon a time", "The capital of France is", "My name is"]
params = SamplingParams(temperature=0.8, top_p=0.95, max_tokens=24, seed=1)
llm = LLM(model=sys.argv[1])
for output in llm.generate(prompts, params):
    text = output.outputs[0].text
    print(f"Prompt: {output.prompt!r}, Generated text: {text!r}")
    assert len(text) > 5 and output.finished
END
"$venv/bin/python" ten.py "$source/models/demo.gguf"
"$venv/bin/pip" install -q --disable-pip-version-check numpy
LINNET_INSTALLED=1 "$venv/bin/python" -X dev -m unittest discover -s "$source/tests/python"
