"""Database URLs: which forms are understood, and that no text form shows a password."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from horsies.config.broker import PostgresConfig
from horsies.config.url import DatabaseUrl, mask
from horsies.domain.errors import ConfigurationError, ErrorCode


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+asyncpg"])
def test_each_documented_scheme_names_the_same_database(scheme: str) -> None:
    url = DatabaseUrl.parse(f"{scheme}://ops:pw@db01:5433/app")
    assert url.secret_text == "postgresql://ops:pw@db01:5433/app"
    assert (url.user, url.hosts, url.database) == ("ops", ("db01:5433",), "app")
    assert url.label == "db01:5433/app"


def test_several_hosts_keep_their_order_and_ports() -> None:
    url = DatabaseUrl.parse("postgresql://ops@a:1,b/app?target_session_attrs=read-write")
    assert url.hosts == ("a:1", "b:5432")
    assert url.secret_text == "postgresql://ops@a:1,b/app?target_session_attrs=read-write"
    assert url.label == "a:1 +1/app"


def test_hosts_and_ports_may_stand_in_the_query() -> None:
    assert DatabaseUrl.parse("postgresql:///app?host=a,b&port=1,2").hosts == ("a:1", "b:2")
    assert DatabaseUrl.parse("postgresql:///app?host=a,b&port=7").hosts == ("a:7", "b:7")


def test_an_ipv6_address_is_not_taken_for_host_and_port() -> None:
    assert DatabaseUrl.parse("postgresql://ops@[::1]:5433/app").hosts == ("[::1]:5433",)
    assert DatabaseUrl.parse("postgresql://ops@[::1]/app").hosts == ("[::1]:5432",)


def test_a_socket_directory_is_kept_as_it_is() -> None:
    url = DatabaseUrl.parse("postgresql+psycopg://horsies@/horsies?host=/var/run/postgresql")
    assert url.hosts == ("/var/run/postgresql",)
    assert url.secret_text == "postgresql://horsies@/horsies?host=/var/run/postgresql"


def test_an_empty_password_is_left_out_so_that_pgpass_is_asked() -> None:
    assert DatabaseUrl.parse("postgresql://ops:@db/app").secret_text == "postgresql://ops@db/app"


def test_parameters_that_only_libpq_knows_are_not_sent_to_the_server() -> None:
    url = DatabaseUrl.parse("postgresql://o@db/app?sslmode=require&channel_binding=require&connect_timeout=3")
    assert url.secret_text == "postgresql://o@db/app?sslmode=require"
    assert url.connect_timeout_s == 3


def test_an_embedded_url_names_a_directory() -> None:
    url = DatabaseUrl.parse("embedded:///srv/demo%20data")
    assert str(url.embedded_directory) == "/srv/demo data"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mysql://u:hunter2@h/db", "mysql:// is not PostgreSQL"),
        ("u:hunter2@h/db", "no scheme"),
        ("postgresql://u:hunter2@h:70000/db", "port '70000' is not a number from 1 to 65535"),
        ("postgresql://u:hunter2@h:x/db", "port 'x' is not a number"),
        ("postgresql://u:hunter2#x@h/db", "'#'"),
        ("postgresql://u:hunter2@[::1/db", "IPv6"),
        ("postgresql://u:hunter2@h/db?connect_timeout=soon", "connect_timeout='soon' is not a number of seconds"),
        ("embedded://relative/path", "no absolute directory"),
        ("", "no scheme"),
    ],
)
def test_a_url_that_is_none_of_ours_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        DatabaseUrl.parse(text)
    assert caught.value.code is ErrorCode.BROKER_INVALID_URL
    assert reason in caught.value.message
    assert caught.value.help_text
    assert "hunter2" not in str(caught.value)


@given(password=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=8).map("secret{}".format))
def test_no_text_form_shows_the_password(password: str) -> None:
    text = f"postgresql+psycopg://ops:{password}@db01/app?sslpassword={password}"
    config = PostgresConfig(database_url=text)
    for shown in (str(config.url), repr(config.url), config.url.label, repr(config), str(config), mask(text)):
        assert password not in shown
    assert password in config.url.secret_text


def test_a_password_with_an_at_sign_is_masked_whole() -> None:
    assert mask("connect to postgresql://ops:a@b:c@db/app") == "connect to postgresql://ops:***@db/app"
    assert mask("host=db password=hunter2 user=ops") == "host=db password=*** user=ops"


def test_a_broker_url_is_checked_when_it_is_configured() -> None:
    with pytest.raises(ConfigurationError, match="HRS-203"):
        PostgresConfig(database_url="sqlite:///tasks.db")


def test_a_misspelt_field_does_not_print_the_url_beside_it() -> None:
    with pytest.raises(ValueError, match="database_url") as caught:
        PostgresConfig(url="postgresql://ops:hunter2@db/app")  # type: ignore[call-arg]
    assert "hunter2" not in str(caught.value)
