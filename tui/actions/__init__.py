"""What the commands of a chat do, one group of the table a file."""
