"""Instance types: what they cost, how many tasks they run, and what is said of those that are not known."""

from pathlib import Path

import pytest

from xmcspark.errors import ConfigError
from xmcspark.planning.machines import InstanceType, cluster_of, load_types, wanted_clusters

FILE = Path(__file__).resolve().parents[2] / "conf" / "instance-types.yaml"


def test_the_shipped_types_can_be_read_and_no_hour_is_free():
    types = load_types(FILE)
    assert len(types) >= 20
    assert all(0.1 < kind.ec2 < 10 and 0 < kind.emr <= 0.25 * kind.ec2 + 1e-9 for kind in types.values())
    assert all(
        kind.memory_gb in (2 * kind.vcpu, 4 * kind.vcpu, 8 * kind.vcpu) or kind.name == "x1.16xlarge"
        for kind in types.values()
    )


def test_a_cluster_leaves_a_part_of_one_machine_to_the_driver():
    cluster = cluster_of(InstanceType("m6i.4xlarge", 16, 64, 0.768, 0.192), 4, threads=1)
    assert (cluster.slots, cluster.name) == (
        60,
        "4 x m6i.4xlarge",
    )  # 15 executors of 4 cores: conf/spark-emr.conf
    assert cluster.dollars_per_hour == pytest.approx(4 * 0.96)
    assert cluster.task_bytes == 2 << 30  # a fourth of that file's memoryOverhead


def test_without_a_count_there_are_1_4_and_8_machines():
    types = load_types(FILE)
    assert [c.name for c in wanted_clusters([], types, FILE, 1)] == [f"{n} x m6i.4xlarge" for n in (1, 4, 8)]
    assert [c.name for c in wanted_clusters(["r7g.2xlarge:3"], types, FILE, 1)] == ["3 x r7g.2xlarge"]


def test_unknown_types_and_counts_are_told_all_at_once_with_near_matches():
    with pytest.raises(ConfigError) as told:
        wanted_clusters(["m6i.5xlarge:2", "m6i.4xlarge:0", "zz9"], load_types(FILE), FILE, 1)
    first, second, third = told.value.problems
    assert "m6i.4xlarge" in first
    assert str(FILE) in first
    assert "number of machines" in second
    assert "zz9" in third


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a: {vcpu: 4, memory_gb: 16, ec2: 0.1}", "lacks emr"),
        ("a: {vcpu: 0, memory_gb: 16, ec2: 0.1, emr: 0}", "vcpu is 0"),
        ("a: {vcpu: 4, memory_gb: 16, ec2: -1, emr: 0}", "ec2 is -1"),
        ("a: {vcpu: 4, memory_gb: 16, ec2: 1, emr: 0, price: 3}", "price"),
        ("a: 4", "expected"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path, line, said):
    path = tmp_path / "types.yaml"
    path.write_text(f"types:\n  {line}\n")
    with pytest.raises(ConfigError, match=said):
        load_types(path)
