"""A policy as TorchScript, for programs that call torch.jit.load."""

from __future__ import annotations

import io
import warnings
from typing import Any

from jaxrl_hw.policies.portable import PortablePolicy


def to_torchscript(policy: PortablePolicy) -> bytes:
    """The file's content: a module that maps a float tensor [batch, O] to [batch, A].

    Raises:
      ImportError: torch is not installed.
    """
    import torch

    activations = {
        "elu": torch.nn.ELU,
        "relu": torch.nn.ReLU,
        "silu": torch.nn.SiLU,
        "tanh": torch.nn.Tanh,
    }
    a = {name: torch.from_numpy(array.copy()) for name, array in policy.arrays().items()}

    class Normalize(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("motion", "clock", "mean", "scale"):
                self.register_buffer(name, a[name])

        def forward(self, obs: Any) -> Any:
            motion = (obs @ self.motion).abs().amax(dim=-1, keepdim=True)
            obs = obs * (1.0 - self.clock * (motion < 1.0))
            return ((obs - self.mean) / self.scale).clamp(-policy.clip, policy.clip)

    layers: list[Any] = [Normalize()]
    for i in range(len(policy.kernels)):
        dense = torch.nn.Linear(*policy.kernels[i].shape)
        dense.load_state_dict({"weight": a[f"kernel{i}"].T.contiguous(), "bias": a[f"bias{i}"]})
        layers += [dense, activations[policy.activation]()]
    net = torch.nn.Sequential(*layers[:-1]).eval()
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        # newer versions of torch prefer torch.export; programs on robots call torch.jit.load
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(net, torch.zeros(2, policy.obs_size))
        torch.jit.save(torch.jit.freeze(traced), buffer)
    return buffer.getvalue()
