#!/usr/bin/env python3
"""Says whether a server that checks requests accepts those of a whole session, over every wire format.

    crates/cli/tests/strict/run target/release/anvil

The counterpart is aimock in its strict mode, which others wrote: it answers by what a request holds
and refuses one that it does not know or that its service would refuse, such as a tool loop whose
thinking block is missing. The session is in `answers.json`: a thinking model makes two calls at once, an
edit and a command, and each step is answered only when the result before it arrived. Exits with 1
and says what was wrong otherwise.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT = "greet everybody in names.txt"
ANSWER = "Everybody in names.txt is greeted: Ada and Grace."
STEPS = 4
SCRIPT = 'while read -r name; do echo "hello, $name"; done < names.txt\n'

# For each wire format the model, how it is told to think, and the variables and the path that lead to
# the server. What a compatible server at an unknown address takes is not known, so nothing is told there.
WIRES = {
    "anthropic": ("anthropic", "claude-haiku-4-5", "thinking_budget = 2000", "ANTHROPIC", ""),
    "openai-chat": ("openai-chat", "gpt-5.5", "", "OPENAI", "/v1"),
    "openai-responses": ("openai", "gpt-5.5", 'effort = "medium"', "OPENAI", "/v1"),
    "gemini": ("gemini", "gemini-3.1-pro-preview", 'effort = "medium"', "GEMINI", "/v1beta"),
}


class Server:
    """The counterpart, from its first line of output until the end of the block."""

    def __init__(self, script):
        self.script = script

    def __enter__(self):
        # A port of 0 lets the system choose; the line that says where it listens is the event to
        # wait for.
        command = ["node", self.script, "--port", "0", "--strict", "--log-level", "info"]
        command += ["--fixtures", os.path.join(HERE, "answers.json")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = []
        for line in self.process.stdout:
            said.append(line)
            if found := re.search(r"http://[\w.]+:\d+", line):
                self.base = found.group()
                return self
        raise SystemExit("the server did not start:\n" + "".join(said))

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()

    def journal(self):
        with urllib.request.urlopen(f"{self.base}/__aimock/journal", timeout=10) as answer:
            return json.load(answer)


def session(anvil, script, wire):
    """Runs one session; gives every way in which it was not as it should be."""
    provider, model, thinking, variables, path = WIRES[wire]
    with tempfile.TemporaryDirectory(prefix="anvil-strict-") as folder, Server(script) as server:
        work, home = os.path.join(folder, "work"), os.path.join(folder, "home")
        os.makedirs(os.path.join(home, "config"))
        os.mkdir(work)
        table = f'[models.thinker]\nprovider = "{provider}"\nid = "{model}"\n{thinking}\n'
        write(home, "config/config.toml", table)
        write(work, "names.txt", "Ada\nGrace\n")
        write(work, "greet.sh", 'echo "hello, nobody"\n')
        environment = {name: os.environ[name] for name in ("PATH", "TERM", "LANG") if name in os.environ}
        environment |= {"HOME": home, "ANVIL_HOME": home}
        environment |= {f"{variables}_API_KEY": "key-of-a-test", f"{variables}_BASE_URL": server.base + path}
        command = [anvil, "-p", PROMPT, "-m", "thinker"]
        run = subprocess.run(
            command + ["--permission-mode", "bypass", "--output-format", "json"],
            cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False, text=True,
        )
        yield from faults(run, server.journal())
        with open(os.path.join(work, "greet.sh"), encoding="utf-8") as file:
            if (now := file.read()) != SCRIPT:
                yield f"greet.sh is now {now!r}"


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def faults(run, journal):
    if run.returncode != 0 or run.stderr:
        yield f"exit code {run.returncode}; stderr: {run.stderr[-2000:]!r}"
    try:
        answer = json.loads(run.stdout)
    except ValueError:
        yield f"stdout is not one JSON object: {run.stdout[-2000:]!r}"
        return
    for field, want in {"outcome": "done", "steps": STEPS, "text": ANSWER}.items():
        if answer.get(field) != want:
            yield f"{field} is {answer.get(field)!r}, not {want!r}; error: {answer.get('error')!r}"
    statuses = [entry["response"]["status"] for entry in journal]
    if statuses != [200] * STEPS:
        yield f"the server answered {statuses}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--anvil", required=True, help="the binary")
    parser.add_argument("--server", required=True, help="aimock's command-line script")
    parser.add_argument("--wire", choices=list(WIRES), action="append", help="only this one; repeatable")
    arguments = parser.parse_args()
    failed = False
    for wire in arguments.wire or WIRES:
        found = list(session(os.path.abspath(arguments.anvil), arguments.server, wire))
        failed |= bool(found)
        print(f"{wire}: " + ("accepted" if not found else "refused or wrong"), flush=True)
        for fault in found:
            print(f"  {fault}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
