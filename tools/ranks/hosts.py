#!/usr/bin/env python3
"""Two ranks on two hosts, which are network namespaces here, over MPI's TCP; one is cut off.

usage: hosts.py [--linnet PROGRAM] MODEL        (as root)

Starts `mpirun -n 2 linnet serve' over both, streams four completions, and takes the link between
them down. Fails where a client has no error that names the rank within 10 seconds, or where a rank
still runs 20 seconds later. Without mpirun, ip or the right to use them it says so and succeeds.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faults import Client, is_alive, read_bytes  # pylint: disable=wrong-import-position

CLIENT_S, END_S, START_S, N_CLIENTS = 10, 20, 40, 4
AGENT = """#!/bin/sh
shift
exec ip netns exec {name}b unshare --uts sh -c "hostname {name}-b; $*"
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def make_hosts(name):
    for end, address in (("a", "10.77.0.1/24"), ("b", "10.77.0.2/24")):
        ip("netns", "add", name + end)
        ip("-n", name + end, "link", "set", "lo", "up")
        if end == "a":
            ip("link", "add", name + "va", "type", "veth", "peer", "name", name + "vb")
        ip("link", "set", name + "v" + end, "netns", name + end)
        ip("-n", name + end, "addr", "add", address, "dev", name + "v" + end)
        ip("-n", name + end, "link", "set", name + "v" + end, "up")


def drop_hosts(name):
    """With what still runs there: MPI's daemon waits for its own when the link is down."""
    for end in "ab":
        listed = subprocess.run(["ip", "netns", "pids", name + end], text=True, check=False,
                                capture_output=True)
        for pid in listed.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", name + end], check=False, capture_output=True)


def find_ranks(mark):
    """Process ids of those whose environment has the mark, and that are ranks."""
    return [int(pid) for pid in filter(str.isdigit, os.listdir("/proc"))
            if mark in read_bytes(f"/proc/{pid}/environ").split(b"\0")
            and b"linnet" in read_bytes(f"/proc/{pid}/comm")]


def launch(args, name, folder):
    agent = os.path.join(folder, "agent")
    with open(agent, "w", encoding="utf-8") as file:
        file.write(AGENT.format(name=name))
    os.chmod(agent, 0o700)
    command = ["mpirun", "--host", "10.77.0.1:1,10.77.0.2:1", "--mca", "plm_rsh_agent", agent,
               "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.77.0.0/24",
               "--mca", "oob_tcp_if_include", "10.77.0.0/24", "-x", "LINNET_HOSTS_TEST",
               "--bind-to", "none", "-n", "2", os.path.abspath(args.linnet), "serve",
               os.path.abspath(args.model), "--tp", "2", "--port", "0", "--threads", "1",
               "--ctx", "20000", "--max-seqs", str(N_CLIENTS)]
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               LINNET_HOSTS_TEST=name)
    return subprocess.Popen(
        ["ip", "netns", "exec", name + "a", "unshare", "--uts", "sh", "-c",
         f"hostname {name}-a; exec \"$@\"", "sh"] + command,
        env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def find_port(process, lines):
    """The port that the server names; its further lines go to `lines`."""
    end = time.monotonic() + START_S
    for line in process.stdout:
        lines.append(line.rstrip())
        if "serving " in line and " port " in line:
            threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True).start()
            return int(line.rpartition(" port ")[2].split()[0])
        if time.monotonic() > end:
            break
    raise RuntimeError("the server did not start: " + " / ".join(lines[-5:]))


def talk(port):
    """In the first host: prints when all streams have begun, then how each ends."""
    clients = [Client(port, f"once upon {i} times", 19000) for i in range(N_CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.has_begun.wait(START_S)
    print("begun", flush=True)
    for client in clients:
        client.join()
        print(client.text[-400:].replace("\n", " "), flush=True)


def try_hosts(args, name, folder):
    lines = []
    process = launch(args, name, folder)
    try:
        port = find_port(process, lines)
        ranks = find_ranks(b"LINNET_HOSTS_TEST=" + name.encode())
        with subprocess.Popen(["ip", "netns", "exec", name + "a", sys.executable, __file__,
                               "--client", str(port), args.model], text=True,
                              stdout=subprocess.PIPE) as client:
            client.stdout.readline()
            at = time.monotonic()
            ip("-n", name + "a", "link", "set", name + "va", "down")
            told, seconds = client.stdout.read(), time.monotonic() - at
        while any(map(is_alive, ranks)) and time.monotonic() - at < END_S:
            time.sleep(0.1)
        left = [pid for pid in ranks if is_alive(pid)]
        errors = [line[line.rfind('{"error"'):] for line in told.splitlines()
                  if '{"error"' in line and "rank 1" in line]
        good = (len(ranks) == 2 and len(errors) == N_CLIENTS and seconds <= CLIENT_S and not left)
        print(f"{len(ranks)} ranks; {len(errors)} of {N_CLIENTS} clients had their error, the last "
              f"after {seconds:.1f} s: {' '.join(errors[-1:])}")
        print(f"all ranks had ended {time.monotonic() - at:.1f} s after the cut"
              if not left else f"still there: {left}")
        return good
    except RuntimeError as error:
        print(error)
        return False
    finally:
        for pid in find_ranks(b"LINNET_HOSTS_TEST=" + name.encode()):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--linnet", default="build/linnet")
    parser.add_argument("--client", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("model")
    args = parser.parse_args()
    if args.client:
        talk(args.client)
        return 0
    if not all(map(shutil.which, ("mpirun", "ip", "unshare"))) or os.geteuid() != 0:
        print("skipped: it needs mpirun, ip, unshare and root")
        return 0
    name = f"ln{os.getpid() % 100000}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            make_hosts(name)
            good = try_hosts(args, name, folder)
        except subprocess.CalledProcessError as error:
            print(f"skipped: {error.stderr.decode().strip()}")
            return 0
        finally:
            drop_hosts(name)
    print("as it should" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
