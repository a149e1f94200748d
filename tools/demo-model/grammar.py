"""A small text grammar: the generator of every sentence the demo model learns from.

A rule file holds rules. A line `= name` starts a rule, every further line is one alternative, and
` | ` splits a line into several. `#` starts a comment line, `\\n` is a new line.
In an alternative

    [a|b|]      picks one of the parts (an empty part is allowed; parts nest)
    <name>      expands the rule `name` afresh
    {name}      expands the rule `name` once per text and repeats it afterwards: a slot
    {Name}      the same with a capital first letter (also <Name>)

A rule `= name(field, field)` is a table: its alternatives have the fields of one row between ` ; `,
and choosing a row for the slot {name} sets the slots {field} too.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

Slots = dict[str, str]
TOKEN = re.compile(r"\[|\]|\||\{\w+\}|<\w+>|[^\[\]|{}<>]+|.", re.S)
ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])(?!uni|use|usu|eu|one\b|once\b|Uni|Eu)|\b([Aa]) (?=hour|honest)")
SENTENCE = re.compile(r"(^|[.!?] |\n)([a-z])")


class Rule:
    """The compiled alternatives of a rule; each is a list of fields, the first is the text."""

    def __init__(self, fields: list[str]) -> None:
        self.fields = fields
        self.rows: list[list[list]] = []


def compile_template(source: str) -> list:
    """Turns a template into a list of literals, ("slot"|"rule", name, capital) and choice lists."""
    tokens = TOKEN.findall(source)
    position = 0

    def sequence(nested: bool) -> list:
        nonlocal position
        parts: list = []
        while position < len(tokens):
            token = tokens[position]
            if nested and token in "|]":
                break
            position += 1
            if token == "[":
                options = [sequence(True)]
                while tokens[position] == "|":
                    position += 1
                    options.append(sequence(True))
                position += 1
                parts.append(options)
            elif token[0] in "{<" and len(token) > 2:
                name = token[1:-1]
                kind = "slot" if token[0] == "{" else "rule"
                parts.append((kind, name[0].lower() + name[1:], name[0].isupper()))
            else:
                parts.append(token)
        return parts

    return sequence(False)


def split_top(line: str, separator: str) -> list[str]:
    """Splits at a separator that stands outside square brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(line):
        depth += (char == "[") - (char == "]")
        if depth == 0 and line.startswith(separator, i):
            parts.append(line[start:i])
            start = i + len(separator)
    return parts + [line[start:]]


def tidy(text: str) -> str:
    """Sets `a` or `an` before each noun and the capital letter of each sentence."""
    text = ARTICLE.sub(lambda match: (match[1] or match[2]) + "n ", text)
    return SENTENCE.sub(lambda match: match[1] + match[2].upper(), text)


class Grammar:
    def __init__(self, *paths: Path) -> None:
        self.rules: dict[str, Rule] = {}
        self.table_of: dict[str, str] = {}  # field -> the rule whose rows set it
        for path in paths:
            self.load(path)

    def load(self, path: Path) -> None:
        rule = None
        for line in path.read_text().splitlines():
            line = line.strip().replace("\\n", "\n")
            if not line or line.startswith("#"):
                continue
            if line.startswith("= "):
                name, _, fields = line[2:].rstrip(")").partition("(")
                rule = self.rules[name] = Rule([f.strip() for f in fields.split(",") if f])
                self.table_of.update(dict.fromkeys(rule.fields, name))
                continue
            for alternative in split_top(line, " | "):
                row = [compile_template(f.strip()) for f in split_top(alternative, " ; ")]
                if len(row) != 1 + len(rule.fields):
                    raise ValueError(f"{path.name}: a row of {len(row)} fields: {alternative}")
                rule.rows.append(row)

    def pick(self, name: str, slots: Slots, rng: random.Random) -> str:
        """Expands a rule; a table row also sets its fields' slots."""
        rule = self.rules[name]
        row = rule.rows[int(rng.random() * len(rule.rows))]
        for field, part in zip(rule.fields, row[1:]):
            slots[field] = self.expand(part, slots, rng)
        return self.expand(row[0], slots, rng)

    def slot(self, name: str, slots: Slots, rng: random.Random) -> str:
        if name not in slots:
            table = self.table_of.get(name, name)
            slots[table] = self.pick(table, slots, rng)
        return slots[name]

    def expand(self, template: list, slots: Slots, rng: random.Random) -> str:
        out = []
        for part in template:
            if isinstance(part, str):
                out.append(part)
            elif isinstance(part, tuple):
                kind, name, capital = part
                value = (self.slot if kind == "slot" else self.pick)(name, slots, rng)
                out.append(value[0].upper() + value[1:] if capital else value)
            else:
                out.append(self.expand(part[int(rng.random() * len(part))], slots, rng))
        return "".join(out)

    def text(self, template: str, slots: Slots, rng: random.Random) -> str:
        """Expands a template that is given as source."""
        return tidy(self.expand(compile_template(template), slots, rng))
