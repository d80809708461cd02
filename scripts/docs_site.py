"""MkDocs hook: pages made from the package and from files outside docs/, and links to these files.

The repository's pages link to each other as GitHub shows them. On the site README.md is index.md,
and a link to any other file outside docs/ leads to a copy of it under files/.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import jaxrl_hw
from jaxrl_hw.cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
PAGES |= {"CHANGELOG.md": "changelog.md"}
"""Pages outside docs/, and their names on the site."""
SUBCOMMANDS = {"runs": ("list", "show", "pack", "unpack")}
COLUMNS = "80"
"""Width of the terminal that --help is printed for."""
TITLES = {
    "training": "Training",
    "config": "Settings",
    "algos": "Algorithms and their settings",
    "planning": "Plans",
    "envs": "Robots, tasks and physics",
    "policies": "Policies",
    "evaluation": "Evaluation",
    "types": "Values that flow",
    "errors": "Errors",
}
"""Sections of the API page by the part of the package that holds the names."""
LINK = re.compile(r"\]\(([^)\s#]+)")
NEEDS = re.compile(r"<!-- (?:(\w+) )?needs: (.+) -->\n")
"""What the code below needs to run; `tests/test_docs_code.py` reads it too."""
NAMED = re.compile(r"\[([\w-]+)\.md\]\(")
LOADED = re.compile(
    r"""<(?:script|link|img|iframe|source|video|audio)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:url\(|@import\s+)["']?((?:https?:)?//[^"')\s]+)"""
)
"""What a browser fetches on its own from another host, in HTML and in CSS."""


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, and copies of what pages link to outside docs/."""
    made = {"help.md": help_page(), "api.md": api_page()}
    made |= {page: (ROOT / name).read_text() for name, page in PAGES.items()}
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    linked = {uri: target for page in files.documentation_pages() for uri, target in _files(page)}
    for uri, target in sorted(linked.items()):
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Links as the site needs them; what code needs to run, in sight."""
    source = _source(page.file)

    def moved(match: re.Match[str]) -> str:
        target = _target(source, match[1])
        return match[0] if target is None else f"]({_uri(target)}"

    def told(match: re.Match[str]) -> str:
        subject = f"{match[1]} needs" if match[1] else "Needs"
        return f"*{subject} {match[2]}:*\n\n"

    return NAMED.sub(r"[\1](", LINK.sub(moved, NEEDS.sub(told, markdown)))


def on_post_build(config: Any) -> None:
    """Raises PluginError where a page would load anything from a network."""
    site = Path(config.site_dir)
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        if found := from_network(path.read_text()):
            raise PluginError(f"{path.relative_to(site)} loads {', '.join(sorted(found))}")


def from_network(text: str) -> set[str]:
    """The addresses on other hosts that a page or a style sheet loads."""
    return {html or css for html, css in LOADED.findall(text)}


def help_page() -> str:
    """The --help of every command, as the command prints it."""
    parts = ["# Flags of every command"]
    for name in COMMANDS:
        parts.append(f"## {name}")
        for words in [(name,), *((name, sub) for sub in SUBCOMMANDS.get(name, ()))]:
            title = [] if len(words) == 1 else [f"### {' '.join(words)}"]
            parts += [*title, f"```text\n{shown_help(*words)}\n```"]
    return "\n\n".join(parts) + "\n"


def shown_help(*words: str) -> str:
    """What a command prints for --help."""
    shown = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    try:
        with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
            main([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return shown.getvalue().strip()


def api_page() -> str:
    """Every public name, from its docstrings."""
    parts = ["# API", "Every name on this page can be imported from `jaxrl_hw`."]
    for room, title in TITLES.items():
        names = [n for n, home in jaxrl_hw._HOMES.items() if home.split(".")[0] == room]
        parts.append(f"## {title}")
        parts += [f"::: jaxrl_hw.{jaxrl_hw._HOMES[name]}.{name}" for name in names]
    return "\n\n".join(parts) + "\n"


def _files(page: File) -> Iterator[tuple[str, str]]:
    """(address on the site, path in the repository) of each file outside docs/ that a page links
    to."""
    source = _source(page)
    for path in LINK.findall(page.content_string):
        target = _target(source, path)
        if target is not None and (uri := _uri(target)).startswith("files/"):
            yield uri, target


def _source(page: File) -> str:
    """The path in the repository of a page of the site."""
    outside = {uri: name for name, uri in PAGES.items()}
    return outside.get(page.src_uri, f"docs/{page.src_uri}")


def _target(source: str, link: str) -> str | None:
    """The file of the repository that a page links to; None for an address."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return path if (ROOT / path).is_file() and not path.startswith("..") else None


def _uri(target: str) -> str:
    """Where the site has a file of the repository; all pages lie at its top."""
    if target in PAGES:
        return PAGES[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else f"files/{target}"
