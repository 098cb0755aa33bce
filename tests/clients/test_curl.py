"""curl, before a service without keys: the bytes of a stream as they come, and what happens when it leaves."""
import json
import subprocess

ASK = {"messages": [{"role": "user", "content": "Say something about the sea."}], "temperature": 0, "max_tokens": 6}


def command(service, path, body, *options, kind="application/json"):
    return ["curl", "-sN", "--max-time", "120", "-H", f"content-type: {kind}", *options, "-d", json.dumps(body), service.url + path]


def asked(service, path, body, *options, **more):
    return subprocess.run(command(service, path, body, *options, **more), capture_output=True, check=True, timeout=150).stdout.decode()


def frames(text):
    assert text.endswith("\n\n")
    for frame in text.removesuffix("\n\n").split("\n\n"):
        assert frame.startswith("data: ") and "\n" not in frame, frame
        yield frame.removeprefix("data: ")


def test_whole(open_service):
    head, _, body = asked(open_service, "/v1/chat/completions", ASK, "-i", "-H", "x-request-id: mine").partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200") and "content-type: application/json" in head.lower() and "x-request-id: mine" in head
    assert json.loads(body)["choices"][0]["message"]["content"]


def test_stream(open_service):
    head, _, body = asked(open_service, "/v1/chat/completions", {**ASK, "stream": True}, "-i", "-H", "authorization: Bearer whatever").partition("\r\n\r\n")
    for line in ("content-type: text/event-stream", "cache-control: no-cache", "x-accel-buffering: no", "transfer-encoding: chunked"):
        assert line in head.lower()
    *chunks, done = frames(body)
    chunks = [json.loads(chunk) for chunk in chunks]
    assert done == "[DONE]" and chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length") and chunks[-1]["coxswain"]["ttft_ms"] > 0


def test_messages_and_responses(open_service):
    """Their events have names; every one of them says its name twice."""
    for path, body in (("/v1/messages", ASK), ("/v1/responses", {"input": "Say something.", "max_output_tokens": 16})):
        said = asked(open_service, path, {**body, "stream": True})
        assert said.endswith("\n\n")
        for frame in said.removesuffix("\n\n").split("\n\n"):
            name, data = frame.split("\n")
            assert name.startswith("event: ") and json.loads(data.removeprefix("data: "))["type"] == name.removeprefix("event: ")


def test_leaving(open_service):
    """The first frame is there while the row runs; once curl is gone, so is the row."""
    body = {**ASK, "stream": True, "max_tokens": 2000, "ignore_eos": True}
    with subprocess.Popen(command(open_service, "/v1/chat/completions", body), stdout=subprocess.PIPE) as curl:
        try:
            assert curl.stdout.readline().startswith(b"data: {")
            assert open_service.stats()["running"] == 1
        finally:
            curl.terminate()
    open_service.idle()
    # One that is not streamed leaves as well.
    with subprocess.Popen(command(open_service, "/v1/chat/completions", {**body, "stream": False}), stdout=subprocess.PIPE) as curl:
        try:
            while not open_service.stats()["running"]:
                assert curl.poll() is None
        finally:
            curl.terminate()
    open_service.idle()


def test_refusals(open_service):
    status = ("-o", "/dev/null", "-w", "%{http_code}")
    assert asked(open_service, "/v1/chat/completions", {**ASK, "temperature": 3}, *status) == "400"
    assert asked(open_service, "/v1/none", ASK, *status) == "404"
    assert asked(open_service, "/v1/models", ASK, *status) == "405"
    assert asked(open_service, "/v1/chat/completions", ASK, *status, kind="text/plain") == "415"
