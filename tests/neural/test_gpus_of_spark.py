"""GPUs are used as Spark hands them out: by tasks that were given one, and by processes that start together on
executors that stay."""

from types import SimpleNamespace

import needs_torch  # noqa: F401
import pytest

from xmcspark.errors import ConfigError
from xmcspark.neural import device as device_module
from xmcspark.neural.device import CPU
from xmcspark.neural.distributed_spark import _on_gpus, run_on_executors
from xmcspark.neural.embeddings_spark import device_of_task
from xmcspark.neural.settings import EncoderSettings

HANDED_OUT = {"spark.task.resource.gpu.amount": "1"}


def test_a_task_embeds_on_the_gpu_it_was_given_and_else_on_the_cpu(monkeypatch):
    asked = []
    monkeypatch.setattr(device_module, "chosen_device", lambda how, rank: asked.append((how.device, rank)))
    assert device_of_task() == CPU
    given = {}
    task = SimpleNamespace(resources=lambda: given)
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: task)
    assert device_of_task() == CPU
    given["gpu"] = SimpleNamespace(addresses=["3"])
    device_of_task()
    assert asked == [("cuda", 3)]


@pytest.mark.parametrize(
    ("device", "conf", "expected"),
    [("auto", {}, False), ("auto", HANDED_OUT, True), ("cpu", HANDED_OUT, False), ("cuda", {}, True)],
)
def test_processes_see_gpus_that_spark_hands_out_or_that_are_asked_for(device, conf, expected):
    assert _on_gpus(device, conf) is expected


def test_processes_on_executors_that_come_and_go_are_refused(tmp_path):
    encoder = EncoderSettings(enabled=True, processes=4)
    spark = SimpleNamespace(conf={"spark.dynamicAllocation.enabled": "true"})
    context = SimpleNamespace(config=SimpleNamespace(encoder=encoder), spark=spark)
    with pytest.raises(ConfigError, match=r"encoder\.processes is 4.*dynamicAllocation\.enabled=false"):
        run_on_executors(context, tmp_path)
