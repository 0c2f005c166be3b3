"""What encoders lose to BM25 where the words of a corpus are far from what they were trained on.

    records of BM25 and of models ─┐
    published scores of BEIR ──────┼──▶ losses ──▶ a panel per model
    distances (probe `idf`) ───────┘

Source: Morris and Rush (2024), figure 8, https://arxiv.org/abs/2410.02525
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from cde_eval.report.correlation import LEAST, Correlation, pearson
from cde_eval.report.exhibits import Exhibit, Results
from cde_eval.report.probe_names import IDF
from cde_eval.report.style import BLUE, PAGE, VERMILION, look, styled_figure
from cde_eval.report.tables import told_apart, usual
from cde_eval.results import RunRecord, tidy

PANELS_BESIDE = 3
SHOWN = ("ANCE", "ColBERT", "docT5query", "GenQ", "SPARTA", "TAS-B", "BM25+CE")
"""Published systems that the paper's figure has, in its order."""

KEYS = ["model", "task", "per_word", "total", "loss"]


def losses(records: Iterable[RunRecord], distances: pd.DataFrame) -> pd.DataFrame:
    """BM25's score less each model's, beside the distance of the corpus.

    Each model counts with the corpus as context, or with none where it reads none, at the size that
    it has most, on exactly the data that the distance was measured on, and only where nothing but
    the model differs. A model of another revision or with other settings is another model; of BM25
    the one whose records come last is compared with.

    Args:
        records: Evaluations, BM25's with the corpus as context among them.
        distances: Rows of the probe `idf`, of one reference.

    Returns:
        A row per model and task with `loss`, the difference in nDCG@10 from −1 to 1.
    """
    frame = tidy(usual(records))
    if frame.empty or distances.empty:
        return pd.DataFrame(columns=KEYS)
    plain = frame["policy"].eq("corpus") | frame["size"].eq("0")
    frame = frame[plain & frame["measure"].eq("ndcg_at_10")]
    frame = _with_corpus_where_there_is(_with_one_bm25(frame))
    frame["model"] += told_apart(frame, ["model"], {"revision": "{}", "settings": "{}"})
    keys = ["protocol", "task", "task_revision"]
    scores = frame.groupby([*keys, "model"])["score"].mean().unstack("model")
    if "bm25" not in scores:
        return pd.DataFrame(columns=KEYS)
    protocols = scores.index.get_level_values("protocol")
    scores = scores[protocols == ("paper" if "paper" in protocols else protocols[0])]
    lost = scores.drop(columns="bm25").rsub(scores["bm25"], axis=0)
    long = lost.rename_axis(columns="model").stack().rename("loss").dropna().reset_index()
    where = distances.rename(columns={"data": "task_revision"})
    return long.merge(where.drop(columns="model", errors="ignore"), on=["task", "task_revision"])[
        KEYS
    ]


def _with_one_bm25(frame: pd.DataFrame) -> pd.DataFrame:
    """Of BM25 only what it does with the corpus, in its last revision and settings."""
    ours = frame["model"].eq("bm25")
    reads = frame[ours & frame["policy"].eq("corpus")]
    chosen = ["revision", "settings"]
    if len(reads):
        reads = reads[reads[chosen].eq(reads[chosen].iloc[-1]).all(axis=1)]
    return pd.concat([reads, frame[~ours]])


def _with_corpus_where_there_is(frame: pd.DataFrame) -> pd.DataFrame:
    """Of a model that was run with and without context, only the runs with."""
    read = frame.loc[frame["policy"].eq("corpus"), "model"]
    return frame[frame["policy"].eq("corpus") | ~frame["model"].isin(read)]


def published_losses(scores: pd.DataFrame, distances: pd.DataFrame) -> pd.DataFrame:
    """As `losses`, of published scores: a row per data set, a column per system and BM25."""
    if scores.empty or distances.empty:
        return pd.DataFrame(columns=KEYS)
    lost = scores.set_index("dataset")[list(SHOWN)].rsub(
        scores.set_index("dataset")["BM25"], axis=0
    )
    long = lost.rename_axis(columns="model").stack().rename("loss").reset_index()
    by_name = distances.assign(dataset=distances["task"].str.lower())
    found = long.merge(by_name.drop(columns="model", errors="ignore"), on="dataset")
    return found.assign(model=found["model"] + " (published)")[KEYS]


@look()
def loss_by_distance(frame: pd.DataFrame, reference: str) -> Figure:
    """A panel per model: distance of each corpus against what the model loses to BM25 there.

    Args:
        frame: From `losses`.
        reference: What corpora were compared with.
    """
    models = list(dict.fromkeys(frame["model"]))
    columns = min(PANELS_BESIDE, len(models))
    rows = math.ceil(len(models) / columns)
    width = PAGE if columns > 1 else 0.6 * PAGE
    figure, grid = styled_figure(
        width, 0.4 + 2.5 * rows, rows=rows, columns=columns, sharex=True, sharey=True
    )
    for number, (axes, model) in enumerate(zip(grid.flat, models, strict=False)):
        _panel(axes, frame[frame["model"] == model], model)
        axes.tick_params(labelbottom=number + columns >= len(models))  # the lowest of its column
    for axes in grid.flat[len(models) :]:
        axes.set_visible(False)
    figure.supxlabel(f"mean difference of a word's IDF from {_in_words(reference)} (nats)", size=8)
    figure.supylabel("BM25 − model, points of nDCG@10", size=8)
    figure.draw_without_rendering()
    for axes, model in zip(grid.flat, models, strict=False):
        _name_points(axes, frame[frame["model"] == model])
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, model: str) -> None:
    found = pearson(rows["per_word"].tolist(), rows["loss"].tolist())
    few = f"{len(rows)} data set{'s' * (len(rows) != 1)}: too few for a correlation"
    axes.set_title(f"{model}\n{found or few}")
    axes.axhline(0, color="0.6", linewidth=0.7)
    colours = [VERMILION if loss > 0 else BLUE for loss in rows["loss"]]
    axes.scatter(rows["per_word"], 100 * rows["loss"], c=colours, s=12, zorder=3)
    axes.margins(x=0.2, y=0.15)


def _name_points(axes: Axes, rows: pd.DataFrame) -> None:
    """Write names beside points where there is room; those in a crowd stay without."""
    taken = [_around(axes, x, 100 * y) for x, y in zip(rows["per_word"], rows["loss"], strict=True)]
    inside = axes.get_window_extent()
    for row in rows.sort_values("loss", key=abs, ascending=False).itertuples():
        for offset, side in (((4, 0), "left"), ((-4, 0), "right"), ((0, 5), "center"),
                             ((0, -8), "center")):  # fmt: skip
            text = axes.annotate(
                str(row.task),
                (float(row.per_word), 100 * float(row.loss)),
                offset,
                textcoords="offset points",
                ha=side,
                va="bottom" if offset[0] == 0 else "center",
                fontsize=5.5,
                color="0.25",
            )
            text.set_in_layout(False)
            box = _box(text)
            fits = inside.x0 <= box[0] and box[2] <= inside.x1
            if fits and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                break
            text.remove()


Box = tuple[float, float, float, float]


def _box(text: Annotation) -> Box:
    extent = text.get_window_extent()
    return extent.x0, extent.y0, extent.x1, extent.y1


def _around(axes: Axes, x: float, y: float) -> Box:
    across, up = axes.transData.transform((x, y))
    return across - 3, up - 3, across + 3, up + 3


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _in_words(reference: str) -> str:
    return "the built-in documentation" if reference == "docs" else reference.removeprefix("task:")


def distances_of_one_reference(results: Results) -> tuple[pd.DataFrame, str]:
    """Rows of the reference that most corpora were compared with."""
    frame = results.probe(IDF)
    if frame.empty:
        return frame, ""
    sizes = frame.groupby("reference")["task"].nunique()
    reference = str(sizes.idxmax())
    rows = frame[frame["reference"] == reference]
    return rows.drop_duplicates(["task", "data"], keep="last"), reference


def _frame(results: Results) -> tuple[pd.DataFrame, str]:
    """Models with at least one data set, then published systems with enough for a correlation."""
    distances, reference = distances_of_one_reference(results)
    ours = losses(results.records, distances)
    theirs = published_losses(results.published("beir"), distances)
    if not theirs.empty and theirs["task"].nunique() < LEAST:
        theirs = theirs.iloc[:0]
    parts = [part for part in (ours, theirs) if not part.empty]
    return (pd.concat(parts) if parts else ours), reference


def _figure(results: Results) -> Figure | None:
    frame, reference = _frame(results)
    return loss_by_distance(frame, reference) if len(frame) else None


def _note(results: Results) -> str:
    frame, reference = _frame(results)
    if frame.empty:
        return ""
    parts = []
    for model, rows in frame.groupby("model", sort=False):
        found: Correlation | None = pearson(rows["total"].tolist(), rows["loss"].tolist())
        parts.append(f"{model}: {found or 'too few data sets'}")
    return (
        f"Reference: {_in_words(reference)}. With the sum over all terms, which grows with the "
        f"corpus, in place of the mean over its words: {'; '.join(parts)}."
    )


EXHIBITS = (
    Exhibit(
        name="figure-8-idf",
        section="context",
        title="Do encoders lose to BM25 where words are unusual?",
        caption="Each point is a data set: across, how far the IDF of its words is from that of "
        "the reference; up, BM25's nDCG@10 less the model's, so above zero BM25 is better. "
        "Pearson's r with its 95 % interval. The paper gives no formula of its IDF distance; "
        "this is the mean difference over the words of the corpus. Published systems appear where "
        "four of their corpora have been measured.",
        source="CDE paper, figure 8",
        command="cde-eval idf --model minilm --data my-corpora --reference task:MSMARCO",
        make=_figure,
        note=_note,
    ),
)
