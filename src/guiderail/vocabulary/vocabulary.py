"""A vocabulary: the bytes of every token, which tokens are special, and which end the text.

Constraints are about the bytes with which a model *continues* its text. The token ``▁the`` of a SentencePiece tokenizer
is ``b" the"`` wherever it stands, even as the first generated token, although such a tokenizer's ``decode`` drops the
space at the very start of a string. Generated text continues a prompt, and the prompt plus the bytes of the generated
tokens is exactly what the model wrote.

There are three kinds of tokens:

=========== ============================================================ =========================
text        bytes, matched against the constraint                         ``token_bytes(id)``
special     control tokens: only a constraint that names one allows it    ``special_tokens``
unplaced    holes, empty tokens, tokens whose bytes are unknown           ``unplaced``, never allowed
=========== ============================================================ =========================
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from guiderail.errors import VocabularyError
from guiderail.support.arguments import checked_methods
from guiderail.support.locks import free_after_fork
from guiderail.support.texts import clipped
from guiderail.vocabulary._check import DecodeBatch, Mismatch, disqualify, find_mismatches
from guiderail.vocabulary._ids import check_last, logits_width, name_of, stop_ids, token_id
from guiderail.vocabulary._read import ReadTokenizer
from guiderail.vocabulary._table import TokenTable

if TYPE_CHECKING:
    from guiderail import _core

__all__ = ["Vocabulary"]

Encode = Callable[[str], Sequence[int]]
Decode = Callable[[list[int]], str]

# An encoder that puts a space before the first word is given one of these and then the text, and the tokens of the
# first are cut off: a line break, or, where a token joins the line break with the text, a character that hardly any
# token contains.
_ANCHORS = ("\n", "\x01")

_REMEMBERED = 4096  # spellings that ``encode`` keeps
_REMEMBERED_LENGTH = 256  # characters of a text whose spelling is kept


@checked_methods
class Vocabulary:
    """The tokens of a model. Immutable; two are equal if their fingerprints are.

    Args:
        tokens: the bytes of every token, in the order of the ids; ``None`` is a hole.
        special_tokens: a mapping from text to id, or just ids. Special tokens are never matched as text.
        stop_token_ids: the tokens that end the text; they count as special. It may be empty: then a generation cannot
            end by itself.
        size: the width of the model's logits and of masks, if it is more than the number of tokens.
        encode: a function from a string to the ids by which the tokenizer spells it, without a beginning-of-text token.
        decode: a function from a list of ids to their text; :meth:`decode` and :meth:`check` use it.
        bos_token_id: the beginning-of-text token, if there is one.
        name: a name for ``repr`` and error messages.

    Raises:
        VocabularyError: ``empty-vocabulary`` (no token is text), ``bad-token`` (not bytes), ``bad-token-id`` (negative,
            not an integer, not below ``size``, or beyond the tokens and 2²² ids), ``bad-size`` (less than the
            number of tokens).

    >>> v = Vocabulary([b"a", b"b", b"ab", b"</s>"], stop_token_ids=3)
    >>> v.size, v.token_bytes(2), v.stop_token_ids, v.special_tokens
    (4, b'ab', (3,), mappingproxy({'</s>': 3}))
    """

    __slots__ = (
        "__weakref__",
        "_bos_token_id",
        "_core",
        "_decode",
        "_encode",
        "_fingerprint",
        "_lock",
        "_name",
        "_oracle",
        "_size",
        "_special_tokens",
        "_spelling",
        "_spellings",
        "_stop_token_ids",
        "_table",
    )

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        *,
        special_tokens: Mapping[str, int] | Sequence[int] = (),
        stop_token_ids: Sequence[int] | int,
        size: int | None = None,
        encode: Encode | None = None,
        decode: Decode | None = None,
        bos_token_id: int | None = None,
        name: str | None = None,
    ) -> None:
        self._setup(
            TokenTable.from_tokens(tokens),
            special_tokens,
            stop_token_ids,
            size=size,
            encode=encode,
            decode=decode,
            bos_token_id=bos_token_id,
            name=name,
        )

    @classmethod
    def _of(cls, read: ReadTokenizer) -> Vocabulary:
        """Makes a vocabulary from what an adapter has read, checked against the tokenizer's own ``decode``."""
        table, special = read.table, read.special_tokens
        if not table.count:
            raise VocabularyError("the tokenizer has no tokens", code="empty-vocabulary")
        if read.oracle is not None:
            ids = special.values() if isinstance(special, Mapping) else special
            disqualify(table, set(ids), read.oracle, read.verify)
        self = cls.__new__(cls)
        self._setup(
            table,
            special,
            read.stop_token_ids,
            size=read.size,
            encode=read.encode,
            decode=None,
            bos_token_id=read.bos_token_id,
            name=read.name,
        )
        self._oracle = read.oracle
        return self

    def _setup(
        self,
        table: TokenTable,
        special_tokens: Mapping[str, int] | Sequence[int],
        stop_token_ids: Sequence[int] | int,
        *,
        size: int | None,
        encode: Encode | None,
        decode: Decode | None,
        bos_token_id: int | None,
        name: str | None,
    ) -> None:
        stops = tuple(token_id("stop_token_ids", token) for token in stop_ids(stop_token_ids))
        if isinstance(special_tokens, Mapping):
            named = {text: token_id(f"special token {text!r}", i) for text, i in special_tokens.items()}
        else:
            named = {}
            for token in dict.fromkeys(token_id("special_tokens", i) for i in special_tokens):
                named[name_of(table, token, named)] = token
        for token in stops:
            if token not in named.values():
                named[name_of(table, token, named)] = token
        bos = None if bos_token_id is None else token_id("bos_token_id", bos_token_id)

        needed = max([table.count - 1, *stops, *named.values(), -1 if bos is None else bos]) + 1
        width = needed if size is None else logits_width(size)
        if table.count == 0:
            raise VocabularyError("a vocabulary needs at least one token", code="empty-vocabulary")
        if width < table.count:
            raise VocabularyError(
                f"size={width} is less than the {table.count} tokens; it is the width of the model's logits",
                code="bad-size",
            )
        if width < needed:
            raise VocabularyError(
                f"token id {needed - 1} is out of range: the vocabulary has size {width}", code="bad-token-id"
            )
        check_last(needed - 1, table.count)
        table = table.extend(needed)
        table.close(named.values())
        if table.special.all():
            raise VocabularyError(
                "no token of the vocabulary is text, so a model could not write anything", code="empty-vocabulary"
            )
        table.special.setflags(write=False)
        table.offsets.setflags(write=False)
        self._table = table
        self._special_tokens = MappingProxyType(named)
        self._stop_token_ids = stops
        self._size = width
        self._encode = encode
        self._decode = decode
        self._oracle: DecodeBatch | None = _Each(decode) if decode is not None else None
        self._bos_token_id = bos
        self._name = name
        self._lock = free_after_fork(threading.Lock())
        self._core: _core.Vocabulary | None = None
        self._fingerprint: str | None = None
        self._spellings: dict[str, list[int]] = {}
        self._spelling: _core.Spelling | None = None

    # -- what it is ------------------------------------------------------------------------------------------
    @property
    def size(self) -> int:
        """The width of logits and masks, in tokens."""
        return self._size

    @property
    def token_count(self) -> int:
        """The number of ids that the tokenizer knows. Ids from here to ``size`` are padding and never allowed."""
        return self._table.count

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """The tokens that end the text, the tokenizer's declared end of sequence first."""
        return self._stop_token_ids

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a text, or None."""
        return self._bos_token_id

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """The special tokens, from text to id, including the stop tokens."""
        return self._special_tokens

    @property
    def unplaced(self) -> Mapping[int, str]:
        """The ids whose bytes are unknown, each with the reason. No constraint allows them."""
        return MappingProxyType(self._table.unplaced)

    @property
    def name(self) -> str | None:
        return self._name

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes of a token: for a special token the bytes of its text, for an unplaced one ``b""``.

        Raises:
            VocabularyError: ``bad-token-id``: the id is negative or not below ``size``.
        """
        index = token_id("token", token)
        if index >= self._size:
            raise VocabularyError(
                f"token id {index} is out of range: the vocabulary has size {self._size}", code="bad-token-id"
            )
        return self._table.bytes_of(index) if index < self._table.count else b""

    def is_text(self, token: int) -> bool:
        """Whether ``token`` is matched as text: neither special nor unplaced nor padding."""
        index = token_id("token", token)
        return index < self._table.count and not self._table.special[index]

    @property
    def fingerprint(self) -> str:
        """A SHA-256 of everything that decides which tokens a constraint allows; the same on every machine."""
        if self._fingerprint is None:
            digest = hashlib.sha256(b"guiderail-vocabulary-1\0")
            table = self._table
            digest.update(f"{table.count} {self._size} {sorted(self._stop_token_ids)}\0".encode())
            for text, token in sorted(self._special_tokens.items()):
                digest.update(f"{token} {len(text)} {text}\0".encode("utf-8", "surrogatepass"))
            digest.update(table.offsets.astype("<u4").tobytes())
            digest.update(table.special.tobytes())
            digest.update(table.data)
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, Vocabulary) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        name = f"{self._name!r}, " if self._name else ""
        bad = f", unplaced={len(self.unplaced)}" if self.unplaced else ""
        return (
            f"Vocabulary({name}tokens={self.token_count}, size={self._size}, "
            f"special={len(self._special_tokens)}, stop_token_ids={list(self._stop_token_ids)}{bad})"
        )

    # -- text ------------------------------------------------------------------------------------------------
    @property
    def can_encode(self) -> bool:
        """Whether the vocabulary can encode text as its tokenizer does."""
        return self._encode is not None

    def encode(self, text: str) -> list[int]:
        """Returns the ids by which the tokenizer spells ``text`` as a continuation.

        Their bytes are exactly those of ``text``. If the tokenizer puts a space before the first word, the text is
        encoded after a line break, and the tokens of the line break are cut off. Results for short strings are cached,
        because a call of a tokenizer takes up to 0.1 ms and the same forced strings recur.

        Raises:
            VocabularyError: ``no-encoder``: the vocabulary was made without one; ``not-encodable``: the tokenizer
                changes this text (lower-cases it, reads a special token in it, has no token for a character).
        """
        if self._encode is None:
            raise VocabularyError(
                "this vocabulary has no encoder; pass encode=... when you make or load it",
                code="no-encoder",
            )
        known = self._spellings.get(text)
        if known is None:
            known = self._spell(self._encode, text) if text else []
            if len(text) <= _REMEMBERED_LENGTH:
                if len(self._spellings) >= _REMEMBERED:
                    self._spellings.clear()
                self._spellings[text] = known
        return list(known)

    def _spell(self, encode: Encode, text: str) -> list[int]:
        target = text.encode("utf-8", "surrogatepass")
        ids = [int(token) for token in encode(text)]
        spells = self.core.spells
        if spells(ids, target):
            return ids
        for anchor in _ANCHORS:
            if anchor != "\n" and self.core.find(anchor.encode()) < 0:
                continue  # an encoder need not know it
            ids = [int(token) for token in encode(anchor + text)]
            missing = len(target)
            for start in range(len(ids) - 1, 0, -1):
                missing -= len(self.token_bytes(ids[start]))
                if missing <= 0:
                    if missing == 0 and spells(ids[start:], target):
                        return ids[start:]
                    break
        raise VocabularyError(
            f"the tokenizer does not spell {clipped(text, 40)!r} exactly: it changes the text or reads a special token "
            "in it",
            code="not-encodable",
        )

    def decode(self, tokens: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Returns the text of ``tokens`` as a continuation. Bytes that are not UTF-8 become U+FFFD.

        If the constructor was given a ``decode``, that is used instead. ``skip_special_tokens`` then drops special and
        unplaced tokens before the call.
        """
        ids = [token_id("token", token) for token in tokens]
        if skip_special_tokens:
            ids = [token for token in ids if self.is_text(token)]
        if self._decode is not None:
            return self._decode(ids)
        return b"".join(self.token_bytes(token) for token in ids).decode("utf-8", "replace")

    def check(self) -> list[Mismatch]:
        """Compares every text token with the tokenizer's own ``decode``; an empty list means that all agree.

        Raises:
            VocabularyError: ``no-decoder``: there is nothing to compare with (plain, saved and GGUF vocabularies).
        """
        if self._oracle is None:
            raise VocabularyError(
                "there is nothing to check against: this vocabulary was made without a decode function; pass "
                "decode=...",
                code="no-decoder",
            )
        ids = np.flatnonzero(self._table.special == 0)
        return find_mismatches(self._table, ids.tolist(), self._oracle)

    # -- the core --------------------------------------------------------------------------------------------
    @property
    def core(self) -> _core.Vocabulary:
        """The native form, a prefix trie of the token bytes. Built once, when first needed."""
        if self._core is None:
            from guiderail import _core

            with self._lock:
                if self._core is None:
                    table = self._table
                    self._core = _core.Vocabulary(
                        table.data, table.offsets, table.special, self._size, list(self._stop_token_ids)
                    )
        return self._core

    @property
    def spelling(self) -> _core.Spelling:
        """The rules by which the tokenizer spells text, to tell canonical token sequences. Built once, when first
        needed.

        Raises:
            VocabularyError: ``no-spelling``: guiderail cannot tell, because the tokenizer is not a byte-pair encoding,
                or its merges are unknown.
        """
        if self._spelling is None:
            from guiderail.vocabulary.spelling import core_spelling, unsupported

            rules = getattr(self._encode, "spelling_rules", None)
            if rules is None:
                raise unsupported("it was given without its merges")
            made = core_spelling(rules(), self.core)
            with self._lock:
                if self._spelling is None:
                    self._spelling = made
        return self._spelling

    def is_canonical(self, tokens: Iterable[int]) -> bool:
        """Whether ``tokens`` are the ones that the tokenizer makes of their text.

        The text between two special tokens is encoded by itself.

        Raises:
            VocabularyError: ``no-spelling``: guiderail cannot tell how this tokenizer spells.
        """
        return self.spelling.is_canonical([token_id("token", token) for token in tokens])

    # -- copies ----------------------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the vocabulary to one compact file, atomically. The tokenizer's ``encode`` is not saved.

        Raises:
            VocabularyError: ``vocabulary-file``: the file cannot be written.
        """
        from guiderail.vocabulary._storage import save

        save(self, path)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, encode: Encode | None = None, decode: Decode | None = None
    ) -> Vocabulary:
        """Reads a file that :meth:`save` wrote. Safe on files from anywhere: it uses no pickle.

        Args:
            path: the file.
            encode, decode: as for the constructor; they are not in the file.

        Raises:
            VocabularyError: ``vocabulary-file``: the file is missing, damaged, or of another version.
        """
        from guiderail.vocabulary._storage import load

        return load(cls, path, encode=encode, decode=decode)

    def __reduce__(self) -> tuple[Any, ...]:
        table = self._table
        state = (table.data, table.offsets, np.array(table.special), dict(table.unplaced))
        rest = {
            "special_tokens": dict(self._special_tokens),
            "stop_token_ids": self._stop_token_ids,
            "size": self._size,
            "encode": self._encode,
            "decode": self._decode,
            "bos_token_id": self._bos_token_id,
            "name": self._name,
        }
        return _restore, (type(self), state, rest, self._oracle)

    # -- adapters --------------------------------------------------------------------------------------------
    @classmethod
    def from_huggingface(
        cls,
        tokenizer: Any,
        *,
        size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
        verify: bool = False,
    ) -> Vocabulary:
        """Makes a vocabulary from a transformers tokenizer, a ``tokenizers.Tokenizer``, or the path of one (file or
        folder).

        It reads byte-level BPE, SentencePiece-style tokenizers (``▁``, byte fallback), WordPiece, and whatever else the
        tokenizer's own decoder describes. A token added with ``special=False`` is text, as in the library's ``decode``.

        Args:
            tokenizer: the tokenizer or its path.
            size: the width of the logits. By default the model's ``vocab_size``, if a ``config.json`` is next to the
                tokenizer, otherwise the number of tokens.
            stop_token_ids: by default the declared end of sequence, those of ``generation_config.json``, and the
                well-known end-of-turn tokens that the tokenizer declares (``<|eot_id|>``, ``<|im_end|>`` …).
            verify: compare every token, not a sample, with the tokenizer's ``decode``.

        Raises:
            VocabularyError: ``unsupported-tokenizer``, ``slow-tokenizer``, ``bad-tokenizer-file``, ``no-stop-token``,
                ``round-trip``, ``missing-package``.
        """
        from guiderail.vocabulary.huggingface import from_huggingface

        return cls._of(from_huggingface(tokenizer, size=size, stop_token_ids=stop_token_ids, verify=verify))

    @classmethod
    def from_tiktoken(
        cls,
        encoding: Any,
        *,
        size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
        verify: bool = False,
    ) -> Vocabulary:
        """Makes a vocabulary from a ``tiktoken.Encoding`` or its name; otherwise like :meth:`from_huggingface`."""
        from guiderail.vocabulary.tiktoken import from_tiktoken

        return cls._of(from_tiktoken(encoding, size=size, stop_token_ids=stop_token_ids, verify=verify))

    @classmethod
    def from_sentencepiece(
        cls,
        processor: Any,
        *,
        size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
        verify: bool = False,
    ) -> Vocabulary:
        """Makes a vocabulary from a ``SentencePieceProcessor`` or the path of one; otherwise like
        :meth:`from_huggingface`.

        ``▁`` is a space, in the first token too: generated text continues a prompt.
        """
        from guiderail.vocabulary.sentencepiece import from_sentencepiece

        return cls._of(from_sentencepiece(processor, size=size, stop_token_ids=stop_token_ids, verify=verify))

    @classmethod
    def from_tekken(
        cls,
        tokenizer: Any,
        *,
        size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
        verify: bool = False,
    ) -> Vocabulary:
        """Makes a vocabulary from a mistral-common tokenizer or the path of a ``tekken.json``, which needs no
        mistral-common.

        A mistral-common tokenizer over a SentencePiece model is read as SentencePiece. Arguments and errors are those
        of :meth:`from_huggingface`.
        """
        from guiderail.vocabulary.tekken import from_tekken

        return cls._of(from_tekken(tokenizer, size=size, stop_token_ids=stop_token_ids, verify=verify))

    @classmethod
    def from_gguf(
        cls,
        model: Any,
        *,
        size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
    ) -> Vocabulary:
        """Makes a vocabulary from a ``llama_cpp.Llama`` or the path of a GGUF file. It reads only metadata, no tensors.

        Arguments and errors are those of :meth:`from_huggingface`.
        """
        from guiderail.vocabulary.gguf import from_gguf

        return cls._of(from_gguf(model, size=size, stop_token_ids=stop_token_ids))


def _restore(
    kind: type[Vocabulary], state: tuple[Any, ...], rest: dict[str, Any], oracle: DecodeBatch | None
) -> Vocabulary:
    self = kind.__new__(kind)
    self._setup(TokenTable(*state), rest.pop("special_tokens"), rest.pop("stop_token_ids"), **rest)
    if oracle is not None:
        self._oracle = oracle
    return self


class _Each:
    """Decodes a batch with a decoder that takes one list. A class, so that it can be pickled."""

    def __init__(self, decode: Decode) -> None:
        self.decode = decode

    def __call__(self, batch: list[list[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]
