"""Structural tags in the forms that XGrammar documents, each with accepted and rejected texts."""

from __future__ import annotations

from typing import Any

ITEM = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def text(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def schema(value: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": value, **more}


def tag(begin: Any, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


ANY = {"type": "any_text"}
FUNCTIONS = [
    tag("<function=f>", schema(ITEM), "</function>"),
    tag("<function=g>", {"type": "regex", "pattern": "[a-z]+"}, "</function>"),
]
TRIGGERED: dict[str, Any] = {"type": "triggered_tags", "triggers": ["<function="], "tags": FUNCTIONS}
CALLS = [
    "",
    "just text",
    '<function=f>{"a": 1}</function>',
    'before <function=f>{"a":1}</function> after',
    "<function=g>abc</function>",
    '<function=f>{"a": 1}</function><function=g>x</function>',
    'x<function=f>{"a": 1}</function>y<function=g>x</function>z',
    "a < b, <func, <<function=g>abc</function>",
    "<function=g>abc</function",
    "<function=h>abc</function>",
    "<function=",
    "<function",
    '<function=f>{"a": "1"}</function>',
    "<function=g>ABC</function>",
    "see </end> here",
    "see <function=g>abc</function></end>",
]
ITEMS: dict[str, Any] = {"type": "tags_with_separator", "tags": [tag("<i>", schema(ITEM), "</i>")], "separator": ","}
LISTS = [
    "",
    '<i>{"a": 1}</i>',
    '<i>{"a": 1}</i>,<i>{"a": 2}</i>',
    '<i>{"a": 1}</i><i>{"a": 2}</i>',
    '<i>{"a": 1}</i>,',
    ",",
    '<i>{"a": 1}</i>,<i>{"a": 2}</i>,<i>{"a": 3}</i>',
    "x",
]
DISPATCH: dict[str, Any] = {
    "type": "dispatch",
    "rules": [["<f>", schema(ITEM)], ["<g>", {"type": "regex", "pattern": "[a-z]+;"}]],
}
DISPATCHED = [
    "",
    "text",
    '<f>{"a": 1}',
    "text <g>abc; text",
    '<f>{"a": 1}<g>x;',
    "<g>abc",
    "<g>1;",
    "<f>",
    "<",
    "stop",
    "<g>abc; stop",
    "<<g>abc;",
]
PEOPLE = {
    "qwen_xml": "<parameter={0}>{1}</parameter>",
    "minimax_xml": '<parameter name="{0}">{1}</parameter>',
    "glm_xml": "<arg_key>{0}</arg_key><arg_value>{1}</arg_value>",
}


def people(form: str) -> list[str]:
    return [
        form.format("name", "Bob") + form.format("age", "100"),
        form.format("name", "Bob") + "\n" + form.format("age", "100"),
        "\n" + form.format("name", "Bob") + form.format("age", "\t100\n") + "\n",
        form.format("name", "<html>\n<b>Hello</b></html>") + form.format("age", "100"),
        form.format("name", "") + form.format("age", "-1"),
        form.format("name", '"Bob&lt;"') + form.format("age", "100"),
        form.format("name", "Bob"),
        form.format("age", "100"),
        form.format("age", "100") + form.format("name", "Bob"),
        form.format("name", "Bob") + form.format("age", "old"),
        form.format("name", "Bob") + form.format("age", "100") + form.format("size", "1"),
        form.format("name", "Bob") + "x" + form.format("age", "100"),
        "",
    ]


NESTED = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "o": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"],
              "additionalProperties": False},
        "l": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        "b": {"type": "boolean"},
    },
    "additionalProperties": False,
}  # fmt: skip


def arguments(form: str, *rows: tuple[str, str, str]) -> list[str]:
    """Each argument alone, and the first two together."""
    written = [form.format(*row) for row in rows]
    return [*written, written[0] + written[1], written[0] + "\n" + written[1], "", "\n", "x"]


DSML = '<｜DSML｜parameter name="{0}" string="{1}">{2}</｜DSML｜parameter>'
COFL = '<cofl:value name="{0}" type="{1}">{2}</cofl:value>'
KIMI = '<|open|>argument key="{0}" type="{1}"<|sep|>{2}<|close|>argument<|sep|>'
M3 = "]<]minimax[>[<{0}>{1}]<]minimax[>[</{0}>"
WORDS = ["", "a", "b", "ab", "aa", "aaa", "aaaa", "ba", "abab"]
A = text("a")

CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "const_string": (text("Hello!"), ["Hello!", "Hello", "Hello!!", "HELLO!", ""]),
    "const_string empty": (text(""), ["", "x"]),
    "json_schema": (
        schema(ITEM),
        ['{"a": 1}', '{"a":1}', '{ "a" : 1 }', '{\n\t"a": 1\n}', '{"a": "x"}', '{"b": 1}', "{}", '{"a": 1', "1"],
    ),
    "json_schema text": (schema({"type": "string"}), ['"a"', '"\\n"', '"\\u0041"', '"\\/"', '"\t"', '"a', "a"]),
    "json_schema max_whitespace_cnt": (
        schema(ITEM, max_whitespace_cnt=1),
        ['{"a":1}', '{ "a": 1 }', '{"a":\n1}', '{"a":  1}', '{  "a": 1}'],
    ),
    "json_schema declared order": (
        schema(PERSON),
        ['{"name": "B", "age": 1}', '{"age": 1, "name": "B"}', '{"name": "B"}'],
    ),
    "json_schema any_order": (
        schema(PERSON, any_order=True),
        ['{"name": "B", "age": 1}', '{"age": 1, "name": "B"}', '{"name": "B"}', '{"name": "B", "age": 1, "x": 1}'],
    ),
    "json_schema excludes": (
        schema({**PERSON, "properties": {"name": {"type": "string"}, "age": {"enum": ["<b>", "b", 1]}}, "required": []},
               excludes=["<b>", "nt", "\\u00"]),
        ['{"name": "x"}', '{"name": "<b>"}', '{"name": "a<<b"}', '{"name": "\\u003cb>"}', '{"name": "\\u0141"}',
         '{"name": "\\nt"}', '{"name": "\\n\\t"}', '{"name": "<\\n"}', '{"age": "<b>"}', '{"age": "b"}', '{"age": 1}',
         '{"name": "<b", "age": 1}', '{"name": "\\"nt"}', "{}"],
    ),
    "json_schema excludes patterns": (
        schema({"type": "array", "items": {"type": "string", "pattern": "^[<b>]*$"}}, excludes=["<b>"]),
        ['["<b>"]', '["a"]', "[]"],
    ),
    "json_schema excludes names": (
        schema({"type": "object", "additionalProperties": {"type": "integer"}}, excludes=["<b>", "nt"]),
        ['{"a": 1}', '{"<b>": 1}', '{"<b": 1, "x": 2}', '{"ant": 1}', '{"n": 1, "t": 2}', "{}"],
    ),
    "qwen_xml excludes": (
        schema(PERSON, style="qwen_xml", excludes=["<b>", "Bo"]),
        people(PEOPLE["qwen_xml"]) + people(PEOPLE["qwen_xml"].replace("{1}", "B{1}").replace("BBo", "bo"))
        + ["<parameter=name>B<b</parameter><parameter=age>1</parameter>"],
    ),
    "grammar": (
        {"type": "grammar", "grammar": 'root ::= ("yes" | "no") tail\ntail ::= "!" | "(" tail ")"'},
        ["yes!", "no(!)", "no((!))", "yes", "maybe!", "no(!", ""],
    ),
    "regex": ({"type": "regex", "pattern": "[A-Z]{3}-[0-9]{4}"}, ["ABC-1234", "ABC-123", "abc-1234", "xABC-1234"]),
    "regex escapes": ({"type": "regex", "pattern": "\\d+\\.\\w*"}, ["1.", "12.ab_1", "1", ".a", "1.é"]),
    "any_text": (ANY, ["", "anything\n at all é😀", "<x>"]),
    "any_text excludes": (
        {"type": "any_text", "excludes": ["<function=", "ab"]},
        ["", "<function", "<function=", "x<function=y", "aab", "a b", "aa", "ba"],
    ),
    "any_text max_chars": ({"type": "any_text", "max_chars": 3}, ["", "abc", "é😀x", "abcd"]),
    "any_text max_chars 0": ({"type": "any_text", "max_chars": 0}, ["", "a"]),
    "sequence": (
        {"type": "sequence", "elements": [text("Answer: "), schema(ITEM)]},
        ['Answer: {"a": 1}', "Answer: ", '{"a": 1}', 'Answer: {"a": 1} '],
    ),
    "or": ({"type": "or", "elements": [text("yes"), text("no"), text("none")]}, ["yes", "no", "none", "", "yesno"]),
    "optional": ({"type": "optional", "content": A}, WORDS),
    "plus": ({"type": "plus", "content": A}, WORDS),
    "star": ({"type": "star", "content": A}, WORDS),
    "repeat": ({"type": "repeat", "min": 1, "max": 3, "content": A}, WORDS),
    "repeat unbounded": ({"type": "repeat", "min": 2, "max": -1, "content": A}, WORDS),
    "repeat of alternatives": (
        {"type": "repeat", "min": 2, "max": 2, "content": {"type": "or", "elements": [A, text("b")]}},
        WORDS,
    ),
    "tag": (
        tag("<think>", ANY, "</think>"),
        [
            "<think></think>",
            "<think>a < b </thin></think>",
            "<think>a",
            "a</think>",
            "<think>a</think>b",
            "<think></think></think>",
        ],
    ),
    "tag several ends": (
        tag("<response>", schema(ITEM), ["</response>", "</answer>"]),
        ['<response>{"a": 1}</response>', '<response>{"a": 1}</answer>', '<response>{"a": 1}', "<response></answer>"],
    ),
    "tag several ends free": (
        tag("<a>", ANY, ["</a>", "</b>"]),
        ["<a>x</a>", "<a>x</b>", "<a></b></a>", "<a></a></b>", "<a>x"],
    ),
    "tag in tag": (
        tag("<a>", tag("<b>", ANY, "</b>"), "</a>"),
        ["<a><b>x</b></a>", "<a><b>x</a></b></a>", "<a><b>x</b>y</a>", "<a></a>"],
    ),
    "triggered_tags": (TRIGGERED, CALLS),
    "triggered_tags at_least_one": ({**TRIGGERED, "at_least_one": True}, CALLS),
    "triggered_tags stop_after_first": ({**TRIGGERED, "stop_after_first": True}, CALLS),
    "triggered_tags exactly one": ({**TRIGGERED, "at_least_one": True, "stop_after_first": True}, CALLS),
    "triggered_tags excludes": ({**TRIGGERED, "excludes": ["</end>"]}, CALLS),
    "triggered_tags in a tag": (
        tag("<a>", TRIGGERED, "</a>"),
        [f"<a>{call}</a>" for call in CALLS] + ["<a>x</a></a>", "<a>x"],
    ),
    "two triggers": (
        {"type": "triggered_tags", "triggers": ["<f", "[g"], "tags": [tag("<f>", A, "</f>"), tag("[g]", A, "[/g]")]},
        ["<f>a</f>", "[g]a[/g]", "x<f>a</f>y[g]a[/g]", "<f", "[g", "<f]", "[", "<[g]a[/g]", "[<f>a</f>"],
    ),
    "trigger that overlaps itself": (
        {"type": "triggered_tags", "triggers": ["aa"], "tags": [tag("aab", text("1"), "c")]},
        ["aab1c", "aaab1c", "a", "baab1c", "aabaab1c", "aab1caab1c"],
    ),
    "tags_with_separator": (ITEMS, LISTS),
    "tags_with_separator at_least_one": ({**ITEMS, "at_least_one": True}, LISTS),
    "tags_with_separator stop_after_first": ({**ITEMS, "stop_after_first": True}, LISTS),
    "tags_with_separator exactly one": ({**ITEMS, "at_least_one": True, "stop_after_first": True}, LISTS),
    "tags_with_separator empty": ({**ITEMS, "separator": ""}, LISTS),
    "dispatch": (DISPATCH, DISPATCHED),
    **{
        f"dispatch {name}": ({"type": "dispatch", "rules": [[pattern, text(rest)] for pattern, rest in rules]}, texts)
        for name, rules, texts in [
            ("prefix first", [("b", "x"), ("baa", "y")], ["bx", "baay", "baax", "ccbaay", "abx", "aa", "b", "baa"]),
            ("prefix last", [("baa", "y"), ("b", "x")], ["bx", "baay", "baax", "ccbaay", "abx", "aa", "b", "baa"]),
            ("suffix", [("ab", "x"), ("b", "y")], ["abx", "aby", "by", "ccabx", "ccaby", "ccby", "bx"]),
            ("inside", [("b", "y"), ("aba", "x")], ["abax", "aby", "by", "abaxby", "aba", "bx"]),
            ("overlap", [("ab", "x"), ("ba", "y")], ["abx", "bay", "babx", "baybax", "aba", "abax"]),
        ]
    },
    "dispatch excludes what ends with a pattern": (
        {"type": "dispatch", "rules": [["b", text("y")]], "excludes": ["ab"]}, ["by", "aby", "cby", "a", "ab", "a by"],
    ),
    "triggered_tags with triggers that end together": (
        {
            "type": "triggered_tags",
            "triggers": ["f", "<f"],
            "tags": [tag("<f", text("x"), ">"), tag("f", text("y"), ">")],
        },
        ["<fx>", "<fy>", "fy>", "fx>", "a<fx>", "<"],
    ),
    "dispatch once": ({**DISPATCH, "loop": False}, DISPATCHED),
    "dispatch excludes": ({**DISPATCH, "excludes": ["stop"]}, DISPATCHED),
    "dispatch up to an end": (
        {"type": "sequence", "elements": [{**DISPATCH, "excludes": ["</r>"]}, text("</r>")]},
        [f"{d}</r>" for d in DISPATCHED] + ["</r></r>", "x"],
    ),
    "reasoning, text and calls": (
        {"type": "sequence", "elements": [tag("<think>", ANY, "</think>"), TRIGGERED]},
        [f"<think>hm</think>{call}" for call in CALLS] + CALLS,
    ),
    **{name: (schema(PERSON, style=name), people(form)) for name, form in PEOPLE.items()},
    "qwen_xml_parameter": ({"type": "qwen_xml_parameter", "json_schema": PERSON}, people(PEOPLE["qwen_xml"])),
    "deepseek_xml": (
        schema(NESTED, style="deepseek_xml"),
        arguments(DSML, ("s", "true", "x"), ("n", "false", " 1 "), ("s", "false", "x"), ("s", "false", '"x"'),
                  ("n", "true", "1"), ("o", "false", '{"x": "y"}'), ("o", "false", '{"x": 1}')),
    ),
    "cohere_xml": (
        schema(NESTED, style="cohere_xml"),
        arguments(COFL, ("s", "raw", "x"), ("n", "json", " 1 "), ("s", "json", '"x"'), ("n", "raw", "1"),
                  ("o", "dict", COFL.format("x", "raw", "y")), ("o", "dict", ""), ("o", "json", '{"x": "y"}'),
                  ("l", "list", '<cofl:value type="json">1</cofl:value>'),
                  ("l", "list", '<cofl:value type="json">1</cofl:value> <cofl:value type="json">2</cofl:value>'),
                  ("l", "list", ""), ("l", "list", '<cofl:value type="raw">1</cofl:value>'), ("b", "json", "true")),
    ),
    "minimax_m3_xml": (
        schema(NESTED, style="minimax_m3_xml"),
        [
            M3.format("s", "x"), M3.format("s", "]<]mini <b> &lt;"), M3.format("s", "]<]minimax[>["),
            M3.format("n", "1"), M3.format("n", " 1"), M3.format("n", "x"), M3.format("b", "true"),
            "\n" + M3.format("s", "") + " " + M3.format("n", "-1") + "\n", M3.format("n", "1") + M3.format("s", "x"),
            M3.format("o", M3.format("x", "y")), M3.format("o", "\n" + M3.format("x", "y") + " "), M3.format("o", ""),
            M3.format("l", M3.format("item", "1")), M3.format("l", ""),
            M3.format("l", " " + M3.format("item", "1") + "\n" + M3.format("item", "2") + " "),
            M3.format("l", M3.format("item", "x")), M3.format("l", "[1]"), "", " ", "x",
        ],
    ),
    "minimax_m3_xml lists": (
        schema(
            {
                "type": "object",
                "properties": {
                    "a": {"type": "array", "items": {"type": "array", "items": {"type": "string"}, "maxItems": 1}},
                },
                "required": ["a"],
                "additionalProperties": False,
            },
            style="minimax_m3_xml",
        ),
        [M3.format("a", body) for body in (
            "", " ", M3.format("item", ""), M3.format("item", M3.format("item", "x")),
            "\n" + M3.format("item", " " + M3.format("item", "x") + " ") + " " + M3.format("item", "") + "\n",
            M3.format("item", M3.format("item", "x") + M3.format("item", "y")), M3.format("item", "x"),
        )] + [""],
    ),
    "kimi_k3_xml": (
        schema(NESTED, style="kimi_k3_xml"),
        arguments(KIMI, ("s", "string", "x"), ("n", "number", " 1 "), ("n", "integer", "1"),
                  ("o", "object", '{"x": "y"}'), ("l", "array", "[1]"), ("b", "boolean", "true")),
    ),
}  # fmt: skip
