"""Random programs that are watched: `burn.debug` at every line shows what the program returns. Enter at `case.py`."""
