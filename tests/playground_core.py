"""Connects ``playground/python/core.py`` to guiderail's own core: decodes its calls from bytes and makes them there.

As a program, it reads constraints as JSON lines, with the stand-in in place of ``guiderail._core``. For each it writes
the masks over a small vocabulary, or the code of its error:

    python tests/playground_core.py < constraints.jsonl
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def load_real() -> Any:
    """Loads the extension under a separate name."""
    places = [ROOT / "src", *map(Path, sys.path)]  # built in place, or installed in editable mode
    found = next((one for place in places for one in (place / "guiderail").glob("_core*.so")), None)
    assert found is not None, "the core is not built: make core"
    spec = importlib.util.spec_from_file_location("native._core", found)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_stand_in() -> Any:
    """Loads the stand-in as ``guiderail._core``, before guiderail is imported."""
    assert "guiderail" not in sys.modules
    sys.path.insert(0, str(ROOT / "playground" / "python"))
    spec = importlib.util.spec_from_file_location("guiderail._core", ROOT / "playground" / "python" / "core.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["guiderail._core"] = module
    spec.loader.exec_module(module)
    return module


class Read:
    """The arguments of a call, in order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def u(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def i(self) -> int:
        value = self.u()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def b(self) -> bytes:
        size = self.u()
        self.at += size
        return self.data[self.at - size : self.at]

    def s(self) -> str:
        return self.b().decode("utf-8", "surrogatepass")

    def rest(self) -> bytes:
        return self.data[self.at :]

    def list(self, one: Callable[[], Any]) -> list[Any]:
        return [one() for _ in range(self.u())]

    def us(self) -> list[int]:
        return self.list(self.u)

    def name(self) -> str | int:
        return self.u() if self.u() else self.s()

    def value(self) -> Any:
        return self.list(lambda: (self.u(), self.u()))

    def table(self) -> tuple[Any, ...]:
        names, values = self.list(self.b), self.list(self.value)
        required = [bool(one) for one in self.us()]
        others = self.list(lambda: (self.u(), self.u(), bool(self.u()), self.u()))
        return names, values, required, others, self.u(), self.u()

    def part(self) -> tuple[int, list[int]]:
        return self.u(), self.us()


def _identifier_lexer(terminals: Any, ignore: Any, _: Any, __: Any, traps: Any, r: Read) -> tuple[Any, ...]:
    identifiers, placeholders = r.list(lambda: (r.u(), r.us())), r.list(lambda: (r.u(), r.u(), r.u()))
    return terminals, ignore, traps, identifiers, placeholders


# fmt: off
_PLAIN: dict[str, Callable[[Read], tuple[Any, ...]]] = {
    "literal": lambda r: (r.b(),),
    "byte_class": lambda r: (bytes(value for value in range(256) if r.rest()[value // 8] >> value % 8 & 1),),
    "concat": lambda r: (r.us(),), "union": lambda r: (r.us(),), "intersection": lambda r: (r.us(),),
    "complement": lambda r: (r.u(),), "repeat": lambda r: (r.u(), r.i(), r.i()),
    "choice": lambda r: (r.list(r.b),), "substring_of": lambda r: (r.list(r.b),),
    "substring_of_chunks": lambda r: (r.list(r.b),),
    "look_ahead": lambda r: (r.u(), bool(r.u())), "look_behind": lambda r: (r.u(), bool(r.u())),
    "scope": lambda r: (r.u(),), "token": lambda r: (r.list(r.name),),
    "token_set": lambda r: (r.list(r.name), bool(r.u())), "counted": lambda r: (r.u(), r.u()),
    "rule": lambda r: (r.s(), bool(r.u())), "escaped": lambda r: (r.u(), r.u()),
    "item": lambda r: (r.u(), r.u(), r.u()), "distinct": lambda r: (r.u(),), "twice": lambda r: (r.u(),),
    "terminal": lambda r: (r.u(), r.u()), "never": lambda r: (r.u(),), "lexed": lambda r: (r.u(), r.u()),
    "define": lambda r: (r.u(), r.u()), "is_nullable": lambda r: (r.u(),), "is_empty": lambda r: (r.u(),),
    "first_bytes": lambda r: (r.u(),), "dump": lambda r: (r.u(),),
    "decimals": lambda r: (
        r.list(lambda: (r.s(), r.s(), r.u(), r.u(), r.s())),
        r.list(lambda: (bool(r.u()), r.list(lambda: (r.s(), r.list(r.s))))), r.list(r.s), r.u(), r.i()),
    "lexer": lambda r: (
        r.list(lambda: (r.u(), r.u(), r.us(), r.u() if r.u() else None)), r.us(),
        (r.u(), r.u(), r.u(), r.us(), r.us(), r.u(), bool(r.u()), bool(r.u())) if r.u() else None, r.b(), r.us()),
    "identifier_lexer": lambda r: _identifier_lexer(*_PLAIN["lexer"](r), r),
    "binding": lambda r: (r.u(), r.list(r.us), r.u()),
    "patterned": lambda r: (r.u(), r.us(), r.list(r.us), r.us()), "recall": lambda r: (r.u(),),
    "capture": lambda r: (r.u(), r.u(), r.u()),
}
_OF_A_PROGRAM: dict[str, Callable[[Read], tuple[Any, ...]]] = {
    "derivative": lambda r: (r.u(), r.rest()), "program_is_nullable": lambda r: (r.u(),), "is_live": lambda r: (r.u(),),
    "program_first_bytes": lambda r: (r.u(),), "forced_bytes": lambda r: (r.u(), r.u()),
    "likely": lambda r: (r.u(), r.u()), "program_dump": lambda r: (r.u(),), "least_bytes": lambda r: (r.u(),),
    "node_count": lambda r: (), "memory_size_bytes": lambda r: (),
}
# fmt: on


class RealLink:
    """Makes the calls of the stand-in in the real core, and counts them."""

    def __init__(self, real: Any, stand_in: Any) -> None:
        self.real, self.stand_in = real, stand_in
        self.kept: dict[int, Any] = {}
        self.calls = 0

    def number(self, operation: int, handle: int, arguments: bytes) -> int:
        answer: int = self._call(operation, handle, arguments)
        return int(answer or 0)

    def data(self, operation: int, handle: int, arguments: bytes) -> bytes:
        answer = self._call(operation, handle, arguments)
        return answer.encode() if isinstance(answer, str) else bytes(answer)

    def _call(self, operation: int, handle: int, arguments: bytes) -> Any:
        self.calls += 1
        try:
            name, r = self.stand_in.CALLS[operation], Read(arguments)
            return self._made(self.stand_in.OPERATIONS[r.u() - 1] if name == "add" else name, handle, r)
        except self.real.CoreError as error:
            raise self.stand_in.CoreError(*error.args) from None

    def _keep(self, what: Any) -> int:
        self.kept[len(self.kept) + 1 if len(self.kept) + 1 not in self.kept else max(self.kept) + 1] = what
        return max(self.kept)

    def _made(self, name: str, handle: int, r: Read) -> Any:
        u = self.stand_in._u
        if name == "free":
            self.kept[handle] = None  # numbers are not used twice
            return 0
        if name == "builder":
            limits = r.u(), r.u(), r.u()
            return self._keep(self.real.Builder(*limits[: 3 if limits[2] else 2], records=bool(r.u())))
        if name == "spend_work":
            return self.real.spend_work(r.u())
        if name == "spent_work":
            return u(self.real.spent_work())
        if name == "limit_work":
            until, steps, _ = self.real.limit_work(r.u())
            return u(until) + u(steps)
        if name == "restore_work":
            return self.real.restore_work((r.u(), r.u(), 0))
        of = self.kept[handle]
        if name == "char_class":
            ranges, last = [], 0
            for _ in range(r.u()):
                low = last + r.u()
                last = low + r.u()
                ranges.append((low, last))
            return of.char_class(self.real.CharSet(ranges))
        if name == "members":
            table, ordered, escapes = r.table(), bool(r.u()), r.u()
            return of.members(*table, ordered=ordered, escapes=escapes, min=r.i(), max=r.i(), pending=r.u())
        if name == "vote":
            table, ordered, escapes = r.table(), bool(r.u()), r.u()
            cells = r.list(lambda: (r.us(), r.u(), r.i()))
            parts, effects, settled = r.list(r.part), r.list(r.us), r.list(lambda: (r.us(), r.u()))
            wholes = r.list(lambda: r.list(lambda: (r.us(), r.u())))
            return of.vote(
                *table,
                ordered=ordered,
                escapes=escapes,
                cells=cells,
                parts=parts,
                effects=effects,
                settled=settled,
                wholes=wholes,
            )
        if name == "tally":
            places, comma = r.list(lambda: r.list(lambda: (r.u(), r.us(), r.us()))), r.u()
            cells, parts = r.list(lambda: (r.u(), r.i())), r.list(r.part)
            return of.tally(places, comma, cells=cells, parts=parts, counters=r.list(lambda: (r.u(), r.u(), r.i())))
        if name == "replay":
            return of.replay(r.rest())
        if name == "recorded":
            return of.recorded(r.u())
        if name == "finish":
            return self._keep(of.finish(r.u()))
        if name == "root":
            return of.root
        if name == "shortest":
            found = of.shortest(r.u(), r.u())
            return b"\0" if found is None else b"\1" + found
        if name in ("symbols", "first_symbols"):
            found = of.symbols() if name == "symbols" else of.first_symbols(r.u())
            return u(len(found)) + b"".join(map(self._symbol, found))
        if name in _OF_A_PROGRAM:
            return getattr(of, name.removeprefix("program_"))(*_OF_A_PROGRAM[name](r))
        return getattr(of, name)(*_PLAIN[name](r))

    def _symbol(self, symbol: Any) -> bytes:
        if isinstance(symbol, (str, int)):
            return bytes(self.stand_in._symbol(symbol))
        names = b"".join(map(self._symbol, symbol.tokens))
        return bytes(b"\2" + self.stand_in._u(symbol.but) + self.stand_in._u(len(symbol.tokens)) + names)


TOKENS = [bytes([byte]) for byte in range(256)] + [
    word.encode() for word in ('{"', '":', '", "', "true", "null", '"name"', "ab", "12", " +", "red", "[1", '"}', "é")
]


def masks(real: Any, program: Any, texts: list[str]) -> list[str]:
    """Returns the masks after each text over `TOKENS`; "refused" if it is not a prefix."""
    import numpy as np

    offsets = np.cumsum([0] + [len(token) for token in TOKENS]).astype(np.uint32)
    vocabulary = real.Vocabulary(
        b"".join(TOKENS), offsets, np.zeros(len(TOKENS), np.uint8), len(TOKENS) + 1, [len(TOKENS)]
    )
    guide = real.Guide(program, vocabulary, {})
    found = []
    for text in texts:
        matcher = real.Matcher(guide)
        row = np.zeros((1, (len(TOKENS) + 32) // 32), np.int32)
        if matcher.accept_string(text.encode()):
            matcher.fill_next_token_bitmask(row)
            found.append(row.tobytes().hex())
        else:
            found.append("refused")
    return found


def main() -> None:
    real = load_real()
    stand_in = load_stand_in()
    link = RealLink(real, stand_in)
    stand_in.connect(link)
    sys.path.insert(0, str(ROOT / "src"))
    package = types.ModuleType("guiderail.inspect")  # its own imports are not available, as in the browser
    package.__path__ = [str(ROOT / "src" / "guiderail" / "inspect")]
    sys.modules["guiderail.inspect"] = package
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(ROOT / "tests"))
    from test_playground_core import described

    for line in sys.stdin:
        kind, source, options, texts = json.loads(line)
        print(json.dumps(described(real, kind, source, options, texts, link)), flush=True)


if __name__ == "__main__":
    main()
