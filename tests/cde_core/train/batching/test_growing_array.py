import json

import numpy as np
import pytest

from cde_core.train.batching.growing_array import GrowingArray, opened

VECTORS = np.arange(20, dtype=np.float32).reshape(5, 4)


def grow(file, *parts):
    with GrowingArray(file, rows=5) as growing:
        for part in parts:
            growing.append(part)
    return growing


def test_the_finished_file_is_what_numpy_itself_would_write(tmp_path):
    grow(tmp_path / "a.npy", VECTORS[:2], VECTORS[2:])
    np.save(tmp_path / "b.npy", VECTORS)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.npy", "b.npy"]
    assert np.array_equal(opened(tmp_path / "a.npy", rows=5), VECTORS)


def test_it_has_its_name_only_once_it_is_whole_and_goes_on_where_it_stopped(tmp_path):
    file = tmp_path / "a.npy"
    grow(file, VECTORS[:2])
    assert not file.exists()
    assert GrowingArray(file, rows=5).done == 2
    grow(file, VECTORS[2:])
    assert np.array_equal(opened(file, rows=5), VECTORS)


def test_rows_that_were_written_but_not_recorded_are_written_again(tmp_path):
    file, unfinished = tmp_path / "a.npy", tmp_path / "a.npy.unfinished"
    grow(file, VECTORS[:2])
    unfinished.write_bytes(unfinished.read_bytes() + b"half a row")
    grow(file, VECTORS[2:])
    assert np.array_equal(opened(file, rows=5), VECTORS)


def no_record(unfinished, record):
    record.unlink()


def broken_record(unfinished, record):
    record.write_text('{"rows": 5, "do', encoding="utf-8")


def record_of_another_array(unfinished, record):
    record.write_text(json.dumps({"rows": 7, "done": 2, "width": 4}), encoding="utf-8")


def cut_rows(unfinished, record):
    unfinished.write_bytes(unfinished.read_bytes()[:-3])


def no_rows(unfinished, record):
    unfinished.unlink()


@pytest.mark.parametrize(
    "damage", [no_record, broken_record, record_of_another_array, cut_rows, no_rows]
)
def test_an_unfinished_file_that_is_not_as_recorded_begins_anew(tmp_path, damage):
    file = tmp_path / "a.npy"
    grow(file, VECTORS[:2])
    damage(tmp_path / "a.npy.unfinished", tmp_path / "a.npy.json")
    assert GrowingArray(file, rows=5).done == 0
    grow(file, VECTORS)
    assert np.array_equal(opened(file, rows=5), VECTORS)


def test_an_error_leaves_what_was_recorded(tmp_path):
    file = tmp_path / "a.npy"
    with pytest.raises(KeyError), GrowingArray(file, rows=5) as growing:
        growing.append(VECTORS[:3])
        raise KeyError
    assert GrowingArray(file, rows=5).done == 3


def test_no_rows_still_have_a_width(tmp_path):
    with GrowingArray(tmp_path / "a.npy", rows=0) as growing:
        growing.append(VECTORS[:0])
    assert opened(tmp_path / "a.npy", rows=0).shape == (0, 4)


def test_rows_that_do_not_fit_are_our_mistake(tmp_path):
    with pytest.raises(ValueError, match=r"\(4, 4\) after 2"):
        grow(tmp_path / "a.npy", VECTORS[:2], VECTORS[:4])
    with pytest.raises(ValueError, match=r"\(1, 3\) after 2"):
        grow(tmp_path / "b.npy", VECTORS[:2], VECTORS[:1, :3])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"nothing of the kind, and long enough",
        pytest.param("cut", id="cut"),
        pytest.param("too long", id="too long"),
        pytest.param(VECTORS[:4], id="rows"),
        pytest.param(VECTORS.astype(np.float64), id="precision"),
        pytest.param(VECTORS.ravel()[:5], id="flat"),
    ],
)
def test_a_file_that_does_not_hold_the_vectors_is_not_opened(tmp_path, content):
    file = tmp_path / "a.npy"
    np.save(file, content if isinstance(content, np.ndarray) else VECTORS)
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif isinstance(content, str):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] if content == "cut" else whole + b"x")
    assert opened(file, rows=5) is None
    assert opened(tmp_path / "none.npy", rows=5) is None
