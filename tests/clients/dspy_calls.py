"""dspy's adapters over the server. usage: dspy_calls.py URL"""
import sys
from typing import Literal

import dspy

lm = dspy.LM("openai/demo", api_base=sys.argv[1] + "/v1", api_key="key", max_tokens=120,
             temperature=0.0, cache=False)
dspy.configure(lm=lm)


def asks():
    assert lm("2+3=") == ["5"]
    assert len(lm("Tell me a story", n=3, temperature=0.9)) == 3


class Judge(dspy.Signature):
    """Judge it."""
    text: str = dspy.InputField()
    mood: Literal["good", "bad"] = dspy.OutputField()
    marks: int = dspy.OutputField()


SCHEMA = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]},
                                           "marks": {"type": "integer", "maximum": 9}},
          "required": ["mood", "marks"], "additionalProperties": False}


def predicts():
    form = {"type": "json_schema", "json_schema": {"name": "judge", "schema": SCHEMA}}
    with dspy.context(adapter=dspy.JSONAdapter()):
        judged = dspy.Predict(Judge, response_format=form)(text="I like it")
    assert judged.mood in ("good", "bad") and isinstance(judged.marks, int)


def completes():
    text = dspy.LM("text-completion-openai/demo", api_base=sys.argv[1] + "/v1", api_key="key",
                   model_type="text", max_tokens=40, min_tokens=20, cache=False)("Once upon")
    assert len(text[0]) > 20


for test in asks, predicts, completes:
    test()
    print("ok", test.__name__)
