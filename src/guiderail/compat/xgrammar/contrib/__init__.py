"""``xgrammar.contrib``: processors for transformers (``hf``) and mlx-lm (``mlxlm``)."""
