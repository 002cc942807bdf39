"""A real model behind a real llama.cpp server: SmolLM2, too small to be clever and never scripted.

What it says is not judged. That the two sides understand each other is: a run ends with exactly one
stop reason, no request is refused or repeated, a call that llama.cpp reads out of the model's words
reaches the tool, and an overlong prompt is called what it is.
"""

import sys

sys.dont_write_bytecode = True

import json
from functools import partial
from pathlib import Path

from instruments import Server, Suite, Unexpected, command, expect, run

ANSWER_BRIEFLY = "You answer briefly."
QUESTION = "What is the capital of France? Answer in one sentence."

# A model this small calls no tool of its own accord. It can repeat a call, and llama.cpp reads
# that as it reads every call.
REPEAT = "You repeat the last message."
ARGUMENTS = {"zone": "UTC"}
CALL = f"Say exactly:\n<tool_call>\n{json.dumps({'name': 'clock', 'arguments': ARGUMENTS})}\n</tool_call>"

# How the command ends for each reason that a scenario allows.
EXIT_CODES = {"completed": 0, "model_failed": 12, "truncated": 15, "stuck": 18, "limit_reached": 19}


def config(
    address,
    api,
    *,
    stream,
    tokens=40,
    tools=False,
    instructions=ANSWER_BRIEFLY,
    tool_calling="native",
    turns=6,
):
    """A configuration with one agent."""
    return f"""
[model]
provider = "openai"
name = "smollm2"
base_url = "{address}/v1"
api = "{api}"
stream = {json.dumps(stream)}
max_output_tokens = {tokens}
tool_calling = "{tool_calling}"
temperature = 0.0
price = {{ input_usd_per_million = 0.0, output_usd_per_million = 0.0 }}

[limits]
turns = {turns}

[agents.guide]
instructions = "{instructions}"
tools = {json.dumps(["clock"] if tools else [])}

[tools.clock]
description = "Say what time it is."
effect = "read_only"
parameters = {{ type = "object", required = ["zone"], properties = {{ zone = {{ type = "string" }} }} }}
command = {{ argv = ["echo", "It is noon, {{zone}}."] }}
"""


def expect_understanding(done, reasons):
    """The run ended for one of the reasons, and the server took every request the first time."""
    if done.stop_reason not in reasons:
        raise Unexpected(f"the run ended otherwise than by {reasons}: {done.outcome}")
    expect("exit code", done.exit_code, EXIT_CODES[done.stop_reason])
    totals = done.outcome["totals"]
    expect("attempts of the model", totals["model_attempts"], totals["turns"])
    if not totals["usage"]["prompt"] or not totals["usage"]["completion"]:
        raise Unexpected(f"the server counts tokens, and the outcome has none: {totals}")


def answers(dauntless, address, api, stream, *, tools):
    """A question is answered, or the limit cuts the answer off each time."""
    done = run(dauntless, config(address, api, stream=stream, tools=tools), QUESTION)
    expect_understanding(done, ("completed", "truncated"))
    if not done.outcome["text"]:
        raise Unexpected("no text")


def is_cut(dauntless, address, api, stream):
    """An answer that finds no room is never passed off as a whole one."""
    done = run(dauntless, config(address, api, stream=stream, tokens=3), QUESTION)
    expect_understanding(done, ("truncated",))


def calls(dauntless, address, api, stream):
    """The model's words become a call, the call an observation, and the server takes both back."""
    text = config(address, api, stream=stream, tools=True, instructions=REPEAT)
    done = run(dauntless, text, CALL)
    # It may go on repeating the call until it is stopped for it.
    expect_understanding(done, ("completed", "truncated", "stuck", "limit_reached"))
    asked = [event for event in done.events if event["event"] == "call_asked"]
    ended = [event for event in done.events if event["event"] == "call_ended"]
    if not asked:
        raise Unexpected(f"no call: {done.outcome}")
    expect("calls asked for and ended", [event["call_id"] for event in asked], [event["call_id"] for event in ended])
    expect("tool", ended[0]["tool"], "clock")
    expect("arguments", json.loads(asked[0]["arguments"]), ARGUMENTS)
    expect("failure of the first call", ended[0]["code"], None)
    if done.outcome["totals"]["turns"] < 2:
        raise Unexpected("the observation did not go back to the model")


def is_too_long(dauntless, address, api, stream):
    """What does not fit the model's context is called so, and asking again is pointless."""
    goal = "Sum this up: " + "the quick brown fox jumps over the lazy dog " * 200
    done = run(dauntless, config(address, api, stream=stream), goal)
    expect("stop reason", done.outcome["reason"], {"model_failed": {"code": "too_large", "attempts": 1}})
    expect("exit code", done.exit_code, EXIT_CODES["model_failed"])


def decides(dauntless, address, api, stream):
    """A model that calls nothing of its own accord decides by a schema: it calls, and the run ends."""
    text = config(address, api, stream=stream, tools=True, tool_calling="json_schema", turns=1)
    done = run(dauntless, text, "What time is it in UTC? Call clock.")
    # One turn to call in, and one for last words about what came of it.
    expect_understanding(done, ("limit_reached",))
    asked = [event for event in done.events if event["event"] == "call_asked"]
    ended = [event for event in done.events if event["event"] == "call_ended"]
    if not asked:
        raise Unexpected(f"no call: {done.outcome}")
    expect("calls asked for and ended", [event["call_id"] for event in asked], [event["call_id"] for event in ended])
    expect("tools", {event["tool"] for event in ended}, {"clock"})
    expect("failures", [event["code"] for event in ended], [None] * len(ended))
    expect("attempts of tools", done.outcome["totals"]["tool_attempts"], len(ended))
    expect("type of the zone", type(json.loads(asked[0]["arguments"])["zone"]), str)
    if done.outcome["totals"]["turns"] < 2:
        raise Unexpected("the observation did not go back to the model")
    shown = [event["text"] for event in done.events if event["event"] == "text_arrived"]
    expect("what a watcher was shown", "".join(shown), done.outcome["text"])


def is_probed(dauntless, address, api, stream):
    """A probe finds out that the model needs a schema to decide by, and that it then calls tools."""
    for tool_calling, exit_code, told in (
        ("native", 31, 'does not call the tool that it is offered. It calls tools in answers with a schema: '
                       'set tool_calling = "json_schema" in [model]'),
        ("json_schema", 0, "calls tools"),
    ):
        text = config(address, api, stream=stream, tokens=32, tools=True, tool_calling=tool_calling)
        done = command(dauntless, text, "check", "--probe", "dauntless.toml")
        if f"model default (smollm2): {told} (" not in done.stdout:
            raise Unexpected(f"{tool_calling}: {done.stdout}{done.stderr}")
        expect(f"exit code, {tool_calling}", done.returncode, exit_code)


APIS = ("chat", "responses")

SCENARIOS = (
    ("a question", partial(answers, tools=False), APIS),
    ("a question beside a tool", partial(answers, tools=True), APIS),
    ("a call", calls, APIS),
    # What a schema asks for does not depend on the format around it, and each takes a minute.
    ("a decision by a schema", decides, APIS[:1]),
    ("a probe", is_probed, APIS[:1]),
    ("no room for the answer", is_cut, APIS),
    ("a prompt too long", is_too_long, APIS),
)


def main(dauntless):
    suite = Suite("llama")
    serve = [sys.executable, Path(__file__).with_name("llama_server.py")]
    with Server(serve, r"listening on (http://[0-9.:]+)") as address:
        for name, check, apis in SCENARIOS:
            for api in apis:
                for stream in (True, False):
                    how = f"{api}, {'streamed' if stream else 'plain'}"
                    suite.scenario(f"{name}, {how}", check, dauntless, address, api, stream)
    return suite.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
