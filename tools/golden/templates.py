#!/usr/bin/env python3
"""Writes the reference answers of the chat templates in tests/golden/templates.

    python3 tools/golden/templates.py        (needs jinja2 3.1)

Renders expressions.txt (an expression a line), statements.txt (templates between lines of =====)
and families/*.jinja (every conversation below) with Jinja2, in the environment that Hugging Face
transformers uses, and writes what comes out, or the error, beside them.
"""

import datetime
import json
import os
import warnings

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "golden", "templates")
NOW = datetime.datetime(2026, 11, 20, 9, 30, 5)


class Generation(Extension):
    """The block `generation`, a call block as in transformers."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def answer(env, source, context):
    """{"text": ...}, {"error": "Class: message"}, or {"refused": true} for what does not compile."""
    try:
        template = env.from_string(source)
    except (jinja2.TemplateSyntaxError, SyntaxError):
        return {"refused": True}
    try:
        return {"text": template.render(**json.loads(json.dumps(context)))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


SMALL = {"x": 0, "messages": [{"role": "user", "content": " hi <|im_end|> "},
                              {"role": "assistant", "content": "yo"}]}

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Its \"name\" <&>"},
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
            "days": {"type": ["integer", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "now", "description": "The time",
        "parameters": {"type": "object", "properties": {}}}},
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
ASK = {"role": "user", "content": "  What is 2+2? 日本 😀 <|im_end|>\n"}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call00001", "type": "function",
     "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 3}}}]}

CONVERSATIONS = {
    "ask": {"messages": [ASK], "add_generation_prompt": True},
    "system": {"messages": [{"role": "system", "content": "Be brief. /no_think"}, ASK],
               "add_generation_prompt": True},
    "turns": {"messages": [ASK, {"role": "assistant", "content": "<think>\nhm\n</think>\n\n4"},
                           {"role": "user", "content": "And 3+3?"}],
              "add_generation_prompt": True},
    "closed": {"messages": [ASK, {"role": "assistant", "content": "4", "reasoning_content": "hm"}],
               "add_generation_prompt": False},
    "no_thinking": {"messages": [ASK], "add_generation_prompt": True, "enable_thinking": False},
    "tools": {"messages": [ASK], "tools": TOOLS, "add_generation_prompt": True},
    "tool_turns": {"messages": [ASK, CALL, {"role": "tool", "name": "get_weather",
                                            "tool_call_id": "call00001",
                                            "content": "{\"temp\": 7.50}"},
                                {"role": "assistant", "content": "7 degrees"}],
                   "tools": TOOLS, "add_generation_prompt": True},
    "parts": {"messages": [{"role": "user", "content": [
        {"type": "text", "text": " Look: "}, {"type": "image"}]}], "add_generation_prompt": True},
    "twice": {"messages": [ASK, ASK], "add_generation_prompt": True},
    "documents": {"messages": [ASK], "documents": [{"doc_id": 1, "text": "A"}, {"text": "B"}],
                  "tools": TOOLS[1:], "add_generation_prompt": True},
}


def write(name, cases):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) +
                  "\n]\n")


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8", newline="") as file:
        return file.read()


def main():
    warnings.simplefilter("ignore")
    env = environment()
    expressions = ["{{ " + line + " }}" for line in read("expressions.txt").splitlines()]
    statements = read("statements.txt").rstrip("\n").split("\n=====\n")
    for name, sources in (("expressions", expressions), ("statements", statements)):
        write(name + ".json", [{"template": source, "context": SMALL, **answer(env, source, SMALL)}
                               for source in sources])
    families = os.path.join(FOLDER, "families")
    for name in sorted(os.listdir(families)):
        if not name.endswith(".jinja"):
            continue
        source = read(os.path.join("families", name))
        cases = [{"case": case, "context": {**context, **TOKENS}}
                 for case, context in CONVERSATIONS.items()]
        for case in cases:
            case.update(answer(env, source, case["context"]))
        write(os.path.join("families", name[:-len(".jinja")] + ".json"), cases)


if __name__ == "__main__":
    main()
