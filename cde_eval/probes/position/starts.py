"""Where relevant passages stand, which is what a model could have learnt to expect.

Source: Coelho et al. (2024), section 4.2 and figure 2, https://arxiv.org/abs/2404.04163
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from cde_eval.probes.position.passages import Passages
from cde_eval.probes.table import ProbeTable

PROBE = "position-starts"


def probe_starts(data: Passages, output: Path) -> pd.DataFrame:
    """Note where each passage begins; no model is asked.

    Returns:
        A row per query: characters before its passage, of the passage, and of the document.
    """
    about = {
        "model": data.name,
        "model_name": "",
        "revision": "",
        "data": data.name,
        "data_revision": data.revision,
    }
    table = ProbeTable(output, PROBE, about, cell=["data"])
    if not table.has(data=data.name):
        rows = [
            {
                "start": one.start,
                "passage": one.end - one.start,
                "document": len(data.documents[one.document]),
            }
            for one in data.passages
        ]
        table.add(rows, data=data.name)
    return table.frame
