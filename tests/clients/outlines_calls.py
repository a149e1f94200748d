"""outlines' models over OpenAI's and vLLM's fields. usage: outlines_calls.py URL"""
import re
import sys
from typing import Literal

import openai
import outlines
import pydantic

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="key", max_retries=0, timeout=60)


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    age: int


def openai_model():
    model = outlines.from_openai(client, "demo")
    assert model("2+3=", temperature=0) == "5"
    assert Person.model_validate_json(model("A person", Person))
    assert "".join(model.stream("2+3=", temperature=0)) == "5"


def vllm_model():
    model = outlines.from_vllm(client, "demo")
    assert model("2+3=", temperature=0) == "5"
    assert Person.model_validate_json(model("A person", Person))
    assert model("Yes or no?", Literal["yes", "no"]) in ("yes", "no")
    assert re.fullmatch("[1-9][0-9]{2}", model("A number", outlines.regex("[1-9][0-9]{2}")))


for test in openai_model, vllm_model:
    test()
    print("ok", test.__name__)
