"""Values of Python types while their JSON is being written.

A :class:`TypedPartial` follows a :class:`~guiderail.support.partial_json.PartialJson` and shows what has been read as
a value of the type. Three rules:

- What is finished has its type: a ``datetime``, an ``Enum``, a validated model. (If a validator rejects it, it is shown
  as if it were open; reading the finished text raises the error.)
- An open container is made without validation: models, dataclasses and named tuples without their ``__init__``, with
  None for every field that is not written yet, whatever its default. Functions, and classes that need their
  ``__init__``, are shown as a dict of what has been written.
- Other unfinished values are held back, except a growing ``str`` that no validator of its own may change. A union of
  several classes is a dict until the finished parts leave only one of them.

Each finished member is converted once; a snapshot costs a shallow copy of the open containers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from guiderail.frontends.python_types.containers import Array, Field, Mapping as MappingNode, Named, Object, Tuple
from guiderail.frontends.python_types.nodes import AnyNode, Checked, Literals, Node, Schemas, Text, Union
from guiderail.frontends.python_types.objects import function_of
from guiderail.frontends.python_types.walk import Walker
from guiderail.support.partial_json import Frame, PartialJson
from guiderail.support.trees import Mismatch, Number, plain

if TYPE_CHECKING:
    from guiderail.frontends.python_types import PythonType

__all__ = ["TypedPartial", "partial_of"]

_WITHHELD: Any = object()  # nothing to show

ClassOf = Callable[[Named], Any]
"""The class that a named node stands for, or None."""


def partial_of(made: PythonType[Any], *, growing_strings: bool) -> TypedPartial | None:
    """A reader of unfinished strings of a type; None where its notation is not JSON."""
    if made._options.get("notation", "json") != "json":
        return None
    walker = Walker(made._options.get("namespace"))
    # The nodes are built again, because only the walker knows their classes.
    node = function_of(walker, made.type) if isinstance(made._node, Object) else walker.node(made.type)
    classes = {id(named): key[0] for key, named in walker._named.items() if isinstance(key, tuple)}
    return TypedPartial(node, lambda named: classes.get(id(named)), growing_strings=growing_strings)


class TypedPartial:
    """A reader of JSON whose value is one of a type.

    Args:
        node: the type.
        class_of: finds the classes of named nodes.
        growing_strings: show ``str`` values that are not finished.
    """

    def __init__(self, node: Node, class_of: ClassOf, *, growing_strings: bool) -> None:
        self._json = PartialJson(growing_strings=growing_strings, parse_int=Number, parse_float=Number)
        self._plan = _Plan.of(node, {}, class_of)

    def feed(self, chunk: str) -> None:
        """Reads on. Raises the errors of :meth:`PartialJson.feed`."""
        self._json.feed(chunk)

    @property
    def finished(self) -> list[str]:
        """JSON pointers of what the last :meth:`feed` finished."""
        return self._json.finished

    @property
    def path(self) -> str | None:
        """JSON pointer of the innermost value that has begun and is not finished."""
        return self._json.path

    @property
    def is_complete(self) -> bool:
        """Whether the value is finished."""
        return self._json.is_complete

    def snapshot(self) -> Any:
        """The value so far, as it will stay; None if there is nothing to show yet."""
        reader = self._json
        value = reader.value  # puts a growing string in its place
        frames = reader.frames
        if not frames:
            if not reader.has_value:
                return None
            shown = self._plan.grow(value) if reader.open_string else self._plan.finish(value)
            return None if shown is _WITHHELD else shown
        plan = self._plan
        opened = []
        for depth, frame in enumerate(frames, 1):
            if frame.typed is None:
                frame.typed = _Open(plan)
            state: _Open = frame.typed
            last_is_open = depth < len(frames) or reader.open_string
            state.take(frame, last_is_open=last_is_open)
            opened.append(state)
            if last_is_open:
                plan = state.plan.member(frame.key)
        last = frames[-1]
        shown = plan.grow(last.container[last.key]) if reader.open_string else _WITHHELD
        for frame, state in zip(reversed(frames), reversed(opened), strict=True):
            shown = state.plan.build(state.members, frame.key, shown)
        return shown


class _Open:
    """The finished members of an open container, converted."""

    __slots__ = ("kind", "members", "plan", "taken")

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.members: Any = None
        self.taken = 0

    def take(self, frame: Frame, *, last_is_open: bool) -> None:
        """Converts the members that were finished since the last time."""
        raw = frame.container
        if (decided := self.plan.decide(raw, frame.key if last_is_open else None)) is not self.plan:
            self.plan, self.members, self.taken = decided, None, 0
        finished = len(raw) - last_is_open
        if isinstance(raw, list):
            if self.members is None:
                self.members = []
            for at in range(self.taken, finished):
                self.members.append(self.plan.member(at).finish(raw[at]))
        else:
            if self.members is None:
                self.members = {}
            fresh = list(islice(reversed(raw.items()), len(raw) - self.taken))
            for key, value in reversed(fresh[1:] if last_is_open else fresh):
                self.members[key] = self.plan.member(key).finish(value)
        self.taken = finished


# -- plans: what to show of a node ---------------------------------------------------------------------------------
class _Plan:
    """What to show of a node without parts of its own: numbers, dates, enumerations."""

    def __init__(self, node: Node, known: dict[int, _Plan], class_of: ClassOf) -> None:
        self.node = node
        self._known, self._class_of = known, class_of

    @staticmethod
    def of(node: Node, known: dict[int, _Plan], class_of: ClassOf) -> _Plan:
        """The plan of a node, always the same one: types may be recursive."""
        found = known.get(id(node))
        if found is None:
            inner, cls, changed = node, None, False
            while isinstance(inner, Checked | Named):
                if isinstance(inner, Named):
                    assert inner.body is not None  # whole types only
                    cls = class_of(inner)
                    inner = inner.body
                    if getattr(cls, "__pydantic_root_model__", False):
                        break
                else:
                    changed |= inner.validate is not None
                    inner = inner.inner
            if isinstance(inner, Checked):
                found = _Root(node, known, class_of, cls)
            elif isinstance(inner, Object):
                found = _Record(node, known, class_of, inner, cls)
            else:
                found = _KINDS.get(type(inner), _Plan)(node, known, class_of)
            found.inner, found.changed = inner, changed
            known[id(node)] = found
        return found

    inner: Any  # the node without names and checks
    changed: bool = False  # whether code may make another value of what was read

    def plan(self, node: Node) -> _Plan:
        return _Plan.of(node, self._known, self._class_of)

    def finish(self, raw: Any) -> Any:
        """The value of a finished part."""
        try:
            value = self.node.read(raw)
        except Mismatch:  # an error of a validator; reading the finished text raises it
            return self.refused(raw)
        return self.remade(raw) if self.is_remade else value

    @cached_property
    def is_remade(self) -> bool:
        """Whether it has parts that reading leaves as texts, because the model around it makes their values."""
        seen, waiting = {id(self)}, [self]
        while waiting:
            plan = waiting.pop()
            if isinstance(plan, _Text) and plan.inner.shown is not None:
                return True
            parts = [] if plan.changed else plan.parts()
            waiting += [part for part in parts if id(part) not in seen]
            seen.update(map(id, parts))
        return False

    def parts(self) -> list[_Plan]:
        """The plans of what it is made of, if nothing but reading makes it."""
        return []

    def remade(self, raw: Any) -> Any:
        """The value of a finished part that can be read, with the values that the model around it will make."""
        return self.node.read(raw)

    def refused(self, raw: Any) -> Any:
        """What to show of a finished part that cannot be read."""
        return plain(raw)

    def grow(self, raw: str) -> Any:
        """What to show of an unfinished string."""
        return _WITHHELD if self.changed else self.growing(raw)

    def growing(self, raw: str) -> Any:
        """The same, where no code may change it."""
        return _WITHHELD

    def member(self, key: Any) -> _Plan:
        """The plan of a member or an item."""
        return self.plan(_ANYTHING)

    def decide(self, raw: Any, unfinished: Any) -> _Plan:
        """The plan to follow for an open container; ``unfinished`` is the key of a member that is not finished."""
        return self

    def build(self, members: Any, key: Any, open_value: Any) -> Any:
        """An open container: its finished members, and the value under ``key`` unless that is withheld."""
        if isinstance(members, list):
            return members.copy() if open_value is _WITHHELD else [*members, open_value]
        return members.copy() if open_value is _WITHHELD else {**members, key: open_value}


_ANYTHING = AnyNode()


class _UndecidedNode(AnyNode):
    pass


_UNDECIDED = _UndecidedNode()


class _Anything(_Plan):
    def growing(self, raw: str) -> Any:
        return raw


class _Undecided(_Plan):
    """A member of one of several classes: shown as JSON, but strings may be constants, and are held back."""


class _Text(_Plan):
    def finish(self, raw: Any) -> Any:
        return self.remade(raw) if self.is_remade else super().finish(raw)

    def remade(self, raw: Any) -> Any:
        if self.inner.shown is not None and isinstance(raw, str):
            with suppress(Exception):  # the model around it will say why
                return self.inner.shown(raw)
        return super().finish(raw)

    def growing(self, raw: str) -> Any:
        return raw if self.inner.parse is None and self.inner.shown is None else _WITHHELD


class _Container(_Plan):
    def remade(self, raw: Any) -> Any:
        return self.refused(raw)

    def refused(self, raw: Any) -> Any:
        if isinstance(raw, list):
            return self.build([self.member(i).finish(item) for i, item in enumerate(raw)], None, _WITHHELD)
        if isinstance(raw, dict):
            return self.build({key: self.member(key).finish(value) for key, value in raw.items()}, None, _WITHHELD)
        return plain(raw)


class _Array(_Container):
    def parts(self) -> list[_Plan]:
        return [self.plan(self.inner.item)]

    def member(self, key: Any) -> _Plan:
        return self.plan(self.inner.item)

    def build(self, members: Any, key: Any, open_value: Any) -> Any:
        if not self.inner.unique:
            return self.inner.make(super().build(members, key, open_value))
        try:
            return self.inner.make(members)  # an unfinished value is not a member of a set
        except Exception:  # neither is a value that a validator refused, which may not be hashable
            return members.copy()


class _Tuple(_Container):
    def parts(self) -> list[_Plan]:
        nodes = self.inner.items if self.inner.rest is None else (*self.inner.items, self.inner.rest)
        return [self.plan(node) for node in nodes]

    def member(self, key: Any) -> _Plan:
        items = self.inner.items
        return self.plan(items[key] if key < len(items) else self.inner.rest or _ANYTHING)

    def build(self, members: Any, key: Any, open_value: Any) -> Any:
        return tuple(super().build(members, key, open_value))


class _Mapping(_Container):
    _read_key: Callable[[str], Any] | None = None

    def parts(self) -> list[_Plan]:
        return [self.plan(self.inner.values)]

    def member(self, key: Any) -> _Plan:
        return self.plan(self.inner.values)

    def build(self, members: Any, key: Any, open_value: Any) -> Any:
        made = super().build(members, key, open_value)
        if self._read_key is None:
            _, self._read_key = self.inner.keys.key(Schemas())
        try:
            return self.inner.make({self._read_key(name): value for name, value in made.items()})
        except Exception:  # as in finish; and a key may refuse to be hashed
            return made


class _Record(_Container):
    """A class with fields, a function's parameters."""

    def __init__(self, node: Node, known: dict[int, _Plan], class_of: ClassOf, inner: Object, cls: Any) -> None:
        super().__init__(node, known, class_of)
        self.fields: dict[str, Field] = {one.key: one for one in inner.fields}
        # the tag of a struct has no attribute
        self.names = {key: one.attribute or one.name or key for key, one in self.fields.items()}
        self.cls = cls

    def parts(self) -> list[_Plan]:
        if hasattr(self.cls, "__pydantic_validator__"):
            return []
        return [self.member(key) for key in self.fields] + ([] if self.inner.others is None else [self.member(None)])

    def remade(self, raw: Any) -> Any:
        value = self.node.read(raw)
        made = {self.names.get(key, key): self.member(key).finish(part) for key, part in raw.items()}
        if isinstance(value, dict):
            return {**value, **made}
        return value._replace(**made) if hasattr(value, "_replace") else value

    def member(self, key: Any) -> _Plan:
        if key in self.fields:
            return self.plan(self.fields[key].node)
        return self.plan(self.inner.others or _ANYTHING)

    def build(self, members: Any, key: Any, open_value: Any) -> Any:
        made = super().build(members, key, open_value)
        return _record(self.cls, {self.names.get(key, key): value for key, value in made.items()})

    def fits(self, raw: dict[str, Any], unfinished: Any) -> bool:
        """Whether an object may still become one of these, by its keys and those of its values that are constants."""
        for key, value in raw.items():
            if key not in self.fields:
                if self.inner.others is None:
                    return False
                continue
            node = self.plan(self.fields[key].node).inner
            if key != unfinished and isinstance(node, Literals):
                try:
                    node.read(value)
                except Mismatch:
                    return False
        return True


class _Union(_Plan):
    def _arms(self, kind: str) -> list[_Plan]:
        """The plans of the branches that can be written like this, including branches of branches."""
        found: list[_Plan] = []
        for branch in self.inner.branches:
            if kind in branch.kinds:
                plan = self.plan(branch)
                found += plan._arms(kind) if isinstance(plan, _Union) else [plan]
        return found

    def parts(self) -> list[_Plan]:
        return [self.plan(branch) for branch in self.inner.branches]

    def remade(self, raw: Any) -> Any:
        found = []
        for arm in self.parts():
            with suppress(Mismatch):
                found.append((arm, arm.node.read(raw)))
        arm, value = found[0]  # as in reading
        if isinstance(raw, str) and any(other.growing(raw) is raw for other, _ in found):
            return value  # pydantic prefers a plain text
        return arm.remade(raw) if arm.is_remade else value

    def member(self, key: Any) -> _Plan:
        return self.plan(_UNDECIDED)

    def growing(self, raw: str) -> Any:
        arms = self._arms("string")
        return arms[0].grow(raw) if len(arms) == 1 else _WITHHELD

    def refused(self, raw: Any) -> Any:
        plan = self.decide(raw, None) if isinstance(raw, dict | list) else self
        return plain(raw) if plan is self else plan.refused(raw)

    def decide(self, raw: Any, unfinished: Any) -> _Plan:
        """The only branch that the finished parts leave; otherwise this plan, which shows plain JSON."""
        arms = self._arms("array" if isinstance(raw, list) else "object")
        if isinstance(raw, dict):
            arms = [arm for arm in arms if not isinstance(arm, _Record) or arm.fits(raw, unfinished)]
        return arms[0] if len(arms) == 1 else self


class _Root(_Container):
    """A pydantic RootModel: the JSON is that of its one field."""

    def __init__(self, node: Node, known: dict[int, _Plan], class_of: ClassOf, cls: Any) -> None:
        super().__init__(node, known, class_of)
        self.cls = cls
        self.decided: _Plan | None = None

    @property
    def field(self) -> _Plan:
        return self.decided or self.plan(self.inner.inner)

    def parts(self) -> list[_Plan]:
        return []

    def growing(self, raw: str) -> Any:
        shown = self.field.grow(raw)
        return shown if shown is _WITHHELD else _model(self.cls, {"root": shown})

    def member(self, key: Any) -> _Plan:
        return self.field.member(key)

    def decide(self, raw: Any, unfinished: Any) -> _Plan:
        decided = self.field.decide(raw, unfinished)
        if decided is self.field:
            return self
        root = _Root(self.node, self._known, self._class_of, self.cls)
        root.inner, root.changed, root.decided = self.inner, self.changed, decided
        return root

    def build(self, members: Any, key: Any, open_value: Any) -> Any:
        return _model(self.cls, {"root": self.field.build(members, key, open_value)})


_KINDS: dict[type[Node], type[_Plan]] = {
    AnyNode: _Anything,
    Array: _Array,
    MappingNode: _Mapping,
    Text: _Text,
    Tuple: _Tuple,
    Union: _Union,
    _UndecidedNode: _Undecided,
}


# -- classes without their __init__ --------------------------------------------------------------------------------
def _record(cls: Any, values: dict[str, Any]) -> Any:
    """An unfinished value of a class, made from its fields; a dict if nothing is known of the class, or it refuses."""
    if not isinstance(cls, type):
        return values
    try:
        return _made(cls, values)
    except Exception:  # a class of a dict or an exception; code of its own, such as descriptors
        return values


def _made(cls: type[Any], values: dict[str, Any]) -> Any:
    if hasattr(cls, "model_fields") and hasattr(cls, "__pydantic_fields__"):
        return _model(cls, values)
    if dataclasses.is_dataclass(cls):
        made = object.__new__(cls)
        for one in dataclasses.fields(cls):
            object.__setattr__(made, one.name, values.get(one.name))
        return made
    named_tuple: Any = cls
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple.__new__(named_tuple, map(values.get, named_tuple._fields))
    return values


def _model(cls: Any, values: Mapping[str, Any]) -> Any:
    """A pydantic model as ``model_construct`` makes it, but without ``model_post_init`` and without defaults."""
    model = cls.__new__(cls)
    fields = cls.__pydantic_fields__
    extra = {name: value for name, value in values.items() if name not in fields}
    object.__setattr__(model, "__dict__", {name: values.get(name) for name in fields})
    object.__setattr__(model, "__pydantic_fields_set__", {name for name in fields if name in values})
    object.__setattr__(model, "__pydantic_extra__", extra if cls.model_config.get("extra") == "allow" else None)
    object.__setattr__(model, "__pydantic_private__", {} if cls.__private_attributes__ else None)
    return model
