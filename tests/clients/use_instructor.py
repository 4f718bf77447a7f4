"""Uses a server through ``instructor``: tools (its default), JSON modes, partial values, lists."""

from __future__ import annotations

import importlib.metadata
import os

import instructor
import openai
from pydantic import BaseModel, ConfigDict, Field

MODEL = os.environ["GUIDERAIL_MODEL"]
raw = openai.OpenAI(base_url=os.environ["GUIDERAIL_URL"] + "/v1", api_key="key", max_retries=0)
ASK = [{"role": "user", "content": "Describe Ada Lovelace."}]


class Person(BaseModel):
    # Closed: otherwise a small model invents members until the tokens run out.
    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


for mode in ("TOOLS", "TOOLS_STRICT", "JSON_SCHEMA", "RESPONSES_TOOLS"):
    client = instructor.from_openai(raw, mode=instructor.Mode[mode])
    # max_retries=0: an answer that does not validate at once is a failure of the server
    person = client.chat.completions.create(
        model=MODEL, messages=ASK, response_model=Person, max_retries=0, max_tokens=300
    )
    assert isinstance(person, Person), (mode, person)
    print(mode, person)

# JSON mode only requests an object. The schema is in the prompt, so the object need not conform to it.
client = instructor.from_openai(raw, mode=instructor.Mode.JSON)
_, completion = client.chat.completions.create_with_completion(
    model=MODEL, messages=ASK, response_model=Person, max_retries=0, max_tokens=300,
    extra_body={"structured_outputs": {"json": Person.model_json_schema()}, "response_format": {"type": "text"}},
)  # fmt: skip
assert completion.choices[0].finish_reason == "stop"

client = instructor.from_openai(raw)
partial = list(
    client.chat.completions.create_partial(
        model=MODEL, messages=ASK, response_model=Person, max_retries=0, max_tokens=300
    )
)
assert isinstance(Person.model_validate(partial[-1].model_dump()), Person)
print("ok", importlib.metadata.version("instructor"))
