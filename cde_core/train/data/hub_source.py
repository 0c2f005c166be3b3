"""Pairs from a data set on the Hugging Face hub, streamed: nothing but the pairs is kept.

    "org/name:part" ──▶ HubSource ──▶ commit; rows of a configuration or of its splits ──▶ Pair

Layouts are found by their columns (row_layouts.py), so any data set that has them will do. The rows
are those of one commit, which is the source's revision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cde_core.errors import ConfigError, DataError, did_you_mean
from cde_core.train.data.pairs import Pair
from cde_core.train.data.revisions import Revisions
from cde_core.train.data.row_layouts import BadRow, pair_or_bad


class HubSource:
    """A data set on the Hugging Face hub, streamed.

    Of its splits "train" is read if there is one; otherwise all are, by name, since the data sets
    of Nomic and BGE call their domains splits. A row that does not name its domain has that of its
    split, else of its configuration, else of its data set.
    """

    def __init__(self, argument: str) -> None:
        """Take "org/name", or "org/name:part" for one configuration or split."""
        self._name, _, self._part = argument.partition(":")
        self._revision: str | None = None

    def revision(self, revisions: Revisions) -> str:
        """The commit on the hub; offline the one seen last, or else "offline"."""
        key = f"hub:{self._name}"
        found = self._commit() or revisions.remembered(key)
        if found:
            revisions.remember(key, found)
        self._revision = found or None
        return f"{key}:{self._part} {found or 'offline'}"

    def _commit(self) -> str:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

        try:
            return HfApi().dataset_info(self._name, timeout=20).sha or ""
        except (RepositoryNotFoundError, HFValidationError):
            raise DataError(
                f"The hub has no data set {self._name!r} that you may read; check data.sources, "
                "and log in where it is not public."
            ) from None
        except Exception:  # offline, behind a proxy, out of time: the client raises many kinds
            return ""

    def read(self) -> Iterator[Pair | BadRow]:
        """Every row of the part that was asked for."""
        for domain, rows in self._parts().items():
            number, where = 0, f"hub:{self._name}, {domain}"
            try:
                for number, row in enumerate(rows, start=1):
                    yield pair_or_bad(row, domain, where, "row", number)
            except Exception as error:
                raise self._unreadable(f" beyond row {number} of {domain}", error) from error

    def _parts(self) -> dict[str, Iterable[object]]:
        """Rows by the domain that they have unless they say otherwise."""
        from datasets import get_dataset_config_names, load_dataset

        name, part, revision = self._name, self._part, self._revision
        try:
            configs = get_dataset_config_names(name, revision=revision)
            config = part if part in configs else None
            splits = load_dataset(name, config, streaming=True, revision=revision)
        except Exception as error:
            raise self._unreadable("", error) from error
        if config is None and part:
            if part not in splits:
                known = [*configs, *splits]
                raise ConfigError(
                    f"hub:{name} has no configuration or split {part!r}."
                    f"{did_you_mean(part, known)} It has {', '.join(known)}."
                )
            return {part: splits[part]}
        if "train" in splits:
            named = config or (configs[0] if len(configs) == 1 else "default")
            return {name.rpartition("/")[2] if named == "default" else named: splits["train"]}
        return {split: splits[split] for split in sorted(splits)}

    def _unreadable(self, where: str, error: Exception) -> DataError:
        reason = (str(error).splitlines() or [""])[0][:200]
        return DataError(
            f"hub:{self._name} cannot be read{where} ({type(error).__name__}: {reason}); repeat "
            "the command when the hub can be reached, or download the files and name their folder."
        )
