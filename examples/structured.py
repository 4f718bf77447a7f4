"""A value of a Python type, shown while the model writes it. Needs the ``demo`` extra."""

import dataclasses
import datetime
from typing import Annotated, Literal

from rich.live import Live
from rich.pretty import Pretty

import guiderail as gr

Words = Annotated[str, gr.regex("[A-Z][a-z]{2,12}( [A-Z][a-z]{2,12})?")]


@dataclasses.dataclass
class Leg:
    port: Words
    nights: Literal[1, 2, 3, 4, 5, 6, 7]


@dataclasses.dataclass
class Voyage:
    ship: Words
    captain: Words
    departure: datetime.date
    purpose: Literal["science", "trade", "holiday"]
    legs: tuple[Leg, Leg, Leg]


with Live(refresh_per_second=20) as live:
    for snapshot in gr.stream(None, "Plan a voyage through the Mediterranean Sea.", Voyage):
        live.update(Pretty(snapshot.value))
assert isinstance(snapshot.value, Voyage)
print("It starts on a", snapshot.value.departure.strftime("%A."))
