"""Uses a server through the ``openai`` client: parse, stream, tools, custom tools, responses, errors."""

from __future__ import annotations

import json
import os
import re

import openai
from pydantic import BaseModel, Field

MODEL = os.environ["GUIDERAIL_MODEL"]
client = openai.OpenAI(base_url=os.environ["GUIDERAIL_URL"] + "/v1", api_key="key", max_retries=0)
ASK = [{"role": "user", "content": "Describe Ada Lovelace."}]


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


class Weather(BaseModel):
    """The weather of a city."""

    city: str = Field(max_length=20)


assert MODEL in [model.id for model in client.models.list()]

# chat.completions.parse
parsed = client.chat.completions.parse(model=MODEL, messages=ASK, response_format=Person, temperature=0, max_tokens=200)
assert isinstance(parsed.choices[0].message.parsed, Person)
assert parsed.usage.total_tokens == parsed.usage.prompt_tokens + parsed.usage.completion_tokens

# streaming, plain and parsed
chunks = list(
    client.chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=8, stream=True, stream_options={"include_usage": True}
    )
)
assert chunks[-1].usage.completion_tokens <= 8
with client.chat.completions.stream(model=MODEL, messages=ASK, response_format=Person, max_tokens=200) as stream:
    for _ in stream:
        pass
    assert isinstance(stream.get_final_completion().choices[0].message.parsed, Person)

# tools
tool = openai.pydantic_function_tool(Weather)
called = client.chat.completions.parse(
    model=MODEL, messages=ASK, tools=[tool], tool_choice="required", parallel_tool_calls=False, max_tokens=200
)
call = called.choices[0].message.tool_calls[0]
assert isinstance(call.function.parsed_arguments, Weather)
named = {"type": "function", "function": {"name": "Weather"}}
with client.chat.completions.stream(
    model=MODEL, messages=ASK, tools=[tool], tool_choice=named, max_tokens=200
) as stream:
    for _ in stream:
        pass
    assert isinstance(stream.get_final_completion().choices[0].message.tool_calls[0].function.parsed_arguments, Weather)
answered = client.chat.completions.create(
    model=MODEL,
    messages=[
        *ASK,
        called.choices[0].message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
        | {"tool_calls": [{"id": call.id, "type": "function",
                           "function": {"name": "Weather", "arguments": call.function.arguments}}]},
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ],
    tools=[tool],
    max_tokens=20,
)  # fmt: skip
assert answered.choices[0].finish_reason in ("stop", "length", "tool_calls")

# a custom tool with a grammar
grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "SELECT " NAME\nNAME: /[a-z]{1,8}/'}}
custom = client.chat.completions.create(
    model=MODEL,
    messages=ASK,
    tools=[{"type": "custom", "custom": {"name": "sql", "format": grammar}}],
    tool_choice={"type": "custom", "custom": {"name": "sql"}},
    max_tokens=100,
)
assert re.fullmatch("SELECT [a-z]{1,8}", custom.choices[0].message.tool_calls[0].custom.input)

# vLLM's extra body
extra = client.chat.completions.create(
    model=MODEL, messages=ASK, extra_body={"structured_outputs": {"choice": ["yes", "no"]}}
)
assert extra.choices[0].message.content in ("yes", "no")

# completions
completion = client.completions.create(model=MODEL, prompt="1, 2, 3,", max_tokens=4, logprobs=1)
assert completion.choices[0].logprobs.tokens

# responses
response = client.responses.parse(model=MODEL, input="Describe Ada.", text_format=Person, max_output_tokens=200)
assert isinstance(response.output_parsed, Person)
with client.responses.stream(model=MODEL, input="Ada.", text_format=Person, max_output_tokens=200) as stream:
    kinds = [event.type for event in stream]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert isinstance(stream.get_final_response().output_parsed, Person)
flat = {"type": "function", "name": "weather", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"],
    "additionalProperties": False}}  # fmt: skip
events = list(
    client.responses.create(
        model=MODEL, input="Ada.", tools=[flat], tool_choice="required", parallel_tool_calls=False, stream=True,
        max_output_tokens=200,
    )
)  # fmt: skip
(item,) = events[-1].response.output
assert item.type == "function_call" and set(json.loads(item.arguments)) == {"city"}
sql = {"type": "custom", "name": "sql", "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]{3}"}}
response = client.responses.create(
    model=MODEL, input="Ada.", tools=[sql], tool_choice={"type": "custom", "name": "sql"}, max_output_tokens=100
)
assert re.fullmatch("[a-z]{3}", response.output[0].input)

# errors
try:
    client.chat.completions.create(model=MODEL, messages=ASK, extra_body={"structured_outputs": {"regex": "(a"}})
    raise SystemExit("a bad pattern was accepted")
except openai.BadRequestError as error:
    assert error.code == "regex-unterminated-group" and error.param == "structured_outputs.regex"
try:
    client.chat.completions.create(model="other", messages=ASK)
    raise SystemExit("another model was accepted")
except openai.NotFoundError as error:
    assert error.code == "model-not-found"

print("ok", openai.__version__)
