import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from cde_core.errors import ConfigError, TaskError
from cde_eval.tasks.docstring_text import split_docstring
from cde_eval.tasks.docstrings import PYTHON, installed_version, read_docstrings, source_files
from cde_eval.tasks.documentation import (
    DOMAINS,
    DocPair,
    Documentation,
    build_documentation,
    load_documentation,
)

REPOSITORY = Path(__file__).parents[3]

BODY = (
    "The series is cut into windows of equal length, each window is turned into a spectrum, "
    "and the spectra are averaged, which trades resolution in frequency for a smaller variance."
)
OTHER_BODY = BODY.replace("windows", "segments").replace("window", "segment")


def install(folder: Path, files: dict[str, str], package: str = "tinydocs") -> None:
    """Write a package and the metadata by which Python knows its version."""
    for name, text in files.items():
        path = folder / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")


def function(name: str, summary: str, body: str = BODY) -> str:
    return f'def {name}():\n    """{summary}\n\n    {body}\n    """\n\n'


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python looks for packages in."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


# One docstring


def test_the_first_sentence_is_the_query_and_the_rest_the_document():
    text = f"Estimate a power spectrum, e.g. A or B.  By averaging.\n\n    {BODY}\n    "
    assert split_docstring(text, "m.welch") == (
        "Estimate a power spectrum, e.g. A or B.",
        f"By averaging.\n\n{BODY}",
    )


def test_the_name_of_the_object_leaves_the_document_and_takes_its_brackets_along():
    text = (
        "Estimate the power spectrum of a series.\n\n"
        f"{BODY} Call `welch`, or ``np.welch()``, on it; (welch) does not mean a Welchman.\n\n"
        "See :func:`~scipy.signal.welch`.\n\n"
        "    >>> from tinydocs import welch, other\n"
        "    >>> welch(x)\n"
    )
    assert split_docstring(text, "tinydocs.welch") == (
        "Estimate the power spectrum of a series.",
        f"{BODY} Call, or, on it; does not mean a Welchman.\n\n"
        "See.\n\n"
        "    >>> from tinydocs import other\n"
        "    >>> (x)",
    )


def test_an_echo_of_the_summary_leaves_the_document_even_over_two_lines():
    text = f"Estimate a power spectrum.\n\n{BODY} It will\nEstimate a\npower spectrum.\n"
    expected = ("Estimate a power spectrum.", f"{BODY} It will")
    assert split_docstring(text, "m.welch") == expected


def test_a_signature_or_a_title_before_the_summary_is_dropped():
    expected = ("Estimate the power spectrum.", BODY)
    for heading in (
        "welch(x, axes=(0, 1), *,\n      out=None) -> Tensor\n\n",
        "welch($self, /)\n--\n\nx.welch(y)\n\n",
        "====\nTitle\n====\n\n",
        "Title\n-----\n",
    ):
        assert (
            split_docstring(f"{heading}Estimate the power spectrum.\n\n{BODY}", "welch") == expected
        )


def test_markup_in_the_query_becomes_words():
    summary = (
        "Give the :class:`~torch.Tensor` as ``x`` or :class:`Path`\\s "
        "or [`~Figure`] or `.Axes` of *name*."
    )
    query, _ = split_docstring(f"{summary}\n\n{BODY}", "m.f") or ("", "")
    assert query == "Give the torch.Tensor as x or Paths or Figure or Axes of name."


def test_a_label_with_the_name_of_the_object_is_no_part_of_the_query():
    for label in ("wave.py -- ", "wave: ", "wave --- ", "str: "):
        text = f"{label}Read and write WAV files.\n\n{BODY}"
        assert split_docstring(text, "wave") == ("Read and write WAV files.", BODY)


@pytest.mark.parametrize(
    "summary",
    [
        "Power spectrum.",  # too short
        "Deprecated since 1.2: use something else instead.",
        "Return the %(klass)s of the given object.",
        "f(x, y) -> z and so on and on",
        "x_1 + x_2 * 3 ** 4 == 2 ** 7 + a(1, 2)",
        "See the documentation of the other function.",
        "The following things are returned by this:",
        ".. note:: this is not the summary you look for",
        "Parameters\n----------\nx : the thing to be turned over",
        "x (`int`, *optional*): The number of turns to make.",
    ],
)
def test_what_is_no_sentence_gives_no_pair(summary: str):
    assert split_docstring(f"{summary}\n\n{BODY}", "m.welch") is None


def test_a_document_needs_a_hundred_and_fifty_characters():
    summary = "Estimate the power spectrum.\n\n"
    assert split_docstring(summary + "a" * 149, "m.welch") is None
    assert split_docstring(summary + "a" * 150, "m.welch") == (summary.strip(), "a" * 150)


# One package


def test_finds_modules_classes_methods_and_attached_docstrings_but_nothing_private(tiny: Path):
    source = (
        '"""The module."""\n'
        'class Wheel:\n    """The class."""\n\n'
        '    def turn(self):\n        """The method."""\n\n'
        '    def _oil(self):\n        """Private."""\n\n'
        'class _Hub:\n    """Private."""\n\n    def x(self):\n        """Private."""\n\n'
        'if True:\n    async def roll():\n        """The coroutine."""\n\n'
        'add_newdoc("tinydocs", "spoke", ("bend", "The " + "attribute."))\n'
        'drum = add_docstr(_C.tiny_drum, "The {{drum}}.{shared}".format(**common))\n'
    )
    install(tiny, {"__init__.py": "", "parts/__init__.py": "", "parts/wheel.py": source})
    assert [tuple(found) for found in read_docstrings("tinydocs")] == [
        ("tinydocs.parts.wheel", "", "The module."),
        ("tinydocs.parts.wheel", "Wheel", "The class."),
        ("tinydocs.parts.wheel", "Wheel.turn", "The method."),
        ("tinydocs.parts.wheel", "roll", "The coroutine."),
        ("tinydocs.parts.wheel", "spoke.bend", "The attribute."),
        ("tinydocs.parts.wheel", "drum", "The {drum}."),
    ]


def test_tests_copies_and_internals_are_not_read(tiny: Path):
    kept = ["__init__.py", "_core/a.py", "b/_c.py", "b/d.py"]
    left = ["tests/a.py", "b/externals/x.py", "_lib/x.py", "test_a.py", "b/not-a-module.py"]
    install(tiny, dict.fromkeys(kept + left, ""))
    assert [module for module, _ in source_files("tinydocs")] == [
        "tinydocs",
        "tinydocs._core.a",
        "tinydocs.b._c",
        "tinydocs.b.d",
    ]


def test_a_file_that_python_cannot_parse_is_left_out(tiny: Path):
    install(tiny, {"__init__.py": '"""Fine."""', "template.py": "def {{ name }}(:"})
    assert [found.text for found in read_docstrings("tinydocs")] == ["Fine."]


# The pairs


def test_pairs_are_those_of_the_package(tiny: Path):
    source = function("welch", "Estimate a power spectrum.", f"{BODY} welch")
    install(tiny, {"__init__.py": "", "signal/__init__.py": "", "signal/_spectral.py": source})
    built = build_documentation(["tinydocs"])
    assert built.pairs == (
        DocPair(
            id="tinydocs.signal._spectral.welch",
            domain="tinydocs",
            module="tinydocs.signal._spectral",
            name="welch",
            query="Estimate a power spectrum.",
            document=BODY,
        ),
    )
    assert built.pairs[0].subpackage == "tinydocs.signal"
    assert built.versions == {"tinydocs": "1.0", "python": platform.python_version()}


@pytest.mark.parametrize(
    ("domain", "module", "subpackage"),
    [
        ("scipy", "scipy.stats._stats_py", "scipy.stats"),
        ("numpy", "numpy._core.fromnumeric", "numpy"),
        ("sympy", "sympy.polys.matrices.ddm", "sympy.polys"),
        ("python", "asyncio.streams", "asyncio"),
        ("python", "_pydecimal", "decimal"),
    ],
)
def test_the_subpackage_is_the_public_start_of_the_module(
    domain: str, module: str, subpackage: str
):
    assert DocPair("", domain, module, "", "", "").subpackage == subpackage


def test_objects_with_the_same_name_get_different_ids(tiny: Path):
    first = function("size", "Give the size of the window.")
    second = function("size", "Set the size of the window.", OTHER_BODY)
    install(tiny, {"__init__.py": first + second})
    ids = {pair.query[:4]: pair.id for pair in build_documentation(["tinydocs"]).pairs}
    assert ids == {"Give": "tinydocs.size", "Set ": "tinydocs.size#2"}


def test_a_question_or_an_answer_is_kept_once(tiny: Path):
    source = "".join(
        [
            function("a", "Estimate a power spectrum."),
            function("b", "Estimate a power spectrum!", OTHER_BODY),  # asks the same
            function("c", "Average the spectra of windows.", f"{BODY} 1 2 3"),  # answers the same
        ]
    )
    install(tiny, {"__init__.py": source})
    # a excludes b and c; b and c may stand together. Which, is decided by the hashes.
    pairs = {
        name: hashlib.sha256(f"{query}\n{document}".encode()).hexdigest()
        for name, query, document in [
            ("a", "Estimate a power spectrum.", BODY),
            ("b", "Estimate a power spectrum!", OTHER_BODY),
            ("c", "Average the spectra of windows.", f"{BODY} 1 2 3"),
        ]
    }
    order = sorted(pairs, key=pairs.__getitem__)
    expected = ["a"] if order[0] == "a" else [name for name in order if name != "a"]
    assert [pair.name for pair in build_documentation(["tinydocs"]).pairs] == expected


def test_a_quota_keeps_the_lowest_hashes(tiny: Path):
    numbers = ["one", "two", "three", "four", "five", "six"]
    source = "".join(
        function(f"make_{number}", f"Estimate spectrum number {number}.", f"{number}: {BODY}")
        for number in numbers
    )
    install(tiny, {"__init__.py": source})
    texts = [f"Estimate spectrum number {number}.\n{number}: {BODY}" for number in numbers]
    lowest = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).hexdigest())[:3]
    built = build_documentation(["tinydocs"], most_pairs=3)
    assert [f"{pair.query}\n{pair.document}" for pair in built.pairs] == lowest


def test_the_revision_changes_with_the_content_and_only_with_it(tiny: Path):
    source = function("welch", "Estimate a power spectrum.")
    install(tiny, {"__init__.py": source})
    first = build_documentation(["tinydocs"])
    assert build_documentation(["tinydocs"]).revision == first.revision
    install(tiny, {"__init__.py": source.replace("variance", "bias")})
    assert build_documentation(["tinydocs"]).revision != first.revision


def test_the_revision_is_the_sha256_of_the_pairs_as_json_lines():
    pair = DocPair("i", "d", "m", "n", "q", "t")
    line = '{"document": "t", "domain": "d", "id": "i", "module": "m", "name": "n", "query": "q"}\n'
    assert Documentation((pair,), {}).revision == hashlib.sha256(line.encode()).hexdigest()


def test_a_package_that_is_not_installed_is_absent(tiny: Path):
    install(tiny, {"__init__.py": function("welch", "Estimate a power spectrum.")})
    built = build_documentation(["no_such_package_here", "tinydocs"])
    assert built.domains == ("tinydocs",)
    assert "no_such_package_here" not in built.versions
    assert installed_version("no_such_package_here") is None
    assert built.in_domain("tinydocs") == built.pairs
    with pytest.raises(
        TaskError, match=r"no documentation of 'tinydoc' here\. Did you mean 'tinyd"
    ):
        built.in_domain("tinydoc")


# The cache


def test_the_cache_is_read_and_a_corrupt_one_is_rebuilt(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
):
    from cde_eval.tasks import documentation

    install(tiny, {"__init__.py": function("welch", "Estimate a power spectrum.")})
    cache = tiny / "cache" / "documentation"
    monkeypatch.setenv("CDE_EVAL_CACHE", str(tiny / "cache"))
    built = load_documentation(domains=["tinydocs"])
    assert load_documentation(domains=["tinydocs"]) is built

    (file,) = cache.iterdir()  # and no half-written file beside it
    good = file.read_bytes()
    (tiny / "tinydocs" / "__init__.py").unlink()  # from here on, only the cache knows the pair
    documentation._load.cache_clear()
    assert load_documentation(cache, domains=["tinydocs"]) == built

    install(tiny, {"__init__.py": function("welch", "Estimate a power spectrum.")})
    content = json.loads(good)
    content["pairs"][0]["query"] = "Estimate something else."
    for bad in (json.dumps(content).encode(), good[:-20], b"[]", b"\xff"):
        file.write_bytes(bad)
        documentation._load.cache_clear()
        assert load_documentation(cache, domains=["tinydocs"]) == built
        assert file.read_bytes() == good


def test_another_version_of_the_package_has_another_cache_file(tiny: Path):
    from cde_eval.tasks import documentation

    install(tiny, {"__init__.py": function("welch", "Estimate a power spectrum.")})
    load_documentation(tiny / "cache", domains=["tinydocs"])
    metadata = tiny / "tinydocs-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.0", "1.1"))
    documentation._load.cache_clear()
    assert load_documentation(tiny / "cache", domains=["tinydocs"]).versions["tinydocs"] == "1.1"
    assert len(list((tiny / "cache").iterdir())) == 2


def test_a_cache_that_cannot_be_written_says_what_to_do(tiny: Path):
    (tiny / "cache").write_text("a file where a folder should be")
    with pytest.raises(ConfigError, match="set CDE_EVAL_CACHE"):
        load_documentation(tiny / "cache", domains=["no_such_package_here"])


# Installed packages


def test_same_bytes_under_every_hash_seed_and_nothing_is_imported(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path\n"
        "from cde_eval.tasks.documentation import DOMAINS, load_documentation\n"
        "before = set(sys.modules)\n"
        "load_documentation(Path(sys.argv[1]), domains=['networkx', 'matplotlib'])\n"
        "loaded = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "assert not loaded & set(DOMAINS), loaded & set(DOMAINS)\n"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)}
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / seed)], check=True, env=environment
        )
    (first,), (second,) = (list((tmp_path / seed).iterdir()) for seed in ("1", "2"))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_networkx_explains_its_shortest_paths():
    pytest.importorskip("networkx")
    built = build_documentation(["networkx"], most_pairs=10_000)
    assert len(built.pairs) > 600
    assert len({pair.id for pair in built.pairs}) == len(built.pairs)
    assert not any(pair.query in " ".join(pair.document.split()) for pair in built.pairs)
    (pair,) = (pair for pair in built.pairs if pair.name == "dijkstra_path")
    assert pair.query == "Returns the shortest weighted path from source to target in G."
    assert "dijkstra_path(" not in pair.document
    assert pair.subpackage == "networkx.algorithms"


def test_the_standard_library_is_a_domain_of_its_own():
    modules = {module for module, _ in source_files(PYTHON)}
    assert {"asyncio.streams", "json", "textwrap"} <= modules
    assert not any(module.startswith(("test.", "idlelib", "site-packages")) for module in modules)
    assert installed_version(PYTHON) == platform.python_version()
    assert DOMAINS[-1] == PYTHON
