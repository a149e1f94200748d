"""The calls of Anthropic's package. usage: anthropic_calls.py URL"""
import sys

import anthropic
import pydantic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="key", max_retries=0, timeout=60)
SUM = [{"role": "user", "content": "2+3="}]
EXACT = {"temperature": 0}  # which newer packages have no parameter for
TOOLS = [{"name": "weather", "description": "The weather", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
    "required": ["city"]}}]


def messages():
    done = client.messages.create(model="demo", max_tokens=50, messages=SUM, extra_body=EXACT)
    assert done.content[0].text == "5" and done.stop_reason == "end_turn", done
    assert done.usage.output_tokens == 1 and done._request_id.startswith("req-"), done._request_id
    done = client.messages.create(model="demo", max_tokens=50, extra_body=EXACT, system="Be brief",
                                  messages=[{"role": "user", "content": "Tell me a story"},
                                            {"role": "assistant", "content": "Once upon"}],
                                  stop_sequences=["."])
    assert done.stop_reason == "stop_sequence" and done.stop_sequence == "."


def streams():
    with client.messages.stream(model="demo", max_tokens=60, extra_body=EXACT, messages=[
            {"role": "user", "content": "Tell me a story"}]) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text and len(text) > 20
    assert final.usage.output_tokens > 5 and final.stop_reason


def tools():
    done = client.messages.create(model="demo", max_tokens=60, messages=SUM, tools=TOOLS,
                                  tool_choice={"type": "tool", "name": "weather"})
    call = done.content[0]
    assert call.type == "tool_use" and isinstance(call.input["city"], str)
    again = client.messages.create(model="demo", max_tokens=60, extra_body=EXACT, tools=TOOLS, messages=[
        SUM[0], {"role": "assistant", "content": done.content}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call.id, "content": "wet"},
            {"type": "text", "text": "2+3="}]}])
    assert again.type == "message"
    with client.messages.stream(model="demo", max_tokens=60, messages=SUM, tools=TOOLS,
                                tool_choice={"type": "any", "disable_parallel_tool_use": True}) as stream:
        final = stream.get_final_message()
    assert final.stop_reason == "tool_use" and final.content[0].type == "tool_use"


class Person(pydantic.BaseModel):
    name: str
    age: int


def parses():
    done = client.messages.parse(model="demo", max_tokens=100, output_format=Person, messages=[
        {"role": "user", "content": "A person as JSON"}])
    assert isinstance(done.parsed_output, Person)


def counts():
    assert client.messages.count_tokens(model="demo", messages=SUM).input_tokens > 3
    assert [model.id for model in client.models.list()] == ["demo"]
    found = client.models.retrieve("demo")
    assert found.id == "demo" and found.to_dict()["lifecycle"] == "active", found


def errors():
    try:
        client.messages.create(model="other", max_tokens=5, messages=SUM)
    except anthropic.NotFoundError as error:
        assert "other" in str(error) and error.request_id == error.body["request_id"], error.body
        return
    raise AssertionError("no error for another model")


for test in messages, streams, tools, parses, counts, errors:
    test()
    print("ok", test.__name__)
