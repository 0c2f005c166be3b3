"""Vectors on disk: nothing embedded twice, nothing damaged served, whatever dies in between."""

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cde_core.errors import CdeWarning
from cde_eval import vector_store
from cde_eval.vector_store import TEXTS_PER_SHARD, StoredVectors, VectorStore, keys_of
from cde_eval.vectors import Vectors

ABOUT = {"model": "tests/tiny", "revision": "1"}


def vector(text: str) -> Vectors:
    """Something that tells texts apart: the length, and the code of every place's letter."""
    codes = [ord(letter) for letter in text[:7].ljust(7)]
    return np.array([len(text), *codes], dtype=np.float32)


class Model:
    """Embeds blocks, and keeps a note of all that it was given."""

    def __init__(self) -> None:
        self.blocks: list[list[str]] = []

    def __call__(self, blocks: Iterator[list[str]]) -> Iterator[tuple[int, Vectors]]:
        for number, texts in enumerate(blocks):
            self.blocks.append(texts)
            yield number, np.stack([vector(text) for text in texts])

    @property
    def texts(self) -> list[str]:
        return [text for block in self.blocks for text in block]


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_store, "TEXTS_PER_SHARD", 4)


def expected(texts: list[str]) -> Vectors:
    return np.stack([vector(text) for text in texts])


TEXTS = [f"text {number % 17} of many" for number in range(30)]


def test_vectors_come_in_the_order_of_the_texts_and_each_text_is_embedded_once(
    tmp_path, small_shards
):
    model = Model()
    stored = VectorStore(tmp_path, ABOUT).vectors_of(TEXTS, model)
    assert stored.shape == (30, 8) and len(stored) == 30
    np.testing.assert_array_equal(stored[:], expected(TEXTS))
    np.testing.assert_array_equal(stored[3:9], expected(TEXTS[3:9]))
    rows = np.array([29, 0, 0, 16, 7])
    np.testing.assert_array_equal(stored[rows], expected([TEXTS[row] for row in rows]))
    assert len(stored[np.array([], dtype=np.int64)]) == 0
    assert sorted(model.texts) == sorted(set(TEXTS))
    assert [len(block) for block in model.blocks] == [4, 4, 4, 4, 1]


def test_a_second_run_embeds_nothing_and_another_corpus_only_what_is_new(tmp_path, small_shards):
    VectorStore(tmp_path, ABOUT).vectors_of(TEXTS, Model())
    again, other = Model(), Model()
    VectorStore(tmp_path, ABOUT).vectors_of(TEXTS[::-1], again)
    assert again.texts == []
    mixed = ["new one", *TEXTS[:5], "new two"]
    stored = VectorStore(tmp_path, ABOUT).vectors_of(mixed, other)
    assert other.texts == ["new one", "new two"]
    np.testing.assert_array_equal(stored[:], expected(mixed))


@pytest.mark.parametrize("changed", [{"revision": "2"}, {"prompt": "query: "}, {"context": "abc"}])
def test_another_revision_prompt_or_context_is_another_space(tmp_path, changed):
    VectorStore(tmp_path, ABOUT).vectors_of(["a"], Model())
    model = Model()
    VectorStore(tmp_path, {**ABOUT, **changed}).vectors_of(["a"], model)
    assert model.texts == ["a"]


def test_what_was_embedded_before_an_error_stays(tmp_path, small_shards):
    class Dies(Model):
        def __call__(self, blocks: Iterator[list[str]]) -> Iterator[tuple[int, Vectors]]:
            for number, vectors in super().__call__(blocks):
                if number == 2:
                    raise RuntimeError("out of memory")
                yield number, vectors

    texts = sorted(set(TEXTS))
    with pytest.raises(RuntimeError):
        VectorStore(tmp_path, ABOUT).vectors_of(texts, Dies())
    model = Model()
    stored = VectorStore(tmp_path, ABOUT).vectors_of(texts, model)
    assert model.texts == texts[8:]
    np.testing.assert_array_equal(stored[:], expected(texts))


def test_blocks_may_come_back_in_any_order(tmp_path, small_shards):
    def backwards(blocks: Iterator[list[str]]) -> list[tuple[int, Vectors]]:
        return list(Model()(blocks))[::-1]

    stored = VectorStore(tmp_path, ABOUT).vectors_of(TEXTS, backwards)
    np.testing.assert_array_equal(stored[:], expected(TEXTS))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.write_bytes(path.read_bytes()[:-5] + b"12345"),
        lambda path: path.write_bytes(b""),
    ],
    ids=["truncated", "changed", "emptied"],
)
def test_a_damaged_shard_is_said_and_its_texts_alone_are_embedded_again(
    tmp_path, small_shards, damage
):
    texts = sorted(set(TEXTS))
    first = Model()
    store = VectorStore(tmp_path, ABOUT)
    store.vectors_of(texts, first)
    victim = sorted(store.folder.glob("*.npy"))[0]
    keys = {key.tobytes() for key in np.load(victim)["key"]}
    lost = [text for text in texts if keys_of([text]).tobytes() in keys]
    damage(victim)
    model = Model()
    with pytest.warns(CdeWarning, match="damaged.*embedded again"):
        stored = VectorStore(tmp_path, ABOUT).vectors_of(texts, model)
    assert model.texts == lost and 0 < len(lost) < len(texts)
    np.testing.assert_array_equal(stored[:], expected(texts))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert VectorStore(tmp_path, ABOUT).vectors_of(texts, first)[0:1].shape == (1, 8)


def test_a_shard_half_written_by_a_killed_run_is_no_shard(tmp_path, small_shards):
    store = VectorStore(tmp_path, ABOUT)
    store.vectors_of(TEXTS[:4], Model())
    (store.folder / ".0123.part").write_bytes(b"half a shard")
    np.testing.assert_array_equal(
        VectorStore(tmp_path, ABOUT).vectors_of(TEXTS, Model())[:], expected(TEXTS)
    )


def test_several_at_once_in_one_space_do_no_harm(tmp_path, small_shards):
    def run(number: int) -> Vectors:
        texts = TEXTS[number:] + TEXTS[:number]
        return VectorStore(tmp_path, ABOUT).vectors_of(texts, Model())[:]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, range(8)))
    for number, vectors in enumerate(results):
        np.testing.assert_array_equal(vectors, expected(TEXTS[number:] + TEXTS[:number]))
    last = Model()
    VectorStore(tmp_path, ABOUT).vectors_of(TEXTS, last)
    assert last.texts == []


CHILD = """
import sys, os, signal
from pathlib import Path
from cde_eval import vector_store
from tests.cde_eval.test_vector_store import ABOUT, Model, many_texts
vector_store.TEXTS_PER_SHARD = 4
class Killed(Model):
    def __call__(self, blocks):
        for number, vectors in super().__call__(blocks):
            if number == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            yield number, vectors
vector_store.VectorStore(Path(sys.argv[1]), ABOUT).vectors_of(many_texts(), Killed())
"""


def many_texts() -> list[str]:
    return [f"{number} green bottles" for number in range(40)]


def test_a_run_that_is_killed_goes_on_at_the_next_shard(tmp_path, small_shards):
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    model = Model()
    stored = VectorStore(tmp_path, ABOUT).vectors_of(many_texts(), model)
    assert model.texts == many_texts()[12:]
    np.testing.assert_array_equal(stored[:], expected(many_texts()))


def test_texts_that_utf8_cannot_carry_have_vectors_too(tmp_path):
    odd = ["\ud800 half a pair", "", "ordinary"]
    stored = VectorStore(tmp_path, ABOUT).vectors_of(odd, Model())
    np.testing.assert_array_equal(stored[:], expected(odd))


def test_a_shard_is_no_larger_than_what_a_killed_run_may_lose():
    assert TEXTS_PER_SHARD <= 4096  # at 20 texts a second, three and a half minutes


def test_memory_holds_no_vectors_but_those_asked_for(tmp_path, small_shards):
    stored = VectorStore(tmp_path, ABOUT).vectors_of(TEXTS, Model())
    assert isinstance(stored, StoredVectors)
    assert not any(isinstance(value, np.memmap) for value in vars(stored).values())


def test_a_folder_that_cannot_be_written_is_an_oserror(tmp_path):
    if os.geteuid() == 0:
        (tmp_path / "file").write_text("")
        folder: Path = tmp_path / "file"  # root may write anywhere but below a file
    else:
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o500)
    with pytest.raises(OSError):
        VectorStore(folder, ABOUT).vectors_of(["a"], Model())
