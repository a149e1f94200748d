"""smolagents' model over chat completions. usage: smolagents_calls.py URL"""
import sys

from smolagents import OpenAIServerModel

model = OpenAIServerModel("demo", api_base=sys.argv[1] + "/v1", api_key="key", temperature=0)
ASK = [{"role": "user", "content": [{"type": "text", "text": "2+3="}]}]
assert model(ASK).content == "5"
print("ok generate")
assert "".join(delta.content or "" for delta in model.generate_stream(ASK)) == "5"
print("ok stream")
