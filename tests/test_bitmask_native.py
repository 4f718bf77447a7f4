"""The core's application of bitmasks, bit for bit against a NumPy formula."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from guiderail import BitmaskError, _core, apply_token_bitmask_inplace, bool_to_bitmask

INFINITY = {2: (0xFC00, 0xFF80), 4: (0xFF800000,), 8: (0xFFF0000000000000,)}


def formula(logits: np.ndarray, bitmask: np.ndarray, rows: list[int], limit: int, infinity: int) -> np.ndarray:
    """Logits and masks with two dimensions; the logits as unsigned numbers."""
    bits = np.unpackbits(np.ascontiguousarray(bitmask).view(np.uint8), axis=1, bitorder="little").astype(bool)
    covered = min(limit, logits.shape[1])
    allowed = np.zeros(logits.shape[1], bool)
    out = logits.copy()
    for row in rows:
        allowed[:covered] = bits[row, :covered]
        out[row] = np.where(allowed, logits[row], logits.dtype.type(infinity))
    return out


@settings(deadline=None, max_examples=300)
@given(
    seed=st.integers(0, 2**31),
    size=st.sampled_from([2, 4, 8]),
    batch=st.integers(1, 4),
    columns=st.integers(0, 200),
    words=st.integers(1, 7),
    layout=st.sampled_from(["C", "F", "columns apart", "rows apart", "backwards", "unaligned"]),
    masks=st.sampled_from(["C", "F", "apart", "backwards", "read-only"]),
    threads=st.sampled_from([0, 1, 3]),
    data=st.data(),
)
def test_every_bit_is_that_of_the_formula(seed, size, batch, columns, words, layout, masks, threads, data) -> None:
    rng = np.random.default_rng(seed)
    kind = np.dtype(f"u{size}")
    values = rng.integers(0, np.iinfo(kind).max, (batch, columns), kind, endpoint=True)  # NaNs of all kinds among them
    bitmask = rng.integers(-(2**31), 2**31, (batch, words), np.int64).astype(np.int32)
    bitmask[rng.random(bitmask.shape) < 0.3] = 0
    bitmask[rng.random(bitmask.shape) < 0.3] = -1
    limit = data.draw(st.integers(1, 32 * words))
    rows = data.draw(st.lists(st.integers(0, batch - 1), max_size=5))
    infinity = data.draw(st.sampled_from(INFINITY[size]))
    wide = np.full((2 * batch, 3 * columns + 1), 7, kind)
    if layout == "unaligned":
        raw = np.full(batch * columns * size + 1, 7, np.uint8)
        logits = raw[1:].view(kind).reshape(batch, columns)
    else:
        logits = {
            "C": np.empty((batch, columns), kind),
            "F": np.empty((batch, columns), kind, order="F"),
            "columns apart": wide[:batch, : 3 * columns : 3],
            "rows apart": wide[::2, :columns],
            "backwards": wide[:batch, :columns][::-1, ::-1],
        }[layout]
    logits[...] = values
    given_masks = {
        "C": bitmask,
        "F": np.asfortranarray(bitmask),
        "apart": np.repeat(np.repeat(bitmask, 2, axis=0), 3, axis=1)[::2, ::3],
        "backwards": bitmask[::-1, ::-1].copy()[::-1, ::-1],
        "read-only": bitmask.copy(),
    }[masks]
    if masks == "read-only":
        given_masks.setflags(write=False)
    _core.apply_bitmask(logits, given_masks, rows, limit, infinity, threads=threads)
    np.testing.assert_array_equal(logits, formula(values, bitmask, rows, limit, infinity))
    if layout == "rows apart":
        assert (wide[1::2] == 7).all() and (wide[:, columns:] == 7).all()
    if layout == "columns apart":
        assert (wide[batch:] == 7).all() and (wide[:, 1::3] == 7).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("batch", [1, 3, 40])
def test_tensors_share_their_memory(dtype: str, batch: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(batch)
    columns = 33_011
    logits = torch.from_numpy(rng.standard_normal((batch, columns))).to(getattr(torch, dtype))
    allowed = rng.random((batch, columns)) < 0.5
    right = logits.masked_fill(torch.from_numpy(~allowed), float("-inf"))
    where = logits.data_ptr()
    apply_token_bitmask_inplace(logits, torch.from_numpy(bool_to_bitmask(allowed)), vocab_size=columns)
    assert logits.data_ptr() == where and torch.equal(logits, right)
    apply_token_bitmask_inplace(logits.T.contiguous().T, bool_to_bitmask(allowed))
    assert torch.equal(logits, right)


def test_other_threads_run_meanwhile() -> None:
    logits = np.zeros((200, 128_256), np.float32)
    bitmask = bool_to_bitmask(np.random.default_rng(0).random(logits.shape) < 0.5)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        spans = []
        for _ in range(20):
            began = time.perf_counter()
            _core.apply_bitmask(logits.view(np.uint32), bitmask, list(range(200)), 128_256, 0xFF800000, threads=1)
            spans.append((began, time.perf_counter()))
    finally:
        done.set()
        thread.join()
    within = [sum(begin < at < end for at in ticks) for begin, end in spans]
    assert sum(count > 3 for count in within) > len(spans) // 4  # otherwise it tests nothing


@pytest.mark.parametrize(
    ("logits", "bitmask", "rows", "limit", "code"),
    [
        (np.zeros((1, 32), np.uint8), np.zeros((1, 1), np.int32), [0], 32, "bitmask-dtype"),
        (np.zeros((1, 32), np.uint32), np.zeros((1, 1), np.int64), [0], 32, "bitmask-dtype"),
        (np.zeros((1, 33), np.uint32), np.zeros((1, 1), np.int32), [0], 33, "bitmask-size"),
        (np.zeros((1, 32), np.uint32), np.zeros((2, 1), np.int32), [1], 32, "bitmask-index"),
        (np.zeros((2, 32), np.uint32), np.zeros((1, 1), np.int32), [1], 32, "bitmask-index"),
        (np.zeros((1, 1, 32), np.uint32), np.zeros((1, 1), np.int32), [0], 32, "bitmask-shape"),
        ([0.0], np.zeros((1, 1), np.int32), [0], 32, "bitmask-array"),
    ],
)
def test_the_core_writes_nowhere_else(logits, bitmask, rows, limit, code) -> None:
    with pytest.raises(BitmaskError) as caught:
        _core.apply_bitmask(logits, bitmask, rows, limit, 0)
    assert caught.value.code == code


def test_read_only_logits_are_refused_by_the_core_too() -> None:
    logits = np.zeros((1, 32), np.uint32)
    logits.setflags(write=False)
    with pytest.raises(BitmaskError):
        _core.apply_bitmask(logits, np.zeros((1, 1), np.int32), [0], 32, 0)


def test_foreign_byte_order_is_refused() -> None:
    logits = np.zeros((1, 32), np.dtype(np.float32).newbyteorder())
    with pytest.raises(BitmaskError) as caught:
        apply_token_bitmask_inplace(logits, np.zeros((1, 1), np.int32))
    assert caught.value.code == "bitmask-dtype"
