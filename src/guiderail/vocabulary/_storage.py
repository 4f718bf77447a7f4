"""Saved vocabularies: one binary file that C reads, too (``docs/program_format.md``).

The fingerprint in the file is compared with that of the result, so a damaged file is never used.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from guiderail.errors import VocabularyError
from guiderail.support.files import file_errors, replace_file
from guiderail.vocabulary._table import TokenTable

if TYPE_CHECKING:
    from guiderail.vocabulary.vocabulary import Decode, Encode, Vocabulary

MAGIC = b"\x89RAIL\r\n\x1a"
KIND = 2
VERSION = 1
_HEADER = struct.Struct("<8sIIQ")  # magic, kind, version, bytes of the contents
_WIDTHS = {1: "u1", 2: "<u2", 4: "<u4"}


def contents_of(vocabulary: Vocabulary) -> bytes:
    table = vocabulary._table
    bos = vocabulary.bos_token_id
    lengths = table.lengths()
    longest = int(lengths.max(initial=0))
    width = 1 if longest < 1 << 8 else 2 if longest < 1 << 16 else 4
    out = bytearray()
    for number in (vocabulary.size, table.count, 0 if bos is None else bos + 1, len(vocabulary.stop_token_ids)):
        _put(out, number)
    for token in vocabulary.stop_token_ids:
        _put(out, token)
    for texts in (
        [(token, text) for text, token in vocabulary.special_tokens.items()],
        list(vocabulary.unplaced.items()),
    ):
        _put(out, len(texts))
        for token, text in texts:
            _put(out, token)
            _put_text(out, text)
    _put_text(out, vocabulary.name or "")
    out += bytes.fromhex(vocabulary.fingerprint)
    out.append(width)
    out += lengths.astype(_WIDTHS[width]).tobytes()
    out += np.packbits(table.special, bitorder="little").tobytes()
    _put(out, len(table.data))
    return bytes(out) + table.data


def save(vocabulary: Vocabulary, path: str | os.PathLike[str]) -> None:
    contents = contents_of(vocabulary)
    header = _HEADER.pack(MAGIC, KIND, VERSION, len(contents))
    checksum = zlib.crc32(contents, zlib.crc32(header))
    target = os.fspath(path)
    with file_errors(f"the vocabulary cannot be written to {target}", VocabularyError, "vocabulary-file"):
        replace_file(target, (header, contents, checksum.to_bytes(4, "little")))


def load(
    cls: type[Vocabulary], path: str | os.PathLike[str], *, encode: Encode | None, decode: Decode | None
) -> Vocabulary:
    target = os.fspath(path)
    try:
        table, header = _read(target)
        vocabulary = cls.__new__(cls)
        vocabulary._setup(
            table,
            header["special_tokens"],
            header["stop_token_ids"],
            size=header["size"],
            encode=encode,
            decode=decode,
            bos_token_id=header["bos_token_id"],
            name=header["name"],
        )
        if vocabulary.fingerprint != header["fingerprint"]:
            raise ValueError("its contents do not match its fingerprint")
    except FileNotFoundError as error:
        raise VocabularyError(f"{target} does not exist", code="vocabulary-file") from error
    except VocabularyError as error:
        if error.code == "vocabulary-file":
            raise
        raise _damaged(target, error.message) from error
    except (OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        raise _damaged(target, str(error)) from error
    return vocabulary


def is_saved(path: str) -> bool:
    """Whether a file begins like one that guiderail saved."""
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC
    return False


def _read(target: str) -> tuple[TokenTable, dict[str, Any]]:
    with open(target, "rb") as opened:
        file = opened.read()
    if len(file) < _HEADER.size + 4 or file[: len(MAGIC)] != MAGIC:
        raise ValueError("another kind of file")
    _, kind, version, size = _HEADER.unpack_from(file)
    if kind != KIND:
        raise ValueError("it contains a constraint, not a vocabulary")
    if version != VERSION:
        raise _of_version(target, version)
    if size != len(file) - _HEADER.size - 4:
        raise ValueError("its length does not match its header")
    if zlib.crc32(memoryview(file)[:-4]) != int.from_bytes(file[-4:], "little"):
        raise ValueError("its checksum is wrong")
    reader = _Reader(file, _HEADER.size, len(file) - 4)
    width, count, bos = reader.number(), reader.number(), reader.number()
    header: dict[str, Any] = {
        "size": width,
        "bos_token_id": bos - 1 if bos else None,
        "stop_token_ids": [reader.number() for _ in range(reader.count())],
        "special_tokens": {text: token for token, text in reader.texts()},
    }
    unplaced = dict(reader.texts())
    header["name"] = reader.text() or None
    header["fingerprint"] = reader.raw(32).hex()
    width = reader.raw(1)[0]
    lengths = np.frombuffer(reader.raw(count * width), _WIDTHS[width]).astype(np.int64)
    special = np.unpackbits(
        np.frombuffer(reader.raw((count + 7) // 8), np.uint8), count=len(lengths), bitorder="little"
    )
    data = reader.raw(reader.count())
    if int(lengths.sum()) != len(data) or reader.at != reader.end:
        raise ValueError("lengths and data do not agree")
    if max([bos - 1, *header["stop_token_ids"], *header["special_tokens"].values(), *unplaced]) >= count:
        raise ValueError("it has no such token")
    table = TokenTable.from_lengths(data, lengths)
    table.special[:] = special
    table.unplaced = unplaced
    return table, header


class _Reader:
    """Reads numbers and strings up to an end; raises ValueError beyond it."""

    def __init__(self, file: bytes, at: int, end: int) -> None:
        self.file, self.at, self.end = file, at, end

    def raw(self, size: int) -> bytes:
        if size > self.end - self.at:
            raise ValueError("it ends too early")
        self.at += size
        return self.file[self.at - size : self.at]

    def number(self) -> int:
        value = 0
        for shift in range(0, 63, 7):
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number is too large")

    def count(self) -> int:
        value = self.number()
        if value > self.end - self.at:
            raise ValueError("a list is longer than the file")
        return value

    def text(self) -> str:
        return self.raw(self.count()).decode("utf-8", "surrogatepass")

    def texts(self) -> list[tuple[int, str]]:
        return [(self.number(), self.text()) for _ in range(self.count())]


def _put(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_text(out: bytearray, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    _put(out, len(data))
    out += data


def _of_version(target: str, version: object) -> VocabularyError:
    return VocabularyError(
        f"{target} is a vocabulary of version {version}, and this guiderail reads version {VERSION}; save it again "
        "from the tokenizer",
        code="vocabulary-file",
    )


def _damaged(target: str, why: str) -> VocabularyError:
    return VocabularyError(
        f"{target} is not a saved vocabulary or is damaged ({why}); save it again from the tokenizer",
        code="vocabulary-file",
    )
