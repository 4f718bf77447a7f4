"""Sets of texts: their algebra, their normal form, and that lowering agrees with membership."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from guiderail import _core
from guiderail.errors import PatternError
from guiderail.frontends.json_schema.values.formats import FORMATS, FormatTexts
from guiderail.frontends.json_schema.values.overlap import divided
from guiderail.frontends.json_schema.values.patterns import read_pattern
from guiderail.frontends.json_schema.values.programs import begin_apart
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.frontends.regex import regex
from guiderail.frontends.regex.counting import count_texts, likely_text

ALPHABET = "ab1-"
TEXTS = ["".join(t) for n in range(5) for t in itertools.product(ALPHABET, repeat=n)]
ATOMS = [
    Strings.ALL,
    Strings.NONE,
    Strings.texts(["a", "ab", "b1"]),
    Strings.texts(["a", "", "1111"]),
    Strings.pattern("^a"),
    Strings.pattern("b1?$"),
    Strings.pattern("^[ab]*$"),
    Strings.length(1, 2),
    Strings.length(2),
    Strings.length(0, 3),
    Strings.format("uri-reference"),
]


def matcher(strings):
    builder = _core.Builder()
    program = builder.finish(strings.lower(builder))
    return lambda text: program.is_nullable(program.derivative(program.root, text.encode()))


def terms(depth):
    leaf = st.sampled_from(ATOMS)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.just("&"), inner, inner), st.tuples(st.just("|"), inner, inner), st.tuples(st.just("~"), inner)
        ),
        max_leaves=depth,
    )


def value(term):
    if isinstance(term, Strings):
        return term
    if term[0] == "~":
        return ~value(term[1])
    return value(term[1]) & value(term[2]) if term[0] == "&" else value(term[1]) | value(term[2])


def meant(term, text):
    if isinstance(term, Strings):
        return term.contains(text)
    if term[0] == "~":
        return not meant(term[1], text)
    both = meant(term[1], text), meant(term[2], text)
    return all(both) if term[0] == "&" else any(both)


@settings(max_examples=150, deadline=None)
@given(terms(8))
def test_algebra_means_what_it_says(term):
    strings = value(term)
    accepts = matcher(strings)
    expected = [text for text in TEXTS if meant(term, text)]
    assert [text for text in TEXTS if strings.contains(text)] == expected
    assert [text for text in TEXTS if accepts(text)] == expected
    finite = strings.finite_texts()
    if finite is not None:
        assert {text for text in TEXTS if strings.contains(text)} == {t for t in finite if set(t) <= set(ALPHABET)}
    if strings.is_empty():
        assert not expected
    if strings.is_all():
        assert len(expected) == len(TEXTS)
    assert pickle.loads(pickle.dumps(strings)) == strings


def test_formats_between_two_sides_never_let_a_bad_text_through():
    pointers = Strings.format("relative-json-pointer")
    assert not pointers.is_exact() and Strings.format("date").is_exact()
    for text, inside, outside in (("1/a", True, False), ("x", False, True), ("1-1", False, False)):
        assert (pointers.contains(text)) is inside and ((~pointers).contains(text)) is outside
        assert matcher(pointers)(text) is inside and matcher(~pointers)(text) is outside
        assert ((Strings.texts([text]) & ~(pointers & Strings.texts([text]))).contains(text)) is outside
    assert (Strings.texts(["1-1"]) & pointers).is_empty() and (Strings.texts(["1-1"]) & ~pointers).is_empty()
    assert (Strings.texts(["1-1", "1"]) & pointers).finite_texts() == {"1"}


def test_normal_form():
    a, b = Strings.pattern("^a"), Strings.pattern("b$")
    assert a & b == b & a and hash(a & b) == hash(b & a)
    assert a & ~a == Strings.NONE and (a | ~a).is_all()
    assert ~~(a & b) == a & b
    assert Strings.length(2) & Strings.length(0, 1) == Strings.NONE
    assert Strings.length(0, 4) | Strings.length(5) == Strings.ALL
    assert Strings.length(0, 2) | Strings.length(3, 6) == Strings.length(0, 6)
    assert Strings.length(3, 2) == Strings.NONE
    assert a & Strings.texts(["ab", "ba"]) == Strings.texts(["ab"])
    assert ~Strings.texts(["x"]) & Strings.texts(["x", "y"]) == Strings.texts(["y"])
    assert (~Strings.texts(["x"]) | Strings.texts(["x"])).is_all()
    assert Strings.texts([]) == Strings.NONE
    assert Strings.format("no such format") is None
    c = Strings.pattern("c")
    assert a & (a | b) == a and a | (a & b) == a
    assert (a | b | c) & ~a & ~b == c & ~a & ~b and (a & b & c) | ~a | ~b == c | ~a | ~b
    assert (a | b | Strings.texts(["x"])) & ~a & ~b & ~Strings.texts(["x"]) == Strings.NONE


def test_emptiness_is_decided():
    assert (Strings.pattern("^a{3}$") & Strings.length(0, 2)).is_empty()
    assert not (Strings.pattern("^a{3}$") & Strings.length(0, 3)).is_empty()
    assert (Strings.pattern("^a$") & Strings.pattern("b")).is_empty()
    assert Strings.pattern("(?=a)b").is_empty()


PIECES = st.sampled_from(["a", "b", "ab", "[ab]", "[]", "^", "$", r"\b", ".", "(?=a)", "(?!b)"])


def grown(inner):
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])).map("(?:{0[0]}){0[1]}".format),
    )


PATTERNS = st.recursive(PIECES, grown, max_leaves=6)


def number_of_texts(constraint, most):
    """Counts the texts, read byte by byte, up to ``most``."""
    program = constraint.program().core
    count, states = 0, Counter([program.root] if program.root else [])  # how many texts lead to each
    while states and count < most:
        count += sum(number for at, number in states.items() if program.is_nullable(at))
        after = Counter()
        for at, number in states.items():
            for byte in program.first_bytes(at):
                after[program.derivative(at, bytes((byte,)))] += min(number, most)
        states = after
    return min(count, most)


@settings(deadline=None, max_examples=60)
@given(PATTERNS, st.sampled_from(["match", "search"]))
def test_a_pattern_has_the_texts_that_its_tree_shows(pattern, mode):
    try:
        constraint = regex(pattern, dialect="ecma", mode=mode)
        found = number_of_texts(constraint, 5)
    except PatternError:
        return
    assert found >= min(count_texts(constraint), 5)
    assert Strings.constraint(constraint).is_empty() == (found == 0)
    if found and not constraint._parsed.assertions and "[]" not in pattern:
        assert constraint.matches(likely_text(constraint))


def test_every_format_has_a_text():
    for name in FORMATS:
        program = FormatTexts(name).program().core
        assert program.root, name


@settings(deadline=None, max_examples=60)
@given(st.lists(PATTERNS, min_size=2, max_size=4))
def test_what_begins_apart_has_no_text_in_common(patterns):
    try:
        found = [regex(pattern, dialect="ecma") for pattern in patterns]
        if begin_apart(found):
            builder = _core.Builder()
            assert builder.is_empty(builder.intersection([one._lower(builder) for one in found]))
    except PatternError:
        return


def test_patterns_that_go_on_alike_are_not_compared_forever():
    assert not begin_apart([regex("a*"), regex("a*b?")])
    assert begin_apart([regex("a+b"), regex("b+")])
    assert begin_apart([regex("abc?d"), regex("ab"), regex("a[bc]+")])
    assert not begin_apart([regex("abc?d"), regex("a[bc]+d"), regex("[a-z]*")])


def test_a_set_is_divided_by_another():
    pieces = [Strings.pattern(p) for p in ("^a", "^b", "^ab", "c$", "^[ab]$")]
    pieces += [Strings.length(0, 2), Strings.texts(["a", "bc"]), Strings.format("hostname")]
    sets = [Strings.ALL, *pieces, ~pieces[0], pieces[1] & ~pieces[0], ~pieces[0] & ~pieces[3] & pieces[5]]
    unions = [pieces[0] | pieces[1], pieces[1] | pieces[2] | pieces[5], pieces[2] | pieces[6] | ~pieces[0]]
    sets += [*unions, unions[0] & ~pieces[4], unions[0] & unions[1], unions[1] & ~unions[0]]
    texts = ["", "a", "b", "ab", "abc", "bc", "c", "d", "ac", "a.b", "-"]
    for one in sets:
        for other in pieces:
            inside, outside = divided(one, other)
            for text in texts:
                assert (inside.contains(text)) == ((one & other).contains(text)), (one, other, text)
                assert (outside.contains(text)) == ((one & ~other).contains(text)), (one, other, text)
    begins_a, begins_b = pieces[:2]
    assert divided(begins_a, begins_b) == (Strings.NONE, begins_a)
    assert divided(~begins_a, begins_b)[0] == begins_b  # what is apart is left out
    assert divided(begins_a | begins_b, begins_b) == (begins_b, begins_a)
    assert divided(begins_a | begins_b, Strings.pattern("^c")) == (Strings.NONE, begins_a | begins_b)


def test_length_counts_code_points():
    assert Strings.length(3, 3).contains("é€𝕏")
    assert matcher(Strings.length(3, 3))("é€𝕏")


def test_lone_surrogates_are_no_texts():
    with pytest.raises(PatternError) as caught:
        Strings.texts(["fine", "a\ud800"])
    assert caught.value.code == "lone-surrogate" and caught.value.span == (1, 2)
    assert not Strings.ALL.contains("\ud800")


@pytest.mark.parametrize(
    ("pattern", "dialect", "flags", "good", "bad"),
    [
        (r"^\d+$", "ecma", "u", ["12"], ["٣"]),
        (r"^\p{Lu}$", "ecma", "u", ["É"], ["é"]),
        (r"^a\-b$", "ecma", "", ["a-b"], ["a\\-b"]),
        (r"^[\w\-\_]+}]$", "ecma", "", ["a_-}]"], ["a"]),
        (r"\Aab\Z", "python", "a", ["ab"], ["abZ", "xab"]),
        (r"^ab\z", "python", "a", ["ab"], ["abz", "ab\n"]),
        (r"(?i)^ab$", "python", "a", ["aB"], ["a"]),
        (r"^(?P<x>a)\d$", "python", "a", ["a1"], ["a٣"]),
        (r"^\a\Z", "python", "a", ["\a"], ["a", "aZ"]),
        (r"^\-\pL+$", "python", "a", ["-é"], ["-1"]),
        ("^a{,3}$", "python", "a", ["", "aaa"], ["a{,3}", "aaaa"]),
        (r"^a\{,3}[{,3}]$", "ecma", "", ["a{,3}3"], ["aaa"]),
        ("^{,3}$", "ecma", "", ["{,3}"], [""]),
        # the reader with u folds ſ to s and K (the Kelvin sign) to k; the others do not
        ("^(?i:[a-z]+)$", "ecma", "u", ["aB", "ſ", "\u212a"], ["é"]),
        (r"^(?i:[a-z]+)\-$", "ecma", "", ["aB-"], ["ſ-", "\u212a-"]),
        ("(?i)^[a-z]+$", "python", "a", ["aB"], ["ſ", "\u212a"]),
    ],
)
def test_dialects(pattern, dialect, flags, good, bad):
    found = read_pattern(pattern)
    assert (found.dialect, found.flags) == (dialect, flags)
    strings = Strings.pattern(pattern)
    assert all(strings.contains(text) for text in good) and not any(strings.contains(text) for text in bad)


@pytest.mark.parametrize(
    ("pattern", "code", "span"),
    [
        (r"(a+)+\1", "regex-backreference", (5, 7)),
        (r"(?<x>a+)+\k<x>", "regex-backreference", (9, 14)),
        ("a**", "regex-multiple-repeat", (2, 3)),
        ("(a", "regex-unterminated-group", None),
        (r"\p{Foo}", "regex-unknown-property", None),
        # an escaped letter that no engine means literally
        (r"^\x{41}$", "regex-bad-escape", (1, 3)),
        (r"^\Qa.b\E$", "regex-bad-escape", (1, 3)),
        (r"^[\h\-]$", "regex-bad-escape", (2, 4)),
        (r"^[\A]$", "regex-bad-escape", (2, 4)),
        (r"\A(a+)+\1\Z", "regex-backreference", (7, 9)),
        ("^[[:alpha:]_]+$", "regex-set-notation", (2, 11)),
        ("^[a-z&&[^aeiou]]+$", "regex-set-notation", (5, 8)),
    ],
)
def test_refused_patterns(pattern, code, span):
    with pytest.raises(PatternError) as caught:
        Strings.pattern(pattern)
    assert caught.value.code == code
    assert caught.value.source == pattern
    if span is not None:
        assert caught.value.span == span
