"""Every adapter on small tokenizers made here and on real ones: bytes compared with the library's own decode."""

from __future__ import annotations

import importlib.util
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from guiderail import Vocabulary, VocabularyError

once = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def code_of(call) -> str:
    with pytest.raises(VocabularyError) as caught:
        call()
    return caught.value.code


# -- small Hugging Face tokenizers ---------------------------------------------------------------------------
@pytest.fixture
def tokenizers():
    return pytest.importorskip("tokenizers")


def test_word_piece(tokenizers) -> None:
    pieces = ["[UNK]", "[SEP]", "a", "##a", "play", "##ing", ".", "##!", "n't"]
    tok = tokenizers.Tokenizer(tokenizers.models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tok.decoder = tokenizers.decoders.WordPiece("##", cleanup=True)
    tok.add_special_tokens(["[UNK]", "[SEP]"])
    v = Vocabulary.from_huggingface(tok, stop_token_ids=1, verify=True)
    assert [v.token_bytes(i) for i in range(2, 9)] == [b" a", b"a", b" play", b"ing", b".", b"!", b"n't"]
    assert dict(v.special_tokens) == {"[UNK]": 0, "[SEP]": 1} and not v.unplaced
    assert code_of(lambda: Vocabulary.from_huggingface(tok)) == "no-stop-token"


def test_byte_fallback(tokenizers) -> None:
    pieces = ["<unk>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "▁a", "▁▁a", "é", "<0xZZ>"]
    tok = tokenizers.Tokenizer(
        tokenizers.models.BPE({p: i for i, p in enumerate(pieces)}, [("▁", "a")], unk_token="<unk>", byte_fallback=True)
    )
    d = tokenizers.decoders
    tok.decoder = d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])
    tok.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    tok.add_special_tokens(["<unk>", "</s>"])
    v = Vocabulary.from_huggingface(tok, verify=True)
    assert [v.token_bytes(2 + b) for b in range(256)] == [bytes([b]) for b in range(256)]
    assert [v.token_bytes(i) for i in range(258, 264)] == [b" ", b"a", b" a", b"  a", "é".encode(), b"<0xZZ>"]
    assert v.stop_token_ids == (1,) and not v.unplaced
    assert v.encode("a") == [259]  # without the space that the normalizer adds
    assert v.encode(" a") == [260]
    assert b"".join(map(v.token_bytes, v.encode("漢a é"))) == "漢a é".encode()


def test_metaspace_and_unigram(tokenizers) -> None:
    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("▁a", -1.0), ("a", -2.0), ("▁", -2.0), ("b▁a", -3.0)]
    tok = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=0))
    tok.decoder = tokenizers.decoders.Metaspace()
    tok.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tok.add_special_tokens(["<unk>", "</s>"])
    v = Vocabulary.from_huggingface(tok, verify=True)
    assert [v.token_bytes(i) for i in range(2, 6)] == [b" a", b"a", b" ", b"b a"]
    assert v.check() == []


def test_byte_level_with_added_tokens_and_wide_logits(tokenizers) -> None:
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tok = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tok.decoder = tokenizers.decoders.ByteLevel()
    tok.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tok.add_tokens(["<tool call>", "漢字", "<|endoftext|>"])
    v = Vocabulary.from_huggingface(tok, size=300, verify=True)
    assert sorted(v.token_bytes(i) for i in range(256)) == [bytes([b]) for b in range(256)]
    assert [v.token_bytes(i) for i in range(258, 260)] == [b"<tool call>", "漢字".encode()]
    assert v.is_text(258) and not v.is_text(256)
    assert v.stop_token_ids == (257, 260)  # the declared and the well-known ends
    assert v.size == 300 and v.token_count == 261 and v.token_bytes(299) == b""
    again = pickle.loads(pickle.dumps(v))
    assert again == v and again.encode("漢") == v.encode("漢") and again.check() == []


@pytest.mark.parametrize("decoder", ["regex", "ctc", "bpe", None])
def test_other_decoders(tokenizers, decoder: str | None) -> None:
    pieces = ["</s>", "a", "b", "a</w>", "b__", "é"]
    tok = tokenizers.Tokenizer(tokenizers.models.WordLevel({p: i for i, p in enumerate(pieces)}, unk_token="a"))
    tok.add_special_tokens(["</s>"])
    if decoder == "regex":
        tok.decoder = tokenizers.decoders.Replace(tokenizers.Regex("_+"), "-")
        expected = [b"a", b"b", b"a</w>", b"b-", "é".encode()]
    elif decoder == "bpe":
        tok.decoder = tokenizers.decoders.BPEDecoder(suffix="</w>")
        expected = [b"a", b"b", b"a ", b"b__", "é".encode()]
    elif decoder == "ctc":  # drops repeated tokens: between two anchors, nothing is certain
        tok.decoder = tokenizers.decoders.CTC()
        assert code_of(lambda: Vocabulary.from_huggingface(tok)) == "empty-vocabulary"
        return
    else:
        expected = [b" a", b" b", b" a</w>", b" b__", " é".encode()]
    v = Vocabulary.from_huggingface(tok, verify=True)
    assert [v.token_bytes(i) for i in range(1, 6)] == expected and not v.unplaced


def test_holes_in_the_numbering(tokenizers) -> None:
    tok = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 5, "</s>": 9}, unk_token="a"))
    tok.decoder = tokenizers.decoders.Fuse()
    tok.add_special_tokens(["</s>"])
    v = Vocabulary.from_huggingface(tok, verify=True)
    assert v.size == 10 and set(v.unplaced) == {1, 2, 3, 4, 6, 7, 8} and v.token_bytes(5) == b"b"


def test_what_the_files_beside_a_tokenizer_say(tokenizers, tmp_path: Path) -> None:
    tok = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"a": 0, "<end>": 1, "<bos>": 2, "<more>": 3}, unk_token="a")
    )
    tok.decoder = tokenizers.decoders.Fuse()
    tok.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": {"content": "<end>"}, "bos_token": "<bos>", "add_bos_token": True})
    )
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 64}}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 3]}))
    v = Vocabulary.from_huggingface(tmp_path)
    assert (v.size, v.stop_token_ids, v.bos_token_id) == (64, (1, 3), 2)
    assert {"<end>", "<bos>"} <= v.special_tokens.keys() and v.name == tmp_path.name
    (tmp_path / "config.json").write_text("{")
    assert code_of(lambda: Vocabulary.from_huggingface(tmp_path)) == "bad-tokenizer-file"


def test_a_decoder_that_denies_what_tokens_spell(tokenizers) -> None:
    from guiderail.vocabulary._read import ReadTokenizer
    from guiderail.vocabulary._table import TokenTable

    table = TokenTable.from_tokens([b"a", b"b", b"c", b"</s>"])
    oracle = lambda batch: ["".join("abX"[i] for i in ids) for ids in batch]  # noqa: E731
    v = Vocabulary._of(ReadTokenizer(table, {"</s>": 3}, 3, oracle=oracle))
    assert set(v.unplaced) == {2} and "decodes it as 'X'" in v.unplaced[2] and not v.is_text(2)
    table = TokenTable.from_tokens([b"a", b"b", b"c", b"</s>"])
    oracle = lambda batch: ["".join("aXX"[i] for i in ids) for ids in batch]  # noqa: E731
    assert code_of(lambda: Vocabulary._of(ReadTokenizer(table, {"</s>": 3}, 3, oracle=oracle))) == "round-trip"


class Slow:
    """A tokenizer like transformers' Python tokenizers."""

    all_special_tokens = ("</s>",)
    all_special_ids = (0,)
    eos_token_id, bos_token_id = 0, None

    def __init__(self, kind: str) -> None:
        self.spellings = ["</s>", "a", "Ġa", "▁a", "<0x0A>", "Ã©"]
        if kind == "sp":
            self.sp_model = object()
        elif kind == "bytes":
            self.byte_decoder = {}

    def get_vocab(self) -> dict[str, int]:
        return {t: i for i, t in enumerate(self.spellings)}

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [1] * len(text)

    def decode(self, ids: list[int], **options: bool) -> str:
        if hasattr(self, "sp_model"):
            table = ["</s>", "a", "Ġa", " a", "\n", "Ã©"]
        else:
            table = ["</s>", "a", " a", "▁a", "<0x0A>", "é"]
        return "".join(table[i] for i in ids)


def test_slow_tokenizers() -> None:
    v = Vocabulary.from_huggingface(Slow("sp"), verify=True)
    assert [v.token_bytes(i) for i in (1, 3, 4)] == [b"a", b" a", b"\n"] and not v.unplaced
    v = Vocabulary.from_huggingface(Slow("bytes"), verify=True)
    assert [v.token_bytes(i) for i in (1, 2, 5)] == [b"a", b" a", "é".encode()] and not v.unplaced
    assert v.stop_token_ids == (0,) and v.encode("aa") == [1, 1]
    assert code_of(lambda: Vocabulary.from_huggingface(Slow("none"))) == "slow-tokenizer"


@pytest.mark.parametrize(
    ("adapter", "argument", "code"),
    [
        ("from_huggingface", object(), "unsupported-tokenizer"),
        ("from_huggingface", "/nonexistent/tokenizer.json", "bad-tokenizer-file"),
        ("from_tiktoken", object(), "unsupported-tokenizer"),
        ("from_sentencepiece", object(), "unsupported-tokenizer"),
        ("from_sentencepiece", "/nonexistent.model", "bad-tokenizer-file"),
        ("from_tekken", object(), "unsupported-tokenizer"),
        ("from_tekken", "/nonexistent.json", "bad-tokenizer-file"),
        ("from_gguf", object(), "unsupported-tokenizer"),
        ("from_gguf", "/nonexistent.gguf", "bad-tokenizer-file"),
    ],
)
def test_what_is_no_tokenizer(adapter: str, argument: object, code: str) -> None:
    if "/" in str(argument) and adapter in ("from_huggingface", "from_sentencepiece"):
        pytest.importorskip({"from_huggingface": "tokenizers"}.get(adapter, "sentencepiece"))
    assert code_of(lambda: getattr(Vocabulary, adapter)(argument)) == code


def test_files_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", b"{}", b"\x00\xff garbage", b"[1]"):
        path.write_bytes(content)
        for adapter in ("from_huggingface", "from_sentencepiece", "from_tekken", "from_gguf"):
            if adapter == "from_huggingface":
                pytest.importorskip("tokenizers")
            if adapter == "from_sentencepiece":
                pytest.importorskip("sentencepiece")
                if not content:
                    continue  # the library reads an empty file as an empty model
            assert code_of(lambda a=adapter: getattr(Vocabulary, a)(path)) == "bad-tokenizer-file"


def test_an_id_far_beyond_the_tokens(tmp_path: Path) -> None:
    """Tables had an entry for each id up to it."""
    far = 2**30
    path = tmp_path / "tekken.json"
    tokens = [{"rank": 0, "token_bytes": "YQ==", "token_str": "a"}]
    config = {"pattern": ".", "default_vocab_size": far + 1, "default_num_special_tokens": far}
    path.write_text(json.dumps({"config": config, "vocab": tokens, "special_tokens": []}))
    assert code_of(lambda: Vocabulary.from_tekken(path, stop_token_ids=[])) == "bad-token-id"
    if importlib.util.find_spec("tokenizers"):
        from tokenizers import Tokenizer, decoders, models

        sparse = Tokenizer(models.BPE({"a": 0, "b": far}, []))
        sparse.decoder = decoders.ByteLevel()
        assert code_of(lambda: Vocabulary.from_huggingface(sparse, stop_token_ids=[])) == "bad-token-id"
    if importlib.util.find_spec("tiktoken"):
        from tiktoken import Encoding

        encoding = Encoding("x", pat_str=".", mergeable_ranks={b"a": 0, b"b": 1}, special_tokens={"<end>": far})
        assert code_of(lambda: Vocabulary.from_tiktoken(encoding, stop_token_ids=[])) == "bad-token-id"


# -- small GGUF files ----------------------------------------------------------------------------------------
def gguf_string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def gguf_file(path: Path, **pairs: object) -> Path:
    """Writes a GGUF file with only metadata; ints are uint32, lists contain strings or int32."""
    body = b""
    for name, value in pairs.items():
        key = gguf_string(name.replace("__", "."))
        if isinstance(value, str):
            body += key + struct.pack("<I", 8) + gguf_string(value)
        elif isinstance(value, int):
            body += key + struct.pack("<II", 4, value)
        elif value and isinstance(value[0], int):
            body += key + struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
        else:
            body += key + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_string, value))
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + body)
    return path


def test_gguf_sentencepiece_kind(tmp_path: Path) -> None:
    path = gguf_file(
        tmp_path / "m.gguf",
        general__architecture="llama",
        llama__vocab_size=12,
        tokenizer__ggml__model="llama",
        tokenizer__ggml__scores=[1, 2, 3],
        tokenizer__ggml__tokens=[
            "<unk>",
            "</s>",
            "▁a",
            "<0x0A>",
            "▁user▁",
            "x",
            "<|im_end|>",
            "<0x>",
            "</s>",
        ],
        tokenizer__ggml__token_type=[2, 3, 1, 6, 4, 5, 4, 6, 3],
        tokenizer__ggml__merges=["a b"] * 7,
        tokenizer__ggml__eos_token_id=1,
        tokenizer__ggml__bos_token_id=2**32 - 1,
        tokenizer__ggml__eot_token_id=6,
    )
    v = Vocabulary.from_gguf(path)
    assert [v.token_bytes(i) for i in (2, 3, 4)] == [b" a", b"\n", "▁user▁".encode()]
    assert set(v.unplaced) == {5, 7}
    assert (v.stop_token_ids, v.size, v.token_count, v.bos_token_id) == ((1, 6), 12, 9, None)
    assert dict(v.special_tokens)["<token 8>"] == 8 and not v.is_text(8)  # the same text twice


def test_gguf_byte_level_kind_and_model_objects(tmp_path: Path) -> None:
    path = gguf_file(
        tmp_path / "m.gguf",
        tokenizer__ggml__model="gpt2",
        tokenizer__ggml__tokens=["Ġa", "Ċ", "<|eot_id|>", "Ġ"],
        tokenizer__ggml__token_type=[1, 1, 3, 4],
    )

    class Llama:
        model_path = str(path)

        def tokenize(self, text: bytes, add_bos: bool, special: bool) -> list[int]:
            return [0] if text == b" a" else [1, 0]

    v = Vocabulary.from_gguf(Llama())
    assert [v.token_bytes(i) for i in range(4)] == [b" a", b"\n", b"<|eot_id|>", "Ġ".encode()]
    assert v.stop_token_ids == (2,) and v.encode(" a") == [0]


def test_gguf_refusals(tmp_path: Path) -> None:
    def refused(**pairs: object) -> str:
        path = gguf_file(tmp_path / "m.gguf", **{f"tokenizer__ggml__{k}": p for k, p in pairs.items()})
        return code_of(lambda: Vocabulary.from_gguf(path))

    assert refused(model="rwkv", tokens=["a"]) == "unsupported-tokenizer"
    assert refused(model="llama") == "bad-tokenizer-file"
    assert refused(model="llama", tokens=["a", "b"], token_type=[1]) == "bad-tokenizer-file"
    assert refused(model="llama", tokens=["a", "b"]) == "no-stop-token"


def test_gguf_cut_anywhere(tmp_path: Path) -> None:
    path = gguf_file(
        tmp_path / "m.gguf",
        general__name="x",
        tokenizer__ggml__merges=["a b", "c d"],
        tokenizer__ggml__model="gpt2",
        tokenizer__ggml__tokens=["a", "</s>"],
        tokenizer__ggml__token_type=[1, 3],
    )
    whole = path.read_bytes()
    assert Vocabulary.from_gguf(path).stop_token_ids == (1,)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert code_of(lambda: Vocabulary.from_gguf(path)) == "bad-tokenizer-file"
    path.write_bytes(whole[:24] + b"\xff" * 8 + whole[32:])  # an absurd length
    assert code_of(lambda: Vocabulary.from_gguf(path)) == "bad-tokenizer-file"
    path.write_bytes(whole[:4] + struct.pack(">I", 3) + whole[8:])
    with pytest.raises(VocabularyError, match="big-endian"):
        Vocabulary.from_gguf(path)


# -- real vocabularies ---------------------------------------------------------------------------------------
def test_llama3(llama3: Vocabulary) -> None:
    assert (llama3.size, llama3.token_count, len(llama3.special_tokens)) == (128256, 128256, 256)
    assert llama3.stop_token_ids == (128009, 128001, 128008)
    assert llama3.bos_token_id == 128000 and not llama3.unplaced
    assert llama3.check() == []


def test_deepseek(deepseek: Vocabulary) -> None:
    assert deepseek.size == 129280 and deepseek.stop_token_ids[0] == 1
    assert deepseek.check() == [] and not deepseek.unplaced


def test_mistral(mistral: Vocabulary) -> None:
    assert mistral.stop_token_ids == (2,) and not mistral.unplaced
    assert mistral.check() == []


def test_tekken(tekken: Vocabulary, tekken_path: Path) -> None:
    assert (tekken.size, tekken.stop_token_ids, tekken.bos_token_id) == (131072, (2,), 1)
    library = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
    other = Vocabulary.from_tekken(library.Tekkenizer.from_file(tekken_path))
    assert other == tekken and other.check() == []
    for text in ("hello world", "漢 déjà vu\n", " \t 12345 🙂"):
        assert other.encode(text) == tekken.encode(text) == pickle.loads(pickle.dumps(tekken)).encode(text)
    assert b"".join(map(other.token_bytes, other.encode("漢 déjà vu\n"))) == "漢 déjà vu\n".encode()


def test_tiktoken_agrees_with_hugging_face(llama3: Vocabulary, llama3_encoding) -> None:
    v = Vocabulary.from_tiktoken(llama3_encoding)
    assert v.fingerprint == llama3.fingerprint
    assert set(v.stop_token_ids) == set(llama3.stop_token_ids)
    assert v.check() == [] and v.encode(" déjà <|eot_id|>") != [128009]


def test_smollm2_against_the_library_of_the_format(smollm2: Vocabulary, smollm2_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    fields = gguf.GGUFReader(smollm2_path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    assert len(tokens) == smollm2.token_count == smollm2.size
    from guiderail.vocabulary._table import gpt2_characters

    alphabet = gpt2_characters()
    for i, (text, kind) in enumerate(zip(tokens, types, strict=True)):
        assert smollm2.is_text(i) == (kind == 1)
        if kind == 1:
            assert smollm2.token_bytes(i) == bytes(alphabet[c] for c in text)
    assert smollm2.stop_token_ids[0] == fields["tokenizer.ggml.eos_token_id"].contents()


@pytest.mark.parametrize("name", ["llama3", "deepseek", "mistral"])
def test_encoding_spells_the_text(name: str, request: pytest.FixtureRequest) -> None:
    v = request.getfixturevalue(name)

    @once
    @given(texts)
    def spells(text: str) -> None:
        try:
            ids = v.encode(text)
        except VocabularyError as error:
            # SentencePiece normalises: such texts are rejected, never spelled differently
            assert error.code == "not-encodable" and name == "mistral"
            return
        assert b"".join(map(v.token_bytes, ids)) == text.encode()
        assert v.decode(ids) == text

    spells()


@pytest.mark.parametrize("name", ["llama3", "deepseek", "mistral", "tekken", "smollm2"])
def test_real_vocabularies_survive_saving(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    v = request.getfixturevalue(name)
    v.save(tmp_path / "v")
    w = Vocabulary.load(tmp_path / "v")
    assert w == v
    core = w.core
    rng = np.random.default_rng(0)
    for token in rng.integers(0, v.token_count, 500).tolist():
        assert core.token_bytes(token) == v.token_bytes(token)
        if v.is_text(token):
            assert core.token_bytes(core.find(v.token_bytes(token))) == v.token_bytes(token)


def test_a_transformers_tokenizer(llama3: Vocabulary, llama3_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    v = Vocabulary.from_huggingface(transformers.AutoTokenizer.from_pretrained(llama3_path))
    assert v == llama3 and v.stop_token_ids == llama3.stop_token_ids and v.bos_token_id == 128000


@pytest.mark.parametrize("file", ["tokenizer.model.v1", "tekken_240718.json"])
def test_mistral_common_objects(file: str, tekken_path: Path) -> None:
    library = pytest.importorskip("mistral_common.tokens.tokenizers.mistral")
    path = tekken_path.with_name(file)
    v = Vocabulary.from_tekken(library.MistralTokenizer.from_file(str(path)))
    direct = Vocabulary.from_tekken if file.endswith("json") else Vocabulary.from_sentencepiece
    assert v == direct(path) and not v.unplaced
    again = pickle.loads(pickle.dumps(v))
    assert again == v and again.encode("hello") == v.encode("hello")
    assert b"".join(map(v.token_bytes, v.encode("hello"))) == b"hello"
