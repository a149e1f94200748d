"""Pydantic AI, over chat completions, responses and the Messages API.
usage: pydantic-ai_calls.py URL"""
import sys

import pydantic
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

openai = OpenAIProvider(base_url=sys.argv[1] + "/v1", api_key="key")
anthropic = AnthropicProvider(base_url=sys.argv[1], api_key="key")


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=120)


for model in (OpenAIChatModel("demo", provider=openai),
              OpenAIResponsesModel("demo", provider=openai),
              AnthropicModel("demo", provider=anthropic)):
    assert Agent(model).run_sync("2+3=").output.strip()
    if not isinstance(model, AnthropicModel):  # which lets the model choose whether to call
        done = Agent(model, output_type=Person).run_sync("A person as JSON")
        assert isinstance(done.output, Person)
    print("ok", type(model).__name__)
