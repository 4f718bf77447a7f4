"""``TokenizerInfo``: the vocabulary of a tokenizer, as XGrammar takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

from guiderail.compat._errors import CompatError, CompatTypeError, CompatValueError, integer, raised_as
from guiderail.compat.xgrammar._serialized import read_serialized, write_serialized
from guiderail.support.arguments import checked_methods
from guiderail.support.texts import shown
from guiderail.vocabulary import Vocabulary
from guiderail.vocabulary._ids import stop_ids

__all__ = ["TokenizerInfo", "VocabType"]

_STOPS = frozenset(
    (
        b"</s>", b"<eos>", b"<|eot_id|>", b"<|end_of_text|>", b"<|endoftext|>", b"<end_of_turn>", b"<|eos|>",
        "<｜end▁of▁sentence｜>".encode(),
    )
)  # fmt: skip
_NO_TEXT = b"\x00"  # the text of tokens in a vocabulary without texts, so that strings can still be matched


class VocabType(Enum):
    """How the tokens of a vocabulary are encoded.

    ``RAW``: as they are; ``BYTE_FALLBACK``: SentencePiece's ``▁`` and ``<0x0A>``; ``BYTE_LEVEL``: GPT-2's characters
    for bytes (``Ġ``).
    """

    RAW = 0
    BYTE_FALLBACK = 1
    BYTE_LEVEL = 2


@checked_methods
class TokenizerInfo:
    """The tokens of a model.

    Special tokens are known only if the tokenizer declares them (``from_huggingface``); they are never matched as text.
    In a plain list, only stop tokens and empty texts are special, as in XGrammar.

    Args:
        encoded_vocab: the tokens in the order of their ids.
        vocab_type: how they are encoded.
        vocab_size: the width of the model's logits, at least the number of tokens.
        stop_token_ids: the tokens that end the text; None: those with a well-known name (``</s>``, ``<|eot_id|>`` …).
        add_prefix_space: stored and reported, without effect: constraints are about text that continues a prompt.

    Raises:
        CompatError: ``bad-size``, ``bad-token``, ``bad-token-id``; CompatTypeError, CompatValueError: an argument has
            another type.
    """

    def __init__(
        self,
        encoded_vocab: Sequence[bytes] | Sequence[str],
        vocab_type: VocabType = VocabType.RAW,
        *,
        vocab_size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
        add_prefix_space: bool = False,
    ) -> None:
        try:
            kind = VocabType(vocab_type)
        except ValueError:
            raise CompatValueError(f"vocab_type must be a VocabType, not {shown(vocab_type)}") from None
        if isinstance(encoded_vocab, str | bytes | Mapping):
            raise CompatTypeError(f"encoded_vocab must be a list of tokens, not {type(encoded_vocab).__name__}")
        tokens = [_decoded(token, kind) for token in encoded_vocab]
        if stop_token_ids is None:
            stops = [i for i, token in enumerate(tokens) if token in _STOPS]
        else:
            with raised_as():
                stops = list(stop_ids(stop_token_ids))
        if vocab_size is not None and integer("vocab_size", vocab_size) < len(tokens):
            raise CompatError(f"vocab_size={vocab_size} is less than the {len(tokens)} tokens", code="bad-size")
        size = len(tokens) if vocab_size is None else vocab_size
        if stops and not all(0 <= token < size for token in stops):
            raise CompatError(f"stop_token_ids must be from 0 to {size - 1}, not {stops}", code="bad-token-id")
        self._setup(tokens, kind, size, stops, add_prefix_space, None)

    def _setup(
        self,
        tokens: list[bytes],
        kind: VocabType,
        size: int,
        stops: list[int],
        add_prefix_space: bool,
        vocabulary: Vocabulary | None,
    ) -> None:
        self._tokens, self._kind, self._size, self._stops = tokens, kind, size, stops
        self._add_prefix_space = bool(add_prefix_space)
        special = [i for i, token in enumerate(tokens) if not token]
        self._special = [*special, *range(len(tokens), size)]
        if vocabulary is None:
            plain: list[bytes | None] = [token or None for token in tokens]
            if all(token is None or i in stops for i, token in enumerate(plain)):
                plain.append(_NO_TEXT)
            with raised_as():
                vocabulary = Vocabulary(plain, stop_token_ids=stops, size=max(size, len(plain)))
        else:
            names = set(vocabulary.special_tokens.values()) - set(stops)
            self._special = sorted({*self._special, *names})
        self._vocabulary = vocabulary

    @classmethod
    def from_huggingface(
        cls,
        tokenizer: Any,
        *,
        vocab_size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
    ) -> TokenizerInfo:
        """Makes one from a transformers tokenizer, or of any other that guiderail reads (see ``Vocabulary``).

        Args:
            tokenizer: the tokenizer.
            vocab_size: the width of the model's logits; tokens from there on are dropped.
            stop_token_ids: the tokens that end the text; None: the tokenizer's ``eos_token_id``, or what its files say.

        Raises:
            CompatValueError: ``stop_token_ids`` is empty.
            CompatError: the bytes of its tokens are unknown.
        """
        from guiderail.vocabulary.adapted import vocabulary_of

        if stop_token_ids is not None:
            with raised_as():
                stop_token_ids = stop_ids(stop_token_ids)
            if not stop_token_ids:
                raise CompatValueError("stop_token_ids cannot be empty; leave it out for those of the tokenizer")
        eos = getattr(tokenizer, "eos_token_id", None)
        with raised_as():
            known = vocabulary_of(tokenizer)
            if stop_token_ids is None:
                stop_token_ids = known.stop_token_ids if eos is None else [eos]
            size = known.size if vocab_size is None else vocab_size
            kept = known.token_count if vocab_size is None else min(known.token_count, vocab_size)
            tokens = [known.token_bytes(i) if i not in known.unplaced else b"" for i in range(kept)]
            names = {name: i for name, i in known.special_tokens.items() if i < size}
            texts = [token or None for token in tokens]
            vocabulary = Vocabulary(
                texts,
                special_tokens=names,
                stop_token_ids=list(stop_token_ids),
                size=size,
                encode=known.encode if known.can_encode and kept == known.token_count else None,
            )
        info = cls.__new__(cls)
        kind = _kind_of(getattr(tokenizer, "get_vocab", dict)())
        info._setup(tokens, kind, size, list(stop_token_ids), _adds_space(tokenizer), vocabulary)
        return info

    @property
    def vocabulary(self) -> Vocabulary:
        """guiderail's own :class:`Vocabulary`."""
        return self._vocabulary

    def with_stops(self, stops: Sequence[int]) -> Vocabulary:
        """The vocabulary with exactly these stop tokens. Ordinary tokens among them are not matched as text.

        Raises:
            CompatError: ``bad-token-id``.
        """
        known = self._vocabulary
        with raised_as():
            if set(stops) <= set(known.special_tokens.values()):
                return known
            tokens = [known.token_bytes(i) if known.is_text(i) else None for i in range(known.token_count)]
            for name, token in known.special_tokens.items():
                if token < len(tokens):
                    tokens[token] = name.encode("utf-8", "surrogateescape")
            if all(token is None or i in stops for i, token in enumerate(tokens)):
                tokens.append(_NO_TEXT)
            return Vocabulary(
                tokens,
                special_tokens=dict(known.special_tokens),
                stop_token_ids=list(stops),
                size=max(known.size, len(tokens)),
                encode=known.encode if known.can_encode else None,
            )

    @property
    def vocab_type(self) -> VocabType:
        """How the tokens are encoded."""
        return self._kind

    @property
    def vocab_size(self) -> int:
        """The width of the model's logits."""
        return self._size

    @property
    def add_prefix_space(self) -> bool:
        """Whether the tokenizer puts a space before a text."""
        return self._add_prefix_space

    prepend_space_in_tokenization = add_prefix_space

    @property
    def decoded_vocab(self) -> list[bytes]:
        """The bytes of each token."""
        return list(self._tokens)

    @property
    def stop_token_ids(self) -> list[int]:
        """The tokens that end the text."""
        return list(self._stops)

    @property
    def special_token_ids(self) -> list[int]:
        """The tokens that are never matched as text: empty ones, padding, and those that the tokenizer declares
        special.
        """
        return list(self._special)

    def dump_metadata(self) -> str:
        """Returns JSON that :meth:`from_vocab_and_metadata` takes together with the tokens."""
        return json.dumps(self._metadata(), separators=(",", ":"))

    def _metadata(self) -> dict[str, Any]:
        return {
            "vocab_type": self._kind.value,
            "vocab_size": self._size,
            "add_prefix_space": self._add_prefix_space,
            "stop_token_ids": self._stops,
        }

    @classmethod
    def from_vocab_and_metadata(cls, encoded_vocab: Sequence[bytes | str], metadata: str) -> TokenizerInfo:
        """Makes one from the encoded tokens and the result of :meth:`dump_metadata`.

        Raises:
            InvalidJSONError, DeserializeFormatError: the metadata does not have that form.
        """
        from guiderail.compat.xgrammar.exception import DeserializeFormatError, InvalidJSONError

        try:
            data = json.loads(metadata)
        except ValueError as error:
            raise InvalidJSONError(f"the metadata is not JSON: {error}") from None
        try:
            return cls(
                encoded_vocab,  # type: ignore[arg-type]
                VocabType(data["vocab_type"]),
                vocab_size=data["vocab_size"],
                stop_token_ids=data["stop_token_ids"],
                add_prefix_space=data["add_prefix_space"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DeserializeFormatError(f"the metadata is not that of dump_metadata: {error!r}") from None

    def serialize_json(self) -> str:
        """Returns everything as JSON that :meth:`deserialize_json` reads. The format differs from XGrammar's."""
        fields = self._metadata()
        fields["tokens"] = [token.decode("latin-1") for token in self._tokens]
        fields["special"] = dict(self._vocabulary.special_tokens)
        return write_serialized("tokenizer_info", fields)

    @classmethod
    def deserialize_json(cls, json_string: str) -> TokenizerInfo:
        """Reads the result of :meth:`serialize_json`.

        Raises:
            InvalidJSONError, DeserializeVersionError, DeserializeFormatError: the text is something else.
        """
        from guiderail.compat.xgrammar.exception import DeserializeFormatError

        fields = read_serialized("tokenizer_info", json_string)
        try:
            info = cls.__new__(cls)
            tokens = [token.encode("latin-1") for token in fields["tokens"]]
            plain = [token or None for token in tokens]
            size, stops = fields["vocab_size"], fields["stop_token_ids"]
            vocabulary = None
            if size and any(plain[i] for i in range(len(plain)) if i not in stops):
                vocabulary = Vocabulary(plain, special_tokens=fields["special"], stop_token_ids=stops, size=size)
            info._setup(tokens, VocabType(fields["vocab_type"]), size, stops, fields["add_prefix_space"], vocabulary)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DeserializeFormatError(f"this is not a serialized TokenizerInfo: {error!r}") from None
        return info

    def __repr__(self) -> str:
        return f"<TokenizerInfo of {self._vocabulary!r}>"


def _decoded(token: bytes | str, kind: VocabType) -> bytes:
    """The bytes that a token stands for."""
    if not isinstance(token, str | bytes):
        raise CompatTypeError(f"a token must be str or bytes, not {shown(token)}")
    if isinstance(token, bytes):
        if kind is VocabType.RAW:
            return token
        token = token.decode("utf-8", "surrogateescape")
    if kind is VocabType.BYTE_FALLBACK:
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            try:
                return bytes([int(token[3:5], 16)])
            except ValueError:
                pass
        token = token.replace("▁", " ")
    elif kind is VocabType.BYTE_LEVEL:
        table = _byte_level()
        if all(c in table for c in token):
            return bytes(table[c] for c in token)
    return token.encode("utf-8", "surrogateescape")


@lru_cache(maxsize=1)
def _byte_level() -> dict[str, int]:
    """GPT-2's characters for bytes: printable bytes stand for themselves, the others are U+0100 and following."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(shown)]
    return {chr(byte): byte for byte in shown} | {chr(0x100 + i): byte for i, byte in enumerate(hidden)}


def _kind_of(vocab: dict[str, int]) -> VocabType:
    """How a tokenizer encodes its tokens, judged by its contents."""
    if sum(f"<0x{byte:02X}>" in vocab for byte in range(256)) >= 128:
        return VocabType.BYTE_FALLBACK
    if sum(character in vocab for character in _byte_level()) >= 128:
        return VocabType.BYTE_LEVEL
    return VocabType.RAW


def _adds_space(tokenizer: Any) -> bool:
    """Whether a tokenizer begins a text with a space, found by encoding one."""
    try:
        pieces = tokenizer.convert_ids_to_tokens(tokenizer.encode("a", add_special_tokens=False))
    except (AttributeError, TypeError, ValueError):
        return False
    return bool(pieces) and isinstance(pieces[0], str) and pieces[0][:1] in ("▁", "Ġ")
