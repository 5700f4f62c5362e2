"""Lets ``python -m momentopic`` stand for the `momentopic` command."""

from momentopic.cli import main

main()
