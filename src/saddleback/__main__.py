"""``python -m saddleback`` is the command line."""

from saddleback.cli import main

main()
