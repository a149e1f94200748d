"""Instructor, over chat completions, the Responses API and the Messages API.
usage: instructor_calls.py URL"""
import sys

import instructor
import openai
import pydantic

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="key", max_retries=0, timeout=60)
ASK = [{"role": "user", "content": "A person as JSON"}]


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=120)


for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.RESPONSES_TOOLS):
    wrapped = instructor.from_openai(client, mode=mode)
    done = wrapped.chat.completions.create(model="demo", messages=ASK, response_model=Person,
                                           max_retries=1)
    assert isinstance(done, Person), done
    print("ok", mode)
