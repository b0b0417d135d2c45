"""Random programs of views, in-place writes and graph breaks through torch.compile, against eager torch:
`python -m tests.fuzz.torch_aliases --count N --seed S -j JOBS`."""
