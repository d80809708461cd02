"""A policy as TorchScript, for programs that call torch.jit.load."""

from __future__ import annotations

import io
import warnings
from typing import Any

from jaxrl_hw.policies.portable import GRU, PortablePolicy


def to_torchscript(policy: PortablePolicy) -> bytes:
    """The file's content: a module that maps a float tensor [batch, O] to [batch, A].

    A memory lies inside. Each call goes on from the one before; `reset_memory()` and another batch
    size start from zeros.

    Raises:
      ImportError: torch is not installed.
    """
    import torch

    a = {name: torch.from_numpy(array.copy()) for name, array in policy.arrays().items()}
    seen, layers = _normalize(policy, a), _layers(policy, a)
    kind, _ = policy.memory
    with warnings.catch_warnings(), torch.no_grad():
        # newer versions of torch prefer torch.export; programs on robots call torch.jit.load
        warnings.simplefilter("ignore", DeprecationWarning)
        if kind == "none":
            net = torch.nn.Sequential(seen, *layers).eval()
            module = torch.jit.freeze(torch.jit.trace(net, torch.zeros(2, policy.obs_size)))
        else:
            remembering = _with_history if kind == "history" else _with_gru
            module = torch.jit.script(remembering(policy, a, seen, layers).eval())
        buffer = io.BytesIO()
        torch.jit.save(module, buffer)
    return buffer.getvalue()


def _normalize(policy: PortablePolicy, a: dict[str, Any]) -> Any:
    """Phase mask and normalization; `mask` and `scaled` are its halves."""
    import torch

    class Normalize(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.limit = float(policy.clip)
            for name in ("motion", "clock", "mean", "scale"):
                self.register_buffer(name, a[name])

        @torch.jit.export
        def mask(self, obs):  # type: ignore[no-untyped-def]
            motion = (obs @ self.motion).abs().amax(dim=-1, keepdim=True)
            return obs * (1.0 - self.clock * (motion < 1.0))

        @torch.jit.export
        def scaled(self, obs):  # type: ignore[no-untyped-def]
            return ((obs - self.mean) / self.scale).clamp(-self.limit, self.limit)

        def forward(self, obs):  # type: ignore[no-untyped-def]
            return self.scaled(self.mask(obs))

    return Normalize()


def _layers(policy: PortablePolicy, a: dict[str, Any]) -> list[Any]:
    """Dense layers and the activations between them."""
    import torch

    activations = {
        "elu": torch.nn.ELU,
        "relu": torch.nn.ReLU,
        "silu": torch.nn.SiLU,
        "tanh": torch.nn.Tanh,
    }
    layers: list[Any] = []
    for i in range(len(policy.kernels)):
        dense = torch.nn.Linear(*policy.kernels[i].shape)
        dense.load_state_dict({"weight": a[f"kernel{i}"].T.contiguous(), "bias": a[f"bias{i}"]})
        layers += [dense, activations[policy.activation]()]
    return layers[:-1] + _head(policy, a)


def _head(policy: PortablePolicy, a: dict[str, Any]) -> list[Any]:
    """The network's outputs -> action; as `run_policy.head` does."""
    import torch

    class Squash(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("head", a["head"])

        def forward(self, out):  # type: ignore[no-untyped-def]
            return self.head * torch.tanh(out)

    class Choose(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("head", a["head"])

        def forward(self, out):  # type: ignore[no-untyped-def]
            return self.head[out.argmax(dim=-1)]

    kinds = {"tanh": Squash, "argmax": Choose}
    return [kinds[policy.head_kind]()] if policy.head else []


def _with_history(policy: PortablePolicy, a: dict[str, Any], seen: Any, layers: list[Any]) -> Any:
    import torch

    class WithHistory(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen, self.layers = seen, torch.nn.Sequential(*layers)
            self.memory: Any
            self.register_buffer("memory", torch.from_numpy(policy.start(1)))

        def forward(self, obs):  # type: ignore[no-untyped-def]
            if self.memory.shape[0] != obs.shape[0]:
                size = [obs.shape[0], self.memory.shape[1], self.memory.shape[2]]
                self.memory = torch.zeros(size)
            window = torch.cat([self.memory, self.seen.mask(obs).unsqueeze(1)], dim=1)
            self.memory = window[:, 1:]
            return self.layers(self.seen.scaled(window).flatten(1))

        @torch.jit.export
        def reset_memory(self):  # type: ignore[no-untyped-def]
            self.memory = torch.zeros_like(self.memory)

    return WithHistory()


def _with_gru(policy: PortablePolicy, a: dict[str, Any], seen: Any, layers: list[Any]) -> Any:
    import torch

    class WithGru(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen, self.layers = seen, torch.nn.Sequential(*layers)
            self.memory: Any
            self.register_buffer("memory", torch.from_numpy(policy.start(1)))
            for name in GRU:
                self.register_buffer(name, a[name])

        def forward(self, obs):  # type: ignore[no-untyped-def]
            if self.memory.shape[0] != obs.shape[0]:
                self.memory = torch.zeros([obs.shape[0], self.memory.shape[1]])
            x = self.seen(obs)
            reset_in, update_in, new_in = (x @ self.gru_in + self.gru_bias).chunk(3, dim=-1)
            reset_at, update_at, new_at = (self.memory @ self.gru_state).chunk(3, dim=-1)
            reset = torch.sigmoid(reset_in + reset_at)
            update = torch.sigmoid(update_in + update_at)
            new = torch.tanh(new_in + reset * (new_at + self.gru_gate))
            self.memory = (1.0 - update) * new + update * self.memory
            return self.layers(torch.cat([self.memory, x], dim=-1))

        @torch.jit.export
        def reset_memory(self):  # type: ignore[no-untyped-def]
            self.memory = torch.zeros_like(self.memory)

    return WithGru()
