"""OpenAI's Agents SDK, over the Responses API and over chat completions.
usage: openai-agents_calls.py URL"""
import asyncio
import sys
import typing

import agents
import openai

agents.set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="key", max_retries=0, timeout=60)
called = []


@agents.function_tool
def weather(city: typing.Literal["Oslo", "Rome"]) -> str:
    """The weather of a city."""
    called.append(city)
    return "wet"


async def run(model, **options):
    agent = agents.Agent(name="a", instructions="Be brief", model=model, **options)
    return await agents.Runner.run(agent, "2+3=", max_turns=3)


async def stream(model):
    agent = agents.Agent(name="a", model=model)
    result = agents.Runner.run_streamed(agent, "2+3=")
    async for _ in result.stream_events():
        pass
    return result.final_output


async def main():
    for kind in agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel:
        model = kind(model="demo", openai_client=client)
        assert (await run(model)).final_output.strip()
        assert (await stream(model)).strip()
        forced = agents.ModelSettings(tool_choice="required", parallel_tool_calls=False)
        done = await run(model, tools=[weather], model_settings=forced,
                         tool_use_behavior="stop_on_first_tool")
        assert called and done.final_output == "wet"
        called.clear()
        print("ok", kind.__name__)


asyncio.run(main())
