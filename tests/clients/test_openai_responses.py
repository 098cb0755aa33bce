"""`openai` and /v1/responses: text, streams, tools, schemas, and what the service remembers."""
import json
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

SWITCH = {
    "type": "function",
    "name": "switch",
    "description": "Switches the light.",
    "strict": True,
    "parameters": {"type": "object", "properties": {"state": {"enum": ["on", "off"]}}, "required": ["state"], "additionalProperties": False},
}


@pytest.fixture(scope="module")
def client(service):
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key=service.key, max_retries=0, timeout=120)


def asked(**more):
    return {"model": "default", "input": "Say something about the sea.", "max_output_tokens": 16, "temperature": 0, **more}


def ask(client, **more):
    return client.responses.create(**asked(**more))


def test_plain(client, service):
    response = ask(client)
    assert response.object == "response" and response.id.startswith("resp_") and response.created_at > 0 and response.error is None
    (item,) = response.output
    assert (item.type, item.role, item.content[0].type) == ("message", "assistant", "output_text") and item.id and response.output_text
    cut = response.usage.output_tokens == 16
    assert response.status == ("incomplete" if cut else "completed")
    assert not cut or response.incomplete_details.reason == "max_output_tokens"
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.usage.input_tokens_details.cached_tokens >= 0 and response.usage.output_tokens_details.reasoning_tokens == 0
    service.idle()


def test_inputs(client):
    turns = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "One word?"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Sea.", "annotations": []}]},
        {"type": "message", "role": "user", "content": "Another?"},
    ]
    response = ask(client, input=turns, metadata={"place": "here"})
    told = ask(client, input=turns, instructions="Be very brief indeed, and never longer than that.")
    assert response.metadata == {"place": "here"} and told.instructions and told.usage.input_tokens > response.usage.input_tokens


def test_stream(client):
    whole = ask(client)
    events = list(ask(client, stream=True))
    kinds = [event.type for event in events]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
    assert kinds[-4:-1] == ["response.output_text.done", "response.content_part.done", "response.output_item.done"]
    assert kinds[-1] == f"response.{whole.status}" and set(kinds[4:-4]) == {"response.output_text.delta"}
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text and events[-1].response.usage.output_tokens == whole.usage.output_tokens


def test_stream_helper(client):
    with client.responses.stream(**asked()) as stream:
        said = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    assert said == ask(client).output_text


def test_tools(client):
    more = {"tools": [SWITCH], "parallel_tool_calls": False, "max_output_tokens": 64}
    for choice in ("required", {"type": "function", "name": "switch"}):
        response = ask(client, tool_choice=choice, **more)
        (call,) = response.output
        assert (call.type, call.name, response.status) == ("function_call", "switch", "completed") and call.call_id and call.id
        assert json.loads(call.arguments)["state"] in ("on", "off")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "The light is on."}
    for turn in ({"input": [result], "previous_response_id": response.id}, {"input": [{"role": "user", "content": "Light!"}, call, result]}):
        assert ask(client, tools=[SWITCH], tool_choice="none", **turn).output_text


def test_streamed_tool(client):
    events = list(ask(client, stream=True, tools=[SWITCH], tool_choice="required", parallel_tool_calls=False, max_output_tokens=64))
    said = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    (done,) = [event for event in events if event.type == "response.function_call_arguments.done"]
    (call,) = events[-1].response.output
    assert events[-1].type == "response.completed" and json.loads(said) == json.loads(done.arguments) == json.loads(call.arguments)


class Light(BaseModel):
    state: Literal["on", "off"]


def test_json_schema(client):
    response = client.responses.parse(**asked(max_output_tokens=40), text_format=Light)
    assert isinstance(response.output_parsed, Light) and response.status == "completed"
    loose = ask(client, text={"format": {"type": "json_object"}}, max_output_tokens=24)
    assert loose.output_text.lstrip().startswith("{")


def test_what_is_remembered(client):
    first = ask(client)
    second = ask(client, input="And the moon?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    # The first turn, its answer and the new one.
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens
    assert client.responses.retrieve(second.id).output_text == second.output_text
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)
    forgotten = ask(client, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(forgotten.id)


def test_what_another_key_made_is_not_there(client, service):
    first = ask(client)
    with pytest.raises(openai.NotFoundError):
        client.with_options(api_key=service.other_key).responses.retrieve(first.id)


@pytest.mark.parametrize(
    ("more", "exception", "param"),
    [
        ({"temperature": 3}, openai.BadRequestError, "temperature"),
        ({"input": 5}, openai.BadRequestError, "input"),
        ({"text": {"format": {"type": "yaml"}}}, openai.BadRequestError, "text.format.type"),
        ({"model": "gpt-none"}, openai.NotFoundError, "model"),
    ],
)
def test_refusals(client, more, exception, param):
    with pytest.raises(exception) as refused:
        ask(client, **more)
    assert refused.value.param == param


def test_an_unknown_previous_response(client):
    with pytest.raises((openai.NotFoundError, openai.BadRequestError)) as refused:
        ask(client, previous_response_id="resp_none")
    assert refused.value.param == "previous_response_id"


def test_leaving(client, service):
    stream = ask(client, stream=True, max_output_tokens=600, extra_body={"ignore_eos": True})
    next(event for event in stream if event.type == "response.output_text.delta")
    assert service.stats()["running"] == 1
    stream.close()
    service.idle()
