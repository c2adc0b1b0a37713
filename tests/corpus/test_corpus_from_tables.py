"""Ready corpora in Parquet: what becomes of their rows and labels, and what is refused."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_runs import INT, digests, instances, labels, run_corpus, table, write_labels, write_rows

from xmcspark.corpus.corpus_spark import STAGE
from xmcspark.errors import ConfigError, InputError

TRAIN = [("a", "red shoe", [2, 0]), ("b", "blue shoe", [0]), ("c", "hat", [1, 1, 0]), ("d", "nothing", [])]
TEST = [("a", "red hat", [1, 3]), ("z", "coat", [3])]
LABELS = {0: "shoes", 1: "hats", 2: "red", 3: "coats"}


@pytest.fixture
def given(tmp_path):
    """Overrides that name the corpus above."""
    write_rows(tmp_path / "train.parquet", TRAIN)
    write_rows(tmp_path / "test.parquet", TEST)
    write_labels(tmp_path / "labels.parquet", LABELS)
    return [f"input.{name}={tmp_path / name}.parquet" for name in ("train", "test", "labels")]


def test_rows_keep_their_ids_texts_and_label_numbers(make_context, given, tmp_path):
    exclude = write_rows(tmp_path / "exclude.parquet", [("a", "", [3, 0]), ("a", "", [1]), ("z", "", [77])])
    context = run_corpus(make_context, *given, f"input.exclude={exclude}")
    found = instances(context)
    assert found.keys() == {("train", "a"), ("train", "b"), ("train", "c"), ("test", "a")}
    assert found["train", "a"]["labels"] == [0, 2]
    assert found["train", "c"]["labels"] == [0, 1], "a label given twice counts once"
    assert found["train", "c"]["relevance"] == [1, 1]
    assert found["test", "a"]["labels"] == [1], "label 3 is not trained"
    assert {row["origin"] for row in found.values()} == {"corpus"}
    assert len({row["row_hash"] for row in found.values()}) == 4
    here = labels(context)
    assert [(here[key]["id"], here[key]["positives"], here[key]["active"]) for key in "0123"] == [
        (0, 3, True),
        (1, 1, True),
        (2, 1, True),
        (3, 0, False),
    ]
    assert [(row["id"], row["labels"]) for row in table(context, "exclude")] == [("a", [0, 1, 3])]
    notes = context.notes
    assert notes["labels_active"] == 3
    assert notes["most_positives"] == 3
    assert (notes["train_instances"], notes["train_pairs"], notes["train_rows_dropped"]) == (3, 5, 1)
    assert (notes["test_instances"], notes["test_pairs"], notes["test_rows_dropped"]) == (1, 1, 1)
    assert (notes["train_rows_untrained"], notes["test_rows_untrained"]) == (0, 1), "one has no label"
    assert notes["train_pairs_repeated"] == 1


@pytest.mark.parametrize("min_count", [1, 3], ids=["labels taken over by row", "labels mapped by a join"])
def test_neither_the_order_nor_the_files_of_the_input_matter(make_context, tmp_path, min_count):
    draw = random.Random(5)
    rows = [(f"i{n}", f"text {n} ä", draw.sample(range(20), draw.randint(1, 4))) for n in range(60)]
    rows = [(*row, [draw.choice([0.5, 1, 2]) for _ in row[2]]) for row in rows]
    write_labels(tmp_path / "labels.parquet", {n: f"label {n}" for n in range(20)})
    write_rows(tmp_path / "one" / "all.parquet", rows, relevance=True)
    draw.shuffle(rows)
    for part in range(5):
        write_rows(tmp_path / "five" / f"{part}.parquet", rows[part::4] if part < 4 else [], relevance=True)
    settings = [f"input.labels={tmp_path}/labels.parquet", f"corpus.min_label_count={min_count}"]
    one = run_corpus(make_context, *settings, f"input.train={tmp_path}/one", run="one")
    five = run_corpus(make_context, *settings, f"input.train={tmp_path}/five", run="five")
    assert digests(one) == digests(five)
    assert one.notes == five.notes
    wanted = {row[0]: dict(zip(row[2], row[3], strict=True)) for row in rows}
    active = {row["id"] for row in table(one, "labels") if row["active"]}
    for (_, key), row in instances(one).items():
        kept = {label: value for label, value in wanted[key].items() if label in active}
        assert dict(zip(row["labels"], row["relevance"], strict=True)) == kept
        assert row["labels"] == sorted(row["labels"])


def test_labels_keep_their_ids_from_run_to_run(make_context, tmp_path):
    def run(name, rows, texts, base=None):
        write_rows(tmp_path / name / "train.parquet", rows, pa.string())
        write_labels(tmp_path / f"{name}.parquet", texts, pa.string())
        where = [f"input.train={tmp_path}/{name}", f"input.labels={tmp_path}/{name}.parquet"]
        return run_corpus(make_context, *where, run=name, base=base)

    first = run(
        "first", [("1", "x", ["m", "q"]), ("2", "y", ["é"])], {"q": "Q", "m": "M", "é": "E", "r": None}
    )
    assert {key: row["id"] for key, row in labels(first).items()} == {"m": 0, "q": 1, "r": 2, "é": 3}
    assert first.notes["labels_without_text"] == 1
    second = run("second", [("1", "x", ["a", "q", "z"])], {"z": "Z", "q": "Q2", "a": "A"}, base="first")
    now = labels(second)
    assert {key: row["id"] for key, row in now.items()} == {"m": 0, "q": 1, "r": 2, "é": 3, "a": 4, "z": 5}
    assert {key for key, row in now.items() if row["active"]} == {"q", "a", "z"}
    assert (now["q"]["text"], now["m"]["text"], now["m"]["positives"]) == ("Q2", "M", 0)
    assert instances(second)["train", "1"]["labels"] == [1, 4, 5]
    assert (second.notes["labels_new"], second.notes["labels_retired"]) == (2, 2)


def test_what_is_too_much_is_cut_and_counted(make_context, tmp_path):
    rows = [("a", "x" * 50, [0, 1, 2, 3], [0.5, 2, 0.5, -1]), ("b", "short", [3], [0])]
    train = write_rows(tmp_path / "train.parquet", rows, relevance=True)
    exclude = write_rows(tmp_path / "exclude.parquet", [("a", "", ["1", "other"])], pa.string())
    limits = ["corpus.max_labels_per_instance=2", "corpus.max_text_chars=10"]
    context = run_corpus(make_context, f"input.train={train}", f"input.exclude={exclude}", *limits)
    row = instances(context)["train", "a"]
    assert (row["text"], row["labels"], row["relevance"]) == ("x" * 10, [0, 1], [0.5, 2])
    assert [row["labels"] for row in table(context, "exclude")] == [[1]], "numbers may be given as strings"
    assert context.notes["labels_without_text"] == 4
    assert context.notes["train_texts_cut"] == 1
    assert context.notes["train_pairs_not_above_0"] == 2
    assert context.notes["train_pairs_over_the_limit"] == 1
    assert context.notes["train_rows_dropped"] == 1


def test_all_that_is_wrong_with_rows_is_said_at_once(make_context, given, tmp_path):
    bad = [("a", "x", [0]), ("a", "y", [1]), ("b", None, [0]), (None, "z", [0]), ("c", "c", [None])]
    write_rows(tmp_path / "train.parquet", bad)
    with pytest.raises(InputError) as caught:
        run_corpus(make_context, *given)
    text = str(caught.value)
    assert "input.train" in text
    assert "1 of 5 ids occur more than once (such as id 'a')" in text
    assert "1 of 5 rows have no text (such as id 'b')" in text
    assert "1 of 5 rows have no id" in text
    assert "1 of 5 rows have a null among their labels (such as id 'c')" in text


def test_labels_that_are_not_in_the_label_table_are_refused(make_context, given, tmp_path):
    write_rows(tmp_path / "train.parquet", [*TRAIN, ("e", "x", [9, 12])])
    with pytest.raises(InputError, match=r"2 labels .*\(such as 12\), in 2 places, are not in input.labels"):
        run_corpus(make_context, *given)


def test_labels_given_twice_are_refused(make_context, given, tmp_path):
    pq.write_table(pa.table({"id": [0, 1, 1], "text": ["a", "b", "c"]}), tmp_path / "labels.parquet")
    with pytest.raises(InputError, match=r"1 label ids occur more than once \(such as '1'\)"):
        run_corpus(make_context, *given)


def test_an_empty_table_is_refused(make_context, given, tmp_path):
    write_rows(tmp_path / "test.parquet", [])
    with pytest.raises(InputError, match=r"input\.test .*there is not one row"):
        run_corpus(make_context, *given)


def test_wrong_columns_are_named(make_context, given, tmp_path):
    pq.write_table(pa.table({"id": [1.5], "query": ["x"], "labels": [["a"]]}), tmp_path / "train.parquet")
    with pytest.raises(InputError) as caught:
        run_corpus(make_context, *given)
    assert "column id is double, expected string or integer" in str(caught.value)
    assert "there is no column text (there are id, query, labels)" in str(caught.value)


def test_a_truncated_file_is_named(make_context, given, tmp_path):
    whole = (tmp_path / "train.parquet").read_bytes()
    (tmp_path / "train.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"train\.parquet cannot be read: damaged, cut off"):
        run_corpus(make_context, *given)


def test_a_missing_file_is_named_before_anything_runs(make_context, given, tmp_path):
    (tmp_path / "labels.parquet").unlink()
    with pytest.raises(InputError, match=r"input\.labels: .*labels\.parquet does not exist"):
        STAGE.external(make_context(STAGE, *given))
    with pytest.raises(ConfigError, match=r"input\.logs and input\.train are both null"):
        STAGE.external(make_context(STAGE))


def test_the_state_of_the_input_changes_with_its_files(make_context, given, tmp_path):
    before = STAGE.external(make_context(STAGE, *given))
    assert STAGE.external(make_context(STAGE, *given)) == before
    write_rows(tmp_path / "test.parquet", [*TEST, ("y", "more text", [0])])
    assert STAGE.external(make_context(STAGE, *given)) != before


def test_bytes_that_are_not_text_are_refused_or_replaced(make_context, given, tmp_path):
    broken = pa.array([b"caf\xe9", b"tea"], pa.binary()).view(pa.string())
    pq.write_table(
        pa.table({"id": ["p", "q"], "text": broken, "labels": [[0], [0]]}), tmp_path / "train.parquet"
    )
    with pytest.raises(InputError, match=r"1 of 2 texts are not valid UTF-8 \(such as id 'p'\)"):
        run_corpus(make_context, given[0], given[2])
    context = run_corpus(make_context, given[0], given[2], "text.invalid=replace")
    assert instances(context)["train", "p"]["text"] == "caf\ufffd"
    assert context.notes["train_texts_not_utf8"] == 1


@pytest.mark.parametrize("kind", [INT, pa.string()], ids=["numbers", "keys"])
def test_label_texts_that_are_not_utf8_are_refused_or_replaced(make_context, tmp_path, kind):
    refs = ["0", "1"] if kind == pa.string() else [0, 1]
    write_rows(tmp_path / "train.parquet", [("a", "x", refs)], kind)
    texts = pa.array([b"caf\xe9", b"tea"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"id": pa.array(refs, kind), "text": texts}), tmp_path / "labels.parquet")
    given = [f"input.{name}={tmp_path}/{name}.parquet" for name in ("train", "labels")]
    with pytest.raises(
        InputError, match=r"1 of 2 labels have a text that is not valid UTF-8 \(such as that of '0'"
    ):
        run_corpus(make_context, *given)
    context = run_corpus(make_context, *given, "text.invalid=replace")
    assert labels(context)["0"]["text"] == "caf\ufffd"
