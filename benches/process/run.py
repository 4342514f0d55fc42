#!/usr/bin/env python3
"""Measures the whole binary from outside, beside clients that do the bare minimum.

    cargo build --profile dist -p cli
    cc -O2 -static -o floor floor_loop.c
    python3 benches/process/run.py --anvil target/dist/anvil --mock mock_llm.py \\
        --floor-c ./floor --floor-py floor_loop.py

Prints a Markdown table. Everything runs on this machine over loopback, each kind of measurement in
turns over all clients so that a slow minute hits all of them. Nothing is asserted: a figure is for
a reader who knows the machine.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import threading
import time

from mock import Mock, anvil_arguments, anvil_environment

# Where a step's cost is looked at: a name, and the steps whose median stands for it.
WINDOWS = {3: range(1, 11), 30: range(21, 41), 300: range(251, 351), 3000: range(2900, 3000)}
MEMORY_STEPS = 300
# A session that is long enough for the programs of the machine to be asked for their versions beside it.
WARM_UP_STEPS = 1000


class Steps:
    """What was seen of the long sessions of one client: a list of times for each window."""

    def __init__(self, windows):
        self.whole = {name: [] for name in windows}
        self.own = {name: [] for name in windows}
        self.sending = {name: [] for name in windows}
        self.bytes = {}
        self.connections = 0

    def add(self, session, windows):
        self.connections = session.connections
        for name, window in windows.items():
            self.whole[name].extend(session.step_ms(step) for step in window)
            self.own[name].extend(session.own_ms(step) for step in window)
            self.sending[name].extend(session.sending_ms(step) for step in window)
            self.bytes[name] = session.requests[window[-1]]["bytes"]


class Client:
    """A program that drives the loop, and how it is told where the server is."""

    def __init__(self, name, command, environment):
        self.name = name
        self.command = command
        self.environment = environment

    def spawn(self, mock, home):
        environment = self.environment(mock.base, home)
        quiet = os.open(os.devnull, os.O_RDWR)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, quiet, number) for number in (0, 1, 2)]
            return os.posix_spawn(self.command[0], self.command, environment, file_actions=actions)
        finally:
            os.close(quiet)


def clients(arguments):
    def floor_environment(base, _home):
        return {"PATH": os.environ["PATH"], "BENCH_BASE": base}

    def told(wire):
        return lambda base, home: anvil_environment(base, wire, home)

    found = []
    if arguments.anvil:
        # The clients that do the bare minimum confine nothing, so anvil does not either, but for one.
        # They keep nothing; what keeping the session costs is the difference to the one that does not.
        for name, wire, sandbox, options in (
            ("anvil, Chat Completions", "openai-chat", "full-access", ()),
            ("anvil, Anthropic", "anthropic", "full-access", ()),
            ("anvil, Anthropic, not kept", "anthropic", "full-access", ("--no-session-persistence",)),
            ("anvil, Responses", "openai-responses", "full-access", ()),
            ("anvil, Gemini", "gemini", "full-access", ()),
            ("anvil, Anthropic, sandboxed", "anthropic", "workspace-write", ()),
        ):
            if not name.startswith(arguments.only):
                continue
            command = [os.path.abspath(arguments.anvil), *anvil_arguments(wire, sandbox), *options]
            found.append(Client(name, [*command, "--max-steps", "100000"], told(wire)))
    if arguments.floor_c:
        command = [os.path.abspath(arguments.floor_c), "go"]
        found.append(Client("C floor", command, floor_environment))
    if arguments.floor_py:
        command = [sys.executable, os.path.abspath(arguments.floor_py), "go"]
        found.append(Client("Python floor", command, floor_environment))
    if not found:
        raise SystemExit("nothing to measure: name --anvil, --floor-c or --floor-py")
    return found


def wait(pid, name):
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        raise SystemExit(f"{name} ended with {status}")


def measure_version(command, times):
    """Wall time of a program that only says its version, in ms."""
    taken = []
    for _ in range(times):
        began = time.monotonic_ns()
        actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        wait(os.posix_spawn(command[0], command, os.environ, file_actions=actions), command[0])
        taken.append((time.monotonic_ns() - began) / 1e6)
    return taken


def run_session(client, mock, home, expected):
    """One whole session: when it was spawned, and what the server saw."""
    mock.begin()
    spawned = time.monotonic_ns()
    wait(client.spawn(mock, home), client.name)
    session = mock.session()
    if len(session.requests) != expected:
        raise SystemExit(f"{client.name} made {len(session.requests)} requests, not {expected}")
    return spawned, session


def warm_up(all_clients, script, home):
    """Lets anvil keep what it finds out once for a machine, which would run beside the first sessions."""
    with Mock(script, WARM_UP_STEPS) as mock:
        for client in all_clients:
            if client.name.startswith("anvil"):
                run_session(client, mock, home, WARM_UP_STEPS + 1)


def measure_starts(all_clients, script, home, rounds):
    """From the spawn to the first byte of the first request, in ms; and that request's size."""
    starts = {client.name: [] for client in all_clients}
    sizes = {}
    with Mock(script, 0) as mock:
        for _ in range(rounds):
            for client in all_clients:
                spawned, session = run_session(client, mock, home, 1)
                starts[client.name].append((session.requests[0]["t"] - spawned) / 1e6)
                sizes[client.name] = session.requests[0]["bytes"]
    return starts, sizes


def measure_steps(all_clients, script, home, rounds, steps):
    """`Steps` by client."""
    windows = {name: window for name, window in WINDOWS.items() if window[-1] < steps}
    seen = {client.name: Steps(windows) for client in all_clients}
    with Mock(script, steps) as mock:
        for _ in range(rounds):
            for client in all_clients:
                _, session = run_session(client, mock, home, steps + 1)
                seen[client.name].add(session, windows)
    return seen, list(windows)


class HighWater(threading.Thread):
    """Reads a process's peak of resident memory until it is gone.

    `ru_maxrss` would not do: a spawned process inherits the peak of the one that spawned it.
    """

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.kib = 0

    def run(self):
        while True:
            try:
                with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
                    lines = [line for line in file if line.startswith("VmHWM:")]
            except OSError:
                return
            if not lines:
                return
            self.kib = int(lines[0].split()[1])
            time.sleep(0.01)


def measure_memory(all_clients, script, home, steps):
    """Peak of resident memory over a session, in MiB."""
    peaks = {}
    if sys.platform != "linux":
        print("not Linux: memory is not measured", file=sys.stderr)
        return peaks
    with Mock(script, steps) as mock:
        for client in all_clients:
            mock.begin()
            pid = client.spawn(mock, home)
            high_water = HighWater(pid)
            high_water.start()
            wait(pid, client.name)
            high_water.join()
            peaks[client.name] = high_water.kib / 1024
    return peaks


def machine():
    """What the figures depend on, without the machine's name."""
    facts = [platform.system() + " " + platform.release(), f"{os.cpu_count()} cores"]
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        facts.insert(0, models[0] if models else platform.machine())
        with open("/proc/meminfo", encoding="ascii") as file:
            facts.append(f"{int(file.readline().split()[1]) / 1024**2:.0f} GiB of memory")
    except OSError:
        facts.insert(0, platform.machine())
    return ", ".join(facts)


def row(name, all_clients, value):
    cells = [value(client) for client in all_clients]
    return f"| {name} | " + " | ".join("–" if cell is None else cell for cell in cells) + " |"


def median(values, digits=2):
    return f"{statistics.median(values):.{digits}f}"


def kilobytes(count):
    return f"{count / 1000:.1f}"


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f}–{max(values):.1f})"


def table(arguments, all_clients, home):
    """The rows, one measurement after the other."""
    yield f"Machine: {machine()}; load {os.getloadavg()[0]:.1f} at the start."
    yield ""
    yield "| figure | " + " | ".join(client.name for client in all_clients) + " |"
    yield "| --- |" + " ---: |" * len(all_clients)
    if arguments.anvil:
        anvil = os.path.abspath(arguments.anvil)
        size = f"{os.stat(anvil).st_size / 1e6:.1f}"
        version = spread(measure_version([anvil, "--version"], arguments.versions))
        is_anvil = lambda client: client.name.startswith("anvil")
        yield row("binary, MB", all_clients, lambda c: size if is_anvil(c) else None)
        yield row("`--version`, ms", all_clients, lambda c: version if is_anvil(c) else None)
    warm_up(all_clients, arguments.mock, home)
    starts, sizes = measure_starts(all_clients, arguments.mock, home, arguments.starts)
    yield row("start to first request, ms", all_clients, lambda c: spread(starts[c.name]))
    yield row("first request, KB", all_clients, lambda c: kilobytes(sizes[c.name]))
    seen, windows = measure_steps(
        all_clients, arguments.mock, home, arguments.rounds, arguments.steps
    )
    yield row("connections", all_clients, lambda c: str(seen[c.name].connections))
    for at in windows:
        yield row(f"step {at}: all, ms", all_clients, lambda c: median(seen[c.name].whole[at]))
    for at in windows:
        yield row(f"step {at}: own work, ms", all_clients, lambda c: median(seen[c.name].own[at]))
    for at in windows:
        label = f"step {at}: sending, ms"
        yield row(label, all_clients, lambda c: median(seen[c.name].sending[at]))
    for at in windows:
        yield row(f"step {at}: request, KB", all_clients, lambda c: kilobytes(seen[c.name].bytes[at]))
    for count in sorted({MEMORY_STEPS, arguments.steps}):
        peaks = measure_memory(all_clients, arguments.mock, home, count)
        label = f"peak memory in {count} steps, MiB"
        yield row(label, all_clients, lambda c: median([peaks[c.name]], 1) if peaks else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mock", required=True, help="the mock server's script")
    parser.add_argument("--anvil", help="the binary")
    parser.add_argument("--only", default="", help="only those whose name begins so, of anvil")
    parser.add_argument("--floor-c", help="the C client, built")
    parser.add_argument("--floor-py", help="the Python client's script")
    parser.add_argument("--versions", type=int, default=100, help="how often --version is run")
    parser.add_argument("--starts", type=int, default=20, help="how often a session is started")
    parser.add_argument("--rounds", type=int, default=3, help="how often the long session is run")
    parser.add_argument("--steps", type=int, default=3000, help="the length of the long session")
    arguments = parser.parse_args()
    all_clients = clients(arguments)
    with tempfile.TemporaryDirectory(prefix="anvil-bench-") as home:
        work = os.path.join(home, "work")
        os.mkdir(work)
        arguments.mock = os.path.abspath(arguments.mock)
        for name in ("anvil", "floor_c", "floor_py"):
            path = getattr(arguments, name)
            setattr(arguments, name, path and os.path.abspath(path))
        os.chdir(work)
        for line in table(arguments, all_clients, home):
            print(line, flush=True)


if __name__ == "__main__":
    main()
