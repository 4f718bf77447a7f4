"""Lark's own example grammars, with texts to start mutations from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lark
from lark.indenter import PythonIndenter

_GRAMMARS = Path(lark.__file__).parent / "grammars"

CALC = """
?start: sum | NAME "=" sum -> assign_var
?sum: product | sum "+" product -> add | sum "-" product -> sub
?product: atom | product "*" atom -> mul | product "/" atom -> div
?atom: NUMBER -> number | "-" atom -> neg | NAME -> var | "(" sum ")"
%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
"""

JSON = """
?start: value
?value: object | array | string | SIGNED_NUMBER -> number | "true" -> true | "false" -> false | "null" -> null
array : "[" [value ("," value)*] "]"
object : "{" [pair ("," pair)*] "}"
pair : string ":" value
string : ESCAPED_STRING
%import common.ESCAPED_STRING
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS
"""

INI = r"""
start: _NL? section+
section: "[" NAME "]" _NL item*
item: NAME "=" VALUE? _NL
NAME: /\w/+
VALUE: /[^\n]+/
%import common.NEWLINE -> _NL
%import common.WS_INLINE
%ignore WS_INLINE
"""

LARK = (_GRAMMARS / "lark.lark").read_text(encoding="utf-8")
PYTHON = (_GRAMMARS / "python.lark").read_text(encoding="utf-8")

# name: grammar, options of Lark, texts
EXAMPLES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "calc": (CALC, {}, ["1+2*3", "x = (4 - y)/2", "-1.5e3*(a+b)"]),
    "json": (JSON, {}, ['{"a": [1, -2.5, true], "b\\"": null}', "[]", '"x"']),
    "ini": (INI, {}, ["[a]\nb=c d\ne=\n[f]\n", "\n\n[ x ]\ny = z\n"]),
    "lark": (LARK, {}, [CALC, JSON, INI, 'a: b~2..3 "x"i -> c\n | d{e,F}\n%declare X Y\n', "A: /x\\/y/ // c\n"]),
    "python": (
        PYTHON,
        {"start": "file_input", "postlex": PythonIndenter()},
        [
            "x = 1\n",
            "def f(a, b=2):\n    return a + b\n",
            'if x:\n  y = "a" """b\n c"""\nelse:\n\tz = [1,\n 2]\n',
            "for i in range(10): print(i) # c\n",
            "match x:\n    case [1, _]:\n        pass\n",
            'class A(B):\n    x: int = 0o17\n    @d\n    def g(self): yield 1.5e3\n\n\nx = ""\ny = 01\n',
        ],
    ),
}
ALPHABET = "abf01\"'\n\t []{}()=+,:.#\\/|_%~-é"
