"""Bitmasks against plain loops: every dtype, stride and width, and every refusal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.lib.stride_tricks import as_strided

import guiderail as gr
import guiderail.matching.bitmask as module
from guiderail import (
    BitmaskError,
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    bitmask_to_bool,
    bool_to_bitmask,
    reset_token_bitmask,
)
from guiderail.matching.bitmask import apply_token_bitmask

FLOATS = ("float16", "float32", "float64")
INF = float("inf")


def reference(logits, allowed, rows=None):
    """By definition: a token beyond the mask is banned, too."""
    result = logits.copy()
    for row in range(len(logits)) if rows is None else rows:
        for token in range(logits.shape[1]):
            if token >= allowed.shape[1] or not allowed[row, token]:
                result[row, token] = -INF
    return result


def sample(rng, batch, columns, dtype):
    values = rng.standard_normal((batch, columns)).astype(dtype)
    values[rng.random(values.shape) < 0.1] = np.nan
    values[rng.random(values.shape) < 0.1] = -np.nan
    values[rng.random(values.shape) < 0.1] = -INF
    values[rng.random(values.shape) < 0.1] = INF
    return values


# -- numpy ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("batch", "vocabulary", "words"), [(1, 1, 1), (3, 32, 1), (2, 33, 2), (0, 5, 1)])
def test_allocate_allows_everything(batch: int, vocabulary: int, words: int) -> None:
    mask = allocate_token_bitmask(batch, vocabulary)
    assert mask.dtype == np.int32 and mask.shape == (batch, words) and (mask == -1).all()
    assert bitmask_to_bool(mask, vocabulary).shape == (batch, vocabulary)
    assert bitmask_to_bool(mask).all()


def test_layout() -> None:
    allowed = np.zeros(40, bool)
    allowed[[0, 5, 31, 33]] = True
    mask = bool_to_bitmask(allowed)
    assert mask.dtype == np.int32 and mask.tolist() == [1 | 1 << 5 | -(1 << 31), 2]


@given(st.integers(0, 2**31), st.integers(0, 3), st.integers(1, 100))
def test_booleans_and_back(seed: int, batch: int, vocabulary: int) -> None:
    allowed = np.random.default_rng(seed).random((batch, vocabulary)) < 0.5
    mask = bool_to_bitmask(allowed)
    assert (bitmask_to_bool(mask, vocabulary) == allowed).all()
    assert not bitmask_to_bool(mask)[:, vocabulary:].any()  # padding is 0
    if batch:
        assert (bitmask_to_bool(mask[0], vocabulary) == allowed[0]).all()


@settings(deadline=None, max_examples=200)
@given(
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 3),
    columns=st.integers(0, 150),
    vocabulary=st.integers(1, 150),
    density=st.sampled_from([0, 0.03, 0.5, 0.97, 1]),
    dtype=st.sampled_from(FLOATS),
    layout=st.sampled_from(["C", "F", "step", "reverse"]),
    data=st.data(),
)
def test_apply(seed, batch, columns, vocabulary, density, dtype, layout, data) -> None:
    rng = np.random.default_rng(seed)
    allowed = rng.random((batch, vocabulary)) < density
    mask = bool_to_bitmask(allowed)
    values = sample(rng, batch, columns, dtype)
    rows = data.draw(st.none() | st.lists(st.integers(0, batch - 1), max_size=4))
    limit = data.draw(st.none() | st.integers(1, vocabulary))
    logits = {
        "C": lambda: values.copy(),
        "F": lambda: np.asfortranarray(values),
        "step": lambda: np.repeat(np.repeat(values, 2, axis=0), 3, axis=1)[::2, ::3],
        "reverse": lambda: values[:, ::-1].copy()[:, ::-1],
    }[layout]()
    if layout == "reverse":
        mask = np.repeat(mask, 2, axis=1)[:, ::2]
    apply_token_bitmask_inplace(logits, mask, indices=rows, vocab_size=limit)
    np.testing.assert_array_equal(logits, reference(values, allowed[:, :limit], rows))


def test_one_row() -> None:
    mask = bool_to_bitmask(np.array([True, False, True]))
    for logits, bitmask in ((np.zeros(4, "f4"), mask), (np.zeros((1, 4), "f4"), mask), (np.zeros(4), mask[None])):
        apply_token_bitmask_inplace(logits, bitmask)
        assert logits.reshape(-1).tolist() == [0, -INF, 0, -INF]


def test_indices_name_rows_of_both() -> None:
    """Like XGrammar: bitmask[i] applies to logits[i]; the batches may differ in size."""
    mask = bool_to_bitmask(np.eye(3, dtype=bool))
    logits = np.zeros((2, 3), np.float32)
    apply_token_bitmask_inplace(logits, mask, indices=[1])
    assert logits.tolist() == [[0, 0, 0], [-INF, 0, -INF]]
    apply_token_bitmask_inplace(logits, mask, indices=np.array([], int))
    assert logits[0].tolist() == [0, 0, 0]


def test_reset() -> None:
    mask = np.zeros((3, 2), np.int32)
    reset_token_bitmask(mask, indices=[1])
    assert mask.tolist() == [[0, 0], [-1, -1], [0, 0]]
    reset_token_bitmask(mask)
    assert (mask == -1).all()


def test_out_of_place() -> None:
    mask = bool_to_bitmask(np.array([[True, False]]))
    logits = np.zeros((1, 3), np.float16)
    assert apply_token_bitmask(logits, mask).tolist() == [[0, -INF, -INF]] and not logits.any()


class Standard:
    """An array with only the interface of the array standard, like JAX's."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.dtype, self.shape, self.ndim = values, values.dtype, values.shape, values.ndim

    def __array_namespace__(self):
        return np

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_array_standard() -> None:
    rng = np.random.default_rng(0)
    for vocabulary, columns, limit in ((70, 70, None), (70, 100, None), (70, 50, 40), (64, 64, 33)):
        allowed = rng.random((2, vocabulary)) < 0.5
        values = rng.standard_normal((2, columns)).astype(np.float32)
        found = apply_token_bitmask(Standard(values), bool_to_bitmask(allowed), vocab_size=limit)
        np.testing.assert_array_equal(found, reference(values, allowed[:, :limit]))
        assert found.dtype == np.float32
    for bitmask, code in ((np.zeros((2, 2)), "bitmask-dtype"), (np.zeros((3, 2), np.int32), "bitmask-shape")):
        with pytest.raises(BitmaskError) as caught:
            apply_token_bitmask(Standard(values), bitmask)
        assert caught.value.code == code
    with pytest.raises(BitmaskError):
        apply_token_bitmask([[1.0]], bitmask)


# -- refusals --------------------------------------------------------------------------------------------------
def frozen() -> np.ndarray:
    logits = np.zeros((2, 64), np.float32)
    logits.setflags(write=False)
    return logits


L, M = np.zeros((2, 64), np.float32), np.zeros((2, 2), np.int32)


@pytest.mark.parametrize(
    ("logits", "bitmask", "arguments", "code"),
    [
        (L.astype(np.int32), M, {}, "bitmask-dtype"),
        (L.astype(complex), M, {}, "bitmask-dtype"),
        (L.tolist(), M, {}, "bitmask-dtype"),
        (L, M.astype(np.int64), {}, "bitmask-dtype"),
        (L, M.astype(np.uint32), {}, "bitmask-dtype"),
        (L, M.tolist(), {}, "bitmask-dtype"),
        (L[None], M, {}, "bitmask-shape"),
        (L, M[None], {}, "bitmask-shape"),
        (L, M[:, :0], {}, "bitmask-shape"),
        (L, M[:1], {}, "bitmask-shape"),
        (L[0], M, {}, "bitmask-shape"),
        (L, np.array(0, np.int32), {}, "bitmask-shape"),
        (L, M, {"vocab_size": 65}, "bitmask-size"),
        (L, M, {"vocab_size": 0}, "bitmask-size"),
        (L, M, {"vocab_size": 2.0}, "bitmask-size"),
        (L, M, {"indices": [0, 2]}, "bitmask-index"),
        (L, M, {"indices": [-1]}, "bitmask-index"),
        (L, M, {"indices": [0.0]}, "bitmask-index"),
        (L, M, {"indices": [True]}, "bitmask-index"),
        (L, M[:1], {"indices": [1]}, "bitmask-index"),
        (frozen(), M, {}, "bitmask-readonly"),
        (M.view(np.float32), M, {}, "bitmask-shape"),  # the same memory
        (as_strided(np.zeros(9, np.float32), (2, 8), (4, 4)), M[:, :1], {}, "bitmask-shape"),  # rows within each other
        (as_strided(np.zeros(8, np.float32), (2, 8), (0, 4)), M[:, :1], {}, "bitmask-shape"),
    ],
)
def test_refusals_change_nothing(logits, bitmask, arguments: dict, code: str) -> None:
    before = np.array(logits)
    with pytest.raises(BitmaskError) as caught:
        apply_token_bitmask_inplace(logits, bitmask, **arguments)
    assert caught.value.code == code
    np.testing.assert_array_equal(np.array(logits), before)


@pytest.mark.parametrize("arguments", [(-1, 5), (1, 0), (1, -3), (1.0, 5), (True, 5), ("1", 5)])
def test_allocate_refuses(arguments: tuple) -> None:
    with pytest.raises(BitmaskError) as caught:
        allocate_token_bitmask(*arguments)
    assert caught.value.code == "bitmask-size"


@pytest.mark.parametrize(
    ("allowed", "code"),
    [(np.ones(4), "bitmask-dtype"), (np.array(True), "bitmask-shape"), (np.ones((2, 0), bool), "bitmask-shape")],
)
def test_bool_to_bitmask_refuses(allowed: np.ndarray, code: str) -> None:
    with pytest.raises(BitmaskError) as caught:
        bool_to_bitmask(allowed)
    assert caught.value.code == code


# -- torch -----------------------------------------------------------------------------------------------------
@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [*FLOATS, "bfloat16"])
@pytest.mark.parametrize("width", [100, 128, 70])
def test_torch(torch, dtype: str, width: int) -> None:
    rng = np.random.default_rng(3)
    allowed = rng.random((4, 100)) < 0.5
    mask = bool_to_bitmask(allowed)
    values = torch.from_numpy(sample(rng, 4, width, "float32")).to(getattr(torch, dtype))
    expected = torch.from_numpy(reference(values.double().numpy(), allowed, [0, 3]))
    for bitmask in (mask, torch.from_numpy(mask)):
        for logits in (values.clone(), values.repeat_interleave(2, dim=1)[:, ::2], values.t().contiguous().t()):
            for indices in ([0, 3], torch.tensor([0, 3])):
                apply_token_bitmask_inplace(logits, bitmask, indices=indices)
            torch.testing.assert_close(logits.double(), expected, equal_nan=True)
    assert apply_token_bitmask(values, mask)[1].isneginf().sum() >= (~allowed[1, :width]).sum()


def test_torch_generic_path_is_the_same(torch) -> None:
    """The path for devices without one of our kernels."""
    rng = np.random.default_rng(4)
    allowed = rng.random((3, 70)) < 0.5
    values = rng.standard_normal((3, 90)).astype(np.float32)
    logits = torch.from_numpy(values.copy())
    module._apply_generic(logits, torch.from_numpy(bool_to_bitmask(allowed)), [0, 2], 70)
    np.testing.assert_array_equal(logits.numpy(), reference(values, allowed, [0, 2]))


def test_torch_refusals(torch) -> None:
    mask = torch.zeros((2, 2), dtype=torch.int32)
    for logits, bitmask, code in (
        (torch.zeros(2, 64, dtype=torch.int32), mask, "bitmask-dtype"),
        (torch.zeros(2, 64), mask.long(), "bitmask-dtype"),
        (torch.zeros(2, 64), mask[:1], "bitmask-shape"),
        (torch.zeros(2, 64), mask.to("meta"), "bitmask-device"),
    ):
        with pytest.raises(BitmaskError) as caught:
            apply_token_bitmask_inplace(logits, bitmask)
        assert caught.value.code == code
        assert not logits.any()


def test_torch_logits_that_require_gradients(torch) -> None:
    logits = torch.zeros(1, 3, requires_grad=True)
    apply_token_bitmask_inplace(logits, bool_to_bitmask(np.array([[True, False, True]])))
    assert logits.tolist() == [[0, -INF, 0]]


def test_importing_the_module_leaves_torch_alone() -> None:
    code = "import sys, guiderail.matching.bitmask; assert 'torch' not in sys.modules and 'triton' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- Triton ----------------------------------------------------------------------------------------------------
def test_triton_kernel_in_the_interpreter() -> None:
    """The CUDA kernel on the CPU: dtypes, strides, indices, widths, rows of more than one block."""
    pytest.importorskip("torch")
    pytest.importorskip("triton", reason="triton is not installed (Linux only)")
    script = Path(__file__).with_name("triton_interpreter.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout.split()[0]) >= 48, done.stdout


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: np.zeros(1, np.int32), None),
        (lambda: np.zeros((3, 1), np.int32), None),
        (lambda: np.zeros((3, 4), np.int32), None),  # wider than the vocabulary
        (lambda: np.zeros((6, 1), np.int32)[::2], None),
        (lambda: np.zeros((6, 1), np.int32)[::-1], None),
        (lambda: np.zeros((2, 6), np.int32)[:, 2:3], None),
        (lambda: np.asfortranarray(np.zeros((3, 1), np.int32)), None),
        (lambda: np.zeros((3, 1), "<i4"), None),
        (lambda: np.zeros((3, 1), np.int32).view(np.recarray), None),  # a subclass
        (lambda: np.asfortranarray(np.zeros((3, 2), np.int32)), "bitmask-shape"),
        (lambda: np.zeros((2, 6), np.int32)[:, ::2], "bitmask-shape"),
        (lambda: as_strided(np.zeros(4, np.int32), (3, 2), (4, 4)), "bitmask-shape"),  # rows within each other
        (lambda: np.zeros((1, 3, 1), np.int32), "bitmask-shape"),
        (lambda: np.zeros((), np.int32), "bitmask-shape"),
        (lambda: np.zeros((3, 0), np.int32), "bitmask-shape"),
        (lambda: np.zeros((0, 1), np.int32), "bitmask-row"),
        (lambda: np.zeros((3, 1), ">i4"), "bitmask-dtype"),
        (lambda: np.zeros((3, 1), np.uint32), "bitmask-dtype"),
        (lambda: np.zeros((3, 1), np.float32), "bitmask-dtype"),
        (lambda: np.broadcast_to(np.zeros(1, np.int32), (3, 1)), "bitmask-array"),  # read-only
        (lambda: bytearray(12), "bitmask-dtype"),
        (lambda: [0, 0, 0], "bitmask-array"),
    ],
)
def test_bitmasks_of_every_layout(make: Callable[[], object], code: str | None) -> None:
    """NumPy arrays are read in their memory layout: unusual layouts are read correctly or rejected."""
    vocabulary = gr.Vocabulary([b"a", b"b", b"<eos>"], special_tokens={"<eos>": 2}, stop_token_ids=[2])
    matcher = gr.compile(gr.regex("b"), vocabulary).matcher()
    bitmask = make()
    if code is not None:
        with pytest.raises(gr.BitmaskError) as raised:
            matcher.fill_next_token_bitmask(bitmask)
        assert raised.value.code == code
        return
    assert isinstance(bitmask, np.ndarray)
    bitmask[...] = -1
    last = len(bitmask) - 1 if bitmask.ndim == 2 else 0
    assert matcher.fill_next_token_bitmask(bitmask, last)
    rows = bitmask.reshape(last + 1, -1)
    assert rows[last].tolist() == [2, *[0] * (rows.shape[1] - 1)]
    assert (rows[:last] == -1).all()
