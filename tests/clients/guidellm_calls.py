"""guidellm's benchmarks of chats and completions. usage: guidellm_calls.py URL"""
import json
import os
import subprocess
import sys
import tempfile

folder = tempfile.mkdtemp()
with open(os.path.join(folder, "prompts.json"), "w") as data:
    json.dump([{"prompt": prompt} for prompt in ("Once upon a time", "2+3=", "The", "4+4=")], data)
COMMAND = [os.path.join(os.path.dirname(sys.executable), "guidellm"), "run", "--disable-console",
           "--constraint", "kind=max_requests,count=4", "--data",
           "kind=json_file,path=" + data.name]


def run(path, profile):
    out = os.path.join(folder, "out.json")
    backend = f"kind=openai_http,target={sys.argv[1]},model=demo,request_format={path}"
    subprocess.run([*COMMAND, "--backend", backend, "--profile", profile, "--output",
                    "kind=json,path=" + out], check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    with open(out) as file:
        done = json.load(file)["benchmarks"][0]["requests"]
    assert len(done["successful"]) == 4 and not done["errored"] and not done["incomplete"], done
    assert all(request["output_tokens"] > 0 for request in done["successful"])


def chats():
    run("/v1/chat/completions", "kind=synchronous")


def completions():
    run("/v1/completions", "kind=concurrent,streams=2")


for test in chats, completions:
    test()
    print("ok", test.__name__)
