from __future__ import annotations

import builtins
import gzip
import warnings

import numpy as np
import pytest

from ccl_plugins.files.tables import read_table, read_tables, row_of


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_cells_are_read_as_what_all_of_a_column_are(tmp_path):
    path = write(
        tmp_path / "a.csv",
        '\ufeff,id,size,name,seen,code\n0,7,1.5,"owl, great",True,007\n1,,2,,False,x1\n\n',
    )
    columns = read_table(path, words=["code"])
    assert columns == {
        "id": [7, None],
        "size": [1.5, 2.0],
        "name": ["owl, great", None],
        "seen": [True, False],
        "code": ["007", "x1"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "row 3: 1 cells, and the first row has 2"),
        ("a,b\n1,2\n\n3,4\n", "row 3: 0 cells"),
        ("a,a\n1,2\n", r"names, each once, not \['a', 'a'\]"),
        ("", "names, each once"),
        ("age\n3\n4\nold\n", "'age' has 'old' in row 4 among numbers such as '3' in row 2"),
        ("age\n1_000\n4\n", "'1_000' in row 2 among numbers"),
        ('a\n"1\n', "unexpected end of data"),
    ],
)
def test_a_table_that_is_not_right_is_named_with_its_row(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path / "a.csv", text))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_two_bytes_for_each_letter_are_told_with_their_encoding(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_text("name,age\nowl,3\n", encoding=encoding)
    with pytest.raises(ValueError, match=f'encoding = "{encoding}"'):
        read_table(path)
    assert read_table(path, encoding=encoding) == {"name": ["owl"], "age": [3]}


def test_rows_are_those_of_a_spreadsheet_though_cells_have_lines(tmp_path):
    text = 'age,note\n3,"one\ntwo\nthree"\nold,\n'
    with pytest.raises(ValueError, match="'old' in row 3 among numbers such as '3' in row 2"):
        read_table(write(tmp_path / "a.csv", text))
    with pytest.raises(ValueError, match="row 3: 1 cells"):
        read_table(write(tmp_path / "a.csv", text.replace("old,", "old")))
    assert row_of(tmp_path / "a.tsv", 0) == "row 2"
    assert row_of("a.parquet", 0) == "row 0 (from 0)"


def cells_of(path, cells, sep=",", **declared):
    """What one column of a file with these cells holds, and the warnings."""
    quoted = [f'"{cell}"' if sep == "," else cell for cell in cells]
    write(path / "a.csv", f"id{sep}x\n" + "".join(f"{cell}{sep}y\n" for cell in quoted))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        column = read_table(path / "a.csv", sep=sep, **declared)["id"]
    return column, [str(each.message) for each in said]


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "7"],
        ["0123", "123", ""],
        ["250.00", "038.9"],
        ["007", "x1", "12"],
        ["TP53", "NA", "MARCH1", "nan", "inf"],
        ["NA", "None"],
        ["1f", "2e6", "3a"],
        ["0x1F", "0x20"],
        ["true", "false"],
    ],
)
def test_names_are_words_and_each_is_itself(tmp_path, cells):
    column, said = cells_of(tmp_path, cells)
    assert column == [cell or None for cell in cells]
    assert not said


@pytest.mark.parametrize(
    "cells",
    [
        ["1e5", "2e6"],
        ["1e5", "100000"],
        ["2310009E13", "2310009E14"],
        ["+7", "7"],
        [" 7 ", "7"],
        ["-0", "0"],
        ["１２", "１３"],
        ["1_000", "2_000"],
        ["1,5", "2,25"],
        ["1,000", "2,000"],
        ["nan", "inf"],
        [str(2**63), "1"],
        ["9" * 60, "1"],
    ],
    ids=lambda cells: cells[0][:20],
)
def test_what_may_be_a_name_or_a_number_is_a_word_and_said(tmp_path, cells):
    column, (line,) = cells_of(tmp_path, cells)
    assert column == cells
    assert f"a.csv: column 'id' has {cells[0]!r} in row 2" in line
    assert "which may be a name or a number, and is read as words: declare it" in line
    assert cells_of(tmp_path, cells, words=["id"]) == (cells, [])


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["7", "-8", "", "  "], [7, -8, None, None]),
        (["1.0", "1", ".5", "2."], [1.0, 1.0, 0.5, 2.0]),
        (["1e-05", "0.3", "1e+05"], [1e-5, 0.3, 1e5]),
        (["-0.3", "+0.5", " 7", "1e5"], [-0.3, 0.5, 7.0, 1e5]),
        (["0.5", "inf"], [0.5, float("inf")]),
        ([str(2**53 + 1), str(2**53)], [2**53 + 1, 2**53]),
    ],
)
def test_numbers_as_programs_write_them_are_numbers(tmp_path, cells, values):
    column, said = cells_of(tmp_path, cells)
    assert column == values
    assert [*map(type, column)] == [*map(type, values)]
    assert not said


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        (["7", "NA"], "NA"),
        (["7", "nan"], "nan"),
        (["0.5", "1,000"], "1,000"),
        (["12", "１２"], "１２"),
        (["0.5", "1e999"], "1e999"),
    ],
)
def test_words_among_numbers_are_told_with_their_line(tmp_path, cells, word):
    with pytest.raises(ValueError, match=f"a.csv: column 'id' has '{word}' in row 3 among numbers"):
        cells_of(tmp_path, cells)


@pytest.mark.parametrize("sep", [";", "\t"])
@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "2,25"], [1.5, 2.25]),
        (["1,000", "2,5"], [1.0, 2.5]),
        (["1.001", "0.99"], [1.001, 0.99]),
    ],
)
def test_a_file_has_the_decimal_mark_that_its_cells_show(tmp_path, sep, cells, values):
    assert cells_of(tmp_path, cells, sep) == (values, [])


def test_thousands_that_are_set_apart_are_never_read_as_decimals(tmp_path):
    """950 and 1.200 would become 950 and 1.2."""
    for cells in (["1.000,5", "2,5"], ["950", "1.200"], ["1.200", "2,5"]):
        with pytest.raises(
            ValueError, match=r"column 'id' has '1\.\d00.* write a number as 1234,5"
        ):
            cells_of(tmp_path, cells, ";")
    column, (line,) = cells_of(tmp_path, ["1.000", "2.500"], ";")
    assert column == ["1.000", "2.500"]
    assert "'1.000' in row 2, which may be a name or a number" in line


def test_a_missing_number_is_a_word_until_the_column_is_declared_numbers(tmp_path):
    """`R` and Excel write ``NA`` and ``#N/A``; without a declaration ``NA`` may be a gene."""
    cells = ["007", "NA", " n/a ", "#N/A", "NULL", "None", ""]
    column, said = cells_of(tmp_path, cells, numbers=["id"])
    assert (column, said) == ([7.0, None, None, None, None, None, None], [])
    with pytest.raises(ValueError, match=r"'NA' in row 3 .* declare the column continuous if that"):
        cells_of(tmp_path, ["7", "NA"])
    with pytest.raises(ValueError, match=r"write a number as 1234\.5"):
        cells_of(tmp_path, ["7", "NA", "old"])


def test_what_is_declared_is_read_so(tmp_path):
    assert cells_of(tmp_path, ["007", "1e5", "nan"], numbers=["id"])[0][:2] == [7.0, 1e5]
    assert cells_of(tmp_path, ["1.0", "2"], classes=["id"]) == ([1, 2], [])
    column, (line,) = cells_of(tmp_path, ["1.5", "2"], classes=["id"])
    assert column == ["1.5", "2"]
    assert "'1.5' in row 2, which may be a name" in line
    with pytest.raises(ValueError, match="has 'old' in row 3 among numbers"):
        cells_of(tmp_path, ["3", "old"], numbers=["id"])


def test_both_splits_agree_on_what_a_column_is(tmp_path):
    train = write(tmp_path / "train.csv", "id,age\n7,1\n8,2\n")
    test = write(tmp_path / "test.csv", "id,age\n007,1.5\n9,2\n")
    assert read_tables([train, test]) == [
        {"id": ["7", "8"], "age": [1.0, 2.0]},
        {"id": ["007", "9"], "age": [1.5, 2.0]},
    ]
    write(test, "id,age\nx,1\n")
    message = (
        r"test\.csv: column 'id' has 'x' in row 2 among numbers such as '7' .* of .*train\.csv"
    )
    with pytest.raises(ValueError, match=message):
        read_tables([train, test])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_mark_of_the_encoding_comes_first(tmp_path, encoding):
    """As Excel writes it, also as text between tabs."""
    path = tmp_path / "a.tsv"
    path.write_text("id\tname, first\n007\tMöwe\n", encoding=encoding)
    for given in ("utf-8", "cp1252"):
        assert read_table(path, encoding=given) == {"id": ["007"], "name, first": ["Möwe"]}


def test_a_table_must_exist_and_be_csv_or_parquet(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*a\.csv"):
        read_table(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"not as 'a\.xlsx'"):
        read_table(write(tmp_path / "a.xlsx", "a"))
    latin = tmp_path / "b.csv"
    latin.write_bytes("a\nM\u00e4use\n".encode("latin-1"))
    with pytest.raises(ValueError, match="utf-8"):
        read_table(latin)


def test_parquet_has_types_and_vectors(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra 'table' is not installed")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    columns = {
        "id": [7, None],
        "name": ["owl", None],
        "size": [1.5, 2.0],
        "clip": [[0.5, 1.0], [2.0, 3.0]],
        "holes": [[0.5, None], [2.0, 3.0]],
    }
    odd = {"ragged": [[0.5], [2.0, 3.0]], "tags": [["a", "b"], ["c", "d"]]}
    parquet.write_table(pyarrow.table(columns | odd), path)
    found = read_table(path)
    assert found.left_out.keys() == odd.keys()
    assert {name: getattr(c, "tolist", lambda c=c: c)() for name, c in found.items()} == columns
    assert (found["clip"].dtype, found["clip"].shape) == (np.float64, (2, 2))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ValueError, match="no readable Parquet file"):
        read_table(path)


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'ccl-plugins\[table\]'"):
        read_table(write(tmp_path / "a.parquet", "PAR1"))


@pytest.mark.parametrize("encoding", ["utf-32", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize(("name", "mark"), [("a.csv", ","), ("A.CSV", ","), ("a.Tsv", "\t")])
def test_a_mark_tells_the_encoding_and_an_ending_has_any_case(tmp_path, encoding, name, mark):
    (tmp_path / name).write_text(f"a{mark}b\n1{mark}é\n", encoding=encoding)
    assert read_table(tmp_path / name) == {"a": [1], "b": ["é"]}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (gzip.compress(b"a,b\n1,2\n", mtime=0), r"compressed \(gzip\)"),
        (b"PK\3\4\0\0", "a zip archive or a work"),
    ],
    ids=["gzip", "zip"],
)
def test_a_table_that_is_no_text_is_named_by_what_it_is(tmp_path, content, kind):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.csv is no text but {kind}"):
        read_table(tmp_path / "a.csv")
