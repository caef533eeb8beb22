"""Copies of a project for `verify`: what is there by a link is there in the copy, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from distify.verification.copies import _bring


@pytest.mark.parametrize(("link", "leads_to"), [("package", "."), ("inner/up", ".."), ("inner/package", "../code")])
def test_files_that_are_reached_by_a_link(tmp_path: Path, link: str, leads_to: str) -> None:
    project, target = tmp_path / "project", tmp_path / "copy"
    for folder in ("inner", "code"):
        (project / folder).mkdir(parents=True)
        (project / folder / "net.py").write_text("")
    (project / "notes.txt").write_text("notes")
    (project / link).symlink_to(leads_to)
    (target / link).mkdir(parents=True)
    (target / link / "net.py").write_text("reached")

    _bring(str(project), target, {str(project / link / "net.py")}, str(project))

    assert (target / link / "net.py").read_text() == "reached"
    assert (target / "notes.txt").read_text() == "notes"
    assert not (target / link).is_symlink()


def test_links_that_nothing_is_reached_by_stay_links(tmp_path: Path) -> None:
    project, target = tmp_path / "project", tmp_path / "copy"
    project.mkdir()
    (project / "package").symlink_to(".")
    _bring(str(project), target, set(), str(project))
    assert (target / "package").resolve() == project


def test_folders_of_data_are_brought_whole(tmp_path: Path) -> None:
    project, target = tmp_path / "project", tmp_path / "copy"
    whole = {"x.zarr/.zgroup", "x.zarr/0/.zarray", "saved/.metadata"}
    for name in (*whole, ".env", "x.zarr/.git/HEAD", "code/net.py", "code/.hidden", ".store/x.bin"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    _bring(str(project), target, set(), str(project))
    brought = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert brought == {*whole, "code/net.py"}
