"""The XMC repository's files give the corpus that the same data gives in Parquet, or a reason why not."""

import gzip
import json

import pytest
from corpus_runs import digests, instances, labels, run_corpus, table, write_labels, write_rows

from xmcspark.corpus.corpus_spark import STAGE
from xmcspark.corpus.label_ids_spark import numbered_keys
from xmcspark.errors import InputError

TRAIN = [("0", "red shoe é", [0, 2]), ("1", "blue shoe", [0]), ("2", "1:1 scale model", [1])]
TEST = [("0", "red hat", [1]), ("1", "green shoe", [2, 0])]
LABELS = {0: "shoes", 1: "models", 2: "red things"}


def write_text(folder):
    for split, rows in (("trn", TRAIN), ("tst", TEST)):
        (folder / f"{split}_X.txt").write_bytes("".join(f"{row[1]}\r\n" for row in rows).encode())
        lines = [" ".join(f"{label}:1" for label in row[2]) for row in rows]
        (folder / f"{split}_X_Y.txt").write_text(f"{len(rows)} {len(LABELS)}\n" + "\n".join(lines) + "\n")
    (folder / "Y.txt").write_text("\n".join(LABELS.values()) + "\n")
    (folder / "filter.txt").write_text("0 2\n1 1\n0 0\n")
    return {"train": "trn_X.txt", "test": "tst_X.txt", "labels": "Y.txt", "exclude": "filter.txt"}


def write_json(folder):
    for split, rows in (("trn", TRAIN), ("tst", TEST)):
        with gzip.open(folder / f"{split}.json.gz", "wt") as stream:
            for key, text, found in rows:
                title, _, content = text.partition(" ")
                record = {"uid": key, "title": title, "content": content, "target_ind": found}
                stream.write(json.dumps({**record, "target_rel": [1.0] * len(found)}) + "\n")
    records = [json.dumps({"uid": f"L{number}", "title": text}) for number, text in LABELS.items()]
    (folder / "lbl.json").write_text("\n".join(records))
    return {"train": "trn.json.gz", "test": "tst.json.gz", "labels": "lbl.json"}


def settings(folder, files):
    return [f"input.{name}={folder / file}" for name, file in files.items()]


def test_text_and_json_files_give_the_corpus_of_the_same_tables(make_context, tmp_path):
    write_rows(tmp_path / "train.parquet", TRAIN)
    write_rows(tmp_path / "test.parquet", TEST)
    write_labels(tmp_path / "labels.parquet", LABELS)
    files = {name: f"{name}.parquet" for name in ("train", "test", "labels")}
    tables = run_corpus(make_context, *settings(tmp_path, files), run="tables")
    text = run_corpus(make_context, *settings(tmp_path, write_text(tmp_path)), run="text")
    records = run_corpus(make_context, *settings(tmp_path, write_json(tmp_path)), run="json")
    assert digests(text)[:2] == digests(tables)[:2]
    assert digests(records)[0] == digests(tables)[0]
    assert {key: row["id"] for key, row in labels(records).items()} == {"L0": 0, "L1": 1, "L2": 2}
    excluded = {row["id"]: row["labels"] for row in table(text, "exclude")}
    assert excluded == {"0": [0, 2], "1": [1]}
    assert instances(text)["train", "2"]["text"] == "1:1 scale model"


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("trn_X.txt", "3 5 3\n0 1:0.5 2:1\n1 3:1\n", "bag-of-words features, and xmcspark learns from texts"),
        ("trn_X.txt", "one\ntwo\n", r"has 2 texts but .*trn_X_Y\.txt has 3 rows of labels"),
        (
            "trn_X_Y.txt",
            "3 3\n0:1\nx:1\n1:1\n",
            r"1 lines of .*trn_X_Y\.txt cannot be used, .* line 3: 'x'",
        ),
        ("trn_X_Y.txt", None, r"no file with the labels of its texts; looked for trn_X_Y\.txt, trn_Y\.txt"),
    ],
)
def test_files_that_do_not_fit_are_named(make_context, tmp_path, file, content, problem):
    given = settings(tmp_path, write_text(tmp_path))
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_text(content)
    with pytest.raises(InputError, match=problem):
        run_corpus(make_context, *given)


def test_a_truncated_gzip_is_named(make_context, tmp_path):
    given = settings(tmp_path, write_json(tmp_path))
    whole = (tmp_path / "trn.json.gz").read_bytes()
    (tmp_path / "trn.json.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"input\.train: .*trn\.json\.gz"):
        run_corpus(make_context, *given)


def test_ids_follow_the_keys_through_all_ranges(spark, make_context):
    words = [f"k{n * 7919 % 1000:03}" for n in range(1000)]
    keys = spark.createDataFrame([(word, None) for word in words], "key string, place bigint")
    coalescing = "spark.sql.adaptive.coalescePartitions.enabled"
    spark.conf.set(coalescing, "false")
    try:
        ids = numbered_keys(make_context(STAGE), keys.repartition(4), 7)
        found = {row["key"]: row["id"] for row in ids.collect()}
    finally:
        spark.conf.unset(coalescing)
    assert found == {word: 7 + place for place, word in enumerate(sorted(words))}
