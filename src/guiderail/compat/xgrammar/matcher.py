"""``GrammarMatcher`` and ``BatchGrammarMatcher``, which follow texts."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from guiderail.compat._captures import captures_of, has_captures
from guiderail.compat._errors import CompatError, CompatTypeError, CompatValueError, integer, integers, raised_as
from guiderail.compat.xgrammar.bitmasks import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
)
from guiderail.compat.xgrammar.compiler import CompiledGrammar
from guiderail.matching.matcher import Matcher, fill_next_token_bitmasks
from guiderail.support.arguments import checked_methods
from guiderail.support.options import is_real
from guiderail.support.texts import shown
from guiderail.vocabulary._ids import stop_ids

__all__ = [
    "BatchGrammarMatcher", "GrammarMatcher", "allocate_token_bitmask", "apply_token_bitmask_inplace",
    "get_bitmask_shape", "reset_token_bitmask",
]  # fmt: skip


@checked_methods
class GrammarMatcher:
    """Follows one text. ``matcher`` is guiderail's own object.

    Args:
        compiled_grammar: the grammar.
        override_stop_tokens: the tokens that end the text; None: the tokenizer's.
        terminate_without_stop_token: end the text as soon as it is complete; stop tokens are not accepted then.
        max_rollback_tokens: has no effect (and is deprecated in XGrammar): any number of tokens can be rolled back.
        default_temperature: the value of :attr:`temperature`.

    Raises:
        ValueError: ``compiled_grammar`` is not a CompiledGrammar.
    """

    __slots__ = ("_default_temperature", "_grammar", "_open_end", "_strings", "matcher")

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        override_stop_tokens: int | Sequence[int] | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        if not isinstance(compiled_grammar, CompiledGrammar):
            raise CompatValueError(
                "The grammar should be compiled before passing it to GrammarMatcher.", code="argument"
            )
        if max_rollback_tokens != -1:
            warnings.warn(
                "max_rollback_tokens is deprecated: any number of tokens can be rolled back.",
                DeprecationWarning,
                stacklevel=2,
            )
        guide, stops = compiled_grammar.guide, None
        if override_stop_tokens is not None:
            with raised_as():
                stops = stop_ids(override_stop_tokens)
            if not stops:
                raise CompatError(
                    "override_stop_tokens must not be empty; leave it out for those of the tokenizer",
                    code="compat-option",
                )
            guide = compiled_grammar.guide_of(stops)
        with raised_as():
            self.matcher: Matcher = guide.matcher(stops)
        self._grammar = compiled_grammar
        self._strings: dict[int, bytes] = {}  # step → the text that was accepted as a string
        self._open_end = bool(terminate_without_stop_token)
        self._default_temperature = None if default_temperature is None else _temperature(default_temperature)

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Reads a token. Returns False, and changes nothing, if it is not allowed or the text has ended.

        Args:
            token_id: the token; unknown ids are not accepted.
            debug_print: print the state after it.

        Raises:
            CompatTypeError: the token is not an integer.
            CompatError: ``work`` and other limits.
        """
        token = integer("token_id", token_id)
        matcher = self.matcher
        if not 0 <= token < matcher.guide.vocabulary.size or matcher.is_terminated():
            return False
        if self._open_end and token in matcher.stop_token_ids():
            return False
        with raised_as():
            taken: bool = matcher.accept_token(token)
        if debug_print:
            print(f"token {token} {'is read' if taken else 'cannot come'}; the state:\n{matcher.dump()}")
        return taken

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Reads text as one step, however it is split into tokens.

        Returns False, and changes nothing, if no match continues with it.

        Raises:
            CompatTypeError: it is neither text nor bytes.
        """
        if self.matcher.is_terminated():
            return False
        text = bytes(input_str) if isinstance(input_str, bytearray | memoryview) else input_str
        with raised_as():
            taken = self.matcher.accept_string(text)
        if taken:
            self._strings[self.matcher.step_count - 1] = text.encode() if isinstance(text, str) else text
        if debug_print:
            print(f"{input_str!r} {'is read' if taken else 'cannot come'}; the state:\n{self.matcher.dump()}")
        return taken

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, *, debug_print: bool = False) -> bool:
        """Writes the mask into row ``index`` and returns whether any token is forbidden.

        Args:
            bitmask: int32, ``(batch, >= ceil(vocab_size / 32))``, on the CPU. Padding bits become 0.
            index: the row.
            debug_print: print how many tokens are allowed.

        Raises:
            CompatError: the text has ended, or the bitmask has another shape or dtype.
        """
        with raised_as():
            applies: bool = self.matcher.fill_next_token_bitmask(bitmask, index)
        if debug_print:
            print(f"row {index}: {'some' if applies else 'no'} tokens are forbidden; the state:\n{self.matcher.dump()}")
        return applies

    def traverse_draft_tree(
        self,
        retrieve_next_token: Any,
        retrieve_next_sibling: Any,
        draft_tokens: Any,
        token_bitmask: Any,
        time_threshold: float = -1.0,
        temperatures: Any = None,
    ) -> bool:
        """Fills the row of each reachable node of a draft tree; the other rows stay as they are.

        Args:
            retrieve_next_token: for each node, the index of its first child, or -1.
            retrieve_next_sibling: for each node, the index of its next sibling, or -1.
            draft_tokens: the token of each node; that of node 0 has been read already.
            token_bitmask: int32, one row for each node.
            time_threshold: seconds after which to stop; 0 or less: no limit.
            temperatures: None, or float32, one for each node: see :attr:`temperature`.

        Returns:
            Whether the whole tree was filled in time.

        Raises:
            CompatError: the arrays do not fit.
        """
        children, siblings, tokens = (
            integers("the arrays of a draft tree", a)
            for a in (retrieve_next_token, retrieve_next_sibling, draft_tokens)
        )
        if not len(children) == len(siblings) == len(tokens) or not tokens:
            raise CompatError(
                "the arrays of a draft tree must have one element for each node, and at least one node",
                code="compat-draft",
            )
        if temperatures is not None:
            temperatures[: len(tokens)] = -1.0
        begun = time.monotonic()
        waiting = [(0, self.fork())]
        seen = 0
        while waiting:
            node, before = waiting.pop()
            seen += 1
            if not 0 <= node < len(tokens) or seen > len(tokens):
                raise CompatError(
                    "the draft tree names a node that does not exist, or names one twice", code="compat-draft"
                )
            if 0 < time_threshold < time.monotonic() - begun:
                return False
            sibling = siblings[node]
            if sibling != -1:
                waiting.append((sibling, before))
            here = before
            if node != 0:
                here = before.fork() if sibling != -1 else before
                if not here.accept_token(tokens[node]):
                    continue
            if temperatures is not None and here.temperature is not None:
                temperatures[node] = here.temperature
            if here.matcher.is_terminated():
                continue
            here.fill_next_token_bitmask(token_bitmask, node)
            if children[node] != -1:
                waiting.append((children[node], here if sibling == -1 or node else here.fork()))
        return True

    def find_jump_forward_string(self) -> str:
        """Returns the only text that can come next; empty if there is a choice or the text may end.

        Raises:
            CompatError: the text has ended.
        """
        with raised_as():
            if self.matcher.is_terminated():
                raise CompatError("the text has ended: a stop token was read; reset or roll back", code="matcher-over")
            return self.matcher.find_jump_forward_string()

    def rollback(self, num_tokens: int = 1) -> None:
        """Undoes the last steps; a string read by ``accept_string`` is one step.

        Raises:
            CompatError: there are fewer steps.
        """
        if integer("num_tokens", num_tokens) > 0:
            with raised_as():
                self.matcher.rollback(num_tokens)

    def get_captures(self, *, deduplicate: bool = True) -> list[tuple[str, bytes]]:
        """Returns pairs of name and text that rules captured (``name[capture]``), grouped by name.

        Args:
            deduplicate: return each rule once per position, with its longest text. No other mode is supported.

        Raises:
            CompatError: ``compat-unsupported``: ``deduplicate=False``; or the grammar is part of another.
        """
        grammar = self._grammar.grammar
        if not deduplicate or not has_captures(grammar.constraint):
            if not grammar._recipe.asks_for("capture"):
                return []
            raise CompatError(
                "captures can be read only from a grammar that is not part of another, with deduplicate=True",
                code="compat-unsupported",
            )
        return captures_of(grammar.constraint, self.matcher, self._strings)

    def is_terminated(self) -> bool:
        """Whether a stop token was read; with ``terminate_without_stop_token``, whether the text is complete."""
        matcher = self.matcher
        return bool(matcher.is_terminated() or (self._open_end and matcher.is_accepting()))

    def is_completed(self) -> bool:
        """Whether the text may end here."""
        return bool(self.matcher.is_terminated() or self.matcher.is_accepting())

    def reset(self) -> None:
        """Returns to the start."""
        self.matcher.reset()
        self._strings.clear()

    def fork(self) -> GrammarMatcher:
        """Returns an independent copy in the same state."""
        twin = GrammarMatcher.__new__(GrammarMatcher)
        twin.matcher = self.matcher.fork()
        twin._grammar, twin._open_end = self._grammar, self._open_end
        twin._default_temperature, twin._strings = self._default_temperature, dict(self._strings)
        return twin

    __copy__ = fork

    def __deepcopy__(self, memo: dict[int, Any]) -> GrammarMatcher:
        return self.fork()

    @property
    def max_rollback_tokens(self) -> int:
        """-1: any number."""
        return -1

    @property
    def temperature(self) -> float | None:
        """``default_temperature``. A grammar that sets another is rejected when it is read."""
        return self._default_temperature

    @property
    def stop_token_ids(self) -> list[int]:
        """The tokens that end the text."""
        return list(self.matcher.stop_token_ids())

    def _debug_print_internal_state(self) -> str:
        return self.matcher.dump()

    def __repr__(self) -> str:
        return f"<GrammarMatcher of {self.matcher!r}>"


def _temperature(value: Any) -> float:
    if not is_real(value) or value < 0:
        raise CompatValueError(f"a temperature must be a finite number, 0 or more, not {shown(value)}")
    return float(value)


@checked_methods
class BatchGrammarMatcher:
    """Fills masks and reads tokens for many matchers, in one native call.

    Args:
        max_threads: maximum number of threads; ``"auto"``: one per core.

    Raises:
        CompatError: ``compat-option``: less than one thread.
    """

    def __init__(self, max_threads: int | Literal["auto"] = "auto") -> None:
        if not (isinstance(max_threads, str) and max_threads == "auto") and (
            not isinstance(max_threads, int) or max_threads < 1
        ):
            raise CompatError(
                f"max_threads must be 'auto', or 1 or more, not {shown(max_threads)}", code="compat-option"
            )
        self._threads = None if max_threads == "auto" else max_threads

    def batch_fill_next_token_bitmask(
        self,
        matchers: Sequence[GrammarMatcher],
        bitmask: Any,
        indices: Sequence[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """Fills one row for each matcher.

        Args:
            matchers: the matchers.
            bitmask: int32, ``(>= batch, >= ceil(vocab_size / 32))``, on the CPU.
            indices: the row of each matcher; by default its position.
            debug_print: print the state of each.

        Raises:
            CompatError: the bitmask has another shape or dtype, or a text has ended.
        """
        rows = None if indices is None else integers("indices", indices)
        if rows is not None and len(rows) != len(matchers):
            raise CompatError(f"there are {len(rows)} indices for {len(matchers)} matchers", code="compat-batch")
        with raised_as():
            fill_next_token_bitmasks([one.matcher for one in matchers], bitmask, rows=rows, threads=self._threads)
        if debug_print:
            for one in matchers:
                print(one.matcher.dump())

    @staticmethod
    def batch_fill_temperature(
        matchers: Sequence[GrammarMatcher], temperatures: Any, indices: Sequence[int] | None = None
    ) -> None:
        """Writes the temperature of each matcher, -1 for none.

        Args:
            matchers: the matchers.
            temperatures: float32, one-dimensional.
            indices: the position of each matcher's temperature; by default that of the matcher.

        Raises:
            CompatError: the lengths differ, or an index is out of range.
        """
        places = range(len(matchers)) if indices is None else integers("indices", indices)
        if len(places) != len(matchers):
            raise CompatError(f"there are {len(places)} indices for {len(matchers)} matchers", code="compat-batch")
        if not (hasattr(temperatures, "__len__") and hasattr(temperatures, "__setitem__")):
            raise CompatTypeError(f"temperatures must be an array or a tensor, not {shown(temperatures)}")
        if not all(0 <= place < len(temperatures) for place in places):
            raise CompatError(
                f"an index is out of range: temperatures has {len(temperatures)} elements", code="compat-batch"
            )
        for place, one in zip(places, matchers, strict=True):
            temperatures[place] = -1.0 if one.temperature is None else one.temperature

    @staticmethod
    def batch_accept_token(
        matchers: Sequence[GrammarMatcher], tokens: Sequence[int], debug_print: bool = False
    ) -> list[bool]:
        """Reads one token with each matcher and returns which were accepted.

        Raises:
            CompatError: the numbers of tokens and matchers differ.
        """
        tokens = integers("tokens", tokens)  # before any of them is read
        _as_many(matchers, tokens, "tokens")
        return [one.accept_token(token, debug_print=debug_print) for one, token in zip(matchers, tokens, strict=True)]

    @staticmethod
    def batch_accept_string(
        matchers: Sequence[GrammarMatcher], strings: Sequence[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """Reads one text with each matcher and returns which were accepted.

        Raises:
            CompatError: the numbers of texts and matchers differ.
        """
        _as_many(matchers, strings, "strings")
        for text in strings:  # before any of them is read
            if not isinstance(text, str | bytes | bytearray | memoryview):
                raise CompatTypeError(f"strings must be str or bytes, not {shown(text)}")
        return [one.accept_string(text, debug_print=debug_print) for one, text in zip(matchers, strings, strict=True)]

    @staticmethod
    def batch_rollback(matchers: Sequence[GrammarMatcher], num_tokens: int | Sequence[int] = 1) -> None:
        """Undoes the last steps of each matcher.

        Raises:
            CompatError: the lengths differ, or a number is too large.
        """
        counts = [num_tokens] * len(matchers) if isinstance(num_tokens, int) else integers("num_tokens", num_tokens)
        _as_many(matchers, counts, "numbers of tokens")
        for one, count in zip(matchers, counts, strict=True):
            if count > one.matcher.step_count:  # before any of them has changed
                raise CompatError(f"cannot undo {count} steps: there are only {one.matcher.step_count}", code="matcher")
        for one, count in zip(matchers, counts, strict=True):
            one.rollback(count)


def _as_many(matchers: Sequence[GrammarMatcher], others: Sequence[Any], what: str) -> None:
    if len(matchers) != len(others):
        raise CompatError(f"there are {len(others)} {what} for {len(matchers)} matchers", code="compat-batch")
