"""Pydantic models, and the types that pydantic defines.

This module reads the parts of a model into values of their types (a ``Decimal`` from its digits, an ``Enum`` member, a
``set``), and pydantic makes the model with ``model_validate``. So its validators, aliases and defaults apply, but it
need not parse JSON, where it is more limited (no ``Decimal`` beyond 17 digits, no member of an ``IntEnum`` in a
``Literal``, 200 levels).
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from guiderail.errors import CompileError
from guiderail.frontends import patterns
from guiderail.frontends.python_types import nodes, number_nodes
from guiderail.frontends.python_types.bounds import Bounds, describes_itself, tag_of
from guiderail.frontends.python_types.containers import Field, Object
from guiderail.frontends.python_types.errors import in_member, unsupported
from guiderail.frontends.python_types.extra_types import extra
from guiderail.frontends.python_types.fields import (
    annotated_type,
    annotation_of,
    docstring,
    is_hidden,
    is_pydantic,
    resolved,
)
from guiderail.frontends.python_types.nodes import call_user, described_apart
from guiderail.frontends.python_types.scalars import scalar
from guiderail.frontends.python_types.urls import url
from guiderail.support.trees import Tree, dump, plain

if TYPE_CHECKING:
    from guiderail.frontends.python_types.walk import Walker

__all__ = [
    "ModelRules",
    "alias_in",
    "dataclass_of",
    "described_anew",
    "encoded",
    "generic_of",
    "key_of",
    "leaf",
    "model_of",
    "nested_as",
    "tag_key",
    "validator_of",
]


# The settings of a model that hold for dataclasses and typed dicts in it, unless they have a config of their own.
_SHARED = ("str_min_length", "str_max_length", "str_strip_whitespace", "str_to_upper", "str_to_lower", "regex_engine",
           "alias_generator", "validate_by_alias", "validate_by_name", "populate_by_name", "use_enum_values",
           "coerce_numbers_to_str", "revalidate_instances")  # fmt: skip

_INSTANCES = ("never", "subclass-instances")  # which models are not made anew


@dataclasses.dataclass(frozen=True)
class ModelRules:
    """What the config of a model requires of all values in it.

    Attributes:
        strings: bounds of every ``str``, and of whatever pydantic reads from one.
        engine: what reads its patterns.
        told: the settings that dataclasses and typed dicts in the model share with it, which tell rules apart.
        config: the same, for pydantic.
    """

    strings: Bounds = field(default_factory=Bounds)
    engine: str = "rust-regex"
    told: tuple[tuple[str, Any], ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(config: Mapping[str, Any]) -> ModelRules:
        """What a config requires."""
        strings = Bounds(
            min_length=config.get("str_min_length") or None,
            max_length=config.get("str_max_length"),
            strip=bool(config.get("str_strip_whitespace")),
            case=bool(config.get("str_to_upper") or config.get("str_to_lower")),
        )
        usual = {"validate_by_alias": (None, True), "revalidate_instances": (None, *_INSTANCES)}
        shared = {name: config[name] for name in _SHARED if config.get(name) not in usual.get(name, (None, False))}
        told = tuple((name, id(value) if name == "alias_generator" else value) for name, value in shared.items())
        shared["arbitrary_types_allowed"] = bool(config.get("arbitrary_types_allowed"))
        return ModelRules(strings, config.get("regex_engine") or "rust-regex", told, shared)

    def key(self, owner: str, name: str, hint: Any) -> str:
        """The name of the member that pydantic expects for a member of a typed dict."""
        info, generate = alias_in(hint), self.config.get("alias_generator")
        if self.config.get("validate_by_alias") is False:
            return name
        if generate is not None and (info is None or info.alias_priority == 1):
            if not hasattr(generate, "generate_aliases"):
                return str(generate(name))
            alias, read, _ = generate.generate_aliases(name)
            info = SimpleNamespace(alias=alias, validation_alias=read)
        return name if info is None else key_of(owner, name, info)

    def of_string(self, node: nodes.Node) -> nodes.Node:
        """A type that pydantic reads from a ``str``, within these bounds."""
        if self.strings == Bounds():
            return node
        if isinstance(node, nodes.Text):
            return replace(node, bounds=node.bounds & self.strings)
        if isinstance(node, Leaf) and node.json_schema.get("type") == "string":
            within = [*node.json_schema.get("allOf", ()), *self._keywords()]
            return replace(node, json_schema={**node.json_schema, "allOf": within})
        return node

    def _keywords(self) -> list[dict[str, Any]]:
        bounds = self.strings
        stated = {"minLength": bounds.min_length, "maxLength": bounds.max_length}
        patterns = [{"pattern": nodes.STRIPPED}] if bounds.strip else []
        return [{keyword: value} for keyword, value in stated.items() if value is not None] + patterns


@contextmanager
def _asked(name: str) -> Iterator[None]:
    """Pydantic is asked about the type ``name``: what it raises is said as an error of ours."""
    from pydantic.errors import PydanticUndefinedAnnotation

    try:
        yield
    except PydanticUndefinedAnnotation as error:
        raise unsupported(
            name,
            f"an annotation uses the name {error.name!r}, which is not known there; pass "
            f"namespace={{{error.name!r}: …}}",
            "type-forward-reference",
        ) from error
    except Exception as error:  # of pydantic, or of the methods by which a class describes itself
        why = " ".join(str(error).partition("\n\nFor further information")[0].split()) or type(error).__name__
        raise unsupported(name, f"pydantic refuses this type: {why}") from error


def validator_of(kind: Any, name: str, names: Mapping[str, Any]) -> Callable[[Any], Any]:
    """What pydantic makes of a value of an annotated type, whose forward references may use ``names``."""
    with _asked(name):
        validate: Callable[[Any], Any] = _adapter(kind, names).validate_python
    return validate


def _adapter(kind: Any, names: Mapping[str, Any]) -> Any:
    from pydantic import TypeAdapter

    adapter = TypeAdapter(kind)
    if not getattr(adapter, "pydantic_complete", True):
        adapter.rebuild(_types_namespace=dict(names))
    return adapter


# -- models
def model_of(walker: Walker, kind: type[Any]) -> nodes.Node:
    """The fields of a model or of a pydantic dataclass."""
    if kind.__module__ == "pydantic.main":
        raise unsupported(kind.__name__, "has no fields; name a class derived from it")
    members = _fields(walker, kind)
    config = config_of(kind)
    rules = ModelRules.of(config)
    by_alias = config.get("validate_by_alias", True) is not False
    if getattr(kind, "__pydantic_root_model__", False):
        root = members["root"]
        inner = _tagged(walker, root, walker.annotated(root.annotation, root.metadata, in_model=rules))
        return nodes.Root(inner, validate=kind.model_validate, description=docstring(kind))
    fields: list[Field] = []
    hidden: set[str] = set()
    for name, info in members.items():
        if getattr(info, "init", None) is False:
            continue
        key = key_of(kind.__name__, name, info, by_alias)
        hidden |= _names_of(name, info) - {key}
        if is_hidden(info.metadata) and not info.is_required():
            hidden.add(key)
            continue
        with in_member(kind.__name__, name):
            node = _tagged(walker, info, walker.annotated(info.annotation, info.metadata, in_model=rules))
        node, described = described_apart(node)
        fields.append(Field(key, key, node, info.is_required(), info.description or described, attribute=name))
    others = None
    if config.get("extra") == "allow":
        extra = resolved(kind, walker.names).get("__pydantic_extra__", dict[str, Any])
        args: tuple[Any, ...] = getattr(annotation_of(extra)[0], "__args__", ())
        value = args[1] if len(args) == 2 and hasattr(extra, "__origin__") and extra.__origin__ is dict else Any
        others = walker.node(value, in_model=rules)
    if is_pydantic(kind) == "model":

        def make(given: dict[str, Any], rest: dict[str, Any]) -> Any:
            return kind.model_validate({**given, **rest})
    else:

        def make(given: dict[str, Any], rest: dict[str, Any]) -> Any:
            return kind(**given, **rest)

    name = kind.__name__.partition("[")[0]
    others_not = frozenset(hidden - {one.key for one in fields})
    return Object(name, tuple(fields), make, others, others_not, docstring(kind), call=True, model=True)


def dataclass_of(
    walker: Walker, kind: type[Any], args: tuple[Any, ...], hints: Mapping[str, Any], in_model: ModelRules | None
) -> Object | None:
    """A dataclass of the standard library of which pydantic knows more; pydantic then makes it. Otherwise None.

    It may have a config, fields with ``= Field(…)`` and aliases, or be in a model that has a config.

    Args:
        hints: its annotations, with the arguments ``args`` of the class filled in.
    """
    if "pydantic" not in sys.modules:
        return None
    told = any(type(one.default).__name__ == "FieldInfo" for one in dataclasses.fields(kind))
    told |= any(alias_in(hint) is not None for hint in hints.values())
    own = getattr(kind, "__pydantic_config__", None)
    shared = None if own or in_model is None or not in_model.told else dict(in_model.config)
    if not (told or own or shared):
        return None
    from pydantic import ConfigDict
    from pydantic.dataclasses import dataclass

    params: Any = vars(kind)["__dataclass_params__"]
    config = None if shared is None else ConfigDict(**shared)
    with _asked(kind.__name__):
        read = dataclass(frozen=params.frozen, config=config)(kind)  # a class derived from it: for its fields
    for name, info in _fields(walker, read).items():
        if args and name in hints:
            inner = annotation_of(hints[name])[0]
            info.annotation = getattr(inner, "__origin__", inner) if hasattr(inner, "__metadata__") else inner
    made = model_of(walker, read)
    assert isinstance(made, Object)
    filled: Any = kind[args] if args else kind
    if config is None:
        validate = validator_of(filled, kind.__name__, walker.names)
    else:
        validate = _within(filled, kind.__name__, config, walker.names)

    def make(given: dict[str, Any], others: dict[str, Any]) -> Any:
        return validate({**given, **others})

    return dataclasses.replace(made, name=kind.__name__, make=make, description=docstring(kind))


def _within(kind: Any, name: str, config: Any, names: Mapping[str, Any]) -> Callable[[Any], Any]:
    """What a model with this config makes of a value of a type in it."""
    from pydantic import Field as FieldOf, create_model

    around: Any
    with _asked(name):
        around = create_model(name, __config__=config, it=(kind, FieldOf(alias="it")))
        if not around.__pydantic_complete__:
            around.model_rebuild(_types_namespace=dict(names))
    return lambda data: around.model_validate({"it": data}).it


def _tagged(walker: Walker, info: Any, node: nodes.Node) -> nodes.Node:
    """The node of a field, whose discriminator is not among its metadata."""
    tag = tag_of(info).tag
    return node if tag is None else walker.constrained(node, Bounds(tag=tag_key(info.annotation, tag)))


def generic_of(reference: Any, models: Iterable[Any]) -> Any:
    """The one of these models that pydantic's placeholder for a generic model stands for; None if it is none of them.

    The placeholder names the generic class and its arguments by their addresses.
    """
    name, _, rest = reference.type_ref.partition("[")
    given = re.findall(r":(\d+)(?=[,\]])", rest)
    found = []
    for model in models:
        made: dict[str, Any] = getattr(model, "__pydantic_generic_metadata__", None) or {}
        origin = made.get("origin")
        if origin is not None and name == f"{origin.__module__}.{origin.__qualname__}:{id(origin)}":
            if [str(id(arg)) for arg in made["args"]] == given:
                return model
            found.append(model)
    return found[0] if len(found) == 1 else None  # equal arguments may be other objects


def nested_as(kind: type[Any]) -> str:
    """``Node.nested`` of a class."""
    if is_pydantic(kind) is None:
        return ""
    return "remade" if config_of(kind).get("revalidate_instances") == "always" else "model"


def config_of(kind: type[Any]) -> dict[str, Any]:
    """The config of a model or of a pydantic dataclass."""
    return getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", None) or {}


def _fields(walker: Walker, kind: type[Any]) -> dict[str, Any]:
    with _asked(kind.__name__):
        if is_pydantic(kind) == "model":
            if not kind.__pydantic_complete__:
                kind.model_rebuild(_types_namespace={kind.__name__: kind, **walker.names} if walker.names else None)
        elif not getattr(kind, "__pydantic_complete__", True):
            from pydantic.dataclasses import rebuild_dataclass

            rebuild_dataclass(kind, _types_namespace=walker.names or None)
    fields: dict[str, Any] | None = getattr(kind, "__pydantic_fields__", None)
    return dict(kind.model_fields if fields is None else fields)


def _names_of(name: str, info: Any) -> set[str]:
    """All members of which pydantic may read a field."""
    alias = info.validation_alias if info.validation_alias is not None else info.alias
    choices = [getattr(one, "path", [one])[0] for one in getattr(alias, "choices", [alias])]
    return {name, *(one for one in choices if isinstance(one, str))}


def alias_in(hint: Any) -> Any:
    """The ``Field`` in an annotation that gives the member another name; None if none does."""
    found = None
    for item in getattr(annotation_of(hint)[0], "__metadata__", ()):
        if type(item).__name__ == "FieldInfo" and (item.alias or item.validation_alias) is not None:
            found = item
    return found


def key_of(owner: str, name: str, info: Any, by_alias: bool = True) -> str:
    """The name of the member that pydantic expects for a field of ``owner``."""
    alias = info.validation_alias if info.validation_alias is not None else info.alias
    if alias is None or not by_alias:
        return name
    choices = [alias] if not hasattr(alias, "choices") else alias.choices
    for choice in choices:
        if isinstance(choice, str):
            return choice
        path: Any = getattr(choice, "path", ())
        if len(path) == 1 and isinstance(path[0], str):
            return str(path[0])
    raise unsupported(
        f"{owner}.{name}", "its alias is a path into other members; give it a plain alias too", "type-alias"
    )


def tag_key(kind: Any, name: str) -> str:
    """The member that is the discriminator ``name`` of the alternatives of a type."""
    kind, _ = annotation_of(kind)
    if is_pydantic(kind) is not None and name in (fields := getattr(kind, "__pydantic_fields__", {})):
        config = config_of(kind)
        return key_of(kind.__name__, name, fields[name], config.get("validate_by_alias", True) is not False)
    args = () if isinstance(kind, type) else getattr(kind, "__args__", ())
    return next((key for key in (tag_key(arg, name) for arg in args) if key != name), name)


# -- types that pydantic brings along
@dataclasses.dataclass
class Leaf(nodes.Node):
    """A type that only pydantic understands: described by pydantic's schema, and read by pydantic."""

    name: str
    json_schema: dict[str, Any]
    validate: Callable[[str], Any] | None
    injective: bool = False

    @property
    def kinds(self) -> frozenset[str]:  # type: ignore[override]
        kind = self.json_schema.get("type")
        if isinstance(kind, str):
            return frozenset({"number" if kind == "integer" else kind})
        return frozenset({"null", "boolean", "number", "string", "array", "object"})

    def key(self, out: nodes.Schemas) -> tuple[dict[str, Any], Callable[[str], Any]]:
        if self.json_schema.get("type") != "string":
            return super().key(out)
        return {name: value for name, value in self.schema(out).items() if name != "type"}, self.read

    def schema(self, out: nodes.Schemas) -> dict[str, Any]:
        return _moved(self.json_schema, self.name, out)

    def read(self, tree: Tree) -> Any:
        return plain(tree) if self.validate is None else call_user(self.validate, dump(tree))


def _moved(schema: dict[str, Any], name: str, out: nodes.Schemas) -> dict[str, Any]:
    """A schema made elsewhere, with its definitions moved among ours under new names."""
    prefix = f"{name}."

    def renamed(part: Any) -> Any:
        if isinstance(part, list):
            return [renamed(one) for one in part]
        if not isinstance(part, dict):
            return part
        made = {key: renamed(value) for key, value in part.items() if key != "$defs"}
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/"):
            made["$ref"] = "#/$defs/" + prefix + reference.removeprefix("#/$defs/")
        return made

    for label, definition in schema.get("$defs", {}).items():
        out.definitions[prefix + label] = renamed(definition)
    return dict(renamed(schema))


_BASE64 = {"Base64Encoder": False, "Base64UrlEncoder": True}  # by name: whether the alphabet is the URL-safe one


def encoded(inner: Any, encoder: Any) -> nodes.Node:
    """``Base64Bytes``, ``Base64Str`` and the like: the text as it is; pydantic decodes it."""
    name = getattr(encoder, "__name__", type(encoder).__name__)
    if name not in _BASE64:
        raise unsupported(
            f"EncodedBytes with {name}", "guiderail does not know what this encoder reads; use bytes or str"
        )
    if inner is str:  # the bytes must be UTF-8 as well
        return nodes.Text("Base64Str", _ascii_base64("-_" if _BASE64[name] else "+/"))
    pattern = f"^(?:{patterns.base64(url_safe=_BASE64[name]).pattern})$"  # type: ignore[attr-defined]
    return nodes.Text("Base64Bytes", pattern, parse=str.encode)


def _ascii_base64(last: str) -> str:
    """Base 64 of ASCII text: the top bit of each of three bytes is 0. ``last``: the last two digits."""
    digits = f"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789{last}"
    first = "".join(d for i, d in enumerate(digits) if not i & 0b100000)
    second = "".join(d for i, d in enumerate(digits) if not i & 0b001000)
    third = "".join(d for i, d in enumerate(digits) if not i & 0b000010)
    last_of_one = "".join(d for i, d in enumerate(digits) if not i & 0b001111)
    last_of_two = "".join(d for i, d in enumerate(digits) if not i & 0b000011)
    kind = {
        "first": f"[{first}]",
        "second": f"[{second}]",
        "third": f"[{third}]",
        "any": "[{}]".format(digits.replace("-", r"\-")),
    }
    group = kind["first"] + kind["second"] + kind["third"] + kind["any"]
    return f"^(?:{group})*(?:{kind['first']}[{last_of_one}]==|{kind['first']}{kind['second']}[{last_of_two}]=)?$"


def leaf(kind: Any, *, in_model: ModelRules | None) -> nodes.Node:
    """A type of pydantic's own, or one that describes itself to pydantic."""
    name = getattr(kind, "__name__", str(kind))
    made = _known(kind, name)
    if made is None:
        made = _described(kind, name, in_model)
        return made if in_model is None else in_model.of_string(made)
    if in_model is None:
        return nodes.Checked(made, validate=validator_of(kind, name, {}))
    if isinstance(made, nodes.Text):
        validate = cache(lambda: validator_of(kind, name, {}))
        made = replace(made, shown=lambda text: validate()(text))
    return in_model.of_string(made) if name in ("EmailStr", "NameEmail", "SecretStr") else made


def _known(kind: Any, name: str) -> nodes.Node | None:
    if getattr(kind, "__module__", "").startswith("pydantic_extra_types."):
        return extra(kind, name)
    if name in ("PastDate", "FutureDate", "PastDatetime", "FutureDatetime", "AwareDatetime", "NaiveDatetime"):
        return _moment(name)
    if name in ("EmailStr", "NameEmail"):
        return _email(name)
    if name == "SecretStr":
        return nodes.Text(name, sized=True)
    if name == "SecretBytes":
        return nodes.Text(name, parse=str.encode)
    if name == "ByteSize":
        return number_nodes.Integers(name="ByteSize", bounds=Bounds(ge=0, le=2**63 - 1))
    if name.startswith("IPvAny"):  # IPvAnyAddress, IPvAnyInterface, IPvAnyNetwork
        nodes_of = [scalar(getattr(ipaddress, name.replace("Any", version))) for version in "46"]
        return nodes.Union(name, tuple(one for one in nodes_of if one is not None))
    if name in ("ImportString", "Json"):
        raise unsupported(name, "code and JSON inside a string are not supported; use the type of the value itself")
    if hasattr(kind, "_constraints") and (hasattr(kind, "host") or hasattr(kind, "hosts")):
        return url(kind, name)
    return None


def _moment(name: str) -> nodes.Node:
    node = scalar(datetime.date if name.endswith("Date") else datetime.datetime)
    assert node is not None
    if name == "AwareDatetime":
        return node.constrained(Bounds(timezone=True))
    if name == "NaiveDatetime":
        return node.constrained(Bounds(timezone=None))
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    # A margin of two days: today's date depends on the place, and time passes until the text is read.
    limit: Any = now + datetime.timedelta(days=2 if name.startswith("Future") else -2)
    if name.endswith("Date"):
        limit = limit.date()
    return node.constrained(Bounds(gt=limit) if name.startswith("Future") else Bounds(lt=limit))


def _email(name: str) -> nodes.Node:
    """What email-validator accepts: no quoted parts, no reserved domains."""
    try:
        from email_validator import SPECIAL_USE_DOMAIN_NAMES as RESERVED
    except ImportError:
        RESERVED = ["arpa", "invalid", "local", "localhost", "onion", "test"]
    word = "[A-Za-z0-9]+"
    label = "[a-z0-9]{1,30}(?:-[a-z0-9]{1,30})?"
    pattern = rf"^[A-Za-z0-9._+-]{{1,64}}@(?:{label}\.){{1,3}}[a-z]{{2,20}}$"
    ends = "|".join(name.replace(".", r"\.") for name in RESERVED)
    texts = (rf"^{word}(?:[._+-]{word})*@", rf"^(?!.*[@.](?:{ends})$)")
    return nodes.Text(name, pattern, bounds=Bounds(texts=texts, max_length=254), sized=True)


def _described(kind: Any, name: str, in_model: ModelRules | None) -> nodes.Node:
    with _asked(name):
        adapter = _adapter(kind, {})
        schema = adapter.json_schema()
    return Leaf(name, schema, None if in_model is not None else adapter.validate_json)


def described_anew(
    inner: Any, metadata: Sequence[Any], name: str, names: Mapping[str, Any], in_model: ModelRules | None
) -> nodes.Node | None:
    """The node of an annotation with code that makes another schema of the type; None if its texts are the same."""
    rest = [item for item in metadata if not describes_itself(item)]
    if len(rest) == len(metadata):
        return None
    try:
        with _asked(name):
            adapter = _adapter(annotated_type(inner, metadata), names)
            schema = adapter.json_schema()
    except CompileError:  # the code does not say: it runs when a value is read
        return None
    with suppress(CompileError), _asked(name):
        if schema == _adapter(annotated_type(inner, rest) if rest else inner, names).json_schema():
            return None
    return Leaf(name, schema, None if in_model is not None else adapter.validate_json)
