"""What probes call their tables and what stands in them, as far as the report has to know.

    probes ──▶ RESULTS/probes/NAME/*.csv ──▶ report

Files are all that the two share: importing probes would import torch, mteb and every encoder, and
a report needs none of them. A test compares these names with the probes' own.
"""

from __future__ import annotations

CONTEXT_SPACE = "context-space"
ALL_CONTEXTS = "all"
"""Stands for every context at once, in rows of `CONTEXT_SPACE`."""

CLUSTERS = "clusters"
DIFFICULTY = "difficulty"
DIFFICULTY_OF_RUNS = "difficulty-of-runs"
GEOMETRY = "geometry"
IDF = "idf"
NEIGHBOURS = "neighbours"

SPANS = "position-spans"
STARTS = "position-starts"
TENTHS = "position-tenths"

MOVED = "position-moved"
PLACES = 10
"""Places of a moved passage, from 1."""

UNCHANGED = 0
"""In place of a place: the passage was not moved."""

MOVED_MEASURES = ("ndcg_at_10", "mrr_at_100", "recall_at_100")
"""Columns of `MOVED`."""
