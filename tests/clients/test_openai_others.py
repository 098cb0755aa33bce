"""`openai`: completions, models, and which exception each refusal becomes."""
import openai
import pytest


@pytest.fixture(scope="module")
def client(service):
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key=service.key, max_retries=0, timeout=120)


def complete(client, **more):
    return client.completions.create(**{"model": "default", "prompt": "The tide", "max_tokens": 4, "temperature": 0, **more})


def test_prompts(client):
    plain = complete(client)
    ids = client.post("/../tokenize", cast_to=object, body={"prompt": "The tide"})["tokens"]
    assert plain.object == "text_completion" and plain.id.startswith("cmpl-") and plain.choices[0].text
    assert plain.usage.prompt_tokens == len(ids) and plain.usage.completion_tokens <= 4
    for prompt in (ids, [ids], ["The tide"]):
        assert complete(client, prompt=prompt).choices[0].text == plain.choices[0].text
    assert client.post("/../detokenize", cast_to=object, body={"tokens": ids})["prompt"] == "The tide"


def test_stream(client):
    *chunks, last = complete(client, stream=True, stream_options={"include_usage": True})
    assert "".join(chunk.choices[0].text for chunk in chunks) == complete(client).choices[0].text
    assert last.choices == [] and last.usage.completion_tokens <= 4


def test_logprobs(client):
    answer = complete(client, logprobs=2)
    said = answer.choices[0].logprobs
    assert "".join(said.tokens) == answer.choices[0].text and len(said.tokens) == answer.usage.completion_tokens
    assert all(logprob <= 0 for logprob in said.token_logprobs) and all(len(top) == 2 for top in said.top_logprobs)
    assert said.text_offset == [len("".join(said.tokens[:i])) for i in range(len(said.tokens))]


def test_several_and_stop(client):
    answer = complete(client, n=2, temperature=1, seed=3)
    assert [choice.index for choice in answer.choices] == [0, 1]
    text = complete(client, max_tokens=8).choices[0].text
    assert complete(client, max_tokens=8, stop=text[3:5]).choices[0].text == text[: text.index(text[3:5])]


@pytest.mark.parametrize(("field", "value"), [("echo", True), ("suffix", "end")])
def test_what_is_not_served_is_refused(client, field, value):
    with pytest.raises(openai.BadRequestError) as refused:
        complete(client, **{field: value})
    assert refused.value.param == field and refused.value.code == "unsupported_parameter"


def test_models(client):
    (model,) = client.models.list().data
    assert model.object == "model" and model.created > 0 and model.max_model_len > 0
    assert client.models.retrieve(model.id).id == model.id
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("gpt-none")
    assert missing.value.code == "model_not_found"


def chat(client, **more):
    return client.chat.completions.create(**{"model": "default", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, **more})


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"n": 0}, "n"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages[0].content[0].type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias"),
        ({"max_tokens": 10_000_000}, "max_tokens"),
    ],
)
def test_bad_requests_name_the_field(client, more, param):
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, **more)
    assert (refused.value.param, refused.value.type) == (param, "invalid_request_error") and refused.value.code
    assert refused.value.request_id


def test_a_prompt_beyond_the_context(client):
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, messages=[{"role": "user", "content": "sea " * 50_000}])
    assert refused.value.code == "context_length_exceeded"


def test_no_such_model_or_route(client):
    with pytest.raises(openai.NotFoundError) as refused:
        chat(client, model="gpt-none")
    assert refused.value.param == "model"
    with pytest.raises(openai.NotFoundError):
        client.images.generate(model="default", prompt="a boat")


def test_keys(client, service):
    with pytest.raises(openai.AuthenticationError) as refused:
        chat(client.with_options(api_key="sk-cox-wrong"))
    assert refused.value.type == "authentication_error"
    slow = client.with_options(api_key=service.slow_keys.pop())
    with pytest.raises(openai.RateLimitError) as refused:
        for _ in range(2):
            chat(slow)
    assert int(refused.value.response.headers["retry-after"]) > 0 and refused.value.code == "rate_limit_exceeded"


def test_the_clients_own_request_id(client):
    answer = chat(client, extra_headers={"x-request-id": "a-name-of-mine"})
    assert answer._request_id == "a-name-of-mine"
