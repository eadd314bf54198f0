"""Conversations on disk: kept, listed, searched, exported."""
