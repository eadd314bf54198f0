"""A saved trace, walked both ways without a model."""
