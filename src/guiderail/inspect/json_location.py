"""The location of a JSON text in the value and in the schema.

The location in the value comes from reading the text as it grows. Those in the schema come from walking the schema
along the path of the value, through references and through ``allOf``, ``anyOf``, ``oneOf``, ``if`` and the like.
Alternatives that the text rules out are dropped: the type does not fit, a finished member is not allowed, or no
constant begins with the string so far. The others stay, marked as possible. ``contains``, ``propertyNames`` and ``not``
are not followed, because they do not describe a single location.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guiderail.errors import GuiderailError
from guiderail.frontends.json_schema.constraint import JsonSchema
from guiderail.frontends.json_schema.documents.dialects import keywords_of
from guiderail.frontends.json_schema.documents.references import Document, Node, Scope
from guiderail.frontends.json_schema.errors import SchemaError
from guiderail.inspect.place import Place
from guiderail.support.partial_json import PartialJson, Path, pointer
from guiderail.support.pointers import extended, unescaped

__all__ = ["JsonWhere"]

_DEEPEST = 24  # references and alternatives within each other in place
_MOST = 64  # locations in a schema for one location in a value
_WORDS = {
    "value": "a value begins",
    "item": "an item, or the end of the array",
    "key": "a key",
    "first-key": "a key, or the end of the object",
    "colon": "the colon after a key",
    "after": "after a member: a comma or the end",
    "string": "inside a string",
    "number": "inside a number",
    "word": "inside true, false or null",
    "end": "the value is complete",
}


@dataclass(frozen=True, slots=True)
class _Spot:
    """A schema, its location, and whether it certainly applies."""

    schema: Any
    scope: Scope
    pointer: str
    sure: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is written of one value: its type, its finished members, and its text if it is a string.

    ``kind`` is None where nothing is written yet.
    """

    kind: str | None
    members: dict[str, Any]
    items: list[Any]
    text: str | None = None
    begun: str | int | None = None  # the member that is being written


_NOTHING = _Seen(None, {}, [])


class JsonWhere:
    """Follows a JSON text and, if there is a schema, the locations in it.

    Args:
        schema: the constraint that the text is written under; None: the text is JSON under another constraint.
    """

    def __init__(self, schema: JsonSchema | None) -> None:
        self._reader: PartialJson | None = PartialJson()
        self._document: Document | None = None
        self._pointers: dict[int, str] = {}
        self._accepted: dict[tuple[int, int, str | int], bool] = {}
        if schema is not None:
            self._document = schema.document()

    def feed(self, text: str) -> None:
        """Reads more text. If it is not JSON, reading ends, and there are no locations from there on."""
        if self._reader is not None:
            try:
                self._reader.feed(text)
            except GuiderailError:
                self._reader = None

    def place(self) -> Place | None:
        """The location after what was read, or None if unknown."""
        reader = self._reader
        if reader is None:
            return None
        path, role = reader.place
        sure: tuple[str, ...] = ()
        possible: tuple[str, ...] = ()
        if self._document is not None:
            try:
                with self._document.evaluating():
                    spots = self._spots(self._document, reader, path, role)
            except (GuiderailError, RecursionError):  # too hard to decide: no location, rather than a wrong one
                spots = []
            sure = tuple(dict.fromkeys(spot.pointer for spot in spots if spot.sure))
            possible = tuple(dict.fromkeys(spot.pointer for spot in spots if spot.pointer not in sure))
        return Place(pointer(path), _WORDS[role], sure, possible)

    # -- the walk ----------------------------------------------------------------------------------------------
    def _spots(self, document: Document, reader: PartialJson, path: Path, role: str) -> list[_Spot]:
        _ = reader.value  # puts a growing string where it belongs
        steps: list[str | int] = []
        at = path
        while at is not None:
            at, step = at
            steps.append(step)
        steps.reverse()
        spots = [_Spot(document.contents, document.root, "#", True)]
        for depth in range(len(steps) + 1):
            seen = self._seen(reader, depth, role)
            spots = self._in_place(spots, seen)
            spots = [s for s in spots if s.sure or not self._refuted(s.schema, s.scope, seen, 0)]
            if len(spots) > _MOST:
                return []
            if depth < len(steps):
                spots = [inner for spot in spots for inner in self._below(spot, steps[depth])]
        return spots

    def _seen(self, reader: PartialJson, depth: int, role: str) -> _Seen:
        """The written part of the value that is this many steps below the root."""
        frames = reader.frames
        if depth < len(frames):
            frame = frames[depth]
            last = depth == len(frames) - 1
            busy = not last or role in ("value", "colon", "string", "number", "word")
            if isinstance(frame.container, dict):
                begun = frame.key if busy else None
                members = {key: value for key, value in frame.container.items() if key != begun}
                return _Seen("object", members, [], begun=begun)
            index = len(frame.container)
            if not last or (busy and role == "string"):
                index = frame.key  # the list already contains the item that is being written
            return _Seen("array", {}, frame.container[:index])
        if role in ("string", "number", "word"):
            if role == "string":
                value: Any = reader.value
                for frame in frames:
                    value = frame.container[frame.key]
                return _Seen("string", {}, [], text=value)
            return _Seen(role, {}, [])
        if role == "end" and depth == 0:
            return _whole(reader.value)
        return _NOTHING

    def _in_place(self, spots: list[_Spot], seen: _Seen) -> list[_Spot]:
        """The schemas that apply to the same value, including references and alternatives."""
        found: list[_Spot] = []
        known: dict[tuple[str, bool], bool] = {}
        stack = [(spot, 0) for spot in reversed(spots)]
        while stack:
            spot, depth = stack.pop()
            if (spot.pointer, spot.sure) in known or depth > _DEEPEST or len(found) > _MOST:
                continue
            known[spot.pointer, spot.sure] = True
            found.append(spot)
            if isinstance(spot.schema, dict):
                stack += [(inner, depth + 1) for inner in reversed(list(self._applied(spot, seen)))]
        return found

    def _applied(self, spot: _Spot, seen: _Seen) -> Iterator[_Spot]:
        schema, scope = spot.schema, spot.scope
        known = keywords_of(scope.dialect)
        target = self._referred(spot)
        if target is not None:
            yield target
        if scope.old and "$ref" in schema:
            return
        for i, part in enumerate(_list(schema, "allOf", known)):
            yield _Spot(part, scope, f"{spot.pointer}/allOf/{i}", spot.sure)
        for name in ("anyOf", "oneOf"):
            parts = _list(schema, name, known)
            left = [i for i, part in enumerate(parts) if not self._refuted(part, scope, seen, 0)]
            for i in left:
                yield _Spot(parts[i], scope, f"{spot.pointer}/{name}/{i}", spot.sure and len(left) == 1)
        if "if" in schema and "if" in known:
            no = self._refuted(schema["if"], scope, seen, 0)
            if "else" in schema:
                yield _Spot(schema["else"], scope, f"{spot.pointer}/else", spot.sure and no)
            if "then" in schema and not no:
                yield _Spot(schema["then"], scope, f"{spot.pointer}/then", False)
        for name in ("dependentSchemas", "dependencies"):
            needed = schema.get(name) if name in known else None
            if isinstance(needed, dict):
                for key, part in needed.items():
                    if (key in seen.members or key == seen.begun) and isinstance(part, dict | bool):
                        yield _Spot(part, scope, extended(spot.pointer, name, key), spot.sure)

    def _referred(self, spot: _Spot) -> _Spot | None:
        """The target of a schema's reference."""
        schema, scope = spot.schema, spot.scope
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            ref = schema.get(name)
            if not isinstance(ref, str) or (name != "$ref" and name not in keywords_of(scope.dialect)):
                continue
            if name == "$ref" and scope.uri is None and (ref == "#" or ref.startswith("#/")):
                target = scope._local(ref, schema)
                return _Spot(target, scope, self._pointer(target, ref), spot.sure)
            term = scope.reference(ref, schema) if name == "$ref" else scope.dynamic(ref, schema)
            if isinstance(term, Node):
                return _Spot(term.schema, term.scope, self._pointer(term.schema, ref), spot.sure)
            if name == "$ref":  # a type alone, or a schema that allows or forbids everything
                target, scope = scope.find(ref, schema)
                return _Spot(target, scope, self._pointer(target, ref), spot.sure)
        return None

    def _pointer(self, target: Any, otherwise: str) -> str:
        if not isinstance(target, dict):
            return otherwise
        known = self._pointers.get(id(target))
        if known is None:
            assert self._document is not None
            known = self._pointers[id(target)] = self._document.pointer(target)
        return known

    def _below(self, spot: _Spot, step: str | int) -> list[_Spot]:
        """The schemas that a schema has for a member or an item."""
        schema, scope = spot.schema, spot.scope
        if not isinstance(schema, dict) or (scope.old and "$ref" in schema):
            return []
        known = keywords_of(scope.dialect)
        if isinstance(step, int):
            name = _item_keyword(schema, known, step)
        else:
            found = []
            properties = schema.get("properties")
            if isinstance(properties, dict) and step in properties:
                found.append(extended("properties", step))
            patterns = schema.get("patternProperties")
            if isinstance(patterns, dict) and "patternProperties" in known:
                found += [extended("patternProperties", p) for p in patterns if _searches(p, step)]
            if found:
                return [_Spot(_at(schema, name), scope, f"{spot.pointer}/{name}", spot.sure) for name in found]
            name = "additionalProperties" if "additionalProperties" in schema else None
        if name is None:
            return []
        return [_Spot(_at(schema, name), scope, f"{spot.pointer}/{name}", spot.sure)]

    # -- what the text rules out -------------------------------------------------------------------------------
    def _refuted(self, schema: Any, scope: Scope, seen: _Seen, depth: int) -> bool:
        """Whether no value that begins like this satisfies the schema; False if that is hard to decide."""
        if schema is False:
            return True
        if not isinstance(schema, dict) or seen.kind is None or depth > _DEEPEST:
            return False
        known = keywords_of(scope.dialect)
        spot = _Spot(schema, scope, "#", True)
        target = self._referred(spot)
        if target is not None and self._refuted(target.schema, target.scope, seen, depth + 1):
            return True
        if scope.old and "$ref" in schema:
            return False
        if "type" in schema and not _type_fits(schema["type"], seen.kind, "nullable" in schema):
            return True
        constants = [schema["const"]] if "const" in schema and "const" in known else schema.get("enum")
        if isinstance(constants, list) and not any(_may_become(seen, value) for value in constants):
            return True
        for key, value in seen.members.items():
            if self._wrong(spot, key, value):
                return True
        if isinstance(seen.begun, str) and any(inner.schema is False for inner in self._below(spot, seen.begun)):
            return True
        for i, value in enumerate(seen.items):
            if self._wrong(spot, i, value):
                return True
        if any(self._refuted(part, scope, seen, depth + 1) for part in _list(schema, "allOf", known)):
            return True
        return any(
            parts and all(self._refuted(part, scope, seen, depth + 1) for part in parts)
            for parts in (_list(schema, "anyOf", known), _list(schema, "oneOf", known))
        )

    def _wrong(self, spot: _Spot, key: str | int, value: Any) -> bool:
        """Whether a finished member violates the schema."""
        for inner in self._below(spot, key):
            if inner.schema is True:
                continue
            if inner.schema is False:
                return True
            memo = (id(inner.schema), id(value), key)
            if isinstance(value, dict | list | str):  # these live as long as the reader, so their ids are theirs
                known = self._accepted.get(memo)
                if known is None:
                    known = self._accepted[memo] = self._accepts(inner, value)
            else:
                known = self._accepts(inner, value)
            if not known:
                return True
        return False

    def _accepts(self, spot: _Spot, value: Any) -> bool:
        try:
            return spot.scope.child(spot.schema).shape().accepts(value)
        except SchemaError:  # a schema without any known error rules nothing out
            return True


def _whole(value: Any) -> _Seen:
    if isinstance(value, dict):
        return _Seen("object", value, [])
    if isinstance(value, list):
        return _Seen("array", {}, value)
    if isinstance(value, str):
        return _Seen("string", {}, [], text=value)
    return _Seen("word" if value is None or isinstance(value, bool) else "number", {}, [])


def _type_fits(types: Any, kind: str, nullable: bool) -> bool:
    names = types if isinstance(types, list) else [types]
    fitting = {"number": ("number", "integer"), "word": ("boolean", "null")}.get(kind, (kind,))
    return any(name in fitting for name in names) or (nullable and kind == "word")


def _may_become(seen: _Seen, value: Any) -> bool:
    """Whether a constant begins like the text so far."""
    if seen.kind == "string":
        return isinstance(value, str) and value.startswith(seen.text or "")
    if seen.kind == "object":
        if not isinstance(value, dict) or (isinstance(seen.begun, str) and seen.begun not in value):
            return False
        return all(key in value and _same(member, value[key]) for key, member in seen.members.items())
    if seen.kind == "array":
        return isinstance(value, list) and len(value) >= len(seen.items) and all(map(_same, seen.items, value))
    if seen.kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or isinstance(value, bool)


def _same(a: Any, b: Any) -> bool:
    """Equality of JSON, in which true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)


def _list(schema: dict[str, Any], name: str, known: Any) -> list[Any]:
    value = schema.get(name) if name in known else None
    return value if isinstance(value, list) else []


def _item_keyword(schema: dict[str, Any], known: Any, index: int) -> str | None:
    prefix = schema.get("prefixItems") if "prefixItems" in known else None
    items = schema.get("items")
    if isinstance(prefix, list) and index < len(prefix):
        return f"prefixItems/{index}"
    if isinstance(items, list) and "prefixItems" not in known:
        if index < len(items):
            return f"items/{index}"
        return "additionalItems" if "additionalItems" in schema else None
    return "items" if isinstance(items, dict | bool) else None


def _at(schema: dict[str, Any], name: str) -> Any:
    first, _, rest = name.partition("/")
    value = schema[first]
    if isinstance(value, list) and rest:
        return value[int(rest)]
    return value[unescaped(rest)] if rest else value


def _searches(pattern: str, name: str) -> bool:
    from guiderail.frontends.json_schema.values.patterns import read_pattern

    return read_pattern(pattern).matches(name)
