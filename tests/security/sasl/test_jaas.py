"""Valid and invalid JAAS lines; Apache Kafka 4.3.1's JaasConfig was given each."""

from __future__ import annotations

import pytest

from kwire.security.sasl.jaas import JaasError, parse_module, parse_modules

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ('M required user_a="x" user_b="y";', {"user_a": "x", "user_b": "y"}),
        ("M required user_a='x y';", {"user_a": "x y"}),
        ("M  REQUIRED\n  user_a=x\n;", {"user_a": "x"}),
        ('M optional a="quoted \\"here\\"";', {"a": 'quoted "here"'}),
        ('M required a="\\101\\t\\\\";', {"a": "A\t\\"}),
        ('M required a="1"; // the end', {"a": "1"}),
        ('M required /* who */ a="1" /* and */;', {"a": "1"}),
        ('M required / a="0"\n a="1";', {"a": "1"}),
        ('M required a="1" a="2";', {"a": "2"}),
        ("M required a=b-c_d$e.f;", {"a": "b-c_d$e.f"}),
        ("M required;", {}),
        ('M required a="ü, € =;";', {"a": "ü, € =;"}),
        ('M required a="";', {"a": ""}),
        ('M required "user_x y"="z";', {"user_x y": "z"}),
    ],
)
def test_jaas_options_are_parsed_like_kafka(line: str, options: dict[str, str]) -> None:
    assert parse_module(line).options == options


def test_jaas_module_and_flag_are_parsed() -> None:
    module = parse_module(f'{PLAIN} Requisite username="admin";')
    assert module.name == PLAIN
    assert module.flag == "requisite"


def test_jaas_line_with_several_modules_is_refused() -> None:
    assert [each.name for each in parse_modules("A required; B optional x=y;")] == ["A", "B"]
    with pytest.raises(JaasError, match="contains 2 login modules, should be 1"):
        parse_module("A required; B optional x=y;")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "Login module not specified"),
        ("   // nothing", "Login module not specified"),
        ("M", "M must be followed by one of required, requisite, sufficient, optional"),
        ('M user_a="hidden";', "Invalid login module control flag"),
        ('M required user_a="hidden"', "not terminated by semi-colon"),
        ("M required user_a;", "'required' must be followed by name="),
        ("M required user_a=;", "'required' must be followed by name="),
        ('M required user_a=12345 user_b="x";', "'required' must be followed by"),
        ('M required user_a="hid"den";', "'user_a' must be followed by"),
        ('M required user_a="hidden\n";', "not terminated|'user_a' must be followed"),
        ('= required a="b";', "Login module not specified"),
    ],
)
def test_jaas_error_has_no_secret(line: str, sentence: str) -> None:
    with pytest.raises(JaasError, match=sentence) as told:
        parse_module(line)
    for secret in ("hidden", "hid", "den", "12345"):
        assert f"'{secret}" not in str(told.value)
    assert "hidden" not in str(told.value)


def test_login_module_repr_has_no_options() -> None:
    assert "hidden" not in repr(parse_module('M required password="hidden";'))
