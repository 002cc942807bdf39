"""llmock breaks a provider in known ways and judges how its client bore it.

Each scenario scripts one fault, runs the real command, and holds the run against three witnesses
that know nothing of each other: the command's own last event, llmock's verdict, and a service that
counts what the tool did. The controls at the end are clients that deserve a bad verdict: they prove
that the witness can speak.
"""

import sys

sys.dont_write_bytecode = True

import json
import subprocess
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from instruments import Server, Suite, Unexpected, expect, run

MODEL = "gpt-mock"
ANSWER = f"Mock response from {MODEL}."
LLMOCK = Path(sys.executable).with_name("llmock")


@dataclass(frozen=True)
class Scenario:
    """A fault, and what a run that bears it looks like."""

    name: str
    behaviors: tuple
    # Attempts beyond one for each turn.
    repeated: int = 0
    # What the tool is asked for, each once.
    orders: tuple = ("mock-id",)
    tools: bool = True
    streams: tuple = (True, False)
    # More keys of the model in the configuration.
    model: str = ""


def fail(status, times=1, retry_after=None):
    behavior = {"type": "fail", "status": status, "times": times}
    return behavior if retry_after is None else {**behavior, "retry_after": retry_after}


def break_stream(kind, **more):
    return {"type": "stream_fault", "kind": kind, "after_chunks": 2, **more}


def break_call(kind):
    """The model's first call is broken. It asks again for the same, and well."""
    asks = {"type": "reply", "tool_calls": [{"name": "order", "arguments": {"id": "A-1"}}], "times": 2}
    return (asks, {"type": "tool_fault", "kind": kind})


STREAMED = (True,)
SHORT_PATIENCE = 'idle_timeout = "1s"'
STALL = break_stream("stall", stall_seconds=4)

SCENARIOS = (
    Scenario("no fault", ()),
    Scenario("429 twice, 1 s of Retry-After", (fail(429, 2, 1),), repeated=2),
    Scenario("429 twice, 300 ms of Retry-After", (fail(429, 2, 0.3),), repeated=2),
    Scenario("503 twice", (fail(503, 2),), repeated=2),
    Scenario("500 once", (fail(500),), repeated=1),
    Scenario("a late answer", ({"type": "delay", "seconds": 1.5},)),
    Scenario(
        "an answer after the timeout",
        ({"type": "delay", "seconds": 4},),
        repeated=1,
        model='timeout = "2s"',
    ),
    Scenario("a call of an unknown tool", break_call("unknown_tool"), orders=("A-1",)),
    Scenario("a call with malformed arguments", break_call("malformed_arguments"), orders=("A-1",)),
    *(
        Scenario(
            f"{what}, within {where}",
            (fault,),
            repeated=1,
            orders=("mock-id",) if tools else (),
            tools=tools,
            streams=STREAMED,
            model=SHORT_PATIENCE,
        )
        for what, fault in (
            ("a truncated stream", break_stream("truncate")),
            ("a dropped connection", break_stream("disconnect")),
            ("a malformed chunk", break_stream("malformed")),
            ("a stalled stream", STALL),
        )
        for where, tools in (("a call", True), ("a text", False))
    ),
)


@dataclass(frozen=True)
class Control:
    """A configuration that makes a bad client, and what llmock says of it."""

    name: str
    fault: dict
    model: str
    finding: str


RETRIES_OFF = "retry = { attempts = 1 }"

CONTROLS = (
    Control("a truncated stream, retries off", break_stream("truncate"), RETRIES_OFF, "truncated_stream_accepted"),
    Control("a 503, retries off", fail(503), RETRIES_OFF, "gave_up"),
    Control("a stalled stream, endless patience", STALL, 'idle_timeout = "1m"', "no_read_timeout"),
)


class OrderService:
    """The service behind the tool. It keeps a list of what it was asked for."""

    def __init__(self):
        self.asked = asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path.removeprefix("/orders/"))
                body = b'{"state": "shipped"}'
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


class Judge:
    """llmock's own API beside the one it imitates."""

    def __init__(self, address):
        self.address = address

    def script(self, behaviors):
        """Forgets all that was, and breaks what comes."""
        self._ask("POST", "reset")
        if behaviors:
            self._ask("POST", "scenario", {"behaviors": list(behaviors)})

    def left(self):
        """The faults that nothing ran into."""
        return self._ask("GET", "scenario")["pending"]

    def requests(self):
        return self._ask("GET", "requests")["requests"]

    def verdict(self):
        return self._ask("GET", "verdict")

    def report(self):
        """The exit code of `llmock report`, which fails on warnings too."""
        command = [LLMOCK, "report", "--strict", "--url", self.address]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self.address}/_llmock/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


def config(judge, service, *, stream, tools, model):
    """A configuration with one agent."""
    return f"""
[model]
provider = "openai"
name = "{MODEL}"
base_url = "{judge.address}/v1"
stream = {json.dumps(stream)}
price = {{ input_usd_per_million = 0.0, output_usd_per_million = 0.0 }}
{model}

[agents.clerk]
instructions = "You look up orders."
tools = {json.dumps(["order"] if tools else [])}

[tools.order]
description = "Look up one order."
effect = "read_only"
parameters = {{ type = "object", required = ["id"], properties = {{ id = {{ type = "string" }} }} }}

[tools.order.http]
url = "{service.address}/orders/{{id}}"
hosts = ["127.0.0.1"]
"""


def expect_sound_history(messages):
    """Every call has one answer, right after it and in order, and nothing else has."""
    waiting = []
    for message in messages:
        if message["role"] == "tool":
            expect("the call that a tool message answers", message["tool_call_id"], next(iter(waiting), None))
            waiting.pop(0)
            if not message["content"]:
                raise Unexpected("an empty tool message")
        else:
            expect("calls without an answer", waiting, [])
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    expect("calls without an answer", waiting, [])


def bears(dauntless, judge, service, scenario, stream):
    """The run completes as if nothing had happened, and llmock has nothing to say against it."""
    judge.script(scenario.behaviors)
    service.asked.clear()
    text = config(judge, service, stream=stream, tools=scenario.tools, model=scenario.model)
    done = run(dauntless, text, "Where is my order?")
    outcome = done.outcome
    expect("stop reason", outcome["reason"], "completed")
    expect("exit code", done.exit_code, 0)
    expect("answer", outcome["text"], ANSWER)
    totals = outcome["totals"]
    expect("attempts of the model", totals["model_attempts"], totals["turns"] + scenario.repeated)
    expect("orders looked up", tuple(service.asked), scenario.orders)
    expect("faults that nothing ran into", judge.left(), [])
    verdict = judge.verdict()
    expect("llmock's findings", [f"{found['code']}: {found['title']}" for found in verdict["findings"]], [])
    expect("attempts that llmock saw", verdict["attempts"], totals["model_attempts"])
    expect("exit code of `llmock report --strict`", judge.report(), 0)
    for request in judge.requests():
        expect("streamed", request["stream"], stream)
        expect_sound_history(request["body"]["messages"])


def is_judged(judge, finding):
    codes = {found["code"] for found in judge.verdict()["findings"]}
    expect("llmock's findings", codes, {finding})
    expect("exit code of `llmock report --strict`", judge.report(), 1)


def misbehaves(dauntless, judge, service, control):
    """A command that is configured badly is found out."""
    judge.script([control.fault])
    run(dauntless, config(judge, service, stream=True, tools=False, model=control.model), "Hello.")
    is_judged(judge, control.finding)


def cannot_wait(judge):
    """The command cannot be configured to ignore Retry-After, so a rude client stands in for it."""
    judge.script([fail(429, 1, 1)])
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Now."}]}).encode()
    request = urllib.request.Request(
        f"{judge.address}/v1/chat/completions", data=body, headers={"content-type": "application/json"}
    )
    try:
        urllib.request.urlopen(request, timeout=10)
        raise Unexpected("no 429")
    except urllib.error.HTTPError as error:
        expect("status", error.code, 429)
    urllib.request.urlopen(request, timeout=10).read()
    is_judged(judge, "retry_after_ignored")


def main(dauntless):
    suite = Suite("llmock")
    service = OrderService()
    # Chunks one after another, as from a real model: a client that hangs up in between is noticed.
    serve = [LLMOCK, "serve", "--port", "0", "--response-style", "static", "--stream-chunk-delay-ms", "50"]
    with Server(serve, r"running on (http://[0-9.:]+)") as address:
        judge = Judge(address)
        for scenario in SCENARIOS:
            for stream in scenario.streams:
                name = f"{scenario.name}, {'streamed' if stream else 'plain'}"
                suite.scenario(name, bears, dauntless, judge, service, scenario, stream)
        for control in CONTROLS:
            suite.scenario(f"control: {control.name}", misbehaves, dauntless, judge, service, control)
        suite.scenario("control: a client that cannot wait", cannot_wait, judge)
    return suite.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
