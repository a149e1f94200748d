"""A server in front of linnet: the page and all else are linnet's, but answers to chats are those of a
script, so that tests see what no small model says: formulas, tables, reasoning, hostile text, errors."""
import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ScriptedServer:
    """`script` is a list of answers, the first of which is the next one: a dict with `content`, `reasoning`,
    `calls`, `chunk` (characters of an event), `delay` (seconds between events), `status`, `breaks`."""

    def __init__(self, port_behind):
        self.script = []
        self.bodies = []  # of requests
        self.is_down = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def forward(self, body=None):
                connection = http.client.HTTPConnection("127.0.0.1", port_behind)
                headers = {name: value for name, value in self.headers.items()
                           if name.lower() not in ("host", "connection", "origin")}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                if answer.getheader("Content-Type", "").startswith("text/event-stream"):
                    self.pass_on(answer)
                    return
                data = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def pass_on(self, answer):
                self.send_response(answer.status)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    for part in iter(lambda: answer.read1(65536), b""):
                        self.wfile.write(part)
                except (BrokenPipeError, ConnectionResetError):
                    answer.close()  # the client went, so linnet's does

            def do_GET(self):
                if outer.is_down:
                    self.close_connection = True
                    return
                self.forward()

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if outer.is_down:
                    self.close_connection = True
                elif self.path == "/v1/chat/completions" and outer.script:
                    outer.bodies.append(json.loads(body))
                    self.play(outer.script.pop(0))
                else:
                    self.forward(body)

            def play(self, answer):
                if answer.get("status", 200) != 200:
                    data = json.dumps({"error": {"message": answer["content"]}}).encode()
                    self.send_response(answer["status"])
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    if "retry" in answer:
                        self.send_header("Retry-After", str(answer["retry"]))
                    self.end_headers()
                    self.wfile.write(data)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    self.play_events(answer)
                except (BrokenPipeError, ConnectionResetError):
                    answer["was_cut"] = True

            def event(self, delta, n_tokens, finish=None):
                value = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
                         "usage": {"prompt_tokens": 12, "completion_tokens": n_tokens}}
                self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
                self.wfile.flush()

            def play_events(self, answer):
                n, size, delay = 0, answer.get("chunk", 8), answer.get("delay", 0)
                for field, name in (("reasoning", "reasoning_content"), ("content", "content")):
                    text = answer.get(field, "")
                    for at in range(0, len(text), size):
                        n += 1
                        self.event({name: text[at:at + size]}, n)
                        time.sleep(delay)
                for i, (name, arguments) in enumerate(answer.get("calls", [])):
                    self.event({"tool_calls": [{"index": i, "id": f"call_{i}", "type": "function",
                                                "function": {"name": name, "arguments": ""}}]}, n)
                    for at in range(0, len(arguments), size):
                        n += 1
                        self.event({"tool_calls": [{"index": i, "function": {"arguments": arguments[at:at + size]}}]}, n)
                if answer.get("breaks"):
                    return
                self.event({}, n, "tool_calls" if answer.get("calls") else "stop")
                self.wfile.write(b"data: [DONE]\n\n")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
