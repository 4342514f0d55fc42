#!/usr/bin/env python3
"""Says whether the main job works over HTTP: 100 shell calls against a mock model server.

    python3 benches/process/check.py --anvil target/release/anvil --mock mock_llm.py

Runs `anvil -p` over each wire format and looks from outside: the outcome, the number of requests,
that every result which went back holds what its command printed, and that no process is left.
Exits with 1 and says what was wrong otherwise.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile

from mock import WIRES, Mock, anvil_arguments, anvil_environment

CALLS = 100
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes processes that lose their parent below this one its children, so that they are seen."""
    if sys.platform != "linux":
        print("not Linux: whether a process was left behind is not checked", file=sys.stderr)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit(f"prctl: {os.strerror(ctypes.get_errno())}")


def children():
    """Own children as lines of `PID NAME`, dead ones that nobody waited for included."""
    if sys.platform != "linux":
        return []
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        pids = file.read().split()
    return [pid + " " + name_of(pid) for pid in pids]


def name_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().split("(", 1)[1].rsplit(")", 1)[0]


def results_sent(body):
    """The texts of all tool results in a request of any format."""
    for item in body.get("input", []):
        if item.get("type") == "function_call_output":
            yield flat(item["output"])
    for content in body.get("contents", []):
        for part in content["parts"]:
            if "functionResponse" in part:
                yield part["functionResponse"]["response"].get("result", "")
    for message in body.get("messages", []):
        if message["role"] == "tool":
            yield flat(message["content"])
        elif isinstance(message["content"], list):
            for block in message["content"]:
                if block.get("type") == "tool_result":
                    yield flat(block["content"])


def flat(content):
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or [])


def faults(run, session, last_body, left):
    """Every way in which the run was not as it should be."""
    if run.returncode != 0:
        yield f"exit code {run.returncode}; stderr: {run.stderr[-2000:]!r}"
    if run.stderr:
        yield f"a run without problems wrote to stderr: {run.stderr[-2000:]!r}"
    try:
        answer = json.loads(run.stdout)
    except ValueError:
        yield f"stdout is not one JSON object: {run.stdout[-2000:]!r}"
        return
    for key, want in {"outcome": "done", "steps": CALLS + 1, "text": f"BENCH-DONE-{CALLS}"}.items():
        if answer.get(key) != want:
            yield f"{key} is {answer.get(key)!r}, not {want!r}; error: {answer.get('error')!r}"
    kinds = [request.get("kind") for request in session.requests]
    if kinds != ["step"] * CALLS + ["final"]:
        yield f"not {CALLS} steps and a final answer, but {len(kinds)} requests: {kinds}"
    results = list(results_sent(last_body)) if last_body else []
    if len(results) != CALLS:
        yield f"the last request holds {len(results)} results, not {CALLS}"
    for step, result in enumerate(results):
        if f"step-{step}-ok" not in result.split():
            yield f"result {step} does not hold what the command printed: {result[:200]!r}"
    if left:
        yield f"left behind: {', '.join(left)}"


def main_job(anvil, script, wire):
    with tempfile.TemporaryDirectory(prefix="anvil-check-") as folder:
        home, work, dump = (os.path.join(folder, name) for name in ("home", "work", "dump"))
        for path in (home, work, dump):
            os.mkdir(path)
        with Mock(script, CALLS, "--dump", dump, "--dump-max", "0") as mock:
            mock.begin()
            before = set(children())
            run = subprocess.run(
                [anvil, *anvil_arguments(wire), "--max-steps", "200"],
                cwd=work,
                env=anvil_environment(mock.base, wire, home),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=300,
                check=False,
                text=True,
            )
            left = sorted(set(children()) - before)
            session = mock.session()
        bodies = sorted(os.listdir(dump))
        last = None
        if bodies:
            with open(os.path.join(dump, bodies[-1]), encoding="utf-8") as file:
                last = json.load(file)
        return list(faults(run, session, last, left))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--anvil", required=True, help="the binary")
    parser.add_argument("--mock", required=True, help="the mock server's script")
    arguments = parser.parse_args()
    adopt_orphans()
    failed = False
    for wire in WIRES:
        found = main_job(os.path.abspath(arguments.anvil), arguments.mock, wire)
        failed |= bool(found)
        print(f"{wire}: {CALLS} calls, " + ("as it should be" if not found else "wrong"), flush=True)
        for fault in found:
            print(f"  {fault}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
