"""What the hook of the documentation's site makes; `make docs` builds all of it, strictly."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

import jaxrl_hw
from jaxrl_hw.cli.main import COMMANDS

pytest.importorskip("mkdocs")
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(site, uri: str, markdown: str) -> str:
    return site.on_page_markdown(
        markdown, SimpleNamespace(file=SimpleNamespace(src_uri=uri)), {}, None
    )


@pytest.mark.parametrize(
    ("page", "link", "on_the_site"),
    [
        ("cli.md", "memory.md#limits", "memory.md#limits"),
        ("architecture.md", "../CONTRIBUTING.md", "contributing.md"),
        ("library.md", "../examples/own_robot.py", "files/examples/own_robot.py"),
        ("index.md", "docs/memory.md", "memory.md"),
        ("index.md", "docs/images/g1.gif", "images/g1.gif"),
        ("index.md", "LICENSE", "files/LICENSE"),
        ("cli.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("cli.md", "../../elsewhere", "../../elsewhere"),
    ],
)
def test_links_lead_to_what_the_repository_s_pages_mean(site, page, link, on_the_site):
    assert shown(site, page, f"[that]({link})") == f"[that]({on_the_site})"


@pytest.mark.parametrize(
    ("mark", "words"),
    [("needs: a GPU", "Needs a GPU"), ("pip needs: a network", "pip needs a network")],
)
def test_what_code_needs_is_in_sight(site, mark, words):
    page = shown(site, "gpu.md", f"Text.\n\n<!-- {mark} -->\n    command\n")
    assert page == f"Text.\n\n*{words}:*\n\n    command\n"


def test_the_help_page_has_what_the_commands_print(site):
    text = site.help_page()
    for name in COMMANDS:
        assert f"\n## {name}\n" in text
    assert "--save-every" in text
    assert "### runs unpack" in text
    assert max(map(len, text.splitlines())) <= int(site.COLUMNS)


def test_the_api_page_has_every_public_name(site):
    listed = {line.rsplit(".", 1)[1] for line in site.api_page().splitlines() if "::: " in line}
    assert listed == set(jaxrl_hw.__all__) - {"__version__"}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', 1),
        ('<link rel="stylesheet" href=//fonts.example.org/css>', 1),
        ("@import url(https://fonts.example.org/css);", 1),
        ('<a href="https://example.org">a page</a> <img src="images/g1.gif">', 0),
        ("<link rel=stylesheet href=assets/a.css>", 0),
    ],
)
def test_what_a_page_would_load_from_a_network_is_found(site, text, count):
    assert len(site.from_network(text)) == count
