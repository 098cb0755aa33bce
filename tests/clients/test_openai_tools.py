"""`openai` and tools. The grammar makes calls well-formed; which one and with what, the tiny model may say as it likes."""
import json
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

ASK = [{"role": "user", "content": "Turn the light on."}]
SWITCH = {
    "type": "function",
    "function": {
        "name": "switch",
        "description": "Switches the light.",
        "parameters": {"type": "object", "properties": {"state": {"enum": ["on", "off"]}}, "required": ["state"], "additionalProperties": False},
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}


@pytest.fixture(scope="module")
def client(service):
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key=service.key, max_retries=0, timeout=120)


def ask(client, **more):
    return client.chat.completions.create(
        **{"model": "default", "messages": ASK, "tools": [SWITCH, CLOCK], "max_tokens": 64, "temperature": 0, "parallel_tool_calls": False, **more})


def well_formed(name, arguments):
    arguments = json.loads(arguments)
    return arguments in ({"state": "on"}, {"state": "off"}) if name == "switch" else name == "clock" and arguments == {}


def test_auto(client):
    choice = ask(client, tool_choice="auto", max_tokens=8).choices[0]
    assert choice.finish_reason in ("stop", "length", "tool_calls")
    assert choice.message.content or choice.message.tool_calls or choice.finish_reason == "length"


def test_none(client):
    choice = ask(client, tool_choice="none", max_tokens=8).choices[0]
    assert choice.message.tool_calls is None and choice.message.content


def test_required_and_not_parallel(client):
    choice = ask(client, tool_choice="required").choices[0]
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and call.id and call.type == "function"
    assert well_formed(call.function.name, call.function.arguments)
    assert choice.message.content is None


def test_named(client):
    choice = ask(client, tool_choice={"type": "function", "function": {"name": "clock"}}).choices[0]
    assert [call.function.name for call in choice.message.tool_calls] == ["clock"]


def test_parallel(client):
    choice = ask(client, tool_choice="required", parallel_tool_calls=True, max_tokens=48).choices[0]
    calls = choice.message.tool_calls
    assert calls and len({call.id for call in calls}) == len(calls)
    # The last one may be cut short.
    assert all(well_formed(call.function.name, call.function.arguments) for call in calls[: None if choice.finish_reason == "tool_calls" else -1])


def test_streamed(client):
    chunks = list(ask(client, tool_choice="required", stream=True))
    pieces = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or []]
    first, *rest = pieces
    assert first.index == 0 and first.id and first.type == "function" and first.function.name
    assert all(piece.index == 0 and piece.id is None and piece.function.name is None for piece in rest)
    assert well_formed(first.function.name, "".join(piece.function.arguments or "" for piece in pieces))
    assert [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason] == ["tool_calls"]
    assert not any(c.delta.content for chunk in chunks for c in chunk.choices)


class Dim(BaseModel):
    """Dims the light."""

    level: Literal["low", "high"]


def test_helpers_with_pydantic(client):
    tool = openai.pydantic_function_tool(Dim)
    more = {"model": "default", "messages": ASK, "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 64, "temperature": 0}
    (call,) = client.chat.completions.parse(**more).choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Dim)
    with client.chat.completions.stream(**more) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    assert final.choices[0].message.tool_calls[0].function.parsed_arguments == call.function.parsed_arguments


def test_round_trip(client):
    first = ask(client, tool_choice={"type": "function", "function": {"name": "switch"}})
    message = first.choices[0].message
    turns = [*ASK, message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "The light is on."}]
    second = ask(client, messages=turns, max_tokens=4, tool_choice="none")
    assert second.choices[0].message.content and second.usage.prompt_tokens > first.usage.prompt_tokens
