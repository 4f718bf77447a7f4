"""A constraint written out over tokens, as arrays. It runs with NumPy, or with torch without host round trips.

Rows are in CSR form: the transitions of state ``s`` are ``token[indptr[s]:indptr[s + 1]]`` (ascending), with their
targets in ``next_state``. This is the index of Willard & Louf (2023, Algorithm 4) together with the token-level
transitions of Koo, Liu & He (2024, §3.2). The native matcher needs none of it; it serves accelerators and other
runtimes.
"""

from __future__ import annotations

import io
import operator
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from guiderail.errors import BitmaskError, GuiderailError, LimitError, MatcherError, VocabularyError
from guiderail.support.arguments import checked_methods
from guiderail.support.files import file_errors, reason, replace_file
from guiderail.support.texts import shown

if TYPE_CHECKING:
    import torch

__all__ = ["TokenAutomaton", "TorchTokenAutomaton"]

_FORMAT = 1
_MOST_TOKENS = 1 << 31  # token ids are int32
_TYPES: dict[str, type[np.generic]] = {
    "format": np.int64,
    "indptr": np.int64,
    "token": np.int32,
    "next_state": np.int32,
    "accepting": np.bool_,
    "stop": np.int64,
}


@checked_methods
@dataclass(frozen=True, eq=False)
class TokenAutomaton:
    """A deterministic automaton over token ids. State 0 is the start; -1 means that the token is not allowed.

    Attributes:
        indptr: int64, shape (states + 1,): where the transitions of each state begin.
        token: int32, shape (transitions,): token ids, ascending within a state.
        next_state: int32, shape (transitions,).
        accepting: bool, shape (states,): the text may end here, and stop tokens are allowed.
        vocabulary_size: number of bits in a mask.
        stop_token_ids: tokens that end the text; they have no transitions.
    """

    indptr: NDArray[np.int64]
    token: NDArray[np.int32]
    next_state: NDArray[np.int32]
    accepting: NDArray[np.bool_]
    vocabulary_size: int
    stop_token_ids: tuple[int, ...]

    @property
    def states(self) -> int:
        return len(self.accepting)

    @property
    def transitions(self) -> int:
        return len(self.token)

    def _check(self, state: int) -> int:
        index = operator.index(state)
        if not 0 <= index < self.states:
            raise MatcherError(
                f"there is no state {shown(index)}: the automaton has the states 0 to {self.states - 1}",
                code="matcher-state",
            )
        return index

    def allowed(self, state: int) -> NDArray[np.int32]:
        """σ(state): the allowed tokens in ascending order, without stop tokens. int32, shape (n,).

        Raises:
            MatcherError: ``matcher-state``: there is no such state.
        """
        state = self._check(state)
        return self.token[self.indptr[state] : self.indptr[state + 1]]

    def step(self, state: int, token: int) -> int:
        """The state after ``token``, or -1 if it is not allowed.

        Raises:
            MatcherError: ``matcher-state``: there is no such state.
        """
        state, token = self._check(state), operator.index(token)
        start, end = int(self.indptr[state]), int(self.indptr[state + 1])
        at = start + int(np.searchsorted(self.token[start:end], token))
        return int(self.next_state[at]) if at < end and self.token[at] == token else -1

    @property
    def words(self) -> int:
        return (self.vocabulary_size + 31) // 32

    def fill(self, state: int, bitmask: NDArray[np.int32], row: int = 0) -> None:
        """Writes the mask of a state, stop tokens included, into row ``row`` of an int32 array (batch, words).

        Raises:
            BitmaskError: ``bitmask-shape``: the array has another dtype, another rank, or too few words;
                ``bitmask-row``: it has no such row; ``bitmask-readonly``: it cannot be written to.
            MatcherError: ``matcher-state``: there is no such state.
        """
        if bitmask.dtype != np.int32 or bitmask.ndim != 2 or bitmask.shape[1] < self.words:
            raise BitmaskError(
                f"the bitmask must be int32 of shape (batch, >= {self.words}), not {bitmask.dtype} {bitmask.shape}",
                code="bitmask-shape",
            )
        row, rows = operator.index(row), len(bitmask)
        if not 0 <= row < rows:
            raise BitmaskError(f"row {shown(row)} is out of range: the bitmask has {rows} rows", code="bitmask-row")
        if not bitmask.flags.writeable:
            raise BitmaskError("the bitmask is read-only; copy it first", code="bitmask-readonly")
        bits = np.zeros(bitmask.shape[1] * 32, dtype=np.uint8)
        bits[self.allowed(state)] = 1
        if self.accepting[state]:
            bits[list(self.stop_token_ids)] = 1
        bitmask[row] = np.packbits(bits, bitorder="little").view(np.int32)

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """``state * vocabulary_size + token`` of every transition, in ascending order, shape ``(transitions,)``: one
        search finds a transition.
        """
        state = np.repeat(np.arange(self.states, dtype=np.int64), np.diff(self.indptr))
        return state * self.vocabulary_size + self.token

    @cached_property
    def mask_table(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Distinct masks, int32 (masks, words), and the mask of each state, int32 (states,)."""
        seen: dict[bytes, int] = {}
        table: list[NDArray[np.int32]] = []
        index = np.empty(self.states, dtype=np.int32)
        row = np.zeros((1, self.words), dtype=np.int32)
        for state in range(self.states):
            self.fill(state, row)
            key = row.tobytes()
            if key not in seen:
                seen[key] = len(table)
                table.append(row[0].copy())
            index[state] = seen[key]
        return np.stack(table), index

    def save(self, path: str | Path) -> None:
        """Writes the arrays to an ``.npz`` file, atomically.

        Raises:
            VocabularyError: ``automaton-file``: the file cannot be written.
        """
        contents = io.BytesIO()
        np.savez_compressed(
            contents,
            format=np.array([_FORMAT, self.vocabulary_size], dtype=np.int64),
            indptr=self.indptr,
            token=self.token,
            next_state=self.next_state,
            accepting=self.accepting,
            stop=np.array(self.stop_token_ids, dtype=np.int64),
        )
        with file_errors(f"the token automaton cannot be written to {path}", VocabularyError, "automaton-file"):
            replace_file(os.fspath(path), [contents.getvalue()])

    @staticmethod
    def load(path: str | Path, *, max_bytes: int = 1 << 30) -> TokenAutomaton:
        """Reads what :meth:`save` wrote. Safe on files from anywhere: it uses no pickle, and checks sizes first.

        Args:
            path: the file.
            max_bytes: how large the arrays may be once they are unpacked.

        Raises:
            VocabularyError: ``automaton-file``: the file is missing, damaged, or something else.
            LimitError: ``automaton-size``: its arrays are larger than ``max_bytes``.
        """
        target = os.fspath(path)
        try:
            with open(target, "rb") as file, ZipFile(file) as archive:
                arrays = _arrays(archive, path, max_bytes)
        except (GuiderailError, MemoryError):
            raise
        except FileNotFoundError as error:
            raise VocabularyError(f"{path} does not exist", code="automaton-file") from error
        except Exception as error:  # damage makes archives and headers fail in many ways
            why = reason(error) if isinstance(error, OSError) else error
            raise VocabularyError(f"{path} does not contain a token automaton: {why}", code="automaton-file") from error
        version, size = (int(v) for v in arrays["format"]) if len(arrays["format"]) == 2 else (0, 0)
        if version != _FORMAT:
            raise VocabularyError(f"unknown format {version} in {path}", code="automaton-file")
        made = TokenAutomaton(
            indptr=arrays["indptr"],
            token=arrays["token"],
            next_state=arrays["next_state"],
            accepting=arrays["accepting"],
            vocabulary_size=size,
            stop_token_ids=tuple(int(v) for v in arrays["stop"]),
        )
        made._validate(path)
        return made

    def _validate(self, path: str | Path) -> None:
        sound = (
            self.indptr.shape == (self.states + 1,)
            and self.states > 0
            and 0 <= self.vocabulary_size <= _MOST_TOKENS
            and self.indptr[0] == 0
            and self.indptr[-1] == len(self.token) == len(self.next_state)
            and bool(np.all(np.diff(self.indptr) >= 0))
            and (
                len(self.token) == 0
                or (
                    int(self.token.min()) >= 0
                    and int(self.token.max()) < self.vocabulary_size
                    and int(self.next_state.min()) >= 0
                    and int(self.next_state.max()) < self.states
                    and bool(np.all(np.diff(self.keys) > 0))
                )
            )
            and all(0 <= stop < self.vocabulary_size for stop in self.stop_token_ids)
        )
        if not sound:
            raise VocabularyError(f"{path} contains an inconsistent token automaton", code="automaton-file")

    def to_torch(self, device: Any = "cpu") -> TorchTokenAutomaton:
        """The same as tensors on a device."""
        return TorchTokenAutomaton(self, device)


def _arrays(archive: ZipFile, path: str | Path, max_bytes: int) -> dict[str, NDArray[Any]]:
    """The arrays of a saved automaton. The header of each says how long it is, so nothing larger is unpacked."""
    npy: Any = np.lib.format  # without annotations
    found: dict[str, NDArray[Any]] = {}
    left = max_bytes
    for name, kind in _TYPES.items():
        with archive.open(f"{name}.npy") as member:
            if npy.read_magic(member) != (1, 0):
                raise ValueError(f"{name} is an array of another format")
            shape, _, dtype = npy.read_array_header_1_0(member)
            if len(shape) != 1 or dtype.newbyteorder("=") != np.dtype(kind):
                raise ValueError(f"{name} must be a list of {np.dtype(kind)}")
            size = shape[0] * dtype.itemsize
            left -= size
            if left < 0:
                raise LimitError(
                    f"the token automaton in {path} takes more than {max_bytes:,} bytes; raise max_bytes",
                    code="automaton-size",
                )
            data = member.read(size + 1)  # up to the end, where the checksum is compared
            if len(data) != size:
                raise ValueError(f"{name} has another length than its header says")
            found[name] = np.frombuffer(data, dtype).astype(kind)
    return found


class TorchTokenAutomaton:
    """The automaton as pure tensor operations: nothing is copied to the host, so a loop can be compiled or captured."""

    def __init__(self, automaton: TokenAutomaton, device: Any) -> None:
        import torch

        size = automaton.vocabulary_size
        table, index = automaton.mask_table
        self.size = size
        # a last key that no query reaches keeps every search inside the arrays
        self.keys = torch.from_numpy(np.append(automaton.keys, np.iinfo(np.int64).max)).to(device)
        self.targets = torch.from_numpy(np.append(automaton.next_state, -1).astype(np.int64)).to(device)
        self.masks = torch.from_numpy(table).to(device)
        self.mask_of = torch.from_numpy(index.astype(np.int64)).to(device)
        self.accepting = torch.from_numpy(automaton.accepting.copy()).to(device)
        self.shifts = torch.arange(32, dtype=torch.int32, device=device)

    def bitmask(self, states: torch.Tensor) -> torch.Tensor:
        """Masks of a batch of states. int64 (batch,) -> int32 (batch, words). States must not be -1."""
        return self.masks[self.mask_of[states]]

    def allowed(self, states: torch.Tensor) -> torch.Tensor:
        """The same as booleans, shape (batch, vocabulary_size)."""
        bits = (self.bitmask(states).unsqueeze(-1) >> self.shifts) & 1
        return bits.flatten(1)[:, : self.size].bool()

    def step(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The next states of a batch, -1 where a token is not allowed (or the state was -1). All int64 (batch,)."""
        import torch

        query = states * self.size + tokens
        at = torch.searchsorted(self.keys, query).clamp_(max=self.keys.numel() - 1)
        found = (self.keys[at] == query) & (states >= 0) & (tokens >= 0) & (tokens < self.size)
        return torch.where(found, self.targets[at], torch.full_like(at, -1))

    def apply(self, logits: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Logits (batch, >= vocabulary_size) with forbidden tokens at -inf, as a new tensor."""
        allowed = self.allowed(states)
        missing = logits.shape[-1] - self.size
        if missing > 0:
            import torch

            allowed = torch.nn.functional.pad(allowed, (0, missing))
        return logits.masked_fill(~allowed, float("-inf"))
