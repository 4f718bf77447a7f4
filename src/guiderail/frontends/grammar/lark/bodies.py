"""Bodies of Lark's rules as expressions: literals become terminals, templates become rules of their own.

The result, including names and their order, equals that of Lark's chain of transformers (``PrepareLiterals``,
``PrepareAnonTerminals``, ``ApplyTemplates``), which go through all trees four times and copy them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from guiderail.frontends.grammar.lark.dialect import UNBOUNDED
from guiderail.frontends.grammar.lark.tokens import times
from guiderail.frontends.grammar.syntax import Choice, Expression, Name, Repetition, Sequence, Text
from guiderail.support.work import spend

__all__ = ["Bodies", "choice_of", "sequence_of"]

_BOUNDS = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_SPECIAL = frozenset(("literal", "range", "template_usage"))
_LONGEST = 10_000  # characters of a name of a template in use
_INSTANCE = 200  # steps of a template in use


class Bodies:
    """Iterates over the rules: the name of each and its body; None: it is only declared.

    Args:
        lark: the module ``lark.load_grammar``.
        definitions: its rules: name, parameters, tree, options.
        terminals: of Lark; those of literals are added.
        name_of: makes the name of a symbol in a rule.
        counted: inside, work is counted for a definition.
    """

    def __init__(
        self,
        lark: Any,
        definitions: list[Any],
        terminals: list[Any],
        name_of: Callable[[str, str], Name],
        counted: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self.lark, self.name_of, self.counted = lark, name_of, counted
        self.definitions = {str(name): (parameters, tree) for name, parameters, tree, _ in definitions}
        self.anonymous = lark.PrepareAnonTerminals(terminals)
        self.literals = lark.PrepareLiterals()
        self.known: dict[tuple[str, ...], str] = {}  # terminals of literals
        self.instances: dict[str, tuple[Any, dict[str, str]]] = {}
        self.order: deque[str] = deque()  # of those whose bodies are still to be made
        self.specials: dict[int, list[Any]] = {}  # by trees of definitions

    def __iter__(self) -> Iterator[tuple[str, Expression | None]]:
        for name, (parameters, tree) in self.definitions.items():
            if not parameters:
                yield name, None if tree is None else self.body(name, tree, {})
        while self.order:  # more are added as they are met
            name = self.order.popleft()
            tree, names = self.instances[name]
            yield name, self.body(name, tree, names)

    def body(self, rule: str, tree: Any, names: dict[str, str]) -> Expression:
        """The body of a rule; ``names``: what the parameters of its template stand for."""
        return _Body(self, rule, names).run(tree)

    def special(self, tree: Any) -> list[Any]:
        """The literals, ranges and used templates of a tree, in the order of Lark's ``iter_subtrees``."""
        known = self.specials.get(id(tree))
        if known is None:
            kind, queue, known = self.lark.Tree, [tree], []
            for node in queue:
                if node.data in _SPECIAL:
                    known.append(node)
                for child in node.children[::-1]:
                    if isinstance(child, kind):
                        queue.append(child)
            known.reverse()
            self.specials[id(tree)] = known
        return known

    def terminal(self, tree: Any) -> str:
        """The terminal of a literal or a range."""
        key = tuple(map(str, tree.children))
        if key not in self.known:
            make = getattr(self.literals, tree.data)
            self.known[key] = str(self.anonymous.pattern(make(*tree.children).children[0]).name)
        return self.known[key]

    def instance(self, template: str, arguments: list[str]) -> str:
        """The rule for a template with these arguments."""
        name = f"{template}{{{','.join(arguments)}}}"
        if name not in self.instances:
            if len(name) > _LONGEST:
                raise self.lark.GrammarError(f"The template '{template}' uses itself with ever larger arguments")
            parameters, tree = self.definitions[template]
            if tree is None or len(parameters) != len(arguments):
                raise self.lark.GrammarError(f"Wrong number of template arguments used for {template}")
            with self.counted(template):
                spend(_INSTANCE + len(name) // 8)
            self.instances[name] = tree, dict(zip(map(str, parameters), arguments, strict=True))
            self.order.append(name)
        return name


class _Body:
    def __init__(self, bodies: Bodies, rule: str, names: dict[str, str]) -> None:
        self.bodies, self.rule, self.names = bodies, rule, names
        self.symbols: dict[int, str] = {}  # of values that are neither a rule nor a terminal

    def run(self, tree: Any) -> Expression:
        special = self.bodies.special(tree)
        for sub in special:  # literals come first, in the order of Lark's transformers: it numbers them
            if sub.data != "template_usage":
                self.symbols[id(sub)] = self.bodies.terminal(sub)
        for sub in special:
            if sub.data == "template_usage":
                template, *arguments = sub.children
                name = self.names.get(template.name, str(template.name))
                self.symbols[id(sub)] = self.bodies.instance(name, [self.symbol(one) for one in arguments])
        return self.expression(tree)

    def symbol(self, value: Any) -> str:
        """The name of the symbol for a value."""
        (what,) = value.children
        found = self.symbols.get(id(what))
        if found is not None:
            return found
        name = str(what.name)
        return self.names.get(name, name)

    def expression(self, node: Any) -> Expression:
        kind, children = node.data, node.children
        if kind == "value":
            return self.bodies.name_of(self.rule, self.symbol(node))
        if kind == "expansion":
            return sequence_of([self.expression(child) for child in children])
        if kind == "expansions":
            return choice_of([self.expression(child) for child in children])
        if kind == "alias":
            return self.expression(children[0])
        if kind == "maybe":
            return Repetition(self.expression(children[0]), 0, 1)
        assert kind == "expr", kind
        item = self.expression(children[0])
        operator = str(children[1])
        if operator != "~":
            return Repetition(item, *_BOUNDS[operator])
        low, high = times(children[2]), times(children[-1])
        if high < low or low < 0:
            raise self.bodies.lark.GrammarError(f"Bad Range ({low}..{high} isn't allowed) in rule {self.rule}")
        return Repetition(item, low, None if high == UNBOUNDED else high)


def choice_of(parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Choice(tuple(parts))


def sequence_of(parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts)) if parts else Text("")
