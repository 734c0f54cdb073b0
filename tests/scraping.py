"""Scrapes and probes as Prometheus and Kubernetes make them."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def get(url: str) -> tuple[int, str]:
    """Status and body."""
    return await asyncio.to_thread(_get, url)


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=15) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def parsed(text: str) -> Samples:
    """By Prometheus's own parser; no sample stands twice."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, key
            found[key] = sample.value
    return found


async def scrape(url: str) -> Samples:
    status, text = await get(f"{url}/metrics")
    assert status == 200, text
    return parsed(text)


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


async def until(url: str, holds: Callable[[Samples], bool]) -> Samples:
    """The first scrape for which that holds: some figures follow the rows after a moment."""
    async with asyncio.timeout(20):
        while not holds(samples := await scrape(url)):  # noqa: ASYNC110 - a page has no event
            await asyncio.sleep(0.05)
    return samples


async def until_ready(url: str, status: int, reason: str) -> str:
    """The text of the first answer of /readyz with this status that contains the reason."""
    async with asyncio.timeout(20):
        while True:
            answer = await get(f"{url}/readyz")
            if answer[0] == status and reason in answer[1]:
                return answer[1]
            await asyncio.sleep(0.05)
