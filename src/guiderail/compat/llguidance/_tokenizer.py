"""``LLTokenizer``: the vocabulary of a tokenizer, as llguidance takes it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from guiderail.compat._errors import CompatTypeError, CompatValueError, integer, raised_as
from guiderail.compat.llguidance._llama import encoder
from guiderail.support.arguments import checked_methods
from guiderail.support.texts import shown
from guiderail.vocabulary import Vocabulary
from guiderail.vocabulary._ids import stop_ids

__all__ = ["LLTokenizer", "TokenizerWrapper"]

_BYTE_SPECIALS = ("<|tool|>", "<|/tool|>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>")
_SPECIAL = b"\xff"  # marks special tokens, as no text begins with it
_SHOWN = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class TokenizerWrapper:
    """The wrapper that guidance puts around its tokenizers.

    Args:
        gtokenizer: has ``eos_token_id``, ``bos_token_id``, ``tokens`` (bytes) and optionally ``special_token_ids``.
            Called with bytes or text, it returns ids.
    """

    def __init__(self, gtokenizer: Any) -> None:
        missing = [name for name in ("eos_token_id", "bos_token_id", "tokens") if not hasattr(gtokenizer, name)]
        if missing:
            raise CompatTypeError(f"{shown(gtokenizer)} is no tokenizer to wrap: it has no {' and no '.join(missing)}")
        self.eos_token_id: int = gtokenizer.eos_token_id
        self.bos_token_id: int | None = gtokenizer.bos_token_id
        self.tokens: Sequence[bytes] = gtokenizer.tokens
        self.special_token_ids: Sequence[int] = getattr(gtokenizer, "special_token_ids", [])
        self._gtokenizer = gtokenizer
        try:
            gtokenizer(b"test")
            self._accepts_bytes = True
        except Exception:  # any exception: it expects text
            self._accepts_bytes = False

    def __call__(self, text: str) -> list[int]:
        """Returns the ids of a text."""
        return list(self._gtokenizer(text.encode() if self._accepts_bytes else text))


@checked_methods
class LLTokenizer:
    """The tokens of a model. ``vocabulary`` is guiderail's own object.

    Args:
        tokenizer: ``"byte"`` (one token for each byte); the JSON of a tokenizer of the ``tokenizers`` library, the path
            of its file or folder, or its name, if that library can load it; a :class:`TokenizerWrapper`; or any
            tokenizer that :class:`guiderail.Vocabulary` reads.
        n_vocab: the width of the model's logits.
        eos_token: the stop tokens, the usual one first.
        slices: parts of the vocabulary that llguidance prepares. They have no effect here: guiderail needs none.

    Raises:
        CompatValueError: the tokenizer cannot be read, or has no end token.
    """

    def __init__(
        self,
        tokenizer: Any,
        n_vocab: int | None = None,
        eos_token: int | Sequence[int] | None = None,
        slices: Sequence[str] | None = None,
    ) -> None:
        with raised_as(CompatValueError):
            stops = None if eos_token is None else list(stop_ids(eos_token))
            if stops == []:
                raise CompatValueError("the list of end tokens, eos_token, must not be empty")
            self.vocabulary = _vocabulary(tokenizer, n_vocab, stops)
        if not self.vocabulary.stop_token_ids:
            raise CompatValueError("the tokenizer names no end token; pass eos_token")
        if slices is not None and (isinstance(slices, str) or not all(isinstance(one, str) for one in slices)):
            raise CompatTypeError(f"slices must be a list of strings, not {shown(slices)}")
        self._slices = self.general_slices() if slices is None else list(slices)

    @classmethod
    def _of(cls, vocabulary: Vocabulary, slices: Sequence[str] | None = None) -> LLTokenizer:
        made = cls.__new__(cls)
        made.vocabulary = vocabulary
        made._slices = cls.general_slices() if slices is None else list(slices)
        return made

    @classmethod
    def from_tiktoken(
        cls,
        *,
        encoder: Mapping[bytes, int],
        special_tokens: Mapping[str, int],
        pattern: str,
        eos_token: int | Sequence[int],
        n_vocab: int | None = None,
        slices: Sequence[str] | None = None,
    ) -> LLTokenizer:
        """Makes a tokenizer from the parts of a tiktoken encoding.

        Raises:
            ValueError: the parts cannot be read.
        """
        import tiktoken

        encoding = tiktoken.Encoding(
            "given", pat_str=pattern, mergeable_ranks=dict(encoder), special_tokens=dict(special_tokens)
        )
        return cls(encoding, n_vocab, eos_token, slices)

    @classmethod
    def from_llamacpp(
        cls,
        *,
        tokens: Sequence[bytes],
        vocab_ptr: int,
        tokenize_fptr: int,
        eos_token: int | Sequence[int],
        slices: Sequence[str] | None = None,
    ) -> LLTokenizer:
        """Makes a tokenizer from a vocabulary of llama.cpp; see :mod:`guiderail.compat.llguidance.llamacpp`.

        Args:
            tokens: the bytes of each token; a first byte 0xFF marks a special token and does not count.
            vocab_ptr: the address of the ``llama_vocab``, which must live as long as the result.
            tokenize_fptr: the address of ``llama_tokenize``.
            eos_token: the stop tokens, the usual one first.
            slices: as for :class:`LLTokenizer`.

        Raises:
            CompatTypeError: the tokens are not bytes, or an address is no integer.
            CompatValueError: an address is 0, or the stop tokens do not exist.
        """
        for name, address in (("vocab_ptr", vocab_ptr), ("tokenize_fptr", tokenize_fptr)):
            if integer(name, address) == 0:
                raise CompatValueError(f"{name} must be non-null")
        if isinstance(tokens, bytes | str) or not all(isinstance(token, bytes) for token in tokens):
            raise CompatTypeError("tokens must be a list of bytes")
        if eos_token is None:
            raise CompatValueError("eos_token must be an int or a non-empty list of ints")
        special = [i for i, token in enumerate(tokens) if len(token) > 1 and token.startswith(_SPECIAL)]
        texts = [token or None for token in tokens]
        for i in special:
            texts[i] = tokens[i][1:]
        with raised_as(CompatValueError):
            vocabulary = Vocabulary(
                texts,
                special_tokens=special,
                stop_token_ids=list(stop_ids(eos_token)),
                size=len(tokens),
                encode=encoder(integer("vocab_ptr", vocab_ptr), integer("tokenize_fptr", tokenize_fptr), len(tokens)),
            )
        return cls(vocabulary, slices=slices)

    def with_slices(self, slices: Sequence[str]) -> LLTokenizer:
        """Returns the same tokenizer: guiderail needs no slices."""
        return LLTokenizer._of(self.vocabulary, slices)

    @staticmethod
    def general_slices() -> list[str]:
        """Returns no slices: guiderail decides itself what to cache."""
        return []

    json_slices = general_slices

    @property
    def vocab_size(self) -> int:
        """The width of the model's logits."""
        return self.vocabulary.size

    @property
    def eos_token(self) -> int:
        """The usual stop token."""
        return self.vocabulary.stop_token_ids[0]

    @property
    def eos_tokens(self) -> list[int]:
        """The stop tokens."""
        return list(self.vocabulary.stop_token_ids)

    @property
    def is_canonical(self) -> bool:
        """Whether the tokenizer's own spelling of a text is known, so that forced tokens are the ones it writes."""
        return self.vocabulary.can_encode

    def greedy_tokenize(self, text: str) -> list[int]:
        """Splits a text into the longest tokens, from left to right."""
        return self._greedy(text.encode())

    def _greedy(self, data: bytes) -> list[int]:
        core, found, at = self.vocabulary.core, [], 0
        while at < len(data):
            best, length = -1, 0
            for end in range(at + 1, len(data) + 1):
                started = core.tokens_with_prefix(data[at:end], 64)
                if not started:
                    break
                whole = [token for token in started if core.token_bytes(token) == data[at:end]]
                if whole:
                    best, length = min(whole), end - at
            if best < 0:
                raise CompatValueError(f"no token begins with the byte {data[at]:#04x} at {at}")
            found.append(best)
            at += length
        return found

    def tokenize_bytes(self, utf8bytes: bytes, *, parse_special: bool = False) -> list[int]:
        """Returns the tokens of bytes: the tokenizer's own for valid text, the longest ones for the rest.

        Args:
            utf8bytes: the bytes.
            parse_special: read names of special tokens as these tokens.
        """
        if parse_special:
            return self._with_special(utf8bytes)
        if not self.vocabulary.can_encode:
            return self._greedy(utf8bytes)
        end = len(utf8bytes)
        while end > 0:
            try:
                text = utf8bytes[:end].decode()
                break
            except UnicodeDecodeError as error:
                end = error.start
        else:
            return self._greedy(utf8bytes)
        try:
            return self.vocabulary.encode(text) + self._greedy(utf8bytes[end:])
        except ValueError:  # the tokenizer changes the text
            return self._greedy(utf8bytes)

    def _with_special(self, data: bytes) -> list[int]:
        """The tokens of bytes, with names of special tokens read as these tokens."""
        names = sorted(
            ((name.encode(), i) for name, i in self.vocabulary.special_tokens.items()), key=lambda n: -len(n[0])
        )
        found: list[int] = []
        begin = at = 0
        while at < len(data):
            special = next(((name, i) for name, i in names if name and data.startswith(name, at)), None)
            if special is None:
                at += 1
                continue
            found += [*self.tokenize_bytes(data[begin:at]), special[1]]
            begin = at = at + len(special[0])
        return found + self.tokenize_bytes(data[begin:])

    def tokenize_str(self, text: str, *, parse_special: bool = False) -> list[int]:
        """Like :meth:`tokenize_bytes`, for a text."""
        return self.tokenize_bytes(text.encode(), parse_special=parse_special)

    def tokenize_partial(self, new_bytes: bytes, recent_tokens: Sequence[int] | None = None) -> tuple[list[int], bytes]:
        """Returns the tokens of bytes that no continuation can change, and the remaining bytes.

        Args:
            new_bytes: the bytes.
            recent_tokens: the tokens before them; a hint that is not needed here.
        """
        tokens = self.tokenize_bytes(new_bytes)
        core = self.vocabulary.core
        keep, tail = len(tokens), b""
        for i in range(len(tokens) - 1, -1, -1):
            tail = core.token_bytes(tokens[i]) + tail
            if any(core.token_bytes(token) != tail for token in core.tokens_with_prefix(tail, 2)):
                keep = i
        left = b"".join(core.token_bytes(token) for token in tokens[keep:])
        return tokens[:keep], left

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Returns the bytes of tokens; special tokens by name."""
        return b"".join(map(self._bytes, tokens))

    def _bytes(self, token: int) -> bytes:
        return self.vocabulary.token_bytes(token)

    def decode_str(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_bytes(tokens).decode("utf-8", "replace")

    def is_special_token(self, token: int) -> bool:
        """Whether a token is never matched as text."""
        return token in self.vocabulary.special_tokens.values()

    def dbg_tokens(self, tokens: Sequence[int]) -> str:
        """Returns tokens as readable text: ``⟦a‧b⟧``."""
        return f"⟦{'‧'.join(map(self._shown, tokens))}⟧"

    def test_trace_tokens(self, tokens: Sequence[int]) -> str:
        """Returns tokens as readable text: ``a‧b``."""
        return "‧".join("≺EOS≻" if token == self.eos_token else self.decode_str([token]) for token in tokens)

    def _shown(self, token: int) -> str:
        if token == self.eos_token:
            return "≺EOS≻"
        if not 0 <= token < self.vocab_size:
            return f"≺OOB[{token}]≻"
        if not self._bytes(token):
            return f"≺EMPTY[{token}]≻"
        try:
            text = self._bytes(token).decode()
        except UnicodeDecodeError:
            return f"≺HEX[{self._bytes(token).hex()}]≻"
        return "".join(_SHOWN.get(c, c) for c in text)

    def __repr__(self) -> str:
        return f"<LLTokenizer of {self.vocabulary!r}>"


def _each_byte(text: str) -> list[int]:
    return list(text.encode())


def _vocabulary(tokenizer: Any, size: int | None, stops: list[int] | None) -> Vocabulary:
    if isinstance(tokenizer, TokenizerWrapper):
        special = [token for token in tokenizer.special_token_ids if token < len(tokenizer.tokens)]
        return Vocabulary(
            [token or None for token in tokenizer.tokens],
            special_tokens=special,
            stop_token_ids=[tokenizer.eos_token_id] if stops is None else stops,
            size=len(tokenizer.tokens) if size is None else size,
            encode=tokenizer,
            bos_token_id=tokenizer.bos_token_id,
        )
    if isinstance(tokenizer, str) and tokenizer == "byte":
        tokens = [*(bytes([byte]) for byte in range(256)), *(name.encode() for name in _BYTE_SPECIALS)]
        return Vocabulary(
            tokens,
            special_tokens={name: 256 + i for i, name in enumerate(_BYTE_SPECIALS)},
            stop_token_ids=[len(tokens) - 1] if stops is None else stops,
            size=len(tokens) if size is None else size,
            encode=_each_byte,
        )
    if isinstance(tokenizer, str) and not os.path.exists(tokenizer):
        import tokenizers

        try:
            made = tokenizers.Tokenizer
            tokenizer = made.from_str(tokenizer) if tokenizer.startswith("{") else made.from_pretrained(tokenizer)
        except Exception as error:  # the library raises Exception itself
            raise CompatValueError(f"the tokenizer cannot be loaded: {error}", code="unsupported-tokenizer") from error
    return _adapted(tokenizer, size, stops)


def _adapted(tokenizer: Any, size: int | None, stops: list[int] | None) -> Vocabulary:
    """A vocabulary by the adapter of its library; ids beyond ``size`` are dropped."""
    from guiderail.vocabulary.adapted import vocabulary_of

    known = vocabulary_of(tokenizer)
    if size is None and stops is None:
        return known
    size = known.size if size is None else size
    kept = min(size, known.token_count)
    return Vocabulary(
        [known.token_bytes(i) if i not in known.unplaced else None for i in range(kept)],
        special_tokens={name: i for name, i in known.special_tokens.items() if i < size},
        stop_token_ids=[i for i in known.stop_token_ids if i < size] if stops is None else stops,
        size=size,
        encode=known.encode if known.can_encode and kept == known.token_count else None,
        bos_token_id=known.bos_token_id,
    )
