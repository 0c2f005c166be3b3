import pytest

from cde_core.errors import ModelError
from cde_eval.encoders import load_encoder, minilm


def test_the_package_holds_the_published_files(minilm_folder):
    minilm.check_published(minilm_folder)


def test_a_folder_with_other_weights_is_refused(tmp_path):
    for name in minilm.PUBLISHED_SHA256:
        (tmp_path / name).write_text("other weights")
    with pytest.raises(ModelError, match="is not the published all-MiniLM-L6-v2"):
        minilm.check_published(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(ModelError, match="is missing"):
        minilm.check_published(tmp_path)


def test_it_is_filed_under_the_name_that_is_published(minilm_folder):
    encoder = load_encoder("minilm")
    assert encoder.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert encoder.context_size == 0
