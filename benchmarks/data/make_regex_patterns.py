"""Writes regex_patterns.json: patterns from real use, each with texts that match it.

The recipes below make the texts with a fixed seed, so the texts depend on no engine. Each is checked against Python's
``re.fullmatch``. For a pattern without a recipe, the benchmark itself makes a random walk.

    python benchmarks/data/make_regex_patterns.py
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

OUT = Path(__file__).with_name("regex_patterns.json")
CHARACTERS = 1_200  # minimum characters of text for each pattern: more than 200 tokens of most tokenizers

SENTENCES = """
The ferry leaves the harbour at dawn and returns before the market closes. Most of the passengers carry baskets of
bread, cheese and late apples. A committee met twice to discuss the new bridge, and twice it postponed the vote. The
engineers had measured the river for eleven months; their report ran to four hundred pages. Nobody remembers who
planted the lime trees along the canal. In winter the library stays open until nine, because the reading room is the
warmest place in town. Visitors should ask for the key at the front desk. Her first novel sold slowly, her second not
at all, and the third was translated into nineteen languages. Please restart the service after changing the
configuration file. The test failed on the second attempt with a timeout, which suggests that the queue was full. We
recommend a smaller batch and a longer interval. Temperatures will fall to minus four overnight, with light snow on
higher ground. All measurements were repeated three times under the same conditions. The results, although
preliminary, agree with those of earlier studies. If the valve does not close, call the number printed on the door.
""".split(". ")
SENTENCES = [" ".join(sentence.split()).rstrip(".") + "." for sentence in SENTENCES]
WORDS = sorted({word.strip(".,;").lower() for sentence in SENTENCES for word in sentence.split()})
ADJECTIVES = """amber ancient autumn brave bright calm clever cobalt copper crimson dapper distant early eager fallen
fancy frosty gentle golden hidden hollow humble icy jolly keen lively lucky mellow misty noble olive patient plain quiet
rapid rustic silent silver tidy velvet""".split()
NOUNS = """anchor badger bridge canyon cedar comet delta falcon forest garden harbor island lantern meadow mirror
orchard otter pebble prairie river saddle summit thicket valley willow""".split()
VERBS = ["archive", "cancel", "confirm", "deliver", "inspect", "move", "print", "refund", "review", "ship"]
OBJECTS = [
    "invoice",
    "order",
    "package",
    "contract",
    "report",
    "ticket",
    "payment",
    "parcel",
    "letter",
    "claim",
]
TIMES = [
    "today",
    "tomorrow",
    "on Monday",
    "before noon",
    "this week",
    "next month",
    "at once",
    "by Friday",
    "later",
    "tonight",
]
CHOICE_WORDS = [f"{adjective}-{noun}" for adjective in ADJECTIVES for noun in NOUNS]
CHOICE_SENTENCES = [f"Please {v} the {o} {t}." for v in VERBS for o in OBJECTS for t in TIMES]
UNICODE = "Überraschung naïve façade Ørsted smörgåsbord żółw чайка Москва ποταμός 東京 中文 데이터 日本語 café señor Zürich".split()

Random = random.Random
Recipe = Callable[[Random], str]


def digits(r: Random, count: int) -> str:
    return "".join(r.choices("0123456789", k=count))


def hexadecimal(r: Random, count: int) -> str:
    return "".join(r.choices("0123456789abcdef", k=count))


def words(r: Random, low: int, high: int) -> list[str]:
    return r.choices(WORDS, k=r.randint(low, high))


def prose(r: Random, characters: int) -> str:
    text = r.choice(SENTENCES)
    while len(text) < characters:
        text += " " + r.choice(SENTENCES)
    return text[:characters]


def name(r: Random) -> str:
    return "_".join(re.sub(r"\W", "", word) for word in words(r, 1, 3))


def host(r: Random) -> str:
    return f"{r.choice(['www', 'api', 'docs', 'shop'])}.{r.choice(NOUNS)}{r.choice(['', '-' + r.choice(NOUNS)])}.{r.choice(['com', 'org', 'net', 'io', 'eu'])}"


def date(r: Random) -> str:
    return f"{r.randint(1950, 2049)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}"


def time(r: Random) -> str:
    return f"{r.randint(0, 23):02}:{r.randint(0, 59):02}:{r.randint(0, 59):02}"


def title(r: Random, low: int, high: int) -> str:
    return "".join(
        word.capitalize() + " "
        for word in r.choices([w for w in WORDS if w.isalpha() and len(w) > 1], k=r.randint(low, high))
    )


def markdown(r: Random) -> str:
    return "".join(
        f"- {r.choice(['', '**' + r.choice(NOUNS) + '**: '])}{prose(r, r.randint(20, 80))}\n" for _ in range(6)
    )


def signature(r: Random) -> str:
    kinds = ["int", "str", "float", "list[int]", "dict[str, float]", "Path"]
    parameters = ", ".join(f"{name(r)}: {r.choice(kinds)}" for _ in range(r.randint(1, 4)))
    return f"def {name(r)}({parameters}) -> {r.choice(kinds)}:"


def ipv4(r: Random) -> str:
    return ".".join(str(r.randint(0, 255)) for _ in range(4))


def csv(r: Random) -> str:
    cell = [
        r.choice(WORDS),
        f'"{prose(r, 24)}"',
        str(r.randint(0, 99999)),
        date(r),
        f"{r.random() * 1000:.2f}",
    ]
    return "".join(",".join(r.sample(cell, 5)) + "\n" for _ in range(4))


def key_values(r: Random) -> str:
    pairs = " ".join(
        f"{r.choice(WORDS)}={r.choice([str(r.randint(0, 9999)), r.choice(NOUNS), chr(34) + prose(r, 20) + chr(34)])}"
        for _ in range(5)
    )
    return f"{date(r)}T{time(r)}Z {r.choice(['INFO', 'WARN', 'ERROR', 'DEBUG'])} {pairs}"


def sql(r: Random) -> str:
    where = f" WHERE {name(r)} {r.choice(['=', '<', '>', '<='])} {r.choice([str(r.randint(0, 999)), chr(39) + r.choice(NOUNS) + chr(39)])}"
    return f"SELECT {', '.join(name(r) for _ in range(3))} FROM {name(r)}{where} ORDER BY {name(r)} LIMIT {r.randint(1, 500)};"


def json_object(r: Random) -> str:
    return json.dumps(
        {
            "name": title(r, 1, 2).strip(),
            "age": r.randint(1, 99),
            "email": email(r),
            "tags": r.sample(NOUNS, 3),
        }
    )


def email(r: Random) -> str:
    return f"{r.choice(NOUNS)}.{r.choice(ADJECTIVES)}{r.choice(['', '+lists', digits(r, 2)])}@{host(r)}"


def xml(r: Random) -> str:
    tag = r.choice(NOUNS)
    return f'<{tag} id="{digits(r, 4)}" lang="en">{prose(r, r.randint(20, 60))}</item>'.replace(f"<{tag} ", "<item ")


def hex_dump(r: Random) -> str:
    return "".join(f"{16 * i:08x}  {' '.join(hexadecimal(r, 2) for _ in range(16))}\n" for i in range(4))


def around(*stops: str) -> Recipe:
    def recipe(r: Random) -> str:
        return prose(r, 60) + "".join(stop + prose(r, r.randint(20, 90)) for stop in stops)

    return recipe


def url(r: Random) -> str:
    query = r.choice(["", f"?{r.choice(NOUNS)}={digits(r, 3)}&page={r.randint(1, 40)}"])
    return f"https://{host(r)}/{'/'.join(words(r, 1, 3))}{query}".replace(",", "")


def spaced(r: Random) -> str:
    return " ".join(prose(r, 420).split()[:60])


IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
JSON_STRING = r'"([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'

TABLE: list[tuple[str, str, Recipe | None]] = [
    ("date", r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", date),
    ("time", r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]", time),
    (
        "date-time",
        r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})",
        lambda r: f"{date(r)}T{time(r)}.{digits(r, 3)}{r.choice(['Z', '+02:00', '-05:30'])}",
    ),
    (
        "long-date",
        r"(Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday), ([1-9]|[12][0-9]|3[01]) (January|February|March"
        r"|April|May|June|July|August|September|October|November|December) [0-9]{4}",
        lambda r: (
            f"{r.choice('Monday Tuesday Friday Sunday'.split())}, {r.randint(1, 31)} {r.choice('January May July October'.split())} {r.randint(1900, 2049)}"
        ),
    ),
    (
        "url",
        r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~%!$&'()*+,;=:@-]*)*(\?[A-Za-z0-9._~%=&-]*)?(#[A-Za-z0-9_-]*)?",
        url,
    ),
    ("email", r"[a-zA-Z0-9._%+-]{1,64}@([a-zA-Z0-9-]{1,63}\.){1,8}[a-zA-Z]{2,63}", email),
    ("phone-e164", r"\+[1-9][0-9]{1,14}", lambda r: "+" + str(r.randint(1, 9)) + digits(r, r.randint(9, 13))),
    (
        "phone-us",
        r"(\([0-9]{3}\) |[0-9]{3}-)[0-9]{3}-[0-9]{4}",
        lambda r: f"({digits(r, 3)}) {digits(r, 3)}-{digits(r, 4)}",
    ),
    (
        "uuid",
        r"[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        lambda r: (
            f"{hexadecimal(r, 8)}-{hexadecimal(r, 4)}-4{hexadecimal(r, 3)}-a{hexadecimal(r, 3)}-{hexadecimal(r, 12)}"
        ),
    ),
    ("ipv4", rf"({OCTET}\.){{3}}{OCTET}", ipv4),
    (
        "ipv6",
        r"([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}",
        lambda r: ":".join(hexadecimal(r, r.randint(1, 4)) for _ in range(8)),
    ),
    (
        "mac-address",
        r"([0-9A-F]{2}:){5}[0-9A-F]{2}",
        lambda r: ":".join(hexadecimal(r, 2).upper() for _ in range(6)),
    ),
    (
        "semver",
        r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
        lambda r: (
            f"{r.randint(0, 20)}.{r.randint(0, 99)}.{r.randint(0, 99)}{r.choice(['', '-rc.1', '-alpha.beta', '-dev'])}{r.choice(['', '+build.' + hexadecimal(r, 7)])}"
        ),
    ),
    ("credit-card", r"([0-9]{4}[ -]){3}[0-9]{4}", lambda r: " ".join(digits(r, 4) for _ in range(4))),
    (
        "price",
        r"[$€£](0|[1-9][0-9]{0,2}(,[0-9]{3})*)\.[0-9]{2}",
        lambda r: f"{r.choice('$€£')}{r.randint(0, 9_999_999) / 100:,.2f}",
    ),
    (
        "number",
        r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?",
        lambda r: r.choice([str(r.randint(-(10**9), 10**9)), repr(r.random() * 10 ** r.randint(-12, 12))]),
    ),
    (
        "identifier",
        IDENTIFIER,
        lambda r: name(r) if r.random() < 0.6 else "".join(w.capitalize() for w in name(r).split("_")),
    ),
    (
        "dotted-name",
        rf"{IDENTIFIER}(\.{IDENTIFIER}){{0,9}}(\[[0-9]+\])?",
        lambda r: ".".join(name(r) for _ in range(r.randint(1, 5))),
    ),
    (
        "function-signature",
        rf"def {IDENTIFIER}\(({IDENTIFIER}: [A-Za-z_\[\], ]+(, {IDENTIFIER}: [A-Za-z_\[\], ]+)*)?\) -> [A-Za-z_\[\], ]+:",
        signature,
    ),
    (
        "hex-colours",
        r"#[0-9a-fA-F]{6}(, #[0-9a-fA-F]{6}){0,39}",
        lambda r: ", ".join("#" + hexadecimal(r, 6) for _ in range(8)),
    ),
    ("text-10", r".{0,10}", lambda r: prose(r, 10)),
    ("text-50", r".{1,50}", lambda r: prose(r, r.randint(30, 50))),
    ("text-200", r".{0,200}", lambda r: prose(r, r.randint(150, 200))),
    ("text-1000", r".{0,1000}", lambda r: prose(r, r.randint(800, 1000))),
    ("text-4000", r"(.|\n){1,4000}", lambda r: prose(r, 600) + "\n\n" + prose(r, 700)),
    ("text-any", r"(.|\n)*", lambda r: prose(r, 700) + "\n" + prose(r, 300)),
    ("contains-one", r".*approved.*", around(" approved ")),
    ("contains-two", r".*river.*bridge.*", around(" river ", " bridge ")),
    ("contains-foo-bar", r".*foo.*bar", lambda r: prose(r, 50) + "foo" + prose(r, 50) + "bar"),
    (
        "ends-with",
        r"[^\n]*(Answer|Conclusion): (yes|no|unknown)\.",
        lambda r: prose(r, r.randint(60, 160)) + f" Answer: {r.choice(['yes', 'no', 'unknown'])}.",
    ),
    (
        "reason-then-answer",
        r"(Reasoning: [^\n]{1,400}\n){1,5}Answer: -?[0-9]{1,9}",
        lambda r: (
            "".join(f"Reasoning: {prose(r, r.randint(60, 140))}\n" for _ in range(3))
            + f"Answer: {r.randint(-999, 99999)}"
        ),
    ),
    (
        "quoted-string",
        JSON_STRING,
        lambda r: json.dumps(prose(r, r.randint(40, 120)) + r.choice(["", '\n"quoted"', "\t\\path"])),
    ),
    (
        "quoted-list",
        rf"\[({JSON_STRING}(, {JSON_STRING}){{0,19}})?\]",
        lambda r: json.dumps([" ".join(words(r, 1, 4)) for _ in range(6)]),
    ),
    ("csv-rows", r"""(([^",\n]*|"[^"\n]*")(,([^",\n]*|"[^"\n]*")){4}\n){1,50}""", csv),
    (
        "key-value-log",
        r"""\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z (DEBUG|INFO|WARN|ERROR)( [a-z,;]+=([A-Za-z0-9_.-]+|"[^"\n]*"))+""",
        key_values,
    ),
    ("markdown-list", r"(- (\*\*[a-z]+\*\*: )?[^\n*]{1,120}\n){1,20}", markdown),
    ("title-words", r"([A-Z][a-z]+ ){3,20}", lambda r: title(r, 3, 20)),
    ("word-count-100", r"(\S+\s+){0,99}\S+", spaced),
    (
        "sentences",
        r"([A-Z][^.!?\n]{0,200}[.!?] ){1,10}",
        lambda r: "".join(s + " " for s in r.sample(SENTENCES, 4)),
    ),
    ("choice-1000-words", "|".join(CHOICE_WORDS), lambda r: r.choice(CHOICE_WORDS)),
    (
        "choice-1000-sentences",
        "|".join(s.replace(".", r"\.") for s in CHOICE_SENTENCES),
        lambda r: r.choice(CHOICE_SENTENCES),
    ),
    (
        "sql-select",
        rf"SELECT (\*|{IDENTIFIER}(, {IDENTIFIER})*) FROM {IDENTIFIER}( WHERE {IDENTIFIER} (=|<|>|<=|>=) ([0-9]+|'[^']*')"
        rf"( AND {IDENTIFIER} (=|<|>|<=|>=) ([0-9]+|'[^']*'))*)?( ORDER BY {IDENTIFIER}( ASC| DESC)?)?( LIMIT [0-9]+)?;",
        sql,
    ),
    (
        "json-object",
        rf'\{{"name": {JSON_STRING}, "age": (0|[1-9][0-9]{{0,2}}), "email": "[a-z0-9.+@-]{{3,100}}", "tags": \[({JSON_STRING}(, {JSON_STRING})*)?\]\}}',
        json_object,
    ),
    ("xml-tag", r"""<item( [a-z]+="[^"<&]*")*>[^<&]*</item>""", xml),
    ("hex-dump", r"([0-9a-f]{8}  ([0-9a-f]{2} ){15}[0-9a-f]{2}\n){1,64}", hex_dump),
    (
        "base64",
        r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
        lambda r: "".join(
            r.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=4 * r.randint(10, 30))
        ),
    ),
    ("unicode-words", r"(\w+[ ,]){1,30}\w+", lambda r: " ".join(r.choices(UNICODE, k=12))),
    (
        "letters-any-script",
        r"[^\x00-\x7f]{1,100}",
        lambda r: "".join(c for w in r.choices(UNICODE[5:13], k=12) for c in w if ord(c) > 127),
    ),
    (
        "walk-alternatives",
        r"((red|green|blue|yellow) (circle|square|triangle|hexagon)(, | and )?){1,30}",
        None,
    ),
    ("walk-nested-counts", r"(([a-z]{1,8}-){0,4}[0-9]{1,4}[;,] ?){1,50}", None),
]


def main() -> None:
    rows = []
    for title_, pattern, recipe in TABLE:
        samples: list[str] = []
        r = random.Random(f"guiderail {title_}")
        while recipe is not None and sum(map(len, samples)) < CHARACTERS:
            text = recipe(r)
            if re.fullmatch(pattern, text) is None:
                raise SystemExit(f"{title_}: the recipe made a text that does not match: {text!r}")
            samples.append(text)
        rows.append({"name": title_, "pattern": pattern, "samples": samples})
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    OUT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(rows)} patterns, {OUT.stat().st_size:,} bytes: {OUT.name}")


if __name__ == "__main__":
    main()
