import hashlib
import json
import shutil
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cde_core.errors import DataError
from cde_core.train.data.pairs import Pair, Pairs, write_pairs

MADE = (
    Pair("what is a cat", "An animal that purrs.", ("A dog.", "A tax."), "animals"),
    Pair("was ist süß? 🍬", "Zucker\nund Honig\u2028beide", (), "küche"),
    Pair("and a dog", "An animal that barks.", ("", "é" * 9), "animals"),
    Pair("nothing", "\x00", (), ""),
)
JUDGED = (
    Pair("q", "d", ("n", "m"), "x"),
    Pair("a", "b", (), "x", score=-0.25, label="zwölf"),
    Pair("c", "e", ("n",), "y", label="0", scores=(8.5, -1.25)),
    Pair("f", "g", ("o", "p"), "y"),
    Pair("h", "i", (), "y", score=5.0, label="zwölf", scores=(0.5,)),
)


def test_pairs_come_back_as_they_went_whatever_their_letters(tmp_path: Path):
    pairs = write_pairs(iter(MADE), tmp_path / "pairs")
    assert tuple(pairs) == MADE
    assert [pairs[i] for i in range(4)] == list(MADE) and pairs[-1] == MADE[3]
    assert len(pairs) == 4
    with pytest.raises(IndexError):
        pairs[4]
    opened = Pairs.open(tmp_path / "pairs")
    assert tuple(opened) == MADE and opened.digest == pairs.digest


def test_scores_labels_and_a_teacher_s_scores_come_back_where_there_are_any(tmp_path: Path):
    pairs = write_pairs(JUDGED, tmp_path / "pairs")
    assert tuple(pairs) == JUDGED and pairs.labels == ("zwölf", "0")
    assert pairs.scored.tolist() == [False, True, False, False, True]
    assert pairs.labelled.tolist() == [False, True, True, False, True]
    assert pairs.taught.tolist() == [False, False, True, False, True]
    assert pairs.label_of.tolist() == [-1, 0, 1, -1, 0]
    assert pairs.teacher_of_documents[[2, 4]].tolist() == [8.5, 0.5]
    assert pairs.teacher_of_negatives[2] == -1.25  # of the third negative of all, c's only one


def test_what_no_pair_has_takes_no_room(tmp_path: Path):
    pairs = write_pairs(MADE, tmp_path / "pairs")
    for name in ("scores.numbers", "labels.numbers", "teacher.documents", "teacher.negatives"):
        assert (pairs.folder / name).stat().st_size == 0
    assert not pairs.scored.any() and len(pairs.scored) == len(MADE)


def test_a_teacher_s_scores_are_one_for_each_document(tmp_path: Path):
    with pytest.raises(DataError, match="Pair 1 has 2 scores for a document and 2 negatives"):
        write_pairs([Pair("q", "d", ("n", "m"), scores=(1.0, 2.0))], tmp_path / "pairs")


def test_columns_are_read_in_any_order_and_more_than_once(tmp_path: Path):
    pairs = write_pairs(MADE, tmp_path / "pairs")
    assert pairs.queries([2, 0, 2]) == [MADE[2].query, MADE[0].query, MADE[2].query]
    assert pairs.documents(np.array([1])) == [MADE[1].document]
    assert pairs.queries([]) == []
    assert pairs.first_negative.tolist() == [0, 2, 2, 4, 4]
    assert pairs.negatives(range(4)) == ["A dog.", "A tax.", "", "é" * 9]
    assert pairs.domains == ("animals", "küche", "")
    assert pairs.domain_of.tolist() == [0, 1, 0, 2]
    assert pairs.domain_of.dtype == np.int32 and pairs.first_negative.dtype == np.int64


@pytest.mark.parametrize("row", [-1, 4])
def test_a_row_that_is_not_there_is_refused(tmp_path: Path, row: int):
    pairs = write_pairs(MADE, tmp_path / "pairs")
    with pytest.raises(IndexError):
        pairs.queries([0, row])


def test_many_pairs_are_iterated_over_the_edges_of_what_is_read_at_once(tmp_path: Path):
    made = [Pair(f"q{i}", f"d{i}", tuple(f"n{i}.{j}" for j in range(i % 3))) for i in range(2_500)]
    assert list(write_pairs(made, tmp_path / "pairs")) == made


def test_no_pairs_are_a_folder_too(tmp_path: Path):
    pairs = write_pairs([], tmp_path / "pairs")
    assert len(pairs) == 0 and list(pairs) == [] and pairs.first_negative.tolist() == [0]


# The digest


def test_the_digest_is_the_sha256_of_lengths_and_texts(tmp_path: Path):
    def numbers(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}q", *values)

    # How many texts, their lengths in bytes, then domain, query, document and negatives.
    first = numbers(4, 1, 2, 3, 2) + b"D" + b"qq" + b"ddd" + "ü".encode()
    second = numbers(3, 0, 1, 1) + b"q" + b"d"
    pairs = write_pairs([Pair("qq", "ddd", ("ü",), "D"), Pair("q", "d")], tmp_path / "pairs")
    assert pairs.digest == hashlib.sha256(first + second).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        [Pair("ab", "c"), Pair("d", "e")],
        [Pair("a", "bc"), Pair("d", "e", domain="x")],
        [Pair("a", "bc", ("d",)), Pair("", "e")],
        [Pair("d", "e"), Pair("a", "bc")],
        [Pair("a", "bc")],
        [Pair("a", "bc", score=1.0), Pair("d", "e")],
        [Pair("a", "bc", label="1"), Pair("d", "e")],
        [Pair("a", "bc"), Pair("d", "e", scores=(1.0,))],
    ],
)
def test_any_other_content_or_order_has_another_digest(tmp_path: Path, other: list[Pair]):
    pairs = write_pairs([Pair("a", "bc"), Pair("d", "e")], tmp_path / "pairs")
    assert write_pairs(other, tmp_path / "other").digest != pairs.digest


# Writing


def test_writing_holds_no_pairs_but_the_one_at_hand(tmp_path: Path):
    def many() -> Iterator[Pair]:  # 60 MB of text, were it held
        for number in range(20_000):
            yield Pair(f"{number} ".ljust(1_500), f"{number} ".ljust(1_500), (), str(number % 7))

    tracemalloc.start()
    pairs = write_pairs(many(), tmp_path / "pairs")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(pairs) == 20_000
    assert most < 12 << 20  # nine files with 1 MiB each that is not written yet


def test_pairs_appear_whole_or_not_at_all(tmp_path: Path):
    def stopped() -> Iterator[Pair]:
        yield MADE[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pairs(stopped(), tmp_path / "pairs")
    assert list(tmp_path.iterdir()) == []


def test_older_pairs_are_replaced_and_whoever_reads_them_goes_on(tmp_path: Path):
    older = write_pairs(MADE, tmp_path / "pairs")
    newer = write_pairs(MADE[:1], tmp_path / "pairs")
    assert tuple(newer) == MADE[:1] and tuple(older) == MADE
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="something else than pairs"):
        write_pairs(MADE, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_folder_at_hand_is_a_folder_like_any_other(tmp_path: Path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert tuple(write_pairs(MADE, Path())) == MADE
    assert tuple(Pairs.open(tmp_path / "here")) == MADE
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written to .*name another folder"):
        write_pairs(MADE, tmp_path / "file" / "pairs")


def test_half_a_surrogate_pair_is_refused_with_its_number(tmp_path: Path):
    with pytest.raises(DataError, match="Pair 2 has a text that is no valid Unicode"):
        write_pairs([MADE[0], Pair("q", "\ud83c")], tmp_path / "pairs")
    assert list(tmp_path.iterdir()) == []


# Opening


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return write_pairs(MADE, tmp_path / "pairs").folder


def test_a_folder_without_pairs_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds no pairs: it has no pairs\.json"):
        Pairs.open(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["queries.utf8", "queries.offsets", "negatives.utf8", "negatives.first", "domains.numbers"],
)
def test_a_file_of_another_size_is_refused_by_its_name(written: Path, name: str):
    content = (written / name).read_bytes()
    (written / name).write_bytes(content[:-1])
    with pytest.raises(DataError, match=rf"{name} has \d+ bytes, not {len(content)}; remove "):
        Pairs.open(written)
    (written / name).unlink()
    with pytest.raises(DataError, match=f"{name} is missing"):
        Pairs.open(written)


def test_another_format_and_a_damaged_description_are_refused(written: Path):
    about = json.loads((written / "pairs.json").read_text())
    (written / "pairs.json").write_text(json.dumps(about | {"format": "cde_core pairs 9"}))
    with pytest.raises(DataError, match="'cde_core pairs 9', not 'cde_core pairs 2'"):
        Pairs.open(written)
    for damaged in ("{", "[]", "{}"):
        (written / "pairs.json").write_text(damaged)
        with pytest.raises(DataError, match=r"pairs\.json is damaged"):
            Pairs.open(written)


def test_a_folder_can_be_moved(written: Path, tmp_path: Path):
    shutil.move(written, tmp_path / "elsewhere")
    assert tuple(Pairs.open(tmp_path / "elsewhere")) == MADE
