"""What the screens for choosing and fetching models know."""
