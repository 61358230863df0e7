"""One Spark session for the folder; without Java or pyspark everything here is skipped, with the reason."""

import importlib
import os
import shutil
import threading
from pathlib import Path

import pytest


def missing():
    """What keeps Spark from running here."""
    for name in ("pyspark", "google.protobuf", "pyarrow"):
        try:
            importlib.import_module(name)
        except ImportError:
            return f"no {name} here; `make test-all` installs what these tests need"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "no Java here; Spark needs 17 or newer (apt install openjdk-17-jre-headless)"
    return None


def pytest_collection_modifyitems(items):
    why = missing()
    if why is not None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def spark():
    """Two cores, two partitions, RocksDB."""
    from tests.spark.job import session

    made = session()
    yield made
    stop = threading.Thread(target=made.stop, daemon=True)  # a Java that hangs ends with this process
    stop.start()
    stop.join(30.0)
