"""From a schema object to its shape: one function a group of keywords."""

from __future__ import annotations

import warnings
from typing import Any, Final

from guiderail.errors import CompileError, GuiderailError, LimitError, PatternError
from guiderail.frontends.json_schema.documents.dialects import (
    ARRAY,
    BRANCH,
    DYNAMIC,
    NUMBER,
    OBJECT,
    REFERENCE,
    STRING,
    TYPE,
    UNEVALUATED,
    VALUE,
    WRAPPED,
    nearest_type,
)
from guiderail.frontends.json_schema.documents.references import Document, Node
from guiderail.frontends.json_schema.errors import SchemaError, SchemaLimitError, SelfReference
from guiderail.frontends.json_schema.keywords.branches import apply_branches
from guiderail.frontends.json_schema.keywords.conjuncts import conjuncts, says_something
from guiderail.frontends.json_schema.keywords.unevaluated import apply_unevaluated
from guiderail.frontends.json_schema.normal_form.array_cells import array_cell
from guiderail.frontends.json_schema.normal_form.shape import (
    ANY_ARRAY,
    ANY_OBJECT,
    FALSE,
    TRUE,
    ArrayCell,
    Contains,
    Fixed,
    KeyRules,
    ObjectCell,
    Shape,
    Term,
)
from guiderail.frontends.json_schema.values.digit_counts import DIGIT_COUNTS, MOST_DIGITS, with_digits
from guiderail.frontends.json_schema.values.numbers import Numbers
from guiderail.frontends.json_schema.values.overlap import common_beginning
from guiderail.frontends.json_schema.values.patterns import recalling
from guiderail.frontends.json_schema.values.strings import Strings
from guiderail.support.callers import outside
from guiderail.support.texts import has_surrogate, shown
from guiderail.support.work import out_of_work, spend

__all__ = ["evaluate", "shape_of_values"]

_NULL: Final = 1 << 0
_BOOLEAN: Final = 1 << 1
_INTEGER: Final = 1 << 2
_NUMBER: Final = 1 << 3
_STRING: Final = 1 << 4
_ARRAY: Final = 1 << 5
_OBJECT: Final = 1 << 6
_BITS: Final = {
    "null": _NULL,
    "boolean": _BOOLEAN,
    "integer": _INTEGER,
    "number": _NUMBER,
    "string": _STRING,
    "array": _ARRAY,
    "object": _OBJECT,
}
_EVERY_TYPE: Final = 127
_ANY_ARRAYS: Final = (ANY_ARRAY,)
_ANY_OBJECTS: Final = (ANY_OBJECT,)


_COMPOUND: Final = REFERENCE | DYNAMIC | BRANCH | UNEVALUATED
_OWN: Final = TYPE | VALUE | NUMBER | STRING | ARRAY | OBJECT


def evaluate(node: Node) -> Shape:
    """The normal form of a schema object."""
    spend(300 + 50 * len(node.schema))
    if node.groups & _COMPOUND:
        with node.scope.document.algebra.trying(eager=False):
            return restrict(node, TRUE.shape(), node)
    return _plain(node)


def restrict(node: Node, outer: Shape, term: Term) -> Shape:
    """The intersection of ``outer`` and a term of a node. What is known outside helps to tell branches apart."""
    document = node.scope.document
    algebra = document.algebra
    if not isinstance(term, Node):
        return algebra.and_shapes(outer, term.shape())
    if not term.groups & _COMPOUND:
        return algebra.and_shapes(outer, term.shape())
    if term.narrowing:
        raise SelfReference(term.schema)
    spend(1)
    term.narrowing = True
    try:
        return _narrowed(document, outer, term)
    finally:
        term.narrowing = False


def _narrowed(document: Document, outer: Shape, term: Node) -> Shape:
    algebra = document.algebra
    nodes, others, circular = conjuncts(term)
    if circular and not others and not any(says_something(part) for part in nodes):
        raise document.infinite_reference(term.schema)
    shape = outer
    for part in nodes:
        if part.plain is None:
            with document.at(part):
                part.plain = _plain(part)
        shape = algebra.and_shapes(shape, part.plain)
    for other in others:
        shape = algebra.and_shapes(shape, other.shape())
    for part in nodes:
        if part.groups & BRANCH:
            with document.at(part):
                shape = apply_branches(part, shape, restrict)
    for part in nodes:
        if part.groups & UNEVALUATED:
            with document.at(part):
                shape = apply_unevaluated(part, shape)
    return shape


def _plain(node: Node) -> Shape:
    """What is stated by the keywords that apply no other schema in place."""
    scope, groups = node.scope, node.groups
    if not groups & _OWN:
        return TRUE.shape()
    types = _types(node) if groups & TYPE else _EVERY_TYPE
    if groups & OBJECT and not types & _OBJECT and type(node.schema.get("required")) is bool:
        raise SchemaError(
            f"required must be a list of names in the schema of the object, not {node.schema['required']} in that of a "
            "property, as in draft 3",
            pointer=f"{scope.document.where()}/required",
        )
    shape = _values(node, types) if groups & VALUE else None
    if shape is None or groups & (NUMBER | STRING | ARRAY | OBJECT):
        numbers = Numbers.ALL if types & _NUMBER else Numbers.INTEGERS if types & _INTEGER else Numbers.NONE
        if groups & NUMBER and types & (_NUMBER | _INTEGER):
            between = _numbers(node)
            numbers = between.as_decimals() if types & _NUMBER else numbers & between
        strings = Strings.ALL if types & _STRING else Strings.NONE
        if groups & STRING and types & _STRING:
            strings = _strings(node)
        arrays: tuple[ArrayCell, ...] = _ANY_ARRAYS if types & _ARRAY else ()
        if groups & ARRAY and types & _ARRAY:
            arrays = _arrays(node)
        objects: tuple[ObjectCell, ...] = _ANY_OBJECTS if types & _OBJECT else ()
        if groups & OBJECT and types & _OBJECT:
            objects = _objects(node)
        own = Shape(types & _NULL != 0, 3 if types & _BOOLEAN else 0, numbers, strings, arrays, objects)
        shape = own if shape is None else scope.document.algebra.and_shapes(shape, own)
    return shape


# -- reading keywords ------------------------------------------------------------------------------------------------
def _invalid(node: Node, keyword: str, expected: str) -> SchemaError:
    found = shown(node.schema.get(keyword))
    return SchemaError(f"{keyword} must be {expected}, not {found}", pointer=f"{node.scope.document.where()}/{keyword}")


def _count(node: Node, keyword: str) -> int | None:
    """A keyword that is an integer, 0 or more."""
    value = node.schema.get(keyword)
    if value is None and keyword not in node.schema:
        return None
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        raise _invalid(node, keyword, "an integer, 0 or more")
    return value


def _bound(node: Node, keyword: str) -> Any:
    value = node.schema.get(keyword)
    if value is None and keyword not in node.schema:
        return None
    if type(value) is not int and (type(value) is not float or value != value or value in (_INF, -_INF)):
        raise _invalid(node, keyword, "a number")
    return value


_INF: Final = float("inf")


def _types(node: Node) -> int:
    schema = node.schema
    declared = schema.get("type", _BITS)
    if type(declared) is str and declared in _BITS:
        types = _BITS[declared]
    elif declared is _BITS:
        types = _EVERY_TYPE
    elif type(declared) is list and declared and all(type(t) is str and t in _BITS for t in declared):
        types = 0
        for name in declared:
            types |= _BITS[name]
    else:
        raise _unknown_type(node, declared)
    if types & _NUMBER:
        types |= _INTEGER
    if node.scope.dialect == "openapi-3.0" and "nullable" in schema:
        if type(schema["nullable"]) is not bool:
            raise _invalid(node, "nullable", "true or false")
        if schema["nullable"]:
            types |= _NULL
    return types


def _unknown_type(node: Node, declared: Any) -> SchemaError:
    error = _invalid(node, "type", f"one of {', '.join(_BITS)}, or a list of them")
    unknown = [one for one in (declared if type(declared) is list else [declared]) if one not in tuple(_BITS)]
    first = unknown[0] if unknown else None
    wrapped = WRAPPED.get(first) if type(first) is str else None
    meant = nearest_type(first) if unknown and wrapped is None else ""
    if wrapped is not None:
        advice = f"this is {wrapped}"
    elif meant:
        advice = f"did you mean {meant!r}?"
    elif unknown == ["any"]:
        advice = "leave type out to allow any value"
    else:
        return error
    return SchemaError(f"{error.reason}; {advice}", pointer=error.pointer)


def _numbers(node: Node) -> Numbers:
    low, high = _bound(node, "minimum"), _bound(node, "maximum")
    schema = node.schema
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if type(above) is bool:  # of draft 4, where it changes the meaning of minimum
        low, above = (None, low) if above else (low, None)
    else:
        above = _bound(node, "exclusiveMinimum")
    if type(below) is bool:
        high, below = (None, high) if below else (high, None)
    else:
        below = _bound(node, "exclusiveMaximum")
    step = _bound(node, "multipleOf")
    if step is not None and step <= 0:
        raise _invalid(node, "multipleOf", "a number above 0")
    numbers = Numbers.between(low, above, high, below, step)
    if not schema.keys().isdisjoint(DIGIT_COUNTS):

        def digits(keyword: str) -> int | None:
            found = _count(node, keyword)
            if found is not None and found > MOST_DIGITS:
                raise _invalid(node, keyword, f"at most {MOST_DIGITS:,}")
            return found

        numbers &= with_digits(schema, digits)
    return numbers


def _strings(node: Node) -> Strings:
    schema, document = node.schema, node.scope.document
    strings = Strings.ALL
    if "minLength" in schema or "maxLength" in schema:
        low, high = _count(node, "minLength") or 0, _count(node, "maxLength")
        try:
            strings = Strings.length(low, None if high is None or high >= 2**32 - 1 else high)
        except CompileError as error:
            raise SchemaError(error.message, code=error.code, pointer=f"{document.where()}/minLength") from None
    if "pattern" in schema:
        pattern = schema["pattern"]
        if type(pattern) is not str:
            raise _invalid(node, "pattern", "a string")
        found = read_pattern(node, "pattern", pattern)
        if found is not None:
            strings = found if strings is Strings.ALL else strings & found
    if "format" in schema and document.options.format == "assert":
        name = schema["format"]
        if type(name) is not str:
            raise _invalid(node, "format", "a string")
        known = Strings.format(name)
        if known is not None:
            document.algebra.exact = document.algebra.exact and known.is_exact()
            strings = known if strings is Strings.ALL else strings & known
    return strings


def read_pattern(node: Node, keyword: str, pattern: str) -> Strings | None:
    """The strings in which a pattern is found; None if it cannot be enforced and that is not to be an error."""
    try:
        strings = Strings.pattern(pattern)
        if (found := recalling(strings)) is not None:
            document = node.scope.document
            if document.options.on_unsupported != "error":  # other conditions on the string might not go with it
                raise PatternError("a backreference to a group of more than 64 texts", code="regex-backreference")
            document.recalled.setdefault(found.pattern, (f"{document.where()}/{keyword}", keyword))
        return strings
    except (CompileError, LimitError) as error:
        if isinstance(error, LimitError) and out_of_work(error):
            raise
        raise_or_drop(node, keyword, error)
        return None
    except GuiderailError as error:
        if error.code.startswith("regex-") and error.code in _BEYOND:
            raise_or_drop(node, keyword, error)
            return None
        raise _at_keyword(node, keyword, error) from error


_BEYOND: Final = frozenset(
    ("regex-backreference", "regex-recursion", "regex-conditional", "regex-atomic", "regex-empty-lookaround-loop")
)


def raise_or_drop(node: Node, keyword: str, error: GuiderailError) -> None:
    """Handles a keyword that cannot be enforced as the option ``on_unsupported`` says."""
    document = node.scope.document
    if document.options.on_unsupported == "error":
        raise _at_keyword(node, keyword, error) from error
    pointer = f"{document.where()}/{keyword}"
    document.unsupported.append((pointer, keyword, error.message))
    if document.options.on_unsupported == "warn":
        warnings.warn(f"{pointer}: not enforced: {error.message}", stacklevel=outside())


def _at_keyword(node: Node, keyword: str, error: GuiderailError) -> SchemaError | SchemaLimitError:
    """The same fault as one of the schema: with the place of the keyword, and still that in the pattern."""
    kind = SchemaLimitError if isinstance(error, LimitError) else SchemaError
    return kind(
        f"{keyword}: {error.message}",
        code=error.code,
        pointer=f"{node.scope.document.where()}/{keyword}",
        source=error.source,
        span=error.span,
    )


# -- values ----------------------------------------------------------------------------------------------------------
def _values(node: Node, types: int) -> Shape | None:
    """``const`` and ``enum``, restricted by ``type``."""
    schema = node.schema
    values: list[Any] | None = None
    if "enum" in schema:
        if type(schema["enum"]) is not list:
            raise _invalid(node, "enum", "a list of values")
        values = schema["enum"]
    shape = None
    if "const" in schema and node.scope.dialect not in ("draft-04", "openapi-3.0"):
        shape = _stated(node, "const", [schema["const"]])
        if values is not None:
            shape = node.scope.document.algebra.and_shapes(shape, _stated(node, "enum", values))
    elif values is not None:
        shape = _stated(node, "enum", values)
    if shape is None or types == _EVERY_TYPE:
        return shape
    return Shape(
        shape.null and types & _NULL != 0,
        shape.booleans if types & _BOOLEAN else 0,
        shape.numbers
        if types & _NUMBER or shape.numbers is Numbers.NONE
        else shape.numbers & Numbers.INTEGERS
        if types & _INTEGER
        else Numbers.NONE,
        shape.strings if types & _STRING else Strings.NONE,
        shape.arrays if types & _ARRAY else (),
        shape.objects if types & _OBJECT else (),
    )


def _stated(node: Node, keyword: str, values: list[Any]) -> Shape:
    """The values of a keyword."""
    try:
        return shape_of_values(values)
    except CompileError as error:
        pointer = f"{node.scope.document.where()}/{keyword}"
        raise SchemaError(error.message, code=error.code, pointer=pointer) from None


def shape_of_values(values: list[Any]) -> Shape:
    """Exactly these values."""
    null, booleans = False, 0
    texts: list[str] = []
    numbers: list[Any] = []
    arrays: list[ArrayCell] = []
    objects: list[ObjectCell] = []
    for value in values:
        if type(value) is str:
            if not has_surrogate(value):
                texts.append(value)
        elif value is None:
            null = True
        elif value is True:
            booleans |= 2
        elif value is False:
            booleans |= 1
        elif type(value) is list:
            prefix = tuple(_constant(item) for item in value)
            arrays.append(ArrayCell(prefix, FALSE, len(prefix), len(prefix)))
        elif type(value) is dict:
            named = {key: _constant(member) for key, member in value.items()}
            objects.append(ObjectCell(named, FALSE, frozenset(named)))
        else:
            numbers.append(value)
    return Shape(
        null,
        booleans,
        Numbers.values(numbers) if numbers else Numbers.NONE,
        Strings.texts(texts) if texts else Strings.NONE,
        tuple(arrays),
        tuple(objects),
    )


def _constant(value: Any) -> Term:
    return Fixed(shape_of_values([value]))


# -- arrays and objects ----------------------------------------------------------------------------------------------
def _arrays(node: Node) -> tuple[ArrayCell, ...]:
    schema, scope = node.schema, node.scope
    child = scope.child
    prefix: tuple[Term, ...] = ()
    rest = TRUE
    items = schema.get("items", True)
    if "prefixItems" in schema and scope.dialect == "2020-12":
        if type(schema["prefixItems"]) is not list:
            raise _invalid(node, "prefixItems", "a list of schemas")
        prefix = tuple([child(item) for item in schema["prefixItems"]])
        rest = child(items)
    elif type(items) is list:
        prefix = tuple([child(item) for item in items])
        if "additionalItems" in schema:
            rest = child(schema["additionalItems"])
    else:
        rest = child(items)
    low, high = _count(node, "minItems") or 0, _count(node, "maxItems")
    unique = schema.get("uniqueItems", False)
    if type(unique) is not bool:
        raise _invalid(node, "uniqueItems", "true or false")
    contains: tuple[Contains, ...] = ()
    if "contains" in schema and scope.dialect not in ("draft-04", "openapi-3.0"):
        least, most = 1, None
        if scope.dialect in ("2019-09", "2020-12"):
            given = _count(node, "minContains")
            least = 1 if given is None else given
            most = _count(node, "maxContains")
        contains = (Contains(0, child(schema["contains"]), least, most),)
    if not contains and not prefix and rest is not FALSE:
        if high is not None and high < low:
            return ()
        return (ArrayCell((), rest, low, high, (), unique),)
    cell = array_cell(scope.document.algebra, prefix, rest, low, high, contains, unique=unique)
    return () if cell is None else (cell,)


def _objects(node: Node) -> tuple[ObjectCell, ...]:
    schema, scope = node.schema, node.scope
    child = scope.child
    rest = TRUE
    if "additionalProperties" in schema:
        rest = child(schema["additionalProperties"])
    properties = schema.get("properties")
    named: dict[str, Term] = {}
    if properties is not None:
        if type(properties) is not dict:
            raise _invalid(node, "properties", "an object of schemas")
        for name, value in properties.items():
            named[name] = child(value)
    elif "properties" in schema:
        raise _invalid(node, "properties", "an object of schemas")
    rules: tuple[KeyRules, ...] = ()
    if "patternProperties" in schema:
        patterns = schema["patternProperties"]
        if type(patterns) is not dict:
            raise _invalid(node, "patternProperties", "an object of schemas")
        if patterns:
            rules, rest = _patterns(node, patterns, rest, named)
    if "propertyNames" in schema and scope.dialect not in ("draft-04", "openapi-3.0"):
        rules, rest = _names(child(schema["propertyNames"]), rules, rest, named)
    required: frozenset[str] = frozenset()
    if "required" in schema:
        names = schema["required"]
        if type(names) is not list or not all(type(name) is str for name in names):
            raise _invalid(node, "required", "a list of names")
        required = frozenset(names)
        if not required <= named.keys():
            algebra = scope.document.algebra
            cell = ObjectCell({}, rest, rules=rules)
            for name in names:
                if name not in named:
                    named[name] = rest if not rules else algebra.named_term(cell, name)
        if any(named[name] is FALSE for name in required):
            return ()
    low = high = None
    if "minProperties" in schema or "maxProperties" in schema:
        low, high = _count(node, "minProperties"), _count(node, "maxProperties")
        if high is not None and high < max(low or 0, len(required)):
            return ()
    return (ObjectCell(named, rest, required, rules, low or 0, high),)


def _patterns(
    node: Node, patterns: dict[str, Any], rest: Term, named: dict[str, Term]
) -> tuple[tuple[KeyRules, ...], Term]:
    entries: list[tuple[Strings, Term]] = []
    child = node.scope.child
    for pattern, value in patterns.items():
        language = read_pattern(node, "patternProperties", pattern)
        if language is not None:
            entries.append((language, child(value)))
    if not entries:
        return (), rest
    if all(language.is_all() for language, _ in entries):
        both = node.scope.document.algebra.and_terms([term for _, term in entries])
        for name, own in named.items():
            named[name] = node.scope.document.algebra.both(own, both)
        return (), both
    if all(term is TRUE for _, term in entries) and rest is TRUE:
        return (), rest
    algebra = node.scope.document.algebra
    words: dict[str, list[Term]] = {}
    endless: list[tuple[Strings, Term]] = []
    for language, term in entries:
        texts = language.finite_texts()
        if texts is None:
            endless.append((language, term))
        else:
            for text in texts:
                words.setdefault(text, []).append(term)
    # a pattern of a few words names members, and named members are cheap
    names = [*named, *sorted(words.keys() - named.keys())]
    begun = [(common_beginning(language), language, term) for language, term in endless] if names else []
    for name in names:
        spend(len(begun) // 4)
        found = [term for begin, language, term in begun if name.startswith(begin) and language.contains(name)]
        more = words.get(name, []) + found
        if more:
            named[name] = algebra.and_terms([named.get(name, TRUE), *more])
    together: dict[Term, Strings] = {}  # by what they say of the value
    for language, term in endless:
        same = node.scope.document.same(term)
        together[same] = together[same] | language if same in together else language
    entries = [(language, term) for term, language in together.items()]
    if not entries:
        return (), rest
    return (KeyRules(tuple(entries), rest),), TRUE


def _names(
    term: Term, rules: tuple[KeyRules, ...], rest: Term, named: dict[str, Term]
) -> tuple[tuple[KeyRules, ...], Term]:
    """``propertyNames``: keys that are not among the strings of a term are forbidden."""
    names = term.shape().strings
    if names.is_all():
        return rules, rest
    for name in named:
        if not names.contains(name):
            named[name] = FALSE
    texts = names.finite_texts()
    if texts is not None:
        cell = ObjectCell({}, rest, rules=rules)
        for name in sorted(texts):
            if name not in named:
                found = [t for t in cell.terms(name) if t is not TRUE]
                if len(found) > 1:
                    break
                named[name] = found[0] if found else TRUE
        else:
            return (), FALSE
    return (*rules, KeyRules(((names, TRUE),), FALSE)), rest
