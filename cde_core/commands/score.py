"""`cde-train score`: write a teacher's scores beside pairs and their hard negatives.

sources ──▶ WhichPairs ──▶ scores_of ──▶ write_selected ──▶ OUT, a table, and how to train on it
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cde_core.commands.choosing import (
    FLAT,
    HOW_READ,
    WHICH_PAIRS,
    HowRead,
    Sources,
    WhichPairs,
    say,
)

if TYPE_CHECKING:
    from cde_core.train.data.pairs import Pairs
    from cde_core.train.rivals.teachers import Teacher


def score(
    sources: Sources,
    /,
    *,
    out: Path,
    teacher: str,
    apart: bool = False,
    which: Annotated[WhichPairs, FLAT] = WHICH_PAIRS,
    how: Annotated[HowRead, FLAT] = HOW_READ,
) -> None:
    """Have a teacher score every pair's document and hard negatives, for distillation.

    A cross-encoder's scores are logits. Those of any other teacher are cosines, which differ by
    little: train on them with --loss.teacher-temperature 0.05 or so. The same command goes on where
    it stopped; the folder that it writes is a source of pairs.

    Args:
        sources: Files, folders, hub:ORG/NAME, docs; with negatives, as `cde-train mine` wrote them.
        out: Folder for the pairs with their scores.
        teacher: Who scores: cross-encoder:NAME (a folder, a hub name, or NAME@REVISION), or by its
            cosines minilm, a model's folder or name, tfidf, encoder:NAME.
        apart: Write each document and each negative as a pair of its own, with its score and the
            label 1 or 0: what the objectives cosent and classification are trained on.
        which: What is read of the sources.
        how: How the teacher reads, and where; a cross-encoder has --max-length tokens for both.
    """
    from cde_core.train.data.pairs import require_room_for_pairs
    from cde_core.train.log import WorkBar
    from cde_core.train.preparation import training_cache
    from cde_core.train.rivals.scoring import each_apart, scores_of, with_scores
    from cde_core.train.rivals.selection_report import scored_by_domain
    from cde_core.train.rivals.teachers import teacher_named
    from cde_core.train.rivals.written import write_selected

    reading = how.settings()
    require_room_for_pairs(out)
    pairs = which.of(sources)
    judge = teacher_named(teacher, pairs=pairs, **reading)
    texts = len(pairs) + int(pairs.first_negative[-1])
    with WorkBar(2 * texts, f"{teacher} reads the pairs", say) as progress:
        scored = scores_of(pairs, judge, cache=training_cache(), progress=progress)
    made_by = {
        "command": "cde-train score",
        "sources": sources,
        "pairs": pairs.digest,
        "teacher": teacher,
        "fingerprint": judge.fingerprint,
        "apart": apart,
        **how.said(),
    }
    made = (each_apart if apart else with_scores)(pairs, scored)
    written = write_selected(made, out, made_by=made_by, cache=training_cache())
    print(scored_by_domain(pairs, scored))
    print(f"\n{len(written):,} pairs: {out}")
    print(_advice(pairs, judge, out, apart=apart))


def _advice(pairs: Pairs, teacher: Teacher, out: Path, *, apart: bool) -> str:
    """How to train on what was written."""
    import numpy as np

    counts = np.diff(pairs.first_negative)
    without, most = int(np.count_nonzero(counts == 0)), int(counts.max())
    train = f"Train on them with: --data.sources {out} --loss.objective"
    if apart and not most:
        return f"{train} cosent\nNone has negatives, so all have the label 1."
    if apart:
        return f"{train} cosent (or classification)"
    advice = (
        f"{train} distillation --batches.hard-negatives {most} "
        f"--loss.teacher-temperature {teacher.temperature:g}"
    )
    if not most:
        return "Distillation needs negatives, and no pair has any; `cde-train mine` finds some."
    if without:
        return (
            f"{advice}\nDistillation needs negatives, and {without:,} pairs have none: of those it "
            "learns nothing. `cde-train mine` finds some."
        )
    return advice
