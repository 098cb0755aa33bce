"""`anthropic` and /v1/messages: messages, tools, streams by events and by the helper, counting, refusals."""
from typing import Literal

import anthropic
import pytest
from pydantic import BaseModel

SEA = [{"role": "user", "content": "Say something about the sea."}]
SWITCH = {
    "name": "switch",
    "description": "Switches the light.",
    "input_schema": {"type": "object", "properties": {"state": {"enum": ["on", "off"]}}, "required": ["state"], "additionalProperties": False},
}
CLOCK = {"name": "clock", "input_schema": {"type": "object", "properties": {}, "additionalProperties": False}}


@pytest.fixture(scope="module")
def client(service):
    return anthropic.Anthropic(base_url=service.url, api_key=service.key, max_retries=0, timeout=120)


def asked(**more):
    # What this release of the package no longer names, the service still takes: for it, as for other clients, they are in the body.
    return {"model": "default", "messages": SEA, "max_tokens": 6, "extra_body": {"temperature": 0}, **more}


def ask(client, **more):
    return client.messages.create(**asked(**more))


def prompt_tokens(usage):
    """Those that were there already are counted apart."""
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


def test_plain(client, service):
    message = ask(client)
    assert message.type == "message" and message.role == "assistant" and message.id.startswith("msg_") and message.model
    assert [block.type for block in message.content] == ["text"] and text(message)
    assert message.stop_reason in ("max_tokens", "end_turn") and message.stop_sequence is None
    assert message.usage.input_tokens > 0 and 0 < message.usage.output_tokens <= 6
    assert message._request_id
    service.idle()


def test_system_and_turns(client):
    blocks = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    turns = [{"role": "user", "content": [{"type": "text", "text": "One word?"}]}, {"role": "assistant", "content": "Sea."}, {"role": "user", "content": "More."}]
    # A template may have instructions of its own where there are none: only some can be held against others.
    said = [ask(client, messages=turns, system=system, max_tokens=2, metadata={"user_id": "someone"}).usage for system in ("Be brief.", [*blocks, *blocks])]
    assert all(usage.output_tokens <= 2 for usage in said) and prompt_tokens(said[0]) < prompt_tokens(said[1])


def test_sampling(client):
    assert text(ask(client, extra_body={"temperature": 1, "top_p": 0.9, "top_k": 20}))


def test_stop_sequences(client):
    whole = text(ask(client, max_tokens=10))
    stop = whole[4:7]
    message = ask(client, max_tokens=10, stop_sequences=["\0never", stop])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert text(message) == whole[: whole.index(stop)]


def test_stream(client):
    events = list(ask(client, stream=True))
    kinds = [event.type for event in events if event.type != "ping"]
    assert kinds[:2] == ["message_start", "content_block_start"] and kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    start, delta = events[0].message, next(event for event in events if event.type == "message_delta")
    assert start.content == [] and start.stop_reason is None and start.usage.input_tokens > 0
    said = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    whole = ask(client)
    assert (said, delta.delta.stop_reason, delta.usage.output_tokens) == (text(whole), whole.stop_reason, whole.usage.output_tokens)


def test_stream_helper(client):
    with client.messages.stream(**asked()) as stream:
        said = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert said == text(message) == text(ask(client)) and message.stop_reason and message.usage.output_tokens > 0


def tools(**more):
    return asked(**{"tools": [SWITCH, CLOCK], "max_tokens": 64, **more})


def well_formed(block):
    return block.input in ({"state": "on"}, {"state": "off"}) if block.name == "switch" else block.name == "clock" and block.input == {}


def test_tool_choices(client):
    one = {"disable_parallel_tool_use": True}
    message = client.messages.create(**tools(tool_choice={"type": "any", **one}))
    (block,) = message.content
    assert block.type == "tool_use" and block.id and well_formed(block) and message.stop_reason == "tool_use"
    (named,) = client.messages.create(**tools(tool_choice={"type": "tool", "name": "clock", **one})).content
    assert (named.type, named.name, named.input) == ("tool_use", "clock", {})
    auto = client.messages.create(**tools(tool_choice={"type": "auto"}, max_tokens=6))
    assert auto.stop_reason in ("max_tokens", "end_turn", "tool_use")
    none = client.messages.create(**tools(tool_choice={"type": "none"}, max_tokens=6))
    assert [block.type for block in none.content] == ["text"]


def test_streamed_tool(client):
    with client.messages.stream(**tools(tool_choice={"type": "tool", "name": "switch", "disable_parallel_tool_use": True})) as stream:
        events = list(stream)
        (block,) = stream.get_final_message().content
    assert block.name == "switch" and well_formed(block)
    pieces = [event.delta.partial_json for event in events if event.type == "content_block_delta" and event.delta.type == "input_json_delta"]
    assert "".join(pieces) and [event for event in events if event.type == "message_delta"][0].delta.stop_reason == "tool_use"


def test_round_trip(client):
    first = client.messages.create(**tools(tool_choice={"type": "tool", "name": "switch", "disable_parallel_tool_use": True}))
    used = first.content[0]
    for content in ("The light is on.", [{"type": "text", "text": "The light is on."}]):
        result = {"type": "tool_result", "tool_use_id": used.id, "content": content}
        turns = [*SEA, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        second = client.messages.create(**tools(messages=turns, max_tokens=3, tool_choice={"type": "none"}))
        assert text(second) and prompt_tokens(second.usage) > prompt_tokens(first.usage)


def test_count_tokens(client):
    for more in ({}, {"system": "Be brief."}, {"tools": [SWITCH]}):
        counted = client.messages.count_tokens(model="default", messages=SEA, **more).input_tokens
        assert counted == prompt_tokens(ask(client, max_tokens=1, **more).usage)


class Light(BaseModel):
    state: Literal["on", "off"]


def test_json_schema(client):
    message = client.messages.parse(model="default", messages=SEA, max_tokens=40, output_format=Light, extra_body={"temperature": 0})
    assert isinstance(message.parsed_output, Light) and message.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("more", "exception", "kind"),
    [
        ({"messages": []}, anthropic.BadRequestError, "invalid_request_error"),
        ({"extra_body": {"temperature": 3}}, anthropic.BadRequestError, "invalid_request_error"),
        ({"max_tokens": -1}, anthropic.BadRequestError, "invalid_request_error"),
        ({"tool_choice": {"type": "tool", "name": "none"}, "tools": [CLOCK]}, anthropic.BadRequestError, "invalid_request_error"),
        ({"model": "claude-none"}, anthropic.NotFoundError, "not_found_error"),
    ],
)
def test_refusals(client, more, exception, kind):
    with pytest.raises(exception) as refused:
        ask(client, **more)
    assert refused.value.body["type"] == "error" and refused.value.body["error"]["type"] == kind and refused.value.body["error"]["message"]
    assert refused.value.request_id


def test_keys(client, service):
    with pytest.raises(anthropic.AuthenticationError) as refused:
        ask(client.with_options(api_key="sk-cox-wrong"))
    assert refused.value.body["error"]["type"] == "authentication_error"
    assert ask(anthropic.Anthropic(base_url=service.url, auth_token=service.key, max_retries=0), max_tokens=1).content
    slow = client.with_options(api_key=service.slow_keys.pop())
    with pytest.raises(anthropic.RateLimitError) as refused:
        for _ in range(2):
            ask(slow, max_tokens=1)
    assert refused.value.body["error"]["type"] == "rate_limit_error" and int(refused.value.response.headers["retry-after"]) > 0


def test_leaving(client, service):
    with client.messages.stream(**asked(max_tokens=600, extra_body={"temperature": 0, "ignore_eos": True})) as stream:
        next(iter(stream.text_stream))
        assert service.stats()["running"] == 1
    service.idle()
