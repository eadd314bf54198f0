"""The terminal interface: a Textual app over edge-spec's public API."""
