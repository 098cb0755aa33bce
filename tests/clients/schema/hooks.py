"""Short answers of the model that is there, what a schema cannot say, and streams held to what the document says of their events."""
import json

import jsonschema_rs
import schemathesis

from tiny import VOCABULARY

# The fields that bound an answer, and what a bounded one has; larger values that are allowed become this.
SHORT = {"max_tokens": 2, "max_completion_tokens": 2, "max_output_tokens": 2, "min_tokens": 1, "n": 2}
# Of each route, the field without which its answers have no bound.
BOUND = {"/v1/chat/completions": "max_completion_tokens", "/v1/completions": "max_completion_tokens", "/v1/responses": "max_output_tokens"}
# Fields that say what all of an answer is to be.
FORMS = ("response_format", "text", "output_config")


def whole(value, most):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value) and 0 < value <= most


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """For clients, an answer may have fields that they do not know. Here it may not: what is not written down is a failure."""
    schemas = raw_schema["components"]["schemas"]

    def names(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from [inner.rsplit("/", 1)[1]] if key == "$ref" and "/schemas/" in inner else names(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from names(inner)

    def close(value):
        if isinstance(value, dict):
            if "properties" in value:
                value["additionalProperties"] = False
            for inner in value.values():
                close(inner)
        elif isinstance(value, list):
            for inner in value:
                close(inner)

    asked = [operation["requestBody"] for item in raw_schema["paths"].values() for operation in item.values() if "requestBody" in operation]
    of_requests, new = set(), set(names(asked))
    while new:
        of_requests |= new
        new = set(names([schemas[name] for name in new])) - of_requests
    close([schema for name, schema in schemas.items() if name not in of_requests])


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
        if whole(body.get(field), 128 if field == "n" else 2**32 - 1):
            body[field] = min(body[field], short)
    bound = BOUND.get(case.operation.path)
    if bound and body.get(bound) is None:
        body[bound] = SHORT[bound]
    for field in ("top_p", "repetition_penalty"):
        if isinstance(body.get(field), float) and 0 < body[field] < 1e-30:
            # To the model, which counts in 32 bits, that is 0, and refused.
            body[field] = 0.5
    if isinstance(body.get("previous_response_id"), str):
        # Of none that is kept: 404 as well.
        body.pop("previous_response_id")
    names = [tool.get("function", tool).get("name") for tool in body.get("tools") or [] if isinstance(tool, dict) and isinstance(tool.get("function", {}), dict)]
    choice = body.get("tool_choice")
    function = choice.get("function", choice) if isinstance(choice, dict) else {}
    if isinstance(function, dict) and isinstance(function.get("name"), str) and function["name"] not in names:
        body.pop("tool_choice")
    if case.meta is None or case.meta.generation.mode.is_positive:
        mend(body, names)
    case.body = body


def mend(body, names):
    """Fields that do not go together, and ids that the model does not have: a schema cannot say it, and a body that is refused for it never
    gets to the model."""
    if body.get("top_logprobs") and "messages" in body:
        body["logprobs"] = True
    body.pop("best_of", None)
    if body.get("logit_bias"):
        body["logit_bias"] = {str(int(token) % VOCABULARY): bias for token, bias in body["logit_bias"].items()}
    if isinstance(body.get("prompt"), list):
        ids = lambda listed: [int(token) % VOCABULARY if isinstance(token, (int, float)) else token for token in listed]
        body["prompt"] = ids(ids(part) if isinstance(part, list) else part for part in body["prompt"])
    if isinstance(body.get("tokens"), list):
        body["tokens"] = [int(token) % VOCABULARY for token in body["tokens"]]
    for message in body.get("messages", []):
        for call in message.get("tool_calls") or []:
            if isinstance(call["function"].get("arguments"), str):
                call["function"]["arguments"] = "{}"
    if len(names) != len(set(names)):
        body["tools"] = body["tools"][:1]
    if not names and body.get("tool_choice") not in (None, "auto", "none"):
        body.pop("tool_choice")
    if any(body.get(form) for form in FORMS):
        for field in ("tools", "tool_choice"):
            body.pop(field, None)
    if body.get("tools") or any(body.get(form) for form in FORMS):
        body.pop("ignore_eos", None)


@schemathesis.check
def events_conform(ctx, response, case):
    """Each event of a stream is as the document says, and the last is an end or an error."""
    if not response.headers.get("content-type", [""])[0].startswith("text/event-stream"):
        return
    document = case.operation.schema.raw_schema
    answers = document["paths"][case.operation.path][case.operation.method.lower()]["responses"]["200"]["content"]
    described = {**answers["text/event-stream"]["x-event-schema"], "components": document["components"]}
    error = {"$ref": "#/components/schemas/Error", "components": document["components"]}
    text = response.content.decode()
    assert text.endswith("\n\n"), f"half a frame: {text[-200:]!r}"
    events = []
    for frame in text.removesuffix("\n\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.split("\n") if not line.startswith(":"))
        assert lines.keys() <= {"event", "data"}, frame
        if lines:
            events.append(lines["data"])
            assert "event" not in lines or json.loads(lines["data"])["type"] == lines["event"], frame
    if events[-1] == "[DONE]":
        events.pop()
    for event in map(json.loads, events):
        if "error" not in event or not jsonschema_rs.is_valid(error, event):
            jsonschema_rs.validate(described, event)
