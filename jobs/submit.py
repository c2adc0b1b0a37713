"""Starts a Spark job: checks its configuration, then becomes the real spark-submit. Decides what travels with a job
(one resolved JSON document, so that any deploy mode sees the same settings) and what a laptop gets by default."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.jvm_archive import archive_options
from xmcspark.config.command_line import absolute, add_options, is_uri, overrides_of
from xmcspark.config.configuration import Config, load
from xmcspark.errors import ConfigError
from xmcspark.mach.settings import learner_problem
from xmcspark.matchers.fuse_options import add_fuse_options, fuse_arguments
from xmcspark.neural.available import require_torch
from xmcspark.neural.early_checks import check_model_files, check_this_machine
from xmcspark.quality.compare_options import add_compare_options, compare_arguments
from xmcspark.serving.sql_options import add_sql_options, sql_arguments

ROOT = Path(__file__).resolve().parents[1]
NEEDED_JAVA = 17
# The kernels do the heavy work: the second compiler would spend more on the JVM's part than it wins (300k x 60k: 97 s
# with it, 80 s without).
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
# Fresh memory costs more than what is computed in it, by the page: the driver and the Python workers get theirs in huge
# pages, from one allocator (500k x 100k: 8 CPU seconds of the kernel in index and train without, 5 with it).
_MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
# Options that only one job takes, and how they are given on to its script.
_OWN_OPTIONS = {
    "sql": (add_sql_options, sql_arguments),
    "compare": (add_compare_options, compare_arguments),
    "fuse": (add_fuse_options, fuse_arguments),
}


def main(arguments: list[str] | None = None) -> int:
    job, *rest = sys.argv[1:] if arguments is None else arguments
    ours, spark_options = split_options(rest)
    options = parser_of(job).parse_args(ours)
    try:
        config = configuration_of(options)
        check_encoder(job, config, spark_options)
        check_learner(job, config, spark_options)
    except ConfigError as error:
        for problem in error.problems:
            print(f"{job}: {problem}", file=sys.stderr)
        return 2
    if missing := java_problem():
        print(f"{job}: {missing}", file=sys.stderr)
        return 3
    command = submit_command(job, config, options, spark_options)
    if job == "sql":
        command = command_at_terminal(command)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    sys.stdout.flush()
    os.execv(command[0], command)


def split_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """(ours, those after `--` for spark-submit)."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def parser_of(job: str) -> argparse.ArgumentParser:
    """What every job takes; options after `--` go to spark-submit as they are."""
    parser = argparse.ArgumentParser(
        prog=f"spark-submit.sh {job}",
        usage=f"./spark-submit.sh {job} --config FILE [--date DAY] [--set KEY=VALUE ...] [-- spark-submit options]",
        allow_abbrev=False,
    )
    add_options(parser)
    if job in _OWN_OPTIONS:
        _OWN_OPTIONS[job][0](parser)
    return parser


def configuration_of(options: argparse.Namespace) -> Config:
    """The configuration with everything the command line says."""
    config = load(options.config, overrides_of(options))
    # A cluster's driver runs in another folder: a path relative to this one means nothing there.
    names = ("logs", "train", "test", "labels", "exclude")
    given: dict[str, Any] = {
        name: absolute(path) for name in names if (path := getattr(config.input, name)) is not None
    }
    model = config.encoder.model
    return replace(
        config,
        run=replace(config.run, root=absolute(config.run.root)),
        input=replace(config.input, **given),
        encoder=replace(
            config.encoder, model=absolute(model) if Path(model).expanduser().exists() else model
        ),
    )


def check_encoder(job: str, config: Config, spark_options: list[str]) -> None:
    """That an encoder can be fine-tuned, where the driver will be this machine: better known before Spark starts."""
    elsewhere = any(
        value_of(spark_options, at) == "cluster" for at, o in enumerate(spark_options) if "deploy-mode" in o
    )
    if job not in ("refresh", "encode") or not config.encoder.enabled or elsewhere:
        return
    require_torch(f"method: {config.method}")
    if config.unidec.enabled:
        config.unidec.require_packages()
    if not is_uri(config.encoder.model):
        check_model_files(config.encoder)
    check_this_machine(config.encoder)


def check_learner(job: str, config: Config, spark_options: list[str]) -> None:
    """That MACH's learner can be trained, where all tasks will be on this machine."""
    if job not in ("refresh", "train") or not config.mach.enabled or not is_local(spark_options):
        return
    if problem := learner_problem(config.mach):
        raise ConfigError([problem])


def submit_command(
    job: str, config: Config, options: argparse.Namespace, spark_options: list[str]
) -> list[str]:
    """The spark-submit command line."""
    defaults = local_options(job) if is_local(spark_options) else []
    command = [str(spark_submit()), "--name", f"xmcspark {job}", *defaults, *spark_options]
    command += [str(ROOT / "jobs" / f"{job}.py"), "--resolved", config.to_json()]
    command += ["--outcome", absolute(options.outcome)] if options.outcome else []
    command += _OWN_OPTIONS[job][1](options) if job in _OWN_OPTIONS else []
    return command + (["--verbose"] if options.verbose else [])


def command_at_terminal(command: list[str]) -> list[str]:
    """The same job as a Python process that starts Spark by itself: spark-submit would keep the terminal from it, and
    send its errors where its answers go."""
    script = next(at for at, part in enumerate(command) if part.startswith(f"{ROOT / 'jobs'}{os.sep}"))
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*command[1:script], "pyspark-shell"])
    return [sys.executable, "-P", *command[script:]]


def is_local(spark_options: list[str]) -> bool:
    """Whether the job runs on this machine alone, as it does when no master is named."""
    if any(o.startswith("--properties-file") or "spark.master=" in o for o in spark_options):
        return False
    master = next(
        (value_of(spark_options, at) for at, o in enumerate(spark_options) if o.startswith("--master")), None
    )
    return master is None or master.startswith("local")


def value_of(options: list[str], at: int) -> str:
    """Of `--name value` or `--name=value`."""
    _, equals, value = options[at].partition("=")
    return value if equals else options[at + 1] if at + 1 < len(options) else ""


def local_options(job: str) -> list[str]:
    """Everything on this machine, and nothing that listens beyond it. What the user says comes later and wins."""
    for name, value in ({"SPARK_LOCAL_IP": "127.0.0.1"} | _MEMORY).items():
        os.environ.setdefault(name, value)
    logging = f"-Dlog4j2.configurationFile={(ROOT / 'conf' / 'log4j2.properties').as_uri()}"
    options = ["--master", "local[*]", "--properties-file", str(ROOT / "conf" / "spark-local.conf")]
    java = java_found()
    shared = archive_options(ROOT / "build", java, spark_submit(), job == "refresh") if java else ""
    return [*options, "--conf", f"spark.driver.extraJavaOptions={_JAVA} {logging} {shared}".rstrip()]


def spark_submit() -> Path:
    """That of SPARK_HOME (on a cluster), else the one of the pyspark package."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home) / "bin" / "spark-submit"
    import pyspark

    return Path(pyspark.__file__).parent / "bin" / "spark-submit"


def java_found() -> Path | None:
    """The one that Spark will start, as far as there is one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(java) if java and Path(java).exists() else None


def java_problem() -> str | None:
    """What is wrong with Java here; None if Spark will find one that is new enough."""
    home, java = os.environ.get("JAVA_HOME"), java_found()
    remedy = f"install Java {NEEDED_JAVA} (apt install openjdk-{NEEDED_JAVA}-jre-headless) or set JAVA_HOME"
    if java is None:
        return f"Spark needs Java and there is none{f' in JAVA_HOME={home}' if home else ''}: {remedy}"
    said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < NEEDED_JAVA:
        return f"{java} is {said.splitlines()[0] if said else 'unreadable'}: {remedy}"
    return None


if __name__ == "__main__":
    sys.exit(main())
