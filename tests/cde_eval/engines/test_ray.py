"""A cluster of two machines, which are two nodes of Ray on this one; one is killed."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cde_core
from cde_core.errors import CdeWarning, ConfigError, ModelError, TaskError
from cde_core.model.checkpoint import reader_for
from cde_core.model.config import ContextualConfig
from cde_core.model.contextual import ContextualEncoder
from cde_core.model.encode import TextEncoder
from cde_core.text import Purpose
from cde_eval.encoders import LoadOptions, load_encoder
from cde_eval.encoders import kept as kept_module
from cde_eval.encoders.kept import Kept, load_kept
from cde_eval.engines.choose import engine_named
from cde_eval.engines.cluster import connect
from cde_eval.engines.here import Here
from cde_eval.search import LARGEST_TILE, nearest
from tests.cde_core.conftest import BACKBONES, WORDS, shaken
from tests.cde_eval.test_bake import tokenizer

ray = pytest.importorskip("ray")
engine_module = pytest.importorskip("cde_eval.engines.ray")

REPOSITORY = Path(__file__).resolve().parents[3]
ENTRY_POINTS = """[cde_eval.encoders]
listed = tests.cde_eval.engines.stuck_encoder:load_listed
stuck = tests.cde_eval.engines.stuck_encoder:load_stuck
"""
DOCUMENT = Purpose("Retrieval", "document")
NOTICES_A_LOSS_SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 30_000,
}
"""A killed machine is noticed soon, not after a quarter of a minute; a busy one is waited for."""
BLOCKS = [[f"the {word} of {number}" for word in WORDS[9:14]] for number in range(12)]
RAY = LoadOptions(engine="ray")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Any]:
    """A head that computes nothing and two machines of one core, which find our encoders."""
    from ray.cluster_utils import Cluster

    installed = tmp_path_factory.mktemp("installed")
    info = installed / "tests_encoders-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tests-encoders\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    with pytest.MonkeyPatch.context() as patch:
        found = [str(installed), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(found))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.syspath_prepend(installed)
        head = {"num_cpus": 0, "object_store_memory": 100 * 2**20, "include_dashboard": False}
        head["_system_config"] = NOTICES_A_LOSS_SOON
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(2):
                cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
            connect(cluster.address)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
            sys.modules.pop("tests.cde_eval.engines.stuck_encoder", None)


@pytest.fixture
def threads() -> Iterator[None]:
    """As many here as a machine of one core has: the last bits of a sum depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def model_folder(folder: Path, **settings: Any) -> Path:
    """A tiny contextual encoder with random weights, saved."""
    defaults = {"context_documents": 6, "soft_prompts": 3, "max_length": 32, "colon_id": 4}
    backbone = BACKBONES["nomic"]
    config = ContextualConfig(first=backbone, second=backbone, **{**defaults, **settings})
    torch.manual_seed(0)
    encoder = TextEncoder(shaken(ContextualEncoder(config)), reader_for(config, tokenizer()))
    return cde_core.save(encoder, folder)


def test_a_contextual_model_gives_what_it_gives_here(cluster, threads, tmp_path, monkeypatch):
    model_folder(tmp_path / "model")
    monkeypatch.chdir(tmp_path)  # where no worker is
    here, there = (load_kept("model", LoadOptions(engine=name)) for name in ("here", "ray"))
    assert isinstance(here, Kept) and isinstance(there, Kept)
    context = here.read_context(BLOCKS[0] + BLOCKS[1][:1], purpose=DOCUMENT)
    results = [
        dict(one.engine.embed(one.inner, iter(BLOCKS), DOCUMENT, context)) for one in (here, there)
    ]
    assert sorted(results[1]) == list(range(len(BLOCKS)))
    for number, vectors in results[0].items():
        np.testing.assert_array_equal(results[1][number], vectors)


def test_the_store_gets_every_text_once_and_a_second_run_embeds_nothing(
    cluster, tmp_path, monkeypatch
):
    from cde_eval import vector_store

    monkeypatch.setenv("CDE_EVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vector_store, "TEXTS_PER_SHARD", 4)
    model = f"listed:{tmp_path}"
    texts = [text for block in BLOCKS for text in block]
    encoder = Vouching(load_encoder(model))
    expected = encoder.encode(texts, purpose=DOCUMENT)
    for _ in range(2):
        kept = Kept(encoder, engine=engine_named(model, RAY))
        np.testing.assert_array_equal(kept.encode(texts * 2, purpose=DOCUMENT)[60:], expected)
    begun = [line.split(" ", 1)[1] for line in (tmp_path / "begun").read_text().splitlines()]
    assert sorted(begun) == sorted(texts)


def test_what_cannot_be_kept_is_embedded_there_too(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_module, "TEXTS_PER_SHARD", 5)
    model = f"listed:{tmp_path}"
    texts = [text for block in BLOCKS for text in block]
    kept = Kept(NotVouching(load_encoder(model)), engine=engine_named(model, RAY))
    expected = load_encoder(model).encode(texts, purpose=DOCUMENT)
    np.testing.assert_array_equal(kept.encode(texts, purpose=DOCUMENT), expected)
    assert len((tmp_path / "begun").read_text().splitlines()) == len(texts)


class Vouching:
    """The encoder of that name, which says what its vectors depend on."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def space(self, purpose: Purpose, context: Any = None) -> dict[str, str] | None:
        return {}


class NotVouching(Vouching):
    def space(self, purpose: Purpose, context: Any = None) -> dict[str, str] | None:
        return None


@pytest.mark.parametrize(
    ("task_type", "error", "says"),
    [("STS", TaskError, "^It does no STS.$"), ("Summarization", ZeroDivisionError, "^one\ntwo$")],
)
def test_an_error_of_the_encoder_arrives_as_it_was(cluster, tmp_path, task_type, error, says):
    model = f"listed:{tmp_path}"
    results = engine_named(model, RAY).embed(
        load_encoder(model), iter(BLOCKS), Purpose(task_type), None
    )
    with pytest.raises(error, match=says) as raised:
        list(results)
    assert type(raised.value) is error
    expected = error is ZeroDivisionError  # a bug keeps its traceback, of the worker too
    assert ("stuck_encoder.py" in str(raised.value.__cause__)) == expected


@pytest.mark.slow
def test_an_error_with_blocks_in_flight_leaves_this_process_alive(cluster, tmp_path):
    # A block that is cancelled as it is sent ends the process: of 100 errors, about one did that.
    script = f"""
from tests.cde_eval.engines import test_ray as parts
from cde_eval.engines.cluster import connect
connect({cluster.address!r})
model = {f"listed:{tmp_path}"!r}
for number in range(250):
    engine = parts.engine_named(model, parts.RAY)
    encoder = parts.load_encoder(model)
    try:
        list(engine.embed(encoder, iter(parts.BLOCKS), parts.Purpose("STS"), None))
    except parts.TaskError:
        print("an error")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("an error") == 250


def test_a_machine_with_other_files_under_the_same_name_is_refused(cluster, tmp_path):
    model = f"listed:{tmp_path}"
    encoder = load_encoder(model)
    (tmp_path / "revision").write_text("2")
    with pytest.raises(ModelError, match=r"is 2 on .*, a machine of the cluster, and 1 here") as it:
        list(engine_named(model, RAY).embed(encoder, iter(BLOCKS), DOCUMENT, None))
    assert "\n" not in str(it.value)


def test_a_model_that_only_this_machine_has_is_refused(cluster, tmp_path):
    model = str(tmp_path / "gone")
    with pytest.raises(ModelError, match=r"^On .*, a machine of the cluster: There is no model"):
        engine = engine_named(model, RAY)
        list(engine.embed(load_encoder(f"listed:{tmp_path}"), iter(BLOCKS), DOCUMENT, None))


@pytest.mark.parametrize("queries", [1, 3, 70])
@pytest.mark.parametrize("top_k", [1, 10, 1025])
def test_a_search_gives_the_same_rows_and_bits(cluster, threads, monkeypatch, queries, top_k):
    monkeypatch.setattr(engine_module, "BYTES_PER_SEARCH", 1)
    random = np.random.default_rng(queries)
    documents = random.standard_normal((3 * LARGEST_TILE + 77, 24), dtype=np.float32)
    documents[LARGEST_TILE + 3 : LARGEST_TILE + 9] = documents[:6]  # ties, over a border
    left = np.concatenate([documents[2:3], random.standard_normal((queries - 1, 24))])
    left = left.astype(np.float32)
    engine = engine_named("minilm", RAY)
    found = engine.search(left, documents, top_k, device="cpu")
    expected = nearest(left, documents, top_k)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("rows", [0, 1, 9, 10, 19, 20, 21, 30, 99])
def test_blocks_are_the_whole_corpus_and_none_is_small(rows):
    blocks = engine_module._blocks(rows, 10)
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(rows))
    assert all(stop - start >= min(rows, 10) for start, stop in blocks)
    assert all(start % 10 == 0 for start, _ in blocks)


def test_a_cluster_without_what_is_needed_is_said(cluster, recwarn):
    engine = engine_named("minilm", LoadOptions(device="cuda", engine="ray"))
    assert engine._workers() == 0
    assert "No machine of the Ray cluster has 1 CPU and 1 GPU" in str(recwarn[0].message)


@pytest.mark.parametrize("asked", ["rya", "ray-cluster", "here:now", ""])
def test_an_engine_that_is_not_there_is_answered(asked):
    with pytest.raises(ConfigError, match=r"There is no engine .*; use here, ray"):
        engine_named("minilm", LoadOptions(engine=asked))


def test_an_address_where_nobody_answers_is_said_at_once(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"No Ray cluster can be used at {address}: ") as it:
            engine_named("minilm", LoadOptions(engine=f"ray:{address}"))
    assert "\n" not in str(it.value)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'cde-eval\[ray\]'"):
        engine_named("minilm", RAY)


def test_one_of_two_machines_killed_with_a_block_in_hand_costs_nothing(cluster, tmp_path):
    # Last in this file, since the cluster is smaller from here on.
    (doomed, _) = cluster.worker_nodes  # of two machines, one remains
    (tmp_path / "stuck").write_text(doomed.node_id)
    for pipe in ("pipe", "never"):
        os.mkfifo(tmp_path / pipe)
    model = f"stuck:{tmp_path}"
    encoder = load_encoder(model)
    results = engine_named(model, RAY).embed(encoder, iter(BLOCKS), DOCUMENT, None)
    found = [next(results)]
    cluster.remove_node(doomed, allow_graceful=False)
    cluster.wait_for_nodes(timeout=120)  # until Ray knows, which on a busy machine takes a while
    with pytest.warns(CdeWarning, match="lost 1 of its machines and has 2 left"):
        found += results
    assert sorted(number for number, _ in found) == list(range(len(BLOCKS)))
    for number, vectors in Here().embed(encoder, iter(BLOCKS), DOCUMENT, None):
        np.testing.assert_array_equal(dict(found)[number], vectors)
    begun = (tmp_path / "begun").read_text().splitlines()
    in_hand = {line.split(" ", 1)[1] for line in begun if line.startswith(doomed.node_id)}
    again = {line.split(" ", 1)[1] for line in begun if not line.startswith(doomed.node_id)}
    assert in_hand and in_hand <= again
