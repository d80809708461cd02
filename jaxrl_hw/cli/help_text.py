"""Text of a --help, fitted to the terminal."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap


def terminal_width() -> int:
    """In characters; 100 at most."""
    return min(shutil.get_terminal_size().columns, 100)


def fitted(text: str, width: int | None = None) -> str:
    """The text with no line longer than `width`; None: the terminal's, 100 at most.

    Paragraphs are filled anew. A line that is indented, or has columns, stays a line of its own.
    What is left of it goes below its last column.
    """
    width = terminal_width() if width is None else width
    found: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        paragraph: list[str] = []
        for line in block.splitlines():
            if columns := re.match(r"\s+(?:.*?\S\s{2,}(?=\S))?|\S.*?\s{2,}(?=\S)", line):
                found += _filled(paragraph, width)
                paragraph = []
                below = " " * min(columns.end(), width // 2)
                found += textwrap.wrap(line, width, subsequent_indent=below) or [""]
            else:
                paragraph.append(line)
        found += [*_filled(paragraph, width), ""]
    return "\n".join(found[:-1])


def _filled(lines: list[str], width: int) -> list[str]:
    return textwrap.wrap(" ".join(lines), width, break_on_hyphens=False)


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """argparse's, with descriptions fitted to the terminal."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return textwrap.indent(fitted(text, width - len(indent)), indent)
