"""Programs that run without Python: libraries with a C interface, executables, and files of one program."""
