import pytest
import torch

from cde_core.model.biencoder import Biencoder
from cde_core.model.config import BiencoderConfig
from cde_core.model.layer_rows import rows_of_layers
from tests.cde_core.conftest import BACKBONES, shaken

DOCUMENTS = ["the cat", "tax law", "river mill", "stone bread"]


@pytest.mark.parametrize("family", BACKBONES)
def test_the_rows_are_those_of_the_layers_run_one_by_one(family):
    model = shaken(Biencoder(BiencoderConfig(backbone=BACKBONES[family], max_length=16)))
    backbone = model.backbone
    ids = torch.tensor([[1, 12, 13, 14, 2]])
    with torch.no_grad(), rows_of_layers(backbone) as rows:
        out = backbone(ids)
        assert torch.equal(rows[-1], out)  # what the model leaves, its last norm included
    assert len(rows) == len(backbone.layers) + 1
    with torch.no_grad():
        assert torch.equal(rows[0], backbone.embedding_norm(backbone.embed(ids)))
        # A stack of the first two layers alone gives the rows after two.
        backbone.layers = backbone.layers[:2]
        backbone.final_norm = torch.nn.Identity()
        assert torch.equal(rows[2], backbone(ids))


@pytest.mark.parametrize("attention", ["joint", "prefix"])
def test_a_text_in_context_has_its_rows_last_and_the_last_ones_are_what_is_pooled(
    encoder, attention
):
    ours = encoder("nomic", context_attention=attention, null_context=True)
    context = ours.read_context(DOCUMENTS)
    ids = torch.tensor([ours.reader.read(["the cat bread"])[0].tolist()])
    with torch.no_grad():
        prepared = ours.model.prepare(context.vectors)
        expected = ours.model.hidden(ids, None, prepared)
        with rows_of_layers(ours.model.backbone) as rows:
            ours.encode(["the cat bread"], context=context)
    torch.testing.assert_close(rows[-1][:, -ids.shape[1] :], expected)
    torch.testing.assert_close(rows[0][:, -ids.shape[1] :], ours.model.text_rows(ids))


def test_nothing_listens_afterwards(encoder):
    backbone = encoder("bert", null_context=True).model.backbone
    with pytest.raises(KeyError), rows_of_layers(backbone):
        raise KeyError
    modules = list(backbone.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in modules)
