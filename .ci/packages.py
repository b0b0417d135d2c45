"""`python packages.py REQUIREMENTS CONSTRAINTS` installs packages as pip does, by uv: a minute instead of three.

uv does not read pip's configuration, so its options are written from that. pip itself installs where uv cannot be had, where pip
is configured in a manner that has no counterpart below, and where uv fails.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
SEVERAL = {
    "constraint": "--constraint",
    "extra-index-url": "--extra-index-url",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
"""pip's settings of several values -> uv's options."""
VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
}
"""pip's settings -> uv's environment variables."""
IDLE = {
    "break-system-packages",
    "cache-dir",
    "compile",
    "disable-pip-version-check",
    "no-cache-dir",
    "no-color",
    "no-compile",
    "no-input",
    "progress-bar",
    "quiet",
    "require-virtualenv",
    "retries",
    "root-user-action",
    "user",
    "verbose",
}
"""pip's settings that do not matter here."""


def configured() -> dict[str, str]:
    """pip's settings for `install`. The environment goes before a file's section of the command, and that before `global`."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.partition(".")
        if section in found:
            found[section][key.replace("_", "-").removeprefix("default-")] = ast.literal_eval(value)
    return found["global"] | found["install"] | found[":env:"]


def uv(settings: dict[str, str]) -> tuple[list[str], dict[str, str]] | None:
    """uv's options and environment for pip's settings; None if a setting has no counterpart."""
    options, environment = ["--index-strategy", "unsafe-best-match"], {"UV_NO_PROGRESS": "1"}
    for key, value in settings.items():
        if key == "index-url":
            options += ["--default-index", value]
        elif key == "no-index":
            options += ["--no-index"] if value.lower() in ("1", "true", "yes", "on") else []
        elif key in SEVERAL:
            options += [word for part in value.split() for word in (SEVERAL[key], part)]
        elif key in VARIABLES:
            environment[VARIABLES[key]] = value
        elif key not in IDLE:
            print(f"pip installs the packages: uv has no counterpart of its setting {key}")
            return None
    return options, environment


def main(requirements: str, constraints: str) -> int:
    what = ["--constraint", constraints, "--requirement", requirements]
    if (given := uv(configured())) is not None:
        options, environment = given
        if subprocess.run([*PIP, "install", "--quiet", "--constraint", constraints, "uv"]).returncode == 0:
            command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
            if subprocess.run([*command, *options, *what], env={**os.environ, **environment}).returncode == 0:
                return 0
        print("pip installs the packages: uv failed")
    return subprocess.run([*PIP, "install", "--quiet", *what]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
