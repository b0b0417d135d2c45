"""Writing with a language model, token by token: what `burn.generate` is.

whole = burn.generate(model, prompt, 100, temperature=0.8, top_p=0.95, stop=2, seed=0)   # int64[b, tokens]
for tokens in generation.stream(model, prompt, 100): ...                                 # int64[b], as they come

`decoders.py` knows the models that can: modules with a cache, ONNX files that take and give keys and values, and whatever scores
whole texts. `sampling.py` chooses a token of scores, `writing.py` is the loop.
"""

from burn.generation.sampling import Sampling
from burn.generation.writing import Writer, generate, stream

__all__ = ["generate", "stream", "Writer", "Sampling"]
