#!/usr/bin/env python3
"""Holds linnet's JSON schemas beside llguidance's and xgrammar's, on the same schemas and instances.

    schemas.py --linnet build/linnet [--maskbench FOLDER] [--test-suite FOLDER] [--everyday]
               [--every N] [--bench build/bench/bench_grammar --vocabularies FILE.gguf...]

MaskBench's folder has files {"schema": ..., "tests": [{"data": ..., "valid": ...}]}
(maskbench/data of guidance-ai/jsonschemabench); the test suite's is tests/draft2020-12 of
json-schema-org/JSON-Schema-Test-Suite; --everyday takes the schemas of everyday.py. Peers that are
installed for this Python are measured too (--peers none leaves them out). Nothing is fetched. An instance is one line of JSON, written by
json.dumps with its default separators.

Prints a table per suite: schemas that are refused, invalid instances that are accepted, valid ones
that are missed (of the schemas that are taken). --list writes what is behind the figures.

With --bench two tables follow: microseconds of one thread that compiling a schema takes, and each
mask along its valid instances, of a vocabulary of 128k; tokens are the longest that fit. The
first is of the schemas that an engine takes, the second of those that all of them take. The engines
take turns, a part of the schemas each (--rounds). The vocabulary is that of --tekken, a file of the
package mistral-common, or what the benchmark makes of several GGUF files (--vocabularies)."""
import argparse
import base64
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import tempfile
import time


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


# ---- times ---------------------------------------------------------------------------------------

N_VOCAB = 131072


def now():
    return time.thread_time_ns() / 1000


class TimedLlguidance:
    def __init__(self, tokens):
        import llguidance
        import llguidance.numpy
        wrapper = ByteTokenizer(tokens + [b"<|end|>"])
        wrapper.eos_token_id = len(tokens)
        wrapper.special_token_ids = [len(tokens)]
        self.module = llguidance
        self.fill = llguidance.numpy.fill_next_token_bitmask
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(wrapper),
                                                slices=llguidance.LLTokenizer.json_slices())
        self.mask = llguidance.numpy.allocate_token_bitmask(1, len(tokens) + 1)

    def compile(self, schema):
        grammar = self.module.LLMatcher.grammar_from_json_schema(schema)
        matcher = self.module.LLMatcher(self.tokenizer, grammar, log_level=0)
        return None if matcher.is_error() else matcher

    def begin(self, matcher):
        matcher.reset()
        return matcher

    def fill_mask(self, matcher):
        self.fill(matcher, self.mask, 0)

    def take(self, matcher, token):
        return matcher.try_consume_tokens([token]) == 1


class TimedXgrammar:
    def __init__(self, tokens):
        import xgrammar
        self.module = xgrammar
        info = xgrammar.TokenizerInfo(tokens + [b"<|end|>"], xgrammar.VocabType.RAW,
                                      stop_token_ids=[len(tokens)])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, len(tokens) + 1)

    def compile(self, schema):
        return self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=True,
                                                 strict_mode=False)

    def begin(self, grammar):
        return self.module.GrammarMatcher(grammar, terminate_without_stop_token=True)

    def fill_mask(self, matcher):
        matcher.fill_next_token_bitmask(self.mask)

    def take(self, matcher, token):
        return matcher.accept_token(token)


def split(text, ids, longest):
    """The longest tokens that fit, one after another."""
    data, at = text.encode(), 0
    while at < len(data):
        n = next((n for n in range(longest, 0, -1) if data[at:at + n] in ids), None)
        if n is None:
            return
        yield ids[data[at:at + n]]
        at += n


def time_peer(engine, ids, cases):
    """For each case None, or what it took: to compile, and each mask."""
    longest = max(map(len, ids))
    for _, schema, tests in cases:
        began = now()
        try:
            grammar = engine.compile(schema)
        except Exception:
            grammar = None
        compiled, masks = now() - began, []
        if grammar is None:
            yield None
            continue
        for text in (as_line(data) for data, valid in tests if valid):
            state = engine.begin(grammar)
            for token in split(text, ids, longest):
                began = now()
                engine.fill_mask(state)
                masks.append(now() - began)
                if not engine.take(state, token):
                    break
        yield compiled, masks


def time_linnet(bench, tokens, cases):
    """The same, by the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "tokens").write_text("".join(token.hex() + "\n" for token in tokens))
        with open(path / "cases", "w") as file:
            for _, schema, tests in cases:
                texts = [as_line(data) for data, valid in tests if valid]
                file.write(json.dumps({"schema": schema, "texts": texts}) + "\n")
        subprocess.run([bench, str(len(tokens)), "--read", str(path / "tokens"), "--times",
                        str(path / "times"), "--cases", str(path / "cases")],
                       check=True, stdout=subprocess.DEVNULL)
        times = [None] * len(cases)
        for line in (path / "times").read_text().splitlines():
            what, number, us = line.split()
            if what == "compile":
                times[int(number)] = float(us), []
            else:
                times[int(number)][1].append(float(us))
        return times


def print_times(name, times):
    def at(values, share):
        return sorted(values)[min(len(values) - 1, int(len(values) * share))]
    compiles = [compiled for compiled, _ in times]
    masks = [us for _, all_us in times for us in all_us]
    print(f"| {name} | {len(compiles)} | " +
          " | ".join(f"{at(compiles, s):,.0f}" for s in (0.5, 0.99)) + f" | {len(masks)} | " +
          " | ".join(f"{at(masks, s):,.1f}" for s in (0.5, 0.99, 1)) + " |", flush=True)


def read_tekken(path):
    """The texts of its tokens, which are all but the special ones, up to the size of a vocabulary."""
    file = json.loads(pathlib.Path(path).read_text())
    n = file["config"]["default_vocab_size"] - file["config"]["default_num_special_tokens"]
    return [base64.b64decode(token["token_bytes"]) for token in file["vocab"][:n]]


def make_vocabulary(bench, vocabularies):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([bench, str(N_VOCAB), *vocabularies, "--write", file.name, "--cases",
                        "/dev/null"], check=True, stdout=subprocess.DEVNULL)
        return [bytes.fromhex(line) for line in pathlib.Path(file.name).read_text().split()]


def report_times(bench, tokens, peers, cases, rounds):
    ids = {text: i for i, text in enumerate(tokens)}
    engines = {name: {"llguidance": TimedLlguidance, "xgrammar": TimedXgrammar}[name](tokens)
               for name in peers}
    times = {name: [None] * len(cases) for name in ["linnet", *peers]}
    for i in range(rounds):
        part = cases[i::rounds]
        times["linnet"][i::rounds] = time_linnet(bench, tokens, part)
        for name, engine in engines.items():
            times[name][i::rounds] = list(time_peer(engine, ids, part))
    taken_by_all = [i for i in range(len(cases)) if all(rows[i] for rows in times.values())]
    for title, numbers in (("all that it takes", range(len(cases))),
                           ("those that all take", taken_by_all)):
        print(f"| microseconds, {title} | compiled | p50 | p99 | masks | p50 | p99 | most |\n"
              "|---|---|---|---|---|---|---|---|")
        for name, rows in times.items():
            print_times(name, [rows[i] for i in numbers if rows[i]])
        print()


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
    parser.add_argument("--everyday", action="store_true")
    parser.add_argument("--bench")
    parser.add_argument("--vocabularies", nargs="+", default=[])
    parser.add_argument("--tekken", help="a tekken_*.json of the package mistral-common")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each engine, for times")
    parser.add_argument("--times-only", action="store_true")
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
    if args.everyday:
        import everyday
        suites.append(("Everyday schemas", list(everyday.read_cases())))
    listing = []
    for suite, cases in suites if not args.times_only else []:
        print(f"| {suite} | refused | invalid accepted | valid missed |\n|---|---|---|---|")
        for name in engines:
            report(suite, name, cases, measure(name, args.linnet, cases, args.jobs), listing)
        print()
    if args.bench:
        tokens = (read_tekken(args.tekken) if args.tekken else
                  make_vocabulary(args.bench, args.vocabularies))
        report_times(args.bench, tokens, engines[1:],
                     [case for _, cases in suites for case in cases], args.rounds)
    if args.list:
        with open(args.list, "w") as file:
            for row in listing:
                file.write("\t".join(row).replace("\n", " ") + "\n")


if __name__ == "__main__":
    main()
