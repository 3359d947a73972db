"""What the documentation names is there, and what is generated of it is up to date."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from docs.generate import OUT, pages

ROOT = Path(__file__).parents[2]
# Not the changelog, which tells of what is gone, too.
PROSE = sorted(
    [
        *ROOT.glob("[!C]*.md"),
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("*/README.md"),
        *ROOT.glob("roles/*/README.md"),
    ]
)
# What only a build or a run makes.
MADE = ("model_repo/cuda", "model_repo/rocm", "model_repo/cpu", "docs/benchmarks.md")


@pytest.mark.parametrize("name", ["fleet.md", "cli.md", "metrics.md", "roles.md"])
def test_a_reference_page_says_what_the_code_says(name: str) -> None:
    assert (OUT / name).read_text() == pages()[name], "make docs"


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if "://" not in link]
    assert [link for link in links if link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_the_project_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(
        r"`((?:ansible|bench|docs|images|model_repo|plugins|roles|router|tests)/[\w./-]+)`", page.read_text()
    )
    assert [name for name in named if not (ROOT / name).exists() and not name.startswith(MADE)] == []


def test_changelog_wheel_and_collection_have_one_version() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"].removesuffix(".dev0")
    collection = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"].removesuffix("-dev0")
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest
    assert (newest[1], wheel) == (collection, collection)
