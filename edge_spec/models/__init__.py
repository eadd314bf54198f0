"""Models on disk: catalogue, store, downloads, header reader, pairing check, memory estimate."""
