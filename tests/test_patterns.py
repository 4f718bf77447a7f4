"""Ready-made patterns: tables of texts, and the standard library as an oracle."""

from __future__ import annotations

import base64 as std_base64
import binascii
import calendar
import datetime as dt
import ipaddress
import json
import re
import uuid as std_uuid

import pytest
from hypothesis import example, given, settings, strategies as st

import guiderail as gr
from guiderail import CompileError, patterns as p

FAST = settings(deadline=None, derandomize=True, max_examples=300)

TABLE = {
    "email": (
        p.email(),
        ["a@b.cd", "first.last+tag@sub.example.org", "o'neil@x-y.io", "a" * 64 + "@b.cd", "x@1a.com"],
        [
            "a@b",
            "a.@b.cd",
            ".a@b.cd",
            "a..b@c.de",
            "a b@c.de",
            "a@-b.cd",
            "a@b.c1-",
            "a@b.1c",
            "a" * 65 + "@b.cd",
            "@b.cd",
            "a@",
            "a@b..cd",
            "é@b.cd",
            "a@" + "b" * 64 + ".cd",
            "a@" + "b." * 125 + "cde",
        ],
    ),
    "phone_e164": (
        p.phone_e164(),
        ["+15551234567", "+12", "+123456789012345"],
        ["15551234567", "+0123", "+1", "+1 555", "+1234567890123456"],
    ),
    "uuid": (
        p.uuid(),
        ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-42661417400F"],
        ["123e4567e89b12d3a456426614174000", "g23e4567-e89b-12d3-a456-426614174000"],
    ),
    "uuid4": (
        p.uuid(4),
        ["123e4567-e89b-42d3-a456-426614174000"],
        ["123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"],
    ),
    "url": (
        p.url(),
        [
            "http://a",
            "https://www.example.org/",
            "http://u:p@h.io:8080/a/b;c?x=1&y=%20#f/?",
            "http://1.2.3.4",
            "http://[::1]:80/",
            "https://localhost:0?q",
            "http://a.b:65535",
            "http://a:",
            "http://x/@:!$&'()*+,;=",
        ],
        [
            "ftp://a",
            "http:/a",
            "http://",
            "http://a b",
            "http://a:65536",
            "http://[::1",
            "http://999.1.1.1",
            "http://a/%2",
            "http://a/é",
            "HTTP://a",
            "http://-a",
            "http://a/[",
            "www.example.org",
            "http://a#b#c",
        ],
    ),
    "url schemes": (p.url(schemes=("ws", "wss")), ["ws://a", "wss://a"], ["http://a"]),
    "hostname": (
        p.hostname(),
        ["a", "localhost", "a-b.c1", "xn--bcher-kva.example", "1.a", "a" * 63 + ".b"],
        ["", "-a", "a-", "a..b", ".a", "a.", "a_b", "1.2.3.4", "a" * 64, ".".join(["abcdefg"] * 32)],
    ),
    "ipv4": (
        p.ipv4(),
        ["0.0.0.0", "255.255.255.255", "1.20.199.249"],
        ["256.0.0.0", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3.4 "],
    ),
    "mac_address": (
        p.mac_address(),
        ["00:1A:2b:3c:4d:5e", "00-1A-2b-3c-4d-5e"],
        ["00:1A:2b:3c:4d", "00:1A-2b:3c:4d:5e", "001A2b3c4d5e"],
    ),
    "date": (
        p.date(),
        ["2024-02-29", "2000-02-29", "1999-12-31", "0001-01-01"],
        ["2023-02-29", "1900-02-29", "2024-04-31", "0000-01-01", "2024-1-1", "2024-13-01", "2024-00-10", "2024-01-00"],
    ),
    "time": (
        p.time(),
        ["00:00:00", "23:59:59.123Z", "12:30:00+05:30"],
        ["24:00:00", "12:60:00", "12:30", "12:30:60", "12:30:00.", "12:30:00+24:00", "1:2:3"],
    ),
    "time none": (p.time(offset="none"), ["01:02:03"], ["01:02:03Z"]),
    "datetime": (
        p.datetime(),
        ["2024-02-29T12:00:00Z", "1985-04-12T23:20:50.52-08:00"],
        ["2024-02-29T12:00:00", "2024-02-30T12:00:00Z", "2024-02-29 12:00:00Z"],
    ),
    "datetime optional": (p.datetime(offset="optional"), ["2024-02-29T12:00:00"], ["2024-02-29"]),
    "duration": (
        p.duration(),
        ["P3Y6M4DT12H30M5S", "P2W", "PT1S", "P1D", "P1Y2M", "PT36H"],
        ["P", "PT", "P1", "P1S", "P1Y1D", "PT1H1S", "P1W1D", "1D", "P1DT", "P1.5D"],
    ),
    "semver": (
        p.semver(),
        ["0.0.4", "1.2.3-alpha.1+build.5", "1.0.0-0A.is.legal", "1.0.0+001", "1.0.0--.x", "2.0.0-rc.1+b-1"],
        ["1", "1.2", "01.1.1", "1.1.1-01", "1.1.1-", "1.1.1+", "1.1.1-a..b", "v1.0.0", "1.1.1+a+b"],
    ),
    "slug": (p.slug(), ["a", "a-title-2"], ["", "-a", "a-", "a--b", "A"]),
    "identifier": (p.identifier(), ["a", "_a1"], ["", "1a", "a-b", "é"]),
    "integer": (p.integer(), ["0", "-0", "-12", "100"], ["", "01", "+1", "1.0", "-"]),
    "number": (p.number(), ["0", "-0.5", "1e10", "1.25E-3"], [".5", "1.", "01", "1e", "+1", "0x1", "NaN"]),
    "hex_color": (
        p.hex_color(),
        ["#fff", "#FFFA", "#00ff7f", "#00ff7f80"],
        ["fff", "#ff", "#fffff", "#1234567", "#ggg"],
    ),
    "base64": (p.base64(), ["", "YQ==", "YWI=", "YWJj", "+/+/"], ["YQ", "YR==", "Y===", "YWJ=", "YQ==YQ==", "YW J"]),
    "base64 url": (p.base64(url_safe=True), ["-_-_"], ["+/+/"]),
    "jwt": (p.jwt(), ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"], ["a.b", "..", "YQ.YQ", "YQ==.YQ.YQ", "YR.YQ.YQ"]),
}


@pytest.mark.parametrize("name", TABLE)
def test_accepted_and_refused(name):
    constraint, accepted, refused = TABLE[name]
    assert [text for text in accepted if not constraint.matches(text)] == []
    assert [text for text in refused if constraint.matches(text)] == []


def test_every_pattern_has_a_row_and_a_docstring():
    tested = {name.split()[0] for name in TABLE}
    assert set(p.__all__) == tested - {"uuid4"} | {"ipv6", "hex_color"}
    assert all(getattr(p, name).__doc__ for name in p.__all__)


def reads(parse, text):
    try:
        parse(text)
    except ValueError:
        return False
    return True


DIGITS = st.text("0123456789", min_size=1, max_size=3)


@FAST
@given(st.lists(DIGITS, min_size=3, max_size=5).map(".".join))
def test_ipv4_is_that_of_ipaddress(text):
    assert p.ipv4().matches(text) == reads(ipaddress.IPv4Address, text)


@settings(FAST, max_examples=800)
@given(
    st.lists(st.sampled_from(["", "0", "a", "1F", "abcd", "12345", "1.2.3.4", "1.2.3.400"]), min_size=1, max_size=9)
    .map(":".join)
    .flatmap(lambda text: st.sampled_from([text, "::" + text, text + "::", text.replace(":", "::", 1)]))
)
@example("::")
@example("1:2:3:4:5:6:7::")
@example("::2:3:4:5:6:7:8")
@example("1::3:4:5:6:7:8")
@example("1:2:3:4:5:6:1.2.3.4")
@example("::ffff:1.2.3.4")
@example("1:2:3:4:5:6:7:1.2.3.4")
def test_ipv6_is_that_of_ipaddress(text):
    assert p.ipv6().matches(text) == reads(ipaddress.IPv6Address, text), text


@FAST
@given(st.ip_addresses(v=6))
def test_every_ipv6_address_is_matched(address):
    assert p.ipv6().matches(str(address)) and p.ipv6().matches(address.exploded.upper())
    assert p.url().matches(f"https://[{address}]:443/")


@FAST
@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
@example(1900, 2, 29)
@example(2000, 2, 29)
def test_dates_are_those_of_the_calendar(year, month, day):
    text = f"{year:04}-{month:02}-{day:02}"
    assert p.date().matches(text) == reads(dt.date.fromisoformat, text)


def test_every_day_of_some_years():
    for year in (1, 4, 100, 400, 1900, 1996, 2000, 2023, 2100, 9999):
        for month in range(1, 13):
            last = calendar.monthrange(year, month)[1]
            found = [day for day in range(1, 32) if p.date().matches(f"{year:04}-{month:02}-{day:02}")]
            assert found == list(range(1, last + 1))


@FAST
@given(st.datetimes(timezones=st.timezones() | st.just(dt.timezone.utc)))
def test_every_datetime_is_matched(moment):
    text = moment.isoformat()
    if re.fullmatch(r".*[+-]\d\d:\d\d", text):  # local mean times have seconds in their offset
        assert p.datetime().matches(text)
        assert p.date().matches(text[:10]) and p.time(offset="required").matches(text[11:])


@FAST
@given(st.uuids())
def test_uuids(value):
    assert p.uuid().matches(str(value))
    assert [v for v in range(1, 9) if p.uuid(v).matches(str(value))] == (
        [value.version] if value.version in range(1, 9) else []
    )


@FAST
@given(st.text("0123456789+-.eE", max_size=7))
def test_numbers_are_those_of_json(text):
    assert p.number().matches(text) == reads(json.loads, text), text
    assert p.integer().matches(text) == (reads(json.loads, text) and not set(text) & set(".eE"))


@FAST
@given(st.binary(max_size=12))
def test_base64_is_that_of_the_library(data):
    assert p.base64().matches(std_base64.b64encode(data).decode())
    assert p.base64(url_safe=True).matches(std_base64.urlsafe_b64encode(data).decode())
    part = std_base64.urlsafe_b64encode(data + b"x").decode().rstrip("=")
    assert p.jwt().matches(f"{part}.{part}.{part}")


@FAST
@given(st.text("AQgwBY+/=", max_size=9))
def test_base64_refuses_what_does_not_encode_back(text):
    try:
        back = std_base64.b64encode(std_base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError):
        back = None
    assert p.base64().matches(text) == (back == text)


@settings(FAST, max_examples=100)
@given(st.emails(domains=st.sampled_from(["example.org", "a.b-c.de"])))
def test_common_emails(address):
    local = address.split("@")[0]
    assert p.email().matches(address) == (len(local) <= 64)


def test_options_are_checked():
    for call in (
        lambda: p.uuid(9),
        lambda: p.time(offset="maybe"),
        lambda: p.datetime(offset=""),
        lambda: p.url(schemes=()),
        lambda: p.url(schemes=("h ttp",)),
        lambda: p.url(schemes="http"),
        lambda: p.uuid(True),
        lambda: p.uuid(4.0),  # type: ignore[arg-type]
    ):
        with pytest.raises(CompileError):
            call()


def test_patterns_combine():
    line = gr.sequence("at ", p.datetime(), " from ", p.ipv4() | p.ipv6())
    assert line.matches("at 2024-05-06T07:08:09Z from ::1")
    assert str(std_uuid.UUID(int=0))
