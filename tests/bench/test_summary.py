import pytest

from bench.report import render
from bench.summary import summarise
from bench.table import marginal_table, quality_table, steps_table, tree_levels_table


def record(step, system, cpu_s, **extra):
    return {"step": step, "system": system, "wall_s": cpu_s * 2, "cpu_s": cpu_s, "peak_mb": 100.0, **extra}


def answer(system, costs, facts=None, **extra):
    steps = [record(step, system, cost) for step, cost in costs.items()]
    return {"system": system, "steps": steps, "facts": facts or {}, **extra}


@pytest.fixture
def result():
    ours = {"tfidf_fit_transform": 1, "tfidf_fit": 1, "tfidf_transform": 1, "pifa": 1, "tree": 1, "train": 2}
    theirs = {"tfidf_fit": 4, "tfidf_transform": 3, "pifa": 5, "tree": 6, "train": 7}
    answers = [
        answer("xmcspark", ours, {"model_mb": 3.0}, quality={"P@1": 0.5, "P@3": 0.4, "P@5": 0.3}),
        answer("pecos", theirs, tree={"leaf_cosine": 0.25, "leaves": 4, "largest_leaf": 9}),
        answer("omikuji", {"train": 9}, {"train_includes": ["pifa", "tree"]}),
        answer("pecos-man", {"train": 9}),
        answer("xmcspark", {**ours, "train": 4}, quality={"P@1": 0.7, "P@3": 0.4, "P@5": 0.3}),
        answer("xmcspark", {**ours, "train": 3}, quality={"P@1": 0.6, "P@3": 0.4, "P@5": 0.3}),
    ]
    context = {
        "failures": {"mkl": "exit code 1\nno such library"},
        "data": {
            "name": "tiny",
            "instances": 10,
            "labels": 5,
            "test": 2,
            "labels_per_row": 1.5,
            "features": 7,
            "nnz_per_row": 3.2,
        },
        "settings": {"threads": 2, "repeats": 3, "beam": 10, "seed": 0, "features_from": "xmcspark"},
        "machine": {"cpu": "a CPU", "cores": 2, "memory_gb": 24, "system": "Linux", "python": "3.11"},
        "date": "2030-01-02",
    }
    return {**summarise(answers), **context}


def step(result, name, system, part="steps"):
    return next((r for r in result[part] if (r["step"], r["system"]) == (name, system)), None)


def test_times_are_medians_over_the_repeats(result):
    assert step(result, "train", "xmcspark")["cpu_s"] == 3
    assert step(result, "train", "xmcspark")["wall_s"] == 6
    assert step(result, "train", "xmcspark")["cpu_s_runs"] == [2, 4, 3]


def test_quality_is_the_mean_over_the_seeds(result):
    assert result["quality"]["xmcspark"]["P@1"] == pytest.approx(0.6)


def test_sums_use_the_one_pass_step_where_there_is_one(result):
    assert step(result, "tfidf_total", "xmcspark", "sums")["cpu_s"] == 1
    assert step(result, "tfidf_total", "pecos", "sums")["cpu_s"] == 7
    assert step(result, "text_to_model", "xmcspark", "sums")["cpu_s"] == 6
    assert step(result, "text_to_model", "pecos", "sums")["cpu_s"] == 25


def test_a_system_that_clusters_inside_training_has_the_sum_and_others_do_not(result):
    assert step(result, "tree_and_train", "omikuji", "sums")["cpu_s"] == 9
    assert step(result, "tree_and_train", "pecos-man", "sums") is None


def test_table_shows_ratios_to_ours_and_of_variants_to_our_variant(result):
    train = next(line for line in steps_table(result, "cpu_s").splitlines() if line.startswith("| train"))
    assert [cell.strip() for cell in train.split("|")[2:-1]] == ["3", "7 (2.3×)", "9 (3.0×)", "9"]


def test_quality_table_has_percent_trees_and_sizes(result):
    table = quality_table(result)
    assert "60.00" in table
    assert "0.2500" in table
    assert "pecos-man" not in table


def test_levels_of_a_tree_are_shown_where_it_was_timed(result):
    assert tree_levels_table(result) == ""
    level = {"level": 1, "clusters": 16, "centres": "spa", "cpu_seconds": 0.25, "passes": 4.66}
    for system in ("xmcspark", "pecos-man"):  # the second does not time its tree
        result["facts"][system]["tree_levels"] = [{**level, "centre_length": 99.0}]
    lines = tree_levels_table(result).splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells == [["xmcspark", "1", "16", "spa", "0.25", "4.7", "99"]]


def test_report_names_machine_date_data_and_failures(result):
    report = render([result])
    for text in ("## tiny, 2 threads", "a CPU", "2030-01-02", "10 × 5 labels", "mkl: no such library"):
        assert text in report


def test_report_shows_what_a_doubling_costs(result):
    def sized(instances, labels, factor):
        steps = [{**r, "cpu_s": r["cpu_s"] * factor} for r in result["steps"]]
        data = {**result["data"], "name": "generated", "instances": instances, "labels": labels}
        return {**result, "steps": steps, "data": data}

    assert "## Growth" not in render([sized(1000, 100, 1)])
    growth = render([sized(4000, 400, 9), sized(1000, 100, 1)]).split("## Growth")[1]
    assert "27 (3.00×)" in next(line for line in growth.splitlines() if line.startswith("| train"))
    assert "## Growth" not in render([sized(4000, 900, 9), sized(1000, 100, 1)])


def whole(system, wall, train):
    sums = [{"step": "text_to_model", "wall_s": wall, "cpu_s": wall, "peak_mb": 0.0}]
    return answer(system, {}, {"sums": sums, "stages": {"train": train}, "start_s": wall / 10})


def test_totals_and_stages_that_a_system_measures_itself_are_medians_over_the_repeats():
    found = summarise([whole("xmcspark-spark", wall, wall / 2) for wall in (60.0, 90.0, 70.0)])
    assert step(found, "text_to_model", "xmcspark-spark", "sums")["wall_s"] == 70
    assert found["facts"]["xmcspark-spark"]["stages"]["train"] == 35
    assert found["facts"]["xmcspark-spark"]["start_s"] == 7


def test_marginal_table_divides_what_more_data_takes(result):
    sizes = []
    for instances, walls in ((20, (60, 50, 100)), (10, (30, 25, 60))):
        steps = {"tfidf_fit_transform": walls[1] / 2, "pifa": 0, "tree": 0, "train": 0}
        found = summarise(
            [
                answer("xmcspark", steps),
                whole("xmcspark-tables", walls[0], 1.0),
                whole("xmcspark-spark", walls[2], 1.0),
            ]
        )
        sizes.append({**found, "data": {**result["data"], "instances": instances}})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in marginal_table(sizes).splitlines()]
    assert rows[0][1:3] == ["10 × 5", "20 × 5"]
    assert rows[2] == ["xmcspark", "25.0", "50.0", "25.0", "1.00×", "0.83×"]
    assert rows[4] == ["xmcspark-spark", "60.0", "100.0", "40.0", "1.60×", "1.33×"]
    assert marginal_table(sizes[:1]) == ""
