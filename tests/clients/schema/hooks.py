"""Short answers of the model that is there, and streams held to what the document says of their events."""
import json

import jsonschema_rs
import schemathesis

# The fields that bound an answer, and what a bounded one has; larger values that are allowed become this.
SHORT = {"max_tokens": 2, "max_completion_tokens": 2, "max_output_tokens": 2, "min_tokens": 1, "n": 2, "best_of": 1}
# Of each route, the field without which its answers have no bound.
BOUND = {"/v1/chat/completions": "max_completion_tokens", "/v1/completions": "max_completion_tokens", "/v1/responses": "max_output_tokens"}


@schemathesis.hook
def before_call(context, case, kwargs):
    """What is right stays right, and what is wrong stays wrong."""
    if not isinstance(case.body, dict):
        return
    body = dict(case.body)
    if isinstance(body.get("model"), str):
        # Any other name is 404 before anything else is looked at.
        body["model"] = "default"
    for field, short in SHORT.items():
        value = body.get(field)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value) and short < value <= 128:
            body[field] = short
        elif isinstance(value, int) and not isinstance(value, bool) and 128 < value < 2**32 and field not in ("n", "best_of"):
            body[field] = short
    bound = BOUND.get(case.operation.path)
    if bound and body.get(bound) is None:
        body[bound] = SHORT[bound]
    case.body = body


@schemathesis.check
def events_conform(ctx, response, case):
    """Each event of a stream is as the document says, and the last is an end or an error."""
    if not response.headers.get("content-type", [""])[0].startswith("text/event-stream"):
        return
    document = case.operation.schema.raw_schema
    answers = document["paths"][case.operation.path][case.operation.method.lower()]["responses"]["200"]["content"]
    described = {**answers["text/event-stream"]["x-event-schema"], "components": document["components"]}
    error = {"$ref": "#/components/schemas/Error", "components": document["components"]}
    events, text = [], response.content.decode()
    assert text.endswith("\n\n"), f"half a frame: {text[-200:]!r}"
    for frame in text.removesuffix("\n\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.split("\n") if not line.startswith(":"))
        assert lines.keys() <= {"event", "data"}, frame
        if lines:
            events.append(lines["data"])
            assert "event" not in lines or json.loads(lines["data"])["type"] == lines["event"], frame
    if events[-1] == "[DONE]":
        events.pop()
    for event in map(json.loads, events):
        if "error" in event and jsonschema_rs.is_valid(error, event):
            continue
        jsonschema_rs.validate(described, event)
