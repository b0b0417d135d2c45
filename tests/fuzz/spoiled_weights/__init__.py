"""Spoiled weight files: whatever the bytes, a file is read or refused with a BurnError, and nothing in it is run.

`sources.py` holds small files of every format, `mutate.py` spoils them by bytes and by structure, `case.py` reads one. From the
shell: `python -m tests.fuzz.spoiled_weights --count 100000 -j 16`.
"""
