import hashlib
import os
from pathlib import Path

import pytest

from cde_core.errors import DataError
from cde_core.train.data.revisions import Revisions


def test_a_file_is_read_again_only_when_its_size_or_time_changed(tmp_path: Path):
    file, memory = tmp_path / "file", tmp_path / "revisions.json"
    file.write_bytes(b"one")
    os.utime(file, ns=(10, 10))
    first = Revisions(memory).of_file(file)
    assert first == hashlib.sha256(b"one").hexdigest()

    file.write_bytes(b"two")  # as long, and said to be as old: nothing shows that it changed
    os.utime(file, ns=(10, 10))
    assert Revisions(memory).of_file(file) == first
    os.utime(file, ns=(10, 11))
    assert Revisions(memory).of_file(file) == hashlib.sha256(b"two").hexdigest()
    file.write_bytes(b"longer")
    os.utime(file, ns=(10, 11))
    assert Revisions(memory).of_file(file) == hashlib.sha256(b"longer").hexdigest()


@pytest.mark.parametrize("damaged", ["", "[]", "{", '{"hub:x": 3}'])
def test_a_damaged_memory_is_begun_anew(tmp_path: Path, damaged: str):
    memory = tmp_path / "revisions.json"
    memory.write_text(damaged)
    assert Revisions(memory).remembered("hub:x") == ""
    Revisions(memory).remember("hub:x", "abc")
    assert Revisions(memory).remembered("hub:x") == "abc"


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path):
    with pytest.raises(DataError, match=r"missing\.jsonl cannot be read \(No such file"):
        Revisions(tmp_path / "revisions.json").of_file(tmp_path / "missing.jsonl")
