"""The gallery's page is the one that its program writes, and every picture can be drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuens import gallery, plotting

DOCS = Path(__file__).parents[2] / "docs"
LARGEST = 60_000
"""Bytes of a picture."""


def test_page_is_up_to_date():
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == gallery.page()


def test_every_display_has_a_picture():
    page = gallery.page()
    displays = {name for name in plotting.__all__ if name.endswith("Display")}
    assert {name for name in displays if f"{name}.from_" in page} == displays


@pytest.mark.parametrize("picture", gallery.PICTURES, ids=lambda p: p[0].__name__)
def test_pictures_are_there_and_small(picture):
    data = (DOCS / "images" / f"gallery_{picture[0].__name__}.png").read_bytes()
    assert data.startswith(b"\x89PNG") and len(data) < LARGEST


@pytest.mark.slow
def test_the_program_writes_all(tmp_path):
    pytest.importorskip("matplotlib")
    assert gallery.main(["--output", str(tmp_path)]) == 0
    assert (tmp_path / "gallery.md").read_text(encoding="utf-8") == gallery.page()
    written = {path.name for path in (tmp_path / "images").iterdir()}
    assert written == {f"gallery_{draw.__name__}.png" for draw, *_ in gallery.PICTURES}
