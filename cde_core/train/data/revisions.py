"""Which content a source has, without reading it again at each start.

    file ──▶ size and time as remembered? ──yes──▶ its sha256, as remembered
                          └──no──▶ read it, sha256, remember

Pairs are kept under the content they were made from. To take the checksum of ten gigabytes costs
half a minute, so it is remembered together with the file's size and time of change, and taken again
only where either differs. The revision of a data set on the hub is remembered too, for machines
that are offline later.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path

from cde_core.errors import DataError


class Revisions:
    """Checksums and revisions, in memory and in a JSON file."""

    def __init__(self, file: Path) -> None:
        """Remember in `file`, which need not exist; a damaged one is begun anew."""
        self._file = file
        try:
            remembered = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            remembered = {}
        self._known: dict[str, list[object]] = remembered if isinstance(remembered, dict) else {}

    def of_file(self, file: Path) -> str:
        """The sha256 of a file's content.

        Raises:
            DataError: If it cannot be read.
        """
        key = str(file.resolve())
        try:
            state = _state(file)
            known = self._known.get(key)
            if isinstance(known, list) and known[:-1] == state:
                return str(known[-1])
            with file.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            changed = _state(file) != state
        except OSError as error:
            raise DataError(
                f"{file} cannot be read ({error.strerror or error}); check its permissions."
            ) from None
        if not changed:  # else the next look will differ, which is how a caller notices
            self._remember(key, [*state, digest])
        return digest

    def remembered(self, name: str) -> str:
        """The revision that `remember` was told last; "" if none."""
        known = self._known.get(name)
        return str(known[-1]) if isinstance(known, list) and known else ""

    def remember(self, name: str, revision: str) -> None:
        """Keep the revision of something that may be out of reach later."""
        self._remember(name, [revision])

    def _remember(self, key: str, entry: list[object]) -> None:
        if self._known.get(key) == entry:
            return
        self._known[key] = entry
        self._file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._file.with_name(f"{self._file.name}.{uuid.uuid4().hex}.unfinished")
        unfinished.write_text(json.dumps(self._known, indent=1), encoding="utf-8")
        unfinished.replace(self._file)


def _state(file: Path) -> list[object]:
    about = file.stat()
    return [about.st_size, about.st_mtime_ns]
