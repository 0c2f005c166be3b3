"""The house as the README draws it, and the direction of its imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = sorted(path for room in ("cde_core", "cde_eval") for path in REPOSITORY.glob(f"{room}/**/*.py"))  # fmt: skip # noqa: E501
LIGHT = {"torch", "transformers", "tokenizers", "safetensors", "numpy", "huggingface_hub", "tyro"}


def imported(path: Path, *, at_top: bool = False) -> set[str]:
    """Modules that a file imports: anywhere, or as soon as it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in tree.body if at_top else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_the_model_does_not_know_the_harness():
    for path in SOURCES:
        if path.is_relative_to(REPOSITORY / "cde_core"):
            assert not any(name.startswith("cde_eval") for name in imported(path)), path


def test_the_model_and_its_trainer_import_only_what_a_bare_gpu_machine_has():
    """What reads recipes, clusters or draws tables is imported by the functions that need it."""
    for path in SOURCES:
        if path.is_relative_to(REPOSITORY / "cde_core"):
            packages = {name.split(".")[0] for name in imported(path, at_top=True)}
            foreign = packages - set(sys.stdlib_module_names) - LIGHT - {"cde_core"}
            assert not foreign, f"{path} imports {foreign}"


def test_the_trainer_can_be_imported_where_nothing_else_is_installed():
    forbidden = ("pydantic", "faiss", "sklearn", "datasets", "pyarrow", "pandas", "mteb")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({forbidden}))\n"
        "import cde_core.train.gradients, cde_core.train.trainer, cde_core.recipe"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False)
    assert done.returncode == 0


def test_importing_the_model_is_quick_because_it_imports_no_torch():
    code = "import sys, cde_core; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0


def test_help_does_not_wait_for_torch():
    for module in ("cde_eval.cli", "cde_core.cli"):
        code = f"import sys, {module}; sys.exit('torch' in sys.modules or 'mteb' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False)
        assert done.returncode == 0, module


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_every_file_says_what_it_is_and_has_a_place_on_the_map(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "no module docstring"
    if path.name != "__init__.py":
        name = path.stem
        assert name in (REPOSITORY / "README.md").read_text(encoding="utf-8"), (
            f"{name} is not on it"
        )
        assert name != "utils"


def test_ci_calls_the_test_command_of_the_readme():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    ci = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test\n" in readme and ci.rstrip().endswith("make test")
