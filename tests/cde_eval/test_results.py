import itertools
import json
import math
from pathlib import Path

import pytest

from cde_core.errors import DataError
from cde_eval.results import (
    commit,
    installed_versions,
    read_record,
    read_records,
    record_path,
    tidy,
    write_atomically,
)
from tests.cde_eval.tiny_records import record

# Files


def test_a_record_is_read_as_it_was_written(tmp_path: Path):
    written = record(scores={("test", "deu"): 0.25, ("test", "eng"): None}, settings={"a": "b"})
    path = tmp_path / "records" / "task.json"
    write_atomically(path, written.model_dump_json())
    assert read_record(path) == written


def test_a_file_that_is_not_there_is_no_record(tmp_path: Path):
    assert read_record(tmp_path / "nothing.json") is None
    assert read_records(tmp_path) == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"model": 1}', b"\xff\xfe", b'{"model": "\xff"}']
)
def test_a_broken_record_is_named_with_what_to_do(tmp_path: Path, content: bytes):
    path = tmp_path / "records" / "task.json"
    path.parent.mkdir()
    path.write_bytes(content)
    for read in (lambda: read_record(path), lambda: read_records(tmp_path)):
        with pytest.raises(DataError, match=r"task\.json is not a run record.*delete it") as error:
            read()
        assert "\n" not in str(error.value)


def test_records_come_in_the_order_of_their_paths(tmp_path: Path):
    for name in ("b", "a", "c"):
        path = tmp_path / "records" / name / "task.json"
        write_atomically(path, record(task=name).model_dump_json())
    assert [found.task for found in read_records(tmp_path)] == ["a", "b", "c"]


def test_leftovers_of_a_killed_run_are_no_records(tmp_path: Path):
    write_atomically(tmp_path / "records" / "a.json", record().model_dump_json())
    (tmp_path / "records" / ".b.json.part").write_text("{half")
    assert len(read_records(tmp_path)) == 1


def test_writing_leaves_the_file_and_nothing_else(tmp_path: Path):
    write_atomically(tmp_path / "new" / "folder" / "a.txt", "größer\n")
    folder = tmp_path / "new" / "folder"
    assert [path.name for path in folder.iterdir()] == ["a.txt"]
    assert (folder / "a.txt").read_bytes() == "größer\n".encode()


def test_an_old_file_is_replaced(tmp_path: Path):
    (tmp_path / "a.txt").write_text("old and much longer than the new one")
    write_atomically(tmp_path / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half \ud800")
    assert path.read_text() == "old"


# Names of files

NAMES = ["a/b", "a__b", "a_/b", "a/_b", "a___b", "a b", "a:b", "a~b", "a.b", "ä/b", "A/b", "a\nb"]


def test_two_models_never_share_a_path():
    paths = {record_path(Path("out"), name, "1", {}, "T") for name in NAMES}
    assert len(paths) == len(NAMES)


def test_two_revisions_never_share_a_path():
    paths = {record_path(Path("out"), "a/b", name, {}, "T") for name in NAMES}
    assert len(paths) == len(NAMES)


CHOICES = [
    {},
    {"context": "corpus"},
    {"context": "corpus", "size": "8"},
    {"context": "corpus__size_8"},
    {"context_corpus": "size_8"},
    {"context": "file:a/b"},
    {"context": "file:a__b"},
    {"context": "file:a b"},
    {"context": "file:a:b"},
    {"context": "file~a~b"},
    {"plain": ""},
]


def test_two_sets_of_choices_never_share_a_path():
    paths = [record_path(Path("out"), "a/b", "1", choices, "T") for choices in CHOICES]
    for (one, path), (other, its) in itertools.combinations(zip(CHOICES, paths, strict=True), 2):
        assert path != its, (one, other)


def test_the_order_in_which_choices_were_made_does_not_matter():
    one = record_path(Path("out"), "m", "1", {"a": "1", "b": "2"}, "T")
    assert record_path(Path("out"), "m", "1", {"b": "2", "a": "1"}, "T") == one


def test_a_path_stays_in_the_results_folder_and_below_the_limits_of_file_systems():
    long = {"context": "file:" + "/very/long/path" * 40, "size": "8"}
    path = record_path(Path("out"), "../../x", "..", long, "T")
    assert path.parts[:2] == ("out", "records") and ".." not in path.parts
    assert len(path.parts) == 6
    assert max(len(part.encode()) for part in path.parts) <= 200


def test_plain_names_stay_readable():
    choices = {"context": "corpus", "protocol": "paper", "size": "8", "seed": "42"}
    path = record_path(Path("out"), "sentence-transformers/all-MiniLM-L6-v2", "1a2b", choices, "T")
    assert path.parts[2] == "sentence-transformers__all-MiniLM-L6-v2"
    assert path.parts[3] == "1a2b"
    assert all(f"{key}_{value}" in path.parts[4] for key, value in choices.items())
    assert path.name == "T.json"


# The tidy table


def test_every_split_and_subset_has_a_row():
    frame = tidy(
        [
            record("A", scores={("test", "deu"): 0.25, ("dev", "deu"): 0.5}, context_size=None),
            record("B", None, model="bm25", policy="none", settings={"k": "1", "b": "2"}),
        ]
    )
    assert frame[["task", "split", "subset", "size", "policy"]].to_numpy().tolist() == [
        ["A", "test", "deu", "all", "corpus"],
        ["A", "dev", "deu", "all", "corpus"],
        ["B", "test", "default", "0", "none"],
    ]
    assert frame["score"].tolist()[:2] == [0.25, 0.5]
    assert math.isnan(frame["score"].tolist()[2])  # undefined, and never 0
    assert json.loads(frame["settings"][2]) == {"k": "1", "b": "2"}


def test_no_records_give_an_empty_table():
    assert tidy([]).empty


def test_versions_name_what_scores_depend_on():
    versions = installed_versions()
    assert {"python", "cde-eval", "mteb", "torch", "numpy"} <= set(versions)


def test_the_commit_is_short_and_says_whether_there_are_changes():
    assert commit() == "" or len(commit().rstrip("+")) == 12
