r"""Split a docstring into a query, its summary sentence, and a document, everything after it.

    "Return the mean.\n\nAxes with …"  ──▶  ("Return the mean.", "Axes with …")

Authors write both halves about the same object, which makes them a question and its answer that
no one had to label. The document loses the object's own name and any echo of the summary, so
that the pair cannot be matched by looking for one rare word.
"""

from __future__ import annotations

import inspect
import re
import textwrap

FEWEST_CHARACTERS_OF_QUERY = 20
MOST_CHARACTERS_OF_QUERY = 300
FEWEST_WORDS_OF_QUERY = 4
FEWEST_CHARACTERS_OF_DOCUMENT = 150
LEAST_SHARE_OF_LETTERS = 0.75
"""Of a query's characters other than spaces; formulas and signatures have fewer letters."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
ROLE = re.compile(r":[a-zA-Z][\w:+.-]*:`[~!]?([^`<]*?)(?:\s*<[^`>]*>)?`")
PLACEHOLDER_LINE = re.compile(r"^[ \t]*(?:%(?:\(\w+\))?s|\{\w+\})[ \t]*\n?", re.MULTILINE)
BLANK_LINES = re.compile(r"\n{3,}")

SIGNATURE = re.compile(
    r"\A`*[A-Za-z_][\w.]*\((?:[^()\n]|\([^()]*\)|\n(?!\n))*\)`*"  # name(…), perhaps over lines
    r"(?:[ \t]*(?:(?:-?->|=)[^\n]*|:))?[ \t]*(?:\n--)?(?:\n+|\Z)"  # -> what it returns
)
TITLE = re.compile(r"\A(?:([=*~#-])\1{3,}\n)?[^\n]+\n([=*~^#-])\2{3,}\n+")
SECTION = re.compile(
    r"^\s*(?:[\w*]+ \(.*\)\s*:|>>>|\.\. |[-*+•] |\d+[.)] |```|\||"
    r"[:@](?:param|arg|return|type|raise|rtype)|"
    r"(?:Args|Returns|Raises|Notes?|NOTE|Warning): |"
    r"(?:Args?|Arguments|Parameters?|Returns?|Raises|Yields?|Examples?|Usage|Notes?|Attributes|"
    r"Inputs?|Outputs?|References?|See [Aa]lso|Warnings?|Methods)\s*:?$)"
)
SENTENCE_END = re.compile(r"[.!?][\"')`\]]*(?=\s+[A-Z\"'`(\[:*])")
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|Eq|Fig|Ref|Sec|no|approx)|\.\.)\.$")
NOT_A_SUMMARY = re.compile(
    r"deprecat|copyright|licen[sc]ed|%\(\w*\)|\{\w+\}|\)\s*->|https?://|^(?:\S+ ?= ?|"
    r"see|refer|please see|alias|same as|in-?place version|inherited|todo|fixme|created|author|"
    r"warning|note\b|out-of-place version|this is an alias|method for|internal )",
    re.IGNORECASE,
)

HOLE = "\x00"
"""Marks where a name was taken out, until the punctuation around it is mended."""

MENDED = (
    (re.compile(r"([`\"'])\1*\x00(?:\(\))?\1+|\[\x00\]|(?<!\w)\(\x00\)"), HOLE),  # quotes around it
    (re.compile(r"(?<=\S)\n[ \t]*\x00(?=[.,;!?)](?:\s|\Z))"), ""),  # a stop on a line of its own
    (re.compile(r"(?:(?<=, )|(?<=import ))\x00, |, \x00(?=[ \t]*(?:\n|\Z))"), ""),  # one of a list
    (re.compile(r"^([ \t]*)\x00(?: *[:;,](?!:)| --?(?= ))? *", re.MULTILINE), r"\1"),  # a label
    (re.compile(r" \x00(?=[ ,.;:!?)\]\n]|\Z)"), ""),  # a word among others
)
"""What a taken-out name leaves dangling, and what to put there, in this order."""


def split_docstring(text: str, name: str) -> tuple[str, str] | None:
    """Split one docstring into its summary sentence and the rest.

    Args:
        text: The docstring as written, indentation included.
        name: Qualified name of the object; its last part is taken out of the document.

    Returns:
        The query and the document, or None if the first is no sentence or the second too short.
    """
    opening, remainder = _opening_paragraph(_without_heading(_clean(text)))
    summary, more = _first_sentence(opening)
    own_name = name.rpartition(".")[2]
    query = _without_label(_plain(summary), own_name)
    if not _is_sentence(query):
        return None
    document = _without_summary(f"{more}\n\n{remainder}", summary, query)
    document = _tidy(textwrap.dedent(_without_name(document, own_name))).lstrip()
    if len(document) < FEWEST_CHARACTERS_OF_DOCUMENT:
        return None
    return query, document


def _clean(text: str) -> str:
    text = text.encode("utf-8", "ignore").decode("utf-8")  # half of a surrogate pair is no text
    text = CONTROL.sub("", inspect.cleandoc(text))
    return _tidy(ROLE.sub(r"`\1`", PLACEHOLDER_LINE.sub("", text)))


def _tidy(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return BLANK_LINES.sub("\n\n", lines).strip("\n")


def _without_heading(text: str) -> str:
    """Drop the signatures, or the underlined title, that stand before the summary."""
    before = None
    while text != before:
        before, text = text, inspect.cleandoc(SIGNATURE.sub("", text, count=1))
    if SECTION.match(text.partition("\n")[0]):
        return text
    return TITLE.sub("", text, count=1)


def _opening_paragraph(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    end = next(
        (row for row, line in enumerate(lines) if not line.strip() or SECTION.match(line)),
        len(lines),
    )
    return " ".join(line.strip() for line in lines[:end]), "\n".join(lines[end:])


def _first_sentence(paragraph: str) -> tuple[str, str]:
    for found in SENTENCE_END.finditer(paragraph):
        if not ABBREVIATION.search(paragraph[: found.start() + 1]):
            return paragraph[: found.end()], paragraph[found.end() :].strip()
    return paragraph, ""


def _plain(summary: str) -> str:
    """Take the markup off: [`~Name`], ``name`` and *name* become words."""
    text = re.sub(r"\[(`[^`]*`)\](?:\([^)]*\))?", r"\1", summary)
    text = re.sub(r"(?<![\w*])(\*{1,2})(\w+)\1(?![\w*])", r"\2", text)
    return " ".join(re.sub(r"(?<!`)`[~.]+(?=[A-Za-z_])|`+(?:\\ ?(?=\w))?", "", text).split())


def _without_label(query: str, own_name: str) -> str:
    """Turn "wave.py -- Read and write WAV files" into what follows the dash."""
    label = rf"\A[\w.]*\b{re.escape(own_name)}(?:\.py)?(?:\s+(?:-{{1,3}}|:)|:)\s+"
    query = re.sub(label, "", query) if own_name in query else query
    return re.sub(r"\A[a-z][\w.]*: ", "", query)  # "int: Number of …" tells the type of a property


def _is_sentence(query: str) -> bool:
    if not FEWEST_CHARACTERS_OF_QUERY <= len(query) <= MOST_CHARACTERS_OF_QUERY:
        return False
    if len(re.findall(r"[^\W\d_]+", query)) < FEWEST_WORDS_OF_QUERY or NOT_A_SUMMARY.search(query):
        return False
    visible = query.replace(" ", "")
    letters = sum(character.isalpha() for character in visible)
    return (
        (query[0].isalnum() or query[0] in "\"'(")
        and not query.endswith((":", ",", ";", "-"))
        and letters >= LEAST_SHARE_OF_LETTERS * len(visible)
    )


def _without_summary(document: str, summary: str, query: str) -> str:
    for echo in (summary, query):
        if echo in " ".join(document.split()):
            document = re.sub(r"\s+".join(map(re.escape, echo.split())), "", document)
    return document


def _without_name(document: str, own_name: str) -> str:
    """Take out each mention of a name, `np.mean` as well as `mean`, and mend what is left."""
    if own_name not in document:
        return document
    name = rf"(?<![\w.])(?:[A-Za-z_]\w*\.)*{re.escape(own_name)}(?:\(s\))?(?!\w)"
    text = re.sub(name, HOLE, document)
    for pattern, instead in MENDED:
        text = pattern.sub(instead, text)
    return text.replace(HOLE, "")
