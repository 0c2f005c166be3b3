"""The cache folder: all of ours is found, nothing else is touched, nothing in use is lost."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from cde_core.model.context_cache import ContextCache, ContextKey
from cde_core.recipe import DataConfig
from cde_core.train.batching.clusters import cluster_pairs
from cde_core.train.batching.growing_array import GrowingArray
from cde_core.train.batching.surrogates import embed_pairs
from cde_core.train.data.sources import Prepared, prepare_pairs
from cde_core.train.pretraining.token_windows import prepare_windows
from cde_core.train.rivals.consistency import Consistency, margins_of
from cde_core.train.rivals.judges import SurrogateJudge
from cde_core.train.rivals.mining import Mining, mined_in_cache
from cde_core.train.rivals.scoring import scores_of
from cde_core.train.rivals.teachers import Cosines
from cde_eval import vector_store
from cde_eval.cached import DAY, Entry, cached, matching
from cde_eval.pruning import prune
from cde_eval.tasks import documentation, jsonl_tables
from cde_eval.vector_store import StoredVectors, VectorStore
from cde_eval.vectors import Vectors

ABOUT = {"model": "org/tiny", "revision": "sha256-0123456789ab", "settings": '{"dtype": "float32"}'}
SIDES = ({"side": "query", "prompt": "find: "}, {"side": "document", "context": "ab" * 32})
KEY = ContextKey(
    fingerprint="fe" * 8,
    reading="0" * 16,
    documents="d0" * 32,
    prefix="passage: ",
    dtype="float32",
    tokens_per_document=2,
)
NOW = 1e10
HEX = "0123456789abcdef" * 2


class Surrogate:
    fingerprint = "letters"

    def encode(self, texts, side):
        codes = np.array([[ord(text[0]), ord(text[-1])] for text in texts], dtype=np.float32)
        return codes / np.linalg.norm(codes, axis=1, keepdims=True)


def embed(blocks: Iterator[list[str]]) -> Iterator[tuple[int, Vectors]]:
    """Two numbers for a text: its length and its last letter."""
    for number, texts in enumerate(blocks):
        vectors = [[len(text), ord(text[-1])] for text in texts]
        yield number, np.array(vectors, dtype=np.float32)


def fill_vectors(folder: Path) -> None:
    for number, side in enumerate(SIDES):
        texts = [f"text {i}" for i in range(5 + 4 * number)]
        VectorStore(folder / "vectors", {**ABOUT, **side}).vectors_of(texts, embed)


def source_of_pairs(folder: Path) -> Path:
    return folder / "source" / "my-pairs.jsonl"


def make_pairs(folder: Path) -> Prepared:
    source = source_of_pairs(folder)
    source.parent.mkdir(exist_ok=True)
    rows = [{"query": f"q{i}", "document": f"d{i}", "negatives": ["n"]} for i in range(6)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return prepare_pairs([str(source)], cache=folder / "cache" / "train")


def make_training(whole: Path) -> None:
    """All that the trainer keeps."""
    pairs, cache = make_pairs(whole).pairs, whole / "cache" / "train"
    vectors = embed_pairs(pairs, Surrogate(), cache=cache)
    cluster_pairs(vectors, pairs.domain_of, size=3, cache=cache)
    judge = SurrogateJudge(Surrogate())
    margins_of(pairs, judge, Consistency(), cache=cache)
    mined_in_cache(pairs, judge, Mining(negatives=2, depth=4), cache=cache)
    scores_of(pairs, Cosines(judge), cache=cache)
    words = {word: number for number, word in enumerate(["?", "</s>", "d0", "d1"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    closed = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.post_processor = closed
    sources = DataConfig(sources=(str(source_of_pairs(whole)),))
    prepare_windows(sources, tokenizer, size=4, cache=cache)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `cache` that every part of the project has written to."""
    whole = tmp_path_factory.mktemp("filled")
    folder = whole / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDE_EVAL_CACHE", str(folder))
        patch.setattr(vector_store, "TEXTS_PER_SHARD", 4)
        patch.setattr(jsonl_tables, "KEPT_FROM", 0)
        fill_vectors(folder)
        ContextCache(folder / "contexts").read(KEY, lambda: torch.ones(6, 3))
        corpus = whole / "corpus.jsonl"
        corpus.write_text("".join(f'{{"_id": "{i}", "text": "t"}}\n' for i in range(3)))
        jsonl_tables.read_corpus(corpus, "sha256-c0ffee")
        docs = documentation.Documentation((), {"numpy": "2.4", "python": "3.11"})
        documentation._write(docs, folder / "documentation" / "0123456789abcdef.json")
        make_training(whole)
    vector_store._held.cache_clear()
    return whole


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it; whatever the test holds is let go at its end."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    yield tmp_path / "cache"
    vector_store._held.cache_clear()


def found(folder: Path, *kinds: str) -> list[Entry]:
    return matching(cached(folder, NOW), kinds=kinds)


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def means_nothing(path: Path) -> bool:
    return path.suffix == ".lock" or path.name in ("lock", "revisions.json")


def test_every_file_that_the_project_keeps_belongs_to_one_entry(folder):
    entries = found(folder)
    files = [file for entry in entries for file in entry.files]
    assert sorted(files) == sorted(p for p in files_below(folder) if not means_nothing(p))
    assert sum(entry.size for entry in entries) == sum(file.stat().st_size for file in files)
    kinds = [entry.kind for entry in entries]
    assert kinds == ["vectors"] * 2 + ["contexts", "corpora", "documentation"] + ["train"] * 9


def test_entries_say_what_they_are(filled, folder):
    about = [entry.what for entry in found(folder)]
    assert sorted(about[:2]) == [
        "org/tiny@01234567 · dtype float32 · side document · context abababab · 9 texts × 2",
        "org/tiny@01234567 · dtype float32 · side query · prompt 'find: ' · 5 texts × 2",
    ]
    about[9:11] = sorted(about[9:11])  # whose digest comes first
    assert about[2:] == [  # the context has 6 vectors, 2 per document
        "model fefefefe · prefix 'passage: ' · float32 · 3 documents d0d0d0d0 × 3",
        "corpus of the data sha256-c0ffee · 3 documents",
        "docstrings of numpy 2.4, python 3.11",
        f"pairs of {source_of_pairs(filled)} · 6",
        "surrogate vectors · 6 pairs × 2",
        "clusters · 6 pairs in 2",
        "tokens of texts for span corruption · 12",  # six documents of a word, each closed
        *sorted(
            f"vectors for cde-train filter, mine and score · {texts} texts × 2"
            for texts in (6 + 6, 6 + 7)  # queries, documents; all negatives are one text
        ),
        "ranks of documents, of cde-train filter · 6 pairs",
        "hard negatives, of cde-train mine · 6 pairs × 2",
        "a teacher's scores, of cde-train score · 12 documents and negatives",
    ]


def test_counting_reads_no_vectors(folder):
    before = {entry.what for entry in found(folder, "vectors")}
    for shard in (folder / "vectors").glob("*/*.npy"):
        header = np.load(shard, mmap_mode="r").offset
        with shard.open("r+b") as file:
            file.truncate(header)
    assert {entry.what for entry in found(folder, "vectors")} == before


def test_damaged_files_are_counted_as_far_as_they_can_be(folder):
    for path in (folder / "vectors").glob("*/*.npy"):
        path.write_bytes(b"")
    for name in ("surrogates/*/queries", "readings/*/*/documents", "scores/*/answers"):
        for path in (folder / "train").glob(f"{name}.npy"):
            path.write_bytes(b"x")
    about = [entry.what for entry in found(folder)]
    assert sum(what.endswith("· 0 texts × 0") for what in about) == 2
    assert "surrogate vectors · damaged" in about
    assert "a teacher's scores, of cde-train score · damaged" in about
    queries = "vectors for cde-train filter, mine and score · 6 texts × 2"
    assert about.count(queries) == 2


def test_after_pruning_everything_only_locks_and_revisions_are_left(folder):
    assert [why for _, why in prune(found(folder))] == [""] * 14
    assert found(folder) == []
    left = files_below(folder)
    assert left and all(means_nothing(path) and path.is_relative_to(folder) for path in left)
    assert list((folder / "vectors").iterdir()) == []
    assert not list((folder / "train" / "readings").glob("*/group-*"))


def test_all_of_it_can_be_made_again(folder, monkeypatch):
    list(prune(found(folder)))
    fill_vectors(folder)
    ContextCache(folder / "contexts").read(KEY, lambda: torch.ones(6, 3))
    make_training(folder.parent)
    assert len(found(folder)) == 12


def test_an_absent_folder_is_empty(tmp_path):
    assert found(tmp_path / "none") == []


def test_what_we_did_not_write_is_never_touched(folder):
    (space,) = next(iter(found(folder, "vectors"))).folders
    foreign = [
        folder / "notes.txt",
        folder / ".0123.part",
        folder / "vectors" / "notes.npy",
        folder / "vectors" / HEX / f"{HEX}.npy",
        folder / "vectors" / ("f" * 32) / "space.json",
        space / "thesis.npy",
        space / "notes.part",
        folder / "contexts" / "mine.safetensors",
        folder / "contexts" / f"{HEX}.safetensors",
        folder / "contexts" / "model.safetensors.unfinished",
        folder / "corpora" / "mine-corpus.arrow",
        folder / "documentation" / "0000000000000000.json",
        folder / "train" / "model.safetensors",
        folder / "train" / "pairs" / HEX / "pairs.json",
        folder / "train" / "clusters" / f"{HEX}.npz",
        folder / "train" / "surrogates" / HEX / "answers.npy",
        folder / "train" / "readings" / HEX / "queries.npy",
        folder / "train" / "readings" / HEX / "group-000000" / "answers.npy",
        folder / "train" / "scores" / HEX / "queries.npy",
        folder / "train" / "tokens" / "mine.i32",
        folder / "train" / "written" / "mine.npy",
        folder / "other" / f".{HEX}.part",
    ]
    for path in foreign:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text('{"format": "mine"}')
    list(prune(found(folder)))
    left = {path for path in files_below(folder) if not means_nothing(path)}
    assert left == set(foreign)


@pytest.mark.parametrize(
    ("kinds", "model", "count"),
    [
        ((), None, 14),
        (("contexts", "train"), None, 10),
        ((), "TINY", 2),
        ((), "0123456789ab", 2),
        (("contexts",), "fefe", 1),
        (("contexts",), "tiny", 0),
        ((), "", 3),
    ],
)
def test_entries_are_chosen_by_kind_and_by_model(folder, kinds, model, count):
    chosen = matching(cached(folder, NOW), kinds=kinds, model=model)
    assert len(chosen) == count
    assert all(not kinds or entry.kind in kinds for entry in chosen)


def test_the_least_recently_used_go_first_and_no_more_than_needed(folder):
    entries = found(folder)
    ages = [50, 20, 70, 10, 40, 30, 80, 60, 45, 15, 65, 5, 35, 25]
    aged = []
    for entry, age in zip(entries, ages, strict=True):
        for file in [*entry.files, *([entry.lock] if entry.lock else [])]:
            if file.exists():
                os.utime(file, (NOW - age * DAY,) * 2)
    aged = found(folder)
    assert [round((NOW - entry.used) / DAY) for entry in aged] == ages
    oldest = sorted(zip(ages, aged, strict=True), key=lambda pair: -pair[0])
    sizes = [entry.size for _, entry in oldest]
    dry = list(prune(aged, excess=sizes[0] + 1, dry_run=True))
    assert [entry for entry, _ in dry] == [entry for _, entry in oldest[:2]]
    assert found(folder) == aged
    assert list(prune(aged, excess=0)) == []
    assert list(prune(aged, excess=sizes[0] + 1)) == dry
    assert len(found(folder)) == 12


def test_asking_for_vectors_or_pairs_again_is_using_them(folder):
    for path in files_below(folder):
        os.utime(path, (0, 0))
    assert {entry.used for entry in found(folder)} == {0}
    fill_vectors(folder)
    pairs = make_pairs(folder.parent).pairs
    embed_pairs(pairs, Surrogate(), cache=folder / "train")
    used = [e for e in found(folder) if e.used > 0]
    assert [entry.kind for entry in used] == ["vectors"] * 2 + ["train"] * 2


# What is in use


def a_space(folder: Path) -> tuple[VectorStore, StoredVectors]:
    store = VectorStore(folder / "vectors", {**ABOUT, **SIDES[0]})
    return store, store.vectors_of([f"text {i}" for i in range(5)], embed)


def test_a_space_in_use_is_kept_and_one_that_is_not_is_deleted(folder):
    store, stored = a_space(folder)
    outcomes = {e.folders: why for e, why in prune(found(folder, "vectors"))}
    assert outcomes.pop((store.folder,)) == "in use"
    assert list(outcomes.values()) == [""]
    assert (store.folder,) in [entry.folders for entry in found(folder)]
    np.testing.assert_array_equal(stored[:], [[6, ord(str(i))] for i in range(5)])


def test_vectors_that_are_being_read_stay_however_many_spaces_came_after(folder):
    store, stored = a_space(folder)
    vector_store._held.cache_clear()
    outcomes = {e.folders: why for e, why in prune(found(folder, "vectors"))}
    assert outcomes[(store.folder,)] == "in use"
    del stored
    assert [why for _, why in prune(found(folder, "vectors"))] == [""]


HOLDER = """
import sys, os, signal
from pathlib import Path
from tests.cde_eval.test_cached import a_space
held = a_space(Path(sys.argv[1]))
print("held", flush=True)
signal.pause()
"""


def test_what_a_killed_process_used_is_no_longer_in_use(folder):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert sorted(why for _, why in prune(found(folder, "vectors"))) == ["", "in use"]
        os.kill(holder.pid, signal.SIGKILL)
    assert [why for _, why in prune(found(folder, "vectors"))] == [""]


def test_a_store_whose_space_was_deleted_embeds_again(folder):
    store, stored = a_space(folder)
    del stored
    vector_store._held.cache_clear()
    assert [why for _, why in prune(found(folder, "vectors"))] == ["", ""]
    again = store.vectors_of(["text 1", "another"], embed)
    np.testing.assert_array_equal(again[:], [[6, ord("1")], [7, ord("r")]])
    (entry,) = found(folder, "vectors")
    assert entry.what.endswith(" · 2 texts × 2")


def test_a_space_that_was_deleted_while_a_run_waited_for_it_is_held_all_the_same(
    folder, monkeypatch
):
    flock, pruned = fcntl.flock, []

    def deleted_before(file: int, operation: int) -> None:
        if operation == fcntl.LOCK_SH and not pruned:
            pruned.extend(why for _, why in prune(found(folder, "vectors")))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", deleted_before)
    _, stored = a_space(folder)
    assert pruned == ["", ""] and len(stored) == 5
    assert [why for _, why in prune(found(folder, "vectors"))] == ["in use"]


def test_runs_and_prunes_at_the_same_time_do_no_harm(folder):
    texts = [f"text {i}" for i in range(9)]

    done = threading.Event()

    def evaluate(number: int) -> list[Vectors]:
        results = []
        for _ in range(25):
            store = VectorStore(folder / "vectors", {**ABOUT, "side": str(number % 2)})
            results.append(store.vectors_of(texts, embed)[:])
            vector_store._held.cache_clear()
        return results

    def delete() -> None:
        while not done.is_set():
            list(prune(found(folder, "vectors")))

    with ThreadPoolExecutor(6) as pool:
        pruners = [pool.submit(delete) for _ in range(2)]
        try:
            results = list(pool.map(evaluate, range(4)))
        finally:
            done.set()
        assert [pruner.result() for pruner in pruners] == [None, None]
    for vectors in (vectors for result in results for vectors in result):
        np.testing.assert_array_equal(vectors, [[6, ord(str(i))] for i in range(9)])


def test_many_spaces_do_not_take_an_open_file_each(tmp_path):
    def open_files() -> int:
        return sum(1 for _ in Path("/dev/fd").iterdir())

    before = open_files()
    stores = [VectorStore(tmp_path, {**ABOUT, "context": str(i)}) for i in range(150)]
    for store in stores:
        store.vectors_of(["a"], embed)
    assert open_files() - before <= 64
    vector_store._held.cache_clear()


@pytest.mark.parametrize("what", ["pairs", "tokens", "vectors", "a teacher's scores"])
def test_what_is_being_made_is_kept(folder, what):
    entry = next(entry for entry in found(folder, "train") if entry.what.startswith(what))
    assert entry.lock is not None
    with entry.lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert list(prune([entry])) == [(entry, "in use")]
    assert list(prune([entry])) == [(entry, "")]


def test_what_was_used_after_it_was_listed_is_kept(folder):
    listed = found(folder)
    for path in files_below(folder):
        os.utime(path, (1, 1))
    assert {why for _, why in prune(listed)} == {"used or changed just now"}
    assert {entry.what for entry in found(folder)} == {entry.what for entry in listed}


def test_where_the_system_has_no_locks_spaces_are_used_and_deleted_without(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    _, stored = a_space(folder)
    assert len(stored) == 5
    assert [why for _, why in prune(found(folder, "vectors"))] == ["", ""]


def test_a_space_in_somebody_elses_folder_can_be_read(folder, monkeypatch):
    for lock in folder.rglob("lock"):
        lock.unlink()

    def refuse(*_):
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(vector_store.os, "open", refuse)
        assert len(a_space(folder)[1]) == 5


def test_what_cannot_be_deleted_is_said(folder, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    assert {why for _, why in prune(found(folder))} == {"cannot be deleted: Permission denied"}


# Killed runs


class Killed(BaseException):
    """What SIGKILL is to the code that it strikes."""


def prune_until_killed(entry: Entry, deletions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink, done = Path.unlink, iter(range(deletions))

    def some(path: Path, missing_ok: bool = False) -> None:
        if next(done, None) is None:
            raise Killed
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", some)
        with pytest.raises(Killed):
            list(prune([entry]))


@pytest.mark.parametrize("deletions", [1, 2, 3])
def test_a_half_deleted_space_serves_what_it_has_and_goes_with_the_next_prune(
    folder, monkeypatch, deletions
):
    entry = next(e for e in found(folder, "vectors") if "9 texts" in e.what)  # 3 shards of 4, 4, 1
    prune_until_killed(entry, deletions, monkeypatch)
    (rest,) = (e for e in found(folder, "vectors") if e.folders == entry.folders)
    assert rest.model == entry.model and rest.files == entry.files[deletions:]
    store = VectorStore(folder / "vectors", {**ABOUT, **SIDES[1]})
    stored = store.vectors_of([f"text {i}" for i in range(9)], embed)
    np.testing.assert_array_equal(stored[:], [[6, ord(str(i))] for i in range(9)])
    del stored
    vector_store._held.cache_clear()
    assert [why for _, why in prune(found(folder, "vectors"))] == ["", ""]


@pytest.mark.parametrize("deletions", [1, 2, 5, 9, 13])
def test_half_deleted_pairs_are_made_again(folder, monkeypatch, deletions):
    entry = next(e for e in found(folder, "train") if e.what.startswith("pairs"))
    assert len(entry.files) == 14
    prune_until_killed(entry, deletions, monkeypatch)
    assert [pair.query for pair in make_pairs(folder.parent).pairs] == [f"q{i}" for i in range(6)]


def leftover_files(folder: Path) -> list[Path]:
    """A half-written file of every kind, named as its writer names it."""
    (space,) = next(iter(found(folder, "vectors"))).folders
    half_pairs = folder / "train" / "pairs" / f"{HEX}.{HEX}.unfinished"
    half_pairs.mkdir()
    return [
        space / f".{HEX}.part",
        space / ".space.json.01234567.part",
        folder / "contexts" / f"{KEY.file_name}.{HEX}.unfinished",
        folder / "corpora" / ".sha256-c0ffee-corpus.arrow.01234567.part",
        folder / "documentation" / "tmp1a_b2.part",
        half_pairs / "queries.utf8",
        folder / "train" / "pairs" / f"{HEX}.json.unfinished",
        folder / "train" / "clusters" / f"{HEX}.npz.{HEX}.unfinished",
        folder / "train" / "tokens" / f"{HEX}.i32.unfinished",
    ]


def test_half_written_files_are_leftovers_after_a_day(folder):
    files = leftover_files(folder)
    for number, file in enumerate(files):
        file.write_text("half")
        os.utime(file, (NOW - DAY + (-1 if number % 2 else 1),) * 2)
    assert {entry.files[0] for entry in found(folder, "leftovers")} == set(files[1::2])
    for file in files:
        os.utime(file, (NOW - DAY - 1,) * 2)
    entries = found(folder, "leftovers")
    assert {entry.files[0] for entry in entries} == set(files)
    assert [why for _, why in prune(entries)] == [""] * 9
    assert not any(file.exists() for file in files) and not files[5].parent.exists()
    assert len(found(folder)) == 14


def test_leftovers_are_what_killed_writers_leave(tmp_path, monkeypatch):
    """The names in the test above are those that the code gives."""

    def stop(*_, **__):
        raise Killed

    def killed(write: Callable[[], object]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", stop)  # neither put in place nor cleaned up
            patch.setattr(Path, "replace", stop)
            with pytest.raises(Killed):
                write()

    store = VectorStore(tmp_path / "vectors", ABOUT)
    killed(lambda: store.vectors_of(["a"], embed))
    store._announce()
    killed(lambda: store.vectors_of(["a"], embed))
    killed(
        lambda: ContextCache(tmp_path / "contexts").read(
            replace(KEY, dtype="float64"), lambda: torch.ones(2, 2)
        )
    )
    docs = documentation.Documentation((), {})
    killed(lambda: documentation._write(docs, tmp_path / "documentation" / "0.json"))
    kept = tmp_path / "corpora" / "sha256-1-corpus.arrow"
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "text": "t"}\n')
    killed(lambda: jsonl_tables._keep(tmp_path / "corpus.jsonl", kept))
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    monkeypatch.setattr("cde_core.train.data.pairs._put_in_place", stop)
    with pytest.raises(Killed):
        (tmp_path / "cache").symlink_to(tmp_path)
        make_pairs(tmp_path)
    assert len(found(tmp_path, "leftovers")) == 6


def test_surrogate_vectors_that_a_killed_run_would_continue_are_no_leftover(folder):
    entry = next(e for e in found(folder, "train") if e.what.startswith("surrogate"))
    assert entry.lock is not None
    (entry.lock.parent / "queries.npy").unlink()
    with GrowingArray(entry.lock.parent / "queries.npy", rows=6) as growing:
        growing.append(np.ones((2, 2), np.float32))
    for file in entry.lock.parent.iterdir():
        os.utime(file, (0, 0))
    assert found(folder, "leftovers") == []
    (now,) = (e for e in found(folder, "train") if e.what.startswith("surrogate"))
    assert now.what == "surrogate vectors · 6 pairs × 2 · unfinished"
    assert list(prune([now])) == [(now, "")]
    assert [path.name for path in entry.lock.parent.iterdir()] == ["lock"]


def test_vectors_and_scores_that_a_killed_run_would_continue_are_no_leftovers(folder):
    for made in ("readings/*/*/documents", "scores/*/answers"):
        for file in (folder / "train").glob(f"{made}.npy"):
            rows = len(np.load(file))
            file.unlink()
            with GrowingArray(file, rows=rows) as growing:
                growing.append(np.ones((2, 2), np.float32))
    for file in files_below(folder / "train"):
        os.utime(file, (0, 0))
    assert found(folder, "leftovers") == []
    begun = [e for e in found(folder, "train") if e.what.endswith(" · unfinished")]
    assert [e.what.partition(" · ")[0] for e in begun] == [
        *("vectors for cde-train filter, mine and score",) * 2,
        "a teacher's scores, of cde-train score",
    ]
    assert [why for _, why in prune(begun)] == [""] * 3
    assert not list((folder / "train").glob("readings/*/group-*"))
