"""``guiderail demo``: some commands to begin with, and their output on the embedded model."""

from __future__ import annotations

import json
import shlex

import typer

_MARS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]+$", "maxLength": 12},
        "color": {"enum": ["blue", "brown", "red", "white", "yellow"]},
        "moons": {"type": "integer", "minimum": 0, "maximum": 99},
        "rings": {"type": "boolean"},
    },
    "required": ["name", "color", "moons", "rings"],
    "additionalProperties": False,
}
# Tasks that a model of 135 million parameters does well: a fact, a choice, a sentence, a query, a form to fill in.
COMMANDS = (
    ("generate", "--prompt", "In which year did Apollo 11 land on the Moon?", "--regex", "(19|20)[0-9]{2}"),
    ("generate", "--prompt", "What colour is grass?", "--choice", "red", "--choice", "green", "--choice", "blue"),
    ("generate", "--prompt", "Write one sentence about the sea.", "--regex", "[A-Z][a-z]+(,? [a-z]+){4,12}[.]"),
    ("generate", "--prompt", "Write an SQL query that selects the names of people older than 30.", "--grammar", "sql"),
    ("generate", "--prompt", "Tell me about the planet Mars.", "--schema", json.dumps(_MARS)),
)


def demo_command(context: typer.Context) -> None:
    """Show what the other commands do, by running some of them on the embedded model."""
    assert context.parent is not None
    for command in COMMANDS:
        typer.echo(f"$ guiderail {shlex.join(command)}")
        context.parent.command.main(list(command), prog_name="guiderail", standalone_mode=False)
        typer.echo()
    typer.echo("`guiderail --help` lists the commands; `--model` runs a GGUF file or a transformers model of yours.")
