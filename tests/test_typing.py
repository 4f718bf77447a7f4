"""Type checkers on ``generate`` and its siblings: valid lines pass, wrong ones are errors."""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAD = """
import dataclasses
import guiderail as gr
@dataclasses.dataclass
class Person:
    name: str
person = gr.python_type(Person)
schema: dict[str, object] = {}
tools = gr.tool_calls([Person], format="hermes")
talk = [{"role": "user", "content": "x"}]
async def all_of_it() -> None:
"""

RIGHT = [  # an expression, and its type
    ('gr.generate(None, "x", gr.regex("a"))', "str"),
    ('gr.generate(None, "x", gr.literal("a") + gr.regex("b"))', "str"),
    ('gr.generate(None, "x", gr.choice(["a", "b"]), stop="a", max_tokens=3)', "str"),
    ('gr.generate(None, "x", gr.patterns.date())', "str"),
    ('gr.generate(None, "x", ["yes", "no"])', "str"),
    ('gr.generate(None, ["x", "y"], ["yes", "no"])', "list[str]"),
    ('gr.read(Person, "{}")', "Person"),
    ('gr.read(list[int], "[1]")', "list[int]"),
    ("gr.read(person, b'{}')", "Person"),
    ('gr.generate(None, "x", Person)', "Person"),
    ('gr.generate(None, "x", person)', "Person"),
    ('gr.generate(None, "x", int)', "int"),
    ("gr.generate(None, talk, int)", "int"),
    ('gr.generate(None, "x", int, n=2)', "list[int]"),
    ('gr.generate(None, talk, gr.regex("a"), n=2)', "list[str]"),
    ('gr.generate(None, ["x", "y"], int)', "list[int]"),
    ('gr.generate(None, ["x", "y"], gr.regex("a"))', "list[str]"),
    ("gr.generate(None, [talk, talk], person)", "list[Person]"),
    ('gr.generate(None, "x", gr.json_schema({}))', "Any"),
    ('gr.generate(None, "x", tools)', "ToolText"),
    ('gr.generate(None, ["x"], tools)[0].calls[0].name', "str"),
    ('gr.generate(None, "x", tools, n=2)', "list[ToolText]"),
    ('gr.stream(None, "x", tools)', "ValueStream[ToolText]"),
    ('await gr.agenerate(None, "x", tools)', "ToolText"),
    ('gr.generate(None, "x", schema)', "Any"),
    ('gr.generations(None, ["x"], int)', "list[Generation]"),
    ('gr.generations(None, ["x"], int, n=2)[0].finish_reason', "Literal"),
    ('gr.stream(None, "x", gr.regex("a"))', "Stream"),
    ('gr.stream(None, "x", ["yes", "no"])', "Stream"),
    ('gr.stream(None, "x", Person)', "ValueStream[Person]"),
    ("gr.stream(None, talk, Person, growing_strings=False)", "ValueStream[Person]"),
    ('await gr.agenerate(None, "x", gr.regex("a"))', "str"),
    ('await gr.agenerate(None, "x", Person)', "Person"),
    ('await gr.agenerations(None, ["x"], Person)', "list[Generation]"),
]
WRONG = [  # a line, and its error
    ('y: int = gr.generate(None, "x", gr.regex("a"))', "Incompatible types in assignment"),
    ('y: str = gr.generate(None, "x", int)', "Incompatible types in assignment"),
    ('y: str = gr.generate(None, ["x"], gr.regex("a"))', "Incompatible types in assignment"),
    ('y: str = gr.generate(None, "x", gr.regex("a"), n=2)', "Incompatible types in assignment"),
    ('y: int = await gr.agenerate(None, "x", gr.regex("a"))', "Incompatible types in assignment"),
    ('y = gr.generate(None, "x", gr.regex("a"), max_token=3)', "No overload variant"),
    ('y = gr.generate(None, "x", gr.regex("a"), max_tokens="3")', "No overload variant"),
    ('y = gr.generate(None, "x", gr.regex("a"), on_shortened="never")', "No overload variant"),
    ('y = gr.stream(None, "x", int, n=2)', "No overload variant"),
    ('y = gr.generations(None, ["x"], int, temperature="hot")', "incompatible type"),
]


def told_of(folder: Path) -> dict[str, str]:
    """Returns mypy's messages for each line of a file with all lines."""
    api = pytest.importorskip("mypy.api", reason="mypy")
    file = folder / "calls.py"
    lines = [f"    reveal_type({expression})" for expression, _ in RIGHT]
    for i, (line, _) in enumerate(WRONG):
        lines += [f"async def wrong_{i}() -> None:", f"    {line}"]
    file.write_text(HEAD + "\n".join(lines) + "\n")
    options = ["--strict", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache")]
    depth = sys.getrecursionlimit()
    try:
        out, err, _ = api.run([*options, "--config-file", str(ROOT / "pyproject.toml"), str(file)])
    finally:
        sys.setrecursionlimit(depth)  # mypy raises it, and other tests count on it
    assert not err, err
    text = file.read_text().splitlines()
    found: dict[str, str] = {}
    for number, message in re.findall(r"calls\.py:(\d+): (.*)", out):
        line = text[int(number) - 1].strip()
        found[line] = f"{found.get(line, '')}\n{message}".strip()
    return found


def test_types_of_calls(tmp_path: Path) -> None:
    """One run for all lines, because it takes seconds."""
    told = told_of(tmp_path)
    for expression, kind in RIGHT:
        message = told[f"reveal_type({expression})"]
        revealed = re.search(r'Revealed type is "(.*)"', message)
        assert revealed and "error" not in message, (expression, message)
        plain = re.sub(r"[\w.]+\.(\w+)", r"\1", revealed[1])
        assert plain == kind or (kind == "Literal" and plain.startswith("Literal[")), (expression, message)
    for line, says in WRONG:
        assert says in told.get(line, ""), (line, told.get(line))


def test_options_are_the_same_for_type_checkers() -> None:
    """``n`` changes the return type, so it is a separate parameter."""
    from guiderail.generation import options

    tree = ast.parse(Path(options.__file__).read_text(encoding="utf-8"))
    (told,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == "GenerateOptions")
    typed = {part.target.id: ast.unparse(part.annotation) for part in told.body if isinstance(part, ast.AnnAssign)}
    real = {field.name: field.type for field in dataclasses.fields(options.Options)}
    assert real.pop("n") == "int | None" and typed == real
