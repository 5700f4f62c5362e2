"""Build the API reference into docs/_build."""

from __future__ import annotations

from pathlib import Path

import pdoc
import pdoc.render

import momentopic

# pdoc looks names up in the modules themselves: have the lazy ones put there first
for module in (momentopic, momentopic.corpus):
    for name in module.__all__:
        vars(module)[name] = getattr(module, name)

pdoc.render.configure(docformat="numpy", math=True)
pdoc.pdoc("momentopic", output_directory=Path(__file__).parent / "_build")
