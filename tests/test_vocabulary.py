"""The vocabulary itself: errors, closing, copies."""

from __future__ import annotations

import pickle
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from guiderail import Vocabulary, VocabularyError
from guiderail.vocabulary._ends import end_tokens
from guiderail.vocabulary._table import TokenTable, byte_level_table, gpt2_characters


def small(**changes: object) -> Vocabulary:
    arguments: dict = {"special_tokens": {"<s>": 4}, "stop_token_ids": [5], "name": "small"} | changes
    return Vocabulary([b"a", b"b", b"ab", b"\xff", b"<s>", b"</s>", b"", None, b"a"], **arguments)


def test_kinds_of_tokens() -> None:
    v = small(size=40)
    assert (v.size, v.token_count, v.stop_token_ids) == (40, 9, (5,))
    assert dict(v.special_tokens) == {"<s>": 4, "</s>": 5}
    assert set(v.unplaced) == {6, 7}
    assert [v.is_text(i) for i in range(10)] == [True] * 4 + [False] * 4 + [True, False]
    assert [v.token_bytes(i) for i in (2, 3, 5, 7, 39)] == [b"ab", b"\xff", b"</s>", b"", b""]
    assert "small" in repr(v) and "unplaced=2" in repr(v)


def test_core_agrees() -> None:
    v = small(size=40)
    core = v.core
    assert core is v.core
    assert (core.size, core.token_count, list(core.stop_token_ids)) == (40, 9, [5])
    assert core.find(b"ab") == 2
    assert core.find(b"\xff") == 3
    assert core.find(b"</s>") == -1
    assert core.find(b"") == -1


def test_a_stop_token_is_never_text_even_if_it_is_spelled_like_it() -> None:
    v = Vocabulary([b"a", b"\n"], stop_token_ids=1)
    assert not v.is_text(1) and v.core.find(b"\n") == -1
    assert dict(v.special_tokens) == {"\n": 1}


def test_ids_beyond_the_tokens_are_holes_or_special() -> None:
    v = Vocabulary([b"a"], special_tokens=[3], stop_token_ids=5)
    assert v.size == v.token_count == 6
    assert dict(v.special_tokens) == {"<token 3>": 3, "<token 5>": 5}
    assert set(v.unplaced) == {1, 2, 4}


def test_no_stop_token_may_be_said_explicitly() -> None:
    assert Vocabulary([b"a"], stop_token_ids=[]).stop_token_ids == ()


def test_ids_of_numpy_are_ids() -> None:
    v = Vocabulary([b"a", b"b"], stop_token_ids=np.array([1]), size=np.int64(2))
    assert v.stop_token_ids == (1,) and v.token_bytes(np.int32(0)) == b"a"


@pytest.mark.parametrize(
    ("tokens", "arguments", "code"),
    [
        ([], {"stop_token_ids": []}, "empty-vocabulary"),
        ([], {"stop_token_ids": [], "size": 4}, "empty-vocabulary"),
        ([None, b""], {"stop_token_ids": []}, "empty-vocabulary"),
        ([b"a"], {"stop_token_ids": 0}, "empty-vocabulary"),
        (["a"], {"stop_token_ids": []}, "bad-token"),
        ([b"a", 3], {"stop_token_ids": []}, "bad-token"),
        ([b"a"], {"stop_token_ids": -1}, "bad-token-id"),
        ([b"a"], {"stop_token_ids": ["</s>"]}, "bad-token-id"),
        ([b"a"], {"stop_token_ids": [True]}, "bad-token-id"),
        ([b"a"], {"stop_token_ids": [2**40]}, "bad-token-id"),
        ([b"a"], {"stop_token_ids": [2**30]}, "bad-token-id"),  # took an entry for each id
        ([b"a"], {"stop_token_ids": [2**22], "size": 2**23}, "bad-token-id"),
        ([b"a"], {"stop_token_ids": [], "bos_token_id": 2**30}, "bad-token-id"),
        ([b"a"], {"stop_token_ids": [], "special_tokens": {"<x>": -3}}, "bad-token-id"),
        ([b"a"], {"stop_token_ids": [], "bos_token_id": -3}, "bad-token-id"),
        ([b"a", b"b"], {"stop_token_ids": 5, "size": 4}, "bad-token-id"),
        ([b"a", b"b"], {"stop_token_ids": [], "size": 1}, "bad-size"),
        ([b"a", b"b"], {"stop_token_ids": [], "size": "2"}, "bad-size"),
        ([b"a", b"b"], {"stop_token_ids": [], "size": 2.0}, "bad-size"),
    ],
)
def test_refusals(tokens: list, arguments: dict, code: str) -> None:
    with pytest.raises(VocabularyError) as caught:
        Vocabulary(tokens, **arguments)
    assert caught.value.code == code


@pytest.mark.parametrize("token", [-1, 40, "a", 1.0, None])
def test_token_bytes_refuses_what_is_no_id(token: object) -> None:
    with pytest.raises(VocabularyError) as caught:
        small(size=40).token_bytes(token)
    assert caught.value.code == "bad-token-id"


# -- texts ---------------------------------------------------------------------------------------------------
def spelling(text: str) -> list[int]:
    """Adds a space in front, like SentencePiece."""
    return [{" ": 0, "a": 1, "\n": 2}[c] for c in " " + text]


def test_encode_cuts_the_space_off_that_the_tokenizer_puts_in_front() -> None:
    v = Vocabulary([b" ", b"a", b"\n"], stop_token_ids=[], encode=spelling)
    assert v.encode("aa") == [1, 1]
    assert v.encode(" a") == [0, 1]
    assert v.encode("") == []
    assert v.can_encode


def test_encode_refuses_a_spelling_that_is_not_exact() -> None:
    v = Vocabulary([b"a", b"b", b"\n"], stop_token_ids=[], encode=lambda text: [0] * len(text))
    with pytest.raises(VocabularyError) as caught:
        v.encode("ab")
    assert caught.value.code == "not-encodable"
    special = Vocabulary([b"a", b"<s>"], stop_token_ids=1, encode=lambda text: [1])
    with pytest.raises(VocabularyError, match="special token"):
        special.encode("<s>")


def test_encode_without_an_encoder() -> None:
    with pytest.raises(VocabularyError) as caught:
        small().encode("a")
    assert caught.value.code == "no-encoder" and not small().can_encode


def test_spellings_are_remembered() -> None:
    calls: list[str] = []

    def encode(text: str) -> list[int]:
        calls.append(text)
        return [0] * len(text)

    v = Vocabulary([b"a", b"</s>"], stop_token_ids=1, encode=encode)
    first = v.encode("aa")
    first.append(7)  # the caller owns the list
    assert v.encode("aa") == [0, 0] and calls == ["aa"]
    long = "a" * 300
    assert v.encode(long) == v.encode(long) == [0] * 300 and calls == ["aa", long, long]
    for n in range(5_000):
        assert len(v.encode("a" * (n % 200))) == n % 200
    with pytest.raises(VocabularyError):
        v.encode("b")
    with pytest.raises(VocabularyError):  # failures are not cached
        v.encode("b")


def test_decode() -> None:
    assert small().decode([0, 1, 4, 2, 3, 5]) == "abab\ufffd"
    assert small().decode([0, 5], skip_special_tokens=False) == "a</s>"
    assert Vocabulary([b"a"], stop_token_ids=[], decode=lambda ids: "A" * len(ids)).decode([0, 0]) == "AA"


def test_check_names_the_tokens_that_decode_to_something_else() -> None:
    texts = {0: "a", 1: "b", 2: "B", 3: "</s>"}
    v = Vocabulary([b"a", b"b", b"c", b"</s>"], stop_token_ids=3, decode=lambda ids: "".join(texts[i] for i in ids))
    assert [m.token for m in v.check()] == [2]
    assert "token 2 spells b'c'" in str(v.check()[0])
    with pytest.raises(VocabularyError) as caught:
        small().check()
    assert caught.value.code == "no-decoder"


# -- copies --------------------------------------------------------------------------------------------------
tokens = st.lists(st.none() | st.binary(max_size=6), max_size=40).map(lambda t: [b"x", *t, b"</s>"])


@settings(deadline=None)
@given(tokens=tokens, extra=st.integers(0, 70))
def test_save_and_load(tmp_path_factory: pytest.TempPathFactory, tokens: list, extra: int) -> None:
    v = Vocabulary(tokens, stop_token_ids=len(tokens) - 1, size=len(tokens) + extra, bos_token_id=0)
    path = tmp_path_factory.getbasetemp() / "vocabulary.bin"  # the name is used as it is
    v.save(path)
    w = Vocabulary.load(path)
    assert w == v and hash(w) == hash(v)
    assert [w.token_bytes(i) for i in range(v.size)] == [v.token_bytes(i) for i in range(v.size)]
    assert (dict(w.unplaced), w.bos_token_id) == (dict(v.unplaced), 0)
    assert pickle.loads(pickle.dumps(v)) == v


def test_load_takes_codecs(tmp_path: Path) -> None:
    small().save(tmp_path / "v")
    v = Vocabulary.load(tmp_path / "v", encode=lambda text: [0], decode=lambda ids: "?")
    assert v.encode("a") == [0] and v.decode([1]) == "?" and v.name == "small"


def test_saving_leaves_nothing_else_behind(tmp_path: Path) -> None:
    small().save(tmp_path / "v")
    small().save(tmp_path / "v")
    assert [p.name for p in tmp_path.iterdir()] == ["v"]
    with pytest.raises(VocabularyError, match="cannot be written"):
        small().save(tmp_path / "missing" / "v")


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "v"
    small().save(path)
    good = path.read_bytes()

    def refused(content: bytes) -> str:
        path.write_bytes(content)
        with pytest.raises(VocabularyError) as caught:
            Vocabulary.load(path)
        assert caught.value.code == "vocabulary-file"
        return caught.value.message

    for content in (b"", b"hello", good[: len(good) // 2], good[:-30]):
        refused(content)
    rng = np.random.default_rng(1)
    for at in rng.integers(0, len(good), 60).tolist():
        bent = bytearray(good)
        bent[at] ^= 0x55
        path.write_bytes(bytes(bent))
        try:
            assert Vocabulary.load(path) == small()  # an unread byte, such as a date
        except VocabularyError as error:
            assert error.code == "vocabulary-file"
    with pytest.raises(VocabularyError, match="does not exist"):
        Vocabulary.load(tmp_path / "none")


def _resealed(file: bytes) -> bytes:
    """The file with a checksum that fits again."""
    return file[:-4] + zlib.crc32(file[:-4]).to_bytes(4, "little")


def test_changed_contents_do_not_pass_the_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "v"
    small().save(path)
    good = path.read_bytes()
    accepted = 0
    for at in range(24, len(good) - 4):
        bent = bytearray(good)
        bent[at] ^= 1
        path.write_bytes(_resealed(bytes(bent)))
        try:
            accepted += Vocabulary.load(path) == small()  # its name, and why tokens are unplaced
        except VocabularyError as error:
            assert error.code == "vocabulary-file"
    texts = [small().name or "", *small().unplaced.values()]
    assert accepted <= sum(map(len, texts)) + len(texts)  # and which these are; the token that begins a text


def test_files_of_other_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v"
    small().save(path)
    good = path.read_bytes()
    path.write_bytes(_resealed(good[:12] + (9).to_bytes(4, "little") + good[16:]))
    with pytest.raises(VocabularyError, match="version 9") as caught:
        Vocabulary.load(path)
    assert caught.value.code == "vocabulary-file"


def test_a_file_cannot_name_tokens_that_it_does_not_have(tmp_path: Path) -> None:
    """Every id up to such a token would take memory: a file of a hundred bytes could take hundreds of gigabytes."""
    path = tmp_path / "v"
    Vocabulary([b"a", b"b"], stop_token_ids=1, size=2**31 - 65).save(path)
    good = path.read_bytes()
    width = b"\xbf\xff\xff\xff\x07"  # 2^31 - 65, then two tokens, no beginning, and one end
    assert good[24:].startswith(width + b"\x02\x00\x01\x01")
    contents = width + b"\x02\x00\x01" + b"\xbe\xff\xff\xff\x07" + good[33:]
    header = good[:16] + (len(contents) - 4).to_bytes(8, "little")
    path.write_bytes(_resealed(header + contents))
    with pytest.raises(VocabularyError, match="no such token"):
        Vocabulary.load(path)


def test_fingerprint_tells_apart_what_matters() -> None:
    v = small()
    same = small(name="other", encode=lambda text: [])
    assert v == same and len({v, same}) == 1
    others = [small(size=40), small(stop_token_ids=[5, 0]), small(special_tokens={"<x>": 4})]
    assert len({v.fingerprint, *(o.fingerprint for o in others)}) == 4
    assert v != "small"


# -- tables --------------------------------------------------------------------------------------------------
def test_gpt2_alphabet() -> None:
    table = gpt2_characters()
    assert sorted(table.values()) == list(range(256))
    assert (table["Ġ"], table["Ċ"], table["a"], table["Ń"]) == (0x20, 0x0A, 0x61, 0xAD)


@given(st.lists(st.none() | st.text(st.sampled_from("abĠĊÃ©Ń漢 𝄞"), max_size=5), max_size=12))
def test_byte_level_table(spellings: list[str | None]) -> None:
    table = byte_level_table(spellings)
    alphabet = gpt2_characters()
    for i, text in enumerate(spellings):
        known = all(c in alphabet for c in text or "")
        expected = bytes(alphabet[c] for c in text or "") if known else text.encode()
        assert table.bytes_of(i) == expected
        assert (i in table.unplaced) == (text is None)


@given(st.lists(st.binary(max_size=4), min_size=1, max_size=12), st.data())
def test_replace(tokens: list[bytes], data: st.DataObject) -> None:
    changes = data.draw(st.dictionaries(st.integers(0, len(tokens) - 1), st.binary(max_size=4)))
    table = TokenTable.from_tokens(tokens).replace(changes)
    assert [table.bytes_of(i) for i in range(len(tokens))] == [changes.get(i, token) for i, token in enumerate(tokens)]


def test_end_tokens() -> None:
    assert end_tokens([7, None], {"<|eot_id|>": 3, "<s>": 1, "<|eom_id|>": 2}, {}) == [7, 2, 3]
    # HTML's strike-through tag is text; a special token with the same text is an end
    assert end_tokens([1], {}, {"</s>": 212, "<end_of_turn>": 107}) == [1, 107]
    assert end_tokens([], {"</s>": 2}, {"</s>": 2}) == [2]
    assert end_tokens([1], {"<|end|>": 2, "<|return|>": 1, "<|call|>": 3}, {}) == [1, 3]
