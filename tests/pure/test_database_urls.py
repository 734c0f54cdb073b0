"""Database URLs: which forms are accepted, and that no text form shows a password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from horsies.config.app import AppConfig, PostgresConfig
from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.masking import mask, mask_urls, mask_whole, mask_word


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+asyncpg"])
def test_each_documented_scheme_names_the_same_database(scheme: str) -> None:
    url = DatabaseUrl.parse(f"{scheme}://ops:pw@db01:5433/app")
    assert url.secret_text == "postgresql://ops:pw@db01:5433/app"
    assert (url.user, url.hosts, url.database) == ("ops", ("db01:5433",), "app")
    assert url.label == "db01:5433/app"


@pytest.mark.parametrize(
    ("text", "hosts", "secret_text"),
    [
        ("postgresql://ops@a:1,b/app?x=y", ("a:1", "b:5432"), "postgresql://ops@a:1,b/app?x=y"),
        ("postgresql:///app?host=a,b&port=1,2", ("a:1", "b:2"), None),
        ("postgresql:///app?host=a,b&port=7", ("a:7", "b:7"), None),
        (
            "postgresql://ops@/app?host=a:1&host=b:2&host=c",
            ("a:1", "b:2", "c:5432"),
            "postgresql://ops@/app?host=a:1,b:2,c",
        ),
        ("postgresql://ops@[::1]:5433/app", ("[::1]:5433",), None),
        ("postgresql://ops@[::1]/app", ("[::1]:5432",), None),
        ("postgresql+psycopg://h@/d?host=/var/run/pg", ("/var/run/pg",), "postgresql://h@/d?host=/var/run/pg"),
        ("postgresql://ops:@db/app", ("db:5432",), "postgresql://ops@db/app"),  # so that .pgpass is asked
        (
            "postgresql://ops:a@b@db/app",
            ("db:5432",),
            "postgresql://ops:a%40b@db/app",
        ),  # asyncpg ends it at the first '@'
    ],
)
def test_hosts_keep_their_order_and_the_driver_gets_the_url_whole(
    text: str, hosts: tuple[str, ...], secret_text: str | None
) -> None:
    url = DatabaseUrl.parse(text)
    assert url.hosts == hosts
    assert secret_text is None or url.secret_text == secret_text


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
        ("postgresql://u:hunter2@h:70000/db", "port is not a number from 1 to 65535"),
        ("postgresql://u:hunter2@h:x/db", "port is not a number"),
        ("postgresql://u:hunter2", "if that was the password, add @host"),
        ("postgresql://u:hunter2/db", "if that was the password, add @host"),
        ("postgresql://u:1:hunter2/db", "a host contains a ':'"),
        ("postgresql://u:pa[hunter2]x@h/d", "bracket"),
        ("postgresql://u:hunter2\uff1f@h/d", "a character looks like one of"),
        ("postgresql://u:hun/ter2@h/d", "%2F"),
        ("postgresql://u:hun?ter2@h/d", "has no '='"),
        ("postgresql://u:hun?x=ter2@h/d", "%3F"),
        ("postgresql://u:5432/hunter2@h/d", "%40"),
        ("postgresql://u:hunter2@a,b,/d", "a comma between hosts"),
        ("postgresql://u@/d?host=a,b,", "a comma between hosts"),
        ("postgresql://u@h/d#?password=hunter2 hunter2", "'#'"),
        ("u:hunter2@h/d?x=mysql://h", "no scheme"),
        ("postgresql://u@h/d?password=hun&ter2", "has no '='"),
        ("host=db password='hunter2 hunter2' dbname=app", "no scheme"),
        ("postgresql://u:hunter2#x@h/db", "'#'"),
        ("postgresql://u:hunter2@[::1/db", "IPv6"),
        ("postgresql://u:hunter2@h/db?connect_timeout=soon", "connect_timeout='soon' is not a number of seconds"),
        ("embedded://relative/path", "no absolute directory"),
        ("embedded:/srv/demo", "no absolute directory"),
        ("EMBEDDED:///srv/demo", "no absolute directory"),
        ("embedded:///srv/demo?port=1", "takes no settings"),
        ("", "no scheme"),
    ],
)
def test_a_url_that_is_none_of_ours_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        DatabaseUrl.parse(text)
    assert caught.value.code is ErrorCode.BROKER_INVALID_URL
    assert reason in caught.value.message
    assert caught.value.help_text
    for part in ("hunter2", "ter2", "hun/", "hun?", "hun&"):
        assert part not in str(caught.value)


def test_a_name_is_a_directory_of_the_embedded_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HORSIES_HOME", str(tmp_path))
    url = DatabaseUrl.parse("embedded://shop")
    assert url.embedded_directory == tmp_path / "shop"
    assert url == DatabaseUrl.parse(url.secret_text)


@pytest.mark.parametrize("text", ["embedded:/x", "EMBEDDED://", "embedded://x/y", "embedded://..", "embedded:///x?y=1"])
def test_a_misspelt_embedded_url_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        DatabaseUrl.parse(text)
    assert "write embedded:///absolute/path" in (caught.value.help_text or "")


PRINTABLE = st.characters(exclude_categories=["C", "Z"]) | st.just(" ")
# Its head and tail are searched for: a password of two letters may occur in any URL by chance.
PASSWORDS = st.text(PRINTABLE, max_size=8).map("hun{}ter2".format)


def shows(text: str, password: str) -> bool:
    return password in text or quote(password, safe="") in text or "ter2" in text


@given(password=PASSWORDS)
def test_no_text_form_shows_the_password(password: str) -> None:
    encoded = quote(password, safe="")
    text = f"postgresql+psycopg://ops:{encoded}@db01/app?sslpassword={encoded}&pass%77ord={encoded}"
    config = PostgresConfig(database_url=text)
    url = config.url
    for shown in (str(url), repr(url), url.label, repr(config), str(config), mask(text), mask_whole(text)):
        assert not shows(shown, password)
    assert f"ops:{encoded}@" in url.secret_text


@given(password=PASSWORDS, shape=st.sampled_from(["ops:{}@db01/app", "ops:{}@a,b:x/d?password={}", ":{}@db01", "{}"]))
def test_a_raw_password_is_shown_neither_by_a_url_nor_by_its_refusal(password: str, shape: str) -> None:
    """Half of these are refused and half are accepted, depending on the characters."""
    raw = shape.replace("{}", password) if shape != "{}" else f"ops:{password.replace('@', '')}"
    for text in (f"postgresql://{raw}", raw, f"mysql://{raw}"):
        try:
            shown = str(DatabaseUrl.parse(text))
        except ConfigurationError as refused:
            shown = str(refused)
        assert not shows(shown, password), shown


@given(password=PASSWORDS.map(lambda text: text.replace("@", "")))
def test_a_raw_password_in_the_middle_of_a_sentence_is_masked(password: str) -> None:
    assert not shows(mask(f"cannot reach postgresql://ops:{password}@db01/app now"), password)
    assert not shows(mask(f"cannot reach postgresql://ops:{password.replace(' ', '')} now"), password)


@pytest.mark.parametrize(
    "text",
    [
        "password = hunter2",
        "password='hun ter2'",
        "x?pass%77ord=hunter2",
        "PGPASSWORD=hunter2",
        "//u:a@h/d?password=hun@ter2",
        "//u:hunter2/db",
        "//u:h@2",
    ],
)
def test_each_way_to_write_a_password_is_masked(text: str) -> None:
    assert "***" in mask(text)
    assert "ter2" not in mask(text)


@pytest.mark.parametrize(
    "text",
    ["at postgresql://h:5432/app: refused", "postgresql://ops@[::1]:5433/app", "http://h:80", "//a:1,b:2/c", "a: b"],
)
def test_a_text_without_password_stays_as_it_is(text: str) -> None:
    assert mask(text) == text


def test_a_name_is_masked_only_where_it_may_be_a_url() -> None:
    assert [mask_word(word) for word in ("shop.tasks:app", "prod:eu")] == ["shop.tasks:app", "prod:eu"]
    for word in ("postgresql://u:hun ter2", "u:hunter2@h", "postgresql://u:hunter2@h/d"):
        assert "ter2" not in mask_word(word)


@pytest.mark.parametrize(
    "fails",
    [
        lambda: setattr(PostgresConfig(database_url="postgresql://h/d"), "database_url", "postgresql://u:hunter2@h/d"),
        lambda: PostgresConfig(database_url="postgresql://h/d", pool_size="postgresql://u:hunter2@h/d"),  # type: ignore[arg-type]
        lambda: AppConfig(broker={"database_ur": "postgresql://u:hunter2@h/d"}),  # type: ignore[arg-type]
        lambda: AppConfig.model_validate({"broker": "postgresql://u:hunter2@h/d"}),
    ],
)
def test_a_pydantic_error_holds_no_input(fails: Callable[[], object]) -> None:
    with pytest.raises(ValidationError) as caught:
        fails()
    error = caught.value
    assert error.errors()[0]["loc"]
    for shown in (str(error), repr(error), str(error.errors()), error.json(), str(error.__context__)):
        assert "hunter2" not in shown


def test_a_broker_url_is_checked_when_it_is_configured() -> None:
    with pytest.raises(ConfigurationError, match="HRS-203"):
        PostgresConfig(database_url="sqlite:///tasks.db")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("no 'postgresql://u:a@b@h/d' here", "no 'postgresql://u:***@h/d' here"),
        ("'//u:p@h/d' in it", "'//u:***@h/d' in it"),
        ("postgresql://u:p w@h, h", "postgresql://u:***@h, h"),
        ("postgresql://u@h/d?x=1&pass%77ord=p", "postgresql://u@h/d?x=1&pass%77ord=***"),
        ("postgresql:///d?options=-c%20shop.token%3Dp&host=h", "postgresql:///d?options=***&host=h"),
        ("postgresql:///d?options=-c%20search_path%3Dbilling", "postgresql:///d?options=-c%20search_path%3Dbilling"),
        ("password=p at http://h:80/ of bob@h, // a:b", "password=p at http://h:80/ of bob@h, // a:b"),
    ],
)
def test_what_is_printed_shows_no_password_of_a_url_and_all_else(line: str, shown: str) -> None:
    assert mask_urls(line) == shown
    assert len(mask_urls(line, keep_width=True)) == len(line)
    assert mask_urls(shown) == shown
