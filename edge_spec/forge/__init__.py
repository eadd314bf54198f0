"""Make a faster draft out of a GGUF that is here: other weights, fewer tokens, fewer layers."""
