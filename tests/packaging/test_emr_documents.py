"""The requests to EMR in docs/emr.md are those that the code makes, EMR would take them (by botocore's own models of
its services), and the job would take their arguments."""

import json
import re
import shlex

import pytest

from jobs.package import parser as package_parser
from jobs.submit import ROOT, is_local, parser_of, split_options
from xmcspark.packaging.emr_documents import emr_job_run, emr_step
from xmcspark.packaging.spark_settings import read_settings

AT = "s3://example-bucket/xmcspark"
DAY = ["--date", "2026-01-31"]
SHOWN = [
    json.loads(text)
    for text in re.findall(r"```json\n(.*?)```", (ROOT / "docs/emr.md").read_text(), re.DOTALL)
]
STEPS, CLUSTER, RUN = SHOWN


def _validated(service, operation, request):
    """What botocore would say before it sends the request."""
    pytest.importorskip("botocore", reason="pip install --no-deps --target DIR -r conf/constraints-aws.txt")
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    model = ServiceModel(Loader().load_service_model(service, "service-2"))
    return ParamValidator().validate(request, model.operation_model(operation).input_shape).generate_report()


def test_the_step_shown_is_the_one_that_the_settings_make():
    settings = read_settings(ROOT / "conf" / "spark-emr.conf")
    assert STEPS["Steps"] == [emr_step(AT, "refresh", DAY, settings)]


def test_the_job_run_shown_is_the_one_that_the_settings_make():
    settings = read_settings(ROOT / "conf" / "spark-emr-serverless.conf")
    account = {key: RUN[key] for key in ("applicationId", "executionRoleArn")}
    assert {**account, **emr_job_run(AT, "refresh", DAY, settings)} == RUN


def test_emr_takes_the_step():
    assert _validated("emr", "AddJobFlowSteps", STEPS) == ""


def test_emr_takes_the_cluster_with_the_step():
    assert _validated("emr", "RunJobFlow", {**CLUSTER, "Steps": STEPS["Steps"]}) == ""


def test_emr_serverless_takes_the_job_run():
    assert _validated("emr-serverless", "StartJobRun", {**RUN, "clientToken": "once"}) == ""


def test_the_models_would_notice_a_wrong_key():
    assert "Unknown parameter" in _validated("emr", "AddJobFlowSteps", {**STEPS, "Step": []})


def test_the_job_takes_the_arguments():
    step = STEPS["Steps"][0]["HadoopJarStep"]["Args"]
    in_step = step[step.index(f"{AT}/jobs/refresh.py") + 1 :]
    for arguments in (in_step, RUN["jobDriver"]["sparkSubmit"]["entryPointArguments"]):
        options = parser_of("refresh").parse_args(arguments)
        assert (options.config, options.date) == (f"{AT}/config.json", "2026-01-31")


def test_every_command_line_of_the_docs_is_one_that_the_launcher_takes():
    text = (ROOT / "docs" / "emr.md").read_text().replace("\\\n", " ")
    lines = re.findall(r"^\s*\./spark-submit\.sh (\w+) ([^\n'`]*)", text, re.MULTILINE)
    assert {job for job, _ in lines} == {"package", "refresh"}
    for job, arguments in lines:
        ours, spark = split_options(shlex.split(arguments))
        parser = package_parser() if job == "package" else parser_of(job)
        assert parser.parse_args(ours).config == "conf/mine.yaml"
        assert not spark or not is_local(spark)
