"""LangChain's client of OpenAI's API, over chat completions and responses.
usage: langchain-openai_calls.py URL"""
import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "wet"


class Person(BaseModel):
    name: str
    age: int


for responses in False, True:
    chat = ChatOpenAI(model="demo", base_url=sys.argv[1] + "/v1", api_key="key", max_retries=0,
                      temperature=0, use_responses_api=responses)
    done = chat.invoke("2+3=")
    assert done.text == "5", done
    assert "".join(chunk.text for chunk in chat.stream("2+3=")) == "5"
    call = chat.bind_tools([weather], tool_choice="weather").invoke("Weather?").tool_calls[0]
    assert call["name"] == "weather" and isinstance(call["args"]["city"], str)
    person = chat.with_structured_output(Person, method="json_schema").invoke("A person")
    assert isinstance(person, Person)
    print("ok", "responses" if responses else "chat completions")
