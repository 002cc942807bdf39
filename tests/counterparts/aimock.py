"""aimock answers as told, by both of OpenAI's APIs, whole and in pieces.

Where llmock judges how a client bears faults, aimock is here for the form of what is said: each
scenario is one conversation, played by every API both ways, and must come to the same end. What the
command sent is looked up in aimock's journal, which keeps each request as aimock understood it.
"""

import sys

sys.dont_write_bytecode = True

import json
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from instruments import Server, Suite, Unexpected, expect, run

AIMOCK = Path(sys.executable).parents[1] / "node_modules" / ".bin" / "aimock"
ANSWER = 'Grüße! It is "shipped" 📦, all of it.'
ARGUMENTS = {"id": 'A-1 "é" 📦'}
SEEN = "seen: A-1"
LIMITED = {"error": {"message": "Rate limited", "type": "rate_limit_error"}, "status": 429}
# The API, whether it streams.
WAYS = (("chat", True), ("chat", False), ("responses", True), ("responses", False))
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}


@dataclass(frozen=True)
class Scenario:
    """What aimock says in turn, and what comes of it."""

    name: str
    # One for each request: a response, or a fixture that holds one.
    says: tuple
    calls: int = 0
    # Attempts beyond one for each turn.
    repeated: int = 0
    reason: object = "completed"
    exit_code: int = 0
    text: str = ANSWER
    ways: tuple = WAYS
    # More keys of the model in the configuration.
    model: str = ""


def call(arguments=ARGUMENTS):
    return {"name": "order", "arguments": arguments}


STREAMED = tuple(way for way in WAYS if way[1])
RESPONSES = tuple(way for way in WAYS if way[0] == "responses")

SCENARIOS = (
    Scenario("a text", ({"content": ANSWER},)),
    Scenario("a call", ({"toolCalls": [call()]}, {"content": ANSWER}), calls=1),
    Scenario("two calls at once", ({"toolCalls": [call(), call({"id": "B-2"})]}, {"content": ANSWER}), calls=2),
    Scenario("a call beside a text", ({"content": "Let me look.", "toolCalls": [call()]}, {"content": ANSWER}), calls=1),
    Scenario("a 429 with Retry-After", (LIMITED, {"content": ANSWER}), repeated=1),
    Scenario(
        "a stream that breaks off",
        ({"response": {"content": ANSWER}, "truncateAfterChunks": 4}, {"content": ANSWER}),
        repeated=1,
        ways=STREAMED,
    ),
    Scenario(
        "a call in a stream that breaks off",
        ({"response": {"toolCalls": [call()]}, "truncateAfterChunks": 4}, {"toolCalls": [call()]}, {"content": ANSWER}),
        calls=1,
        repeated=1,
        ways=STREAMED,
    ),
    Scenario(
        "an answer that is cut off",
        tuple({"content": ANSWER, "finishReason": "length"} for _ in range(3)),
        reason="truncated",
        exit_code=15,
    ),
    Scenario(
        "nothing to answer with",
        (),
        reason={"model_failed": {"code": "not_found", "attempts": 1}},
        exit_code=12,
        text="",
    ),
    Scenario(
        "reasoning beside a call",
        ({"toolCalls": [call()], "reasoning": "I should look."}, {"content": ANSWER, "reasoning": "Found."}),
        calls=1,
        ways=RESPONSES,
        model="keep_reasoning = true",
    ),
)


def instructions(scenario, way):
    """Its own words for each run, for aimock tells runs apart by them."""
    return f"You look up orders. This is: {scenario.name}, {name_of(*way)}."


def name_of(api, stream):
    return f"{api}, {'streamed' if stream else 'plain'}"


def fixtures():
    """What aimock says to each request of each run."""
    for scenario in SCENARIOS:
        for way in scenario.ways:
            for index, says in enumerate(scenario.says):
                fixture = says if "response" in says else {"response": says}
                yield {**fixture, "match": {"systemMessage": instructions(scenario, way), "sequenceIndex": index}}


class Journal:
    """What aimock was asked."""

    def __init__(self, address):
        self._url = f"{address}/v1/_requests"
        self._read = 0

    def new(self):
        """The requests since the last time."""
        with urllib.request.urlopen(self._url, timeout=10) as answer:
            entries = json.load(answer)
        fresh, self._read = entries[self._read :], len(entries)
        return fresh


def config(address, scenario, way):
    """A configuration with one agent."""
    api, stream = way
    return f"""
[model]
provider = "openai"
name = "gpt-mock"
base_url = "{address}/v1"
api = "{api}"
stream = {json.dumps(stream)}
price = {{ input_usd_per_million = 0.0, output_usd_per_million = 0.0 }}
{scenario.model}

[agents.clerk]
instructions = "{instructions(scenario, way)}"
tools = ["order"]

[tools.order]
description = "Look up one order."
effect = "read_only"
parameters = {{ type = "object", required = ["id"], properties = {{ id = {{ type = "string" }} }} }}
command = {{ argv = ["echo", "{SEEN}", "{{id}}"] }}
"""


def plays(dauntless, address, journal, scenario, way):
    """The run ends as it should, and each attempt was one request that aimock could read."""
    journal.new()
    done = run(dauntless, config(address, scenario, way), "Where is my order?")
    outcome = done.outcome
    expect("stop reason", outcome["reason"], scenario.reason)
    expect("exit code", done.exit_code, scenario.exit_code)
    if scenario.exit_code == 0:
        expect("answer", outcome["text"], scenario.text)
    totals = outcome["totals"]
    expect("attempts of the model", totals["model_attempts"], totals["turns"] + scenario.repeated)
    asked = [event for event in done.events if event["event"] == "call_asked"]
    ended = [event for event in done.events if event["event"] == "call_ended"]
    expect("calls", len(asked), scenario.calls)
    expect("calls that ended", {event["call_id"] for event in ended}, {event["call_id"] for event in asked})
    expect("failures of calls", [event["code"] for event in ended], [None] * scenario.calls)
    if asked:
        expect("arguments", json.loads(asked[0]["arguments"]), ARGUMENTS)
    requests = journal.new()
    expect("requests", len(requests), totals["model_attempts"])
    for request in requests:
        expect("path", request["path"], PATHS[way[0]])
    if asked:
        expect_answered(requests[-1]["body"], [event["call_id"] for event in asked])


def expect_answered(body, ids):
    """Each call went back with its answer, whatever the form of the API."""
    called = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    answers = [message for message in body["messages"] if message["role"] == "tool"]
    expect("calls sent back", called, ids)
    expect("answers sent back", [message["tool_call_id"] for message in answers], ids)
    for message in answers:
        if SEEN not in message["content"]:
            raise Unexpected(f"an answer without what the tool said: {message}")


def main(dauntless):
    suite = Suite("aimock")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "fixtures.json").write_text(json.dumps({"fixtures": list(fixtures())}))
        settings = Path(folder, "aimock.json")
        settings.write_text(json.dumps({"llm": {"fixtures": str(Path(folder, "fixtures.json"))}}))
        serve = [AIMOCK, "--config", settings, "--host", "127.0.0.1", "--port", "0"]
        with Server(serve, r"listening on (http://[0-9.:]+)") as address:
            journal = Journal(address)
            for scenario in SCENARIOS:
                for way in scenario.ways:
                    name = f"{scenario.name}, {name_of(*way)}"
                    suite.scenario(name, plays, dauntless, address, journal, scenario, way)
    return suite.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
