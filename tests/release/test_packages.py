"""`.ci/packages.py`: uv installs packages with the settings of pip."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / ".ci" / "packages.py"))


def test_settings_of_files_and_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nextra-index-url = file:///a\n  file:///b\ntimeout = 9\n[install]\nno-index = true\n[wheel]\npre = 1\n"
    )
    for name in ("PIP_FIND_LINKS", "PIP_DEFAULT_TIMEOUT", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_FIND_LINKS", "/c /d")
    monkeypatch.setenv("PIP_TIMEOUT", "20")
    settings = SCRIPT["configured"]()
    assert settings["extra-index-url"].split() == ["file:///a", "file:///b"]
    assert (settings["timeout"], settings["no-index"], settings["find-links"]) == ("20", "true", "/c /d")
    assert "pre" not in settings


def test_options_of_uv() -> None:
    settings = {"index-url": "file:///i", "extra-index-url": "file:///a\nfile:///b", "cert": "/c.pem", "no-index": "0"}
    options, environment = SCRIPT["uv"](settings | {"trusted-host": "h", "quiet": "1"})
    several = ["--extra-index-url", "file:///a", "--extra-index-url", "file:///b", "--allow-insecure-host", "h"]
    assert options == ["--index-strategy", "unsafe-best-match", "--default-index", "file:///i", *several]
    assert environment["SSL_CERT_FILE"] == "/c.pem"


def test_a_setting_without_a_counterpart_is_left_to_pip(capsys: pytest.CaptureFixture[str]) -> None:
    assert SCRIPT["uv"]({"keyring-provider": "import"}) is None
    assert "keyring-provider" in capsys.readouterr().out
