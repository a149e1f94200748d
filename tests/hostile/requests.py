"""Sends a server requests made from good ones by structure-aware, seeded mutations.

usage: requests.py LINNET [--count=N] [--seed=N] [--golden=FILE] [--write-golden]
                   [--show=PATTERN]

Each must be answered in time, never by 5xx, and by 2xx only where nothing is known to be wrong with
it; a connection may close without an answer only where the request is no complete one. What is
accepted is counted by endpoint and mutation, and compared with the reviewed counts of --golden."""
import argparse
import collections
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

from mutate import Draw, mutate_bytes, mutate_json

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
N_CLIENTS, TIMEOUT_S = 8, 30
LIMITS = ("--head-timeout=2000", "--body-timeout=2000", "--unread-timeout=2000", "--ctx=256",
          "--max-body-bytes=1048576", "--max-waiting=4000", "--threads=2", "--backend=cpu")

HI = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 4}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}
FEW = {"temperature": 0.5, "top_p": 0.9, "seed": 7}
BODIES = (
    ("/v1/completions", {"prompt": "Once upon", "max_tokens": 3, "stop": ["x"], "logprobs": 2, "n": 2,
                         "logit_bias": {"5": -2.5}, "stream": False, "echo": False, **FEW}),
    ("/v1/completions", {"prompt": [[5, 6, 7], [8]], "max_tokens": 2, "stream": True,
                         "stream_options": {"include_usage": True}, "frequency_penalty": 0.5, "top_k": 5,
                         "min_p": 0.1, "repetition_penalty": 1.1, "ignore_eos": False}),
    ("/v1/completions", {"prompt": "x", "max_tokens": 3, "structured_outputs": {"regex": "[ab]+"},
                         "stop_token_ids": [5]}),
    ("/v1/completions", {"prompt": "x", "max_tokens": 3, "grammar": "root ::= \"a\" | \"b\""}),
    ("/v1/chat/completions", {"messages": HI, "max_completion_tokens": 3, "logprobs": True,
                              "top_logprobs": 2, "presence_penalty": 0.1, "user": "u", **FEW}),
    ("/v1/chat/completions", {"messages": HI, "max_tokens": 4, "tools": [TOOL], "tool_choice": "auto",
                              "parallel_tool_calls": False}),
    ("/v1/chat/completions", {"messages": HI + [
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"a\":\"b\"}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"}], "max_tokens": 3, "stream": True}),
    ("/v1/chat/completions", {"messages": HI, "max_tokens": 4, "response_format": {
        "type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": SCHEMA}}}),
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
                       "instructions": "Be brief.", "max_output_tokens": 3, "store": False,
                       "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}],
                       "text": {"format": {"type": "text"}}, "metadata": {"k": "v"}}),
    ("/v1/messages", {"model": "linnet-demo", "system": "Be brief.", "max_tokens": 3, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "stop_sequences": ["x"],
        "tools": [{"name": "look", "input_schema": SCHEMA}], "temperature": 0.5}),
    ("/v1/messages/count_tokens", {"model": "linnet-demo", "messages": HI[1:]}),
    ("/api/chat", {"model": "linnet-demo", "messages": HI, "stream": False, "format": SCHEMA,
                   "options": {"num_predict": 3, "temperature": 0.5, "seed": 1}, "tools": [TOOL]}),
    ("/api/generate", {"model": "linnet-demo", "prompt": "Hi", "system": "Be brief.", "stream": True,
                       "options": {"num_predict": 3, "stop": ["x"]}, "keep_alive": "5m"}),
    ("/v1/embeddings", {"model": "linnet-demo", "input": ["a", "b"], "encoding_format": "float"}),
    ("/tokenize", {"prompt": "Once upon a time", "add_special_tokens": True}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
    ("/apply-template", {"messages": HI, "add_generation_prompt": True}),
)
CHUNK_FAULTS = (b"5;a=\"b\r\nhello\r\n0\r\n\r\n", b"5\nhello\n0\n\n", b"-1\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n",
                b"ffffffffffffffff\r\nx", b"5\r\nhelloo\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b"\r\n")
HEAD_FAULTS = ("Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked",
               "Content-Length: -1", "Content-Length: 1e3", "Content-Length: 99999999999999999999",
               "Content-Length: 5\r\nContent-Length: 6", "No colon", " Folded: x", "A\0B: c", "X : y",
               "X: a\rb", "Content-Encoding: gzip", "Expect: 200-maybe", "Upgrade: h2c", "X: " + "a" * 70000,
               "\r\n".join("X-%d: y" % i for i in range(1000)), "Transfer-Encoding: chunked, chunked")
# what need not be refused: a folded value may be read as one line
ALLOWED = ("Content-Encoding", "Expect", "Upgrade", " Folded")
WRONG_HEADS = {i for i, h in enumerate(HEAD_FAULTS) if not h.startswith(ALLOWED)}
LINES = ("GET / HTTP/3.0", "get / HTTP/1.1", "GET  / HTTP/1.1", "GET /\0 HTTP/1.1", "GET / HTTP/1.1 x", "GET",
         "POST /v1/completions", "GET /%zz HTTP/1.1", "GET http:/ HTTP/1.1", "\x16\x03\x01", "PRI * HTTP/2.0",
         "GET /../../etc/passwd HTTP/1.1", "DELETE /v1/completions HTTP/1.1", "GET /v1/nothing HTTP/1.1",
         "GET /" + "a" * 20000 + " HTTP/1.1")


class Case:
    def __init__(self, group, pieces, is_wrong, may_close, n_answers=1):
        self.group, self.pieces, self.is_wrong = group, pieces, is_wrong
        self.may_close, self.n_answers = may_close, n_answers


def post(path, body, extra=""):
    head = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s" % (path, extra)
    return (head + "Content-Length: %d\r\n\r\n" % len(body)).encode() + body


def is_json(body):
    """Whether the body is JSON of the standard; duplicate names count as wrong."""
    def pairs(items):
        if len({k for k, _ in items}) != len(items):
            raise ValueError("twice")
        return dict(items)

    def refuse(word):
        raise ValueError(word)
    try:
        json.loads(body.decode(), object_pairs_hook=pairs, parse_constant=refuse)
        return True
    except (ValueError, RecursionError):
        return False


def body_case(draw):
    path, good = draw.pick(BODIES)
    op, body = mutate_json(draw, good)
    return Case(path + ": " + op, [post(path, body)], not is_json(body), False)


def head_case(draw):
    path, good = draw.pick(BODIES)
    body = json.dumps(good).encode()
    at = draw.below(len(HEAD_FAULTS))
    request = post(path, body, HEAD_FAULTS[at] + "\r\n")
    return Case("head: " + HEAD_FAULTS[at][:24].replace("\0", "0").replace("\r", " ").replace("\n", ""), [request],
                at in WRONG_HEADS, True)


def line_case(draw):
    line = draw.pick(LINES)
    return Case("line: " + line[:24].replace("\0", "0"), [line.encode("latin-1") + b"\r\nHost: localhost\r\n\r\n"],
                True, True)


def chunk_case(draw):
    path, good = draw.pick(BODIES)
    body = json.dumps(good).encode()
    head = ("POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % path).encode()
    if draw.below(2):
        at = draw.below(len(CHUNK_FAULTS))
        return Case("chunks: fault %d" % at, [head + CHUNK_FAULTS[at]], True, True)
    pieces = []
    while body:
        n = 1 + draw.below(200)
        pieces.append(b"%x;a=\"b;c\";d\r\n%s\r\n" % (len(body[:n]), body[:n]))
        body = body[n:]
    return Case(path + ": chunks", [head + b"".join(pieces) + b"0\r\nTrailer: x\r\n\r\n"], False, False)


def piece_case(draw):
    path, good = draw.pick(BODIES)
    whole = post(path, json.dumps(good).encode())
    cuts = sorted(draw.below(len(whole)) for _ in range(3))
    pieces = [whole[a:b] for a, b in zip([0] + cuts, cuts + [len(whole)])]
    how = draw.below(8)
    if how == 0: # never whole
        return Case("pieces: unfinished", pieces[:-1], True, True)
    return Case(path + ": pieces", pieces, False, False)


def pipeline_case(draw):
    chosen = [draw.pick(BODIES) for _ in range(2 + draw.below(3))]
    requests = [post(path, json.dumps(good).encode()) for path, good in chosen]
    return Case("pipelined", [b"".join(requests)], False, False, len(requests))


def bytes_case(draw):
    path, good = draw.pick(BODIES)
    op, data = mutate_bytes(draw, post(path, json.dumps(good).encode()))
    return Case("whole " + op, [data], None, True)


MAKERS = [body_case] * 14 + [head_case, head_case, line_case, chunk_case, piece_case, pipeline_case,
                             bytes_case, bytes_case]


# ---- talking ------------------------------------------------------------------------------------

def read_answer(stream):
    """(status, whether it is whole); status 0: closed"""
    line = stream.readline(65536)
    if not line:
        return 0, True
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", line)
    if not found:
        return -1, False
    status, length, is_chunked = int(found.group(1)), None, False
    while (line := stream.readline(65536)) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        if name.lower() == "content-length":
            length = int(value)
        is_chunked |= name.lower() == "transfer-encoding"
    if status == 100:
        return read_answer(stream)
    if not is_chunked:
        return status, len(stream.read(length or 0)) == (length or 0)
    while True:
        line = stream.readline(64)
        if not line:
            return status, False
        n = int(line, 16)
        if len(stream.read(n + 2)) != n + 2:
            return status, False
        if n == 0:
            return status, True


def talk(port, case):
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as link:
        answers = []
        try:
            for piece in case.pieces:
                link.sendall(piece)
                if len(case.pieces) > 1:
                    time.sleep(0.005)
        except (BrokenPipeError, ConnectionResetError):
            pass # it may have answered
        try:
            with link.makefile("rb") as stream:
                for _ in range(case.n_answers):
                    answers.append(read_answer(stream))
                    if answers[-1][0] <= 0:
                        break
        except ConnectionResetError:
            answers.append((0, True))
        return answers


def judge(case, answers):
    if len(answers) < case.n_answers:
        return "fewer answers than requests"
    for status, is_whole in answers:
        if status >= 500 and status not in (501, 505):
            return "status %d" % status
        if not is_whole:
            return "an answer that breaks off"
        if status == 0 and not case.may_close:
            return "no answer"
        if 200 <= status < 300 and case.is_wrong:
            return "accepted, though wrong"
    return None


class Run:
    def __init__(self, options, port):
        self.options, self.port, self.next, self.lock = options, port, 0, threading.Lock()
        self.seen, self.accepted, self.statuses = (collections.Counter() for _ in range(3))
        self.n_wrong, self.slowest = 0, 0.0

    def client(self):
        while True:
            with self.lock:
                number, self.next = self.next, self.next + 1
            if number >= self.options.count:
                return
            draw = Draw("%d/%d" % (self.options.seed, number))
            case = MAKERS[number % len(MAKERS)](draw)
            start, complaint, answers = time.monotonic(), None, []
            try:
                answers = talk(self.port, case)
                complaint = judge(case, answers)
            except OSError as error: # a time-out among them
                complaint = "%s (%s)" % (type(error).__name__, error)
            self.note(number, case, answers, complaint, time.monotonic() - start)

    def note(self, number, case, answers, complaint, seconds):
        with self.lock:
            self.slowest = max(self.slowest, seconds)
            self.seen[case.group] += 1
            self.accepted[case.group] += bool(answers) and all(200 <= s < 300 for s, _ in answers)
            self.statuses.update(s for s, _ in answers)
            if self.options.show and re.search(self.options.show, case.group):
                print("%s %r: %r" % (case.group, answers, case.pieces[0][-400:]))
            if complaint:
                self.n_wrong += 1
                print("request %d (%s): %s: %r" % (number, case.group, complaint,
                                                   b"|".join(case.pieces)[:3000]), flush=True)


def compare(lines, path, is_written):
    if is_written:
        with open(path, "w") as file:
            file.write("".join(lines))
        return True
    with open(path) as file:
        expected = file.readlines()
    for line in sorted(set(lines) ^ set(expected)):
        print("accepted, %s: %s" % ("not as reviewed" if line in lines else "but reviewed", line.strip()))
    return lines == expected


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("linnet")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--golden")
    parser.add_argument("--show", metavar="PATTERN", help="print the requests of these groups")
    parser.add_argument("--write-golden", action="store_true")
    options = parser.parse_args()
    server = subprocess.Popen([options.linnet, "serve", "--port=0", "--no-log", *LIMITS,
                               os.path.join(ROOT, "models/demo.gguf")], stdout=subprocess.PIPE)
    port = int(re.search(rb":(\d+)", server.stdout.readline()).group(1))
    run = Run(options, port)
    clients = [threading.Thread(target=run.client) for _ in range(N_CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    is_alive = server.poll() is None
    good = talk(port, Case("", [post("/v1/completions", b'{"prompt":"x","max_tokens":2}')], False, False))
    server.terminate()
    status = server.wait(40)
    lines = ["%s: %d of %d\n" % (g, run.accepted[g], run.seen[g]) for g in sorted(run.seen)]
    print("%d requests: %d accepted, %d wrong; the longest took %.1f s; statuses %s; then %s; it ends with %d" %
          (options.count, sum(run.accepted.values()), run.n_wrong, run.slowest,
           dict(sorted(run.statuses.items())), good, status))
    is_equal = options.golden is None or compare(lines, options.golden, options.write_golden)
    is_well = is_alive and good[0] == (200, True) and status == 0
    sys.exit(0 if run.n_wrong == 0 and is_equal and is_well else 1)


if __name__ == "__main__":
    main()
