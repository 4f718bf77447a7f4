"""llama.cpp's C interface, bound with ctypes from the library inside the ``xllamacpp`` wheel.

The wheel's extension module exports the whole C interface. Structures cross that interface *by value*, so their layout
must match the exact version: :data:`VERSION` pins it, and :func:`load` rejects any other instead of guessing. The
layouts below follow ``include/llama.h`` of that release, field by field. (The low-level interface of llama-cpp-python
would make this unnecessary, but that package is published only as source and needs a compiler to install.)
"""

from __future__ import annotations

import ctypes as c
import importlib.metadata
import importlib.util
import logging
import os
import sys
from collections import deque
from functools import lru_cache
from pathlib import Path
from typing import Any

from guiderail.errors import ModelError
from guiderail.support.packages import install

__all__ = [
    "VERSION",
    "Batch",
    "ChatMessage",
    "ContextParams",
    "Library",
    "ModelParams",
    "decode",
    "free_context",
    "idle_cores",
    "load",
    "open_context",
    "physical_cores",
    "recent_log",
]

VERSION = "2026.10.11549"
"""The release of xllamacpp whose structures are declared here."""

LOAD_MODE_MMAP = 1
MOST_THREADS = 512  # of ggml
LEVEL_WARNING, LEVEL_ERROR = 3, 4  # of ggml_log_level

_log = logging.getLogger("guiderail.llama_cpp")
_recent: deque[str] = deque(maxlen=12)


class ModelParams(c.Structure):
    """``struct llama_model_params``."""

    _fields_ = (
        ("devices", c.c_void_p),
        ("tensor_buft_overrides", c.c_void_p),
        ("n_gpu_layers", c.c_int32),
        ("split_mode", c.c_int),
        ("load_mode", c.c_int),
        ("lazy_mode", c.c_int),
        ("main_gpu", c.c_int32),
        ("tensor_split", c.c_void_p),
        ("progress_callback", c.c_void_p),
        ("progress_callback_user_data", c.c_void_p),
        ("kv_overrides", c.c_void_p),
        ("vocab_only", c.c_bool),
        ("check_tensors", c.c_bool),
        ("use_extra_bufts", c.c_bool),
        ("no_host", c.c_bool),
        ("no_alloc", c.c_bool),
        ("load_mtp", c.c_bool),
    )


class ContextParams(c.Structure):
    """``struct llama_context_params``."""

    _fields_ = (
        ("n_ctx", c.c_uint32),
        ("n_batch", c.c_uint32),
        ("n_ubatch", c.c_uint32),
        ("n_seq_max", c.c_uint32),
        ("n_rs_seq", c.c_uint32),
        ("n_outputs_max", c.c_uint32),
        ("n_outputs_max_per_seq", c.c_uint32),
        ("n_threads", c.c_int32),
        ("n_threads_batch", c.c_int32),
        ("ctx_type", c.c_int),
        ("rope_scaling_type", c.c_int),
        ("pooling_type", c.c_int),
        ("attention_type", c.c_int),
        ("flash_attn_type", c.c_int),
        ("rope_freq_base", c.c_float),
        ("rope_freq_scale", c.c_float),
        ("yarn_ext_factor", c.c_float),
        ("yarn_attn_factor", c.c_float),
        ("yarn_beta_fast", c.c_float),
        ("yarn_beta_slow", c.c_float),
        ("yarn_orig_ctx", c.c_uint32),
        ("defrag_thold", c.c_float),
        ("cb_eval", c.c_void_p),
        ("cb_eval_user_data", c.c_void_p),
        ("type_k", c.c_int),
        ("type_v", c.c_int),
        ("moe_cache_size", c.c_size_t),
        ("abort_callback", c.c_void_p),
        ("abort_callback_data", c.c_void_p),
        ("embeddings", c.c_bool),
        ("offload_kqv", c.c_bool),
        ("no_perf", c.c_bool),
        ("op_offload", c.c_bool),
        ("swa_full", c.c_bool),
        ("kv_unified", c.c_bool),
        ("samplers", c.c_void_p),
        ("n_samplers", c.c_size_t),
        ("ctx_other", c.c_void_p),
    )


class Batch(c.Structure):
    """``struct llama_batch``: tokens, each with its position, its sequence, and whether its logits are needed."""

    _fields_ = (
        ("n_tokens", c.c_int32),
        ("token", c.POINTER(c.c_int32)),
        ("embd", c.POINTER(c.c_float)),
        ("pos", c.POINTER(c.c_int32)),
        ("n_seq_id", c.POINTER(c.c_int32)),
        ("seq_id", c.POINTER(c.POINTER(c.c_int32))),
        ("logits", c.POINTER(c.c_int8)),
    )


class ChatMessage(c.Structure):
    """``struct llama_chat_message``."""

    _fields_ = (("role", c.c_char_p), ("content", c.c_char_p))


_LogCallback = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)

_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "llama_backend_init": (None, ()),
    "llama_supports_gpu_offload": (c.c_bool, ()),
    "llama_log_set": (None, (_LogCallback, c.c_void_p)),
    "llama_model_default_params": (ModelParams, ()),
    "llama_context_default_params": (ContextParams, ()),
    "llama_model_load_from_file": (c.c_void_p, (c.c_char_p, ModelParams)),
    "llama_model_free": (None, (c.c_void_p,)),
    "llama_init_from_model": (c.c_void_p, (c.c_void_p, ContextParams)),
    "llama_free": (None, (c.c_void_p,)),
    "llama_model_n_ctx_train": (c.c_int32, (c.c_void_p,)),
    "llama_model_has_encoder": (c.c_bool, (c.c_void_p,)),
    "llama_model_has_decoder": (c.c_bool, (c.c_void_p,)),
    "llama_model_meta_val_str": (c.c_int32, (c.c_void_p, c.c_char_p, c.c_char_p, c.c_size_t)),
    "llama_model_chat_template": (c.c_char_p, (c.c_void_p, c.c_char_p)),
    "llama_model_get_vocab": (c.c_void_p, (c.c_void_p,)),
    "llama_vocab_n_tokens": (c.c_int32, (c.c_void_p,)),
    "llama_tokenize": (
        c.c_int32,
        (c.c_void_p, c.c_char_p, c.c_int32, c.POINTER(c.c_int32), c.c_int32, c.c_bool, c.c_bool),
    ),
    "llama_chat_apply_template": (
        c.c_int32,
        (c.c_char_p, c.POINTER(ChatMessage), c.c_size_t, c.c_bool, c.c_char_p, c.c_int32),
    ),
    "llama_batch_init": (Batch, (c.c_int32, c.c_int32, c.c_int32)),
    "llama_batch_free": (None, (Batch,)),
    "llama_decode": (c.c_int32, (c.c_void_p, Batch)),
    "llama_get_logits_ith": (c.POINTER(c.c_float), (c.c_void_p, c.c_int32)),
    "llama_get_memory": (c.c_void_p, (c.c_void_p,)),
    "llama_memory_seq_rm": (c.c_bool, (c.c_void_p, c.c_int32, c.c_int32, c.c_int32)),
    "llama_memory_seq_cp": (None, (c.c_void_p, c.c_int32, c.c_int32, c.c_int32, c.c_int32)),
}


class Library:
    """The bound functions, as attributes without their ``llama_`` prefix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        handle = c.CDLL(str(path))
        self._functions: dict[str, Any] = {}
        for symbol, (result, arguments) in _SIGNATURES.items():
            try:
                function = getattr(handle, symbol)
            except AttributeError:
                raise ModelError(
                    f"the library inside xllamacpp {VERSION} does not export {symbol} on this platform "
                    f"({sys.platform}); use a transformers or llama-cpp-python model instead",
                    code="llama-library",
                ) from None
            function.restype, function.argtypes = result, arguments
            self._functions[symbol.removeprefix("llama_")] = function

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(name) from None


def _on_log(level: int, text: bytes | None, _user: object) -> None:
    """Sends llama.cpp's log to the logger ``guiderail.llama_cpp``; keeps the last lines for error messages."""
    line = (text or b"").decode("utf-8", "replace").rstrip()
    if not line:
        return
    if level in (LEVEL_WARNING, LEVEL_ERROR):
        _recent.append(line)
    _log.debug("%s", line)


_on_log_c = _LogCallback(_on_log)  # the library keeps the pointer: this must live as long as the process


def recent_log() -> str:
    """The last warnings and errors of the library, which it forgets."""
    lines = list(_recent)
    _recent.clear()
    return "; ".join(lines[-3:]) or "no reason given"


def open_context(library: Library, model: int, params: ContextParams, needs: str) -> int:
    """A new context of a model.

    Args:
        needs: what it must have room for, for the message.

    Raises:
        ModelError: ``no-room``.
    """
    recent_log()
    context: int | None = library.init_from_model(model, params)
    if not context:
        raise ModelError(f"llama.cpp cannot make room for {needs}: {recent_log()}", code="no-room")
    return context


def decode(library: Library, context: int, batch: Batch) -> None:
    """Computes a batch of tokens.

    Raises:
        ModelError: ``decode``.
    """
    code = library.decode(context, batch)
    if code != 0:
        raise ModelError(f"llama.cpp failed to compute ({code}): {recent_log()}", code="decode")


def free_context(library: Library, context: int, batch: Batch) -> None:
    """Frees a context with the batch that it was fed from."""
    library.batch_free(batch)
    library.free(context)


def _find() -> Path:
    spec = importlib.util.find_spec("xllamacpp")  # finds it, does not import it
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"running GGUF models needs the xllamacpp package: {install('demo')}", code="missing-package")
    found = importlib.metadata.version("xllamacpp")
    if found != VERSION:
        raise ModelError(
            f"xllamacpp {found} is installed, but guiderail needs {VERSION}: pip install xllamacpp=={VERSION}",
            code="llama-version",
        )
    for folder in spec.submodule_search_locations:
        for name in ("xllamacpp*.so", "xllamacpp*.pyd", "xllamacpp*.dylib"):
            for path in sorted(Path(folder).glob(name)):
                return path
    raise ModelError(
        f"the installed xllamacpp contains no library; reinstall it: {install('demo')}", code="missing-package"
    )


@lru_cache(maxsize=1)
def load() -> Library:
    """The library, loaded and initialised once a process.

    Raises:
        ModelError: ``missing-package``, ``llama-version`` or ``llama-library``, with what to install.
    """
    path = _find()
    try:
        library = Library(path)
    except OSError as error:
        raise ModelError(f"cannot load {path.name} of xllamacpp: {error}", code="llama-library") from error
    library.log_set(_on_log_c, None)
    library.backend_init()
    _check_layout(library)
    return library


def _check_layout(library: Library) -> None:
    """Checks that the defaults, read through the declared layouts, are those of the header."""
    model: ModelParams = library.model_default_params()
    context: ContextParams = library.context_default_params()
    fine = (
        model.use_extra_bufts
        and not model.vocab_only
        and not model.progress_callback
        and context.n_ctx == 512
        and context.rope_scaling_type == -1
        and context.flash_attn_type == -1
        and (context.type_k, context.type_v) == (1, 1)  # GGML_TYPE_F16
        and not context.embeddings
        and context.n_samplers == 0
        and not context.ctx_other
    )
    if not fine:
        raise ModelError(
            f"the library of xllamacpp {VERSION} does not have the expected layout on this platform "
            f"({sys.platform}); reinstall it ({install('demo')}) or use a transformers model",
            code="llama-library",
        )


def physical_cores() -> int:
    """Physical cores this process may use: hyper-threads count once, a container's quota is respected."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return max(1, (os.cpu_count() or 1) // (1 if sys.platform == "darwin" else 2))
    cores = set()
    for cpu in allowed:
        try:
            text = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            text = str(cpu)
        cores.add(text.strip())
    count = len(cores)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        if quota != "max":
            count = min(count, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        return max(1, count)
    return max(1, count)


def idle_cores() -> int:
    """Physical cores less the load of the last minute, at least 1: more threads than that slow each other down."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows, or a system that does not tell
        load = 0.0
    return max(1, physical_cores() - int(load))
