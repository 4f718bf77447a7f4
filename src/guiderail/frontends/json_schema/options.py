"""The options of `json_schema`, in one place: what each means, its unit and its default."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from guiderail.constraints.constraint import Constraint
from guiderail.errors import CompileError
from guiderail.support.texts import shown

if TYPE_CHECKING:
    from referencing import Registry

__all__ = ["DIALECTS", "SchemaOptions"]

DIALECTS = ("2020-12", "2019-09", "draft-07", "draft-06", "draft-04", "openapi-3.0")
"""Names of the dialects."""

_CHOICES: dict[str, tuple[str, ...]] = {
    "on_unsupported": ("error", "warn", "ignore"),
    "format": ("assert", "annotate"),
    "escapes": ("canonical", "all"),
    "integers": ("plain", "any"),
    "notation": ("json", "yaml", "python"),
}
_OPEN_CHOICES: dict[str, tuple[str, ...]] = {  # or None: what a model writes is narrower than what matches
    "layout": ("flexible", "compact", "spaced", "indented", "free"),
    "property_order": ("declared", "any"),
}
_COUNTS = {
    "indent": 0,
    "max_whitespace": 0,
    "max_integer_digits": 1,
    "max_fraction_digits": 0,
    "max_string_length": 0,
    "max_items": 0,
    "max_depth": 1,
    "max_branches": 1,
    "block_depth": 0,
}


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """How a schema is read and how its values are written.

    Attributes:
        dialect: name out of `DIALECTS`, or the URI of its metaschema; None: what ``$schema`` says, 2020-12 without it
            (older keywords keep their old meaning where 2020-12 gives them none).
        registry: a ``referencing.Registry`` with the other documents that references name; nothing is ever fetched.
        base_uri: URI of the schema itself, which relative references start from.
        on_unsupported: what cannot be enforced (a backreference in a pattern) is an ``"error"``, or dropped with a
            warning (``"warn"``) or without (``"ignore"``); ``report()`` lists it in any case.
        format: ``"assert"``: known formats are enforced; ``"annotate"``: no format is.
        escapes: spelling of strings: ``"canonical"``: each text in one way; ``"all"``: every legal escape.
        layout: white space in JSON: ``"flexible"``: one line, a space or none after ``,`` and ``:``; ``"compact"``:
            none; ``"spaced"``: one, as ``json.dumps``; ``"indented"``: as ``json.dumps(indent=…)``; ``"free"``: any,
            up to ``max_whitespace`` characters in one place; None: a model writes ``"spaced"``, whoever runs it
            (``generate``, logits processors, the server …), and texts match as ``"flexible"`` (``matches``,
            ``gr.compile`` of this constraint).
        indent: spaces of one level in the layout ``"indented"``.
        separators: texts between members and after a key, as for ``json.dumps``, instead of the layout's; or two
            constraints.
        max_whitespace: characters of white space in one place, in the layout ``"free"`` and around the whole.
        whitespace: a constraint for what may stand in one place, in the layout ``"free"``; None: any white space, up to
            ``max_whitespace`` characters.
        property_order: ``"declared"``: properties in the order of the schema, then other members; ``"any"``; None: a
            model writes the declared order, whoever runs it (``generate``, logits processors, the server …), and texts
            in any order match (``matches``, ``gr.compile`` of this constraint).
        closed: objects have no members but those that their schema names, unless it says ``additionalProperties`` or
            ``unevaluatedProperties`` (``allOf``, ``anyOf``, ``$ref`` … of the same object count as one schema).
        outer_whitespace: white space may stand before and after the whole, up to ``max_whitespace`` characters each.
            In JSON only.
        integers: ``"plain"`` digits, or ``"any"``: ``1.0`` and ``1e2`` too.
        max_integer_digits: most digits before the point, or None.
        max_fraction_digits: most digits after the point, or None.
        max_string_length: most characters of any string value, or None.
        max_items: most items of any array, or None.
        max_depth: how deep arrays and objects may nest, or None. The layout ``"indented"`` takes 16 for None where a
            schema is recursive or allows anything.
        max_branches: alternatives that one schema may have in advance (of arrays, of combinations of patterns, of what
            ``contains`` counts) before a LimitError is raised; those of objects are told apart while they are read.
        notation: how values are written: ``"json"``, ``"yaml"`` or ``"python"``.
        block_depth: levels of arrays and objects that YAML writes in block style; flow style below them.
        excludes: texts that no string and no name holds as it is written, between its quotes; strings with a pattern or
            a format are left alone. Names are spelled in one way then, those that the schema does not know without
            escapes. In JSON only.
    """

    dialect: str | None = None
    registry: Registry[Any] | None = field(default=None, compare=False)  # by identity, see JsonSchema
    base_uri: str = ""
    on_unsupported: str = "error"
    format: str = "assert"
    escapes: str = "canonical"
    layout: str | None = None
    indent: int = 2
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
            if getattr(self, name) not in allowed:
                known = ", ".join(map(repr, allowed))
                raise CompileError(
                    f"{name} must be one of {known}, not {shown(getattr(self, name))}", code="bad-schema-option"
                )
        for name, allowed in _OPEN_CHOICES.items():
            if getattr(self, name) not in (*allowed, None):
                known = ", ".join(map(repr, allowed))
                raise CompileError(
                    f"{name} must be one of {known}, or None, not {shown(getattr(self, name))}",
                    code="bad-schema-option",
                )
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if value is None and name not in ("indent", "max_whitespace", "max_branches", "block_depth"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
                raise CompileError(
                    f"{name} must be a whole number from {least} to {2**31 - 1:,}, not {shown(value)}",
                    code="bad-schema-option",
                )
        if isinstance(self.separators, list):
            object.__setattr__(self, "separators", tuple(self.separators))
        if self.separators is not None and not _are_separators(self.separators):
            raise CompileError(
                "separators must be two texts, one with a comma and one with a colon among white space, as for "
                f"json.dumps, or two constraints, not {shown(self.separators)}",
                code="bad-schema-option",
            )
        if self.whitespace is not None and (not isinstance(self.whitespace, Constraint) or self.layout != "free"):
            raise CompileError(
                "whitespace must be a constraint, and applies to layout='free' only, e.g. whitespace=gr.regex(' ?')",
                code="bad-schema-option",
            )
        if isinstance(self.excludes, list):
            object.__setattr__(self, "excludes", tuple(self.excludes))
        if not isinstance(self.excludes, tuple) or not all(_is_text(text) for text in self.excludes):
            raise CompileError(
                f"excludes must be texts of one character or more, not {shown(self.excludes)}", code="bad-schema-option"
            )
        for name in ("closed", "outer_whitespace"):
            if not isinstance(getattr(self, name), bool):
                raise CompileError(
                    f"{name} must be True or False, not {shown(getattr(self, name))}", code="bad-schema-option"
                )
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
        """The same with what is left open decided as a model writes it; itself if nothing is."""
        order, layout = self.property_order, self.layout
        if order is None:
            order = "declared"
        if layout is None and self.notation != "yaml":  # which has one layout
            layout = "spaced"
        if (order, layout) == (self.property_order, self.layout):
            return self
        return replace(self, property_order=order, layout=layout)

    @classmethod
    def of(cls, options: dict[str, Any]) -> SchemaOptions:
        """Options by name, with an error that lists the names if one is unknown."""
        if not options:
            return DEFAULTS
        known = {one.name for one in fields(cls)}
        for name in options:
            if name not in known:
                raise CompileError(
                    f"json_schema has no option {name!r}; there are {', '.join(sorted(known))}",
                    code="bad-schema-option",
                )
        return cls(**options)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and not any(0xD800 <= ord(c) < 0xE000 for c in value)


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
