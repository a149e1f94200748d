"""The program llm, with the served model as one of its own. usage: llm_calls.py URL"""
import os
import subprocess
import sys
import tempfile

folder = tempfile.mkdtemp()
environment = os.environ | {"LLM_USER_PATH": folder, "LINNET_KEY": "key"}
with open(os.path.join(folder, "extra-openai-models.yaml"), "w") as models:
    models.write(f"""- model_id: served
  model_name: demo
  api_base: {sys.argv[1]}/v1
  supports_schema: true
  supports_tools: true
- model_id: completed
  model_name: demo
  api_base: {sys.argv[1]}/v1
  completion: true
""")


def llm(*arguments):
    return subprocess.run([sys.executable, "-m", "llm", *arguments], env=environment, check=True,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout


def prompts():
    for stream in [], ["--no-stream"]:
        assert llm("-m", "served", "-o", "temperature", "0", *stream, "2+3=") == "5\n"
    assert llm("-m", "served", "-o", "temperature", "0", "-c", "4+4=") == "8\n"


def completions():
    assert len(llm("-m", "completed", "-o", "max_tokens", "20", "Once upon a time")) > 20


def schemas():
    import json
    made = json.loads(llm("-m", "served", "--schema", "name, age int", "A person"))
    assert isinstance(made["name"], str) and isinstance(made["age"], int), made


def tools():
    made = llm("-m", "served", "-o", "temperature", "0", "--functions",
               "def add(a: int, b: int) -> int:\n    return a + b", "2+3=")
    assert made == "5\n", made


for test in prompts, completions, schemas, tools:
    test()
    print("ok", test.__name__)
