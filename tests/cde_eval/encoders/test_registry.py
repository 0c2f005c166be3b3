import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from cde_core.errors import ModelError
from cde_core.text import Purpose
from cde_eval.encoders import Encoder, Ranker, encoder_kinds, load_encoder

THIRD_PARTY = textwrap.dedent(
    """
    import numpy as np

    class Lengths:
        name, revision = "somebody/lengths", "7"
        context_size, similarity, task_types, settings = 0, "cosine", None, {}

        def __init__(self, argument):
            self.scale = float(argument or 1)

        def read_context(self, documents, *, purpose):
            return None

        def encode(self, texts, *, purpose, context=None):
            return np.array([[len(t) * self.scale, 1.0] for t in texts], dtype=np.float32)

    def load(argument, options):
        return Lengths(argument)
    """
)


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A package of somebody else's, installed as pip would: a module and its metadata."""
    (tmp_path / "somebodys_encoder.py").write_text(THIRD_PARTY)
    info = tmp_path / "somebodys_encoder-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-encoder\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[cde_eval.encoders]\nlengths = somebodys_encoder:load\nbroken = no_such_module:load\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("somebodys_encoder", None)


def test_our_own_encoders_are_entry_points_too():
    assert {"biencoder", "bm25", "cde", "centred", "whitened", "minilm"} <= set(encoder_kinds())


def test_an_encoder_of_another_package_is_found_without_touching_ours(third_party):
    encoder = load_encoder("lengths:2")
    assert isinstance(encoder, Encoder) and not isinstance(encoder, Ranker)
    vectors = encoder.encode(["abc"], purpose=Purpose("STS"))
    assert np.array_equal(vectors, [[6.0, 1.0]])


def test_a_package_that_cannot_be_imported_is_named(third_party):
    with pytest.raises(ModelError, match=r"'broken'.*no_such_module.*Reinstall"):
        load_encoder("broken")


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("minlm", "Did you mean 'minilm'"),
        ("bm25:fast", "takes no argument"),
        ("centred:bm25", "context-free"),
        ("./no/such/folder", "there is no model|There is no model"),
        ("biencoder", "needs a model"),
        ("cde", "needs a model"),
    ],
)
def test_a_model_that_is_not_there_is_answered_with_what_to_do(asked, answer):
    with pytest.raises(ModelError, match=answer):
        load_encoder(asked)


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "model.bin").write_text("")
    with pytest.raises(ModelError, match="a model is a folder"):
        load_encoder(str(tmp_path / "model.bin"))


def test_a_folder_without_a_model_is_one_line(tmp_path):
    with pytest.raises(ModelError, match="does not load") as caught:
        load_encoder(str(tmp_path))
    assert "\n" not in str(caught.value)
