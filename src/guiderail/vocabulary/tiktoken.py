"""tiktoken: the library itself lists the bytes of every token."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from guiderail.errors import VocabularyError
from guiderail.support.suggestions import suggestion
from guiderail.support.texts import clipped
from guiderail.vocabulary._ids import check_last
from guiderail.vocabulary._library import choose_stops, not_read, require
from guiderail.vocabulary._read import ReadTokenizer
from guiderail.vocabulary._table import TokenTable
from guiderail.vocabulary.spelling import SpellingRules, ranked_rules

__all__ = ["from_tiktoken"]


def from_tiktoken(
    encoding: Any, *, size: int | None, stop_token_ids: Sequence[int] | int | None, verify: bool
) -> ReadTokenizer:
    if isinstance(encoding, str):
        encoding = _named(encoding)
    if not hasattr(encoding, "decode_single_token_bytes"):
        raise not_read(encoding, "a tiktoken.Encoding or the name of one")
    special = {text: int(encoding.encode_single_token(text)) for text in encoding.special_tokens_set}
    check_last(encoding.n_vocab - 1, len(encoding.token_byte_values()) + len(special))
    spell = encoding.decode_single_token_bytes
    tokens: list[bytes | None] = []
    for token in range(encoding.n_vocab):
        try:
            tokens.append(spell(token))
        except KeyError:  # a hole, as before the special tokens of cl100k_base
            tokens.append(None)
    # The declared end; some encodings name none.
    declared = special.get("<|endoftext|>")
    special = dict(sorted(special.items(), key=lambda item: item[1]))
    return ReadTokenizer(
        TokenTable.from_tokens(tokens),
        special,
        choose_stops(stop_token_ids, [declared], special),
        size=size,
        encode=TiktokenEncoder(encoding),
        name=encoding.name,
        oracle=TiktokenDecoder(encoding),
        verify=verify,
    )


def _named(name: str) -> Any:
    """The encoding with a name, which tiktoken downloads at its first use."""
    library = require("tiktoken")
    known = library.list_encoding_names()
    if name not in known:
        try:
            hint = f"that is a model, and its encoding is {library.encoding_name_for_model(name)!r}"
        except KeyError:
            hint = suggestion(name, known)
        raise VocabularyError(f"tiktoken has no encoding {name!r}; {hint}", code="unsupported-tokenizer")
    try:
        return library.get_encoding(name)
    except Exception as error:  # of tiktoken's or its HTTP client's: no network, a damaged file
        raise VocabularyError(
            f"tiktoken cannot load the encoding {name!r}: {type(error).__name__}: {clipped(str(error), 200)}; it "
            "downloads a file at first use, and looks for it in the folder TIKTOKEN_CACHE_DIR",
            code="bad-tokenizer-file",
        ) from error


class TiktokenEncoder:
    """``tiktoken.Encoding`` → ids of a string; special tokens in it are read as text."""

    def __init__(self, encoding: Any) -> None:
        self.encoding = encoding

    def __call__(self, text: str) -> list[int]:
        return list(self.encoding.encode_ordinary(text))

    def spelling_rules(self) -> SpellingRules:
        special = {self.encoding.encode_single_token(text) for text in self.encoding.special_tokens_set}
        ranks = {}
        for token in range(self.encoding.n_vocab):
            if token not in special:
                with contextlib.suppress(KeyError):  # a hole
                    ranks[self.encoding.decode_single_token_bytes(token)] = token
        return ranked_rules(ranks, self.encoding._pat_str)


class TiktokenDecoder:
    """``tiktoken.Encoding`` → bytes of lists of ids."""

    def __init__(self, encoding: Any) -> None:
        self.encoding = encoding

    def __call__(self, batch: list[list[int]]) -> list[bytes]:
        return [self.encoding.decode_bytes(ids) for ids in batch]
