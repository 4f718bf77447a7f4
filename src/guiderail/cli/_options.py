"""Options that the commands share, and the constraint that they describe."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guiderail.constraints.constraint import Constraint, choice
from guiderail.errors import CompileError
from guiderail.support.files import text_of
from guiderail.support.json_objects import document
from guiderail.support.suggestions import resembling, suggestion

if TYPE_CHECKING:
    from guiderail.generation.models import Model
    from guiderail.vocabulary import Vocabulary

__all__ = [
    "Given",
    "ModelOption",
    "ModelOptions",
    "SamplingOptions",
    "VocabularyOption",
    "load_vocabulary",
    "schema_source",
    "takes_options",
]

_WHAT = "The constraint (exactly one kind)"

RegexOption = Annotated[
    str | None,
    typer.Option("--regex", "-r", metavar="PATTERN", help="Regular expression that the whole text must match.",
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
                 help="Root element of --xsd; by default, any global element."),
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
                 help="Whether to call a tool: auto (the default), required, none, or the name of one."),
]  # fmt: skip
LayoutOption = Annotated[
    str | None,
    typer.Option("--layout", metavar="NAME", rich_help_panel=_WHAT,
                 help="Whitespace of JSON: compact, spaced, indented, flexible or free; of XML: compact or indented."),
]  # fmt: skip
OrderOption = Annotated[
    str | None,
    typer.Option("--property-order", metavar="declared|any", rich_help_panel=_WHAT,
                 help="Order of the members of JSON objects."),
]  # fmt: skip
ClosedOption = Annotated[
    bool,
    typer.Option("--closed", rich_help_panel=_WHAT,
                 help="Forbid members that the schemas in --schema or --grammar do not name."),
]  # fmt: skip
DialectOption = Annotated[
    str, typer.Option("--dialect", metavar="python|ecma", help="Dialect of --regex.", rich_help_panel=_WHAT)
]
FlagsOption = Annotated[
    str, typer.Option("--flags", metavar="LETTERS", help="Flags of --regex, e.g. ix.", rich_help_panel=_WHAT)
]
SearchOption = Annotated[
    bool, typer.Option("--search", help="Allow any text around the match of --regex.", rich_help_panel=_WHAT)
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
    typer.Option(metavar="PATH", help="A GGUF file, a tokenizer.json or its folder, or a vocabulary that guiderail "
                 "saved; by default the embedded model's."),
]  # fmt: skip


@dataclass(frozen=True)
class ModelOptions:
    """Which model a command runs, and how it is loaded. A group of options: see :func:`takes_options`."""

    model: ModelOption = None
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where a transformers model runs: cuda, cuda:1, mps, cpu or auto."),
    ] = None
    gpu_layers: Annotated[
        int | None, typer.Option(metavar="N", help="Layers of a GGUF model to run on a GPU; -1: all.")
    ] = None
    context_length: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of tokens of prompt and output together.")
    ] = None

    def load(self, threads: int | None) -> Model:
        """The model."""
        from guiderail.generation.models import load_model

        options = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "model"}
        return load_model(self.model, threads=threads, **options)


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are drawn. A group of options: see :func:`takes_options`."""

    temperature: Annotated[
        float, typer.Option(metavar="T", help="Sampling temperature; 0 takes the most likely token.")
    ] = 0.0
    top_p: Annotated[
        float, typer.Option(metavar="P", help="Sample among the most likely tokens with total probability P.")
    ] = 1.0
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Sample among the K most likely tokens.")] = None
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed that makes sampling repeatable.")] = None
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Stop string: ends the output, and is not part of it; may be repeated."),
    ] = None
    presence_penalty: Annotated[
        float, typer.Option(metavar="X", help="Penalty for tokens that the text already contains, -2 to 2.")
    ] = 0.0
    frequency_penalty: Annotated[
        float, typer.Option(metavar="X", help="Penalty for each time that the text contains the token, -2 to 2.")
    ] = 0.0
    repetition_penalty: Annotated[
        float, typer.Option(metavar="X", help="Factor against tokens of the prompt and the text; 1 changes nothing.")
    ] = 1.0


@dataclass(frozen=True)
class Given:
    """The constraint of a command. A group of options: see :func:`takes_options`."""

    regex: RegexOption = None
    choice: ChoiceOption = None
    pattern: PatternOption = None
    schema: SchemaOption = None
    type_: TypeOption = None
    grammar: GrammarOption = None
    xsd: XsdOption = None
    root: RootOption = None
    tools: ToolsOption = None
    tool_format: ToolFormatOption = None
    tool_choice: ToolChoiceOption = None
    dialect: DialectOption = "python"
    flags: FlagsOption = ""
    search: SearchOption = False
    max_length: MaxLengthOption = None
    layout: LayoutOption = None
    property_order: OrderOption = None
    closed: ClosedOption = False

    @property
    def is_value(self) -> bool:
        """Whether the text is a value in JSON."""
        return self.schema is not None or self.type_ is not None

    @property
    def bounds(self) -> str:
        """What can bound the text, for a message about one that became too long."""
        known = {
            "--schema": "the schema (maxLength, maxItems, maximum)",
            "--type": "the type (maximum lengths and values)",
            "--grammar": "the grammar",
            "--xsd": "the schema (maxLength, maxOccurs)",
            "--tools": "the schemas of the tools (maxLength, maxItems)",
        }
        return known.get(self.kind, "the constraint (--max-length)")

    @property
    def kind(self) -> str:
        """The option that gives the constraint.

        Raises:
            CompileError: ``bad-option``: none, or several.
        """
        kinds = {
            "--regex": self.regex, "--choice": self.choice, "--pattern": self.pattern, "--schema": self.schema,
            "--type": self.type_, "--grammar": self.grammar, "--xsd": self.xsd, "--tools": self.tools,
        }  # fmt: skip
        given = [name for name, value in kinds.items() if value not in (None, [])]
        if len(given) != 1:
            found = " and ".join(given) + " were given" if given else "none was given"
            *some, last = kinds
            raise CompileError(f"give one of {', '.join(some)} and {last}: {found}", code="bad-option")
        return given[0]

    def check(self) -> None:
        """Raises a CompileError (``bad-option``) if an option does not go with the kind."""
        kind = self.kind
        for name, value, owner in (
            ("--root", self.root, "--xsd"),
            ("--tool-format", self.tool_format, "--tools"),
            ("--tool-choice", self.tool_choice, "--tools"),
        ):
            if value is not None and owner != kind:
                raise CompileError(f"{name} belongs to {owner}, not to {kind}", code="bad-option")
        if self.max_length is not None and kind in ("--xsd", "--tools"):
            raise CompileError(
                f"--max-length cannot be used with {kind}, whose output it would cut off", code="bad-option"
            )
        if kind == "--xsd" and self.property_order is not None:
            raise CompileError("--property-order belongs to --schema, --type and --tools", code="bad-option")
        if kind != "--regex" and (self.dialect != "python" or self.flags or self.search):
            raise CompileError(f"--dialect, --flags and --search belong to --regex, not to {kind}", code="bad-option")
        if self.is_value:
            if self.max_length is not None:
                raise CompileError(
                    f"--max-length cannot be used with {kind}, whose output it would cut off; put maxLength and "
                    "maxItems into the schema or the type",
                    code="bad-option",
                )
        elif kind not in ("--xsd", "--tools") and (self.layout is not None or self.property_order is not None):
            raise CompileError(
                f"--layout belongs to --schema, --type, --tools and --xsd, and --property-order to the first three, "
                f"not to {kind}",
                code="bad-option",
            )
        if self.closed and kind not in ("--schema", "--grammar"):
            raise CompileError(f"--closed belongs to --schema and --grammar, not to {kind}", code="bad-option")
        if kind == "--grammar" and self.max_length is not None:
            raise CompileError(
                "--max-length cannot be used with --grammar, whose output it would cut off", code="bad-option"
            )

    def constraint(self, layout: str | None = None, property_order: str = "declared") -> Constraint:
        """The constraint of the options.

        Args:
            layout: of values, if the options do not say; None: the default of ``json_schema``.
            property_order: likewise.

        Raises:
            CompileError: ``bad-option``: no kind or several are given, or an option does not go with the kind.
            PatternError: the regular expression is malformed.
        """
        self.check()
        if self.tools is not None:
            return _tool_calls(
                self.tools, self.tool_format, self.tool_choice or "auto", self.layout, self.property_order
            )
        if self.xsd is not None:
            return _xml_schema(self.xsd, self.root, self.layout)
        if self.is_value:
            options = {"layout": self.layout or layout, "property_order": self.property_order or property_order}
            if self.schema is None:
                return _type_constraint(self.type_ or "", **options)
            from guiderail.frontends.given import typos
            from guiderail.frontends.json_schema import json_schema

            made = json_schema(schema_source(self.schema), closed=self.closed, **options)
            for fault in typos(made):
                print(f"warning: in the schema, {fault}", file=sys.stderr)
            return made
        if self.grammar is not None:
            return _grammar_constraint(self.grammar, self.closed)
        if self.regex is not None:
            from guiderail.frontends.regex import regex as make

            mode = "search" if self.search else "match"
            return make(self.regex, dialect=self.dialect, flags=self.flags, mode=mode, max_length=self.max_length)
        constraint = choice(self.choice) if self.choice else _named(self.pattern or "")
        return constraint if self.max_length is None else constraint.limited_to(self.max_length)


def takes_options(*, without: Sequence[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces each parameter of a command that is a group of options, a dataclass, by its fields.

    Args:
        without: fields of groups that the command does not offer.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_annotations(command, eval_str=True)
        groups = {name: [one for one in fields(kind) if one.name not in without]
                  for name, kind in hints.items() if is_dataclass(kind)}  # fmt: skip

        @wraps(command)
        def call(**options: Any) -> None:
            made = {
                name: hints[name](**{one.name: options.pop(one.name) for one in offered})
                for name, offered in groups.items()
            }
            command(**made, **options)

        parameters: list[Parameter] = []
        for parameter in signature(command).parameters.values():
            hint = hints[parameter.name]
            if parameter.name in groups:
                kinds = get_annotations(hint, eval_str=True)
                parameters += [
                    Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=kinds[one.name])
                    for one in groups[parameter.name]
                ]
            else:
                parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hint))
        call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return decorate


def schema_source(given: str) -> Any:
    """What ``--schema`` names, for ``json_schema``: a path, or the text itself."""
    return given if given.lstrip().startswith("{") else Path(given)


def load_vocabulary(path: str | None) -> Vocabulary:
    """The vocabulary that ``--vocabulary`` names."""
    from guiderail.vocabulary import Vocabulary
    from guiderail.vocabulary._storage import is_saved

    if path is None:
        from guiderail.generation.models.gguf import embedded_model_path

        return Vocabulary.from_gguf(embedded_model_path())
    if path.lower().endswith(".gguf"):
        return Vocabulary.from_gguf(path)
    return Vocabulary.load(path) if is_saved(path) else Vocabulary.from_huggingface(path)


def _type_constraint(name: str, **options: Any) -> Constraint:
    from guiderail.frontends.python_types import python_type

    return python_type(find_type(name), **options)


def _xml_schema(given: str, root: str | None, layout: str | None) -> Constraint:
    from guiderail.frontends.xml_schema import xml_schema

    options = {} if layout is None else {"layout": layout}
    return xml_schema(given if given.lstrip().startswith("<") else Path(given), root=root, **options)


def _tool_calls(given: str, form: str | None, choice: str, layout: str | None, order: str | None) -> Constraint:
    """The tool calls for a file of tools: a list of them, or an object with a list ``tools``."""
    from guiderail.frontends.tools import tool_calls, tool_formats

    if form is None:
        raise CompileError(
            "--tools needs --tool-format, the format in which the model writes calls: one of "
            f"{', '.join(tool_formats())}, or a file",
            code="bad-option",
        )
    inline = given.lstrip()[:1] in ("[", "{")
    what = f"--tools: {given} cannot be read"
    text = given if inline else text_of(Path(given), what, CompileError, "bad-option")
    tools = document(text, "--tools", CompileError, "bad-option")
    if isinstance(tools, dict):
        tools = tools.get("tools", [tools])
    decided = {"layout": layout, "property_order": order}
    options: dict[str, Any] = {name: value for name, value in decided.items() if value is not None}
    written = Path(form) if form.endswith(".json") else form
    return tool_calls(tools, format=written, choice=choice, on_bad_tool="error", **options)


def _grammar_constraint(given: str, closed: bool) -> Constraint:
    """A ready grammar by its name, or the grammar in a file; ``closed``: close the schemas in it."""
    from guiderail.frontends.grammar.library import READY

    if given.replace("-", "_").lower() in READY:
        if closed:
            raise CompileError(
                "--closed is for the schemas of a .lark file; a ready grammar has none", code="bad-option"
            )
        from guiderail.frontends.grammars import ready_grammar

        return ready_grammar(given)
    path = Path(given)
    if path.suffix.lower() not in (".lark", ".gbnf", ".ebnf"):
        raise CompileError(
            f"--grammar must be a .lark, .gbnf or .ebnf file, or a ready grammar, not {given!r}; "
            f"{suggestion(given, READY)}",
            code="bad-option",
        )
    from guiderail.frontends.grammar.constraint import grammar

    return grammar(path, schema_options={"closed": True}) if closed else grammar(path)


def find_type(name: str) -> Any:
    """The object that ``module:Name`` or ``file.py:Name`` names."""
    where, separator, attribute = name.rpartition(":")
    if not separator or not where or not attribute:
        hint = f"; write builtins:{name}" if hasattr(builtins, name) else ""
        raise CompileError(f"--type must be module:Name or file.py:Name, not {name!r}{hint}", code="bad-option")
    is_file = where.endswith(".py")
    folder = str(Path(where).resolve().parent) if is_file else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as when Python runs the file itself, or a module with -m
    try:
        module = _load(Path(where)) if is_file else importlib.import_module(where)
    except Exception as error:  # the module is the user's own and may raise anything
        raise CompileError(
            f"--type: {where} cannot be imported: {type(error).__name__}: {error}", code="bad-option"
        ) from error
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = resembling(part, dir(found))
            end = "name one that it defines" if near is None else f"did you mean {near!r}?"
            raise CompileError(f"--type: {where} has no {attribute}; {end}", code="bad-option")
        found = getattr(found, part)
    return found


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # annotations are looked up there
    spec.loader.exec_module(module)
    return module


def _named(name: str) -> Constraint:
    from guiderail.frontends import patterns

    functions: dict[str, Any] = {known: getattr(patterns, known) for known in patterns.__all__}
    function = functions.get(name.replace("-", "_").lower())
    if function is None:
        raise CompileError(f"there is no pattern {name!r}; {suggestion(name, sorted(functions))}", code="bad-option")
    made: Constraint = function()
    return made
