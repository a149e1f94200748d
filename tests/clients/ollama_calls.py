"""The calls of Ollama's package. usage: ollama_calls.py URL"""
import sys

import ollama
import pydantic

client = ollama.Client(host=sys.argv[1])
SUM = [{"role": "user", "content": "2+3="}]
EXACT = {"temperature": 0}


class Person(pydantic.BaseModel):
    name: str
    age: int


def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name
    """
    return "wet"


def chats():
    done = client.chat("demo", messages=SUM, options=EXACT)
    assert done.message.content == "5" and done.done_reason == "stop", done
    assert done.eval_count == 1 and done.prompt_eval_count > 3
    chunks = list(client.chat("demo:latest", messages=SUM, options=EXACT, stream=True))
    assert "".join(chunk.message.content for chunk in chunks) == "5" and chunks[-1].done
    assert not any(chunk.done for chunk in chunks[:-1])


def tools():
    history = SUM + [{"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "weather", "arguments": {"city": "Rome"}}}]},
        {"role": "tool", "content": "wet", "tool_name": "weather"}, SUM[0]]
    done = client.chat("demo", messages=history, tools=[weather], options=EXACT)
    assert done.message.role == "assistant"


def generates():
    done = client.generate("demo", prompt="2+3=", options=EXACT)
    assert done.response == "5"
    raw = client.generate("demo", prompt="Once upon", raw=True,
                          options={"temperature": 0, "num_predict": 5})
    assert raw.response.startswith(" a time") and raw.done_reason == "length", raw
    assert client.generate("demo").done_reason == "load"


def formats():
    done = client.chat("demo", messages=[{"role": "user", "content": "A person"}],
                       format=Person.model_json_schema(), options=EXACT)
    Person.model_validate_json(done.message.content)


def lists():
    assert [model.model for model in client.list().models] == ["demo"]
    assert client.ps().models[0].model == "demo"
    shown = client.show("demo")
    assert "completion" in shown.capabilities and shown.modelinfo["general.architecture"]


def embeddings():
    assert len(client.embed("demo", input=["a", "b"]).embeddings) == 2
    assert len(client.embeddings("demo", prompt="a").embedding) > 0


def refusals():
    for call in (lambda: client.embed("other", input="a"), lambda: client.show("other"),
                 lambda: client.chat("other", messages=SUM)):
        try:
            call()
        except ollama.ResponseError as error:
            assert error.error
            continue
        raise AssertionError("not refused")


for test in chats, tools, generates, formats, lists, embeddings, refusals:
    test()
    print("ok", test.__name__)
