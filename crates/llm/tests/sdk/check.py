"""Holds requests against the types in the services' own clients.

Reads lines of {"dialect", "name", "body"} from standard input, as `cargo run -p llm --example
requests` prints them. First it spoils requests in ways that a server would refuse and makes sure
that it notices each. Ends with 1 when a request does not fit, or when there was none for a dialect.

The clients describe requests as TypedDicts, which nothing checks at run time: validators that take
them let unknown keys pass and look into iterables lazily. So the annotations are walked here.
"""

import collections.abc
import copy
import json
import sys
import types
import typing
import warnings

import typing_extensions
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from google.genai import types as gemini
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter, ValidationError

UNIONS = (typing.Union, types.UnionType)
MARKS = {typing_extensions.Required, typing_extensions.NotRequired, typing_extensions.ReadOnly}
LISTS = (list, collections.abc.Iterable, collections.abc.Sequence)
MAPPINGS = (dict, collections.abc.Mapping)


class Misfit(Exception):
    """A value that is not of its type; `depth` says how far in, to tell the best of a union."""

    def __init__(self, path, why):
        super().__init__(f"{path or '/'}: {why}")
        self.depth = path.count("/")


def shown(value):
    text = json.dumps(value)
    return text if len(text) < 120 else text[:117] + "..."


def check(value, kind, path=""):
    """Raises Misfit unless the JSON `value` is of the annotated `kind`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in (typing.Any, object):
        return
    if isinstance(kind, typing_extensions.TypeAliasType):
        check(value, kind.__value__, path)
    elif origin is typing.Annotated or origin in MARKS:
        check(value, arguments[0], path)
    elif origin in UNIONS:
        check_union(value, arguments, path)
    elif origin is typing.Literal:
        if value not in arguments or isinstance(value, bool) != any(value is a for a in (True, False)):
            raise Misfit(path, f"{shown(value)} is none of {', '.join(map(repr, arguments))}")
    elif origin in LISTS or getattr(origin, "__name__", None) == "SequenceNotStr":
        if not isinstance(value, list):
            raise Misfit(path, f"{shown(value)} is no list")
        for at, item in enumerate(value):
            check(item, arguments[0], f"{path}/{at}")
    elif origin in MAPPINGS or kind is dict:
        if not isinstance(value, dict):
            raise Misfit(path, f"{shown(value)} is no object")
        for name, item in value.items():
            check(item, arguments[1] if arguments else object, f"{path}/{name}")
    elif typing_extensions.is_typeddict(kind):
        check_fields(value, kind, path)
    else:
        check_plain(value, kind, path)


def check_union(value, kinds, path):
    misfits = []
    for kind in kinds:
        try:
            return check(value, kind, path)
        except Misfit as misfit:
            misfits.append(misfit)
    raise max(misfits, key=lambda misfit: misfit.depth)


def check_fields(value, kind, path):
    if not isinstance(value, dict):
        raise Misfit(path, f"{shown(value)} is no object ({kind.__name__})")
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    for name in value:
        if name not in hints:
            raise Misfit(f"{path}/{name}", f"{kind.__name__} has no such field")
    for name, hint in hints.items():
        if name in value:
            check(value[name], hint, f"{path}/{name}")
        elif is_required(name, hint, kind):
            raise Misfit(f"{path}/{name}", f"{kind.__name__} demands this field")


def is_required(name, hint, kind):
    # The annotations are text, so the classes themselves do not know which fields are marked.
    marks = set()
    while typing.get_origin(hint) in MARKS | {typing.Annotated}:
        marks.add(typing.get_origin(hint))
        hint = typing.get_args(hint)[0]
    if marks & {typing_extensions.Required, typing_extensions.NotRequired}:
        return typing_extensions.Required in marks
    return name in kind.__required_keys__


def check_plain(value, kind, path):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = {
        str: isinstance(value, str),
        bool: isinstance(value, bool),
        int: is_number and isinstance(value, int),
        float: is_number,
        type(None): value is None,
    }
    if not fits.get(kind, False):
        raise Misfit(path, f"{shown(value)} is no {getattr(kind, '__name__', kind)}")


GEMINI_FIELDS = {
    "systemInstruction": gemini.Content,
    "contents": list[gemini.Content],
    "tools": list[gemini.Tool],
    "toolConfig": gemini.ToolConfig,
    "generationConfig": gemini.GenerationConfig,
}


def check_gemini(body):
    """This client has models that refuse unknown fields; the body itself has none in it."""
    for name, value in body.items():
        if name not in GEMINI_FIELDS:
            raise Misfit(f"/{name}", "generateContent has no such field")
        try:
            # A word that it does not know is a warning there. As JSON, so that base64 and names in camel case are read as on the wire.
            TypeAdapter(GEMINI_FIELDS[name]).validate_json(json.dumps(value))
        except ValidationError as error:
            first = error.errors()[0]
            raise Misfit("/".join(map(str, ("", name, *first["loc"]))), first["msg"]) from None
        except UserWarning as warning:
            raise Misfit(f"/{name}", str(warning)) from None
    if "contents" not in body:
        raise Misfit("/contents", "generateContent demands this field")


CHECKS = {
    "anthropic": lambda body: check(body, MessageCreateParamsStreaming),
    "openai-chat": lambda body: check(body, CompletionCreateParamsStreaming),
    "openai-responses": lambda body: check(body, ResponseCreateParamsStreaming),
    "gemini": check_gemini,
}


def misfit(dialect, body):
    """Why a request does not fit, or None."""
    try:
        CHECKS[dialect](body)
    except Misfit as misfit:
        return str(misfit)
    return None


# What a client's types leave out although the service takes it, with the reason.
LEFT_OUT = {
    ("anthropic", "/temperature: MessageCreateParamsStreaming has no such field"):
        "it went with the models that refuse it; the older ones still take it and get it alone",
}


def put(value, *path):
    def spoil(body):
        *way, last = path
        for step in way:
            body = body[step]
        body[last] = value
    return spoil


def drop(*path):
    def spoil(body):
        *way, last = path
        for step in way:
            body = body[step]
        del body[last]
    return spoil


# What a server would refuse: a field that is unknown, far in or at the top, one that is missing, one
# of another type and a word that it does not know. Each is done to a request that fits.
SPOILED = {
    "anthropic": [
        put(1, "max_completion_tokens"),
        put("x", "messages", 0, "content", 0, "txt"),
        put("system", "messages", 0, "role"),
        put([{"type": "text"}], "system"),
        put("9", "max_tokens"),
        drop("max_tokens"),
        drop("messages", 1, "content", 0, "signature"),
        put("huge", "output_config", "effort"),
        put({"type": "ephemeral", "ttl": "1d"}, "system", 0, "cache_control"),
        put("image/tiff", "messages", 0, "content", 1, "source", "media_type"),
    ],
    "openai-chat": [
        put("t", "messages", 2, "reasoning_content"),
        put({"type": "ephemeral"}, "cache_control"),
        put({}, "messages", 2, "tool_calls", 0, "function", "arguments"),
        put("image", "messages", 1, "content", 1, "type"),
        drop("messages", 3, "tool_call_id"),
        put("huge", "reasoning_effort"),
        put({"include_usage": "yes"}, "stream_options"),
    ],
    "openai-responses": [
        put(1, "max_tokens"),
        drop("input", 0, "role"),
        put({}, "input", 4, "arguments"),
        put("x", "input", 4, "tool_call_id"),
        put({"effort": "huge"}, "reasoning"),
        put("text", "input", 0, "content", 0, "type"),
        drop("tools", 0, "strict"),
    ],
    "gemini": [
        put(1, "max_tokens"),
        drop("contents"),
        put("x", "contents", 0, "parts", 0, "txt"),
        put("HUGE", "generationConfig", "thinkingConfig", "thinkingLvl"),
        put("HUGE", "generationConfig", "thinkingConfig", "thinkingLevel"),
        put("text", "contents", 1, "parts", 3, "functionCall", "args"),
        put("not base64!", "contents", 0, "parts", 1, "inlineData", "data"),
        put({}, "tools", 0, "functionDeclarations", 0, "input_schema"),
    ],
}


def check_the_check(requests):
    """Spoils the most telling request of each dialect, and returns what was not noticed."""
    unnoticed = []
    for dialect, spoils in SPOILED.items():
        whole = next(r["body"] for r in requests if r["dialect"] == dialect and "thoughtful" in r["name"])
        for number, spoil in enumerate(spoils):
            body = copy.deepcopy(whole)
            spoil(body)
            if misfit(dialect, body) is None:
                unnoticed.append(f"{dialect}: the spoiled request {number} passes")
    return unnoticed


def main():
    warnings.simplefilter("error", UserWarning)
    requests = [json.loads(line) for line in sys.stdin if line.strip()]
    faults = [f"no request for {dialect}" for dialect in CHECKS
              if all(request["dialect"] != dialect for request in requests)]
    if not faults:
        faults = check_the_check(requests)
    left_out = set()
    for request in requests:
        why = misfit(request["dialect"], request["body"])
        if (request["dialect"], why) in LEFT_OUT:
            left_out.add((request["dialect"], why))
        elif why is not None:
            faults.append(f"{request['dialect']} ({request['name']}): {why}")
    faults += [f"{dialect}: no request needs the exception for {why!r}"
               for dialect, why in LEFT_OUT.keys() - left_out]
    for fault in faults:
        print(fault)
    spoiled = sum(map(len, SPOILED.values()))
    print(f"{len(requests)} requests held against the clients' types, {spoiled} spoiled ones refused, "
          f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
