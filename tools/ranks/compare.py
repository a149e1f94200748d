#!/usr/bin/env python3
"""Holds the logits of several ranks to those of one.

usage: compare.py [--linnet PROGRAM] [--ranks 2,4,pp2,ep2,tp2-pp2] [--options "..."] MODEL...

Each MODEL is a folder of tests/golden/models or a checkpoint. Prints the largest difference of each,
divided by the largest logit where that is more than 1, and fails where one is over 1e-5 or where a
run fails. Without mpirun it says so and succeeds.
"""
import argparse
import array
import json
import os
import shutil
import subprocess
import sys
import tempfile

BOUND = 1e-5
SECONDS = 60
REFUSALS = ("stages cannot share", "share keys and values", "experts")  # too few layers, or experts


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


def run(command, out):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command + ["--out", out], env=env, timeout=SECONDS, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.startswith("linnet:")]
        return None, "; ".join(lines) or done.stdout.strip()
    logits = array.array("f")
    with open(out, "rb") as file:
        logits.frombytes(file.read())
    return logits, ""


def is_refused(linnet, model, options):
    """Whether the model cannot be divided so, as one process says it."""
    done = subprocess.run([linnet, "plan", model] + options, timeout=SECONDS, text=True,
                          capture_output=True, check=False)
    return done.returncode != 0 and any(refusal in done.stderr for refusal in REFUSALS)


def compare(args, model, folder):
    """Whether all numbers of ranks agree with one."""
    own = [args.linnet, "logits", model, "--precision", "exact", "--threads", "1", "--ids",
           ids_of(model)] + args.options.split()
    one, why = run(own, os.path.join(folder, "one"))
    if one is None and "--encoder-ids" in why + " encoder":
        own += ["--encoder-ids", ids_of(model)]
        one, why = run(own, os.path.join(folder, "one"))
    name = os.path.basename(model.rstrip("/"))
    if one is None:
        print(f"{name}: one rank fails: {why}")
        return True  # not a matter of ranks
    good, told = True, []
    size = max(1.0, max(abs(x) for x in one))
    for word in args.ranks.split(","):
        n, options = mesh_of(word)
        launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", n]
        if is_refused(args.linnet, model, options):
            told.append(f"{word} refused")
            continue
        several, why = run(launch + own + options, os.path.join(folder, "several"))
        if several is None or len(several) != len(one):
            told.append(f"{word}: {why or 'another number of logits'}")
            good = False
            continue
        worst = max(abs(x - y) for x, y in zip(one, several)) / size
        told.append(f"{word} ranks {worst:.1e}")
        good &= worst <= BOUND
    print(f"{name}: {', '.join(told)}{'' if good else '  FAILED'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--linnet", default="build/linnet")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--options", default="")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    if shutil.which("mpirun") is None:
        print("skipped: there is no mpirun")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(args, model, folder) for model in args.models]
    print(f"{sum(results)} of {len(results)} agree")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
