"""A value of a Python type, shown while the model writes it. Needs the ``demo`` extra."""

import dataclasses
from typing import Annotated, Literal

from rich.live import Live
from rich.pretty import Pretty

import guiderail as gr

Name = Annotated[str, gr.regex("[A-Z][a-z]+( [A-Z][a-z]+)?")]


@dataclasses.dataclass
class Author:
    name: Name
    country: Literal["England", "France", "Germany", "USA"]


@dataclasses.dataclass
class Book:
    title: Annotated[str, gr.regex("[A-Z][a-z]+( [A-Za-z][a-z]*){0,5}")]
    author: Author
    year: int
    kind: Literal["novel", "play", "poem"]


NOTE = "Moby Dick is a novel by the American Herman Melville. It was published in 1851."
with Live(refresh_per_second=20) as live:
    for snapshot in gr.stream(None, NOTE, Book):
        live.update(Pretty(snapshot.value))
assert isinstance(snapshot.value, Book)
print(f"{snapshot.value.title} is {2051 - snapshot.value.year} years old in 2051.")
