"""Classes and functions as objects with named members."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from guiderail.frontends.python_types import nodes
from guiderail.frontends.python_types.attrs_validators import validated, validators_of
from guiderail.frontends.python_types.bounds import gather
from guiderail.frontends.python_types.containers import Array, Field, Named, Object
from guiderail.frontends.python_types.errors import in_member, unsupported
from guiderail.frontends.python_types.fields import (
    annotation_of,
    docstring,
    filled,
    hints_of,
    is_hidden,
    is_pydantic,
    is_struct,
    is_typed_dict,
    origin_of,
    resolved,
    variables_of,
)
from guiderail.frontends.python_types.pydantic_types import (
    ModelRules,
    alias_in,
    dataclass_of,
    key_of,
    model_of,
    validator_of,
)

if TYPE_CHECKING:
    from guiderail.frontends.python_types.walk import Walker

__all__ = ["function_of", "object_of"]


def object_of(
    walker: Walker, kind: type[Any], args: tuple[Any, ...], in_model: ModelRules | None
) -> Object | nodes.Node:
    """The members of a class."""
    if getattr(kind, "_is_protocol", False) or inspect.isabstract(kind):
        raise unsupported(kind.__name__, "cannot be instantiated; name a class that can")
    if is_pydantic(kind) is not None:
        return model_of(walker, kind)
    if is_typed_dict(kind):
        return _typed_dict(walker, kind, args, in_model)
    if issubclass(kind, tuple):
        if not hasattr(kind, "_fields"):
            raise unsupported(kind.__name__, "a subclass of tuple does not declare its items; use a NamedTuple")
        return _named_tuple(walker, kind, args, in_model)
    if dataclasses.is_dataclass(kind):
        return _dataclass(walker, kind, args, in_model)
    if is_struct(kind):
        return _struct(walker, kind, args)
    return _plain_class(walker, kind, args)


def _split(
    walker: Walker, owner: str, name: str, hint: Any, in_model: ModelRules | None = None
) -> tuple[nodes.Node, str | None]:
    """The node of a member and what its annotation says about it."""
    with in_member(owner, name):
        return nodes.described_apart(walker.node(hint, in_model=in_model))


def _is_left_out(hint: Any, required: bool) -> bool:
    """Whether a member is never written."""
    return not required and is_hidden(getattr(annotation_of(hint)[0], "__metadata__", ()))


def _dataclass(walker: Walker, kind: type[Any], args: tuple[Any, ...], in_model: ModelRules | None) -> Object:
    hints = hints_of(kind, args, walker.names)
    by_pydantic = dataclass_of(walker, kind, args, hints, in_model)
    if by_pydantic is not None:
        return by_pydantic
    members: list[Field] = []
    for name, one in inspect.signature(kind).parameters.items():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) or name not in hints:
            return _plain_class(walker, kind, args)  # its own __init__
        hint = hints[name]
        if isinstance(hint, dataclasses.InitVar):
            hint = hint.type
        if _is_left_out(hint, one.default is one.empty):
            continue
        field = next((f for f in dataclasses.fields(kind) if f.name == name), None)
        node, description = _split(walker, kind.__name__, name, hint)
        if field is not None and isinstance(field.metadata.get("description"), str):
            description = field.metadata["description"]
        members.append(Field(name, name, node, one.default is one.empty, description))
    return Object(kind.__name__, tuple(members), lambda given, _: kind(**given), description=docstring(kind), call=True)


def _struct(walker: Walker, kind: type[Any], args: tuple[Any, ...]) -> Object:
    """A ``msgspec.Struct``: its fields as they are encoded, and its tag first."""
    config: Any = kind.__struct_config__
    if config.array_like:
        raise unsupported(kind.__name__, "a Struct with array_like is an array; leave array_like out, or use a tuple")
    hints = hints_of(kind, args, walker.names)
    members: list[Field] = []
    if config.tag is not None:
        members.append(Field("", config.tag_field, nodes.Literals(kind.__name__, ((config.tag, config.tag),)), True))
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    given_first = len(names) - len(defaults)  # the last fields have defaults, or say that they have none
    for i, (name, key) in enumerate(zip(names, kind.__struct_encode_fields__, strict=True)):
        required = i < given_first or type(defaults[i - given_first]).__name__ == "NoDefaultType"
        if _is_left_out(hints[name], required):
            continue
        node, description = _split(walker, kind.__name__, name, hints[name])
        members.append(Field(name, key, node, required, description))

    def make(given: dict[str, Any], _: dict[str, Any]) -> Any:
        return kind(**{name: value for name, value in given.items() if name})

    return Object(kind.__name__, tuple(members), make, description=docstring(kind))


def _typed_dict(walker: Walker, kind: type[Any], args: tuple[Any, ...], in_model: ModelRules | None) -> Object:
    required_keys: frozenset[str] = kind.__required_keys__
    config: dict[str, Any] = getattr(kind, "__pydantic_config__", None) or {}
    alone = bool(config) and in_model is None
    if config:
        in_model = ModelRules.of(config)
    members = []
    for name, hint in hints_of(kind, args, walker.names).items():
        inner, presence = annotation_of(hint)
        required = name in required_keys if presence is None else presence
        if _is_left_out(inner, required):
            continue
        node, description = _split(walker, kind.__name__, name, inner, in_model)
        key = (in_model or ModelRules()).key(kind.__name__, name, inner)
        members.append(Field(name if in_model is None else key, key, node, required, description, attribute=name))
    extra = getattr(kind, "__extra_items__", None)
    others = None
    if extra is not None and type(extra).__name__ not in ("NoExtraItemsType", "NoExtraItems"):
        inner, _ = annotation_of(extra)
        others = None if type(inner).__name__ == "_SpecialForm" and inner is not Any else walker.node(inner)
    elif config.get("extra") == "allow":
        others = nodes.AnyNode()
    validate = validator_of(kind, kind.__name__, walker.names) if alone else None

    def make(given: dict[str, Any], rest: dict[str, Any]) -> Any:
        made = {**given, **rest}
        return made if validate is None else validate(made)

    return Object(
        kind.__name__,
        tuple(members),
        make,
        others=others,
        description=docstring(kind),
        model=validate is not None,
        of_data=True,
    )


def _named_tuple(walker: Walker, kind: type[Any], args: tuple[Any, ...], in_model: ModelRules | None) -> Object:
    hints = hints_of(kind, args, walker.names)
    defaults: dict[str, Any] = kind._field_defaults
    members = []
    for name in kind._fields:
        hint, required = hints.get(name, Any), name not in defaults
        if _is_left_out(hint, required):
            continue
        node, description = _split(walker, kind.__name__, name, hint, in_model)
        members.append(Field(name, name, node, required, description))
    return Object(
        kind.__name__,
        tuple(members),
        lambda given, _: kind(**given),
        description=docstring(kind),
        call=True,
        of_data=True,
    )


def _plain_class(walker: Walker, kind: type[Any], args: tuple[Any, ...]) -> Object:
    """A class by the parameters of its ``__init__`` (or ``__new__``), with its type variables filled in."""
    # As `inspect.signature` chooses. Functions of C have no annotations: those of subclasses of list, dict …
    makers = [
        (one, _function(vars(one)[name]))
        for one in kind.__mro__
        for name in ("__new__", "__init__")
        if name in vars(one)
    ]
    owner, maker = next(((one, m) for one, m in makers if hasattr(m, "__annotations__")), (kind, None))
    if maker is None:
        raise unsupported(
            kind.__name__,
            "does not say what its values are made of; make it a dataclass, or give __init__ annotated parameters",
        )
    # Methods that attrs generates have globals of their own.
    known = {**vars(sys.modules.get(kind.__module__, typing)), kind.__name__: kind}
    variables = variables_of(kind, args).get(owner, {})
    made = parameters_of(walker, kind, kind.__name__, hints_from=maker, known=known, variables=variables)
    validators = validators_of(owner)
    if validators:
        fields = (
            dataclasses.replace(field, node=validated(field.node, validators.get(field.name))) for field in made.fields
        )
        made = dataclasses.replace(made, fields=tuple(fields))

    def make(given: dict[str, Any], others: dict[str, Any]) -> Any:
        bound = made.make(given, others)
        return kind(*bound.args, **bound.kwargs)

    return dataclasses.replace(made, make=make, description=docstring(kind), call=True)


def _function(method: Any) -> Any:
    """The function of a static or class method."""
    return method.__func__ if isinstance(method, staticmethod | classmethod) else method


def function_of(walker: Walker, function: Callable[..., Any]) -> Object:
    """The parameters of a function as an object; its values are ``inspect.BoundArguments``."""
    name = getattr(function, "__qualname__", None) or type(function).__name__
    source: Any = function
    while hasattr(source, "func") and not inspect.isfunction(source):  # functools.partial
        source = source.func
    if not (inspect.isroutine(source) or isinstance(source, type)):
        source = type(source).__call__
    made = parameters_of(walker, function, name.rpartition("<locals>.")[2], hints_from=source)
    return dataclasses.replace(made, description=docstring(inspect.unwrap(source)), call=True)


def parameters_of(
    walker: Walker,
    function: Callable[..., Any],
    name: str,
    *,
    hints_from: Any,
    known: Mapping[str, Any] = MappingProxyType({}),
    variables: Mapping[Any, Any] = MappingProxyType({}),
) -> Object:
    """Parameters as members: ``*args`` is an array under its name, ``**kwargs`` are additional members.

    Args:
        hints_from: what has the annotations.
        known: further names for annotations.
        variables: what type variables in them stand for.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise unsupported(name, f"its parameters are not known ({error})", "type-signature") from error
    hints = resolved(inspect.unwrap(hints_from), {**known, **walker.names})
    hints = {name: filled(hint, variables) for name, hint in hints.items()}
    members: list[Field] = []
    hidden: set[str] = set()
    others: nodes.Node | None = None
    rest = ""
    for one in signature.parameters.values():
        hint = hints.get(one.name, Any)
        origin, args = origin_of(hint)
        packed = (getattr(origin, "__name__", None) or getattr(origin, "_name", None)) == "Unpack"
        if one.kind is one.VAR_KEYWORD:
            rest = one.name
            if not packed:
                with in_member(name, one.name):
                    others = walker.node(hint)
                continue
            body = walker.node(args[0])
            while isinstance(body, Named) and body.body is not None:
                body = body.body
            if not isinstance(body, Object):
                raise unsupported(f"**{one.name} of {name}", "Unpack takes a TypedDict", "type-signature")
            for field in body.fields:
                if field.key in signature.parameters:
                    raise unsupported(
                        f"**{one.name} of {name}", f"{field.key!r} is also the name of a parameter", "type-signature"
                    )
            members += [dataclasses.replace(field, name=f"**{field.key}") for field in body.fields]
            continue
        if one.kind is one.VAR_POSITIONAL:
            if packed:
                raise unsupported(
                    f"*{one.name} of {name}", "unpacked types of *args are not supported", "type-signature"
                )
            with in_member(name, one.name):
                node: nodes.Node = Array(f"*{one.name}", walker.node(hint), tuple)
            members.append(Field(one.name, one.name, node, False))
            continue
        # def f(x: int = Field(gt=0)), as for pydantic.validate_call
        info = one.default if isinstance(one.default, _field_info()) else None
        required = one.default is one.empty if info is None else info.is_required()
        if _is_left_out(hint, required):
            hidden.add(one.name)
            continue
        node, description = _split(walker, name, one.name, hint)
        named = alias_in(hint) if info is None or (info.alias or info.validation_alias) is None else info
        key = one.name if named is None else key_of(name, one.name, named)
        if info is not None:
            with in_member(name, one.name):
                node = walker.constrained(node, dataclasses.replace(gather([info]), description=None))
            description = info.description or description
        members.append(Field(one.name, key, node, required, description))

    def make(given: dict[str, Any], more: dict[str, Any]) -> inspect.BoundArguments:
        arguments = {key: value for key, value in given.items() if not key.startswith("**")}
        more = {**more, **{key[2:]: value for key, value in given.items() if key.startswith("**")}}
        if more:
            arguments[rest] = more
        bound = inspect.BoundArguments(signature, typing.cast(Any, arguments))
        for parameter in signature.parameters.values():
            if isinstance(parameter.default, _field_info()) and parameter.name not in arguments:
                arguments[parameter.name] = parameter.default.get_default(call_default_factory=True)
        bound.apply_defaults()
        return bound

    return Object(name, tuple(members), make, others, frozenset(hidden))


def _field_info() -> Any:
    """pydantic's class of ``Field(…)``, if it has been imported; an empty tuple otherwise."""
    module = sys.modules.get("pydantic.fields")
    return () if module is None else module.FieldInfo
