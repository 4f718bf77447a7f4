"""Uses a server through ``litellm``: formats, tools, streams, errors."""

from __future__ import annotations

import importlib.metadata
import json
import os

import litellm
from pydantic import BaseModel, Field

MODEL = "openai/" + os.environ["GUIDERAIL_MODEL"]
SERVER = {"api_base": os.environ["GUIDERAIL_URL"] + "/v1", "api_key": "key", "num_retries": 0, "model": MODEL}
ASK = [{"role": "user", "content": "Describe Ada Lovelace."}]


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


answer = litellm.completion(**SERVER, messages=ASK, response_format=Person, max_tokens=300)
Person.model_validate_json(answer.choices[0].message.content)

tool = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"],
    "additionalProperties": False}}}  # fmt: skip
named = {"type": "function", "function": {"name": "weather"}}
answer = litellm.completion(**SERVER, messages=ASK, tools=[tool], tool_choice=named, max_tokens=300)
(call,) = answer.choices[0].message.tool_calls
assert set(json.loads(call.function.arguments)) == {"city"}

chunks = list(litellm.completion(**SERVER, messages=ASK, tools=[tool], tool_choice=named, max_tokens=300, stream=True))
built = litellm.stream_chunk_builder(chunks, messages=ASK)
assert set(json.loads(built.choices[0].message.tool_calls[0].function.arguments)) == {"city"}

answer = litellm.completion(
    **SERVER, messages=ASK, extra_body={"structured_outputs": {"regex": "[a-z]{3}"}}, max_tokens=10
)
assert len(answer.choices[0].message.content) == 3

try:
    litellm.completion(**SERVER, messages=ASK, extra_body={"structured_outputs": {"regex": "(a"}})
    raise SystemExit("a bad pattern was accepted")
except litellm.BadRequestError as error:
    assert "never closed" in str(error)
print("ok", importlib.metadata.version("litellm"))
