"""Uses a server through ``langchain-openai``: all methods of with_structured_output, bound tools, streams."""

from __future__ import annotations

import importlib.metadata
import os
from typing import Annotated

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

MODEL = os.environ["GUIDERAIL_MODEL"]
model = ChatOpenAI(
    model=MODEL, base_url=os.environ["GUIDERAIL_URL"] + "/v1", api_key="key", max_retries=0, max_tokens=300
)


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


@tool
def weather(city: Annotated[str, Field(max_length=20)]) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


for method, strict in (("json_schema", True), ("json_schema", None), ("function_calling", None)):
    person = model.with_structured_output(Person, method=method, strict=strict).invoke("Describe Ada.")
    assert isinstance(person, Person), (method, person)
    print(method, strict, person)

answer = model.invoke("Say hello.", max_tokens=8)
assert isinstance(answer.content, str) and answer.usage_metadata["output_tokens"] <= 8
pieces = list(model.stream("Say hello.", max_tokens=8))
assert len(pieces) > 1

called = model.bind_tools([weather], tool_choice="weather").invoke("Weather in Oslo?")
(call,) = called.tool_calls
assert call["name"] == "weather" and set(call["args"]) == {"city"}
turns = [HumanMessage("Weather in Oslo?"), called, ToolMessage("sunny", tool_call_id=call["id"])]
assert model.bind_tools([weather]).invoke(turns, max_tokens=30)

responses = ChatOpenAI(
    model=MODEL, base_url=os.environ["GUIDERAIL_URL"] + "/v1", api_key="key", max_retries=0, max_tokens=300,
    use_responses_api=True,
)  # fmt: skip
person = responses.with_structured_output(Person, method="json_schema").invoke("Describe Ada.")
assert isinstance(person, Person)
print("ok", importlib.metadata.version("langchain-openai"))
