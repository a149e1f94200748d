"""aider edits a file by what the model says. usage: aider_calls.py URL"""
import os
import subprocess
import sys
import tempfile

folder = tempfile.mkdtemp()
environment = os.environ | {"OPENAI_API_BASE": sys.argv[1] + "/v1", "OPENAI_API_KEY": "key",
                            "HOME": folder, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
AIDER = [os.path.join(os.path.dirname(sys.executable), "aider"), "--model", "openai/demo",
         "--no-git", "--no-show-model-warnings", "--yes-always", "--analytics-disable",
         "--no-check-update", "--no-show-release-notes", "--no-pretty", "--map-tokens", "0"]


def aider(*arguments):
    done = subprocess.run([*AIDER, *arguments], env=environment, cwd=folder, check=True,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    assert "litellm." not in done, done
    return done


def asks():
    for stream in "--stream", "--no-stream":
        assert "Tokens: " in aider("--edit-format", "ask", stream, "--message", "2+3=")


def edits():
    with open(os.path.join(folder, "story.txt"), "w") as file:
        file.write("Once upon a time\n")
    assert "Tokens: " in aider("--edit-format", "whole", "--message", "Go on", "story.txt")


for test in asks, edits:
    test()
    print("ok", test.__name__)
