"""The authors' code, run with the same weights, gives the same numbers."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from cde_core.model.weight_names import export_contextual

CASES = ("v1_train", "v2_train_modernbert", "v2_hubcode_modernbert", "head_nomic_instr")


def ids_and_mask(case, side):
    return case.inputs[f"{side}_input_ids"], case.inputs[f"{side}_attention_mask"]


def differences(case):
    """Largest difference per output; `hidden` is compared where there is text."""
    model, outputs = case.model, case.outputs
    with torch.no_grad():
        vectors = model.read_context(*ids_and_mask(case, "ctx"))
        context = model.prepare(outputs["dataset_embeddings"])
        found = {
            "dataset_embeddings": vectors,
            "soft_prompt": model.soft_prompts()[None],
            "doc_embeddings": model(*ids_and_mask(case, "doc"), context),
            "query_embeddings": model(*ids_and_mask(case, "query"), context),
        }
    return {name: (found[name] - outputs[name]).abs().max().item() for name in found}


@pytest.mark.parametrize("name", CASES)
def test_outputs_equal_those_of_the_authors_code(reference, name):
    found = differences(reference(name))
    assert max(found.values()) < 1e-5, found


@pytest.mark.parametrize("name", CASES)
def test_text_rows_after_the_last_layer_equal_those_of_the_authors_code(reference, name):
    case = reference(name)
    context = case.model.prepare(case.outputs["dataset_embeddings"])
    for side in ("doc", "query"):
        ids, mask = ids_and_mask(case, side)
        rows = case.model.hidden(ids, mask, context)
        torch.testing.assert_close(
            rows[mask.bool()], case.outputs[f"{side}_hidden"][mask.bool()], atol=1e-5, rtol=0
        )


def test_gradients_of_every_parameter_equal_those_of_the_authors_code(reference):
    case = reference("gradcache")
    model = case.model
    context = model.prepare(model.read_context(*ids_and_mask(case, "ctx")))
    queries, documents = (
        F.normalize(model(*ids_and_mask(case, side), context), dim=-1) for side in ("query", "doc")
    )
    loss = F.cross_entropy(queries @ documents.T / 0.02, torch.arange(len(queries)))
    loss.backward()
    assert loss.item() == pytest.approx(case.outputs[""].item(), rel=1e-5)

    gradients = {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in model.named_parameters()
    }
    for name, gradient in export_contextual(gradients, model.config).items():
        expected = case.outputs[name]
        assert (gradient - expected).norm() <= 1e-4 * expected.norm() + 1e-9, name


def test_the_numbers_notice_context_in_the_mean(reference):
    case = reference("v1_train")
    case.model.config = dataclasses.replace(case.model.config, pool_context=True)
    assert differences(case)["doc_embeddings"] > 1e-3


def test_the_numbers_notice_a_token_type_on_context(reference):
    case = reference("v1_train")
    types = case.model.backbone.token_types.weight[0].detach()
    case.outputs["dataset_embeddings"] = case.outputs["dataset_embeddings"] + types
    assert differences(case)["doc_embeddings"] > 1e-4


def test_the_numbers_notice_text_normalised_only_once(reference):
    case = reference("v2_train_modernbert")
    backbone = case.model.backbone
    case.model.text_rows = lambda ids: backbone.embedding_norm(backbone.embed(ids))
    assert differences(case)["doc_embeddings"] > 1e-4


def test_the_numbers_notice_rotated_context(reference):
    case = reference("v1_train")
    case.model.config = dataclasses.replace(case.model.config, rotary_on_context=True)
    assert differences(case)["doc_embeddings"] > 1e-4
