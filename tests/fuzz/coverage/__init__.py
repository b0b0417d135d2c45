"""Readers of files under a fuzzer that follows their branches (Atheris, libFuzzer): whatever the bytes, an answer or a BurnError.

`targets.py` has a function of bytes for each reader, and the files that it begins with. From the shell, for a minute:
`python -m tests.fuzz.coverage pickle --seconds 60`. A failing input is written to a file, which `--file FILE` reads again.
"""
