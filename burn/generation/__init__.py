"""Text generation with language models, token by token: `burn.generate`.

whole = burn.generate(model, prompt, 100, temperature=0.8, top_p=0.95, stop=2, seed=0)   # int64[b, tokens]
for tokens in generation.stream(model, prompt, 100): ...                                 # int64[b], as they come

`decoders.py` supports modules with a cache, ONNX files with keys and values as inputs and outputs, and models that score
whole texts. `sampling.py` chooses a token from scores; `writing.py` has the loop.
"""

from burn.generation.sampling import Sampling
from burn.generation.writing import Writer, generate, stream

__all__ = ["generate", "stream", "Writer", "Sampling"]
