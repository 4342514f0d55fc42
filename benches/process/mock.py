"""A mock model server as a child process, and its log of requests.

The server is a script of its own, given by path: it answers N shell calls and then a final text, on
127.0.0.1 only, and logs each request with times of CLOCK_MONOTONIC, which are comparable with those
of this process. `Mock` starts it, `Session` is what it saw of one client.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request


class Mock:
    """A running server. Leaving the context ends it."""

    def __init__(self, script, steps, *extra):
        self.folder = tempfile.TemporaryDirectory(prefix="anvil-mock-")
        self.log = os.path.join(self.folder.name, "requests.jsonl")
        port_file = os.path.join(self.folder.name, "port")
        arguments = ["--port", "0", "--port-file", port_file, "--steps", str(steps)]
        self.process = subprocess.Popen(
            [sys.executable, script, *arguments, "--log", self.log, *extra], stdin=subprocess.DEVNULL
        )
        self.port = self._wait_for(port_file)
        self.base = f"http://127.0.0.1:{self.port}"

    def _wait_for(self, port_file):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if os.path.exists(port_file):
                with open(port_file, encoding="ascii") as file:
                    return int(file.read())
            if self.process.poll() is not None:
                raise SystemExit(f"the mock server ended at once with {self.process.returncode}")
            time.sleep(0.01)
        raise SystemExit("the mock server did not come up within 20 s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def begin(self):
        """Starts a new session; what is logged from here on belongs to it."""
        self._get("/__reset")

    def session(self):
        """What was logged since `begin`."""
        self._get("/healthz")  # answered in turn, so everything before it is in the log
        with open(self.log, encoding="utf-8") as file:
            records = [json.loads(line) for line in file if line.endswith("\n")]
        start = max(at for at, record in enumerate(records) if record.get("path") == "/__reset")
        requests = [record for record in records[start:] if record.get("kind") != "get"]
        return Session(requests, records[start]["conns"])

    def _get(self, path):
        with urllib.request.urlopen(self.base + path) as answer:
            answer.read()


class Session:
    """The requests of one client, in order."""

    def __init__(self, records, connections_before):
        self.requests = records
        self.connections = (records[-1]["conns"] if records else 0) - connections_before

    def step_ms(self, step):
        """From the start of one request to the start of the next, the server's share included."""
        return (self.requests[step + 1]["t"] - self.requests[step]["t"]) / 1e6

    def own_ms(self, step):
        """From the end of an answer to the first byte of the next request: the client alone."""
        return (self.requests[step + 1]["t"] - self.requests[step]["t_done"]) / 1e6

    def sending_ms(self, step):
        """From the first to the last byte of a request, at the pace of the server that reads it."""
        return (self.requests[step]["t_body"] - self.requests[step]["t"]) / 1e6


# For each wire format the model to ask for, and which variables lead to the server: its key, its
# address, and what stands behind the address.
WIRES = {
    "anthropic": ("anthropic:claude-sonnet-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
    "openai-chat": ("openai-chat:gpt-5.5", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "openai-responses": ("openai:gpt-5.5", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "gemini": ("gemini:gemini-3.1-pro-preview", "GEMINI_API_KEY", "GEMINI_BASE_URL", "/v1beta"),
}


def anvil_environment(base, wire, home):
    """What anvil is told: a server that speaks `wire`, a made-up key, a home of its own."""
    _, key, address, path = WIRES[wire]
    environment = {"PATH": os.environ["PATH"], "HOME": home, "ANVIL_HOME": home, "TERM": "dumb"}
    return environment | {key: "made-up", address: base + path}


def anvil_arguments(wire, sandbox="workspace-write"):
    """What anvil is started with: one headless turn in which every command runs."""
    model = WIRES[wire][0]
    permitted = ["--permission-mode", "bypass", "--sandbox", sandbox]
    return ["-p", "go", "-m", model, *permitted, "--output-format", "json"]
