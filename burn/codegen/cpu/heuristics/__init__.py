"""Choices of the CPU code generator that affect speed but not results, a file for each kind of choice."""
