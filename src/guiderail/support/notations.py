"""Texts in YAML and Python as trees, the same that :mod:`~guiderail.support.trees` makes of JSON."""

from __future__ import annotations

import ast
import re
from typing import Any

from guiderail.errors import CompileError, ReadError
from guiderail.support.numerals import digits, read_integer
from guiderail.support.packages import package
from guiderail.support.texts import shown
from guiderail.support.trees import Called, Mismatch, Number, Tree, members_of

__all__ = ["parse"]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)

# Strings, which stay as they are, and (group 2) integers of more digits than `ast` converts.
_PYTHON_PARTS = re.compile(
    r"""('''|\"\"\")(?:\\.|(?!\1).)*\1|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"|(?<![\w.])([1-9](?:_?[0-9]){4300,})(?![\w.])""",
    re.ASCII | re.DOTALL,
)

_LINE_BREAK = re.compile(rb"\r\n?|\n")  # as Python's parser counts lines


def parse(text: str | bytes, notation: str) -> Tree:
    """Parses a text in a notation other than JSON into a tree.

    Args:
        text: the text; bytes are UTF-8.
        notation: ``"yaml"`` (read by PyYAML, which must be installed) or ``"python"`` (read by ``ast``).

    Raises:
        ReadError: the text is not in the notation, or contains something that is not JSON.
        CompileError: the notation is neither of these, or PyYAML is not installed.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise ReadError(f"the text is not UTF-8 ({error})", code="read-syntax") from error
    try:
        if notation == "yaml":
            return _yaml(text)
        if notation == "python":
            return _python(text)
    except Mismatch as error:
        raise error.error() from None
    except RecursionError:
        raise ReadError("the text is nested too deeply; cap it with max_depth", code="read-depth") from None
    raise CompileError(f"notation must be 'json', 'yaml' or 'python', not {shown(notation)}", code="bad-schema-option")


def _yaml(text: str) -> Tree:
    yaml = package("yaml", "YAML needs PyYAML", extra="yaml")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ReadError(f"the text is not YAML ({error})", code="read-syntax") from error
    return None if root is None else _yaml_tree(root, ())


def _yaml_tree(node: Any, around: tuple[int, ...]) -> Tree:
    if id(node) in around:
        raise Mismatch("contains itself through an alias")
    around = (*around, id(node))
    kind = node.tag.rpartition(":")[2]
    if kind == "map":
        return members_of([(str(key.value), _yaml_tree(value, around)) for key, value in node.value])
    if kind == "seq":
        return [_yaml_tree(item, around) for item in node.value]
    if kind in ("str", "timestamp", "value"):
        return node.value
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() in ("yes", "true", "on")
    if kind in ("int", "float"):
        if _NUMBER.fullmatch(node.value):
            return Number(node.value)
        import yaml

        return _number(yaml.safe_load(node.value))
    raise Mismatch(f"has the tag {node.tag}, which is not one of JSON's types")


def _number(value: Any) -> Number:
    written = digits(value) if type(value) is int else repr(value)
    if not _NUMBER.fullmatch(written):
        raise Mismatch(f"contains {written}, which is not JSON")
    return Number(written)


def _python(text: str) -> Tree:
    source = text.strip()
    if len(source) > 4300:
        source = _PYTHON_PARTS.sub(_in_hexadecimal, source)
    try:
        root = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, MemoryError) as error:
        raise ReadError(f"the text is not a Python expression ({error})", code="read-syntax") from error
    return _python_tree(root, _LINE_BREAK.split(source.encode()))


def _in_hexadecimal(found: re.Match[str]) -> str:
    """An integer of more decimal digits than `ast` converts, as one that it does."""
    return hex(read_integer(found[2].replace("_", ""))) if found[2] else found[0]


def _python_tree(node: ast.expr, lines: list[bytes]) -> Tree:
    if isinstance(node, ast.Constant):
        return _constant(node, lines)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = _constant(node.operand, lines)
        if isinstance(number, Number):
            return Number("-" + number.text)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_python_tree(item, lines) for item in node.elts]
    if isinstance(node, ast.Dict):
        pairs = []
        for key, value in zip(node.keys, node.values, strict=True):
            name = None if key is None else _python_tree(key, lines)
            if not isinstance(name, str | Number):
                raise Mismatch("has a key that is neither a string nor a number")
            pairs.append((name if isinstance(name, str) else name.text, _python_tree(value, lines)))
        return members_of(pairs)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) and not node.args:
        if node.keywords == [] and isinstance(node.func, ast.Name) and node.func.id == "set":
            return []
        pairs = [(keyword.arg or "**", _python_tree(keyword.value, lines)) for keyword in node.keywords]
        return Called(ast.unparse(node.func), members_of(pairs))
    raise Mismatch(f"contains {ast.unparse(node)[:60]}, which is neither a literal nor a call with keywords")


def _constant(node: ast.Constant, lines: list[bytes]) -> Tree:
    value = node.value
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        if node.end_lineno == node.lineno:  # as it is spelled
            written = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
            if _NUMBER.fullmatch(written):
                return Number(written)
        return _number(value)
    raise Mismatch(f"contains {value!r}, which is not JSON")
