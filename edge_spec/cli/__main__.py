"""`python -m edge_spec.cli`."""

from edge_spec.cli import main

if __name__ == "__main__":
    main()
