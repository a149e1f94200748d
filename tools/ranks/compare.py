#!/usr/bin/env python3
"""Holds the logits of several ranks to those of one.

usage: compare.py [--linnet PROGRAM] [--ranks 2,4,pp2,ep2,tp2-pp2] [--options "..."] [--jobs N]
                  MODEL...

Each MODEL is a folder of tests/golden/models or a checkpoint; N are compared at a time. Prints the
largest difference of each, divided by the largest logit where that is more than 1, and fails where
one is over 1e-5, where several ranks fail, or where none agree. What cannot be divided so is
counted apart, and so is what fails with one rank: a GPU may be without its kernels, but with
`--backend cpu' it is a failure. Without mpirun it says so and succeeds.
"""
import argparse
import array
import collections
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

BOUND = 1e-5
EXCLUDED = 1e30  # beyond which a logit says that its token is not to be chosen
SECONDS = 60
GRACE_SECONDS = 5  # from SIGTERM to SIGKILL
# too few layers or experts, or an embedding of another width
REFUSALS = ("stages cannot share", "share keys and values", "experts", "ranks cannot divide")


def find_vocab(model):
    """Ids that every vocabulary of a golden model has."""
    try:
        with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        config = config.get("text_config", config)
        return int(config.get("vocab_size") or config.get("n_vocab") or 64)
    except (OSError, ValueError):
        return 64


def ids_of(model):
    n = min(find_vocab(model), 64) - 1
    return ",".join(str(1 + i * 7 % n) for i in range(20))


def mesh_of(word):
    """The number of ranks, and the options, of `4', `pp2' or `tp2-pp2'."""
    n, options = 1, []
    for part in word.split("-"):
        kind, count = (part[:2], part[2:]) if part[:2].isalpha() else ("tp", part)
        n *= int(count)
        options += ["--" + kind, count]
    return str(n), options


def end_group(process):
    """Ends a process and all that it started: mpirun alone would leave its ranks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=GRACE_SECONDS)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def execute(command):
    """The exit status and what was printed; None and why where there is no end in time."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with subprocess.Popen(command, env=env, text=True, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            printed, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            end_group(process)
            return None, f"no end within {SECONDS} s"
    return process.returncode, printed


def run(command, out):
    """The logits, or None and why there are none."""
    status, printed = execute(command + ["--out", out])
    if status is None:
        return None, printed
    if status != 0:
        lines = [line for line in printed.splitlines() if line.startswith("linnet:")]
        return None, "; ".join(dict.fromkeys(lines)) or printed.strip()
    logits = array.array("f")
    with open(out, "rb") as file:
        logits.frombytes(file.read())
    return logits, ""


def is_refused(linnet, model, options):
    """Whether the model cannot be divided so, as one process says it."""
    status, printed = execute([linnet, "plan", model] + options)
    return status not in (None, 0) and any(refusal in printed for refusal in REFUSALS)


def compare_mesh(args, model, word, own, one, out):
    """What comes of one division (agrees, refused or differs), and what to say of it."""
    n, options = mesh_of(word)
    launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", n]
    several, why = run(launch + own + options, out)
    if several is None and is_refused(args.linnet, model, options):
        return "refused", f"{word} refused"
    if several is None or len(several) != len(one):
        return "differs", f"{word}: {why or 'another number of logits'}  FAILED"
    size = max([1.0] + [abs(x) for x in one if abs(x) < EXCLUDED])
    parts = [0.0 if x == y else abs(x - y) / size for x, y in zip(one, several)]
    if not all(part <= BOUND for part in parts):  # nor where one is not a number
        return "differs", f"{word} ranks {max(parts):.1e}  FAILED"
    return "agrees", f"{word} ranks {max(parts):.1e}"


def compare(args, model):
    """What comes of each number of ranks, after it has been printed."""
    own = [args.linnet, "logits", model, "--precision", "exact", "--threads", "1", "--ids",
           ids_of(model)] + args.options.split()
    name = os.path.basename(model.rstrip("/"))
    with tempfile.TemporaryDirectory() as folder:
        one, why = run(own, os.path.join(folder, "one"))
        if one is None and "--encoder-ids" in why:
            own += ["--encoder-ids", ids_of(model)]
            one, why = run(own, os.path.join(folder, "one"))
        if one is None:
            print(f"{name}: one rank fails: {why}", flush=True)
            return ["one rank fails"]
        results = [compare_mesh(args, model, word, own, one, os.path.join(folder, "several"))
                   for word in args.ranks.split(",")]
    print(f"{name}: {', '.join(told for _, told in results)}", flush=True)
    return [result for result, _ in results]


def count_of(word):
    count = int(word)
    if count < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return count


def uses_cpu(options):
    """Whether the backend is surely the CPU, which runs all models."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--backend")
    return parser.parse_known_args(options.split())[0].backend == "cpu"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--linnet", default="build/linnet")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--options", default="")
    parser.add_argument("--jobs", type=count_of, default=1)
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    if shutil.which("mpirun") is None:
        print("skipped: there is no mpirun")
        return 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda model: compare(args, model), args.models))
    counts = collections.Counter(result for several in results for result in several)
    good = sum("agrees" in several and set(several) <= {"agrees", "refused"}
               for several in results)
    refused = sum(set(several) == {"refused"} for several in results)
    print(f"{good} of {len(results)} models agree, {refused} cannot be divided so ("
          + ", ".join(f"{what}: {n}" for what, n in sorted(counts.items())) + ")")
    failed = counts["differs"] > 0 or uses_cpu(args.options) and counts["one rank fails"] > 0
    return 0 if counts["agrees"] > 0 and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
