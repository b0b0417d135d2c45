"""Runs what was compiled: artefacts on disk, executables in memory, the native runtime beneath them.

Enter at `Executable`. Nothing here knows how an artefact was made.
"""
