"""The command `triton-ads`. A sub-command is imported only when it is asked for."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

#: Name -> the line that `triton-ads --help` shows. The module is triton_ads.commands.NAME.
COMMANDS = {
    "build": "train, split, export and check a recipe; publish it as a model repository",
    "serve": "start Triton on a model repository, with a watchdog",
    "publish": "serve a new release on a running server, without losing a request",
    "rollback": "serve the release before it again",
    "demo": "all of it: build, start the server, rank ads for three users, stop",
    "rank": "rank candidates for a user on a running server",
    "target": "generate ads for a user or a query on a running server",
    "ads": "generate ads for a user or a query, and rank them, in one call",
    "trie": "look at an identifier tree: is its shape fast? block ads",
    "compress": "make a language model small: N:M sparsity and INT4, packed for the decoder",
    "inspect": "look at a recipe, a release, the split of a model",
    "loadtest": "put a running server under load: rated load, report, what it costs",
    "bench": "run a benchmark: a table, and JSON with its claims",
}


def _command(name: str) -> ModuleType:
    return importlib.import_module(f"triton_ads.commands.{name}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Arguments of a sub-command; `command` is its name. Exits as argparse does where they are wrong."""
    parser = argparse.ArgumentParser(
        prog="triton-ads", description="Rank and generate ads on Triton, from ordinary PyTorch models."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        sub = commands.add_parser(name, help=line, formatter_class=argparse.RawDescriptionHelpFormatter)
        if list(arguments[:1]) == [name]:
            module = _command(name)
            sub.description = module.__doc__
            module.configure(sub)
    return parser.parse_args(arguments)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command; its exit status is the command's, 1 after an error, 130 after Ctrl-C."""
    args = parse(sys.argv[1:] if argv is None else argv)
    try:
        return int(_command(args.command).run(args) or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has seen enough (`| head`); Python must not fail again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if not _is_for_the_user(error):
            raise
        print(f"triton-ads {args.command}: {error}", file=sys.stderr)
        return 1


def _is_for_the_user(error: Exception) -> bool:
    """Errors that the library defines say what is wrong with what it was given; so do those of the file system."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] == "triton_ads"


if __name__ == "__main__":
    sys.exit(main())
