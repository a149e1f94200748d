"""The calls of OpenAI's package against a server of linnet with the demo model.

usage: openai_calls.py BASE_URL API_KEY
"""
import json
import sys
import typing

import openai
import pydantic

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0, timeout=60)
QUESTION = [{"role": "user", "content": "2+3="}]
PERSON = [{"role": "user", "content": "A person as JSON"}]
STORY = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 30, "seed": 5}


def models():
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").id == "demo"


def completions():
    done = client.completions.create(**STORY)
    assert len(done.choices) == 1 and done.choices[0].finish_reason == "length"
    assert len(done.choices[0].text) > 30
    assert done.usage.completion_tokens == 30 and done.usage.prompt_tokens == 5
    again = client.completions.create(**STORY)
    assert again.choices[0].text == done.choices[0].text


def completion_arrays():
    done = client.completions.create(
        model="demo", prompt=["Once", "There"], max_tokens=3, echo=True, temperature=0)
    assert [choice.index for choice in done.choices] == [0, 1]
    assert done.choices[0].text.startswith("Once") and done.choices[1].text.startswith("There")
    done = client.completions.create(model="demo", prompt=[5, 6, 7], max_tokens=3)
    assert done.usage.prompt_tokens == 3


def completion_streams():
    whole = client.completions.create(**STORY).choices[0].text
    chunks = list(client.completions.create(
        **STORY, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in chunks if c.choices) == whole
    assert chunks[-1].usage.completion_tokens == 30 and chunks[-1].choices == []


def completion_logprobs():
    done = client.completions.create(
        model="demo", prompt="Once upon", max_tokens=4, logprobs=3, echo=True, temperature=0)
    logprobs = done.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset)
    assert logprobs.token_logprobs[0] is None and logprobs.token_logprobs[1] < 0
    assert len(logprobs.top_logprobs[-1]) == 3
    for token, offset in zip(logprobs.tokens[1:], logprobs.text_offset[1:]):
        assert done.choices[0].text[offset:offset + len(token)] == token


def chats():
    done = client.chat.completions.create(model="demo", messages=QUESTION, temperature=0)
    assert done.choices[0].message.role == "assistant"
    assert done.choices[0].message.content == "5", done
    assert done.choices[0].finish_reason == "stop"


def chat_streams():
    stream = client.chat.completions.create(
        model="demo", messages=QUESTION, temperature=0, stream=True)
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "5"
    assert chunks[-1].choices[0].finish_reason == "stop"


def chat_logprobs():
    done = client.chat.completions.create(
        model="demo", messages=QUESTION, temperature=0, logprobs=True, top_logprobs=3)
    first = done.choices[0].logprobs.content[0]
    assert first.token == "5" and bytes(first.bytes) == b"5" and first.logprob <= 0
    assert first.top_logprobs[0].token == "5" and len(first.top_logprobs) == 3


def stops():
    done = client.completions.create(
        model="demo", prompt="Once upon a time", max_tokens=60, temperature=0, stop=["."])
    assert "." not in done.choices[0].text and done.choices[0].finish_reason == "stop"


def logit_bias():
    done = client.completions.create(
        model="demo", prompt="Once", max_tokens=3, temperature=0, logit_bias={"1245": 100})
    assert len(set(done.choices[0].text.split())) == 1


def structured_outputs():
    create = client.chat.completions.create
    done = create(model="demo", messages=PERSON, max_tokens=200,
                  response_format={"type": "json_object"})
    assert isinstance(json.loads(done.choices[0].message.content), dict)
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
              "additionalProperties": False}
    done = create(model="demo", messages=PERSON, n=2, response_format={
        "type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": schema}})
    assert all(set(json.loads(c.message.content)) == {"ok"} for c in done.choices)
    done = create(model="demo", messages=PERSON, extra_body={"guided_choice": ["red", "blue"]})
    assert done.choices[0].message.content in ("red", "blue")


class Pet(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    legs: int = pydantic.Field(ge=0, le=8)
    colour: typing.Optional[typing.Literal["black", "white"]]


def parsed_outputs():
    done = client.chat.completions.parse(
        model="demo", messages=PERSON, max_tokens=200, response_format=Pet)
    assert isinstance(done.choices[0].message.parsed, Pet)
    with client.chat.completions.stream(
            model="demo", messages=PERSON, max_tokens=200, response_format=Pet) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Pet)


TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
    "required": ["city"], "additionalProperties": False}}}]


def tools():
    create = client.chat.completions.create
    named = {"type": "function", "function": {"name": "weather"}}
    for choice in named, "required":
        done = create(model="demo", messages=PERSON, tools=TOOLS, tool_choice=choice,
                      parallel_tool_calls=False).choices[0]
        assert done.finish_reason == "tool_calls" and done.message.content is None
        call = done.message.tool_calls[0]
        assert call.function.name == "weather"
        assert isinstance(json.loads(call.function.arguments)["city"], str)
    again = create(model="demo", temperature=0, messages=[
        PERSON[0], done.message, {"role": "tool", "tool_call_id": call.id, "content": "wet"},
        QUESTION[0]])
    assert again.choices[0].message.content == "5"
    text = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
    with client.chat.completions.stream(model="demo", messages=PERSON, tools=TOOLS,
                                        extra_body={"guided_choice": [text]}) as stream:
        message = stream.get_final_completion().choices[0].message
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Oslo"}
    fails(openai.BadRequestError, "tool_choice", create, model="demo", messages=PERSON,
          tools=TOOLS, tool_choice={"type": "function", "function": {"name": "other"}})


def fails(kind, param, call, **arguments):
    try:
        call(**arguments)
    except kind as error:
        assert param is None or error.param == param, error
        return
    raise AssertionError(f"no {kind.__name__} for {arguments}")


def errors():
    create = client.chat.completions.create
    fails(openai.BadRequestError, "temperature", create, model="demo", messages=QUESTION,
          temperature=-1)
    fails(openai.BadRequestError, "messages", create, model="demo", messages=[])
    fails(openai.BadRequestError, "prompt", client.completions.create, model="demo",
          prompt=[10**9])
    fails(openai.BadRequestError, "prompt", client.completions.create, model="demo",
          prompt=" once" * 3000)
    fails(openai.BadRequestError, "audio", create, model="demo", messages=QUESTION,
          extra_body={"audio": {}})
    fails(openai.BadRequestError, "response_format.json_schema.schema", create, model="demo",
          messages=QUESTION, response_format={"type": "json_schema", "json_schema": {
              "name": "s", "schema": {"not": {}}}})
    fails(openai.NotFoundError, "model", create, model="other", messages=QUESTION)
    stranger = client.with_options(api_key="wrong")
    fails(openai.AuthenticationError, None, stranger.models.list)


def raw_headers():
    answer = client.chat.completions.with_raw_response.create(
        model="demo", messages=QUESTION, extra_headers={"x-request-id": "suite-1"})
    assert answer.headers["x-request-id"] == "suite-1"
    answer = client.chat.completions.with_raw_response.create(
        model="demo", messages=QUESTION, extra_body={"surprise": 1})
    assert answer.headers["x-ignored-fields"] == "surprise"


def main():
    tests = [models, completions, completion_arrays, completion_streams, completion_logprobs,
             chats, chat_streams, chat_logprobs, stops, logit_bias, structured_outputs,
             parsed_outputs, tools, errors, raw_headers]
    tests += [test for name, test in globals().items() if name.startswith("also_")]
    for test in tests:
        test()
        print("ok", test.__name__)
    print(json.dumps({"calls": len(tests), "openai": openai.__version__}))


main()
