"""A folder of pairs that a command makes: whole, or as it was before, and how it was made.

    pairs, as they stream by ──▶ write_selected ──▶ DIR (pairs.json, …, made_by.json)

Writing is a copy at the speed of the disk, so a run that is killed while it writes begins that
anew, and what it left is removed. What took long before is kept elsewhere (each_pair.py).
"""

from __future__ import annotations

import glob
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cde_core.locks import one_process_at_a_time
from cde_core.train.batching.surrogates import digest_of_parts
from cde_core.train.data.pairs import UNFINISHED, Pair, Pairs, write_pairs

MADE_BY = "made_by.json"
HEX_DIGITS = "[0-9a-f]" * 32


def write_selected(
    pairs: Iterable[Pair], folder: Path, *, made_by: Mapping[str, Any], cache: Path
) -> Pairs:
    """Write pairs into a folder, which a recipe's `data.sources` takes.

    Args:
        pairs: As `write_pairs` takes them.
        folder: New, or of pairs, which are replaced.
        made_by: What decided them, for people; written as JSON beside them.
        cache: Who else writes to the folder waits at a file below this one.

    Raises:
        DataError: If the folder holds something else, or cannot be written.
    """
    folder = folder.resolve()
    locks = cache / "written"
    locks.mkdir(parents=True, exist_ok=True)
    with one_process_at_a_time(locks / f"{digest_of_parts(str(folder))}.lock"):
        for leftover in folder.parent.glob(f"{glob.escape(folder.name)}.{HEX_DIGITS}*{UNFINISHED}"):
            shutil.rmtree(leftover, ignore_errors=True)
        written = write_pairs(pairs, folder)
        unfinished = folder / f"{MADE_BY}{UNFINISHED}"
        about = json.dumps(dict(made_by), indent=2, ensure_ascii=False)
        unfinished.write_text(about + "\n", encoding="utf-8")
        unfinished.replace(folder / MADE_BY)
    return written
