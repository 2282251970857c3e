from __future__ import annotations

import builtins

import numpy as np
import pytest

from ccl_plugins.files.tables import read_table


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
        ("a,b\n1,2\n3\n", "line 3: 1 cells, and the first line has 2"),
        ("a,b\n1,2\n\n3,4\n", "line 3: 0 cells"),
        ("a,a\n1,2\n", r"names, each once, not \['a', 'a'\]"),
        ("", "names, each once"),
        ("age\n3\n4\nold\n", "'age' has 'old' in line 4 among numbers such as '3' in line 2"),
        ("age\n1_000\n4\n", "'1_000' in line 2 among numbers"),
        ('a\n"1\n', "unexpected end of data"),
    ],
)
def test_a_table_that_is_not_right_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path / "a.csv", text))


def test_a_table_must_exist_and_be_csv_or_parquet(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no table '.*a\.csv'"):
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
