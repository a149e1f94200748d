"""Loads servers with clients that cancel, beside unfinished bodies, a log that nobody reads and one
whose disk is full, and asks /health all the while.

usage: load.py LINNET [--seconds=N] [--clients=N] [--threads=N]

Two servers run at once, each with half of the clients and of the unfinished bodies: the reader of
the one's log has stalled, the disk of the other's log is full. Each answer must equal the one that
was computed alone. The servers and the clients run on different cores where there are several."""
import argparse
import json
import multiprocessing
import os
import random
import re
import socket
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
N_BODIES, BODY_BYTES, TIMEOUT_S = 50, 2 << 20, 120
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 8}}, "required": ["a"]}


def make_requests():
    made = []
    for i in range(24):
        few = {"seed": i, "temperature": 0 if i % 3 == 0 else 0.8, "stream": i % 2 == 0}
        text = "Once upon a time there was %s %d" % ("a bird " * (i % 5 * 8), i)
        if i % 4 == 3:
            few["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
        if i % 2:
            made.append(("/v1/chat/completions", {
                "messages": [{"role": "user", "content": text}], "max_tokens": 8 + i, **few}))
        else:
            made.append(("/v1/completions", {"prompt": text, "max_tokens": 8 + i, "n": 1 + i % 3 // 2, **few}))
    return made


REQUESTS = make_requests()


def connect(port):
    link = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def send(link, path, body):
    text = json.dumps(body).encode()
    link.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n%s" % (path.encode(), len(text), text))


def read_all(link):
    pieces = []
    while piece := link.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def texts(answer):
    """(status, {choice: (text, reason)}): what an answer says, streamed or not."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head[9:12] or b"0")
    said = {}
    lines = re.findall(rb"data: (\{.*\})", body) or re.findall(rb"\{.*\}", body, re.S)
    for line in lines:
        for choice in json.loads(line).get("choices", []):
            part = choice.get("delta", choice.get("message", choice))
            text, reason = said.get(choice["index"], ("", None))
            said[choice["index"]] = (text + (part.get("content") or part.get("text") or ""),
                                     choice.get("finish_reason") or reason)
    return status, said


def ask(port, request):
    with connect(port) as link:
        send(link, *request)
        return texts(read_all(link))


def cancel(draw, port, request):
    with connect(port) as link:
        send(link, *request)
        if draw.random() < 0.5:
            time.sleep(draw.random() * 0.2)
        else:
            link.recv(1 + int(draw.random() * 600))


def client(number, port, end, expected, results):
    draw, counts = random.Random(number), {"equal": 0, "cancelled": 0, "wrong": 0}
    while time.monotonic() < end:
        at = int(draw.random() * len(REQUESTS))
        try:
            if draw.random() < 0.3:
                cancel(draw, port, REQUESTS[at])
                counts["cancelled"] += 1
                continue
            heard = ask(port, REQUESTS[at])
        except (OSError, ValueError) as error:
            heard = repr(error)
        is_equal = heard == expected[at]
        counts["equal" if is_equal else "wrong"] += 1
        if not is_equal:
            print("client %d, request %d: %r instead of %r" % (number, at, heard, expected[at]), flush=True)
    results.put(counts)


def hold_bodies(ports, end):
    """Connections with bodies that never become whole, made anew when the server ends them."""
    held = []
    while time.monotonic() < end:
        for i in range(N_BODIES):
            if i >= len(held):
                held.append(None)
            if held[i] is None:
                held[i] = connect(ports[i % 2])
                held[i].setblocking(False)
                try:
                    held[i].send(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                                 % (BODY_BYTES + 1, b"x" * BODY_BYTES))
                except OSError:
                    pass
                continue
            try:
                if not held[i].recv(65536):
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                held[i].close()
                held[i] = None
        time.sleep(0.2)


def probe(port, end, results):
    times, n_bad = [], 0
    while time.monotonic() < end:
        start = time.monotonic()
        with connect(port) as link:
            link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            n_bad += not read_all(link).startswith(b"HTTP/1.1 200")
        times.append(time.monotonic() - start)
        time.sleep(0.02)
    results.put((sorted(times), n_bad))


def memory(pid):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"VmRSS:\s*(\d+)", file.read()).group(1)) >> 10


class Server:
    def __init__(self, options, cores, log):
        self.process = subprocess.Popen(
            [options.linnet, "serve", "--port=0", "--backend=cpu", "--threads=%d" % options.threads,
             "--body-timeout=5000", os.path.join(ROOT, "models/demo.gguf")], stdout=subprocess.PIPE, stderr=log,
            preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.port = int(re.search(rb":(\d+)", self.process.stdout.readline()).group(1))

    def metrics(self):
        with connect(self.port) as link:
            link.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            text = read_all(link).decode()
        return {name: float(value) for name, value in
                re.findall(r"^linnet[:_](num_requests_open|log_lines_dropped_total)(?:{.*})? (\S+)", text, re.M)}

    def is_quiet(self):
        for _ in range(200):
            if self.metrics().get("num_requests_open") == 0:
                return True
            time.sleep(0.1)
        return False


def start_all(options, servers, expected):
    """The clients, probes and unfinished bodies; (counts of clients, times of /health)."""
    end, fork = time.monotonic() + options.seconds, multiprocessing.get_context("fork")
    counts, health = fork.Queue(), fork.Queue()
    ports = [s.port for s in servers]
    started = [fork.Process(target=probe, args=(p, end, health)) for p in ports]
    started.append(fork.Process(target=hold_bodies, args=(ports, end)))
    started += [fork.Process(target=client, args=(i, ports[i % 2], end, expected, counts))
                for i in range(options.clients)]
    for process in started:
        process.start()
    heard = [counts.get() for _ in range(options.clients)]
    probed = [health.get() for _ in ports]
    for process in started:
        process.join()
    return {k: sum(h[k] for h in heard) for k in heard[0]}, probed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("linnet")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    stalled, log_end = os.pipe() # `stalled` is never read
    servers = [Server(options, cores[half:], log_end), Server(options, cores[half:], os.open("/dev/full", os.O_WRONLY))]
    os.sched_setaffinity(0, cores[:half] or cores)
    expected = [ask(servers[0].port, r) for r in REQUESTS]
    if any(status != 200 for status, _ in expected):
        sys.exit("answers computed alone: %r" % expected)
    before = [memory(s.process.pid) for s in servers]
    counts, probed = start_all(options, servers, expected)
    is_quiet = all([s.is_quiet() for s in servers])
    after, metrics = [memory(s.process.pid) for s in servers], [s.metrics() for s in servers]
    for server in servers:
        server.process.terminate()
    ends = [s.process.wait(60) for s in servers]
    os.close(stalled)
    print("%d clients for %.0f s: %d answers equal those computed alone, %d cancelled, %d wrong" %
          (options.clients, options.seconds, counts["equal"], counts["cancelled"], counts["wrong"]))
    is_fast = True
    for name, (times, n_bad), old, new, metric in zip(("log stalled", "log's disk full"), probed, before, after, metrics):
        p99 = times[len(times) * 99 // 100] * 1e3
        is_fast &= p99 < 50 and n_bad == 0
        print("/health, %s: %d asked, %d bad, p50 %.1f ms, p99 %.1f ms, max %.1f ms; memory %d MiB, then %d; %s" %
              (name, len(times), n_bad, times[len(times) // 2] * 1e3, p99, times[-1] * 1e3, old, new, metric))
    print("%s; the servers end with %s" % ("no request is left" if is_quiet else "requests are left", ends))
    sys.exit(0 if counts["wrong"] == 0 and is_quiet and is_fast and ends == [0, 0] else 1)


if __name__ == "__main__":
    main()
