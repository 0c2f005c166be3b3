import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from cde_core.errors import ConfigError
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders import load_encoder
from cde_eval.plan import Evaluation, Failure
from cde_eval.probes import context_space as module
from cde_eval.probes.context_space import Shown, context_space, first_two_components
from cde_eval.report.context_space import EXHIBITS
from cde_eval.report.exhibits import Results
from tests.cde_eval.probes.word_task import SOURCE
from tests.cde_eval.tiny_encoder import TinyEncoder

SHOWN = Shown(documents=10, drawn=3)
CONTEXTS = (ContextPolicy("corpus", 4), ContextPolicy("none", 4))


@pytest.fixture(autouse=True)
def no_bars(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")


def plan(encoder, **changes):
    settings = {"models": ("tiny",), "tasks": (SOURCE,), "policies": CONTEXTS, "draws": 3}
    return Evaluation(**{**settings, **changes}, loaded={"tiny": encoder})


def test_places_are_those_of_scikit_learn_up_to_a_mirror():
    vectors = np.random.default_rng(0).standard_normal((3, 4, 6))
    places, shares = first_two_components(vectors)
    pca = PCA().fit(vectors.reshape(12, 6))
    expected = pca.transform(vectors.reshape(12, 6))[:, :2].reshape(3, 4, 2)
    assert np.abs(places) == pytest.approx(np.abs(expected))
    assert shares == pytest.approx(pca.explained_variance_ratio_[:2])
    mirrored, _ = first_two_components(np.ascontiguousarray(vectors[:, ::-1]))
    assert mirrored == pytest.approx(places[:, ::-1])  # the order of documents mirrors nothing


def test_every_drawn_document_has_a_point_in_every_context(tmp_path):
    (rows,) = context_space(plan(TinyEncoder()), tmp_path, SHOWN)
    points = rows[rows["part"] == "points"]
    assert len(points) == 3 * (3 + 1)  # documents × (draws of corpus, and none)
    assert (points.groupby("document")["text"].nunique() == 1).all()
    numbers = rows[rows["part"] == "numbers"].set_index(["context", "measure"])
    assert set(numbers.index.get_level_values(0)) == {"all", "corpus"}  # none is one context
    assert 0 < numbers.loc[("all", "spread"), "value"] < 2
    assert 0 <= numbers.loc[("all", "closer"), "value"] <= 1


class Deaf(TinyEncoder):
    """Reads a context and does not heed it."""

    def encode(self, texts, *, purpose, context=None):
        return super().encode(texts, purpose=purpose)


def test_documents_of_a_model_that_ignores_its_context_do_not_move(tmp_path):
    (rows,) = context_space(plan(Deaf()), tmp_path, SHOWN)
    value = rows[rows["context"] == "all"].set_index("measure")["value"]
    assert value["spread"] == pytest.approx(0, abs=1e-6) and value["closer"] == 1
    assert value["distance"] > 0.1


def test_a_finished_run_is_read_and_one_that_was_stopped_goes_on(tmp_path, monkeypatch):
    (whole,) = context_space(plan(TinyEncoder()), tmp_path / "whole", SHOWN)

    def stopped(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as during, pytest.raises(KeyboardInterrupt):
        during.setattr(module, "_points", stopped)
        list(context_space(plan(TinyEncoder()), tmp_path / "cut", SHOWN))
    (rows,) = context_space(plan(TinyEncoder()), tmp_path / "cut", SHOWN)
    assert rows["part"].value_counts().equals(whole["part"].value_counts())
    files = [next((tmp_path / run / "probes").rglob("*.csv")) for run in ("whole", "cut")]
    assert files[0].read_text() == files[1].read_text()
    again = TinyEncoder()
    list(context_space(plan(again), tmp_path / "cut", SHOWN))
    assert not again.encoded


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        (TinyEncoder(context_size=0), "tiny reads no context, so a document has one vector"),
        (load_encoder("bm25"), "tiny ranks documents and has no vectors"),
    ],
)
def test_what_cannot_move_is_refused_in_one_line(encoder, said, tmp_path):
    (failure,) = context_space(plan(encoder), tmp_path, SHOWN)
    assert isinstance(failure, Failure) and failure.reason.startswith(said)


def test_one_context_is_refused(tmp_path):
    (failure,) = context_space(plan(TinyEncoder(), draws=1, policies=CONTEXTS[:1]), tmp_path)
    assert "give --draws 2 or more" in failure.reason
    with pytest.raises(ConfigError, match="cannot be drawn"):
        Shown(documents=3, drawn=4)


def test_exhibits_are_made_from_rows_on_disk_and_none_without(tmp_path):
    results, empty = (Results(tmp_path / name, tmp_path) for name in ("there", "nowhere"))
    list(context_space(plan(TinyEncoder()), results.folder, SHOWN))
    for exhibit in EXHIBITS:
        assert exhibit.make(results) is not None and exhibit.make(empty) is None
        assert exhibit.note(empty) == ""
    table = EXHIBITS[1].make(results)
    assert isinstance(table, pd.DataFrame) and list(table["context"]) == ["all (4)", "corpus (3)"]
    assert "10 documents are" in EXHIBITS[0].note(results)
