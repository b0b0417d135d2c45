"""Datasets in files: rows are read as they were written, and errors name the file and position."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import sqlite3
import struct
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burn import data
from burn.errors import DataError

MNIST = Path(__file__).parents[3] / "shared" / "data" / "mnist"


def written(folder: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---- lines, JSON, CSV ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, "\ufeff" + end.join(["one", "", "zwei ü", "three"]), "a.txt")
    lines = data.Lines(path)
    assert list(lines) == ["one", "zwei ü", "three"] and lines.location(1) == f"line 3 of {path}"
    assert list(data.Lines(path, keep_empty=True)) == ["one", "", "zwei ü", "three"]
    assert list(pickle.loads(pickle.dumps(lines))) == list(lines)
    assert list(data.Lines(written(tmp_path, "", "empty"))) == []


def test_json_lines(tmp_path: Path) -> None:
    rows: list[Any] = [{"text": "a\nb", "label": 1}, [1, 2], 3.5]
    path = written(tmp_path, "\n".join(map(json.dumps, rows)) + "\n\n{broken\n", "rows.jsonl")
    dataset = data.JsonLines(path)
    assert list(dataset.take(3)) == rows
    with pytest.raises(DataError, match=r"line 5 of .*rows\.jsonl cannot be read(.|\n)*JSONDecodeError"):
        dataset[3]


def test_csv(tmp_path: Path) -> None:
    path = written(tmp_path, "age,name,share\n1,Ann,0.5\n\n2,Bo,1\n")
    typed = data.Csv(path, types={"age": int, "share": float})
    assert list(typed) == [{"age": 1, "name": "Ann", "share": 0.5}, {"age": 2, "name": "Bo", "share": 1.0}]
    (batch,) = data.Loader(typed, 2)
    assert batch["share"].dtype == np.float32 and batch["age"].dtype == np.int64 and batch["name"] == ["Ann", "Bo"]
    assert list(data.Csv(path, columns=["share"], types=float)) == [{"share": 0.5}, {"share": 1.0}]
    assert data.Csv(path)[0] == {"age": "1", "name": "Ann", "share": "0.5"}
    plain = written(tmp_path, "3;4\n5;6", "plain.csv")
    assert data.Csv(plain, header=["x", "y"], delimiter=";", types=int)[1] == {"x": 5, "y": 6}


def test_rows_of_csv_that_cannot_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, 'x,y\n1,2\n"a\nb",2\n1,2,3\nu,v\n')
    dataset = data.Csv(path, types={"y": int})
    assert dataset[1] == {"x": "a\nb", "y": 2}
    with pytest.raises(
        DataError, match=r"line 5 of .*rows\.csv cannot be read(.|\n)*3 fields, and there are 2 columns"
    ):
        dataset[2]
    with pytest.raises(DataError, match=r"line 6 of .*(.|\n)*column 'y': 'v' is no int"):
        dataset[3]
    with pytest.raises(DataError, match=r"column 'x'(.|\n)*column 'y'"):
        data.Csv(path, types=float)[3]
    with pytest.raises(DataError, match=r"no column 'z' \(there are x, y\)(.|\n)*no column 'w'"):
        data.Csv(path, columns=["z"], types={"w": int})
    with pytest.raises(DataError, match="two columns are named 'x'"):
        data.Csv(written(tmp_path, "x,x\n"))
    with pytest.raises(DataError, match="no row of column names"):
        data.Csv(written(tmp_path, ""))
    with pytest.raises(DataError, match="line 2 of"):
        data.Csv(written(tmp_path, 'x\n"never ends\n'))
    with pytest.raises(DataError, match=r"line 2 of(.|\n)*UnicodeDecodeError"):
        data.Csv(written(tmp_path, b"x\n\xff\n"))[0]
    with pytest.raises(DataError, match=r"line 1 of(.|\n)*UnicodeDecodeError"):
        data.Csv(written(tmp_path, b"\xff\n1\n"))
    with pytest.raises(DataError, match=r"line 1 of(.|\n)*new-line"):
        data.Csv(written(tmp_path, "a\rb\n1\n"))
    with pytest.raises(DataError, match="No such file"):
        data.Csv(tmp_path / "missing.csv")


def test_a_file_that_became_shorter(tmp_path: Path) -> None:
    path = written(tmp_path, "one\ntwo\n")
    lines = data.Lines(path)
    path.write_text("one\n")
    with pytest.raises(DataError, match=r"line 2 of(.|\n)*shorter"):
        lines[1]


FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(FIELDS, FIELDS), max_size=6))
def test_csv_that_python_writes(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([("a", "b"), *rows])
    dataset = data.Csv(written(tmp_path, text.getvalue()))
    assert [(row["a"], row["b"]) for row in dataset] == rows


# ---- tables ----------------------------------------------------------------------------------------------------------------
def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    table = pa.table({"x": [0.5, 1.5, 2.5], "word": ["a", "b", None], "ids": [[1], [2, 3], []]})
    pq.write_table(table, path, row_group_size=2)
    dataset = data.Parquet(path)
    assert [row["x"] for row in dataset] == [0.5, 1.5, 2.5] and dataset[-1]["word"] is None
    assert dataset[1]["ids"].tolist() == [2, 3] and dataset.location(2) == f"row 3 of {path}"
    copy = pickle.loads(pickle.dumps(data.Parquet(path, columns=["x"])))
    assert list(copy) == [{"x": 0.5}, {"x": 1.5}, {"x": 2.5}]
    with pytest.raises(DataError, match="no column 'z' \\(there are x, word, ids\\)"):
        data.Parquet(path, columns=["z"])
    with pytest.raises(DataError, match="cannot be opened"):
        data.Parquet(written(tmp_path, "no parquet"))
    pq.write_table(table.slice(0, 0), path)
    assert list(data.Parquet(path)) == []


def test_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as database:
        database.execute('CREATE TABLE "odd ""name" (x REAL, word TEXT)')
        database.executemany('INSERT INTO "odd ""name" VALUES (?, ?)', [(0.5, "a"), (1.5, "b"), (2.5, "c")])
        database.execute('DELETE FROM "odd ""name" WHERE x = 1.5')
    database.close()
    dataset = data.Sqlite(path, 'odd "name')
    assert list(dataset) == [{"x": 0.5, "word": "a"}, {"x": 2.5, "word": "c"}] and "row 3 of" in dataset.location(1)
    some = data.Sqlite(path, 'odd "name', columns=["word"], where="x > ?", parameters=[1])
    assert list(pickle.loads(pickle.dumps(some))) == [{"word": "c"}]
    for arguments, message in (({"table": "none"}, "no such table"), ({"where": "nonsense("}, "incomplete|syntax")):
        with pytest.raises(DataError, match=message):
            data.Sqlite(path, **{"table": 'odd "name', **arguments})
    with pytest.raises(DataError, match="not a database"):
        data.Sqlite(written(tmp_path, "x" * 200), "t")
    with pytest.raises(DataError, match="cannot be opened"):
        data.Sqlite(tmp_path / "missing.db", "t")
    assert not (tmp_path / "missing.db").exists()


# ---- folders ---------------------------------------------------------------------------------------------------------------
def test_image_folder(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    for name in ("dog/b.png", "cat/a.PNG", "cat/deep/c.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(pixels).save(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    dataset = data.ImageFolder(tmp_path)
    assert dataset.classes == ["cat", "dog"] and [label for _, label in dataset] == [0, 0, 1]
    assert (dataset[0][0] == pixels).all()
    assert data.ImageFolder(tmp_path, mode="L", size=(4, 5))[0][0].shape == (4, 5, 1)
    (tmp_path / "dog" / "b.png").write_bytes(b"\x89PNG broken")
    with pytest.raises(DataError, match=r"dog/b\.png cannot be read"):
        dataset[2]
    with pytest.raises(DataError, match="has no rows"):
        data.ImageFolder(tmp_path / "cat" / "deep")
    with pytest.raises(DataError, match="cannot be opened"):
        data.ImageFolder(tmp_path / "missing")


def test_text_folder(tmp_path: Path) -> None:
    for name, text in {"neg/1.txt": "bad", "pos/1.txt": "güt"}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text, "utf-8")
    assert list(data.TextFolder(tmp_path)) == [("bad", 0), ("güt", 1)]


# ---- idx -------------------------------------------------------------------------------------------------------------------
def idx(array: np.ndarray, code: int) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + array.tobytes()


def test_idx(tmp_path: Path) -> None:
    values = np.arange(6, dtype=">i4").reshape(2, 3)
    assert (data.read_idx(written(tmp_path, idx(values, 0x0C))) == values).all()
    packed = written(tmp_path, gzip.compress(idx(values, 0x0C)), "packed.gz")
    assert data.read_idx(packed).dtype == np.int32
    head = struct.pack(">HBBI", 0, 8, 1, 5)
    for content, message in {
        b"": "begin", b"\0\0\x08": "begin", b"\0\0\x07\x01": "begin", b"\0\0\x08\x02\0\0": "header",
        head + b"1234": "less", head + b"123456": "more", struct.pack(">HBBII", 0, 8, 2, 2**32 - 1, 2**32 - 1): "header says",
    }.items():  # fmt: skip
        with pytest.raises(DataError, match=message):
            data.read_idx(written(tmp_path, content))
    with pytest.raises(DataError, match="no idx file"):
        data.read_idx(written(tmp_path, packed.read_bytes()[:-9], "cut.gz"))
    with pytest.raises(DataError, match="neither"):
        data.Mnist(tmp_path)
    with pytest.raises(DataError, match="train, test"):
        data.Mnist(tmp_path, "valid")


@pytest.mark.skipif(not MNIST.is_dir(), reason="MNIST's files are not there")
def test_mnist() -> None:
    images = data.Mnist(MNIST, "test")
    assert (
        len(images) == 10_000
        and images[0][0].shape == (28, 28)
        and [int(y) for _, y in images.take(5)] == [7, 2, 1, 0, 4]
    )


# ---- Hugging Face ----------------------------------------------------------------------------------------------------------
class Theirs(list[dict[str, Any]]):
    """A stand-in for the library's class."""

    column_names = ("image", "label")


def test_hugging_face(monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = image.fromarray(np.ones((2, 3), np.uint8))
    dataset = data.HuggingFace(Theirs([{"image": picture, "label": 1}]))
    assert len(dataset) == 1 and dataset[0]["image"].shape == (2, 3, 1) and dataset[0]["label"] == 1
    with pytest.raises(DataError, match="name its split"):
        data.HuggingFace({"train": Theirs()})
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(DataError, match="pip install datasets"):
        data.HuggingFace("imdb")


# ---- data that is not what it says -------------------------------------------------------------------------------------
def test_sqlites_own_names(tmp_path: Path) -> None:
    """A column that is called as SQLite calls row numbers, and one that is not there, which SQLite takes for a text."""
    path = tmp_path / "rows.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "create table r(rowid int, x int); insert into r values(1,10),(1,20),(2,30);"
            "create table s(ROWID int, _rowid_ int, x int); insert into s values(5,5,1),(5,5,2);"
            "create table q(rowid int, _rowid_ int, oid int); create view v as select * from r;"
            "create table k(id integer primary key, x int); insert into k values(7, 70), (3, 30);"
        )
        database.commit()
    assert [row["x"] for row in data.Sqlite(path, "r")] == [10, 20, 30]
    assert [row["x"] for row in data.Sqlite(path, "s")] == [1, 2]
    assert list(data.Sqlite(path, "k", columns=["x"])) == [{"x": 30}, {"x": 70}]
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("r", {"columns": ["prce"]}, "no column 'prce'.*there are rowid, x"),
        ("r", {"columns": ["x", "x"]}, "two columns are named 'x'"),
        ("q", {}, "have no number"),
        ("v", {}, "has no such rows|has no row numbers"),
        ("missing", {}, "no such table"),
        ("r", {"where": "prce > 3"}, "no such column"),
    ]
    for table, options, told in refused:
        with pytest.raises(DataError, match=told):
            data.Sqlite(path, table, **options)
    if hasattr(sqlite3.Connection, "setconfig"):
        with pytest.raises(DataError, match="no such column"):
            data.Sqlite(path, "r", where='"prce" > 3')


def test_images_of_every_kind(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "a"
    folder.mkdir()
    deep = np.array([[0, 255, 256], [1000, 30000, 65535]], np.uint16)
    want = np.rint(deep / 257).astype(np.uint8)
    image.fromarray(deep).save(folder / "deep.png")
    image.fromarray(deep).save(folder / "deep.tif")
    (folder / "deep.pgm").write_bytes(b"P5 3 2 65535\n" + deep.astype(">u2").tobytes())
    for mode, channels in (("RGB", 3), ("L", 1), ("RGBA", 4)):
        for pixels, _ in data.ImageFolder(tmp_path, mode=mode):
            assert pixels.shape == (2, 3, channels)
            assert (pixels[..., 0] == want).all()
    for path in folder.iterdir():
        path.unlink()
    plain = np.random.default_rng(0).integers(0, 256, (4, 5, 3)).astype(np.uint8)
    rgb = image.fromarray(plain)
    rgb.convert("P", palette=image.Palette.ADAPTIVE, colors=256).save(folder / "palette.png")
    image.fromarray(np.dstack([plain, np.full((4, 5), 9, np.uint8)])).save(folder / "alpha.png")
    assert all((pixels == plain).all() for pixels, _ in data.ImageFolder(tmp_path))
    for path in folder.iterdir():
        path.unlink()
    bits = image.fromarray(plain[..., 0] > 100)
    assert bits.mode == "1"
    bits.save(folder / "bits.png")
    assert (data.ImageFolder(tmp_path, mode="L")[0][0][..., 0] == (plain[..., 0] > 100) * 255).all()
    (folder / "bits.png").unlink()
    cmyk = image.fromarray(np.dstack([plain, np.zeros((4, 5), np.uint8)]), "CMYK")
    cmyk.save(folder / "inks.tif")
    assert (data.ImageFolder(tmp_path)[0][0] == 255 - plain).all()
    image.fromarray(deep.astype(np.float32)).save(folder / "inks.tif")
    with pytest.raises(DataError, match="of 32 bits"):
        data.ImageFolder(tmp_path)[0]
    for mode in ("I", "F", "1", "P", "I;16", "rgb"):
        with pytest.raises(DataError, match="in 8 bits a channel"):
            data.ImageFolder(tmp_path, mode=mode)


def test_names_and_lengths_that_lie(tmp_path: Path) -> None:
    (tmp_path / "twice.jsonl").write_text('{"a": 1, "a": 2}\n{"a": {"b": 1, "b": 1}}\n')
    for i in (0, 1):
        with pytest.raises(DataError, match=f"line {i + 1} (.|\n)*two values called"):
            data.JsonLines(tmp_path / "twice.jsonl")[i]
    (tmp_path / "some.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="two columns are named 'a'"):
        data.Csv(tmp_path / "some.csv", columns=["a", "a"])
    (tmp_path / "wide.txt").write_text("ab\ncd\n", "utf-16")
    with pytest.raises(DataError, match="several bytes in utf-16"):
        data.Lines(tmp_path / "wide.txt", encoding="utf-16")
    path = tmp_path / "lies.idx"
    path.write_bytes(bytes([0, 0, 8, 3]) + np.array([2**10, 2**10, 2**14], ">u4").tobytes() + b"12345")
    tracemalloc.start()
    with pytest.raises(DataError, match="holds less"):
        data.read_idx(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.table([[1], [2]], names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(DataError, match="two columns are named 'a'"):
        data.Parquet(tmp_path / "twice.parquet")
    whole = (tmp_path / "twice.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError):
        data.Parquet(tmp_path / "cut.parquet")
