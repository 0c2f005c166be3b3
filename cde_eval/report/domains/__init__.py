"""Whose documents help: each task with the documents of each domain as its context.

    records with a context task:X ──▶ matrix ──┬▶ advantage    of a task's own documents
                                               └▶ heat_map     a panel per model

Source: Morris and Rush (2024), figure 7, https://arxiv.org/abs/2410.02525
"""

from cde_eval.report.domains import heat_map
from cde_eval.report.domains.advantage import advantage_in_words
from cde_eval.report.domains.matrix import marked_table, matrices

__all__ = ["EXHIBITS", "advantage_in_words", "marked_table", "matrices"]

EXHIBITS = (heat_map.EXHIBIT,)
