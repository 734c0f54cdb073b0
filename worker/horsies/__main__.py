"""`python -m horsies` is the `horsies` command."""

from horsies.cli.main import main

main()
