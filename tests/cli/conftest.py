"""Commands as a user calls them."""

import pytest

from undrift.cli.app import run as undrift


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments):
        code = undrift([str(one) for one in arguments])
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    return called
