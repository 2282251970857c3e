"""Tables as text, Markdown and LaTeX: the same cells, in which nothing is a mark of either."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.commands.tables import TextTable

MARKS = r"""a|b &c _d_ %e $f$ #g {h} ~i^ \j <k> "l" *m* [n] `o` -0.5"""
ROWS = [{"run": MARKS, "top1": "0.71 ± 0.13", "left": None}, {"run": "x", "top1": "-0.5 (-1 to 2)"}]


def test_markdown_has_every_cell_and_no_mark_of_its_own():
    names, rule, first, second, gap, note = (
        TextTable([{"left": None, **row} for row in ROWS], ["", "a_note | 5 %"])
        .markdown()
        .splitlines()
    )
    assert names == "| run | top1 |"
    assert rule == "| --- | ---: |"
    cells = re.split(r"(?<!\\)\|", first)[1:-1]
    assert len(cells) == 2, "a bar in a cell ends none"
    assert re.sub(r"\\([^\w\s]|_)", r"\1", cells[0]).strip() == MARKS
    assert not re.search(r"(?<!\\)[`*_<&~$\[]", first)
    assert cells[1].strip() == "0.71 ± 0.13"
    assert second == "| x | -0.5 (-1 to 2) |"
    assert (gap, note) == ("", r"a\_note \| 5 %")


def test_latex_has_every_cell_and_no_command_of_its_own():
    lines = TextTable([{"left": None, **row} for row in ROWS], ["", "a_note | 5 %"]).latex()
    first, begin, top, names, middle, *rows, bottom, end, note = lines.splitlines()
    assert first == r"% \usepackage{booktabs}"
    assert (begin, end) == (r"\begin{tabular}{lr}", r"\end{tabular}")
    assert (top, middle, bottom) == (r"\toprule", r"\midrule", r"\bottomrule")
    assert names == r"run & top1 \\"
    assert rows[0] == (
        r"a\textbar{}b \&c \_d\_ \%e \$f\$ \#g \{h\} \textasciitilde{}i\textasciicircum{}"
        r" \textbackslash{}j \textless{}k\textgreater{} ''l'' {*}m{*} {[}n] `o` $-$0.5"
        r" & 0.71 $\pm$ 0.13 \\"
    )
    assert rows[1] == r"x & $-$0.5 ($-$1 to 2) \\"
    assert note == "% a_note | 5 %"


def test_names_and_exponents_keep_their_hyphens():
    (row,) = [{"run": "fair-seed-0", "loss": 1e-05}]
    assert r"fair-seed-0 & 1e-05 \\" in TextTable([row]).latex()


def test_a_table_without_rows_says_so_in_each_form():
    empty = TextTable([], ["why"])
    assert str(empty) == "(none)\nwhy"
    assert empty.markdown() == "(none)\n\nwhy"
    assert empty.latex() == "% (none)\n% why"


@pytest.fixture
def trained(in_a_folder_with_data, capsys):
    Path("base.toml").write_text(TOML)
    assert main(["train", "base.toml", "--quiet", "--format", "markdown"]) == 0
    return capsys.readouterr().out


def test_train_evaluate_and_report_print_one_table_in_the_form_that_is_asked_for(trained, capsys):
    assert trained.startswith("| metric | run |")
    main(["evaluate", "runs/base"])
    text = capsys.readouterr().out
    numbers = re.findall(r"\d\.\d+", text)
    main(["evaluate", "runs/base", "--format", "latex"])
    written = capsys.readouterr().out
    assert written.startswith("% \\usepackage{booktabs}\n\\begin{tabular}")
    assert re.findall(r"\d\.\d+", written) == numbers
    assert main(["report", "runs/base", "--format", "markdown"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("| metric | run |")
    assert "report.html: open it in a browser" in said.err
    assert Path("report.html").is_file()
    assert ccl.compare([ccl.load("runs/base")]).markdown() == said.out.rstrip("\n")
    assert main(["evaluate", "runs/base", "--format", "latex", "--json"]) == 2
    assert "--json and --format latex: give one of them" in capsys.readouterr().err


def test_a_sweep_prints_its_table_in_the_form_that_is_asked_for(
    in_a_folder_with_data, capsys, monkeypatch
):
    pytest.importorskip("optuna")
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("ccl_plugins.report.page.write_report", lambda runs, file: file)
    Path("base.toml").write_text(TOML)
    Path("sweep.toml").write_text(
        'base = "base.toml"\nout = "out"\nmetric = "knn/top1"\n[grid]\nobjective = ["infonce"]'
    )
    assert main(["sweep", "sweep.toml", "--quiet", "--format", "latex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == r"% \usepackage{booktabs}"
    assert lines[3] == r"values & before & validation & test \\"
    assert lines[5].startswith("(one configuration) & 0.")
    assert lines[-1].startswith("% 1 of 1 cells done")
