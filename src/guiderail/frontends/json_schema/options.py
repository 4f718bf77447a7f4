"""The options of `json_schema`: what each means, its unit and its default."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.support.options import check_choice, check_flag, check_integer, check_names
from guiderail.support.texts import has_surrogate, shown

if TYPE_CHECKING:
    from referencing import Registry

__all__ = ["DIALECTS", "MOST_DIGITS", "SchemaOptions"]

DIALECTS = ("2020-12", "2019-09", "draft-07", "draft-06", "draft-04", "openapi-3.0")
"""Names of the dialects."""

_CHOICES: dict[str, tuple[str, ...]] = {
    "on_unsupported": ("error", "warn", "ignore"),
    "format": ("assert", "annotate"),
    "escapes": ("canonical", "all"),
    "integers": ("plain", "any"),
    "notation": ("json", "yaml", "python"),
}
_OPEN_CHOICES: dict[str, tuple[str, ...]] = {  # or None: models write fewer texts than match
    "layout": ("flexible", "compact", "spaced", "indented", "free"),
    "property_order": ("declared", "any"),
}
MOST_DIGITS: Final = 10_000
"""The largest cap on the digits of a number: its automaton has a state for each digit."""

_INDENT: Final = 2
_MANY = 2**31 - 1
_COUNTS = {  # least, most
    "indent": (0, 100),
    "max_whitespace": (0, _MANY),
    "max_integer_digits": (1, MOST_DIGITS),
    "max_fraction_digits": (0, MOST_DIGITS),
    "max_string_length": (0, _MANY),
    "max_items": (0, _MANY),
    "max_depth": (1, _MANY),
    "max_branches": (1, _MANY),
    "block_depth": (0, _MANY),
}


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """How a schema is read and how its values are written.

    Attributes:
        dialect: a name from `DIALECTS`, or the URI of its metaschema. None: what ``$schema`` says, or else 2020-12
            (where older keywords keep their old meaning if 2020-12 gives them none).
        registry: a ``referencing.Registry`` with the other documents that references name. Nothing is ever fetched.
        base_uri: the URI of the schema itself: its relative references, or its relative ``$id``, start from it.
        on_unsupported: what happens to a keyword that cannot be enforced (a backreference in a pattern): ``"error"``
            raises, ``"warn"`` drops it with a warning, ``"ignore"`` drops it silently. ``report()`` always lists it.
        format: ``"assert"`` enforces the known formats, ``"annotate"`` none.
        escapes: ``"canonical"``: each character of a string has one spelling; ``"all"``: every legal escape.
        layout: whitespace in JSON. ``"flexible"``: one line, with or without a space after ``,`` and ``:``;
            ``"compact"``: none; ``"spaced"``: one space, like ``json.dumps``; ``"indented"``: like
            ``json.dumps(indent=…)``; ``"free"``: any, up to ``max_whitespace`` characters at one position. None: a
            model always writes ``"spaced"`` (``generate``, logits processors, the server …), while ``matches`` and
            ``gr.compile`` of this constraint take ``"flexible"``.
        indent: spaces per level in the layout ``"indented"``, at most 100.
        separators: what separates members and follows a key, instead of the layout's: two strings, as for
            ``json.dumps``, or two constraints.
        max_whitespace: maximum number of whitespace characters at one position, in the layout ``"free"`` and around the
            value.
        whitespace: a constraint on the whitespace at one position, in the layout ``"free"``; what it matches beyond
            JSON's (spaces, tabs, line breaks) is not written. None: any whitespace, up to ``max_whitespace``
            characters.
        property_order: ``"declared"``: properties in the order of the schema, then other members; ``"any"``: any order.
            None: a model always writes the declared order (``generate``, logits processors, the server …), while
            ``matches`` and ``gr.compile`` of this constraint take any.
        closed: forbid members that the schema does not name, unless it has ``additionalProperties`` or
            ``unevaluatedProperties``. Schemas for the same object (``allOf``, ``anyOf``, ``$ref`` …) count as one.
        outer_whitespace: allow whitespace before and after the value, up to ``max_whitespace`` characters each. JSON
            only.
        integers: ``"plain"``: digits only; ``"any"``: also ``1.0`` and ``1e2``.
        max_integer_digits: maximum number of digits before the decimal point, at most 10,000, or None.
        max_fraction_digits: maximum number of digits after the decimal point, at most 10,000, or None.
        max_string_length: maximum length of any string value, in characters, or None.
        max_items: maximum number of items of any array, or None.
        max_depth: maximum nesting of arrays and objects, or None. In the layout ``"indented"``, None means 16 if the
            schema is recursive or allows anything.
        max_branches: maximum number of alternatives that one schema may expand to (arrays, combinations of patterns,
            counts of ``contains``); more raise a LimitError. Alternatives of objects do not count: they are told apart
            while the text is read.
        notation: ``"json"``, ``"yaml"`` or ``"python"``.
        block_depth: levels of arrays and objects that YAML writes in block style; deeper ones are in flow style.
        excludes: strings that must not occur between the quotes of any string or key, as written. Strings with a
            pattern or a format are exempt. Each key then has a single spelling, and keys that the schema does not
            declare have no escapes. JSON only.
    """

    dialect: str | None = None
    registry: Registry[Any] | None = field(default=None, compare=False)  # by identity, see JsonSchema
    base_uri: str = ""
    on_unsupported: str = "error"
    format: str = "assert"
    escapes: str = "canonical"
    layout: str | None = None
    indent: int = _INDENT
    separators: tuple[str | Constraint, str | Constraint] | None = None
    max_whitespace: int = 40
    whitespace: Constraint | None = None
    property_order: str | None = None
    closed: bool = False
    outer_whitespace: bool = False
    integers: str = "plain"
    max_integer_digits: int | None = None
    max_fraction_digits: int | None = None
    max_string_length: int | None = None
    max_items: int | None = None
    max_depth: int | None = None
    max_branches: int = 4096
    notation: str = "json"
    block_depth: int = 8
    excludes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed, code="bad-schema-option")
        for name, allowed in _OPEN_CHOICES.items():
            check_choice(name, getattr(self, name), allowed, optional=True, code="bad-schema-option")
        for name, (least, most) in _COUNTS.items():
            optional = name not in ("indent", "max_whitespace", "max_branches", "block_depth")
            check_integer(name, getattr(self, name), least, most, optional=optional, code="bad-schema-option")
        if isinstance(self.separators, list):
            object.__setattr__(self, "separators", tuple(self.separators))
        if self.separators is not None and not _are_separators(self.separators):
            raise CompileError(
                "separators must be two strings, a comma and a colon with optional whitespace around each, as for "
                f"json.dumps, or two constraints, not {shown(self.separators)}",
                code="bad-schema-option",
            )
        if self.whitespace is not None and (not isinstance(self.whitespace, Constraint) or self.layout != "free"):
            raise CompileError(
                "whitespace must be a constraint, and applies to layout='free' only, e.g. whitespace=gr.regex(' ?')",
                code="bad-schema-option",
            )
        for name, usual, owner, fits in (
            ("indent", _INDENT, "layout='indented'", self.layout == "indented"),
            ("block_depth", 8, "notation='yaml'", self.notation == "yaml"),
        ):
            if getattr(self, name) != usual and not fits:
                raise CompileError(
                    f"{name} applies to {owner} only; pass that, or leave {name} out", code="bad-schema-option"
                )
        if isinstance(self.excludes, list):
            object.__setattr__(self, "excludes", tuple(self.excludes))
        if not isinstance(self.excludes, tuple) or not all(_is_text(text) for text in self.excludes):
            raise CompileError(
                f"excludes must be non-empty strings, not {shown(self.excludes)}",
                code="bad-schema-option",
            )
        for name in ("closed", "outer_whitespace"):
            check_flag(name, getattr(self, name), code="bad-schema-option")
        if self.outer_whitespace and self.notation != "json":
            raise CompileError("outer_whitespace applies to JSON only; leave it out", code="bad-schema-option")
        if self.excludes and self.notation != "json":
            raise CompileError("excludes apply to JSON only; leave them out", code="bad-schema-option")
        if self.dialect is not None and not isinstance(self.dialect, str):
            raise CompileError(
                f"dialect must be one of {', '.join(DIALECTS)}, or None, not {shown(self.dialect)}",
                code="bad-schema-option",
            )
        if not isinstance(self.base_uri, str):
            raise CompileError(f"base_uri must be a string, not {shown(self.base_uri)}", code="bad-schema-option")

    def as_written(self) -> SchemaOptions:
        """Returns the options with those that are None decided as a model writes; itself if none is."""
        order, layout = self.property_order, self.layout
        if order is None:
            order = "declared"
        if layout is None and self.notation != "yaml":  # which has one layout
            layout = "spaced"
        if (order, layout) == (self.property_order, self.layout):
            return self
        return replace(self, property_order=order, layout=layout)

    def lower_levels(self) -> str:
        """What to add to the advice on a schema that nests too deeply: options which write each level apart."""
        deep = {"max_depth": self.max_depth, "block_depth": self.block_depth if self.notation == "yaml" else None}
        return "".join(f", or lower {name}={most}" for name, most in deep.items() if most is not None and most > 16)

    @classmethod
    def of(cls, options: Mapping[str, Any], function: Callable[..., Any] | None = None) -> SchemaOptions:
        """Makes options from keyword arguments.

        Args:
            options: the arguments.
            function: the function that was given them, for the message about an unknown name; None: ``json_schema``.

        Raises:
            CompileError: ``bad-schema-option``: a name is unknown, or a value is wrong.
        """
        if not options:
            return DEFAULTS
        known = [one.name for one in fields(cls)]
        if not options.keys() <= set(known):
            name, own = "json_schema", list[str]()
            if function is not None:
                parameters = inspect.signature(function).parameters.values()
                name, own = function.__name__, [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
            check_names(name, options, known + own, code="bad-schema-option")
        return cls(**options)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and not has_surrogate(value)


def _are_separators(value: object) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    if all(isinstance(s, Constraint) for s in value):
        return True
    if not all(isinstance(s, str) for s in value):
        return False
    comma, colon = value
    return [comma.strip(" \t\r\n"), colon.strip(" \t\r\n")] == [",", ":"]


DEFAULTS = SchemaOptions()
