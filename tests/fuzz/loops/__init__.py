"""Random loops over tensors of every element type, which exchange, keep and capture what they carry. Enter at `case.case`."""
