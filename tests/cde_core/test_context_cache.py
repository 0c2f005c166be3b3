import dataclasses
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors import safe_open

from cde_core.model.checkpoint import load, save
from cde_core.model.context_cache import KEPT_IN_MEMORY, ContextCache, ContextKey
from cde_core.model.contextual import ContextualEncoder
from cde_core.text import Purpose

DOCUMENTS = ["tax law court", "judge", "the king of law", "court of the town"]
KEY = ContextKey(
    fingerprint="f",
    reading="r",
    documents="d",
    prefix="p: ",
    dtype="float32",
    tokens_per_document=1,
)
VECTORS = torch.arange(6.0).view(3, 2)

COUNTED = """
import json, sys
import cde_core
from cde_core.model.contextual import ContextualEncoder

read, calls = ContextualEncoder.read_context, []
ContextualEncoder.read_context = lambda *a, **k: calls.append(1) or read(*a, **k)
context = cde_core.load(sys.argv[1], device="cpu").read_context(sys.argv[2:])
print(json.dumps([len(calls), context.vectors.tolist()]))
"""


def forbidden():
    raise AssertionError("the first stage ran again")


@pytest.fixture
def reads(monkeypatch):
    """Counts how often a first stage runs."""
    calls, read = [], ContextualEncoder.read_context
    monkeypatch.setattr(
        ContextualEncoder, "read_context", lambda *a, **k: calls.append(1) or read(*a, **k)
    )
    return calls


def test_a_second_process_does_not_run_the_first_stage_again(encoder, tmp_path):
    folder = save(encoder(), tmp_path)
    command = [sys.executable, "-c", COUNTED, str(folder), *DOCUMENTS]
    runs = [
        json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        for _ in range(2)
    ]
    assert runs[0][0] == 1 and runs[1][0] == 0
    assert runs[0][1] == runs[1][1]


def test_contexts_are_kept_in_memory_and_on_disk(encoder, own_cache, reads):
    model = encoder(cache=own_cache)
    first = model.read_context(DOCUMENTS)
    assert model.read_context(DOCUMENTS, source="named").vectors is first.vectors
    other = encoder(cache=own_cache).read_context(DOCUMENTS)
    assert torch.equal(other.vectors, first.vectors) and len(reads) == 1
    assert [file.parent.name for file in own_cache.rglob("*.safetensors")] == ["contexts"]


def test_progress_hears_of_remembered_documents_too(encoder, own_cache):
    model, heard = encoder(cache=own_cache), []
    for _ in range(2):
        model.read_context(DOCUMENTS, progress=heard.append)
        assert sum(heard) == len(DOCUMENTS)
        heard.clear()


@pytest.mark.parametrize(
    "change",
    [
        {"family": "bert"},
        {"max_length": 4},
        {"characters_per_token": 1},
        {"tokens_per_document": 2},
        {"tokens_per_document": 2, "spans_of": "padded"},
    ],
    ids=str,
)
def test_whatever_changes_the_vectors_is_read_anew(encoder, own_cache, reads, change):
    encoder(cache=own_cache).read_context(DOCUMENTS)
    encoder(**change, cache=own_cache).read_context(DOCUMENTS)
    assert len(reads) == 2 and len(list(own_cache.rglob("*.safetensors"))) == 2


def test_another_precision_prefix_or_order_is_read_anew(encoder, own_cache, reads):
    model = encoder(cache=own_cache)
    model.read_context(DOCUMENTS)
    model.read_context(DOCUMENTS, purpose=Purpose("Clustering"))
    model.read_context(DOCUMENTS[::-1])
    model.model.to(torch.bfloat16)
    model.read_context(DOCUMENTS)
    assert len(reads) == 4


def test_trained_weights_are_read_anew(encoder, own_cache, reads):
    model = encoder(cache=own_cache)
    before = model.read_context(DOCUMENTS)
    with torch.no_grad():
        model.model.first_stage.backbone.words.weight.mul_(2)
    assert not torch.equal(model.read_context(DOCUMENTS).vectors, before.vectors)
    assert len(reads) == 2


def test_the_cache_can_be_switched_off_and_put_elsewhere(encoder, tmp_path, own_cache, reads):
    folder = save(encoder(), tmp_path / "model")
    for _ in range(2):
        load(folder, cache=None).read_context(DOCUMENTS)
    assert len(reads) == 2 and not list(own_cache.iterdir())
    load(folder, cache=tmp_path / "mine").read_context(DOCUMENTS)
    assert len(list((tmp_path / "mine" / "contexts").iterdir())) == 1


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


def flip_the_last_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def exchange(path):
    other = dataclasses.replace(KEY, prefix="q: ")
    ContextCache(path.parent).read(other, lambda: VECTORS + 1)
    (path.parent / other.file_name).replace(path)


@pytest.mark.parametrize("damage", [cut, flip_the_last_bit, empty, exchange])
def test_a_damaged_file_is_remade(tmp_path, damage):
    ContextCache(tmp_path).read(KEY, lambda: VECTORS)
    damage(tmp_path / KEY.file_name)
    assert torch.equal(ContextCache(tmp_path).read(KEY, VECTORS.clone), VECTORS)
    assert torch.equal(ContextCache(tmp_path).read(KEY, forbidden), VECTORS)


def test_many_at_once_leave_one_sound_file(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ContextCache(tmp_path).read(KEY, VECTORS.clone), range(32)))
    assert [file.name for file in tmp_path.iterdir()] == [KEY.file_name]
    assert torch.equal(ContextCache(tmp_path).read(KEY, forbidden), VECTORS)


def test_a_file_says_what_it_holds(tmp_path):
    ContextCache(tmp_path).read(KEY, lambda: VECTORS)
    with safe_open(tmp_path / KEY.file_name, "pt") as file:
        about = file.metadata()
    assert about["prefix"] == "p: " and about["dtype"] == "float32" and len(about["sha256"]) == 64


def test_memory_holds_only_the_latest(tmp_path):
    cache = ContextCache(tmp_path)
    for number in range(3 * KEPT_IN_MEMORY):
        cache.read(dataclasses.replace(KEY, documents=str(number)), lambda: VECTORS)
    assert len(cache._latest) == KEPT_IN_MEMORY


def test_a_folder_that_cannot_be_written_costs_time_and_nothing_else(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="CDE_EVAL_CACHE"):
        found = ContextCache(tmp_path / "file" / "contexts").read(KEY, lambda: VECTORS)
    assert torch.equal(found, VECTORS)
