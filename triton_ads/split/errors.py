"""What the compiler refuses."""

from torch import fx


class SplitError(ValueError):
    """A model that cannot be split; the message says why and names the line of the model."""


class FixedBatchError(SplitError):
    """A model that cannot be exported with a free batch axis."""


def source_line(node: fx.Node) -> str:
    """The line of the model that made `node`, as `file:line`, or an empty text where the export lost it."""
    trace = node.meta.get("stack_trace") or ""
    for line in reversed(trace.splitlines()):
        if line.strip().startswith("File ") and "/torch/" not in line:
            file, number = line.split('"')[1], line.split("line ")[1].split(",")[0]
            return f"{file}:{number}"
    return ""
