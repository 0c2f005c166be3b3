import pandas as pd

from cde_eval.report.web import LONG_TABLE, command_html, page_html, table_html


def test_cells_are_text_and_never_markup():
    table = table_html(pd.DataFrame({"<b>": ["<script>alert(1)</script>"]}))
    assert "<b>" not in table and "<script>" not in table and "&lt;script&gt;" in table


def test_words_are_left_numbers_right_and_long_texts_broken():
    table = table_html(pd.DataFrame({"task": ["A"], "score": ["0.5"], "text": ["long " * 20]}))
    assert '<td class="words">A</td><td>0.5</td><td class="long">' in table


def test_texts_of_some_length_may_be_broken_too():
    table = table_html(pd.DataFrame({"data": ["a corpus, in sections of 1,200 letters"]}))
    assert '<td class="some">' in table


def test_only_long_tables_scroll_and_none_where_it_is_asked_for_whole():
    short, long = (pd.DataFrame({"a": range(rows)}) for rows in (LONG_TABLE - 1, LONG_TABLE))
    assert '"wide"' in table_html(short) and '"wide tall"' in table_html(long)
    assert '"wide"' in table_html(long, whole=True)


def test_a_command_is_broken_before_its_options_and_not_inside_them():
    command = command_html("cde-eval x --max-queries 3 --data <b> && cde-eval y")
    assert "cde-eval x <span>--max-queries</span> 3 <span>--data</span> &lt;b&gt;" in command
    assert "&amp;&amp; cde-eval y" in command


def test_only_our_rows_are_marked():
    table = table_html(pd.DataFrame({"score": ["0.5", "0.6"]}), ours=[1])
    assert '<tr><td>0.5</td></tr><tr class="ours"><td>0.6</td></tr>' in table


def test_long_names_of_columns_may_be_broken_between_their_words():
    table = table_html(pd.DataFrame({"MassiveIntent nDCG@10": ["0.5"]}))
    assert "Massive<wbr>Intent nDCG@10" in table


def test_a_page_is_one_file_for_every_width():
    page = page_html("A & B", "<p>intro</p>", "<ul></ul>", "<p>body</p>")
    assert "<title>A &amp; B</title>" in page and "<h1>A &amp; B</h1>" in page
    assert 'content="width=device-width, initial-scale=1"' in page
    assert "src=" not in page and "@import" not in page and "url(" not in page
