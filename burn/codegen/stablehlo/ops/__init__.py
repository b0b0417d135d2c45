"""The emitters, by family of ops."""
