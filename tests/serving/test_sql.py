"""SQL on a run: what is registered, what is answered, and what is said when there is no answer."""

import argparse
import shutil

import pytest

from xmcspark.config.configuration import load
from xmcspark.errors import ConfigError, StoreError
from xmcspark.serving.run_choice_spark import chosen_run
from xmcspark.serving.sql_spark import answer, told
from xmcspark.serving.views_spark import register_run
from xmcspark.store.database import register_tables
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.runs import Run, StageRecord
from xmcspark.store.tables import TABLES

OPTIONS = argparse.Namespace(rows=3, full_width=False)


@pytest.fixture(scope="module")
def found(spark, cookbook_run):
    return register_run(spark, cookbook_run)


@pytest.fixture
def unfinished(cookbook_run, tmp_path):
    """The same run, killed in training."""
    shutil.copytree(cookbook_run.fs.local_path(cookbook_run.uri), tmp_path / "runs" / "killed")
    run = Run(cookbook_run.fs, str(tmp_path / "runs"), "killed")
    for stage in ("train", "predict", "evaluate", "publish"):
        run.forget(stage)
    run.fs.delete(run.folder("bundle/manifest.json"))
    return run


def test_every_table_of_a_run_is_there_with_its_comments(spark, found):
    assert set(found.names) == {*TABLES, "matcher_weights", "predictions_named", "label_path"}
    assert found.missing == {}
    for name in TABLES:
        described = {row.col_name: row.comment for row in spark.sql(f"DESCRIBE {name}").collect()}
        for column in TABLES[name].columns:
            assert described[column.name] == column.comment, name


def test_views_have_comments_and_put_names_to_numbers(spark, found):
    described = spark.sql("DESCRIBE matcher_weights").collect()
    assert [row.col_name for row in described][:5] == ["member", "node", "child", "gram", "weight"]
    assert all(row.comment for row in described)
    named = spark.sql("SELECT * FROM predictions_named").columns
    assert named[:5] == ["id", "rank", "key", "text", "score"]
    counts = spark.sql(
        """SELECT (SELECT count(*) FROM matcher_weights) = (SELECT sum(size(features)) FROM matchers)
           AND (SELECT count(*) FROM predictions_named) = (SELECT sum(size(labels)) FROM predictions)
           AND (SELECT count(*) FROM label_path) = (SELECT sum(n_labels) FROM tree_nodes) AS all_there"""
    )
    assert counts.collect()[0].all_there


def test_columns_that_features_were_hashed_into_have_no_gram(spark, tmp_path):
    session, run = spark.newSession(), Run(Filesystem(spark), str(tmp_path), "sketch")
    matchers = [(m, 0, 0, 1, m == 0, 0.0, [0, 7], [0.5, 0.25], None, "sketch") for m in range(2)]
    tables = {"matchers": matchers, "vocabulary": [(f, "word", f"gram {f}", 1, 1.0, True) for f in range(7)]}
    for table, rows in tables.items():
        session.createDataFrame(rows, TABLES[table].schema).write.parquet(run.table(table))
    run.finish(StageRecord("vectorize", "v", 0.0, writes=["vocabulary"]))
    grams = {}
    for hashed in (0, 20):
        notes = {"mach": {"hashed_features": hashed, "first_member": 1}}
        run.finish(StageRecord("train", "t", 0.0, notes=notes, writes=["matchers"]))
        register_run(session, run)
        found = session.sql("SELECT member, gram, weight FROM matcher_weights ORDER BY member, feature")
        grams[hashed] = [tuple(row) for row in found.collect()]
    named = [("gram 0", 0.5), ("embedding[0]", 0.25)]
    assert grams[0] == [(member, *one) for member in range(2) for one in named]
    assert grams[20] == [*((0, *one) for one in named), (1, None, 0.5), (1, None, 0.25)]


def test_functions_answer_as_the_bundle_does_without_spark(spark, found):
    import xmcspark

    model = xmcspark.load(found.run.fs.local_path(found.run.folder("bundle")))
    rows = spark.sql(
        """SELECT text, xmc_predict(text) AS said, xmc_tfidf(text) AS seen, xmc_explain(text, 'A000005') AS why,
                  xmc_explain(text, 4) AS by_id
           FROM instances WHERE split = 'test' ORDER BY id LIMIT 3"""
    ).collect()
    for row, answers in zip(rows, model.predict([row.text for row in rows], k=10), strict=True):
        assert [(a.label, a.key, a.text, a.score) for a in answers] == [tuple(said) for said in row.said]
        features, values = model.reader.vectorizer.transform_one(row.text)
        grams = [model.gram(feature) for feature in features]
        assert [tuple(s) for s in row.seen] == list(zip(features, grams, values, strict=True))
        (path,) = model.explain(row.text, "A000005")
        margin = sum(step.margin for step in path.steps)
        assert sum(term.contribution for term in row.why) == pytest.approx(margin, abs=1e-4)
        assert row.why == row.by_id
    (nothing,) = spark.sql(
        """SELECT xmc_predict(CAST(NULL AS STRING)) AS said, xmc_tfidf('') AS seen,
                  xmc_explain('red', 'no such key') AS why"""
    ).collect()
    assert (nothing.said, nothing.seen, nothing.why) == (None, [], None)


@pytest.fixture
def other_session(spark, found):
    """A session of its own, in which the whole run was registered first."""
    session = spark.newSession()
    register_run(session, found.run)
    return session


def test_of_a_run_that_failed_half_way_what_finished_is_there_and_the_rest_has_a_reason(
    other_session, unfinished, capsys
):
    found = register_run(other_session, unfinished)
    assert "tree_nodes" in found.names
    assert found.missing["matchers"] == "stage train has not finished"
    assert found.missing["matcher_weights"] == "it needs matchers"
    assert "no published bundle" in found.missing["xmc_predict"]
    assert "not there: matchers: stage train has not finished" in told(found)
    answer(other_session, found, "SELECT count(*) AS nodes FROM tree_nodes", OPTIONS)
    assert "|nodes|" in capsys.readouterr().out
    for query, says in (
        ("SELECT * FROM matchers", "matchers is not there in run killed: stage train has not finished"),
        ("SELECT * FROM Matcher_Weights", "matcher_weights is not there in run killed: it needs matchers"),
        ("SELECT xmc_predict('red')", "xmc_predict is not there in run killed: the run has no published"),
    ):
        with pytest.raises(StoreError, match=says):
            answer(other_session, found, query, OPTIONS)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT * FROM lables", "there is no table, view or function lables; there are instances, labels"),
        ("SELECT nam FROM labels", "`nam` cannot be resolved"),
        ("SELEC 1", "Syntax error"),
        ("SELECT 1 / 0", "[Dd]ivision by zero"),
    ],
)
def test_a_wrong_query_is_told_in_short(spark, found, query, says):
    from xmcspark.command_spark import explained

    with pytest.raises(Exception, match=says) as raised:
        answer(spark, found, query, OPTIONS)
    message, code = explained(raised.value)
    assert code in (2, 4)
    assert len(message) < 800
    assert "Traceback" not in message
    assert "Relation [" not in message


def test_long_values_are_cut_unless_asked_for(spark, found, capsys):
    answer(spark, found, "SELECT repeat('x', 100) AS x", OPTIONS)
    assert "x" * 100 not in capsys.readouterr().out
    answer(spark, found, "SELECT repeat('x', 100) AS x", argparse.Namespace(rows=3, full_width=True))
    assert "x" * 100 in capsys.readouterr().out


def test_an_unknown_run_is_answered_with_those_there_are(spark, found):
    root = found.run.root
    with pytest.raises(StoreError, match=r"there is no run other .* its runs are cookbook"):
        chosen_run(spark, load(None, [f"run.root={root}", "run.id=other"]))
    with pytest.raises(StoreError, match="it has no runs"):
        chosen_run(spark, load(None, [f"run.root={root}/nowhere"]))


def test_a_run_that_failed_at_once_is_no_choice(spark, tmp_path):
    fs = Filesystem(spark)
    for name in ("failed", "good"):
        fs.write_text(f"{tmp_path}/{name}/run.json", "{}")
    Run(fs, str(tmp_path), "good").finish(StageRecord("corpus", "key", 1.0))
    with pytest.raises(StoreError, match=r"there is no run other .* its runs are good: name one"):
        chosen_run(spark, load(None, [f"run.root={tmp_path}", "run.id=other"]))
    with pytest.raises(StoreError, match=r"no stage of run failed .* run the job that started it again"):
        chosen_run(spark, load(None, [f"run.root={tmp_path}", "run.id=failed"]))


def test_without_a_name_the_run_served_now_is_meant(spark, found):
    assert chosen_run(spark, load(None, [f"run.root={found.run.root}"])).id == "cookbook"


# ---- tables of a published run in a database ----------------------------------------------------------------


@pytest.fixture
def database(spark, tmp_path):
    spark.sql(f"CREATE DATABASE xmc_test LOCATION '{tmp_path / 'database'}'")
    yield "xmc_test"
    spark.sql("DROP DATABASE xmc_test CASCADE")


def test_a_database_gets_the_tables_of_the_published_run(spark, found, unfinished, database):
    names = register_tables(spark, found.run, database)
    assert {"labels", "matchers", "instances"} <= set(names)
    same = "SELECT (SELECT count(*) FROM xmc_test.{0}) = (SELECT count(*) FROM {0}) AS same"
    for name in ("labels", "instances"):  # one file, and one that is in partitions
        assert spark.sql(same.format(name)).collect()[0].same
    described = {row.col_name: row.comment for row in spark.sql("DESCRIBE xmc_test.labels").collect()}
    assert described["key"] == "its key in the logs or the corpus"
    register_tables(spark, unfinished, database)  # another run takes over, what it has
    assert "killed" in spark.sql("DESCRIBE EXTENDED xmc_test.labels").toPandas().to_string()


def test_a_table_of_somebody_else_is_not_replaced(spark, found, database, tmp_path):
    spark.sql(f"CREATE TABLE xmc_test.labels (x int) USING parquet LOCATION '{tmp_path / 'theirs'}'")
    with pytest.raises(StoreError, match="did not make: labels"):
        register_tables(spark, found.run, database)
    assert not spark.catalog.tableExists("xmc_test.matchers")


def test_the_name_of_a_database_is_checked():
    with pytest.raises(ConfigError, match=r"publish\.database"):
        load(None, ["publish.database=a; drop"])
