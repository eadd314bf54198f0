"""One chat: what is said and decided in it, without a widget."""
