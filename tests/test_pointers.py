"""JSON pointers lead to where they were written from."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from guiderail.support.pointers import Places, followed

KEYS = st.text("a/~0 é", max_size=3)
DOCUMENTS = st.recursive(
    st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)


def containers(value):
    if isinstance(value, dict | list):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from containers(part)


@settings(deadline=None, max_examples=50)
@given(DOCUMENTS)
def test_every_place_leads_back(document):
    places = Places(document)
    for one in containers(document):
        assert followed(document, places.of(one)[1:]) is one
    assert places.of({}) is None
    assert places.of([]) is None


def test_a_document_that_contains_itself():
    loop = {"a": []}
    loop["a"].append(loop)
    assert Places(loop).of(loop) == "#"
    assert Places(loop).of(loop["a"]) == "#/a"
