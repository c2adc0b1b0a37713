"""A real Spark cluster on loopback: a standalone master and two workers on two addresses, each a process of its own,
and jobs submitted to it as a user would."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pyspark

ROOT = Path(__file__).resolve().parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Standalone:
    """Started by `start`, stopped by `stop`; work directories below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.ui_port = _free_port(), _free_port()
        self.master = f"spark://127.0.0.1:{self.port}"
        self._processes: list[subprocess.Popen] = []

    def start(self) -> None:
        ui = ["--webui-port", str(self.ui_port)]
        self._spawn("127.0.0.1", "master.Master", "--port", str(self.port), *ui)
        for number in (1, 2):
            work = self.folder / f"work-{number}"
            options = ["--cores", "1", "--memory", "2g", "--work-dir", str(work), "--webui-port", "0"]
            self._spawn(f"127.0.0.{number}", "worker.Worker", *options, self.master)
        deadline = time.monotonic() + 120
        while len(self.state().get("workers", [])) < 2:
            if time.monotonic() > deadline:
                raise TimeoutError("the workers did not register: " + self._log_tail())
            time.sleep(0.3)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def state(self) -> dict[str, Any]:
        """What the master says of its workers and applications."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ui_port}/json/", timeout=5) as answer:
                return json.load(answer)
        except OSError:
            return {}

    def submit(self, job: str, *arguments: str, **conf: str) -> subprocess.Popen:
        """A job on this cluster: `submit("refresh", "--config", file, **{"spark.x": "y"})`."""
        return submit(job, self.master, arguments, conf)

    def _spawn(self, host: str, daemon: str, *arguments: str) -> None:
        command = [
            SPARK_HOME / "bin" / "spark-class",
            f"org.apache.spark.deploy.{daemon}",
            "--host",
            host,
            *arguments,
        ]
        environment = {
            **bare_environment(self.folder),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_JAVA_OPTS": _JAVA,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with open(self.folder / f"{daemon}-{host}.log", "ab") as log:  # the daemon keeps it open
            self._processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    def _log_tail(self) -> str:
        return "\n".join(log.read_text()[-1500:] for log in sorted(self.folder.glob("*.log")))


def small_options(conf: dict[str, str]) -> list[str]:
    """Options of spark-submit for machines as small as these, with more settings."""
    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "768m",
        "spark.executor.cores": "1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.extraJavaOptions": _JAVA,
        "spark.executor.extraJavaOptions": _JAVA,
        **conf,
    }
    return [item for key, value in settings.items() for item in ("--conf", f"{key}={value}")]


def bare_environment(home: Path) -> dict[str, str]:
    """What a machine of a cluster has: Java, Spark and the system's programs, nothing of this environment."""
    java = os.environ.get("JAVA_HOME") or str(
        Path(shutil.which("java") or "/usr/bin/java").resolve().parents[1]
    )
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(home), "JAVA_HOME": java, "SPARK_HOME": str(SPARK_HOME)}
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if shutil.which(version, path=bare["PATH"]) is None:
        bare["XMCSPARK_BASE_PYTHON"] = str(Path(sys.base_prefix) / "bin" / version)
    return bare


def submit(job: str, master: str, arguments: tuple[str, ...], conf: dict[str, str]) -> subprocess.Popen:
    """A job on any master, its output kept. The process leads a group, so that all of it can be killed."""
    command = [
        sys.executable,
        "-m",
        "jobs.submit",
        job,
        *arguments,
        "--",
        "--master",
        master,
        *small_options(conf),
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen, timeout: float = 400) -> str:
    """Waits for a job; its output, which is shown if the job failed or did not end."""
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(f"not finished after {timeout:.0f} s:\n{output[-6000:]}") from None
    assert process.returncode == 0, output[-6000:]
    return output


def kill(process: subprocess.Popen) -> None:
    """Ends a job and all it started at once, as a lost machine would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def executor_pids(cluster: Standalone) -> list[int]:
    """Processes of the executors that run on the cluster's workers now."""
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "CoarseGrainedExecutorBackend" in command and str(cluster.folder) in os.readlink(entry / "cwd"):
            pids.append(int(entry.name))
    return sorted(pids)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
