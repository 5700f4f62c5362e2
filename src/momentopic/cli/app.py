"""The command as a whole: its subcommands, its errors and its exit codes."""

from __future__ import annotations

import signal
import sys
import warnings
from typing import Annotated, Any

import typer

from momentopic.cli import compare, demo, documents, fit, pack, path, pool, report, simulate, spectrum, topics

_EPILOG = (
    "Begin with: momentopic fit texts.csv -k 20 -o model --report topics.html. "
    "Exit codes: 0 done, 2 wrong input or usage (one line on standard error says what), 130 interrupted."
)

_INTERRUPTED = 130

app = typer.Typer(
    help="Topics of a corpus by the method of moments: the same topics on every run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=_EPILOG,
)
for function, examples in (
    (fit.fit, fit.EXAMPLES),
    (topics.topics, topics.EXAMPLES),
    (report.report, report.EXAMPLES),
    (compare.compare, compare.EXAMPLES),
    (spectrum.spectrum, spectrum.EXAMPLES),
    (path.path, path.EXAMPLES),
    (documents.transform, documents.TRANSFORM_EXAMPLES),
    (documents.evaluate, documents.EVALUATE_EXAMPLES),
    (pack.pack, pack.PACK_EXAMPLES),
    (pack.check, pack.CHECK_EXAMPLES),
    (simulate.simulate, simulate.EXAMPLES),
    (pool.moments, pool.MOMENTS_EXAMPLES),
    (pool.pool, pool.POOL_EXAMPLES),
    (demo.demo, demo.EXAMPLES),
):
    shown = "Examples:\n\n" + "\n\n".join(f"  $ {example}" for example in examples)
    app.command(epilog=shown)(function)


def _print_version(wanted: bool) -> None:
    if wanted:
        from momentopic import __version__

        typer.echo(f"momentopic {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Handle what comes before a subcommand."""


def main() -> None:
    """Run the command; errors are one line on standard error, not a traceback."""
    from momentopic.exceptions import MissingPackageError

    warnings.showwarning = _show_warning
    try:
        code = app(standalone_mode=False)
    except (ValueError, OSError, MissingPackageError) as error:
        _fail(str(error), 2)
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except Exception as error:
        if not hasattr(
            error, "format_message"
        ):  # what is wrong with the arguments; anything else is a bug, and is shown
            raise
        context = getattr(error, "ctx", None)
        name = "momentopic" if context is None else context.command_path.replace("python -m ", "")
        message = error.format_message().rstrip(".")
        if message:  # without any arguments the help has been shown
            _fail(f"{message}. See: {name} --help", 2)
        code = 2
    if code == _INTERRUPTED:  # typer may have caught it
        # threads end what they are at before the process does: who asks again meanwhile sees no traceback
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _fail("interrupted", _INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"momentopic: {' '.join(message.splitlines())}\n")
    sys.exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    sys.stderr.write(f"momentopic: warning: {message}\n")
