"""Every reader of a text, as a function of bytes, with the texts that its fuzzing starts from.

Only a ``GuiderailError`` may leave a reader. Vocabulary files are read by other libraries, and errors that those raise
for a bad file do not count. If the library can read the file, errors of guiderail count.
"""

from __future__ import annotations

import ast
import gzip
import json
import struct
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import guiderail as gr
from guiderail.support.partial_json import PartialJson

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests" / "data"


@dataclass
class Target:
    read: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]


def text(data: bytes) -> str:
    """Returns any text, including lone surrogates, which come from JSON and from careless programs."""
    return data.decode("utf-8", "surrogatepass") if b"\xed" in data and valid(data) else data.decode("utf-8", "replace")


def valid(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def used(constraint: gr.Constraint) -> None:
    """Compiles it too, and computes a mask: what a front end accepts must not break the next stages."""
    guide = gr.compile(constraint, vocabulary(), cache=False, prepare=0, max_nodes=200_000, fuel=20_000)
    matcher = guide.matcher()
    bitmask = gr.allocate_token_bitmask(1, vocabulary().size)
    for byte in b'{"a':
        matcher.fill_next_token_bitmask(bitmask, 0)
        if not matcher.accept_token(byte):
            break


@lru_cache(maxsize=1)
def vocabulary() -> gr.Vocabulary:
    tokens = [bytes([b]) for b in range(256)] + [b'{"', b'":', b"ab", b"  "]
    return gr.Vocabulary([*tokens, b"<eos>"], special_tokens={"<eos>": len(tokens)}, stop_token_ids=[len(tokens)])


def parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None  # not JSON: guiderail is not called


# -- regular expressions --------------------------------------------------------------------------------------------
def regex(data: bytes) -> None:
    flags = ["", "i", "m", "s", "x", "a"][data[0] % 6] if data else ""
    used(gr.regex(text(data[1:]), flags=flags, dialect=["python", "ecma"][data[0] // 6 % 2] if data else "python"))


def strings_in(*folders: str) -> list[bytes]:
    """Returns the string constants of our tests, which include inputs of the readers."""
    found = set()
    for folder in folders:
        for path in sorted((ROOT / "tests").glob(folder)):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and 2 < len(node.value) < 3000:
                    found.add(node.value.encode("utf-8", "surrogatepass"))
    return sorted(found)


# -- grammars -------------------------------------------------------------------------------------------------------
def grammar_of(syntax: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        used(gr.grammar(text(data), syntax, max_rules=2_000))

    return read


# -- JSON Schema, XML Schema ----------------------------------------------------------------------------------------
def json_schema(data: bytes) -> None:
    used(gr.json_schema(text(data)))


def schemas() -> list[bytes]:
    found = [path.read_bytes() for path in sorted((DATA / "schemas").glob("*.json"))]
    for path in sorted((DATA / "json_schema_suite").glob("draft*.json.gz")):
        suite = json.loads(gzip.decompress(path.read_bytes()))
        stack: list[Any] = [suite]
        while stack:
            value = stack.pop()
            if isinstance(value, dict) and "schema" in value:
                found.append(json.dumps(value["schema"]).encode())
            stack += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [one for one in found if len(one) < 3000]


def xml_schema(data: bytes) -> None:
    used(gr.xml_schema(text(data)))


def xml_schemas() -> list[bytes]:
    found = [path.read_bytes() for path in sorted((DATA / "xsd").glob("*.xsd"))]
    head, end = b'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">', b"</xs:schema>"
    found += [head + one + end for one in strings_in("test_xml_schema*.py") if one.startswith(b"<xs:")]
    return [one for one in found if len(one) < 6000]


# -- tools ----------------------------------------------------------------------------------------------------------
def structural_tag(data: bytes) -> None:
    value = parsed(data)
    if isinstance(value, dict):
        used(gr.structural_tag(value if "format" in value else {"type": "structural_tag", "format": value}))


def structural_tags() -> list[bytes]:
    import sys

    sys.path.insert(0, str(ROOT / "tests"))
    import structural_tag_cases

    found, stack = [], [vars(structural_tag_cases)]
    while stack:
        value: Any = stack.pop()
        if isinstance(value, dict):
            if isinstance(value.get("type"), str):
                try:
                    found.append(json.dumps(value).encode())
                except TypeError:
                    continue
            stack += value.values()
        elif isinstance(value, list | tuple):
            stack += value
    return found


def tools(data: bytes) -> None:
    value = parsed(data)
    if not isinstance(value, dict):
        return
    formats = sorted(gr.tool_formats())
    given = value.get("tools", [])
    chosen = value.get("format", 0)
    options = {name: value[name] for name in ("choice", "on_bad_tool", "parallel") if name in value}
    format = formats[chosen % len(formats)] if isinstance(chosen, int) else chosen
    used(gr.tool_calls(given, format=format, **options))


def some_tools() -> list[bytes]:
    function = {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        },
    }
    custom = {
        "type": "custom",
        "name": "t",
        "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'},
    }
    flat = {"name": "g", "input_schema": {"type": "object"}}
    return [
        json.dumps({"tools": some, "format": at, "choice": choice}).encode()
        for at in range(12)
        for some, choice in (([function], "auto"), ([function, flat], "required"), ([custom], "required"))
    ]


@lru_cache(maxsize=64)
def calls_of(name: str) -> Any:
    return gr.tool_calls(json.loads(some_tools()[0])["tools"], format=name)


def in_pieces(data: bytes) -> list[str]:
    """Returns the text after the first byte; that byte selects where the text is split."""
    if not data:
        return []
    rest, step = text(data[1:]), 1 + data[0] % 16
    return [rest[i : i + step] for i in range(0, len(rest), step)]


def tool_text(data: bytes) -> None:
    """Checks that a model's text gives the same result in one piece and in several."""
    formats = sorted(gr.tool_formats())
    calls = calls_of(formats[(data[0] if data else 0) // 16 % len(formats)])
    outcomes = []
    for pieces in ([text(data[1:])], in_pieces(data)):
        reader = gr.ToolCallReader(calls)
        try:
            for piece in pieces:
                reader.feed(piece)
                reader.snapshot()
            reader.close()
            outcomes.append(repr(reader.snapshot()))
        except gr.GuiderailError as error:
            outcomes.append(error.code)
    assert outcomes[0] == outcomes[1], outcomes


def some_tool_texts() -> list[bytes]:
    found = [one for one in strings_in("test_tool*.py", "tool_*.py") if b"{" in one or b"<" in one]
    return [bytes([16 * at + 3]) + one for at in range(12) for one in found if len(one) < 400]


def tool_format(data: bytes) -> None:
    value = parsed(data)
    if isinstance(value, dict):
        used(gr.tool_calls(json.loads(some_tools()[0])["tools"], format=value))


def tool_format_files() -> list[bytes]:
    folder = ROOT / "src" / "guiderail" / "frontends" / "tools" / "formats"
    return [path.read_bytes() for path in sorted(folder.glob("*.json"))]


# -- JSON and values ------------------------------------------------------------------------------------------------
def partial_json(data: bytes) -> None:
    """Checks that a document read in pieces has the value that ``json`` reads, and that an invalid one is refused."""
    whole = "".join(in_pieces(data))
    reader = PartialJson()
    try:
        for piece in in_pieces(data):
            reader.feed(piece)
            reader.snapshot()
        value, refused = reader.close(), False
    except gr.GuiderailError:
        value, refused = None, True
    try:
        expected = json.loads(whole, parse_constant=refuse)
    except (ValueError, RecursionError):
        assert refused, "what json refuses is read"
        return
    assert not refused, "what json reads is refused"
    assert repr(value) == repr(expected), (value, expected)


def refuse(name: str) -> Any:
    raise ValueError(name)  # NaN and infinities are not JSON


def json_texts() -> list[bytes]:
    found = [
        b'{"a": [1, -0.5e+3, "x\\u00e9\\ud83d\\ude00\\n"], "b": {"c": null}}',
        b' [true, false, {}, [], ""] ',
        b'"\\\\\\""',
        b"-0",
        b"1E400",
    ]
    return [bytes([step]) + one for one in found for step in (0, 1, 2, 6)]


VALUES: Any = dict[str, list[int | str | None] | dict[str, float | bool]]


def python_value(data: bytes) -> None:
    """Reads a text as a value of a type, in each notation."""
    if data:
        gr.read(VALUES, text(data[1:]), notation=["json", "yaml", "python"][data[0] % 3])


def python_values() -> list[bytes]:
    values = [b'{"a": [1, "x", null]}', b"a:\n- 1\n- x\n- null\n", b"{'a': [1, 'x', None], 'b': {'c': 1.5, 'd': True}}"]
    return [bytes([at]) + one for at in range(3) for one in values]


def schema_in(notation: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        used(gr.json_schema(text(data), notation=notation))

    return run


# -- types written as Python source ---------------------------------------------------------------------------------
TYPES = ["int", "str", "float", "bool", "None", "bytes", "list", "dict", "tuple", "set", "Any", "Literal", "Union"]


def python_type(data: bytes) -> None:
    """Reads an annotation as text, with these names only, because a reader of types evaluates what a program wrote."""
    import typing

    source = text(data)[:200]
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    allowed = (
        ast.Expression,
        ast.Name,
        ast.Subscript,
        ast.Tuple,
        ast.Constant,
        ast.BinOp,
        ast.BitOr,
        ast.Load,
        ast.List,
    )
    allowed = (*allowed, ast.UnaryOp, ast.USub)
    for node in ast.walk(tree):
        if not isinstance(node, allowed) or (isinstance(node, ast.Name) and node.id not in TYPES):
            return
    names = {name: getattr(typing, name, None) or builtin(name) for name in TYPES}
    try:
        kind = eval(compile(tree, "type", "eval"), {"__builtins__": {}}, names)
    except (TypeError, AttributeError, ValueError, RecursionError):
        return  # Python itself rejects it
    used(gr.python_type(kind))


def builtin(name: str) -> Any:
    import builtins

    return getattr(builtins, name, None)


def types() -> list[bytes]:
    return [
        b"list[int]",
        b"dict[str, int | None]",
        b'Literal["a", 1, True]',
        b"tuple[int, ...]",
        b"tuple[()]",
        b"Union[int, str, None]",
        b"set[float]",
        b"list[dict[int, tuple[str, bool]]]",
        b"Any",
    ]


# -- files of vocabularies ------------------------------------------------------------------------------------------
def in_file(data: bytes, name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="guiderail-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    path = folder / name
    path.write_bytes(data)
    return path


def file_of(name: str, read: Callable[[Path], object]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        path = in_file(data, name)
        try:
            read(path)
        finally:
            path.unlink()
            path.parent.rmdir()

    return run


def saved_vocabularies() -> list[bytes]:
    path = in_file(b"", "vocabulary")
    gr.Vocabulary([b"a", b"b", b"ab", b"</s>"], special_tokens={"</s>": 3}, stop_token_ids=[3]).save(path)
    return [path.read_bytes()]


def tokenizers() -> list[bytes]:
    plain = {
        "version": "1.0",
        "added_tokens": [{"id": 3, "content": "</s>", "special": True, "single_word": False, "lstrip": False}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    }
    pieces = {**plain, "pre_tokenizer": None, "decoder": {"type": "WordPiece", "prefix": "##"}}
    pieces["model"] = {"type": "WordPiece", "vocab": {"a": 0, "##b": 1, "[UNK]": 2}, "unk_token": "[UNK]"}
    unigram = {**plain, "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}}
    unigram["model"] = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁a", -1.0], ["b", -2.0]]}
    return [json.dumps(one).encode() for one in (plain, pieces, unigram)]


def tekkens() -> list[bytes]:
    import base64

    config = {"pattern": "[a-z]+", "num_vocab_tokens": 5, "default_vocab_size": 8, "default_num_special_tokens": 3}
    config["version"] = "v3"
    letters = [bytes([97 + i]) for i in range(5)]
    vocab = [
        {"rank": i, "token_bytes": base64.b64encode(one).decode(), "token_str": one.decode()}
        for i, one in enumerate(letters)
    ]
    special = [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(["<unk>", "<s>", "</s>"])]
    return [json.dumps({"config": config, "vocab": vocab, "special_tokens": special}).encode()]


def ggufs() -> list[bytes]:
    """Returns minimal files: a header and the vocabulary's metadata."""

    def string(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def entry(name: str, kind: int, value: bytes) -> bytes:
        return string(name) + struct.pack("<I", kind) + value

    def array(kind: int, values: list[bytes]) -> bytes:
        return struct.pack("<IQ", kind, len(values)) + b"".join(values)

    tokens = ["a", "b", "ab", "</s>"]
    out = []
    for model in ("gpt2", "llama", "bert"):
        entries = [
            entry("tokenizer.ggml.model", 8, string(model)),
            entry("tokenizer.ggml.tokens", 9, array(8, [string(t) for t in tokens])),
            entry("tokenizer.ggml.token_type", 9, array(5, [struct.pack("<i", k) for k in (1, 1, 1, 3)])),
            entry("tokenizer.ggml.scores", 9, array(6, [struct.pack("<f", -i) for i in range(4)])),
            entry("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 3)),
        ]
        out.append(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
    return out


def sentencepieces() -> list[bytes]:
    """A model's protocol buffer: pieces, a trainer's and a normaliser's specification."""

    def field(number: int, kind: int, value: bytes) -> bytes:
        return bytes([number << 3 | kind]) + value

    def blob(value: bytes) -> bytes:
        return bytes([len(value)]) + value

    def piece(text: str, score: float, kind: int) -> bytes:
        inner = field(1, 2, blob(text.encode())) + field(2, 5, struct.pack("<f", score)) + field(3, 0, bytes([kind]))
        return field(1, 2, blob(inner))

    pieces = [piece("<unk>", 0, 2), piece("<s>", 0, 3), piece("</s>", 0, 3), piece("▁a", -1, 1), piece("b", -2, 1)]
    trainer = field(2, 2, blob(field(3, 0, bytes([2]))))
    return [b"".join(pieces) + trainer]


def of_sentencepiece(path: Path) -> None:
    from sentencepiece import SentencePieceProcessor

    try:
        processor = SentencePieceProcessor(model_file=str(path))
    except Exception:  # the library's own reader refuses the file
        return
    gr.Vocabulary.from_sentencepiece(processor)


def of_tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except BaseException:  # the library's own reader; its panics do not derive from Exception
        return
    gr.Vocabulary.from_huggingface(tokenizer)


TARGETS: dict[str, Target] = {
    "regex": Target(regex, lambda: [b"\0" + one for one in strings_in("test_regex*.py", "test_patterns.py")]),
    "gbnf": Target(grammar_of("gbnf"), lambda: strings_in("test_gbnf.py", "test_grammar.py")),
    "lark": Target(grammar_of("lark"), lambda: strings_in("test_lark*.py", "lark_examples.py")),
    "ebnf-w3c": Target(grammar_of("ebnf-w3c"), lambda: strings_in("test_ebnf.py")),
    "ebnf-iso": Target(grammar_of("ebnf-iso"), lambda: strings_in("test_ebnf.py")),
    "json-schema": Target(json_schema, schemas),
    "xml-schema": Target(xml_schema, xml_schemas),
    "structural-tag": Target(structural_tag, structural_tags),
    "tools": Target(tools, some_tools),
    "tool-text": Target(tool_text, some_tool_texts),
    "tool-format": Target(tool_format, tool_format_files),
    "partial-json": Target(partial_json, json_texts),
    "python-value": Target(python_value, python_values),
    "schema-as-yaml": Target(schema_in("yaml"), schemas),
    "schema-as-python": Target(schema_in("python"), schemas),
    "python-type": Target(python_type, types),
    "vocabulary": Target(file_of("vocabulary", gr.Vocabulary.load), saved_vocabularies),
    "tokenizer-json": Target(file_of("tokenizer.json", of_tokenizer), tokenizers),
    "tekken": Target(file_of("tekken.json", gr.Vocabulary.from_tekken), tekkens),
    "gguf": Target(file_of("model.gguf", gr.Vocabulary.from_gguf), ggufs),
    "sentencepiece": Target(file_of("tokenizer.model", of_sentencepiece), sentencepieces),
}
