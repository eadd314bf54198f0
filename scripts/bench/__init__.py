"""The parts of the measuring scripts: what is run, by which arms, how it is reckoned and reported."""
