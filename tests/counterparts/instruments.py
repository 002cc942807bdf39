"""What every counterpart needs: its server, one run of the command, and a line for each scenario.

Only the standard library is used, so that a counterpart's environment holds the counterpart alone.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

# Longer than any scenario, so that a run that never ends fails its scenario and not the suite.
RUN_SECONDS_MAX = 240
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 10


class Unexpected(Exception):
    """A scenario went otherwise than it should."""


def expect(what, actual, expected):
    """Fails the scenario unless both are equal."""
    if actual != expected:
        raise Unexpected(f"{what}: {actual!r} instead of {expected!r}")


class Server:
    """A process that says where it listens. It ends with the `with` block, by its own process id."""

    def __init__(self, command, listening):
        self._command = [str(word) for word in command]
        self._listening = re.compile(listening)
        self._said = deque(maxlen=40)
        self._heard = threading.Event()
        self._address = None

    def __enter__(self):
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            threading.Thread(target=self._listen, daemon=True).start()
            self._heard.wait(START_SECONDS_MAX)
            if self._address is None:
                said = "\n".join(self._said)
                raise SystemExit(f"`{' '.join(self._command)}` did not start. It said:\n{said}")
        except BaseException:
            self.__exit__()
            raise
        return self._address

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self):
        # To the end, also when nobody asks any more: a full pipe would stop the server.
        for line in self._process.stdout:
            self._said.append(line.rstrip())
            found = self._listening.search(line)
            if found:
                self._address = found.group(1)
                self._heard.set()
        self._heard.set()


@dataclass(frozen=True)
class Run:
    """How one run of the command went, as a person outside sees it."""

    exit_code: int
    events: list
    stderr: str

    @property
    def outcome(self):
        """The outcome, which must be there exactly once and last."""
        ends = [event for event in self.events if event.get("event") == "run_ended"]
        if len(ends) != 1 or self.events[-1] is not ends[0]:
            names = [event.get("event") for event in self.events]
            raise Unexpected(f"not exactly one end as the last event: {names}; exit code {self.exit_code}: {self.stderr}")
        if "panicked" in self.stderr:
            raise Unexpected(f"a panic: {self.stderr}")
        return ends[0]["outcome"]

    @property
    def stop_reason(self):
        """The name of the stop reason, without what it carries."""
        reason = self.outcome["reason"]
        return reason if isinstance(reason, str) else next(iter(reason))


def command(dauntless, config, *arguments):
    """Runs the command where a configuration, given as text, is `dauntless.toml`."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "dauntless.toml").write_text(config)
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "OPENAI_API_KEY": "sk-counterpart"}
        try:
            return subprocess.run(
                [dauntless, *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=RUN_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            raise Unexpected(f"the command had not ended after {RUN_SECONDS_MAX} s") from None


def run(dauntless, config, goal):
    """Runs `dauntless run` with a configuration, given as text."""
    done = command(dauntless, config, "run", "--json", goal)
    try:
        events = [json.loads(line) for line in done.stdout.splitlines()]
    except ValueError:
        raise Unexpected(f"a line of the output is not JSON: {done.stdout}") from None
    return Run(done.returncode, events, done.stderr)


class Suite:
    """Runs scenarios and says a line about each: `passed: …` or `failed: …`."""

    def __init__(self, counterpart):
        self._counterpart = counterpart
        self._failed = 0
        # So that a suite that is ended ends its servers.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: sys.exit(128 + number))

    def scenario(self, name, check, *given):
        """Runs a check, which raises `Unexpected` when it fails."""
        start = time.monotonic()
        try:
            check(*given)
            word, reason = "passed", ""
        except Unexpected as why:
            self._failed += 1
            word, reason = "failed", f": {why}"
        length = time.monotonic() - start
        print(f"{word}: {self._counterpart}: {name} ({length:.1f} s){reason}", flush=True)

    @property
    def exit_code(self):
        """0 if every scenario passed."""
        return 1 if self._failed else 0
