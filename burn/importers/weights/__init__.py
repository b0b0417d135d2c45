"""Weight files of every kind, and how their tensors get into a module. Enter at `read`."""
