"""Adds up what trace.c has written, step by step: python3 bench/cuda/trace.py trace.csv [STEPS]

A step ends with its sampling. A kernel's time is from the end of the one before it to its own end,
so that the times of a step add up to the step, gaps and the host's waits included: a kernel that
begins early, as dependent launches do, is not counted twice. The last STEPS (8) steps count."""
import re
import sys


def read(path):
    with open(path) as rows:
        split = (row.rstrip("\n").split(",", 3) for row in rows)
        return sorted((int(r[1]), int(r[2]), r[3]) for r in split if len(r) == 4 and r[0].isdigit())


def short(name):
    return re.sub(r"^_Z\d+", "", name)[:60]


def main():
    rows = read(sys.argv[1])
    n_steps = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    ends = [i for i, row in enumerate(rows) if "sample" in row[2]][-n_steps - 1:]
    if len(ends) < 2:
        sys.exit("there are no two steps that sample")
    sums, last = {}, rows[ends[0]][0]
    for end, size, name in rows[ends[0] + 1:ends[-1] + 1]:
        key = short(name) + ("" if name == "copy" else " [%d]" % size)
        count, total = sums.get(key, (0, 0))
        sums[key] = count + 1, total + max(0, end - last)
        last = max(last, end)
    n = len(ends) - 1
    step = (rows[ends[-1]][0] - rows[ends[0]][0]) / n
    print("a step takes %.1f us" % (step / 1e3))
    for key, (count, total) in sorted(sums.items(), key=lambda item: -item[1][1]):
        print("%7.1f x %8.2f us = %8.1f us %5.1f %%  %s" %
              (count / n, total / count / 1e3, total / n / 1e3, 100 * total / n / step, key))


main()
