#!/usr/bin/env python3
"""Kills and stops each rank of a server in each phase, and sees that all end with a clear error.

usage: faults.py [--linnet PROGRAM] [--ranks 2] [--kind tp|pp] [--phases start,prefill,decode,idle]
                 [--signals kill,stop] [--victims 0,1] MODEL

Each case starts `mpirun -n N linnet serve', lets a request run where the phase asks for one, sends
the signal to one rank by its process id, and waits until mpirun ends, for 45 seconds at most. It fails
where mpirun does not end or ends with status 0, where a process stays behind, and where a client of
a rank other than 0 gets no error that names the rank. Without mpirun it says so and succeeds.
"""
import argparse
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

BOUND_S = 45
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def read_bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def find_ranks(launcher):
    """Process ids by rank, of the launcher's children."""
    ranks = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = read_bytes(f"/proc/{name}/stat").rpartition(b")")[2].split()
        if len(fields) < 2 or int(fields[1]) != launcher or fields[0] == b"Z":
            continue
        for variable in read_bytes(f"/proc/{name}/environ").split(b"\0"):
            if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                ranks[int(variable.partition(b"=")[2])] = int(name)
    return ranks


def is_alive(pid):
    fields = read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] != b"Z"


class Server:
    """mpirun with its ranks; its lines are read as they come."""

    def __init__(self, args):
        n = str(args.ranks)
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", n, args.linnet, "serve",
                   args.model, "--" + args.kind, n, "--port", "0", "--threads", "1", "--backend", "cpu",
                   "--ctx", "60000", "--max-seqs", "2"]
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace")
        self.port, self.lines, self.is_up = 0, [], threading.Event()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if "serving " in line and " port " in line:
                self.port = int(line.rpartition(" port ")[2].split()[0])
                self.is_up.set()
        self.is_up.set()

    def wait_for_ranks(self, n):
        end = time.monotonic() + BOUND_S
        while time.monotonic() < end:
            ranks = find_ranks(self.process.pid)
            if len(ranks) == n:
                return ranks
            time.sleep(0.01)
        raise RuntimeError("the ranks did not start")

    def end(self):
        for pid in find_ranks(self.process.pid).values():
            os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


class Client(threading.Thread):
    """One streamed completion; keeps what came of it, and when it ended."""

    def __init__(self, port, prompt, n_tokens):
        super().__init__(daemon=True)
        self.body = json.dumps({"prompt": prompt, "max_tokens": n_tokens, "ignore_eos": True,
                                "stream": True, "temperature": 0})
        self.port, self.text, self.ended = port, "", 0.0
        self.has_begun = threading.Event()

    def run(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND_S)
            connection.request("POST", "/v1/completions", self.body,
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            while True:
                line = response.readline()
                if not line:
                    break
                self.text += line.decode("utf-8", "replace")
                self.has_begun.set()
        except (OSError, http.client.HTTPException) as error:
            self.text += f"\n[connection: {error!r}]"
        self.has_begun.set()
        self.ended = time.monotonic()


def begin(server, phase):
    """Brings the server into the phase; the client that waits then, or None."""
    if phase == "start":
        return None
    if not server.is_up.wait(BOUND_S) or server.port == 0:
        raise RuntimeError("the server did not start: " + " / ".join(server.lines[-3:]))
    if phase == "idle":
        time.sleep(0.5)
        return None
    is_prefill = phase == "prefill"
    prompt = "once upon a time " * (10000 if is_prefill else 4)
    client = Client(server.port, prompt, 1 if is_prefill else 100000)
    client.start()
    if is_prefill:
        time.sleep(1)
    else:
        client.has_begun.wait(BOUND_S)
    return client


def judge(server, phase, victim, client, ranks, seconds):
    if seconds is None:
        return "mpirun did not end"
    if server.process.returncode == 0:
        return "mpirun ended with status 0"
    left = [pid for pid in ranks.values() if is_alive(pid)]
    if left:
        return f"processes stay behind: {left}"
    if client is not None:
        client.join(BOUND_S)
        if victim > 0 and f"rank {victim}" not in client.text:
            return f"the client was not told: {client.text[-200:]!r}"
    if phase == "idle" and victim > 0 and not any("rank" in line for line in server.lines):
        return "nothing names the rank"
    return ""


def try_case(args, phase, name, victim):
    server = Server(args)
    seconds = None
    try:
        ranks = server.wait_for_ranks(args.ranks)
        client = begin(server, phase)
        at = time.monotonic()
        os.kill(ranks[victim], SIGNALS[name])
        try:
            server.process.wait(BOUND_S)
            seconds = time.monotonic() - at
        except subprocess.TimeoutExpired:
            pass
        trouble = judge(server, phase, victim, client, ranks, seconds)
    except RuntimeError as error:
        trouble = str(error)
    finally:
        server.end()
    told = f", the client after {client.ended - at:.1f} s" if not trouble and client else ""
    print(f"{phase}, rank {victim}, {name}: "
          + (f"FAILED: {trouble}" if trouble else f"ended after {seconds:.1f} s{told}"), flush=True)
    if trouble:
        print("\n".join("  " + line for line in server.lines[-12:]))
    return not trouble


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--linnet", default="build/linnet")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--kind", choices=("tp", "pp"), default="tp")
    parser.add_argument("--phases", default="start,prefill,decode,idle")
    parser.add_argument("--signals", default="kill,stop")
    parser.add_argument("--victims", default="")
    parser.add_argument("model")
    args = parser.parse_args()
    if shutil.which("mpirun") is None:
        print("skipped: there is no mpirun")
        return 0
    victims = args.victims.split(",") if args.victims else range(args.ranks)
    results = [try_case(args, phase, name, int(victim)) for phase in args.phases.split(",")
               for name in args.signals.split(",") for victim in victims]
    print(f"{sum(results)} of {len(results)} end as they should")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
