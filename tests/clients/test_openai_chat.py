"""`openai` and /v1/chat/completions: what a chat is asked for and what comes back. The model is tiny: what it says is not judged."""
import asyncio
import json
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

SEA = [{"role": "user", "content": "Say something about the sea."}]


@pytest.fixture(scope="module")
def client(service):
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key=service.key, max_retries=0, timeout=120)


def ids(client, text):
    """The served tokenizer's ids of a text."""
    return client.post("/../tokenize", cast_to=object, body={"prompt": text})["tokens"]


def chat(client, **more):
    return client.chat.completions.create(**{"model": "default", "messages": SEA, "max_tokens": 6, "temperature": 0, **more})


def joined(chunks, choice=0):
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices if c.index == choice)


def test_plain(client, service):
    answer = chat(client)
    (choice,) = answer.choices
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-") and answer.model == client.models.list().data[0].id
    assert choice.index == 0 and choice.message.role == "assistant" and choice.message.content and choice.finish_reason in ("length", "stop")
    assert choice.message.tool_calls is None and choice.logprobs is None
    assert 0 < answer.usage.completion_tokens <= 6 and answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0
    assert answer._request_id
    service.idle()


def test_roles_and_parts(client):
    turns = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "One word "}, {"type": "text", "text": "for water?"}], "name": "ada"},
        {"role": "assistant", "content": "Sea."},
        {"role": "user", "content": "Another?"},
    ]
    longer = chat(client, messages=turns, max_completion_tokens=2, user="someone", max_tokens=None)
    assert longer.usage.completion_tokens <= 2
    assert longer.usage.prompt_tokens > chat(client, messages=turns[1:2], max_tokens=1).usage.prompt_tokens


def test_stream(client):
    whole = chat(client)
    chunks = list(chat(client, stream=True))
    assert {c.id for c in chunks} == {chunks[0].id} and all(c.object == "chat.completion.chunk" and c.usage is None for c in chunks)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert joined(chunks) == whole.choices[0].message.content
    assert [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason] == [whole.choices[0].finish_reason]


def test_stream_usage(client):
    *chunks, last = chat(client, stream=True, stream_options={"include_usage": True})
    assert all(c.usage is None and c.choices for c in chunks)
    assert last.choices == [] and last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens > 0


def test_stream_helper(client):
    """It takes an answer that was cut for an error: this one ends by itself."""
    text = chat(client).choices[0].message.content
    with client.chat.completions.stream(model="default", messages=SEA, max_tokens=6, temperature=0, stop=text[-3:]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert kinds.count("content.done") == 1 and "content.delta" in kinds
    assert final.choices[0].message.content == text[: text.index(text[-3:])]


def test_several(client):
    answer = chat(client, n=2, temperature=1.2, seed=5, max_tokens=4)
    assert [c.index for c in answer.choices] == [0, 1]
    assert answer.usage.completion_tokens <= 8
    chunks = list(chat(client, n=2, temperature=1.2, seed=5, max_tokens=4, stream=True))
    assert [joined(chunks, i) for i in (0, 1)] == [c.message.content for c in answer.choices]
    assert sorted(c.index for chunk in chunks for c in chunk.choices if c.finish_reason) == [0, 1]


def held(entries, text):
    """What log-probabilities say is what was said, and the likeliest are in order."""
    assert b"".join(bytes(e.bytes) for e in entries).decode() == text
    for entry in entries:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 3
        likeliest = [top.logprob for top in entry.top_logprobs]
        assert likeliest == sorted(likeliest, reverse=True)
        assert entry.token == entry.top_logprobs[0].token, "greedy"


def test_logprobs(client):
    answer = chat(client, logprobs=True, top_logprobs=3)
    choice = answer.choices[0]
    assert len(choice.logprobs.content) == answer.usage.completion_tokens
    held(choice.logprobs.content, choice.message.content)
    chunks = list(chat(client, logprobs=True, top_logprobs=3, stream=True))
    entries = [e for chunk in chunks for c in chunk.choices if c.logprobs for e in c.logprobs.content]
    assert [e.token for e in entries] == [e.token for e in choice.logprobs.content]
    held(entries, joined(chunks))


def test_logit_bias(client):
    (moon,) = ids(client, " moon")
    assert chat(client, logit_bias={moon: 100}, max_tokens=3).choices[0].message.content == " moon moon moon"
    first = chat(client, max_tokens=1).choices[0].message.content
    (banned,) = ids(client, first)
    assert chat(client, logit_bias={banned: -100}, max_tokens=1).choices[0].message.content != first


def test_penalties(client):
    """A row that would only repeat itself says more than one thing once that costs."""
    def words(**more):
        entries = client.chat.completions.create(model="default", messages=[{"role": "user", "content": "go go go go go go"}], temperature=0,
                                                 max_tokens=8, logprobs=True, logit_bias=forced, **more).choices[0].logprobs.content
        return {e.token for e in entries}
    (go,) = ids(client, " go")
    forced = {go: 30}
    assert len(words()) == 1
    assert len(words(frequency_penalty=2, presence_penalty=2, extra_body={"repetition_penalty": 100})) > 1


def test_stop_strings(client):
    """A stop string that begins in one token and ends in the next; none of it is said, whole or streamed."""
    plain = chat(client, logprobs=True, max_tokens=12)
    text, tokens = plain.choices[0].message.content, [e.token for e in plain.choices[0].logprobs.content]
    stop = next(a[-1] + b[:2] for a, b in zip(tokens[2:], tokens[3:]) if len(b) > 1)
    answer = chat(client, stop=[stop, "\0never"], max_tokens=12)
    assert answer.choices[0].message.content == text[:text.index(stop)] and answer.choices[0].finish_reason == "stop"
    chunks = list(chat(client, stop=stop, max_tokens=12, stream=True))
    assert joined(chunks) == text[:text.index(stop)]


def test_seed(client):
    draw = lambda seed: chat(client, seed=seed, temperature=1.8, top_p=0.95, extra_body={"top_k": 200, "min_p": 0.001})
    first, again, other = draw(7), draw(7), draw(8)
    assert first.choices[0].message.content == again.choices[0].message.content != other.choices[0].message.content
    assert first.coxswain["seed"] == 7


class Light(BaseModel):
    state: Literal["on", "off"]
    level: Literal[1, 2]


def test_json_schema(client):
    answer = client.chat.completions.parse(model="default", messages=SEA, response_format=Light, max_tokens=40, temperature=0)
    message = answer.choices[0].message
    assert isinstance(message.parsed, Light) and answer.choices[0].finish_reason == "stop"
    with client.chat.completions.stream(model="default", messages=SEA, response_format=Light, max_tokens=40, temperature=0) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.parsed == message.parsed


def test_json_object(client):
    messages = [{"role": "user", "content": 'Answer with the JSON {"a": 1}.'}]
    choice = chat(client, messages=messages, response_format={"type": "json_object"}, max_tokens=24).choices[0]
    assert choice.message.content.lstrip().startswith("{")
    assert choice.finish_reason == "length" or isinstance(json.loads(choice.message.content), dict)


def test_several_clients_at_once(service):
    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key=service.key, max_retries=0, timeout=120) as client:
            ask = lambda i: client.chat.completions.create(model="default", messages=SEA, max_tokens=3, seed=i)
            return await asyncio.gather(*map(ask, range(3)))
    assert len({answer.id for answer in asyncio.run(all_of_them())}) == 3


def test_leaving(client, service):
    stream = chat(client, stream=True, max_tokens=600, extra_body={"ignore_eos": True})
    next(iter(stream))
    assert service.stats()["running"] == 1
    stream.close()
    service.idle()
