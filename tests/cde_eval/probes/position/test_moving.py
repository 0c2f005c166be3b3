import random

import pytest

from cde_eval.probes.position.moving import insertion_points, moved_passages

TEXT = "aa bb cc dd ee"  # 14 characters, the passage is "bb"


def test_a_passage_moved_by_hand_is_met_character_for_character():
    moved = moved_passages(TEXT, 3, 5)
    # I = 0, 1⅓, 2⅔, 4, 5⅓, 6⅔, 8, 9⅓, 10⅔, 12; words of "aa cc dd ee" begin at 0, 3, 6, 9, and
    # behind the last is 12: the nearest are 0, 0, 3, 3, 6, 6, 9, 9, 12, 12.
    expected = {
        0: "bb aa cc dd ee",
        3: "aa bb cc dd ee",
        6: "aa cc bb dd ee",
        9: "aa cc dd bb ee",
        12: "aa cc dd ee bb",
    }
    assert [one.start for one in moved] == [0, 0, 3, 3, 6, 6, 9, 9, 12, 12]
    assert all(one.text == expected[one.start] for one in moved)


def test_insertion_points_are_those_of_the_paper():
    assert insertion_points(1_000, 100) == [(i - 1) * (1_000 - 100) / 9 for i in range(1, 11)]


def test_by_characters_nothing_but_the_passage_moves():
    moved = moved_passages("abcdefghijk", 3, 5, borders="characters")  # "de" of 11: I = 0, 1, …, 9
    rest = "abcfghijk"
    assert [one.text for one in moved] == [rest[:i] + "de" + rest[i:] for i in range(10)]


def test_by_paragraphs_no_paragraph_is_cut():
    text = "first one\n\nthe passage\n\nthird one is longer\n\nfourth"
    start = text.index("the passage")
    for one in moved_passages(text, start, start + 11, borders="paragraphs"):
        assert sorted(one.text.split("\n\n")) == sorted(text.split("\n\n"))


def _documents():
    rng = random.Random(1)
    for _ in range(60):
        gaps = rng.choices([" ", "\n\n", "  ", "\n"], k=40)
        words = ["".join(rng.choices("abcdef", k=rng.randint(1, 9))) for _ in gaps]
        text = "".join(word + gap for word, gap in zip(words, gaps, strict=True)).strip()
        start = rng.choice([0, *(i + 1 for i, c in enumerate(text) if c.isspace())])
        while text[start].isspace():
            start += 1
        end = min(start + rng.randint(5, 60), len(text))
        while end < len(text) and not text[end].isspace():
            end += 1
        yield text, start, len(text[:end].rstrip())


@pytest.mark.parametrize("borders", ["words", "paragraphs", "characters"])
def test_every_place_keeps_length_passage_and_every_character_of_the_rest(borders):
    for text, start, end in _documents():
        passage, rest = text[start:end], text[:start] + text[end:]
        for one in moved_passages(text, start, end, borders=borders):
            assert len(one.text) == len(text)
            assert one.text[one.start : one.start + len(passage)] == passage
            left = one.text[: one.start] + one.text[one.start + len(passage) :]
            assert sorted(left) == sorted(rest)
            assert "".join(left.split()) == "".join(rest.split())  # in the same order


@pytest.mark.parametrize("borders", ["words", "paragraphs", "characters"])
def test_the_first_place_is_the_beginning_and_the_last_the_end(borders):
    for text, start, end in _documents():
        moved = moved_passages(text, start, end, borders=borders)
        assert moved[0].start == 0
        assert moved[-1].text.endswith(text[start:end])
        assert moved[-1].start == len(text) - (end - start)


def test_no_word_is_cut_or_glued_to_another():
    for text, start, end in _documents():
        for one in moved_passages(text, start, end):
            assert sorted(one.text.split()) == sorted(text.split())


def test_a_place_is_the_word_border_nearest_to_where_it_was_wanted():
    text = " ".join(f"word{number:03}" for number in range(200))
    for one in moved_passages(text, 80, 87):
        assert abs(one.start - one.wanted) <= 4  # words are 7 letters and a space
