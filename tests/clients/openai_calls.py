"""The Responses API by OpenAI's package; tests/server/openai_calls.py has its other calls.
usage: openai_calls.py URL"""
import json
import re
import sys

import openai
import pydantic

OPTIONS = {"base_url": sys.argv[1] + "/v1", "api_key": "key", "max_retries": 0, "timeout": 60}
client = openai.OpenAI(_strict_response_validation=True, **OPTIONS)
TOOLS = [{"type": "function", "name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
    "required": ["city"], "additionalProperties": False}, "strict": True}]


def responses():
    done = client.responses.create(model="demo", input="2+3=", temperature=0)
    assert done.output_text == "5" and done.status == "completed", done
    again = client.responses.create(model="demo", input="4+4=", previous_response_id=done.id,
                                    temperature=0)
    assert again.output_text == "8"
    assert client.responses.retrieve(done.id).output_text == "5"
    assert client.responses.input_items.list(done.id).data[0].content[0].text == "2+3="
    client.responses.delete(done.id)
    try:
        client.responses.retrieve(done.id)
    except openai.NotFoundError:
        return
    raise AssertionError("a deleted response is still there")


def streams():
    with client.responses.stream(model="demo", input="Tell me a story", temperature=0) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert text == final.output_text and len(text) > 20
    numbers = [e.sequence_number for e in client.responses.create(
        model="demo", input="2+3=", stream=True)]
    assert numbers == list(range(len(numbers)))


def tools():
    done = client.responses.create(model="demo", input="Weather?", tools=TOOLS,
                                   tool_choice="required", parallel_tool_calls=False)
    call = done.output[0]
    assert call.type == "function_call" and isinstance(json.loads(call.arguments)["city"], str)
    history = [{"role": "user", "content": "Weather?"}] + done.output
    history += [{"type": "function_call_output", "call_id": call.call_id, "output": "wet"},
                {"role": "user", "content": "2+3="}]
    again = client.responses.create(model="demo", input=history, tools=TOOLS, temperature=0)
    assert again.status == "completed"


def custom():
    tool = {"type": "custom", "name": "dial", "format": {
        "type": "grammar", "syntax": "regex", "definition": "[0-9]{3}-[0-9]{4}"}}
    done = client.responses.create(model="demo", input="Call Bob", tools=[tool],
                                   tool_choice={"type": "custom", "name": "dial"})
    call = done.output[0]
    assert call.type == "custom_tool_call" and re.fullmatch("[0-9]{3}-[0-9]{4}", call.input), call
    history = [{"role": "user", "content": "Call Bob"}] + done.output
    history += [{"type": "custom_tool_call_output", "call_id": call.call_id, "output": "busy"}]
    assert client.responses.create(model="demo", input=history, tools=[tool]).status == "completed"
    nested = {"name": "dial", "format": {"type": "grammar", "grammar": {
        "syntax": "regex", "definition": "[0-9]{3}-[0-9]{4}"}}}
    done = client.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "Call Bob"}],
        tools=[{"type": "custom", "custom": nested}],
        tool_choice={"type": "custom", "custom": {"name": "dial"}})
    call = done.choices[0].message.tool_calls[0]
    assert call.type == "custom" and re.fullmatch("[0-9]{3}-[0-9]{4}", call.custom.input), call


class Person(pydantic.BaseModel):
    name: str
    age: int


def parses():
    done = client.responses.parse(model="demo", input="A person as JSON", text_format=Person)
    assert isinstance(done.output_parsed, Person)


def background():
    done = client.responses.create(model="demo", input="Tell me a story", background=True)
    assert done.status in ("queued", "in_progress")
    assert client.responses.cancel(done.id).status in ("cancelled", "completed")


def resumes():
    stream = client.responses.create(model="demo", input="Tell me a story", temperature=0,
                                     background=True, stream=True)
    begun = [next(stream) for _ in range(6)]
    stream.close()
    done = begun[0].response.id
    rest = list(client.responses.retrieve(done, stream=True, starting_after=5))
    assert [e.sequence_number for e in begun + rest] == list(range(6 + len(rest)))
    assert rest[-1].type == "response.completed" and len(rest) > 20
    assert list(client.responses.retrieve(done, stream=True)) == begun + rest
    with client.responses.stream(response_id=done) as again:
        final = again.get_final_response()
    assert final.output_text == client.responses.retrieve(done).output_text


def references():
    done = client.responses.create(model="demo", input="2+3=", temperature=0)
    again = client.responses.create(model="demo", temperature=0, input=[
        {"role": "user", "content": "2+3="}, {"type": "item_reference", "id": done.output[0].id},
        {"role": "user", "content": "4+4="}])
    assert again.output_text == "8"


def conversations():
    made = client.conversations.create(metadata={"a": "b"}, items=[
        {"role": "user", "content": "2+3="}, {"role": "assistant", "content": "5"}])
    done = client.responses.create(model="demo", input="4+4=", conversation=made.id, temperature=0)
    assert done.output_text == "8" and done.conversation.id == made.id
    items = client.conversations.items
    pages = items.list(made.id, order="asc", limit=3)  # goes on by itself
    assert [item.content[0].text for item in pages] == ["2+3=", "5", "4+4=", "8"]
    added = items.create(made.id, items=[
        {"type": "function_call", "call_id": "a", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "reasoning", "id": "mine", "summary": []}])
    assert items.retrieve(added.data[1].id, conversation_id=made.id) == added.data[1]
    assert items.delete(added.data[0].id, conversation_id=made.id) == made
    assert len(list(items.list(made.id))) == 6
    assert client.conversations.update(made.id, metadata={"c": "d"}).metadata == {"c": "d"}
    assert client.conversations.retrieve(made.id).created_at == made.created_at
    assert client.conversations.delete(made.id).deleted
    try:
        client.conversations.retrieve(made.id)
    except openai.NotFoundError:
        return
    raise AssertionError("a deleted conversation is still there")


def embeddings():
    # what comes as base64 the package takes apart after it has looked at the types
    made = openai.OpenAI(**OPTIONS).embeddings.create(
        model="demo", input=["Once upon a time", "2+3="])
    as_lists = client.embeddings.create(model="demo", input=["Once upon a time", "2+3="],
                                        encoding_format="float")
    assert [d.index for d in made.data] == [0, 1] and made.usage.prompt_tokens > 0
    for one, other in zip(made.data, as_lists.data):
        assert abs(sum(x * x for x in one.embedding) - 1) < 1e-4
        assert max(abs(x - y) for x, y in zip(one.embedding, other.embedding)) < 1e-6
    short = client.embeddings.create(model="demo", input="2+3=", dimensions=8,
                                     encoding_format="float")
    assert len(short.data[0].embedding) == 8


def refusals():
    for call in (lambda: client.embeddings.create(model="demo", input=[]),
                 lambda: client.files.list(), lambda: client.batches.list()):
        try:
            call()
        except (openai.NotFoundError, openai.BadRequestError):
            continue
        raise AssertionError("not refused")


for test in (responses, streams, tools, custom, parses, background, resumes, references,
             conversations, embeddings, refusals):
    test()
    print("ok", test.__name__)
