#!/usr/bin/env python3
"""Holds linnet's JSON schemas beside llguidance's and xgrammar's, on the same schemas and instances.

    schemas.py --linnet build/linnet [--maskbench FOLDER] [--test-suite FOLDER] [--every N]

MaskBench's folder has files {"schema": ..., "tests": [{"data": ..., "valid": ...}]}
(maskbench/data of guidance-ai/jsonschemabench); the test suite's is tests/draft2020-12 of
json-schema-org/JSON-Schema-Test-Suite. Peers that are installed for this Python are measured too
(--peers none leaves them out). Nothing is fetched. An instance is one line of JSON, written by
json.dumps with its default separators.

Prints a table per suite: schemas that are refused, invalid instances that are accepted, valid ones
that are missed (of the schemas that are taken). --list writes what is behind the figures."""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import tempfile


def read_maskbench(folder, every):
    for path in sorted(pathlib.Path(folder).glob("*.json"))[::every]:
        case = json.loads(path.read_text())
        yield path.stem, case["schema"], [(t["data"], t["valid"]) for t in case["tests"]]


def read_test_suite(folder, every):
    cases = []
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        for group in json.loads(path.read_text()):
            tests = [(t["data"], t["valid"]) for t in group["tests"]]
            cases.append((f"{path.stem}: {group['description']}", group["schema"], tests))
    return cases[::every]


def as_line(value):
    return json.dumps(value, ensure_ascii=False)


class Linnet:
    def __init__(self, program):
        self.program = program

    def check(self, schema, lines):
        """None and a reason when the schema is refused, else whether each line is accepted."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(schema, file)
            file.flush()
            done = subprocess.run(
                [self.program, "grammar", "--json-schema", file.name, "--check-lines", "-"],
                input="".join(line + "\n" for line in lines).encode(errors="surrogatepass"),
                capture_output=True, timeout=600)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"exit status {done.returncode}")
        if done.returncode == 1:
            return None, done.stderr.decode(errors="replace").strip().split("json-schema: ")[-1]
        verdicts = done.stdout.decode().splitlines()
        assert len(verdicts) == len(lines), schema
        return [verdict == "ok" for verdict in verdicts], done.stderr.decode()


class Llguidance:
    def __init__(self):
        import llguidance
        self.module = llguidance
        tokens = [bytes([i]) for i in range(256)] + [b"<|end|>"]
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(ByteTokenizer(tokens)))

    def check(self, schema, lines):
        try:
            grammar = self.module.LLMatcher.grammar_from_json_schema(schema)
            matcher = self.module.LLMatcher(self.tokenizer, grammar, log_level=0)
            if matcher.is_error():
                return None, matcher.get_error().splitlines()[0]
        except Exception as error:
            return None, str(error).splitlines()[0]
        verdicts = []
        for line in lines:
            matcher.reset()
            data = list(line.encode(errors="surrogatepass"))
            verdicts.append(matcher.try_consume_tokens(data) == len(data) and
                            matcher.is_accepting())
        return verdicts, ""


class ByteTokenizer:
    eos_token_id = 256
    bos_token_id = None

    def __init__(self, tokens):
        self.tokens = tokens
        self.special_token_ids = [256]

    def __call__(self, text):
        return list(text.encode() if isinstance(text, str) else text)


class Xgrammar:
    def __init__(self):
        import xgrammar
        self.module = xgrammar
        tokens = [bytes([i]) for i in range(256)] + [b"<|end|>"]
        info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, stop_token_ids=[256])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def check(self, schema, lines):
        try:
            grammar = self.compiler.compile_json_schema(
                json.dumps(schema), any_whitespace=True, strict_mode=False)
        except Exception as error:
            return None, str(error).splitlines()[0]
        verdicts = []
        for line in lines:
            matcher = self.module.GrammarMatcher(grammar, terminate_without_stop_token=True)
            data = line.encode(errors="surrogatepass")
            verdicts.append(matcher.accept_string(data) and matcher.is_completed())
        return verdicts, ""


def make_engine(name, linnet):
    return {"linnet": lambda: Linnet(linnet), "llguidance": Llguidance, "xgrammar": Xgrammar}[name]()


def work(job):
    name, linnet, cases = job
    engine = make_engine(name, linnet)
    results = []
    for title, schema, tests in cases:
        try:
            verdicts, reason = engine.check(schema, [as_line(data) for data, _ in tests])
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            verdicts, reason = None, f"FAILED: {error}"
        results.append((title, verdicts, reason))
    return results


def measure(name, linnet, cases, jobs):
    parts = [(name, linnet, cases[i:i + 50]) for i in range(0, len(cases), 50)]
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        return [result for part in pool.map(work, parts) for result in part]


def report(suite, name, cases, results, listing):
    counts = collections.Counter()
    for (_, _, tests), (title, verdicts, reason) in zip(cases, results):
        counts["schemas"] += 1
        if verdicts is None:
            counts["refused"] += 1
            listing.append((suite, name, "refused", title, reason))
            continue
        for (data, valid), accepted in zip(tests, verdicts):
            counts["valid" if valid else "invalid"] += 1
            if valid != accepted:
                kind = "missed" if valid else "accepted"
                counts[kind] += 1
                listing.append((suite, name, kind, title, as_line(data)[:300]))
    print(f"| {name} | {counts['refused']} of {counts['schemas']} | "
          f"{counts['accepted']} of {counts['invalid']} | "
          f"{counts['missed']} of {counts['valid']} |", flush=True)


def installed(name):
    try:
        __import__(name)
        return True
    except ImportError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--linnet", required=True)
    parser.add_argument("--maskbench")
    parser.add_argument("--test-suite")
    parser.add_argument("--every", type=int, default=1, help="every Nth schema of MaskBench")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--peers", default="llguidance,xgrammar")
    parser.add_argument("--list", help="a file for what was refused, accepted and missed")
    args = parser.parse_args()
    engines = ["linnet"] + [p for p in args.peers.split(",") if p != "none" and installed(p)]
    suites = []
    if args.maskbench:
        suites.append(("MaskBench", list(read_maskbench(args.maskbench, args.every))))
    if args.test_suite:
        suites.append(("JSON-Schema-Test-Suite", read_test_suite(args.test_suite, 1)))
    listing = []
    for suite, cases in suites:
        print(f"| {suite} | refused | invalid accepted | valid missed |\n|---|---|---|---|")
        for name in engines:
            report(suite, name, cases, measure(name, args.linnet, cases, args.jobs), listing)
        print()
    if args.list:
        with open(args.list, "w") as file:
            for row in listing:
                file.write("\t".join(row).replace("\n", " ") + "\n")


if __name__ == "__main__":
    main()
