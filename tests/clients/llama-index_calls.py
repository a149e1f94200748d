"""LlamaIndex. usage: llama-index_calls.py URL"""
import sys

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(model="demo", api_base=sys.argv[1] + "/v1", api_key="key", temperature=0,
                 is_chat_model=True, context_window=1024, max_tokens=50)
ASK = [ChatMessage(role="user", content="2+3=")]
assert llm.chat(ASK).message.content == "5"
assert "".join(chunk.delta or "" for chunk in llm.stream_chat(ASK)) == "5"
print("ok chat")
text = OpenAILike(model="demo", api_base=sys.argv[1] + "/v1", api_key="key", temperature=0,
                  is_chat_model=False, context_window=1024, max_tokens=5)
assert text.complete("Once upon").text.startswith(" a time")
print("ok completion")
