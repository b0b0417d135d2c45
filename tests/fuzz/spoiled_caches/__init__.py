"""Spoiled caches of compiled programs: each entry is used or refused, and each command of `burn cache` ends without a traceback.

`sources.py` holds entries of every kind, `mutate.py` spoils their headers, `case.py` reads them. From the shell:
`python -m tests.fuzz.spoiled_caches --count 100000`.
"""
