"""A packed run comes back whole or not at all; everything in a zip is checked."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import stat
import struct
import zipfile
from collections import namedtuple

import pytest

from jaxrl_hw.checkpointing.pack import pack
from jaxrl_hw.checkpointing.unpack import unpack
from jaxrl_hw.errors import UserError
from jaxrl_hw.runs import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Stand where nothing is yet but what a test makes."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def packed(run, tmp_path):
    return pack(run, tmp_path / "walker.zip").path


def one_line(capsys):
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def below(folder):
    """Every file's bytes, and of config.json what does not belong to a machine."""
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in files_in(folder)}
    for name in [name for name in found if name.endswith("config.json")]:
        record = json.loads(found[name])
        record["config"].update(run_dir="", mirror="")
        found[name] = record
    return found


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def remade(path, change):
    """The zip with `change(members, manifest)` done to its bytes by name; returns a new zip."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    infos = change(members, manifest) or []
    out = path.with_name("remade.zip")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        for info, data in infos:
            archive.writestr(info, data)
        if manifest is not None and "nothing" not in manifest:
            archive.writestr("manifest.json", json.dumps(manifest))
    return out


def describe(data):
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_what_was_packed_comes_back_to_the_byte(run, packed, tmp_path, capsys):
    assert main(["unpack", str(packed)]) == 0
    said = capsys.readouterr().out
    folder = tmp_path / "here/runs/walker"
    assert below(folder) == below(run)
    assert "python -m jaxrl_hw.train --run-dir runs/walker\n" in said
    assert [path.name for path in folder.parent.iterdir()] == ["walker"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~umask
    # and once more, from there
    again = unpack(pack(folder, tmp_path / "again.zip").path, tmp_path / "again")
    assert below(again.folder) == below(run)


def test_the_folder_can_be_named_and_may_be_there_empty(packed, tmp_path, capsys):
    for name in ("new/and/deep", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert main(["unpack", str(packed), "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name / "config.json").is_file()


def test_a_folder_in_use_is_not_touched(packed, tmp_path, capsys):
    assert main(["unpack", str(packed)]) == 0
    before = below(tmp_path)
    capsys.readouterr()
    assert main(["unpack", str(packed)]) == 2
    assert "runs/walker" in one_line(capsys)
    assert main(["unpack", str(packed), "--out", "runs/walker/config.json"]) == 2
    assert "config.json" in one_line(capsys)
    assert main(["unpack", str(packed), "--out", "runs/walker/config.json/x"]) == 2
    assert "config.json" in one_line(capsys)
    assert below(tmp_path) == before


def test_a_zip_with_folders_of_its_own_is_as_good(packed, tmp_path):
    def change(members, manifest):
        return [(zipfile.ZipInfo("checkpoints/"), b""), (zipfile.ZipInfo("policy/"), b"")]

    assert unpack(remade(packed, change), tmp_path / "out").manifest.iteration == 20


def link(name, target):
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target


def added(name, data=b"x", listed=True):
    def change(members, manifest):
        members[name] = data
        if listed:
            manifest["files"][name] = describe(data)

    return change


def without(name, listed):
    def change(members, manifest):
        del members[name]
        if not listed:
            del manifest["files"][name]

    return change


def stating(**values):
    return lambda members, manifest: manifest.update(values)


def swapped(members, manifest):
    name = "checkpoints/20/state/d/arrays"
    members[name] = bytes([members[name][0] ^ 1]) + members[name][1:]


def cut(members, manifest):
    members["metrics.jsonl"] = members["metrics.jsonl"][:-1]


def wrong_sum(members, manifest):
    manifest["files"]["plan.json"]["sha256"] = "0" * 64


def no_sum(members, manifest):
    del manifest["files"]["plan.json"]["sha256"]


def negative(members, manifest):
    manifest["files"]["plan.json"]["size"] = -1


def broken_config(members, manifest):
    members["config.json"] = b"{"
    manifest["files"]["config.json"] = describe(b"{")


def no_state(members, manifest):
    for number in (10, 20):
        name = f"checkpoints/{number}/state/d/arrays"
        del members[name], manifest["files"][name]


def file_and_folder(members, manifest):
    added("policy/a")(members, manifest)
    added("policy/a/b")(members, manifest)


REFUSED = {
    "no manifest": (stating(nothing=True), "manifest.json"),
    "parent": (added("../evil"), "'../evil'"),
    "parent inside": (added("policy/../../evil"), "'policy/../../evil'"),
    "absolute": (added("/tmp/evil"), "'/tmp/evil'"),
    "drive": (added("C:evil"), "'C:evil'"),
    "drive and slash": (added("c:/evil"), "'c:/evil'"),
    "backslash": (added("policy\\..\\..\\evil"), "evil'"),
    "network": (added("\\\\host\\evil"), "evil'"),
    "dot": (added("policy/./evil"), "'policy/./evil'"),
    "empty part": (added("policy//evil"), "'policy//evil'"),
    "line break": (added("policy/a\nb"), r"'policy/a\nb'"),
    "link": (lambda m, f: [link("policy/x", "/etc/passwd")], "'policy/x'"),
    "link to a folder": (lambda m, f: [link("policy/x/", "/")], "'policy/x/'"),
    "more": (added("policy/x", listed=False), "'policy/x'"),
    "fewer": (without("plan.json", listed=True), "'plan.json'"),
    "twice": (lambda m, f: [(zipfile.ZipInfo("plan.json"), b"{}")], "'plan.json'"),
    "no config": (without("config.json", listed=False), "manifest.json"),
    "endless name": (added("policy/" + "x/" * 600 + "x"), "'policy/x/"),
    "lock": (added("session.open"), "'session.open'"),
    "foreign": (added("evil.sh"), "'evil.sh'"),
    "lies in a file": (file_and_folder, "'policy/a/b'"),
    "swapped byte": (swapped, "checkpoints/20/state/d/arrays"),
    "cut file": (cut, "metrics.jsonl"),
    "wrong sum": (wrong_sum, "plan.json"),
    "no sum": (no_sum, "'plan.json'"),
    "negative size": (negative, "'plan.json'"),
    "format": (stating(format=2), "format 2"),
    "files": (stating(files=[]), "manifest.json"),
    "iteration": (stating(iteration="x"), "manifest.json"),
    "name": (stating(name="../evil"), "'../evil'"),
    "hidden name": (stating(name=".ssh"), "'.ssh'"),
    "config": (broken_config, "config.json"),
    "no checkpoint": (no_state, "remade.zip"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=list(REFUSED))
def test_a_zip_that_is_not_what_was_packed_is_refused_and_leaves_nothing(
    change, said, packed, tmp_path, capsys
):
    path = remade(packed, change)
    before = sorted(tmp_path.rglob("*"))
    assert main(["unpack", str(path)]) == 2
    assert said in one_line(capsys)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_manifest_that_is_not_json_is_refused(packed, capsys):
    def change(members, manifest):
        members["manifest.json"] = b"[" * 100_000
        manifest["nothing"] = True

    assert main(["unpack", str(remade(packed, change))]) == 2
    assert "manifest.json" in one_line(capsys)


def test_what_swells_beyond_reason_is_refused(packed, tmp_path):
    bomb = remade(packed, added("policy/zeros", bytes(5_000_000)))
    unpack(bomb, tmp_path / "small")  # below the bound that any zip may reach
    with pytest.raises(UserError, match="5 MB"):
        unpack(bomb, tmp_path / "out", unchecked_bytes=1_000_000)
    assert not (tmp_path / "out").exists()


def test_a_member_larger_than_it_says_is_not_written_on(packed, tmp_path, capsys):
    zeros, said = bytes(5_000_000), 10
    path = remade(packed, added("policy/zeros", zeros))

    def change(members, manifest):
        members["policy/zeros"] = zeros
        manifest["files"]["policy/zeros"] = describe(zeros[:said])

    path = remade(packed, change)
    data = path.read_bytes()
    lying = data.replace(struct.pack("<L", len(zeros)), struct.pack("<L", said))
    assert lying != data
    path.write_bytes(lying)
    assert main(["unpack", str(path), "--out", "out"]) == 2
    assert "policy/zeros" in one_line(capsys)
    assert not (tmp_path / "here/out").exists()


def test_too_little_room_is_told_before_anything_is_written(packed, tmp_path, monkeypatch, capsys):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 10_000))
    assert main(["unpack", str(packed)]) == 2
    said = one_line(capsys)
    assert "runs/walker" in said
    assert "10 kB" in said
    assert list((tmp_path / "here").iterdir()) == []


def test_a_disk_that_fills_up_leaves_nothing(packed, tmp_path, monkeypatch, capsys):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main(["unpack", str(packed)]) == 1
    assert "walker.zip" in one_line(capsys)
    assert list((tmp_path / "here").iterdir()) == []


def test_an_interrupt_leaves_nothing(packed, tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    assert main(["unpack", str(packed)]) == 1
    assert list((tmp_path / "here").iterdir()) == []


def test_an_encrypted_zip_is_refused(packed, capsys):
    data = bytearray(packed.read_bytes())
    place = data.index(b"PK\x01\x02")  # the first entry of the directory at the end
    data[place + 8] |= 1
    packed.write_bytes(data)
    assert main(["unpack", str(packed)]) == 2
    assert "config.json" in one_line(capsys)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method, packed, capsys):
    info = zipfile.ZipInfo("policy/x")
    info.compress_type = method
    assert main(["unpack", str(remade(packed, lambda m, f: [(info, b"x")]))]) == 2
    assert "'policy/x'" in one_line(capsys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["unpack"], "ZIP"),
        (["unpack", "nothing.zip"], "nothing.zip"),
        (["unpack", "."], "."),
        (["unpack", "notes.zip"], "notes.zip (5 B)"),
        (["unpack", "half.zip"], "half.zip"),
        (["unpack", "empty.zip"], "manifest.json"),
        (["unpack", "whole.zip", "--out", "."], "."),
        (["unpack", "whole.zip", "--force"], "--force"),
        (["unpak", "whole.zip"], "unpack"),
    ],
)
def test_what_cannot_be_unpacked_is_refused_in_one_line(words, said, packed, tmp_path, capsys):
    here = tmp_path / "here"
    (here / "notes.zip").write_text("notes")
    data = packed.read_bytes()
    (here / "whole.zip").write_bytes(data)
    (here / "half.zip").write_bytes(data[: len(data) // 2])
    zipfile.ZipFile(here / "empty.zip", "w").close()
    before = sorted(here.iterdir())
    assert main(words) == 2
    assert said in one_line(capsys)
    assert sorted(here.iterdir()) == before


def test_the_folder_one_stands_in_is_not_replaced(packed, tmp_path, capsys):
    assert main(["unpack", str(packed), "--out", "."]) == 2
    assert "--out ." in one_line(capsys)


@pytest.mark.slow
def test_a_zip_with_a_changed_byte_is_refused_or_harmless(run, packed, tmp_path, capsys):
    dice, data = random.Random(0), packed.read_bytes()
    refused = 0
    for i in range(60):
        bad = bytearray(data)
        # half of them in the directory at the end, where names and sizes are
        place = dice.randrange(len(bad) if i % 2 else 2000)
        bad[-1 - place] = dice.randrange(256)
        path, out = tmp_path / "bad.zip", tmp_path / f"out/{i}"
        path.write_bytes(bad)
        code = main(["unpack", str(path), "--out", str(out)])
        said = capsys.readouterr()
        if code == 0:
            assert below(out) == below(run)
            shutil.rmtree(out.parent)
        else:
            refused += 1
            assert (code, said.err.count("\n")) == (2, 1), said.err
            assert not out.parent.exists()
    assert refused > 20
