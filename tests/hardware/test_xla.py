"""Settings are made before jax is imported, the user's stay, and late ones are owned up to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from jaxrl_hw.hardware import xla
from jaxrl_hw.hardware.detect import usable_cores

CONFIGURE = """
import json, os, sys
from pathlib import Path
from jaxrl_hw.hardware import xla
args = json.loads(sys.argv[1])
cache = args.pop("cache_dir", None)
args_of_jax = args.pop("in_jax")
if args.pop("import_jax", False): import jax
if args.pop("use_jax", False): import jax; jax.numpy.ones(3).block_until_ready()
twice = args.pop("twice", False)
settings = xla.configure(cache_dir=Path(cache) if cache else None, **args)
if twice: settings = xla.configure(cache_dir=Path(cache) if cache else None, **args)
out = {"settings": {s.name: [s.value, s.origin] for s in settings}}
out["jax"] = "jax" in sys.modules
out["environ"] = {k: v for k, v in os.environ.items() if k.startswith(("XLA", "JAX", "TF_CPP"))}
if not args_of_jax: print(json.dumps(out)); sys.exit()
import jax
out["pending"] = [list(s) for s in xla.apply_pending()]
from jax._src import xla_bridge
jax.numpy.ones(3).block_until_ready()
out["async"] = xla_bridge._CPU_ENABLE_ASYNC_DISPATCH.value
out["cache"] = jax.config.jax_compilation_cache_dir
out["min_s"] = jax.config.jax_persistent_cache_min_compile_time_secs
print(json.dumps(out))
"""


def configure(environ: dict[str, str], **args: Any) -> dict[str, Any]:
    """What was set, and where `in_jax`, what JAX makes of it: to import it takes a second."""
    defaults = {"fraction": None, "platform": "cpu", "host_callback": False, "in_jax": False}
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("XLA", "JAX", "TF_CPP", "XDG_CACHE", "NPROC"))
    }
    command = [sys.executable, "-c", CONFIGURE, json.dumps(defaults | args)]
    env = {**clean, "JAX_PLATFORMS": "cpu", **environ}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


FACTORIZE = """
import os
if hasattr(os, "sched_setaffinity"): os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:2])
from jaxrl_hw.hardware import xla
xla.configure(fraction=None, cache_dir=None, platform="cpu", host_callback=False)
import jax, jax.numpy as jnp
factors = jax.jit(lambda these: [jnp.linalg.cholesky(a) for a in these])
these = [jnp.tile((2.0 + i) * jnp.eye(35), (64, 1, 1)) for i in range(4)]
for _ in range(100): made = factors(these)
print([round(float(f[63, 34, 34]) ** 2, 4) for f in made])
"""


WITHOUT_A_PLAN = """
import os
from jaxrl_hw.config.factory import make_task
from jaxrl_hw.config.schema import Config
make_task(Config(robot="cartpole", physics="mjx"))
print(os.environ["NPROC"])
"""


def test_environments_on_mjx_that_no_plan_made_have_spare_threads_too():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XLA", "NPROC"))}
    command = [sys.executable, "-c", WITHOUT_A_PLAN]
    env["JAX_PLATFORMS"] = "cpu"
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert int(done.stdout) == usable_cores() + xla.SPARE_WORKERS


@pytest.mark.slow
def test_factorizations_side_by_side_do_not_wait_for_each_other():
    """As many as two cores' own threads and more: without spare ones they hang in jaxlib."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XLA", "NPROC"))}
    done = subprocess.run(
        [sys.executable, "-c", FACTORIZE],
        env={**env, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert json.loads(done.stdout) == [2.0, 3.0, 4.0, 5.0]


@pytest.mark.slow
def test_the_pool_on_a_cpu_has_spare_threads_where_nothing_calls_back():
    workers = str(usable_cores() + xla.SPARE_WORKERS)
    assert configure({}, twice=True)["settings"]["NPROC"] == [workers, "set"]
    assert configure({"NPROC": "3"})["settings"]["NPROC"] == ["3", "user"]
    assert configure({}, use_jax=True)["settings"]["NPROC"] == [workers, "too late"]
    assert "NPROC" not in configure({}, host_callback=True)["settings"]
    assert "NPROC" not in configure({}, factorizes=False)["settings"]
    assert "NPROC" not in configure({}, platform="gpu")["settings"]


@pytest.mark.slow
def test_repeatable_results_are_a_flag_of_xla_beside_those_of_the_user():
    wanted = "--xla_gpu_deterministic_ops=true"
    out = configure({}, platform="gpu", deterministic=True)
    assert out["settings"]["XLA_FLAGS"] == [wanted, "set"]
    assert out["environ"]["XLA_FLAGS"] == wanted
    theirs = "--xla_gpu_autotune_level=2"
    out = configure({"XLA_FLAGS": theirs}, platform="gpu", deterministic=True, twice=True)
    assert out["environ"]["XLA_FLAGS"] == f"{theirs} {wanted}"
    out = configure({"XLA_FLAGS": f"{wanted[:-4]}false"}, platform="gpu", deterministic=True)
    assert out["settings"]["XLA_FLAGS"] == [f"{wanted[:-4]}false", "user"]
    out = configure({}, platform="gpu", deterministic=True, use_jax=True)
    assert out["settings"]["XLA_FLAGS"][1] == "too late"
    assert "XLA_FLAGS" not in configure({}, platform="gpu")["settings"]
    assert "XLA_FLAGS" not in configure({}, platform="cpu", deterministic=True)["settings"]


def test_a_gpu_gets_its_share_of_memory_and_jax_is_not_imported():
    out = configure({}, platform="gpu", fraction=0.5, cache_dir="/tmp/some-cache", in_jax=True)
    assert not out["jax"]
    assert out["settings"]["XLA_CLIENT_MEM_FRACTION"] == ["0.5", "set"]
    assert out["settings"]["XLA_PYTHON_CLIENT_PREALLOCATE"] == ["true", "set"]
    assert out["environ"]["XLA_CLIENT_MEM_FRACTION"] == "0.5"
    assert out["environ"]["TF_CPP_MIN_LOG_LEVEL"] == "2"
    assert "XLA_PYTHON_CLIENT_ALLOCATOR" not in out["environ"]
    assert out["cache"] == "/tmp/some-cache"
    assert out["min_s"] == 0.1


@pytest.mark.slow
def test_auto_grows_on_demand_and_a_cpu_gets_no_memory_settings():
    out = configure({}, platform="gpu", twice=True)
    assert out["settings"]["XLA_PYTHON_CLIENT_PREALLOCATE"] == ["false", "set"]
    assert float(out["settings"]["XLA_CLIENT_MEM_FRACTION"][0]) > 0.75
    out = configure({})
    assert not [name for name in out["settings"] if name.startswith("XLA")]


def test_what_the_user_set_wins():
    environ = {
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_ALLOCATOR": "platform",
        "JAX_COMPILATION_CACHE_DIR": "/tmp/theirs",
        "TF_CPP_MIN_LOG_LEVEL": "0",
    }
    out = configure(environ, platform="gpu", fraction=0.5, in_jax=True)
    for name, value in environ.items():
        assert out["settings"][name] == [value, "user"]
    # With both names jaxlib refuses to start.
    assert "XLA_CLIENT_MEM_FRACTION" not in out["environ"]
    assert out["cache"] == "/tmp/theirs"


@pytest.mark.slow
def test_after_jax_has_opened_its_devices_memory_settings_are_too_late():
    late = {"platform": "gpu", "fraction": 0.5, "host_callback": True, "cache_dir": "/tmp/c"}
    out = configure({}, use_jax=True, in_jax=True, **late)
    assert out["settings"]["XLA_CLIENT_MEM_FRACTION"] == ["0.5", "too late"]
    assert out["settings"]["XLA_PYTHON_CLIENT_PREALLOCATE"] == ["true", "too late"]
    assert out["settings"]["jax_cpu_enable_async_dispatch"] == ["false", "too late"]
    assert "XLA_CLIENT_MEM_FRACTION" not in out["environ"]
    assert out["settings"]["JAX_COMPILATION_CACHE_DIR"] == ["/tmp/c", "set"]
    assert out["cache"] == "/tmp/c"


@pytest.mark.slow
def test_programs_on_a_cpu_run_with_inline_dispatch_and_so_do_host_callbacks():
    out = configure({}, host_callback=True, in_jax=True)
    assert out["settings"]["jax_cpu_enable_async_dispatch"] == ["false", "pending"]
    assert out["pending"] == [["jax_cpu_enable_async_dispatch", "false", "set"]]
    assert out["async"] is False
    assert configure({}, host_callback=True, import_jax=True)["settings"][
        "jax_cpu_enable_async_dispatch"
    ] == ["false", "set"]
    assert configure({}, in_jax=True)["async"] is False
    assert configure({}, platform="gpu", host_callback=True, in_jax=True)["async"] is False
    assert configure({}, platform="gpu", in_jax=True)["async"] is True
    theirs = {"JAX_CPU_ENABLE_ASYNC_DISPATCH": "1"}
    assert configure(theirs, host_callback=True, in_jax=True)["async"] is True


@pytest.mark.slow
def test_the_cache_folder_follows_the_environment():
    assert configure({"JAXRL_HW_CACHE": "/tmp/own"}, in_jax=True)["cache"] == "/tmp/own/xla"
    assert (
        configure({"XDG_CACHE_HOME": "/tmp/xdg"}, in_jax=True)["cache"] == "/tmp/xdg/jaxrl_hw/xla"
    )
    home = {"HOME": "/tmp/home", "XDG_CACHE_HOME": "relative"}
    assert configure(home, in_jax=True)["cache"] == "/tmp/home/.cache/jaxrl_hw/xla"
