import pytest
import torch

from cde_core.errors import ContextError
from cde_core.model.context import Context, digest_of


def a_context():
    return Context(
        vectors=torch.arange(12.0).reshape(3, 4),
        source="corpus:NFCorpus/test seed 42",
        documents=3,
        digest=digest_of(["a", "b", "c"]),
        prefix="search_document: ",
        fingerprint="0123",
    )


def test_a_saved_context_comes_back_with_everything_it_knew(tmp_path):
    context = a_context()
    back = Context.load(context.save(tmp_path / "deep" / "nfcorpus.safetensors"))
    assert torch.equal(back.vectors, context.vectors)
    for name in ("source", "documents", "digest", "prefix", "fingerprint"):
        assert getattr(back, name) == getattr(context, name)


def test_saving_leaves_nothing_unfinished_behind(tmp_path):
    a_context().save(tmp_path / "c.safetensors")
    a_context().save(tmp_path / "c.safetensors")
    assert [file.name for file in tmp_path.iterdir()] == ["c.safetensors"]


def test_no_context_says_so_and_survives_a_file(tmp_path):
    back = Context.load(Context.null().save(tmp_path / "none.safetensors"))
    assert back.is_null and back.source == "none" and len(back.vectors) == 0


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ContextError, match="There is no context file"):
        Context.load(tmp_path / "absent.safetensors")


def test_another_file_is_refused(tmp_path):
    (tmp_path / "text").write_text("not a context")
    with pytest.raises(ContextError, match="not a saved context"):
        Context.load(tmp_path / "text")


def test_the_digest_tells_order_and_borders():
    assert digest_of(["ab", "c"]) != digest_of(["a", "bc"])
    assert digest_of(["a", "b"]) != digest_of(["b", "a"])
