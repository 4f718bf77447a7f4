"""Saved vocabularies: one ``.npz`` archive without pickled objects.

    header    JSON as uint8: format, version, size, stop tokens, special tokens, unplaced, fingerprint
    data      uint8, the bytes of all tokens
    lengths   uint32 (or the smallest type that fits), bytes per token
    special   uint8, packed bits: 1 = not text

The fingerprint in the header is compared with that of what was read, so a damaged file is never used.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from guiderail.errors import VocabularyError
from guiderail.vocabulary._table import TokenTable

if TYPE_CHECKING:
    from guiderail.vocabulary.vocabulary import Decode, Encode, Vocabulary

FORMAT = "guiderail-vocabulary"
VERSION = 1


def save(vocabulary: Vocabulary, path: str | os.PathLike[str]) -> None:
    table = vocabulary._table
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": vocabulary.name,
        "size": vocabulary.size,
        "stop_token_ids": list(vocabulary.stop_token_ids),
        "bos_token_id": vocabulary.bos_token_id,
        "special_tokens": dict(vocabulary.special_tokens),
        "unplaced": {str(token): reason for token, reason in vocabulary.unplaced.items()},
        "fingerprint": vocabulary.fingerprint,
    }
    lengths = table.lengths()
    arrays = {
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
        "data": np.frombuffer(table.data, np.uint8),
        "lengths": lengths.astype(np.min_scalar_type(int(lengths.max(initial=0)))),
        "special": np.packbits(table.special, bitorder="little"),
    }
    target = os.fspath(path)
    folder = os.path.dirname(os.path.abspath(target))
    try:
        handle, temporary = tempfile.mkstemp(prefix=".guiderail-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary cannot be written to {target}: {error.strerror or error}", code="vocabulary-file"
        ) from error


def load(
    cls: type[Vocabulary], path: str | os.PathLike[str], *, encode: Encode | None, decode: Decode | None
) -> Vocabulary:
    target = os.fspath(path)
    try:
        with np.load(target, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("not an archive")
            header: dict[str, Any] = json.loads(archive["header"].tobytes())
            if header["format"] != FORMAT:
                raise ValueError("another kind of file")
            if header["version"] != VERSION:
                raise VocabularyError(
                    f"{target} is a vocabulary of version {header['version']}, and this guiderail reads version "
                    f"{VERSION}; save it again from the tokenizer",
                    code="vocabulary-file",
                )
            data = archive["data"].tobytes()
            lengths = archive["lengths"].astype(np.int64)
            special = np.unpackbits(archive["special"], count=len(lengths), bitorder="little")
        if int(lengths.sum()) != len(data):
            raise ValueError("lengths and data do not agree")
        table = TokenTable.from_lengths(data, lengths)
        table.special[:] = special
        table.unplaced = {int(token): str(reason) for token, reason in header["unplaced"].items()}
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
            raise ValueError("its contents do not agree with its fingerprint")
    except FileNotFoundError as error:
        raise VocabularyError(f"there is no file {target}", code="vocabulary-file") from error
    except VocabularyError as error:
        if error.code == "vocabulary-file":
            raise
        raise _damaged(target, error.message) from error
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        EOFError,
        NotImplementedError,
        MemoryError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise _damaged(target, str(error)) from error
    return vocabulary


def _damaged(target: str, why: str) -> VocabularyError:
    return VocabularyError(
        f"{target} is not a saved vocabulary or is damaged ({why}); save it again from the tokenizer",
        code="vocabulary-file",
    )
