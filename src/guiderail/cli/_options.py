"""Options that the commands share, and the constraint that they describe."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guiderail.constraints.constraint import Constraint, choice
from guiderail.errors import CompileError

if TYPE_CHECKING:
    from guiderail.vocabulary import Vocabulary

__all__ = [
    "ChoiceOption",
    "DialectOption",
    "FlagsOption",
    "GrammarOption",
    "LayoutOption",
    "MaxLengthOption",
    "ModelOption",
    "OrderOption",
    "PatternOption",
    "RegexOption",
    "RootOption",
    "SchemaOption",
    "SearchOption",
    "ToolChoiceOption",
    "ToolFormatOption",
    "ToolsOption",
    "TypeOption",
    "VocabularyOption",
    "XsdOption",
    "build_constraint",
    "load_vocabulary",
    "schema_source",
]

_WHAT = "The constraint (exactly one kind)"

RegexOption = Annotated[
    str | None,
    typer.Option("--regex", "-r", metavar="PATTERN", help="Regular expression for the whole text.",
                 rich_help_panel=_WHAT),
]  # fmt: skip
ChoiceOption = Annotated[
    list[str] | None,
    typer.Option("--choice", "-c", metavar="TEXT", help="Allowed text; repeat it for each choice.",
                 rich_help_panel=_WHAT),
]  # fmt: skip
PatternOption = Annotated[
    str | None,
    typer.Option("--pattern", "-p", metavar="NAME", help="Ready pattern: date, email, uuid, ipv4, url …",
                 rich_help_panel=_WHAT),
]  # fmt: skip
SchemaOption = Annotated[
    str | None,
    typer.Option("--schema", "-s", metavar="FILE", help="A JSON Schema: a file, or the JSON itself.",
                 rich_help_panel=_WHAT),
]  # fmt: skip
TypeOption = Annotated[
    str | None,
    typer.Option("--type", "-t", metavar="MODULE:NAME",
                 help="Python type: module:Name or file.py:Name. Imports the module.", rich_help_panel=_WHAT),
]  # fmt: skip
GrammarOption = Annotated[
    str | None,
    typer.Option("--grammar", "-g", metavar="NAME|FILE",
                 help="A ready grammar (sql, json, xml …), or a .lark, .gbnf or .ebnf file.", rich_help_panel=_WHAT),
]  # fmt: skip
XsdOption = Annotated[
    str | None,
    typer.Option("--xsd", "-x", metavar="FILE", help="An XML Schema: a file, or the XML itself.",
                 rich_help_panel=_WHAT),
]  # fmt: skip
RootOption = Annotated[
    str | None,
    typer.Option("--root", metavar="NAME", rich_help_panel=_WHAT,
                 help="The element that documents of --xsd begin with; by default any global one."),
]  # fmt: skip
ToolsOption = Annotated[
    str | None,
    typer.Option("--tools", metavar="FILE", rich_help_panel=_WHAT,
                 help="Tool calls: a list of tools in OpenAI's form, a file or the JSON itself."),
]  # fmt: skip
ToolFormatOption = Annotated[
    str | None,
    typer.Option("--tool-format", metavar="NAME|FILE", rich_help_panel=_WHAT,
                 help="Format of the calls of --tools: hermes, llama3, mistral …, or a .json file."),
]  # fmt: skip
ToolChoiceOption = Annotated[
    str | None,
    typer.Option("--tool-choice", metavar="auto|required|none|NAME", rich_help_panel=_WHAT,
                 help="Whether to call a tool of --tools: auto (the default), required, none, or a name."),
]  # fmt: skip
LayoutOption = Annotated[
    str | None,
    typer.Option("--layout", metavar="NAME", rich_help_panel=_WHAT,
                 help="White space of --schema, --type and --tools: compact, spaced, indented, flexible or free; of "
                 "--xsd: compact or indented."),
]  # fmt: skip
OrderOption = Annotated[
    str | None,
    typer.Option("--property-order", metavar="declared|any", rich_help_panel=_WHAT,
                 help="Order of the members of --schema, --type and --tools."),
]  # fmt: skip
DialectOption = Annotated[
    str, typer.Option("--dialect", metavar="python|ecma", help="Dialect of --regex.", rich_help_panel=_WHAT)
]
FlagsOption = Annotated[
    str, typer.Option("--flags", metavar="LETTERS", help="Flags of --regex, e.g. ix.", rich_help_panel=_WHAT)
]
SearchOption = Annotated[
    bool, typer.Option("--search", help="Let any text surround the match of --regex.", rich_help_panel=_WHAT)
]
MaxLengthOption = Annotated[
    int | None,
    typer.Option("--max-length", metavar="N", help="Maximum number of characters.", rich_help_panel=_WHAT),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="PATH",
                 help="A GGUF file, or the folder or hub name of a transformers model; by default the embedded one."),
]  # fmt: skip
VocabularyOption = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="A GGUF file, or a tokenizer.json or its folder; by default the embedded "
                 "model's."),
]  # fmt: skip


def build_constraint(
    regex: str | None,
    choices: list[str] | None,
    pattern: str | None,
    schema: str | None = None,
    type_: str | None = None,
    *,
    grammar: str | None = None,
    xsd: str | None = None,
    root: str | None = None,
    tools: str | None = None,
    tool_format: str | None = None,
    tool_choice: str | None = None,
    dialect: str = "python",
    flags: str = "",
    search: bool = False,
    max_length: int | None = None,
    layout: str | None = None,
    property_order: str | None = None,
    defaults: tuple[str, str] = ("flexible", "declared"),
) -> Constraint:
    """The constraint of the options.

    Args:
        defaults: layout and order of members where the options say nothing.

    Raises:
        CompileError: ``bad-option``: no kind or several are given, or an option does not go with the kind.
        PatternError: the regular expression is malformed.
    """
    kinds = {
        "--regex": regex, "--choice": choices, "--pattern": pattern, "--schema": schema, "--type": type_,
        "--grammar": grammar, "--xsd": xsd, "--tools": tools,
    }  # fmt: skip
    given = [name for name, value in kinds.items() if value not in (None, [])]
    if len(given) != 1:
        said = " and ".join(given) + " were given" if given else "none was given"
        *some, last = kinds
        raise CompileError(f"give one of {', '.join(some)} and {last}: {said}", code="bad-option")
    for name, value, owner in (
        ("--root", root, "--xsd"), ("--tool-format", tool_format, "--tools"), ("--tool-choice", tool_choice, "--tools")
    ):  # fmt: skip
        if value is not None and owner != given[0]:
            raise CompileError(f"{name} belongs to {owner}, not to {given[0]}", code="bad-option")
    if max_length is not None and given[0] in ("--xsd", "--tools"):
        raise CompileError(f"--max-length does not go with {given[0]}, whose texts it would cut", code="bad-option")
    if tools is not None:
        return _tool_calls(tools, tool_format, tool_choice or "auto", layout, property_order)
    if xsd is not None:
        if property_order is not None:
            raise CompileError("--property-order belongs to --schema, --type and --tools", code="bad-option")
        return _xml_schema(xsd, root, layout)
    if regex is None and (dialect != "python" or flags or search):
        raise CompileError(f"--dialect, --flags and --search belong to --regex, not to {given[0]}", code="bad-option")
    if schema is not None or type_ is not None:
        if max_length is not None:
            raise CompileError(
                f"--max-length does not go with {given[0]}, whose texts it would cut; put maxLength and maxItems into "
                "the schema or the type",
                code="bad-option",
            )
        options = {"layout": layout or defaults[0], "property_order": property_order or defaults[1]}
        if schema is None:
            return _type_constraint(type_ or "", **options)
        from guiderail.frontends.json_schema import json_schema

        return json_schema(schema_source(schema), **options)
    if layout is not None or property_order is not None:
        raise CompileError(
            f"--layout and --property-order belong to --schema, --type and --tools, not to {given[0]}",
            code="bad-option",
        )
    if grammar is not None:
        if max_length is not None:
            raise CompileError("--max-length does not go with --grammar, whose texts it would cut", code="bad-option")
        return _grammar_constraint(grammar)
    if regex is not None:
        from guiderail.frontends.regex import regex as make

        return make(regex, dialect=dialect, flags=flags, mode="search" if search else "match", max_length=max_length)
    constraint = choice(choices) if choices else _named(pattern or "")
    return constraint if max_length is None else constraint.limited_to(max_length)


def schema_source(given: str) -> Any:
    """What ``--schema`` names, for ``json_schema``: a path, or the text itself."""
    return given if given.lstrip().startswith("{") else Path(given)


def load_vocabulary(path: str | None) -> Vocabulary:
    """The vocabulary that ``--vocabulary`` names."""
    from guiderail.vocabulary import Vocabulary

    if path is None:
        from guiderail.generation.models.gguf import embedded_model_path

        return Vocabulary.from_gguf(embedded_model_path())
    return Vocabulary.from_gguf(path) if path.lower().endswith(".gguf") else Vocabulary.from_huggingface(path)


def _type_constraint(name: str, **options: Any) -> Constraint:
    from guiderail.frontends.python_types import python_type

    return python_type(find_type(name), **options)


def _xml_schema(given: str, root: str | None, layout: str | None) -> Constraint:
    from guiderail.frontends.xml_schema import xml_schema

    options = {} if layout is None else {"layout": layout}
    return xml_schema(given if given.lstrip().startswith("<") else Path(given), root=root, **options)


def _tool_calls(given: str, form: str | None, choice: str, layout: str | None, order: str | None) -> Constraint:
    """Calls of the tools of a file: a list of them, or an object that has it as ``tools``."""
    from guiderail.frontends.tools import tool_calls, tool_formats

    if form is None:
        raise CompileError(
            f"--tools needs --tool-format, the model's way to write calls: one of {', '.join(tool_formats())}, or a "
            "file",
            code="bad-option",
        )
    inline = given.lstrip()[:1] in ("[", "{")
    try:
        text = given if inline else Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(f"the file of --tools cannot be read: {error}", code="bad-option") from None
    try:
        tools = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CompileError(f"--tools is not JSON: {error}", code="bad-option") from None
    if isinstance(tools, dict):
        tools = tools.get("tools", [tools])
    said = {"layout": layout, "property_order": order}
    options: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    written = Path(form) if form.endswith(".json") else form
    return tool_calls(tools, format=written, choice=choice, on_bad_tool="error", **options)


def _grammar_constraint(given: str) -> Constraint:
    """A ready grammar by its name, or the grammar of a file."""
    from guiderail.frontends.grammar.library import READY

    if given.replace("-", "_").lower() in READY:
        from guiderail.frontends.grammars import ready_grammar

        return ready_grammar(given)
    path = Path(given)
    if path.suffix.lower() not in (".lark", ".gbnf", ".ebnf"):
        raise CompileError(
            f"--grammar is a file that ends with .lark, .gbnf or .ebnf, or one of {', '.join(READY)}; not {given!r}",
            code="bad-option",
        )
    from guiderail.frontends.grammar.constraint import grammar

    return grammar(path)


def find_type(name: str) -> Any:
    """The object that ``module:Name`` or ``file.py:Name`` names."""
    where, separator, attribute = name.rpartition(":")
    if not separator or not where or not attribute:
        raise CompileError(f"--type is module:Name or file.py:Name, not {name!r}", code="bad-option")
    try:
        module = _load(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except Exception as error:  # the module is the user's own and may raise anything
        raise CompileError(
            f"{where} of --type cannot be imported: {type(error).__name__}: {error}", code="bad-option"
        ) from error
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise CompileError(f"{where} has no {attribute}", code="bad-option")
        found = getattr(found, part)
    return found


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # annotations are looked up there
    spec.loader.exec_module(module)
    return module


def _named(name: str) -> Constraint:
    from guiderail.frontends import patterns

    functions: dict[str, Any] = {known: getattr(patterns, known) for known in patterns.__all__}
    function = functions.get(name.replace("-", "_").lower())
    if function is None:
        raise CompileError(f"there is no pattern {name!r}; known are {', '.join(sorted(functions))}", code="bad-option")
    made: Constraint = function()
    return made
