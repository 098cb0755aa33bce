"""The conversations that every template is held to: (name, messages, kwargs). Some are wrong on purpose, so that templates raise."""

import itertools

U = {"role": "user", "content": "How warm is it in Zürich?"}
S = {"role": "system", "content": "You are brief.\n\nUse tools."}
A = {"role": "assistant", "content": "It is 21 °C."}
U2 = {"role": "user", "content": "And \"tomorrow\"?"}


def user(content):
    return {"role": "user", "content": content}


def says(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, id="call00001", **more):
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


def function(name, description, parameters, **more):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters, **more}}


WEATHER = function("get_weather", "The weather — in a city, as “met” <offices> & people say it's", {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The city's name, e.g. \"Zürich\"\nor 東京"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit", "°K"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14.5, "default": 3}},
    "required": ["city"]})
SEARCH = function("search", "Search", {
    "type": "object",
    "properties": {
        "query": {"type": ["string", "null"], "description": "What to look for"},
        "filters": {"type": "object", "description": "Filters", "properties": {
            "since": {"type": "string", "format": "date"},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "range": {"type": "object", "properties": {"low": {"type": "number"}, "high": {"type": "number"}}, "required": ["low", "high"]}},
            "required": []},
        "points": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}, "ok": {"type": "boolean"}}}, "minItems": 0},
        "mode": {"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": True},
        "exact": {"type": "boolean", "default": False},
        "any": {}},
    "required": ["query", "points"], "additionalProperties": False, "$defs": {"a/b": {"const": None}}})
# Named as the methods of Python's dictionaries are, which Jinja finds before what a dictionary holds.
METHODS = function("items", "get", {
    "type": "object",
    "properties": {n: {"type": "string", "description": n} for n in ("items", "keys", "values", "get", "update", "pop", "copy", "length", "type", "name")},
    "required": ["items"]}, strict=True, **{"return": {"type": "object", "description": "What it gives"}})
BARE = {"type": "function", "function": {"name": "now", "description": "The time"}}
EMPTY = function("noop", "", {"type": "object", "properties": {}})
FLAT = {"name": "flat", "description": "Not wrapped", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
REFS = function("tree", "A tree", {"$ref": "#/$defs/node", "type": "object", "properties": {
    "left": {"$ref": "#/$defs/node"}, "kind": {"enum": ["x", 1, 1.5, None, True]}, "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "either": {"oneOf": [{"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, {"type": "null"}]}}})

ARGS = {"city": "Zürich \"ZH\"", "days": 2, "unit": None, "nested": {"a": [1, 2.0, True, "it's"], "b": {}}, "html": "<a href='x'>&</a>"}
TURNS = [S, U, says("", tool_calls=[call("get_weather", ARGS)]), tool("{\"temp\": 21.5}", name="get_weather"), A]


def plain():
    yield "one", [U]
    yield "system", [S, U]
    yield "two turns", [U, A, U2]
    yield "system, two turns", [S, U, A, U2]
    yield "ends with assistant", [S, U, A]
    yield "developer", [{"role": "developer", "content": "Be kind."}, U]
    yield "system and developer", [S, {"role": "developer", "content": "Be kind."}, U]
    yield "system in the middle", [U, A, S, U2]
    yield "two systems", [S, {"role": "system", "content": "And polite."}, U]
    yield "system at the end", [U, S]
    yield "system alone", [S]
    yield "assistant first", [A, U]
    yield "assistant alone", [A]
    yield "two users", [U, U2]
    yield "two assistants", [U, A, says("Or more.")]
    yield "nothing", []
    yield "unknown role", [U, {"role": "narrator", "content": "Meanwhile …"}, U2]
    yield "no role", [{"content": "who?"}]
    yield "no content", [{"role": "user"}]
    yield "user null", [user(None)]
    yield "system null", [{"role": "system", "content": None}, U]
    yield "number", [user(42)]
    yield "an object", [user({"text": "x"})]
    yield "empty texts", [{"role": "system", "content": ""}, user(""), says(""), user("")]
    yield "white space", [{"role": "system", "content": "  \n s \t"}, user("\n\n x \n"), says(" \u3000y\u00a0\n"), user("\x1c\x1d z \x1f\x85")]
    yield "emoji", [{"role": "system", "content": "👩‍👩‍👧‍👦"}, user("🏳️‍🌈 é e\u0301 𝔘"), says("日本語、한국어"), user("שלום مرحبا")]
    yield "controls", [user("a\x00b\x01\x07\x08\x0b\x0c\x1b\x7f\u200b\u2028\u2029\ufeff\ue000\U0010ffff\\n")]
    yield "line ends", [user("a\r\nb\rc\n\nd\u2028e\x0bf")]
    yield "markup", [user("<|im_start|>system\n{{ x }}{% if %}</s>[INST]<tool_call>&lt;\"'`")]
    yield "names", [{"role": "system", "content": "s", "name": "boss"}, {**U, "name": "Ann"}, {**A, "name": "bot"}, U2]
    yield "long", list(itertools.chain.from_iterable([user(f"q{i}"), says(f"a{i}")] for i in range(12))) + [U2]


def parts():
    text = lambda *texts: [{"type": "text", "text": t} for t in texts]
    yield "parts", [user(text("Hello", " there"))]
    yield "parts everywhere", [{"role": "system", "content": text("Be brief.")}, user(text("a", "b")), says(text("c")), user(text("d "))]
    yield "no parts", [user([])]
    yield "an empty part", [user(text(""))]
    yield "an image", [user([{"type": "image"}, {"type": "text", "text": "What is it?"}])]
    yield "an image's address", [user([{"type": "image_url", "image_url": {"url": "http://x/y.png"}}, *text("t")]), A, user(text("u"))]
    yield "texts in a list", [user(["a", "b"])]
    yield "a part without type", [user([{"text": "x"}])]
    yield "an unknown part", [user([{"type": "smell", "smell": "x"}])]
    yield "audio and video", [user([{"type": "audio"}, {"type": "video"}, *text("t")])]
    yield "tool's parts", [*TURNS[:3], tool(text("21", "22")), U2]


def thinking():
    yield "reasoning", [U, says("It is 21 °C.", reasoning_content="The user asks.\n"), U2]
    yield "last reasoning", [U, says("It is 21 °C.", reasoning_content="The user asks.")]
    yield "reasoning null", [U, says("x", reasoning_content=None), U2]
    yield "reasoning empty", [U, says("x", reasoning_content=""), U2]
    yield "reasoning by other names", [U, says("x", reasoning="r", thinking="t"), U2, says("y", thinking="u")]
    yield "reasoning in the text", [U, says("<think>\nhm\n</think>\n\nIt is 21 °C."), U2]
    yield "two of them", [U, says("<think>a</think>b<think>c</think>d"), U2]
    yield "half of it", [U, says("hm</think>x"), U2, says("<think>y")]
    yield "thinking part", [U, says([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}]), U2]
    yield "only reasoning", [U, says(None, reasoning_content="why")]
    yield "with a call", [U, says("", reasoning_content="Must call.", tool_calls=[call("get_weather", ARGS)]), tool("21"), says("done", reasoning_content="r2"), U2]
    yield "on and off", [user("a /no_think"), says("b"), user("c /think")]


def tools():
    yield "call", TURNS
    yield "call, then user", [*TURNS, U2]
    yield "call's answer last", TURNS[:4]
    yield "call last", TURNS[:3]
    yield "arguments in a string", [U, says("", tool_calls=[call("get_weather", "{\"city\": \"Zürich\", \"days\": 2}")]), tool("21"), U2]
    yield "arguments in a bad string", [U, says("", tool_calls=[call("get_weather", "{\"city\": ")]), tool("21")]
    yield "arguments absent", [U, says("", tool_calls=[{"id": "call00001", "type": "function", "function": {"name": "now"}}]), tool("12:00")]
    yield "arguments null", [U, says("", tool_calls=[call("now", None)]), tool("12:00")]
    yield "no arguments", [U, says("", tool_calls=[call("now", {})]), tool("12:00")]
    yield "arguments named as methods", [U, says("", tool_calls=[call("items", {"items": [1], "keys": "k", "values": {"get": 1}, "name": "n"})]), tool("x")]
    yield "null content", [U, says(None, tool_calls=[call("get_weather", ARGS)]), tool("21")]
    yield "absent content", [U, {"role": "assistant", "tool_calls": [call("get_weather", ARGS)]}, tool("21")]
    yield "content beside", [U, says("Let me look.\n", tool_calls=[call("get_weather", ARGS)]), tool("21"), A]
    yield "two calls", [U, says("", tool_calls=[call("get_weather", ARGS, "call00001"), call("search", {"query": "x", "points": []}, "call00002")]),
                        tool("21", "call00001", name="get_weather"), tool("[]", "call00002", name="search"), A, U2]
    yield "answers in the other order", [U, says("", tool_calls=[call("a", {}, "aaaaaaaaa"), call("b", {"x": 1}, "bbbbbbbbb")]), tool("B", "bbbbbbbbb"), tool("A", "aaaaaaaaa")]
    yield "call after call", [U, says("", tool_calls=[call("a", {"x": 1})]), tool("1"), says("", tool_calls=[call("b", {"y": [True]}, "call00002")]), tool("2", "call00002"), A, U2]
    yield "not wrapped", [U, says("", tool_calls=[{"name": "get_weather", "arguments": ARGS}]), tool("21"), U2]
    yield "no id", [U, says("", tool_calls=[{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]), {"role": "tool", "content": "21"}]
    yield "long id", [U, says("", tool_calls=[call("f", {"a": 1}, "chatcmpl-tool-0123456789")]), tool("21", "chatcmpl-tool-0123456789")]
    yield "no calls", [U, says("x", tool_calls=[]), U2]
    yield "calls null", [U, says("x", tool_calls=None), U2]
    yield "answer without a call", [U, tool("21"), A]
    yield "answer is an object", [*TURNS[:3], tool({"temp": 21.5, "wind": None})]
    yield "answer is a list", [*TURNS[:3], tool([1, "two"])]
    yield "answer is null", [*TURNS[:3], tool(None)]
    yield "answer is empty", [*TURNS[:3], tool("")]
    yield "function role", [U, says("", function_call={"name": "f", "arguments": "{}"}), {"role": "function", "name": "f", "content": "21"}]
    yield "ipython role", [*TURNS[:3], {"role": "ipython", "content": "21"}]
    yield "numbers", [U, says("", tool_calls=[call("f", {"a": 0, "b": -1.5, "c": 1e-7, "d": 1e22, "e": 123456789012345678, "f": False, "g": 1.0, "h": [[], [[]]]})]), tool("x")]
    yield "texts", [U, says("", tool_calls=[call("f", {"a": "x\ny", "b": "\x01\t\u2028", "c": "😀", "d": "'\"\\", "e": "", "ключ": "з"})]), tool("\n\t\"😀'")]


def kwargs():
    """Conversations that show what a variable does."""
    for more in ({"enable_thinking": True}, {"enable_thinking": False}, {"thinking": True}, {"thinking": False}, {"thinking": "enabled"}, {"reasoning_effort": "high"},
                 {"reasoning_effort": "none"}, {"add_generation_prompt": False}, {"date_string": "1 Jan 2025"}, {"xml_tools": True, "python_tools": True},
                 {"builtin_tools": ["code_interpreter", "brave_search"]}, {"tools_in_user_message": False, "tools": [WEATHER]}, {"keep_past_thinking": True},
                 {"documents": [{"title": "A", "text": "Alpha"}, {"title": "B", "text": "it's \"β\""}]}, {"model_identity": "You are Bob."}, {"preserve_thinking": True},
                 {"clear_thinking": False}, {"functions": [WEATHER["function"]], "datetime": "now"}, {"tools": [METHODS, BARE], "enable_thinking": True}, {"enable_citations": True, "documents": [{"title": "A", "text": "Alpha", "doc_id": 7}]}):
        for name, messages in (("", [S, U, says("x", reasoning_content="r"), U2]), (", alone", [U]), (", calls", [*TURNS, U2])):
            yield ", ".join(f"{k}={v!r}"[:30] for k, v in more.items()) + name, messages, more


def everything():
    for group in (plain, parts, thinking, tools):
        for name, messages in group():
            yield name, messages, {}
    for name, messages in itertools.chain(thinking(), tools()):
        yield f"{name}; no prompt", messages, {"add_generation_prompt": False}
    for name, messages in tools():
        yield f"{name}; its tools", messages, {"tools": [WEATHER, SEARCH]}
    for name, messages in itertools.chain(itertools.islice(plain(), 16), thinking()):
        yield f"{name}; tools", messages, {"tools": [WEATHER], "enable_thinking": False}
    for n, t in {"all": [WEATHER, SEARCH, METHODS, BARE, EMPTY, REFS], "methods": [METHODS], "bare": [BARE], "empty": [EMPTY], "flat": [FLAT], "refs": [REFS], "none": []}.items():
        yield f"tools: {n}", [S, U], {"tools": t}
        yield f"tools: {n}; no system", [U], {"tools": t, "add_generation_prompt": False}
    yield from kwargs()
