"""One zip of what is worth taking along, written whole, also from a run that is in training."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
import zipfile

import numpy as np
import pytest

from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.description import seal
from jaxrl_hw.checkpointing.pack import pack
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.checkpointing.unpack import unpack
from jaxrl_hw.runs import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def one_line(capsys):
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def contents(path):
    """The files of a zip, but for the manifest, and the manifest."""
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return found, json.loads(found.pop("manifest.json"))


def test_the_zip_holds_what_is_worth_taking_along_and_a_manifest_of_it(run, tmp_path, capsys):
    shutil.copytree(run / "checkpoints/10", run / "checkpoints/15")  # neither newest nor best
    meta = run / "checkpoints/15/meta/metadata"
    meta.write_text(meta.read_text().replace("3.5", "1.0"))
    for name in ("policy/policy.npz", "videos/20.mp4", "tensorboard/events"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("{}")
    (run / "report.html").write_text("<p>")
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert main(["pack", "runs/walker"]) == 0
    said = capsys.readouterr().out
    files, manifest = contents(tmp_path / "walker.zip")
    names = {
        *("config.json", "plan.json", "sessions.jsonl", "metrics.jsonl", "report.html"),
        *(
            f"checkpoints/{n}/{part}"
            for n in (10, 20)
            for part in ("meta/metadata", "state/d/arrays")
        ),
        "policy/policy.npz",
    }
    assert set(files) == names
    assert (manifest["format"], manifest["name"]) == (1, "walker")
    assert (manifest["iteration"], manifest["best"]) == (20, 10)
    assert manifest["files"] == {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    }
    for name in names - {"config.json"}:
        assert files[name] == (run / name).read_bytes()
    # but for the places of this machine
    there, here = (json.loads(x) for x in (files["config.json"], (run / "config.json").read_text()))
    assert there["config"].pop("run_dir") == "" != here["config"].pop("run_dir")
    assert there["config"].pop("mirror") == "" != here["config"].pop("mirror")
    assert there == here
    size = round((tmp_path / "walker.zip").stat().st_size / 1000)
    for part in (f"{len(names)} files", f"{size} kB", "20", "10", "walker.zip"):
        assert part in said
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_where_the_newest_is_the_best_it_is_there_once(new_run, tmp_path):
    run = new_run(tmp_path / "runs/x", returns={10: 1.0, 20: 2.0})
    packed = pack(run)
    assert packed.path.name == "x.zip"
    assert {name.split("/")[1] for name in contents(packed.path)[0] if "/" in name} == {"20"}


def test_the_best_is_one_of_the_latest_stage(run):
    for iteration in (10, 20):
        path = run / f"checkpoints/{iteration}/meta/metadata"
        meta = {**json.loads(path.read_text()), "stage": iteration // 20}
        path.write_text(json.dumps(seal(meta)))
    manifest = pack(run).manifest
    assert (manifest.iteration, manifest.best) == (20, 20), "10 returned more, for less asked"


def test_a_damaged_checkpoint_stays_behind(run):
    (run / "checkpoints/20/meta/metadata").write_text("")
    assert pack(run).manifest.iteration == 10


def test_the_file_can_be_named_and_is_replaced_only_by_force(run, tmp_path, capsys):
    (tmp_path / "there").mkdir()
    out = tmp_path / "there/it.zip"
    assert main(["pack", "runs/walker", "--out", str(out)]) == 0
    first = out.read_bytes()
    (run / "metrics.jsonl").write_text('{"iteration": 1}\n')
    assert main(["pack", "runs/walker", "--out", str(out)]) == 2
    assert "it.zip" in one_line(capsys)
    assert out.read_bytes() == first
    assert main(["pack", "runs/walker", "--out", str(out), "--force"]) == 0
    assert out.read_bytes() != first
    assert contents(out)[0]["metrics.jsonl"] == b'{"iteration": 1}\n'
    assert [path.name for path in out.parent.iterdir()] == ["it.zip"]


def test_the_run_may_be_the_folder_one_stands_in(run, monkeypatch, capsys):
    monkeypatch.chdir(run)
    assert main(["pack", "."]) == 0
    assert contents(run / "walker.zip")[1]["name"] == "walker"


def test_half_a_line_stays_behind(run):
    log = run / "metrics.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"iteration": 21, "episode_re')
    assert contents(pack(run).path)[0]["metrics.jsonl"] == whole
    log.write_bytes(b'{"iteration"')
    assert contents(pack(run, force=True).path)[0]["metrics.jsonl"] == b""


def test_an_open_session_becomes_a_line_and_its_lock_file_is_not_packed(run):
    record = {"hardware": "Tesla T4", "num_envs": 16, "first_iteration": 16}
    session = RunDir(run)
    session.open_session(record)
    files, _ = contents(pack(run).path)
    assert "session.open" not in files
    lines = [json.loads(line) for line in files["sessions.jsonl"].splitlines()]
    assert [line["ended"] for line in lines] == ["time limit", "packed"]
    assert lines[1].items() >= {**record, "last_iteration": 20}.items()
    assert not {"pid", "host", "process_started"} & set(lines[1])
    # of a dead process
    lock = json.loads(session.session_open.read_text())
    session.session_open.write_text(json.dumps({**lock, "process_started": 1.0}))
    files, _ = contents(pack(run, force=True).path)
    assert json.loads(files["sessions.jsonl"].splitlines()[-1])["ended"] == "killed"
    session.session_open.write_text(json.dumps(lock))
    session.close_session({"ended": "goal"})


@pytest.mark.slow
def test_checkpoints_that_come_and_go_while_it_is_packed_leave_every_zip_whole(new_run, tmp_path):
    run = new_run(tmp_path / "runs/busy", returns={}, goal=1000)
    stop = threading.Event()
    saves = Checkpoints(run / "checkpoints", keep=1)
    template = {"x": np.zeros(20_000, np.float32)}

    def train() -> None:
        iteration = 1
        while not stop.is_set():
            saves.save(iteration, {"x": template["x"] + iteration}, {"episode_return": 1.0})
            with open(run / "metrics.jsonl", "a") as log:
                log.write(json.dumps({"iteration": iteration}) + "\n")
            iteration += 1

    saves.save(0, template, {"episode_return": 0.0})
    saves.wait()
    thread, end = threading.Thread(target=train), time.monotonic() + 240
    thread.start()
    try:
        zips, seen = [], set()
        while len(seen) < 5 and time.monotonic() < end:
            packed = pack(run, tmp_path / "it.zip", force=True)
            if packed.manifest.iteration not in seen:
                seen.add(packed.manifest.iteration)
                zips.append(packed._replace(path=packed.path.rename(tmp_path / f"{len(seen)}.zip")))
    finally:
        stop.set()
        thread.join()
        saves.close()
    assert len(zips) == 5
    for packed in zips:
        folder = unpack(packed.path, tmp_path / packed.path.stem).folder
        with Checkpoints(folder / "checkpoints") as there:
            found = there.restore(template)
        assert found is not None
        assert found[1] == packed.manifest.iteration
        assert np.all(np.asarray(found[0]["x"]) == found[1])
        json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])


def test_a_checkpoint_deleted_while_it_is_listed_does_not_count_as_damaged(new_run, tmp_path):
    run = new_run(tmp_path / "runs/busy", returns={4: 1.0}, goal=1000)
    folder = run / "checkpoints"
    (folder / "4").rename(folder / "4.new")
    (folder / "3").mkdir()  # a training has deleted half of it

    def go_on() -> None:
        (folder / "3").rmdir()
        (folder / "4.new").rename(folder / "4")

    training = threading.Timer(0.1, go_on)
    training.start()
    assert pack(run, tmp_path / "it.zip").manifest.iteration == 4
    training.join()


def test_a_full_disk_leaves_no_half_a_zip(run, tmp_path, monkeypatch, capsys):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main(["pack", "runs/walker"]) == 1
    assert "walker.zip" in one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pack"], "DIR"),
        (["pack", "runs/nothing"], "runs/nothing"),
        (["pack", "runs"], "runs"),
        (["pack", "runs/young"], "runs/young"),
        (["pack", "runs/cut"], "config.json"),
        (["pack", "runs/bare"], "config.json"),
        (["pack", "runs/broken"], "runs/broken"),
        (["pack", "runs/binary"], "sessions.jsonl"),
        (["pack", "runs/walker", "--out", "runs"], "--out runs"),
        (["pack", "runs/walker", "--out", "no/such/x.zip"], "no/such/x.zip"),
        (["pack", "runs/walker", "--forse"], "--force"),
    ],
)
def test_what_cannot_be_packed_is_refused_in_one_line(words, said, run, new_run, tmp_path, capsys):
    new_run(tmp_path / "runs/young", returns={})
    (new_run(tmp_path / "runs/cut") / "config.json").write_text("{")
    (new_run(tmp_path / "runs/bare") / "config.json").unlink()
    (new_run(tmp_path / "runs/binary") / "sessions.jsonl").write_bytes(b"\xff\xfe\n")
    shutil.rmtree(new_run(tmp_path / "runs/broken", returns={5: 1.0}) / "checkpoints/5/state")
    assert main(words) == 2
    assert said in one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
