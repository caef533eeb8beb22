"""Ranks on a Mac train on its CPU; on every other machine nothing is changed. `mps` is made up here."""

from __future__ import annotations

import distify_runtime as rt
import pytest
import torch
from distify_runtime import apple


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(apple, "_said", False)


def test_a_mac_has_no_accelerator_for_ranks(mac: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert rt.without_mps(torch.backends.mps.is_available()) is False
    assert rt.without_mps(torch.device("mps")) == torch.device("cpu")
    assert rt.without_mps("mps:0") == "cpu"
    said = "distify: DistributedDataParallel cannot train on Apple's GPU (`mps`): this runs on the CPU\n"
    assert capsys.readouterr() == ("", said)


def test_where_it_was_not_to_be_taken_anyhow_nothing_is_said(mac: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert rt.without_mps(False) is False
    assert rt.without_mps(None) is None
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("found", [True, False, None, torch.device("cuda"), torch.device("cpu")])
def test_other_machines_have_what_was_found(
    monkeypatch: pytest.MonkeyPatch, found: torch.device | bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert rt.without_mps(found) is found
    assert capsys.readouterr() == ("", "")


def test_where_a_script_calls_it_by_its_name_other_machines_have_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert rt.without_mps("mps:0") == rt.without_mps("mps") == rt.device().type
    assert rt.without_mps("cuda") == "cuda"
