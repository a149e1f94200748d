"""LiteLLM, by OpenAI's, Anthropic's and Ollama's APIs. usage: litellm_calls.py URL"""
import sys

import litellm

ASK = [{"role": "user", "content": "2+3="}]
BASES = {"openai/demo": sys.argv[1] + "/v1", "anthropic/demo": sys.argv[1],
         "ollama_chat/demo": sys.argv[1]}

for model, base in BASES.items():
    common = {"model": model, "api_base": base, "api_key": "key", "temperature": 0,
              "max_tokens": 50}
    done = litellm.completion(messages=ASK, **common)
    assert done.choices[0].message.content == "5", done
    chunks = litellm.completion(messages=ASK, stream=True, **common)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "5"
    print("ok", model)
done = litellm.responses(model="openai/demo", input="2+3=", api_base=BASES["openai/demo"],
                         api_key="key", temperature=0)
assert done.output[0].content[0].text == "5"
print("ok responses")
