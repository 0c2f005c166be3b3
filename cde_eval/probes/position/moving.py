"""Move a passage within its document, to the character.

    before  P  after  ──▶  what is left without P  ──▶  … P …  at ten places

A place is where the passage's first character comes to stand. With the length of the document
l_d and of the passage l_p, the ten places are I_i = (i − 1)(l_d − l_p) / 9: the first moves the
passage to the beginning, the last to the end.

The paper does not say what becomes of a word in the middle of which a place falls. Here the place
is the nearest one between two words (or paragraphs), and the white space that stood after the
passage moves along, so that no word is cut or glued to another. Every character of the document
is kept, so its length is too. `characters` moves nothing but the passage, to the exact place.

Source: Coelho et al. (2024), section 4.2, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from typing import Literal

PLACES = 10

Borders = Literal["words", "paragraphs", "characters"]
"""Between what a passage may come to stand."""

_BORDERS = {"words": re.compile(r"\s+(?=\S)"), "paragraphs": re.compile(r"\n\n+(?=\S)")}
_SPACE_AFTER = re.compile(r"\s*")
_SPACE_BEFORE = re.compile(r"\s*\Z")


@dataclass(frozen=True, slots=True)
class Moved:
    """A document with its passage at another place."""

    text: str
    start: int
    """Where the passage stands now."""

    wanted: float
    """Where it was to stand, before a border was looked for."""


def insertion_points(document: int, passage: int, places: int = PLACES) -> list[float]:
    """Evenly spaced offsets for a passage of `passage` of a document's `document` characters."""
    return [number * (document - passage) / (places - 1) for number in range(places)]


def moved_passages(
    text: str, start: int, end: int, *, borders: Borders = "words", places: int = PLACES
) -> list[Moved]:
    """The document with its passage at each place, from the beginning to the end.

    Args:
        text: The document.
        start: Offset of the passage.
        end: Offset after the passage.
        borders: Between what the passage may stand; "characters" for anywhere.
        places: How many.
    """
    passage, points = text[start:end], insertion_points(len(text), end - start, places)
    if borders == "characters":
        rest = text[:start] + text[end:]
        rounded = [(round(point), point) for point in points]
        return [Moved(rest[:o] + passage + rest[o:], o, point) for o, point in rounded]
    before, space, after = _apart(text, start, end)
    rest = before + after
    inner = [border.end() for border in _BORDERS[borders].finditer(rest)]
    last = len(text) - len(passage)
    moved = []
    for point in points:
        place = _nearest([0, *inner, last], point)
        whole = (
            f"{rest}{space}{passage}"
            if place == last
            else f"{rest[:place]}{passage}{space}{rest[place:]}"
        )
        moved.append(Moved(whole, place, point))
    return moved


def _apart(text: str, start: int, end: int) -> tuple[str, str, str]:
    """What stands before the passage, the white space that goes with it, and what stands after.

    The space is that after the passage; of a passage at the end of its document, that before it.
    """
    before, after = text[:start], text[end:]
    if after.strip():
        space = _found(_SPACE_AFTER.match(after))
        return before, space, after[len(space) :]
    space = _found(_SPACE_BEFORE.search(before))
    return before[: len(before) - len(space)], space, after


def _found(match: re.Match[str] | None) -> str:
    assert match is not None  # both patterns match the empty string
    return match[0]


def _nearest(rising: list[int], wanted: float) -> int:
    number = bisect.bisect_left(rising, wanted)
    near = rising[max(0, number - 1) : number + 1]
    return min(near, key=lambda place: abs(place - wanted))
