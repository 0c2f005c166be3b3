import pandas as pd
import pytest

from cde_core.errors import ConfigError
from cde_eval.contexts import ContextPolicy
from cde_eval.encoders import load_encoder
from cde_eval.encoders.cde import Cde
from cde_eval.plan import Evaluation, Failure
from cde_eval.probes import geometry as module
from cde_eval.probes.geometry import PARTS, Sizes, geometry
from cde_eval.probes.table import read_probe
from cde_eval.report.exhibits import Results
from cde_eval.report.geometry import EXHIBITS
from cde_eval.report.geometry.measured import measured
from cde_eval.report.geometry.summary import summary_table
from cde_eval.run import evaluate
from tests.cde_eval.probes.word_task import DOCUMENTS, SOURCE
from tests.cde_eval.test_for_training import tiny_model
from tests.cde_eval.tiny_encoder import DIM, TinyEncoder

CONTEXTS = (ContextPolicy("corpus", 4), ContextPolicy("none", 4))
SIZES = Sizes(texts=12, fewest=3)


@pytest.fixture(autouse=True)
def no_bars(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")


def plan(encoder, **changes):
    settings = {"models": ("tiny",), "tasks": (SOURCE,), "policies": CONTEXTS}
    return Evaluation(**{**settings, **changes}, loaded={"tiny": encoder})


def rows_of(outcomes):
    frames = [outcome for outcome in outcomes if isinstance(outcome, pd.DataFrame)]
    assert len(frames) == 1
    return frames[0]


def values(rows, measure, **where):
    for column, value in {"measure": measure, **where}.items():
        rows = rows[rows[column] == value]
    return rows.set_index("at")["value"]


def test_with_all_dimensions_the_score_is_the_ordinary_one_under_each_context(tmp_path):
    encoder = TinyEncoder()
    rows = rows_of(geometry(plan(encoder), tmp_path, SIZES))
    for record in evaluate(plan(encoder), tmp_path / "ordinary"):
        curve = values(rows, "ndcg_at_10", context=record.policy)
        assert list(curve.index) == [8, 16, 32, DIM]
        assert curve[DIM] == pytest.approx(record.scores[0].main, abs=1e-5)
        assert curve[8] < curve[DIM]


def test_a_contextual_encoder_is_measured_in_each_context_and_each_draw(tmp_path):
    rows = rows_of(geometry(plan(TinyEncoder(), draws=2), tmp_path, SIZES))
    drawn = set(zip(rows["context"], rows["draw"], strict=True))
    assert drawn == {("corpus", 0), ("corpus", 1), ("none", 0)}
    found = rows[(rows["measure"] == "anisotropy") & (rows["side"] == "documents")]
    by_context = found.groupby("context")["value"].mean()
    # What all documents share is what the mean of a context takes away.
    assert by_context["corpus"] < 0.2 < 0.5 < by_context["none"]


def test_a_context_free_encoder_is_measured_once_and_only_layers_are_left_out(tmp_path):
    left_out, rows = geometry(plan(TinyEncoder(context_size=0)), tmp_path, SIZES)
    assert left_out.expected and "tiny has no layers" in left_out.reason
    assert set(rows["context"]) == {"none"} and set(rows["part"]) == set(PARTS) - {"layers"}


def test_layers_of_a_contextual_transformer_show_its_context(tmp_path):
    encoder = Cde(tiny_model(), "tests/tiny", "1", "float32")
    rows = rows_of(geometry(plan(encoder), tmp_path, SIZES))
    similar = {one: values(rows, "self-similarity", context=one) for one in ("corpus", "none")}
    assert list(similar["corpus"].index) == [0, 1, 2, 3]
    # What goes into the first layer is the word alone: rotary positions come later.
    assert similar["none"][0] == pytest.approx(1, abs=1e-5)
    assert similar["none"][3] < 0.999
    assert similar["corpus"][0] == similar["none"][0]
    assert similar["corpus"][3] != similar["none"][3]


def test_what_has_no_vectors_is_refused_in_one_line(tmp_path):
    (failure,) = geometry(plan(load_encoder("bm25")), tmp_path, SIZES)
    assert isinstance(failure, Failure) and not failure.expected
    assert failure.reason.startswith("tiny ranks documents and has no vectors")


def test_a_run_that_was_stopped_goes_on_and_ends_with_the_same_table(tmp_path, monkeypatch):
    whole = rows_of(geometry(plan(TinyEncoder()), tmp_path / "whole", SIZES))
    calls = []

    def stopped(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return curve(*args, **kwargs)

    curve = module.truncated_scores
    monkeypatch.setattr(module, "truncated_scores", stopped)
    with pytest.raises(KeyboardInterrupt):
        list(geometry(plan(TinyEncoder()), tmp_path / "cut", SIZES))
    kept = read_probe(tmp_path / "cut", "geometry")
    assert set(kept["context"]) == {"corpus", "none"}
    monkeypatch.setattr(module, "truncated_scores", curve)
    list(geometry(plan(TinyEncoder()), tmp_path / "cut", SIZES))
    files = [sorted((tmp_path / run / "probes").rglob("*.csv")) for run in ("whole", "cut")]
    assert [path.name for path in files[0]] == [path.name for path in files[1]]
    assert files[0][0].read_text() == files[1][0].read_text()
    # A third run has nothing left to embed.
    again = TinyEncoder()
    rows = rows_of(geometry(plan(again), tmp_path / "cut", SIZES))
    assert not again.encoded and len(rows) == len(whole)


def test_fewer_than_three_texts_are_refused():
    with pytest.raises(ConfigError, match=r"give --documents and --texts 3 or more"):
        Sizes(documents=2)


def test_every_exhibit_is_made_from_rows_on_disk_and_none_without(tmp_path):
    encoder = Cde(tiny_model(), "tests/tiny", "1", "float32")
    results, empty = (Results(tmp_path / name, tmp_path) for name in ("there", "nowhere"))
    list(geometry(plan(encoder), results.folder, SIZES))
    for exhibit in EXHIBITS:  # one is of models that are named objective-… alone
        of_others = exhibit.name == "geometry-objectives"
        assert (exhibit.make(results) is None) is of_others and exhibit.make(empty) is None
        assert isinstance(exhibit.note(results), str) and exhibit.note(empty) == ""
    (table,) = (exhibit.make(results) for exhibit in EXHIBITS if exhibit.name == "geometry")
    assert list(table["context"]) == ["corpus", "none"]


def test_two_tables_of_one_model_are_not_averaged(tmp_path):
    for most in (6, len(DOCUMENTS)):
        list(geometry(plan(TinyEncoder(0)), tmp_path, Sizes(texts=12, documents=most)))
    rows = read_probe(tmp_path, "geometry")
    assert rows["documents"].nunique() == 2
    shown = measured(Results(tmp_path, tmp_path))
    assert shown["documents"].nunique() == 1
    assert len(summary_table(shown)) == rows["context"].nunique()
