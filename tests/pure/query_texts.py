"""Hypothesis strategies for tests of the filter language: any text, partial filters, and valid ones."""

from __future__ import annotations

from hypothesis import strategies as st

from horsies.query.keys import KEYS

fragments = st.sampled_from(
    [
        *KEYS,
        *(f"{name}:" for name in KEYS),
        *KEYS["status"].values,
        *('"', "'", "\\", ",", ":", "-", " ", "\t", "*", "?", "…", "...", "..", ">", "<=", "=", "1h", "2", "%", "_"),
        *("send_*", "7f3a", "2026-11-18", "2026-11-18T14:05+02:00", "yes", "no", "error", "rerun", "\0", "\ud800", "é"),
    ]
)
any_text = st.text(max_size=40) | st.lists(fragments, max_size=12).map("".join)

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


values = storable.map(quoted) | st.sampled_from(["email", "send_*", "web-?", "a\\ b", "'it''s'", '"a b"*', "…1cd6ba9a"])
durations = st.sampled_from(["30s", "5m", "1h30m", "2d", "1.5h", "250ms"])
times = st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds"))
moments = durations | times
spans = st.tuples(st.sampled_from([">", ">=", "<", "<="]), durations).map("".join)
tries = st.sampled_from([">1", ">=2", "<4", "<=3", "2", "=3", "1..4", "2..", "..5"])


def _several(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=3).map(",".join)


texts = st.tuples(
    st.sampled_from(
        ["queue:", "name:", "error:", "worker:", "id:", "args:", "unique:", "-queue:", "-name:", "-id:", ""]
    ),
    _several(values),
).map("".join)
others = st.one_of(
    _several(st.sampled_from(["failed", "RUNNING", "retry", "live", "pending"])).map("status:{}".format),
    st.sampled_from(["-status:done", "-status:interrupted", "has:error", "-has:rerun", "has:unique", "-foo", "bar"]),
    st.sampled_from(["workflow:yes", "workflow:019a,7b", "-workflow:no", "-workflow:019a"]),
    moments.map("since:{}".format),
    moments.map("until:{}".format),
    tries.map("tries:{}".format),
    spans.map("wait:{}".format),
    spans.map("run:{}".format),
    spans.map("ended:{}".format),
    st.tuples(st.sampled_from([">", ">=", "<", "<="]), times).map("".join).map("ended:{}".format),
    times.map("ended:{}..".format),
)
filters = st.lists(texts | others, max_size=6).map(" ".join)
